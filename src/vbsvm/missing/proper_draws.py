"""Proper draws of missing inputs: the parameters of their distribution are drawn, and then the values given these."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, inverse
from vbsvm.base.distributions import InverseWishart
from vbsvm.design.scaling import Recipe
from vbsvm.missing import conditional
from vbsvm.missing.input_distributions import InputSums
from vbsvm.missing.rows import Inputs, pattern_groups


@final
@dataclass(frozen=True, eq=False)
class ProperDraw:
    """A joint normal distribution of labels and inputs whose mean and covariance were drawn.

    The first ``n_labels`` variables are columns that tell classes, the others are ``columns`` of the design.
    """

    n_labels: int
    columns: NDArray[np.intp]
    mean: Array
    covariance: Array

    @staticmethod
    def of(sums: InputSums, inputs: Inputs, psi: float, rng: np.random.Generator) -> "ProperDraw":
        """Draw both from their posterior given the sums of a completed table, under the prior of ``psi``."""
        assert sums.regressors is not None
        joined = np.block([[sums.regressors.matrix, sums.linear], [sums.linear.T, sums.squares]])
        n_given, n_regressors = len(inputs.given), len(sums.regressors.matrix)
        labels = np.arange(1 + n_given, n_regressors)
        rest = np.r_[1 + np.arange(n_given), n_regressors + np.arange(len(inputs.variables))]
        order = np.concatenate([labels, rest])
        n, mean = sums.total, joined[0, order] / sums.total
        scatter = joined[np.ix_(order, order)] - n * np.outer(mean, mean) + psi * np.eye(len(order))
        covariance = InverseWishart(0.5 * (scatter + scatter.T), len(order) + n).draw(rng).value
        moved = np.linalg.cholesky(covariance / n) @ rng.standard_normal(len(order))
        columns = np.concatenate([inputs.given, inputs.variables])
        return ProperDraw(len(labels), columns, mean + moved, covariance)

    @staticmethod
    def design_of(recipe: Recipe, raw: NDArray[np.floating]) -> Array:
        """Raw rows as rows of the design; columns without spread are 0."""
        with np.errstate(invalid="ignore"):
            design = recipe.encode(raw, recipe.work_space(len(raw)))
        design[:, recipe.first :][:, ~np.isfinite(recipe.scale)] = 0.0
        return design

    def fill(self, design: Array, labels: Array | None, rng: np.random.Generator) -> Array:
        """The columns of these rows of the design (NaN is missing), with values drawn for those that are missing.

        ``labels`` are columns that tell classes; without them, labels have no say.
        """
        known = design[:, self.columns]
        begin = self.n_labels if labels is None else 0
        if labels is not None:
            known = np.column_stack([labels, known])
        missing = np.isnan(known)
        known, groups = np.where(missing, 0.0, known), pattern_groups(missing)
        precision = inverse(self.covariance[begin:, begin:])
        filled = known + conditional.draws(known, self.mean[begin:], precision, groups, rng)
        return filled[:, self.n_labels - begin :]
