"""Contrasts: combinations of averages by weights, tests, and intervals that hold jointly for all rows of a table."""

import ast
import re
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import norm, studentized_range

from vbsvm import VBSVC, Gibbs, Model
from vbsvm.results.effects.averages import LOGS, AverageEstimate, largest_statistics
from vbsvm.results.effects.check import NOT_CHECKED

ARMS = ["a", "b", "c", "d"]
TREND = {"trend": {"a": -3, "b": -1, "c": 1, "d": 3}, "rest": {"a": 1, "b": -1 / 3, "c": -1 / 3, "d": -1 / 3}}


def trial(n=320, seed=0, effect=(0.0, 0.3, 0.6, 1.2), n_groups=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"arm": rng.choice(ARMS, n), "x": rng.normal(size=n), "site": rng.choice(["north", "south"], n)}
    )
    score = data["arm"].map(dict(zip(ARMS, effect, strict=True))) + 0.5 * data["x"] - 0.3
    if n_groups:
        data["g"] = rng.integers(0, n_groups, n)
        score = score + rng.normal(size=n_groups)[data["g"]]
    return data.assign(y=rng.uniform(size=n) < expit(score))


@pytest.fixture(scope="module")
def fit():
    return Model("y ~ arm * site + x", trial()).fit()


@pytest.fixture(scope="module")
def sampled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short run
        return Model("y ~ arm + x", trial()).fit(Gibbs(draws=400, tune=200, chains=2), random_state=1)


@pytest.mark.parametrize(
    ("compare", "pairs"),
    [
        ("reference", [(0, 1), (0, 2), (0, 3)]),
        ("pairwise", list(combinations(range(4), 2))),
        ("sequential", [(0, 1), (1, 2), (2, 3)]),
    ],
)
@pytest.mark.parametrize("kind", ["difference", "ratio", "odds ratio"])
def test_levels_are_compared_in_pairs(fit, compare, pairs, kind):
    p = fit.effects("arm")["estimate"].to_numpy()
    table = fit.contrasts("arm", compare=compare, kind=kind)
    sign = "-" if kind == "difference" else "/"
    assert list(table.index) == [f"{ARMS[k]} {sign} {ARMS[j]}" for j, k in pairs]
    by_kind = {"difference": lambda p: p, "ratio": np.log, "odds ratio": logit}[kind](p)
    expected = np.array([by_kind[k] - by_kind[j] for j, k in pairs])
    np.testing.assert_allclose(table["estimate"], expected if kind == "difference" else np.exp(expected), rtol=1e-9)


def test_weights_combine_the_averages_of_levels(fit):
    p = fit.effects("arm")["estimate"].to_numpy()
    table = fit.contrasts("arm", compare=TREND)
    assert list(table.index) == ["trend", "rest"]
    np.testing.assert_allclose(table["estimate"], [p @ [-3, -1, 1, 3], p[0] - p[1:].mean()], rtol=1e-9)
    ratio = fit.contrasts("arm", compare=TREND, kind="ratio")
    assert ratio.loc["trend", "estimate"] == pytest.approx(np.exp(np.log(p) @ [-3, -1, 1, 3]), rel=1e-9)
    two = fit.contrasts("arm", compare={"d against a": {"d": 1, "a": -1}})  # other levels have the weight 0
    single = fit.contrasts("arm").loc["d - a"]
    np.testing.assert_allclose(two.iloc[0].to_numpy(), single.to_numpy(), rtol=1e-9)


def test_the_standard_error_of_a_contrast_is_that_of_its_gradient(fit):
    """A sum of two contrasts has the covariance of both: Var(u + v) = Var u + Var v + 2 Cov(u, v)."""
    half = {"ab": {"a": 1, "b": -1}, "cd": {"c": 1, "d": -1}}
    both = {"sum": {"a": 1, "b": -1, "c": 1, "d": -1}, "difference": {"a": 1, "b": -1, "c": -1, "d": 1}}
    var = {
        name: table["std_error"] ** 2
        for name, table in (("half", fit.contrasts("arm", compare=half)), ("both", fit.contrasts("arm", compare=both)))
    }
    assert var["both"].sum() == pytest.approx(2 * var["half"].sum(), rel=1e-9)  # the parallelogram


