"""Models compared by rows left out: against refits, against plain formulas, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import vbsvm
from reference import simulate
from vbsvm import VBSVC, Gibbs, Model, Variational, compare_models, cross_validate
from vbsvm.results.comparison.models import LeftOutPredictions, Measure

TIGHT = Variational(tol=1e-8)


def frame_of(n=60, seed=0):
    """Three columns, of which only the first two matter, and a weak grouping."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "z", "noise"])
    data["g"] = rng.permutation(np.arange(n) % 12).astype(str)
    effect = dict(zip(map(str, range(12)), 0.8 * rng.standard_normal(12), strict=True))
    score = 1.5 * data["x"] - 1.2 * data["z"] + data["g"].map(effect) + rng.logistic(size=n)
    return data.assign(y=np.where(score > 0, "yes", "no"))


def by_refits(formula, data):
    """Log probabilities and classes of each row by fits without it."""
    logs, classes = [], []
    for i in range(len(data)):
        fit = Model(formula, data.drop(index=i), priors={"fixed": vbsvm.Ridge()}, likelihood="hinge").fit(TIGHT)
        logs.append(fit.predict_log_proba(data.loc[[i]])[0, int(data.loc[i, "y"] == "yes")])
        classes.append(fit.predict(data.loc[[i]])[0])
    return np.array(logs), np.array(classes, dtype=object)


def fit_of(formula, data, **settings):
    return Model(formula, data, priors={"fixed": vbsvm.Ridge()}, likelihood="hinge", **settings).fit(TIGHT)


class TestAgainstRefits:
    FORMULAS = ("y ~ x + z + noise", "y ~ x + z + (1 | g)", "y ~ noise")

    @pytest.fixture(scope="class")
    @classmethod
    def refits(cls):
        data = frame_of()
        return data, {formula: by_refits(formula, data) for formula in cls.FORMULAS}

    @pytest.mark.parametrize("formula", FORMULAS[:2])  # leaving a row out hardly moves the last one
    def test_predictions_of_rows_are_closer_than_those_in_sample(self, refits, formula):
        data, by_formula = refits
        logs, classes = by_formula[formula]
        found = fit_of(formula, data).left_out_predictions()
        np.testing.assert_array_equal(found.rows, np.arange(60))
        np.testing.assert_array_equal(found.labels, data["y"])
        in_sample = fit_of(formula, data).predict_log_proba(data)[np.arange(60), (data["y"] == "yes").astype(int)]
        distance = np.abs(found.log_probability - logs).mean()
        assert distance < 0.6 * np.abs(in_sample - logs).mean()
        assert (found.predicted == classes).mean() > 0.9

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_log_losses_are_close_and_those_of_rows_in_another_order_are_not(self, refits, formula):
        data, by_formula = refits
        found = fit_of(formula, data).left_out_predictions()
        logs, _ = by_formula[formula]
        assert found.log_loss.value == pytest.approx(-logs.mean(), abs=0.05)
        if formula != "y ~ noise":
            together = np.corrcoef(found.log_probability, logs)[0, 1]
            assert together > 0.95
            assert np.corrcoef(found.log_probability[::-1], logs)[0, 1] < 0.5

    def test_the_better_model_is_first(self, refits):
        data, by_formula = refits
        found = compare_models({formula: fit_of(formula, data) for formula in ("y ~ noise", "y ~ x + z + noise")})
        assert list(found.table.index) == ["y ~ x + z + noise", "y ~ noise"]
        line = found.table.loc["y ~ noise"]
        true = by_formula["y ~ x + z + noise"][0] - by_formula["y ~ noise"][0]
        assert line["log_loss_difference"] == pytest.approx(true.mean(), abs=0.05)
        assert line["log_loss_difference"] > 2 * line["log_loss_difference_se"]
        assert line["log_loss_difference_se"] == pytest.approx(true.std(ddof=1) / np.sqrt(60), rel=0.15)


def test_a_column_of_noise_makes_no_clear_difference():
    data = frame_of(300, seed=3)
    found = compare_models({"with": fit_of("y ~ x + z + noise", data), "without": fit_of("y ~ x + z", data)})
    line = found.table.iloc[1]
    assert abs(line["log_loss_difference"]) < 3 * line["log_loss_difference_se"]
    assert line["log_loss_difference"] < 0.02


