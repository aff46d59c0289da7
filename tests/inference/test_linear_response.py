"""Linear response is the derivative of refits, in every layout and under both bounds."""

from dataclasses import replace

import numpy as np
import pytest

from models import source_of
from reference import simulate
from tilting import by_refits, log_variance_by_refits, refit
from vbsvm import Normal, Ridge, Variational
from vbsvm.inference.linear_response import dense_response
from vbsvm.inference.tilted_map import response_of_map
from vbsvm.model.spec import Block, Spec

TWO_SCALES = Spec(
    (
        Block("intercept", (slice(0, 1),), Normal(1e4)),
        Block("first", (slice(1, 4),), Ridge()),
        Block("second", (slice(4, 7),), Ridge(1.0, 1.0)),
    )
)


def settled(spec, source, exact):
    """A state at which nothing moves."""
    outcome = Variational(bound="exact" if exact else "augmented", tol=1e-10).run(spec, source)
    spec = replace(spec, likelihood=outcome.likelihood)
    return spec, refit(spec, outcome.state, source)


def precise(spec, state, source):
    return dense_response(spec, state, source, accuracy=1e-10, negligible=0.0)


@pytest.fixture(scope="module", params=[False, True], ids=["augmented", "exact"])
def fitted(request):
    X, y = simulate(150, 6, seed=1)
    source = source_of(X, y, np.random.default_rng(0).uniform(0.5, 2.0, size=150))
    spec, state = settled(TWO_SCALES, source, request.param)
    return spec, state, source


def test_it_is_the_derivative_of_refits(fitted):
    spec, state, source = fitted
    found = precise(spec, state, source)
    for column in (0, 2, 5):
        expected = by_refits(spec, state, source, column)
        np.testing.assert_allclose(found.covariance[column], expected, rtol=1e-5, atol=1e-6 * expected[column])
    assert found.blocks == (1, 2)
    variances = [log_variance_by_refits(spec, state, source, block) for block in found.blocks]
    np.testing.assert_allclose(found.log_variances.diagonal(), variances, rtol=1e-5)


def test_planted_errors_are_seen(fitted, monkeypatch):
    spec, state, source = fitted
    likelihood = type(spec.likelihood)
    right = dense_response(spec, state, source).covariance
    expected = by_refits(spec, state, source, 2)
    held = dense_response(spec, state, source, hold_scales=True).covariance
    derivatives = likelihood.derivatives
    monkeypatch.setattr(likelihood, "derivatives", lambda *a: replace(d := derivatives(*a), fv=d.fv * 0.9))
    wrong = dense_response(spec, state, source).covariance
    assert np.abs(right[2] - expected).max() < 1e-4 * expected[2]
    assert np.abs(held[2] - expected).max() > 1e-3 * expected[2]
    assert np.abs(wrong[2] - expected).max() > 1e-3 * expected[2]


def test_the_map_of_any_model_says_the_same(fitted):
    spec, state, source = fitted
    fast = precise(spec, state, source)
    slow = response_of_map(spec, state, source, np.array([0, 2]))
    np.testing.assert_allclose(slow.coefficients, fast.coefficients[[0, 2]], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(slow.log_variances, fast.log_variances, rtol=1e-5, atol=1e-8)
