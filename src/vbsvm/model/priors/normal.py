"""Normal priors: with a known variance, an inverse gamma variance, or a half-t standard deviation."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

from scipy.special import gammainc, stdtr

from vbsvm.base.distributions import InverseGamma, Point
from vbsvm.base.settings import check_positive
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.priors.base import Moments, Prior

# Proportion of well-determined coefficients below which the plain update of the scale converges slowly.
FIXED_POINT_BELOW = 0.5


@final
@dataclass(frozen=True)
class Normal(Prior[Point]):
    """Coefficients are N(0, variance): Algorithm 1 with variance = 1/(4α), and every fixed effect.

    Parameters
    ----------
    variance : float
        Variance of each coefficient of a standardised column. The paper's penalty α is 1/(4 variance).
    """

    in_words: ClassVar[str] = "normal with a given variance"

    variance: float

    def __post_init__(self) -> None:
        """Check that the variance is positive."""
        check_positive("Normal", variance=self.variance)

    def start(self, width: int, size: int) -> Point:
        """The known variance."""
        return Point(self.variance)

    def update(self, scale: Point, moments: Moments, mode: UpdateMode) -> Point:
        """The known variance."""
        return scale

    def rescale(self, scale: Point, moments: Moments, g: float) -> tuple[Point, float]:
        """p log g − (g² − 1)‖β‖²/(2σ²); the variance is known."""
        return scale, moments.size * math.log(g) - (g * g - 1) * moments.square_norm / (2 * self.variance)

    def bound(self, scale: Point, moments: Moments) -> float:
        """−½p log(2πσ²) − E‖β‖²/(2σ²)."""
        return -0.5 * moments.size * math.log(2 * math.pi * self.variance) - moments.square_norm / (2 * self.variance)


@final
@dataclass(frozen=True)
class Ridge(Prior[InverseGamma | Point]):
    """Coefficients are N(0, σ²) and σ² is IG(shape, rate): Algorithm 2, the SVM that tunes itself.

    Parameters
    ----------
    shape, rate : float, default 0.01
        Shape and rate of the inverse-gamma prior of σ²; the paper's A_u and B_u.
    """

    in_words: ClassVar[str] = "normal; its variance is inferred"

    shape: float = 0.01
    rate: float = 0.01

    def __post_init__(self) -> None:
        """Check that shape and rate are positive."""
        check_positive("Ridge", shape=self.shape, rate=self.rate)

    def start(self, width: int, size: int) -> Point:
        """E[σ⁻²] = 1, the paper's start."""
        return Point(1.0)

    def conditional(self, moments: Moments) -> InverseGamma:
        """IG(A + m/2, B + ½E‖u‖²) (Algorithm 2, line 4)."""
        return InverseGamma(self.shape + 0.5 * moments.size, self.rate + 0.5 * moments.square_norm)

    def update(self, scale: InverseGamma | Point, moments: Moments, mode: UpdateMode) -> InverseGamma | Point:
        """q(σ²), or a draw from it."""
        return mode(self.conditional(moments))

    def fixed_point_step(self, scale: InverseGamma | Point, moments: Moments) -> InverseGamma | None:
        """E[σ⁻²] = (A + ½ well-determined coefficients)/(B + ½‖μ‖²), after MacKay (1992): the same fixed point."""
        spread = moments.total_variance
        return fixed_point(self, moments.size, scale.inverse_mean * spread, moments.square_norm - spread)

    def tail_probability(self, variance: float) -> float:
        """P(σ² > variance)."""
        return float(gammainc(self.shape, self.rate / variance))

    def log_density(self, log_sd: float) -> tuple[float, float, float]:
        """log p(λ) of λ = log σ up to a constant, its slope, and minus its second derivative."""
        pull = 2.0 * self.rate * math.exp(-2.0 * log_sd)
        return -2.0 * self.shape * log_sd - 0.5 * pull, -2.0 * self.shape + pull, 2.0 * pull

    def rescale(self, scale: InverseGamma | Point, moments: Moments, g: float) -> tuple[Point, float]:
        """σ² → g²σ²: −2A log g − (B/σ²)(g⁻² − 1)."""
        assert isinstance(scale, Point)
        return rescale_variance(self, scale, g)

    def bound(self, scale: InverseGamma | Point, moments: Moments) -> float:
        """E log p(u | σ²) + E log p(σ²) − E log q(σ²); E log σ² cancels, as q's shape is always A + m/2."""
        if not isinstance(scale, InverseGamma):
            return -math.inf
        a, b = scale.shape, scale.rate
        surplus = a - scale.inverse_mean * (self.rate + 0.5 * moments.square_norm)
        prior = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return -0.5 * moments.size * math.log(2 * math.pi) + prior + math.lgamma(a) - a * math.log(b) + surplus


