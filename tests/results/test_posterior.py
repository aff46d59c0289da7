"""The seam between a fit and what is believed of its parameters: any posterior that answers will do."""

from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vbsvm import Model, Normal, Variational, compare, plots
from vbsvm.design.columns import Plan
from vbsvm.design.scaling import Recipe
from vbsvm.results import fit as fits
from vbsvm.results.posterior import MeanField, posterior_of

FACTOR = 3.0


@dataclass(frozen=True)
class WideCoefficients:
    """Coefficients of another distribution with wider scores."""

    inner: object

    @property
    def mean(self):
        return self.inner.mean

    def effective(self, gates):
        return WideMessage(self.inner.effective(gates))


@dataclass(frozen=True)
class WideMessage:
    inner: object

    def row_moments(self, rows):
        mean, variance = self.inner.row_moments(rows)
        return mean, FACTOR**2 * variance


@dataclass(frozen=True)
class Wider:
    """A third posterior: mean field's centres with wider spreads, and words of its own."""

    inner: MeanField

    @property
    def history(self):
        return self.inner.history

    @property
    def by_draws(self):
        return True

    @property
    def notes(self):
        own = {"explanation": "Spreads are made wider.", "aside": " (wider)", "groups": ""}
        caveat = ("Spreads were made wider", "By a factor.")
        return replace(self.inner.notes, **own, intervals="made wider", components="made wider", spreads=caveat)

    @property
    def state(self):
        return replace(self.inner.state, coefficients=WideCoefficients(self.inner.state.coefficients))

    @property
    def mean(self):
        return self.inner.mean

    @property
    def variances(self):
        return FACTOR**2 * self.inner.variances

    @property
    def covariance(self):
        return FACTOR**2 * self.inner.covariance

    @property
    def inclusion(self):
        return self.inner.inclusion

    @property
    def sign_probabilities(self):
        return np.full(self.inner.plan.n_fixed, 0.25)

    def quantiles(self, chance):
        return self.mean + FACTOR * (self.inner.quantiles(chance) - self.mean)

    def combination(self, t, chances):
        sd, quantiles, _ = self.inner.combination(t, chances)
        centre = float(t @ self.mean)
        return FACTOR * sd, [centre + FACTOR * (value - centre) for value in quantiles], 0.25

    def inverse_scale(self, block):
        return self.inner.inverse_scale(block)

    def effects(self, which):
        mean, sd = self.inner.effects(which)
        return mean, FACTOR * sd

    def variance_components(self, level, log_variances=None):
        return self.inner.variance_components(level).assign(upper=99.0)

    def diagnostics(self):
        return {"rhat": np.full(self.inner.plan.recipe.first + self.inner.plan.n_shown, 1.25)}


@pytest.fixture(scope="module")
def data():
    rng, n = np.random.default_rng(0), 150
    frame = pd.DataFrame({"x": 10 + 3 * rng.normal(size=n), "z": rng.normal(size=n), "g": np.arange(n) % 6})
    frame["y"] = np.where(frame["x"] - 10 + frame["z"] + rng.normal(size=6)[frame["g"]] > 0, "yes", "no")
    return frame


@pytest.fixture
def pair(data, monkeypatch):
    """The same fit with the third posterior, and with mean field's."""
    plain = replace(Model("y ~ x + s(z) + (1 | g)", data, likelihood="hinge").fit(), _rows=None)
    assert isinstance(plain.posterior, MeanField)
    monkeypatch.setattr(fits, "posterior_of", lambda *parts: Wider(posterior_of(*parts)))
    return replace(plain), plain


