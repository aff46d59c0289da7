"""Normal–inverse-gamma prior: the penalty is inferred."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from scipy.special import gammainc

from vbsvm.base.distributions import InverseGamma, Point
from vbsvm.base.reading import Reading
from vbsvm.base.settings import require_positive
from vbsvm.model.coefficients import Moments
from vbsvm.model.priors.base import Prior

# Share of coefficients that the data determine, below which the scale's own update creeps.
LEAP_BELOW = 0.5


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
        """Refuse a shape or rate that is not positive."""
        require_positive("Ridge", shape=self.shape, rate=self.rate)

    def start(self, width: int, size: int) -> Point:
        """E[σ⁻²] = 1, the paper's start."""
        return Point(1.0)

    def conditional(self, moments: Moments) -> InverseGamma:
        """IG(A + m/2, B + ½E‖u‖²) (Algorithm 2, line 4)."""
        return InverseGamma(self.shape + 0.5 * moments.size, self.rate + 0.5 * moments.total)

    def update(self, scale: InverseGamma | Point, moments: Moments, resolve: Reading) -> InverseGamma | Point:
        """q(σ²), or a draw from it."""
        return resolve(self.conditional(moments))

    def leap(self, scale: InverseGamma | Point, moments: Moments) -> InverseGamma | None:
        """E[σ⁻²] = (A + ½ well-determined coefficients)/(B + ½‖μ‖²), after MacKay (1992): the same fixed point."""
        precision = scale.inverse_mean
        spread = moments.spread
        determined = moments.size - precision * spread
        if not 0 < determined < LEAP_BELOW * moments.size:
            return None
        guess = (self.shape + 0.5 * determined) / (self.rate + 0.5 * (moments.total - spread))
        shape = self.shape + 0.5 * moments.size
        return InverseGamma(shape, shape / guess)

    def chance_above(self, variance: float) -> float:
        """P(σ² > variance)."""
        return float(gammainc(self.shape, self.rate / variance))

    def log_density(self, log_sd: float) -> tuple[float, float, float]:
        """log p(λ) of λ = log σ up to a constant, its slope, and minus its second derivative."""
        pull = 2.0 * self.rate * math.exp(-2.0 * log_sd)
        return -2.0 * self.shape * log_sd - 0.5 * pull, -2.0 * self.shape + pull, 2.0 * pull

    def stretch(self, scale: InverseGamma | Point, moments: Moments, g: float) -> tuple[Point, float]:
        """σ² → g²σ²: −2A log g − (B/σ²)(g⁻² − 1)."""
        assert isinstance(scale, Point)
        ratio = -2 * self.shape * math.log(g) - self.rate / scale.value * (g**-2 - 1)
        return Point(g * g * scale.value), ratio

    def bound(self, scale: InverseGamma | Point, moments: Moments) -> float:
        """E log p(u | σ²) + E log p(σ²) − E log q(σ²); E log σ² cancels, as q's shape is always A + m/2."""
        if not isinstance(scale, InverseGamma):
            return -math.inf
        a, b = scale.shape, scale.rate
        surplus = a - scale.inverse_mean * (self.rate + 0.5 * moments.total)
        prior = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return -0.5 * moments.size * math.log(2 * math.pi) + prior + math.lgamma(a) - a * math.log(b) + surplus
