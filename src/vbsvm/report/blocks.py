"""What a page is made of: sections of text, tables, figures, verdicts and caveats. The template alone knows HTML."""

import math
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Cell:
    """Text of a table, and the number that it is sorted by, where it is one."""

    text: str
    value: float | None = None


def cell(value: Any) -> Cell:
    """A number as people read it, or text."""
    if isinstance(value, str):
        return Cell(value)
    number = float(value)
    return Cell(told(number), None if math.isnan(number) else number)


def told(value: float, digits: int = 3) -> str:
    """A number with a few digits, whole numbers in full."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def percent(part: float, whole: float) -> str:
    """A share in per cent."""
    return "–" if whole == 0 else f"{100 * part / whole:.1f} %"


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
    kind: str = "text"


@final
@dataclass(frozen=True)
class Code:
    """A formula."""

    text: str
    kind: str = "code"


@final
@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of a row names it. ``folded`` tables open on request."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False
    kind: str = "table"

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return any(row[column].value is not None for row in self.rows)


@final
@dataclass(frozen=True)
class Picture:
    """A figure: SVG that is safe as it stands, and its caption."""

    svg: str
    caption: str
    kind: str = "picture"


@final
@dataclass(frozen=True)
class Verdict:
    """What a check found, in words."""

    good: bool
    text: str
    kind: str = "verdict"


@final
@dataclass(frozen=True)
class Caveat:
    """What to know before trusting a part of the report."""

    title: str
    text: str
    kind: str = "caveat"


@final
@dataclass(frozen=True)
class Section:
    """A part of the page; ``parts`` are one heading lower."""

    title: str
    blocks: tuple[Any, ...]
    parts: "tuple[Section, ...]" = ()
