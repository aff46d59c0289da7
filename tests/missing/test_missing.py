"""Missing inputs: the paper's Algorithm 5, every update, reductions, structure, prediction."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from incomplete_models import PAPER, correlated, incomplete_model, incomplete_parts
from models import mean_field_stats, mean_field_sweep, rises_of_single_updates, unscaled, visit
from reference import algorithm_5, simulate
from vbsvm import (
    VBSVC,
    GaussianImputation,
    LaplaceZero,
    Model,
    Normal,
    NotAtRandom,
    Ridge,
    Shift,
    Variational,
    plots,
)
from vbsvm.base.update_mode import mean_field
from vbsvm.datasets import load_acath
from vbsvm.missing import updates
from vbsvm.missing.distributions import KnownInputs, ProbitDistribution, Selective
from vbsvm.missing.model import InputModel, MissingModel
from vbsvm.missing.rows import Inputs
from vbsvm.model import sweep
from vbsvm.model.likelihoods.hinge import EXACT_HINGE, HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import row_term_fixed_weights
from vbsvm.results.calibration import log_odds
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping, MissingInputs

TIGHT = Variational(tol=1e-11)


class TestThePaper:
    @pytest.mark.parametrize(("seed", "share", "nu"), [(0, 0.25, None), (1, 0.6, None), (2, 0.2, 2.5)])
    def test_the_joint_distribution_ends_where_a_plain_transcription_ends(self, seed, share, nu):
        X, y = correlated(60, 4, seed, share)
        mu, _, _, mean, T, bounds = algorithm_5(X, y, nu=nu)
        clf = VBSVC(imputation=replace(PAPER, joint=True, nu=nu), inference=TIGHT).fit(X, y)
        np.testing.assert_allclose(np.r_[clf.intercept_, clf.coef_[0]], mu, atol=2e-5)
        assert clf.elbo_ == pytest.approx(bounds[-1], abs=1e-8)
        np.testing.assert_allclose(clf.imputation_mean_[0], mean, atol=1e-6)
        np.testing.assert_allclose(clf.imputation_cov_[0], np.linalg.inv(T), atol=1e-5)

    def test_the_conditional_distribution_has_the_same_fixed_point(self):
        X, y = correlated(80, 4, seed=3)
        X[:, 1] = np.where(np.isnan(X[:, 1]), 0.3, X[:, 1])  # one complete column
        one, other = (
            VBSVC(imputation=replace(PAPER, joint=joint), inference=TIGHT).fit(X, y) for joint in (True, False)
        )
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
        np.testing.assert_allclose(one.coef_std_, other.coef_std_, atol=1e-6)
        np.testing.assert_allclose(one.impute(X)[0], other.impute(X)[0], atol=1e-5)
        tight = VBSVC(imputation=replace(PAPER, joint=True, variance=1.0), inference=TIGHT).fit(X, y)
        assert np.abs(tight.coef_ - other.coef_).max() > 1e-5  # the mean's prior is a prior

    def test_sweeps_without_acceleration_end_there_too(self):
        X, y = correlated(50, 3, seed=5)
        plain = VBSVC(imputation=PAPER, inference=Variational(accelerate=False, tol=1e-12, max_iter=5000)).fit(X, y)
        quick = VBSVC(imputation=PAPER, inference=TIGHT).fit(X, y)
        assert quick.elbo_ == pytest.approx(plain.elbo_, abs=1e-8)
        assert (np.diff(plain.elbo_trace_[0]) > -1e-9).all()
        assert quick.n_iter_ < plain.n_iter_ / 2


@pytest.fixture(scope="module")
def cardiac():
    """The paper's inputs, and the labels."""
    if not os.environ.get("VBSVM_DATA"):
        pytest.skip("the cardiac data are not embedded: set VBSVM_DATA to the directory of acath.csv")
    data = load_acath()
    X = pd.DataFrame(
        {
            "age": data["age"],
            "sex": data["sex"],
            "duration": np.log(data["cad.dur"] + 1),
            "cholesterol": np.log(data["choleste"]),
        }
    )
    return X, data["sigdz"]


class TestCardiac:
    """Section 4.4 of the paper. The transcription, run until it stands still, takes minutes: its figures are here."""

    @pytest.mark.parametrize("joint", [False, True])
    def test_the_fit_is_that_of_algorithm_5(self, cardiac, joint):
        X, y = cardiac
        clf = VBSVC(imputation=replace(PAPER, joint=joint), inference=Variational(tol=1e-9)).fit(X, y)
        standardised = clf.coef_[0] * X.std(ddof=0)
        np.testing.assert_allclose(standardised, [0.567904, -0.871001, -0.020473, 0.494968], atol=1e-5)
        centre = clf.intercept_[0] + clf.coef_[0] @ X.mean()
        assert centre == pytest.approx(0.703909, abs=1e-5)
        if joint:
            assert clf.elbo_ == pytest.approx(-22177.658092920, abs=1e-6)

    @pytest.mark.long
    def test_those_figures_are_the_transcriptions(self, cardiac):
        X, y = cardiac
        D = ((X - X.mean()) / X.std(ddof=0)).to_numpy()
        mu, *_, bounds = algorithm_5(D, np.where(y == 1, 1.0, -1.0), stop=1e-10)
        np.testing.assert_allclose(mu, [0.703909, 0.567904, -0.871001, -0.020473, 0.494968], atol=2e-6)
        assert bounds[-1] == pytest.approx(-22177.658092920, abs=1e-6)

    def test_the_papers_own_nu_runs(self, cardiac):
        X, y = cardiac
        default, papers = (VBSVC(imputation=replace(PAPER, joint=True, nu=nu)).fit(X, y) for nu in (None, 3))
        assert np.isfinite(papers.elbo_)
        np.testing.assert_allclose(papers.coef_, default.coef_, rtol=0.01)