class TestStandardErrors:
    @pytest.fixture
    def two(self):
        data = frame_of(80, seed=1)
        return data, fit_of("y ~ x + z + (1 | g)", data), fit_of("y ~ x + (1 | g)", data)

    def test_they_are_those_of_plain_formulas(self, two):
        data, better, worse = two
        table = compare_models({"worse": worse, "better": better}).table
        losses = [-fit.left_out_predictions().log_probability for fit in (better, worse)]
        paired = losses[1] - losses[0]
        line = table.loc["worse"]
        assert line["log_loss"] == pytest.approx(losses[1].mean())
        assert line["log_loss_se"] == pytest.approx(losses[1].std(ddof=1) / np.sqrt(80))
        assert line["log_loss_difference"] == pytest.approx(paired.mean())
        assert line["log_loss_difference_se"] == pytest.approx(paired.std(ddof=1) / np.sqrt(80))
        not_paired = np.hypot(table["log_loss_se"].iloc[0], table["log_loss_se"].iloc[1])
        assert line["log_loss_difference_se"] < 0.9 * not_paired
        sums = pd.Series(paired - paired.mean()).groupby(data["g"].to_numpy()).sum()
        assert line["log_loss_difference_group_se"] == pytest.approx(np.sqrt(12 / 11 * (sums**2).sum()) / 80)
        assert (table.loc["better", table.columns.str.contains("difference")] == 0).all()

    def test_the_balanced_error_is_stratified_by_class(self, two):
        data, better, _ = two
        found = better.left_out_predictions()
        wrong = found.predicted != data["y"].to_numpy()
        rates = [wrong[data["y"] == label].mean() for label in ("no", "yes")]
        counts = [(data["y"] == label).sum() for label in ("no", "yes")]
        variance = sum(p * (1 - p) / n for p, n in zip(rates, counts, strict=True)) / 4
        assert found.balanced_error.value == pytest.approx(np.mean(rates))
        assert found.balanced_error.se == pytest.approx(np.sqrt(80 / 79 * variance))

    def test_a_weight_is_a_number_of_rows(self):
        rng = np.random.default_rng(0)
        counts, logs = rng.integers(1, 4, 30), -rng.random(30)
        labels, predicted = rng.choice(["a", "b"], 30), rng.choice(["a", "b"], 30)
        weighted = LeftOutPredictions("", np.arange(30), labels, counts * 1.0, predicted, logs, {})
        each = np.repeat(np.arange(30), counts)
        repeated = replace(weighted.take(each), weights=np.ones(len(each)))
        unweighted = replace(weighted, weights=np.ones(30))
        for measure in ("log_loss", "balanced_error", "accuracy"):
            one, other, third = (getattr(of, measure) for of in (weighted, repeated, unweighted))
            assert one.value == pytest.approx(other.value)
            assert one.se == pytest.approx(other.se)
            assert third.value != pytest.approx(other.value)
            assert third.se != pytest.approx(other.se, rel=0.1)

    def test_too_few_rows_or_groups_have_none(self):
        one = Measure(1.0, np.zeros(1), np.ones(1))
        assert np.isnan(one.se)
        assert np.isnan(one.group_se(np.zeros(1, dtype=int)))


class TestOrderOfRows:
    """Fits see rows sorted by group, incomplete ones last, and without those of weight 0; predictions are in order."""

    @pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ x + z + (1 | g)", "y ~ x + arm + (1 | g)"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_each_row_has_its_own_label_weight_group_and_score(self, formula, weighted):
        rng, data = np.random.default_rng(4), frame_of(90, seed=4)
        data["arm"] = np.where(rng.random(90) < 0.2, None, rng.choice(["a", "b"], 90))
        data.loc[rng.random(90) < 0.2, "x"] = np.nan
        weights = rng.integers(0, 3, 90).astype(float) if weighted else np.ones(90)
        fit = fit_of(formula, data, weights=weights)
        found, kept = fit.left_out_predictions(), np.flatnonzero(weights)
        np.testing.assert_array_equal(found.rows, kept)
        np.testing.assert_array_equal(found.labels, data["y"].iloc[kept])
        np.testing.assert_array_equal(found.weights, weights[kept])
        for members in found.groups.values():
            assert len(set(zip(members, data["g"].iloc[kept], strict=True))) == 12
        truth = (data["y"].iloc[kept] == "yes").to_numpy().astype(int)
        in_sample = fit.predict_log_proba(data.iloc[kept])[np.arange(len(kept)), truth]
        assert np.corrcoef(in_sample, found.log_probability)[0, 1] > 0.85

    def test_rows_that_are_dropped_are_not_there(self):
        data = frame_of(70, seed=5)
        data.loc[[3, 40], "x"] = np.nan
        fit = Model("y ~ x + (1 | g)", data, missing="drop").fit()
        np.testing.assert_array_equal(fit.left_out_predictions().rows, np.delete(np.arange(70), [3, 40]))


def test_estimators_and_models_of_the_same_rows_can_be_compared():
    data = frame_of(100, seed=2)
    X = data[["x", "z"]]
    found = compare_models(
        {"table": VBSVC(inference=TIGHT).fit(X, data["y"]), "formula": fit_of("y ~ x + z", data)}
    ).table
    assert found["log_loss_difference"].abs().max() < 1e-4
    assert found["elbo"].notna().all()


def test_class_weights_leave_the_rows_as_they_are():
    data = frame_of(100, seed=2)
    X, y = data[["x", "z"]], data["y"]
    found = VBSVC(class_weight={"no": 3.0, "yes": 1.0}).fit(X, y)
    np.testing.assert_array_equal(found.left_out_predictions().weights, 1.0)
    compare_models({"weighted": found, "not": VBSVC().fit(X, y)})


