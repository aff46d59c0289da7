"""Levels of missing categories given the complete inputs and the label: learned from moments that add."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from vbsvm import GaussianImputation, Model, Variational
from vbsvm.api import missing_values
from vbsvm.missing.categories import ConditionalLevels, LevelSums

TIGHT = Variational(tol=1e-12)


def rows(n=200, p=3, n_levels=3, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    labels, levels = rng.integers(0, 2, n), rng.integers(0, n_levels, n)
    x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + labels[:, None] + apart * levels[:, None] * np.eye(p)[0]
    return x, labels, levels, rng.integers(0, 4, n).astype(float)


def sums(x, labels, levels, weights, shape=(2, 3)):
    return LevelSums.from_rows(x, labels, levels, weights, shape)


def assert_same(one, other, **near):
    for name in ("counts", "means", "scatter"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **near)


def test_moments_of_parts_add_up_far_from_zero_too():
    x, *rest = rows()
    x = x + 1e6
    whole, total = sums(x, *rest), None
    for begin, end in ((0, 1), (1, 1), (1, 90), (90, 200)):
        part = sums(x[begin:end], *(one[begin:end] for one in rest))
        total = part if total is None else total + part
    assert_same(total, whole, rtol=1e-9, atol=1e-8)


def test_moments_without_labels_are_those_of_one_label():
    x, labels, levels, weights = rows()
    assert_same(
        sums(x, labels, levels, weights).without_labels(), sums(x, 0 * labels, levels, weights, (1, 3)), atol=1e-10
    )


def test_the_law_is_bayes_rule_for_normal_inputs():
    x, labels, _, _ = rows()
    conditional = sums(*rows()).conditional()
    densities = np.array(
        [
            [
                multivariate_normal.logpdf(one, conditional.means[label] + effect, conditional.covariance) + share
                for effect, share in zip(conditional.effects, conditional.log_proportions[label], strict=True)
            ]
            for one, label in zip(x, labels, strict=True)
        ]
    )
    np.testing.assert_allclose(conditional.log_prob(x, labels), log_softmax(densities, axis=1), atol=1e-9)


def test_an_input_that_is_not_known_has_no_say():
    x, labels, _, _ = rows()
    conditional, kept = sums(*rows()).conditional(), [0, 2]
    x[5:, 1] = np.nan
    known = ConditionalLevels(
        conditional.log_proportions,
        conditional.means[:, kept],
        conditional.effects[:, kept],
        conditional.covariance[np.ix_(kept, kept)],
    )
    np.testing.assert_allclose(conditional.log_prob(x, labels)[5:], known.log_prob(x[:, kept], labels)[5:], atol=1e-12)
    np.testing.assert_allclose(
        conditional.log_prob(x, labels)[:5], sums(*rows()).conditional().log_prob(*rows()[:2])[:5]
    )


def test_many_rows_give_the_parameters_back():
    x, labels, levels, _ = rows(100_000)
    conditional = sums(x, labels, levels, np.ones(len(x))).conditional()
    np.testing.assert_allclose((conditional.effects - conditional.effects[0])[:, 0], [0, 1, 2], atol=0.05)
    np.testing.assert_allclose(conditional.means[1] - conditional.means[0], np.ones(3), atol=0.05)


def test_levels_that_do_not_differ_have_their_shares():
    """Chance differences of twenty columns would move the odds; shrunk, they hardly do."""
    moved = []
    for seed in range(10):
        x, labels, levels, _ = rows(150, 20, seed=seed, apart=0.0)
        conditional = sums(x, labels, levels, np.ones(150)).conditional()
        moved.append(np.abs(conditional.log_prob(x, labels) - conditional.log_proportions[labels]).mean())
    assert np.mean(moved) < 0.15


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_constant_columns_and_levels_that_are_never_known(n):
    x, labels, levels, _ = rows(n)
    x[:, 1] = 7.0
    conditional = sums(x, labels, np.minimum(levels, 1), np.ones(n)).conditional()
    chances = conditional.log_prob(x, labels)
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(np.exp(chances).sum(axis=1), 1.0)


def test_draws_spread_around_the_law_as_the_rows_allow():
    x, labels, levels, weights = rows(400)
    found, rng = sums(x, labels, levels, weights + 1), np.random.default_rng(0)
    conditional, drawn = found.conditional(), [found.conditional(rng) for _ in range(300)]
    effects = np.stack([one.effects - one.effects.mean(axis=0) for one in drawn])
    spread = effects.std(axis=0)
    assert (
        np.abs(effects.mean(axis=0) - (conditional.effects - conditional.effects.mean(axis=0))) < 5 * spread / 300**0.5
    ).all()
    by_level = found.counts.sum(axis=0)
    expected = np.sqrt(conditional.covariance.diagonal() / by_level[:, None] * (1 - 1 / 3))
    assert (np.abs(np.log(spread / expected)) < 0.4).all()
    shares = np.stack([np.exp(one.log_proportions) for one in drawn])
    np.testing.assert_allclose(shares.mean(axis=0), np.exp(conditional.log_proportions), atol=0.02)


def dependent(n=300, seed=0, strength=2.0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})
    score = strength * data["x"].to_numpy()[:, None] * np.array([0.0, 1.0, -1.0])
    data["arm"] = np.array(list("abc"))[(score + rng.gumbel(size=(n, 3))).argmax(axis=1)]
    data["y"] = np.where(data["x"] + data["z"] + 1.5 * (data["arm"] == "b") + rng.logistic(size=n) > 0, "yes", "no")
    lost = rng.random(n) < 1 / (1 + np.exp(1.1 - 1.5 * data["x"]))
    return data, data.assign(arm=data["arm"].mask(lost))


def test_a_category_that_depends_on_an_input_is_filled_in_by_it(monkeypatch):
    """Nearer to the fit without gaps than shares by label, and predictions of rows that miss it nearer as well."""
    distances = []
    for seed in range(6):
        whole, data = dependent(seed=seed)
        models = [Model("y ~ x + z + arm", data)]
        with monkeypatch.context() as patch:
            patch.setattr(missing_values, "MAX_GIVEN", 0)
            models.append(Model("y ~ x + z + arm", data))
            fits = [models[1].fit()]
        fits.insert(0, models[0].fit())
        target = Model("y ~ x + z + arm", whole).fit().coef
        distances.append([np.linalg.norm(fit.coef - target) for fit in fits])
    softmax, shares = np.mean(distances, axis=0)
    assert softmax < 0.8 * shares


def test_predictions_average_over_levels_that_the_other_inputs_suggest():
    _, data = dependent()
    fit = Model("y ~ x + z + arm", data).fit()
    new = pd.DataFrame({"x": [-2.0, 2.0], "z": [0.0, 0.0], "arm": [None, None]})
    chances = np.exp(
        fit.spec.missing.levels.given.without_labels[0].log_prob(
            (new[["x", "z"]].to_numpy() - fit.plan.recipe.centre[:2]) / fit.plan.recipe.scale[:2],
            np.zeros(2, dtype=int),
        )
    )
    assert chances[0, 2] > 0.6 > 0.2 > chances[0, 1]
    scores = [fit.decision_function(new.assign(arm=level)) for level in "abc"]
    np.testing.assert_allclose(fit.decision_function(new), (chances.T * scores).sum(axis=0), rtol=1e-9)


def test_without_labels_the_outcome_does_not_move_the_shares():
    _, data = dependent()
    settings = {"imputation": GaussianImputation(labels="none")}
    one = Model("y ~ x + z + arm", data, **settings).fit().spec.missing.levels.given
    turned = data.assign(y=np.where(data["y"] == "yes", "no", "yes"))
    two = Model("y ~ x + z + arm", turned, **settings).fit().spec.missing.levels.given
    np.testing.assert_allclose(one.conditionals[0].effects, two.conditionals[0].effects)
    assert one.conditionals[0].log_proportions.shape == (1, 3)


def test_a_saved_fit_predicts_the_same(tmp_path):
    from vbsvm import load

    _, data = dependent()
    fit = Model("y ~ x + z + arm", data).fit()
    fit.save(tmp_path / "m.vbsvm")
    np.testing.assert_allclose(load(tmp_path / "m.vbsvm").predict_proba(data), fit.predict_proba(data), atol=1e-12)


def test_a_category_that_was_complete_in_fit_may_be_missing_in_new_rows():
    _, data = dependent()
    data["site"] = np.where(np.arange(len(data)) % 3, "s", "t")
    fit = Model("y ~ x + arm + site", data).fit()
    new = data.head(4).assign(site=None, arm=None, x=[np.nan, 0.0, 1.0, np.nan])
    assert np.isfinite(fit.predict_proba(new)).all()
    shares = fit.decision_function(new.assign(site="s")) * 2 / 3 + fit.decision_function(new.assign(site="t")) / 3
    np.testing.assert_allclose(fit.decision_function(new)[1:3], shares[1:3], atol=0.02)
