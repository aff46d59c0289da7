"""A variance σ² of which the density is known at some values, as quadrature over log σ finds it."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, final

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import digamma, polygamma

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma

# Points of the interpolated density, how far below its maximum it is followed in logarithms, and the slopes by which it
# falls at least beyond the values.
POINTS, DROP, FLATTEST = 2001, 25.0, 0.5


@final
@dataclass(frozen=True, slots=True, eq=False)
class TabulatedVariance:
    """log p(λ) up to a constant at increasing λ = log σ; a cubic spline between them, straight lines beyond."""

    log_sds: Array
    log_densities: Array

    @property
    def inverse_mean(self) -> float:
        """E[1/σ²] of the inverse gamma distribution with the same moments of log σ²: the own one may be infinite."""
        return self.matched.inverse_mean

    @property
    def matched(self) -> InverseGamma:
        """The inverse gamma distribution with the same mean and variance of log σ²."""
        lam, mass = self.grid
        mean = float(mass @ lam)
        return _matched(2.0 * mean, 4.0 * float(mass @ np.square(lam - mean)))

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
            at = np.interp(0.5 * np.log(variance), lam, mass, left=0.0, right=0.0) / (lam[1] - lam[0])
        return np.divide(at, 2.0 * variance, out=np.zeros_like(at), where=at > 0)

    def highest_density(self, level: float) -> tuple[float, float]:
        """The shortest interval of σ with this probability; it begins at 0 where the density of σ is high there."""
        lam, mass = self.grid
        order = np.argsort(lam - np.log(np.maximum(mass, 1e-300)), kind="stable")  # the density of σ is p(λ)/σ
        inside = order[: int(np.searchsorted(np.cumsum(mass[order]), level)) + 1]
        low, high = int(inside.min()), int(inside.max())
        return 0.0 if low == 0 else math.exp(lam[low]), math.exp(lam[high])

    @property
    def grid(self) -> tuple[Array, Array]:
        """Evenly spaced λ, and the probability of each."""
        return _grid(tuple(self.log_sds), tuple(self.log_densities))

    def scaled(self, unit: float) -> "TabulatedVariance":
        """The distribution of unit² σ²."""
        return TabulatedVariance(self.log_sds + math.log(unit), self.log_densities)

    def pack(self) -> list[float]:
        """Give no numbers: nothing here may move."""
        return []

    def unpack(self, numbers: Array) -> Self:
        """Return itself."""
        return self


@lru_cache(maxsize=64)
def _grid(log_sds: tuple[float, ...], log_densities: tuple[float, ...]) -> tuple[Array, Array]:
    """As far as the density counts."""
    lam, logs = np.array(log_sds), np.array(log_densities) - max(log_densities)
    spline = CubicSpline(lam, logs)
    rise, fall = max(float(spline(lam[0], 1)), FLATTEST), min(float(spline(lam[-1], 1)), -FLATTEST)
    first, last = lam[0] - max(DROP + logs[0], 0.0) / rise, lam[-1] - max(DROP + logs[-1], 0.0) / fall
    points = np.linspace(first, last, POINTS)
    beyond = rise * np.minimum(points - lam[0], 0.0) + fall * np.maximum(points - lam[-1], 0.0)
    mass = np.exp(spline(np.clip(points, lam[0], lam[-1])) + beyond)
    return points, mass / mass.sum()


def _matched(mean: float, variance: float) -> InverseGamma:
    """The inverse gamma distribution of σ² with this mean and variance of log σ²."""
    shape = 1.0 / variance + 0.5
    for _ in range(50):
        off = float(polygamma(1, shape)) - variance
        shape = max(shape - off / float(polygamma(2, shape)), 0.1 * shape)
        if abs(off) < 1e-12 * variance:
            break
    return InverseGamma(shape, math.exp(mean + float(digamma(shape))))
