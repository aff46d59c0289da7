"""Average probabilities against brute force, their intervals against simulation, and what is refused in words."""

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, load
from vbsvm.results.effects.rows import TableColumns

LEVELS = ["high", "low", "none"]


def people(n=300, seed=0, groups=0):
    """Rows with a number, a positive number, a category and a weight; the outcome depends on all but the weight."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 12, n),
            "dose": rng.lognormal(0, 0.7, n),
            "arm": rng.choice(LEVELS, n),
            "weight": rng.integers(0, 4, n),
            "site": rng.choice(["north", "south"], n),
        }
    )
    score = 0.05 * (frame["age"] - 50) + np.log(frame["dose"]) + np.where(frame["arm"] == "high", 1.0, 0.0)
    if groups:
        frame["centre"] = rng.integers(0, groups, n)
        score = score + rng.normal(0, 1, groups)[frame["centre"]]
    frame["outcome"] = np.where(rng.uniform(size=n) < expit(score), "yes", "no")
    return frame


def with_coefficients(fit, mean):
    """The same fit at other coefficients, its calibration held."""
    calibration = fit._link
    state = fit.outcome.state.with_coefficients(fit.outcome.state.coefficients.with_mean(mean))
    return replace(fit, outcome=replace(fit.outcome, state=state), calibration=calibration, _rows=None)


def brute_force(fit, data, changes, weights=None):
    frame = data.assign(**changes)
    return float(np.average(fit.predict_proba(frame)[:, 1], weights=weights))


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def fit(data):
    """Transforms, a curve and an interaction, so that a changed column changes several of the design's."""
    return Model("outcome ~ s(age) + log(dose) * arm", data, likelihood="hinge").fit()


def test_an_effect_is_the_average_of_predict_proba_with_the_column_set(fit, data):
    table = fit.effects("arm")
    assert list(table.index) == LEVELS
    for level in LEVELS:
        assert table.loc[level, "estimate"] == pytest.approx(brute_force(fit, data, {"arm": level}), abs=1e-12)
    table = fit.effects("age", at=[40, 60.5])
    for age in (40, 60.5):
        assert table.loc[age, "estimate"] == pytest.approx(brute_force(fit, data, {"age": age}), abs=1e-12)
    assert table.attrs["level"] == 0.95
    assert table.attrs["note"].startswith('Probability of "yes". ')


def test_several_variables_are_set_together(fit, data):
    table = fit.effects(["arm", "age"], at={"age": [45]})
    assert table.index.names == ["arm", "age"]
    expected = brute_force(fit, data, {"arm": "low", "age": 45})
    assert table.loc[("low", 45), "estimate"] == pytest.approx(expected, abs=1e-12)


def test_by_parts_the_rows_and_leaves_the_column_as_it_is(fit, data):
    table = fit.effects("age", by=["site", "arm"], at=[50])
    for site in ("north", "south"):
        for arm in LEVELS:
            here = data[(data["site"] == site) & (data["arm"] == arm)]
            expected = brute_force(fit, here, {"age": 50})
            assert table.loc[(50, site, arm), "estimate"] == pytest.approx(expected, abs=1e-12)


def test_numbers_have_their_own_values_or_quantiles(fit, data):
    table = fit.effects("age")
    assert len(table) == 5
    np.testing.assert_allclose(table.index, np.quantile(data["age"], [0.05, 0.25, 0.5, 0.75, 0.95]), atol=0.3)
    few = Model("outcome ~ weight", data).fit().effects("weight")
    assert list(few.index) == [0, 1, 2, 3]


def test_rows_count_by_their_weights(data):
    weighted = Model("outcome ~ age + arm", data, weights="weight").fit()
    repeated = data.loc[data.index.repeat(data["weight"])]
    table = weighted.effects("arm")
    expected = brute_force(weighted, repeated, {"arm": "high"})
    assert table.loc["high", "estimate"] == pytest.approx(expected, abs=1e-12)
    again = weighted.effects("arm", data=data, weights="weight")
    np.testing.assert_allclose(again["estimate"], table["estimate"], rtol=1e-12)
    unweighted = weighted.effects("arm", data=data)
    assert abs(unweighted.loc["high", "estimate"] - table.loc["high", "estimate"]) > 1e-5  # the weights matter


