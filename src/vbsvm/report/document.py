"""What a page is made of, and how it is written: blocks of text, tables, figures and checks; and the template, which
alone knows HTML.

What matplotlib wrote is read as XML and written anew, without names that could meet those of another figure, and in
colours that follow the reader's: names from the data stay text, whatever is in them.
"""

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, final
from xml.etree import ElementTree

from vbsvm.base import printing
from vbsvm.base.cached import new_lock
from vbsvm.plots import style
from vbsvm.storage.atomic import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

    from vbsvm.plots.style import Figure


# Tables with more columns or rows need the whole width, and scroll on a phone; others are stacked there.
MAX_STACKED = 6, 15


@final
@dataclass(frozen=True)
class Cell:
    """Text of a table, and the number that it is sorted by, where it is one."""

    text: str
    value: float | None = None


def cell(value: str | float) -> Cell:
    """A number as people read it, or text."""
    if isinstance(value, str):
        return Cell(value)
    return Cell(printing.format_inline(value), None if math.isnan(value) else float(value))


def number(value: float, text: str) -> Cell:
    """A number with the text that prints it."""
    return Cell(text.replace("-", "−"), None if math.isnan(value) else float(value))


def cells(*rows: Iterable[Cell | str | float]) -> tuple[tuple[Cell, ...], ...]:
    """The rows of a table, in which what is no cell yet becomes one."""
    return tuple(tuple(value if isinstance(value, Cell) else cell(value) for value in row) for row in rows)


def share(part: float, whole: float) -> Cell:
    """Table cell with a proportion in per cent."""
    return Cell(percent(part, whole), part / whole)


def percent(part: float, whole: float) -> str:
    """Proportion in per cent, as text."""
    return f"{100 * part / whole:.1f} %"


def names(items: list[str], most: int = 8) -> str:
    """A list of names in a sentence."""
    shown = [f"“{item}”" for item in items[:most]]
    if len(items) > most:
        return f"{', '.join(shown)} and {len(items) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


@final
@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@final
@dataclass(frozen=True)
class Code:
    """A formula."""

    text: str


@final
@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of a row names it. ``folded`` tables open on request."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return len(self.head) > MAX_STACKED[0] or len(self.rows) > MAX_STACKED[1]

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return any(row[column].value is not None for row in self.rows)


@final
@dataclass(frozen=True)
class Picture:
    """A figure: SVG that is safe as it stands, and its caption."""

    svg: str
    caption: str


@final
@dataclass(frozen=True)
class Figures:
    """Key figures, each with its label."""

    pairs: tuple[tuple[str, str], ...]


@final
@dataclass(frozen=True)
class Check:
    """Result of a check."""

    good: bool
    text: str


@final
@dataclass(frozen=True)
class Limitation:
    """What to know before trusting a part of the report."""

    title: str
    text: str


Block = Text | Code | Table | Figures | Picture | Check | Limitation


@final
@dataclass(frozen=True)
class Section:
    """A part of the page; ``parts`` are one heading lower."""

    title: str
    blocks: tuple[Block, ...]
    parts: "tuple[Section, ...]" = ()

    @property
    def picture(self) -> Picture | None:
        """The figure of a section that has exactly one, or None."""
        pictures = [block for block in self.blocks if isinstance(block, Picture)]
        return pictures[0] if len(pictures) == 1 else None

    @property
    def below(self) -> list[Block]:
        """Wide and folded tables below the figure."""
        if self.picture is None:
            return []
        return [block for block in self.blocks if isinstance(block, Table) and (block.wide or block.folded)]

    @property
    def words(self) -> list[Block]:
        """Blocks next to the figure; all blocks if there is not exactly one."""
        return [block for block in self.blocks if block not in (self.picture, *self.below)]


_VARIABLES = {
    style.INK: "currentColor",
    style.MUTED: "var(--muted)",
    style.FAINT: "var(--faint)",
    style.BLUE: "var(--blue)",
    style.VERMILION: "var(--vermilion)",
    style.GREEN: "var(--green)",
    style.SKY: "var(--sky)",
    style.PAPER: "var(--paper)",
}
# On a narrow screen a figure shrinks to this share of its size, then it scrolls in its box; on a wide one it grows.
SMALLEST, LARGEST = 0.75, 1.35
PIXELS = 96 / 72
# matplotlib serves one thread at a time.
_DRAWING = new_lock()


# Key, alternative text and caption of a figure, and what draws into an empty one.
Panel = tuple[str, str, str, "Callable[[Figure], object]"]


def picture(key: str, alt: str, caption: str, draw: "Callable[[Figure], object]") -> Picture:
    """Draw into an empty figure; ``alt`` says what it shows to those who can't see it."""
    return pictures([(key, alt, caption, draw)])[0]


def pictures(panels: Sequence[Panel], *, shared_y: bool = False) -> list[Picture]:
    """Draw figures; with ``shared_y`` their axes have the same limits."""
    with _DRAWING:
        figures = [style.new_figure() for _ in panels]
        for figure, (*_, draw) in zip(figures, panels, strict=True):
            draw(figure)
        axes = [ax for figure in figures for ax in figure.axes] if shared_y else []
        limits = [limit for ax in axes for limit in ax.get_ylim()]
        for ax in axes:
            ax.set_ylim(min(limits), max(limits))
        drawn = [style.svg_of(figure) for figure in figures]
    return [_embedded(svg, *texts) for svg, (*texts, _) in zip(drawn, panels, strict=True)]


def _embedded(svg: str, key: str, alt: str, caption: str) -> Picture:
    """The figure without names that could meet those of another, and in the colours of the page."""
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in list(parent):
            if _local(child.tag) in ("style", "metadata"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): _attribute(_local(name), value, key) for name, value in element.attrib.items()}
    width = PIXELS * float(root.attrib.pop("width").removesuffix("pt"))
    root.attrib.pop("height")
    sizes = f"max-width: {LARGEST * width:.0f}px; min-width: {SMALLEST * width:.0f}px"
    root.attrib |= {"role": "img", "aria-labelledby": f"{key}-title", "style": sizes}
    title = ElementTree.Element("title", {"id": f"{key}-title"})
    title.text = alt
    root.insert(0, title)
    return Picture(ElementTree.tostring(root, encoding="unicode", short_empty_elements=True), caption)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(name: str, value: str, key: str) -> str:
    """Names with the figure's key before them, colours as variables of the page, and the page's own letters."""
    if name == "id":
        return f"{key}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{key}-{value[1:]}"
    value = re.sub(r"url\(#", f"url(#{key}-", value)
    if name == "style":
        value = re.sub(r"font-family: [^;]*(; )?", "", value)
        value = re.sub(r"font: [^;]*?(\d[\d.]*px)[^;]*", r"font-size: \1", value)
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), value)
    return value


def document(title: str, sections: Sequence[Section], foot: Sequence[str] = ("Written by vbsvm.",)) -> str:
    """The page as text."""
    environment = _environment()
    folder = files("vbsvm.report")
    script = (folder / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8")).render(
        title=title,
        sections=sections,
        foot=foot,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=digest,
    )
    return printing.visible_lines(page)


def write_page(path: Path, text: str) -> Path:
    """Write or replace a file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return path


def check_dependencies() -> None:
    """Raise early if jinja2 or matplotlib is missing."""
    _environment()
    style.new_figure()


def _environment() -> "Environment":
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("A report needs jinja2 and matplotlib: pip install 'vbsvm[report]'.") from error
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
