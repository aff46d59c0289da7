"""Intraclass correlations and R² against computations by hand from a fit's own tables, and against simulation."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from vbsvm import Gibbs, Model, load
from vbsvm.datasets import load_toenail

RESIDUAL = np.pi**2 / 3


def grouped(seed=0, n_groups=60, size=8, sd=1.5, slope=0.0, n_sites=6):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(n_groups), size), rng.normal(3.0, 2.0, n_groups * size)
    u, v = rng.normal(size=(2, n_groups))
    score = 0.5 * (x - 3.0) + sd * u[g] + slope * v[g] * (x - 3.0)
    site = g % n_sites
    return pd.DataFrame({"y": rng.uniform(size=len(g)) < expit(score), "x": x, "g": g, "site": site})


@pytest.fixture(scope="module")
def toenail():
    data = load_toenail()
    return Model("outcome ~ visit * treatment + (1 | patientID)", data, positive="moderate or severe").fit(), data


def test_the_icc_of_toenail_is_that_of_its_variance(toenail):
    fit, _ = toenail
    components = fit.variance_components()
    variance = components["variance"].iloc[0]
    table = fit.icc()
    assert list(table.index) == ["patientID"]
    assert table["estimate"].iloc[0] == pytest.approx(variance / (variance + RESIDUAL), rel=1e-9)
    assert 0.8 < table["estimate"].iloc[0] < 0.9  # glmer's by quadrature has σ = 4.0, which is .83
    scale = fit.posterior.state.scales[-1]
    ends = scale.values_at(np.array([0.025, 0.975]))[:, 0, 0]
    np.testing.assert_allclose(table[["lower", "upper"]].iloc[0], ends / (ends + RESIDUAL), rtol=1e-3)
    narrow = fit.icc(level=0.5)
    assert (narrow["upper"] - narrow["lower"]).iloc[0] < (table["upper"] - table["lower"]).iloc[0]


def test_the_r2_of_toenail_is_that_of_its_fixed_effects_and_variance(toenail):
    fit, data = toenail
    fixed = np.var(fit.decision_function(data, groups="new"))
    random = fit.variance_components()["variance"].iloc[0]
    table = fit.r2()
    total = fixed + random + RESIDUAL
    np.testing.assert_allclose(table["r2"], [fixed / total, (fixed + random) / total], rtol=1e-9)
    assert list(table.index) == ["marginal", "conditional"]
    parts = table.attrs["variances"]
    assert list(parts) == ["fixed", "patientID", "residual"]
    np.testing.assert_allclose(list(parts.values()), [fixed, random, RESIDUAL], rtol=1e-9)
    half = fit.r2(data[:900])
    assert half.attrs["variances"]["fixed"] == pytest.approx(np.var(fit.decision_function(data[:900], groups="new")))


@pytest.mark.filterwarnings("ignore:.*too narrow")
def test_random_slopes_count_by_their_mean_over_observations():
    data = grouped(1, slope=0.8)
    fit = Model("y ~ x + (x | g)", data).fit()
    sd = fit.variance_components()["std_dev"].xs("(x | g)")
    centred = data["x"] - data["x"].mean()  # the random intercept is that at the mean
    cross = 2 * sd.iloc[2] * sd.iloc[0] * sd.iloc[1]
    by_hand = (sd.iloc[0] ** 2 + cross * centred + sd.iloc[1] ** 2 * centred**2).mean()
    assert fit.icc()["estimate"].iloc[0] == pytest.approx(by_hand / (by_hand + RESIDUAL), rel=1e-6)
    assert fit.r2().attrs["variances"]["g"] == pytest.approx(by_hand, rel=1e-6)
    apart = data.assign(x=100.0 + data["x"])
    assert fit.icc(data=apart)["estimate"].iloc[0] > fit.icc()["estimate"].iloc[0]  # slopes differ more there
    with pytest.warns(match="too narrow"):
        fit.icc()


@pytest.mark.filterwarnings("ignore:.*too narrow")
def test_several_factors_share_the_variance_and_weights_count_rows():
    data = grouped(2)
    data["w"] = np.random.default_rng(0).integers(0, 3, len(data))
    fit = Model("y ~ s(x) + (1 | g) + (1 | site)", data, weights="w").fit()
    table, parts = fit.icc(), fit.r2().attrs["variances"]
    variances = fit.variance_components()["variance"].xs("(intercept)", level="effect")
    for name in ("g", "site"):
        expected = variances[f"(1 | {name})"] / (variances[["(1 | g)", "(1 | site)"]].sum() + RESIDUAL)
        assert table.loc[name, "estimate"] == pytest.approx(expected, rel=1e-6)
        assert table.loc[name, "lower"] <= table.loc[name, "estimate"] <= table.loc[name, "upper"]
    repeated = data.loc[data.index.repeat(data["w"])]
    assert parts["fixed"] == pytest.approx(np.var(fit.decision_function(repeated, groups="new")), rel=1e-6)


def test_missing_categories_count_by_their_probabilities():
    data = grouped(3).assign(arm=lambda d: np.where(d["site"] % 2, "a", "b"))
    data.loc[::5, "arm"] = None
    fit = Model("y ~ x + arm + (1 | g)", data).fit()
    known = fit.r2(data[data["arm"].notna()]).attrs["variances"]["fixed"]
    assert fit.r2().attrs["variances"]["fixed"] == pytest.approx(known, rel=0.2)


@pytest.mark.filterwarnings("ignore:.*chains have not mixed")
def test_draws_of_a_sampler_are_taken_jointly():
    data = grouped(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short run
        fit = Model("y ~ x + (1 | g) + (1 | site)", data).fit(Gibbs(draws=300, tune=200, chains=2), random_state=0)
    draws = {one.term: np.square(one.draws.ravel()) for one in fit.traces.components()}
    g, site = draws["(1 | g)"], draws["(1 | site)"]
    shares = g / (g + site + RESIDUAL)
    table = fit.icc(0.9)
    np.testing.assert_allclose(table.loc["g", ["lower", "upper"]], np.quantile(shares, [0.05, 0.95]), rtol=1e-9)
    expected = np.median(g) / (np.median(g) + np.median(site) + RESIDUAL)
    assert table.loc["g", "estimate"] == pytest.approx(expected, rel=1e-9)


def test_intervals_contain_the_true_correlation():
    """Thirty sets of 60 groups: at a level of .9 fewer than 22 happen once in 140 times."""
    truth, covered = 1.5**2 / (1.5**2 + RESIDUAL), 0
    for seed in range(30):
        lower, upper = Model("y ~ x + (1 | g)", grouped(seed + 100)).fit().icc(0.9)[["lower", "upper"]].iloc[0]
        covered += lower < truth < upper
    assert covered >= 22


def test_what_it_does_not_exist_for(tmp_path):
    data = grouped(5)
    hinge = Model("y ~ x + (1 | g)", data, likelihood="hinge").fit()
    for ask in (hinge.icc, hinge.r2):
        with pytest.raises(ValueError, match="the hinge loss has no residual variance"):
            ask()
    plain = Model("y ~ x", data).fit()
    with pytest.raises(ValueError, match="no grouping factor"):
        plain.icc()
    r2 = plain.r2()["r2"]
    assert r2["marginal"] == pytest.approx(r2["conditional"])
    with pytest.raises(ValueError, match="level"):
        Model("y ~ x + (1 | g)", data).fit().icc(level=95)
    fit = Model("y ~ x + (1 | g)", data).fit()
    fit.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    pd.testing.assert_frame_equal(loaded.icc(), fit.icc())
    with pytest.raises(ValueError, match="give rows with data="):
        loaded.r2()
    pd.testing.assert_frame_equal(loaded.r2(data), fit.r2())
