"""Formatting of numbers and tables as text and as HTML; warnings to users; and progress on stderr."""

import math
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from html import escape
from importlib.util import find_spec
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TypeVar, final

from vbsvm.base.cached import new_lock

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

# Seconds before the progress of a task is shown, and whether the present task was asked for it, and its begin.
SECONDS_BEFORE = 5.0
_TASK: ContextVar[tuple[int | None, float] | None] = ContextVar("_TASK", default=None)
WIDTH = 80
GAP = 2
# Names are shortened to this width before columns are moved below, and to the second if one column alone needs it.
SHORT_NAMES = 20
SHORTEST_NAMES = 8
# Smaller numbers are written as 0, such as the standard error of an excluded predictor.
NOTHING = 1e-30
SMALL, LARGE = 1e-4, 1e6
# Aligned decimal points may widen a column by this much.
SLACK = 2
CHANCES = {"p_positive", "inclusion"}
DECIMALS = {"rhat": 3, "inclusion_rhat": 3, "ess_bulk": 0, "ess_tail": 0, "inclusion_ess": 0, "accuracy": 1}
# Headings of columns in print. Intervals are one column there.
HEADINGS = {
    "std_error": "std. error",
    "std_dev": "std. dev.",
    "p_positive": "P(> 0)",
    "p_value": "p-value",
    "odds_ratio": "odds ratio",
    "missing_information": "FMI",
    "degrees": "df",
    "rhat": "R-hat",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "inclusion_rhat": "R-hat, inclusion",
    "inclusion_ess": "ESS, inclusion",
}
INTERVALS = {"lower": ("upper", "{} CI"), "odds_ratio_lower": ("odds_ratio_upper", "{} CI (OR)")}
# If a table is too wide, its lower part begins with these.
BREAKS = ("odds ratio", "R-hat", "R-hat, inclusion")
# Columns of words.
TEXTS = frozenset({"note"})
# Columns whose decimals are chosen by the standard error in another column.
STANDARD_ERRORS = {
    "estimate": ("std_error",),
    "lower": ("std_error", "std_dev"),
    "upper": ("std_error", "std_dev"),
    "variational": ("variational sd",),
    "Gibbs": ("Gibbs sd",),
}
# Control characters: cursor movement, colours, line ends, writing direction, and lone surrogates.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    """The text with control characters escaped, such as ``\\x1b``: names may be hostile."""
    return CONTROLS.sub(lambda match: repr(match[0])[1:-1], str(text))


def visible_lines(text: object) -> str:
    """The text of several lines with control characters escaped."""
    return "\n".join(map(visible, str(text).split("\n")))


def html_text(text: object) -> str:
    """The text escaped for HTML, control characters included."""
    return escape(visible(text))