def test_numbers_are_compared_at_their_values(fit):
    table = fit.contrasts("x", compare="sequential", at=[-1, 0, 1.5])
    assert list(table.index) == ["0 - -1", "1.5 - 0"]
    p = fit.effects("x", at=[-1, 0, 1.5])["estimate"].to_numpy()
    np.testing.assert_allclose(table["estimate"], np.diff(p), rtol=1e-9)
    assert len(fit.contrasts("x", compare="pairwise")) == 10  # of five quantiles
    weighted = fit.contrasts("x", compare={"curvature": {-1: 1, 0: -2, 1.0: 1}})
    p = fit.effects("x", at=[-1, 0, 1])["estimate"].to_numpy()
    assert weighted["estimate"].iloc[0] == pytest.approx(p @ [1, -2, 1], rel=1e-6, abs=1e-12)


def test_strata_have_contrasts_of_their_own_in_one_family(fit):
    table = fit.contrasts("arm", by="site", compare="pairwise", simultaneous=True)
    assert table.index.names == ["arm", "site"]
    assert len(table) == 12
    one = fit.contrasts("arm", by="site", compare="pairwise")
    np.testing.assert_allclose(table["estimate"], one["estimate"])
    reach = (table["upper"] - table["estimate"]) / table["std_error"]
    assert np.ptp(reach) < 1e-9  # one quantile for all rows
    assert norm.ppf(0.975) < reach.iloc[0] < norm.ppf(1 - 0.025 / 12)  # between separate ones and Bonferroni
    assert "hold jointly for all 12 rows" in table.attrs["note"]
    assert "jointly" not in one.attrs["note"]


@pytest.mark.parametrize("kind", ["difference", "ratio", "odds ratio"])
def test_predictors_can_be_set_to_given_values_in_all_observations(kind):
    data = trial(n_groups=8)
    fit = Model("y ~ arm * x + site + (1 | g)", data).fit()
    table = fit.contrasts("arm", by={"x": [-1, 2], "site": ["south"]}, kind=kind)
    assert table.index.names == ["arm", "x", "site"]
    assert list(table.index[:3]) == [(f"b {'-' if kind == 'difference' else '/'} a", x, "south") for x in (-1, 2)] + [
        (f"c {'-' if kind == 'difference' else '/'} a", -1, "south")
    ]
    for x in (-1, 2):
        expected = fit.contrasts("arm", kind=kind, data=data.assign(x=float(x), site="south"))
        np.testing.assert_allclose(table.xs(x, level="x").to_numpy(), expected.to_numpy(), rtol=1e-9)
    assert not np.allclose(table.xs(-1, level="x")["estimate"], table.xs(2, level="x")["estimate"])


def test_effects_slopes_and_steps_at_given_values(fit):
    data = trial()
    table = fit.effects("site", by={"arm": ["d", "a"]})
    assert list(table.index) == [(site, arm) for site in ("north", "south") for arm in ("d", "a")]  # as they were given
    for arm in ("d", "a"):
        at = data.assign(arm=arm)
        pd.testing.assert_frame_equal(table.xs(arm, level="arm"), fit.effects("site", data=at), rtol=1e-9)
        for make in (lambda **how: fit.slopes("x", **how), lambda **how: fit.contrasts("x", step="sd", **how)):
            own = make(by={"arm": None}).xs(arm, level="arm")  # all levels
            np.testing.assert_allclose(own.to_numpy(), make(data=at).to_numpy(), rtol=1e-6)


def test_given_values_without_a_formula_and_with_several_classes():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"])
    y = np.argmax(np.column_stack([X["a"], X["b"], -X["a"] - X["b"]]) + rng.gumbel(size=(240, 3)), axis=1)
    X.loc[:20, "a"] = np.nan
    clf = VBSVC().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the calibration of a support vector machine
        table = clf.slopes("a", by={"b": [0, 1]})
        assert table.index.names == ["a", "b", "class"]
        for b in (0, 1):
            own = table.xs(b, level="b")["estimate"]
            np.testing.assert_allclose(own, clf.slopes("a", data=X.assign(b=float(b)))["estimate"], rtol=1e-6)


