"""Rows of a scipy.sparse array: read in blocks, standardised implicitly, never materialised."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from vbsvm.base.arrays import Array, block_rows
from vbsvm.base.cached import cached_property
from vbsvm.design.scaling import Recipe, positive_weight_rows
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.drawn import DrawnRows
from vbsvm.model.layouts.dual import DualRows
from vbsvm.model.layouts.dual_parts import SparseDesign
from vbsvm.model.matrices import SparseMatrix, n_pairs
from vbsvm.sources.rows import BlockSource, CompleteBlock, runs

# Maximum number of entry pairs cached between passes: 200 MB. More are recomputed, block by block.
MAX_CACHED = 2**24
# Entry pairs of a block per cell of its gram.
PAIRS_OF_A_CELL = 4


@final
@dataclass(frozen=True, eq=False)
class SparseTable:
    """Rows of positive weight as CSR in float64, with the columns' implicit standardisation.

    Products of raw columns lose digits where a column lies far from zero in units of its scale. Nearly all of its
    entries are stored then, so that such a column is centred in place, with few further entries.
    """

    X: Any
    recipe: Recipe

    @staticmethod
    def from_rows(X: Any, weights: Array, recipe: Recipe) -> "SparseTable":
        """Take the rows of positive weight."""
        X = positive_weight_rows(X, weights)
        X = csr_array((X.data.astype(np.float64, copy=False), X.indices, X.indptr), shape=X.shape)
        far = recipe.far
        if not far.any():
            return SparseTable(X, recipe)
        return SparseTable(_centred(X, far, recipe.centre), replace(recipe, centre=np.where(far, 0.0, recipe.centre)))

    @cached_property
    def size(self) -> int:
        """Number of rows per block, such that adding two Gram matrices is cheap compared with forming one."""
        n_rows, n_columns = self.X.shape
        n_blocks = max(1, self.n_pairs // (PAIRS_OF_A_CELL * max(n_columns, 1) ** 2))
        return max(block_rows(n_columns), -(-n_rows // n_blocks))

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs of stored entries within rows."""
        return n_pairs(np.diff(self.X.indptr))

    @cached_property
    def design(self) -> SparseDesign:
        """All rows as the design of the dual layout."""
        X, recipe = self.X, self.recipe
        return SparseDesign(X.data, X.indices, X.indptr, recipe.centre, recipe.scale, recipe.intercept)

    @cached_property
    def whole(self) -> SparseMatrix:
        """All rows as one matrix."""
        return SparseMatrix(self.X, self.recipe.centre, self.recipe.scale, self.recipe.intercept)

    def matrix(self, index: int) -> SparseMatrix:
        """The rows of block k."""
        return self._cached_blocks[index] if self.n_pairs <= MAX_CACHED else self._matrix(index)

    @cached_property
    def _cached_blocks(self) -> tuple[SparseMatrix, ...]:
        return tuple(map(self._matrix, range(max(1, -(-self.X.shape[0] // self.size)))))

    def _matrix(self, index: int) -> SparseMatrix:
        """The rows of block k as views."""
        X, begin, recipe = self.X, index * self.size, self.recipe
        end = min(begin + self.size, X.shape[0])
        where = slice(X.indptr[begin], X.indptr[end])
        begins = X.indptr[begin : end + 1] - X.indptr[begin]
        rows = csr_array((X.data[where], X.indices[where], begins), shape=(end - begin, X.shape[1]))
        return SparseMatrix(rows, recipe.centre, recipe.scale, recipe.intercept)


def _centred(X: Any, chosen: NDArray[np.bool_], centre: Array) -> Any:
    """X with the chosen columns centred and stored densely."""
    dense_centred = csr_array(X[:, np.flatnonzero(chosen)].toarray() - centre[chosen])
    places = np.argsort(np.concatenate([np.flatnonzero(~chosen), np.flatnonzero(chosen)]))
    stacked: Any = hstack([X[:, np.flatnonzero(~chosen)], dense_centred], format="csr")
    result = csr_array(stacked[:, places])
    result.sort_indices()
    return result


@final
@dataclass(frozen=True, eq=False)
class Sparse(BlockSource):
    """A CSR array with labels ±1 and weights; without groups and missing values.

    A ``wide`` table has many more columns than rows: the dual layout. ``table`` are the rows of positive weight, which
    sources share that differ in labels and in the size of weights.
    """

    X: Any
    y: Array
    weights: Array
    recipe: Recipe
    table: SparseTable
    wide: bool = False
    drawn_covariance: bool = False
    groupings: ClassVar[tuple[()]] = ()
    candidates: ClassVar[None] = None
    pages: ClassVar[None] = None

    @staticmethod
    def from_csr(X: Any, y: Array, weights: Array, recipe: Recipe) -> "Sparse":
        """The source of a CSR array in canonical format."""
        return Sparse(X, y, weights, recipe, SparseTable.from_rows(X, weights, recipe))

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return self.table.X.shape[0]

    def observation_runs(self) -> Iterator[slice]:
        """Consecutive slices of the rows, for row-by-row counts."""
        return runs(self.X.shape[0], None)

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return self.recipe.n_columns

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return 1 if self.wide or self.drawn_covariance else max(1, -(-self.n_rows // self.table.size))

    def encoder(self) -> Callable[[int], CompleteBlock]:
        """Return a function that gives block k."""
        positive = slice(None) if self.weights.all() else self.weights > 0
        table, y, weights = self.table, self.y[positive], self.weights[positive]
        if self.wide:
            return lambda index: CompleteBlock(DualRows(index, table.design, y, weights), table.design.matrix)
        if self.drawn_covariance:
            return lambda index: CompleteBlock(DrawnRows(index, table.whole, y, weights), table.whole)

        def block_of(index: int) -> CompleteBlock:
            where, matrix = slice(index * table.size, (index + 1) * table.size), table.matrix(index)
            return CompleteBlock(DenseRows(index, matrix, y[where], weights[where]), matrix)

        return block_of
