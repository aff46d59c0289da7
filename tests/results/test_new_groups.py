"""Groups that a fit has not seen: their variance is averaged over, and is neither infinite nor absurd."""

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


@pytest.mark.filterwarnings("ignore:.*the chains have not converged")
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
