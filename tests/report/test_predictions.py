"""What a report says of predictions: rivals that were left out themselves, and verdicts that find planted faults."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_softmax, ndtri
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

import vbsvm
from page_outline import outline
from vbsvm import VBSVC, Files, Gibbs, LaplaceZero, Model
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import checks, evaluation
from vbsvm.report.evaluation import Owner
from vbsvm.results.comparison import leave_one_out
from vbsvm.results.comparison.leave_one_out import LeftOutRows


def rows_of(truth, chances, groups=None, weights=None):
    truth, chances = np.asarray(truth, dtype=np.intp), np.asarray(chances, dtype=float)
    with np.errstate(divide="ignore"):
        logs = np.stack([np.log1p(-chances), np.log(chances)], axis=1)
    scores = (chances - 0.5)[:, None]
    known = {} if groups is None else {"g": np.asarray(groups)}
    weights = np.ones(len(truth)) if weights is None else weights
    decided = (chances > 0.5).astype(np.intp)
    return LeftOutRows(truth, decided, weights, scores, scores, logs, np.arange(len(truth)), known)


def made(truth, chances, *, baselines=None, weights=None, optimistic=False):
    rows = rows_of(truth, chances, weights=weights)
    known = evaluation.EvaluatedRows(rows, np.zeros(2))
    return evaluation.Evaluation(
        True, rows, ("no", "yes"), False, evaluation.predict_base_rates(known), baselines or {}, None, optimistic
    )


class Table:
    """Inputs as effects know them."""

    def __init__(self, frame):
        self.frame = frame

    def column(self, name):
        return self.frame[name]

    def levels(self, name):
        return None if self.frame[name].dtype == float else sorted(self.frame[name].unique())


def simulated(n, rng):
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["arm"] = rng.choice(["x", "y", "z"], n)
    truth = (frame["b"] + 0.7 * (frame["arm"] == "x") + rng.logistic(size=n) > 0).to_numpy(dtype=np.intp)
    return frame, truth


def by_brute_force(frame, truth, row):
    """The best single column without a row, by its definition, and what it says of the row."""
    others = np.arange(len(truth)) != row
    shares, best = np.bincount(truth) / len(truth), (np.inf, None)
    for name in frame:
        if frame[name].dtype == float:
            columns = [ndtri((rankdata(frame[name]) - 0.5) / len(truth))]
        else:
            columns = [(frame[name] == level).to_numpy(dtype=float) for level in sorted(frame[name].unique())]
        for x in columns:
            means = [x[others & (truth == k)].mean() for k in (0, 1)]
            within = sum(((x[others & (truth == k)] - means[k]) ** 2).sum() for k in (0, 1))
            around = ((x[others] - x[others].mean()) ** 2).sum()
            variance = within / (others.sum() - 2)
            said = log_softmax(np.log(shares) - 0.5 * (x[row] - np.array(means)) ** 2 / variance)
            if within / around < best[0]:
                best = within / around, said
    return best[1]


def test_one_input_alone_is_chosen_and_fitted_without_the_row():
    frame, truth = simulated(40, np.random.default_rng(0))
    known = evaluation.EvaluatedRows(rows_of(truth, np.full(40, 0.5)), np.zeros(2))
    found = evaluation.best_single_input(known, Table(frame), list(frame))
    expected = np.array([by_brute_force(frame, truth, row)[truth[row]] for row in range(40)])
    np.testing.assert_allclose(found.log_probability, expected, rtol=1e-9)
    assert found.scheme in ("b", "arm")
    assert evaluation.best_single_input(known, Table(frame), ["a"]) is None


def test_missing_numbers_are_at_the_median_and_of_several_classes_one_input_serves_all():
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 40)
    frame = pd.DataFrame({"noise": rng.normal(size=120), "x": truth + 0.3 * rng.normal(size=120)})
    frame.loc[::9, "x"] = np.nan
    rows = rows_of(truth, np.full(120, 0.5))
    known = evaluation.EvaluatedRows(SimpleRows.of(rows, 3), np.zeros(3))
    found = evaluation.best_single_input(known, Table(frame), list(frame))
    assert found.scheme == "x"
    assert found.error.value < 0.25


class SimpleRows:
    """Rows of more classes."""

    @staticmethod
    def of(rows, k):
        return LeftOutRows(
            rows.truth, rows.decided, rows.weights, rows.scores, rows.fitted, np.zeros((len(rows.truth), k)), None, {}
        )


def test_the_other_rows_of_a_group_do_not_include_the_row():
    truth, groups = np.array([0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 2])
    known = evaluation.EvaluatedRows(rows_of(truth, np.full(5, 0.5), groups), np.zeros(2))
    found = np.exp(evaluation.other_rows_of_group(known, "g").log_probability)
    np.testing.assert_allclose(found, [0.4 / 3, 1.6 / 3, 1.6 / 3, 0.4, 0.6])


def test_the_shares_of_the_classes_are_wrong_as_often_as_the_others_are_there():
    one = made([0] * 30 + [1] * 10, np.full(40, 0.2))
    assert one.base_rates.error.value == 0.25
    assert one.base_rates.log_loss.value == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert one.most_common == "no"
    assert one.auc(one.base_rates) == 0.5


def test_the_auc_is_that_of_scikit_learn_ties_and_weights_included():
    rng = np.random.default_rng(0)
    truth, weights = rng.integers(0, 2, 200), rng.integers(1, 4, 200).astype(float)
    chances = np.round(expit(truth + rng.normal(size=200)), 1).clip(0.05, 0.95)
    one = made(truth, chances, weights=weights)
    assert one.auc(one.model) == pytest.approx(roc_auc_score(truth, chances, sample_weight=weights))


def simulated_chances(n, seed=0):
    rng = np.random.default_rng(seed)
    log_odds = 2 * rng.normal(size=n)
    return (rng.random(n) < expit(log_odds)).astype(int), log_odds


def calibration_verdict(truth, chances):
    found = Predicted(chances - 0.5, chances, truth == 1, ("no", "yes"), np.ones(len(truth)))
    (said,) = checks.calibration_checks(made(truth, chances), [found])
    return said


def test_verdicts_on_calibration_find_planted_errors():
    truth, log_odds = simulated_chances(2000)
    assert calibration_verdict(truth, expit(log_odds)).good
    for planted, said in (
        (2 * log_odds, "too extreme"),
        (0.5 * log_odds, "not extreme enough"),
        (log_odds + 0.6, "Miscalibrated on average"),
    ):
        found = calibration_verdict(truth, expit(planted))
        assert not found.good
        assert said in found.text


def test_a_curve_of_the_wrong_shape_is_not_called_calibrated():
    """Right on average and with a slope near 1, which a link that was fitted to the same rows always has."""
    truth, log_odds = simulated_chances(4000)
    assert calibration_verdict(truth, expit(log_odds)).text.startswith("Well calibrated")
    found = calibration_verdict(truth, expit(log_odds + 0.8 * np.sin(2.0 * log_odds)))
    assert not found.good
    assert "Not calibrated: in one fifth of the observations" in found.text


def test_few_rows_are_said_to_tell_little():
    truth, log_odds = simulated_chances(30)
    assert "but the observations are few" in calibration_verdict(truth, expit(log_odds)).text
    truth = np.arange(200) % 2
    said = calibration_verdict(truth, 0.5 + 0.001 * np.sin(np.arange(200.0) ** 2))
    assert "but the probabilities are not informative" in said.text


def test_verdicts_on_predictions_are_about_more_than_chance():
    truth, log_odds = simulated_chances(500)
    one = made(truth, expit(log_odds))
    first, *rest = checks.prediction_checks(one, hinge=True)
    assert first.good
    assert first.text.startswith("Misclassification rate ")
    assert rest == []
    blind = made(truth, expit(np.random.default_rng(9).permutation(log_odds)))
    first, *_ = checks.prediction_checks(blind, hinge=True)
    assert not first.good
    assert "no better than the class proportions" in first.text
    better = made(truth, expit(log_odds), baselines={"x alone": blind.model, "itself": one.model})
    said = [(verdict.good, verdict.text) for verdict in checks.prediction_checks(better, hinge=True)][1:]
    assert [good for good, _ in said] == [True, False]
    assert "Not clearly better than itself" in said[1][1]


@pytest.mark.parametrize("hinge", [True, False])
def test_a_model_that_predicts_one_class_says_so_first(hinge):
    rng = np.random.default_rng(0)
    truth = (rng.random(300) < 0.2).astype(int)
    first, *rest = checks.prediction_checks(made(truth, np.full(300, 0.2) + 0.1 * truth), hinge=hinge)
    assert not first.good
    assert first.text.startswith(f"The model always predicts “no”, although {truth.sum()} observations are “yes”")
    assert ("do not rule out an association" in first.text) == hinge
    assert "the probabilities are informative" in rest[0].text
    assert rest[0].good != hinge


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 200
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["g"] = np.arange(n) % 20
    score = frame["a"] - frame["b"] + rng.normal(size=20)[frame["g"]] + rng.logistic(size=n)
    frame["y"] = np.where(score > 0, "yes", "no")
    return frame


def summary_of(page):
    """The verdicts of the first section, in order."""
    words = page.words
    return words[words.index("AUC") : words.index("Predictive performance", words.index("AUC"))]


def test_the_page_leads_with_the_error_of_left_out_rows(data, tmp_path):
    fit = Model("y ~ a + b + c", data).fit()
    page, left_out = outline(fit.report(tmp_path / "r.html")), fit.left_out_predictions()
    assert f"{100 * left_out.error.value:.1f} % misclassified (leave-one-out)" in page.figures
    assert f"log loss the model {100 * left_out.error.value:.1f} % {100 * left_out.error.se:.1f}" in page.words
    assert f"{left_out.log_loss.value:.3f}" in page.words
    said = summary_of(page)
    assert (
        said.index("Misclassification rate") < said.index("alone") < said.index("alibrated") < said.index("converged")
    )


def test_groups_have_a_line_for_new_ones_and_their_own_standard_errors(data, tmp_path):
    fit = Model("y ~ a + b + (1 | g)", data).fit()
    page = outline(fit.report(tmp_path / "r.html"))
    assert "Standard errors are clustered on g" in page.words
    new = fit.predict_proba(data.assign(g=999))[:, 1]
    error = ((new > 0.5) != (data["y"] == "yes")).mean()
    assert f"the model, new levels {100 * error:.1f} %" in page.words
    assert "cross_validate(model, groups='g')" in page.words


def test_weights_of_classes_lead_with_the_balanced_error(data, tmp_path):
    X, rare = data[["a", "b"]], np.where(data["a"] > 1.0, "rare", "common")
    clf = VBSVC(class_weight="balanced").fit(X, rare)
    page = outline(clf.report(tmp_path / "r.html"))
    balanced = clf.left_out_predictions().balanced_error.value
    assert f"{100 * balanced:.1f} % balanced error (leave-one-out)" in page.figures
    assert not any("always predicting" in one for one in page.figures)


def test_inputs_chosen_among_many_do_not_pass_for_good_predictions(tmp_path, monkeypatch):
    """By refits they are chosen again; without refits it is said that they were chosen with all rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 80)), np.arange(40) % 2
    clf = VBSVC(LaplaceZero(0.05)).fit(X, y)
    page = outline(clf.report(tmp_path / "r.html"))
    assert "each observation is predicted by a refit without it" in page.words
    assert "predictors were selected with all observations" not in page.words
    assert "Good: Misclassification rate" not in page.words
    assert clf.left_out_predictions().error.value > 0.3
    monkeypatch.setattr(leave_one_out, "REFITS", 0)
    page = outline(clf.report(tmp_path / "r.html"))
    assert "may be inaccurate here: selection among 80 predictors with 40 observations" in page.words
    assert "predictors were selected with all observations" in page.words
    assert "Good: Misclassification rate" not in page.words
    assert "Good: Well calibrated" not in page.words
    assert any("optimistic: predictors selected with all observations" in one for one in page.figures)


