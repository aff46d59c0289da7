"""Missing inputs that do not enter linearly: rows are written out with drawn values."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm, skew

from vbsvm import VBSVC, GaussianImputation, Gibbs, Model, NotAtRandom, Shift, load, pool
from vbsvm.base.distributions import JointNormal
from vbsvm.design.candidates import Candidates, NormalScale

GRID = pd.DataFrame({"a": np.linspace(-1.8, 1.8, 25), "x": 0.0, "b": 0.0, "sex": "f"})


def simulated(n=400, seed=0):
    """A curve of ``a``, which depends on ``x``."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.normal(size=n), "b": rng.normal(size=n), "sex": rng.choice(["f", "m"], size=n)})
    data["a"] = 0.5 * data["x"] + np.sqrt(0.75) * rng.normal(size=n)
    data["y"] = np.where(1.2 - 1.2 * data["a"] ** 2 + 0.8 * data["x"] + rng.logistic(size=n) > 0, "yes", "no")
    return data


def with_missing(data, seed=0, *columns):
    """A third of ``a`` missing, the more the higher ``x`` is, and for one class more than for the other."""
    rng = np.random.default_rng([seed, 1])
    log_odds = -1.0 + data["x"] + 0.8 * np.where(data["y"] == "yes", 1, -1)
    found = data.copy()
    for name in ("a", *columns):
        found.loc[rng.random(len(data)) < 1 / (1 + np.exp(-log_odds)), name] = np.nan
    return found


@pytest.fixture(scope="module")
def data():
    return with_missing(simulated())


@pytest.fixture(scope="module")
def fit(data):
    return Model("y ~ x + sex + s(a)", data).fit()


def curve(fit):
    scores = fit.decision_function(GRID)
    return scores - scores.mean()


class TestCurves:
    @pytest.mark.parametrize("likelihood", ["hinge", "logistic"])
    @pytest.mark.parametrize("formula", ["y ~ x + a + I(a**2)", "y ~ x + s(a)"])
    def test_they_are_those_of_the_whole_data_where_labels_have_a_say(self, formula, likelihood):
        whole = simulated(1500, seed=3)
        data = with_missing(whole, seed=3)
        wanted = curve(Model(formula, whole, likelihood=likelihood).fit())
        slope = curve(Model(formula, data, likelihood=likelihood).fit()) @ wanted / (wanted @ wanted)
        assert 0.85 < slope < 1.15
        # The planted error: without the labels the curve is flattened.
        without = Model(formula, data, likelihood=likelihood, imputation=GaussianImputation(labels="none")).fit()
        assert curve(without) @ wanted / (wanted @ wanted) < 0.75

    def test_a_fit_can_be_repeated(self, fit, data):
        again = Model("y ~ x + sex + s(a)", data).fit()
        np.testing.assert_array_equal(again.coef, fit.coef)
        np.testing.assert_array_equal(again.predict_proba(data), fit.predict_proba(data))

    @pytest.mark.parametrize("transform", ["power", "rank"])
    def test_nothing_missing_is_the_same_with_any_setting(self, transform):
        whole = simulated(200)
        plain = Model("y ~ x + sex + s(a)", whole).fit()
        other = Model("y ~ x + sex + s(a)", whole, imputation=GaussianImputation(transform=transform, draws=5)).fit()
        np.testing.assert_array_equal(plain.coef, other.coef)
        assert plain.elbo == other.elbo

    @pytest.mark.parametrize(
        "formula",
        [
            "y ~ poly(a, 2) + x",
            "y ~ log(a + 9) + a",
            "y ~ scale(a) * sex",
            "y ~ a * b + sex",
            "y ~ s(a) + s(b) + x",
            "y ~ x + s(a) + (1 | g)",
        ],
    )
    def test_formulas_of_all_kinds(self, formula):
        data = with_missing(simulated(150), 0, "b").assign(g=np.arange(150) % 10)
        data.loc[::9, "sex"] = None
        fit = Model(formula, data, imputation=GaussianImputation(draws=4)).fit()
        assert np.isfinite(fit.coef).all()
        assert fit.missing_summary()["rows"].sum() == len(data)
        assert np.isfinite(fit.predict_proba(data)).all()

    def test_both_factors_of_a_product(self):
        rng, n = np.random.default_rng(0), 1500
        whole = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
        whole["y"] = np.where(1.5 * whole["a"] * whole["b"] + whole["a"] + rng.logistic(size=n) > 0, 1, 0)
        data = whole.mask(rng.random((n, 3)) < [0.3, 0.3, 0.0])
        wanted = Model("y ~ a * b", whole).fit().coef
        np.testing.assert_allclose(Model("y ~ a * b", data).fit().coef, wanted, atol=0.2 * np.abs(wanted).max())

    @pytest.mark.filterwarnings("ignore:Model.fit. chains")
    def test_a_sampler(self, fit, data):
        sampled = Model("y ~ x + sex + s(a)", data).fit(Gibbs(draws=200, tune=200, chains=2), random_state=0)
        wanted = curve(fit)
        assert curve(sampled) @ wanted / (wanted @ wanted) == pytest.approx(1.0, abs=0.3)


