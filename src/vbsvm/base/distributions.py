"""The distributions of scalars and of the rows' latent scales.

A distribution is what a full conditional hands out. Variational Bayes keeps it and uses its moments; Gibbs draws from
it and keeps a ``Point``, a distribution without spread. Both answer the same questions, so no update asks which of the
two it has.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self, final

import numpy as np
from scipy.special import gammainccinv, polygamma

from vbsvm.base.arrays import Array

# Averages over a scale are taken at these quantiles, which count alike.
MIDDLES = (np.arange(9) + 0.5) / 9


class ScaleDistribution(Protocol):
    """What is known of a block's variance, or of its covariance matrix."""

    @property
    def inverse_mean(self) -> Any:
        """E[1/x], or the mean of the inverse matrix."""
        ...

    def values_at(self, chances: Array) -> Array:
        """Quantiles of a variance, or covariance matrices by which zᵀxz has its quantiles for every z: k × q × q.

        Averages are taken over these and never over E[x], which is infinite or far out where groups are few.
        """
        ...

    def pack(self) -> list[float]:
        """Give unconstrained numbers that determine the distribution within its family."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """Make the member of this distribution's family that has these numbers."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Point:
    """A distribution without spread at a known or drawn value; it has nothing to pack."""

    value: float

    @property
    def inverse_mean(self) -> float:
        """E[1/x] = 1/x."""
        return 1.0 / self.value

    def values_at(self, chances: Array) -> Array:
        """The value each time."""
        return np.full((len(chances), 1, 1), self.value)

    def draw(self, rng: np.random.Generator) -> Self:
        """Return itself: what is known stays known."""
        return self

    def pack(self) -> list[float]:
        """Give no numbers: nothing here may move."""
        return []

    def unpack(self, numbers: Array) -> Self:
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
        """Give the log of the rate; the shape never moves."""
        return [math.log(self.rate)]

    def unpack(self, numbers: Array) -> "InverseGamma":
        """Make the distribution with this log rate, kept within what floating point holds."""
        return InverseGamma(self.shape, math.exp(min(max(numbers[0], -600.0), 600.0)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatrixPoint:
    """A covariance matrix without spread."""

    value: Array

    @property
    def inverse_mean(self) -> Array:
        """The inverse."""
        return np.asarray(np.linalg.inv(self.value), dtype=np.float64)

    def values_at(self, chances: Array) -> Array:
        """The matrix each time."""
        return np.broadcast_to(self.value, (len(chances), *self.value.shape))

    def pack(self) -> list[float]:
        """Give no numbers: nothing here may move."""
        return []

    def unpack(self, numbers: Array) -> Self:
        """Return itself."""
        return self


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScaleDraws:
    """A sampler's draws of a variance or covariance matrix, draws × q × q; there is nothing to pack."""

    values: Array

    @property
    def inverse_mean(self) -> Any:
        """The inverse of the draws' average between quantiles: neither tail of the draws decides it."""
        found = np.linalg.inv(self.values_at(MIDDLES).mean(axis=0))
        return found if len(found) > 1 else float(found[0, 0])

    def values_at(self, chances: Array) -> Array:
        """The draws whose traces are these quantiles."""
        order = np.argsort(np.trace(self.values, axis1=1, axis2=2), kind="stable")
        places = np.minimum((chances * len(order)).astype(np.intp), len(order) - 1)
        return self.values[order[places]]

    def pack(self) -> list[float]:
        """Give no numbers: nothing here may move."""
        return []

    def unpack(self, numbers: Array) -> Self:
        """Return itself."""
        return self


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
        """Give the Cholesky factor of the scale, its diagonal as logs; the degrees never move."""
        lower = np.linalg.cholesky(self.scale)
        lower[np.diag_indices(len(lower))] = np.log(lower.diagonal())
        return list(lower[np.tril_indices(len(lower))])

    def unpack(self, numbers: Array) -> "InverseWishart":
        """Make the distribution with this Cholesky factor, kept within what floating point holds."""
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