def test_without_the_file_it_is_said_what_the_data_are(tmp_path, monkeypatch):
    monkeypatch.delenv("VBSVM_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"hbiostat\.org/data"):
        load_acath()
    with pytest.raises(FileNotFoundError, match=r"no file .*acath.csv.*Vanderbilt"):
        load_acath(tmp_path)
    (tmp_path / "acath.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="are expected"):
        load_acath(tmp_path / "acath.csv")


@st.composite
def problems(draw):
    """Rows with none, some or all inputs missing; weights; both distributions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(3, 30)), draw(st.integers(1, 5))
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    X[rng.random(X.shape) < draw(st.sampled_from([0.1, 0.5, 0.9]))] = np.nan
    X[rng.integers(n)] = np.nan
    X[0] = rng.normal(size=d)
    s = draw(st.sampled_from([np.ones(n), rng.integers(1, 4, size=n).astype(float), rng.gamma(0.5, size=n) + 1e-3]))
    prior = draw(st.sampled_from([Ridge(), Normal(2.0)]))
    return incomplete_model(X, y, s, prior, joint=draw(st.booleans()), variance=100.0)


def rises_by_update(spec, source, n_sweeps=4):
    """Rise of the bound by each update after the first sweep."""
    return rises_of_single_updates(spec, source, mean_field_sweep(spec, spec.start(), source), n_sweeps)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_every_single_update_raises_the_bound(problem):
    # Rounding of the determinants of nearly singular covariances (a column that is hardly ever known).
    assert rises_by_update(*problem).min() > -1e-10


def test_the_bound_without_a_pass_is_the_bound_of_the_pass_at_the_same_state():
    X, y = correlated(40, 3, seed=0)
    spec, source = incomplete_model(X, y)
    at = visit(spec, mean_field_sweep(spec, spec.start(), source), source)
    assert row_term_fixed_weights(at.state, at.stats) == pytest.approx(at.stats.row_bound, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("mistake", ["weights", "regression", "covariance"])
def test_a_planted_mistake_is_seen_by_that_test(mistake, monkeypatch):
    X, y = correlated(40, 3, seed=0)
    problem = incomplete_model(X, y)
    assert rises_by_update(*problem, n_sweeps=30).min() > -1e-10
    if mistake == "weights":
        right = updates.solve_weights
        monkeypatch.setattr(updates, "solve_weights", lambda *a: 1.3 * right(*a))
    else:
        right_update = InputModel._update_regression
        wrong = {"linear": 0.9} if mistake == "regression" else {"squares": 0.9}

        def update(self, sums, mode):
            changed = {name: factor * getattr(sums, name) for name, factor in wrong.items()}
            return right_update(self, replace(sums, **changed), mode)

        monkeypatch.setattr(InputModel, "_update_regression", update)
    assert rises_by_update(*problem, n_sweeps=30).min() < -1e-9


class TestRows:
    @pytest.mark.parametrize("likelihood", [HINGE, LOGISTIC], ids=["hinge", "logistic"])
    def test_the_weight_of_a_row_is_the_fixed_point_of_alternating(self, likelihood):
        rng = np.random.default_rng(0)
        for _ in range(100):
            k = int(rng.integers(1, 5))
            size = 10.0 ** rng.uniform(-2, 3)
            curvature, p, q = rng.gamma(0.5, size=k) * size, rng.normal(size=k) * size, rng.normal(size=k) * size
            # χ must be an expectation of a square: (1 − δ·b)² + … with E b bᵀ = diag λ and E b = q, p = ±q, |q| < √λ.
            q = np.sqrt(curvature) * rng.uniform(-1, 1, size=k) / np.sqrt(k)
            p, slack = q.copy(), 1.0 + rng.gamma(1.0)
            w, before, still = 1.0, 0.0, 0
            while still < 20:  # alternating creeps: twenty steps without a change of the last digits
                shrunk = 1 / (1 + w * curvature)
                moved = (p + w * q) * shrunk
                chi = slack - 2 * moved @ q + curvature @ (moved**2 + shrunk)
                before, w = w, float(likelihood.unit_weight(np.sqrt(np.array([chi])))[0])
                still = still + 1 if abs(w - before) <= 4e-16 * w else 0
            found = updates.solve_weights(likelihood, curvature[:, None], p[:, None], q[:, None], np.array([slack]))
            assert found[0] == pytest.approx(w, rel=1e-9)

    def test_permuting_rows_and_columns_changes_nothing(self):
        X, y = correlated(70, 4, seed=7)
        rng = np.random.default_rng(0)
        rows, columns = rng.permutation(70), rng.permutation(4)
        one = VBSVC(imputation=PAPER, inference=TIGHT).fit(X, y)
        other = VBSVC(imputation=PAPER, inference=TIGHT).fit(X[rows][:, columns], y[rows])
        np.testing.assert_allclose(one.coef_[:, columns], other.coef_, atol=1e-6)
        assert one.elbo_ == pytest.approx(other.elbo_, abs=1e-8)

    def test_weights_are_repetition(self):
        X, y = correlated(60, 3, seed=8)
        s = np.random.default_rng(1).integers(0, 4, size=60)
        one = VBSVC(inference=TIGHT).fit(X, y, sample_weight=s)
        other = VBSVC(inference=TIGHT).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
        assert one.elbo_ == pytest.approx(other.elbo_, abs=1e-7)

    def test_blocks_threads_and_chunks_change_nothing(self, monkeypatch):
        X, y = correlated(400, 3, seed=9)
        whole = VBSVC(inference=TIGHT).fit(X, y)
        monkeypatch.setattr("vbsvm.sources.memory.block_rows", lambda n_columns: 37)
        parts = VBSVC(inference=TIGHT).fit(X, y)
        np.testing.assert_allclose(whole.coef_, parts.coef_, atol=1e-7)
        assert whole.elbo_ == pytest.approx(parts.elbo_, abs=1e-8)

    def test_without_missing_values_it_is_algorithm_2(self):
        X, y = simulate(50, 3, seed=0)
        spec, source = incomplete_model(X, y, joint=False)
        clf = VBSVC(inference=TIGHT).fit(X, y)
        assert clf.fit_[0].spec.missing is None
        may_be_missing = Inputs.from_lists([3], [1, 2])  # a column that might have had some
        spec = replace(spec, missing=MissingModel(InputModel(PAPER, may_be_missing, 3)))
        nothing = np.empty((50, 0))
        source = replace(source, missing_inputs=MissingInputs(may_be_missing, nothing, np.zeros(1), nothing))
        outcome = TIGHT.run(spec, source)
        np.testing.assert_allclose(outcome.state.coefficients.mean[1:], clf.coef_[0], atol=1e-7)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    n = 80
    X = rng.normal(size=(n, 3))
    X[:, 2] += 0.6 * X[:, 0]
    one, two = rng.integers(0, 5, size=n), rng.integers(0, 3, size=n)
    y = np.where(X @ [1, -1, 0.5] + rng.normal(size=5)[one] * X[:, 2] + rng.logistic(size=n) > 0, 1.0, -1.0)
    X[rng.random((n, 3)) < [0, 0.3, 0.3]] = np.nan
    return X, y, one, two


class TestStructure:
    """Missing inputs that random slopes multiply: the arrow equals a dense design with the slopes written out."""

    @pytest.mark.parametrize("gated", [False, True])
    def test_arrow_equals_dense(self, data, gated):
        X, y, one, two = data
        n = len(y)
        prior = LaplaceZero(rho=0.4, restarts=0) if gated else Ridge()
        fixed = [
            Block("intercept", (slice(0, 1),), Normal(1e8)),
            Block("inputs", (slice(1, 4),), prior, prior.gate_of(["a", "b", "c"])),
        ]
        # Effects: two: intercepts (3 levels); one: intercept and slope of the last column (5 levels).
        own = Block("two", (slice(4, 7),), Ridge())
        slopes = Block("one", (slice(7, 17),), Ridge())
        inputs = Inputs.from_lists([2, 3], [1])
        distribution = InputModel(PAPER, inputs, 3)
        arrow = Memory(
            X, y, np.ones(n), unscaled(3),
            (Grouping(two, 3, (0,)), Grouping(one, 5, (0, 3))),
            missing_inputs=MissingInputs(inputs, np.empty((n, 0)), np.zeros(2), np.empty((n, 0))),
        )  # fmt: skip
        spec = Spec((*fixed, own, slopes), MissingModel(distribution))

        level = np.eye(5)[one]
        written = np.zeros((n, 10))
        written[:, 0::2], written[:, 1::2] = level, level * X[:, [2]]
        written[:, 1::2] = np.where((level == 0), 0.0, written[:, 1::2])
        dense_X = np.column_stack([X, np.eye(3)[two], written])
        links = [6 + 2 * g + 1 for g in range(5)]
        opened = Inputs.from_lists([2, 3], [1], [1 + column for column in links], [1] * 5)
        incomplete = MissingInputs(opened, level.copy(), np.zeros(2), np.empty((n, 0)))
        dense = Memory(dense_X, y, np.ones(n), unscaled(16), missing_inputs=incomplete)
        twin = Spec((*fixed, own, slopes), MissingModel(InputModel(PAPER, opened, 3)))
        one_state, other_state = spec.start(), twin.start()
        for _ in range(6):
            one_state, one_stats = sweep.sweep(spec, one_state, arrow, mean_field)
            other_state, other_stats = sweep.sweep(twin, other_state, dense, mean_field)
            assert one_stats.row_bound == pytest.approx(other_stats.row_bound, rel=1e-10)
            np.testing.assert_allclose(one_state.coefficients.mean, other_state.coefficients.mean, rtol=1e-8, atol=1e-9)
            ours, theirs = one_state.missing.inputs.coefficients, other_state.missing.inputs.coefficients
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
        one_curved = mean_field_stats(spec, one_state, arrow, with_curvature=True).curvature
        other_curved = mean_field_stats(twin, other_state, dense, with_curvature=True).curvature
        v = np.random.default_rng(0).normal(size=17)
        np.testing.assert_allclose(one_curved.times(v), other_curved.times(v), rtol=1e-8)
        if not gated:
            ours, theirs = (
                sweep.pass_rows(
                    replace(model, likelihood=EXACT_HINGE),
                    state,
                    replace(source, missing_inputs=replace(source.missing_inputs, adapt=False)),
                    mean_field,
                )
                for model, state, source in ((spec, one_state, arrow), (twin, other_state, dense))
            )
            assert ours.row_bound == pytest.approx(theirs.row_bound, rel=1e-8)
            np.testing.assert_allclose(ours.gram.times(v), theirs.gram.times(v), rtol=1e-6)
            np.testing.assert_allclose(ours.cross, theirs.cross, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(ours.missing.inputs.squares, theirs.missing.inputs.squares, rtol=1e-8)

    def test_a_mechanism_that_depends_on_nothing_does_not_change_what_is_drawn(self):
        X, y = correlated(40, 2, seed=1)
        spec, source = incomplete_model(X, y)
        state = Variational(tol=1e-3).run(spec, source).state
        (rows,) = (part.rows for part in incomplete_parts(source))
        at_random = KnownInputs(state.missing.inputs.coefficients, state.missing.inputs.precision)
        probit = ProbitDistribution.start(np.arange(2), rows.inputs.variables)
        ours, theirs = (
            np.mean(
                [
                    updates.RowDistributions(rows, state.coefficients.effective(None), HINGE, distribution)
                    .draw(np.random.default_rng(k))
                    .values
                    for k in range(2000)
                ],
                axis=0,
            )
            for distribution in (Selective(at_random, probit), at_random)
        )
        np.testing.assert_allclose(ours, theirs, atol=0.15)

    def test_the_curvature_is_the_second_derivative_with_the_missing_distributions_held(self):
        X, y = correlated(30, 2, seed=2)
        spec, source = incomplete_model(X, y)
        state = Variational(tol=1e-3).run(spec, source).state
        stats = mean_field_stats(spec, state, source, with_curvature=True)
        v = np.array([0.3, -0.5, 0.8])

        def gradient(step):
            moved = replace(state, coefficients=state.coefficients.with_mean(state.coefficients.mean + step * v))
            found = mean_field_stats(spec, moved, source)
            return found.cross - found.gram.matrix @ moved.coefficients.mean

        change = -(gradient(1e-5) - gradient(-1e-5)) / 2e-5
        held, plain = v @ stats.curvature.times(v), v @ stats.gram.times(v)
        # The missing values follow the coefficients, which lowers the curvature further, if little.
        assert 0 < v @ change <= held < 0.9 * plain


@pytest.fixture(scope="module")
def fitted():
    X, y = correlated(200, 4, seed=11, share=0.15)
    return VBSVC().fit(X, y), X, y


class TestPrediction:
    def test_means_and_variances_are_those_of_monte_carlo(self, fitted):
        clf, _, _ = fitted
        x = np.array([0.4, np.nan, -1.2, np.nan])
        mean, cov = clf.imputation_mean_[0], clf.imputation_cov_[0]
        known, lost = [0, 2], [1, 3]
        gain = cov[np.ix_(lost, known)] @ np.linalg.inv(cov[np.ix_(known, known)])
        expected = mean[lost] + gain @ (x[known] - mean[known])
        spread = cov[np.ix_(lost, lost)] - gain @ cov[np.ix_(known, lost)]
        filled, deviations = clf.impute(x[None])
        np.testing.assert_allclose(filled.to_numpy()[0, lost], expected, rtol=1e-9)
        np.testing.assert_allclose(
            deviations.to_numpy()[0], [0, spread[0, 0] ** 0.5, 0, spread[1, 1] ** 0.5], rtol=1e-9
        )
        rng = np.random.default_rng(0)
        draws = np.tile(x, (200_000, 1))
        draws[:, lost] = rng.multivariate_normal(expected, spread, size=200_000)
        fit = clf.fit_[0]
        distribution = fit._rows.curvature
        theta = distribution.mean + rng.normal(size=(200_000, 5)) @ distribution.root.T
        scale, centre = fit.plan.recipe.scale, fit.plan.recipe.centre
        scores = theta[:, 0] + np.einsum("ij,ij->i", theta[:, 1:], (draws - centre) / scale)
        from vbsvm.design.columns import Encoded

        mean_score, sd = fit.decision_function(Encoded(x[None]), return_std=True)
        assert mean_score[0] == pytest.approx(scores.mean(), abs=4 * scores.std() / 200_000**0.5)
        assert sd[0] == pytest.approx(scores.std(), rel=0.01)
        probability = clf.predict_proba(x[None])[0, 1]
        plain = distribution.mean[0] + (draws - centre) / scale @ distribution.mean[1:]
        odds = log_odds([fit._link], plain[:, None], np.zeros((200_000, 1)))
        assert probability == pytest.approx(special.expit(odds).mean(), abs=0.03)

    def test_a_row_without_any_value_gets_the_prior_prediction(self, fitted):
        clf, X, _ = fitted
        nothing = np.full((1, 4), np.nan)
        expected = clf.intercept_[0] + clf.coef_[0] @ clf.imputation_mean_[0]
        assert clf.decision_function(nothing)[0] == pytest.approx(expected, abs=1e-9)
        one, complete = clf.predict_proba(nothing)[0], clf.predict_proba(clf.imputation_mean_)[0]
        assert abs(one[1] - 0.5) < abs(complete[1] - 0.5)  # less sure
        assert (clf.predict_proba(X).argmax(axis=1) == (clf.predict(X) == 1)).all()

    def test_missing_values_in_columns_that_were_complete_in_fit(self):
        X, y = simulate(300, 3, seed=1)
        X[:, 2] = 0.8 * X[:, 0] + 0.6 * X[:, 2]
        clf = VBSVC().fit(X, y)
        row = X[:1].copy()
        row[0, 2] = np.nan
        regression = np.linalg.lstsq(np.column_stack([np.ones(300), X[:, :2]]), X[:, 2], rcond=None)[0]
        expected = regression @ [1, *X[0, :2]]
        assert clf.impute(row)[0].iloc[0, 2] == pytest.approx(expected, abs=1e-3)
        filled = np.array([[*X[0, :2], clf.impute(row)[0].iloc[0, 2]]])
        assert clf.decision_function(row)[0] == pytest.approx(clf.decision_function(filled)[0], abs=1e-9)

    def test_several_classes_groups_selection_and_class_weights_go_with_missing_values(self):
        X, y = load_iris(return_X_y=True, as_frame=True)
        rng = np.random.default_rng(0)
        X = X.mask(rng.random(X.shape) < 0.2)
        clf = VBSVC(prior=LaplaceZero(rho=0.5, restarts=0), class_weight="balanced").fit(X, y)
        assert clf.score(X, y) > 0.85
        assert clf.imputation_mean_.shape == (3, 4)
        assert (clf.predict_proba(X).argmax(axis=1) == clf.predict(X)).all()
        grouped = VBSVC(group="g").fit(X.assign(g=np.arange(150) % 7), y)
        assert grouped.score(X.assign(g=np.arange(150) % 7), y) > 0.85

    def test_the_summary_counts_patterns(self, fitted):
        clf, X, _ = fitted
        table = clf.missing_summary()
        assert table["rows"].sum() == 200
        assert table["rows"].is_monotonic_decreasing
        missing_rows = np.isnan(X)
        assert table.attrs["missing"] == {f"x{j}": int(missing_rows[:, j].sum()) for j in range(4)}
        alone = table[table["x0"] & ~table["x1"] & ~table["x2"] & ~table["x3"]]
        assert alone["rows"].item() == (missing_rows == [True, False, False, False]).all(axis=1).sum()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    n = 400
    age, dose = rng.normal(50, 10, size=n), rng.gamma(4.0, size=n)
    bmi = 20 + 0.1 * age + rng.normal(size=n)
    arm = rng.choice(["a", "b", "c"], size=n)
    clinic = rng.integers(0, 12, size=n)
    score = 0.05 * (age - 50) + (bmi - 25) * np.where(arm == "b", 1.0, 0.3) + rng.normal(size=12)[clinic]
    y = np.where(score + rng.logistic(size=n) > 0, "ill", "well")
    frame = pd.DataFrame({"y": y, "age": age, "dose": dose, "bmi": bmi, "arm": arm, "clinic": clinic})
    frame.loc[rng.random(n) < 0.3, "bmi"] = np.nan
    frame.loc[rng.random(n) < 0.2, "dose"] = np.nan
    return frame


class TestFormula:
    def test_columns_are_those_of_the_estimator(self, frame):
        fit = Model("y ~ age + bmi + log(dose)", frame, {"fixed": Ridge()}, likelihood="hinge").fit(TIGHT)
        X = frame[["age", "bmi"]].assign(dose=np.log(frame["dose"]))
        clf = VBSVC(inference=TIGHT).fit(X, frame["y"])
        np.testing.assert_allclose(fit.coef, clf.coef_[0], rtol=1e-4)
        assert fit.elbo == pytest.approx(clf.elbo_, abs=1e-7)
        np.testing.assert_allclose(fit.decision_function(frame), clf.decision_function(X), atol=1e-5)

    def test_interactions_slopes_and_crossed_groups(self, frame):
        frame = frame.assign(ward=np.arange(400) % 5)
        fit = Model("y ~ arm * bmi + age + (1 + bmi | clinic) + (1 | ward)", frame).fit()
        assert fit.converged
        assert np.isfinite(fit.decision_function(frame, return_std=True)).all()
        assert fit.summary().loc["arm[T.b]:bmi", "estimate"] != 0
        assert (fit.predict(frame) == frame["y"]).mean() > 0.7

    def test_an_interaction_is_what_it_is_at_any_reference(self, frame, monkeypatch):
        formula = "y ~ age * bmi + arm"
        one = Model(formula, frame).fit(TIGHT)
        from vbsvm.design.formula import learning as formulas

        monkeypatch.setattr(formulas, "reference_of", lambda column, name: column.dropna().iloc[3])
        other = Model(formula, frame).fit(TIGHT)
        assert one.elbo == pytest.approx(other.elbo, abs=1e-8)
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-5)

    def test_an_input_that_enters_by_a_product_alone(self, frame):
        fit = Model("y ~ age + age:bmi", frame).fit()
        assert np.isfinite(fit.decision_function(frame)).all()
        assert fit.imputation_mean.shape == (2,)
        assert fit.imputation_mean[1] == pytest.approx(frame["bmi"].mean(), abs=0.3)

    @pytest.mark.parametrize(
        ("formula", "message"),
        [
            ("y ~ s(bmi)", r"'bmi' has no value in row \d+ \(one of \d+ such rows of 400\), and enters by s\(bmi\)"),
            ("y ~ bmi + log(bmi)", r"occurs in several expressions \(bmi, log\(bmi\)\)"),
            ("y ~ poly(bmi, 2)", "must enter linearly|can't be applied"),
            ("y ~ scale(bmi)", "write the column itself"),
            ("y ~ bmi * dose", "has missing values in both factors"),
            ("y ~ age + (1 | bmi)", "'bmi' has no value in rows .* groups must be known"),
        ],
    )
    def test_what_is_not_linear_is_refused_in_words_where_values_are_not_drawn(self, frame, formula, message):
        with pytest.raises(ValueError, match=message):
            Model(formula, frame, imputation=GaussianImputation(labels="likelihood"))

    def test_predictions_with_missing_values_where_there_were_none(self, frame):
        complete = frame.dropna()
        fit = Model("y ~ age + bmi * arm + log(dose)", complete).fit()
        rows = complete.head(3).assign(bmi=[np.nan, 24.0, np.nan], dose=[1.0, np.nan, np.nan])
        scores, sd = fit.decision_function(rows, return_std=True)
        known = fit.decision_function(complete.head(3), return_std=True)[1]
        assert np.isfinite(scores).all()
        assert (sd > known).all()
        assert np.isfinite(fit.decision_function(complete.head(2).assign(arm=[None, "a"]))).all()

    def test_nullable_and_object_columns(self, frame):
        fit = Model("y ~ age + bmi", frame).fit()
        for column in (frame["bmi"].astype("Float64"), frame["bmi"].astype(object).where(frame["bmi"].notna(), None)):
            other = Model("y ~ age + bmi", frame.assign(bmi=column)).fit()
            assert other.elbo == pytest.approx(fit.elbo, abs=1e-9)


class TestShift:
    def test_shifted_values_enter_the_score_and_not_the_distribution_of_the_inputs(self):
        X, y = correlated(200, 3, seed=4)
        none, plain = (VBSVC(imputation=GaussianImputation(mechanism=Shift(by))).fit(X, y) for by in (0.0, {"x1": 0.0}))
        assert none.elbo_ == plain.elbo_ == VBSVC().fit(X, y).elbo_
        moved = VBSVC(imputation=GaussianImputation(mechanism=Shift({"x1": 1.0}))).fit(X, y)
        assert np.abs(moved.coef_ - plain.coef_).max() > 0.01
        assert moved.imputation_mean_[0] == pytest.approx(plain.imputation_mean_[0], abs=0.3)  # not by 1

    def test_it_is_refused_for_columns_that_miss_nothing(self):
        X, y = correlated(50, 3, seed=4)
        X[:, 0] = 1.0 * np.arange(50)
        with pytest.raises(ValueError, match="'x0' is not a column with missing values"):
            VBSVC(imputation=GaussianImputation(mechanism=Shift({"x0": 1.0}))).fit(X, y)


class TestSurprises:
    def test_far_rows_of_several_classes_have_probabilities(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 3))
        y = np.where(X[:, 0] > 0.8, "c", np.where(X[:, 1] + rng.logistic(size=120) > 0, "a", "b"))
        chances = VBSVC().fit(X, y).predict_proba([[100, np.nan, 0.0], [-1e6, np.nan, np.nan]])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)

    def test_imputed_tables_have_a_row_for_each_row(self, arms):
        named = arms.set_axis([f"r{k}" for k in range(len(arms))])
        fit = Model("y ~ x + arm", arms, {"fixed": Ridge()}).fit()
        filled, deviations = fit.impute(named)
        assert filled.index.equals(named.index)
        assert deviations.index.equals(named.index)
        known = named["x"].notna()
        assert known.any()
        np.testing.assert_array_equal(filled["x"][known], named["x"][known])
        assert ((deviations["x"] > 0) == ~known).all()

    @pytest.mark.parametrize("standardize", [True, False])
    def test_a_shift_is_counted_in_standard_deviations(self, arms, standardize):
        priors = {"fixed": Normal(1e6)}
        tables = [
            Model("y ~ x", arms.assign(x=unit * arms["x"]), priors, imputation=PAPER, standardize=standardize)
            for unit in (1.0, 50.0)
        ]
        tables = [model.sensitivity([-1, 1]) for model in tables]
        np.testing.assert_allclose(tables[0]["x"], 50 * tables[1]["x"], rtol=1e-4)
        assert abs(tables[0]["(intercept)"].diff().iloc[1]) > 0.05

    def test_a_constant_column_has_nothing_to_shift(self, arms):
        X = np.column_stack([np.where(np.arange(len(arms)) < 10, np.nan, 5.0), arms["x"].fillna(0)])
        plain, shifted = (
            VBSVC(imputation=GaussianImputation(mechanism=mechanism)).fit(X, arms["y"])
            for mechanism in (None, Shift(1))
        )
        np.testing.assert_allclose(shifted.coef_, plain.coef_)

    def test_sensitivity_counts_complete_rows(self, arms):
        model = Model("y ~ x + arm", arms, {"fixed": Ridge()})
        complete = arms[["x", "arm"]].notna().all(axis=1).sum()
        assert len(model._task.complete_rows().table) == complete < len(arms)

    def test_sensitivity_leaves_categories_alone(self, arms):
        table = Model("y ~ x + arm", arms, {"fixed": Ridge()}).sensitivity([0, 0.5])
        assert table.attrs["columns"] == ["x"]
        with pytest.raises(ValueError, match="nothing to shift"):
            Model("y ~ arm", arms).sensitivity([1.0])

    def test_a_boolean_may_be_missing_in_predict(self):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"z": rng.normal(size=80), "flag": rng.random(80) < 0.5, "y": rng.random(80) < 0.5})
        fit = Model("y ~ z + flag", data).fit()
        rows = data.head(3).astype({"flag": object})
        rows.loc[0, "flag"] = None
        assert np.isfinite(fit.predict_proba(rows)).all()
        np.testing.assert_allclose(fit.decision_function(rows)[1:], fit.decision_function(data.head(3))[1:])

    def test_na_in_columns_of_objects_and_the_index_of_what_is_imputed(self):
        X, y = correlated(60, 3, seed=1)
        frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(60) + 500)
        clf = VBSVC().fit(frame, y)
        objects = frame.astype(object).where(frame.notna(), pd.NA)
        for other in (objects, objects.to_numpy()):
            assert VBSVC().fit(other, y).elbo_ == clf.elbo_
        assert clf.impute(frame)[0].index.equals(frame.index)


class TestLabels:
    """Whether labels have a say in missing values."""

    def test_without_their_say_the_distribution_is_that_of_the_inputs_alone(self):
        X, y = correlated(150, 3, seed=1)
        settings = GaussianImputation(labels="none")
        one = VBSVC(imputation=settings).fit(X, y)
        other = VBSVC(imputation=settings).fit(X, np.random.default_rng(0).permutation(y))
        np.testing.assert_allclose(one.imputation_mean_, other.imputation_mean_, atol=1e-9)
        np.testing.assert_allclose(one.imputation_cov_, other.imputation_cov_, atol=1e-9)
        assert (np.diff(one.elbo_trace_[0]) > -1e-9).all()
        assert np.abs(VBSVC().fit(X, y).imputation_mean_ - one.imputation_mean_).max() > 1e-3

    def test_the_papers_model_overrates_noise_with_many_missing_values_and_the_other_does_not(self):
        rng = np.random.default_rng(0)
        found = []
        for _ in range(8):
            X = rng.normal(size=(400, 2))
            y = np.where(X[:, 0] + rng.logistic(size=400) > 0, 1, -1)
            X[rng.random(400) < 0.8, 1] = np.nan
            fits = [VBSVC(imputation=GaussianImputation(labels=labels)).fit(X, y) for labels in ("likelihood", "none")]
            found.append([clf.coef_[0] for clf in fits])
        size = np.sqrt(np.mean(np.square(found), axis=0))
        assert size[0, 1] > 0.7  # with a coefficient of the signal of about 1
        assert size[1, 1] < 0.3
        assert size[1, 0] > 0.8


class TestEdges:
    def test_a_column_without_any_value_is_refused(self):
        X, y = correlated(30, 3, seed=1)
        X[:, 1] = np.nan
        with pytest.raises(ValueError, match="Column 'x1' has no value in any row of positive weight"):
            VBSVC().fit(X, y)
        with pytest.raises(ValueError, match="Column 'b' has no value in any row"):
            Model("y ~ a + b", pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]}))

    def test_rows_of_weight_0_may_hold_anything(self):
        X, y = correlated(40, 3, seed=2)
        s = np.ones(40)
        s[:5] = 0
        X[:2], X[2:5, 0] = np.nan, np.inf
        clf = VBSVC().fit(X, y, sample_weight=s)
        assert clf.elbo_ == pytest.approx(VBSVC().fit(X[5:], y[5:]).elbo_, abs=1e-9)

    def test_a_constant_column_with_missing_values_and_a_column_with_one_value(self):
        X, y = correlated(60, 4, seed=3)
        X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, 7.0)
        X[:, 3] = np.nan
        X[4, 3] = 2.0
        clf = VBSVC().fit(X, y)
        assert np.isfinite(clf.coef_).all()
        assert clf.coef_[0, 1] == clf.coef_[0, 3] == 0
        assert np.isfinite(clf.decision_function(X)).all()

    @pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"standardize": False}])
    def test_other_designs(self, settings):
        X, y = correlated(120, 3, seed=6)
        X = 10 + 3 * X if "standardize" in settings else X
        clf = VBSVC(**settings).fit(X, y)
        assert clf.converged_
        assert clf.score(X, y) > 0.65

    def test_more_columns_than_rows(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(30, 100)), rng.choice([-1, 1], size=30)
        X[rng.random(X.shape) < 0.02] = np.nan
        assert np.isfinite(VBSVC().fit(X, y).coef_).all()
        assert VBSVC(imputation=GaussianImputation(psi=0.01)).fit(X, y).converged_

    def test_a_start_on_a_part_of_the_rows(self):
        X, y = correlated(25_000, 3, seed=1, share=0.1)
        clf = VBSVC().fit(X, y)
        assert clf.converged_
        plain = VBSVC(inference=Variational(accelerate=False, max_iter=4000, tol=1e-7)).fit(X, y)
        assert clf.elbo_ > plain.elbo_ - 1e-3

    def test_separable_data_stay_finite(self):
        X, y = correlated(40, 3, seed=1)
        clf = VBSVC().fit(np.column_stack([X, 5 * y]), y)
        assert clf.score(np.column_stack([X, 5 * y]), y) == 1.0

    @pytest.mark.parametrize("bad", ["mean", 1.0, Ridge()])
    def test_imputation_must_be_settings(self, bad):
        X, y = correlated(40, 3, seed=1)
        with pytest.raises(TypeError, match="imputation must be"):
            VBSVC(imputation=bad).fit(X, y)

    @pytest.mark.parametrize("settings", [{"psi": 0}, {"nu": -1}, {"variance": "1"}, {"joint": "yes"}])
    def test_settings_that_make_no_sense(self, settings):
        with pytest.raises(ValueError, match="GaussianImputation"):
            GaussianImputation(**settings)

    def test_grids_reach_the_settings(self):
        clf = VBSVC().set_params(imputation__nu=3.0, imputation__joint=True)
        assert clf.imputation == GaussianImputation(nu=3.0, joint=True)


def with_mechanism(X, y, columns):
    spec, source = incomplete_model(X, y)
    inputs = spec.missing.inputs.inputs
    distribution = InputModel(replace(PAPER, mechanism=NotAtRandom()), inputs, X.shape[1], np.array(columns))
    return replace(spec, missing=MissingModel(distribution)), source


class TestNotAtRandom:
    @pytest.mark.parametrize("seed", range(3))
    def test_every_single_update_raises_the_bound(self, seed):
        X, y = correlated(50, 3, seed=seed)
        assert rises_by_update(*with_mechanism(X, y, [0, 2]), n_sweeps=15).min() > -1e-10

    def test_a_planted_mistake_is_seen_by_that_test(self, monkeypatch):
        X, y = correlated(50, 3, seed=0)
        right = ProbitDistribution.updated
        monkeypatch.setattr(
            ProbitDistribution, "updated", lambda self, sums, v: right(self, replace(sums, linear=0.8 * sums.linear), v)
        )
        assert rises_by_update(*with_mechanism(X, y, [0, 2]), n_sweeps=30).min() < -1e-9

    def test_the_distribution_of_being_observed_is_that_of_quadrature(self):
        """One column without labels' help: coefficients of the probit against a grid over (φ₀, φ₁) given the values."""
        rng = np.random.default_rng(0)
        values, s = rng.normal(size=(40, 1)), np.ones(40)
        observed = rng.random((40, 1)) < 0.5 + 0.4 * np.tanh(values)
        distribution = ProbitDistribution(np.array([0]), np.array([1]), np.zeros((1, 2)), np.eye(2)[None] * 1e-9)
        for _ in range(500):
            distribution = distribution.updated(distribution.sums(values, np.zeros_like(values), observed, s), 4.0)
        a, b = np.meshgrid(np.linspace(-4, 4, 401), np.linspace(-4, 4, 401), indexing="ij")
        eta = a[..., None] + b[..., None] * values[:, 0]
        log_density = special.log_ndtr(np.where(observed[:, 0], eta, -eta)).sum(axis=-1) - (a**2 + b**2) / 8
        density = np.exp(log_density - log_density.max())
        exact = np.array([(density * a).sum(), (density * b).sum()]) / density.sum()
        np.testing.assert_allclose(distribution.mean[0], exact, atol=0.1)  # mean field in a*
        bound_ = distribution.bound(distribution.sums(values, np.zeros_like(values), observed, s), 4.0)
        evidence = log_density.max() + np.log(density.sum() * 0.02**2 / (2 * np.pi * 4.0))
        assert 0 < evidence - bound_ < 1.0

    def test_it_undoes_a_part_of_the_bias_where_large_values_are_missing(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(3000, 2))
        X[:, 1] = 0.6 * X[:, 0] + 0.8 * X[:, 1]
        y = np.where(X.sum(axis=1) + rng.logistic(size=3000) > 0, 1, -1)
        X[rng.random(3000) < special.expit(2 * (X[:, 1] - 0.5)), 1] = np.nan
        at_random = VBSVC().fit(X, y)
        not_at_random = VBSVC(imputation=GaussianImputation(mechanism=NotAtRandom(columns=["x1"]))).fit(X, y)
        assert abs(not_at_random.imputation_mean_[0, 1]) < 0.6 * abs(at_random.imputation_mean_[0, 1])
        assert not_at_random.fit_[0].outcome.state.missing.inputs.probit.mean[0, 1] < -0.3

    def test_what_is_wrong_is_said(self):
        X, y = correlated(50, 3, seed=4)
        with pytest.raises(ValueError, match="'z' is not a column with missing values"):
            VBSVC(imputation=GaussianImputation(mechanism=NotAtRandom(columns=["z"]))).fit(X, y)
        for bad in ({"columns": "x"}, {"variance": -1}):
            with pytest.raises(ValueError, match="NotAtRandom"):
                NotAtRandom(**bad)
        with pytest.raises(TypeError, match="mechanism"):
            GaussianImputation(mechanism="mnar")
        with pytest.raises(ValueError, match="Shift"):
            Shift("far")


class TestFewRows:
    """Too few rows to learn how the columns vary together: missing values and covariance feed each other."""

    @pytest.fixture
    def few(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 20))
        y = X @ rng.normal(size=20) > 0
        X[rng.random(X.shape) < 0.3] = np.nan
        return X, y

    @pytest.mark.parametrize("joint", [True, False])
    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ("likelihood", r"not converge in 200 iterations.*psi=10\).*Variational\(max_iter=2000\)"),
            ("none", r"not converge while it estimated the distribution of the predictors.*psi=10\)"),
        ],
    )
    def test_the_climb_ends_soon_and_says_what_to_do(self, few, joint, labels, message):
        clf = VBSVC(imputation=GaussianImputation(psi=0.01, joint=joint, labels=labels))
        with pytest.warns(ConvergenceWarning, match=message):
            clf.fit(*few)
        assert not clf.converged_
        assert np.isfinite(clf.coef_).all()
        helped = VBSVC(imputation=GaussianImputation(psi=10, joint=joint, labels=labels)).fit(*few)
        assert helped.converged_
        assert helped.n_iter_ < 100

    def test_passes_that_are_given_are_kept(self, few):
        with pytest.warns(ConvergenceWarning, match=r"not converge in 7 iterations.*max_iter=70"):
            clf = VBSVC(imputation=PAPER, inference=Variational(max_iter=7)).fit(*few)
        assert clf.n_iter_ == 7

    def test_sensitivity_says_that_its_fits_did_not_converge(self, few):
        with pytest.warns(ConvergenceWarning, match=r"2 of 2 fits did not converge, as at a shift of 0.*psi=10"):
            VBSVC(imputation=PAPER, inference=Variational(max_iter=5)).sensitivity(*few, [0, 0.1])


