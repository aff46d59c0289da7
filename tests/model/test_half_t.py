"""The half-t prior of a standard deviation: its mixture, its bound, its draws, and the response of its rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from models import source_of, spec_of
from reference import log_evidence_1d
from vbsvm import HalfT, Variational
from vbsvm.base.distributions import InverseGamma, Point
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.inference.covariance.linear_response import dense_response
from vbsvm.inference.covariance.map_response import response_of_map
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.priors.base import Moments

THETA = np.array([0.7, -1.2, 0.4, 2.0, -0.3, 0.9])
PRIOR = HalfT(1.5, 3.0)
SIX = Moments(PointDistribution(THETA), (slice(0, 6),))


def log_prior(sd):
    """Density of σ up to a constant."""
    return stats.t.logpdf(sd / PRIOR.scale, PRIOR.degrees)


def test_the_density_of_log_sd_and_its_derivatives():
    lam = np.array([-3.0, -0.2, 0.9])
    found = np.array([PRIOR.log_density(one) for one in lam])
    known = log_prior(np.exp(lam)) + lam
    np.testing.assert_allclose(np.diff(found[:, 0]), np.diff(known), rtol=1e-10)
    h = 1e-5
    for one, (_, slope, curvature) in zip(lam, found, strict=True):
        up, down = PRIOR.log_density(one + h), PRIOR.log_density(one - h)
        assert slope == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6)
        assert curvature == pytest.approx((down[1] - up[1]) / (2 * h), rel=1e-6)


def test_an_update_leaves_both_distributions_at_rest():
    found = PRIOR.update(Point(1.0), SIX, mean_field)
    assert isinstance(found, InverseGamma)
    rate = PRIOR.degrees * PRIOR._auxiliary(found).inverse_mean + 0.5 * SIX.square_norm
    assert found.rate == pytest.approx(rate, rel=1e-10)
    higher, lower = (PRIOR.bound(InverseGamma(found.shape, factor * found.rate), SIX) for factor in (1.05, 0.95))
    assert max(higher, lower) < PRIOR.bound(found, SIX)


def test_the_bound_of_a_block_is_below_its_log_evidence_and_near_it():
    def density(sd):
        return 2 * np.exp(log_prior(sd)) / PRIOR.scale * np.exp(stats.norm.logpdf(THETA, scale=sd).sum())

    evidence = math.log(integrate.quad(density, 0.0, np.inf)[0])
    gap = evidence - PRIOR.bound(PRIOR.update(Point(1.0), SIX, mean_field), SIX)
    assert 0 < gap < 0.2


def test_draws_are_those_of_the_posterior():
    scale, found = Point(1.0), []
    for k in range(20_000):
        scale = PRIOR.update(scale, SIX, lambda law, *site, k=k: Draw(0, 0, k)(law, *site))
        found.append(0.5 * math.log(scale.value))
    lam = np.linspace(-4.0, 5.0, 4001)
    logs = log_prior(np.exp(lam)) + lam + stats.norm.logpdf(THETA[:, None], scale=np.exp(lam)).sum(axis=0)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ lam
    assert np.mean(found) == pytest.approx(mean, abs=0.02)
    assert np.std(found) == pytest.approx(math.sqrt(weights @ (lam - mean) ** 2), rel=0.04)
    flat = weights * np.exp(-lam)  # without the Jacobian the mean would be another
    assert abs(flat @ lam / flat.sum() - mean) > 0.05


def test_the_ratio_of_the_samplers_move():
    g = 1.3

    def log_density(theta, variance):
        return stats.norm.logpdf(theta, scale=variance**0.5).sum() + log_prior(variance**0.5) - 0.5 * np.log(variance)

    moved, ratio = PRIOR.rescale(Point(0.8), SIX, g)
    assert moved.value == pytest.approx(0.8 * g**2)
    assert ratio == pytest.approx(log_density(g * THETA, g * g * 0.8) - log_density(THETA, 0.8) + (6 + 2) * np.log(g))


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_stays_below_the_log_evidence_of_one_coefficient(seed):
    rng = np.random.default_rng(seed)
    x, y, s = rng.normal(size=6), rng.choice([-1.0, 1.0], size=6), rng.gamma(2.0, size=6)
    sds = np.exp(np.linspace(-9.0, 9.0, 2001))
    mass = np.exp(log_prior(sds)) * sds
    mass /= mass.sum()

    def marginal(u):
        return np.log(stats.norm.pdf(np.asarray(u)[..., None], scale=sds) @ mass)

    outcome = Variational(tol=1e-10).run(
        spec_of(1, PRIOR, intercept=False), source_of(x[:, None], y, s, intercept=False)
    )
    assert 0 < log_evidence_1d(x, y, s, marginal) - outcome.bounds[-1] < 2.5


def test_two_ways_to_the_linear_response_agree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = np.where(X[:, 0] + rng.logistic(size=150) > 0, 1.0, -1.0)
    spec, source = spec_of(4, HalfT(0.5)), source_of(X, y)
    outcome = Variational(tol=1e-13, bound="exact").run(spec, source)
    sharp = replace(spec, likelihood=outcome.likelihood)
    found = dense_response(sharp, outcome.state, source)
    other = response_of_map(sharp, outcome.state, source, np.arange(5))
    np.testing.assert_allclose(found.coefficients[:5], other.coefficients, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.log_variances, other.log_variances, rtol=1e-3)
    held = replace(found, log_variances=found.log_variances * 1.01)
    assert np.abs(held.log_variances - other.log_variances).max() > 2e-3 * np.abs(other.log_variances).max()


def test_bad_settings_are_refused():
    for settings in ({"scale": 0.0}, {"scale": -1.0}, {"degrees": 0.0}, {"scale": np.inf}):
        with pytest.raises(ValueError, match="HalfT"):
            HalfT(**settings)
