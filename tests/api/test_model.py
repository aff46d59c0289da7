"""Model(formula, data): the paper's random intercepts and what it promises beyond them."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from optional import optional
from reference import algorithm_2_grouped
from vbsvm import VBSVC, Covariance, InverseWishart, Model, Normal, ReliabilityWarning, Ridge, Variational
from vbsvm.base.distributions import MIDPOINTS
from vbsvm.datasets import load_toenail
from vbsvm.results.covariance import covariance as covariance_of
from vbsvm.sources.memory import Memory

pl = optional("polars")
pa = optional("pyarrow")

TIGHT = Variational(tol=1e-10, bound="augmented")
TINY = Normal(1e-12)


def balanced_error(truth, found):
    return 1 - np.mean([np.mean(found[truth == label] == label) for label in np.unique(truth)])


def halves(frame, seed=0):
    rows = np.random.default_rng(seed).permutation(len(frame))
    cut = 3 * len(frame) // 4
    return frame.iloc[rows[:cut]], frame.iloc[rows[cut:]]


def answers(rng, eta):
    return np.where(rng.random(len(eta)) < expit(eta), "yes", "no")


@pytest.fixture(scope="module")
def toenail():
    return load_toenail()


@pytest.fixture(scope="module")
def mixed():
    """400 rows in 20 groups, with a slope, a category and a bent curve."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "g": rng.integers(0, 20, size=n),
            "h": rng.choice(["a", "b", "c"], size=n),
            "x": rng.normal(size=n) * 3 + 100,
            "z": rng.gamma(1.0, size=n),
        }
    )
    u = 1.5 * rng.normal(size=20)
    frame["y"] = answers(rng, (frame["x"] - 100) / 3 + np.sin(2 * frame["z"]) + u[frame["g"]])
    return frame


def test_toenail_is_the_dense_transcription_of_algorithm_2(toenail):
    def standardised(x):
        return (x - x.mean()) / x.std(ddof=0)

    visit = standardised(toenail["visit"])
    treated = standardised((toenail["treatment"] == "terbinafine").astype(float))
    ready = pd.DataFrame({"visit": visit, "treated": treated, "both": standardised(visit * treated)})
    _, groups = np.unique(toenail["patientID"], return_inverse=True)
    signs = np.where(toenail["outcome"] == "none or mild", 1.0, -1.0)
    mu, _, bound = algorithm_2_grouped(ready.to_numpy(), groups, signs)
    ready = ready.assign(patient=toenail["patientID"], outcome=toenail["outcome"])
    fit = Model("outcome ~ visit + treated + both + (1 | patient)", ready, likelihood="hinge").fit(TIGHT)
    np.testing.assert_allclose(np.r_[fit.intercept, fit.coef], mu[:4], atol=1e-5)
    np.testing.assert_allclose(fit.random_effects()["estimate"], mu[4:], atol=1e-5)
    assert fit.elbo == pytest.approx(bound, abs=1e-7)
    # The raw frame spans the same space in another basis, under a nearly flat prior.
    raw = Model("outcome ~ visit * treatment + (1 | patientID)", toenail, likelihood="hinge").fit(TIGHT)
    np.testing.assert_allclose(raw.decision_function(toenail), fit.decision_function(ready), atol=1e-4)


def test_it_is_the_model_of_the_estimator(toenail):
    table = toenail[["visit", "patientID"]]
    clf = VBSVC(Normal(1e8), TIGHT, group="patientID").fit(table, toenail["outcome"])
    fit = Model("outcome ~ visit + (1 | patientID)", toenail, likelihood="hinge").fit(TIGHT)
    assert fit.elbo == pytest.approx(clf.elbo_, abs=1e-8)
    np.testing.assert_allclose(fit.decision_function(toenail), clf.decision_function(table), atol=1e-6)
    np.testing.assert_array_equal(fit.predict(toenail), clf.predict(table))
    np.testing.assert_allclose(fit.predict_proba(toenail), clf.predict_proba(table), atol=1e-6)
    shared = Model("outcome ~ visit + time", toenail, {"fixed": Ridge()}, likelihood="hinge").fit(TIGHT)  # Example 1
    clf = VBSVC(inference=TIGHT).fit(toenail[["visit", "time"]], toenail["outcome"])
    assert shared.elbo == pytest.approx(clf.elbo_, abs=1e-8)


def test_one_group_for_all_rows_is_the_intercept(mixed):
    grouped = Model("y ~ x + (1 | one)", mixed.assign(one="all")).fit(TIGHT)
    alone = Model("y ~ x", mixed).fit(TIGHT)
    np.testing.assert_allclose(
        grouped.decision_function(mixed.assign(one="all")), alone.decision_function(mixed), atol=1e-4
    )


