"""The inputs' distribution where labels tell about missing values: no more than the rows warrant.

With regressors x̃ (a constant and the known inputs), variables d and columns z that tell the classes:

    d = Aᵀx̃ + r,  r ~ N(0, Σ)        z = Γᵀx̃ + e,  e | r ~ N(Bᵀr, S)        B | S ~ MN(0, I/κ, S)

with r in units of its own deviations. Rows ask for d given x̃ and z, which is normal too. The strength κ of the prior is
averaged over. Slopes of d on the labels without such a prior fit the noise of the labels: with 20 columns, 400 rows and
half of the values missing, coefficients come out a quarter too long.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import softmax

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.distributions import InverseWishart
from vbsvm.missing.input_distributions import AtRandom, InputSums, KnownInputs, of_degrees, per_degree

# Strengths of the prior of B, as shares of the rows: from next to nothing to more than all rows could outweigh.
STRENGTHS = np.geomspace(1e-5, 1e2, 29)
# What is known of labels beforehand counts like so many rows.
LABEL_ROWS = 1.0


@final
@dataclass(frozen=True, eq=False)
class Parameters:
    """Values of all parameters."""

    A: Array
    Sigma: Array
    Gamma: Array
    B: Array
    S: Array

    @property
    def given_labels(self) -> KnownInputs:
        """The variables given x̃ and z."""
        told = inverse(self.S) @ self.B.T
        precision = inverse(self.Sigma) + self.B @ told
        C = told @ inverse(precision)
        return KnownInputs(np.vstack([self.A - self.Gamma @ C, C]), 0.5 * (precision + precision.T))


@final
@dataclass(frozen=True, eq=False)
class LabelledInputs(AtRandom):
    """q of A, Σ, Γ, B and S, from rows of this total weight.

    ``residuals`` has the scatter of (r, e) as its scale, and the degrees of Σ; ``root`` is that of x̃.
    """

    A: Array
    Gamma: Array
    residuals: InverseWishart
    root: Array
    total: float

    @staticmethod
    def of(sums: InputSums, n_known: int, psi: float, nu: float) -> "LabelledInputs":
        """From the sums of a pass; the first ``n_known`` regressors are x̃, the others z."""
        assert sums.regressors is not None
        x, z, root = slice(n_known), slice(n_known, None), sums.regressors.leading(n_known).root(psi)
        matrix, n_variables = sums.regressors.matrix, sums.linear.shape[1]
        met = np.hstack([sums.linear[x], matrix[x, z]])
        own = np.block([[sums.squares, sums.linear[z].T], [sums.linear[z], matrix[z, z]]])
        found = np.asarray(cho_solve((root, True), met))
        scatter = own - met.T @ found
        scatter += np.diag(np.repeat([psi, LABEL_ROWS], [n_variables, len(own) - n_variables]))
        residuals = InverseWishart(0.5 * (scatter + scatter.T), nu + sums.total - 1)
        return LabelledInputs(found[:, :n_variables], found[:, n_variables:], residuals, root, sums.total)

    @cached_property
    def _expected(self) -> KnownInputs:
        m, told = self.A.shape[1], self._labels
        Sigma = self.residuals.scale[:m, :m] / self.residuals.degrees
        S = np.einsum("g,gkl->kl", told.shares, told.left) / told.degrees
        return Parameters(self.A, Sigma, self.Gamma, told.slopes(told.expected), S).given_labels

    @property
    def coefficients(self) -> Array:
        """What x̃ and z say of the variables, regressors × variables."""
        return self._expected.coefficients

    @property
    def precision(self) -> Array:
        """The precision of the variables given both."""
        return self._expected.precision

    @property
    def _labels(self) -> "_Labels":
        return _Labels.of(self.residuals.scale, self.A.shape[1], self.total)

    def drawn(self, rng: np.random.Generator) -> Parameters:
        """Draw all parameters."""
        m, told = self.A.shape[1], self._labels
        Sigma = InverseWishart(self.residuals.scale[:m, :m], self.residuals.degrees).draw(rng).value
        k = rng.choice(len(STRENGTHS), p=told.shares)
        S = InverseWishart(told.left[k], told.degrees).draw(rng).value
        weights = 1.0 / (told.values + STRENGTHS[k])
        noise = rng.standard_normal(told.met.shape) @ cholesky(S).T
        B = told.slopes(weights) + told.turned(np.sqrt(weights)[:, None] * noise)
        A, Gamma = (self._about_regressors(*one, rng) for one in ((self.A, Sigma), (self.Gamma, S)))
        return Parameters(A, Sigma, Gamma, B, S)

    def draw(self, rng: np.random.Generator) -> KnownInputs:
        """Draw the distribution of the variables given x̃ and z."""
        return self.drawn(rng).given_labels

    def _about_regressors(self, mean: Array, covariance: Array, rng: np.random.Generator) -> Array:
        noise = solve_triangular(self.root, rng.standard_normal(mean.shape), lower=True, trans=1)
        return mean + noise @ cholesky(covariance).T

    def pack(self) -> list[float]:
        """Give the coefficients, and the scatter in units of its degrees; labels and x̃ never move."""
        return [*self.A.ravel(), *per_degree(self.residuals).pack()]

    def unpack(self, numbers: Array) -> "LabelledInputs":
        """Make the distribution that has these numbers."""
        size = self.A.size
        residuals = of_degrees(self.residuals, numbers[size:])
        return LabelledInputs(numbers[:size].reshape(self.A.shape), self.Gamma, residuals, self.root, self.total)


@final
@dataclass(frozen=True, eq=False)
class _Labels:
    """The regression of e on r, by the strength of its prior, in the directions in which r is uncorrelated.

    ``left`` is the scatter of e that each strength leaves, and ``shares`` how likely the strengths are.
    """

    units: Array
    directions: Array
    values: Array
    met: Array
    left: Array
    shares: Array
    degrees: float

    @staticmethod
    def of(scatter: Array, m: int, total: float) -> "_Labels":
        """From the scatter of (r, e), the first m of which are r, over rows of this total weight."""
        units = np.sqrt(scatter.diagonal()[:m])
        values, directions = np.linalg.eigh(scatter[:m, :m] / np.outer(units, units))
        values = np.maximum(values, 0.0)
        met = directions.T @ (scatter[:m, m:] / units[:, None])
        weights = 1.0 / (values + STRENGTHS[:, None])
        left = scatter[m:, m:] - np.einsum("ik,gi,il->gkl", met, weights, met)
        freedom = np.log(STRENGTHS[:, None] * weights).sum(axis=1)
        degrees = total + met.shape[1]
        evidence = 0.5 * met.shape[1] * freedom - 0.5 * degrees * np.linalg.slogdet(left)[1]
        return _Labels(units, directions, values, met, left, softmax(evidence), degrees)

    @property
    def expected(self) -> Array:
        """The weights of the directions, averaged over strengths."""
        return self.shares @ (1.0 / (self.values + STRENGTHS[:, None]))

    def slopes(self, weights: Array) -> Array:
        """B with these weights of the directions."""
        return self.turned(weights[:, None] * self.met)

    def turned(self, found: Array) -> Array:
        """What is known by direction, for the variables in their own units."""
        return (self.directions @ found) / self.units[:, None]
