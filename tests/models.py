"""Small models and states for tests of the core."""

import numpy as np

from vbsvm.base.distributions import InverseGamma
from vbsvm.base.update_mode import mean_field
from vbsvm.design.scaling import Recipe
from vbsvm.inference.steps import Iterate
from vbsvm.model import sweep
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.priors import Normal, Ridge
from vbsvm.model.priors.base import Moments
from vbsvm.model.spec import Block, Spec, State
from vbsvm.model.sweep import elbo, pass_rows, row_term_fixed_weights
from vbsvm.sources.memory import Memory


def source_of(X, y, s=None, intercept=True):
    """Rows as they are: no centring, no scaling."""
    s = np.ones(len(y)) if s is None else np.asarray(s, dtype=float)
    return Memory(X, y, s, Recipe(np.zeros(X.shape[1]), np.ones(X.shape[1]), intercept))


def spec_of(n_inputs, prior=None, intercept=True, intercept_prior=None):
    inputs = Block("inputs", (slice(int(intercept), int(intercept) + n_inputs),), prior or Ridge())
    if not intercept:
        return Spec((inputs,))
    return Spec((Block("intercept", (slice(0, 1),), intercept_prior or Normal(1e8)), inputs))


def random_state(spec, rng, spread=1.0):
    """Any valid variational state, far from every optimum."""
    size = spec.n_columns
    root = np.triu(rng.normal(size=(size, size))) * spread / np.sqrt(size)
    root[np.diag_indices(size)] = np.exp(rng.normal(size=size)) * spread
    scales = []
    for block in spec.blocks:
        fresh = block.prior.update(
            block.prior.start(1, block.size), Moments(PointDistribution(np.ones(size)), block.columns), mean_field
        )
        moved = isinstance(fresh, InverseGamma)
        scales.append(InverseGamma(fresh.shape, fresh.rate * np.exp(rng.normal())) if moved else fresh)
    return State(DenseGaussian(rng.normal(size=size), root), tuple(scales))


def visit(spec, state, source):
    stats = pass_rows(spec, state, source, mean_field, with_curvature=True)
    return Iterate(state, elbo(spec, state, stats.row_bound), lambda: stats)


def rises_of_single_updates(spec, source, state, n_sweeps=3):
    """Rise of the bound by each update of some sweeps, the others held; the weights' own update included."""
    rises = []
    for _ in range(n_sweeps):
        stats = visit(spec, state, source).stats
        before = elbo(spec, state, row_term_fixed_weights(state, stats))
        for update in (
            lambda state, stats: sweep.update_coefficients(spec, state, stats, mean_field),
            lambda state, stats: sweep.update_priors(spec, state, mean_field),
        ):
            state = update(state, stats)
            after = elbo(spec, state, row_term_fixed_weights(state, stats))
            rises.append((after - before) / (1 + abs(before)))
            before = after
        rises.append((visit(spec, state, source).bound - before) / (1 + abs(before)))
    return np.array(rises)
