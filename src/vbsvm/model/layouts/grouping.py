"""Grouping factors in a block of rows, and moments of their random effects, looked up by level.

A factor multiplies some columns z of a row (intercept, slopes) by the random effects u of the row's level. It is stored
as codes; its indicator columns are never materialised: products with them are sums by level.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.interfaces import Effects
from vbsvm.model.layouts.dense import DenseGaussian, GatedCoefficients


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """The level of each row, and the columns z (rows × q) that multiply the level's effects.

    ``slopes`` are the numbers of these columns in the design.
    """

    levels: NDArray[np.intp]
    n_levels: int
    z: Array
    slopes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of levels, and of effects of each."""
        return self.n_levels, self.z.shape[1]

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.n_levels * self.z.shape[1]

    @cached_property
    def window(self) -> tuple[int, "Factor"]:
        """First of the range of levels in this block, and the factor with levels counted from it."""
        first, last = int(self.levels.min()), int(self.levels.max())
        if last - first + 1 == self.n_levels:
            return 0, self
        return first, Factor(self.levels - first, last - first + 1, self.z, self.slopes)

    def within(self, n_columns: int) -> slice | list[int] | None:
        """Positions of z among the first ``n_columns`` of the design (a slice if possible), or None if not there."""
        first, last = self.slopes[0], self.slopes[-1]
        if max(self.slopes) >= n_columns:
            return None
        return slice(first, last + 1) if self.slopes == tuple(range(first, last + 1)) else list(self.slopes)

    def column_indicator(self, columns: NDArray[np.intp]) -> Array:
        """Effects × columns: 1 where the effect is the random slope of this column of the design."""
        return np.equal.outer(np.array(self.slopes), columns).astype(np.float64)

    def of_rows(self, by_level: Array) -> Array:
        """Look up each row's level in an array whose first axis are the levels."""
        return np.take(by_level, self.levels, axis=0)

    def scores(self, effects: Array) -> Array:
        """zᵀu of each row's level."""
        return self.scores_of_rows(self.of_rows(effects))

    def scores_of_rows(self, effects: Array) -> Array:
        """zᵀu with effects u given row by row."""
        return self.z[:, 0] * effects[:, 0] if self.z.shape[1] == 1 else np.einsum("iq,iq->i", self.z, effects)

    def cross(self, u: Array) -> Array:
        """Zᵀu by level, levels × q."""
        sums = np.empty((self.z.shape[1], self.n_levels))
        for j, z in enumerate(self.z.T):
            sums[j] = self._sum(u * z)
        return sums.T

    def with_columns(self, w: Array, columns: Array) -> Array:
        """ZᵀWC by level, levels × q × columns."""
        sums = np.empty((self.z.shape[1], columns.shape[1], self.n_levels))
        for j, z in enumerate(self.z.T):
            wz = w * z
            for k, column in enumerate(columns.T):
                sums[j, k] = self._sum(wz * column)
        return sums.transpose(2, 0, 1)

    def with_factor(self, w: Array, other: "Factor") -> Array:
        """ZᵀWZ′ of two factors, levels × q × levels′ × q′."""
        sums = np.empty((*self.shape[1:], *other.shape[1:], self.n_levels * other.n_levels))
        pairs = self.levels * other.n_levels + other.levels
        for j, z in enumerate(self.z.T):
            wz = w * z
            for k, z_other in enumerate(other.z.T):
                sums[j, k] = np.bincount(pairs, wz * z_other, minlength=sums.shape[2])
        return sums.reshape(*sums.shape[:2], self.n_levels, other.n_levels).transpose(2, 0, 3, 1)

    def _sum(self, values: Array) -> NDArray[Any]:
        return np.bincount(self.levels, values, minlength=self.n_levels)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ByGroup:
    """Sums by level, as pieces for ranges of levels: a block of sorted rows has few levels only."""

    pieces: tuple[tuple[int, Array], ...]
    n_groups: int

    def __add__(self, other: Self) -> "ByGroup":
        """Collect the pieces, which are added by ``to_array``."""
        return ByGroup(self.pieces + other.pieces, self.n_groups)

    def __sub__(self, other: Self) -> "ByGroup":
        """Collect the pieces of the other, negated."""
        return ByGroup(self.pieces + tuple((first, -piece) for first, piece in other.pieces), self.n_groups)

    def to_array(self) -> Array:
        """Sums of all levels, the pieces added in order."""
        if len(self.pieces) == 1 and len(self.pieces[0][1]) == self.n_groups:
            return self.pieces[0][1]
        total = np.zeros((self.n_groups, *self.pieces[0][1].shape[1:]))
        for first, piece in self.pieces:
            total[first : first + len(piece)] += piece
        return total


if TYPE_CHECKING:
    from vbsvm.model.layouts.arrow_rows import ArrowRows


