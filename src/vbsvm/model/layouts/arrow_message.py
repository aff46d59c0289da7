"""What a pass over rows with factors takes along: moments of the coefficients, to be looked up by level."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.model.interfaces import Effects
from vbsvm.model.layouts.dense import DenseGaussian, GatedMessage
from vbsvm.model.layouts.grouping import Factor

if TYPE_CHECKING:
    from vbsvm.model.layouts.arrow_rows import ArrowRows


@final
@dataclass(frozen=True, slots=True, eq=False)
class FactorMessage:
    """Of each level of a factor: mean effects, covariances with the dense columns' coefficients, and variances."""

    effects: Array
    with_dense: Array
    variances: Array

    def window(self, first: int, n_levels: int) -> "FactorMessage":
        """The same of a run of levels."""
        run = slice(first, first + n_levels)
        return FactorMessage(self.effects[run], self.with_dense[run], self.variances[run])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowMessage:
    """Distribution of the dense columns' coefficients and each factor's effects; covariances of pairs of factors."""

    dense: DenseGaussian | GatedMessage
    factors: tuple[FactorMessage, ...]
    pairs: dict[tuple[int, int], Array]

    def row_moments(self, rows: "ArrowRows") -> tuple[Array, Array]:
        """f = Σ c_aᵀμ_a and v = Σ c_aᵀΣ_ab c_b over the parts a, b of a row: dense columns and each factor."""
        f, v = self.dense.row_moments(rows.dense)
        factors = (*rows.factors, rows.tail)
        for whole, of_all in zip(factors, self.factors, strict=True):
            first, factor = whole.window
            distribution = of_all.window(first, factor.n_levels)
            f += factor.scores(distribution.effects)
            with_dense, own = 2 * distribution.with_dense, factor.within(distribution.with_dense.shape[2])
            if own is None:
                v += factor.scores_of_rows(_each_times(factor.of_rows(distribution.variances), factor.z))
            else:  # z is one of the dense columns, so that zᵀVz is another product with them
                with_dense[:, :, own] += distribution.variances
            v += _products(factor, with_dense, rows.written)
        for (k, j), covariances in self.pairs.items():
            one, other = factors[k], factors[j]
            looked_up = covariances[one.levels, :, other.levels]
            v += 2 * one.scores_of_rows(_each_times(looked_up, other.z))
        return f, np.maximum(v, 0.0, out=v)

    def effects(self, rows: "ArrowRows", columns: NDArray[np.intp]) -> Effects:
        """Distribution of what multiplies these columns: coefficients, and effects of each row's levels."""
        dense = self.dense.effects(rows.dense, columns)
        factors = (*rows.factors, rows.tail)
        with_score = dense.with_score
        for factor, distribution in zip(factors, self.factors, strict=True):
            with_score = with_score + factor.scores_by_column(
                factor.of_rows(_of_columns(distribution.with_dense, columns))
            )
        found = Effects(dense.mean, with_score, dense.covariance)
        for k, (factor, distribution) in enumerate(zip(factors, self.factors, strict=True)):
            places = factor.places(columns)
            if places.any():
                met = self._with_score(rows, k)
                crossing = factor.of_rows(_of_columns(distribution.with_dense, columns))
                for j in range(k):
                    crossing = crossing + self._between(factors, k, j) @ factors[j].places(columns)
                once = places.T @ crossing
                own = places.T @ factor.of_rows(distribution.variances) @ places
                found = Effects(
                    found.mean + factor.of_rows(distribution.effects) @ places,
                    found.with_score + met @ places,
                    found.covariance + once + once.transpose(0, 2, 1) + own,
                )
        return found

    def _with_score(self, rows: "ArrowRows", k: int) -> Array:
        """Covariance of the effects of each row's level in the k-th factor with the row's score."""
        factors = (*rows.factors, rows.tail)
        factor, distribution = factors[k], self.factors[k]
        met = _each_times(factor.of_rows(distribution.with_dense), rows.written)
        met = met + _each_times(factor.of_rows(distribution.variances), factor.z)
        for j, other in enumerate(factors):
            if j != k:
                met = met + _each_times(self._between(factors, k, j), other.z)
        return met

    def _between(self, factors: tuple[Factor, ...], k: int, j: int) -> Array:
        """Covariance of the effects of each row's levels in two factors."""
        if j < k:
            return self.pairs[k, j][factors[k].levels, :, factors[j].levels]
        return self.pairs[j, k][factors[j].levels, :, factors[k].levels].transpose(0, 2, 1)


def _of_columns(with_dense: Array, columns: NDArray[np.intp]) -> Array:
    """Covariances with the coefficients of these columns; zero where a column has none."""
    found = np.zeros((*with_dense.shape[:2], len(columns)))
    known = columns < with_dense.shape[2]
    found[:, :, known] = with_dense[:, :, columns[known]]
    return found


def _products(factor: Factor, matrices: Array, vectors: Array) -> Array:
    """zᵀMc of each row c with the matrix M (q × p) of its level; column by column, as rows are stored, if q is 1."""
    if matrices.shape[1] > 1:
        return factor.scores_of_rows(_each_times(factor.of_rows(matrices), vectors))
    found = np.take(matrices[:, 0].T, factor.levels, axis=1)
    found *= vectors.T
    return np.add.reduce(found, axis=0) * factor.z[:, 0]


def _each_times(matrices: Array, vectors: Array) -> Array:
    """Product of each row's matrix (q × p) and vector (p)."""
    if matrices.shape[1] == 1:
        return np.einsum("ip,ip->i", matrices[:, 0], vectors)[:, None]
    return np.einsum("iqp,ip->iq", matrices, vectors)