def test_observed_proportions_and_the_check_are_in_the_cells_of_given_values():
    data = trial(600)
    fit = Model("y ~ arm + site", data, likelihood="hinge").fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the calibration of a support vector machine
        table = fit.effects("arm", by={"site": ["south"]})
    south = data[data["site"] == "south"]
    np.testing.assert_allclose(table["observed"], south.groupby("arm")["y"].mean(), rtol=1e-12)
    assert {"caution", "check"} & set(table.attrs)
    assert table.attrs.get("check") != NOT_CHECKED


def test_given_values_are_those_of_gibbs_draws(sampled):
    table = sampled.contrasts("arm", by={"x": [0, 1]}, at=["a", "d"])
    for x in (0, 1):
        expected = sampled.contrasts("arm", at=["a", "d"], data=trial().assign(x=float(x)))
        np.testing.assert_allclose(table.xs(x, level="x").to_numpy(), expected.to_numpy(), rtol=1e-9)


@pytest.mark.parametrize(
    ("by", "error", "said"),
    [
        ("x", ValueError, "makes 320 groups of rows; 1 to 50 make a table: use by={'x': ["),
        ({"y": [True]}, ValueError, "'y' is not a predictor of the model; it has"),
        ({"sit": ["south"]}, ValueError, "Did you mean 'site'?"),
        ({"arm": ["a"]}, ValueError, "'arm' is the variable and in by"),
        ({"site": []}, ValueError, "choose a list of 1 to 1000 values of 'site'; got 0"),
        ({"x": [np.nan]}, ValueError, "a value of 'x' is needed"),
        ({"x": ["high"]}, ValueError, "'x' was numeric in fit"),
        ({"site": ["soth"]}, ValueError, "there were 'north', 'south'. Did you mean 'south'"),
    ],
)
def test_given_values_that_make_no_sense_are_refused(fit, by, error, said):
    with pytest.raises(error, match=re.escape(said)):
        fit.contrasts("arm", by=by)


def test_the_suggested_values_can_be_used(fit):
    with pytest.raises(ValueError, match="groups of rows") as refused:
        fit.contrasts("arm", by="x")
    by = ast.literal_eval(re.search(r"by=(\{.*?\})", str(refused.value))[1])
    assert len(fit.contrasts("arm", by=by)) == 3 * len(by["x"]) == 6
    with pytest.raises(ValueError, match="groups of rows") as refused:  # not in the formula: it can't be set
        fit.contrasts("arm", by="z", data=trial().assign(z=np.arange(320)))
    assert "use by=" not in str(refused.value)


def test_p_values_and_probabilities_of_a_sign_are_never_both(fit):
    posterior, robust = fit.contrasts("arm"), fit.contrasts("arm", covariance="robust")
    assert "p_value" not in posterior
    assert "p_positive" not in robust
    z = robust["estimate"] / robust["std_error"]
    np.testing.assert_allclose(robust["p_value"], 2 * norm.sf(np.abs(z)), rtol=1e-9)
    np.testing.assert_allclose(
        posterior["p_positive"], norm.cdf(posterior["estimate"] / posterior["std_error"]), rtol=1e-9
    )
    ratio = fit.contrasts("arm", kind="ratio", covariance="robust")
    excludes = (ratio["lower"] > 1) | (ratio["upper"] < 1)
    np.testing.assert_array_equal(excludes, ratio["p_value"] < 0.05)
    slope = fit.slopes("x", covariance="robust").iloc[0]
    assert slope["p_value"] == pytest.approx(2 * norm.sf(abs(slope["estimate"] / slope["std_error"])))
    assert not {"p_value", "p_positive"} & set(fit.effects("arm", covariance="robust").columns)


