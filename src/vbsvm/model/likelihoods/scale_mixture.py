"""Likelihoods that are Gaussian scale mixtures: with a latent scale for each row, log likelihoods are quadratic.

With h = kink − y f and χ = E h² = h² + v, the bound with the latent scales at their best is ℓ = −slope·h + φ(√χ), at
weight 1. Its weight in the gram is w = −φ′(√χ)/√χ, and how fast that falls is its elasticity ε = d log w/d log √χ,
between −1 and 0: all derivatives follow from the two. At a known score the bound is the log likelihood itself.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.model.likelihoods.base import RowDerivatives, RowTerms


class ScaleMixture(ABC):
    """What the paper's bound on the hinge loss and Jaakkola and Jordan's bound on the logistic loss have in common."""

    __slots__ = ()

    kink: ClassVar[float]

    @property
    @abstractmethod
    def slope(self) -> float:
        """How fast the linear part of −ℓ grows with h, at weight 1."""

    @abstractmethod
    def height(self, root: Array) -> Array:
        """φ(√χ)."""

    @abstractmethod
    def latent(self, s: Array, root: Array) -> Any:
        """The distribution of the latent scales of rows of weight s, which has their ``weight`` in the gram."""

    @abstractmethod
    def unit_weight(self, root: Array) -> Array:
        """w at weight 1."""

    @abstractmethod
    def elasticity(self, root: Array) -> Array | float:
        """ε = d log w/d log √χ."""

    @abstractmethod
    def curvature(self, w: Array, h: Array, v: Array, slack: Array) -> Array:
        """−∂²ℓ/∂f² = w(1 + εh²/χ), in a form that does not cancel."""

    def value(self, h: Array, root: Array) -> Array:
        """ℓ at weight 1."""
        return self.height(root) - self.slope * h

    def pull(self, y: Array, s: Array, w: Array) -> Array:
        """u = y(slope·s + kink·w): what a row adds to the right side of the coefficients' update."""
        return y * (self.slope * s + self.kink * w)

    def at_point(self, margin: Array) -> Array:
        """Log likelihood of rows of weight 1 at known scores."""
        h = self.kink - margin
        return self.value(h, np.abs(h))

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, resolve: Reading, *site: str | int) -> RowTerms:
        """ℓ, w, u, and the curvature w(1 + εh²/χ)."""
        h = self.kink - y * f
        if not isinstance(v, np.ndarray):  # of a point, whose scores have no variance
            root = np.abs(h)
            w = resolve(self.latent(s, root), *site).weight
            return RowTerms(self.value(h, root), self.pull(y, s, w), w, None)
        slack = h * h + v
        root = np.sqrt(slack)
        w = resolve(self.latent(s, root), *site).weight
        return RowTerms(self.value(h, root), self.pull(y, s, w), w, self.curvature(w, h, v, slack))

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
