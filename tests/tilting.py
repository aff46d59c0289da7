"""Refits of a model whose log posterior is tilted: what linear response is the derivative of."""

from dataclasses import replace

import numpy as np
from scipy.special import digamma

from models import mean_field_stats
from vbsvm.base.distributions import InverseGamma
from vbsvm.inference.steps import Iterate, newton_step

MOST_STEPS = 2000


def refit(spec, state, source, t=None, still=1e-13):
    """Newton steps under the tilt tᵀθ until nothing moves; only for states that are close to their optimum."""
    for k in range(MOST_STEPS):
        stats = mean_field_stats(spec, state, source, with_curvature=True)
        if t is not None:
            stats = replace(stats, cross_sums=stats.cross + t)
        after = newton_step(spec, Iterate(state, 0.0, lambda stats=stats: stats), 0.0)
        moved = np.abs(after.packed - state.packed).max()
        state = after
        if moved < still and k > 2:  # the shape of a scale is not among what is packed
            return state
    raise AssertionError(f"still moving by {moved}")


def effective_mean(state):
    return state.coefficients.mean if state.gates is None else state.gates.by_coefficient * state.coefficients.mean


def by_refits(spec, state, source, column, e=1e-4, still=1e-13):
    """Covariances of one coefficient with all, as the derivative of refits."""
    t = np.zeros(spec.n_columns)
    t[column] = e
    ahead, behind = (effective_mean(refit(spec, state, source, tilt, still)) for tilt in (t, -t))
    return (ahead - behind) / (2 * e)


def log_variance_by_refits(spec, state, source, block, e=1e-4):
    """Variance of log σ² of a block: E log σ² where the prior is σ^(2t) times its own."""
    found = []
    for tilt in (e, -e):
        prior = spec.blocks[block].prior
        blocks = list(spec.blocks)
        blocks[block] = replace(blocks[block], prior=replace(prior, shape=prior.shape - tilt))
        tilted = replace(spec, blocks=tuple(blocks))
        scale = refit(tilted, state, source).scales[block]
        assert isinstance(scale, InverseGamma)
        found.append(np.log(scale.rate) - digamma(scale.shape))
    return (found[0] - found[1]) / (2 * e)
