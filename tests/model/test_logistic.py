"""The logistic likelihood: its expectation under a normal score, its averages, and its augmented bound."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, log_expit

from models import mean_field_terms
from vbsvm.model.likelihoods.logistic import EXACT_LOGISTIC, LOGISTIC, NARROW, log_mean_expit, mixture, series

PLACES = [(0.0, 0.3), (0.3, 0.005), (-4.0, 0.02), (2.0, 1.0), (-3.0, 9.0), (1.0, 100.0), (8.0, 0.5)]


def over_scores(function, f, v):
    """E function(score), score ~ N(f, v), by adaptive quadrature."""
    sd = np.sqrt(v)
    return integrate.quad(
        lambda x: function(x) * stats.norm.pdf(x, f, sd), f - 12 * sd, f + 12 * sd, epsabs=1e-13, limit=300
    )[0]


def terms(likelihood, f, v, y=1.0):
    return mean_field_terms(likelihood, np.array([f]), np.array([v]), np.array([y]), np.ones(1))


@pytest.mark.parametrize(("f", "v"), PLACES)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_exact_bound_is_the_expectation(f, v, y):
    found = terms(EXACT_LOGISTIC, f, v, y)
    # The mixture of normal curves is right to 8e-9 in ℓ.
    assert found.value[0] == pytest.approx(over_scores(lambda x: log_expit(y * x), f, v), abs=2e-8)
    assert found.w[0] == pytest.approx(over_scores(lambda x: expit(x) * expit(-x), f, v), abs=1e-6)
    slope = over_scores(lambda x: y * expit(-y * x), f, v)
    assert found.u[0] - found.w[0] * f == pytest.approx(slope, abs=2e-8)


@pytest.mark.parametrize(("f", "v"), PLACES)
def test_the_augmented_bound_lies_below_and_touches_where_scores_are_known(f, v):
    assert terms(LOGISTIC, f, v).value[0] < terms(EXACT_LOGISTIC, f, v).value[0] + 2e-8
    at = mean_field_terms(LOGISTIC, np.array([f]), 0.0, np.ones(1), np.ones(1))
    assert at.value[0] == pytest.approx(log_expit(f), rel=1e-12)
    assert LOGISTIC.log_likelihood(np.array([f]))[0] == pytest.approx(log_expit(f), rel=1e-12)


def test_both_ways_to_the_expectation_join():
    margin, v = np.linspace(-12, 12, 97), np.full(97, NARROW)
    pairs = zip(series(margin, v, 0, 5), mixture(margin, v, 5), strict=True)
    for (one, other), tolerance in zip(pairs, (2e-8, 2e-8, 5e-7, 5e-6, 1e-4), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


def test_rows_of_small_and_of_large_variances_lie_side_by_side():
    f, v = np.linspace(-6, 6, 5001), np.where(np.arange(5001) % 2, 0.01, 0.5)
    found = mean_field_terms(EXACT_LOGISTIC, f, v, np.ones(5001), np.ones(5001))
    narrow, wide = v < NARROW, v > NARROW
    for which, way in ((narrow, series(f[narrow], v[narrow], 0, 3)), (wide, mixture(f[wide], v[wide], 3))):
        value, _, second = way
        np.testing.assert_allclose(found.value[which], value, rtol=1e-13)
        np.testing.assert_allclose(found.w[which], -second, rtol=1e-12)


@pytest.mark.parametrize("v", [1e-4, 0.02, 0.05, NARROW])
def test_the_series_is_the_expectation_as_far_as_it_reaches(v):
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    margin = np.linspace(-12, 12, 97)
    q = expit(-margin[:, None] - np.sqrt(v) * nodes)
    r, t = q * (1 - q), 1 - 2 * q
    known = (np.log1p(-q), q, -r, r * t, r * (6 * r - 1))
    found = series(margin, np.full(97, v), 0, 5).copy()
    for one, values, tolerance in zip(found, known, (1e-9, 2e-9, 1e-8, 1e-7, 1e-6), strict=True):
        np.testing.assert_allclose(one, values @ (weights / weights.sum()), atol=tolerance)
    np.testing.assert_allclose(series(margin, np.full(97, v), 1, 3), found[1:3], rtol=1e-12)


def test_far_scores_do_not_overflow():
    with np.errstate(over="raise", invalid="raise"):
        for likelihood in (LOGISTIC, EXACT_LOGISTIC):
            found = mean_field_terms(likelihood, np.array([-1e4, 1e4]), np.array([1.0, 1e6]), np.ones(2), np.ones(2))
            assert np.isfinite(found.value).all()
            assert (found.w >= 0).all()


class TestLogMeanProbability:
    @pytest.mark.parametrize(("e", "t"), [(0.3, 0.5), (-2.0, 1.0), (5.0, 0.1), (1.0, 30.0), (25.0, 4.0)])
    def test_it_is_the_average(self, e, t):
        mean = over_scores(lambda h: expit(-h), e - (t if e > 20 else 0), t)
        # Far out by the same tilt that makes it a mean of numbers of ordinary size.
        known = np.log(over_scores(expit, e - t, t)) - e + t / 2 if e > 20 else np.log(mean)
        assert log_mean_expit(np.array([-e]), np.array([t]))[0] == pytest.approx(known, abs=1e-8)

    def test_both_sides_join_at_the_tilt(self):
        t = np.array([0.1, 1.0, 10.0])
        np.testing.assert_allclose(log_mean_expit(-0.5 * t - 1e-9, t), log_mean_expit(-0.5 * t + 1e-9, t), atol=1e-6)
