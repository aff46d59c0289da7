"""Effects of a hinge fit are checked against observed proportions; those that agree give no warning."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.model_selection import cross_val_score

from vbsvm import VBSVC, Model, ReliabilityWarning, VBLogistic, cross_validate, load, plots
from vbsvm.results.comparison.leave_one_out import left_out_rows
from vbsvm.results.covariance import margin_warning
from vbsvm.results.effects.check import CHECKED, NOT_CHECKED, misfit, quantile_bins


def categories(n=1500, seed=0):
    """Two categories of unequal levels, and a number without effect: the hinge puts most rows on the margin."""
    rng = np.random.default_rng(seed)
    a, b = rng.choice(["l", "r"], n, p=[0.7, 0.3]), rng.choice(list("wxyz"), n, p=[0.5, 0.25, 0.15, 0.1])
    score = -1.2 + 1.0 * (a == "r") + pd.Series(b).map({"w": 0.0, "x": 0.3, "y": 0.8, "z": 1.5}).to_numpy()
    return pd.DataFrame({"a": a, "b": b, "x": rng.normal(size=n), "p": expit(score), "y": rng.random(n) < expit(score)})


def numbers(n=800, seed=0):
    """Two Gaussians, of which a hinge fit has the right probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    X = rng.normal(size=(n, 3)) + y[:, None] * np.array([1.0, -0.7, 0.4])
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=np.where(y, "case", "control"))


def hinge(formula, data, **rest):
    """A fit whose warnings at fit are not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Model(formula, data, likelihood="hinge", **rest).fit()


def said(call):
    """The reliability warnings that a call gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found if issubclass(one.category, ReliabilityWarning)]


@pytest.fixture(scope="module")
def data():
    return categories()


@pytest.fixture(scope="module")
def fit(data):
    return hinge("y ~ a + b + x", data)


@pytest.fixture(scope="module")
def good():
    return hinge("y ~ x0 + x1 + x2", numbers())


class TestTest:
    """The test of cells, by itself."""

    def test_chance_alone_is_not_a_misfit_and_a_shift_is(self):
        rng = np.random.default_rng(0)
        p, codes = rng.uniform(0.1, 0.9, 4000), rng.integers(0, 5, 4000)
        alarms = [misfit(codes, p, (rng.random(4000) < p).astype(float), np.ones(4000)) is not None for _ in range(200)]
        assert np.mean(alarms) < 0.05
        y = (rng.random(4000) < p - 0.1 * (codes == 3)).astype(float)
        found = misfit(codes, p, y, np.ones(4000))
        assert found.cell == 3
        assert found.n == (codes == 3).sum()
        assert found.predicted == pytest.approx(p[codes == 3].mean())
        assert found.observed == pytest.approx(y[codes == 3].mean())

    def test_differences_within_the_tolerance_are_none_however_sure(self):
        n = 10**6
        p, y = np.full(n, 0.5), (np.arange(n) % 1000 < 480).astype(float)
        assert misfit(np.zeros(n, dtype=int), p, y, np.ones(n)) is None
        assert misfit(np.zeros(n, dtype=int), p + 0.02, y, np.ones(n)) is not None

    def test_a_weight_counts_as_rows(self):
        rng = np.random.default_rng(1)
        codes, p, s = rng.integers(0, 3, 200), rng.uniform(0.2, 0.8, 200), rng.integers(0, 6, 200)
        y = (rng.random(200) < np.clip(p - 0.1 * (codes == 1), 0, 1)).astype(float)
        one = misfit(codes, p, y, s.astype(float))
        other = misfit(*(np.repeat(of, s) for of in (codes, p, y)), np.ones(s.sum()))
        assert (one is None) == (other is None)
        assert vars(one) == pytest.approx(vars(other)) if one is not None else True

    def test_single_rows_that_were_thought_unlikely_are_no_misfit(self):
        p, y = np.full(40, 0.02), np.zeros(40)
        y[7] = 1.0
        assert misfit(np.arange(40), p, y, np.ones(40)) is None

    def test_rows_of_a_group_are_not_independent(self):
        rng = np.random.default_rng(2)
        groups = np.repeat(np.arange(8), 100)
        p, shift = np.full(800, 0.5), np.repeat(np.where(rng.random(8) < 0.8, 0.2, -0.3), 100)
        y = (rng.random(800) < p + shift).astype(float)
        codes = np.zeros(800, dtype=int)
        assert misfit(codes, p, y, np.ones(800)) is not None
        assert misfit(codes, p, y, np.ones(800), [groups]) is None

    def test_rows_without_a_cell_have_no_say(self):
        codes = np.r_[np.full(500, -1), np.zeros(500, dtype=int)]
        p, y = np.full(1000, 0.5), np.r_[np.ones(500), np.arange(500) % 2]
        assert misfit(codes, p, y, np.ones(1000)) is None

    def test_parts_are_fifths_or_fewer(self):
        codes = quantile_bins(np.r_[np.arange(100.0), np.nan])
        np.testing.assert_array_equal(np.bincount(codes[:100]), 20)
        assert codes[100] == -1
        assert len(np.unique(quantile_bins(np.r_[np.zeros(90), np.arange(10.0)]))) == 2


