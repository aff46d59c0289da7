"""Curves learned from a column: penalised splines, and transformations to normality.

Splines are cubic B-splines B with the penalty P = ∫ B″B″ᵀ, rotated so that their prior is independent and identical:
with P = U diag(d) Uᵀ the curve is a straight line plus Z u with Z = B U₊ d₊^(−½), and αᵀPα = ‖u‖², so that the penalty
of its bending is the ridge of u. (Wand & Ormerod 2008 call them O'Sullivan splines.)
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import ndtri
from scipy.stats import yeojohnson, yeojohnson_normmax

from vbsvm.base.arrays import Array

DEGREE = 3
MIN_DISTINCT = 4


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """Knots and rotation of a penalised spline; linear beyond the range of the data."""

    low: float
    width: float
    knots: Array
    rotation: Array

    @staticmethod
    def learn(x: Array, k: int) -> "Spline":
        """Place knots at quantiles of the distinct values: k − 4 inside, fewer for few distinct values."""
        distinct = np.unique(x)
        if len(distinct) < MIN_DISTINCT:
            raise ValueError(f"a spline needs at least {MIN_DISTINCT} distinct values; there are {len(distinct)}.")
        low, width = float(distinct[0]), float(distinct[-1] - distinct[0])
        n_inside = max(0, min(k, len(distinct)) - DEGREE - 1)
        inside = np.quantile((distinct - low) / width, np.linspace(0, 1, n_inside + 2)[1:-1])
        knots = np.concatenate([np.zeros(DEGREE + 1), inside, np.ones(DEGREE + 1)])
        # The constant and the line have no penalty; they are known exactly and projected out first, as rounding hides
        # them for very uneven knots.
        lines = np.stack([np.ones(len(knots) - DEGREE - 1), _greville(knots)], axis=1)
        rest = np.linalg.qr(lines, mode="complete").Q[:, 2:]
        _, bends, directions = np.linalg.svd(_bending_root(knots) @ rest, full_matrices=False)
        rotation = rest @ (directions.T / bends)
        curves = BSpline.design_matrix((distinct - low) / width, knots, DEGREE).toarray() @ rotation
        return Spline(low, width, knots, rotation / np.sqrt(np.square(curves).sum(axis=1).mean()))

    @property
    def n_columns(self) -> int:
        """Number of columns of the basis Z."""
        return self.rotation.shape[1]

    def encode(self, x: Array) -> Array:
        """Evaluate the basis Z."""
        t = (x - self.low) / self.width
        inside = np.clip(t, 0.0, 1.0)
        Z = BSpline.design_matrix(inside, self.knots, DEGREE).toarray() @ self.rotation
        if (outside := t != inside).any():
            ends = BSpline(self.knots, self.rotation, DEGREE).derivative()(inside[outside])
            with np.errstate(over="ignore"):  # who encodes looks for values that are not finite
                Z[outside] += (t - inside)[outside, None] * ends
        return Z


def _greville(knots: Array) -> Array:
    """Coefficients of the straight line in this basis (Greville abscissae)."""
    n_basis = len(knots) - DEGREE - 1
    return np.stack([knots[j + 1 : j + 1 + n_basis] for j in range(DEGREE)]).mean(axis=0)


def _bending_root(knots: Array) -> Array:
    """A square root of ∫ B″B″ᵀ, exact by Simpson's rule between knots."""
    n_basis = len(knots) - DEGREE - 1
    second = BSpline(knots, np.eye(n_basis), DEGREE).derivative(2)
    left, right = knots[DEGREE:-DEGREE][:-1], knots[DEGREE:-DEGREE][1:]
    # A knot belongs to the piece on its right; so each piece is evaluated inside its ends and extrapolated.
    points = np.stack([left + f * (right - left) for f in (0.25, 0.75)])
    at = second(points)
    ends = np.stack([1.5 * at[0] - 0.5 * at[1], 1.5 * at[1] - 0.5 * at[0]])
    middle = 0.5 * (at[0] + at[1])
    pieces = np.concatenate([ends[0], middle, ends[1]])
    weights = np.concatenate([right - left, 4 * (right - left), right - left]) / 6
    return np.sqrt(weights)[:, None] * pieces


NONE, POWER, RANK = TRANSFORMS = "none", "power", "rank"
# Maximum number of quantiles stored for ranks.
MAX_QUANTILES = 500
# Powers beyond these are due to a few extreme values.
MIN_POWER, MAX_POWER = -3.0, 5.0


@final
@dataclass(frozen=True, eq=False)
class NormalScale:
    """Monotone piecewise linear transformation to normality through ``points`` (values, normal scores).

    It is linear between the points and constant beyond them, so that draws stay within the range of the observed
    values.
    """

    points: Array

    @staticmethod
    def learn(values: Array, transform: str) -> "NormalScale":
        """Learn it from the observed values of a column."""
        distinct, counts = np.unique(values, return_counts=True)
        if transform == RANK:
            ranks = (np.cumsum(counts) - 0.5 * counts) / len(values)
            return NormalScale(np.stack([distinct, ndtri(ranks)])[:, _spread_out(len(distinct))])
        if transform == POWER and len(distinct) > 2:
            grid = distinct[_spread_out(len(distinct))]
            centre, spread = values.mean(), values.std()
            power = float(np.clip(yeojohnson_normmax((values - centre) / spread), MIN_POWER, MAX_POWER))
            return NormalScale(np.stack([grid, np.asarray(yeojohnson((grid - centre) / spread, power))]))
        ends = distinct[[0, -1]]
        return NormalScale(np.stack([ends, ends]))

    def to_normal(self, values: Array) -> Array:
        """Transform to the normal scale; NaN stays NaN."""
        return np.interp(values, *self.points)

    def from_normal(self, values: Array) -> Array:
        """Transform back to the column's scale."""
        return np.interp(values, self.points[1], self.points[0])

    @property
    def typical(self) -> float:
        """The median value."""
        return float(self.points[0, self.points.shape[1] // 2])


def _spread_out(n: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Up to ``MAX_QUANTILES`` evenly spaced indices below n, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(n, MAX_QUANTILES)).round().astype(np.intp))
