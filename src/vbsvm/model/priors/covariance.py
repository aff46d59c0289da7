"""Priors of correlated random effects: u_g ~ N(0, Σ) for each level g, with an inferred q × q covariance Σ."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from vbsvm.base import distributions
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma, MatrixPoint, Point
from vbsvm.base.settings import check_positive
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.priors.base import Moments, Prior

# Alternating updates of effects and their covariance converge slowly.
ROUNDS = 5
# Distribution of a covariance matrix, or a draw from it.
CovarianceScale = distributions.InverseWishart | MatrixPoint


@final
@dataclass(frozen=True)
class InverseWishart(Prior[CovarianceScale]):
    """The covariance of a group's effects is inverse Wishart, IW(psi I, nu).

    Parameters
    ----------
    psi : float, default 0.01
        Diagonal of the scale matrix, for effects of standardised columns.
    nu : float, default None
        Degrees of freedom, above q − 1 for q effects. None is q + 1: every correlation is then uniform.
    """

    in_words: ClassVar[str] = "normal; its covariance is inferred"
    of_groups: ClassVar[bool] = True
    rounds: ClassVar[int] = ROUNDS

    psi: float = 0.01
    nu: float | None = None

    def __post_init__(self) -> None:
        """Check that scale and degrees are positive."""
        check_positive("InverseWishart", 1e-20, 1e20, psi=self.psi)
        if self.nu is not None:
            check_positive("InverseWishart", 1e-6, 1e9, nu=self.nu)

    def _degrees(self, width: int) -> float:
        nu = width + 1.0 if self.nu is None else float(self.nu)
        if nu <= width - 1:
            raise ValueError(
                f"InverseWishart: nu must be above {width - 1} for {width} effects that vary together; got {nu}."
            )
        return nu

    def start(self, width: int, size: int) -> MatrixPoint:
        """E[Σ⁻¹] = I."""
        self._degrees(width)
        return MatrixPoint(np.eye(width))

    def update(self, scale: CovarianceScale, moments: Moments, mode: UpdateMode) -> CovarianceScale:
        """IW(Ψ + Σ_g E[u_g u_gᵀ], ν + m), or a draw from it."""
        q, outer = len(moments.columns), moments.outer
        return mode(distributions.InverseWishart(self.psi * np.eye(q) + outer, self._degrees(q) + moments.n_groups))

    def rescale(self, scale: CovarianceScale, moments: Moments, g: float) -> tuple[MatrixPoint, float]:
        """Σ → g²Σ."""
        q = len(moments.columns)
        return _rescale(scale, self._degrees(q), self.psi * np.eye(q), g)

    def bound(self, scale: CovarianceScale, moments: Moments) -> float:
        """E log p(u | Σ) + E log p(Σ) − E log q(Σ); E log|Σ| cancels, as q's degrees are always ν + m."""
        if not isinstance(scale, distributions.InverseWishart):
            return -math.inf
        q = len(scale.scale)
        fixed = 0.5 * self._degrees(q) * q * math.log(self.psi)
        return fixed + _matrix_terms(scale, self._degrees(q), self.psi * np.eye(q), moments)


@final
@dataclass(frozen=True, slots=True, eq=False)
class HuangWandDistribution:
    """Distribution of the covariance, and of the auxiliary scale of each effect."""

    covariance: CovarianceScale
    auxiliary: tuple[InverseGamma | Point, ...]

    @property
    def inverse_mean(self) -> Array:
        """E[Σ⁻¹]."""
        return self.covariance.inverse_mean

    def values_at(self, chances: Array) -> Array:
        """Covariances by which zᵀΣz has these quantiles."""
        return self.covariance.values_at(chances)

    def pack(self) -> list[float]:
        """Parameters of the covariance, then those of the auxiliary scales."""
        return [*self.covariance.pack(), *(x for distribution in self.auxiliary for x in distribution.pack())]

    def unpack(self, numbers: Array) -> Self:
        """The distribution with these parameters: inverse of ``pack``."""
        q = len(self.auxiliary)
        matrix, rest = numbers[:-q], numbers[-q:]
        auxiliary = tuple(distribution.unpack(rest[j : j + 1]) for j, distribution in enumerate(self.auxiliary))
        return type(self)(self.covariance.unpack(matrix), auxiliary)