def test_a_sampler_is_left_out_by_the_covariance_of_its_draws(data, tmp_path):
    with pytest.warns(UserWarning, match="chains have not converged"):
        clf = VBSVC(inference=Gibbs(draws=200, tune=50, chains=2), random_state=0).fit(data[["a", "b"]], data["y"])
    sampled = evaluation.evaluate_left_out(clf.fit_, Owner(clf))
    climbed = evaluation.evaluate_left_out(VBSVC().fit(data[["a", "b"]], data["y"]).fit_, None)
    assert sampled.model.log_loss.value == pytest.approx(climbed.model.log_loss.value, abs=0.03)
    assert "After Gibbs sampling" in outline(clf.report(tmp_path / "r.html")).words


def test_rows_in_files_are_left_out_too(data, tmp_path):
    data.to_csv(tmp_path / "rows.csv", index=False)
    fit = Model("y ~ a + b", Files(tmp_path / "rows.csv")).fit()
    page = outline(fit.report(tmp_path / "r.html"))
    here = Model("y ~ a + b", data).fit().left_out_predictions(refits=0)
    assert f"{100 * here.error.value:.1f} % misclassified (leave-one-out)" in page.figures
    assert "alone" not in summary_of(page)
    assert not any(title == "Marginal effects" for _, title in page.headings)


