"""Interfaces of a layout: its rows, its gram matrix and its distribution of the coefficients.

A distribution gives the moments of rows' scores; rows form the sums that its update needs; grams add, solve, and give
the next distribution. There is no other coupling, so that a layout that exploits structure of the design (such as a
grouping factor) has the same interface, and the same results as the dense one. Every layout has the same discrete
distributions: a point, and the draws of a sampler.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import Gates, GateScan


class LabelledRows(Protocol):
    """A block of rows: its number, labels ±1 and weights > 0."""

    @property
    def index(self) -> int:
        """Number of the block in the data."""
        ...

    @property
    def y(self) -> Array:
        """Labels ±1."""
        ...

    @property
    def weights(self) -> Array:
        """Sample weights, above 0."""
        ...


class Rows(LabelledRows, Protocol):
    """Rows without missing predictors."""

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        ...

    def gram(self, w: Array) -> "Gram":
        """CᵀWC."""
        ...

    def cross(self, u: Array) -> Any:
        """Cᵀu, as an array, or as addable sums with a method ``to_array()``."""
        ...

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        ...

    def slopes_by_row(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """Slopes of these columns of the design, rows × columns, or 1 × columns if they are the same in all rows."""
        ...


class Gram(Protocol):
    """CᵀWC over any set of rows."""

    def __add__(self, other: Self, /) -> Self:
        """Add the sums of two sets of rows."""
        ...

    def __sub__(self, other: Self, /) -> Self:
        """Subtract the sums of other rows."""
        ...

    def interpolate(self, other: Self, fraction: float) -> Self:
        """(1 − fraction) × this gram + fraction × another."""
        ...

    def times(self, theta: Array) -> Array:
        """CᵀWCθ."""
        ...

    def gated(self, gates: Gates, own: Self) -> Self:
        """G ∘ E[γ̃γ̃ᵀ]; the part with the variance of the indicators is taken from ``own``."""
        ...

    def scan(self, cross: Array, distribution: Any, gates: Gates, prior_log_odds: Array) -> GateScan:
        """Full conditionals of the indicators, given a distribution or a point of the coefficients in this layout."""
        ...

    def conditional(self, cross: Array, precision: "Precision") -> "GaussianDistribution":
        """Σ = (G + Λ)⁻¹, μ = Σ r (Algorithm 1, line 2; Algorithm 2, lines 2 and 3)."""
        ...

    def solve(self, right: Array, precision: "Precision") -> Array | None:
        """(G + Λ)⁻¹ right, or None if that matrix is not numerically positive definite."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """Λ, the expected prior precision: a diagonal, and couplings of correlated random effects.

    A coupling (j, k, value) sets Λ = value between corresponding elements of the strided slices j and k.
    """

    diagonal: Array
    couplings: tuple[tuple[slice, slice, float], ...] = ()

    def times(self, theta: Array) -> Array:
        """Λθ."""
        product = self.diagonal * theta
        for left, right, value in self.couplings:
            product[left] += value * theta[right]
            product[right] += value * theta[left]
        return product

    def scaled(self, factor: float) -> "Precision":
        """A multiple of Λ."""
        return Precision(factor * self.diagonal, tuple((j, k, factor * value) for j, k, value in self.couplings))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Distribution of the slopes of some columns in each row: coefficients plus random slopes of the row's levels.

    ``mean`` (rows × columns), ``with_score`` the covariances with the row's score, and ``covariance`` (rows × columns ×
    columns). Where all rows share mean and covariance, their first axis has length 1.
    """

    mean: Array
    with_score: Array
    covariance: Array

    @property
    def shared(self) -> bool:
        """Whether all rows have the same slopes."""
        return len(self.mean) == 1

    def of_rows(self, which: NDArray[np.intp]) -> "Effects":
        """The distribution for a subset of the rows."""
        if self.shared:
            return Effects(self.mean, self.with_score[which], self.covariance)
        return Effects(self.mean[which], self.with_score[which], self.covariance[which])

    def through(self, links: Array) -> "Effects":
        """Distribution of Lᵀb for effects b and the links L of each row (rows × columns × variables)."""
        return Effects(
            np.einsum("ij,ije->ie", np.broadcast_to(self.mean, links.shape[:2]), links),
            np.einsum("ij,ije->ie", self.with_score, links),
            links.transpose(0, 2, 1) @ self.covariance @ links,
        )


