"""Small models and states for tests of the core."""

import numpy as np
import pytest

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
from vbsvm.model.sweep import elbo, pass_rows
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


def row_term_fixed_weights(state, stats, start):
    """Row term of the bound at a state, with the weights fixed that a pass from ``start`` has found."""

    def quadratic(state):
        distribution, (gram, cross) = state.coefficients, stats.gated(state.gates)
        spread, n = 0.0, len(distribution.mean)
        if hasattr(distribution, "trace"):
            spread = distribution.trace(gram)
        elif not isinstance(distribution, PointDistribution):
            spread = np.vdot(np.column_stack([gram.times(unit) for unit in np.eye(n)]), distribution.covariances(n))
        return cross @ distribution.mean - 0.5 * (distribution.mean @ gram.times(distribution.mean) + spread)

    return stats.row_bound + quadratic(state) - quadratic(start)


def assert_tangent(spec, source, state, rel=1e-5):
    """With the weights of a pass fixed, the row term has the derivative in the mean that passes nearby find."""
    distribution, step = state.coefficients, 1e-5
    direction = np.cos(np.arange(len(distribution.mean)))

    def term(moved):
        found = pass_rows(spec, moved, source, mean_field)
        inputs = {} if spec.missing is None else spec.missing.bound(moved.missing, found.missing)
        return found.row_bound + sum(inputs.values())

    gram, cross = pass_rows(spec, state, source, mean_field).gated(state.gates)
    up, down = (
        term(state.with_coefficients(distribution.with_mean(distribution.mean + sign * step * direction)))
        for sign in (1, -1)
    )
    parts = cross * direction, gram.times(distribution.mean) * direction
    size = sum(np.abs(part).sum() for part in parts)
    assert (up - down) / (2 * step) == pytest.approx(parts[0].sum() - parts[1].sum(), abs=rel * (1 + size))


def rises_of_single_updates(spec, source, state, n_sweeps=3):
    """Rise of the bound by each update of some sweeps, the others held; the weights' own update included."""
    rises = []
    for _ in range(n_sweeps):
        stats = visit(spec, state, source).stats
        start, before = state, elbo(spec, state, stats.row_bound)
        for update in (
            lambda state, stats: sweep.update_coefficients(spec, state, stats, mean_field),
            lambda state, stats: sweep.update_priors(spec, state, mean_field),
        ):
            state = update(state, stats)
            after = elbo(spec, state, row_term_fixed_weights(state, stats, start))
            rises.append((after - before) / (1 + abs(before)))
            before = after
        rises.append((visit(spec, state, source).bound - before) / (1 + abs(before)))
    return np.array(rises)