def test_a_third_posterior_answers_tables_and_predictions(pair, data):
    wide, plain = pair
    np.testing.assert_allclose(wide.coef, plain.coef)
    np.testing.assert_allclose(wide.coef_std, FACTOR * plain.coef_std)
    np.testing.assert_allclose(wide.coef_cov, FACTOR**2 * plain.coef_cov)
    assert wide.intercept_std == pytest.approx(FACTOR * plain.intercept_std)
    ours, theirs = wide.summary(), plain.summary()
    np.testing.assert_allclose(ours["std_error"], FACTOR * theirs["std_error"])
    np.testing.assert_allclose(ours["upper"] - ours["lower"], FACTOR * (theirs["upper"] - theirs["lower"]))
    assert (ours["p_positive"] == 0.25).all()
    assert (ours["rhat"] == 1.25).all()
    assert ours.attrs["note"] == 'Modelled class: "yes". Spreads are made wider.'
    np.testing.assert_allclose(wide.random_effects()["std_error"], FACTOR * plain.random_effects()["std_error"])
    components = wide.variance_components()
    assert (components["upper"] == 99.0).all()
    (mean, spread), (same, narrow) = (one.decision_function(data, return_std=True) for one in (wide, plain))
    np.testing.assert_allclose(mean, same)
    np.testing.assert_allclose(spread, FACTOR * narrow)
    np.testing.assert_array_equal(wide.predict(data), plain.predict(data))
    assert wide.converged == plain.converged
    assert wide.elbo == plain.elbo


def test_a_third_posterior_has_its_words_everywhere(pair, tmp_path):
    wide, _ = pair
    assert "Spreads are made wider." in str(wide)
    assert "Spreads are made wider." in wide._repr_html_()
    Figure = pytest.importorskip("matplotlib.figure").Figure
    pytest.importorskip("jinja2")
    for draw in (plots.coefficients, plots.random_effects, plots.spline):
        assert "(wider)" in draw(wide, Figure()).get_xlabel()
    page = Path(wide.report(tmp_path / "r.html")).read_text(encoding="utf-8")
    assert "95 % intervals made wider" in page
    assert "Spreads were made wider" in page
    for absent in ("mean-field approximation", "Spreads between groups"):
        assert absent not in page, absent


def test_what_a_posterior_does_not_have_is_refused_in_words(data):
    climbed = Model("y ~ x", data, likelihood="hinge").fit()
    for what, ask in {"traces": lambda: climbed.traces, "to_arviz": climbed.to_arviz}.items():
        with pytest.raises(AttributeError, match=rf"{what} is only available after inference=Gibbs\(\)"):
            ask()
    with pytest.raises(ValueError, match="must be a variational fit, the second a Gibbs fit"):
        compare(climbed, climbed)


def test_words_differ_by_the_bound(data):
    groups = "y ~ x + (1 | g)"
    found = [
        Model("y ~ x", data, likelihood="hinge").fit().posterior.notes,
        Model(groups, data, likelihood="hinge").fit(Variational(bound="augmented")).posterior.notes,
        Model(groups, data, likelihood="hinge").fit().posterior.notes,
    ]
    for one, other in combinations(found, 2):
        assert one.explanation != other.explanation
        assert one.interval(0.9) != other.interval(0.9)
    assert found[2].interval(0.9) == "mean and 90 % interval (exact bound: narrow)"
    assert found[2].band(0.9) == "curve and pointwise 90 % band (exact bound: narrow)"


@pytest.mark.parametrize("intercept", [True, False])
def test_the_plan_maps_coefficients_to_the_users_columns(intercept):
    """Scores are the same by the design's coefficients and by the user's."""
    rng = np.random.default_rng(0)
    recipe = Recipe(rng.normal(size=3) * intercept, rng.uniform(1, 5, size=3), intercept)
    plan = Plan(recipe, ("a", "b", "c"), 3)
    X, theta = rng.normal(size=(7, 3)), rng.normal(size=plan.n_fixed)
    scores = recipe.encode(X, recipe.work_space(7)) @ theta
    ours = X @ plan.to_user_scale(theta) + plan.intercept_row @ theta
    np.testing.assert_allclose(ours, scores)
    root = rng.normal(size=(plan.n_fixed, plan.n_fixed))
    to_user = np.diag(1 / recipe.scale) @ np.eye(plan.n_fixed)[recipe.first :]
    np.testing.assert_allclose(plan.covariance_to_user_scale(root @ root.T), to_user @ root @ root.T @ to_user.T)
    if intercept:
        draws = rng.normal(size=(2, 5, plan.n_fixed))
        np.testing.assert_allclose(plan.intercepts(draws), draws @ plan.intercept_row)
    assert [plan.name_of(recipe.first + k) for k in range(3)] == list(plan.shown_names)


def test_effects_of_columns_that_are_hidden_stay_hidden(data):
    fit = Model("y ~ x + s(z)", data, {"x": Normal(1.0)}, likelihood="hinge").fit()
    assert len(fit.coef) == fit.plan.n_shown < len(fit.posterior.mean)
