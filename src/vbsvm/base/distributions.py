"""Distributions of variances, covariance matrices and rows' latent scales; and a joint normal distribution.

A full conditional is a distribution. Variational Bayes keeps it and uses its moments; Gibbs draws from it and keeps a
``Point``, a degenerate distribution. Both have the same interface, so updates are the same for both.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import digamma, gammainccinv, polygamma

from vbsvm.base.arrays import Array, cholesky

# Number of points of the interpolated density, the drop of its log at which it is cut off, and the minimal slope of the
# log density beyond the tabulated values.
N_POINTS, MAX_DROP, MIN_SLOPE = 2001, 25.0, 0.5
# Averages over a scale are taken at these quantiles, with equal weights.
MIDPOINTS = (np.arange(9) + 0.5) / 9


class ScaleDistribution(Protocol):
    """Distribution of a block's variance or covariance matrix."""

    @property
    def inverse_mean(self) -> Any:
        """E[1/x], or the mean of the inverse matrix."""
        ...

    def values_at(self, chances: Array) -> Array:
        """Quantiles of a variance, or covariance matrices x such that zᵀxz is a quantile for every z: k × q × q.

        Averages are taken over these and never at E[x], which is infinite or very large with few groups.
        """
        ...

    def pack(self) -> list[float]:
        """Unconstrained parameters that determine the distribution within its family."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """The member of this distribution's family with these parameters: inverse of ``pack``."""
        ...


class FixedParameters:
    """Mixin of a distribution without free parameters: optimisation steps leave it as it is."""

    __slots__ = ()

    def pack(self) -> list[float]:
        """No parameters."""
        return []

    def unpack(self, numbers: Array) -> Self:
        """Return itself."""
        return self


@final
@dataclass(frozen=True, slots=True)
class Point(FixedParameters):
    """Degenerate distribution at a known or drawn value."""

    value: float

    @property
    def inverse_mean(self) -> float:
        """E[1/x] = 1/x."""
        return 1.0 / self.value

    def values_at(self, chances: Array) -> Array:
        """The value for each probability."""
        return np.full((len(chances), 1, 1), self.value)

    def draw(self, rng: np.random.Generator) -> Self:
        """Return itself."""
        return self


