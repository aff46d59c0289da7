"""The covariance by the curvature of the bound in the mean: (H + Λ)⁻¹ with H = −Σ ℓ_ff c cᵀ, all else held.

It costs no pass where the last one has summed H, in any layout, with gates and with missing values.
"""

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.reading import expect
from vbsvm.model.interfaces import GaussianDistribution
from vbsvm.model.row_pass import Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import pass_rows


def curvature_stats(spec: Spec, state: State, source: Source) -> Stats:
    """One pass from this state that sums the curvature."""
    return pass_rows(spec, state, source, expect, with_curvature=True)


def curvature_distribution(spec: Spec, state: State, stats: Stats) -> GaussianDistribution:
    """N(μ, (H + Λ)⁻¹) of the coefficients behind the gates, from a pass at this state that summed the curvature."""
    assert stats.curvature is not None
    curvature = stats.curvature.gated(state.gates, stats.gram)
    centred = curvature.conditional(np.zeros(spec.n_columns), spec.precision(state))
    return centred.at(state.coefficients.mean)


def effective_covariance(distribution: GaussianDistribution, state: State, n: int) -> Array:
    """Covariance of the first n coefficients with the gates applied: Cov(γ v)."""
    if state.gates is None:
        return distribution.covariances(n)
    mean = (state.gates.open * distribution.mean)[:n]
    return state.gates.applied_to(distribution.outer(n)) - np.outer(mean, mean)
