"""The common style of all figures; no other module imports matplotlib."""

import io
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from vbsvm.base.printing import ignore_warnings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Canvas = Axes | Figure | None

# The palette of Okabe & Ito (2008): told apart by colour-blind readers. Line styles and markers say the same again.
BLUE, VERMILION, GREEN, SKY = "#0072b2", "#d55e00", "#009e73", "#56b4e9"
INK, MUTED, FAINT, PAPER = "#222222", "#767676", "#d0d0d0", "#ffffff"
_COLOURS = (BLUE, VERMILION, GREEN, INK, SKY)
_DASHES = ("-", "--", "-.", ":")
TEXT, SMALL = 8.5, 8.0
# Edges that a figure of rows with names has no need of.
NO_Y_AXIS = ("top", "right", "left")
# Inches: wider than a journal's column by a little, and as wide as the screen of a phone. Names and labels are wrapped
# so that they fit.
WIDTH = 3.8
NAME, LINE = 24, 46
# Largest number of rows with readable names; and of rows with wider spacing.
MAX_NAMES = 60
MAX_LOOSE_ROWS = 25
DPI = 200
# Up to this ratio of its ends a logarithmic axis has the labels of a linear one; and the most powers of ten on it.
LINEAR_TICKS, MAX_TICKS = 3.0, 7
_ALT_TEXTS: "WeakKeyDictionary[Axes, str]" = WeakKeyDictionary()


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


def finish(ax: "Axes", alt: str = "", *, hidden: tuple[str, ...] = ("top", "right")) -> "Axes":
    """Apply the common style to axes; ``alt`` is their alternative text."""
    if alt:
        _ALT_TEXTS[ax] = alt
    ax.spines[list(hidden)].set_visible(False)
    ax.spines[:].set(color=INK, linewidth=0.8)
    ax.tick_params(labelsize=SMALL, colors=INK, width=0.8, length=3)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set(fontsize=TEXT, color=INK)
    legend = ax.get_legend()
    if legend is not None:
        legend.set_frame_on(False)
        for text in (legend.get_title(), *legend.get_texts()):
            text.set(fontsize=SMALL, color=INK)
    return ax


def line_style(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th line; combinations repeat after twenty."""
    return _COLOURS[k % len(_COLOURS)], _DASHES[k % len(_DASHES)]


def escape(text: object) -> str:
    """Text with dollar signs escaped and unprintable characters replaced, for matplotlib."""
    return "".join(char if char.isprintable() else " " for char in str(text)).replace("$", r"\$")


def wrapped(names: Sequence[object], width: int = NAME) -> tuple[list[str], int]:
    """Names wrapped to a width, and the largest number of lines."""
    lines = [_lines(str(name), width) for name in names]
    return ["\n".join(map(escape, part)) for part in lines], max((len(part) for part in lines), default=1)


def _lines(name: str, width: int) -> list[str]:
    """Lines that end at a blank, or after a sign such as _ where there is one."""
    parts = re.sub(r"([_.:/])(?=\S)", "\\1\u200b ", name)
    return [line.replace("\u200b ", "").rstrip("\u200b") for line in textwrap.wrap(parts, width)] or [""]


def row_labels(names: Sequence[object]) -> tuple[list[str], float, float]:
    """Wrapped row labels, the height of the figure, and the height of a row (inches)."""
    labels, n_lines = wrapped(names)
    row = 0.125 * n_lines + (0.05 if len(names) <= MAX_LOOSE_ROWS else 0.01)
    return labels, 0.9 + row * len(names), row


def log_axis(ax: "Axes") -> None:
    """Make the x-axis logarithmic, with a few round numbers as its labels."""
    low, high = 0.95 * ax.dataLim.x0, 1.05 * ax.dataLim.x1
    ticks = ax.get_xticks()[ax.get_xticks() > 0]
    if high > LINEAR_TICKS * low:
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.log10(high))
        marks = [1, 2, 5] if len(powers) <= 2 else [1, 3] if len(powers) <= 4 else [1]
        ticks = np.outer(powers[:: 1 + len(powers) // MAX_TICKS], marks).ravel()
    ax.set(xscale="log", xlim=(low, high))
    ax.minorticks_off()
    ticks = [float(tick) for tick in ticks if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def annotate_row(ax: "Axes", row: float, text: str) -> None:
    """Write a short text to the right of a row."""
    settings: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
    ax.annotate(text, (1.0, row), (4, 0), fontsize=SMALL, color=INK, annotation_clip=False, **settings)


def alt_text(figure: Any) -> str:
    """What a figure, or axes, show in words: the alternative text for a web page or a document.

    Parameters
    ----------
    figure : matplotlib Axes or Figure
        What a function of ``vbsvm.plots`` has drawn.
    """
    all_axes = getattr(figure, "axes", [figure])
    return " ".join(_ALT_TEXTS[ax] for ax in (all_axes if isinstance(all_axes, list) else [figure]) if ax in _ALT_TEXTS)


def save(figure: Any, path: Any, **settings: Any) -> None:
    """Save a figure with its alternative text in the file's metadata (of PNG, SVG and PDF).

    Parameters
    ----------
    figure : matplotlib Axes or Figure
        What a function of ``vbsvm.plots`` has drawn.
    path : path
        The file; its ending says which format.
    **settings
        As for matplotlib's ``savefig``.
    """
    from pathlib import Path

    figure = getattr(figure, "figure", figure)
    key = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}.get(Path(path).suffix.lower())
    metadata = {} if key is None else {"metadata": {key: alt_text(figure)}}
    figure.savefig(path, **{"dpi": DPI, **metadata, **settings})


def shown_note(n_shown: int, total: int, which: str) -> str:
    """Note "n of total shown", or empty if all are."""
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
    with (
        rc_context(settings),
        ignore_warnings(Warning, message="Glyph"),
    ):  # the reader's fonts have more than matplotlib's
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    return buffer.getvalue()


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'vbsvm[plots]'.") from error
    return pyplot


def panels(n_rows: int, n_columns: int, size: tuple[float, float]) -> "tuple[Figure, NDArray[Any]]":
    """A figure and its axes, rows × columns."""
    return _pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
