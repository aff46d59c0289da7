"""Missing inputs under the exact bound: against brute force, and where it is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from incomplete_models import PAPER, correlated, incomplete_model, incomplete_parts
from models import mean_field_stats
from vbsvm import VBSVC, GaussianImputation, Model, NotAtRandom, Shift, Variational, VBLogistic, load
from vbsvm.base.update_mode import mean_field
from vbsvm.missing import updates
from vbsvm.missing.distributions import KnownInputs
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.hinge import EXACT_HINGE
from vbsvm.model.likelihoods.logistic import EXACT_LOGISTIC
from vbsvm.model.row_pass import CompleteRows, RowPass
from vbsvm.model.sweep import row_term_fixed_weights

EXACT = Variational(bound="exact")
PAPERS = Variational(bound="paper")
TIGHT = Variational(bound="exact", tol=1e-9)


def fitted_state(n=60, d=3, seed=0, share=0.3, **settings):
    """A model with missing values under the exact hinge, and the state that the paper's bound leads to."""
    X, y = correlated(n, d, seed, share)
    spec, source = incomplete_model(X, y, **{"labels": "none"} | settings)
    state = Variational().run(spec, source).state
    return replace(spec, likelihood=EXACT_HINGE), source, state


def at(state, mean, covariance):
    root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(covariance))).T
    return state.with_coefficients(DenseGaussian(mean, root))


def with_inputs(spec, source, state):
    """Row term and that of the inputs together: the expected log likelihoods, and what the coefficients don't move."""
    stats = mean_field_stats(spec, state, source)
    return stats.row_bound + sum(spec.missing.bound(state.missing, stats.missing).values())


class TestRowTerm:
    @pytest.mark.parametrize("labels", ["regressor", "none"])
    def test_gradient_and_gram_are_its_derivatives(self, labels):
        assert self.errors(*fitted_state(labels=labels)) < 0.01

    @staticmethod
    def errors(spec, source, state):
        """Largest difference to central differences, with coefficients in units of their standard deviations."""
        mean, covariance = state.coefficients.mean, state.coefficients.covariance
        stats, root = mean_field_stats(spec, state, source), np.linalg.cholesky(covariance)
        assert row_term_fixed_weights(state, stats) == pytest.approx(stats.row_bound, rel=1e-10)

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

    def test_rows_whose_missing_values_are_all_but_known_are_complete_ones(self):
        _, source, state = fitted_state()
        inputs = state.missing.inputs
        n_variables = len(inputs.precision)
        state = replace(
            state, missing=replace(state.missing, inputs=KnownInputs(inputs.coefficients, 1e14 * np.eye(n_variables)))
        )
        row_pass = RowPass(EXACT_HINGE, state.coefficients, mean_field, True, state.missing)
        (part,) = incomplete_parts(source)
        found, rows = part.stats(row_pass), part.rows
        filled = rows.filled(np.where(rows.missing, rows.regressors @ inputs.coefficients, 0.0))
        complete = CompleteRows(filled).stats(replace(row_pass, missing=None))
        np.testing.assert_allclose(found.gram.matrix, complete.gram.matrix, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.cross, complete.cross, rtol=1e-5, atol=1e-5)
        entropy = 0.5 * rows.missing.sum() * (1 + np.log(2 * np.pi) - np.log(1e14))
        assert found.row_bound - entropy == pytest.approx(complete.row_bound, abs=1e-5)


class TestFixedRows:
    """Missing values that nothing moves: the score is taken for normal, with all of its variance."""

    @pytest.mark.parametrize("likelihood", [EXACT_HINGE, EXACT_LOGISTIC])
    def test_the_row_term_is_that_of_drawn_coefficients_and_values(self, likelihood):
        assert self.off_brute_force(likelihood) < 0.15

    def test_a_variance_that_leaves_the_spread_of_coefficients_out_is_seen(self, monkeypatch):
        right = updates.Cells.from_group

        def wrong(group, effects, precision):
            return right(group, replace(effects, covariance=0 * effects.covariance), precision)

        monkeypatch.setattr(updates.Cells, "from_group", wrong)
        assert self.off_brute_force(EXACT_HINGE) > 0.25

    @staticmethod
    def off_brute_force(likelihood):
        """Largest relative error of the change of the row term as the distribution of the coefficients widens."""
        _, source, state = fitted_state(n=80)
        (part,) = incomplete_parts(source)
        rows, inputs, rng, found, brute = part.rows, state.missing.inputs, np.random.default_rng(0), [], []
        z, noise = (np.concatenate([one, -one]) for one in rng.standard_normal((2, 20_000, 4)))
        rng.shuffle(noise)
        for widen in (0.5, 2.0, 4.0):
            mean, covariance = state.coefficients.mean, widen**2 * state.coefficients.covariance
            moved = at(state, mean, covariance)
            row_pass = RowPass(likelihood, moved.coefficients, mean_field, missing=moved.missing)
            found.append(part.stats(row_pass).row_bound)
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
                    total += likelihood.log_likelihood(rows.y[row] * scores).mean()
            brute.append(total)
        return np.abs(np.diff(found) / np.diff(brute) - 1.0).max()


class TestClimb:
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

    @pytest.mark.parametrize("settings", [{"labels": "none"}, {"mechanism": Shift(0.5)}, {"joint": True}])
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


class TestValuesThatAdapt:
    """Missing values that adapt to the labels have the augmented bound only."""

    REFUSED = r"does not support GaussianImputation.*use bound='augmented', or labels='regressor'"

    @pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
    def test_the_exact_bound_is_refused_in_words(self, kind):
        X, y = correlated(60, 3, seed=0)
        with pytest.raises(ValueError, match=self.REFUSED):
            kind(inference=EXACT, imputation=PAPER).fit(X, y)

    @pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
    @pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ z + a"])
    def test_so_it_is_in_formulas_with_inputs_or_categories(self, data, likelihood, formula):
        with pytest.raises(ValueError, match=self.REFUSED):
            Model(formula, data, imputation=PAPER, likelihood=likelihood).fit(EXACT)

    @pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
    def test_so_it_is_in_files(self, data, kind, tmp_path):
        data[["x", "z", "y"]].to_csv(tmp_path / "rows.csv", index=False)
        with pytest.raises(ValueError, match=self.REFUSED):
            kind(inference=EXACT, imputation=PAPER).fit_files(tmp_path / "rows.csv", "y")
        with pytest.raises(ValueError, match=self.REFUSED):
            Model("y ~ x + z", tmp_path / "rows.csv", imputation=PAPER).fit(EXACT)

    @pytest.mark.parametrize("kind", [VBSVC, VBLogistic])
    def test_the_default_is_the_augmented_bound(self, kind):
        X, y = correlated(60, 3, seed=0)
        default, augmented = (
            kind(inference=inference, imputation=PAPER).fit(X, y)
            for inference in (None, Variational(bound="augmented"))
        )
        np.testing.assert_array_equal(default.coef_, augmented.coef_)

    @pytest.fixture
    def data(self):
        X, y = correlated(60, 2, seed=0)
        data = pd.DataFrame({"x": X[:, 0], "z": np.nan_to_num(X[:, 1]), "a": list("abc") * 20, "y": y})
        data.loc[::7, "a"] = None
        return data
