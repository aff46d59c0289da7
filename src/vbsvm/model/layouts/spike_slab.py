"""Joint distribution of indicators and coefficients: a spike-and-slab posterior for each predictor.

q(v_k, γ_k) is joint for every predictor, and predictors are independent (Carbonetto & Stephens 2012), where the paper
has one Gaussian for all v and independent indicators. Coefficients without indicator have a joint Gaussian
distribution.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import CoefficientDistribution, Effects, Precision, SecondMoments
from vbsvm.model.layouts.dense import LOG_2PI, DenseGram, DenseRows, with_covariance

# Rounds of coordinate updates on the sums of one pass: they need no data, and are cheap compared with a pass.
MAX_ROUNDS = 20
TOLERANCE = 1e-4


@final
@dataclass(frozen=True, eq=False)
class SpikeSlab(SecondMoments):
    """v_k is N(mean, slab) if included, else N(0, spike), its prior.

    ``mean`` covers all coefficients; ``root`` is that of the covariance of those without indicators, at ``free``.
    """

    mean: Array
    free: NDArray[np.intp]
    root: Array
    gated: NDArray[np.intp]
    slab: Array
    spike: Array
    log_odds: Array

    @cached_property
    def inclusion(self) -> Array:
        """E γ of each coefficient with an indicator."""
        return expit(self.log_odds)

    @cached_property
    def variances(self) -> Array:
        """Var(v) of included coefficients, elementwise."""
        variances = np.empty(len(self.mean))
        variances[self.free] = np.einsum("ij,ij->i", self.root, self.root)
        variances[self.gated] = self.slab
        return variances

    @cached_property
    def squares(self) -> Array:
        """E[v²], elementwise: over both values of the indicators."""
        squares = self.variances + np.square(self.mean)
        squares[self.gated] = self.inclusion * squares[self.gated] + (1 - self.inclusion) * self.spike
        return squares

    @property
    def entropy(self) -> float:
        """Entropy of the coefficients given the indicators."""
        free = float(np.log(np.abs(self.root.diagonal())).sum()) + 0.5 * len(self.free) * (1 + LOG_2PI)
        given = self.inclusion @ np.log(self.slab) + (1 - self.inclusion) @ np.log(self.spike)
        return free + 0.5 * float(given) + 0.5 * len(self.gated) * (1 + LOG_2PI)

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        outer = self.outer(len(self.mean))
        return float(outer[left, right].trace())

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients, all included."""
        covariance = np.diag(self.variances)
        covariance[np.ix_(self.free, self.free)] = self.root @ self.root.T
        return covariance[:n, :n]

    def quadratic(self, gram: DenseGram) -> float:
        """E[vᵀ gram v], all included."""
        return float(np.vdot(gram.matrix, self.outer(len(self.mean))))

    def effective(self, gates: Gates | None) -> "SpikeSlabCoefficients":
        """Means and variances of the effective coefficients."""
        effective, spread = self.mean.copy(), np.zeros(len(self.mean))
        effective[self.gated] *= self.inclusion
        of_gated = self.slab + (1 - self.inclusion) * np.square(self.mean[self.gated])
        spread[self.gated] = self.inclusion * of_gated
        return SpikeSlabCoefficients(effective, spread, self.free, self.root)

    def pack(self) -> Array:
        """Means, the root of the free coefficients, logs of the variances, and log odds of the indicators."""
        return np.concatenate([self.mean, self.root.ravel(), np.log(self.slab), np.log(self.spike), self.log_odds])

    def unpack(self, numbers: Array) -> "SpikeSlab":
        """The distribution with these parameters: inverse of ``pack``."""
        n, m, size = len(self.mean), len(self.gated), self.root.size
        mean, root, slab, spike, odds = np.split(numbers, np.cumsum([n, size, m, m]))
        root = root.reshape(self.root.shape)
        slab, spike = (np.exp(np.clip(x, -300.0, 300.0)) for x in (slab, spike))
        return SpikeSlab(mean, self.free, root, self.gated, slab, spike, odds)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SpikeSlabCoefficients:
    """Means and variances of the effective coefficients; covariance only among those without indicators."""

    mean: Array
    spread: Array
    free: NDArray[np.intp]
    root: Array

    def row_moments(self, rows: DenseRows) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        v = rows.matrix.row_squares(self.spread)
        v += np.square(rows.columns(self.free) @ self.root).sum(axis=1)
        return rows.matrix.matvec(self.mean), v

    def effects(self, rows: DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the effective coefficients of these columns."""
        spread = np.diag(self.spread)
        spread[np.ix_(self.free, self.free)] += self.root @ self.root.T
        mean = rows.slopes_by_row(self.mean, columns)
        at_mean = Effects(mean, np.zeros((len(rows.y), len(columns))), np.zeros((1, *[len(columns)] * 2)))
        return with_covariance(at_mean, spread, rows, columns)


def update_jointly(
    gram: DenseGram,
    cross: Array,
    precision: Precision,
    distribution: CoefficientDistribution,
    gates: Gates,
    prior_log_odds: Array,
) -> tuple[SpikeSlab, Gates]:
    """Update q(ungated coefficients) and each q(v_k, γ_k) in turn until convergence on the sums of one pass."""
    G, prior = gram.matrix, precision.diagonal
    gated, free = np.flatnonzero(gates.map.gated), np.flatnonzero(~gates.map.gated)
    order = gates.map.gate_of[gated]
    slab, spike = 1.0 / (G.diagonal()[gated] + prior[gated]), 1.0 / prior[gated]
    offset = prior_log_odds[order] + 0.5 * np.log(slab / spike)
    mean, inclusion = distribution.mean.copy(), gates.inclusion[order].copy()
    effective = mean.copy()
    effective[gated] *= inclusion
    of_free = DenseGram(G[np.ix_(free, free)])
    log_odds = np.empty(len(gated))
    root = np.empty((0, 0))
    for _ in range(MAX_ROUNDS):
        before = effective.copy()
        if len(free):
            right = cross[free] - G[np.ix_(free, gated)] @ effective[gated]
            fresh = of_free.conditional(right, Precision(prior[free]))
            root = fresh.root
            mean[free] = effective[free] = fresh.mean
        pull = G @ effective
        for i, k in enumerate(gated):
            mean[k] = slab[i] * (cross[k] - pull[k] + G[k, k] * effective[k])
            log_odds[i] = offset[i] + 0.5 * mean[k] ** 2 / slab[i]
            inclusion[i] = expit(log_odds[i])
            moved = inclusion[i] * mean[k]
            pull += (moved - effective[k]) * G[k]
            effective[k] = moved
        if np.abs(effective - before).max() < TOLERANCE * np.abs(effective).max():
            break
    by_gate = np.empty_like(gates.log_odds)
    by_gate[order] = log_odds
    return SpikeSlab(mean, free, root, gated, slab, spike, log_odds), gates.with_log_odds(by_gate)
