"""Whether probabilities hold: a smooth curve of observed shares with its band, and the slope of their log odds.

Both start from the predicted log odds x: the log odds of the class are x + a + b (x − x₀), so that a = b = 0 is a
prediction that holds. The curve has its own a and b near each x₀; the slope has one for all rows.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from vbsvm.base.arrays import Array

# Log odds beyond are as good as certain.
LARGEST = 12.0
# Rows with nearly the same log odds are counted together, in so many bins.
BINS = 512
POINTS = 81
# The curve leaves out this share of the rows at either end.
ENDS = 0.005
# Rows within about this many log odds are averaged, at the least.
NARROWEST = 0.4
# A weak prior of a and b, of standard deviation 2, keeps them finite where rows are few.
PRECISION = 0.25
NORMAL = 1.959964
STEPS = 30


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Predicted probabilities, the observed shares at them, and a 95 % band."""

    predicted: Array
    observed: Array
    lower: Array
    upper: Array


@final
@dataclass(frozen=True, slots=True)
class Slope:
    """Slope of the observed by the predicted log odds, 1 if they hold, with a 95 % interval."""

    value: float
    lower: float
    upper: float


def curve(chances: Array, positive: NDArray[np.bool_], weights: Array) -> Curve:
    """Local logistic regression on the log odds, with a Gaussian kernel."""
    x, total, hits = _counted(chances, positive, weights)
    ends = np.interp([ENDS, 1.0 - ENDS], (np.cumsum(total) - 0.5 * total) / total.sum(), x)
    at = np.linspace(ends[0], ends[1], POINTS) if ends[1] > ends[0] else ends[:1]
    centre = float(total @ x) / total.sum()
    sd = np.sqrt(float(total @ np.square(x - centre)) / total.sum())
    width = max(1.3 * sd * total.sum() ** -0.2, NARROWEST)
    apart = x - at[:, None]
    kernel = np.exp(-0.5 * np.square(apart / width))
    shift, se = _fitted(x, apart, kernel, total, hits)
    found = expit(at + shift + NORMAL * np.array([[0.0], [-1.0], [1.0]]) * se)
    return Curve(expit(at), *found)


def slope(chances: Array, positive: NDArray[np.bool_], weights: Array, groups: NDArray[np.intp] | None = None) -> Slope:
    """One logistic regression of all rows; with groups, these are the independent units of its interval."""
    x = _log_odds(chances)
    Z = np.column_stack([np.ones(len(x)), x])
    theta, prior = np.array([0.0, 1.0]), PRECISION * np.eye(2)
    for _ in range(STEPS):
        p = expit(Z @ theta)
        pull = Z.T @ (weights * (positive - p)) - prior @ (theta - [0.0, 1.0])
        step = np.linalg.solve((Z.T * (weights * p * (1.0 - p))) @ Z + prior, pull)
        theta = theta + np.clip(step, -2.0, 2.0)
    p = expit(Z @ theta)
    H = (Z.T * (weights * p * (1.0 - p))) @ Z + prior
    J = (Z.T * (weights * np.square(positive - p))) @ Z
    if groups is not None:
        scores = Z * (weights * (positive - p))[:, None]
        sums = np.stack([np.bincount(groups, column) for column in scores.T], axis=1)
        J = sums.T @ sums
    half = NORMAL * float(np.sqrt(np.linalg.solve(H, np.linalg.solve(H, J + prior).T)[1, 1]))
    return Slope(float(theta[1]), float(theta[1]) - half, float(theta[1]) + half)


def _log_odds(chances: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.clip(logit(chances), -LARGEST, LARGEST)


def _counted(chances: Array, positive: NDArray[np.bool_], weights: Array) -> tuple[Array, Array, Array]:
    """Log odds in bins, in order: their means, the rows in each, and those of the class."""
    x = _log_odds(chances)
    span = float(np.ptp(x)) or 1.0
    place = np.minimum(((x - x.min()) / span * BINS).astype(np.intp), BINS - 1)
    sums = np.stack([np.bincount(place, one, minlength=BINS) for one in (weights * x, weights, weights * positive)])
    x_sum, total, hits = sums.astype(np.float64)[:, sums[1] > 0]
    return x_sum / total, total, hits


def _fitted(x: Array, apart: Array, kernel: Array, total: Array, hits: Array) -> tuple[Array, Array]:
    """The shift a of the log odds at each point, by Newton steps, and its standard error."""
    a, b = np.zeros(len(apart)), np.zeros(len(apart))
    for _ in range(STEPS):
        p = expit(x + a[:, None] + b[:, None] * apart)
        pull = kernel * (hits - total * p)
        H = _moments(kernel * total * p * (1.0 - p), apart)
        step_a, step_b = _solve(H, pull.sum(axis=1) - PRECISION * a, (pull * apart).sum(axis=1) - PRECISION * b)
        a, b = a + np.clip(step_a, -2.0, 2.0), b + np.clip(step_b, -2.0, 2.0)
    p = expit(x + a[:, None] + b[:, None] * apart)
    information = total * p * (1.0 - p)
    H, J = _moments(kernel * information, apart), _moments(np.square(kernel) * information, apart)
    one, other = _solve(H, np.ones(len(a)), np.zeros(len(a)))  # the first row of H⁻¹
    return a, np.sqrt(J[0] * one * one + 2.0 * J[1] * one * other + J[2] * other * other)


def _moments(weights: Array, apart: Array) -> tuple[Array, Array, Array]:
    """Sums of 1, z and z², with the prior."""
    first, second = (weights * apart).sum(axis=1), (weights * np.square(apart)).sum(axis=1)
    return weights.sum(axis=1) + PRECISION, first, second + PRECISION


def _solve(H: tuple[Array, Array, Array], one: Array, other: Array) -> tuple[Array, Array]:
    determinant = H[0] * H[2] - np.square(H[1])
    return (H[2] * one - H[1] * other) / determinant, (H[0] * other - H[1] * one) / determinant
