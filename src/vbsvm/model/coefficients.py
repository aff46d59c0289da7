"""Discrete distributions of the coefficients in any layout: a point, and the draws of a sampler."""

import math
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import Effects, Gram, Rows


class SecondMoments:
    """Mixin: second moments from mean, variances and covariances."""

    @cached_property
    def squares(self: Any) -> Array:
        """E[θ²], elementwise."""
        return self.variances + np.square(self.mean)

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        return float(np.add.reduce(self.squares[columns]))

    def outer(self: Any, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.covariances(n) + np.outer(self.mean[:n], self.mean[:n])

    def marginal(self, n: int) -> Self:
        """Marginal distribution of the first n coefficients; all of them in a layout without random effects."""
        return self


@final
@dataclass(frozen=True, slots=True, eq=False)
class PointDistribution:
    """Point mass of the coefficients, in any layout: the start of variational Bayes, and every state of Gibbs."""

    mean: Array

    @property
    def variances(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.mean)

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        return float(np.add.reduce(np.square(self.mean[columns])))

    @property
    def squares(self) -> Array:
        """θ²."""
        return np.square(self.mean)

    @property
    def entropy(self) -> float:
        """Minus infinity, so that the ELBO of the start is below every other."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ θ_j θ_k."""
        return float(self.mean[left] @ self.mean[right])

    def outer(self, n: int) -> Array:
        """θθᵀ."""
        return np.outer(self.mean[:n], self.mean[:n])

    def cross_moments(self, border: Array) -> Array:
        """Σ B E[u x_k] over the coefficients u outside the core, for each coefficient x_k of the core."""
        n_core = border.shape[1]
        return (self.mean[n_core:] @ border) * self.mean[:n_core]

    def effective(self, gates: Gates | None) -> "PointDistribution":
        """The effective coefficients."""
        return self if gates is None else PointDistribution(gates.by_coefficient * self.mean)

    def row_moments(self, rows: Rows) -> tuple[Array, float]:
        """Scores, and variance 0."""
        return rows.scores(self.mean), 0.0

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Slopes of these columns, with covariance 0."""
        mean = rows.slopes_by_row(self.mean, columns)
        return Effects(mean, np.zeros((len(rows.y), len(columns))), np.zeros((len(mean), *[len(columns)] * 2)))

    def quadratic(self, gram: Gram) -> float:
        """θᵀ gram θ."""
        return float(self.mean @ gram.times(self.mean))

    def with_mean(self, mean: Array) -> "PointDistribution":
        """Another point."""
        return PointDistribution(mean)


# Moments of scores are taken over at most this many draws, evenly spaced.
MAX_DRAWS = 1000


@final
@dataclass(frozen=True, eq=False)
class SampledCoefficients(SecondMoments):
    """Draws of the effective coefficients, draws × coefficients."""

    draws: Array

    @cached_property
    def mean(self) -> Array:
        """E[θ]."""
        return self.draws.mean(axis=0)

    @cached_property
    def variances(self) -> Array:
        """Var(θ), elementwise."""
        return self.draws.var(axis=0)

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        centred = self.draws[:, :n] - self.mean[:n]
        return centred.T @ centred / len(centred)

    @property
    def entropy(self) -> float:
        """Minus infinity, as for a point: draws have no density."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        return float(np.vdot(self.draws[:, left], self.draws[:, right])) / len(self.draws)

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.draws[:, :n].T @ self.draws[:, :n] / len(self.draws)

    def quadratic(self, gram: Gram) -> float:
        """E[θᵀ gram θ]."""
        return sum(float(theta @ gram.times(theta)) for theta in self.draws) / len(self.draws)

    def effective(self, gates: Gates | None) -> "SampledCoefficients":
        """Itself, as the draws are of the effective coefficients."""
        return self

    @cached_property
    def _thinned(self) -> Array:
        step = -(-len(self.draws) // MAX_DRAWS)
        return self.draws[::step]

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Score of each row at the mean coefficients, and its variance over draws."""
        mean = rows.scores(self.mean)
        variance = np.zeros(len(mean))
        for theta in self._thinned:
            variance += np.square(rows.scores(theta) - mean)
        return mean, variance / len(self._thinned)

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Moments of the slopes of these columns over draws."""
        distribution = PointDistribution(self.mean).effects(rows, columns)
        score, with_score, covariance = rows.scores(self.mean), distribution.with_score, distribution.covariance
        for theta in self._thinned:
            deviation = rows.slopes_by_row(theta, columns) - distribution.mean
            with_score = with_score + deviation * (rows.scores(theta) - score)[:, None]
            covariance = covariance + deviation[:, :, None] * deviation[:, None, :]
        return Effects(distribution.mean, with_score / len(self._thinned), covariance / len(self._thinned))
