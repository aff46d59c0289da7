"""The bound: equal to the paper's formula, to Monte Carlo, below the evidence, and raised by every single update."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from models import random_state, rises_of_single_updates, source_of, spec_of, visit
from reference import Quadrature, algorithm_2, log_evidence_1d, paper_bound_2, simulate
from vbsvm import HalfT, Normal, Ridge, Variational
from vbsvm.base.distributions import InverseGamma, Latent
from vbsvm.base.update_mode import mean_field
from vbsvm.model import sweep
from vbsvm.model.layouts.dense import DenseGaussian, DenseGram
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.model.spec import State
from vbsvm.model.sweep import elbo_terms, row_term_fixed_weights


@st.composite
def problems(draw):
    """Rows, weights and a model: small or wide, separable or not, columns of very different size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-2, 2, size=p)
    noise = draw(st.sampled_from([0.0, 1.0, 5.0]))
    y = np.where(X @ rng.normal(size=p) + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    s = draw(st.sampled_from([np.ones(n), rng.integers(1, 4, size=n).astype(float), rng.gamma(0.5, size=n) + 1e-3]))
    intercept = draw(st.booleans())
    prior = draw(st.sampled_from([Ridge(), Ridge(3.0, 0.5), HalfT(), HalfT(0.1, 5.0), Normal(0.3), Normal(1e4)]))
    spec = replace(spec_of(p, prior, intercept), likelihood=draw(st.sampled_from([HINGE, LOGISTIC])))
    state = draw(st.sampled_from([random_state(spec, rng), random_state(spec, rng, spread=1e-3)]))
    return spec, source_of(X, y, s, intercept), state


@settings(max_examples=150, deadline=None)
@given(problems())
def test_every_single_update_raises_the_bound(problem):
    spec, source, state = problem
    # Rounding of sums of up to 40 rows whose terms reach 1e4 times the bound's own size.
    assert rises_of_single_updates(spec, source, state).min() > -1e-11


@pytest.mark.parametrize("mistake", ["cross", "rate", "power"])
def test_a_planted_mistake_is_seen_by_that_test(mistake, monkeypatch):
    X, y = simulate(40, 3, seed=0)
    spec, source = spec_of(3, Ridge(2.0, 1.0)), source_of(X, y)
    optimum = Variational(tol=1e-12).run(spec, source).state
    assert rises_of_single_updates(spec, source, optimum).min() > -1e-11
    if mistake == "cross":
        monkeypatch.setattr(DenseGram, "conditional", lambda G, r, L, right=DenseGram.conditional: right(G, 0.9 * r, L))
    elif mistake == "rate":
        monkeypatch.setattr(Ridge, "conditional", lambda self, q: InverseGamma(3.5, self.rate + 0.55 * q.square_norm))
    else:
        monkeypatch.setattr(Latent, "weight", property(lambda latent: latent.s * latent.root**-1.1))
    assert rises_of_single_updates(spec, source, optimum).min() < -1e-9


def test_the_bound_without_a_pass_is_the_bound_of_the_pass_at_the_same_state():
    X, y = simulate(60, 4, seed=2)
    spec, source = spec_of(4), source_of(X, y, np.random.default_rng(0).gamma(1.0, size=60))
    at = visit(spec, random_state(spec, np.random.default_rng(3)), source)
    assert row_term_fixed_weights(at.state, at.stats) == pytest.approx(at.stats.row_bound, rel=1e-12)


def test_the_bound_is_the_papers_formula_along_the_papers_sweeps():
    X, y = simulate(80, 5, seed=1)
    *_, bounds = algorithm_2(X, y, max_sweeps=25, stop=0)
    outcome = Variational(accelerate=False, tol=1e-300, max_iter=26).run(spec_of(5), source_of(X, y))
    np.testing.assert_allclose(outcome.bounds, bounds, rtol=1e-12)


def test_the_papers_formula_also_holds_off_its_path_when_the_penalty_is_fresh():
    X, y = simulate(50, 3, seed=4)
    spec, source = spec_of(3), source_of(X, y)
    state = sweep.update_priors(spec, random_state(spec, np.random.default_rng(5)), mean_field)
    distribution, C = state.coefficients, np.column_stack([np.ones(50), X])
    chi = (1 - y * (C @ distribution.mean)) ** 2 + np.einsum("ij,jk,ik->i", C, distribution.covariance, C)
    expected = paper_bound_2(
        C, y, distribution.mean, distribution.covariance, state.scales[1].rate, chi, 0.01, 0.01, 1e8
    )
    assert visit(spec, state, source).bound == pytest.approx(expected, rel=1e-12)


def monte_carlo_bound(spec, state, X, y, s, draws, rng):
    """E_q[log p(y, a, θ, σ²) − log q] with every density written out; also its standard error."""
    distribution = state.coefficients
    theta = distribution.mean + rng.normal(size=(draws, len(distribution.mean))) @ distribution.root.T
    C = np.column_stack([np.ones(len(y)), X])
    chi = (1 - y * (C @ distribution.mean)) ** 2 + np.einsum("ij,jk,ik->i", C, distribution.covariance, C)
    root = s * np.sqrt(chi)
    a = 1 / distributions.invgauss.rvs(1 / root, scale=1.0, size=(draws, len(y)), random_state=rng)
    scale = state.scales[1]
    variance = scale.rate / rng.gamma(scale.shape, size=draws)
    prior = spec.blocks[1].prior
    h = 1 - y * (theta @ C.T)
    value = np.sum(-0.5 * np.log(2 * np.pi * a) - (s * h + a) ** 2 / (2 * a), axis=1)
    value -= np.sum(-0.5 * np.log(2 * np.pi * a) + root - 0.5 * (root**2 / a + a), axis=1)
    value += distributions.norm.logpdf(theta[:, 0], scale=math.sqrt(spec.blocks[0].prior.variance))
    value += distributions.norm.logpdf(theta[:, 1:], scale=np.sqrt(variance)[:, None]).sum(axis=1)
    value += distributions.invgamma.logpdf(variance, prior.shape, scale=prior.rate)
    value -= distributions.invgamma.logpdf(variance, scale.shape, scale=scale.rate)
    value -= distributions.multivariate_normal.logpdf(theta, distribution.mean, distribution.covariance)
    return value.mean(), value.std() / math.sqrt(draws)


def test_the_bound_is_its_monte_carlo_estimate_and_a_missing_constant_would_show():
    rng = np.random.default_rng(11)
    X, y = simulate(12, 2, seed=6)
    s = rng.gamma(2.0, size=12)
    spec = spec_of(2, Ridge(2.0, 1.5), intercept_prior=Normal(4.0))
    state = random_state(spec, rng, spread=0.4)
    exact = visit(spec, state, source_of(X, y, s)).bound
    estimate, error = monte_carlo_bound(spec, state, X, y, s, 200_000, rng)
    assert abs(estimate - exact) < 4 * error
    assert error < math.log(2) / 10  # a forgotten log 2 is ten standard errors away


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["normal", "ridge"])
def test_the_optimum_stays_below_the_log_evidence_of_one_coefficient(seed, kind):
    rng = np.random.default_rng(seed)
    x, y, s = rng.normal(size=6), rng.choice([-1.0, 1.0], size=6), rng.gamma(2.0, size=6)
    prior = Normal(2.0) if kind == "normal" else Ridge(1.5, 1.0)
    log_prior = {
        "normal": lambda u: distributions.norm.logpdf(u, scale=math.sqrt(2.0)),
        "ridge": lambda u: distributions.t.logpdf(u, 3.0, scale=math.sqrt(1.0 / 1.5)),
    }[kind]
    outcome = Variational(tol=1e-10).run(
        spec_of(1, prior, intercept=False), source_of(x[:, None], y, s, intercept=False)
    )
    gap = log_evidence_1d(x, y, s, log_prior) - outcome.bounds[-1]
    assert 0 < gap < 2.5  # below, and near enough that a lost constant (log 2π and the like, for 6 rows) would show


