"""Cross-validation of models by formula: against fits by hand, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from vbsvm import VBSVC, Gibbs, Model, Normal, Ridge, compare_models, cross_validate
from vbsvm.api import cross_validation


def frame_of(n=120, n_groups=12, sd=1.0, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "z", "noise"])
    members = rng.permutation(np.arange(n) % n_groups)
    score = 1.5 * data["x"] - 1.2 * data["z"] + sd * rng.standard_normal(n_groups)[members] + rng.logistic(size=n)
    return data.assign(patient=[f"p{k}" for k in members], y=np.where(score > 0, "yes", "no"))


@pytest.fixture
def trained(monkeypatch):
    """The frames that models are fitted to, as cross-validation asks for them."""
    seen, refitted_to = [], Model.refitted_to

    def spied(self, data, weights):
        seen.append(data)
        return refitted_to(self, data, weights)

    monkeypatch.setattr(Model, "refitted_to", spied)
    return seen


def halves(n=120):
    first, second = np.arange(n // 2), np.arange(n // 2, n)
    return [(first, second), (second, first)]


class TestFolds:
    def test_predictions_are_those_of_fits_by_hand(self):
        data = frame_of().set_axis(np.arange(120) + 1000)
        settings = {"priors": {"fixed": Ridge()}, "standardize": False}
        found = cross_validate(Model("y ~ x + z + (1 | patient)", data, **settings), halves())
        assert list(found.predictions.index) == list(data.index)
        for fold, (train, test) in enumerate(halves(), start=1):
            fit = Model("y ~ x + z + (1 | patient)", data.iloc[train], **settings).fit()
            here = found.predictions[found.predictions["fold"] == fold]
            np.testing.assert_array_equal(here.index, data.index[test])
            np.testing.assert_allclose(here["probability"], fit.predict_proba(data.iloc[test])[:, 1], rtol=1e-10)
            np.testing.assert_array_equal(here["predicted"], fit.predict(data.iloc[test]))
            assert found.table.loc[str(fold), "accuracy"] == pytest.approx(fit.score(data.iloc[test]))
        other = Model("y ~ x + z + (1 | patient)", data, {"fixed": Normal(0.01)}, standardize=False)
        assert np.abs(cross_validate(other, halves()).predictions["probability"] - here["probability"]).max() > 1e-3

    def test_the_table_is_that_of_plain_formulas(self):
        data = frame_of()
        found = cross_validate(Model("y ~ x + z", data))
        one = found.predictions
        truth = one["outcome"] == "yes"
        losses = -np.log(np.where(truth, one["probability"], 1 - one["probability"]))
        line = found.table.loc["all"]
        assert list(found.table.index) == ["1", "2", "3", "4", "5", "all"]
        assert line["rows"] == 120
        assert line["log_loss"] == pytest.approx(losses.mean())
        assert line["log_loss_se"] == pytest.approx(losses.std(ddof=1) / np.sqrt(120))
        right = one["outcome"] == one["predicted"]
        assert line["accuracy"] == pytest.approx(right.mean())
        assert line["balanced_error"] == pytest.approx(1 - np.mean([right[truth].mean(), right[~truth].mean()]))

    def test_they_are_stratified_and_shuffled_and_each_row_is_left_out_once(self, trained):
        data = frame_of().sort_values("y")
        found = cross_validate(Model("y ~ x", data), 4).predictions
        shares = found.groupby("fold")["outcome"].value_counts().unstack()
        assert (shares.max() - shares.min()).max() <= 1
        assert len(found) == 120
        assert [len(one) for one in trained] == [90] * 4
        again = cross_validate(Model("y ~ x", data), 4).predictions
        pd.testing.assert_frame_equal(found, again)
        other = cross_validate(Model("y ~ x", data), 4, random_state=1).predictions
        assert (other["fold"] != found["fold"]).any()

    def test_some_rows_may_never_be_left_out(self):
        found = cross_validate(Model("y ~ x", frame_of()), [(np.arange(100), np.arange(100, 120))])
        assert list(found.predictions.index) == list(range(100, 120))
        assert found.table.loc["all", "rows"] == 20

    def test_a_fold_of_one_class_has_no_balanced_error(self):
        data = frame_of()
        test = np.flatnonzero(data["y"] == "yes")[:10]
        rest = np.setdiff1d(np.arange(120), test)
        found = cross_validate(Model("y ~ x", data), [(rest, test), (np.r_[test, rest[:60]], rest[60:])])
        assert np.isnan(found.table.loc["1", "balanced_error"])
        assert found.table.loc[["2", "all"], "balanced_error"].notna().all()


class TestGroups:
    def test_no_row_of_a_group_is_left_in_training(self, trained):
        data = frame_of()
        found = cross_validate(Model("y ~ x + (1 | patient)", data), 4, groups="patient").predictions
        assert len(trained) == 4
        for fold, train in enumerate(trained, start=1):
            tested = data.loc[found.index[found["fold"] == fold], "patient"]
            assert len(tested)
            assert not set(train["patient"]) & set(tested)

    def test_rows_alone_leave_groups_in_training(self, trained):
        """What the test above would see, were groups not left out as a whole."""
        data = frame_of()
        found = cross_validate(Model("y ~ x + (1 | patient)", data), 4).predictions
        tested = data.loc[found.index[found["fold"] == 1], "patient"]
        assert set(trained[0]["patient"]) & set(tested)

    def test_new_groups_are_harder_to_predict_than_new_rows_of_known_ones(self):
        model = Model("y ~ x + z + (1 | patient)", frame_of(400, 40, sd=3.0))
        rows, groups = cross_validate(model), cross_validate(model, groups="patient")
        assert groups.table.loc["all", "log_loss"] > 1.2 * rows.table.loc["all", "log_loss"]

    def test_the_formula_need_not_have_the_column(self):
        data = frame_of()
        found = cross_validate(Model("y ~ x + z", data), groups="patient")
        part = found.left_out_predictions()
        sums = pd.Series(part.log_loss.deviations).groupby(data["patient"].to_numpy()).sum()
        assert found.table.loc["all", "log_loss_se"] == pytest.approx(np.sqrt(12 / 11 * (sums**2).sum()))
        assert "levels of patient" in repr(found)

    def test_given_folds_must_leave_out_whole_groups(self):
        data = frame_of()
        by_group = np.argsort(data["patient"].to_numpy(), kind="stable")
        folds = [(by_group[:60], by_group[60:]), (by_group[60:], by_group[:60])]
        assert cross_validate(Model("y ~ x", data), folds, groups="patient").table.loc["all", "rows"] == 120
        with pytest.raises(ValueError, match="a level of groups both in training and test sets"):
            cross_validate(Model("y ~ x", data), halves(), groups="patient")


class TestRows:
    def test_missing_inputs_are_inferred(self):
        data = frame_of()
        data.loc[np.random.default_rng(1).random(120) < 0.2, "x"] = np.nan
        found = cross_validate(Model("y ~ x + z", data), halves())
        fit = Model("y ~ x + z", data.iloc[:60]).fit()
        np.testing.assert_allclose(found.predictions["probability"].iloc[60:], fit.predict_proba(data.iloc[60:])[:, 1])

    def test_missing_categories(self):
        data = frame_of().assign(arm=np.random.default_rng(1).choice(["a", "b", None], 120))
        assert cross_validate(Model("y ~ x + arm", data)).table.loc["all", "rows"] == 120

    def test_rows_that_are_dropped_are_in_no_fold(self):
        data = frame_of()
        data.loc[[5, 77], "x"] = np.nan
        found = cross_validate(Model("y ~ x", data, missing="drop"))
        np.testing.assert_array_equal(found.predictions.index, np.delete(np.arange(120), [5, 77]))

    def test_weights_count_rows_and_zeros_are_in_no_fold(self):
        data = frame_of().assign(w=lambda d: np.arange(len(d)) % 3)
        found = cross_validate(Model("y ~ x + z", data, weights="w"), halves())
        assert len(found.predictions) == 80
        fit = Model("y ~ x + z", data.iloc[:60], weights="w").fit()
        assert found.table.loc["1", "accuracy"] == pytest.approx(fit.score(data.iloc[60:], "w"))
        assert found.table.loc["1", "accuracy"] != pytest.approx(fit.score(data.iloc[60:]))

    def test_one_level_against_the_rest(self):
        data = frame_of()
        data["y"] = np.where(data["noise"] > 1, "maybe", data["y"])
        found = cross_validate(Model("y ~ x + z", data, positive="yes"))
        assert set(found.predictions["outcome"]) == {"yes", "not yes"}
        assert found.predictions.attrs["note"] == 'probability: of class "yes".'

    def test_columns_of_a_dictionary(self):
        data = frame_of()
        found = cross_validate(Model("y ~ x", data.to_dict("list")))
        expected = cross_validate(Model("y ~ x", data))
        np.testing.assert_allclose(found.predictions["probability"], expected.predictions["probability"])


def test_a_sampler_can_be_cross_validated():
    inference = Gibbs(draws=200, tune=50, chains=2)
    with pytest.warns(match="effective|chains|R̂"):
        found = cross_validate(Model("y ~ x", frame_of()), 2, inference=inference)
    assert found.table.loc["all", "log_loss"] < 0.7


def test_cross_validations_are_compared_row_by_row():
    data = frame_of(200)
    found = {f: cross_validate(Model(f, data), groups="patient") for f in ("y ~ noise", "y ~ x + z")}
    comparison = compare_models(found)
    losses = [-found[f].left_out_predictions().log_probability for f in ("y ~ x + z", "y ~ noise")]
    line = comparison.table.loc["y ~ noise"]
    assert line["log_loss_difference"] == pytest.approx((losses[1] - losses[0]).mean())
    assert line["log_loss_difference_se"] == pytest.approx((losses[1] - losses[0]).std(ddof=1) / np.sqrt(200))
    assert line["log_loss_difference"] > 2 * line["log_loss_difference_group_se"]
    assert "elbo" not in comparison.table
    assert "does not measure predictions for new levels" not in repr(comparison)
    assert max(map(len, repr(found["y ~ x + z"]).splitlines())) <= 80
    assert "<table>" in found["y ~ x + z"]._repr_html_()


class TestRefused:
    @pytest.mark.parametrize(
        ("folds", "words"),
        [
            (1, "folds must be a whole number from 2"),
            ("five", "folds must be a whole number from 2"),
            (2.5, "folds must be a whole number from 2"),
            (100, "has only .* observations, and each fold needs one"),
            ([], "folds is empty"),
            ([([0, 1, 2], [2, 3])], "both in training and test sets"),
            ([(range(60), [70, 70])], "twice in test sets"),
            ([(range(60), [200])], "from 0 to 119"),
            ([(range(60), [0.5])], "integers from 0 to 119"),
            ([(range(60), [])], "must contain row numbers|no row of positive weight"),
        ],
    )
    def test_folds(self, folds, words):
        with pytest.raises(ValueError, match=words):
            cross_validate(Model("y ~ x", frame_of()), folds)

    def test_what_is_no_pair(self):
        with pytest.raises(TypeError, match="fold 1 must be a pair"):
            cross_validate(Model("y ~ x", frame_of()), [3, 4])

    def test_groups(self):
        model = Model("y ~ x", frame_of().assign(part=np.where(np.arange(120) < 3, None, "a")))
        with pytest.raises(ValueError, match=r"no column 'patients'.*'patient'"):
            cross_validate(model, groups="patients")
        with pytest.raises(TypeError, match="must be the name of a column"):
            cross_validate(model, groups=3)
        with pytest.raises(ValueError, match="Column 'part' has no value in rows 0, 1, 2"):
            cross_validate(model, groups="part")
        with pytest.raises(ValueError, match="only 12 levels"):
            cross_validate(model, 13, groups="patient")

    def test_other_models(self):
        with pytest.raises(TypeError, match=r"got VBSVC\. For estimators use cross_validate of sklearn"):
            cross_validate(VBSVC())

    def test_a_fold_that_cannot_be_fitted_or_predicted_is_named(self):
        data = frame_of()
        yes, no = (np.flatnonzero(data["y"] == label) for label in ("yes", "no"))
        with pytest.raises(ValueError, match="fold 1: The outcome 'y' has only one class"):
            cross_validate(Model("y ~ x", data), [(yes, no)])
        data["arm"] = np.where(np.arange(120) < 60, "a", np.where(np.arange(120) % 2, "a", "b"))
        with pytest.raises(ValueError, match="fold 1: "):
            cross_validate(Model("y ~ x + arm", data), [(np.r_[:60, 61:90:2], np.arange(90, 120))])


class TestScore:
    def test_it_is_the_share_of_rows_that_are_right(self):
        data = frame_of()
        fit = Model("y ~ x + z", data).fit()
        right = fit.predict(data) == data["y"]
        assert fit.score(data) == pytest.approx(right.mean())
        weights = np.arange(120.0)
        assert fit.score(data, weights) == pytest.approx(np.average(right, weights=weights))
        assert fit.score(data.assign(w=weights), "w") == pytest.approx(np.average(right, weights=weights))

    def test_numbers_and_truths_as_classes(self):
        data = frame_of()
        expected = Model("y ~ x + z", data).fit().score(data)
        for y in ((data["y"] == "yes"), (data["y"] == "yes").astype(int), (data["y"] == "yes").astype(float)):
            other = data.assign(y=y)
            assert Model("y ~ x + z", other).fit().score(other) == pytest.approx(expected)

    def test_one_level_against_the_rest(self):
        data = frame_of()
        expected = Model("y ~ x + z", data, positive="yes").fit().score(data)
        data["y"] = np.where((data["y"] == "no") & (data["noise"] > 0), "maybe", data["y"])
        assert Model("y ~ x + z", data, positive="yes").fit().score(data) == pytest.approx(expected)

    def test_what_it_cannot_score(self):
        data = frame_of()
        fit = Model("y ~ x + z", data).fit()
        with pytest.raises(ValueError, match="no column 'y'"):
            fit.score(data.drop(columns="y"))
        with pytest.raises(ValueError, match="outcome of row 2 is 'perhaps'"):
            fit.score(data.assign(y=data["y"].where(data.index != 2, "perhaps")))
        with pytest.raises(ValueError, match="weights must be finite"):
            fit.score(data, -np.ones(120))
        with pytest.raises(TypeError, match="methods of the estimator"):
            VBSVC().fit(data[["x"]], data["y"]).fit_[0].score(data)


def test_groups_that_are_left_out_are_in_none_of_the_splits():
    """The splitter itself, with many small groups and a rare class."""
    data = frame_of(300, 60, seed=3)
    rows = cross_validation._UsedRows.from_model(Model("y ~ x + (1 | patient)", data))
    members = rows.groups("patient")
    for train, test in cross_validation._random_folds(5, rows, members, seed=0):
        assert not np.isin(members[test], members[train]).any()
        assert len(train) + len(test) == 300