def fixed_point(prior: Any, size: int, n_shrunk: float, squares: float) -> InverseGamma | None:
    """IG with the mean precision (A + ½ well-determined coefficients)/(B + ½ squares), or None if many are so.

    Of ``size`` coefficients the prior determines ``n_shrunk``; ``squares`` is the sum of their squared means, weighted
    as their precisions are.
    """
    determined = size - n_shrunk
    if not 0 < determined < FIXED_POINT_BELOW * size:
        return None
    shape = prior.shape + 0.5 * size
    return InverseGamma(shape, shape / ((prior.shape + 0.5 * determined) / (prior.rate + 0.5 * squares)))


def rescale_variance(prior: Any, variance: Point, g: float) -> tuple[Point, float]:
    """g²σ² under an inverse gamma prior with A and B, and the log ratio −2A log g − (B/σ²)(g⁻² − 1)."""
    ratio = -2 * prior.shape * math.log(g) - prior.rate / variance.value * (g**-2 - 1)
    return Point(g * g * variance.value), ratio


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
        """Check that scale and degrees are positive."""
        check_positive("HalfT", 1e-10, 1e10, scale=self.scale)
        check_positive("HalfT", 1e-6, 1e6, degrees=self.degrees)

    def start(self, width: int, size: int) -> Point:
        """E[σ⁻²] = 1."""
        return Point(1.0)

    def _auxiliary(self, scale: InverseGamma | Point) -> InverseGamma:
        """The distribution of a given that of σ²: IG((ν + 1)/2, ν E[σ⁻²] + 1/scale²)."""
        return InverseGamma(0.5 * (self.degrees + 1.0), self.degrees * scale.inverse_mean + self.scale**-2)

    def update(self, scale: InverseGamma | Point, moments: Moments, mode: UpdateMode) -> InverseGamma | Point:
        """q(σ²) = IG((ν + m)/2, ν E[1/a] + ½E‖u‖²) and q(a), each given the other; or draws of a and then of σ²."""
        shape, auxiliary = 0.5 * (self.degrees + moments.size), mode(self._auxiliary(scale), "auxiliary")
        if isinstance(auxiliary, InverseGamma):
            expected = self._inverse_mean(shape, 0.5 * moments.square_norm)
            return InverseGamma(shape, shape / expected if expected > 0 else math.inf)
        return mode(InverseGamma(shape, self.degrees * auxiliary.inverse_mean + 0.5 * moments.square_norm))

    def _inverse_mean(self, shape: float, half_square_norm: float) -> float:
        """E[σ⁻²] at the joint fixed point of both distributions: x{ν(ν + 1)/2/(νx + 1/scale²) + ½E‖u‖²} = shape."""
        nu, flat = self.degrees, self.scale**-2
        square, constant = nu * max(half_square_norm, 1e-300), shape * flat
        linear = 0.5 * nu * (nu + 1.0) + flat * half_square_norm - shape * nu
        root = math.hypot(linear, 2.0 * math.sqrt(square * constant))
        return 2.0 * constant / (linear + root) if linear > 0 else 0.5 * (root - linear) / square

    def fixed_point_step(self, scale: InverseGamma | Point, moments: Moments) -> InverseGamma | None:
        """As for ``Ridge``, with the current rate of the prior."""
        rate = self.degrees * self._auxiliary(scale).inverse_mean
        return Ridge(0.5 * self.degrees, rate).fixed_point_step(scale, moments)

    def tail_probability(self, variance: float) -> float:
        """P(σ² > variance)."""
        return 2.0 * float(stdtr(self.degrees, -math.sqrt(variance) / self.scale))

    def rate_derivative(self, scale: InverseGamma | Point) -> float:
        """Derivative of the prior's rate ν E[1/a] in E[σ⁻²]."""
        auxiliary = self._auxiliary(scale)
        return -(self.degrees**2) * auxiliary.shape / auxiliary.rate**2

    def log_density(self, log_sd: float) -> tuple[float, float, float]:
        """log p(λ) of λ = log σ up to a constant, its slope, and minus its second derivative."""
        q = math.exp(min(2.0 * log_sd - 2.0 * math.log(self.scale), 600.0)) / self.degrees
        share, n = q / (1.0 + q), self.degrees + 1.0
        return log_sd - 0.5 * n * math.log1p(q), 1.0 - n * share, 2.0 * n * share * (1.0 - share)

    def rescale(self, scale: InverseGamma | Point, moments: Moments, g: float) -> tuple[Point, float]:
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
        terms = math.lgamma(a) - a * math.log(b) + a + math.lgamma(c) - c * math.log(d) + c
        pull = scale.inverse_mean * (nu * auxiliary.inverse_mean + 0.5 * moments.square_norm)
        prior -= 0.5 * moments.size * math.log(2 * math.pi)
        return prior + terms - pull - auxiliary.inverse_mean / self.scale**2
