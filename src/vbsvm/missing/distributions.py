"""Distributions of the inputs, and the sums over rows that they are updated from."""

from dataclasses import dataclass, field
from typing import Protocol, Self, final

import numpy as np
from scipy.linalg import solve_triangular

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import FixedParameters, InverseWishart, MatrixPoint
from vbsvm.missing.mechanisms import ProbitDistribution, ProbitSums
from vbsvm.model.row_pass import add_optional


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
        return self._leading.setdefault(n, Regressors(self.matrix[:n, :n]))

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
    """Σ s x̃ E[d]ᵀ and Σ s E[ddᵀ], which a pass makes over incomplete rows; Σ s and Σ s x̃x̃ᵀ of all."""

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
            add_optional(self.regressors, other.regressors),
            add_optional(self.probit, other.probit),
        )

    @property
    def joint(self) -> Array:
        """Σ s E[x̃; d][x̃; d]ᵀ."""
        assert self.regressors is not None
        return np.block([[self.regressors.matrix, self.linear], [self.linear.T, self.squares]])

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
        n_inputs = len(numbers) - len(self.probit.pack())
        return Selective(self.inputs.unpack(numbers[:n_inputs]), self.probit.unpack(numbers[n_inputs:]))


class AtRandom:
    """A distribution of inputs that are missing at random."""

    @property
    def probit(self) -> None:
        """Being observed tells nothing."""
        return


@final
@dataclass(frozen=True, eq=False)
class FixedInputs(_Wrapper, FixedParameters):
    """A distribution of the inputs that was learned first, and is fixed while coefficients are fitted."""

    inputs: InputDistribution

    @property
    def probit(self) -> ProbitDistribution | None:
        """The distribution of being observed."""
        return self.inputs.probit


@final
@dataclass(frozen=True, eq=False)
class KnownInputs(FixedParameters, AtRandom):
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
        return KnownInputs(matrix_normal(self.coefficients, self.root, Sigma, rng), inverse(Sigma))

    def pack(self) -> list[float]:
        """Give the coefficients, and the covariance in units of its degrees."""
        return packed(self.coefficients, self.covariance)

    def unpack(self, numbers: Array) -> "Regression":
        """Make the distribution that has these numbers."""
        return Regression(*unpacked(numbers, self.coefficients, self.covariance), self.root)


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
        return packed(np.r_[self.mean, InverseWishart(self.spread, 1.0).pack()], self.covariance)

    def unpack(self, numbers: Array) -> "JointInputs":
        """Make the distribution that has these numbers."""
        assert isinstance(self.covariance, InverseWishart)
        d = len(self.mean)
        moments, covariance = unpacked(numbers, np.empty(d + d * (d + 1) // 2), self.covariance)
        return JointInputs(moments[:d], InverseWishart(self.spread, 1.0).unpack(moments[d:]).scale, covariance)


def packed(coefficients: Array, covariance: InverseWishart) -> list[float]:
    """Numbers of both; those of the covariance, per degree, are nearly the same from a part or all of the rows."""
    return [*coefficients.ravel(), *InverseWishart(covariance.scale / covariance.degrees, 1.0).pack()]


def unpacked(numbers: Array, coefficients: Array, covariance: InverseWishart) -> tuple[Array, InverseWishart]:
    """Coefficients and a covariance of these shapes and degrees from such numbers."""
    size, degrees = coefficients.size, covariance.degrees
    scale = degrees * covariance.unpack(numbers[size:]).scale
    return numbers[:size].reshape(coefficients.shape), InverseWishart(scale, degrees)


def matrix_normal(mean: Array, root: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """A draw from MN(mean, K⁻¹, covariance), where ``root`` is the lower Cholesky factor of K."""
    noise = solve_triangular(root, rng.standard_normal(mean.shape), lower=True, trans=1)
    return mean + noise @ cholesky(covariance).T


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
