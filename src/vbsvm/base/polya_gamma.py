"""The Pólya-Gamma distribution: the latent scales of a logistic likelihood (Polson, Scott & Windle 2013).

PG(s, z) is the sum of Γ(s, 1)/{2π²((k − ½)² + z²/(4π²))} over k = 1, 2, …; its mean is s tanh(z/2)/(2z). A row of
weight s whose score has the second moment z² has a weight drawn from PG(s, z) in the gram.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr

from vbsvm.base.arrays import Array

# PG(1, z) is a quarter of Devroye's J*(1, z/2). Below the first figure its density is bounded by that of an inverse
# Gaussian, above it by that of an exponential variable.
SPLIT = 0.64
# Below it tanh(z/2)/(2z) is ¼ to rounding.
SMALL = 1e-4
# Integer weights up to this are sums of draws of PG(1, z); the remainder of a weight is drawn from its series.
MAX_WHOLE = 16
# Terms of the series that are drawn one by one; the remaining sum is drawn with matched mean and variance.
TERMS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class PolyaGammaPoint:
    """Drawn weight of each row."""

    weight: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class PolyaGamma:
    """PG(s, z) for each row of weight s whose score has the root mean square z ≥ 0."""

    s: Array
    z: Array

    @property
    def weight(self) -> Array:
        """The mean, s tanh(z/2)/(2z)."""
        return self.s * mean_weight(self.z)

    def draw(self, rng: np.random.Generator) -> PolyaGammaPoint:
        """Draw each weight: exactly for the integer part of s, and by a series for the remainder."""
        s, z = np.broadcast_arrays(self.s, self.z)
        whole = np.where(s <= MAX_WHOLE, np.floor(s), 0.0).astype(np.intp)
        weights = np.zeros(z.shape)
        if (whole == 1).all():
            weights += draw_unit_shape(z, rng)
        elif whole.any():
            row = np.repeat(np.arange(len(z)), whole)
            weights += np.bincount(row, draw_unit_shape(z[row], rng), minlength=len(z))
        remainder = s - whole.astype(np.float64)
        if (fractional := remainder > 0).any():
            weights[fractional] += _draw_by_series(remainder[fractional], z[fractional], rng)
        return PolyaGammaPoint(weights)


def mean_weight(z: Array) -> Array:
    """tanh(z/2)/(2z), which is ¼ at 0."""
    size = np.maximum(z, SMALL)
    return np.tanh(0.5 * size) / (2.0 * size)


def draw_unit_shape(z: Array, rng: np.random.Generator) -> Array:
    """Draw PG(1, z) by Devroye's alternating-series rejection sampler."""
    half = 0.5 * np.abs(z)
    draws, pending = np.empty(len(half)), np.arange(len(half))
    while len(pending):
        proposal = _propose(half[pending], rng)
        accepted = _accept(proposal, rng)
        draws[pending[accepted]] = 0.25 * proposal[accepted]
        pending = pending[~accepted]
    return draws


def _propose(z: Array, rng: np.random.Generator) -> Array:
    """Draw from the envelope of J*(1, z): an inverse Gaussian truncated at the split, or an exponential above it."""
    rate = 0.125 * np.pi**2 + 0.5 * z * z
    with np.errstate(over="ignore"):
        beyond = np.pi / (2.0 * rate) * np.exp(-rate * SPLIT)
        root = np.sqrt(1.0 / SPLIT)
        tail = np.exp(2.0 * z + log_ndtr(-root * (SPLIT * z + 1.0)))
        below = 2.0 * np.exp(-z) * (ndtr(root * (SPLIT * z - 1.0)) + tail)  # P(X < split) of the mean 1/z and shape 1
    exponential = rng.random(len(z)) * (beyond + below) < beyond
    proposals = np.empty(len(z))
    proposals[exponential] = SPLIT + rng.standard_exponential(int(exponential.sum())) / rate[exponential]
    proposals[~exponential] = _draw_truncated_inverse_gaussian(z[~exponential], rng)
    return proposals


