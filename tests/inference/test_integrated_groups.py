"""Random intercepts integrated out: the posterior's own means, spreads and variance components."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm

from vbsvm import Gibbs, Model, Ridge, Variational
from vbsvm.inference import integrated_groups
from vbsvm.inference.integrated_groups import _matched, _Problem


def grouped(n_groups=25, size=4, sigma=2.0, seed=0, crossed=False):
    rng = np.random.default_rng(seed)
    n = n_groups * size
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": np.repeat(np.arange(n_groups), size)})
    score = 0.5 + frame["x"] + sigma * rng.normal(size=n_groups)[frame["g"]]
    if crossed:
        frame["h"] = rng.integers(0, 6, size=n)
        score += rng.normal(size=6)[frame["h"]]
    return frame.assign(y=np.where(rng.random(n) < expit(score), "yes", "no"))


def problem_of(frame, formula="y ~ x + (1 | g)", weights=None):
    model = Model(formula, frame, {"(1 | g)": Ridge(2.0, 3.0)}, likelihood="logistic", weights=weights)
    fit = model.fit(Variational(bound="exact"))
    return _Problem.of(fit.spec, model._task.source, fit.outcome.state), fit


def log_posterior(frame, at, weights):
    """log p(c, λ | y) up to a constant, each group's effect integrated out on a fine grid; x is standardised."""
    x = frame["x"]
    y, s = np.where(frame["y"] == "yes", 1.0, -1.0), np.ones(len(frame)) if weights is None else weights
    sigma, u = np.exp(at[2]), np.linspace(-40, 40, 8001)
    total = -2 * 2.0 * at[2] - 3.0 / sigma**2 - 0.5 * (at[0] ** 2 + at[1] ** 2) / 1e8
    for group in np.unique(frame["g"]):
        rows = (frame["g"] == group).to_numpy()
        scores = (at[0] + at[1] * x[rows]).to_numpy()[:, None] + u
        values = (s[rows, None] * log_expit(y[rows, None] * scores)).sum(axis=0) + norm.logpdf(u, scale=sigma)
        total += logsumexp(values) + np.log(u[1] - u[0])
    return total


class TestLook:
    PLACES = (np.array([0.3, 0.8, 0.6]), np.array([-0.5, 1.2, -0.4]))

    @pytest.mark.parametrize("weighed", [False, True])
    def test_the_value_is_that_of_a_fine_grid(self, weighed):
        frame = grouped(n_groups=8)
        weights = np.where(np.arange(len(frame)) % 3 == 0, 2.0, 1.0) if weighed else None
        problem, fit = problem_of(frame, weights=weights)
        x = (frame["x"] - fit.plan.recipe.centre[0]) / fit.plan.recipe.scale[0]
        found, known = [], []
        for at in self.PLACES:
            start = problem.look(at, np.zeros(8), np.full(8, 2.0))
            found.append(problem.look(at, start.effects, np.sqrt(start.variances)).value)
            known.append(log_posterior(frame.assign(x=x), at, weights))
        assert found[0] - found[1] == pytest.approx(known[0] - known[1], abs=1e-4)

    def test_gradient_and_curvature_are_those_of_the_value(self):
        problem, _ = problem_of(grouped(n_groups=8))
        at = np.array([0.3, 0.8, 0.6])
        centre, sd = np.zeros(8), np.full(8, 2.0)
        for _ in range(3):
            place = problem.look(at, centre, sd)
            centre, sd = place.effects, np.sqrt(place.variances)
        step = 1e-4
        for k in range(3):
            e = step * np.eye(3)[k]
            up, down = (problem.look(at + sign * e, centre, sd) for sign in (1, -1))
            assert place.gradient[k] == pytest.approx((up.value - down.value) / (2 * step), abs=1e-4)
            np.testing.assert_allclose(place.precision[k], (down.gradient - up.gradient) / (2 * step), atol=1e-3)
            np.testing.assert_allclose(place.of_effects[:, k], (up.effects - down.effects) / (2 * step), atol=1e-4)


