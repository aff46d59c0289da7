"""Groups that a fit has not seen: their variance is averaged over, and is neither infinite nor absurd."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from vbsvm import VBSVC, Covariance, Gibbs, HalfT, Model, Ridge, VBLogistic, cross_validate

NEW = "new"


def grouped(seed, n_groups=50, size=5, intercept=-2.2, sigma=0.3):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(n_groups), size), rng.normal(size=n_groups * size)
    p = expit(intercept + 0.8 * x + sigma * rng.normal(size=n_groups)[g])
    return pd.DataFrame({"y": np.where(rng.random(len(g)) < p, "yes", "no"), "x": x, "g": [f"g{k}" for k in g]})


def sd_of_new(fit, data):
    return float(fit.decision_function(data.head(1).assign(g=NEW), return_std=True)[1][0])


@pytest.mark.parametrize("likelihood", ["logistic", "hinge"])
@pytest.mark.parametrize("n_groups", [1, 2, 5, 50])
@pytest.mark.parametrize("seed", [0, 1])
def test_their_spread_is_within_what_is_said_of_the_variance(likelihood, n_groups, seed):
    data = grouped(seed, n_groups, 250 // n_groups if n_groups < 5 else 5, intercept=-1.5)
    fit = Model("y ~ x + (1 | g)", data, likelihood=likelihood).fit()
    upper = fit.variance_components()["upper"].iloc[0]
    assert 0.0 < sd_of_new(fit, data) < 3.0 * max(upper, 1.0)
    known = expit(-1.5 + 0.8 * data["x"].to_numpy())
    chances = fit.predict_proba(data.assign(g=NEW))[:, 1]
    assert np.abs(chances - 0.5).min() > 1e-6
    assert np.abs(chances - known).mean() < 0.2


@pytest.mark.parametrize("prior", [HalfT(), Ridge()])
def test_probabilities_are_near_the_base_rate_where_groups_hardly_differ(prior):
    data = grouped(3)
    fit = Model("y ~ x + (1 | g)", data, {"(1 | g)": prior}, likelihood="logistic").fit()
    share = (data["y"] == "yes").mean()
    assert fit.predict_proba(data.assign(g=NEW))[:, 1].mean() == pytest.approx(share, abs=0.04)
    effects = fit.effects("x", groups="new")
    assert effects["estimate"].min() > 0.0
    assert effects["estimate"].mean() < 0.35
    found = cross_validate(Model("y ~ x + (1 | g)", data, likelihood="logistic"), groups="g")
    base = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert found.left_out_predictions().log_loss.value < base + 0.03


def test_probabilities_are_averages_over_the_density_of_sigma():
    data = grouped(1, n_groups=12, sigma=1.0, intercept=-1.0)
    fit = Model("y ~ x + (1 | g)", data, likelihood="logistic").fit()
    scale, new = fit.outcome.state.scales[-1], data.head(4).assign(g=NEW)
    rng = np.random.default_rng(0)
    mean, total = fit.decision_function(new, return_std=True)
    variance = total**2 - scale.values_at((np.arange(9) + 0.5) / 9).mean()
    sigma = scale.quantiles(rng.random(200_000))
    found = fit.predict_proba(new)[:, 1]
    for f, v, p in zip(mean, variance, found, strict=True):
        drawn = expit(f + np.sqrt(max(v, 0.0) + sigma**2) * rng.standard_normal(len(sigma)))
        assert p == pytest.approx(drawn.mean(), abs=0.006)
        # At the mean of the inverse gamma distribution with the same moments of log σ² it would be flatter.
        matched = scale.matched
        assert matched.shape < 2.0 or matched.rate / (matched.shape - 1) > (sigma**2).mean()


@pytest.mark.filterwarnings("ignore:.*chains have not converged")
def test_covariances_of_few_groups_and_draws_of_a_sampler():
    data = grouped(2, n_groups=4, size=30, intercept=-0.5)
    slopes = Model("y ~ x + (x | g)", data, {"(x | g)": Covariance()}, likelihood="logistic").fit()
    with pytest.warns(ConvergenceWarning):  # few draws
        drawn = Model("y ~ x + (1 | g)", data, likelihood="logistic").fit(
            Gibbs(draws=400, tune=100, chains=2), random_state=0
        )
    for fit in (slopes, drawn):
        assert np.isfinite(sd_of_new(fit, data))
        assert np.abs(fit.predict_proba(data.assign(g=NEW)) - 0.5).max() > 0.05


@pytest.mark.parametrize("estimator", [VBSVC, VBLogistic])
def test_estimators_treat_them_alike(estimator):
    data = grouped(0, intercept=-1.0, sigma=1.0)
    X = data[["x", "g"]]
    clf = estimator(group="g").fit(X, data["y"])
    chances = clf.predict_proba(X.assign(g=NEW))[:, 1]
    assert 0.1 < chances.mean() < 0.5
    assert np.ptp(chances) > 0.05


VERBS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "predictive", "predict_interval")


@pytest.fixture(scope="module")
def fitted():
    data = grouped(5, n_groups=20, sigma=1.5, intercept=-0.5)
    return Model("y ~ x + (1 | g)", data).fit(), data


def fresh(fit):
    """A copy that has not warned."""
    return replace(fit)


@pytest.mark.parametrize("verb", VERBS)
def test_every_prediction_has_the_same_choice_of_groups(fitted, verb):
    fit, data = fitted
    ask = getattr(fit, verb)
    known, new = np.asarray(ask(data)), np.asarray(ask(data, groups="new"))
    assert (known != new).any()
    np.testing.assert_array_equal(new, np.asarray(ask(data.assign(g=NEW))))
    np.testing.assert_array_equal(known, np.asarray(ask(data, groups="error")))
    with pytest.raises(ValueError, match="The group of row 0 in 'g' was not seen in fit"):
        ask(data.assign(g=NEW), groups="error")
    with pytest.raises(ValueError, match="groups must be 'known', 'new' or 'error'; got 'old'"):
        ask(data, groups="old")


@pytest.mark.parametrize("verb", VERBS)
def test_the_earlier_name_still_works_with_a_warning(fitted, verb):
    fit, data = fitted
    with pytest.warns(FutureWarning, match=f"{verb}: new_groups='population' is now groups='known'"):
        found = getattr(fit, verb)(data, new_groups="population")
    np.testing.assert_array_equal(np.asarray(found), np.asarray(getattr(fit, verb)(data)))
    with (
        pytest.warns(FutureWarning, match="new_groups='error' is now groups='error'"),
        pytest.raises(ValueError, match="was not seen in fit"),
    ):
        getattr(fit, verb)(data.assign(g=NEW), new_groups="error")
    with pytest.raises(TypeError, match=f"{verb}: new_groups is the earlier name of groups"):
        getattr(fit, verb)(data, groups="new", new_groups="population")


@pytest.mark.parametrize("verb", VERBS)
def test_without_the_column_of_groups_all_are_new(fitted, verb):
    fit, data = fresh(fitted[0]), fitted[1]
    without = data.drop(columns="g")
    with pytest.warns(UserWarning, match="no column 'g': all observations are predicted as of new groups"):
        found = getattr(fit, verb)(without)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(getattr(fit, verb)(data, groups="new")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(fit, verb)(without)  # said once
        getattr(fresh(fit), verb)(without, groups="new")  # and not where it is asked for
    with pytest.raises(ValueError, match="was not seen in fit"):
        getattr(fit, verb)(without, groups="error")
    with pytest.raises(ValueError, match="no column 'x'"):
        getattr(fit, verb)(data.drop(columns="x"))


def test_effects_have_the_same_choice_of_groups(fitted):
    fit, data = fresh(fitted[0]), fitted[1]
    without = data.drop(columns="g")
    for verb in ("effects", "contrasts", "slopes"):
        ask = getattr(fit, verb)
        expected = ask("x", data=data, groups="new")
        pd.testing.assert_frame_equal(ask("x", data=without, groups="new"), expected)
        with pytest.warns(UserWarning, match="no column 'g'"):
            pd.testing.assert_frame_equal(ask("x", data=without), expected)
        fit = fresh(fit)
        with pytest.warns(FutureWarning, match=f"{verb}: groups='observed' is now groups='known'"):
            pd.testing.assert_frame_equal(ask("x", groups="observed"), ask("x"))
        with pytest.raises(ValueError, match="was not seen in fit"):
            ask("x", data=data.assign(g=NEW), groups="error")
    with pytest.raises(ValueError, match="no column 'g'"):
        fit.effects("x", by="g", data=without, groups="new")
    with pytest.raises(ValueError, match="no column 'g'"):
        fit.effects("g", data=without, groups="new")


def test_a_column_that_is_needed_otherwise_may_not_be_lacking():
    data = grouped(6).assign(k=lambda d: d["g"].str[1:].astype(int) % 3)
    fit = Model("y ~ k + (1 | g:k)", data).fit()
    with pytest.raises(ValueError, match="no column 'k'"):
        fit.predict(data.drop(columns="k"))
    with pytest.warns(UserWarning, match="no column 'g'"):
        found = fit.predict_proba(data.drop(columns="g"))
    np.testing.assert_array_equal(found, fit.predict_proba(data, groups="new"))
    with pytest.raises(ValueError, match="no column 'g'"):
        fit.adapt(data.drop(columns="g"))  # learns these groups


def test_files_without_the_column_of_groups(fitted, tmp_path):
    fit, data = fresh(fitted[0]), fitted[1]
    data.drop(columns="g").to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning, match="no column 'g'"):
        fit.predict_files(tmp_path / "rows.csv", tmp_path / "out.csv", proba=True)
    found = pd.read_csv(tmp_path / "out.csv")["probability yes"]
    np.testing.assert_allclose(found, fit.predict_proba(data, groups="new")[:, 1], rtol=1e-12)
