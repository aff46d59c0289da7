"""Slopes and second derivatives of every likelihood, by finite differences of its own value."""

from dataclasses import replace

import numpy as np
import pytest

from models import mean_field_terms
from vbsvm.model.likelihoods.hinge import EXACT_HINGE, HINGE
from vbsvm.model.likelihoods.logistic import EXACT_LOGISTIC, LOGISTIC

RNG = np.random.default_rng(0)
F, V = RNG.normal(size=40), RNG.uniform(0.2, 2.0, size=40)
Y, S = np.where(RNG.random(40) < 0.5, 1.0, -1.0), RNG.uniform(0.5, 3.0, size=40)


def by_differences(likelihood, e=1e-3):
    """ℓ_f, ℓ_ff, ℓ_fv, ℓ_vv by central differences of the fourth order."""
    places, weights = np.array([-2, -1, 1, 2]), np.array([1, -8, 8, -1]) / 12

    def value(f, v):
        return S * mean_field_terms(likelihood, f, v, Y, S).value

    def first(function, x):
        return sum(w * function(x + k * e) for k, w in zip(places, weights, strict=True)) / e

    return (
        first(lambda f: value(f, V), F),
        first(lambda f: first(lambda g: value(g, V), f), F),
        first(lambda f: first(lambda v: value(f, v), V), F),
        first(lambda v: first(lambda u: value(F, u), v), V),
    )


def apart(found, expected):
    pairs = zip((found.f, found.ff, found.fv, found.vv), expected, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


@pytest.mark.parametrize("likelihood", [HINGE, EXACT_HINGE, LOGISTIC, EXACT_LOGISTIC])
def test_they_are_those_of_the_value(likelihood):
    found, expected = likelihood.derivatives(F, V, Y, S), by_differences(likelihood)
    assert apart(found, expected) < 1e-6
    np.testing.assert_allclose(found.f, likelihood.slopes(F, V, Y, S)[1], rtol=1e-12)
    np.testing.assert_allclose(-found.ff, mean_field_terms(likelihood, F, V, Y, S).curvature, rtol=1e-12)
    # Planted errors: a sign of the mixed derivative, a factor of the last, weights that are forgotten.
    for wrong in (
        replace(found, fv=-found.fv),
        replace(found, fv=found.fv * Y),
        replace(found, vv=2 * found.vv),
        likelihood.derivatives(F, V, Y, np.ones_like(S)),
    ):
        assert apart(wrong, expected) > 5e-3