@pytest.fixture(scope="module")
def drawn():
    frame = grouped(n_groups=40, size=5)
    model = Model("y ~ x + (1 | g)", frame, likelihood="logistic")
    return model, model.fit(Gibbs(draws=6000, tune=500, chains=2), random_state=0)


class TestFit:
    def test_means_and_spreads_are_the_samplers(self, drawn):
        model, sample = drawn
        fit, table = model.fit(), sample.summary()
        assert fit.outcome.integrated
        found = fit.summary()
        # Monte Carlo errors of the means are some .03 standard deviations; the approximation is allowed .1.
        assert (np.abs(found["coefficient"] - table["coefficient"]) / table["sd"]).max() < 0.15
        np.testing.assert_allclose(found["sd"] / table["sd"], 1.0, atol=0.1)
        ours, theirs = (one.variance_components().iloc[0] for one in (fit, sample))
        assert ours["sd"] == pytest.approx(theirs["sd"], rel=0.06)
        assert ours["upper"] == pytest.approx(theirs["upper"], rel=0.1)

    def test_the_exact_bound_alone_is_further_off(self, drawn):
        model, sample = drawn
        exact, found = (model.fit(Variational(bound=bound)).variance_components()["sd"].iloc[0] for bound in BOTH)
        truth = sample.variance_components()["sd"].iloc[0]
        assert abs(np.log(found / truth)) < abs(np.log(exact / truth))

    def test_effects_of_groups_are_the_samplers(self, drawn):
        model, sample = drawn
        found, known = model.fit().random_effects(), sample.random_effects()
        assert (np.abs(found["mean"] - known["mean"]) / known["sd"]).max() < 0.25
        np.testing.assert_allclose(found["sd"] / known["sd"], 1.0, atol=0.15)


BOTH = ("exact", "integrated")


def test_it_is_the_default_where_it_suits_and_refused_where_it_does_not():
    frame = grouped()
    with pytest.raises(ValueError, match="is for logistic models"):
        Model("y ~ x", frame, likelihood="logistic").fit(Variational(bound="integrated"))
    with pytest.raises(ValueError, match="is for logistic models"):
        Model("y ~ x + (1 | g)", frame).fit(Variational(bound="integrated"))
    slopes = Model("y ~ x + (x || g)", frame, likelihood="logistic").fit()
    assert not slopes.outcome.integrated
    assert Model("y ~ x + (1 | g)", frame, likelihood="logistic").fit().outcome.integrated


def test_crossed_factors_have_the_larger_one_integrated_out():
    frame = grouped(crossed=True)
    fit = Model("y ~ x + (1 | g) + (1 | h)", frame, likelihood="logistic").fit()
    assert fit.outcome.integrated
    assert len(fit.variance_components()) == 2
    assert np.isfinite(fit.summary().to_numpy(dtype=float)).all()


def test_it_is_saved(tmp_path):
    import vbsvm

    fit = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit()
    fit.save(tmp_path / "fit.vbsvm")
    back = vbsvm.load(tmp_path / "fit.vbsvm")
    assert back.outcome.integrated
    pd.testing.assert_frame_equal(back.summary(), fit.summary())


def test_a_climb_that_has_not_converged_is_left_as_it_is():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning):
        fit = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit(Variational(max_iter=3))
    assert not fit.outcome.integrated


def test_where_no_maximum_is_found_the_exact_bound_stays(monkeypatch):
    monkeypatch.setattr(integrated_groups, "MOST_STEPS", 0)
    fit = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit()
    assert not fit.outcome.integrated
    assert fit.outcome.exact


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.5), (2.0, 0.01), (-1.0, 4.0)])
def test_scales_are_matched_in_logs(mean, variance):
    found = _matched(mean, variance)
    draws = np.log(found.rate / np.random.default_rng(0).gamma(found.shape, size=400_000))
    assert draws.mean() == pytest.approx(mean, abs=0.02)
    assert draws.var() == pytest.approx(variance, rel=0.02)
    assert found.log_sd**2 == pytest.approx(variance, rel=1e-9)
