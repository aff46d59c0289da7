"""Effects of new groups from their first rows: near those of a refit, surer with more rows, and refused in words."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from vbsvm import Gibbs, LaplaceZero, Model, Variational, load


def visits(n_groups, size, seed=0, slope=False):
    """Groups with intercepts of standard deviation 1.5, and slopes of x where these are asked for."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(n_groups), size)
    x, item = rng.normal(size=len(g)), rng.integers(0, 4, len(g))
    score = 0.3 + 1.2 * x + rng.normal(0, 1.5, n_groups)[g] + 0.5 * (item - 1.5)
    if slope:
        score = score + rng.normal(0, 1.0, n_groups)[g] * x
    y = np.where(rng.uniform(size=len(g)) < expit(1.5 * score), "yes", "no")
    return pd.DataFrame({"x": x, "item": item, "g": g, "y": y})


def effects_of(fit, groups):
    table = fit.random_effects("g")
    return table[table.index.get_level_values(0).isin(groups)] if table.index.nlevels > 1 else table.loc[groups]


@pytest.mark.parametrize(
    ("formula", "inference", "most"),
    [
        ("y ~ x + (1 | g)", Variational(), 0.25),
        ("y ~ x + (1 | g)", Variational(bound="augmented"), 0.5),  # its sds are half as wide
        ("y ~ x + (x | g)", Variational(), 0.3),
        ("y ~ x + (1 | g) + (1 | item)", Variational(), 0.3),
    ],
)
def test_new_groups_have_the_effects_that_a_refit_would_give(formula, inference, most):
    """The refit moves the held part too, by a few standard errors of 1/√(all rows): far less than a group's sd."""
    data = visits(60, 8, slope="(x |" in formula)
    new = list(range(50, 60))
    first, rest = data[data["g"] < 50], data[data["g"] >= 50]
    adapted = Model(formula, first, likelihood="hinge").fit(inference).adapt(rest)
    full = Model(formula, data, likelihood="hinge").fit(inference)
    found, expected = effects_of(adapted, new), effects_of(full, new)
    z = (found["estimate"] - expected["estimate"]) / expected["std_error"]
    assert np.sqrt(np.mean(np.square(z))) < most
    assert (found["std_error"] / expected["std_error"]).between(0.75, 1.25).all()
    assert (
        expected["estimate"].std() > 3 * (found["estimate"] - expected["estimate"]).std()
    )  # the effects themselves are large
    assert len(adapted.random_effects("g")) == len(full.random_effects("g"))
    agree = adapted.predict(rest) == full.predict(rest)
    assert agree.mean() > 0.95
    near = np.abs(adapted.predict_proba(rest) - full.predict_proba(rest)).max()
    assert near < 0.15


@pytest.mark.parametrize("inference", [Variational(), Gibbs(draws=1500, tune=300, chains=2)])
def test_effects_are_averaged_over_a_variance_that_may_be_nearly_zero(inference):
    """The expected precision is ruled by variances near 0: it left adapted effects at .07 to .4 of a refit's."""
    for seed, sigma in ((0, 0.3), (1, 0.6)):
        rng = np.random.default_rng([40, seed])
        g, x = np.repeat(np.arange(60), 6), rng.normal(size=360)
        score = -1.0 + 0.8 * x + sigma * rng.normal(size=60)[g]
        data = pd.DataFrame({"g": g, "x": x, "y": np.where(rng.random(360) < expit(score), 1, 0)})
        new = list(range(50, 60))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first = Model("y ~ x + (1 | g)", data[g < 50]).fit(inference, random_state=1)
        adapted = effects_of(first.adapt(data[g >= 50]), new)
        full = effects_of(Model("y ~ x + (1 | g)", data).fit(), new)
        assert 0.6 < (adapted["estimate"] @ full["estimate"]) / (full["estimate"] @ full["estimate"]) < 1.8
        assert 0.6 < (adapted["std_error"] / full["std_error"]).mean() < 1.5


def test_known_groups_and_the_rest_stay_as_they_were():
    data = visits(40, 6)
    fit = Model("y ~ x + (1 | g)", data[data["g"] < 30]).fit()
    adapted = fit.adapt(data[data["g"] >= 30])
    pd.testing.assert_frame_equal(effects_of(adapted, list(range(30))), fit.random_effects())
    pd.testing.assert_frame_equal(adapted.summary(), fit.summary())
    known = data[data["g"] < 30]
    np.testing.assert_allclose(adapted.predict_proba(known), fit.predict_proba(known), rtol=1e-12)
    np.testing.assert_allclose(adapted.predictive(known)["std_error"], fit.predictive(known)["std_error"], rtol=1e-9)
    pd.testing.assert_frame_equal(adapted.variance_components(), fit.variance_components())
    assert adapted.facts.n_rows == len(data)
    assert list(fit.random_effects().index) == list(range(30))  # the fit itself is as it was


def test_more_rows_make_a_group_surer_and_none_leave_it_at_the_prior():
    data = visits(40, 30, seed=2)
    fit = Model("y ~ x + (1 | g)", data[data["g"] < 30]).fit()
    group = data[data["g"] == 35]
    sds, spread = [], []
    for n in (1, 5, 30):
        adapted = fit.adapt(group.iloc[:n])
        sds.append(adapted.random_effects().loc[35, "std_error"])
        spread.append(adapted.predictive(group)["std_error"].mean())
    assert sds[0] > sds[1] > sds[2]
    assert spread[0] > spread[1] > spread[2]
    nothing = fit.adapt(group.iloc[:1], weights=[1e-12])
    prior = np.sqrt(fit.posterior.state.scales[-1].values_at((np.arange(9) + 0.5) / 9).mean())
    assert nothing.random_effects().loc[35, "estimate"] == pytest.approx(0.0, abs=1e-6)
    assert nothing.random_effects().loc[35, "std_error"] == pytest.approx(prior, rel=1e-6)