def test_several_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(150), [-0.5, 0.5])
    found = compare_models({"noise": VBSVC().fit(X[:, 1:], y), "all": VBSVC().fit(X, y)}).table
    assert list(found.index) == ["all", "noise"]
    assert found.loc["noise", "log_loss"] == pytest.approx(np.log(3), abs=0.1)
    held = VBSVC().fit(X[:100], y[:100])
    true = -held.predict_log_proba(X[100:])[np.arange(50), y[100:]].mean()
    assert found.loc["all", "log_loss"] == pytest.approx(true, abs=0.15)


class TestWords:
    def test_models_with_groups_are_told_that_rows_are_not_groups(self):
        data = frame_of(80, seed=1)
        fits = {"groups": fit_of("y ~ x + (1 | g)", data), "none": fit_of("y ~ x", data)}
        shown = repr(compare_models(fits))
        assert "does not measure predictions for new levels" in " ".join(shown.split())
        assert "groups='g'" in " ".join(shown.split())
        assert "clustered on the 12 levels of g" in " ".join(shown.split())
        assert max(map(len, shown.splitlines())) <= 80
        assert "new groups" not in repr(compare_models({"none": fits["none"]}))
        assert "Do not select fixed effects by it" in " ".join(shown.split())
        assert "<table>" in compare_models(fits)._repr_html_()

    def test_a_factor_may_be_named(self):
        data = frame_of(120, seed=1).assign(h=lambda d: d["g"].astype(int) % 4)
        fit = fit_of("y ~ x + (1 | g) + (1 | h)", data)
        assert any("12 levels of g" in note for note in compare_models({"a": fit}).notes)
        assert any("4 levels of h" in note for note in compare_models({"a": fit}, groups="h").notes)
        with pytest.raises(ValueError, match="no model has the grouping factor 'k'"):
            compare_models({"a": fit}, groups="k")


class TestRefused:
    @pytest.fixture(scope="class")
    @classmethod
    def fit(cls):
        return fit_of("y ~ x", frame_of())

    def test_what_is_no_dict_of_models(self, fit):
        with pytest.raises(TypeError, match="takes a dict"):
            compare_models([fit])
        with pytest.raises(ValueError, match="the dict is empty"):
            compare_models({})
        with pytest.raises(TypeError, match="'b' is Model"):
            compare_models({"a": fit, "b": Model("y ~ x", frame_of())})
        with pytest.raises(TypeError, match="'b' is ABCMeta"):
            compare_models({"a": fit, "b": VBSVC})

    def test_fits_without_rows(self, fit, tmp_path):
        fit.save(tmp_path / "m")
        for other in (vbsvm.load(tmp_path / "m"), pickle.loads(pickle.dumps(fit))):
            with pytest.raises(ValueError, match="model 'b': this fit has no training data"):
                compare_models({"a": fit, "b": other})

    def test_a_samplers_fit(self, fit):
        X, y = simulate(40, 2, seed=0)
        sampled = VBSVC(inference=Gibbs(draws=20, tune=20, chains=2), random_state=0)
        with pytest.warns(match="chains"):
            sampled.fit(X, y)
        with pytest.raises(ValueError, match="this fit was sampled"):
            compare_models({"a": sampled})

    def test_other_rows_outcomes_and_weights(self, fit):
        data = frame_of()
        with pytest.raises(ValueError, match="'a' and 'b' have 60 and 59 rows"):
            compare_models({"a": fit, "b": fit_of("y ~ x", data.iloc[1:])})
        flipped = data.assign(y=data["y"].replace({"yes": "no", "no": "yes"}))
        with pytest.raises(ValueError, match="have different outcomes"):
            compare_models({"a": fit, "b": fit_of("y ~ x", flipped)})
        with pytest.raises(ValueError, match="have different weights"):
            compare_models({"a": fit, "b": fit_of("y ~ x", data, weights=np.arange(60) % 2 + 1.0)})

    def test_other_rows_of_the_same_number(self):
        data = frame_of()
        lost = [data.assign(x=data["x"].where(data.index != row)) for row in data.index[data["y"] == "yes"][:2]]
        fits = [Model("y ~ x + z", one, missing="drop").fit() for one in lost]
        with pytest.raises(ValueError, match="have predictions of different rows"):
            compare_models({"a": fits[0], "b": fits[1]})

    def test_rows_that_are_left_out_in_another_way(self, fit):
        with pytest.raises(ValueError, match="use the same for both"):
            compare_models({"a": fit, "b": cross_validate(Model("y ~ x", frame_of()))})

    def test_data_that_were_changed(self):
        X, y = simulate(20_000, 10, seed=0)  # smaller tables are kept as they were
        clf = VBSVC().fit(X, y)
        X += 1.0
        with pytest.raises(ValueError, match="changed in place since the fit"):
            compare_models({"a": clf})
