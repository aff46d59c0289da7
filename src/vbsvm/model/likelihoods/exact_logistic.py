"""The logistic likelihood itself: its exact expectation under a normal distribution of the score.

The logistic curve is a mixture of eight normal ones, expit x = Σ p Φ(r x), to 2e−9 (Monahan & Stefanski 1992): so the
expected loss is one of the hinge (−y f)₊, for a score whose variance v is larger by 1/r². Where v is small, the
expectation is a series in v of derivatives of log expit, which are polynomials of the probability.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import ndtr

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.model.likelihoods.base import RowDerivatives, RowTerms
from vbsvm.model.likelihoods.logistic_series import NARROW, curve, series

# Probabilities of the components, and their standard deviations one over r (Monahan & Stefanski 1992).
PROBABILITIES = np.array(
    [
        0.003246343272134,
        0.051517477033972,
        0.195077912673858,
        0.315569823632818,
        0.274149576158423,
        0.131076880695470,
        0.027912418727972,
        0.001449567805354,
    ]
)
RATES = np.array(
    [
        1.365340806296348,
        1.059523971016916,
        0.830791313765644,
        0.650732166639391,
        0.508135425366489,
        0.396313345166341,
        0.308904252267995,
        0.238212616409306,
    ]
)
SQUARES = (1.0 / (RATES * RATES))[:, None]
HEIGHTS = PROBABILITIES / math.sqrt(2 * math.pi)
# Rows that are computed together: what they need stays in a core's cache, and memory is not asked for anew.
AT_ONCE, WIDE_AT_ONCE = 8192, 1024


@final
@dataclass(frozen=True, slots=True)
class ExactLogistic:
    """ℓ = s E log expit(y f) under a normal score."""

    name: ClassVar[str] = "logistic"
    normalised: ClassVar[bool] = True

    @property
    def exact(self) -> "ExactLogistic":
        """Itself."""
        return self

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, resolve: Reading, *site: str | int) -> RowTerms:
        """w = −∂²ℓ/∂f² and u = ∂ℓ/∂f + w f; the curvature is w."""
        value, slope, second = _expected(y * f, v, 0, 3)
        w = -s * second
        return RowTerms(value, s * y * slope + w * f, w, w)

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ, and ∂ℓ/∂f = s y E expit(−y f)."""
        value, slope = _expected(y * f, v, 0, 2)
        slope *= y
        slope *= s
        return value, slope

    def slope(self, f: Array, v: Array, y: Array, s: Array) -> Array:
        """∂ℓ/∂f alone."""
        (slope,) = _expected(y * f, v, 1, 2)
        slope *= y
        slope *= s
        return slope

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """By the heat equation ℓ_fv is half the third derivative in f, and ℓ_vv a quarter of the fourth."""
        slope, second, third, fourth = _expected(y * f, v, 1, 5)
        return RowDerivatives(s * y * slope, s * second, 0.5 * s * y * third, 0.25 * s * fourth)

    def width(self, v: Array) -> float:
        """Infinite: every row has a curvature, and where all rows are far from the border it is all that there is."""
        return np.inf

    def at_point(self, margin: Array) -> Array:
        """Log expit(margin)."""
        return curve(margin)[0]


EXACT_LOGISTIC = ExactLogistic()


def _expected(margin: Array, v: Array | float, first: int, end: int) -> Array:
    """E log expit(m + √v z) and its derivatives by m, from ``first`` (0 or 1) to before ``end``."""
    variances = v if isinstance(v, np.ndarray) and v.shape == margin.shape else np.broadcast_to(v, margin.shape)
    found = np.empty((end - first, len(margin)))
    for begin in range(0, len(margin), AT_ONCE):
        run = slice(begin, begin + AT_ONCE)
        m, v = margin[run], variances[run]
        small = v <= NARROW
        if small.all():
            found[:, run] = series(m, v, first, end)
        elif not small.any():
            found[:, run] = mixture(m, v, end)[first:]
        else:
            found[:, run][:, small] = series(m[small], v[small], first, end)
            found[:, run][:, ~small] = mixture(m[~small], v[~small], end)[first:]
    return found


def mixture(margin: Array, v: Array, end: int) -> Array:
    """The same from the 0th on, as sums over the components: m Φ(−a) − c φ(a) with c² = v + 1/r² and a = m/c."""
    found = np.empty((end, len(margin)))
    for begin in range(0, len(margin), WIDE_AT_ONCE):
        run = slice(begin, begin + WIDE_AT_ONCE)
        c = np.sqrt(v[run] + SQUARES)
        a = margin[run] / c
        density = np.exp(-0.5 * a * a)
        found[1, run] = PROBABILITIES @ ndtr(-a)
        found[0, run] = margin[run] * found[1, run] - HEIGHTS @ (c * density)
        if end > 2:
            density /= c
            found[2, run] = -(HEIGHTS @ density)
        if end > 3:
            density /= c
            found[3, run] = HEIGHTS @ (density * a)
            found[4, run] = HEIGHTS @ (density / c * (1.0 - a * a))
    return found


def log_mean_expit(score: Array, v: Array) -> Array:
    """Log E expit(x) for x ~ N(score, v).

    Far out the mixture's tails are too light. There the other side takes its place: E expit(x) = e^(score + v/2)
    E expit(x') with x' ~ N(−score − v, v), which is exact.
    """
    tilted = score < -0.5 * v
    at, total = np.where(tilted, -score - v, score), np.zeros(np.broadcast_shapes(score.shape, v.shape))
    for p, (square,) in zip(PROBABILITIES, SQUARES, strict=True):
        total += p * ndtr(at / np.sqrt(v + square))
    return np.log(total) + np.where(tilted, 0.5 * v + score, 0.0)
