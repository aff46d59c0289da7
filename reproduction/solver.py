"""Exact linear support vector machines for many penalties at once, by an interior-point method.

LIBSVM slows down where classes overlap and the penalty is weak. Here a step costs one weighted gram for each penalty,
whatever the penalty is, and all penalties of a grid take their steps together (Ferris and Munson 2002 have the
factorisation for one).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from reproduction.data import Array

GAP = 1e-8
# Where rounding leaves no smaller gap, as may happen under the weakest penalties, this one will do.
LARGEST_GAP = 1e-6
LOST = 1e3
MOST_STEPS = 80
STAY_INSIDE = 0.995


@np.errstate(all="ignore")
def solve_path(X: Array, signs: Array, alphas: Array) -> tuple[Array, Array]:
    """Minimise Σ(1 − y f)₊ + α‖w‖² with f = Xw + b for each α: weights (k, d) and intercepts (k,).

    The dual is solved: 0 ≤ λ ≤ C = 1/(2α) with yᵀλ = 0 and w = Σ λ y x. Steps are Mehrotra's, predictor and corrector
    with one factorisation. A penalty is done when its duality gap is 1e-8 of its loss, or when rounding undoes what was
    reached, if that is 1e-6.
    """
    rows = signs[:, None] * np.column_stack([X, np.ones(len(X))])
    costs = 1.0 / (2.0 * np.asarray(alphas, dtype=np.float64))
    found, left = np.zeros((len(costs), rows.shape[1])), np.arange(len(costs))
    least = np.full(len(costs), np.inf)
    point = _Point.start(rows, signs, costs)
    for _ in range(MOST_STEPS):
        gap = point.gap()
        better = gap < least[left]
        found[left[better]], least[left[better]] = point.theta[better], gap[better]
        going = (least[left] > GAP) & ((least[left] > LARGEST_GAP) | (gap < LOST * least[left]))
        left, point = left[going], point.take(going)
        if not len(left):
            break
        try:
            point = point.step()
        except np.linalg.LinAlgError:  # rounding has lost a point: what was reached before counts
            break
    worst = int(least.argmax())
    if least[worst] > LARGEST_GAP:
        raise FloatingPointError(f"The support vector machine with α = {alphas[worst]:g} was not solved exactly.")
    return found[:, :-1], found[:, -1]


@final
@dataclass(frozen=True, eq=False)
class _Point:
    """Interior points of k problems: λ, the room C − λ above it, their multipliers z and v, and θ = (w, b)."""

    rows: Array
    costs: Array
    lam: Array
    room: Array  # kept for itself: the difference would lose its digits near C
    z: Array
    v: Array
    theta: Array

    @staticmethod
    def start(rows: Array, signs: Array, costs: Array) -> "_Point":
        """In the middle of the box, with yᵀλ = 0."""
        share = np.where(signs > 0, np.mean(signs < 0), np.mean(signs > 0))
        lam = costs[:, None] * share
        theta = lam @ rows
        theta[:, -1] = 0.0
        slack = theta @ rows.T - 1.0
        size = np.abs(slack).max(axis=1, keepdims=True) + 1.0
        room = costs[:, None] - lam
        return _Point(rows, costs, lam, room, np.maximum(slack, 0.0) + size, np.maximum(-slack, 0.0) + size, theta)

    def take(self, which: NDArray[np.bool_]) -> "_Point":
        """Only these problems."""
        if which.all():
            return self
        kept = (one[which] for one in (self.costs, self.lam, self.room, self.z, self.v, self.theta))
        return _Point(self.rows, *kept)

    def gap(self) -> Array:
        """Loss less its dual bound, as a share of the loss."""
        w = self.theta[:, :-1]
        ridge = 0.5 * np.einsum("kj,kj->k", w, w)
        loss = ridge + self.costs * np.maximum(1.0 - self.theta @ self.rows.T, 0.0).sum(axis=1)
        balance = np.abs(self.lam @ self.rows[:, -1]) / self.costs
        return np.maximum((loss - self.lam.sum(axis=1) + ridge) / loss, balance)

    def step(self) -> "_Point":
        """One predictor and one corrector, as far as they stay inside."""
        lam, room, z, v, rows = self.lam, self.room, self.z, self.v, self.rows
        k, n = lam.shape
        mu = ((lam * z).sum(axis=1) + (room * v).sum(axis=1)) / (2 * n)
        weights = 1.0 / (z / lam + v / room)
        hessian = (rows.T * weights[:, None, :]) @ rows
        diagonal = np.arange(rows.shape[1] - 1)
        hessian[:, diagonal, diagonal] += 1.0
        residual = 1.0 - self.theta @ rows.T + z - v
        # w = Σ λ y x holds at the start and along every step; yᵀλ = 0 is kept by the last equation.
        drift = self.lam @ rows
        drift[:, :-1] -= self.theta[:, :-1]

        def direction(at_z: Array, at_v: Array) -> tuple[Array, Array, Array, Array]:
            right = residual + (at_z / lam - z) - (at_v / room - v)
            pull = (weights * right) @ rows + drift
            d_theta: Array = np.linalg.solve(hessian, pull[:, :, None])[:, :, 0].astype(np.float64, copy=False)
            d_lam = weights * (right - d_theta @ rows.T)
            return d_lam, (at_z - z * d_lam) / lam - z, (at_v + v * d_lam) / room - v, d_theta

        zero = np.zeros((k, n))
        d_lam, d_z, d_v, _ = direction(zero, zero)
        a, b = _longest(lam, d_lam, room, -d_lam), _longest(z, d_z, v, d_v)
        ahead = ((lam + a * d_lam) * (z + b * d_z)).sum(axis=1) + ((room - a * d_lam) * (v + b * d_v)).sum(axis=1)
        centre = ((ahead / (2 * n * mu)) ** 3 * mu)[:, None]
        d_lam, d_z, d_v, d_theta = direction(centre - d_lam * d_z, centre + d_lam * d_v)
        t = STAY_INSIDE * np.minimum(_longest(lam, d_lam, room, -d_lam), _longest(z, d_z, v, d_v))
        lam, room, z, v = lam + t * d_lam, room - t * d_lam, z + t * d_z, v + t * d_v
        return _Point(rows, self.costs, lam, room, z, v, self.theta + t * d_theta)


def _longest(x: Array, dx: Array, y: Array, dy: Array) -> Array:
    """The longest step up to 1 that keeps both positive, for each problem."""
    shrink = np.maximum((-dx / x).max(axis=1), (-dy / y).max(axis=1))
    return np.minimum(1.0, 1.0 / np.maximum(shrink, 1e-300))[:, None]
