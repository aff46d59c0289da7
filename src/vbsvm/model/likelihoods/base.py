"""What a likelihood is: from the moments of each row's score to what the coefficients' update needs of that row.

ℓ(f, v) is the expected log likelihood of a row, or a bound on it, given the mean f and the variance v of its score.
With w = −2 ∂ℓ/∂v and u = ∂ℓ/∂f + w f every update is the same for all likelihoods: the coefficients have the precision
G + Λ with G = Σ w c cᵀ, and the right side r = Σ u c.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, final

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowTerms:
    """Of each row: ℓ at weight 1, u, w, and the curvature −∂²ℓ/∂f²; the last is None where scores have no spread."""

    value: Array
    u: Array
    w: Array
    curvature: Array | None

    def shared(self, shares: Array) -> "RowTerms":
        """The same where a row counts by a share only."""
        curvature = None if self.curvature is None else shares * self.curvature
        return RowTerms(self.value, shares * self.u, shares * self.w, curvature)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowDerivatives:
    """Of each row, weights included: the slope ∂ℓ/∂f, and the second derivatives of ℓ in f and v."""

    f: Array
    ff: Array
    fv: Array
    vv: Array


class Likelihood(Protocol):
    """How labels depend on scores.

    It is ``normalised`` where the likelihoods of both labels add up to one: then it has probabilities of its own.
    """

    name: ClassVar[str]
    normalised: ClassVar[bool]

    @property
    def exact(self) -> "Likelihood":
        """The same likelihood without a bound: its exact expectation under a normal score."""
        ...

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, resolve: Reading, *site: str | int) -> RowTerms:
        """Terms of rows with labels y = ±1 and weights s > 0, from the mean and variance of their scores.

        What is latent in a row is resolved at the site: kept as a distribution, or drawn.
        """
        ...

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """Of each row ℓ at weight 1, and ∂ℓ/∂f."""
        ...

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """The slope of each row and its second derivatives: how the optimum answers to a small change of the model."""
        ...

    def width(self, v: Array) -> Array | float:
        """The range of scores over which a row of weight 1 bends: its curvature is at most one over that.

        Newton steps leave out rows with little of it. It is infinite where all rows are to count.
        """
        ...

    def at_point(self, margin: Array) -> Array:
        """Log likelihood of rows of weight 1 at known scores; ``margin`` is y times the score."""
        ...


class CurvedLikelihood(Likelihood, Protocol):
    """One that is curved everywhere; its curvature is its weight in the gram."""

    def slope(self, f: Array, v: Array, y: Array, s: Array) -> Array:
        """∂ℓ/∂f of each row."""
        ...
