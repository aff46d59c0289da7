"""The one style of all figures, and the one door to matplotlib."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Canvas = Axes | Figure | None

# The palette of Okabe & Ito (2008): told apart by colour-blind readers. Line styles and markers say the same again.
BLUE, VERMILION, GREEN, SKY = "#0072b2", "#d55e00", "#009e73", "#56b4e9"
INK, MUTED, FAINT = "#222222", "#767676", "#d0d0d0"
# From orange (negative) over white to purple (positive): told apart by colour-blind readers, and in grey at the ends.
SIGNS = "PuOr"
_COLOURS = (BLUE, VERMILION, GREEN, INK, SKY)
_DASHES = ("-", "--", "-.", ":")
TEXT, SMALL = 9.0, 8.0
WIDTH = 5.2
# Where there are more rows than this, names would be too small to be read.
MOST_NAMES = 60


def axes(ax: Any, height: float, width: float = WIDTH) -> "Axes":
    """The axes that were given; or new ones of this size, in a new figure or in an empty one that was given."""
    if ax is None:
        return _pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    if hasattr(ax, "plot"):
        return ax
    if not hasattr(ax, "subplots"):
        raise TypeError(f"ax must be matplotlib axes or an empty figure; got {ax!r}.")
    ax.set_size_inches(width, height)
    return ax.subplots()


def dress(ax: "Axes", *, hidden: tuple[str, ...] = ("top", "right")) -> "Axes":
    """Small print, quiet lines, and no frame where none is needed."""
    ax.spines[list(hidden)].set_visible(False)
    ax.spines[:].set(color=INK, linewidth=0.8)
    ax.tick_params(labelsize=SMALL, colors=INK, width=0.8, length=3)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set(fontsize=TEXT, color=INK)
    legend = ax.get_legend()
    if legend is not None:
        legend.set_frame_on(False)
        for text in legend.get_texts():
            text.set(fontsize=SMALL, color=INK)
    return ax


def look(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th of several lines; both change, so that no two of twenty are alike."""
    return _COLOURS[k % len(_COLOURS)], _DASHES[k % len(_DASHES)]


def plain(text: object) -> str:
    """Text as it is: matplotlib would take dollars for mathematics, and what can't be printed has no place."""
    return "".join(char if char.isprintable() else " " for char in str(text)).replace("$", r"\$")


def wrapped(names: Sequence[object], width: int = 36) -> tuple[list[str], float, float]:
    """Names in lines of this many characters; the inches that a row of them needs, and that the longest line needs."""
    lines = [textwrap.wrap(str(name), width) or [""] for name in names]
    n_lines = max((len(one) for one in lines), default=1)
    longest = max((len(line) for one in lines for line in one), default=0)
    return ["\n".join(map(plain, one)) for one in lines], 0.1 + 0.14 * n_lines, 0.07 * longest


def left_out(n_shown: int, total: int, which: str) -> str:
    """A line that says how many are shown, where not all are."""
    return f"\n{n_shown} of {total} shown, {which}" if n_shown < total else ""


def new_figure() -> "Figure":
    """An empty figure that belongs to no window."""
    _pyplot()
    from matplotlib.figure import Figure

    return Figure(layout="constrained")


def svg_of(figure: "Figure") -> str:
    """The figure as SVG, the same text each time: no date, no chance in its names, letters as letters."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "vbsvm"}
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts have more letters than matplotlib's
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    return buffer.getvalue()


def shades(name: str) -> "ScalarMappable":
    """A colour map, and what a colour bar of it from 0 to 1 needs."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    scale = ScalarMappable(cmap=colormaps[name])
    scale.set_clim(0, 1)
    return scale


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'vbsvm[plots]'.") from error
    return pyplot


def panels(n_rows: int, n_columns: int, size: tuple[float, float]) -> "tuple[Figure, NDArray[Any]]":
    """A figure and its axes, rows × columns."""
    return _pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
