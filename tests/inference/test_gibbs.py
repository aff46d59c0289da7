"""The same sweep, read as a sampler, agrees with quadrature: each conditional is right as a whole distribution."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit

from models import source_of, spec_of
from reference import Quadrature
from vbsvm import Normal, Ridge, Variational
from vbsvm.base import arrays
from vbsvm.base.distributions import InverseGamma, Latent, Point
from vbsvm.base.polya_gamma import PolyaGamma
from vbsvm.base.update_mode import Draw
from vbsvm.model import sweep
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.hinge import Hinge
from vbsvm.model.likelihoods.logistic import LOGISTIC

SHAPE, RATE, VARIANCE = 2.0, 1.5, 4.0
SWEEPS, TUNE, BATCHES = 12_000, 300, 50


@pytest.fixture(scope="module")
def small_model():
    rng = np.random.default_rng(7)
    x = rng.normal(size=14)
    y = np.where(rng.random(14) < 1 / (1 + np.exp(-1.5 * x)), 1.0, -1.0)
    s = np.where(np.arange(14) % 3 == 0, 2.0, 0.7)
    exact = Quadrature(x, y, s, SHAPE, RATE, VARIANCE)
    spec = spec_of(1, Ridge(SHAPE, RATE), intercept_prior=Normal(VARIANCE))
    return spec, source_of(x[:, None], y, s), exact


def chain(spec, source, seed, sweeps=SWEEPS):
    """Draws of (intercept, slope, 1/σ²)."""
    state, draws = spec.start(), []
    for k in range(TUNE + sweeps):
        state, _ = sweep.sweep(spec, state, source, Draw(seed, chain=0, sweep=k))
        assert isinstance(state.scales[1], Point)
        draws.append([*state.coefficients.mean, state.scales[1].inverse_mean])
    return np.array(draws[TUNE:])


def z_scores(draws, exact):
    """Distance of means and standard deviations from the exact ones, in Monte Carlo standard errors (batch means)."""
    truth = np.array([*exact.mean, exact.precision, *(exact.sd**2)])
    values = np.column_stack([draws, (draws[:, :2] - exact.mean) ** 2])
    batches = values.reshape(BATCHES, -1, values.shape[1]).mean(axis=1)
    return (values.mean(axis=0) - truth) / (batches.std(axis=0, ddof=1) / np.sqrt(BATCHES))


def test_means_and_spreads_are_those_of_quadrature(small_model):
    spec, source, exact = small_model
    assert np.abs(z_scores(chain(spec, source, seed=1), exact)).max() < 4


@pytest.mark.parametrize("mistake", ["dropped one", "latent scale", "spread", "shape"])
def test_a_planted_mistake_is_seen_by_that_test(small_model, mistake, monkeypatch):
    spec, source, exact = small_model
    if mistake == "dropped one":
        right_pull = Hinge.pull
        monkeypatch.setattr(Hinge, "pull", lambda self, y, s, w: right_pull(self, y, s, w) - 0.2 * s * y)
    elif mistake == "latent scale":
        right_draw = Latent.draw
        monkeypatch.setattr(
            Latent, "draw", lambda distribution, rng: right_draw(Latent(distribution.s, 1.3 * distribution.root), rng)
        )
    elif mistake == "spread":
        right_theta = DenseGaussian.draw
        monkeypatch.setattr(
            DenseGaussian,
            "draw",
            lambda distribution, rng: right_theta(DenseGaussian(distribution.mean, 0.9 * distribution.root), rng),
        )
    else:
        right_scale = InverseGamma.draw
        monkeypatch.setattr(
            InverseGamma,
            "draw",
            lambda distribution, rng: right_scale(InverseGamma(distribution.shape - 0.5, distribution.rate), rng),
        )
    assert np.abs(z_scores(chain(spec, source, seed=2), exact)).max() > 4


@pytest.mark.parametrize("root", [1e-3, 0.3, 1.0, 40.0])
def test_the_latent_draw_has_its_distribution(root):
    a = Latent(np.ones(20_000), np.full(20_000, root)).draw(np.random.default_rng(0)).value
    # 1/a is inverse Gaussian with mean 1/root and shape 1, which SciPy has.
    assert stats.kstest(1 / a, stats.invgauss(1 / root, scale=1.0).cdf).pvalue > 1e-3
    wrong = Latent(np.ones(20_000), np.full(20_000, 1.1 * root + 0.05)).draw(np.random.default_rng(0)).value
    assert stats.kstest(1 / wrong, stats.invgauss(1 / root, scale=1.0).cdf).pvalue < 1e-3


@pytest.mark.parametrize("root", [0.0, 1e-300, 1e-15, 1e15])
def test_the_latent_draw_is_exact_at_the_ends(root):
    a = Latent(np.ones(20_000), np.full(20_000, root)).draw(np.random.default_rng(0)).value
    assert np.isfinite(a).all()
    assert (a > 0).all()
    if root < 1:  # GIG(½, 1, 0) is χ² with one degree of freedom
        assert stats.kstest(a, stats.chi2(1).cdf).pvalue > 1e-3


@pytest.mark.parametrize("root", [0.0, *np.logspace(-300, 300, 25), 0.05, 0.5, 2.0, 7.0])
def test_the_latent_draw_has_its_distribution_at_any_size(root):
    """Thirty points, fixed seed, Bonferroni; its own form where that can be computed, its limits elsewhere."""
    a = Latent(np.ones(5000), np.full(5000, root)).draw(np.random.default_rng(11)).value
    assert np.isfinite(a).all()
    if root < 1e-8:  # GIG(½, 1, 0)
        found = stats.kstest(a, stats.chi2(1).cdf)
    elif root > 1e8:  # nearly normal around root, with the variance root
        found = stats.kstest((a - root) / np.sqrt(root), stats.norm.cdf) if root < 1e28 else None
    else:
        found = stats.kstest(1 / a, stats.invgauss(1 / root, scale=1.0).cdf)
    if found is None:  # the spread is below rounding
        assert np.abs(a / root - 1).max() < 1e-12
    else:
        assert found.pvalue > 0.01 / 30


def test_draws_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(0)
    n = 5 * arrays.block_rows(13) + 7
    X, y = rng.normal(size=(n, 12)), rng.choice([-1.0, 1.0], size=n)
    spec, source = spec_of(12), source_of(X, y)
    found, enter = [], arrays._BlasLimit.__enter__
    for threads in (1, 3):
        monkeypatch.setattr(arrays._BlasLimit, "__enter__", lambda limit, k=threads: enter(limit) and k)
        state = spec.start()
        for k in range(3):
            state, _ = sweep.sweep(spec, state, source, Draw(5, chain=1, sweep=k))
        found.append(state.coefficients.mean)
    np.testing.assert_array_equal(*found)


def test_another_seed_chain_or_sweep_gives_other_draws():
    distribution = InverseGamma(2.0, 1.0)
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert len({Draw(*key)(distribution, "scale", site).value for key in keys for site in (0, 1)}) == 8
    assert Draw(3, 2, 1)(distribution, "scale", 0) == Draw(3, 2, 1)(distribution, "scale", 0)


def test_mean_field_spreads_are_about_half_of_the_samplers():
    """What the README says of them, on data that are not separable."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 5))
    y = np.where(X @ [1, 0.5, 0, 0, -0.5] + rng.logistic(size=300) > 0, 1.0, -1.0)
    spec, source = spec_of(5, Ridge(2.0, 1.5)), source_of(X, y)
    state, draws = spec.start(), []
    for k in range(3000):
        state, _ = sweep.sweep(spec, state, source, Draw(0, 0, k))
        draws.append(state.coefficients.mean)
    distribution = Variational().run(spec, source).state.coefficients
    ratios = np.sqrt(np.diagonal(distribution.covariance)) / np.std(draws[300:], axis=0)
    assert ((ratios > 0.35) & (ratios < 0.75)).all()


