"""The logistic likelihood 1/(1 + e^(−y f)): its exact expectation under a normal score, and an augmented bound.

The logistic curve is a mixture of eight normal ones, expit x = Σ p Φ(r x), to 2e−9 (Monahan & Stefanski 1992): so the
expected loss is one of the hinge (−y f)₊, for a score whose variance v is larger by 1/r². Where v is small, the
expectation is a series in v of derivatives of log expit, which are polynomials of the probability.

As a Gaussian scale mixture it has a Pólya-Gamma weight for each row. With optimal weights it is Jaakkola and
Jordan's bound; drawn, it is the sampler of Polson, Scott & Windle.
"""

import math
from dataclasses import dataclass
from functools import cache
from math import factorial
from typing import ClassVar, final

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import log_expit, ndtr

from vbsvm.base.arrays import Array, work_space
from vbsvm.base.polya_gamma import PolyaGamma, mean_weight
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.likelihoods.base import RowDerivatives, RowTerms, ScaleMixture

# Probability of each component, and one over its standard deviation r (Monahan & Stefanski 1992).
_COMPONENTS = (
    (0.003246343272134, 1.365340806296348),
    (0.051517477033972, 1.059523971016916),
    (0.195077912673858, 0.830791313765644),
    (0.315569823632818, 0.650732166639391),
    (0.274149576158423, 0.508135425366489),
    (0.131076880695470, 0.396313345166341),
    (0.027912418727972, 0.308904252267995),
    (0.001449567805354, 0.238212616409306),
)
PROBABILITIES, RATES = map(np.array, zip(*_COMPONENTS, strict=True))
SQUARES = (1.0 / (RATES * RATES))[:, None]
HEIGHTS = PROBABILITIES / math.sqrt(2 * math.pi)
# Rows of a block whose work space fits into a core's cache.
BLOCK_ROWS, MIXTURE_BLOCK_ROWS = 8192, 1024
# Number of terms of the series: largest variance at which it is accurate to 1e−9.
_MAX_VARIANCE = {3: 0.02, 5: 0.05, 8: 0.15}
NARROW = max(_MAX_VARIANCE.values())
# Beyond it sinh overflows.
MAX_SINH = 700.0
SMALL = 1e-6


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

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, mode: UpdateMode, *site: str | int) -> RowTerms:
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
        """Infinite: every row has a curvature, and rows far from the decision boundary may have the only one."""
        return np.inf

    def log_likelihood(self, margin: Array) -> Array:
        """Log expit(margin)."""
        return log_expit_pair(margin)[0]


EXACT_LOGISTIC = ExactLogistic()


def _expected(margin: Array, v: Array | float, first: int, end: int) -> Array:
    """E log expit(m + √v z) and its derivatives by m, from ``first`` (0 or 1) to before ``end``."""
    variances = v if isinstance(v, np.ndarray) and v.shape == margin.shape else np.broadcast_to(v, margin.shape)
    derivatives = np.empty((end - first, len(margin)))
    for begin in range(0, len(margin), BLOCK_ROWS):
        run = slice(begin, begin + BLOCK_ROWS)
        m, v = margin[run], variances[run]
        small = v <= NARROW
        if small.all():
            derivatives[:, run] = series(m, v, first, end)
        elif not small.any():
            derivatives[:, run] = mixture(m, v, end)[first:]
        else:
            derivatives[:, run][:, small] = series(m[small], v[small], first, end)
            derivatives[:, run][:, ~small] = mixture(m[~small], v[~small], end)[first:]
    return derivatives


def mixture(margin: Array, v: Array, end: int) -> Array:
    """The same from the 0th on, as sums over the components: m Φ(−a) − c φ(a) with c² = v + 1/r² and a = m/c."""
    derivatives = np.empty((end, len(margin)))
    for begin in range(0, len(margin), MIXTURE_BLOCK_ROWS):
        run = slice(begin, begin + MIXTURE_BLOCK_ROWS)
        c = np.sqrt(v[run] + SQUARES)
        a = margin[run] / c
        density = np.exp(-0.5 * a * a)
        derivatives[1, run] = PROBABILITIES @ ndtr(-a)
        derivatives[0, run] = margin[run] * derivatives[1, run] - HEIGHTS @ (c * density)
        if end > 2:
            density /= c
            derivatives[2, run] = -(HEIGHTS @ density)
        if end > 3:
            density /= c
            derivatives[3, run] = HEIGHTS @ (density * a)
            derivatives[4, run] = HEIGHTS @ (density / c * (1.0 - a * a))
    return derivatives


def log_mean_expit(score: Array, v: Array) -> Array:
    """Log E expit(x) for x ~ N(score, v).

    The mixture's tails are too light. Very negative scores are reflected by the exact E expit(x) = e^(score + v/2)
    E expit(x') with x' ~ N(−score − v, v).
    """
    tilted = score < -0.5 * v
    mean, total = np.where(tilted, -score - v, score), np.zeros(np.broadcast_shapes(score.shape, v.shape))
    for p, (square,) in zip(PROBABILITIES, SQUARES, strict=True):
        total += p * ndtr(mean / np.sqrt(v + square))
    return np.log(total) + np.where(tilted, 0.5 * v + score, 0.0)