def test_the_optimum_stays_below_the_log_evidence_of_two_coefficients():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=10), np.array([1, 1, 1, -1, -1, 1, -1, -1, 1, -1.0])
    s = rng.gamma(2.0, size=10)
    exact = Quadrature(x, y, s, A=2.0, B=1.0, variance=3.0)
    spec = spec_of(1, Ridge(2.0, 1.0), intercept_prior=Normal(3.0))
    outcome = Variational(tol=1e-10).run(spec, source_of(x[:, None], y, s))
    assert 0 < exact.log_evidence - outcome.bounds[-1] < 2.5


def test_the_terms_are_named_and_sum_to_the_bound():
    X, y = simulate(30, 2, seed=0)
    spec, source = spec_of(2), source_of(X, y)
    at = visit(spec, random_state(spec, np.random.default_rng(0)), source)
    named = elbo_terms(spec, at.state, at.stats.row_bound)
    assert list(named) == ["rows", "entropy of the coefficients", "prior of intercept", "prior of inputs"]
    assert sum(named.values()) == pytest.approx(at.bound)


def test_a_start_has_the_bound_minus_infinity():
    X, y = simulate(30, 2, seed=0)
    spec = spec_of(2)
    assert visit(spec, spec.start(), source_of(X, y)).bound == -math.inf


def test_packing_and_unpacking_is_the_identity():
    spec = spec_of(5)
    state = random_state(spec, np.random.default_rng(0))
    again = state.unpack(state.packed)
    assert isinstance(again, State)
    assert isinstance(again.coefficients, DenseGaussian)
    np.testing.assert_allclose(again.coefficients.root, state.coefficients.root, rtol=1e-14)
    np.testing.assert_array_equal(again.coefficients.mean, state.coefficients.mean)
    assert again.scales[1].rate == pytest.approx(state.scales[1].rate, rel=1e-14)
