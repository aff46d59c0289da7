"""Half-t prior of a standard deviation: weakly informative, and finite at 0."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from scipy.special import stdtr

from vbsvm.base.distributions import InverseGamma, Point
from vbsvm.base.reading import Reading
from vbsvm.base.settings import require_positive
from vbsvm.model.coefficients import Moments
from vbsvm.model.priors.base import Prior
from vbsvm.model.priors.ridge import Ridge


@final
@dataclass(frozen=True)
class HalfT(Prior[InverseGamma | Point]):
    """Coefficients are N(0, σ²) and σ is half t: the default of logistic models.

    Unlike an inverse gamma prior of σ² it does not keep σ away from 0 (Gelman 2006). As a mixture it is conjugate
    (Wand et al. 2011): σ² given a is IG(ν/2, ν/a), and a is IG(½, 1/scale²), for ν degrees of freedom. The auxiliary a
    is not kept: its distribution follows from that of σ².

    Parameters
    ----------
    scale : float, default 2.5
        Scale of the half-t distribution of σ, for effects of standardised columns.
    degrees : float, default 2
        Its degrees of freedom ν.
    """

    in_words: ClassVar[str] = "normal; its standard deviation is inferred"

    scale: float = 2.5
    degrees: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a scale or degrees that are not positive."""
        require_positive("HalfT", 1e-10, 1e10, scale=self.scale)
        require_positive("HalfT", 1e-6, 1e6, degrees=self.degrees)

    def start(self, width: int, size: int) -> Point:
        """E[σ⁻²] = 1."""
        return Point(1.0)

    def _auxiliary(self, scale: InverseGamma | Point) -> InverseGamma:
        """The distribution of a given that of σ²: IG((ν + 1)/2, ν E[σ⁻²] + 1/scale²)."""
        return InverseGamma(0.5 * (self.degrees + 1.0), self.degrees * scale.inverse_mean + self.scale**-2)

    def update(self, scale: InverseGamma | Point, moments: Moments, resolve: Reading) -> InverseGamma | Point:
        """q(σ²) = IG((ν + m)/2, ν E[1/a] + ½E‖u‖²) and q(a), each given the other; or draws of a and then of σ²."""
        shape, auxiliary = 0.5 * (self.degrees + moments.size), resolve(self._auxiliary(scale), "auxiliary")
        if isinstance(auxiliary, InverseGamma):
            expected = self._inverse_mean(shape, 0.5 * moments.total)
            return InverseGamma(shape, shape / expected if expected > 0 else math.inf)
        return resolve(InverseGamma(shape, self.degrees * auxiliary.inverse_mean + 0.5 * moments.total))

    def _inverse_mean(self, shape: float, half: float) -> float:
        """E[σ⁻²] where both distributions are at rest: x{ν(ν + 1)/2/(νx + 1/scale²) + ½E‖u‖²} = shape."""
        nu, flat = self.degrees, self.scale**-2
        square, linear, constant = (
            nu * max(half, 1e-300),
            0.5 * nu * (nu + 1.0) + flat * half - shape * nu,
            shape * flat,
        )
        root = math.hypot(linear, 2.0 * math.sqrt(square * constant))
        return 2.0 * constant / (linear + root) if linear > 0 else 0.5 * (root - linear) / square

    def leap(self, scale: InverseGamma | Point, moments: Moments) -> InverseGamma | None:
        """As for ``Ridge``, with the prior's rate as it is now."""
        rate = self.degrees * self._auxiliary(scale).inverse_mean
        return Ridge(0.5 * self.degrees, rate).leap(scale, moments)

    def chance_above(self, variance: float) -> float:
        """P(σ² > variance)."""
        return 2.0 * float(stdtr(self.degrees, -math.sqrt(variance) / self.scale))

    def rate_slope(self, scale: InverseGamma | Point) -> float:
        """How the prior's rate ν E[1/a] answers to E[σ⁻²]."""
        auxiliary = self._auxiliary(scale)
        return -(self.degrees**2) * auxiliary.shape / auxiliary.rate**2

    def log_density(self, log_sd: float) -> tuple[float, float, float]:
        """log p(λ) of λ = log σ up to a constant, its slope, and minus its second derivative."""
        q = math.exp(min(2.0 * log_sd - 2.0 * math.log(self.scale), 600.0)) / self.degrees
        share, n = q / (1.0 + q), self.degrees + 1.0
        return log_sd - 0.5 * n * math.log1p(q), 1.0 - n * share, 2.0 * n * share * (1.0 - share)

    def stretch(self, scale: InverseGamma | Point, moments: Moments, g: float) -> tuple[Point, float]:
        """σ² → g²σ²: the change of log p(λ) as λ moves by log g."""
        assert isinstance(scale, Point)
        log_sd = 0.5 * math.log(scale.value)
        ratio = self.log_density(log_sd + math.log(g))[0] - self.log_density(log_sd)[0]
        return Point(g * g * scale.value), ratio

    def bound(self, scale: InverseGamma | Point, moments: Moments) -> float:
        """E log p(u | σ²) + E log p(σ² | a) + E log p(a) − E log q(σ²) − E log q(a), with q(a) given q(σ²).

        E log σ² and E log a cancel, as the shapes of both are always the same.
        """
        if not isinstance(scale, InverseGamma):
            return -math.inf
        a, b, nu, auxiliary = scale.shape, scale.rate, self.degrees, self._auxiliary(scale)
        c, d = auxiliary.shape, auxiliary.rate
        prior = 0.5 * nu * math.log(nu) - math.lgamma(0.5 * nu) - math.log(self.scale) - 0.5 * math.log(math.pi)
        own = math.lgamma(a) - a * math.log(b) + a + math.lgamma(c) - c * math.log(d) + c
        pull = scale.inverse_mean * (nu * auxiliary.inverse_mean + 0.5 * moments.total)
        return -0.5 * moments.size * math.log(2 * math.pi) + prior + own - pull - auxiliary.inverse_mean / self.scale**2