class TestAnswers:
    def test_intervals_include_what_is_missing(self, fit, data):
        complete = Model("y ~ x + sex + s(a)", simulated()).fit().summary(covariance="robust")
        assert fit.summary().loc["s(a) line", "std_error"] > complete.loc["s(a) line", "std_error"]
        shares = fit.missing_information()
        assert ((shares > 0) & (shares < 1)).all()
        assert shares["s(a) line"] > shares["sex[T.m]"]

    def test_the_score_of_a_row_is_averaged_over_its_missing_value(self, fit):
        row = pd.DataFrame({"x": [0.7], "sex": ["f"], "a": [np.nan]})
        mean, sd = (table.loc[0, "a"] for table in fit.impute(row))
        points = norm.ppf((np.arange(400) + 0.5) / 400, mean, sd)
        written = pd.concat([row] * 400).assign(a=points)
        assert fit.decision_function(row)[0] == pytest.approx(fit.decision_function(written).mean(), abs=0.03)
        among = pd.concat([written.head(3), row])
        assert fit.decision_function(among)[3] == pytest.approx(fit.decision_function(row)[0], abs=1e-9)

    def test_completed_tables(self, fit, data):
        tables = fit.impute(data, 6, y=data["y"], random_state=0)
        missing = data["a"].isna()
        for table in tables:
            assert table["a"].notna().all()
            assert table["a"].between(data["a"].min(), data["a"].max()).all()
            pd.testing.assert_series_equal(table.loc[~missing, "a"], data.loc[~missing, "a"])
        # Labels have a say: the curve of the pooled fits is that of the single one, and flat without them.
        wanted, formula = curve(fit), "y ~ x + sex + a + I(a**2)"
        quadratic = pool([Model(formula, table).fit() for table in tables]).coefficients[-1]
        blind = fit.impute(data, 6, random_state=0)
        flat = pool([Model(formula, table).fit() for table in blind]).coefficients[-1]
        assert quadratic < 1.3 * flat < 0
        assert np.isfinite(wanted).all()

    def test_files(self, fit, data, tmp_path):
        fit.save(tmp_path / "model.vbsvm")
        loaded = load(tmp_path / "model.vbsvm")
        np.testing.assert_allclose(loaded.predict_proba(data), fit.predict_proba(data), atol=1e-12)

    def test_a_report(self, fit, tmp_path):
        assert "s(a)" in fit.report(tmp_path / "report.html").read_text()

    def test_what_is_not_there_is_refused_in_words(self, data, tmp_path):
        for mechanism in (NotAtRandom(), Shift(1.0)):
            with pytest.raises(ValueError, match="unless GaussianImputation has a mechanism"):
                Model("y ~ s(a)", data, imputation=GaussianImputation(mechanism=mechanism))
        data.to_csv(tmp_path / "data.csv", index=False)
        with pytest.raises(ValueError, match="in a fit of rows in memory"):
            Model("y ~ s(a)", tmp_path / "data.csv").fit()
        with pytest.raises(ValueError, match="needs rows in memory"):
            Model("y ~ a", tmp_path / "data.csv", imputation=GaussianImputation(transform="rank"))
        with pytest.raises(ValueError, match="is supported by Model only"):
            VBSVC(imputation=GaussianImputation(transform="rank")).fit(data[["a", "x"]], data["y"])
        with pytest.raises(ValueError, match="columns that are drawn"):
            Model("y ~ s(a)", data).sensitivity([1.0])
        with pytest.raises(ValueError, match="is not supported with"):
            GaussianImputation(transform="rank", labels="likelihood")
        with pytest.raises(ValueError, match='one of "none", "power", "rank"'):
            GaussianImputation(transform="log")
        with pytest.raises(ValueError, match="draws must be a whole number"):
            GaussianImputation(draws=1)


