"""Multiple imputation: proper draws of missing values, Rubin's rules, and spreads that include what is missing."""

import numpy as np
import pandas as pd
import pytest

import vbsvm
from incomplete_models import PAPER, correlated
from reference import simulate
from vbsvm import VBSVC, GaussianImputation, Gibbs, LaplaceZero, Model, Normal, NotAtRandom, Shift, Variational, pool
from vbsvm.results.comparison.approximations import rubin
from vbsvm.results.covariance import covariance


@pytest.fixture(scope="module")
def table():
    X, y = correlated(200, 3, seed=1, share=0.3)
    return pd.DataFrame(X, columns=list("abc"), index=np.arange(200) + 50), np.where(y > 0, "yes", "no")


@pytest.fixture(scope="module")
def fitted(table):
    return VBSVC().fit(*table)


class TestDraws:
    def test_known_values_stay_and_missing_ones_are_drawn_anew(self, fitted, table):
        X, y = table
        tables = fitted.impute(X, 4, y=y, random_state=0)
        assert len(tables) == 4
        for one in tables:
            assert one.notna().all(axis=None)
            assert one.index.equals(X.index)
            pd.testing.assert_frame_equal(one.where(X.notna()), X)
        assert (tables[0] != tables[1]).to_numpy()[X.isna()].all()
        again = fitted.impute(X, 4, y=y, random_state=0)
        pd.testing.assert_frame_equal(tables[3], again[3])
        assert isinstance(fitted.impute(X), tuple)

    def test_draws_have_the_mean_and_spread_of_the_imputation(self, fitted, table):
        X, _ = table
        row = X[X.isna().sum(axis=1) == 1].head(1)
        name = row.columns[row.isna().to_numpy()[0]][0]
        drawn = np.array([one[name].iloc[0] for one in fitted.impute(row, 300, random_state=1)])
        expected, deviations = fitted.impute(row)
        assert drawn.mean() == pytest.approx(expected[name].iloc[0], abs=0.2)
        # Parameters are drawn too, which adds a little.
        assert 0.85 < drawn.std() / deviations[name].iloc[0] < 1.15

    def test_labels_matter(self, fitted, table):
        X, y = table
        whole = [pool([VBSVC().fit(one, y) for one in fitted.impute(X, 5, y=labels, random_state=0)]).coefficients[1:]
                 for labels in (y, None)]  # fmt: skip
        assert np.abs(whole[1]).sum() < 0.9 * np.abs(whole[0]).sum()

    def test_the_parameters_are_those_of_the_observed_values(self):
        """A mean of a column of which most is missing is as uncertain as the few values say."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 2))
        y = np.where(X[:, 0] + rng.logistic(size=200) > 0, 1, 0)
        X[40:, 1] = np.nan
        clf = VBSVC().fit(X, y)
        draws = clf.fit_[0]._rows.proper_draws(200, 0)
        means = np.array([one.mean[list(one.columns).index(2) + one.n_labels] for one in draws])
        assert 0.12 < means.std() < 0.21  # 1/√40 is .16; 1/√200 would be .07

    def test_several_classes_arrays_and_complete_training_data(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 2))
        y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=150), [-0.5, 0.5])
        clf = VBSVC().fit(X, y)
        hidden = np.where(rng.random(X.shape) < 0.2, np.nan, X)
        assert np.isfinite(clf.impute(hidden, 2, random_state=0)[1].to_numpy()).all()
        with pytest.raises(ValueError, match="leave y out"):
            clf.impute(hidden, 2, y=y)
        clf = VBSVC().fit(hidden, y)
        assert np.isfinite(clf.impute(hidden, 2, y=y, random_state=0)[1].to_numpy()).all()

    def test_formulas(self):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=120), "z": rng.exponential(size=120), "arm": list("ab") * 60})
        data["y"] = np.where(data["x"] + rng.logistic(size=120) > 0, "yes", "no")
        data.loc[::5, "x"] = np.nan
        fit = Model("y ~ x * arm + log(z)", data).fit()
        tables = fit.impute(data, 2, y=data["y"], random_state=0)
        assert list(tables[0].columns) == list(data.columns)
        pooled = pool([Model("y ~ x * arm + log(z)", one).fit() for one in tables])
        assert list(pooled.summary().index) == list(fit.summary().index)
        new = fit.impute(data.assign(arm=data["arm"].where(data.index > 3)), 2)[0]
        assert set(new["arm"][:4]) <= {"a", "b"}
        with pytest.raises(ValueError, match="'z' enters the formula in a transform"):
            fit.impute(data.assign(z=data["z"].where(data.index > 3)), 2)

    def test_numbers_and_categories_of_any_type(self):
        rng, n = np.random.default_rng(0), 200
        data = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "k": rng.integers(1, 4, n) * 1.0})
        data["size"] = pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"])
        data["arm"] = rng.choice(list("ab"), n).astype(object)
        data["y"] = np.where(data["x"] + data["z"] + (data["arm"] == "a") + rng.logistic(size=n) > 0, "yes", "no")
        whole = data.copy()
        for name in ("x", "k", "size", "arm"):
            data.loc[rng.random(n) < 0.2, name] = None
        data.index = data.index[::-1]
        formula = "y ~ x + z + C(k) + size + arm"
        fit = Model(formula, data).fit()
        tables = fit.impute(data, 3, y=data["y"], random_state=0)
        for table in tables:
            assert not table.isna().to_numpy().any()
            assert (table.dtypes == data.dtypes).all()
            assert (table.index == data.index).all()
            known = data.notna().to_numpy()
            assert (table.to_numpy()[known] == whole.to_numpy()[known]).all()
        assert not tables[0].equals(tables[1])
        pd.testing.assert_frame_equal(tables[0], fit.impute(data, 3, y=data["y"], random_state=0)[0])
        pooled = pool([Model(formula, one).fit() for one in tables])
        assert list(pooled.summary().index) == list(fit.summary().index)

    def test_categories_follow_the_other_inputs_and_the_label(self):
        rng, n = np.random.default_rng(0), 600
        data = pd.DataFrame({"x": rng.normal(size=n)})
        data["arm"] = np.where(data["x"] + rng.logistic(size=n) / 2 > 0, "a", "b")
        data["y"] = np.where(2 * (data["arm"] == "a") + rng.logistic(size=n) > 1, "yes", "no")
        truth, lost = data["arm"].copy(), rng.random(n) < 0.4
        data.loc[lost, "arm"] = None
        fit = Model("y ~ x + arm", data).fit()
        told = fit.impute(data, 5, y=data["y"], random_state=0)
        plain = fit.impute(data, 5, random_state=0)
        right = [np.mean([(one["arm"] == truth)[lost].mean() for one in tables]) for tables in (told, plain)]
        assert right[0] > right[1] > 0.65  # by chance .5
        by_label = [pd.crosstab(one["y"][lost], one["arm"][lost], normalize="index").loc["yes", "a"] for one in told]
        assert np.mean(by_label) == pytest.approx((truth[lost & (data["y"] == "yes")] == "a").mean(), abs=0.08)

    def test_categories_whose_shares_are_inferred_with_the_coefficients(self):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=100), "arm": rng.choice(list("ab"), p=[0.8, 0.2], size=100)})
        data["y"] = np.where(data["x"] + rng.logistic(size=100) > 0, "yes", "no")
        data.loc[::4, "arm"] = None
        fit = Model("y ~ x + arm", data, imputation=PAPER).fit()
        with pytest.raises(ValueError, match="leave y out"):
            fit.impute(data, 2, y=data["y"])
        drawn = fit.impute(data, 20, random_state=0)
        assert 0.65 < np.mean([(one["arm"][::4] == "a").mean() for one in drawn]) < 0.95

    def test_what_makes_no_sense_is_refused(self, fitted, table, tmp_path):
        X, y = table
        for n in (0, -1, 2.5, True, "many"):
            with pytest.raises(ValueError, match="n must be a whole number"):
                fitted.impute(X, n)
        with pytest.raises(ValueError, match="y has 'maybe' in row 0"):
            fitted.impute(X, 2, y=["maybe"] * 200)
        with pytest.raises(ValueError, match="shape"):
            fitted.impute(X, 2, y=y[:10])
        with pytest.raises(ValueError, match="random_state"):
            fitted.impute(X, 2, random_state="seed")
        with pytest.raises(ValueError, match="leave y out"):
            VBSVC(imputation=PAPER).fit(X, y).impute(X, 2, y=y)
        fitted.save(tmp_path / "m")
        with pytest.raises(ValueError, match=r"needs? the training data"):
            vbsvm.load(tmp_path / "m").impute(X, 2)


class TestPool:
    def test_rubins_rules_by_hand(self):
        estimates = np.array([[1.0, 2.0], [1.4, 2.0], [1.2, 2.0]])
        variances = np.array([[0.04, 0.09], [0.06, 0.09], [0.05, 0.09]])
        pooled = rubin(("a", "b"), estimates, variances, 97.0)
        within, between = 0.05, 0.04
        total = within + 4 / 3 * between
        share, ratio = 4 / 3 * between / total, 4 / 3 * between / within
        degrees = 1 / (share**2 / 2 + 1 / (98 / 100 * 97 * (1 - share)))
        assert pooled.coefficients[0] == pytest.approx(1.2)
        assert pooled.standard_errors[0] == pytest.approx(total**0.5)
        assert pooled.degrees[0] == pytest.approx(degrees)
        assert pooled.missing_information[0] == pytest.approx((ratio + 2 / (degrees + 3)) / (ratio + 1))
        assert pooled.standard_errors[1] == pytest.approx(0.3)
        assert pooled.missing_information[1] == 0.0
        assert pooled.degrees[1] == pytest.approx(98 / 100 * 97)
        assert "3 fits" in repr(pooled)

    def test_the_table_has_intervals_by_students_t(self):
        from scipy import stats

        pooled = rubin(("a",), np.array([[1.0], [1.4]]), np.array([[0.04], [0.06]]), 20.0)
        row = pooled.summary(0.9).loc["a"]
        half = stats.t.ppf(0.95, pooled.degrees[0]) * pooled.standard_errors[0]
        assert row["upper"] - row["estimate"] == pytest.approx(half)

    def test_what_makes_no_sense_is_refused(self):
        X, y = simulate(60, 2, seed=0)
        fit = VBSVC().fit(X, y)
        with pytest.raises(ValueError, match="at least two fits"):
            pool([fit])
        with pytest.raises(ValueError, match="fit 1 has other coefficients"):
            pool([fit, VBSVC().fit(X[:, :1], y)])
        with pytest.raises(ValueError, match="fit 1 has 50 rows"):
            pool([fit, VBSVC().fit(X[:50], y[:50])])
        with pytest.raises(TypeError, match="fits of VBSVC or Model"):
            pool([fit, "fit"])
        several = VBSVC().fit(X, np.arange(60) % 3)
        with pytest.raises(ValueError, match="the fits of one class"):
            pool([several, several])


class TestSpreads:
    def test_robust_intervals_are_about_those_of_multiple_imputation(self, fitted, table):
        X, y = table
        pooled = pool([VBSVC().fit(one, y) for one in fitted.impute(X, 20, y=y, random_state=3)])
        found = fitted.summary()
        assert found.attrs["std_error"] == "std. error"
        np.testing.assert_allclose(found["std_error"], pooled.standard_errors, rtol=0.3)
        np.testing.assert_allclose(found["missing_information"], pooled.missing_information, atol=0.25)
        np.testing.assert_array_equal(fitted.missing_information(), found["missing_information"])
        assert "the uncertainty due to missing values" in found.attrs["note"]
        again = VBSVC().fit(X, y).summary()
        pd.testing.assert_frame_equal(found, again)

    def test_more_missing_values_widen_the_intervals_of_their_column(self):
        X, y = simulate(300, 2, seed=0)
        hidden = np.where((np.arange(300) % 2 == 0)[:, None] & [False, True], np.nan, X)
        whole, half = VBSVC().fit(X, y).summary(), VBSVC().fit(hidden, y).summary()
        assert half.loc["x1", "std_error"] > 1.15 * whole.loc["x1", "std_error"]
        assert half.loc["x0", "std_error"] < 1.15 * whole.loc["x0", "std_error"]
        shares = half["missing_information"]
        assert shares["x1"] > 0.2 > shares["x0"]

    def test_groups_products_categories_class_weights_and_shifts(self, tmp_path):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"x": rng.normal(size=240), "z": rng.normal(size=240), "g": np.arange(240) % 20})
        data["arm"] = rng.choice(list("ab"), size=240)
        data["y"] = np.where(data["x"] + data["z"] + rng.logistic(size=240) > 0, "yes", "no")
        data.loc[rng.random(240) < 0.2, "x"] = np.nan
        data.loc[rng.random(240) < 0.1, "arm"] = None
        fit = Model("y ~ x * z + arm + (1 | g)", data).fit()
        assert "robust" in fit.summary().attrs["note"]
        assert fit.missing_information()["x"] > 0.03
        fit.save(tmp_path / "m")
        pd.testing.assert_frame_equal(vbsvm.load(tmp_path / "m").summary(), fit.summary())
        X, y = data[["x", "z"]], data["y"]
        weighted = VBSVC(class_weight="balanced", imputation=GaussianImputation(mechanism=Shift(0.3))).fit(X, y)
        assert np.isfinite(weighted.summary()["std_error"]).all()

    def test_large_tables_go_by_the_curvature_and_a_newton_step(self, fitted, table, monkeypatch):
        monkeypatch.setattr("vbsvm.results.training_rows.MAX_RESPONDING", 0)
        clf = VBSVC().fit(*table)
        found = clf.summary()
        assert "curvature" in covariance(clf.fit_[0]).notes.spreads[1]
        np.testing.assert_allclose(found["std_error"], fitted.summary()["std_error"], rtol=0.35)

    @pytest.mark.parametrize(
        "settings",
        [
            {"imputation": PAPER},
            {"imputation": GaussianImputation(mechanism=NotAtRandom())},
            {"prior": LaplaceZero(0.5)},
        ],
    )
    def test_where_there_is_none_it_is_said(self, table, settings):
        clf = VBSVC(**settings).fit(*table)
        assert "by the curvature" in clf.summary().attrs["note"]
        assert "missing_information" not in clf.summary()
        with pytest.raises(ValueError, match="missing values and coefficients"):
            clf.summary(covariance="robust")
        with pytest.raises(ValueError, match="missing"):
            clf.missing_information()

    def test_nothing_missing(self):
        X, y = simulate(60, 2, seed=0)
        with pytest.raises(ValueError, match="no predictor of this fit has missing values"):
            VBSVC().fit(X, y).missing_information()

    def test_draws_have_their_own(self, table):
        X, y = table
        clf = VBSVC(Normal(1.0), Gibbs(draws=200, tune=50, chains=1), random_state=0)
        with pytest.warns(match="chains have not converged"):
            clf.fit(X, y)
        assert "robust" not in clf.summary().attrs["note"]
        assert Variational().bound == "auto"


@pytest.mark.parametrize("known", [slice(None, None, 2), slice(0, 1)])
def test_a_column_whose_known_values_are_alike_has_no_say_and_breaks_nothing(known):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + rng.logistic(size=60) > 0, 1, 0)
    X[:, 1] = np.nan
    X[known, 1] = 2.0
    clf = VBSVC().fit(X, y)
    assert clf.coef_[0, 1] == 0.0
    assert np.isfinite(clf.coef_std_).all()
    assert clf.coef_std_[0, 0] > 0.0
