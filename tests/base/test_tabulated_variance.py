"""A variance known by the density of its logarithm at some values."""

import numpy as np
import pytest
from scipy.stats import halfnorm, invgamma, norm

from vbsvm.base.distributions import InverseGamma, TabulatedVariance

CHANCES = np.array([0.025, 0.3, 0.5, 0.9, 0.975])


def normal_logs(mean=0.3, sd=0.2, n=5):
    lam = mean + sd * np.linspace(-2.9, 2.9, n)
    return TabulatedVariance(lam, norm.logpdf(lam, mean, sd))


def half_normal(scale=0.7):
    """σ is half normal: its density is highest at 0, and p(λ) = σ p(σ)."""
    lam = np.linspace(-5.0, 1.0, 25)
    return TabulatedVariance(lam, halfnorm.logpdf(np.exp(lam), scale=scale) + lam)


def test_quantiles_are_those_of_the_density():
    np.testing.assert_allclose(normal_logs().quantiles(CHANCES), np.exp(norm.ppf(CHANCES, 0.3, 0.2)), rtol=2e-3)
    np.testing.assert_allclose(half_normal().quantiles(CHANCES), halfnorm.ppf(CHANCES, scale=0.7), rtol=1e-2)
    np.testing.assert_allclose(normal_logs().values_at(CHANCES)[:, 0, 0], normal_logs().quantiles(CHANCES) ** 2)


def test_the_interval_of_highest_density_holds_0_where_the_density_is_highest_there():
    low, high = half_normal().highest_density(0.95)
    assert low == 0.0
    assert high == pytest.approx(halfnorm.ppf(0.95, scale=0.7), rel=0.01)


def test_the_interval_of_highest_density_is_the_shortest():
    found = normal_logs(sd=0.5)
    low, high = found.highest_density(0.9)
    assert low > 0.3
    assert norm.cdf(np.log(high), 0.3, 0.5) - norm.cdf(np.log(low), 0.3, 0.5) == pytest.approx(0.9, abs=0.005)
    ends = found.quantiles(np.array([0.05, 0.95]))
    assert high - low < ends[1] - ends[0]


def test_the_density_of_the_variance_integrates_to_one():
    found, grid = normal_logs(), np.linspace(0.0, 8.0, 20001)
    assert np.trapezoid(found.density(grid), grid) == pytest.approx(1.0, abs=1e-3)


def test_units_multiply_standard_deviations():
    np.testing.assert_allclose(normal_logs().scaled(3.0).quantiles(CHANCES), 3.0 * normal_logs().quantiles(CHANCES))


@pytest.mark.parametrize("mean", [-20.0, 0.0, 3.0])
@pytest.mark.parametrize("variance", [1e-4, 0.1, 5.0, 400.0])
def test_an_inverse_gamma_distribution_is_matched_in_logs(mean, variance):
    given = normal_logs(0.5 * mean, 0.5 * np.sqrt(variance), n=25)
    lam, mass = given.grid
    sd = 2 * np.sqrt(mass @ np.square(lam - mass @ lam))
    logs = np.log(invgamma.rvs(given.matched.shape, scale=given.matched.rate, size=200_000, random_state=0))
    assert given.matched.log_sd == pytest.approx(sd, rel=1e-6)
    assert logs.mean() == pytest.approx(2 * mass @ lam, abs=5 * sd / np.sqrt(200_000))


def test_an_expected_precision_is_finite_where_that_of_the_density_is_not():
    assert 0.0 < half_normal().inverse_mean < 100.0


def test_densities_of_inverse_gamma_distributions():
    x = np.array([0.0, 0.3, 1.0, 50.0])
    np.testing.assert_allclose(InverseGamma(2.5, 1.2).density(x), invgamma.pdf(x, 2.5, scale=1.2), rtol=1e-12)
