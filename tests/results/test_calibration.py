"""Calibrated probabilities: the link, how it is learned, and what users get in every kind of fit."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.datasets import load_iris

import vbsvm
from reference import simulate
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Variational
from vbsvm.results import calibration
from vbsvm.results.calibration import Calibration, LeftOutScores, log_odds
from vbsvm.storage import saving


def rows_of(y, scores, s=None):
    """Rows of which nothing is unknown."""
    return LeftOutScores(y, np.ones(len(y)) if s is None else s, scores, np.zeros(len(y)))


def calibrate(rows):
    return calibration.calibrate([rows])[0]


def labels(rng, chances):
    return np.where(rng.random(len(chances)) < chances, 1.0, -1.0)


class TestLink:
    sizes = st.floats(1e-6, 1e6)

    @given(sizes, st.floats(0.0, 1e3), st.one_of(st.just(0.0), sizes, st.just(np.inf)))
    def test_it_rises_is_odd_and_keeps_the_sign(self, slope, bend, variance):
        f = np.r_[0.0, np.logspace(-9, 9, 150)]
        f = np.r_[-f[:0:-1], f]
        found = log_odds([Calibration(slope, bend)], f[:, None], np.full((len(f), 1), variance))[:, 0]
        assert (np.diff(found) >= 0).all()
        assert (np.sign(found) == np.sign(f)).all()
        np.testing.assert_array_equal(found, -found[::-1])
        chances = expit(found)
        assert (chances[f > 0] > 0.5).all()
        assert (chances[f < 0] < 0.5).all()

    @given(st.lists(st.tuples(sizes, st.floats(0.0, 1e3)), min_size=3, max_size=5), st.integers(0, 2**32 - 1))
    def test_the_largest_of_several_belongs_to_the_largest_value(self, parameters, seed):
        models = [Calibration(*one) for one in parameters]
        slopes = np.array([one.slope for one in models])
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((50, len(models))) * 10.0 ** rng.uniform(-3, 12, size=(50, 1))
        variances = 10.0 ** rng.uniform(-3, 3, size=values.shape) / np.square(slopes)
        found = log_odds(models, values / slopes, variances)
        np.testing.assert_array_equal(found.argmax(axis=1), (values / slopes * slopes).argmax(axis=1))

    def test_unknown_parts_are_averaged_over(self):
        """Close to the mean of the curve over normal scores; without the variance it is not."""
        z = np.random.default_rng(0).standard_normal(200_000)
        f = np.linspace(-4, 4, 17)
        for sd in (0.3, 1.0, 3.0):
            expected = expit(1.5 * (f[:, None] + sd * z)).mean(axis=1)
            of_variance = [log_odds([Calibration(1.5)], f[:, None], np.full((17, 1), v)) for v in (sd**2, 0.0)]
            right, wrong = (np.abs(expit(one[:, 0]) - expected).max() for one in of_variance)
            assert right < 0.02
            assert wrong > 0.02 + right or sd < 1


def objective_of(rows):
    """What slope and bend of these rows minimise."""
    square = float(rows.s @ np.square(rows.f) / rows.s.sum())
    return calibration._Objective(rows, calibration._median(np.abs(rows.f), rows.s), square)


class TestLearning:
    @pytest.mark.parametrize("seed", range(6))
    def test_the_optimum_is_that_of_a_general_method(self, seed):
        rng = np.random.default_rng(seed)
        f = rng.standard_t(3, size=300)
        s, u = rng.gamma(2.0, size=300), np.where(rng.random(300) < 0.3, rng.gamma(1.0, size=300), 0.0)
        y = labels(rng, expit([0.5, 2.0, 8.0][seed % 3] * f / np.sqrt(1 + (seed > 2) * f * f)))
        objective = objective_of(LeftOutScores(y, s, f, u, 0.3))
        learned = calibrate(objective.rows)
        a, b = learned.slope, learned.bend
        found = objective.evaluate(np.array([np.log(a), b * a * a * objective.square]))[0]
        best = min(
            minimize(lambda x: objective.evaluate(np.array([x[0], abs(x[1])]))[0], x0, method="Nelder-Mead").fun
            for x0 in ([0.0, 0.1], [1.0, 1.0], [0.0, 10.0])
        )
        assert found <= best + 1e-6 * abs(best)

    def test_slopes_are_derivatives_of_the_objective(self):
        rng = np.random.default_rng(1)
        f = rng.standard_normal(50)
        rows = LeftOutScores(labels(rng, expit(f)), rng.gamma(2.0, size=50), f, rng.gamma(1.0, size=50), -0.4)
        objective, at = objective_of(rows), np.array([0.3, 0.7])
        _, gradient, _ = objective.evaluate(at)
        changes = [(objective.evaluate(at + d)[0] - objective.evaluate(at - d)[0]) / 2e-6 for d in 1e-6 * np.eye(2)]
        np.testing.assert_allclose(gradient, changes, rtol=1e-6)
        # Without labels of its own the objective would be another one.
        wrong = objective_of(replace(rows, y=-rows.y)).evaluate(at)[1]
        assert np.abs(wrong - changes).max() > 1

    def test_a_known_curve_is_found_again(self):
        rng = np.random.default_rng(2)
        f = 2 * rng.standard_normal(20_000)
        straight = calibrate(rows_of(labels(rng, expit(1.7 * f)), f))
        assert straight.slope == pytest.approx(1.7, rel=0.05)
        assert straight.bend < 0.01
        bent = calibrate(rows_of(labels(rng, expit(1.7 * f / np.sqrt(1 + 0.3 * np.square(1.7 * f)))), f))
        assert bent.slope == pytest.approx(1.7, rel=0.15)
        assert bent.bend == pytest.approx(0.3, rel=0.2)

    def test_bins_change_next_to_nothing(self, monkeypatch):
        rng = np.random.default_rng(3)
        f = rng.standard_t(4, size=20_000)
        rows = rows_of(labels(rng, expit(f)), f, rng.gamma(2.0, size=len(f)))
        binned = calibrate(rows)
        monkeypatch.setattr(calibration, "MAX_ROWS", 10**9)
        plain = calibrate(rows)
        assert binned.slope == pytest.approx(plain.slope, rel=1e-4)
        assert binned.bend == pytest.approx(plain.bend, rel=1e-3, abs=1e-5)
        monkeypatch.setattr(calibration, "MAX_ROWS", 10)
        monkeypatch.setattr(calibration, "BINS", 8)
        assert abs(calibrate(rows).slope - plain.slope) > 1e-3 * plain.slope

    def test_a_weight_is_a_number_of_rows(self):
        rng = np.random.default_rng(4)
        f, counts = rng.standard_normal(60), rng.integers(1, 4, size=60)
        y = labels(rng, expit(2 * f))
        weighted = calibrate(rows_of(y, f, counts.astype(float)))
        repeated = calibrate(rows_of(np.repeat(y, counts), np.repeat(f, counts)))
        assert weighted.slope == pytest.approx(repeated.slope, rel=1e-9)

    def test_where_all_rows_are_on_their_side_the_slope_is_finite(self):
        f = np.r_[np.full(30, -1.5), np.full(30, 1.5)]
        found = calibrate(rows_of(np.sign(f), f))
        assert 0.97 < expit(found.slope * 1.5) < 0.999

    @pytest.mark.parametrize("scores", [np.zeros(8), np.full(8, 1e-300), np.full(8, 1e200)])
    def test_scores_that_say_nothing_give_the_prior_slope(self, scores):
        found = calibrate(rows_of(np.tile([-1.0, 1.0], 4), scores))
        assert 0 < found.slope < np.inf
        assert np.isfinite(found.bend)

    def test_wrong_scores_keep_a_positive_slope(self):
        f = np.linspace(-2, 2, 40)
        assert 0 < calibrate(rows_of(-np.sign(f), f)).slope < 0.1


KINDS = {
    "plain": lambda X, y: VBSVC().fit(X, y),
    "exact": lambda X, y: VBSVC(inference=Variational(bound="exact")).fit(X, y),
    "gates": lambda X, y: VBSVC(prior=LaplaceZero(rho=0.3)).fit(X, y),
    "draws": lambda X, y: VBSVC(inference=Gibbs(draws=300, tune=200, chains=2), random_state=1).fit(X, y),
    "weights": lambda X, y: VBSVC().fit(X, y, sample_weight=1.0 + np.arange(len(y)) % 3),
}


@pytest.mark.filterwarnings("ignore:VBSVC")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_add_to_one_rise_with_the_score_and_agree_with_predict(kind, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[50 * (3 - n_classes) :], y[50 * (3 - n_classes) :]
    clf = KINDS[kind](X, y)
    p, values = clf.predict_proba(X), clf.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    assert (clf.slopes_ > 0).all()
    raw = X @ clf.coef_.T + clf.intercept_
    if n_classes == 2:
        assert (np.diff(p[np.argsort(values), 1]) >= 0).all()
        np.testing.assert_allclose(raw[:, 0], values, atol=1e-9)
    else:
        np.testing.assert_allclose(clf.slopes_ * raw, values, atol=1e-9)
        assert np.ptp(clf.slopes_) > 0.1
    np.testing.assert_allclose(clf.to_sklearn().decision_function(X), values, atol=1e-9)


def test_they_are_better_than_the_pseudo_likelihood_on_new_rows():
    gains = []
    for seed in range(4):
        X, y = simulate(1200, 10, seed=seed)
        clf = VBSVC().fit(X[:200], y[:200])
        truth = (y[200:] > 0).astype(int)
        ours, pseudo = (
            -np.log(p[np.arange(1000), truth]).mean()
            for p in (clf.predict_proba(X[200:]), clf.pseudo_probability(X[200:]))
        )
        gains.append(pseudo / ours)
    assert min(gains) > 1.1


class TestNoise:
    @pytest.mark.parametrize("base", [0.5, 0.2, 0.05])
    def test_noise_has_the_base_rate(self, base):
        rng = np.random.default_rng(int(100 * base))
        X, y = rng.standard_normal((1000, 6)), (rng.random(1000) < base).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = VBSVC().fit(X, y)
        p = clf.predict_proba(rng.standard_normal((500, 6)))[:, 1]
        assert np.abs(p - y.mean()).max() < 0.06
        assert np.abs(p - y.mean()).mean() < 0.02
        assert np.abs(clf.pseudo_probability(X)[:, 1] - y.mean()).mean() > (0.02 if base < 0.5 else 0.0)

    def test_noise_in_several_classes_has_the_base_rates(self, monkeypatch):
        rng = np.random.default_rng(2)
        X, y = rng.standard_normal((400, 4)), rng.choice(3, 400, p=[0.8, 0.15, 0.05])
        base = np.bincount(y) / 400
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.abs(VBSVC().fit(X, y).predict_proba(X) - base).mean() < 0.02
            monkeypatch.setattr(calibration, "_tempered", lambda calibrations, models: calibrations)
            assert np.abs(VBSVC().fit(X, y).predict_proba(X) - base).mean() > 0.05

    def test_few_rows_of_a_class(self):
        rng = np.random.default_rng(3)
        X = rng.standard_normal((60, 3))
        y = np.r_[np.zeros(58, int), 1, 2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p = VBSVC().fit(X, y).predict_proba(X)
        np.testing.assert_allclose(p.mean(axis=0), [0.95, 0.025, 0.025], atol=0.04)


class TestClassWeights:
    @pytest.fixture(scope="class")
    @classmethod
    def rare(cls):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((3000, 4))
        return X, (rng.random(3000) < expit(2 * X[:, 0] - 3.5)).astype(int)

    def test_probabilities_speak_of_the_sample_without_class_weights(self, rare):
        X, y = rare
        clf = VBSVC(class_weight="balanced").fit(X, y)
        p, predicted = clf.predict_proba(X)[:, 1], clf.predict(X)
        assert p.mean() == pytest.approx(y.mean(), abs=0.02)
        assert predicted.mean() > 2 * y.mean()
        of_predicted = p[predicted == 1].mean()
        assert of_predicted == pytest.approx(y[predicted == 1].mean(), abs=0.05)
        by_weights = VBSVC().fit(X, y, sample_weight=np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean())))
        np.testing.assert_allclose(by_weights.coef_, clf.coef_, atol=1e-4)
        assert by_weights.predict_proba(X)[:, 1].mean() > 1.5 * y.mean()

    def test_equal_class_weights_change_nothing_but_the_penalty(self, rare):
        X, y = rare
        clf = VBSVC(class_weight={0: 1.0, 1: 1.0}).fit(X, y)
        np.testing.assert_allclose(clf.predict_proba(X), VBSVC().fit(X, y).predict_proba(X), rtol=1e-9)
        assert clf.fit_[0]._link.offset == 0.0

    def test_several_classes(self, rare):
        X, y = rare
        y = np.where(X[:, 1] > 1.2, 2, y)
        p = VBSVC(class_weight="balanced").fit(X, y).predict_proba(X)
        np.testing.assert_allclose(p.mean(axis=0), np.bincount(y) / len(y), atol=0.06)


class TestFiles:
    def test_a_file_without_calibration_falls_back_to_the_pseudo_likelihood(self, tmp_path, monkeypatch):
        X, y = load_iris(return_X_y=True)
        clf = VBSVC().fit(X, y)
        encode = saving.REGISTRY.encode

        def older(content, kind):
            fits = [{name: one for name, one in fit.items() if name != "calibration"} for fit in content["fits"]]
            return encode(content | {"fits": fits}, kind)

        clf.save(tmp_path / "new")
        monkeypatch.setattr(saving.REGISTRY, "encode", older)
        clf.save(tmp_path / "old")
        new, old = vbsvm.load(tmp_path / "new"), vbsvm.load(tmp_path / "old")
        assert new.fit_[0].calibration == clf.fit_[0].calibration
        np.testing.assert_array_equal(new.predict_proba(X), clf.predict_proba(X))
        assert old.fit_[0].calibration is None
        np.testing.assert_array_equal(old.predict_proba(X), clf.pseudo_probability(X))
        np.testing.assert_allclose(old.decision_function(X), clf.decision_function(X) / clf.slopes_)
        np.testing.assert_array_equal(old.classes_[old.predict_proba(X).argmax(axis=1)], old.predict(X))
        np.testing.assert_array_equal(old.slopes_, 1.0)


class TestPredictive:
    def test_it_has_the_moments_of_scores(self):
        X, y = simulate(100, 3, seed=0)
        frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(100) + 7)
        clf, fit = VBSVC().fit(frame, y), Model("y ~ a + b + c", frame.assign(y=y), likelihood="hinge").fit()
        for found, scores in ((clf.predictive(frame), clf.decision_function(frame)), (fit.predictive(frame), None)):
            assert list(found.columns) == ["estimate", "std_error", "p_positive"]
            assert (found.index == frame.index).all()
            assert (found["std_error"] > 0).all()
            if scores is not None:
                np.testing.assert_allclose(found["estimate"], scores)
        mean, sd = fit.decision_function(frame, return_std=True)
        found = fit.predictive(frame)
        np.testing.assert_allclose(found[["estimate", "std_error"]], np.column_stack([mean, sd]))
        draws = mean + sd * np.random.default_rng(0).standard_normal((40_000, 1))
        np.testing.assert_allclose(found["p_positive"], (draws > 0).mean(axis=0), atol=0.01)
        assert "note" in found.attrs

    def test_several_classes(self):
        X, y = load_iris(return_X_y=True)
        clf = VBSVC().fit(X, y)
        found = clf.predictive(X)
        assert found.shape == (450, 3)
        np.testing.assert_allclose(found.loc[2, "estimate"], clf.decision_function(X)[:, 2] / clf.slopes_[2])


def test_groups_and_missing_inputs_are_averaged_over():
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(40), 10)
    X = rng.standard_normal((400, 2))
    effect = 2 * rng.standard_normal(40)[g]
    data = pd.DataFrame(X, columns=["a", "b"]).assign(g=g, y=labels(rng, expit(2 * X[:, 0] + effect)) > 0)
    fit = Model("y ~ a + b + (1 | g)", data, likelihood="hinge").fit()
    rows = data.assign(a=np.linspace(-3, 3, 400))
    known, new = fit.predict_proba(rows)[:, 1], fit.predict_proba(rows.assign(g=99))[:, 1]
    scores, of_new = fit.decision_function(rows), fit.decision_function(rows.assign(g=99))
    assert ((known > 0.5) == (scores > 0)).all()
    assert ((new > 0.5) == (of_new > 0)).all()
    same = log_odds([fit._link], of_new[:, None], np.zeros((400, 1)))[:, 0]
    assert (np.abs(new - 0.5) < np.abs(expit(same) - 0.5)).all()
    loss = -log_expit(
        np.where(data["y"], 1, -1) * np.log(fit.predict_proba(data)[:, 1] / fit.predict_proba(data)[:, 0])
    )
    assert loss.mean() < 0.45