@final
@dataclass(frozen=True, slots=True)
class InverseGamma:
    """IG(shape, rate), density proportional to x^(−shape−1) exp(−rate/x)."""

    shape: float
    rate: float

    @property
    def inverse_mean(self) -> float:
        """E[1/x]."""
        return self.shape / self.rate

    def values_at(self, chances: Array) -> Array:
        """Quantiles."""
        return (self.rate / gammainccinv(self.shape, chances))[:, None, None]

    def density(self, x: Array) -> Array:
        """Density at x."""
        a, b, positive = self.shape, self.rate, np.maximum(x, 1e-300)
        logs = a * math.log(b) - math.lgamma(a) - (a + 1) * np.log(positive) - b / positive
        return np.exp(logs)

    @property
    def log_sd(self) -> float:
        """Standard deviation of log x."""
        return math.sqrt(float(polygamma(1, self.shape)))

    def draw(self, rng: np.random.Generator) -> Point:
        """Draw x as rate over a Gamma(shape, 1) variable."""
        return Point(self.rate / rng.gamma(self.shape))

    def pack(self) -> list[float]:
        """The log of the rate; the shape is fixed."""
        return [math.log(self.rate)]

    def unpack(self, numbers: Array) -> "InverseGamma":
        """The distribution with this log rate, clipped to the range of floating point."""
        return InverseGamma(self.shape, math.exp(min(max(numbers[0], -600.0), 600.0)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatrixPoint(FixedParameters):
    """Degenerate distribution at a covariance matrix."""

    value: Array

    @property
    def inverse_mean(self) -> Array:
        """The inverse."""
        return np.asarray(np.linalg.inv(self.value), dtype=np.float64)

    def values_at(self, chances: Array) -> Array:
        """The matrix for each probability."""
        return np.broadcast_to(self.value, (len(chances), *self.value.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScaleDraws(FixedParameters):
    """A sampler's draws of a variance or covariance matrix, draws × q × q."""

    values: Array

    @property
    def inverse_mean(self) -> Any:
        """The inverse of the draws averaged over quantiles, which is robust to both tails."""
        inverse = np.linalg.inv(self.values_at(MIDPOINTS).mean(axis=0))
        return inverse if len(inverse) > 1 else float(inverse[0, 0])

    def values_at(self, chances: Array) -> Array:
        """The draws whose traces are these quantiles."""
        order = np.argsort(np.trace(self.values, axis1=1, axis2=2), kind="stable")
        ranks = np.minimum((chances * len(order)).astype(np.intp), len(order) - 1)
        return self.values[order[ranks]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class InverseWishart:
    """IW(scale, degrees) of q × q matrices, density proportional to |x|^(−(degrees+q+1)/2) exp{−½tr(scale x⁻¹)}."""

    scale: Array
    degrees: float

    @property
    def inverse_mean(self) -> Array:
        """E[x⁻¹]."""
        return np.asarray(self.degrees * np.linalg.inv(self.scale), dtype=np.float64)

    def values_at(self, chances: Array) -> Array:
        """Multiples of the scale: zᵀxz is inverse gamma with shape (degrees − q + 1)/2 and rate ½zᵀ scale z."""
        multiples = 0.5 / gammainccinv(0.5 * (self.degrees - len(self.scale) + 1), chances)
        return multiples[:, None, None] * self.scale

    def draw(self, rng: np.random.Generator) -> MatrixPoint:
        """Draw x = L A⁻ᵀA⁻¹ Lᵀ with scale = L Lᵀ and Bartlett's triangular A, for which A Aᵀ is Wishart."""
        q = len(self.scale)
        A = np.tril(rng.standard_normal((q, q)), -1)
        A[np.diag_indices(q)] = np.sqrt(rng.chisquare(self.degrees - np.arange(q)))
        half = np.linalg.cholesky(self.scale) @ np.linalg.inv(A).T
        return MatrixPoint(half @ half.T)

    def pack(self) -> list[float]:
        """The Cholesky factor of the scale with log diagonal; the degrees of freedom are fixed."""
        lower = np.linalg.cholesky(self.scale)
        lower[np.diag_indices(len(lower))] = np.log(lower.diagonal())
        return list(lower[np.tril_indices(len(lower))])

    def unpack(self, numbers: Array) -> "InverseWishart":
        """The distribution with this Cholesky factor, clipped to the range of floating point."""
        lower = np.zeros_like(self.scale)
        lower[np.tril_indices(len(lower))] = numbers
        lower[np.diag_indices(len(lower))] = np.exp(np.clip(lower.diagonal(), -300.0, 300.0))
        return InverseWishart(lower @ lower.T, self.degrees)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatentPoint:
    """Drawn latent scales a, one for each row of weight s."""

    s: Array
    value: Array

    @property
    def weight(self) -> Array:
        """w = s²/a."""
        return self.s * (self.s / self.value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Latent:
    """GIG(½, 1, s²χ), one for each row of weight s and slack χ = root²: the distribution of the latent scales a.

    The reciprocal 1/a is inverse Gaussian with mean 1/(s root) and shape 1.
    """

    s: Array
    root: Array

    @property
    def weight(self) -> Array:
        """w = s² E[1/a] = s/root."""
        return self.s / self.root

    def draw(self, rng: np.random.Generator) -> LatentPoint:
        """Draw a itself: the mean of 1/a is unbounded, and NumPy's ``wald`` is not exact there."""
        H = self.s * self.root
        half = 0.5 * np.square(rng.standard_normal(H.shape))
        larger = H + half + np.sqrt(half * (H + H + half))
        take_larger = rng.random(H.shape) * (larger + H) < larger
        return LatentPoint(self.s, np.where(take_larger, larger, H * (H / larger)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class TabulatedVariance(FixedParameters):
    """log p(λ) up to a constant at increasing λ = log σ; a cubic spline between them, straight lines beyond."""

    log_sds: Array
    log_densities: Array

    @property
    def inverse_mean(self) -> float:
        """E[1/σ²] of the inverse gamma distribution with the same moments of log σ²: the exact one may be infinite."""
        return self.matched.inverse_mean

    @property
    def matched(self) -> InverseGamma:
        """The inverse gamma distribution with the same mean and variance of log σ²."""
        lam, mass = self.grid
        mean = float(mass @ lam)
        variance = 4.0 * float(mass @ np.square(lam - mean))
        shape = 1.0 / variance + 0.5
        for _ in range(50):
            error = float(polygamma(1, shape)) - variance
            shape = max(shape - error / float(polygamma(2, shape)), 0.1 * shape)
            if abs(error) < 1e-12 * variance:
                break
        return InverseGamma(shape, math.exp(2.0 * mean + float(digamma(shape))))

    def values_at(self, chances: Array) -> Array:
        """Quantiles of σ²."""
        return np.square(self.quantiles(chances))[:, None, None]

    def quantiles(self, chances: Array) -> Array:
        """Quantiles of σ."""
        lam, mass = self.grid
        return np.exp(np.interp(chances, np.cumsum(mass) - 0.5 * mass, lam))

    def density(self, variance: Array) -> Array:
        """Density of σ², which is p(λ)/(2σ²)."""
        lam, mass = self.grid
        with np.errstate(divide="ignore"):
            density = np.interp(0.5 * np.log(variance), lam, mass, left=0.0, right=0.0) / (lam[1] - lam[0])
        return np.divide(density, 2.0 * variance, out=np.zeros_like(density), where=density > 0)

    def highest_density(self, level: float) -> tuple[float, float]:
        """Highest-density interval of σ; its lower end is 0 if the density of σ is high there."""
        lam, mass = self.grid
        order = np.argsort(lam - np.log(np.maximum(mass, 1e-300)), kind="stable")  # the density of σ is p(λ)/σ
        inside = order[: int(np.searchsorted(np.cumsum(mass[order]), level)) + 1]
        low, high = int(inside.min()), int(inside.max())
        return 0.0 if low == 0 else math.exp(lam[low]), math.exp(lam[high])

    @property
    def grid(self) -> tuple[Array, Array]:
        """Evenly spaced grid of λ, and its probabilities."""
        return _grid(tuple(self.log_sds), tuple(self.log_densities))

    def scaled(self, unit: float) -> "TabulatedVariance":
        """The distribution of unit² σ²."""
        return TabulatedVariance(self.log_sds + math.log(unit), self.log_densities)


@lru_cache(maxsize=64)
def _grid(log_sds: tuple[float, ...], log_densities: tuple[float, ...]) -> tuple[Array, Array]:
    """Grid of λ over the range where the density is not negligible, and its probabilities."""
    from scipy.interpolate import CubicSpline

    lam, logs = np.array(log_sds), np.array(log_densities) - max(log_densities)
    spline = CubicSpline(lam, logs)
    rise, fall = max(float(spline(lam[0], 1)), MIN_SLOPE), min(float(spline(lam[-1], 1)), -MIN_SLOPE)
    first, last = lam[0] - max(MAX_DROP + logs[0], 0.0) / rise, lam[-1] - max(MAX_DROP + logs[-1], 0.0) / fall
    points = np.linspace(first, last, N_POINTS)
    beyond = rise * np.minimum(points - lam[0], 0.0) + fall * np.maximum(points - lam[-1], 0.0)
    mass = np.exp(spline(np.clip(points, lam[0], lam[-1])) + beyond)
    return points, mass / mass.sum()


@final
@dataclass(frozen=True, eq=False)
class Conditional:
    """Conditional normal distribution of some variables of some rows: the mean of each, a root of the covariance."""

    rows: NDArray[np.intp]
    variables: NDArray[np.intp]
    mean: Array
    root: Array

    def log_density(self, values: Array) -> Array:
        """Log density of values, (… ×) rows × variables, up to a constant."""
        standardised = np.linalg.solve(self.root, np.swapaxes(values - self.mean, -1, -2))
        return -0.5 * np.square(standardised).sum(axis=-2) - float(np.log(self.root.diagonal()).sum())


@final
@dataclass(frozen=True, eq=False)
class JointNormal:
    """Multivariate normal distribution."""

    mean: Array
    covariance: Array

    def draw_parameters(self, n: float, rng: np.random.Generator) -> "JointNormal":
        """Posterior draw of the parameters, which were estimated from ``n`` rows."""
        covariance = InverseWishart(n * self.covariance, n + len(self.mean) + 1).draw(rng).value
        return JointNormal(self.mean + cholesky(covariance / n) @ rng.standard_normal(len(self.mean)), covariance)

    def conditionals(self, x: Array, missing: NDArray[np.bool_], first: int) -> Iterator[Conditional]:
        """Conditionals of missing variables (from the ``first`` on) given the observed ones, by missingness pattern."""
        patterns, of_row = np.unique(missing, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            absent = first + np.flatnonzero(pattern[first:])
            if not len(absent):
                continue
            rows, observed = np.flatnonzero(of_row.ravel() == k), np.flatnonzero(~pattern)
            mean, covariance = self.mean[absent], self.covariance[np.ix_(absent, absent)]
            if len(observed):
                across = self.covariance[np.ix_(observed, absent)]
                slopes = cho_solve(cho_factor(self.covariance[np.ix_(observed, observed)]), across)
                mean = mean + (x[np.ix_(rows, observed)] - self.mean[observed]) @ slopes
                covariance = covariance - across.T @ slopes
            yield Conditional(rows, absent, np.broadcast_to(mean, (len(rows), len(absent))), cholesky(covariance))
