"""Linear response is the derivative of refits, in every layout and under both bounds."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_models import dense_twin
from models import source_of
from reference import simulate
from spread_models import FIXED, GROUP_PRIORS, crossed_with_slopes, settled
from tilting import by_refits, log_variance_by_refits
from vbsvm import Normal, Ridge
from vbsvm.inference.covariance.linear_response import dense_response
from vbsvm.inference.covariance.map_response import dual_response, response_of_map
from vbsvm.model.spec import Block, Spec

TWO_SCALES = Spec(
    (
        Block("intercept", (slice(0, 1),), Normal(1e4)),
        Block("first", (slice(1, 4),), Ridge()),
        Block("second", (slice(4, 7),), Ridge(1.0, 1.0)),
    )
)


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
    right = precise(spec, state, source).covariance
    expected = by_refits(spec, state, source, 2)
    held = dense_response(spec, state, source, hold_scales=True).covariance
    derivatives = likelihood.derivatives
    monkeypatch.setattr(likelihood, "derivatives", lambda *a: replace(d := derivatives(*a), fv=d.fv * 0.9))
    wrong = dense_response(spec, state, source).covariance
    assert np.abs(right[2] - expected).max() < 1e-4 * expected[2]
    assert np.abs(held[2] - expected).max() > 1e-3 * expected[2]
    assert np.abs(wrong[2] - expected).max() > 1e-3 * expected[2]


@pytest.mark.parametrize("hold_scales", [False, True])
def test_the_map_of_any_model_says_the_same(fitted, hold_scales):
    spec, state, source = fitted
    which, held = np.array([0, 2]), {"hold_scales": hold_scales}
    fast = dense_response(spec, state, source, accuracy=1e-10, negligible=0.0, **held)
    slow = response_of_map(spec, state, source, which, accuracy=1e-6, **held)
    np.testing.assert_allclose(slow.coefficients, fast.coefficients[which], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(slow.log_variances, fast.log_variances, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("prior", GROUP_PRIORS)
def test_groups_by_the_map(prior, exact):
    """Crossed factors with slopes; where scales are variances, the same as with the groups' columns written out."""
    source = crossed_with_slopes()
    spec, state = settled(Spec((*FIXED, *GROUP_PRIORS[prior])), source, exact)
    which = np.array([2, 9])
    found = response_of_map(spec, state, source, which, accuracy=1e-6)
    for k, column in enumerate(which):
        expected = by_refits(spec, state, source, column)
        np.testing.assert_allclose(found.coefficients[k], expected, rtol=1e-4, atol=1e-5 * expected[column])
    assert log_variance_by_refits(spec, state, source, 1) == pytest.approx(found.log_variances[0, 0], rel=1e-5)
    held = response_of_map(spec, state, source, which, hold_scales=True)
    assert np.abs(held.covariance / found.covariance - 1).max() > 1e-2
    if prior == "independent":
        twin = dense_twin(source)
        dense = precise(*settled(spec, twin, exact), twin)
        np.testing.assert_allclose(found.coefficients, dense.coefficients[which], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.log_variances, dense.log_variances, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("hold_scales", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_dual_and_dense_agree(exact, hold_scales):
    X, y = simulate(60, 8, seed=3)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(60, 4))])
    blocks = (
        Block("intercept", (slice(0, 1),), Normal(1e8)),
        Block("first", (slice(1, 6),), Ridge(3.0, 3.0)),
        Block("second", (slice(6, 13),), Ridge(3.0, 3.0)),
    )
    dense = source_of(X, y)
    spec, state = settled(Spec(blocks), dense, exact)
    wide = replace(dense, wide=True)
    _, as_dual = settled(Spec(blocks), wide, exact)
    which = np.array([0, 3, 12])
    found = dual_response(spec, as_dual, wide, which, hold_scales=hold_scales)
    expected = dense_response(spec, state, dense, accuracy=1e-10, negligible=0.0, hold_scales=hold_scales)
    np.testing.assert_allclose(found.coefficients, expected.coefficients[which], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.log_variances, expected.log_variances, rtol=1e-4, atol=1e-6)
