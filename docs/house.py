"""Draw the rooms of the package and the imports between them: ``python docs/house.py``.

Layers come from the contract in ``pyproject.toml``, imports from the source; only the places of the rooms on the page
and their captions are written here.
"""

import ast
import io
import math
import sys
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import patheffects
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle
from matplotlib.path import Path as Line
from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parent
# Of each room: its left and right end on the page, which is 100 wide, what is in it, and its colour.
PLACES = {
    "__main__": (27.0, 38.0, "python -m vbsvm", "#8a94a3"),
    "cli": (41.0, 57.0, "the command line", "#5c7cbf"),
    "dask": (81.0, 92.0, "DaskVBSVC", "#8a94a3"),
    "api": (
        12.0,
        92.0,
        "VBSVC · Model · load: check what is given, build the problem, return the fit",
        "#2b6cb0",
    ),
    "report": (25.0, 45.0, "a page of HTML", "#8e5ea2"),
    "plots": (49.0, 69.0, "figures", "#b0577f"),
    "results": (49.0, 92.0, "Fit: coefficients, predictions, tables, intervals", "#2f855a"),
    "sources": (29.0, 52.0, "rows in numbered blocks", "#a0761a"),
    "inference": (68.0, 92.0, "variational Bayes · Gibbs", "#2c7a7b"),
    "missing": (50.0, 70.0, "predictors and categories", "#6b7a2f"),
    "design": (12.0, 28.0, "formula to columns", "#7b5e3b"),
    "model": (33.0, 92.0, "likelihoods · priors · layouts · bound", "#1f2d3d"),
    "storage": (62.0, 92.0, "files: codec, archive, names", "#5a6b7d"),
    "base": (28.0, 76.0, "arrays · distributions · update modes · sums in threads", "#5a6b7d"),
    "datasets": (79.0, 92.0, "data sets", "#5a6b7d"),
    "version": (12.0, 25.0, "its number", "#5a6b7d"),
}
PIECES = {"row_pass": (36.0, 49.0), "sweep": (76.0, 89.0)}  # of the room "model", where the row passes
FLOOR, HEIGHT, TALL = 10.0, 5.6, 8.0
INK, WALL, ROW = "#1f2d3d", "#a9b8c9", "#d9480f"
BANDS = ("#f6f8fb", "#edf2f8")
ARROW = "-|>,head_length=6,head_width=3.5"
HALO = (patheffects.withStroke(linewidth=6.5, foreground="white"),)


def layers() -> list[list[str]]:
    """Rooms of each layer by the contract, the top one first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        one
        for one in settings["tool"]["importlinter"]["contracts"]
        if one["type"] == "layers" and one["containers"] == ["vbsvm"]
    )
    return [layer.replace("|", ":").replace(" ", "").split(":") for layer in contract["layers"]]


def imports() -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    package, found = ROOT / "src" / "vbsvm", Counter()
    homes = _public_names(package / "__init__.py")
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for target in _rooms(node, homes) - {room}:
                    found[room, target] += 1
    return found


def _rooms(node: ast.ImportFrom, homes: dict[str, str]) -> set[str]:
    """Rooms that a line imports from; a public name stands for the room that it is from."""
    package, *path = str(node.module).split(".")
    if package != "vbsvm":
        return set()
    return {path[0]} if path else {homes.get(name.name, name.name) for name in node.names}


def _public_names(file: Path) -> dict[str, str]:
    """The room of each name that users import from the package itself."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {name.name: node.module.split(".")[1] for node in lines for name in node.names if "vbsvm." in node.module}


