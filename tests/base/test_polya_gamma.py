"""Draws of Pólya-Gamma variables: their distribution is the one that the series of gamma variables has."""

import numpy as np
import pytest
from scipy import stats

from vbsvm.base import polya_gamma
from vbsvm.base.polya_gamma import PolyaGamma, mean_weight

N = 40_000
# A test at this level fails once in a hundred thousand times; seeds are fixed.
LEVEL = 1e-5
CASES = [(1.0, 0.0), (1.0, 0.7), (1.0, 3.0), (1.0, 12.0), (1.0, 60.0), (3.0, 1.0), (0.4, 2.0), (2.5, 0.3), (40.0, 1.5)]


def by_the_series(s, z, rng, n=N, terms=400):
    """The definition, cut off far out; what is left is replaced by its mean."""
    k = np.arange(1, terms + 1)
    scales = 1 / (2 * np.pi**2 * ((k - 0.5) ** 2 + (z / (2 * np.pi)) ** 2))
    drawn = np.zeros(n)
    for scale in scales:
        drawn += scale * rng.standard_gamma(s, size=n)
    return drawn + s * (mean_weight(np.array([z]))[0] - scales.sum())


def drawn(s, z, seed=0):
    return PolyaGamma(np.full(N, s), np.full(N, z)).draw(np.random.default_rng(seed)).weight


@pytest.mark.parametrize(("s", "z"), CASES)
def test_draws_have_the_distribution_of_the_series(s, z):
    assert stats.ks_2samp(drawn(s, z), by_the_series(s, z, np.random.default_rng(1))).pvalue > LEVEL


@pytest.mark.parametrize(("s", "z"), CASES)
def test_draws_have_the_mean_and_the_variance(s, z):
    at = drawn(s, z)
    mean, variance = (s * one[0] for one in polya_gamma._moments(np.array([z])))
    assert abs(at.mean() - mean) < 5 * np.sqrt(variance / N)
    fourth = np.mean((at - at.mean()) ** 4)
    assert abs(at.var() - variance) < 5 * np.sqrt((fourth - variance**2) / N)


def test_another_distribution_is_seen_by_that_test():
    assert stats.ks_2samp(drawn(1.0, 1.5), by_the_series(1.0, 0.0, np.random.default_rng(1))).pvalue < LEVEL
    assert stats.ks_2samp(1.05 * drawn(1.0, 0.0), by_the_series(1.0, 0.0, np.random.default_rng(1))).pvalue < LEVEL


def test_moments_join_where_their_series_ends():
    z = np.array([0.05 - 1e-9, 0.05 + 1e-9])
    for one in polya_gamma._moments(z):
        assert one[0] == pytest.approx(one[1], rel=1e-6)
    assert mean_weight(np.array([0.0]))[0] == pytest.approx(0.25, rel=1e-8)


def test_rows_of_any_weight_are_drawn_together():
    s, z = np.array([1.0, 2.0, 0.5, 30.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0, 700.0])
    found = PolyaGamma(s, z).draw(np.random.default_rng(0)).weight
    assert found.shape == (5,)
    assert (found > 0).all()
    assert np.isfinite(found).all()
