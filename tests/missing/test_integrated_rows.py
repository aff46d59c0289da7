"""Missing inputs under the exact bound: integrated out given the coefficients, against brute force and the sampler."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from incomplete_models import PAPER, correlated, incomplete_model
from shown import by_mean_field
from vbsvm import VBSVC, GaussianImputation, Gibbs, Model, Normal, NotAtRandom, Shift, Variational, load
from vbsvm.base.reading import expect
from vbsvm.missing import held_rows, integrated_rows
from vbsvm.missing.held_rows import held_stats
from vbsvm.missing.input_distributions import KnownInputs
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.averaged_hinge import log_mean_likelihood
from vbsvm.model.likelihoods.exact_hinge import EXACT_HINGE
from vbsvm.model.likelihoods.exact_logistic import EXACT_LOGISTIC
from vbsvm.model.row_pass import CompleteRows, RowPass
from vbsvm.model.sweep import elbo_terms, held_row_term, pass_rows

EXACT = Variational(bound="exact")
PAPERS = Variational(bound="paper")
TIGHT = Variational(bound="exact", tol=1e-9)


def fitted_state(n=60, d=3, seed=0, share=0.3, **settings):
    """A model with missing values under the exact hinge, and the state that the paper's bound leads to."""
    X, y = correlated(n, d, seed, share)
    spec, source = incomplete_model(X, y, **settings)
    state = Variational().run(spec, source).state
    return replace(spec, likelihood=EXACT_HINGE), source, state


def at(state, mean, covariance):
    root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(covariance))).T
    return state.moved(DenseGaussian(mean, root))


def incomplete_parts(source):
    parts = []
    source.total(lambda part: 0 if isinstance(part, CompleteRows) else parts.append(part.rows) or 0)
    return parts


def with_inputs(spec, source, state):
    """Row term and that of the inputs together: the expected log likelihoods, and what the coefficients don't move."""
    stats = pass_rows(spec, state, source, expect)
    return stats.row_bound + sum(spec.missing.bound(state.missing, stats.missing).values())


def of_complete_rows(source, coefficients):
    """Their row term."""
    row_pass = RowPass(EXACT_HINGE, coefficients, expect)
    return source.total(lambda part: part.stats(row_pass).row_bound if isinstance(part, CompleteRows) else 0.0)


def given_coefficients(rows, theta, inputs):
    """Σ g over rows, at draws of the coefficients (draws × columns), without any of the tested code."""
    total, T = np.zeros(len(theta)), inputs.precision
    for group in rows.groups:
        for row, variables in zip(group.rows, group.patterns[group.pattern_of], strict=True):
            expected = rows.regressors[row] @ inputs.coefficients
            C = np.linalg.inv(T[np.ix_(variables, variables)])
            rest = (T @ (np.where(rows.missing[row], 0.0, rows.known[row] - expected)))[variables]
            design = rows.design[row].copy()
            design[rows.inputs.variables[variables]] = expected[variables] - C @ rest
            b = theta[:, rows.inputs.variables[variables]]
            t = np.einsum("nk,kl,nl->n", b, C, b)
            total += log_mean_likelihood(1 - rows.signs[row] * (theta @ design), t + 1e-12).value
    return total


