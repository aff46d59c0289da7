"""Rows, models and states for tests of spreads."""

from dataclasses import replace

import numpy as np

from models import unscaled
from tilting import refit
from vbsvm import Covariance, Normal, Ridge, Variational
from vbsvm.model.spec import Block
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping


def overlapping(n, p, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.where(X @ np.linspace(0.3, 1.0, p) + rng.logistic(size=n) > 0, 1.0, -1.0)


def sds(covariance):
    return np.sqrt(covariance.diagonal())


def settled(spec, source, exact):
    """A state at which nothing moves."""
    outcome = Variational(bound="exact" if exact else "augmented", tol=1e-10).run(spec, source)
    spec = replace(spec, likelihood=outcome.likelihood)
    return spec, refit(spec, outcome.state, source)


def crossed_with_slopes(n=160, seed=0):
    """Rows with two crossed factors, the second with a slope."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    g, h = rng.integers(0, 15, n), rng.integers(0, 5, n)
    score = X @ [1.0, 0.5] + rng.normal(size=15)[g] + rng.normal(size=5)[h] + rng.logistic(size=n)
    groupings = Grouping(h, 5, (0,)), Grouping(g, 15, (0, 1))
    recipe = unscaled(2)
    return Memory(X, np.where(score > 0, 1.0, -1.0), np.ones(n), recipe, groupings)


GROUP_PRIORS = {
    "independent": [
        Block("slopes 0", (slice(8, 38, 2),), Ridge(1.0, 1.0)),
        Block("slopes 1", (slice(9, 38, 2),), Ridge(1.0, 1.0)),
    ],
    "together": [Block("slopes", (slice(8, 38, 2), slice(9, 38, 2)), Covariance(2.0))],
}
FIXED = (
    Block("fixed", (slice(0, 3),), Normal(100.0)),
    Block("crossed", (slice(3, 8),), Ridge(1.0, 1.0)),
)