def test_adjusted_p_values_agree_with_simultaneous_intervals(fit):
    options = {"compare": "pairwise", "covariance": "robust"}
    separate = fit.contrasts("arm", **options)["p_value"]
    for level in (0.5, 0.9, 0.95, 0.99):
        table = fit.contrasts("arm", simultaneous=True, level=level, **options)
        excludes = (table["lower"] > 0) | (table["upper"] < 0)
        np.testing.assert_array_equal(excludes, table["p_value"] < 1 - level)
        assert (table["p_value"] >= separate).all()
        assert (table["p_value"] <= 6 * separate + 1e-12).all()
    assert (table["p_value"] > separate).any()
    pd.testing.assert_frame_equal(table, fit.contrasts("arm", simultaneous=True, level=0.99, **options))


@pytest.mark.parametrize("degrees", [5, 20, np.inf])
def test_the_largest_of_all_pairs_has_the_studentized_range(degrees):
    pairs = np.array([np.eye(4)[k] - np.eye(4)[j] for j, k in combinations(range(4), 2)]) / np.sqrt(2)
    largest, independent = largest_statistics(pairs, degrees), largest_statistics(np.eye(6), degrees)
    for level in (0.8, 0.95, 0.99):
        tukey = studentized_range.ppf(level, 4, degrees) / np.sqrt(2)
        assert np.quantile(largest, level) == pytest.approx(tukey, rel=0.012)
        assert np.quantile(independent, level) > np.quantile(largest, level)


def test_an_adjusted_p_value_beyond_all_draws_is_bonferronis():
    data = trial(3000, 1, effect=(0.0, 0.0, 0.0, 2.5))
    fit = Model("y ~ arm", data).fit()
    separate, family = (
        fit.contrasts("arm", compare="pairwise", covariance="robust", simultaneous=value)["p_value"]
        for value in (False, True)
    )
    far = separate < 1e-12
    assert far.sum() == 3
    assert (family[far] >= separate[far]).all()
    assert (family[far] <= 6 * separate[far]).all()


def test_one_contrast_has_the_same_interval_in_a_family_of_its_own(fit):
    for covariance in ("robust", "posterior"):
        alone, family = (
            fit.contrasts("arm", at=["a", "d"], covariance=covariance, simultaneous=value) for value in (False, True)
        )
        np.testing.assert_allclose(family.to_numpy(), alone.to_numpy(), rtol=0.02, atol=1e-3)


def test_draws_hold_jointly_in_as_many_draws_as_the_level_says(sampled):
    table = sampled.contrasts("arm", compare="pairwise", simultaneous=True)
    assert "p_value" not in table
    subject = sampled._effects_subject(None, None, None)
    weights = np.full((len(subject.rows.weights), 1), 1 / len(subject.rows.weights))
    draws = np.column_stack([subject.models.average(subject.rows.encoded({"arm": arm}), weights).draws for arm in ARMS])
    contrasts = np.column_stack([draws[:, k] - draws[:, j] for j, k in combinations(range(4), 2)])
    inside = (contrasts >= table["lower"].to_numpy()) & (contrasts <= table["upper"].to_numpy())
    assert inside.all(axis=1).mean() == pytest.approx(0.95, abs=2 / len(draws))
    np.testing.assert_allclose(table["p_positive"], (contrasts > 0).mean(axis=0), atol=1e-12)
    separate = sampled.contrasts("arm", compare="pairwise")
    inside = (contrasts >= separate["lower"].to_numpy()) & (contrasts <= separate["upper"].to_numpy())
    assert inside.all(axis=1).mean() < 0.9
    assert "p_value" in sampled.contrasts("arm", covariance="robust")


def test_a_hinge_fit_with_groups_has_all_of_them():
    data = trial(400, 3, n_groups=25)
    fit = Model("y ~ arm + x + (1 | g)", data, likelihood="hinge").fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the calibration of a support vector machine
        for groups in ("known", "new"):
            table = fit.contrasts("arm", compare="pairwise", groups=groups, simultaneous=True)
            assert (table["upper"] > table["lower"]).all()
            assert table["p_value"].between(0, 1).all()
            assert "adjusted" in table.attrs["note"]
        named = fit.contrasts("arm", compare=TREND, kind="odds ratio")
    assert (named["lower"] < named["estimate"]).all()