def test_a_loaded_fit_says_what_it_does_not_know(data, tmp_path):
    VBSVC().fit(data[["a", "b"]], data["y"]).save(tmp_path / "m.vbsvm")
    loaded = vbsvm.load(tmp_path / "m.vbsvm")
    assert "is not available" in outline(loaded.report(tmp_path / "r.html")).words
    page = outline(loaded.report(tmp_path / "r.html", data[["a", "b"]], data["y"]))
    wrong = (loaded.predict(data[["a", "b"]]) != data["y"]).mean()
    tile = "misclassified (in sample if these are the training data: optimistic)"
    assert f"{100 * wrong:.1f} % {tile}" in page.figures
    assert "Good: Misclassification" not in page.words
    assert "alibrated:" not in page.words
    assert "For honest numbers, give the report observations" in summary_of(page)


def test_observations_that_were_not_in_the_fit_are_judged(data, tmp_path):
    VBSVC().fit(data[["a", "b"]], data["y"]).save(tmp_path / "m.vbsvm")
    loaded, other = vbsvm.load(tmp_path / "m.vbsvm"), data.assign(y=data["y"].where(data.index > 0, "yes"))
    assert (other["y"] != data["y"]).sum() == 1
    for given in (other, data[:150]):
        page = outline(loaded.report(tmp_path / "r.html", given[["a", "b"]], given["y"]))
        assert any("(observations given to the report)" in figure for figure in page.figures)
        assert "Good: Misclassification" in page.words
        assert "these are the training data" not in page.words
    page = outline(loaded.report(tmp_path / "r.html", other[["a", "b"]], other["y"]))
    assert "200 observations, but the fit used 200, not all of them the same" in page.words


