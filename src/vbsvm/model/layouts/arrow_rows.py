"""Rows of the arrow layout: dense columns, and the level of each row in every grouping factor."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.layouts.arrow import ArrowGram, core_slices
from vbsvm.model.layouts.dense import DenseGram, DenseRows
from vbsvm.model.layouts.grouping import ByGroup, Factor


@final
@dataclass(frozen=True, eq=False)
class ArrowRows:
    """A block of rows: dense columns, the core's other factors, and the factor that is the arrow's tail.

    Coefficients come in this order: dense columns, then each factor's effects, level by level.
    """

    dense: DenseRows
    factors: tuple[Factor, ...]
    tail: Factor

    @property
    def index(self) -> int:
        """Number of the block in the data."""
        return self.dense.index

    @property
    def y(self) -> Array:
        """Labels ±1."""
        return self.dense.y

    @property
    def weights(self) -> Array:
        """Sample weights, above 0."""
        return self.dense.weights

    @property
    def as_array(self) -> Array:
        """The dense columns as an array."""
        return self.dense.as_array

    def scores(self, theta: Array) -> Array:
        """Cx + zᵀu_g."""
        n_core = len(theta) - self.tail.size
        total = self.core_scores(theta[:n_core])
        total += self.tail.scores(theta[n_core:].reshape(self.tail.shape))
        return total

    def core_scores(self, x: Array) -> Array:
        """Cx."""
        begin = self.dense.matrix.shape[1]
        total = self.dense.scores(x[:begin])
        for factor in self.factors:
            total += factor.scores(x[begin : begin + factor.size].reshape(factor.shape))
            begin += factor.size
        return total

    @cached_property
    def group_sum_matrices(self) -> tuple[csc_array, csc_array]:
        """Sparse matrices whose products with vectors are sums over the rows of each level of the window.

        The first has weights −s, the second s y c, by level and column of the core. They are cached with the rows, as
        integrating out random effects needs a dozen such sums.
        """
        (_, tail), dense, s = self.tail.window, self.as_array, self.weights
        n, begin = dense.shape
        positions, values = [np.broadcast_to(np.arange(begin), dense.shape)], [dense]
        for factor in self.factors:
            q = factor.z.shape[1]
            positions.append(begin + q * factor.levels[:, None] + np.arange(q))
            values.append(factor.z)
            begin += factor.size
        columns, entries = np.concatenate(positions, axis=1), np.concatenate(values, axis=1)
        indices, entries = tail.levels[:, None] * begin + columns, (s * self.y)[:, None] * entries
        ends = np.arange(n + 1)
        by_column = csc_array(
            (entries.ravel(), indices.ravel(), indices.shape[1] * ends), shape=(tail.n_levels * begin, n)
        )
        return csc_array((-s, tail.levels, ends), shape=(tail.n_levels, n)), by_column

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        return self.dense.columns(which)

    def slopes_by_row(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """Slopes of these columns: coefficients plus random slopes of each row's levels."""
        begin = self.dense.matrix.shape[1]
        total = self.dense.slopes_by_row(theta[:begin], columns)
        for factor in (*self.factors, self.tail):
            indicator = factor.column_indicator(columns)
            if indicator.any():
                effects = theta[begin : begin + factor.size].reshape(factor.shape)
                total = total + factor.of_rows(effects) @ indicator
            begin += factor.size
        return total

    def cross(self, u: Array) -> "ArrowCross":
        """Cᵀu and Z_gᵀu_g."""
        first, tail = self.tail.window
        return ArrowCross(self.core_cross(u), ByGroup(((first, tail.cross(u)),), self.tail.n_levels))

    def core_cross(self, u: Array) -> Array:
        """Cᵀu of the core."""
        return np.concatenate([self.dense.cross(u), *(factor.cross(u).ravel() for factor in self.factors)])

    def sums_by_group(self, u: Array) -> ByGroup:
        """Cᵀu of the core over the rows of each group, groups × coefficients of the core."""
        first, tail = self.tail.window
        once = Factor(tail.levels, tail.n_levels, np.ones((len(u), 1)), (0,))
        parts = [once.with_columns(u, self.as_array)[:, 0]]
        parts += [once.with_factor(u, factor).reshape(tail.n_levels, factor.size) for factor in self.factors]
        return ByGroup(((first, np.concatenate(parts, axis=1)),), self.tail.n_levels)

    def gram(self, w: Array) -> "ArrowGram":
        """A = CᵀWC of the core, B_g = Z_gᵀW_gC_g, and Z_gᵀW_gZ_g."""
        C, (first, tail) = self.as_array, self.tail.window
        n_groups = self.tail.n_levels
        shapes = tuple(factor.shape for factor in self.factors)
        border = tail.with_columns(w, C)
        z_columns = tail.within(C.shape[1])  # then Z is a part of C, and so are its sums
        corner = tail.with_columns(w, tail.z) if z_columns is None else border[:, :, z_columns]
        if shapes:
            slices = core_slices(C.shape[1], shapes)
            with_dense, border = border, np.empty((*tail.shape, slices[-1].stop))
            border[:, :, slices[0]] = with_dense
            for factor, columns in zip(self.factors, slices[1:], strict=True):
                border[:, :, columns] = tail.with_factor(w, factor).reshape(*tail.shape, factor.size)
        return ArrowGram(
            self.core_gram(w), ByGroup(((first, border),), n_groups), ByGroup(((first, corner),), n_groups), shapes
        )

    def core_gram(self, w: Array) -> DenseGram:
        """CᵀWC of the core."""
        dense_gram = self.dense.gram(w)
        if not self.factors:
            return dense_gram
        C = self.as_array
        dense, *slices = core_slices(C.shape[1], tuple(factor.shape for factor in self.factors))
        n_core = slices[-1].stop
        A = np.empty((n_core, n_core))
        A[dense, dense] = dense_gram.matrix
        for k, (factor, rows) in enumerate(zip(self.factors, slices, strict=True)):
            A[rows, dense] = factor.with_columns(w, C).reshape(factor.size, -1)
            A[dense, rows] = A[rows, dense].T
            for other, columns in zip(self.factors[: k + 1], slices, strict=False):
                A[rows, columns] = factor.with_factor(w, other).reshape(factor.size, other.size)
                A[columns, rows] = A[rows, columns].T
        return DenseGram(A)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowCross:
    """Cᵀu of the core, and Z_gᵀu_g."""

    core: Array
    tail: ByGroup

    def __add__(self, other: Self) -> "ArrowCross":
        """Add the sums of two sets of rows."""
        return ArrowCross(self.core + other.core, self.tail + other.tail)

    def to_array(self) -> Array:
        """One array: the core, then the levels."""
        return np.concatenate([self.core, self.tail.to_array().ravel()])