def test_rows_of_a_known_group_go_on_from_what_was_known():
    """In two steps as in one: the effect after half of the rows, and then the rest, is near that of all at once."""
    data = visits(40, 20, seed=3)
    fit = Model("y ~ x + (1 | g)", data[data["g"] < 30]).fit()
    new = data[data["g"] >= 30]
    half = new.groupby("g").cumcount() < 10
    once, twice = fit.adapt(new), fit.adapt(new[half]).adapt(new[~half])
    groups = list(range(30, 40))
    one, two = effects_of(once, groups), effects_of(twice, groups)
    first = effects_of(fit.adapt(new[half]), groups)
    assert np.linalg.norm(one["estimate"] - two["estimate"]) < 0.5 * np.linalg.norm(one["estimate"] - first["estimate"])
    assert (two["std_error"] < first["std_error"]).all()


def test_groups_of_several_columns_and_text_find_their_place():
    data = visits(30, 8, seed=4)
    data["g"] = [f"p{g:02d}" for g in data["g"]]
    data["clinic"] = np.where(data["g"].str[-1].isin(list("02468")), "even", "odd")
    new = data["g"].isin(["p00", "p15", "p29"])  # at both ends and in the middle
    fit = Model("y ~ x + (1 | clinic/g)", data[~new]).fit()
    adapted = fit.adapt(data[new])
    table = adapted.random_effects("clinic:g")
    assert len(table) == 30
    full = Model("y ~ x + (1 | clinic/g)", data).fit().random_effects("clinic:g")
    assert list(table.index) == list(full.index)
    assert np.corrcoef(table["estimate"], full["estimate"])[0, 1] > 0.99


def test_gates_of_fixed_effects_are_applied():
    data = visits(40, 8, seed=5)
    data["noise"] = np.random.default_rng(0).normal(size=len(data))
    priors = {"x": LaplaceZero(), "noise": LaplaceZero()}
    formula = "y ~ x + noise + (1 | g)"
    adapted = Model(formula, data[data["g"] < 32], priors, likelihood="hinge").fit().adapt(data[data["g"] >= 32])
    full = Model(formula, data, priors, likelihood="hinge").fit()
    groups = list(range(32, 40))
    found, expected = effects_of(adapted, groups), effects_of(full, groups)
    assert np.sqrt(np.mean(np.square((found["estimate"] - expected["estimate"]) / expected["std_error"]))) < 0.4


def test_after_sampling_new_groups_have_draws():
    data = visits(40, 10, seed=6)
    first, rest = data[data["g"] < 32], data[data["g"] >= 32]
    gibbs = Gibbs(draws=800, tune=200, chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        fit = Model("y ~ x + (1 | g)", first).fit(gibbs, random_state=1)
        full = Model("y ~ x + (1 | g)", data).fit(gibbs, random_state=2)
    adapted, groups = fit.adapt(rest), list(range(32, 40))
    found, expected = effects_of(adapted, groups), effects_of(full, groups)
    # The posterior of a group whose rows have one label is skewed, which a normal one is not.
    assert np.sqrt(np.mean(np.square((found["estimate"] - expected["estimate"]) / expected["std_error"]))) < 0.5
    assert (found["std_error"] / expected["std_error"]).between(0.6, 1.4).all()
    assert adapted.traces.n_draws == fit.traces.n_draws
    with pytest.raises(ValueError, match="only new levels are supported"):
        adapted.adapt(rest)


def test_an_adapted_fit_can_be_saved_and_has_effects(tmp_path):
    data = visits(30, 8)
    adapted = Model("y ~ x + (1 | g)", data[data["g"] < 25]).fit().adapt(data[data["g"] >= 25])
    adapted.save(tmp_path / "fit.vbsvm")
    loaded = load(tmp_path / "fit.vbsvm")
    np.testing.assert_allclose(loaded.predict_proba(data), adapted.predict_proba(data), rtol=1e-12)
    found = loaded.effects("x", data=data, at=[0])["estimate"].iloc[0]
    assert found == pytest.approx(adapted.predict_proba(data.assign(x=0.0))[:, 1].mean(), abs=1e-12)


def test_what_can_not_tell_of_groups_is_refused_in_words():
    data = visits(20, 6)
    fit = Model("y ~ x + (1 | g) + (1 | item)", data[data["g"] < 15]).fit()
    rest = data[data["g"] >= 15]
    for rows, said in (
        (rest.assign(x=np.nan), "column 'x' is missing in row"),
        (rest.drop(columns="y"), "no column 'y'"),
        (rest.assign(y="perhaps"), "'perhaps'"),
        (rest.assign(item=9), "a new level of 'item'"),
        (rest.assign(g=np.nan), "Column 'g' has no value"),
        (rest.assign(g="new"), "Column 'g' was numeric in fit"),
        (rest.iloc[:0], "no rows"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            fit.adapt(rows)
    with pytest.raises(ValueError, match="weights must be finite"):
        fit.adapt(rest, weights=np.zeros(len(rest)))
    with pytest.raises(ValueError, match="the model has no random effects"):
        Model("y ~ x", data).fit().adapt(rest)