def test_several_classes_have_sidaks_intervals():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"])
    y = np.argmax(np.column_stack([X["a"], X["b"], -X["a"] - X["b"]]) + rng.gumbel(size=(240, 3)), axis=1)
    table = VBSVC().fit(X, y).contrasts("a", at=[-1, 1], simultaneous=True)
    reach = (table["upper"] - table["estimate"]) / table["std_error"]
    np.testing.assert_allclose(reach, norm.ppf(0.5 + 0.5 * 0.95 ** (1 / 3)), rtol=0.01)


def test_a_weight_of_zero_leaves_out_a_probability_of_zero():
    averages = [AverageEstimate(np.array([p]), (np.array([[0.1, 0.0]]),)).on_scale(LOGS) for p in (0.0, 0.2, 0.4)]
    found = AverageEstimate.weighted_sum(averages, np.array([0.0, -1.0, 1.0]))
    assert found.value[0] == pytest.approx(np.log(2))
    assert np.isfinite(found.gradients[0]).all()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"compare": "tukey"}, ValueError, "compare must be one of 'reference', 'pairwise', 'sequential'"),
        ({"compare": ["a", "b"]}, ValueError, "compare must be one of"),
        ({"compare": {}}, ValueError, "compare must be one of"),
        ({"compare": {"t": [1, -1]}}, TypeError, "'t' needs numbers by level"),
        ({"compare": {"t": {"a": 1, "b": -0.5}}}, ValueError, "'t' must sum to 0; they sum to 0.5"),
        ({"compare": {"t": {"a": 0, "b": 0}}}, ValueError, "'t' must be finite, and not all 0"),
        ({"compare": {"t": {}}}, ValueError, "not all 0"),
        ({"compare": {"t": {"a": np.inf, "b": -np.inf}}}, ValueError, "'t' must be finite"),
        ({"compare": {"t": {"a": np.nan, "b": 1}}}, ValueError, "'t' must be finite"),
        ({"compare": {"t": {"a": "one", "b": -1}}}, TypeError, "'t' needs numbers by level"),
        ({"compare": {"t": {"a": 1, "z": -1}}}, ValueError, "'arm' has no level 'z'; it has 'a', 'b', 'c', 'd'"),
        ({"compare": {"t": {"a": 1, "b": -1}}, "at": ["a", "b"]}, ValueError, "leave at= out"),
        ({"compare": {"t": {"a": 1, "D": -1}}}, ValueError, "Did you mean 'd'?"),
        ({"at": {"x": [0, 1]}}, TypeError, "to compare at values of another predictor use by={'x': [0, 1]}"),
        ({"at": ["a", "B"]}, ValueError, "there were 'a', 'b', 'c', 'd'. Did you mean 'b'?"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(fit, options, error, said):
    with pytest.raises(error, match=re.escape(said)):
        fit.contrasts("arm", **options)


def null_coverage(n_sets, n=480):
    """Familywise coverage of all pairs of four equal levels: of simultaneous intervals, and of separate ones."""
    covered = {True: 0, False: 0}
    for seed in range(n_sets):
        y = np.random.default_rng(seed).uniform(size=n) < 0.4
        fit = Model("y ~ arm", pd.DataFrame({"arm": np.repeat(ARMS, n // 4), "y": y})).fit()
        for simultaneous in covered:
            table = fit.contrasts("arm", compare="pairwise", simultaneous=simultaneous, covariance="posterior")
            covered[simultaneous] += bool(((table["lower"] <= 0) & (table["upper"] >= 0)).all())
    return covered[True] / n_sets, covered[False] / n_sets


def test_simultaneous_intervals_cover_all_pairs_and_separate_ones_do_not():
    together, separate = null_coverage(40)
    assert together >= 0.88  # 40 sets of a level of .95: two standard errors are .07
    assert separate < together


@pytest.mark.long
def test_familywise_coverage_under_the_null():
    together, separate = null_coverage(400)
    assert together >= 0.93
    assert separate < 0.85
