"""What a prior is: a few questions about one block of coefficients.

A prior sees the rows through nothing but the second moments of its own coefficients, and the rows see the prior through
nothing but its expected precision. A new prior is a new file with a frozen dataclass that answers these questions.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from vbsvm.arrays import Array
from vbsvm.laws import ScaleLaw
from vbsvm.parameters import Parameters


@dataclass(frozen=True)
class Prior(Parameters, ABC):
    """A prior N(0, σ² I) of one block of coefficients, with a law of σ²."""

    @abstractmethod
    def start(self) -> ScaleLaw:
        """Law of σ² before the first sweep."""

    @abstractmethod
    def conditional(self, squares: Array) -> ScaleLaw:
        """Full conditional of σ² given the second moments of the block's coefficients."""

    @abstractmethod
    def bound(self, scale: ScaleLaw, squares: Array) -> float:
        """E log p(coefficients, σ²) − E log q(σ²), all constants included, at any law of σ² that can occur."""

    def precision(self, scale: ScaleLaw) -> float:
        """E[σ⁻²], the diagonal of the block's expected prior precision Λ."""
        return scale.inverse_mean