def test_a_cell_that_is_off_is_named_with_both_numbers(fit, data):
    with pytest.warns(ReliabilityWarning, match="mean predicted probability of True") as found:
        table = fit.effects("b")
    (message,) = {str(one.message) for one in found}
    predicted, level, observed, n = re.search(
        r"is (0\.\d+) where b is (\w), and the observed proportion is (0\.\d+) \((\d+) observations", message
    ).groups()
    here = (data["b"] == level).to_numpy()
    chances = np.exp(left_out_rows([fit]).log_probabilities[:, 1])
    assert float(predicted) == pytest.approx(chances[here].mean(), abs=6e-4)
    assert float(observed) == pytest.approx(data["y"][here].mean(), abs=6e-4)
    assert int(n) == here.sum()
    assert 'likelihood="logistic"' in message
    assert "VBLogistic" in message
    assert table.attrs["caution"] == message
    assert message in table.attrs["note"]
    assert found[0].filename == __file__
    for call in (lambda: fit.contrasts("b"), lambda: fit.effects("a", by="b"), lambda: plots.effects(fit, "b")):
        assert said(call)
    assert "b is" in said(lambda: fit.effects("a", by="b"))[0]


def test_the_passengers_of_the_titanic():
    """Third-class women: less than half survived, and the hinge says three quarters."""
    died = {("1st", "male"): 118, ("1st", "female"): 4, ("2nd", "male"): 154, ("2nd", "female"): 13}
    died |= {("3rd", "male"): 422, ("3rd", "female"): 106, ("crew", "male"): 670, ("crew", "female"): 3}
    lived = {("1st", "male"): 62, ("1st", "female"): 141, ("2nd", "male"): 25, ("2nd", "female"): 93}
    lived |= {("3rd", "male"): 88, ("3rd", "female"): 90, ("crew", "male"): 192, ("crew", "female"): 20}
    cells = [(*cell, label, n) for label, of in (("no", died), ("yes", lived)) for cell, n in of.items()]
    data = pd.DataFrame(cells, columns=["place", "sex", "survived", "n"])
    with pytest.warns(ReliabilityWarning, match=r"7\d % of the observations lie exactly on the margin"):
        fit = Model("survived ~ place + sex", data, weights="n", likelihood="hinge").fit()
    with pytest.warns(
        ReliabilityWarning, match=r"where place is 3rd, sex is female, and the observed proportion is 0.459"
    ):
        table = fit.effects("place", by="sex")
    assert table.loc[("3rd", "female"), "estimate"] > 0.7
    assert table.loc[("3rd", "female"), "observed"] == pytest.approx(90 / 196)
    logistic = Model("survived ~ place + sex", data, weights="n", likelihood="logistic")
    assert said(lambda: logistic.fit().effects("place", by="sex")) == []


def test_observed_proportions_stand_beside_the_estimates(fit, data):
    table = fit.effects("b", by="a")
    for b, a in table.index:
        here = (data["b"] == b) & (data["a"] == a)
        assert table.loc[(b, a), "observed"] == pytest.approx(data["y"][here].mean())
    both = fit.effects(["b", "a"])
    np.testing.assert_allclose(both["observed"], table["observed"])
    assert fit.effects("x")["observed"].isna().all()  # a number with many values has no cells
    assert fit.effects("b", at=["x"])["observed"].tolist() == pytest.approx([data["y"][data["b"] == "x"].mean()])
    assert "observed" not in fit.contrasts("b")
    few = data.assign(k=(data["x"] > 0) + 1)
    table = hinge("y ~ k", few).effects("k", at=[1, 2, 3])
    expected = few.groupby("k")["y"].mean()
    np.testing.assert_allclose(table["observed"], [*expected, np.nan])


