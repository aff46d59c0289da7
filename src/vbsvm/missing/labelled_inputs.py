"""Distribution of the incomplete predictors given the labels, with a shrinkage prior of estimated strength.

With regressors x̃ (a constant and the known predictors), incomplete variables d and label columns z:

    d = Aᵀx̃ + r,  r ~ N(0, Σ)        z = Γᵀx̃ + e,  e | r ~ N(Bᵀr, S)        B | S ~ MN(0, K⁻¹, S)

Rows use the distribution of d given x̃ and z, which is normal, too. The prior is K = κI for standardised r, averaged
over κ by its evidence: in the sampler from a completed table; in mean field from the regression of e on the conditional
means of r given the known predictors, as imputed values would confirm the model that they were imputed by.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_lapack_funcs
from scipy.special import softmax

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseWishart
from vbsvm.missing.distributions import AtRandom, FixedInputs, InputSums, KnownInputs, matrix_normal, packed, unpacked

# Grid of the prior expectation of explained over residual variance of the labels. The prior is flat on it, hence in the
# variance of the slopes: one or two variables are shrunk little.
EXPLAINED = np.geomspace(0.02, 50.0, 18)
# Prior weight of the labels' scatter, in rows of balanced classes.
LABEL_ROWS = 1.0
_potrf, _potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
# Conditional means do not depend on the scale of the precision; a very large one makes the variance negligible.
LARGE_PRECISION = 1e12


@final
@dataclass(frozen=True, eq=False)
class LabelledParameters:
    """A value of all parameters."""

    A: Array
    Sigma: Array
    Gamma: Array
    B: Array
    S: Array

    @property
    def given_labels(self) -> KnownInputs:
        """Distribution of the variables given x̃ and z at these parameters."""
        of_labels = inverse(self.S) @ self.B.T
        precision = inverse(self.Sigma) + self.B @ of_labels
        C = of_labels @ inverse(precision)
        return KnownInputs(np.vstack([self.A - self.Gamma @ C, C]), 0.5 * (precision + precision.T))


@final
@dataclass(frozen=True, eq=False)
class LabelledInputs(AtRandom):
    """q(A, Σ, Γ, B, S), from rows of this total weight.

    ``residuals`` has the scatter of (r, e) as its scale, and the degrees of Σ; ``root`` is that of x̃. ``K`` is the
    prior precision of B, for expectations.
    """

    A: Array
    Gamma: Array
    residuals: InverseWishart
    root: Array
    K: Array
    total: float

    @staticmethod
    def from_sums(sums: InputSums, n_known: int, psi: float, nu: float, K: Array | None = None) -> "LabelledInputs":
        """Posterior given the sums of a pass; the first ``n_known`` regressors are x̃, the others z."""
        assert sums.regressors is not None
        x, z, root = slice(n_known), slice(n_known, None), sums.regressors.leading(n_known).root(psi)
        matrix, m = sums.regressors.matrix, sums.linear.shape[1]
        cross = np.hstack([sums.linear[x], matrix[x, z]])
        squares = np.block([[sums.squares, sums.linear[z].T], [sums.linear[z], matrix[z, z]]])
        coefficients = np.asarray(cho_solve((root, True), cross))
        scatter = squares - cross.T @ coefficients
        scatter[np.arange(m), np.arange(m)] += psi
        n = len(squares) - m  # label columns (1 for one class, else −1), as in balanced classes:
        scatter[m:, m:] += LABEL_ROWS * 4.0 * (np.eye(n) / (n + 1) - 1.0 / (n + 1) ** 2)
        residuals = InverseWishart(0.5 * (scatter + scatter.T), nu + sums.total - 1)
        K = np.zeros((m, m)) if K is None else K
        return LabelledInputs(coefficients[:, :m], coefficients[:, m:], residuals, root, K, sums.total)

    @property
    def without_labels(self) -> KnownInputs:
        """Degenerate distribution given x̃ alone, for conditional means given the observed predictors."""
        m, n_labels = self.A.shape[1], self.Gamma.shape[1]
        precision = LARGE_PRECISION * inverse(self.residuals.scale[:m, :m] / self.residuals.degrees)
        return KnownInputs(np.vstack([self.A, np.zeros((n_labels, m))]), precision)

    def with_prior(self, scatter: Array, psi: float) -> "LabelledInputs":
        """The posterior with the prior precision K that the evidence supports.

        On an axis with variation λ, strength κ shrinks slopes by λ/(λ + κ): the prior has on each axis the strength
        whose shrinkage is the average one. ``scatter`` is that at the means without labels, plus Ψ.
        """
        m, scatter = self.A.shape[1], scatter.copy()
        units = np.sqrt(self.residuals.scale.diagonal()[:m])
        scatter[:m, :m] -= psi * np.eye(m)
        regression = _LabelRegression.fit(scatter, units, self.total)
        axes = units[:, None] * regression.directions
        averaged = regression.probabilities @ regression.weights  # 1/(λ + κ) of each axis
        K = axes @ np.diag(1.0 / averaged - regression.values) @ axes.T
        return replace(self, K=0.5 * (K + K.T))

    @property
    def has_few_rows(self) -> bool:
        """Whether predictors outnumber the observations: matrices of predictors then take most of the time."""
        n_known, m = self.A.shape
        return self.total < n_known - 1 + m

    @cached_property
    def log_det(self) -> float:
        """log|precision|."""
        return float(np.linalg.slogdet(self.precision)[1])

    @cached_property
    def weighted_coefficients(self) -> Array:
        """Coefficients times precision, regressors × variables."""
        return self.coefficients @ self.precision

    @cached_property
    def _posterior_mean(self) -> KnownInputs:
        if self.has_few_rows:
            return self._posterior_mean_by_cholesky
        m, scatter = self.A.shape[1], self.residuals.scale
        B = inverse(scatter[:m, :m] + self.K) @ scatter[:m, m:]
        residuals = scatter[m:, m:] - scatter[m:, :m] @ B
        S = 0.5 * (residuals + residuals.T) / (self.total + len(residuals))
        return LabelledParameters(self.A, scatter[:m, :m] / self.residuals.degrees, self.Gamma, B, S).given_labels

    @property
    def _posterior_mean_by_cholesky(self) -> KnownInputs:
        """The same by Cholesky factors instead of three inverses; labels enter by Woodbury's identity."""
        m, scatter = self.A.shape[1], self.residuals.scale
        cross, of_variables = scatter[:m, m:], scatter[:m, :m]
        inverse_scatter = symmetric_inverse(of_variables)
        B = inverse_scatter @ cross
        if self.K.any():
            B = np.asarray(cho_solve(cho_factor(of_variables + self.K, overwrite_a=True), cross))
        residuals = scatter[m:, m:] - cross.T @ B
        S = 0.5 * (residuals + residuals.T) / (self.total + len(residuals))
        with_labels = B.T @ of_variables / self.residuals.degrees
        C = inverse(S + with_labels @ B) @ with_labels
        precision = self.residuals.degrees * inverse_scatter + B @ inverse(S) @ B.T
        return KnownInputs(np.vstack([self.A - self.Gamma @ C, C]), precision)

    @property
    def coefficients(self) -> Array:
        """Regression coefficients of the variables on x̃ and z, regressors × variables."""
        return self._posterior_mean.coefficients

    @property
    def precision(self) -> Array:
        """Residual precision of the variables given x̃ and z."""
        return self._posterior_mean.precision

    def draw_parameters(self, rng: np.random.Generator) -> LabelledParameters:
        """Draw all parameters and the strength of the prior, given a completed table."""
        m, scatter = self.A.shape[1], self.residuals.scale
        Sigma = InverseWishart(scatter[:m, :m], self.residuals.degrees).draw(rng).value
        labels = _LabelRegression.fit(scatter, np.sqrt(scatter.diagonal()[:m]), self.total)
        k = rng.choice(len(labels.probabilities), p=labels.probabilities)
        S = InverseWishart(labels.residual_scatter[k], labels.degrees).draw(rng).value
        weights = labels.weights[k]
        noise = rng.standard_normal(labels.cross.shape) @ cholesky(S).T
        B = weights[:, None] * labels.cross + np.sqrt(weights)[:, None] * noise
        B = (labels.directions @ B) / labels.units[:, None]
        A, Gamma = matrix_normal(self.A, self.root, Sigma, rng), matrix_normal(self.Gamma, self.root, S, rng)
        return LabelledParameters(A, Sigma, Gamma + (A - self.A) @ B, B, S)

    def draw(self, rng: np.random.Generator) -> KnownInputs:
        """Draw the parameters and return the distribution of the variables given x̃ and z."""
        return self.draw_parameters(rng).given_labels

    def pack(self) -> "list[float] | Array":
        """Return the coefficients, and the scatter in units of its degrees: itself where there are few rows."""
        if self.has_few_rows:
            scale = self.residuals.scale
            return np.concatenate([self.A.ravel(), scale[np.tri(len(scale), dtype=bool)] / self.residuals.degrees])
        return packed(self.A, self.residuals)

    def unpack(self, numbers: Array) -> "LabelledInputs":
        """Inverse of ``pack``; extrapolated numbers may be no valid scatter where there are few rows."""
        if self.has_few_rows:
            lower, degrees = np.zeros_like(self.residuals.scale), self.residuals.degrees
            lower[np.tri(len(lower), dtype=bool)] = numbers[self.A.size :] * degrees
            scale = lower + np.tril(lower, -1).T
            return replace(
                self, A=numbers[: self.A.size].reshape(self.A.shape), residuals=InverseWishart(scale, degrees)
            )
        A, residuals = unpacked(numbers, self.A, self.residuals)
        return replace(self, A=A, residuals=residuals)


