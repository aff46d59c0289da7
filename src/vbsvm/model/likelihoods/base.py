"""Interface of likelihoods: from the moments of each row's score to its terms in the update of the coefficients.

ℓ(f, v) is the expected log likelihood of a row, or a bound on it, given the mean f and the variance v of its score.
With w = −2 ∂ℓ/∂v and u = ∂ℓ/∂f + w f every update is the same for all likelihoods: the coefficients have the precision
G + Λ with G = Σ w c cᵀ, and the right side r = Σ u c.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.update_mode import UpdateMode


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowTerms:
    """Of each row: ℓ at weight 1, u, w, and the curvature −∂²ℓ/∂f²; the last is None if scores have no variance."""

    value: Array
    u: Array
    w: Array
    curvature: Array | None

    def weighted(self, responsibilities: Array) -> "RowTerms":
        """The terms times the responsibilities of candidate rows; ``value`` is unchanged."""
        curvature = None if self.curvature is None else responsibilities * self.curvature
        return RowTerms(self.value, responsibilities * self.u, responsibilities * self.w, curvature)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowDerivatives:
    """Of each row, weights included: ∂ℓ/∂f, and the second derivatives of ℓ in f and v."""

    f: Array
    ff: Array
    fv: Array
    vv: Array


class Likelihood(Protocol):
    """Likelihood of a label given its score.

    It is ``normalised`` if the likelihoods of both labels sum to one: then it gives class probabilities.
    """

    name: ClassVar[str]
    normalised: ClassVar[bool]

    @property
    def exact(self) -> "Likelihood":
        """The same likelihood without a bound: its exact expectation under a normal score."""
        ...

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, mode: UpdateMode, *site: str | int) -> RowTerms:
        """Terms of rows with labels y = ±1 and weights s > 0, from the mean and variance of their scores.

        Latent scales of rows are kept as distributions or drawn, by ``mode`` at this site.
        """
        ...

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """Of each row ℓ at weight 1, and ∂ℓ/∂f."""
        ...

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """First and second derivatives of each row, for the linear response of the optimum."""
        ...

    def width(self, v: Array) -> Array | float:
        """Range of scores over which ℓ of a row of weight 1 is curved: its curvature is at most 1/width.

        Newton steps leave out rows of small curvature; an infinite width keeps all rows.
        """
        ...

    def log_likelihood(self, margin: Array) -> Array:
        """Log likelihood of rows of weight 1 at known scores; ``margin`` is y times the score."""
        ...


class ScaleMixture(ABC):
    """A Gaussian scale mixture: given a latent scale for each row, log likelihoods are quadratic in the score.

    With h = ``kink`` − y f and χ = E h² = h² + v, the bound with optimal latent scales is ℓ = −slope·h + φ(√χ),
    at weight 1. Its weight in the gram is w = −φ′(√χ)/√χ, and how that falls is the elasticity ε = d log w/d log √χ
    (−1 to 0): all derivatives follow from the two. At a known score the bound is the log likelihood itself.
    """

    __slots__ = ()

    kink: ClassVar[float]

    @property
    @abstractmethod
    def slope(self) -> float:
        """Coefficient of h in −ℓ, at weight 1."""

    @abstractmethod
    def height(self, root: Array) -> Array:
        """φ(√χ)."""

    @abstractmethod
    def latent(self, s: Array, root: Array) -> Any:
        """Distribution of the latent scales of rows of weight s; its ``weight`` is that in the gram."""

    @abstractmethod
    def unit_weight(self, root: Array) -> Array:
        """w at weight 1."""

    @abstractmethod
    def elasticity(self, root: Array) -> Array | float:
        """ε = d log w/d log √χ."""

    @abstractmethod
    def curvature(self, w: Array, h: Array, v: Array, slack: Array) -> Array:
        """−∂²ℓ/∂f² = w(1 + εh²/χ), in a form without cancellation."""

    def value(self, h: Array, root: Array) -> Array:
        """ℓ at weight 1."""
        return self.height(root) - self.slope * h

    def pull(self, y: Array, s: Array, w: Array) -> Array:
        """u = y(``slope``·s + ``kink``·w): a row's coefficient in the right side r = Σ u c."""
        return y * (self.slope * s + self.kink * w)

    def log_likelihood(self, margin: Array) -> Array:
        """Log likelihood of rows of weight 1 at known scores."""
        h = self.kink - margin
        return self.value(h, np.abs(h))

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, mode: UpdateMode, *site: str | int) -> RowTerms:
        """ℓ, w, u, and the curvature w(1 + εh²/χ)."""
        h = self.kink - y * f
        slack = h * h + v
        has_variance = isinstance(v, np.ndarray)  # the scores of a point have none
        root = np.sqrt(slack) if has_variance else np.abs(h)
        w = mode(self.latent(s, root), *site).weight
        curvature = self.curvature(w, h, v, slack) if has_variance else None
        return RowTerms(self.value(h, root), self.pull(y, s, w), w, curvature)

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ, and ∂ℓ/∂f = s y (slope + w h)."""
        h = self.kink - y * f
        root = np.sqrt(h * h + v)
        return self.value(h, root), s * y * (self.slope + h * self.unit_weight(root))

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """ℓ_ff = −w(1 + εh²/χ), ℓ_fv = ½εwyh/χ and ℓ_vv = −¼εw/χ."""
        h = self.kink - y * f
        slack = h * h + v
        root = np.sqrt(slack)
        w = s * self.unit_weight(root)
        bend = -self.elasticity(root) * w / slack
        slope = y * (self.slope * s + w * h)
        return RowDerivatives(slope, -self.curvature(w, h, v, slack), -0.5 * bend * y * h, 0.25 * bend)
