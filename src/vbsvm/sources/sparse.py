"""Rows of a scipy.sparse array: read in blocks, standardised by algebra, never written out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import block_rows
from vbsvm.design.scaling import Recipe
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.level_model import LevelCounts
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.matrices import SparseMatrix
from vbsvm.model.row_pass import CompleteRows
from vbsvm.sources.block_source import BlockSource


@final
@dataclass(frozen=True, eq=False)
class Sparse(BlockSource):
    """A CSR array, its labels ±1 and its weights > 0; without groups and missing values."""

    X: Any
    signs: Array
    weights: Array
    recipe: Recipe

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return int(np.count_nonzero(self.weights))

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return self.recipe.n_columns

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return max(1, -(-self.X.shape[0] // block_rows(self.n_columns)))

    @property
    def may_miss_inputs(self) -> bool:
        """None does."""
        return False

    @property
    def level_counts(self) -> LevelCounts | None:
        """No category may be missing."""
        return None

    def encoder(self) -> "Callable[[int], SparseBlock]":
        """Give a function that takes the rows of a block."""
        size = block_rows(self.n_columns)

        def block_of(index: int) -> SparseBlock:
            where = slice(index * size, (index + 1) * size)
            counted = np.flatnonzero(self.weights[where] > 0)
            raw, recipe = self.X[where][counted], self.recipe
            matrix = SparseMatrix(raw, recipe.centre, recipe.scale, recipe.intercept)
            return SparseBlock(DenseRows(index, matrix, self.signs[where][counted], self.weights[where][counted]))

        return block_of


@final
@dataclass(frozen=True, eq=False)
class SparseBlock:
    """A block of sparse rows."""

    rows: Any

    @cached_property
    def _part(self) -> CompleteRows:
        return CompleteRows(self.rows)

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """The kernel of its rows."""
        return kernel(self._part)

    def known_sums(self) -> InputSums:
        """There is nothing that may be missing."""
        raise NotImplementedError

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """There is nothing that may be missing."""
        raise NotImplementedError

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ; the design has an intercept of its own, or gets one here."""
        matrix, s = self.rows.matrix, self.rows.weights
        assert isinstance(matrix, SparseMatrix)
        return SparseMatrix(matrix.raw, matrix.centre, matrix.scale, True).sandwich(s)