def test_a_hinge_fit_that_agrees_is_not_warned_of(good):
    for call in (lambda: good.effects("x0"), lambda: good.slopes("x1"), lambda: good.contrasts("x2")):
        assert said(call) == []
    assert good.effects("x0").attrs["check"] == CHECKED
    assert CHECKED in good.effects("x0").attrs["note"]


def test_a_logistic_fit_is_not_checked(data):
    fit = Model("y ~ a + b", data, likelihood="logistic").fit()
    assert said(lambda: fit.effects("b", by="a")) == []
    assert list(fit.effects("b").columns) == ["estimate", "std_error", "lower", "upper"]
    assert "check" not in fit.effects("b").attrs
    clf = VBLogistic().fit(data[["x"]].assign(b=(data["b"] == "z") * 1.0), data["y"])
    assert said(lambda: (clf.summary(), clf.effects("b"))) == []


def test_weights_count_as_rows(data):
    rng = np.random.default_rng(0)
    weighted = data.assign(w=rng.integers(0, 3, len(data)))
    repeated = weighted.loc[weighted.index.repeat(weighted["w"])].reset_index(drop=True)
    one, other = hinge("y ~ a + b", weighted, weights="w"), hinge("y ~ a + b", repeated)
    np.testing.assert_allclose(one.effects("b")["observed"], other.effects("b")["observed"])
    assert said(lambda: one.effects("b"))[0].split(" (")[0][:60] == said(lambda: other.effects("b"))[0][:60]


def test_new_rows_are_checked_by_their_own_outcomes(fit, data, tmp_path):
    """Else those of the fit are; and a loaded fit without outcomes is not checked."""
    new = categories(seed=1)
    (message,) = said(lambda: fit.effects("b", data=new))
    assert "without itself" not in message
    expected = new.groupby("b")["y"].mean()
    np.testing.assert_allclose(fit.effects("b", data=new)["observed"], expected)
    table = fit.effects("b", data=new.drop(columns="y"))
    assert table["observed"].isna().all()
    assert "without itself" in table.attrs["caution"]
    assert fit.effects("b", by="site", data=new.drop(columns="y").assign(site=0)).attrs["check"] == NOT_CHECKED
    assert fit.effects("b", data=new.assign(y=[None, *new["y"][1:]])).attrs["caution"] == table.attrs["caution"]
    same = fit.effects("b", data=data)
    assert same.attrs["caution"] == fit.effects("b").attrs["caution"]  # each row without itself here as well
    fit.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert loaded.effects("b", data=new.drop(columns="y")).attrs["check"] == NOT_CHECKED
    assert NOT_CHECKED in loaded.effects("b", data=new.drop(columns="y")).attrs["note"]
    assert NOT_CHECKED not in same.attrs["note"]
    assert loaded.effects("b", data=new).attrs["caution"] == message


def test_each_of_several_classes_is_checked():
    data = categories(3000, 3)
    rng = np.random.default_rng(0)
    X = pd.get_dummies(data[["a", "b"]]).astype(float)
    y = np.where(data["y"], "yes", np.where(rng.random(len(data)) < 0.5, "no", "perhaps"))
    clf = VBSVC().fit(X, y)
    table = clf.effects("b_z")
    assert table.index.names == ["b_z", "class"]
    expected = pd.crosstab(X["b_z"], y, normalize="index")
    np.testing.assert_allclose(table["observed"], expected[clf.classes_].to_numpy().ravel())
    assert "caution" in table.attrs
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"])
    y = np.argmax(np.column_stack([X["a"], X["b"], -X["a"] - X["b"]]) + rng.gumbel(size=(600, 3)), axis=1)
    assert VBSVC().fit(X, y).effects("a").attrs.get("check") == CHECKED