@pytest.mark.parametrize(
    ("formula", "term", "without"),
    [
        ("y ~ x + (1 | g) + (0 + x | g)", "(0 + x | g)", "y ~ x + (1 | g)"),
        ("y ~ x + (x || g)", "(0 + x | g)", "y ~ x + (1 | g)"),
        ("y ~ x + s(x)", "s(x)", "y ~ x"),
        ("y ~ s(x)", "s(x)", "y ~ x"),
        ("y ~ h + s(z) + (1 | g)", "s(z)", "y ~ h + z + (1 | g)"),
        ("y ~ x + (1 | g) + (1 | h)", "(1|h)", "y ~ x + (1 | g)"),
        ("y ~ x + (1 | h/g)", "(1 | h:g)", "y ~ x + (1 | h)"),
        ("y ~ x + z", "z", "y ~ x"),
    ],
)
def test_a_variance_held_at_nothing_takes_the_term_away(mixed, formula, term, without):
    held = Model(formula, mixed, {term: TINY}).fit(TIGHT)
    np.testing.assert_allclose(
        held.decision_function(mixed), Model(without, mixed).fit(TIGHT).decision_function(mixed), atol=2e-5
    )
    free = Model(formula, mixed, {term: Normal(1.0)}).fit(TIGHT)  # and it was the variance that did it
    assert np.abs(free.decision_function(mixed) - held.decision_function(mixed)).max() > 1e-2


def test_correlated_slopes_with_a_tiny_scale_are_no_slopes(mixed):
    held = Model("y ~ x + (x | g)", mixed, {"(x | g)": InverseWishart(psi=1e-14, nu=1e7)}).fit(TIGHT)
    np.testing.assert_allclose(
        held.decision_function(mixed), Model("y ~ x", mixed).fit(TIGHT).decision_function(mixed), atol=1e-4
    )


