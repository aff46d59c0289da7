"""Small models and states for tests of the core."""

import numpy as np

from vbsvm import Normal, Ridge
from vbsvm.base.distributions import InverseGamma
from vbsvm.base.update_mode import mean_field
from vbsvm.design.scaling import Recipe
from vbsvm.inference.steps import Iterate
from vbsvm.model import sweep
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.priors.base import Moments
from vbsvm.model.spec import Block, Spec, State
from vbsvm.model.sweep import elbo, pass_rows, row_term_fixed_weights
from vbsvm.sources.memory import Memory


def unscaled(n_inputs, intercept=True):
    """Columns as they are: no centring, no scaling."""
    return Recipe(np.zeros(n_inputs), np.ones(n_inputs), intercept)


def source_of(X, y, s=None, intercept=True):
    """Rows as they are."""
    s = np.ones(len(y)) if s is None else np.asarray(s, dtype=float)
    return Memory(X, y, s, unscaled(X.shape[1], intercept))


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


def mean_field_stats(spec, state, source, with_curvature=False):
    """Sums of a pass of variational Bayes."""
    return pass_rows(spec, state, source, mean_field, with_curvature=with_curvature)


def mean_field_sweep(spec, state, source):
    """The state after a sweep of variational Bayes."""
    return sweep.sweep(spec, state, source, mean_field)[0]


def mean_field_terms(likelihood, f, v, y, s):
    """A likelihood's terms of rows in variational Bayes."""
    return likelihood.terms(f, v, y, s, mean_field)


def visit(spec, state, source):
    stats = mean_field_stats(spec, state, source, with_curvature=True)
    return Iterate(state, elbo(spec, state, stats.row_bound, stats.missing), lambda: stats)


def rises_of_single_updates(spec, source, state, n_sweeps=3):
    """Rise of the bound by each update of some sweeps, the others held; that of the rows included."""
    rises = []
    for _ in range(n_sweeps):
        stats = mean_field_stats(spec, state, source)

        def bound(state, stats=stats):
            return elbo(spec, state, row_term_fixed_weights(state, stats), stats.missing)

        bounds = [bound(state)]
        for update in (
            lambda state, stats: sweep.update_coefficients(spec, state, stats, mean_field),
            lambda state, stats: sweep.update_gates(spec, state, stats, mean_field),
            lambda state, stats: sweep.update_priors(spec, state, mean_field),
            lambda state, stats: sweep.update_missing(spec, state, stats, mean_field),
        ):
            state = update(state, stats)
            bounds.append(bound(state))
        bounds.append(visit(spec, state, source).bound)
        rises.extend(np.diff(bounds) / (1 + np.abs(bounds[:-1])))
    return np.array(rises)