def test_missing_values_and_groups_are_checked_too():
    data = categories(900, 4)
    data.loc[::9, "x"] = np.nan
    data.loc[::11, "b"] = None
    fit = hinge("y ~ a + b + x", data)
    assert "check" in fit.effects("b").attrs or "caution" in fit.effects("b").attrs
    assert fit.effects("b").attrs.get("check") != NOT_CHECKED
    known = data.dropna(subset=["b"])
    np.testing.assert_allclose(fit.effects("b")["observed"], known.groupby("b")["y"].mean())
    rng = np.random.default_rng(0)
    grouped = numbers(600).assign(g=np.arange(600) % 30)
    grouped["z"] = rng.normal(size=30)[grouped["g"]]
    fit = hinge("y ~ x0 + x1 + z + (1 | g)", grouped)
    for name in ("x0", "z", "g"):  # small groups are shrunk, which is no fault
        assert fit.effects(name).attrs.get("check") == CHECKED


class TestMargin:
    """Many observations on the margin."""

    text = r"\d\d % of the observations lie exactly on the margin: coefficients and effects of the SVM are not"

    def test_a_model_warns_at_fit_and_not_again(self, data):
        with pytest.warns(ReliabilityWarning, match=self.text):
            fit = Model("y ~ a + b", data, likelihood="hinge").fit()
        assert said(fit.summary) == []
        assert "exactly on the margin" in fit.summary().attrs["note"]
        assert "bootstrap" not in fit.summary().attrs["note"]

    def test_an_estimator_warns_once_where_intervals_are_asked_for(self, data, tmp_path):
        X = pd.get_dummies(data[["a", "b"]]).astype(float)
        assert said(lambda: VBSVC().fit(X, data["y"]).predict_proba(X)) == []
        for ask in (lambda one: one.summary(), lambda one: one.coef_std_, lambda one: one.effects("b_z")):
            clf = VBSVC().fit(X, data["y"])
            messages = said(lambda of=clf, ask=ask: ask(of))
            assert re.match(self.text, messages[0])
            assert not any("margin" in one for one in said(lambda of=clf, ask=ask: ask(of)))
        assert said(lambda: cross_val_score(VBSVC(), X, data["y"], cv=3)) == []
        assert said(lambda: clf.save(tmp_path / "clf")) == []
        assert re.match(self.text, said(lambda: load(tmp_path / "clf").summary())[0])

    def test_no_fold_of_a_cross_validation_warns(self, data):
        model = Model("y ~ a + b", data, likelihood="hinge")
        assert said(lambda: cross_validate(model, 3)) == []

    def test_healthy_fits_do_not_warn(self):
        data = numbers()
        assert said(lambda: Model("y ~ x0 + x1", data, likelihood="hinge").fit().summary()) == []
        assert said(lambda: Model("y ~ x0 + x1", data, likelihood="logistic").fit().summary()) == []

    def test_observations_count_by_their_weights(self, data):
        counts = data.groupby(["a", "b", "y"]).size().rename("n").reset_index()
        one = margin_warning(hinge("y ~ a + b", counts, weights="n"))
        assert one == margin_warning(hinge("y ~ a + b", data)) != ""


def test_a_report_has_the_cautions_and_its_figures_do_not_repeat_them(fit, data, tmp_path):
    assert said(lambda: fit.report(tmp_path / "page.html")) == []
    page = (tmp_path / "page.html").read_text()
    assert "The mean predicted probability of True" in page
    assert "exactly on the margin" in page
    assert "observed" in page


@pytest.mark.long
def test_how_often_the_check_warns():
    """Of effects that miss by more than .05 nearly all are warned of; of two Gaussians' nearly none are."""
    missed, warned = 0, 0
    for seed in range(60):
        data = categories(1000, 100 + seed)
        fit = hinge("y ~ a + b + x", data)
        for name in ("a", "b"):
            table, truth = fit.effects(name), categories(200_000, 1).groupby(name)["p"].mean()
            if (table["estimate"] - truth).abs().max() > 0.05:
                missed += 1
                warned += "caution" in table.attrs or bool(margin_warning(fit))
    assert missed > 60
    assert warned >= 0.95 * missed
    false = 0
    for seed in range(100):
        fit = hinge("y ~ x0 + x1 + x2", numbers(800, 100 + seed))
        false += any("caution" in fit.effects(f"x{k}").attrs for k in range(3)) or bool(margin_warning(fit))
    assert false <= 5
