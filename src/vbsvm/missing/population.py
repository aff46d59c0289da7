"""Mean and covariance of all inputs: what predictions go by where an input of a new row is missing."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, inverse
from vbsvm.base.cached import cached_property
from vbsvm.missing.input_distributions import InputSums, KnownInputs
from vbsvm.missing.input_model import InputModel
from vbsvm.missing.rows import Inputs


@final
@dataclass(frozen=True, eq=False)
class Population:
    """Mean and covariance of the inputs, in units of the design's columns."""

    inputs: Inputs
    mean: Array
    covariance: Array

    @staticmethod
    def of(moments: Array, inputs: Inputs, model: InputModel) -> "Population":
        """From Σ s [1; d][1; d]ᵀ: the posterior mean under a flat prior of μ, and the inverse of E Σ⁻¹."""
        n = moments[0, 0]
        mean = moments[0, 1:] / n
        scatter = moments[1:, 1:] - n * np.outer(mean, mean)
        return Population(inputs, mean, (scatter + model.psi * np.eye(len(mean))) / (model.nu + n - 1))

    @cached_property
    def distribution(self) -> KnownInputs:
        """The distribution that rows ask."""
        return KnownInputs(self.mean[None], inverse(self.covariance))


def all_moments(sums: InputSums, inputs: Inputs, order: NDArray[np.intp]) -> Array:
    """Σ s E[1; d][1; d]ᵀ of the inputs in this order of their columns, from the sums of a fit with missing values."""
    assert sums.regressors is not None
    joined = np.block([[sums.regressors.matrix, sums.linear], [sums.linear.T, sums.squares]])
    n_regressors = len(sums.regressors.matrix)
    place = {int(column): 1 + k for k, column in enumerate(inputs.given)}
    place |= {int(column): n_regressors + k for k, column in enumerate(inputs.variables)}
    chosen = [0, *(place[int(column)] for column in order)]
    return joined[np.ix_(chosen, chosen)]
