"""The climb of groups with the rest held ends where a fit of all has them."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from vbsvm import Model, Variational
from vbsvm.inference.adaptation import NaturalEffects, adapt
from vbsvm.results.adapted import _Groups, _Rows


@pytest.mark.parametrize("bound", ["exact", "augmented"])
@pytest.mark.parametrize("term", ["(1 | g)", "(x | g)", "(1 | g) + (1 | item)"])
def test_beside_the_core_of_a_fit_its_groups_are_found_again(bound, term):
    """A fit is a stationary point of the same bound: given its core, nothing else than its own groups is one.

    Climbs end within their tolerance of it, so that a thousandth of a standard deviation is asked for.
    """
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(25), 8)
    x, item = rng.normal(size=len(g)), rng.integers(0, 4, len(g))
    y = rng.uniform(size=len(g)) < expit(2 * (0.3 + x + rng.normal(0, 1.5, 25)[g]))
    data = pd.DataFrame({"x": x, "g": g, "item": item, "y": y})
    fit = Model(f"y ~ x + {term}", data, likelihood="hinge").fit(Variational(bound=bound, tol=1e-11, max_iter=20_000))
    groups = _Groups.from_rows(fit.spec, _Rows.from_data(fit, fit.reader, data, None), fit.outcome.state)
    known = fit.outcome.state.coefficients
    prior = NaturalEffects.from_prior(groups.precisions[0], 25, len(known.core.mean))
    found = adapt(fit.outcome.likelihood, known.core, known.shapes, None, groups.rows, prior).distribution
    sds = np.sqrt(np.einsum("gqq->gq", known.effect_covariances))
    assert np.abs((found.effects - known.effects) / sds).max() < 1e-3
    np.testing.assert_allclose(found.effect_covariances, known.effect_covariances, rtol=1e-2, atol=1e-4)
    far = NaturalEffects.from_prior(4.0 * groups.precisions[0], 25, len(known.core.mean))
    moved = adapt(fit.outcome.likelihood, known.core, known.shapes, None, groups.rows, far).distribution
    assert np.abs((moved.effects - known.effects) / sds).max() > 0.1  # another prior is noticed
