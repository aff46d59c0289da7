"""Scores of rows left out, from one fit: against refits, against plain formulas, and in every layout."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from grouped_models import dense_twin, grouped_problems
from reference import simulate
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Normal, Ridge, Variational
from vbsvm.api import task as problem_module
from vbsvm.inference.leave_one_out import row_influence
from vbsvm.model.likelihoods.hinge import EXACT_HINGE, HINGE
from vbsvm.results.fit_predictions import mean_scores

TIGHT = Variational(tol=1e-10)


def influence_of(task, inference=TIGHT):
    fit = problem_module.fit_all([task], inference, seed=0)[0]
    return fit, row_influence(task.spec, fit.outcome, task.source)


def task_of(X, y, sample_weight=None, **settings):
    return VBSVC(**settings)._tasks(X, y, sample_weight)[0]


class TestAgainstRefits:
    @pytest.fixture(scope="class")
    @classmethod
    def refits(cls):
        """Every fifth row: scores of fits without it, and the influence in the fit with all."""
        X, y = simulate(200, 10, seed=0)
        _, rows = influence_of(task_of(X, y))
        which = np.arange(0, 200, 5)
        true = [
            VBSVC(inference=TIGHT).fit(np.delete(X, i, 0), np.delete(y, i)).decision_function(X[[i]])[0] for i in which
        ]
        return rows, which, np.array(true)

    @staticmethod
    def distance(refits, rows):
        _, which, true = refits
        return float(np.sqrt(np.mean(np.square(rows.left_out_scores(rows.s)[which] - true))))

    def test_they_are_close_to_refits(self, refits):
        rows = refits[0]
        nothing = self.distance(refits, replace(rows, response=np.zeros(200)))
        assert nothing > 0.1
        assert self.distance(refits, rows) < 0.2 * nothing

    def test_planted_errors_are_seen(self, refits):
        """The wrong sign, a response half as large, and the curvature left out."""
        rows = refits[0]
        right = self.distance(refits, rows)
        assert self.distance(refits, replace(rows, slope=-rows.slope)) > 5 * right
        assert self.distance(refits, replace(rows, response=0.5 * rows.response)) > 2 * right
        assert self.distance(refits, replace(rows, curvature=np.zeros(200))) > 1.3 * right


@pytest.mark.parametrize("likelihood", [HINGE, EXACT_HINGE], ids=["paper", "exact"])
def test_a_dense_fit_by_plain_formulas(likelihood):
    X, y = simulate(60, 4, seed=1)
    bound = "exact" if likelihood is EXACT_HINGE else "augmented"
    task = task_of(X, y)
    fit, rows = influence_of(task, Variational(tol=1e-10, bound=bound))
    C = np.column_stack([np.ones(60), (X - X.mean(0)) / X.std(0)])
    state, labels = fit.outcome.state, np.where(y == np.unique(y)[1], 1.0, -1.0)
    f, v = C @ state.coefficients.mean, np.einsum("ij,jk,ik->i", C, state.coefficients.covariance, C)

    def slope(f):
        return likelihood.slopes(f, v, labels, np.ones(60))[1]

    curvature = -(slope(f + 1e-6) - slope(f - 1e-6)) / 2e-6
    H = C.T @ (curvature[:, None] * C) + np.diag(task.spec.precision(state).diagonal)
    V = np.einsum("ij,jk,ik->i", C, np.linalg.inv(H), C)
    np.testing.assert_allclose(rows.score, f, rtol=1e-9)
    np.testing.assert_allclose(rows.slope, slope(f), rtol=1e-9)
    np.testing.assert_allclose(rows.curvature, curvature, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(rows.response, V, rtol=1e-5)
    expected = f - V * slope(f) / np.maximum(1 - V * curvature, 0.05)
    np.testing.assert_allclose(rows.left_out_scores(rows.s), expected, rtol=1e-4, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(grouped_problems())
def test_groups_give_what_their_columns_written_out_give(problem):
    spec, memory = problem
    plain = Variational(accelerate=False, max_iter=6)
    twin = dense_twin(memory)
    found = row_influence(spec, plain.run(spec, memory), memory)
    expected = row_influence(spec, plain.run(spec, twin), twin)
    for name in ("y", "score", "slope", "curvature", "response"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("prior", [Ridge(), Normal(0.5), LaplaceZero(rho=0.1)])
def test_the_dual_layout_gives_the_dense_one(prior, monkeypatch):
    X, y = simulate(30, 90, seed=0)
    _, dual = influence_of(task_of(X, y, prior=prior), Variational(tol=1e-11))
    monkeypatch.setattr(problem_module, "MAX_UNPENALISED", -1)
    _, dense = influence_of(task_of(X, y, prior=prior), Variational(tol=1e-11))
    for name in ("score", "slope", "response"):
        np.testing.assert_allclose(getattr(dual, name), getattr(dense, name), rtol=1e-3, atol=1e-4, err_msg=name)


def test_gates_are_applied_to_the_curvature():
    X, y = simulate(80, 5, seed=3)
    task = task_of(X, y, prior=LaplaceZero(rho=0.5))
    fit, rows = influence_of(task)
    state, source = fit.outcome.state, task.source
    C = np.column_stack([np.ones(80), (X - X.mean(0)) / X.std(0)])
    w = np.sqrt(
        1
        / (
            np.square(1 - rows.y * rows.score)
            + state.coefficients.effective(state.gates).row_moments(source._single_block._parts[0].rows)[1]
        )
    )
    opened, spread = state.gates.by_coefficient, state.gates.variance
    H = np.outer(opened, opened) * (C.T @ (rows.curvature[:, None] * C))
    H += np.diag(spread * np.einsum("ij,i,ij->j", C, w, C) + task.spec.precision(state).diagonal)
    covariance = np.linalg.inv(H)
    expected = np.outer(opened, opened) * covariance + np.diag(spread * covariance.diagonal())
    np.testing.assert_allclose(rows.response, np.einsum("ij,jk,ik->i", C, expected, C), rtol=1e-8)


def test_a_weight_is_a_number_of_rows():
    X, y = simulate(80, 3, seed=2)
    counts = np.random.default_rng(0).integers(1, 4, size=80)
    fit, weighted = influence_of(task_of(X, y, counts), Variational(tol=1e-12))
    _, repeated = influence_of(task_of(np.repeat(X, counts, 0), np.repeat(y, counts)), Variational(tol=1e-12))
    firsts = np.cumsum(counts) - counts
    expected = repeated.left_out_scores(repeated.s)[firsts]
    np.testing.assert_allclose(weighted.left_out_scores(weighted.s), expected, rtol=1e-5, atol=1e-5)
    whole = weighted.left_out_scores(np.ones(80))
    assert np.abs(whole - expected)[counts > 1].max() > 1e-2
    again = VBSVC(inference=Variational(tol=1e-12)).fit(np.repeat(X, counts, 0), np.repeat(y, counts)).fit_[0]
    assert fit._link.slope == pytest.approx(again._link.slope, rel=1e-5)


def test_rows_that_miss_inputs_have_the_scores_of_prediction():
    """Not those with the values that suit their labels."""
    X, y = simulate(150, 4, seed=5)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    task = task_of(X, y)
    fit, rows = influence_of(task)
    found = mean_scores(fit, task.encoded(slice(None)))
    # The population's distribution has the covariance of all inputs at its mean: the same up to the prior.
    order, expected = np.argsort(rows.score), np.argsort(found.mean)
    np.testing.assert_allclose(rows.score[order], found.mean[expected], atol=0.05)
    assert np.corrcoef(np.sort(rows.missing_variance), np.sort(found.from_unknown))[0, 1] > 0.99
    assert rows.missing_variance.max() > 0.01
    assert (rows.missing_variance == 0).sum() == (~np.isnan(X).any(axis=1)).sum()


def test_candidates_of_a_missing_category_are_averaged():
    X, y = simulate(120, 2, seed=6)
    rng = np.random.default_rng(2)
    arm = np.where(rng.random(120) < 0.2, None, rng.choice(["a", "b", "c"], 120))
    data = pd.DataFrame(X, columns=["x", "z"]).assign(y=y, arm=arm)
    model = Model("y ~ x + z + arm", data, likelihood="hinge")
    fit, rows = influence_of(model._task)
    assert len(rows.score) == 120
    np.testing.assert_allclose(rows.score, fit.decision_function(data), atol=0.02)
    lost = pd.isna(arm)
    assert (rows.missing_variance[lost] > 0).all()
    assert (rows.missing_variance[~lost] == 0).all()


def test_after_sampling_they_agree_with_those_of_the_exact_bound():
    X, y = simulate(120, 4, seed=7)
    task = task_of(X, y)
    sample = Gibbs(draws=1500, tune=500, chains=2).run(task.spec, task.source, seed=1)
    drawn = row_influence(task.spec, sample, task.source)
    _, exact = influence_of(task, Variational(bound="exact"))
    both = drawn.left_out_scores(drawn.s), exact.left_out_scores(exact.s)
    moved = np.abs(both[1] - exact.score)
    assert np.abs(both[0] - both[1]).max() < 0.4 * moved.max()
    assert np.corrcoef(both[0] - drawn.score, both[1] - exact.score)[0, 1] > 0.95