class TestRowTerm:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_it_changes_as_by_brute_force(self, seed):
        assert self.off_brute_force(seed) < 0.05

    def test_effects_without_spread_are_seen_by_that_test(self, monkeypatch):
        right = integrated_rows.expectations
        monkeypatch.setattr(
            integrated_rows,
            "expectations",
            lambda pairs, *rest, **settings: right(replace(pairs, pp=0 * pairs.pp, fp=0 * pairs.fp), *rest, **settings),
        )
        assert self.off_brute_force(0) > 0.2

    @staticmethod
    def off_brute_force(seed):
        """Largest error of the change of the row term between distributions of the coefficients, in nats."""
        spec, source, state = fitted_state(seed=seed)
        (rows,) = incomplete_parts(source)
        z = np.random.default_rng(0).standard_normal((8_000, 4))
        z = np.concatenate([z, -z])
        found, brute = [], []
        for shift, widen in ((0.0, 1.0), (0.3, 1.5), (-0.2, 3.0)):
            mean, covariance = state.coefficients.mean + shift, widen**2 * state.coefficients.covariance
            moved = at(state, mean, covariance)
            found.append(with_inputs(spec, source, moved) - of_complete_rows(source, moved.coefficients))
            theta = mean + z @ np.linalg.cholesky(covariance).T
            brute.append(given_coefficients(rows, theta, state.missing.inputs).mean())
        assert np.abs(np.diff(brute)).max() > 1
        return np.abs(np.diff(found) - np.diff(brute)).max()

    @pytest.mark.parametrize("labels", ["regressor", "likelihood", "none"])
    def test_gradient_and_gram_are_its_derivatives(self, labels):
        assert self.errors(*fitted_state(labels=labels)) < 0.01

    @pytest.mark.parametrize("mistake", ["f", "t", "ff", "fp", "pp", "tilt"])
    def test_a_wrong_expectation_is_seen_by_that_test(self, mistake, monkeypatch):
        right = integrated_rows.expectations

        def wrong(*arguments, **settings):
            found = right(*arguments, **settings)
            return replace(found, **{mistake: 0.5 * getattr(found, mistake)})

        monkeypatch.setattr(integrated_rows, "expectations", wrong)
        assert self.errors(*fitted_state()) > 0.02

    @staticmethod
    def errors(spec, source, state):
        """Largest difference to central differences, with coefficients in units of their standard deviations."""
        mean, covariance = state.coefficients.mean, state.coefficients.covariance
        stats, root = pass_rows(spec, state, source, expect), np.linalg.cholesky(covariance)
        assert held_row_term(state, stats) == pytest.approx(stats.row_bound, rel=1e-10)

        def change(direction, spread):
            step = 1e-3
            ends = (
                with_inputs(spec, source, at(state, mean + sign * root @ direction, covariance + sign * spread))
                for sign in (step, -step)
            )
            return np.subtract(*ends) / (2 * step)

        nothing, found = np.zeros((len(mean), len(mean))), []
        gradient = root.T @ (stats.cross - stats.gram.times(mean))
        for j, axis in enumerate(np.eye(len(mean))):
            found.append(gradient[j] - change(axis, nothing))
            for other in np.eye(len(mean))[: j + 1]:
                spread = root @ (np.outer(axis, other) + np.outer(other, axis)) @ root.T
                found.append(-0.5 * np.vdot(stats.gram.matrix, spread) - change(0 * axis, spread))
        return np.abs(found).max()

    @pytest.mark.parametrize("stats_of", [integrated_rows.integrated_stats, held_stats])
    def test_rows_whose_missing_values_are_all_but_known_are_complete_ones(self, stats_of):
        _, source, state = fitted_state()
        inputs = state.missing.inputs
        n_variables = len(inputs.precision)
        state = replace(
            state, missing=replace(state.missing, inputs=KnownInputs(inputs.coefficients, 1e14 * np.eye(n_variables)))
        )
        row_pass = RowPass(EXACT_HINGE, state.coefficients, expect, True, state.missing)
        (rows,) = incomplete_parts(source)
        found = stats_of(rows, state.coefficients, EXACT_HINGE, state.missing.inputs)
        filled = rows.filled(np.where(rows.missing, rows.regressors @ inputs.coefficients, 0.0))
        complete = CompleteRows(filled).stats(replace(row_pass, missing=None))
        np.testing.assert_allclose(found.gram.matrix, complete.gram.matrix, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.cross, complete.cross, rtol=1e-5, atol=1e-5)
        entropy = 0.5 * rows.missing.sum() * (1 + np.log(2 * np.pi) - np.log(1e14))
        assert found.row_bound - entropy == pytest.approx(complete.row_bound, abs=1e-5)


