"""A distribution of the coefficients by draws from it, in any layout: what a sampler leaves behind."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import Effects, Gram, Rows

# Moments of scores are taken over this many draws, spread evenly over all of them.
MOST_DRAWS = 1000


@final
@dataclass(frozen=True, eq=False)
class SampledCoefficients:
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

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        return float(self.squares[columns].sum())

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return self.variances + np.square(self.mean)

    @property
    def entropy(self) -> float:
        """Minus infinity, as for a point: draws have no density."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over the pairs of two strides."""
        return float(np.vdot(self.draws[:, left], self.draws[:, right])) / len(self.draws)

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.draws[:, :n].T @ self.draws[:, :n] / len(self.draws)

    def quadratic(self, gram: Gram) -> float:
        """E[θᵀ gram θ]."""
        return sum(float(theta @ gram.times(theta)) for theta in self.draws) / len(self.draws)

    def message(self, gates: Gates | None) -> "SampledCoefficients":
        """Itself: the draws are those of the effective coefficients."""
        return self

    @cached_property
    def _chosen(self) -> Array:
        step = -(-len(self.draws) // MOST_DRAWS)
        return self.draws[::step]

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Mean score of each row by the mean coefficients, and the variance over draws."""
        mean = rows.scores(self.mean)
        variance = np.zeros(len(mean))
        for theta in self._chosen:
            variance += np.square(rows.scores(theta) - mean)
        return mean, variance / len(self._chosen)

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Moments of what multiplies these columns, over draws."""
        distribution = PointDistribution(self.mean).effects(rows, columns)
        score, with_score, covariance = rows.scores(self.mean), distribution.with_score, distribution.covariance
        for theta in self._chosen:
            apart = rows.multiplying(theta, columns) - distribution.mean
            with_score = with_score + apart * (rows.scores(theta) - score)[:, None]
            covariance = covariance + apart[:, :, None] * apart[:, None, :]
        return Effects(distribution.mean, with_score / len(self._chosen), covariance / len(self._chosen))
