"""Rows of an array in memory, or of a memory-mapped one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.design.recipe import Recipe, weighted_rows
from vbsvm.layout.arrow import ArrowRows
from vbsvm.layout.dense import DenseRows
from vbsvm.rowblocks import block_rows, fold
from vbsvm.stats import Stats


@final
@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The group of each row, by number, and which design columns multiply the groups' effects."""

    index: NDArray[np.intp]
    n_groups: int
    slopes: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole."""

    X: NDArray[np.floating]
    signs: Array
    weights: Array
    recipe: Recipe
    grouping: Grouping | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return int(np.count_nonzero(self.weights))

    def fold(self, kernel: Callable[[Any], Stats]) -> Stats:
        """Sum the kernel over row blocks, in threads where there is enough to do."""
        n_rows, n_columns = len(self.X), self.recipe.n_columns

        def for_a_thread() -> Callable[[int, slice], Stats]:
            size = min(n_rows, block_rows(n_columns))
            design, scratch = self.recipe.work_space(size), self.recipe.work_space(size)

            def for_a_block(index: int, where: slice) -> Stats:
                raw, weights, kept = weighted_rows(self.X, self.weights, where)
                encoded = self.recipe.encode(raw, design)
                rows = DenseRows(index, encoded, self.signs[where][kept], weights, scratch[: len(encoded)])
                if self.grouping is None:
                    return kernel(rows)
                by = self.grouping
                return kernel(ArrowRows(rows, by.index[where][kept], by.slopes, by.n_groups))

            return for_a_block

        return fold(n_rows, n_columns, for_a_thread)

    def thin(self, step: int) -> "Memory | None":
        """Every ``step``-th row that counts, or None where that leaves out a class or tears groups apart.

        Views of the same arrays where all rows count.
        """
        if self.grouping is not None:
            return None
        kept = slice(None, None, step) if self.weights.all() else np.flatnonzero(self.weights)[::step]
        signs = self.signs[kept]
        if signs.min() == signs.max():
            return None
        return Memory(self.X[kept], signs, self.weights[kept], self.recipe)