def few_rows(distribution: object) -> LabelledInputs | None:
    """The fixed distribution of predictors that outnumber the observations, or None."""
    inputs = distribution.inputs if isinstance(distribution, FixedInputs) else None
    return inputs if isinstance(inputs, LabelledInputs) and inputs.has_few_rows else None


def symmetric_inverse(matrix: Array) -> Array:
    """Inverse of a positive definite matrix, in half the time of a general one; raises if it is not."""
    factor, info = _potrf(matrix, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    lower, _ = _potri(factor, lower=1, overwrite_c=1)
    return np.tril(lower) + np.tril(lower, -1).T


@final
@dataclass(frozen=True, eq=False)
class _LabelRegression:
    """Ridge regression of e on r over a grid of prior strengths, in the principal axes of r.

    ``weights`` are 1/(λ + κ) by strength and direction, ``residual_scatter`` is the scatter of e by strength, and
    ``probabilities`` are those of the strengths.
    """

    units: Array
    directions: Array
    values: Array
    weights: Array
    cross: Array
    residual_scatter: Array
    probabilities: Array
    degrees: float

    @staticmethod
    def fit(scatter: Array, units: Array, total: float) -> "_LabelRegression":
        """Fit it to the scatter of (r, e) over rows of this total weight; ``units`` are those of r."""
        m, strengths = len(units), len(units) / (total * EXPLAINED)
        values, directions = np.linalg.eigh(scatter[:m, :m] / np.outer(units, units))
        values = np.maximum(values, 0.0)
        cross = directions.T @ (scatter[:m, m:] / units[:, None])
        weights = 1.0 / (values + strengths[:, None])
        residual_scatter = scatter[m:, m:] - np.einsum("ik,gi,il->gkl", cross, weights, cross)
        freedom, degrees = np.log(strengths[:, None] * weights).sum(axis=1), total + cross.shape[1]
        evidence = (
            0.5 * cross.shape[1] * freedom - 0.5 * degrees * np.linalg.slogdet(residual_scatter)[1] + np.log(EXPLAINED)
        )
        return _LabelRegression(units, directions, values, weights, cross, residual_scatter, softmax(evidence), degrees)