def by_group(sums: Array) -> ByGroup:
    """Sums of all levels as one piece."""
    return ByGroup(((0, sums),), len(sums))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LevelMoments:
    """Moments of a factor's effects by level: means, covariances with the dense columns' coefficients, covariances."""

    effects: Array
    with_dense: Array
    variances: Array

    def window(self, first: int, n_levels: int) -> "LevelMoments":
        """The moments of a range of levels."""
        run = slice(first, first + n_levels)
        return LevelMoments(self.effects[run], self.with_dense[run], self.variances[run])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowCoefficients:
    """Distribution of the dense columns' coefficients and each factor's effects; covariances of pairs of factors."""

    dense: DenseGaussian | GatedCoefficients
    factors: tuple[LevelMoments, ...]
    pairs: dict[tuple[int, int], Array]

    def row_moments(self, rows: "ArrowRows") -> tuple[Array, Array]:
        """f = Σ c_aᵀμ_a and v = Σ c_aᵀΣ_ab c_b over the parts a, b of a row: dense columns and each factor."""
        f, v = self.dense.row_moments(rows.dense)
        factors = (*rows.factors, rows.tail)
        for whole, moments in zip(factors, self.factors, strict=True):
            first, factor = whole.window
            distribution = moments.window(first, factor.n_levels)
            f += factor.scores(distribution.effects)
            with_dense, z_columns = 2 * distribution.with_dense, factor.within(distribution.with_dense.shape[2])
            if z_columns is None:
                v += factor.scores_of_rows(_each_times(factor.of_rows(distribution.variances), factor.z))
            else:  # z is one of the dense columns, so that zᵀVz is another product with them
                with_dense[:, :, z_columns] += distribution.variances
            v += _products(factor, with_dense, rows.as_array)
        for (k, j), covariances in self.pairs.items():
            factor_k, factor_j = factors[k], factors[j]
            looked_up = covariances[factor_k.levels, :, factor_j.levels]
            v += 2 * factor_k.scores_of_rows(_each_times(looked_up, factor_j.z))
        return f, np.maximum(v, 0.0, out=v)

    def effects(self, rows: "ArrowRows", columns: NDArray[np.intp]) -> Effects:
        """Distribution of the slopes of these columns: coefficients plus random slopes of each row's levels."""
        dense, factors = self.dense.effects(rows.dense, columns), (*rows.factors, rows.tail)
        mean, with_score, covariance = dense.mean, dense.with_score, dense.covariance
        for k, (factor, moments) in enumerate(zip(factors, self.factors, strict=True)):
            crossing = factor.of_rows(_of_columns(moments.with_dense, columns))
            with_score = with_score + np.einsum("iq,iqj->ij", factor.z, crossing)
            indicator = factor.column_indicator(columns)
            if not indicator.any():
                continue
            for j in range(k):
                crossing = crossing + self._between(factors, k, j) @ factors[j].column_indicator(columns)
            once = indicator.T @ crossing
            within = indicator.T @ factor.of_rows(moments.variances) @ indicator
            mean = mean + factor.of_rows(moments.effects) @ indicator
            with_score = with_score + self._with_score(rows, k) @ indicator
            covariance = covariance + once + once.transpose(0, 2, 1) + within
        return Effects(mean, with_score, covariance)

    def _with_score(self, rows: "ArrowRows", k: int) -> Array:
        """Covariance of the effects of each row's level in the k-th factor with the row's score."""
        factors = (*rows.factors, rows.tail)
        factor, distribution = factors[k], self.factors[k]
        covariance = _each_times(factor.of_rows(distribution.with_dense), rows.as_array)
        covariance = covariance + _each_times(factor.of_rows(distribution.variances), factor.z)
        for j, other in enumerate(factors):
            if j != k:
                covariance = covariance + _each_times(self._between(factors, k, j), other.z)
        return covariance

    def _between(self, factors: tuple[Factor, ...], k: int, j: int) -> Array:
        """Covariance of the effects of each row's levels in two factors."""
        if j < k:
            return self.pairs[k, j][factors[k].levels, :, factors[j].levels]
        return self.pairs[j, k][factors[j].levels, :, factors[k].levels].transpose(0, 2, 1)


def _of_columns(with_dense: Array, columns: NDArray[np.intp]) -> Array:
    """Covariances with the coefficients of these columns; zero for columns without one."""
    covariances = np.zeros((*with_dense.shape[:2], len(columns)))
    exists = columns < with_dense.shape[2]
    covariances[:, :, exists] = with_dense[:, :, columns[exists]]
    return covariances


def _products(factor: Factor, matrices: Array, vectors: Array) -> Array:
    """zᵀMc of each row c with the matrix M (q × p) of its level; column by column if q is 1."""
    if matrices.shape[1] > 1:
        return factor.scores_of_rows(_each_times(factor.of_rows(matrices), vectors))
    products = np.take(matrices[:, 0].T, factor.levels, axis=1)
    products *= vectors.T
    return np.add.reduce(products, axis=0) * factor.z[:, 0]


def _each_times(matrices: Array, vectors: Array) -> Array:
    """Product of each row's matrix (q × p) and vector (p)."""
    if matrices.shape[1] == 1:
        return np.einsum("ip,ip->i", matrices[:, 0], vectors)[:, None]
    return np.einsum("iqp,ip->iq", matrices, vectors)