@final
@dataclass(frozen=True)
class Covariance(Prior[HuangWandDistribution]):
    """Standard deviations of a group's effects are half t, and with degrees = 2 each correlation is uniform.

    The prior of Huang & Wand (2013): Σ given a is IW(2 degrees diag(1/a), degrees + q − 1), and each a_j is
    IG(½, 1/scale²).

    Parameters
    ----------
    scale : float, default 1e5
        Scale of the half-t prior of each standard deviation, for effects of standardised columns; large is vague.
    degrees : float, default 2
        Degrees of freedom of that prior.
    """

    in_words: ClassVar[str] = "normal; standard deviations and correlations are inferred"
    of_groups: ClassVar[bool] = True
    rounds: ClassVar[int] = ROUNDS

    scale: float = 1e5
    degrees: float = 2.0

    def __post_init__(self) -> None:
        """Check that scale and degrees are positive."""
        check_positive("Covariance", 1e-10, 1e10, scale=self.scale)
        check_positive("Covariance", 1e-6, 1e6, degrees=self.degrees)

    def start(self, width: int, size: int) -> HuangWandDistribution:
        """E[Σ⁻¹] = I and E[1/a] = 1."""
        return HuangWandDistribution(MatrixPoint(np.eye(width)), (Point(1.0),) * width)

    def update(self, scale: HuangWandDistribution, moments: Moments, mode: UpdateMode) -> HuangWandDistribution:
        """q(Σ) given the auxiliary scales, then these given Σ; or draws from them."""
        q = len(scale.auxiliary)
        degrees = self.degrees + q - 1 + moments.n_groups
        covariance = mode(distributions.InverseWishart(self._psi(scale) + moments.outer, degrees), "covariance")
        shape, inverse = 0.5 * (self.degrees + q), covariance.inverse_mean
        auxiliary = (
            mode(InverseGamma(shape, self.degrees * inverse[j, j] + self.scale**-2), "auxiliary", j) for j in range(q)
        )
        return HuangWandDistribution(covariance, tuple(auxiliary))

    def _psi(self, scale: HuangWandDistribution) -> Array:
        return 2 * self.degrees * np.diag([distribution.inverse_mean for distribution in scale.auxiliary])

    def rescale(self, scale: HuangWandDistribution, moments: Moments, g: float) -> tuple[HuangWandDistribution, float]:
        """Σ → g²Σ given the auxiliary scales, which stay."""
        nu = self.degrees + len(scale.auxiliary) - 1
        covariance, ratio = _rescale(scale.covariance, nu, self._psi(scale), g)
        return HuangWandDistribution(covariance, scale.auxiliary), ratio

    def bound(self, scale: HuangWandDistribution, moments: Moments) -> float:
        """As for ``InverseWishart``, and E log p(a) − E log q(a); each E log a cancels."""
        if not isinstance(scale.covariance, distributions.InverseWishart):
            return -math.inf
        q = len(scale.auxiliary)
        nu = self.degrees + q - 1
        total = _matrix_terms(scale.covariance, nu, self._psi(scale), moments)
        total += 0.5 * nu * q * math.log(2 * self.degrees)
        for distribution in scale.auxiliary:
            assert isinstance(distribution, InverseGamma)
            a = distribution.shape
            total += math.lgamma(a) - a * math.log(distribution.rate) + a
            total -= distribution.inverse_mean / self.scale**2 + math.log(self.scale) + 0.5 * math.log(math.pi)
        return total


def _rescale(scale: CovarianceScale, nu: float, psi: Array, g: float) -> tuple[MatrixPoint, float]:
    """g²Σ, and −νq log g − ½(g⁻² − 1) tr(ΨΣ⁻¹)."""
    assert isinstance(scale, MatrixPoint)
    ratio = -nu * len(psi) * math.log(g) - 0.5 * (g**-2 - 1) * float(np.vdot(psi, scale.inverse_mean))
    return MatrixPoint(g * g * scale.value), ratio


def _matrix_terms(distribution: distributions.InverseWishart, nu: float, psi: Array, moments: Moments) -> float:
    """Terms of the bound that both priors share: all but ½ν log|Ψ|."""
    q, N = len(distribution.scale), distribution.degrees
    _, log_det = np.linalg.slogdet(distribution.scale)
    pull = float(np.vdot(distribution.inverse_mean, psi + moments.outer))
    return float(
        -0.5 * moments.n_groups * q * math.log(math.pi)
        + sum(math.lgamma(0.5 * (N - j)) - math.lgamma(0.5 * (nu - j)) for j in range(q))
        - 0.5 * N * log_det
        + 0.5 * N * q
        - 0.5 * pull
    )