class TestSimulated:
    """Effects are found, components are ordered as the truth is, and the pooled model is beaten."""

    def test_crossed(self):
        rng = np.random.default_rng(1)
        n = 9000
        frame = pd.DataFrame({"a": rng.integers(0, 300, n), "b": rng.integers(0, 25, n), "x": rng.normal(size=n)})
        a, b = 1.5 * rng.normal(size=300), 0.7 * rng.normal(size=25)
        frame["y"] = answers(rng, 0.3 + 0.8 * frame["x"] + a[frame["a"]] + b[frame["b"]])
        train, test = halves(frame)
        fit = Model("y ~ x + (1 | a) + (1 | b)", train).fit()
        assert np.corrcoef(fit.random_effects("a")["estimate"], a)[0, 1] > 0.8
        assert np.corrcoef(fit.random_effects("b")["estimate"], b)[0, 1] > 0.8
        sd = fit.variance_components()["std_dev"]
        assert sd["(1 | a)", "(intercept)"] > 1.3 * sd["(1 | b)", "(intercept)"]
        pooled = Model("y ~ x", train).fit()
        better = balanced_error(test["y"], fit.predict(test))
        assert better < balanced_error(test["y"], pooled.predict(test)) - 0.1

    def test_nested(self):
        rng = np.random.default_rng(2)
        n = 48_000
        pupil_class = rng.integers(0, 1600, n)
        frame = pd.DataFrame({"school": pupil_class // 10, "form": pupil_class % 10, "x": rng.normal(size=n)})
        school, form = 1.2 * rng.normal(size=160), 1.7 * rng.normal(size=1600)
        frame["y"] = answers(rng, 0.8 * frame["x"] + school[frame["school"]] + form[pupil_class])
        train, test = halves(frame)
        fit = Model("y ~ x + (1 | school/form)", train).fit()
        assert np.corrcoef(fit.random_effects("school")["estimate"], school)[0, 1] > 0.8
        effects, size = fit.random_effects("school:form")["estimate"], train.groupby(["school", "form"]).size()
        large = size.index[size >= 20]
        numbers = [10 * one + other for one, other in large]
        assert len(large) > 500
        assert np.corrcoef(effects[large], form[numbers])[0, 1] > 0.8
        sd = fit.variance_components()["std_dev"].droplevel("effect")
        assert sd["(1 | school:form)"] > 1.1 * sd["(1 | school)"]
        pooled = Model("y ~ x", train).fit()
        better = balanced_error(test["y"], fit.predict(test))
        assert better < balanced_error(test["y"], pooled.predict(test)) - 0.1

    def test_slopes(self):
        rng = np.random.default_rng(3)
        n, covariance = 8000, np.array([[3.0, 1.5], [1.5, 3.0]])
        u = rng.multivariate_normal(np.zeros(2), covariance, size=150)
        frame = pd.DataFrame({"g": rng.integers(0, 150, n), "x": 10 + 3 * rng.normal(size=n)})
        z = (frame["x"] - 10) / 3
        frame["y"] = answers(rng, 0.5 * z + u[frame["g"], 0] + u[frame["g"], 1] * z)
        train, test = halves(frame)
        errors = {}
        for formula in ("y ~ x + (x | g)", "y ~ x + (x || g)", "y ~ x + (1 | g)", "y ~ x"):
            fit = Model(formula, train).fit()
            errors[formula] = balanced_error(test["y"], fit.predict(test))
            if "(x" in formula:
                effects = fit.random_effects()["estimate"].unstack("effect")
                assert np.corrcoef(effects["(intercept)"], u[:, 0])[0, 1] > 0.8
                assert np.corrcoef(effects["x"], u[:, 1])[0, 1] > 0.8
            if formula == "y ~ x + (x | g)":
                found = fit.variance_components()["std_dev"].droplevel("term")
                assert found["(intercept)"] > 2 * found["x"]  # for the user's column, of standard deviation 3
                assert 0.2 < found["correlation of (intercept) and x"] < 0.8  # the truth is .5
        assert errors["y ~ x + (x | g)"] < errors["y ~ x + (1 | g)"] - 0.02 < errors["y ~ x"] - 0.04

    def test_smooth_curves(self):
        rng = np.random.default_rng(4)
        frame = pd.DataFrame({"x": rng.uniform(0, 6, 3000), "z": rng.uniform(0, 6, 3000)})
        frame["y"] = answers(rng, 3 * np.sin(2 * frame["x"]) + 0.5 * frame["z"] - 1.5)
        train, test = halves(frame)
        fit = Model("y ~ s(x) + s(z)", train).fit()
        line = Model("y ~ x + z", train).fit()
        better = balanced_error(test["y"], fit.predict(test))
        assert better < balanced_error(test["y"], line.predict(test)) - 0.05
        grid = pd.DataFrame({"x": np.linspace(0, 6, 50), "z": 3.0})
        assert np.corrcoef(fit.decision_function(grid), np.sin(2 * grid["x"]))[0, 1] > 0.95
        sd = fit.variance_components()["std_dev"].droplevel("effect")
        assert sd["s(x)"] > 3 * sd["s(z)"]


def test_a_new_group_gets_the_population_score_and_its_own_variance(mixed):
    fit = Model("y ~ x + (x | g)", mixed).fit()
    known, new = mixed.head(6), mixed.head(6).assign(g=[99, 98, 97, 96, 95, 94])
    mean, sd = fit.decision_function(new, return_std=True)
    population = np.r_[fit.intercept, fit.coef] @ np.stack([np.ones(6), known["x"]])
    np.testing.assert_allclose(mean, population, rtol=1e-8)
    z = np.stack([np.ones(6), (known["x"] - mixed["x"].mean()) / mixed["x"].std(ddof=0)], axis=1)
    # The variance of a new group is an average between quantiles of its distribution: near E[Σ] where groups are many.
    of_group = fit.outcome.state.scales[-1].values_at(MIDPOINTS).mean(axis=0)
    covariance = covariance_of(fit, "curvature").covariance
    core = np.einsum("ip,pr,ir->i", z, covariance, z)  # fixed effects alone
    np.testing.assert_allclose(sd**2, core + np.einsum("iq,qr,ir->i", z, of_group, z), rtol=1e-8)
    _, known_sd = fit.decision_function(known, return_std=True)
    assert (sd > known_sd).all()
    np.testing.assert_array_equal(fit.predict(new), np.where(mean > 0, "yes", "no"))
    with pytest.raises(ValueError, match="The group of row 0 in 'g' was not seen in fit"):
        fit.predict(new, groups="error")
    np.testing.assert_array_equal(fit.predict(known, groups="error"), fit.predict(known))
    with pytest.raises(ValueError, match="must be 'known', 'new' or 'error'"):
        fit.predict(known, groups="average")


def test_an_unseen_form_of_a_known_school_keeps_the_schools_effect(mixed):
    fit = Model("y ~ (1 | h/g)", mixed).fit()
    new = pd.DataFrame({"h": ["a", "zz"], "g": [99, 99]})
    mean, sd = fit.decision_function(new, return_std=True)
    np.testing.assert_allclose(mean[0] - mean[1], fit.random_effects("h")["estimate"]["a"])
    assert sd[1] > sd[0]


def test_row_variances_are_those_of_the_whole_distribution(mixed):
    """The pieces that a prediction adds up, against the dense covariance of all coefficients."""
    fit = Model("y ~ x + (x | g) + (1 | h)", mixed).fit()
    distribution, plan = fit._rows.curvature, fit.plan
    x = (mixed["x"].to_numpy() - mixed["x"].mean()) / mixed["x"].std(ddof=0)
    levels = {name: np.unique(mixed[name], return_inverse=True)[1] for name in ("g", "h")}
    n = len(mixed)
    H, G = np.eye(3)[levels["h"]], np.zeros((n, 20, 2))
    G[np.arange(n), levels["g"]] = np.stack([np.ones(n), x], axis=1)
    C = np.column_stack([np.ones(n), x, H, G.reshape(n, -1)])
    Sigma_x, E = distribution.core.covariance, distribution.link.reshape(-1, 5)
    D = np.zeros((40, 40))
    for g in range(20):
        D[2 * g : 2 * g + 2, 2 * g : 2 * g + 2] = distribution.root[g] @ distribution.root[g].T
    Sigma = np.block([[Sigma_x, -Sigma_x @ E.T], [-E @ Sigma_x, D + E @ Sigma_x @ E.T]])
    mean, sd = fit.decision_function(mixed, return_std=True)
    np.testing.assert_allclose(mean, C @ distribution.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sd**2, np.einsum("ij,jk,ik->i", C, Sigma, C), rtol=1e-9)
    assert plan.factors[-1].name == "g"


def chunked(frame):
    """An Arrow table in two pieces."""
    batch = pa.RecordBatch.from_pandas(frame)
    return pa.Table.from_batches([batch.slice(0, 17), batch.slice(17)])


FRAMES = {
    "polars": lambda frame: pl.from_pandas(frame),
    "Arrow table": lambda frame: pa.Table.from_pandas(frame),
    "Arrow table in pieces": chunked,
    "Arrow batch": lambda frame: pa.RecordBatch.from_pandas(frame),
    "lists": lambda frame: frame.to_dict("list"),
}


@pytest.mark.parametrize("convert", FRAMES.values(), ids=FRAMES)
def test_any_kind_of_frame_gives_the_same_fit(mixed, convert):
    formula = "y ~ x + h + s(z) + (x | g)"
    expected, other = Model(formula, mixed).fit(), Model(formula, convert(mixed)).fit()
    assert other.elbo == pytest.approx(expected.elbo, rel=1e-12)
    np.testing.assert_allclose(other.decision_function(convert(mixed)), expected.decision_function(mixed), rtol=1e-9)


@pytest.mark.parametrize("column", ["dense_union", "string"])
@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_arrow_columns_that_can_not_be_read_are_refused_in_words(kind, column):
    numbers, bounds = pa.array([1.0, 2.0]), pa.array([0, 1, 2], pa.int32())
    odd = {
        "dense_union": pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [numbers]),
        "string": pa.Array.from_buffers(pa.string(), 2, [None, bounds.buffers()[1], pa.py_buffer(b"\xff\xff")]),
    }
    data = getattr(pa, kind).from_pydict({"y": pa.array(["a", "b"]), "x": numbers, "z": odd[column]})
    with pytest.raises(TypeError, match=rf"'z' is an Arrow array of type {column}.*make its values numbers or text"):
        Model("y ~ x + z", data).fit()


def test_categories_in_the_groups_and_odd_indices_do_no_harm(mixed):
    shuffled = mixed.sample(frac=1, random_state=0)
    text = shuffled.assign(g=pd.Categorical("patient " + shuffled["g"].astype(str)), h=shuffled["h"].astype("category"))
    expected, other = Model("y ~ x + h + (1 | g)", mixed).fit(TIGHT), Model("y ~ x + h + (1 | g)", text).fit(TIGHT)
    np.testing.assert_allclose(other.decision_function(text), expected.decision_function(shuffled), atol=1e-6)
    assert other.random_effects().index[0] == "patient 0"


def test_weights_are_repetition_and_rows_of_weight_0_are_out(mixed):
    s = np.random.default_rng(5).integers(0, 3, size=len(mixed))
    weighted = Model("y ~ x + h + s(z) + (x | g)", mixed.assign(s=s), weights="s").fit(TIGHT)
    repeated = Model("y ~ x + h + s(z) + (x | g)", mixed.loc[np.repeat(mixed.index, s)]).fit(TIGHT)
    assert weighted.elbo == pytest.approx(repeated.elbo, rel=1e-9)
    np.testing.assert_allclose(weighted.decision_function(mixed), repeated.decision_function(mixed), atol=1e-5)
    given = Model("y ~ x + h + s(z) + (x | g)", mixed, weights=s).fit(TIGHT)
    assert given.elbo == weighted.elbo


class TestOutcome:
    def test_text_bool_and_numbers(self, mixed):
        expected = Model("y ~ x + (1 | g)", mixed).fit().decision_function(mixed)
        for labels in (
            mixed["y"] == "yes",
            (mixed["y"] == "yes").astype(int),
            np.where(mixed["y"] == "yes", 2.5, -1.0),
        ):
            frame = mixed.assign(y=labels)
            fit = Model("y ~ x + (1 | g)", frame).fit()
            np.testing.assert_allclose(fit.decision_function(mixed), expected, rtol=1e-9)
            assert set(fit.predict(frame)) == set(frame["y"])
            assert fit.predict(frame).dtype == frame["y"].dtype

    def test_the_positive_level_may_be_chosen(self, mixed):
        fit, other = Model("y ~ x", mixed).fit(), Model("y ~ x", mixed, positive="no").fit()
        np.testing.assert_allclose(other.decision_function(mixed), -fit.decision_function(mixed), atol=1e-6)
        np.testing.assert_array_equal(other.predict(mixed), fit.predict(mixed))
        assert list(other.classes) == ["yes", "no"]

    def test_one_of_several_against_the_rest(self, mixed):
        fit = Model("h ~ x + (1 | g)", mixed, positive="b").fit()
        assert set(fit.classes) == {"b", "not b"}
        with pytest.raises(ValueError, match=r"has 3 levels .*positive='a'; VBSVC fits all"):
            Model("h ~ x", mixed)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ("same", "only one class"),
            (np.linspace(0, 1, 400), "continuous numbers"),
            (["yes", None] * 200, "has no value in rows 1, 3, 5, 7, 9 and 195 more"),
        ],
    )
    def test_what_is_wrong_is_said(self, mixed, labels, message):
        with pytest.raises(ValueError, match=message):
            Model("y ~ x", mixed.assign(y=labels))

    def test_an_unknown_positive_level_is_refused(self, mixed):
        with pytest.raises(ValueError, match="positive='maybe' is not a level"):
            Model("y ~ x", mixed, positive="maybe")


