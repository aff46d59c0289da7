"""What a page is made of: sections of text, tables, figures, verdicts and caveats. The template alone knows HTML."""

import math
from dataclasses import dataclass
from typing import final

from vbsvm.base import printing

FEWEST_SORTED = 6
# Tables with more columns or rows need the whole width, and scroll on a phone; others are stacked there.
MOST_STACKED = 6, 15


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
    return Cell(printing.told(value), None if math.isnan(value) else float(value))


def number(value: float, text: str) -> Cell:
    """A number with the text that prints it."""
    return Cell(text.replace("-", "−"), None if math.isnan(value) else float(value))


def share(part: float, whole: float) -> Cell:
    """A share in per cent."""
    return Cell(percent(part, whole), part / whole)


def percent(part: float, whole: float) -> str:
    """A share in per cent, as text."""
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

    @property
    def sortable(self) -> bool:
        """Whether there is something to sort."""
        return len(self.rows) >= FEWEST_SORTED and bool(self.head)

    @property
    def short(self) -> str:
        """The first sentence of the caption."""
        return self.caption.partition(". ")[0]

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of a page."""
        return len(self.head) > MOST_STACKED[0] or len(self.rows) > MOST_STACKED[1]

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
class Figures:
    """The few numbers that matter most, each with what it is."""

    pairs: tuple[tuple[str, str], ...]
    kind: str = "figures"


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


Block = Text | Code | Table | Figures | Picture | Verdict | Caveat


@final
@dataclass(frozen=True)
class Section:
    """A part of the page; ``parts`` are one heading lower."""

    title: str
    blocks: tuple[Block, ...]
    parts: "tuple[Section, ...]" = ()

    @property
    def picture(self) -> Picture | None:
        """The figure that stands beside the words of a section, if there is one only."""
        found = [block for block in self.blocks if isinstance(block, Picture)]
        return found[0] if len(found) == 1 else None

    @property
    def words(self) -> list[Block]:
        """What stands beside the figure, or before and between several."""
        return [
            one for one in self.blocks if self.picture is None or (not _takes_width(one) and one is not self.picture)
        ]

    @property
    def below(self) -> list[Block]:
        """What stands below a figure and the words beside it."""
        return [] if self.picture is None else [one for one in self.blocks if _takes_width(one)]


def _takes_width(block: Block) -> bool:
    return isinstance(block, Table) and (block.wide or block.folded)