class EffectiveCoefficients(Protocol):
    """Distribution of the effective coefficients (indicators applied), as passes over the rows of its layout use it."""

    def row_moments(self, rows: Any) -> tuple[Array, Array | float]:
        """Mean and variance of each row's score cᵀθ."""
        ...

    def effects(self, rows: Any, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the slopes of these columns of the design, for rows with missing values there."""
        ...


class CoefficientDistribution(Protocol):
    """Distribution of the coefficients, as used by rows, priors and the ELBO."""

    @property
    def mean(self) -> Array:
        """E[θ]."""
        ...

    @property
    def variances(self) -> Array:
        """Var(θ), elementwise."""
        ...

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        ...

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        ...

    @property
    def entropy(self) -> float:
        """Differential entropy."""
        ...

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices of equal length."""
        ...

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        ...

    def effective(self, gates: Gates | None) -> "EffectiveCoefficients":
        """Distribution of the effective coefficients γ∘v, computed once for all row blocks of a pass."""
        ...

    def quadratic(self, gram: Any) -> float:
        """E[θᵀ gram θ], for a gram of this layout."""
        ...


class GaussianDistribution(CoefficientDistribution, Protocol):
    """A non-degenerate distribution: the interface for optimisation and sampling."""

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        ...

    @property
    def precision(self) -> Gram:
        """Σ⁻¹, as a gram."""
        ...

    def marginal(self, n: int) -> CoefficientDistribution:
        """Marginal distribution of the first n coefficients, those of dense columns."""
        ...

    def with_mean(self, mean: Array) -> Self:
        """A copy with another mean."""
        ...

    def draw(self, rng: np.random.Generator) -> CoefficientDistribution:
        """A point drawn from the distribution."""
        ...

    def pack(self) -> Array:
        """Unconstrained parameters of the distribution: every vector is a valid one."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """The distribution with these parameters: inverse of ``pack``."""
        ...


# Defined in ``missing.model``: the model of missing values, and its part of the state.
MissingModel = MissingDistributions = Any


class SecondMoments:
    """Mixin: second moments from mean, variances and covariances."""

    @cached_property
    def squares(self: Any) -> Array:
        """E[θ²], elementwise."""
        return self.variances + np.square(self.mean)

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        return float(np.add.reduce(self.squares[columns]))

    def outer(self: Any, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.covariances(n) + np.outer(self.mean[:n], self.mean[:n])

    def marginal(self, n: int) -> Self:
        """Marginal distribution of the first n coefficients; all of them in a layout without random effects."""
        return self


@final
@dataclass(frozen=True, eq=False)
class PointDistribution(SecondMoments):
    """Point mass of the coefficients, in any layout: the start of variational Bayes, and every state of Gibbs."""

    mean: Array

    @property
    def variances(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.mean)

    @property
    def entropy(self) -> float:
        """Minus infinity, so that the ELBO of the start is below every other."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ θ_j θ_k."""
        return float(self.mean[left] @ self.mean[right])

    def outer(self, n: int) -> Array:
        """θθᵀ."""
        return np.outer(self.mean[:n], self.mean[:n])

    def cross_moments(self, border: Array) -> Array:
        """Σ B E[u x_k] over the coefficients u outside the core, for each coefficient x_k of the core."""
        n_core = border.shape[1]
        return (self.mean[n_core:] @ border) * self.mean[:n_core]

    def effective(self, gates: Gates | None) -> "PointDistribution":
        """The effective coefficients."""
        return self if gates is None else PointDistribution(gates.by_coefficient * self.mean)

    def row_moments(self, rows: Rows) -> tuple[Array, float]:
        """Scores, and variance 0."""
        return rows.scores(self.mean), 0.0

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Slopes of these columns, with covariance 0."""
        mean = rows.slopes_by_row(self.mean, columns)
        return Effects(mean, np.zeros((len(rows.y), len(columns))), np.zeros((len(mean), *[len(columns)] * 2)))

    def quadratic(self, gram: Gram) -> float:
        """θᵀ gram θ."""
        return float(self.mean @ gram.times(self.mean))

    def with_mean(self, mean: Array) -> "PointDistribution":
        """Another point."""
        return PointDistribution(mean)


# Moments of scores are taken over at most this many draws, evenly spaced.
MAX_DRAWS = 1000


@final
@dataclass(frozen=True, eq=False)
class SampledCoefficients(SecondMoments):
    """Draws of the effective coefficients, draws × coefficients."""

    draws: Array

    @cached_property
    def mean(self) -> Array:
        """E[θ]."""
        return self.draws.mean(axis=0)

    @cached_property
    def variances(self) -> Array:
        """Var(θ), elementwise."""
        return self.draws.var(axis=0)

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        centred = self.draws[:, :n] - self.mean[:n]
        return centred.T @ centred / len(centred)

    @property
    def entropy(self) -> float:
        """Minus infinity, as for a point: draws have no density."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        return float(np.vdot(self.draws[:, left], self.draws[:, right])) / len(self.draws)

    def quadratic(self, gram: Gram) -> float:
        """E[θᵀ gram θ]."""
        return sum(float(theta @ gram.times(theta)) for theta in self.draws) / len(self.draws)

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """One of the draws."""
        return PointDistribution(self.draws[rng.integers(len(self.draws))])

    def effective(self, gates: Gates | None) -> "SampledCoefficients":
        """Itself, as the draws are of the effective coefficients."""
        return self

    @cached_property
    def _thinned(self) -> Array:
        step = -(-len(self.draws) // MAX_DRAWS)
        return self.draws[::step]

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Score of each row at the mean coefficients, and its variance over draws."""
        mean = rows.scores(self.mean)
        variance = np.zeros(len(mean))
        for theta in self._thinned:
            variance += np.square(rows.scores(theta) - mean)
        return mean, variance / len(self._thinned)

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Moments of the slopes of these columns over draws."""
        distribution = PointDistribution(self.mean).effects(rows, columns)
        score, with_score, covariance = rows.scores(self.mean), distribution.with_score, distribution.covariance
        for theta in self._thinned:
            deviation = rows.slopes_by_row(theta, columns) - distribution.mean
            with_score = with_score + deviation * (rows.scores(theta) - score)[:, None]
            covariance = covariance + deviation[:, :, None] * deviation[:, None, :]
        return Effects(distribution.mean, with_score / len(self._thinned), covariance / len(self._thinned))
