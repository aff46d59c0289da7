"""The hinge loss exp{−2η s (1 − y f)₊}: its exact expectation, and a Gaussian scale mixture over a latent scale a.

Elementwise over rows, from their labels y, weights s > 0, and the mean f and variance v of their scores, with
h = 1 − y f (paper, Section 2.3, where the power η is 1).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import Latent
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.likelihoods.base import RowDerivatives, RowTerms, ScaleMixture

# Larger variances of a score are clipped: the score is then uninformative.
MAX_VARIANCE = 1e20
# Larger scores are clipped: their log odds, or differences of these, overflow.
MAX_SCORE = 4e307
WIDE = 0.7
MIN_VARIANCE = 1e-300


@final
@dataclass(frozen=True, slots=True)
class ExactHinge:
    """ℓ = −2ηs E(1 − y f)₊ under a normal score; η is the ``power`` of the pseudo-likelihood.

    The expectation is hΦ(z) + σφ(z) with σ = √v and z = h/σ. The bound is tighter than the augmented one, at the same
    posterior. It has no latent variables, so samplers cannot use it, and it needs v > 0: a fit starts from
    the distribution of the augmented bound.
    """

    power: float = 1.0
    name: ClassVar[str] = "hinge"
    normalised: ClassVar[bool] = False

    @property
    def exact(self) -> "ExactHinge":
        """Itself."""
        return self

    def width(self, v: Array) -> Array:
        """√v/η: ℓ is curved within a standard deviation of the margin."""
        return np.sqrt(v) / self.power

    def log_likelihood(self, margin: Array) -> Array:
        """−2η(1 − margin)₊."""
        return -2.0 * self.power * np.maximum(1.0 - margin, 0.0)

    def terms(self, f: Array, v: Array | float, y: Array, s: Array, mode: UpdateMode, *site: str | int) -> RowTerms:
        """w = 2ηsφ(z)/σ and u = w f + 2ηsyΦ(z); the curvature is w."""
        value, below, density, sd = self._expected(f, v, y)
        s = 2.0 * self.power * s
        w = s * density / sd
        return RowTerms(value, w * f + s * y * below, w, w)

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ, and ∂ℓ/∂f = 2ηsyΦ(z)."""
        value, below, _, _ = self._expected(f, v, y)
        return value, 2.0 * self.power * s * y * below

    def _expected(self, f: Array, v: Array | float, y: Array) -> tuple[Array, Array, Array, Array]:
        """ℓ at weight 1, Φ(z), φ(z) and σ."""
        h, sd = 1.0 - y * f, np.sqrt(np.maximum(v, MIN_VARIANCE))
        z = h / sd
        below, density = ndtr(z), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        return -2.0 * self.power * (h * below + sd * density), below, density, sd

    def derivatives(self, f: Array, v: Array, y: Array, s: Array) -> RowDerivatives:
        """ℓ_f = 2ηsyΦ(z), ℓ_ff = −w, ℓ_fv = −½ywz/σ and ℓ_vv = w(1 − z²)/(4v)."""
        _, below, density, sd = self._expected(f, v, y)
        s, z = 2.0 * self.power * s, (1.0 - y * f) / sd
        w = s * density / sd
        return RowDerivatives(s * y * below, -w, -0.5 * y * w * (z / sd), 0.25 * w * (1.0 / sd - z * (z / sd)) / sd)


EXACT_HINGE = ExactHinge()