def test_contrasts_are_differences_and_ratios_of_effects(fit, data):
    p = [brute_force(fit, data, {"arm": level}) for level in LEVELS]
    difference = fit.contrasts("arm")
    assert list(difference.index) == ["low - high", "none - high"]
    np.testing.assert_allclose(difference["estimate"], [p[1] - p[0], p[2] - p[0]], rtol=1e-9)
    ratio = fit.contrasts("arm", kind="ratio")
    assert list(ratio.index) == ["low / high", "none / high"]
    np.testing.assert_allclose(ratio["estimate"], [p[1] / p[0], p[2] / p[0]], rtol=1e-9)
    odds = fit.contrasts("arm", kind="odds ratio", at=["none", "high"])
    assert odds.loc["high / none", "estimate"] == pytest.approx(np.exp(logit(p[0]) - logit(p[2])), rel=1e-9)
    step = fit.contrasts("age", step=5)
    expected = brute_force(fit, data, {"age": data["age"] + 5}) - brute_force(fit, data, {})
    assert step.loc["+5", "estimate"] == pytest.approx(expected, abs=1e-12)
    sd = fit.contrasts("age", step="sd")
    expected = brute_force(fit, data, {"age": data["age"] + data["age"].std(ddof=0)}) - brute_force(fit, data, {})
    assert sd["estimate"].iloc[0] == pytest.approx(expected, abs=1e-12)


def test_a_slope_is_the_average_derivative(fit, data):
    for name in ("age", "dose"):
        step = 1e-4 * data[name].std()
        up, down = (brute_force(fit, data, {name: data[name] + way * step}) for way in (1, -1))
        found = fit.slopes(name)["estimate"].iloc[0]
        assert found == pytest.approx((up - down) / (2 * step), rel=1e-5)  # both steps have errors of second order


def test_the_gradient_is_that_of_finite_differences_in_the_coefficients(fit):
    subject = fit._effects_subject(None, None, None)
    held = replace(subject.models, link=None)
    weights = np.full((len(subject.rows.weights), 1), 1 / len(subject.rows.weights))
    encoded = subject.rows.encoded({"arm": "low"})
    gradient = held.average(encoded, weights).gradients[0][0]
    assert gradient[-1] == 0.0  # the link is held
    mean = fit.outcome.state.coefficients.mean
    for k in range(len(mean)):
        step = np.zeros_like(mean)
        step[k] = 1e-5
        up, down = (
            replace(held, fits=[with_coefficients(fit, mean + way * step)]).average(encoded, weights).value[0]
            for way in (1, -1)
        )
        assert gradient[k] == pytest.approx((up - down) / 2e-5, abs=1e-7)


def test_with_the_link_the_size_of_the_coefficients_does_not_matter(data):
    """Coefficients twice as large have a link half as steep: only the link's own spread is left in that direction."""
    fit = Model("outcome ~ age + arm", data, likelihood="hinge").fit()
    models = fit._effects_subject(None, None, None).models
    assert models.link is not None
    mean = fit.posterior.mean
    if fit._link.bend == 0.0:
        assert models.link.response @ mean == pytest.approx(1.0, abs=1e-3)  # to the floor under small log odds
    else:
        assert 0.3 < models.link.response @ mean <= 1.0


def test_intervals_stay_in_range(fit):
    table = fit.effects("age", at=[-100, 250], level=0.999)
    assert ((table["lower"] >= 0) & (table["upper"] <= 1) & (table["lower"] <= table["estimate"])).all()
    assert (table["estimate"] <= table["upper"]).all()
    ratio = fit.contrasts("arm", kind="ratio", level=0.999)
    assert (ratio["lower"] > 0).all()
    narrow = fit.effects("arm", level=0.5)
    wide = fit.effects("arm", level=0.95)
    assert ((wide["upper"] - wide["lower"]) > (narrow["upper"] - narrow["lower"])).all()


def test_the_covariance_can_be_chosen(fit):
    sds = {
        kind: fit.effects("arm", covariance=kind)["std_error"].to_numpy()
        for kind in ("robust", "curvature", "mean-field")
    }
    assert (sds["mean-field"] < sds["curvature"]).all()  # much too narrow, as everywhere
    assert not np.allclose(sds["robust"], sds["curvature"])
    with pytest.raises(ValueError, match="covariance must be one of"):
        fit.effects("arm", covariance="wrong")