class TestPriors:
    def test_keys_may_be_written_in_any_way(self, mixed):
        formula = "y ~ x*z + s(z) + (x || g)"
        keys = {"z:x": Normal(0.5), "( 1|g )": Ridge(2, 2), "(0+x|g)": Ridge(3, 3), "s( z )": Ridge(4, 4)}
        found = {block.name: block.prior for block in Model(formula, mixed, keys).spec.blocks}
        assert found == {
            "intercept": Normal(1e8),
            "fixed effects": Normal(6.25),
            "x:z": Normal(0.5),
            "s(z)": Ridge(4, 4),
            "(1 | g)": Ridge(2, 2),
            "(0 + x | g)": Ridge(3, 3),
        }
        both = Model(formula, mixed, {"(x || g)": Ridge(5, 5)}).spec.blocks
        assert [block.prior for block in both[-2:]] == [Ridge(5, 5), Ridge(5, 5)]

    def test_the_intercept_and_all_fixed_effects_have_keys(self, mixed):
        blocks = Model("y ~ x + h", mixed, {"fixed": Ridge(), "(intercept)": Normal(3.0)}).spec.blocks
        assert [(block.name, block.size) for block in blocks] == [("fixed", 3), ("(intercept)", 1)]

    def test_a_ridge_on_correlated_slopes_is_one_variance(self, mixed):
        fit = Model("y ~ x + (x | g)", mixed, {"(x | g)": Ridge()}).fit()
        assert len(fit.variance_components()) == 2
        assert fit.converged

    @pytest.mark.parametrize("prior", [Covariance(), Covariance(1.0, 5.0), InverseWishart(), InverseWishart(0.1, 5.0)])
    def test_correlated_slopes_take_either_prior(self, mixed, prior):
        fit = Model("y ~ x + (x | g)", mixed, {"(x | g)": prior}).fit()
        assert fit.converged
        assert (np.diff(fit.outcome.bounds) >= -1e-9).all()

    @pytest.mark.parametrize(
        ("priors", "error", "message"),
        [
            (
                {"nope": Ridge()},
                ValueError,
                r"there is no term 'nope'; there are 'fixed', '\(intercept\)', 'x', '\(1 \| g\)'",
            ),
            ({"x": 3}, TypeError, "'x' must be an object such as Ridge"),
            ({"x": Covariance()}, ValueError, "Covariance is for random effects, not for 'x'"),
            ({"fixed": Ridge(), "x": Ridge()}, ValueError, "all fixed effects have their own priors"),
            ({"x": Ridge(), " x": Ridge()}, ValueError, "' x' is given twice"),
            ({3: Ridge()}, TypeError, "priors must be a dictionary"),
            ([Ridge()], TypeError, "priors must be a dictionary"),
        ],
    )
    def test_what_is_wrong_is_said(self, mixed, priors, error, message):
        with pytest.raises(error, match=message):
            Model("y ~ x + (1 | g)", mixed, priors)

    def test_inputs_of_the_estimator_take_no_covariance(self, mixed):
        with pytest.raises(TypeError, match="is a prior of random effects"):
            VBSVC(prior=Covariance()).fit(mixed[["x", "z"]], mixed["y"])


