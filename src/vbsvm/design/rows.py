"""What a pass sees of the data: one block of design rows at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, final

from vbsvm.arrays import Array
from vbsvm.stats import Stats


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A block of rows: its place in the data, its design, labels ±1 and weights > 0, and work space like the design."""

    index: int
    design: Array
    signs: Array
    weights: Array
    scratch: Array


class Source(Protocol):
    """Where rows come from: memory now; files and other machines answer the same calls."""

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        ...

    def fold(self, kernel: Callable[[Rows], Stats]) -> Stats:
        """Sum the kernel over all row blocks: the only pass over the data."""
        ...

    def thin(self, step: int) -> Self | None:
        """Every ``step``-th row, or None where that is too little to learn from."""
        ...