class TestHeldRows:
    """Missing values that nothing moves: the score is taken for normal, with all of its variance."""

    @pytest.mark.parametrize("likelihood", [EXACT_HINGE, EXACT_LOGISTIC])
    def test_the_row_term_is_that_of_drawn_coefficients_and_values(self, likelihood):
        assert self.off_brute_force(likelihood) < 0.15

    def test_a_variance_that_leaves_the_spread_of_coefficients_out_is_seen(self, monkeypatch):
        right = held_rows.Cells.of

        def wrong(*arguments):
            cells = right(*arguments)
            return replace(cells, covariance=0 * cells.covariance)

        monkeypatch.setattr(held_rows.Cells, "of", wrong)
        assert self.off_brute_force(EXACT_HINGE) > 0.25

    @staticmethod
    def off_brute_force(likelihood):
        """Largest relative error of the change of the row term as the distribution of the coefficients widens."""
        _, source, state = fitted_state(n=80)
        (rows,) = incomplete_parts(source)
        inputs, rng, found, brute = state.missing.inputs, np.random.default_rng(0), [], []
        z, noise = (np.concatenate([one, -one]) for one in rng.standard_normal((2, 20_000, 4)))
        rng.shuffle(noise)
        for widen in (0.5, 2.0, 4.0):
            mean, covariance = state.coefficients.mean, widen**2 * state.coefficients.covariance
            moved = at(state, mean, covariance)
            found.append(held_stats(rows, moved.coefficients, likelihood, inputs).row_bound)
            theta, total = mean + z @ np.linalg.cholesky(covariance).T, 0.0
            for group in rows.groups:
                for row, variables in zip(group.rows, group.patterns[group.pattern_of], strict=True):
                    expected = rows.regressors[row] @ inputs.coefficients
                    T = inputs.precision
                    C = np.linalg.inv(T[np.ix_(variables, variables)])
                    rest = (T @ (np.where(rows.missing[row], 0.0, rows.known[row] - expected)))[variables]
                    values = expected[variables] - C @ rest + noise[:, : len(C)] @ np.linalg.cholesky(C).T
                    known = rows.design[row].copy()
                    known[rows.inputs.variables[variables]] = 0.0
                    b = theta[:, rows.inputs.variables[variables]]
                    scores = theta @ known + np.einsum("nk,nk->n", b, values)
                    total += likelihood.at_point(rows.signs[row] * scores).mean()
            brute.append(total)
        return np.abs(np.diff(found) / np.diff(brute) - 1.0).max()


