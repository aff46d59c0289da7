"""Small models and states for tests of the core."""

import numpy as np

from vbsvm import bound
from vbsvm.design.recipe import Recipe
from vbsvm.fit.accelerate import Visited
from vbsvm.laws import InverseGamma
from vbsvm.layout.base import Moments, PointLaw
from vbsvm.layout.dense import DenseGaussian
from vbsvm.priors import Normal, Ridge
from vbsvm.readings import expect
from vbsvm.source.memory import Memory
from vbsvm.spec import Block, Spec, State
from vbsvm.sweep import pass_rows


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
            block.prior.start(1, block.size), Moments(PointLaw(np.ones(size)), block.columns), expect
        )
        moved = isinstance(fresh, InverseGamma)
        scales.append(InverseGamma(fresh.shape, fresh.rate * np.exp(rng.normal())) if moved else fresh)
    return State(DenseGaussian(rng.normal(size=size), root), tuple(scales))


def visit(spec, state, source):
    stats = pass_rows(spec, state, source, expect, with_curvature=True)
    return Visited(state, stats, bound.total(spec, state, stats.row_bound))