class TestSensitivity:
    def test_the_table_has_the_fits_of_the_shifts(self, frame):
        model = Model("y ~ age + bmi", frame)
        table = model.sensitivity([-0.5, 0, 0.5])
        assert list(table.index) == [-0.5, 0.0, 0.5]
        fit = Model("y ~ age + bmi", frame, imputation=GaussianImputation(mechanism=Shift(0.5))).fit()
        assert table.loc[0.5, "bmi"] == pytest.approx(fit.coef[1], rel=1e-3)
        assert table.loc[0.0, "changed predictions"] == 0
        assert table.attrs["columns"] == ["bmi"]

    def test_the_estimator_gives_the_same_and_stays_as_it_is(self, frame):
        X = frame[["age", "bmi"]]
        clf = VBSVC(prior=Normal(1e8))
        table = clf.sensitivity(X, frame["y"], [0.5], columns=["bmi"])
        assert not hasattr(clf, "fit_")
        assert table.loc[0.5, "bmi"] == pytest.approx(
            Model("y ~ age + bmi", frame, likelihood="hinge").sensitivity([0.5]).loc[0.5, "bmi"]
        )

    def test_what_is_wrong_is_said(self, frame):
        with pytest.raises(ValueError, match="no numeric predictor has missing values"):
            Model("y ~ age", frame).sensitivity([1.0])
        with pytest.raises(ValueError, match="'age' is not a column with missing"):
            Model("y ~ bmi + age", frame).sensitivity([1.0], columns=["age"])
        with pytest.raises(ValueError, match="two classes"):
            VBSVC().sensitivity(*load_iris(return_X_y=True), [1.0])

    @pytest.mark.parametrize(
        ("deltas", "columns", "message"),
        [
            ([], None, "deltas must be numbers"),
            (["a"], None, "deltas must be numbers"),
            (None, None, "deltas must be numbers"),
            ([1, [2]], None, "deltas must be numbers"),
            ([True], None, "deltas must be numbers"),
            ([0, np.nan], None, "standard deviations, from -100 to 100; got nan"),
            ([-1e5], None, r"standard deviations, from -100 to 100; got -100000[.]0"),
            ([10**400], None, "standard deviations, from -100 to 100; got 1000"),
            (np.linspace(-1, 1, 10_001), None, "10001 deltas are given, and each is a fit"),
            ([1.0], "bmi", "columns must be a list of column names; got 'bmi'"),
            ([1.0], 3, "columns must be a list of column names; got 3"),
            ([1.0], [], "columns is empty"),
            ([1.0], ["nope"], "'nope' is not a column with missing values"),
        ],
    )
    def test_shifts_and_columns_that_make_no_sense(self, frame, deltas, columns, message):
        with pytest.raises((ValueError, TypeError), match=message):
            Model("y ~ bmi", frame).sensitivity(deltas, columns=columns)

    def test_the_figure_marks_changes_of_sign(self):
        table = pd.DataFrame({"(intercept)": [0, 0, 0], "a": [1.0, 0.5, -0.5]}, index=[-1.0, 0.0, 1.0])
        ax = plots.sensitivity(table)
        circles = [line for line in ax.lines if line.get_marker() == "o"]
        assert [float(line.get_xdata()[0]) for line in circles] == [0.5]
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a"]


