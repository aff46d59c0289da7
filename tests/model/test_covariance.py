"""Effects that vary together: the priors of their covariance matrix."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from grouped_models import grouped_problems
from models import mean_field_sweep, rises_of_single_updates
from vbsvm import Covariance, InverseWishart
from vbsvm.base import distributions
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.priors.base import Moments
from vbsvm.model.priors.covariance import HuangWandDistribution


@settings(max_examples=100, deadline=None)
@given(grouped_problems())
def test_every_single_update_raises_the_bound(problem):
    spec, source = problem
    state = mean_field_sweep(spec, spec.start(), source)
    # Rounding of sums of up to 60 rows whose terms are of the size of the bound.
    assert rises_of_single_updates(spec, source, state).min() > -1e-11


@pytest.fixture
def moments():
    """Effects of 30 groups, three each: level by level."""
    u = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 2.0, 0.3]
    return Moments(PointDistribution(u.ravel()), tuple(slice(j, 90, 3) for j in range(3)))


def log_joint(prior, u, Sigma, a):
    """log p(u | Σ) + log p(Σ | a) + log p(a), from SciPy's densities."""
    total = stats.multivariate_normal.logpdf(u, cov=Sigma).sum()
    if isinstance(prior, InverseWishart):
        return total + stats.invwishart.logpdf(Sigma, 4.0 if prior.nu is None else prior.nu, prior.psi * np.eye(3))
    total += stats.invwishart.logpdf(Sigma, prior.degrees + 2, 2 * prior.degrees * np.diag(1 / a))
    return total + stats.invgamma.logpdf(a, 0.5, scale=prior.scale**-2).sum()


@pytest.mark.parametrize(
    "prior", [InverseWishart(0.3), InverseWishart(2.0, nu=7.5), Covariance(2.0), Covariance(0.5, 4.0)]
)
def test_the_bound_is_its_monte_carlo_estimate_at_distributions_that_are_not_fresh(prior, moments):
    u, rng = moments.distribution.mean.reshape(30, 3), np.random.default_rng(1)
    distribution = prior.start(3, 90)
    for _ in range(2):
        distribution = prior.update(distribution, moments, mean_field)
    distribution = distribution.unpack(np.array(distribution.pack()) + 0.1 * rng.normal(size=len(distribution.pack())))
    matrix = distribution.covariance if isinstance(distribution, HuangWandDistribution) else distribution
    Sigmas = stats.invwishart.rvs(matrix.degrees, matrix.scale, size=4000, random_state=rng)
    values = -stats.invwishart.logpdf(Sigmas.transpose(1, 2, 0), matrix.degrees, matrix.scale)
    scales = np.ones((4000, 3))
    if isinstance(distribution, HuangWandDistribution):
        rates, shape = np.array([x.rate for x in distribution.auxiliary]), distribution.auxiliary[0].shape
        scales = rates / rng.gamma(shape, size=(4000, 3))
        values -= stats.invgamma.logpdf(scales, shape, scale=rates).sum(axis=1)
    values += [log_joint(prior, u, Sigma, a) for Sigma, a in zip(Sigmas, scales, strict=True)]
    error = values.std() / math.sqrt(4000)
    assert prior.bound(distribution, moments) == pytest.approx(values.mean(), abs=4.5 * error)
    assert error < 0.1  # a forgotten ½ log 2 would be seen


def test_the_update_is_the_conditional_of_the_inverse_wishart(moments):
    distribution = InverseWishart(0.5, nu=6.0).update(None, moments, mean_field)
    u = moments.distribution.mean.reshape(30, 3)
    np.testing.assert_allclose(distribution.scale, 0.5 * np.eye(3) + u.T @ u)
    assert distribution.degrees == 36
    np.testing.assert_allclose(distribution.inverse_mean, 36 * np.linalg.inv(distribution.scale))


def test_draws_of_the_inverse_wishart_have_its_distribution():
    scale = np.array([[2.0, 0.7, -0.3], [0.7, 1.5, 0.2], [-0.3, 0.2, 0.9]])
    distribution, n = distributions.InverseWishart(scale, 9.0), 20_000
    draws = np.array([Draw(0, 0, k)(distribution, "covariance").value for k in range(n)])
    peers = stats.invwishart.rvs(9.0, scale, size=n, random_state=0)
    for j, k in [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]:
        assert stats.ks_2samp(draws[:, j, k], peers[:, j, k]).pvalue > 1e-3
    np.testing.assert_allclose(draws, draws.transpose(0, 2, 1))
    wrong = np.array(
        [Draw(1, 0, k)(distributions.InverseWishart(scale, 8.0), "covariance").value[0, 0] for k in range(n)]
    )
    assert stats.ks_2samp(wrong, peers[:, 0, 0]).pvalue < 1e-6


def test_a_gibbs_update_draws_the_covariance_then_the_auxiliary_scales(moments):
    prior = Covariance(2.0)
    drawn = prior.update(prior.start(3, 90), moments, Draw(0, 0, 0))
    assert isinstance(drawn.covariance, distributions.MatrixPoint)
    assert all(isinstance(a, distributions.Point) for a in drawn.auxiliary)
    assert prior.update(drawn, moments, mean_field).covariance.scale[0, 1] == pytest.approx(moments.outer[0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Covariance(scale=0), "Covariance: scale must be a positive number"),
        (lambda: Covariance(degrees=-1), "Covariance: degrees must be a positive number"),
        (lambda: InverseWishart(psi=-1), "InverseWishart: psi must be a positive number"),
        (lambda: InverseWishart(nu=0), "InverseWishart: nu must be a positive number"),
        (lambda: InverseWishart(nu=1.5).start(3, 90), "nu must be above 2 for 3 effects"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