@final
@dataclass(frozen=True, slots=True)
class Hinge(ScaleMixture):
    """The augmented bound of the paper, with a latent scale a of each row.

    The conditional of a is GIG(½, 1, s²χ) with the slack χ = E(1 − y f)² = h² + v, a sum without cancellation. ℓ =
    −s(h + √χ), w = s² E[1/a] and u = y(s + w) (Algorithm 1, line 3; Algorithm 2, line 3). With a ``power`` η of the
    pseudo-likelihood, ηs takes the place of s.
    """

    power: float = 1.0

    name: ClassVar[str] = "hinge"
    normalised: ClassVar[bool] = False
    kink: ClassVar[float] = 1.0

    @property
    def slope(self) -> float:
        """η."""
        return self.power

    @property
    def exact(self) -> ExactHinge:
        """The exact expectation."""
        return EXACT_HINGE if self.power == 1.0 else ExactHinge(self.power)

    def height(self, root: Array) -> Array:
        """−η√χ."""
        return -self.power * root

    def latent(self, s: Array, root: Array) -> Latent:
        """The distribution of a."""
        return Latent(self.power * s, root)

    def unit_weight(self, root: Array) -> Array:
        """η/√χ."""
        return self.power / root

    def elasticity(self, root: Array) -> float:
        """−1."""
        return -1.0

    def curvature(self, w: Array, h: Array, v: Array, slack: Array) -> Array:
        """w v/χ."""
        return w * (v / slack)

    def width(self, v: Array) -> Array:
        """√v/η: ℓ is curved within a standard deviation of the margin."""
        return np.sqrt(v) / self.power

    def slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[Array, Array]:
        """ℓ = −η(h + √χ) and ∂ℓ/∂f = ηsy(1 + h/√χ); in place, as this takes most of the time of a fit."""
        h = y * f
        np.subtract(1.0, h, out=h)
        root = h * h
        root += v
        np.sqrt(root, out=root)
        slope = h / root
        slope += 1.0
        slope *= y
        slope *= s
        if self.power != 1.0:
            slope *= self.power
        root += h
        return np.multiply(root, -self.power, out=root), slope


HINGE = Hinge()


def log_odds(f: Array) -> Array:
    """Log odds of y = 1 by the normalised pseudo-likelihood e^{−2(1 − f)₊} : e^{−2(1 + f)₊}."""
    return 2.0 * (f + np.clip(f, -1.0, 1.0))


def averaged_log_odds(f: Array, variance: Array) -> Array:
    """Log odds of the mean probability for a normal score with mean f and this variance; increasing and odd in f."""
    sd = np.sqrt(np.minimum(variance, MAX_VARIANCE))
    f = np.clip(f, -MAX_SCORE, MAX_SCORE)
    averaged = log_odds(f)
    for which, average in ((sd > WIDE, _average_wide), ((sd > 0) & (sd <= WIDE), _average_narrow)):
        if which.any():
            averaged[which] = average(f[which], sd[which])
    return averaged


def _average_narrow(f: Array, sd: Array) -> Array:
    """Average by Gauss-Hermite quadrature, for small standard deviations."""
    z, weights = np.polynomial.hermite_e.hermegauss(48)
    around = log_odds(f[:, None] + sd[:, None] * z)
    weights = weights / weights.sum()
    positive, negative = (logsumexp(log_expit(odds), axis=1, b=weights) for odds in (around, -around))
    return np.asarray(positive) - np.asarray(negative)


def _average_wide(f: Array, sd: Array) -> Array:
    """Average for large standard deviations: Φ(f/sd) of a step function, plus the integral of the difference to it."""
    size = np.abs(f)
    points, weights = np.polynomial.legendre.leggauss(96)
    near, far = np.zeros_like(size), np.zeros_like(size)
    for x, weight in zip(20.0 * (points + 1.0), 20.0 * weights, strict=True):
        rest = weight * expit(-log_odds(x))
        near += rest * np.exp(-0.5 * np.square((x - size) / sd))
        far += rest * np.exp(-0.5 * np.square((x + size) / sd))
    rest = (near - far) / (sd * np.sqrt(2 * np.pi))
    with np.errstate(divide="ignore"):
        averaged = np.log(ndtr(size / sd) - rest) - np.logaddexp(log_ndtr(-size / sd), np.log(rest))
    # Averaging never increases |log odds|, and keeps the sign of f despite rounding.
    return np.sign(f) * np.clip(averaged, 1e-15, log_odds(size))
