"""Normal prior with a known variance."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from vbsvm.base.distributions import Point
from vbsvm.base.reading import Reading
from vbsvm.base.settings import require_positive
from vbsvm.model.coefficients import Moments
from vbsvm.model.priors.base import Prior


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
        """Refuse a variance that is not positive."""
        require_positive("Normal", variance=self.variance)

    def start(self, width: int, size: int) -> Point:
        """Give the known variance."""
        return Point(self.variance)

    def update(self, scale: Point, moments: Moments, resolve: Reading) -> Point:
        """Give the known variance, whatever the coefficients are."""
        return scale

    def stretch(self, scale: Point, moments: Moments, g: float) -> tuple[Point, float]:
        """p log g − (g² − 1)‖β‖²/(2σ²); the variance is known."""
        return scale, moments.size * math.log(g) - (g * g - 1) * moments.total / (2 * self.variance)

    def bound(self, scale: Point, moments: Moments) -> float:
        """−½p log(2πσ²) − E‖β‖²/(2σ²)."""
        return -0.5 * moments.size * math.log(2 * math.pi * self.variance) - moments.total / (2 * self.variance)
