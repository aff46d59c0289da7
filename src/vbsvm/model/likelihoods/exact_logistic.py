"""The logistic likelihood itself: its exact expectation under a normal distribution of the score.

The logistic curve is a mixture of eight normal ones, expit x = Σ p Φ(r x), to 2e−9 (Monahan & Stefanski 1992): so the
expected loss is one of the hinge (−y f)₊, for a score whose variance v is larger by 1/r². Where v is small, the
expectation is a series in v of derivatives of log expit, which are polynomials of the probability.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import ndtr

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.model.likelihoods.averaged_logistic import AVERAGED_LOGISTIC, COMPONENTS
from vbsvm.model.likelihoods.base import Averages, RowDerivatives, RowTerms

# Up to this variance three terms of the series are right to 1e−9.
NARROW = 0.02

# From margins and variances to a few numbers of each row.
_Of = Callable[[Array, Array], tuple[Array, ...]]


@final
@dataclass(frozen=True, slots=True)
class ExactLogistic:
    """ℓ = s E log expit(y f) under a normal score."""

    name: ClassVar[str] = "logistic"
    normalised: ClassVar[bool] = True
    averages: ClassVar[Averages | None] = AVERAGED_LOGISTIC

    @property
    def exact(self) -> "ExactLogistic":
        """Itself."""
        return self

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, resolve: Reading, *site: str | int) -> RowTerms:
        """w = −∂²ℓ/∂f² and u = ∂ℓ/∂f + w f; the curvature is w."""
        value, slope, w = _by_width(_narrow_terms, _wide_terms, y * f, v)
        w *= s
        return RowTerms(value, s * y * slope + w * f, w, w)

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ, and ∂ℓ/∂f = s y E expit(−y f)."""
        value, slope = _by_width(_narrow_slopes, _wide_slopes, y * f, v)
        slope *= y
        slope *= s
        return value, slope

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """By the heat equation ℓ_fv is half the third derivative in f, and ℓ_vv a quarter of the fourth."""
        slope, second, third, fourth = _by_width(_narrow_derivatives, _wide_derivatives, y * f, v)
        return RowDerivatives(s * y * slope, s * second, 0.5 * s * y * third, 0.25 * s * fourth)

    def width(self, v: Array) -> float:
        """Infinite: every row has a curvature, and where all rows are far from the border it is all that there is."""
        return np.inf

    def at_point(self, margin: Array) -> Array:
        """Log expit(margin)."""
        return _curve(margin)[0]


EXACT_LOGISTIC = ExactLogistic()


def _by_width(narrow: _Of, wide: _Of, margin: Array, v: Array | float) -> tuple[Array, ...]:
    """What one function gives of rows with small variances, and another of all others; whole tables are mostly one."""
    v = np.broadcast_to(v, margin.shape)
    small = v <= NARROW
    if small.all():
        return narrow(margin, v)
    if not small.any():
        return wide(margin, v)
    found = narrow(margin[small], v[small])
    of_all = tuple(np.empty_like(margin) for _ in found)
    for rows, values in ((small, found), (~small, wide(margin[~small], v[~small]))):
        for whole, one in zip(of_all, values, strict=True):
            whole[rows] = one
    return of_all


def _curve(margin: Array) -> tuple[Array, Array]:
    """Log expit(m) and expit(−m), by one exponential."""
    small = np.exp(-np.abs(margin))
    return np.minimum(margin, 0.0) - np.log1p(small), np.where(margin > 0.0, small, 1.0) / (1.0 + small)


def _narrow_slopes(margin: Array, v: Array) -> tuple[Array, Array]:
    """ℓ and its slope by the series, with q = expit(−m), r = q(1 − q) and t = 1 − 2q."""
    value, q = _curve(margin)
    r, t = q * (1.0 - q), 1.0 - 2.0 * q
    sixth = r * (30.0 * r - 120.0 * r * r - 1.0)
    value += v * (-0.5 * r + v * (0.125 * r * (6.0 * r - 1.0) + v * (sixth / 48.0)))
    seventh = r * t * (1.0 - 60.0 * r + 360.0 * r * r)
    q += v * (0.5 * r * t + v * (0.125 * r * t * (1.0 - 12.0 * r) + v * (seventh / 48.0)))
    return value, q


def _narrow_terms(margin: Array, v: Array) -> tuple[Array, Array, Array]:
    _, q = _curve(margin)
    r = q * (1.0 - q)
    sixth = 1.0 - 126.0 * r + 1680.0 * r * r - 5040.0 * r * r * r
    w = r * (1.0 + v * (0.5 * (1.0 - 6.0 * r) + v * (0.125 * (1.0 - 30.0 * r + 120.0 * r * r) + v * (sixth / 48.0))))
    return (*_narrow_slopes(margin, v), w)


def _narrow_derivatives(margin: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    _, slope, w = _narrow_terms(margin, v)
    _, q = _curve(margin)
    r, t = q * (1.0 - q), 1.0 - 2.0 * q
    third = r * t * (1.0 + v * (0.5 * (1.0 - 12.0 * r) + v * (0.125 * (1.0 - 60.0 * r + 360.0 * r * r))))
    fourth = r * (6.0 * r - 1.0 + 0.5 * v * (30.0 * r - 120.0 * r * r - 1.0))
    return slope, -w, third, fourth


def _wide_slopes(margin: Array, v: Array) -> tuple[Array, Array]:
    """Sums over the components: m Φ(−a) − c φ(a) with c² = v + 1/r² and a = m/c."""
    value, slope = np.zeros_like(margin), np.zeros_like(margin)
    for p, square in COMPONENTS:
        c = np.sqrt(v + square)
        a = margin / c
        below = p * ndtr(-a)
        slope += below
        value += margin * below
        value -= c * _density(p, a)
    return value, slope


def _wide_terms(margin: Array, v: Array) -> tuple[Array, Array, Array]:
    value, slope, w = np.zeros_like(margin), np.zeros_like(margin), np.zeros_like(margin)
    for p, square in COMPONENTS:
        c = np.sqrt(v + square)
        a = margin / c
        below, density = p * ndtr(-a), _density(p, a)
        slope += below
        value += margin * below
        value -= c * density
        w += density / c
    return value, slope, w


def _wide_derivatives(margin: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    slope, second, third, fourth = (np.zeros_like(margin) for _ in range(4))
    for p, square in COMPONENTS:
        c = np.sqrt(v + square)
        a = margin / c
        density = _density(p, a) / c
        slope += p * ndtr(-a)
        second -= density
        third += density * (a / c)
        fourth += density * (1.0 - a * a) / (c * c)
    return slope, second, third, fourth


def _density(p: float, a: Array) -> Array:
    return (p / math.sqrt(2 * math.pi)) * np.exp(-0.5 * a * a)