def _draw_truncated_inverse_gaussian(z: Array, rng: np.random.Generator) -> Array:
    """Draw an inverse Gaussian of mean 1/z and shape 1, truncated to below the split, by rejection."""
    draws, pending = np.empty(len(z)), np.arange(len(z))
    while len(pending):
        pending_z = z[pending]
        x, accepted = np.empty(len(pending_z)), np.zeros(len(pending_z), dtype=bool)
        long = pending_z < 1.0 / SPLIT  # the mean is beyond the split: of 1/χ² below it, by exp(−z²x/2)
        if long.any():
            x[long] = _draw_truncated_reciprocal(int(long.sum()), rng)
            accepted[long] = rng.random(int(long.sum())) < np.exp(-0.5 * np.square(pending_z[long]) * x[long])
        if (short := ~long).any():
            mean = 1.0 / pending_z[short]
            square = np.square(rng.standard_normal(len(mean)))
            product = mean * square
            small = mean + 0.5 * mean * (product - np.sqrt(4.0 * product + product * product))
            small = np.maximum(small, np.finfo(np.float64).tiny)
            switch = rng.random(len(mean)) > mean / (mean + small)
            x[short] = np.where(switch, mean * (mean / small), small)
            accepted[short] = x[short] < SPLIT
        draws[pending[accepted]] = x[accepted]
        pending = pending[~accepted]
    return draws


def _draw_truncated_reciprocal(n: int, rng: np.random.Generator) -> Array:
    """Draw 1/χ²₁ truncated to below the split, from pairs of exponential variables (Devroye)."""
    draws, pending = np.empty(n), np.arange(n)
    while len(pending):
        first, second = rng.standard_exponential((2, len(pending)))
        accepted = np.square(first) <= 2.0 * second / SPLIT
        draws[pending[accepted]] = SPLIT / np.square(1.0 + SPLIT * first[accepted])
        pending = pending[~accepted]
    return draws


def _accept(x: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether proposals are accepted, by alternating partial sums that bound the density from both sides."""
    first = _coefficient(0, x)
    level, total = rng.random(len(x)) * first, first
    accepted, pending = np.zeros(len(x), dtype=bool), np.arange(len(x))
    n = 0
    while len(pending):
        n += 1
        term = _coefficient(n, x[pending])
        total = total - term if n % 2 else total + term
        decided = level[pending] <= total if n % 2 else level[pending] > total
        accepted[pending[decided]] = bool(n % 2)
        pending, total = pending[~decided], total[~decided]
    return accepted


def _coefficient(n: int, x: Array) -> Array:
    """The n-th term of the density of J*(1, 0), in the form that converges on its side of the split."""
    k = n + 0.5
    small = x <= SPLIT
    with np.errstate(over="ignore", under="ignore"):
        size = np.where(small, np.maximum(x, 1e-300), 1.0)
        short = np.exp(np.log(np.pi * k) + 1.5 * np.log(2.0 / (np.pi * size)) - 2.0 * k * k / size)
        return np.where(small, short, np.pi * k * np.exp(-0.5 * (k * np.pi) ** 2 * x))


def _draw_by_series(s: Array, z: Array, rng: np.random.Generator) -> Array:
    """Draw PG(s, z) term by term; the remainder is a gamma variable with matched mean and variance."""
    lift = np.square(z / (2.0 * np.pi))
    draws, (mean, variance) = np.zeros(len(z)), _moments(z)
    for k in range(TERMS):
        scale = 1.0 / (2.0 * np.pi**2 * ((k + 0.5) ** 2 + lift))
        draws += scale * rng.standard_gamma(s)
        mean, variance = mean - scale, variance - scale * scale
    mean, variance = s * np.maximum(mean, 1e-300), s * np.maximum(variance, 1e-300)
    return draws + rng.standard_gamma(mean * (mean / variance)) * (variance / mean)


def _moments(z: Array) -> tuple[Array, Array]:
    """Mean and variance of PG(1, z); near 0 by a series, which avoids cancellation."""
    size = np.maximum(z, 0.05)
    tanh, cosh = np.tanh(0.5 * size), expit(size) * expit(-size)  # the second is 1/(4 cosh²(z/2))
    variance = (2.0 * tanh - 4.0 * size * cosh) / (4.0 * size**3)
    near = 1.0 / 24.0 - np.square(z) / 120.0 + 17.0 * z**4 / 13440.0
    return mean_weight(z), np.where(z < 0.05, near, variance)