@pytest.fixture(scope="module")
def logistic_model():
    rng = np.random.default_rng(7)
    x = rng.normal(size=14)
    y = np.where(rng.random(14) < 1 / (1 + np.exp(-1.5 * x)), 1.0, -1.0)
    s = np.where(np.arange(14) % 3 == 0, 2.0, 0.7)
    exact = Quadrature(x, y, s, SHAPE, RATE, VARIANCE, half_width=40.0, points=2001, log_likelihood=log_expit)
    spec = spec_of(1, Ridge(SHAPE, RATE), intercept_prior=Normal(VARIANCE))
    return replace(spec, likelihood=LOGISTIC), source_of(x[:, None], y, s), exact


class TestLogistic:
    def test_means_and_spreads_are_those_of_quadrature(self, logistic_model):
        spec, source, exact = logistic_model
        assert np.abs(z_scores(chain(spec, source, seed=1), exact)).max() < 4

    def test_weights_that_are_too_large_are_seen_by_that_test(self, logistic_model, monkeypatch):
        spec, source, exact = logistic_model
        right = PolyaGamma.draw
        monkeypatch.setattr(
            PolyaGamma, "draw", lambda distribution, rng: right(PolyaGamma(1.2 * distribution.s, distribution.z), rng)
        )
        assert np.abs(z_scores(chain(spec, source, seed=1), exact)).max() > 6

    def test_the_climbs_lie_below_the_evidence_and_the_exact_bound_higher(self, logistic_model):
        spec, source, exact = logistic_model
        augmented, sharp = (Variational(bound=bound).run(spec, source).bounds[-1] for bound in ("augmented", "exact"))
        assert augmented < sharp < exact.log_evidence
        assert exact.log_evidence - sharp < 0.5