def drawn_inputs(rows, state, rng, n_draws=20_000):
    """Σ E[d] and Σ E[ddᵀ] by draws of coefficients, and of missing values weighed by the likelihood given these."""
    inputs, n_variables = state.missing.inputs, len(state.missing.inputs.precision)
    theta = state.coefficients.mean + rng.standard_normal((n_draws, 4)) @ state.coefficients.root.T
    linear, squares = np.zeros(n_variables), np.zeros((n_variables, n_variables))
    T, n_values = inputs.precision, 64
    for group in rows.groups:
        for row, variables in zip(group.rows, group.patterns[group.pattern_of], strict=True):
            expected = rows.regressors[row] @ inputs.coefficients
            C = np.linalg.inv(T[np.ix_(variables, variables)])
            rest = (T @ (np.where(rows.missing[row], 0.0, rows.known[row] - expected)))[variables]
            d = np.tile(rows.known[row], (n_draws // n_values, n_values, 1))
            noise = rng.standard_normal((*d.shape[:2], len(variables)))
            d[:, :, variables] = expected[variables] - C @ rest + noise @ np.linalg.cholesky(C).T
            some = theta[: len(d)]
            known = rows.design[row].copy()
            known[rows.inputs.variables] = 0.0
            f = (some @ known)[:, None] + np.einsum("nk,nmk->nm", some[:, rows.inputs.variables], d)
            loss = -2 * np.maximum(1 - rows.signs[row] * f, 0)
            weights = np.exp(loss - logsumexp(loss, axis=1, keepdims=True)) / len(d)
            linear += np.einsum("nm,nmk->k", weights, d)
            squares += np.einsum("nm,nmk,nml->kl", weights, d, d)
    return linear, squares


def test_moments_of_the_missing_values_are_those_of_weighed_draws():
    X, y = correlated(30, 3, seed=2, share=0.4)
    spec, source = incomplete_model(X, y)
    state = Variational().run(spec, source).state
    state = state.moved(state.coefficients.at(np.array([0.2, 1.0, -0.8, 0.5])))
    (rows,) = incomplete_parts(source)
    at_state = state.coefficients, EXACT_HINGE, state.missing.inputs
    sums = integrated_rows.integrated_stats(rows, *at_state).missing.inputs
    linear, squares = drawn_inputs(rows, state, np.random.default_rng(0))
    untilted = held_stats(rows, *at_state).missing.inputs
    np.testing.assert_allclose(sums.linear[0], linear, atol=0.2)
    np.testing.assert_allclose(sums.squares, squares, atol=0.3)
    assert np.abs(untilted.linear[0] - linear).max() > 1.0
    assert np.abs(untilted.squares - squares).max() > 3.0


def test_the_bound_is_below_the_evidence_and_closer_than_the_papers():
    rng = np.random.default_rng(4)
    x = rng.normal(size=24)
    y = np.where(x + rng.logistic(size=24) > 0, 1.0, -1.0)
    x[::3] = np.nan
    X = np.column_stack([x])
    spec, source = incomplete_model(X, y, prior=Normal(4.0))
    spec = replace(spec, blocks=(replace(spec.blocks[0], prior=Normal(4.0)), spec.blocks[1]))
    papers = Variational(tol=1e-10).run(spec, source)
    exact = TIGHT.run(spec, source)
    # The inputs' own distribution is held where the exact climb ended: what is left is an integral over two numbers.
    inputs = exact.state.missing.inputs
    (rows,) = incomplete_parts(source)
    complete = ~np.isnan(x)

    grid = np.linspace(-6, 6, 241)
    theta = np.stack(np.meshgrid(grid, grid), axis=2).reshape(-1, 2)
    loss = -2 * np.maximum(1 - y[complete] * (theta[:, :1] + theta[:, 1:] * x[complete]), 0).sum(axis=1)
    prior = -0.5 * np.square(theta).sum(axis=1) / 4 - np.log(2 * np.pi * 4)
    joint = loss + given_coefficients(rows, theta, inputs) + prior
    evidence = logsumexp(joint) + 2 * np.log(grid[1] - grid[0])
    stats = pass_rows(replace(spec, likelihood=EXACT_HINGE), exact.state, source, expect)
    named = elbo_terms(spec, exact.state, stats.row_bound, stats.missing)
    both = stats.row_bound + named["distribution of the inputs"]
    theta = exact.state.coefficients
    draws = theta.mean + np.random.default_rng(0).standard_normal((20_000, 2)) @ theta.root.T
    expected = given_coefficients(rows, draws, inputs).mean()
    of_inputs = both - expected - of_complete_rows(source, theta)  # what does not depend on the coefficients
    found = exact.bounds[-1] - of_inputs
    assert evidence - 0.2 < found < evidence + 0.02
    assert exact.bounds[-1] > papers.bounds[-1] + 1.0


class TestClimb:
    @pytest.mark.filterwarnings("ignore:VBSVC. the chains")
    def test_it_agrees_with_the_sampler_on_two_incomplete_columns(self):
        X, y = correlated(250, 3, seed=2, share=0.2)
        X[:, 0] = correlated(250, 3, seed=2, share=0.0)[0][:, 0]
        drawn = VBSVC(imputation=PAPER, inference=Gibbs(draws=2000, tune=500, chains=1), random_state=0).fit(X, y)
        exact, papers = VBSVC(imputation=PAPER, inference=EXACT).fit(X, y), VBSVC(imputation=PAPER).fit(X, y)
        assert np.abs((exact.coef_ - drawn.coef_) / drawn.coef_std_).max() < 0.3
        assert np.abs((papers.coef_ - drawn.coef_) / drawn.coef_std_).max() > 0.8
        assert (np.abs(exact.coef_std_ / drawn.coef_std_ - 0.96) < 0.16).all()
        assert (by_mean_field(papers).coef_std_ / drawn.coef_std_ < 0.6).all()
        assert exact.converged_
        assert (np.diff(exact.elbo_trace_[0]) > -1e-6).all()
        assert exact.elbo_ > papers.elbo_

    @pytest.mark.parametrize(
        ("n", "d", "seed", "share"),
        [(80, 3, 1, 0.3), (60, 5, 0, 0.3), (40, 8, 1, 0.2), (400, 3, 2, 0.6), (30, 1, 0, 0.5)],
    )
    def test_it_converges_with_few_rows_and_many_missing_values(self, n, d, seed, share):
        X, y = correlated(n, d, seed, share)
        keep = np.isfinite(X).any(axis=1) | (d == 1)
        fit = VBSVC(inference=Variational(bound="exact", max_iter=400)).fit(X[keep], y[keep])
        assert fit.converged_
        assert np.abs(fit.coef_).max() < 30

    def test_separable_classes_keep_the_scales_of_the_papers_bound(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 3))
        X[:, 0] += np.sign(X[:, 0])
        y = X[:, 0] > 0
        X[rng.random((60, 3)) < [0.0, 0.3, 0.3]] = np.nan
        exact, papers = VBSVC(inference=EXACT).fit(X, y), VBSVC().fit(X, y)
        assert exact.converged_
        np.testing.assert_allclose(exact.penalty_, papers.penalty_, rtol=1e-12)

    def test_weights_are_repetition_and_blocks_change_nothing(self, monkeypatch):
        X, y = correlated(120, 3, seed=8)
        s = np.random.default_rng(1).integers(0, 3, size=120)
        one = VBSVC(inference=TIGHT).fit(X, y, sample_weight=s)
        other = VBSVC(inference=TIGHT).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3 * one.coef_std_.max())
        assert one.elbo_ == pytest.approx(other.elbo_, abs=1e-6)
        monkeypatch.setattr("vbsvm.sources.memory.block_rows", lambda n_columns: 37)
        parts = VBSVC(inference=TIGHT).fit(X, y, sample_weight=s)
        np.testing.assert_allclose(one.coef_, parts.coef_, atol=1e-3 * one.coef_std_.max())

    @pytest.mark.parametrize(
        "settings", [{"labels": "none"}, {"labels": "likelihood"}, {"mechanism": Shift(0.5)}, {"joint": True}]
    )
    def test_other_settings_of_missing_inputs(self, settings):
        X, y = correlated(200, 3, seed=3)
        imputation = GaussianImputation(**settings)
        exact, papers = VBSVC(inference=EXACT, imputation=imputation), VBSVC(inference=PAPERS, imputation=imputation)
        exact.fit(X, y)
        papers.fit(X, y)
        assert exact.converged_
        assert exact.elbo_ > papers.elbo_
        assert (np.sign(exact.coef_) == np.sign(papers.coef_)).all()

    def test_random_slopes_of_a_missing_input(self, tmp_path):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300), "g": rng.integers(0, 12, 300)})
        slope = 1 + rng.normal(size=12)[data["g"]]
        data["y"] = np.where(slope * data["x"] + data["z"] + rng.logistic(size=300) > 0, "yes", "no")
        data.loc[rng.random(300) < 0.2, "x"] = np.nan
        model = Model("y ~ x * z + (x || g)", data, likelihood="hinge")
        fit = model.fit(EXACT)
        assert fit.converged
        fit.save(tmp_path / "m.vbsvm")
        np.testing.assert_array_equal(load(tmp_path / "m.vbsvm").decision_function(data), fit.decision_function(data))

    def test_what_it_does_not_take_is_refused_in_words(self):
        X, y = correlated(60, 3, seed=0)
        with pytest.raises(ValueError, match=r"does not support values that are missing not at random"):
            VBSVC(inference=EXACT, imputation=GaussianImputation(mechanism=NotAtRandom())).fit(X, y)
        data = pd.DataFrame({"x": np.where(np.isnan(X[:, 0]), 0, X[:, 0]), "a": list("abc") * 20, "y": y})
        data.loc[::7, "a"] = None
        with pytest.raises(ValueError, match=r"does not support missing categories"):
            Model("y ~ x + a", data, imputation=PAPER, likelihood="hinge").fit(EXACT)
