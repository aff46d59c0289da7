"""Rows of an array in memory, or of a memory-mapped one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.recipe import Recipe, weighted_rows
from vbsvm.design.rows import Rows
from vbsvm.rowblocks import block_rows, fold
from vbsvm.stats import Stats

Array = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole."""

    X: NDArray[np.floating]
    signs: Array
    weights: Array
    recipe: Recipe

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    def fold(self, kernel: Callable[[Rows], Stats]) -> Stats:
        """Sum the kernel over row blocks, in threads where there is enough to do."""
        n_rows, n_columns = self.n_rows, self.recipe.n_columns

        def for_a_chunk() -> Callable[[int, slice], Stats]:
            size = min(n_rows, block_rows(n_columns))
            design, scratch = self.recipe.work_space(size), self.recipe.work_space(size)

            def for_a_block(index: int, where: slice) -> Stats:
                raw, weights, kept = weighted_rows(self.X, self.weights, where)
                rows = self.recipe.encode(raw, design)
                return kernel(Rows(index, rows, self.signs[where][kept], weights, scratch[: len(rows)]))

            return for_a_block

        return fold(n_rows, n_columns, for_a_chunk)

    def thin(self, step: int) -> "Memory | None":
        """Every ``step``-th row, as views of the same arrays; None where that leaves out one of the classes."""
        signs, weights = self.signs[::step], self.weights[::step]
        if not np.bincount(signs > 0, weights=weights, minlength=2).all():
            return None
        return Memory(self.X[::step], signs, weights, self.recipe)