def number(value: float, error: float | None = None, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, or with the decimals that its standard error warrants."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size < NOTHING:
        return "0"
    unit = error if error is not None and math.isfinite(error) and error > NOTHING else size
    if not SMALL <= max(size, unit) < LARGE:
        return f"{value:.{digits - 1}e}"
    decimals = min(digits - 1 - _magnitude(unit), digits - _magnitude(size))
    return fixed_decimals(value, max(decimals, 0))


def format_inline(value: float, digits: int = 3) -> str:
    """A number in running text, with a few digits and a true minus sign; counts in full."""
    text = str(value) if isinstance(value, int) else number(value, digits=digits)
    return text.replace("-", "−")


def count_noun(number: int, what: str) -> str:
    """A count with its noun, such as "1 iteration" or "2 iterations"."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def fixed_decimals(value: float, decimals: int) -> str:
    """A number with this many decimals, without a negative zero."""
    if not math.isfinite(value):
        return number(value)
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if not text.strip("-0.") else text


def format_probability(value: float) -> str:
    """A probability with three decimals, or "<0.001" or ">0.999"."""
    if math.isnan(value):
        return number(value)
    return "<0.001" if value < 0.001 else ">0.999" if value > 0.999 else f"{value:.3f}"


def _magnitude(size: float) -> int:
    return math.floor(math.log10(size))


def cells(frame: "pd.DataFrame") -> list[list[str]]:
    """The formatted cells of a table, row by row."""
    columns = [_column(str(name), frame) for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(frame))]


def _column(name: str, frame: "pd.DataFrame") -> list[str]:
    if name in TEXTS:
        return [str(value) for value in frame[name]]
    values = [float(value) for value in frame[name]]
    if name in CHANCES:
        return [format_probability(value) for value in values]
    if name in DECIMALS:
        return [fixed_decimals(value, DECIMALS[name]) for value in values]
    errors = next((frame[column] for column in STANDARD_ERRORS.get(name, ()) if column in frame), None)
    if errors is None:
        return [number(value) for value in values]
    return [number(value, float(error)) for value, error in zip(values, errors, strict=True)]


def headings(frame: "pd.DataFrame") -> list[str]:
    """Printed heading of each column; the level of intervals and the name of standard errors are in ``attrs``."""
    of_table = HEADINGS | ({"std_error": frame.attrs["std_error"]} if "std_error" in frame.attrs else {})
    for lower, (upper, heading) in INTERVALS.items():
        of_table |= {end: f"{_of_level(frame, heading)}, {side}" for end, side in ((lower, "lower"), (upper, "upper"))}
    return [of_table.get(str(name), str(name)) for name in frame.columns]


def _of_level(frame: "pd.DataFrame", heading: str) -> str:
    return heading.format(f"{100 * frame.attrs['level']:g} %" if "level" in frame.attrs else "").strip()


def _printed(frame: "pd.DataFrame") -> list[list[str]]:
    """Columns as printed, each with its heading and aligned cells; the ends of an interval are in one."""
    by_name = dict(zip(map(str, frame.columns), headings(frame), strict=True))
    columns = {name: _aligned(heading, _column(name, frame)) for name, heading in by_name.items()}
    for lower, (upper, heading) in INTERVALS.items():
        if lower in columns and upper in columns:
            ends = [_column(name, frame) for name in (lower, upper)]
            width = max(map(len, ends[1]), default=0)
            pairs = zip(*ends, strict=True)
            columns[lower] = [_of_level(frame, heading), *(f"{low} to {high.rjust(width)}" for low, high in pairs)]
            del columns[upper]
    return list(columns.values())


def text_width() -> int:
    """Width of printed text: that of the terminal, from 40 to 100 columns, and 80 without one."""
    return min(max(get_terminal_size((WIDTH, 24)).columns, 40), 100)


def table(frame: "pd.DataFrame", width: int | None = None) -> str:
    """A table as text of at most ``width`` columns: long names are shortened, surplus columns go below."""
    columns, levels, width = _printed(frame), _levels(frame), width or text_width()
    room = width - sum(min(_widest(level), SHORT_NAMES) for level in levels) - GAP * (len(levels) - 1)
    return "\n\n".join(_joined(levels, part, width) for part in _parts(columns, room))


def _parts(columns: list[list[str]], room: int) -> list[list[list[str]]]:
    """Split columns into groups that fit side by side into ``room`` characters."""
    widths = [GAP + _widest(column) for column in columns]
    if sum(widths) <= room:
        return [columns]
    parts, remaining = [[columns[0]]], room - widths[0]
    for column, width in zip(columns[1:], widths[1:], strict=True):
        if width > remaining or column[0] in BREAKS:
            parts.append([])
            remaining = room
        parts[-1].append(column)
        remaining -= width
    return parts


def _joined(levels: list[list[str]], columns: list[list[str]], width: int) -> str:
    """Lines with the names at the left, the longest shortened until all fit, and these columns."""
    widths = [_widest(level) for level in levels]
    room = width - sum(GAP + _widest(column) for column in columns)
    while sum(widths) + GAP * (len(widths) - 1) > room and max(widths) > SHORTEST_NAMES:
        widths[widths.index(max(widths))] -= 1
    names = [shorten(level, width) for level, width in zip(levels, widths, strict=True)]
    left = [[text.ljust(width) for text in level] for level in names for width in [_widest(level)]]
    right = [[text.rjust(width) for text in column] for column in columns for width in [_widest(column)]]
    return "\n".join((" " * GAP).join(line).rstrip() for line in zip(*left, *right, strict=True))


def _levels(frame: "pd.DataFrame") -> list[list[str]]:
    """Columns of the index, one for each level, with its name as header; repeated names are left blank."""
    index = frame.index
    heads = ["" if name is None else visible(name) for name in index.names]
    rows = [[visible(part) for part in (label if isinstance(label, tuple) else (label,))] for label in index]
    levels = [[head] for head in heads]
    before: Sequence[str] = ()
    for row in rows:
        same = 0
        while same < len(row) - 1 and before[: same + 1] == row[: same + 1]:
            same += 1
        for level, text in enumerate(row):
            levels[level].append("" if level < same else text)
        before = row
    return levels


def shorten(names: list[str], width: int) -> list[str]:
    """Names abbreviated to ``width``, cut where they stay distinct, and longer if necessary."""
    for size in range(width, _widest(names)):
        for tail in ((size - 1) // 2, 3 * size // 4, size // 4):
            short = {name: name if len(name) <= size else _cut(name, size, tail) for name in names}
            if len(set(short.values())) == len(short):
                return [short[name] for name in names]
    return names


def _cut(name: str, size: int, tail: int) -> str:
    return f"{name[: size - 1 - tail]}…{name[len(name) - tail :]}"


def _aligned(head: str, texts: list[str]) -> list[str]:
    """A column with its header and aligned decimal points, unless these widen it by more than ``SLACK``."""
    ends = [len(text) - len(text.partition(".")[0]) for text in texts]
    most = max((end for end, text in zip(ends, texts, strict=True) if "e" not in text), default=0)
    aligned = [text + " " * max(most - end, 0) for end, text in zip(ends, texts, strict=True)]
    head = visible(head)
    return [head, *(aligned if _widest([head, *aligned]) <= _widest([head, *texts]) + SLACK else texts)]


def _widest(column: list[str]) -> int:
    return max(map(len, column))


def wrap_text(text: str, width: int | None = None) -> str:
    """Text wrapped to this width; words are not broken."""
    lines, width = map(visible, text.splitlines()), width or text_width()
    parts = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in lines)
    return "\n".join("\n".join(part) for part in parts)


def join_names(names: Sequence[object], most: int = 20) -> str:
    """Names as a list for a sentence; of more than ``most`` the first ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{list(names[:most])}{more}"


def html_frame(caption: str, frame: "pd.DataFrame", most: int) -> str:
    """The first ``most`` rows of a table as HTML; the caption says if rows are left out."""
    shown = frame.iloc[:most]
    if len(shown) < len(frame):
        caption = f"{caption} ({len(shown)} of {len(frame)} shown)"
    columns = _printed(shown)
    heads = ["" if name is None else str(name) for name in frame.index.names] + [column[0] for column in columns]
    names = [label if isinstance(label, tuple) else (label,) for label in shown.index]
    texts = [[text.strip() for text in row] for row in zip(*(column[1:] for column in columns), strict=True)]
    return html_table(caption, heads, names, texts)


def html_table(
    caption: str, heads: Sequence[object], names: Sequence[Sequence[object]], texts: Sequence[list[str]]
) -> str:
    """A table as plain HTML with all texts escaped: row names at the left, then the cells."""
    head = "".join(f'<th scope="col">{html_text(name)}</th>' for name in heads)
    rows = []
    for labels, row in zip(names, texts, strict=True):
        left = "".join(f'<th scope="row" style="text-align: left">{html_text(label)}</th>' for label in labels)
        rows.append(left + "".join(f'<td style="text-align: right">{html_text(text)}</td>' for text in row))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    top = f"<caption>{html_text(caption)}</caption>" if caption else ""
    return f"<table>{top}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class ReliabilityWarning(UserWarning):
    """A result was computed, and may mislead: the message names the result, the reason and the remedy."""


_FILTERS = new_lock()
_MUTED: ContextVar[tuple[type[Warning], ...]] = ContextVar("_MUTED", default=())


@contextmanager
def mute_warnings(category: type[Warning]) -> Iterator[None]:
    """Suppress ``warn_user`` for this category in this thread alone; filters are process-wide."""
    token = _MUTED.set((*_MUTED.get(), category))
    try:
        yield
    finally:
        _MUTED.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, with the first frame outside the package as the place."""
    if issubclass(category, _MUTED.get()):
        return
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("vbsvm."):
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def ignore_warnings(*categories: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore warnings of other libraries whose message begins with the pattern ``message``.

    Warning filters are process-wide. Two threads that replaced and restored them in turns would leave wrong ones
    behind: here one thread at a time does so. Predictions must not use it.
    """
    with _FILTERS, warnings.catch_warnings():
        for category in categories:
            warnings.filterwarnings("ignore", message, category)
        yield


def in_notebook() -> bool:
    """Whether the code runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def is_interactive() -> bool:
    """Whether stderr is shown as it is written: in a terminal or a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def progress(verbose: int | None = None) -> Iterator[None]:
    """Context of a task whose progress is shown at once, never (0), or (None) as in the task that it is a part of.

    By default it is shown in terminals and notebooks, once the task takes long.
    """
    if verbose is not None and not isinstance(verbose, int):
        raise ValueError(f"verbose must be None, True, False, or a whole number; got {verbose!r}.")
    asked, begun = _TASK.get() or (None, time.monotonic())
    token = _TASK.set((asked if verbose is None else verbose, begun))
    try:
        yield
    finally:
        _TASK.reset(token)


def _show_from(verbose: int | None) -> float:
    """Time from which progress of the task is shown; infinite if never."""
    asked, begun = _TASK.get() or (None, time.monotonic())
    verbose = asked if verbose is None else verbose
    if verbose is None:
        return begun + SECONDS_BEFORE if is_interactive() else math.inf
    return begun if verbose else math.inf


def track(what: str, items: Sequence[T]) -> Iterator[T]:
    """Yield the items, with a progress bar."""
    with bar(what, len(items)) as update:
        for done, item in enumerate(items, start=1):
            yield item
            update(done)


@contextmanager
def bar(what: str, total: int, *, verbose: int | None = None) -> Iterator[Callable[[int], None]]:
    """Context of a progress bar, shown as ``progress`` says: yields a function of the amount done."""
    begin = _show_from(verbose)
    with ExitStack() as stack:
        updates: list[Callable[[int], None]] = []

        def update(done: int) -> None:
            if not updates and time.monotonic() >= begin:
                updates.append(stack.enter_context(_drawn(what, max(1, total))))
            for drawn in updates:
                drawn(done)

        yield update


@contextmanager
def _drawn(what: str, total: int) -> Iterator[Callable[[int], None]]:
    if find_spec("rich") is None or not is_interactive() or (in_notebook() and find_spec("ipywidgets") is None):
        with _plain(what, total) as update:
            yield update
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def _plain(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """One overwritten line for where bars can't be drawn: the percentage done, and the seconds left."""
    line, begun = ProgressLine(verbose=True), time.monotonic()

    def update(done: int) -> None:
        seconds_left = (time.monotonic() - begun) * (total - done) / max(1, done)
        line.show(f"{what}: {100 * done // total} %, {seconds_left:.0f} s left")

    try:
        yield update
    finally:
        line.end()


@final
class ProgressLine:
    """One line of progress that is overwritten, shown as ``progress`` says."""

    def __init__(self, verbose: int | None = None) -> None:
        self._begin, self._shown = _show_from(verbose), ""

    def show(self, text: str) -> None:
        """Replace the text."""
        if text != self._shown and time.monotonic() >= self._begin:
            sys.stderr.write(f"\r{text.ljust(len(self._shown))}")
            sys.stderr.flush()
            self._shown = text

    def end(self) -> None:
        """End the line, if anything was shown."""
        if self._shown:
            self._shown = ""
            sys.stderr.write("\n")