@pytest.mark.parametrize("held", [False, True])
def test_intervals_cover_the_truth_about_as_often_as_they_say(held):
    """Risk differences and slopes of a logistic population, 60 samples of 600 rows.

    In smaller samples some hinge fits leave x out, which no interval knows. With the link held, slopes are the negative
    control: their spread lacks that of the link.
    """
    n, reps = 600, 60
    z = np.random.default_rng(1).normal(size=200_000)
    truth = np.array([expit(0.4 + 0.8 * z).mean() - expit(-0.3 + 0.8 * z).mean()])
    covered, estimates, sds = [], [], []
    for seed in range(reps):
        rng = np.random.default_rng(1000 + seed)
        x, t = rng.normal(size=n), rng.integers(0, 2, n)
        y = rng.uniform(size=n) < expit(-0.3 + 0.8 * x + 0.7 * t)
        fit = Model("y ~ x + t", pd.DataFrame({"x": x, "t": np.where(t, "b", "a"), "y": y}), likelihood="hinge").fit()
        if held:
            subject = fit._effects_subject(None, None, None)
            vars(fit)["_effects_subject"] = lambda *_, of=subject: replace(of, models=replace(of.models, link=None))
        contrast, slope = fit.contrasts("t").iloc[0], fit.slopes("x").iloc[0]
        covered.append(contrast["lower"] <= truth[0] <= contrast["upper"])
        estimates.append(slope["estimate"])
        sds.append(slope["std_error"])
    ratio = np.mean(sds) / np.std(estimates)
    if held:
        assert ratio < 0.8
    else:
        assert np.mean(covered) >= 0.86  # 60 samples of a level of .95: three standard errors are .085
        assert 0.8 < ratio < 1.35  # the standard deviation of 60 estimates is known to 9 %


def test_groups_keep_their_effects_or_are_new():
    data = people(400, 3, groups=20)
    fit = Model("outcome ~ age + arm + (1 | centre)", data).fit()
    observed, new = fit.effects("arm"), fit.effects("arm", groups="new")
    expected = brute_force(fit, data, {"arm": "high"})
    assert observed.loc["high", "estimate"] == pytest.approx(expected, abs=1e-12)
    expected = brute_force(fit, data, {"arm": "high", "centre": 999})
    assert new.loc["high", "estimate"] == pytest.approx(expected, abs=1e-12)
    assert len(fit.effects("centre")) == 20
    with pytest.raises(ValueError, match="groups must be 'known', 'new' or 'error'"):
        fit.effects("arm", groups="old")