class TestTables:
    def test_the_model_prints_formula_blocks_priors_and_sizes(self, mixed):
        shown = str(Model("y ~ x * h + s(z) + (x | g)", mixed))
        for part in (
            "y ~ x * h + s(z) + (x | g)",
            "400 rows",
            "of yes (+1)",
            "s(z)",
            "(x | g)",
            "Covariance(scale=2.5, degrees=2)",
        ):
            assert part in shown
        assert "20 groups in g, of " in shown
        assert "keys of priors: 'fixed', '(intercept)', 'x', 'h', 'x:h', 's(z) line', 's(z)',\n'(x | g)'" in shown
        assert repr(Model("y ~ x", mixed)) == "<Model y ~ x: 400 observations>"

    def test_the_fit_prints_its_tables(self, mixed):
        fit = Model("y ~ x + s(z) + (x | g)", mixed).fit()
        shown = str(fit)
        for part in (
            "Mixed-effects logistic regression: y ~ x + s(z) + (x | g). 400 observations, 20",
            'Modelled class: "yes". Converged in ',
            "odds ratio",
            "95 % CI (OR)",
            "(intercept)",
            "s(z) line",
            "correlatio…ept) and x",
            "too narrow",
            "posterior, approximated",
            "by linear response",
        ):
            assert part in shown
        assert repr(fit).startswith(
            "<Mixed-effects logistic regression: y ~ x + s(z) + (x | g). 400 observations, 20 lev"
        )
        assert "bend" not in shown

    def test_summary_has_coefficients_of_the_users_columns(self, mixed):
        flat = {"fixed": Normal(1e8)}  # any other prior refers to the scaled columns
        fit = Model("y ~ x + h + (1 | g)", mixed, flat).fit(TIGHT)
        table = fit.summary()
        assert table.index.tolist() == ["(intercept)", "x", "h[T.b]", "h[T.c]"]
        raw = Model("y ~ x + h + (1 | g)", mixed, standardize=False).fit(replace(TIGHT, max_iter=5000))
        np.testing.assert_allclose(raw.summary()["estimate"], table["estimate"], rtol=1e-3)
        with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
            fit.summary(level=95)

    def test_random_effects_have_the_groups_names(self, mixed):
        fit = Model("y ~ x + (x | g) + (1 | h:g)", mixed).fit()
        assert fit.random_effects("g").index.names == ["g", "effect"]
        assert fit.random_effects("h:g").index.names == ["h", "g"]
        assert fit.random_effects().index.names == ["factor", "group", "effect"]
        assert len(fit.random_effects()) == 40 + mixed.groupby(["h", "g"]).ngroups
        with pytest.raises(ValueError, match="there is no factor 'z'"):
            fit.random_effects("z")
        with pytest.raises(ValueError, match="the model has no groups"):
            Model("y ~ x", mixed).fit().random_effects()

    def test_slopes_are_those_of_the_users_column(self, mixed):
        fit = Model("y ~ x + (x | g)", mixed).fit(TIGHT)
        wide = Model("y ~ x + (x | g)", mixed.assign(x=mixed["x"] * 1000)).fit(TIGHT)
        slope, wider = (one.random_effects()["estimate"].xs("x", level="effect") for one in (fit, wide))
        np.testing.assert_allclose(slope, 1000 * wider, rtol=1e-4, atol=1e-6)
        sd, wider_sd = (one.variance_components()["std_dev"]["(x | g)", "x"] for one in (fit, wide))
        assert sd == pytest.approx(1000 * wider_sd, rel=1e-4)

    def test_components_have_the_quantiles_of_their_distribution(self, mixed):
        model = Model("y ~ x + (1 | g) + (1 | h)", mixed, {"(1 | h)": Normal(4.0)})
        fit = model.fit(Variational(bound="exact"))
        fit = replace(fit, _rows=None)  # without its rows it has the quantiles of its own distribution
        table = fit.variance_components(level=0.9)
        assert table.loc["(1 | h)", "std_dev"].item() == table.loc["(1 | h)", "upper"].item() == 2.0
        distribution = next(
            s for b, s in zip(fit.spec.blocks, fit.outcome.state.scales, strict=True) if b.name == "(1 | g)"
        )
        draws = np.sqrt(distribution.rate / np.random.default_rng(0).gamma(distribution.shape, size=200_000))
        row = table.loc[("(1 | g)", "(intercept)")]
        np.testing.assert_allclose(
            row[["std_dev", "lower", "upper"]].astype(float), np.quantile(draws, [0.5, 0.05, 0.95]), rtol=0.01
        )
        assert row["variance"] == row["std_dev"] ** 2