def draw() -> plt.Figure:
    """The picture."""
    floors, found = layers(), imports()
    if sorted(PLACES) != sorted(room for floor in floors for room in floor):
        sys.exit("The rooms of the contract are not those that have a place in docs/house.py.")
    level = {room: FLOOR * (len(floors) - k) - FLOOR / 2 for k, floor in enumerate(floors) for room in floor}
    figure, axes = plt.subplots(figsize=(10, 10.2))
    axes.set(xlim=(3, 99), ylim=(-5.5, FLOOR * len(floors) + 9))
    axes.axis("off")
    _draw_house(axes, len(floors))
    _draw_imports(axes, level, found)
    for room in PLACES:
        _draw_room(axes, room, level[room])
    below = [pair for pair in found if pair[1] == "base"]
    told = f"imported {sum(found[pair] for pair in below)} times, by {len(below)} packages"
    _text(axes, _centre("base"), level["base"] - 2.3, told, 7.5, style="italic")
    _draw_row(axes, level)
    _draw_legend(axes)
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


def _draw_house(axes: plt.Axes, n_floors: int) -> None:
    top = FLOOR * n_floors
    axes.add_patch(Polygon([(4, top), (51, top + 8.5), (98, top)], facecolor="#dbe5f0", edgecolor=WALL, lw=1.2))
    _text(axes, 51, top + 3.2, "vbsvm", 18, weight="bold")
    for k in range(n_floors):
        axes.add_patch(Rectangle((6, FLOOR * k), 90, FLOOR, facecolor=BANDS[k % 2], edgecolor=WALL, lw=0.6))
        _text(axes, 8.6, FLOOR * k + FLOOR / 2, str(k + 1), 11, color=WALL, weight="bold")


def _draw_room(axes: plt.Axes, room: str, y: float) -> None:
    left, right, caption, colour = PLACES[room]
    _draw_box(axes, left, right, y, _height(room), colour, "white")
    lift = {"model": 1.4, "base": 1.0}.get(room, 0.0)
    _text(axes, _centre(room), y + 1.1 + lift, room, 12.5, weight="bold", color=colour)
    _text(axes, _centre(room), y - (3.0 if room == "model" else 1.4 - lift), caption, 8.5)


def _draw_box(axes: plt.Axes, left: float, right: float, y: float, height: float, edge: str, face: str) -> None:
    style, corner = "round,pad=0,rounding_size=0.8", (left, y - height / 2)
    box = FancyBboxPatch(corner, right - left, height, boxstyle=style, facecolor=face, edgecolor=edge, lw=1.3, zorder=4)
    axes.add_patch(box)


def _text(axes: plt.Axes, x: float, y: float, text: str, size: float, **look: str) -> None:
    axes.text(x, y, text, fontsize=size, ha="center", va="center", zorder=7, **{"color": INK, **look})


def _draw_imports(axes: plt.Axes, level: dict[str, float], found: Counter[tuple[str, str]]) -> None:
    """One curve for each pair of rooms, in the colour of the one that imports; base, which all import, has none."""
    pairs = [pair for pair in found if pair[1] != "base" and level[pair[0]] != level[pair[1]]]
    begins = {pair: x for room in PLACES for pair, x in _ports(room, [pair for pair in pairs if pair[0] == room], 1)}
    ends = {pair: x for room in PLACES for pair, x in _ports(room, [pair for pair in pairs if pair[1] == room], 0)}
    for pair in pairs:
        (source, target), n = pair, found[pair]
        down = math.copysign(1, level[source] - level[target])
        begin = begins[pair], level[source] - down * _height(source) / 2
        end = ends[pair], level[target] + down * _height(target) / 2
        bend = 0.5 * (begin[1] - end[1])
        curve = Line([begin, (begin[0], begin[1] - bend), (end[0], end[1] + bend), end], [1, 4, 4, 4])
        _draw_curve(axes, curve, PLACES[source][3], n, "-" if down > 0 else (0, (2, 2)))


def _draw_curve(axes: plt.Axes, curve: Line, colour: str, n: int, dashes: str | tuple[int, tuple[int, int]]) -> None:
    width = _width(n)
    head = f"-|>,head_length={2.5 + width},head_width={1.2 + 0.5 * width}"
    look = {"color": colour, "alpha": 0.42, "lw": width, "linestyle": dashes, "shrinkA": 0, "shrinkB": 0, "zorder": 2}
    axes.add_patch(FancyArrowPatch(path=curve, arrowstyle=head, **look))


