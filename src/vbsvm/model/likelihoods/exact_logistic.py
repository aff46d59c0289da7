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
from vbsvm.model.likelihoods.logistic_series import NARROW, curve, series

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
        """4: the curvature is at most a quarter, wherever a row lies."""
        return 4.0

    def at_point(self, margin: Array) -> Array:
        """Log expit(margin)."""
        return curve(margin)[0]


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


def _narrow_slopes(margin: Array, v: Array) -> tuple[Array, ...]:
    value, slope = series(margin, v, 2)
    return value, slope


def _narrow_terms(margin: Array, v: Array) -> tuple[Array, ...]:
    value, slope, second = series(margin, v, 3)
    return value, slope, -second


def _narrow_derivatives(margin: Array, v: Array) -> tuple[Array, ...]:
    _, *found = series(margin, v, 5)
    return tuple(found)


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