def test_a_fit_out_of_passes_warns_and_gives_what_it_has(mixed):
    with pytest.warns(ConvergenceWarning, match=r"Model.fit reached max_iter .3 iterations."):
        fit = Model("y ~ x + (1 | g)", mixed).fit(Variational(max_iter=3))
    assert not fit.converged
    assert len(fit.predict(mixed)) == 400


def test_an_interrupted_fit_warns_and_gives_what_it_has(mixed, monkeypatch):
    model, calls = Model("y ~ x + (1 | g)", mixed, likelihood="hinge"), []
    right = Memory.sum_stats

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return right(*args, **kwargs)

    monkeypatch.setattr(Memory, "sum_stats", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        fit = model.fit()
    assert np.isfinite(fit.decision_function(mixed)).all()


def test_other_inferences_and_flags_are_refused(mixed):
    with pytest.raises(TypeError, match="inference must be an object such as Variational"):
        Model("y ~ x", mixed).fit(3)
    with pytest.raises(ValueError, match="standardize must be True or False"):
        Model("y ~ x", mixed, standardize=3)
    with pytest.raises(ValueError, match="weights is negative in row 0"):
        Model("y ~ x", mixed, weights=np.r_[-1.0, np.ones(399)])
    with pytest.raises(TypeError, match="use the methods of the estimator"):
        VBSVC().fit(mixed[["x", "z"]], mixed["y"]).fit_[0].predict(mixed)


def test_separated_classes_are_told_with_what_to_do(mixed):
    frame = mixed.assign(y=mixed["x"] > 100)
    with pytest.warns(ConvergenceWarning, match="quasi-complete separation"):
        Model("y ~ x", frame, {"fixed": Normal(1e8)}).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Model("y ~ x", frame, {"fixed": Normal(1.0)}).fit().converged
        assert Model("y ~ x", frame).fit().coef[0] > 0  # the default prior bounds it


def test_rows_of_weight_0_may_hold_anything(mixed):
    s = np.ones(len(mixed))
    s[[3, 5]] = 0
    incomplete = mixed.astype({"x": object, "y": object})
    incomplete.loc[3, "x"], incomplete.loc[5, "y"] = None, "a third class"
    expected = Model("y ~ x + (1 | g)", mixed.drop(index=[3, 5])).fit()
    assert Model("y ~ x + (1 | g)", incomplete, weights=s).fit().elbo == pytest.approx(expected.elbo, rel=1e-12)
    incomplete.loc[7, "y"] = None
    with pytest.raises(ValueError, match="Column 'y' has no value in row 7"):
        Model("y ~ x + (1 | g)", incomplete, weights=s)


class TestDrop:
    """missing="drop" is the fit to the rows that miss nothing, and says how many were left out."""

    FORMULA = "y ~ s(z) + poly(x, 2) + h + (1 | g)"

    @pytest.fixture
    def lost(self, mixed):
        frame = mixed.astype({"y": object, "g": object, "h": object})
        frame.loc[[3, 50], "x"], frame.loc[[4, 50], "h"], frame.loc[5, "y"], frame.loc[6, "g"] = (
            np.nan,
            None,
            None,
            None,
        )
        return frame

    @pytest.mark.parametrize("given", ["none", "array", "column", "list"])
    @pytest.mark.parametrize("convert", [lambda frame: frame, FRAMES["polars"], FRAMES["lists"]])
    def test_it_is_the_fit_to_the_complete_rows(self, mixed, lost, given, convert):
        s = np.ones(len(mixed))
        s[[0, 3, 7]] = 0.0
        s[8] = np.nan
        weights = {"none": None, "array": s, "column": "s", "list": s.tolist()}[given]
        frame = lost.assign(s=s)
        out = [3, 4, 5, 6, 50] if given == "none" else [0, 3, 4, 5, 6, 7, 8, 50]
        model = Model(self.FORMULA, convert(frame), weights=weights, missing="drop", positive="no")
        fit, expected = model.fit(), Model(self.FORMULA, mixed.drop(index=out), positive="no").fit()
        assert fit.elbo == pytest.approx(expected.elbo, rel=1e-12)
        assert model.n_dropped == fit.facts.n_dropped == 5
        for shown in (repr(model), str(model), str(fit)):
            assert "5 observations with missing values dropped" in " ".join(shown.split())
        np.testing.assert_allclose(fit.decision_function(mixed), expected.decision_function(mixed), rtol=1e-9)

    def test_nothing_is_said_where_nothing_is_missing(self, mixed):
        model = Model("y ~ x", mixed, missing="drop")
        assert model.n_dropped == 0
        assert repr(model) == "<Model y ~ x: 400 observations>"
        assert "left out" not in str(model) + str(model.fit())

    def test_columns_that_are_not_used_may_miss_anything(self, mixed, lost):
        assert Model("y ~ z", lost.drop(index=5), missing="drop").n_dropped == 0
        assert Model("y ~ x", lost, missing="drop").n_dropped == 3

    def test_new_rows_may_still_miss_values(self, lost):
        fit = Model("y ~ x + z", lost, missing="drop").fit()
        assert np.isfinite(fit.decision_function(lost)).all()

    @pytest.mark.parametrize(
        ("change", "options", "message"),
        [
            ({}, {"missing": "omit"}, "missing must be 'infer' or 'drop'; got 'omit'"),
            (
                {"x": np.nan},
                {},
                "leaves no row: each has a missing value; column 'x' is missing in 400 of 400 rows",
            ),
            ({}, {"weights": np.full(400, np.nan)}, "weights is zero in every row"),
            ({"z": "text"}, {}, "calculates with column 'z'"),
        ],
    )
    def test_what_is_wrong_is_said(self, lost, change, options, message):
        with pytest.raises(ValueError, match=message):
            Model("y ~ x + log(z)", lost.assign(**change), **{"missing": "drop", **options})


@pytest.mark.parametrize(
    ("formula", "row", "values", "message"),
    [
        ("y ~ log(z)", 17, {"z": 0.0}, r"log\(z\) is -inf in row 17"),
        ("y ~ s(log(z))", 17, {"z": 0.0}, r"log\(z\) is -inf in row 17"),
        ("y ~ x + (log(z) | g)", 17, {"z": 0.0}, r"log\(z\) is -inf in row 17"),
        ("y ~ C(h, levels=['a', 'b', 'c'])", 17, {"h": "q"}, "contains in row 17"),
        ("y ~ x + h", 17, {"h": 3.0}, r"mixes text and numbers \(rows 2 and 17\)"),
        ("y ~ x + (1 | g)", 17, {"g": np.nan}, "'g' has no value in row 17"),
    ],
)
def test_rows_have_the_numbers_that_the_user_gave_them(mixed, formula, row, values, message):
    labels = {
        name: np.roll(np.array([f"l{i % 8}" for i in range(400)], dtype=object), k)
        for k, name in enumerate(("k1", "k2", "k3"))
    }
    frame = mixed.assign(**labels).astype({"h": object})
    for name, value in values.items():
        frame[name] = frame[name].where(frame.index != row, value)
    weights = np.ones(400)
    weights[[0, 1, 9]] = 0
    with pytest.raises(ValueError, match=message):
        Model(formula, frame, weights=weights)


def test_a_covariance_that_rounds_to_nothing_ends_in_words(mixed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = Model("y ~ x + (x | g)", mixed, {"(x | g)": Covariance(scale=1e-9)}).fit()
    assert np.isfinite(fit.decision_function(mixed)).all()


def test_a_model_too_large_for_memory_is_refused():
    n = 40_000
    frame = pd.DataFrame({"y": np.arange(n) % 2, "a": np.arange(n), "b": np.arange(n)[::-1] // 2})
    with pytest.raises(ValueError, match="Only the largest factor may have many levels"):
        Model("y ~ (1 | a) + (1 | b)", frame)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ (1 | g)", "y ~ 0 + (1 | g)", "y ~ 0 + (x | g)", "y ~ 0 + s(z)"])
def test_models_with_hardly_anything_fixed(mixed, formula):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReliabilityWarning)  # scores that hardly differ lie on the margin of a hinge
        fit = Model(formula, mixed).fit()
    assert fit.converged
    assert np.isfinite(fit.decision_function(mixed, return_std=True)).all()
    assert str(fit)