def _width(n: int) -> float:
    return 0.4 + 0.6 * math.sqrt(n)


def _height(room: str) -> float:
    return TALL if room == "model" else HEIGHT + 1.2 if room == "base" else HEIGHT


def _centre(room: str) -> float:
    return (PLACES[room][0] + PLACES[room][1]) / 2


def _ports(room: str, pairs: list[tuple[str, str]], other: int) -> list[tuple[tuple[str, str], float]]:
    """Where curves touch a room: side by side, in the order of the rooms at their other ends."""
    left, right, *_ = PLACES[room]
    ordered = sorted(pairs, key=lambda pair: _centre(pair[other]))
    return [(pair, left + (right - left) * (k + 1) / (len(pairs) + 1)) for k, pair in enumerate(ordered)]


def _draw_row(axes: plt.Axes, level: dict[str, float]) -> None:
    """The stations of one row, from the user's table to the fit, and the way back for the next pass."""
    half = HEIGHT / 2
    for piece, (left, right) in PIECES.items():
        _draw_box(axes, left, right, level["model"], 4.0, ROW, "#fff4ec")
        _text(axes, (left + right) / 2 + 1.2, level["model"], piece, 10, color=ROW)
    into = level["model"] + 2.0
    for begin, end in (
        ((17, level["api"] - half), (17, level["design"] + half)),
        ((25, level["design"] + half), (32, level["sources"] - half)),
        ((42.5, level["sources"] - half), (42.5, into)),
        ((49, level["model"]), (76, level["model"])),
        ((82.5, into), (82.5, level["inference"] - half)),
        ((82.5, level["inference"] + half), (82.5, level["results"] - half)),
        ((82.5, level["results"] + half), (82.5, level["api"] - half)),
    ):
        _draw_step(axes, begin, end, lw=3)
    _draw_step(axes, (68, level["inference"]), (52, level["sources"]), lw=1.6, linestyle=(0, (3, 2)))
    _text(axes, 60, level["sources"] + 1.4, "next pass", 8.5, color=ROW)
    api, model, fifth = level["api"], level["model"], level["sources"]
    stations = (
        (17, api),
        (14.4, level["design"] + 1.1),
        (31.6, fifth + 1.1),
        (38, model),
        (78, model),
        (70.8, fifth + 1.1),
    )
    for k, (x, y) in enumerate((*stations, (52, level["results"] + 1.1), (82.5, api))):
        axes.plot(x, y, "o", markersize=14, color=ROW, zorder=6)
        _text(axes, x, y, str(k + 1), 9, color="white", weight="bold")


def _draw_step(axes: plt.Axes, begin: tuple[float, float], end: tuple[float, float], **look: object) -> None:
    look = {"color": ROW, "zorder": 5, "shrinkA": 0, "shrinkB": 0, "path_effects": HALO, **look}
    axes.add_patch(FancyArrowPatch(begin, end, arrowstyle=ARROW, **look))


def _draw_legend(axes: plt.Axes) -> None:
    _draw_step(axes, (7, -3), (13, -3), lw=3)
    look = {"fontsize": 9, "va": "center", "color": INK}
    axes.text(14, -3, "the path of one row", **look)
    for k, n in enumerate((1, 20)):
        axes.plot((34 + 9 * k, 39 + 9 * k), (-3, -3), color=PLACES["api"][3], alpha=0.5, lw=_width(n))
        axes.text(39.8 + 9 * k, -3, str(n), **look)
    axes.text(52, -3, "imports, coloured by the importing package; dashed: Fit.report", **look)


def main() -> None:
    """Write the picture, with few colours, so that the file is small."""
    drawn = io.BytesIO()
    draw().savefig(drawn, dpi=120)
    Image.open(drawn).convert("RGB").quantize(160).save(HERE / "images" / "house.png", optimize=True)


if __name__ == "__main__":
    main()
