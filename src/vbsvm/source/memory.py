"""Rows of an array in memory, or of a memory-mapped one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.design.recipe import Recipe, weighted_rows
from vbsvm.layout.arrow import ArrowRows
from vbsvm.layout.dense import DenseRows
from vbsvm.layout.dual import DualRows
from vbsvm.layout.factors import Factor
from vbsvm.rowblocks import block_rows, fold, single_threaded_blas
from vbsvm.stats import Stats


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each row, by number, and which design columns multiply the groups' effects."""

    index: NDArray[np.intp]
    n_groups: int
    slopes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.n_groups * len(self.slopes)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the rows lie in the order of their groups, so that a block of them knows a few groups only."""
        return not (self.index[1:] < self.index[:-1]).any()

    def factor(self, where: slice, kept: Any, design: Array) -> Factor:
        """The factor in a block of rows."""
        return Factor(self.index[where][kept], self.n_groups, design[:, self.slopes], self.slopes)


@final
@dataclass(frozen=True, eq=False)
class Memory:
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole.

    The last of the groupings is the arrow's tail. The last ``n_carried`` columns of the design have no coefficients of
    their own: only groups' effects multiply them. A ``wide`` table has many more columns than rows: the dual layout.
    """

    X: NDArray[np.floating]
    signs: Array
    weights: Array
    recipe: Recipe
    groupings: tuple[Grouping, ...] = ()
    n_carried: int = 0
    wide: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return int(np.count_nonzero(self.weights))

    def fold(self, kernel: Callable[[Any], Stats]) -> Stats:
        """Sum the kernel over row blocks, in threads where there is enough to do."""
        n_rows, size = len(self.X), self._block_rows()
        if n_rows <= size or self.wide:
            with single_threaded_blas():
                return kernel(self._only_block)

        def for_a_thread() -> Callable[[int, slice], Stats]:
            rows_of = self._encoder(size)
            return lambda index, where: kernel(rows_of(index, where))

        return fold(n_rows, self.recipe.n_columns, for_a_thread, size)

    @cached_property
    def _only_block(self) -> Any:
        """All rows of a small table: encoded once, as they need no more room than one block's work space."""
        return self._encoder(len(self.X))(0, slice(0, len(self.X)))

    def _encoder(self, size: int) -> Callable[[int, slice], Any]:
        """Give a function that encodes a block of rows into work space of its own."""
        design, scratch = self.recipe.work_space(size), self.recipe.work_space(size)
        n_fixed = self.recipe.n_columns - self.n_carried

        def rows_of(index: int, where: slice) -> Any:
            raw, weights, kept = weighted_rows(self.X, self.weights, where)
            encoded = self.recipe.encode(raw, design)
            room = scratch[: len(encoded), :n_fixed]
            rows = DenseRows(index, encoded[:, :n_fixed], self.signs[where][kept], weights, room)
            if not self.groupings:
                return DualRows(index, rows.design, rows.signs, weights) if self.wide else rows
            *factors, tail = (grouping.factor(where, kept, encoded) for grouping in self.groupings)
            return ArrowRows(rows, tuple(factors), tail)

        return rows_of

    def _block_rows(self) -> int:
        """Rows in a block: with groups so many that adding two blocks' sums costs little beside forming them."""
        n_columns = self.recipe.n_columns
        if not self.groupings:
            return block_rows(n_columns)
        *others, tail = self.groupings
        n_core = n_columns + sum(grouping.size for grouping in others)
        in_block = 0 if tail.is_sorted else tail.size
        return max(block_rows(n_columns), n_core * (n_core + in_block) // n_columns)

    def thin(self, step: int) -> "Memory | None":
        """Every ``step``-th row that counts, or None where that leaves out a class or tears groups apart.

        Views of the same arrays where all rows count.
        """
        if self.groupings:
            return None
        kept = slice(None, None, step) if self.weights.all() else np.flatnonzero(self.weights)[::step]
        signs = self.signs[kept]
        if signs.min() == signs.max():
            return None
        return Memory(self.X[kept], signs, self.weights[kept], self.recipe)
