"""What a layout is: its rows, its gram and its distribution of the coefficients, each with a few verbs.

Rows ask a distribution for the moments of their scores, and form the sums that its update needs. A gram adds, solves,
and hands out the next distribution. The two sides meet in nothing else, so that a layout that knows more of the design
(a grouping factor, say) is a sibling with the same verbs, and its results equal the dense ones.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.model.gates import Gates, GateScan


class LabelledRows(Protocol):
    """A block of rows: its place in the data, labels ±1 and weights > 0."""

    @property
    def index(self) -> int:
        """Place of the block in the data."""
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
    """Rows whose inputs are all there."""

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        ...

    def gram(self, w: Array) -> "Gram":
        """CᵀWC."""
        ...

    def cross(self, u: Array) -> Any:
        """Cᵀu, as an array, or as sums that add and have it as their ``to_array()``."""
        ...

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        ...

    def slopes_by_row(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """What multiplies these columns of the design, for each row or in one row for all."""
        ...


class Gram(Protocol):
    """CᵀWC over any set of rows."""

    def __add__(self, other: Self, /) -> Self:
        """Add the sums of two sets of rows."""
        ...

    def __sub__(self, other: Self, /) -> Self:
        """Take away the sums of other rows."""
        ...

    def interpolate(self, other: Self, fraction: float) -> Self:
        """(1 − fraction) × this gram + fraction × another."""
        ...

    def times(self, theta: Array) -> Array:
        """CᵀWCθ."""
        ...

    def gated(self, gates: Gates | None, own: Self) -> Self:
        """G ∘ E[γ̃γ̃ᵀ]; the part where a gate meets itself is taken from ``own``."""
        ...

    def scan(self, cross: Array, distribution: Any, gates: Gates, prior_log_odds: Array) -> GateScan:
        """Full conditionals of the gates, given a distribution or a point of the coefficients in this layout."""
        ...

    def conditional(self, cross: Array, precision: "Precision") -> "GaussianDistribution":
        """Σ = (G + Λ)⁻¹, μ = Σ r (Algorithm 1, line 2; Algorithm 2, lines 2 and 3)."""
        ...

    def solve(self, right: Array, precision: "Precision") -> Array | None:
        """(G + Λ)⁻¹ right, or None where that matrix is not positive in floating point."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """Λ, the expected prior precision: a diagonal, and couplings of effects that vary together.

    A coupling (j, k, value) says Λ = value where an element of the stride j meets its partner in the stride k.
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
    """Distribution of what multiplies some columns in each row: coefficients, and effects of the row's groups.

    ``mean`` (rows × columns), ``with_score`` the covariances with the row's score, and ``covariance`` (rows × columns ×
    columns). Where all rows share mean and covariance, their first axis has length 1.
    """

    mean: Array
    with_score: Array
    covariance: Array

    @property
    def shared(self) -> bool:
        """Whether all rows have the same effects."""
        return len(self.mean) == 1

    def of_rows(self, which: NDArray[np.intp]) -> "Effects":
        """The same of some rows."""
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
    """What rows ask of the distribution of the coefficients; the rows are those of its layout."""

    def row_moments(self, rows: Any) -> tuple[Array, Array | float]:
        """Mean and variance of each row's score cᵀθ."""
        ...

    def effects(self, rows: Any, columns: NDArray[np.intp]) -> Effects:
        """Distribution of what multiplies these columns of the design; asked by rows that miss values there."""
        ...


class CoefficientDistribution(Protocol):
    """What rows, priors and the bound ask of the distribution of the coefficients."""

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
        """Σ E[θ_j θ_k] over the pairs of two strides of equal length."""
        ...

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        ...

    def effective(self, gates: Gates | None) -> "EffectiveCoefficients":
        """What a pass over the rows takes along, with the gates applied; made once for all row blocks."""
        ...

    def quadratic(self, gram: Any) -> float:
        """E[θᵀ gram θ], for a gram of the layout."""
        ...


class GaussianDistribution(CoefficientDistribution, Protocol):
    """A distribution with spread: what optimisation and sampling need beyond the sweep."""

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        ...

    @property
    def precision(self) -> Gram:
        """Σ⁻¹, as a gram."""
        ...

    def marginal(self, n: int) -> CoefficientDistribution:
        """Distribution of the first n coefficients, those of dense columns."""
        ...

    def with_mean(self, mean: Array) -> Self:
        """Move the distribution to another mean."""
        ...

    def draw(self, rng: np.random.Generator) -> CoefficientDistribution:
        """Replace the distribution by a point drawn from it."""
        ...

    def pack(self) -> Array:
        """Unconstrained numbers that determine the distribution; any numbers are a valid distribution."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """Make the distribution that packs to these numbers."""
        ...


# What fills the slot of missing values is ``missing.model``'s: its model, and its part of the state.
MissingModel = MissingDistributions = Any
