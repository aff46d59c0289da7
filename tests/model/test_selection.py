"""Laplace-zero prior: the paper's Algorithm 3, its gates one by one, and what goes beyond it."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline

from grouped_models import dense_twin, grouped_problems
from models import mean_field_stats, mean_field_sweep, source_of, visit
from reference import algorithm_3, simulate
from shown import by_mean_field
from vbsvm import VBSVC, Beta, Joint, LaplaceZero, Model, Normal, Variational
from vbsvm.api import validation
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.datasets import load_spam
from vbsvm.model import sweep
from vbsvm.model.gates import DenseScan, GateMap, Gates
from vbsvm.model.priors.laplace_zero import InclusionRate
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import elbo, row_term_fixed_weights

PLAIN = Variational(accelerate=False, tol=1e-10, max_iter=20_000)
# Inputs that long Gibbs runs hold at 1.
SURE = {"our", "over", "remove", "internet", "order", "free", "business", "credit", "your", "000", "money", "hp", "cs"}
SURE |= {"george", "meeting", "project", "re", "edu", "conference", ";", "!", "$"}
SURE |= {"capital_run_length_longest", "capital_run_length_total"}


def sparse(n, p, k, seed):
    """k of p inputs matter."""
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, p)), np.zeros(p)
    beta[:k] = rng.choice([-1, 1], k) * rng.uniform(1.0, 2.0, k)
    return X, np.where(rng.random(n) < special.expit(X @ beta), 1.0, -1.0)


def gated_spec(p, prior, intercept=True):
    columns = slice(int(intercept), p + int(intercept))
    inputs = Block("inputs", (columns,), prior, prior.gate_of([f"x{i}" for i in range(p)]))
    return Spec((Block("intercept", (slice(0, 1),), Normal(1e2)), inputs) if intercept else (inputs,))


@pytest.fixture(scope="module")
def spam():
    data = load_spam()
    return data.drop(columns="class"), data["class"]


@pytest.fixture(scope="module")
def fitted():
    X, y = sparse(300, 12, 3, 0)
    frame = pd.DataFrame(X, columns=[f"input {k}" for k in range(12)])
    return VBSVC(LaplaceZero()).fit(frame, y), frame, y


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    frame["h"], frame["g"] = rng.choice(["u", "v", "w"], 600), rng.integers(0, 30, 600)
    eta = 2 * frame["a"] + 1.5 * (frame["h"] == "v") + rng.normal(size=30)[frame["g"]]
    return frame.assign(y=rng.random(600) < special.expit(eta))


class TestAlgorithm3:
    @pytest.mark.parametrize(("n", "d", "seed"), [(200, 10, 1), (60, 20, 2)])
    def test_plain_sweeps_are_the_transcription(self, n, d, seed):
        X, y = simulate(n, d, seed)
        gates, mu, bounds = algorithm_3(X, y)
        clf = VBSVC(LaplaceZero(), PLAIN).fit(X, y)
        trace = clf.elbo_trace_[0]
        shared = min(len(trace), len(bounds))
        np.testing.assert_allclose(trace[:shared], bounds[:shared], rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(clf.inclusion_probability_[0], gates, atol=1e-6)
        np.testing.assert_allclose(clf.coef_[0], gates * mu[1:], atol=1e-5)

    def test_the_first_sweeps_on_spam_are_the_transcription(self, spam):
        X, y = spam
        D, signs = (X - X.mean()) / X.std(ddof=0), np.where(y == "spam", 1.0, -1.0)
        _, _, bounds = algorithm_3(D.to_numpy(), signs, max_sweeps=40, stop=-math.inf)
        with pytest.warns(UserWarning, match="reached max_iter .41 iterations."):
            clf = VBSVC(LaplaceZero(), Variational(accelerate=False, max_iter=41)).fit(X, y)
        np.testing.assert_allclose(clf.elbo_trace_[0], bounds, rtol=1e-10)

    @pytest.mark.long
    def test_spam_to_the_end(self, spam):
        X, y = spam
        D, signs = (X - X.mean()) / X.std(ddof=0), np.where(y == "spam", 1.0, -1.0)
        clf = VBSVC(LaplaceZero(), PLAIN).fit(X, y)
        sweeps = len(clf.elbo_trace_[0])  # both creep to the end: a sweep more or less moves a gate by 1e-6
        gates, _, bounds = algorithm_3(D.to_numpy(), signs, max_sweeps=sweeps, stop=-math.inf)
        np.testing.assert_allclose(clf.elbo_trace_[0], bounds, atol=1e-6)
        np.testing.assert_allclose(clf.inclusion_probability_[0], gates, atol=1e-6)
        assert sweeps > 4000
        assert bounds[-1] - bounds[-2] < 1e-9

    def test_the_climb_on_spam_finds_what_the_paper_found_in_few_passes(self, spam):
        X, y = spam
        clf = VBSVC(LaplaceZero()).fit(X, y)
        assert clf.elbo_ > -2099.2966  # where 4529 plain sweeps end
        assert clf.n_iter_ <= 4529 / 20
        chosen = set(X.columns[clf.selected_[0]])
        assert SURE - chosen == {"cs"}
        assert {"hpl", "font", "email", "table"} < chosen
        assert len(chosen) == 31

    @pytest.mark.parametrize("seed", range(4))
    def test_the_climb_ends_where_plain_sweeps_end_or_higher(self, seed):
        X, y = sparse(300, 40, 8, seed)
        plain, fast = VBSVC(LaplaceZero(), PLAIN).fit(X, y), VBSVC(LaplaceZero()).fit(X, y)
        assert fast.elbo_ > plain.elbo_ - 1e-5
        assert fast.n_iter_ < plain.n_iter_ / 2


@st.composite
def gated_problems(draw):
    """Single and shared gates, ρ given for all or each, or inferred; states far from every optimum."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(3, 40)), draw(st.integers(2, 10))
    X, s = rng.normal(size=(n, p)), draw(st.sampled_from([np.ones(n), rng.gamma(1.0, size=n) + 0.01]))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    rho = draw(st.sampled_from([0.01, 0.5, 0.97, Beta(1.0, 4.0)]))
    groups = draw(st.sampled_from([(), ((0, 1),)]))
    spec = gated_spec(p, LaplaceZero(rho, groups=groups))
    source = source_of(X, y, s)
    state = spec.start(draw(st.sampled_from([1.0, 0.5, 0.05])))
    for _ in range(draw(st.integers(1, 3))):
        state = mean_field_sweep(spec, state, source)
    moved = state.packed + 0.3 * rng.normal(size=len(state.packed))
    return spec, source, state.unpack(moved)