class TestSkewedInputs:
    @pytest.mark.parametrize("transform", ["power", "rank"])
    def test_drawn_values_have_the_distribution_of_the_known_ones(self, transform):
        rng, n = np.random.default_rng(0), 1000
        whole = pd.DataFrame({"x": rng.normal(size=n)})
        whole["a"] = np.exp(0.5 * whole["x"] + 0.8 * rng.normal(size=n))
        whole["y"] = np.where(whole["a"] - 1 + rng.logistic(size=n) > 0, 1, 0)
        data = whole.assign(a=whole["a"].mask(rng.random(n) < 0.3))
        imputation = GaussianImputation(transform=transform)
        table = Model("y ~ x + a", data, imputation=imputation).fit().impute(data, 1, y=data["y"], random_state=0)[0]
        drawn = table.loc[data["a"].isna(), "a"]
        assert drawn.min() > 0
        assert skew(np.log(drawn)) == pytest.approx(0.0, abs=0.35)
        normal = Model("y ~ x + a", data).fit().impute(data, 1, y=data["y"], random_state=0)[0]
        assert normal.loc[data["a"].isna(), "a"].min() < 0  # the planted error

    @pytest.mark.parametrize("transform", ["none", "power", "rank"])
    def test_a_scale_can_be_undone(self, transform):
        values = np.random.default_rng(0).exponential(size=300)
        scale = NormalScale.learn(values, transform)
        np.testing.assert_allclose(scale.from_normal(scale.to_normal(values)), values, atol=1e-8)
        assert scale.from_normal(np.array([-1e9, 1e9])).tolist() == [values.min(), values.max()]
        assert np.isnan(scale.to_normal(np.array([np.nan]))).all()
        if transform != "none":
            assert abs(skew(scale.to_normal(values))) < 0.2 < skew(values)


class TestParts:
    def test_some_variables_given_others(self):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(4, 4))
        normal = JointNormal(rng.normal(size=4), root @ root.T)
        x = rng.normal(size=(3, 4))
        seen = np.where([[False, False, True, True], [False, True, False, True], [True, True, False, False]], np.nan, x)
        found = {int(one.rows[0]): one for one in normal.conditionals(seen, np.isnan(seen), 2)}
        assert set(found) == {0, 1}
        joint = multivariate_normal(normal.mean, normal.covariance).logpdf(x[0])
        known = multivariate_normal(normal.mean[:2], normal.covariance[:2, :2]).logpdf(x[0, :2])
        assert found[0].log_density(x[[0], 2:])[0] - np.log(2 * np.pi) == pytest.approx(joint - known)

    def test_tables_take_draws_by_their_shares(self):
        shares = np.array([0.7, 0.1, 0.15, 0.05])
        candidates = Candidates(
            np.array([0, 1, 1, 1, 1]),
            np.empty((5, 0), dtype=np.intp),
            draws=np.array([[-1], [0], [1], [2], [3]]),
            log_ratio=np.zeros(5),
            log_weights=np.log(np.r_[1.0, shares]),
        )
        rng, counts = np.random.default_rng(0), np.zeros(5)
        for turn in range(4000):
            chosen = candidates.in_completed_table(turn % 4, rng)
            assert chosen[0]
            assert chosen[1:].sum() == 1
            counts += chosen
        np.testing.assert_allclose(counts[1:] / 4000, shares, atol=0.03)
        often = sum(candidates.in_completed_table(0, rng)[1] for _ in range(400))
        assert often == 400  # a share of more than a quarter keeps its own table
