"""Posterior predictive checks: intervals contain what a model describes, and not what it does not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from vbsvm import Gibbs, LaplaceZero, Model, VBLogistic, plots
from vbsvm.plots.replicated import replicate


def sites(seed=0, n_sites=20, size=40, sd=1.5):
    rng = np.random.default_rng(seed)
    site, x = np.repeat(np.arange(n_sites), size), rng.normal(size=n_sites * size)
    p = expit(0.8 * x + sd * rng.normal(size=n_sites)[site] - 0.5)
    names = np.array([f"site {k}" for k in range(n_sites)])
    return pd.DataFrame({"y": np.where(rng.uniform(size=len(x)) < p, "yes", "no"), "x": x, "site": names[site]})


@pytest.fixture(scope="module")
def data():
    return sites()


@pytest.fixture(scope="module")
def mixed(data):
    return Model("y ~ x + (1 | site)", data).fit()


def replicated(fit, data, by=None, n_draws=300, weights=None):
    codes = np.zeros(len(data), dtype=np.intp) if by is None else pd.factorize(data[by], sort=True)[0]
    weights = np.ones(len(data)) if weights is None else weights
    return replicate(fit, fit.reader.read(data), codes, weights, n_draws)


def n_outside(fit, data, by, level=0.95):
    lower, upper = np.quantile(replicated(fit, data, by), [0.5 - level / 2, 0.5 + level / 2], axis=0)
    observed = (data["y"] == "yes").groupby(data[by]).mean().to_numpy()
    return int(((observed < lower) | (observed > upper)).sum())


def test_a_model_with_the_groups_describes_them_and_one_without_does_not(data, mixed):
    assert n_outside(mixed, data, "site") <= 1
    assert n_outside(Model("y ~ x", data).fit(), data, "site") >= 6


def test_replicated_data_vary_by_their_binomial_and_by_the_coefficients(data, mixed):
    fit = Model("y ~ x", data).fit()
    p = fit.predict_proba(data)[:, 1]
    found = replicated(fit, data, n_draws=2000)[:, 0]
    assert found.mean() == pytest.approx(p.mean(), abs=0.002)
    binomial, of_mean = (p * (1 - p)).sum() / len(p) ** 2, fit.effects("x", at=[0])["std_error"].iloc[0] ** 2
    assert binomial < found.var() < binomial + 2.5 * of_mean
    assert replicated(mixed, data)[:, 0].mean() == pytest.approx(mixed.predict_proba(data)[:, 1].mean(), abs=0.005)


def test_whole_weights_are_as_many_observations(data):
    weights = np.random.default_rng(0).integers(1, 6, len(data)).astype(float)
    fit = Model("y ~ x", data).fit()
    repeated = data.loc[data.index.repeat(weights.astype(int))]
    counted, written = replicated(fit, data, weights=weights, n_draws=1500), replicated(fit, repeated, n_draws=1500)
    assert counted.mean() == pytest.approx(written.mean(), abs=0.002)
    assert counted.std() == pytest.approx(written.std(), rel=0.1)
    of_parts = replicated(fit, data, weights=0.5 * weights, n_draws=1500)  # each observation is one, of unequal weight
    assert of_parts.std() > 1.3 * counted.std()


def kinds(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Model("y ~ x", data, likelihood="hinge").fit()
        yield Model("y ~ x + (1 | site)", data).fit(Gibbs(draws=200, tune=100, chains=2), random_state=0)
        yield Model("y ~ x", data, {"fixed": LaplaceZero()}).fit()
        holes = data.copy()
        holes.loc[::9, "x"] = np.nan
        yield Model("y ~ x + site", holes).fit()


def test_every_kind_of_fit_is_near_the_data(data):
    share = (data["y"] == "yes").mean()
    for fit in kinds(data):
        found = replicated(fit, data, n_draws=60)[:, 0]
        assert found.mean() == pytest.approx(share, abs=0.04)
        assert 0.005 < found.std() < 0.05


def test_the_figures_show_the_observed_proportions(data, mixed):
    ax = plots.predictive(mixed, n_draws=100)
    assert ax.lines[0].get_xdata()[0] == pytest.approx((data["y"] == "yes").mean())
    assert sum(patch.get_height() for patch in ax.patches) == 100
    ax = plots.predictive(mixed, "site", n_draws=100)
    shown = np.concatenate([np.column_stack(line.get_data()) for line in ax.lines[1:]])
    expected = (data["y"] == "yes").groupby(data["site"]).mean()
    np.testing.assert_allclose(shown[np.argsort(shown[:, 1]), 0], expected)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(expected.index)
    assert "95 % predictive interval" in ax.get_xlabel()
    assert "proportions of yes" in plots.alt_text(ax)
    part = plots.predictive(mixed, "half", data=data.assign(half=np.arange(len(data)) % 2), n_draws=20)
    assert len(part.get_yticklabels()) == 2
    many = sites(1, n_sites=80, size=5)
    ax = plots.predictive(Model("y ~ x + (1 | site)", many).fit(), "site", n_draws=50)
    assert not ax.get_yticklabels()
    sizes = [len(line.get_xdata()) for line in ax.lines]
    assert sizes[0] == sizes[1] + sizes[2] == 80


def test_what_can_not_be_checked_is_refused(data, mixed):
    for options, error, said in (
        ({"by": "x"}, ValueError, "'x' has 800 values: cut it into ranges"),
        ({"by": "nothing"}, ValueError, "no column 'nothing'"),
        ({"n_draws": 0}, ValueError, "n_draws"),
        ({"level": 95}, ValueError, "level"),
        ({"data": data.drop(columns="y")}, ValueError, "no column 'y'"),
        ({"by": "part", "data": data.assign(part=[None, *["a"] * 799])}, ValueError, "'part' is missing in 1 "),
    ):
        with pytest.raises(error, match=said):
            plots.predictive(mixed, **options)
    clf = VBLogistic().fit(data[["x"]], data["y"])
    with pytest.raises(TypeError, match="pass the Fit of a Model; got VBLogistic"):
        plots.predictive(clf)


def test_the_figure_of_decision_values_has_another_name(data, mixed):
    clf = VBLogistic().fit(data[["x"]], data["y"])
    for call in (
        lambda: plots.predictive(clf, data[["x"]], data["y"]),
        lambda: plots.predictive(clf, X=data[["x"]], y=data["y"]),
        lambda: plots.predictive(mixed, data),
    ):
        with pytest.warns(FutureWarning, match=r"is now plots\.scores"):
            assert "(positive: yes)" in call().get_xlabel()