@settings(max_examples=150, deadline=None)
@given(gated_problems())
def test_every_single_update_raises_the_bound_gates_one_by_one(problem):
    spec, source, state = problem
    for _ in range(2):
        stats_ = visit(spec, state, source).stats

        def repeat_draws(state, stats=stats_):
            return elbo(spec, state, row_term_fixed_weights(state, stats))

        steps = [state, sweep.update_coefficients(spec, state, stats_, mean_field)]
        before, after = steps[-1].gates, sweep.update_gates(spec, steps[-1], stats_, mean_field).gates
        for j in range(len(before.log_odds)):
            mixed = np.concatenate([after.log_odds[: j + 1], before.log_odds[j + 1 :]])
            steps.append(replace(steps[1], gates=before.with_log_odds(mixed)))
        steps.append(sweep.update_priors(spec, steps[-1], mean_field))
        bounds = np.array([repeat_draws(one) for one in steps])
        state = steps[-1]
        rises = np.append(np.diff(bounds), visit(spec, state, source).bound - bounds[-1])
        assert (rises / (1 + np.abs(bounds))).min() > -1e-11  # rounding of sums of up to 40 rows


def test_a_planted_mistake_in_the_gates_is_seen(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4)), rng.choice([-1.0, 1.0], size=12)  # nothing to find: the gates stay undecided
    spec, source = gated_spec(4, LaplaceZero(0.5)), source_of(X, y)
    state = PLAIN.run(spec, source).state
    stats_ = visit(spec, state, source).stats
    right = sweep.update_gates(spec, state, stats_, mean_field)
    at = elbo(spec, state, row_term_fixed_weights(state, stats_))
    assert elbo(spec, right, row_term_fixed_weights(right, stats_)) > at - 1e-9
    products = DenseScan.scan
    monkeypatch.setattr(
        DenseScan, "scan", lambda scan, rng=None: products(replace(scan, linear=0.8 * scan.linear), rng)
    )
    wrong = sweep.update_gates(spec, state, stats_, mean_field)
    assert elbo(spec, wrong, row_term_fixed_weights(wrong, stats_)) < at - 1e-6