@pytest.fixture(scope="module")
def arms():
    """Rows with missing categories and inputs."""
    rng = np.random.default_rng(2)
    n = 300
    arm, sex = rng.choice(list("abc"), size=n, p=[0.5, 0.3, 0.2]), rng.choice(["f", "m"], size=n)
    x = rng.normal(size=n) + (arm == "b")
    y = np.where(x - 1 + 2 * (arm == "c") - (sex == "f") + rng.logistic(size=n) > 0, "ill", "well")
    frame = pd.DataFrame({"y": y, "x": x, "arm": arm, "sex": sex, "g": rng.integers(0, 6, size=n)})
    frame.loc[rng.random(n) < 0.2, "arm"] = None
    frame.loc[rng.random(n) < 0.2, "sex"] = None
    frame.loc[rng.random(n) < 0.2, "x"] = np.nan
    return frame


class TestCategories:
    FORMULA = "y ~ x * arm + sex + (1 | g)"

    def test_every_single_update_raises_the_bound(self, arms):
        model = Model(self.FORMULA, arms, {"fixed": Ridge()}, likelihood="hinge")
        rises = rises_by_update(model.spec, model._task.source, n_sweeps=10)
        assert rises.min() > -1e-10
        assert model._task.source.n_rows == 300

    def test_the_rows_are_the_mixture_over_levels(self, arms):
        """Row term and sums of one row against the alternatives written out by hand."""
        model = Model("y ~ arm + sex", arms.assign(x=0.0), {"fixed": Ridge()}, imputation=PAPER, likelihood="hinge")
        fit = model.fit()
        state, spec = fit.outcome.state, model.spec
        stats = mean_field_stats(spec, state, model._task.source)
        distribution, levels, categories = state.coefficients, state.missing.levels, model._task.reader.categories
        total, counts = 0.0, np.zeros(3)
        recipe = fit.plan.recipe
        for _, row in arms.iterrows():
            sign = 1.0 if row["y"] == fit.classes[1] else -1.0
            alternatives = []
            for a in range(3) if pd.isna(row["arm"]) else [list("abc").index(row["arm"])]:
                for b in range(2) if pd.isna(row["sex"]) else [["f", "m"].index(row["sex"])]:
                    raw = np.array([a == 1, a == 2, b == 1], dtype=float)
                    c = np.r_[1.0, (raw - recipe.centre) / recipe.scale]
                    h, v = 1 - sign * c @ distribution.mean, c @ distribution.covariance @ c
                    value = -(h + np.sqrt(h**2 + v))
                    chance = levels.logs[0][a] * (pd.isna(row["arm"])) + levels.logs[1][b] * (pd.isna(row["sex"]))
                    alternatives.append((value + chance, value, a))
            values = np.array([one[0] for one in alternatives])
            share = np.exp(values - special.logsumexp(values))
            total += share @ [one[1] for one in alternatives] - special.xlogy(share, share).sum()
            for weight, (_, _, a) in zip(share, alternatives, strict=True):
                counts[a] += weight
        assert list(categories.names) == ["arm", "sex"]
        assert stats.row_bound == pytest.approx(total, rel=1e-10)
        np.testing.assert_allclose(stats.missing.levels.counts[0], counts, rtol=1e-10)
        assert spec.missing.levels is not None

    def test_blocks_do_not_tear_alternatives_apart(self, arms, monkeypatch):
        whole = Model("y ~ x + arm * sex", arms, {"fixed": Ridge()}, likelihood="hinge").fit(TIGHT)
        monkeypatch.setattr("vbsvm.sources.memory.block_rows", lambda n_columns: 7)
        parts = Model("y ~ x + arm * sex", arms, {"fixed": Ridge()}, likelihood="hinge").fit(TIGHT)
        assert whole.elbo == pytest.approx(parts.elbo, abs=1e-8)

    def test_a_level_that_no_row_could_be_told_from_leaves_the_fit_alone(self, arms):
        """A category without effect: the other coefficients are those of a model without it."""
        complete = arms.dropna(subset=["x", "arm"]).reset_index(drop=True)
        without = Model("y ~ x + arm", complete, {"fixed": Normal(1.0)}, likelihood="hinge").fit(
            replace(TIGHT, bound="paper")
        )
        held = Model(
            "y ~ x + arm + sex", complete, {"fixed": Normal(1.0), "sex": Normal(1e-12)}, likelihood="hinge"
        ).fit(replace(TIGHT, bound="paper"))
        np.testing.assert_allclose(held.coef[:3], without.coef, atol=1e-5)

    def test_predictions_average_over_levels(self, arms):
        fit = Model("y ~ x + arm + sex", arms.dropna(), likelihood="hinge").fit()
        row = arms.dropna().head(1)
        lost = row.assign(arm=None)
        chances = 1 + arms.dropna()["arm"].value_counts().sort_index().to_numpy()
        scores = [fit.decision_function(row.assign(arm=level))[0] for level in "abc"]
        expected = chances @ scores / chances.sum()
        mean, sd = fit.decision_function(lost, return_std=True)
        assert mean[0] == pytest.approx(expected)
        between = chances @ np.square(scores - expected) / chances.sum()
        assert sd[0] > between**0.5
        assert fit.predict_proba(lost).shape == (1, 2)
        assert len(fit.predict(pd.concat([row, lost, row]))) == 3

    def test_the_summary_counts_categories_too(self, arms):
        table = Model(self.FORMULA, arms, {"fixed": Ridge()}, likelihood="hinge").fit().missing_summary()
        assert table["rows"].sum() == 300
        assert table.attrs["missing"] == {name: int(arms[name].isna().sum()) for name in ("x", "arm", "sex")}

    @pytest.mark.parametrize("imputation", [None, PAPER])
    def test_of_very_many_combinations_some_are_drawn(self, imputation):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({f"c{k}": rng.choice(list("abcd"), p=[0.4, 0.3, 0.2, 0.1], size=300) for k in range(16)})
        frame["y"] = np.where((frame["c0"] == "a") + rng.logistic(size=300) > 0.5, 1, 0)
        hidden = frame.astype(object)
        lost = [f"c{k}" for k in range(9)]
        hidden.loc[3, lost] = None
        model = Model(
            f"y ~ {' + '.join(lost)}",
            hidden.astype({"y": int}),
            {"fixed": Ridge()},
            imputation=imputation,
            likelihood="hinge",
        )
        fit = model.fit()
        assert fit.converged
        candidates = model._task.source.candidates
        assert 200 < (candidates.row == 3).sum() <= 256
        chances = candidates.softmax(candidates.log_prob(fit.outcome.state.missing.levels.logs))[candidates.row == 3]
        shares = np.bincount(candidates.levels[candidates.row == 3, 0], chances, minlength=4)
        np.testing.assert_allclose(shares, [0.4, 0.3, 0.2, 0.1], atol=0.12)
        every = hidden.drop(columns="y").tail(1).assign(**dict.fromkeys(lost))
        base, found = fit.decision_function(frame.head(1)), fit.decision_function(every)
        assert np.isfinite(found).all()
        assert np.abs(found).max() < 10 * (1 + np.abs(base).max())

    def test_weights_are_repetition(self, arms):
        s = np.random.default_rng(0).integers(1, 4, size=300)
        one = Model("y ~ x + arm", arms, {"fixed": Ridge()}, weights=s, likelihood="hinge").fit(TIGHT)
        other = Model("y ~ x + arm", arms.loc[np.repeat(arms.index, s)], {"fixed": Ridge()}, likelihood="hinge").fit(
            TIGHT
        )
        assert one.elbo == pytest.approx(other.elbo, abs=1e-6)
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-5)
