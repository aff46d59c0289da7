"""Values that are missing not at random: a probit model of being observed, after Faes, Ormerod & Wand (2011).

An input d of a row is observed with probability Φ(φ₀ + φ₁d). With a latent a* ~ N(φ₀ + φ₁d, 1), positive where d is
observed, every conditional is of a known form.
"""

import math
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.distributions import InverseWishart
from vbsvm.missing.rows import PatternGroup
from vbsvm.model.layouts.dense import LOG_2PI


@final
@dataclass(frozen=True, eq=False)
class ProbitSums:
    """Sums of each column: Σ s E[(1, d)(1, d)ᵀ], Σ s E[(1, d)a*], and a constant of the bound."""

    gram: Array
    linear: Array
    constant: float

    def __add__(self, other: Self) -> "ProbitSums":
        """Add the sums of two sets of rows."""
        return ProbitSums(self.gram + other.gram, self.linear + other.linear, self.constant + other.constant)


@final
@dataclass(frozen=True, eq=False)
class Latents:
    """Latent probit variables a* ~ N(η, 1), truncated to the sign of each value."""

    eta: Array
    sign: Array

    @property
    def log_prob(self) -> Array:
        """log Φ(±η)."""
        return log_ndtr(self.sign * self.eta)

    @property
    def value(self) -> Array:
        """E a* = η ± φ(η)/Φ(±η), on the log scale, as both underflow in the tails."""
        ratio = np.exp(-0.5 * np.square(self.eta) - 0.5 * LOG_2PI - self.log_prob)
        return self.eta + self.sign * ratio

    def draw(self, rng: np.random.Generator) -> "DrawnLatents":
        """Draw by inversion of the distribution function, on the log scale."""
        log_uniform = np.log1p(-rng.random(self.eta.shape))
        return DrawnLatents(self.eta - self.sign * ndtri_exp(log_uniform + self.log_prob))


@final
@dataclass(frozen=True, eq=False)
class DrawnLatents:
    """A draw of a*."""

    value: Array


@final
@dataclass(frozen=True, eq=False)
class ProbitDistribution:
    """q(φ₀, φ₁) of some variables: means (variables × 2) and covariances (variables × 2 × 2).

    ``variables`` are their numbers, ``columns`` those of the design.
    """

    variables: NDArray[np.intp]
    columns: NDArray[np.intp]
    mean: Array
    covariance: Array

    @staticmethod
    def start(variables: NDArray[np.intp], columns: NDArray[np.intp]) -> "ProbitDistribution":
        """φ = 0 at covariance 0: missing at random."""
        return ProbitDistribution(variables, columns, np.zeros((len(variables), 2)), np.zeros((len(variables), 2, 2)))

    @property
    def outer(self) -> Array:
        """E[φφᵀ]."""
        return self.covariance + self.mean[:, :, None] * self.mean[:, None, :]

    def latents(self, values: Array, observed: NDArray[np.bool_]) -> "Latents":
        """Distribution of a* given the values (rows × columns) and which of them were observed."""
        return Latents(self.mean[:, 0] + values * self.mean[:, 1], np.where(observed, 1.0, -1.0))

    def sums(
        self, values: Array, variances: Array, observed: NDArray[np.bool_], s: Array, latent: Array | None = None
    ) -> ProbitSums:
        """Sums over rows, from expected values and variances of the columns (rows × columns).

        ``latent`` are draws of a*; variational Bayes has their expectations.
        """
        distribution = self.latents(values, observed)
        eta, log_prob = distribution.eta, distribution.log_prob
        latent = distribution.value if latent is None else latent
        gram = np.empty((len(self.variables), 2, 2))
        gram[:, 0, 0] = s.sum()
        gram[:, 0, 1] = gram[:, 1, 0] = s @ values
        gram[:, 1, 1] = s @ (np.square(values) + variances)
        linear = np.stack([s @ latent, s @ (latent * values)], axis=1)
        return ProbitSums(gram, linear, float((s @ (latent * eta - 0.5 * np.square(eta) - log_prob)).sum()))

    def updated(self, sums: ProbitSums, variance: float) -> "ProbitDistribution":
        """Conditional distribution of φ: precision Σ E[(1, d)(1, d)ᵀ] + I/σ², and its mean."""
        covariance = inverse(sums.gram + np.eye(2) / variance)
        return replace(self, mean=np.einsum("cjk,ck->cj", covariance, sums.linear), covariance=covariance)

    def bound(self, sums: ProbitSums, variance: float) -> float:
        """E log p(observed or not, a*, φ) − E log q(a*) q(φ), with the distributions of a* as in the sums."""
        if not self.covariance.any():
            return -math.inf
        n = self.mean.size
        data = float((sums.linear * self.mean).sum()) - 0.5 * float(np.vdot(sums.gram, self.outer)) - sums.constant
        prior = -0.5 * n * math.log(variance) - float(np.einsum("cjj->", self.outer)) / (2 * variance)
        return data + prior + 0.5 * n + 0.5 * float(np.linalg.slogdet(self.covariance)[1].sum())

    def pack(self) -> list[float]:
        """Return the means and the Cholesky factors of the covariances."""
        if not self.covariance.any():
            return []
        roots = [x for covariance in self.covariance for x in InverseWishart(covariance, 1.0).pack()]
        return [*self.mean.ravel(), *roots]

    def unpack(self, numbers: Array) -> "ProbitDistribution":
        """Inverse of ``pack``."""
        if not self.covariance.any():
            return self
        mean = numbers[: self.mean.size].reshape(self.mean.shape)
        roots = numbers[self.mean.size :].reshape(len(mean), 3)
        covariance = np.stack([InverseWishart(np.eye(2), 1.0).unpack(root).scale for root in roots])
        return replace(self, mean=mean, covariance=covariance)

    def draw(self, rng: np.random.Generator) -> "ProbitDistribution":
        """Draw φ."""
        noise = np.einsum("cjk,ck->cj", cholesky(self.covariance), rng.standard_normal(self.mean.shape))
        return replace(self, mean=self.mean + noise, covariance=np.zeros_like(self.covariance))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProbitPull:
    """Probit term of the missing values of a group of rows: η = offset + slope d, and E φ₁², E φ₀φ₁.

    All are rows × k, and zero for variables that are missing at random.
    """

    offset: Array
    slope: Array
    square: Array
    product: Array

    @staticmethod
    def around(distribution: ProbitDistribution, group: PatternGroup, values: Array) -> "ProbitPull":
        """Expand the term around the conditional means without it."""
        by_variable = np.zeros((4, values.shape[1]))
        by_variable[:, distribution.variables] = [*distribution.mean.T, *distribution.outer[:, [1, 0], 1].T]
        offset, slope, square, product = (moment[group.cells[1]] for moment in by_variable)
        expected = values[group.cells]
        return ProbitPull(offset + slope * expected, slope, square, product + square * expected)

    def linear(self, change: Array) -> Array:
        """Linear coefficient E φ₁ E a* − E[φ₀φ₁] − E φ₁² d after a change of the values, the last part at no change."""
        eta = self.offset + self.slope * change
        return self.slope * Latents(eta, np.array(-1.0)).value - self.product


def with_probit(T: Array, distribution: ProbitDistribution) -> Array:
    """T + diag E φ₁²: precision of the missing values given the probit model."""
    precision = T.copy()
    precision[distribution.variables, distribution.variables] += distribution.outer[:, 1, 1]
    return precision