def test_the_note_says_what_intervals_do_not_include():
    data = people(200, 3, groups=12)
    hinge = {"likelihood": "hinge"}
    link = "the link from decision values to probabilities"

    def note(formula, data, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the calibration of a support vector machine
            note = Model(formula, data, **settings).fit().effects("arm").attrs["note"]
        found = re.search(r"Intervals do not include the uncertainty of (.*?)\.(?: |$)", note)
        return found[1] if found else ""

    groups = "variance components"
    assert note("outcome ~ age + arm", data) == ""  # a logistic model has no other parameters
    assert note("outcome ~ age + arm + (1 | centre)", data) == f"{groups} or random effects"
    assert note("outcome ~ age + arm", data, **hinge) == f"{link} (except for its slope)"
    found = note("outcome ~ age + arm + (1 | centre)", data, **hinge)
    assert found == f"{groups}, random effects or {link} (except for its slope)"
    missing = data.assign(age=data["age"].where(data.index % 9 > 0))
    found = note("outcome ~ age + arm + (1 | centre)", missing)
    assert found == f"{groups}, random effects or the distribution of missing predictors"


def test_several_classes_have_a_row_each():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"])
    y = np.argmax(np.column_stack([X["a"], X["b"], -X["a"] - X["b"]]) + rng.gumbel(size=(240, 3)), axis=1)
    clf = VBSVC().fit(X, y)
    table = clf.effects("a", at=[-1, 1])
    assert table.index.names == ["a", "class"]
    for value in (-1, 1):
        np.testing.assert_allclose(
            table.loc[value, "estimate"], clf.predict_proba(X.assign(a=float(value))).mean(axis=0), atol=1e-12
        )
    np.testing.assert_allclose(clf.slopes("a")["estimate"].sum(), 0.0, atol=1e-8)  # probabilities add up to 1
    assert (table["std_error"] > 0).all()
    assert "too wide" in table.attrs["note"]


def test_an_estimator_has_the_same_effects_as_a_formula(data):
    X = data[["age", "dose"]]
    clf = VBSVC().fit(X, data["outcome"], sample_weight=data["weight"])
    table = clf.effects("age", by="dose", at=[50], data=X.assign(dose=np.round(X["dose"]).clip(upper=2)))
    assert set(table.index.get_level_values("dose")) <= {0.0, 1.0, 2.0}
    own = clf.effects("age", at=[50])
    chances = clf.predict_proba(X.assign(age=50.0))[:, 1]
    assert own["estimate"].iloc[0] == pytest.approx(np.average(chances, weights=data["weight"]), abs=1e-12)
    named = VBSVC().fit(X.to_numpy(), data["outcome"]).effects("x0", at=[50])
    assert named.index.name == "x0"
    before = X.copy()
    clf.contrasts("dose")
    pd.testing.assert_frame_equal(X, before)  # the user's table is not written into


def test_class_weights_have_no_say_in_the_average(data):
    X = data[["age", "dose"]]
    clf = VBSVC(class_weight={"no": 1, "yes": 3}).fit(X, data["outcome"])
    expected = clf.predict_proba(X.assign(age=50.0))[:, 1].mean()
    assert clf.effects("age", at=[50])["estimate"].iloc[0] == pytest.approx(expected, abs=1e-12)


def test_an_estimators_group_can_be_set_and_is_kept():
    data = people(300, 4, groups=6)
    X = data[["age", "dose", "centre"]]
    clf = VBSVC(group="centre").fit(X, data["outcome"])
    table = clf.effects("centre")
    assert list(table.index) == list(range(6))
    expected = clf.predict_proba(X.assign(centre=2))[:, 1].mean()
    assert table.loc[2, "estimate"] == pytest.approx(expected, abs=1e-12)
    by = clf.effects("age", by="centre", at=[50])
    here = X[X["centre"] == 4].assign(age=50.0)
    assert by.loc[(50, 4), "estimate"] == pytest.approx(clf.predict_proba(here)[:, 1].mean(), abs=1e-12)


def test_a_sampled_fit_has_intervals_by_its_draws(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short run
        fit = Model("outcome ~ age + arm", data, likelihood="hinge").fit(
            Gibbs(draws=300, tune=100, chains=2), random_state=1
        )
    table = fit.effects("arm")
    mean, X = fit.posterior.mean, fit.reader.read(data.assign(arm="low"))
    design = np.column_stack([np.ones(len(data)), (X.table - fit.plan.recipe.centre) / fit.plan.recipe.scale])
    slope, bend = fit._link.slope, fit._link.bend
    draws = fit.posterior.sample.flat @ design.T * slope
    averages = expit(draws / np.sqrt(1 + bend * draws**2)).mean(axis=1)
    lower, upper = np.quantile(averages, [0.025, 0.975])
    assert len(mean) == design.shape[1]
    np.testing.assert_allclose(table.loc["low", ["lower", "upper"]].astype(float), [lower, upper], atol=1e-6)
    assert table.loc["low", "std_error"] == pytest.approx(averages.std(), abs=1e-6)
    difference = fit.contrasts("arm")
    assert (difference["lower"] < difference["estimate"]).all()
    robust = fit.effects("arm", covariance="robust")
    assert (robust["std_error"] > table["std_error"]).all()


def test_missing_inputs_and_categories_are_averaged_as_in_predictions(data):
    holes = data.copy()
    holes.loc[::7, "age"] = np.nan
    holes.loc[::11, "arm"] = None
    fit = Model("outcome ~ age + log(dose) + arm", holes).fit()
    for variable, value in (("dose", 2.0), ("age", 45), ("arm", "low")):
        expected = fit.predict_proba(holes.assign(**{variable: value}))[:, 1].mean()
        found = fit.effects(variable, at=[value])
        assert found["estimate"].iloc[0] == pytest.approx(expected, abs=1e-12)
        assert found["std_error"].iloc[0] > 0
    known = holes[holes["age"].notna()]
    up, down = (fit.predict_proba(known.assign(age=known["age"] + way * 1e-3))[:, 1].mean() for way in (1, -1))
    assert fit.slopes("age")["estimate"].iloc[0] == pytest.approx((up - down) / 2e-3, rel=1e-4)
    by = fit.effects("dose", by="arm", at=[1])
    assert list(by.index.get_level_values("arm")) == LEVELS  # rows that miss it are left out


def test_candidates_of_missing_categories_have_the_gradient_of_finite_differences(data):
    holes = data.copy()
    holes.loc[::5, "arm"] = None
    fit = Model("outcome ~ age + arm", holes).fit()
    subject = fit._effects_subject(None, None, None)
    held = replace(subject.models, link=None)
    weights = np.full((len(holes), 1), 1 / len(holes))
    encoded = subject.rows.encoded({"age": 60.0})
    assert encoded.candidates is not None
    gradient, mean = held.average(encoded, weights).gradients[0][0], fit.outcome.state.coefficients.mean
    step = np.zeros_like(mean)
    step[1] = 1e-5  # of age, which is the same in all candidates of a row: the spread between them stays as it is
    up, down = (
        replace(held, fits=[with_coefficients(fit, mean + way * step)]).average(encoded, weights).value[0]
        for way in (1, -1)
    )
    assert gradient[1] == pytest.approx((up - down) / 2e-5, abs=1e-7)


def test_columns_that_are_constant_or_left_out_have_no_effect(data):
    constant = data.assign(same=3.0)
    fit = Model("outcome ~ age + same", constant).fit()
    table = fit.effects("same", at=[1, 3, 100])
    assert table["estimate"].nunique() == 1
    assert len(fit.effects("same")) == 1
    assert fit.slopes("same")["estimate"].iloc[0] == 0.0
    one_arm = data.assign(arm="low")
    fit = Model("outcome ~ age + dose", one_arm).fit()
    with pytest.raises(ValueError, match="'arm' is not a predictor of the model"):
        fit.effects("arm")


def test_gates_and_truth_values_have_effects(data):
    flagged = data.assign(old=data["age"] > 55, noise=np.random.default_rng(0).normal(size=len(data)))
    fit = Model("outcome ~ old + dose + noise", flagged, priors={"fixed": LaplaceZero()}).fit()
    assert list(fit.effects("old").index) == [False, True]
    assert fit.contrasts("old").index[0] == "True - False"


def test_numbers_that_are_categories_in_the_formula_have_levels(data):
    fit = Model("outcome ~ C(weight) + age", data).fit()
    assert list(fit.effects("weight").index) == [0, 1, 2, 3]
    assert len(fit.contrasts("weight")) == 3
    with pytest.raises(ValueError, match="'weight' is a category"):
        fit.slopes("weight")


def test_a_loaded_or_copied_fit_asks_for_rows(fit, data, tmp_path):
    fit.save(tmp_path / "fit.vbsvm")
    loaded = load(tmp_path / "fit.vbsvm")
    for one in (loaded, pickle.loads(pickle.dumps(fit))):
        with pytest.raises(ValueError, match=re.escape("give rows with data=")):
            one.effects("arm")
        pd.testing.assert_frame_equal(one.effects("arm", data=data), fit.effects("arm"), atol=1e-9)


def test_what_is_wrong_is_said_in_words(fit, data):
    for call, said in (
        (lambda: fit.effects("armm"), "Did you mean 'arm'"),
        (lambda: fit.effects("outcome"), "'outcome' is not a predictor"),
        (lambda: fit.effects("site"), "'site' is not a predictor"),
        (lambda: fit.effects("arm", by="arm"), "'arm' is the variable and in by"),
        (lambda: fit.effects("arm", by="stie"), "no column 'stie'"),
        (lambda: fit.effects("arm", by="age"), "makes 300 groups of rows"),
        (lambda: fit.effects("arm", at=[]), "1 to 1000 values"),
        (lambda: fit.effects("age", at=[np.nan]), "a value of 'age' is needed"),
        (lambda: fit.effects("age", at=["old"]), "was numeric in fit"),
        (lambda: fit.effects("arm", at=["other"]), "other"),
        (lambda: fit.effects("arm", at={"age": [1]}), "not among the variables"),
        (lambda: fit.effects([]), "name an input"),
        (lambda: fit.effects("arm", level=2), "level"),
        (lambda: fit.effects("arm", weights="weight"), "weights belong to data"),
        (lambda: fit.effects("arm", data=data, weights=[1.0, 2.0]), "shape"),
        (lambda: fit.effects("arm", data=data, weights=-np.ones(len(data))), "at least 0"),
        (lambda: fit.contrasts("arm", kind="gain"), "kind must be one of"),
        (lambda: fit.contrasts("age", step=0), "step must be a number other than 0"),
        (lambda: fit.contrasts("arm", at=["low"]), "two values of 'arm' are needed"),
        (lambda: fit.slopes("arm"), "'arm' is a category"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            call()
    for call in (lambda: fit.effects(["arm", "age"], at=[1]), lambda: fit.effects(["arm", "arm"])):
        with pytest.raises(TypeError, match="effects: "):
            call()
    clf = VBSVC().fit(data[["age", "dose"]], data["outcome"])
    with pytest.raises(TypeError, match="belongs to an estimator"):
        clf.fit_[0].effects("age")
    with pytest.raises(ValueError, match="'agee' is not a predictor"):
        clf.effects("agee")


def test_names_of_many_columns_are_made_once():
    """Each column asks for them: made anew every time, they would take as much as columns × columns."""
    columns = TableColumns(tuple(range(3000)), {}, None)
    assert columns.names is columns.names
    assert columns.owners is columns.owners
    assert columns.places("x7").tolist() == [7]
