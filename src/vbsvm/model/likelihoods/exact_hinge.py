"""The hinge loss itself: its exact expectation under a normal distribution of the score, without latent scales.

The bound is tighter than the paper's, at the same posterior: E(1 − y f)₊ with f ~ N(mean, v) is hΦ(z) + σφ(z), where
σ = √v, z = h/σ and h is 1 − y times the mean. There is nothing latent to draw, so a sampler has no use for it, and
rows need a spread: a fit starts from that of the paper's bound.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import ndtr

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.model.likelihoods.base import RowDerivatives, RowTerms

SMALLEST_VARIANCE = 1e-300


@final
@dataclass(frozen=True, slots=True)
class ExactHinge:
    """ℓ = −2ηs E(1 − y f)₊ under a normal score; η is the ``power`` of the pseudo-likelihood."""

    power: float = 1.0
    name: ClassVar[str] = "hinge"
    normalised: ClassVar[bool] = False

    @property
    def exact(self) -> "ExactHinge":
        """Itself."""
        return self

    def width(self, v: Array) -> Array:
        """√v/η: rows bend within a standard deviation of the kink."""
        return np.sqrt(v) / self.power

    def at_point(self, margin: Array) -> Array:
        """−2η(1 − margin)₊."""
        return -2.0 * self.power * np.maximum(1.0 - margin, 0.0)

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, resolve: Reading, *site: str | int) -> RowTerms:
        """w = 2ηsφ(z)/σ and u = w f + 2ηsyΦ(z); the curvature is w."""
        twice, s = 2.0 * self.power, self.power * s
        h, sd = 1.0 - y * f, np.sqrt(np.maximum(v, SMALLEST_VARIANCE))
        z = h / sd
        below, density = ndtr(z), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        w = 2.0 * s * density / sd
        return RowTerms(-twice * (h * below + sd * density), w * f + 2.0 * s * y * below, w, w)

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ, and ∂ℓ/∂f = 2ηsyΦ(z)."""
        twice = 2.0 * self.power
        h, sd = 1.0 - y * f, np.sqrt(np.maximum(v, SMALLEST_VARIANCE))
        z = h / sd
        below, density = ndtr(z), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        return -twice * (h * below + sd * density), twice * s * y * below

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """ℓ_f = 2ηsyΦ(z), ℓ_ff = −w, ℓ_fv = −½ywz/σ and ℓ_vv = w(1 − z²)/(4v)."""
        s = self.power * s
        sd = np.sqrt(np.maximum(v, SMALLEST_VARIANCE))
        z = (1.0 - y * f) / sd
        w = 2.0 * s * np.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * sd)
        return RowDerivatives(
            2.0 * s * y * ndtr(z), -w, -0.5 * y * w * (z / sd), 0.25 * w * (1.0 / sd - z * (z / sd)) / sd
        )


EXACT_HINGE = ExactHinge()
