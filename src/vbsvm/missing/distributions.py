"""Distributions of the inputs, and the sums over rows that they are updated from."""

from dataclasses import dataclass, field
from typing import Protocol, Self, final

import numpy as np
from scipy.linalg import solve_triangular

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseWishart, MatrixPoint
from vbsvm.missing.mechanisms import ProbitDistribution, ProbitSums
from vbsvm.model.row_pass import added


@final
@dataclass(frozen=True, eq=False)
class Regressors:
    """Σ s x̃x̃ᵀ over all rows; it never changes during a fit."""

    matrix: Array
    _roots: dict[float, Array] = field(default_factory=dict)
    _leading: dict[int, "Regressors"] = field(default_factory=dict)

    def __add__(self, other: Self) -> "Regressors":
        """Add the sums of two sets of rows."""
        return Regressors(self.matrix + other.matrix)

    def leading(self, n: int) -> "Regressors":
        """The first n of them."""
        if n not in self._leading:
            self._leading[n] = Regressors(self.matrix[:n, :n])
        return self._leading[n]

    def precision(self, psi: float) -> Array:
        """K = diag(0, Ψ) + Σ s x̃x̃ᵀ."""
        K = self.matrix.copy()
        K.ravel()[len(K) + 1 :: len(K) + 1] += psi
        return K

    def root(self, psi: float) -> Array:
        """Lower Cholesky factor of K."""
        if psi not in self._roots:
            self._roots[psi] = cholesky(self.precision(psi))
        return self._roots[psi]


@final
@dataclass(frozen=True, eq=False)
class InputSums:
    """Sums over rows that the distribution of the inputs needs: Σ s, Σ s x̃x̃ᵀ, Σ s x̃ E[d]ᵀ and Σ s E[ddᵀ].

    A pass makes the last two over incomplete rows; the source adds what is known of the others.
    """

    linear: Array
    squares: Array
    total: float = 0.0
    regressors: Regressors | None = None
    probit: ProbitSums | None = None

    def __add__(self, other: Self) -> "InputSums":
        """Add the sums of two sets of rows."""
        return InputSums(
            self.linear + other.linear,
            self.squares + other.squares,
            self.total + other.total,
            added(self.regressors, other.regressors),
            added(self.probit, other.probit),
        )

    def divided(self, n: float) -> "InputSums":
        """Means of sums over n sweeps, which were added."""
        assert self.regressors is not None
        matrix = Regressors(self.regressors.matrix / n)
        return InputSums(self.linear / n, self.squares / n, self.total / n, matrix)


class InputDistribution(Protocol):
    """What rows ask: d ~ N(coefficientsᵀ x̃, precision⁻¹)."""

    @property
    def coefficients(self) -> Array:
        """E A, regressors × variables."""
        ...

    @property
    def precision(self) -> Array:
        """T = E Σ⁻¹, variables × variables."""
        ...

    @property
    def probit(self) -> ProbitDistribution | None:
        """The distribution of being observed; None where values are missing at random."""
        ...

    def pack(self) -> list[float]:
        """Give unconstrained numbers that determine the distribution."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """Make the distribution that has these numbers."""
        ...


class _Wrapper:
    """A distribution of the inputs that has another one's moments."""

    inputs: InputDistribution

    @property
    def coefficients(self) -> Array:
        """E A."""
        return self.inputs.coefficients

    @property
    def precision(self) -> Array:
        """E Σ⁻¹."""
        return self.inputs.precision


@final
@dataclass(frozen=True, eq=False)
class Selective(_Wrapper):
    """A distribution of the inputs, and that of being observed."""

    inputs: InputDistribution
    probit: ProbitDistribution

    def pack(self) -> list[float]:
        """Give the numbers of the inputs, then those of being observed."""
        return [*self.inputs.pack(), *self.probit.pack()]

    def unpack(self, numbers: Array) -> "Selective":
        """Make the distribution that has these numbers."""
        at = len(numbers) - len(self.probit.pack())
        return Selective(self.inputs.unpack(numbers[:at]), self.probit.unpack(numbers[at:]))


class AtRandom:
    """A distribution of inputs that are missing at random."""

    @property
    def probit(self) -> None:
        """Being observed tells nothing."""
        return