def test_row_variances_and_sums_are_those_of_all_states_of_the_gates():
    """With few gates every state can be written out: that is what the moments must be."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), rng.choice([-1.0, 1.0], size=20)
    spec, source = gated_spec(4, LaplaceZero(0.4, groups=((1, 3),))), source_of(X, y)
    state = mean_field_sweep(spec, spec.start(0.6), source)
    state = replace(state, gates=state.gates.with_log_odds(np.array([0.3, -0.7, 1.2])))
    C, distribution = np.column_stack([np.ones(20), X]), state.coefficients
    moments = np.zeros((2, 20))
    for states in np.ndindex(2, 2, 2):
        chance = np.prod([p if on else 1 - p for on, p in zip(states, state.gates.inclusion, strict=True)])
        opened = np.array([1, states[0], states[1], states[2], states[1]])
        f = C @ (opened * distribution.mean)
        v = np.einsum("ij,jk,ik->i", C * opened, distribution.covariance, C * opened)
        moments += chance * np.stack([f, f**2 + v])
    (part,) = source._single_block._parts
    rows = part.rows
    f, v = distribution.effective(state.gates).row_moments(rows)
    np.testing.assert_allclose(f, moments[0])
    np.testing.assert_allclose(v, moments[1] - moments[0] ** 2)
    G = rng.normal(size=(5, 5))
    G = G @ G.T
    opened = state.gates.by_coefficient
    shares = np.outer(opened, opened)
    shares[np.diag_indices(5)] = opened
    shares[2, 4] = shares[4, 2] = opened[2]
    np.testing.assert_allclose(state.gates.weigh(G), G * shares)


def test_reductions():
    X, y = sparse(150, 6, 3, 1)
    _, _, bounds = algorithm_3(X / X.std(0) - (X / X.std(0)).mean(0), y, rho=1 - 1e-12)
    slab = VBSVC(LaplaceZero(1 - 1e-12), PLAIN).fit(X, y)
    assert slab.inclusion_probability_.min() > 1 - 1e-6
    assert slab.elbo_ == pytest.approx(bounds[-1], abs=1e-6)
    nothing = VBSVC(LaplaceZero(1e-200), PLAIN).fit(X, y)
    assert nothing.inclusion_probability_.max() < 1e-6
    assert np.ptp(nothing.decision_function(X)) < 1e-4


def exact_inclusion(x, y, rho, shape, rate):
    """P(γ = 1 | y) of one input without intercept, by quadrature over u and σ."""
    sigma = np.exp(np.linspace(-7, 5, 1201))
    weight = stats.invgamma.pdf(sigma**2, shape, scale=rate) * 2 * sigma * sigma  # d(σ²) = 2σ dσ, dσ = σ d log σ
    u = np.linspace(-40, 40, 16_001)
    slab = np.array([integrate.trapezoid(weight / (2 * sigma) * np.exp(-abs(one) / sigma), np.log(sigma)) for one in u])
    likelihood = np.exp(-2 * np.maximum(1 - y[:, None] * x[:, None] * u, 0).sum(axis=0))
    inside = integrate.trapezoid(slab * likelihood, u)
    outside = np.exp(-2 * len(y))
    return rho * inside / (rho * inside + (1 - rho) * outside), integrate.trapezoid(slab, u)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    x = rng.normal(size=8)
    y = np.where(rng.random(8) < special.expit(0.8 * x), 1.0, -1.0)
    prior = LaplaceZero(0.4, shape=3.0, rate=2.0)
    exact, mass = exact_inclusion(x, y, 0.4, 3.0, 2.0)
    assert mass == pytest.approx(1.0, abs=2e-3)
    return gated_spec(1, prior, intercept=False), source_of(x[:, None], y, intercept=False), exact


class TestGibbs:
    """The same sweep with draws: Appendix B."""

    @staticmethod
    def z_score(spec, source, exact, sweeps=16_000):
        state, opened = spec.start(), []
        for k in range(200 + sweeps):
            state, _ = sweep.sweep(spec, state, source, Draw(5, 0, k))
            opened.append(state.gates.inclusion[0])
        assert set(opened) == {0.0, 1.0}
        batches = np.array(opened[200:]).reshape(40, -1).mean(axis=1)
        return (batches.mean() - exact) / (batches.std(ddof=1) / math.sqrt(40))

    def test_inclusion_is_that_of_quadrature(self, small):
        assert abs(self.z_score(*small)) < 4

    def test_a_planted_mistake_is_seen(self, small, monkeypatch):
        right = DenseScan.scan
        monkeypatch.setattr(
            DenseScan, "scan", lambda scan, rng=None: right(replace(scan, linear=0.9 * scan.linear), rng)
        )
        assert abs(self.z_score(*small)) > 4


def test_an_inferred_share_has_the_right_bound_and_counts():
    prior = LaplaceZero(Beta(2.0, 5.0))
    inclusion, q, n = np.array([0.9, 0.2, 0.6, 0.01]), InclusionRate(3.1, 6.4), 200_000
    scale = replace(prior.start(1, 4), share=q)
    rho = stats.beta.rvs(q.a, q.b, size=n, random_state=0)
    values = inclusion.sum() * np.log(rho) + (4 - inclusion.sum()) * np.log1p(-rho)
    values += stats.beta.logpdf(rho, 2.0, 5.0) - stats.beta.logpdf(rho, q.a, q.b)

    class Inclusion:
        pass

    moments = Inclusion()
    moments.inclusion = inclusion
    assert prior._gate_terms(scale, moments) == pytest.approx(values.mean(), abs=4.5 * values.std() / math.sqrt(n))
    X, y = sparse(400, 30, 10, 0)
    few, many = VBSVC(LaplaceZero(Beta(1, 30))).fit(X, y), VBSVC(LaplaceZero(Beta(30, 1))).fit(X, y)
    assert few.inclusion_probability_.sum() < many.inclusion_probability_.sum()


@settings(max_examples=40, deadline=None)
@given(grouped_problems(), st.integers(0, 2**31))
def test_gates_beside_groups_equal_dense_ones(problem, seed):
    spec, arrow = problem
    inputs = spec.blocks[1]
    prior = LaplaceZero(0.3)
    names = [str(k) for k in range(inputs.size)]
    gated = Block(inputs.name, inputs.columns, prior, prior.gate_of(names))
    spec = Spec((spec.blocks[0], gated, *spec.blocks[2:]))
    one = other = spec.start(0.7)
    dense = dense_twin(arrow)
    for _ in range(3):
        one = mean_field_sweep(spec, one, arrow)
        other = mean_field_sweep(spec, other, dense)
        np.testing.assert_allclose(one.gates.log_odds, other.gates.log_odds, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(one.coefficients.mean, other.coefficients.mean, rtol=1e-8, atol=1e-9)
    ours, theirs = visit(spec, one, arrow), visit(spec, other, dense)
    assert ours.bound == pytest.approx(theirs.bound, rel=1e-10)
    assert row_term_fixed_weights(one, ours.stats) == pytest.approx(ours.stats.row_bound, rel=1e-9)


class TestWide:
    """Many more inputs than rows: the dual layout equals the dense one."""

    @pytest.mark.parametrize("prior", [Normal(0.5), None, LaplaceZero(0.05), LaplaceZero(Beta(1, 9))])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_it_equals_dense(self, prior, intercept, monkeypatch):
        X, y = sparse(40, 100, 5, 0)
        plain = Variational(accelerate=False, tol=1e-12, max_iter=60)
        fits = []
        for wide in (True, False):
            monkeypatch.setattr(validation, "is_wide", lambda X, wide=wide: wide)
            with pytest.warns(UserWarning, match="reached max_iter .60 iterations."):
                fits.append(by_mean_field(VBSVC(prior, plain, fit_intercept=intercept).fit(X, y)))
        dual, dense = fits
        assert type(dual.fit_[0].outcome.state.coefficients) is not type(dense.fit_[0].outcome.state.coefficients)
        for name in ("coef_", "coef_std_", "coef_cov_", "intercept_", "intercept_std_", "elbo_"):
            np.testing.assert_allclose(getattr(dual, name), getattr(dense, name), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(dual.elbo_trace_[0], dense.elbo_trace_[0], rtol=1e-9)
        np.testing.assert_allclose(dual.decision_function(X), dense.decision_function(X), rtol=1e-8, atol=1e-8)

    def test_thousands_of_inputs_and_tens_of_rows(self):
        X, y = sparse(38, 3051, 10, 0)
        for prior in (None, LaplaceZero()):
            clf = VBSVC(prior).fit(X, y)
            assert clf.converged_
            assert clf.score(X, y) == 1.0
        assert clf.inclusion_probability_.shape == (1, 3051)
        assert clf.n_iter_ < 120

    def test_draws_have_the_distributions_mean_and_covariance(self, monkeypatch):
        X, y = sparse(6, 14, 3, 1)
        monkeypatch.setattr(validation, "is_wide", lambda X: True)
        distribution = VBSVC(Normal(0.5)).fit(X, y).fit_[0].outcome.state.coefficients
        draws = np.array([Draw(0, 0, k)(distribution, "coefficients").mean for k in range(20_000)])
        covariance = distribution.covariances(15)
        z = (draws.mean(axis=0) - distribution.mean) / np.sqrt(np.diagonal(covariance) / 20_000)
        assert np.abs(z).max() < 4.5
        assert np.abs(np.cov(draws.T) - covariance).max() < 0.05 * np.abs(covariance).max()

    def test_drawn_gates_are_those_of_the_dense_layout(self):
        X, y = sparse(10, 30, 3, 2)
        spec = gated_spec(30, LaplaceZero(0.3))
        source = source_of(X, y)
        one = other = spec.start()
        for k in range(3):
            one, _ = sweep.sweep(spec, one, source, Draw(1, 0, k))
            other, _ = sweep.sweep(spec, other, replace(source, wide=True), Draw(1, 0, k))
        distribution = one.coefficients
        dense_stats = mean_field_stats(spec, one, source)
        dual_stats = mean_field_stats(spec, one, replace(source, wide=True))
        odds = spec.prior_log_odds(one)
        ours = (
            dual_stats.gram.scan(dual_stats.cross, distribution, one.gates, odds).draw(np.random.default_rng(0)).result
        )
        theirs = (
            dense_stats.gram.scan(dense_stats.cross, distribution, one.gates, odds)
            .draw(np.random.default_rng(0))
            .result
        )
        np.testing.assert_array_equal(ours.inclusion, theirs.inclusion)


class TestJoint:
    def test_every_sweep_raises_the_bound_and_every_start_ends_at_the_same_place(self):
        X, y = sparse(300, 30, 6, 2)
        clf = VBSVC(LaplaceZero(gates=Joint(), restarts=3), Variational(tol=1e-8), likelihood_power=1).fit(X, y)
        ends = clf.fit_[0].starts()
        assert len(ends) == 4
        assert ends[0][0] == pytest.approx(ends[-1][0], abs=1e-5)
        assert "4 starts agree" in str(clf.fit_[0])
        plain = VBSVC(LaplaceZero(gates=Joint()), PLAIN).fit(X, y)
        assert np.diff(plain.elbo_trace_[0]).min() > -1e-9
        assert plain.elbo_ == pytest.approx(clf.elbo_, abs=1e-6)
        assert np.flatnonzero(clf.selected_[0]).tolist() == list(range(6))

    def test_its_bound_is_its_monte_carlo_estimate(self):
        X, y = sparse(12, 3, 2, 0)
        spec, source = gated_spec(3, LaplaceZero(0.3, gates=Joint())), source_of(X, y)
        state = spec.start()
        for _ in range(3):
            state = mean_field_sweep(spec, state, source)
        at, distribution, rng, n = visit(spec, state, source), state.coefficients, np.random.default_rng(0), 400_000
        scale = state.scales[1]
        opened = rng.random((n, 3)) < distribution.inclusion
        sd = np.where(opened, np.sqrt(distribution.slab), np.sqrt(distribution.spike))
        v = np.where(opened, distribution.mean[distribution.gated], 0.0) + sd * rng.normal(size=(n, 3))
        free = distribution.mean[0] + distribution.root[0, 0] * rng.normal(size=n)
        sigma2 = scale.variance.rate / rng.gamma(scale.variance.shape, size=n)
        f = free[:, None] + (opened * v) @ X.T
        # Rows: E log of the mixture's parts with q(a) at its optimum, given the moments of f.
        h = 1 - y * f
        rows = -(h.mean(axis=0) + np.sqrt(np.square(h).mean(axis=0))).sum()
        b = scale.slab.weight
        gaussian = stats.norm.logpdf(v, scale=np.sqrt(sigma2[:, None] / b)).sum(axis=1)
        entropy = -stats.norm.logpdf(v, np.where(opened, distribution.mean[distribution.gated], 0.0), sd).sum(axis=1)
        gates = (opened * special.logit(0.3) + math.log(0.7)).sum(axis=1)
        gates -= (opened * np.log(distribution.inclusion) + ~opened * np.log1p(-distribution.inclusion)).sum(axis=1)
        variance = stats.invgamma.logpdf(sigma2, 0.01, scale=0.01)
        variance -= stats.invgamma.logpdf(sigma2, scale.variance.shape, scale=scale.variance.rate)
        slab = (-math.log(2) + 0.5 * math.log(2 * math.pi) - 0.5 * np.log(b) - 0.5 / b).sum()  # ½ E log b drops out
        intercept = stats.norm.logpdf(free, scale=10.0) - stats.norm.logpdf(
            free, distribution.mean[0], distribution.root[0, 0]
        )
        values = gaussian + entropy + gates + variance + intercept
        error = values.std() / math.sqrt(n) + 0.01
        assert at.bound == pytest.approx(rows + values.mean() + slab, abs=4.5 * error)

    def test_the_factorised_gates_stick_to_their_start_on_spam(self, spam):
        clf = VBSVC(LaplaceZero(restarts=2), likelihood_power=1).fit(*spam)
        assert [count for _, count in clf.fit_[0].starts()] == [31, 25, 11]
        assert "3 starts disagree" in str(clf.fit_[0])
        assert clf.summary().attrs["starts"][0][1] == 31


class TestEstimator:
    def test_probabilities_signs_and_the_selection(self, fitted):
        clf, _, _ = fitted
        assert clf.inclusion_probability_.shape == clf.sign_probability_.shape == clf.selected_.shape == (1, 12)
        assert clf.selected_[0, :3].all()
        strict = VBSVC(LaplaceZero(threshold=0.999999)).fit(*fitted[1:])
        assert strict.selected_.sum() <= clf.selected_.sum()
        np.testing.assert_array_equal(clf.sign_probability_[0, :3] > 0.5, clf.coef_[0, :3] > 0)
        assert not hasattr(VBSVC().fit(*fitted[1:]), "inclusion_probability_")

    def test_the_table_has_the_distribution_of_a_coefficient_behind_its_gate(self, fitted):
        clf, _, _ = fitted
        table, fit = clf.summary(0.9), clf.fit_[0]
        state, rng = fit.outcome.state, np.random.default_rng(0)
        moved = replace(
            fit,
            outcome=replace(fit.outcome, state=replace(state, gates=state.gates.with_log_odds(np.linspace(-2, 2, 12)))),
        )
        table = moved.summary(0.9, covariance="mean-field")
        distribution, scale = state.coefficients, fit.plan.recipe.scale
        v = (distribution.mean[1:] + np.sqrt(distribution.variances[1:]) * rng.normal(size=(200_000, 12))) / scale
        draws = v * (rng.random(v.shape) < special.expit(np.linspace(-2, 2, 12)))
        np.testing.assert_allclose(table["estimate"][1:], draws.mean(axis=0), atol=0.01)
        np.testing.assert_allclose(table["std_error"][1:], draws.std(axis=0), atol=0.01)
        np.testing.assert_allclose(table["lower"][1:], np.quantile(draws, 0.05, axis=0), atol=0.02)
        np.testing.assert_allclose(table["upper"][1:], np.quantile(draws, 0.95, axis=0), atol=0.02)
        assert table["inclusion"].iloc[0] == 1

    def test_selection_in_a_pipeline(self, fitted):
        clf, frame, y = fitted
        chooser = SelectFromModel(VBSVC(LaplaceZero()), importance_getter="inclusion_probability_", threshold=0.5)
        pipeline = make_pipeline(chooser, VBSVC()).fit(frame, y)
        assert list(chooser.fit(frame, y).get_feature_names_out()) == list(frame.columns[clf.selected_[0]])
        assert pipeline.score(frame, y) > 0.7

    def test_groups_share_a_gate_and_rho_may_differ(self, fitted):
        _, frame, y = fitted
        shared = VBSVC(LaplaceZero(groups=[["input 0", "input 5"], [7, 8]])).fit(frame, y)
        inclusion = shared.inclusion_probability_[0]
        assert inclusion[0] == inclusion[5]
        assert inclusion[7] == inclusion[8]
        hopeless = [1e-250, *[0.3] * 11]
        assert VBSVC(LaplaceZero(hopeless)).fit(frame, y).inclusion_probability_[0, 0] < 1e-3
        sized = VBSVC(LaplaceZero(expected_size=3)).fit(frame, y)
        quarter = VBSVC(LaplaceZero(0.25)).fit(frame, y)
        np.testing.assert_allclose(sized.inclusion_probability_, quarter.inclusion_probability_, atol=1e-10)

    def test_several_classes_and_nested_parameters(self):
        X, y = sparse(300, 8, 3, 1)
        labels = np.where(X[:, 5] > 1, "third", np.where(y > 0, "one", "two"))
        clf = clone(VBSVC(LaplaceZero())).set_params(prior__rho=0.1).fit(X, labels)
        assert clf.inclusion_probability_.shape == (3, 8)
        assert clf.prior.rho == 0.1

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda X, y: LaplaceZero(0.0), "rho must be between 0 and 1"),
            (lambda X, y: LaplaceZero(1.5), "rho must be between 0 and 1"),
            (lambda X, y: LaplaceZero("few"), "rho must be between 0 and 1"),
            (lambda X, y: LaplaceZero(expected_size=-1), "expected_size must be a positive number"),
            (lambda X, y: LaplaceZero(threshold=2), "threshold must be between 0 and 1"),
            (lambda X, y: LaplaceZero(restarts=-1), "restarts must be a whole number from 0 to 100; got -1"),
            (lambda X, y: LaplaceZero(restarts=10**9), "restarts must be a whole number from 0 to 100; got 10+"),
            (lambda X, y: LaplaceZero(gates="joint"), "is neither Factorised"),
            (lambda X, y: Beta(0, 1), "Beta: a must be a positive number"),
            (lambda X, y: VBSVC(LaplaceZero(expected_size=12)).fit(X, y), "expected_size must be below 12; got 12"),
            (lambda X, y: VBSVC(LaplaceZero([0.1, 0.2])).fit(X, y), "rho has 2 values; 1 or 12 are needed"),
            (
                lambda X, y: VBSVC(LaplaceZero(groups=[["nope"]])).fit(X, y),
                "groups contain 'nope', which is not one of",
            ),
            (lambda X, y: VBSVC(LaplaceZero(groups=[[77]])).fit(X, y), "groups contain 77, which is not one of"),
            (lambda X, y: VBSVC(LaplaceZero(groups=[[1, 1]])).fit(X, y), "names a column twice"),
            (
                lambda X, y: VBSVC(LaplaceZero(groups=[[1, 2]], gates=Joint())).fit(X, y),
                "Joint.* does not support groups",
            ),
        ],
    )
    def test_bad_settings_are_refused_in_words(self, fitted, make, message):
        with pytest.raises(ValueError, match=message):
            make(*fitted[1:])


class TestFormula:
    def test_the_dummies_of_a_term_share_a_gate(self, frame):
        fit = Model("y ~ a + b + c + d + h + (1 | g)", frame, {"fixed": LaplaceZero()}, likelihood="hinge").fit()
        table = fit.summary()["inclusion"]
        assert table["h[T.v]"] == table["h[T.w]"]
        assert table["a"] > 0.99
        assert table[["c", "d"]].max() < 0.5
        assert table["(intercept)"] == 1

    def test_some_terms_may_have_gates_and_others_not(self, frame):
        fit = Model("y ~ a + b + c", frame, {"b": LaplaceZero(), "c": LaplaceZero()}, likelihood="hinge").fit()
        assert fit.summary()["inclusion"]["a"] == 1
        assert fit.summary()["inclusion"]["b"] < 0.5

    def test_joint_gates_do_not_go_with_groups(self, frame):
        with pytest.raises(ValueError, match="does not support random effects"):
            Model("y ~ a + b + (1 | g)", frame, {"fixed": LaplaceZero(gates=Joint())}, likelihood="hinge")
        with pytest.raises(ValueError, match="does not support random effects"):
            VBSVC(LaplaceZero(gates=Joint()), group="g").fit(frame[["a", "b", "g"]], frame["y"])
        gated = VBSVC(LaplaceZero(), group="g").fit(frame[["a", "b", "c", "g"]], frame["y"])
        assert gated.inclusion_probability_.shape == (1, 3)
        assert gated.selected_[0, 0]

    @pytest.mark.parametrize("term", ["(1 | g)", "s(a)"])
    def test_groups_and_splines_take_no_gates(self, frame, term):
        with pytest.raises(ValueError, match="LaplaceZero is for fixed effects"):
            Model(f"y ~ b + {term}", frame, {term: LaplaceZero()}, likelihood="hinge")


def test_a_decided_gate_has_no_entropy():
    gates = Gates(np.array([np.inf, -np.inf, 0.0]), GateMap(np.array([-1, 0, 1, 2]), 3))
    assert gates.entropy == pytest.approx(math.log(2))
    np.testing.assert_array_equal(gates.by_coefficient, [1, 1, 0, 0.5])
