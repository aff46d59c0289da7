"""Intervals of single observations' probabilities contain the true ones as often as they say."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from vbsvm import VBSVC, Gibbs, Model, VBLogistic, load

B = 0.8


def simulated(rng, n_groups=40, rows=12, sd=1.0):
    g = np.repeat(np.arange(n_groups), rows)
    x = rng.normal(size=len(g))
    p = expit(B * x + rng.normal(scale=sd, size=n_groups)[g])
    return pd.DataFrame({"y": np.where(rng.uniform(size=len(g)) < p, "yes", "no"), "x": x, "g": g}), p


@pytest.fixture(scope="module")
def fits():
    """Fits with their data, and true probabilities of these and of new groups."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(12):
        (data, known), (new, unknown) = simulated(rng), simulated(rng)
        found.append((Model("y ~ x + (1 | g)", data).fit(), data, known, new.assign(g=new["g"] + 1000), unknown))
    return found


def covered(table, p):
    return float(((table["lower"] <= p) & (p <= table["upper"])).mean())


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_they_contain_the_probability_in_known_and_new_groups(fits, level):
    """Groups are drawn 480 times: three standard errors of such a share are .03 at 95 %, and .07 at 50 %."""
    known = np.mean([covered(fit.predict_interval(data, level), p) for fit, data, p, _, _ in fits])
    new = np.mean([covered(fit.predict_interval(rows, level), p) for fit, _, _, rows, p in fits])
    assert known == pytest.approx(level, abs=0.035 if level > 0.9 else 0.08)
    assert new == pytest.approx(level, abs=0.035 if level > 0.9 else 0.08)


def test_intervals_without_the_variation_between_groups_would_not(fits):
    """The negative control: new groups with the width of the fixed effects alone."""
    fixed = [Model("y ~ x", data).fit().predict_interval(rows) for _, data, _, rows, _ in fits]
    assert np.mean([covered(table, p) for table, (*_, p) in zip(fixed, fits, strict=True)]) < 0.5


def test_the_estimate_is_that_of_predict_proba_and_lies_within(fits):
    fit, data, *_ = fits[0]
    rows = data.head(30).set_index(np.arange(30) + 7)
    table = fit.predict_interval(rows, 0.9)
    assert list(table) == ["estimate", "lower", "upper"]
    assert table.index.tolist() == rows.index.tolist()
    np.testing.assert_array_equal(table["estimate"], fit.predict_proba(rows)[:, 1])
    assert ((table["lower"] < table["estimate"]) & (table["estimate"] < table["upper"])).all()
    assert 'Probability of "yes"' in table.attrs["note"]
    wider = fit.predict_interval(rows, 0.99)
    assert ((wider["lower"] < table["lower"]) & (wider["upper"] > table["upper"])).all()


def test_it_agrees_with_draws():
    data, _ = simulated(np.random.default_rng(1), 12, 20)
    new = data.head(10).assign(g=[0, 1, 2, 3, 4, 99, 98, 97, 96, 95])
    fit = Model("y ~ x + (1 | g)", data).fit(Gibbs(draws=1500, tune=500, chains=2), random_state=0)
    table, variational = fit.predict_interval(new), Model("y ~ x + (1 | g)", data).fit().predict_interval(new)
    np.testing.assert_allclose(variational, table, atol=0.06)


def test_estimators_missing_predictors_and_saved_models(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 3))
    y = rng.uniform(size=300) < expit(X[:, 0])
    X[rng.random(X.shape) < 0.1] = np.nan
    for clf in (VBLogistic().fit(X, y), VBSVC().fit(X, y)):
        table = clf.predict_interval(X)
        np.testing.assert_array_equal(table["estimate"], clf.predict_proba(X)[:, 1])
        assert ((table["lower"] <= table["estimate"]) & (table["estimate"] <= table["upper"])).mean() > 0.99
        incomplete = np.isnan(X).any(axis=1)
        width = (table["upper"] - table["lower"]).to_numpy()
        assert width[incomplete].mean() > width[~incomplete].mean()
        clf.save(tmp_path / "m.vbsvm")
        pd.testing.assert_frame_equal(load(tmp_path / "m.vbsvm").predict_interval(X), table, rtol=1e-9)


def test_far_away_probabilities_are_uncertain_and_finite():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2))
    clf = VBLogistic().fit(X, X[:, 0] + rng.logistic(size=200) > 0)
    table = clf.predict_interval([[0.0, 1e6], [1e150, 0.0], [0.0, 0.0]])
    assert np.isfinite(table.to_numpy()).all()
    assert table["lower"].iloc[0] < 0.01
    assert table["upper"].iloc[0] > 0.99


def test_what_is_refused():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 2))
    several = VBSVC().fit(X, np.arange(90) % 3)
    with pytest.raises(ValueError, match="only available for two classes"):
        several.predict_interval(X)
    two = VBSVC().fit(X, np.arange(90) % 2)
    with pytest.raises(ValueError, match="level"):
        two.predict_interval(X, level=95)
    data = pd.DataFrame({"y": np.arange(90) % 2, "x": X[:, 0], "g": np.arange(90) % 9})
    fit = Model("y ~ x + (1 | g)", data).fit()
    with pytest.raises(ValueError, match="was not seen in fit"):
        fit.predict_interval(data.assign(g=77), groups="error")
