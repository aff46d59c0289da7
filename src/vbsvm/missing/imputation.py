"""Imputation: proper draws of missing predictors, plug-in distributions for prediction, and missing-data summaries."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from vbsvm.base.arrays import Array, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseWishart
from vbsvm.design.columns import Encoded, Plan
from vbsvm.missing.distributions import InputSums, KnownInputs
from vbsvm.missing.model import InputModel
from vbsvm.missing.rows import Inputs, means_given_known, pattern_groups, pattern_keys, with_noise

if TYPE_CHECKING:
    import pandas as pd

# Relative increase of variances, so that nearly singular covariances can be inverted.
ROUNDING = 1e-10
CHANGED = "changed predictions"
"""Column of a sensitivity analysis: the fraction of rows whose predicted class changes."""


@final
@dataclass(frozen=True, eq=False)
class Population:
    """Mean and covariance of the predictors, in units of the design columns."""

    inputs: Inputs
    mean: Array
    covariance: Array

    @staticmethod
    def from_moments(moments: Array, inputs: Inputs, model: InputModel) -> "Population":
        """Estimate both from Σ s [1; d][1; d]ᵀ: posterior mean of μ (flat prior), and the inverse of E Σ⁻¹."""
        n, mean, scatter = about_mean(moments)
        return Population(inputs, mean, (scatter + model.psi * np.eye(len(mean))) / (model.nu + n - 1))

    @cached_property
    def distribution(self) -> KnownInputs:
        """The normal distribution with this mean and covariance, as rows use it."""
        return KnownInputs(self.mean[None], inverse(self.covariance))


def all_moments(sums: InputSums, inputs: Inputs, order: NDArray[np.intp]) -> Array:
    """Σ s E[1; d][1; d]ᵀ of the predictors in the given order, from the sums of a fit with missing values."""
    n_regressors = len(sums.linear)
    position = {int(column): 1 + k for k, column in enumerate(inputs.given)}
    position |= {int(column): n_regressors + k for k, column in enumerate(inputs.variables)}
    positions = [0, *(position[int(column)] for column in order)]
    return sums.joint[np.ix_(positions, positions)]


@final
@dataclass(frozen=True, eq=False)
class ProperDraw:
    """A joint normal distribution of labels and predictors at drawn parameters, for proper imputation.

    The first ``n_labels`` variables are label columns, the others are ``columns`` of the design.
    """

    n_labels: int
    columns: NDArray[np.intp]
    mean: Array
    covariance: Array

    @staticmethod
    def from_sums(model: InputModel, sums: InputSums, rng: np.random.Generator) -> "ProperDraw":
        """Draw mean and covariance from their posterior given the sums of a completed table."""
        assert sums.regressors is not None
        columns = np.concatenate([model.inputs.given, model.inputs.variables])
        if not model.n_beside:
            return ProperDraw.from_moments(sums.joint, columns, model.psi, rng)
        n_known, parameters = 1 + len(model.inputs.given), model.labelled(sums).draw_parameters(rng)
        mean, covariance = _moments(sums.regressors.leading(n_known).matrix, model.psi, rng)
        # Labels, known predictors and variables are linear in three independent parts: x, r, and the residual of e.
        n_labels, k, n = len(parameters.S), n_known - 1, n_known - 1 + len(parameters.Sigma)
        loadings = np.zeros((n_labels + n, n + n_labels))
        loadings[:n_labels] = np.hstack([parameters.Gamma[1:].T, parameters.B.T, np.eye(n_labels)])
        loadings[n_labels:, :n] = np.eye(n)
        loadings[n_labels + k :, :k] = parameters.A[1:].T
        centre = np.concatenate([parameters.Gamma[0], np.zeros(k), parameters.A[0]]) + loadings[:, :k] @ mean
        joint = (
            loadings @ np.asarray(block_diag(covariance, parameters.Sigma, parameters.S), dtype=np.float64) @ loadings.T
        )
        joint[np.diag_indices(len(joint))] *= 1.0 + ROUNDING  # a prior may leave the variables almost no variance
        return ProperDraw(n_labels, columns, centre, joint)

    @staticmethod
    def from_moments(moments: Array, columns: NDArray[np.intp], psi: float, rng: np.random.Generator) -> "ProperDraw":
        """Draw both without labels, given Σ s [1; x][1; x]ᵀ of these columns."""
        return ProperDraw(0, columns, *_moments(moments, psi, rng))

    def fill(self, design: Array, labels: Array | None, rng: np.random.Generator) -> Array:
        """Return the columns of the design with NaN replaced by draws.

        ``labels`` are label columns; None marginalises over the labels.
        """
        values = design[:, self.columns]
        begin = self.n_labels if labels is None else 0
        if labels is not None:
            values = np.column_stack([labels, values])
        missing = np.isnan(values)
        values, groups = np.where(missing, 0.0, values), pattern_groups(missing)
        precision = inverse(self.covariance[begin:, begin:])
        means = means_given_known(values, self.mean[begin:], precision, groups)
        filled = values + with_noise(means, precision, groups, rng)
        return filled[:, self.n_labels - begin :]


def about_mean(moments: Array) -> tuple[float, Array, Array]:
    """The total weight, the mean, and the scatter about it, from Σ s [1; x][1; x]ᵀ."""
    n, mean = float(moments[0, 0]), moments[0, 1:] / moments[0, 0]
    scatter = moments[1:, 1:] - n * np.outer(mean, mean)
    return n, mean, 0.5 * (scatter + scatter.T)


def _moments(sums: Array, psi: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw mean and covariance given Σ s [1; x][1; x]ᵀ, under a prior worth ``psi`` independent rows."""
    n, mean, scatter = about_mean(sums)
    covariance = InverseWishart(scatter + psi * np.eye(len(mean)), len(mean) + n).draw(rng).value
    return mean + np.linalg.cholesky(covariance / n) @ rng.standard_normal(len(mean)), covariance


