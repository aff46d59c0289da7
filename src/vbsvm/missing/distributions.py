"""Distributions of the predictors with missing values, and the sums over rows that they are updated from."""

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
    """Σ s x̃x̃ᵀ over all rows; constant during a fit."""

    matrix: Array
    _roots: dict[float, Array] = field(default_factory=dict)
    _leading: dict[int, "Regressors"] = field(default_factory=dict)

    def __add__(self, other: Self) -> "Regressors":
        """Add the sums of two sets of rows."""
        return Regressors(self.matrix + other.matrix)

    def leading(self, n: int) -> "Regressors":
        """The sums of the first n regressors."""
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
    """Σ s x̃ E[d]ᵀ and Σ s E[ddᵀ] over incomplete rows, updated in each pass; Σ s and Σ s x̃x̃ᵀ over all rows."""

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
        """Divide sums that were added over n sweeps by n."""
        assert self.regressors is not None
        matrix = Regressors(self.regressors.matrix / n)
        return InputSums(self.linear / n, self.squares / n, self.total / n, matrix)


class InputDistribution(Protocol):
    """Distribution of the predictors given their parameters, as rows use it: d ~ N(coefficientsᵀ x̃, precision⁻¹)."""

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
        """Distribution of the probit model of being observed, or None if values are missing at random."""
        ...

    def pack(self) -> list[float] | Array:
        """Return the parameters as numbers."""
        ...

    def unpack(self, numbers: Array) -> Self:
        """Inverse of ``pack``."""
        ...


class _Wrapper:
    """A distribution of the predictors that delegates its moments to another one."""

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
    """Distribution of predictors that are missing not at random, with the probit model of being observed."""

    inputs: InputDistribution
    probit: ProbitDistribution

    def pack(self) -> list[float]:
        """Return the parameters of the predictors, then those of the probit model."""
        return [*self.inputs.pack(), *self.probit.pack()]

    def unpack(self, numbers: Array) -> "Selective":
        """Inverse of ``pack``."""
        n_inputs = len(numbers) - len(self.probit.pack())
        return Selective(self.inputs.unpack(numbers[:n_inputs]), self.probit.unpack(numbers[n_inputs:]))


class AtRandom:
    """Base of distributions of predictors that are missing at random."""

    @property
    def probit(self) -> None:
        """None: no model of being observed."""
        return


@final
@dataclass(frozen=True, eq=False)
class FixedInputs(_Wrapper, FixedParameters):
    """A distribution of the predictors that was estimated first and is fixed while coefficients are fitted."""

    inputs: InputDistribution

    @property
    def probit(self) -> ProbitDistribution | None:
        """Distribution of the probit model, or None."""
        return self.inputs.probit


@final
@dataclass(frozen=True, eq=False)
class KnownInputs(FixedParameters, AtRandom):
    """A distribution of the predictors at known parameters: a starting value, a draw, or a plug-in for prediction."""

    coefficients: Array
    precision: Array


@final
@dataclass(frozen=True, eq=False)
class Regression(AtRandom):
    """q(A, Σ) of the incomplete predictors given the others: A | Σ ~ MN(coefficients, K⁻¹, Σ), Σ ~ IW."""

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
        """Return the coefficients, and the covariance in units of its degrees."""
        return packed(self.coefficients, self.covariance)

    def unpack(self, numbers: Array) -> "Regression":
        """Inverse of ``pack``."""
        return Regression(*unpacked(numbers, self.coefficients, self.covariance), self.root)


@final
@dataclass(frozen=True, eq=False)
class JointInputs(AtRandom):
    """q(μ) q(Σ) of all predictors, as in the paper; ``spread`` is the covariance of q(μ)."""

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
        """Return the mean, its covariance, and Σ in units of its degrees."""
        assert isinstance(self.covariance, InverseWishart)
        return packed(np.r_[self.mean, InverseWishart(self.spread, 1.0).pack()], self.covariance)

    def unpack(self, numbers: Array) -> "JointInputs":
        """Inverse of ``pack``."""
        assert isinstance(self.covariance, InverseWishart)
        d = len(self.mean)
        moments, covariance = unpacked(numbers, np.empty(d + d * (d + 1) // 2), self.covariance)
        return JointInputs(moments[:d], InverseWishart(self.spread, 1.0).unpack(moments[d:]).scale, covariance)


def packed(coefficients: Array, covariance: InverseWishart) -> list[float]:
    """Pack coefficients and covariance; the latter per degree of freedom, so that subsamples give similar numbers."""
    return [*coefficients.ravel(), *InverseWishart(covariance.scale / covariance.degrees, 1.0).pack()]


def unpacked(numbers: Array, coefficients: Array, covariance: InverseWishart) -> tuple[Array, InverseWishart]:
    """Inverse of ``packed``, for coefficients and a covariance of these shapes and degrees."""
    size, degrees = coefficients.size, covariance.degrees
    scale = degrees * covariance.unpack(numbers[size:]).scale
    return numbers[:size].reshape(coefficients.shape), InverseWishart(scale, degrees)


def matrix_normal(mean: Array, root: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Draw from MN(mean, K⁻¹, covariance), with ``root`` the lower Cholesky factor of K."""
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