def _polynomials(n: int) -> list[Polynomial]:
    """P and Q of the derivatives of log expit from the second on.

    With q = expit(−m), r = q(1 − q) and t = 1 − 2q, the first derivative of log expit is q. From the second on, those
    of even order are −r P(r) and those of odd order r t Q(r), with Q = (rP)′, and then P = (1 − 4r)(rQ)′ − 2rQ.
    """
    r, polynomials = Polynomial([0.0, 1.0]), [Polynomial([1.0])]
    while len(polynomials) < n:
        product = r * polynomials[-1]
        odd = len(polynomials) % 2
        polynomials.append(product.deriv() if odd else (1 - 4 * r) * product.deriv() - 2 * product)
    return polynomials


def _table(first: int, end: int, n_terms: int) -> Array:
    """Coefficients of powers of r, for each power of v/2 from the last on, and for these derivatives."""
    polynomials = _polynomials(end + 2 * n_terms)
    table = np.zeros((n_terms + 1, end - first, n_terms + (end - 1) // 2))
    for k in range(n_terms + 1):
        for order in range(max(first, 2 - 2 * k), end):
            numbers = np.asarray(polynomials[order + 2 * k - 2].coef, dtype=np.float64) / factorial(k)
            table[n_terms - k, order - first, : len(numbers)] = numbers
    return table


@cache
def _tables(first: int, end: int) -> list[tuple[float, Array]]:
    return [(max_variance, _table(first, end, n_terms)) for n_terms, max_variance in _MAX_VARIANCE.items()]


def log_expit_pair(margin: Array) -> tuple[Array, Array]:
    """Log expit(m) and expit(−m), from one exponential."""
    small, q = _opposite(margin)
    return np.minimum(margin, 0.0) - np.log1p(small), q


def _opposite(margin: Array) -> tuple[Array, Array]:
    """exp(−|m|) and expit(−m)."""
    small = np.exp(-np.abs(margin))
    return small, np.where(margin > 0.0, small, 1.0) / (1.0 + small)


def series(margin: Array, v: Array, first: int, end: int) -> Array:
    """The same for small variances, as series in v/2 of higher derivatives; at most the fourth derivative.

    The result is work space, which the next call in the same thread overwrites.
    """
    largest, tables = v.max(initial=0.0), _tables(first, end)
    table = next((table for max_variance, table in tables if largest <= max_variance), tables[-1][1])
    value, q = log_expit_pair(margin) if first == 0 else _opposite(margin)
    n_sums, n_powers = table.shape[0] * table.shape[1], table.shape[2]
    room = work_space((n_sums + n_powers) * len(margin)).reshape(-1, len(margin))
    powers = room[n_sums:]
    powers[0] = 1.0
    r = np.multiply(q, 1.0 - q, out=powers[1])
    for k in range(2, len(powers)):
        np.multiply(powers[k - 1], r, out=powers[k])
    np.matmul(table.reshape(n_sums, n_powers), powers, out=room[:n_sums])
    total, *lower = room[:n_sums].reshape(len(table), -1, len(margin))
    half = 0.5 * v
    for terms in lower:
        total *= half
        total += terms
    total *= r
    np.negative(total[first::2], out=total[first::2])
    total[1 - first :: 2] *= 1.0 - 2.0 * q
    total[1 - first] += q
    if first == 0:
        total[0] += value
    return total


@final
@dataclass(frozen=True, slots=True)
class Logistic(ScaleMixture):
    """Jaakkola and Jordan's bound: ℓ = log expit ξ + ½(y f − ξ), w = tanh(ξ/2)/(2ξ), u = ½y, with ξ² = f² + v."""

    name: ClassVar[str] = "logistic"
    normalised: ClassVar[bool] = True
    kink: ClassVar[float] = 0.0

    @property
    def slope(self) -> float:
        """½."""
        return 0.5

    @property
    def exact(self) -> ExactLogistic:
        """The exact expectation."""
        return EXACT_LOGISTIC

    def height(self, root: Array) -> Array:
        """Log expit ξ − ½ξ."""
        return log_expit(root) - 0.5 * root

    def latent(self, s: Array, root: Array) -> PolyaGamma:
        """The distribution of the Pólya-Gamma weights."""
        return PolyaGamma(s, root)

    def unit_weight(self, root: Array) -> Array:
        """tanh(ξ/2)/(2ξ)."""
        return mean_weight(root)

    def elasticity(self, root: Array) -> Array:
        """ξ/sinh ξ − 1."""
        return _x_over_sinh(root) - 1.0

    def curvature(self, w: Array, h: Array, v: Array, slack: Array) -> Array:
        """w(v + h² ξ/sinh ξ)/ξ²."""
        return w * ((v + h * h * _x_over_sinh(np.sqrt(slack))) / np.maximum(slack, np.finfo(np.float64).tiny))

    def width(self, v: Array) -> float:
        """Infinite: every row has a curvature, and rows far from the decision boundary may have the only one."""
        return np.inf


def _x_over_sinh(root: Array) -> Array:
    """ξ/sinh ξ, which is 1 at 0."""
    size = np.clip(root, SMALL, MAX_SINH)
    return size / np.sinh(size)


LOGISTIC = Logistic()