@final
@dataclass(frozen=True, eq=False)
class MissingPatterns:
    """Missing-data patterns of the training rows, most frequent first; True is missing."""

    names: tuple[str, ...]
    patterns: NDArray[np.bool_]
    counts: NDArray[np.intp]

    @staticmethod
    def from_mask(
        missing: NDArray[np.bool_], names: tuple[str, ...], counts: NDArray[np.intp] | None = None
    ) -> "MissingPatterns":
        """Count the patterns of a mask, with optional row counts."""
        counts = np.ones(len(missing), dtype=np.intp) if counts is None else counts
        if not names:
            return MissingPatterns((), np.zeros((1, 0), dtype=bool), counts.sum(keepdims=True))
        _, first, pattern_of = np.unique(pattern_keys(missing), return_index=True, return_inverse=True)
        totals = np.bincount(pattern_of.ravel(), counts, minlength=len(first)).astype(np.intp)
        order = np.argsort(-totals, kind="stable")
        return MissingPatterns(names, missing[first[order]], totals[order])

    def __add__(self, other: Self) -> "MissingPatterns":
        """Pool the patterns of two sets of rows with the same columns."""
        patterns, counts = np.concatenate([self.patterns, other.patterns]), np.r_[self.counts, other.counts]
        return MissingPatterns.from_mask(patterns, self.names, counts)

    def without_complete_columns(self, n_first: int) -> "MissingPatterns":
        """The patterns without columns that are never missing, except the first n."""
        shown = np.asarray(self.patterns.any(axis=0))
        shown[:n_first] = True
        names = tuple(name for name, keep in zip(self.names, shown, strict=True) if keep)
        return MissingPatterns(names, self.patterns[:, shown], self.counts)

    @property
    def total(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def n_incomplete(self) -> int:
        """Number of rows with missing values."""
        return int(self.counts[self.patterns.any(axis=1)].sum())

    @property
    def by_column(self) -> dict[str, int]:
        """Number of missing values of each predictor."""
        return dict(zip(self.names, (self.counts @ self.patterns).tolist(), strict=True))

    def table(self) -> "pd.DataFrame":
        """One row for each pattern; counts get a longer name where a predictor has theirs."""
        import pandas as pd

        frame = pd.DataFrame(self.patterns, columns=pd.Index(self.names))
        for name, values in (("rows", self.counts), ("share", self.counts / self.total)):
            frame[f"{name} of the pattern" if name in self.names else name] = values
        frame.index.name = "pattern"
        frame.attrs["missing"] = self.by_column
        return frame


def impute(plan: Plan, population: Population, encoded: Encoded) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Conditional means of missing predictors given the row's observed ones, and their standard deviations."""
    import pandas as pd

    columns = population.inputs.variables - plan.recipe.first
    centre, scale = plan.recipe.centre[columns], plan.recipe.scale[columns]
    # The candidates of a row have the same numeric predictors.
    rows = slice(None) if encoded.candidates is None else encoded.candidates.firsts
    values = np.array(encoded.table[rows][:, columns], dtype=np.float64)
    missing, varies = np.isnan(values), np.isfinite(scale)
    with np.errstate(invalid="ignore"):
        known = np.where(missing | ~varies, 0.0, (values - centre) / scale)
    groups, precision, deviations = pattern_groups(missing), population.distribution.precision, np.zeros_like(known)
    means = means_given_known(known, population.mean, precision, groups)
    for group in groups:
        deviations[group.cells] = np.sqrt(np.einsum("pkk->pk", group.covariances(precision)))[group.pattern_of]
    unit, names = np.where(varies, scale, 0.0), pd.Index([plan.names[k] for k in columns])
    values = np.where(missing, centre + unit * means, values)
    return pd.DataFrame(values, columns=names), pd.DataFrame(unit * deviations, columns=names)


def with_index(table: "pd.DataFrame", data: object) -> "pd.DataFrame":
    """The table with the index of the user's frame, if it has one."""
    index = getattr(data, "index", None)
    return table if index is None or callable(index) or len(index) != len(table) else table.set_axis(index)


def mean_and_covariance(plan: Plan, population: Population) -> tuple[Array, Array]:
    """Mean and covariance of the predictors on the user's scale."""
    columns = population.inputs.variables - plan.recipe.first
    centre, scale = plan.recipe.centre[columns], plan.recipe.spread[columns]
    return centre + scale * population.mean, population.covariance * scale * scale[:, None]