class _Constant:
    """A distribution that an extrapolation does not change."""

    def pack(self) -> list[float]:
        """Give no numbers: nothing here may move."""
        return []

    def unpack(self, numbers: Array) -> Self:
        """Return itself."""
        return self


@final
@dataclass(frozen=True, eq=False)
class FixedInputs(_Wrapper, _Constant):
    """A distribution of the inputs that was learned first, and is fixed while coefficients are fitted."""

    inputs: InputDistribution

    @property
    def probit(self) -> ProbitDistribution | None:
        """The distribution of being observed."""
        return self.inputs.probit


@final
@dataclass(frozen=True, eq=False)
class KnownInputs(_Constant, AtRandom):
    """A distribution of the inputs without uncertainty: a start, a draw, or what predictions go by."""

    coefficients: Array
    precision: Array


@final
@dataclass(frozen=True, eq=False)
class Regression(AtRandom):
    """q(A, Σ) of the variables given the other inputs: A | Σ ~ MN(coefficients, K⁻¹, Σ), Σ ~ IW."""

    coefficients: Array
    covariance: InverseWishart
    root: Array  # of K

    @cached_property
    def precision(self) -> Array:
        """E Σ⁻¹."""
        return self.covariance.inverse_mean

    def draw(self, rng: np.random.Generator) -> KnownInputs:
        """Draw Σ, then A given Σ."""
        Sigma = self.covariance.draw(rng).value
        noise = solve_triangular(self.root, rng.standard_normal(self.coefficients.shape), lower=True, trans=1)
        return KnownInputs(self.coefficients + noise @ cholesky(Sigma).T, inverse(Sigma))

    def pack(self) -> list[float]:
        """Give the coefficients, and the covariance in units of its degrees."""
        return [*self.coefficients.ravel(), *per_degree(self.covariance).pack()]

    def unpack(self, numbers: Array) -> "Regression":
        """Make the distribution that has these numbers."""
        size = self.coefficients.size
        coefficients = numbers[:size].reshape(self.coefficients.shape)
        return Regression(coefficients, of_degrees(self.covariance, numbers[size:]), self.root)


@final
@dataclass(frozen=True, eq=False)
class JointInputs(AtRandom):
    """q(μ) q(Σ) of all inputs: the paper's distribution. The mean's own covariance is ``spread``."""

    mean: Array
    spread: Array
    covariance: InverseWishart | MatrixPoint

    @property
    def coefficients(self) -> Array:
        """E μ, as the coefficients of x̃ = [1]."""
        return self.mean[None]

    @cached_property
    def precision(self) -> Array:
        """E Σ⁻¹."""
        return self.covariance.inverse_mean

    def pack(self) -> list[float]:
        """Give the mean, its covariance, and Σ in units of its degrees."""
        assert isinstance(self.covariance, InverseWishart)
        return [*self.mean, *InverseWishart(self.spread, 1.0).pack(), *per_degree(self.covariance).pack()]

    def unpack(self, numbers: Array) -> "JointInputs":
        """Make the distribution that has these numbers."""
        assert isinstance(self.covariance, InverseWishart)
        d = len(self.mean)
        mean, spread, scale = np.split(numbers, [d, d + d * (d + 1) // 2])
        spread = InverseWishart(self.spread, 1.0).unpack(spread).scale
        return JointInputs(mean, spread, of_degrees(self.covariance, scale))


def per_degree(distribution: InverseWishart) -> InverseWishart:
    """The distribution in units of its degrees: from a part or all of the rows it packs to nearly the same numbers."""
    return InverseWishart(distribution.scale / distribution.degrees, distribution.degrees)


def of_degrees(distribution: InverseWishart, numbers: Array) -> InverseWishart:
    """Make the distribution of the same degrees from such numbers."""
    return InverseWishart(distribution.degrees * distribution.unpack(numbers).scale, distribution.degrees)


@final
@dataclass(frozen=True, eq=False)
class MeanDistribution:
    """q(μ) = N(mean, spread)."""

    mean: Array
    spread: Array

    def draw(self, rng: np.random.Generator) -> "MeanDistribution":
        """Draw μ."""
        mean = self.mean + np.linalg.cholesky(self.spread) @ rng.standard_normal(len(self.mean))
        return MeanDistribution(mean, np.zeros_like(self.spread))