def test_files_that_say_nothing_of_their_observations_leave_it_open(data, tmp_path):
    fit = Model("y ~ a + b", data).fit()._without_rows()
    page = outline(replace(fit, facts=None).report(tmp_path / "r.html", data[:150]))
    assert any("in sample if these are the training data" in figure for figure in page.figures)
    several = VBSVC().fit(data[["a", "b"]], data.index % 3)
    several.save(tmp_path / "m.vbsvm")
    page = outline(vbsvm.load(tmp_path / "m.vbsvm").report(tmp_path / "r.html", data[["a", "b"]], data.index % 3))
    assert any("in sample if these are the training data" in figure for figure in page.figures)


def test_some_rows_of_many_are_looked_at(data, tmp_path, monkeypatch):
    fit = Model("y ~ a + b + (1 | g)", data).fit()
    monkeypatch.setattr("vbsvm.results.training_rows.TrainingRows.every", 2)
    monkeypatch.setattr(
        "vbsvm.results.training_rows.row_influence",
        lambda spec, outcome, source, every, whole=vbsvm.results.training_rows.row_influence: _half(
            whole(spec, outcome, source)
        ),
    )
    page = outline(fit.report(tmp_path / "r.html"))
    assert "Of 200 observations 100 were evaluated." in page.words
    assert "the model, new levels" not in page.words


def _half(rows):
    return type(rows)(**{name: getattr(rows, name)[:100] for name in rows.__slots__})


def test_rows_of_the_effects_that_are_not_those_left_out_are_not_used(data):
    fit = Model("y ~ a + b", data).fit()
    other = SimpleNamespace(subject=lambda: SimpleNamespace(rows=SimpleNamespace(weights=np.ones(3))), data=None)
    assert (
        evaluation._with_baselines(
            [fit], rows_of([0, 1, 1, 0], [0.1, 0.9, 0.8, 0.3]), np.zeros(2), other, left_out=True
        ).baselines
        == {}
    )
