"""Random intercepts integrated out: the posterior's own means, spreads and variance components."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm

from vbsvm import Gibbs, Model, Normal, ReliabilityWarning, Ridge, Variational
from vbsvm.inference import quadrature, variational
from vbsvm.inference.quadrature import _Problem


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
    priors = {"(1 | g)": Ridge(2.0, 3.0), "fixed": Normal(1e8)}
    model = Model(formula, frame, priors, likelihood="logistic", weights=weights)
    fit = model.fit(Variational(bound="exact"))
    return _Problem.of(fit.spec, model._task.source, fit.outcome.state), fit


def looked_at(problem, at):
    """A place, with nodes that have found the groups' effects."""
    around = np.zeros(problem.m), np.full(problem.m, 2.0), np.zeros(problem.m)
    for _ in range(5):
        place = problem.evaluate(at, *around)
        around = place.effects, np.sqrt(place.variances), place.skewness
    return place


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
            found.append(looked_at(problem, at).value)
            known.append(log_posterior(frame.assign(x=x), at, weights))
        assert found[0] - found[1] == pytest.approx(known[0] - known[1], abs=1e-4)

    def test_gradient_and_curvature_are_those_of_the_value(self):
        problem, _ = problem_of(grouped(n_groups=8))
        at = np.array([0.3, 0.8, 0.6])
        place = looked_at(problem, at)
        around = place.effects, np.sqrt(place.variances), place.skewness
        step = 1e-4
        for k in range(3):
            e = step * np.eye(3)[k]
            up, down = (problem.evaluate(at + sign * e, *around) for sign in (1, -1))
            assert place.gradient[k] == pytest.approx((up.value - down.value) / (2 * step), abs=1e-4)
            np.testing.assert_allclose(place.precision[k], (down.gradient - up.gradient) / (2 * step), atol=1e-3)
            np.testing.assert_allclose(place.of_effects[:, k], (up.effects - down.effects) / (2 * step), atol=1e-4)

    def test_groups_whose_labels_are_alike_have_nodes_along_their_tail(self):
        frame = grouped(n_groups=8).assign(y=np.where(np.arange(32) % 8 < 4, "yes", "no"))
        problem, fit = problem_of(frame)
        x = (frame["x"] - fit.plan.recipe.centre[0]) / fit.plan.recipe.scale[0]
        places = np.array([0.3, 0.8, 1.8]), np.array([0.1, 0.2, 0.2])
        found = [looked_at(problem, at).value for at in places]
        known = [log_posterior(frame.assign(x=x), at, None) for at in places]
        assert found[0] - found[1] == pytest.approx(known[0] - known[1], abs=2e-3)
        evenly = [look_evenly(problem, at) for at in places]
        assert abs(evenly[0] - evenly[1] - known[0] + known[1]) > 1e-2


def look_evenly(problem, at):
    place = looked_at(problem, at)
    return problem.evaluate(at, place.effects, np.sqrt(place.variances), np.zeros(problem.m)).value


@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + (1 | g) + (1 | h)"])
@pytest.mark.parametrize("weighed", [False, True])
def test_from_mode_to_mean_it_is_the_change_of_the_determinant(formula, weighed):
    frame = grouped(crossed=True)
    problem, fit = problem_of(frame, formula, np.where(np.arange(len(frame)) % 3 == 0, 2.0, 1.0) if weighed else None)
    state = fit.outcome.state
    mode = looked_at(problem, problem.maximum(state, 1e-10, 50).at)
    n, step = problem.n_core, 0.01
    covariance, known = np.linalg.inv(mode.precision[:n, :n]), np.zeros(n)
    for direction in np.linalg.cholesky(covariance).T:
        ends = (problem._next(mode, np.append(sign * step * direction, 0.0)) for sign in (1, -1))
        up, down = (np.linalg.slogdet(end.precision[:n, :n])[1] for end in ends)
        known -= 0.5 * (up - down) / (2 * step) * direction
    found = problem._shift(mode, covariance, state.coefficients.shapes)
    np.testing.assert_allclose((found - known) / np.sqrt(np.diag(covariance)), 0.0, atol=1e-3)
    assert np.abs(found / np.sqrt(np.diag(covariance))).max() > 0.03


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
        assert (np.abs(found["estimate"] - table["estimate"]) / table["std_error"]).max() < 0.15
        np.testing.assert_allclose(found["std_error"] / table["std_error"], 1.0, atol=0.1)
        ours, theirs = (one.variance_components().iloc[0] for one in (fit, sample))
        assert ours["std_dev"] == pytest.approx(theirs["std_dev"], rel=0.06)
        assert ours["upper"] == pytest.approx(theirs["upper"], rel=0.1)

    def test_the_exact_bound_alone_is_further_off(self, drawn):
        model, sample = drawn
        exact, found = (model.fit(Variational(bound=bound)).variance_components()["std_dev"].iloc[0] for bound in BOTH)
        truth = sample.variance_components()["std_dev"].iloc[0]
        assert abs(np.log(found / truth)) < abs(np.log(exact / truth))

    def test_effects_of_groups_are_the_samplers(self, drawn):
        model, sample = drawn
        found, known = model.fit().random_effects(), sample.random_effects()
        assert (np.abs(found["estimate"] - known["estimate"]) / known["std_error"]).max() < 0.25
        np.testing.assert_allclose(found["std_error"] / known["std_error"], 1.0, atol=0.15)


BOTH = ("exact", "integrated")


def test_it_is_the_default_where_it_suits_and_refused_where_it_does_not():
    frame = grouped()
    with pytest.raises(ValueError, match="is for logistic models"):
        Model("y ~ x", frame, likelihood="logistic").fit(Variational(bound="integrated"))
    with pytest.raises(ValueError, match="is for logistic models"):
        Model("y ~ x + (1 | g)", frame, likelihood="hinge").fit(Variational(bound="integrated"))
    slopes = Model("y ~ x + (x || g)", frame, likelihood="logistic").fit()
    assert not slopes.outcome.integrated
    shared = Model("y ~ x + (x | g)", frame, {"(x | g)": Ridge()}, likelihood="logistic").fit()
    assert not shared.outcome.integrated
    assert len(shared.variance_components()) == 2
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


def shown(fit):
    """What a fit prints, without line breaks."""
    return " ".join(str(fit).split())


def test_where_no_maximum_is_found_the_exact_bound_stays(monkeypatch):
    model = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        integrated = model.fit()
        integrated.variance_components()
    monkeypatch.setattr(quadrature, "OPTIONS", replace(quadrature.OPTIONS, max_evaluations=1))
    with pytest.warns(ReliabilityWarning, match=r"'g' could not be integrated out.*use inference=Gibbs\(\)"):
        fit = model.fit()
    assert not fit.outcome.integrated
    assert fit.outcome.exact
    with pytest.warns(ReliabilityWarning, match=r"components of \(1 \| g\) are too narrow.*Gibbs\(\)"):
        table = fit.variance_components()
    assert list(table["note"]) == ["too narrow"]
    assert list(integrated.variance_components()["note"]) == [""]
    assert "too narrow" in str(fit)
    assert "too narrow" not in str(integrated)
    assert "Posterior medians and highest-density intervals, random effects integrated out." in shown(integrated)
    assert "highest-density" not in shown(fit)
    assert "were not integrated out" in shown(fit)


class TestAtOnce:
    """No climb comes before it, and the bound is climbed when it is asked for."""

    @pytest.fixture
    def fit(self):
        fit = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit()
        assert fit.outcome.bounds_deferred
        return fit

    def test_the_bound_is_that_of_the_exact_climb(self, fit):
        exact = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit(Variational(bound="exact"))
        assert fit.elbo == exact.elbo
        np.testing.assert_array_equal(fit.bounds, exact.bounds)
        assert fit.starts() == exact.starts()
        assert fit.glance()["elbo"].iloc[0] == exact.elbo

    def test_nobody_climbs_for_tables_and_texts(self, monkeypatch):
        def climbs(*arguments):
            raise AssertionError

        monkeypatch.setattr(variational, "optimize", climbs)
        fit = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit()
        assert "random effects integrated out" in repr(fit)
        assert str(fit)
        assert fit._repr_html_()
        fit.predict(grouped())
        with pytest.raises(AssertionError):
            _ = fit.elbo

    def test_it_is_not_trusted_where_nodes_or_a_normal_distribution_would_not_do(self):
        """Groups that weigh very much, and a single row that outweighs all others: the exact bound is better."""
        data = grouped()
        heavy = Model("y ~ x + (1 | g)", data, likelihood="logistic", weights=np.full(len(data), 1000.0))
        first = data["x"].to_numpy().copy()
        first[0] = 1000.0 * (1 - 2 * int(data["y"].iloc[0] == data["y"].max()))
        for model in (heavy, Model("y ~ x + (1 | g)", data.assign(x=first), likelihood="logistic")):
            fit, exact = model.fit(), model.fit(Variational(bound="exact"))
            assert not fit.outcome.integrated
            np.testing.assert_array_equal(fit.coef, exact.coef)
            with pytest.raises(ValueError, match="can't be integrated out"):
                model.fit(Variational(bound="integrated"))
        assert Model("y ~ x + (1 | g)", data, likelihood="logistic").fit().outcome.integrated

    def test_a_few_passes_are_not_exceeded(self):
        model = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic")
        with pytest.warns(match="reached max_iter"):
            few = model.fit(Variational(max_iter=4))
        assert not few.converged
        assert few.history.passes <= 4

    def test_a_fit_without_rows_has_it(self, fit, tmp_path):
        import pickle

        import vbsvm

        fit.save(tmp_path / "fit.vbsvm")
        for back in (vbsvm.load(tmp_path / "fit.vbsvm"), pickle.loads(pickle.dumps(fit)), fit._without_rows()):
            assert back.elbo == fit.elbo
            assert not back.outcome.bounds_deferred

    def test_it_ends_where_it_ends_after_a_climb(self, fit):
        spec, source = fit.spec, fit._rows.source
        climbed = Variational(bound="exact").run(spec, source)
        found, _ = quadrature.integrate(spec, source, climbed.state, 1e-10, 50)
        again, _ = quadrature.integrate(spec, source, None, 1e-10, 50)
        np.testing.assert_allclose(found.coefficients.mean, again.coefficients.mean, atol=1e-5)
        assert found.scales[-1].inverse_mean == pytest.approx(again.scales[-1].inverse_mean, rel=1e-5)

    def test_other_scales_are_inferred_by_a_climb_before(self):
        model = Model("y ~ x + (1 | g)", grouped(), {"fixed": Ridge()}, likelihood="logistic")
        outcome = model.fit().outcome
        assert outcome.integrated
        assert not outcome.bounds_deferred

    def test_without_fixed_effects(self):
        fit = Model("y ~ 0 + (1 | g)", grouped(), likelihood="logistic").fit()
        assert fit.outcome.integrated
        assert fit.variance_components()["std_dev"].iloc[0] > 1


def test_the_distribution_is_held_by_an_upper_root():
    core = Model("y ~ x + (1 | g)", grouped(), likelihood="logistic").fit().outcome.state.coefficients.core
    np.testing.assert_allclose(core.covariance, core.root @ core.root.T)
    np.testing.assert_allclose(core.precision.matrix @ core.covariance, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("n_groups", [6, 10])
def test_few_groups_leave_a_long_tail_of_sigma(n_groups, monkeypatch):
    model = Model("y ~ x + (1 | g)", grouped(n_groups, 20, 1.0, seed=7), likelihood="logistic")
    found = model.fit().variance_components().iloc[0]
    finer = replace(quadrature.OPTIONS, max_sd=0.0, walk_step=0.2, max_walk_step=0.1, max_walk=60)
    monkeypatch.setattr(quadrature, "OPTIONS", finer)
    known = model.fit().variance_components().iloc[0]
    for name in ("std_dev", "lower", "upper"):
        assert found[name] == pytest.approx(known[name], rel=0.02)


def test_groups_of_one_row_leave_sigma_unbounded_and_the_exact_bound_stays():
    fit = Model("y ~ x + (1 | g)", grouped(100, 1), likelihood="logistic").fit()
    assert not fit.outcome.integrated
    assert fit.outcome.exact


@pytest.mark.parametrize(("n_groups", "size", "seed"), [(10, 5, 19), (20, 3, 34), (20, 3, 0), (40, 3, 18)])
def test_far_from_the_mode_of_sigma_the_coefficients_are_those_of_a_maximum(n_groups, size, seed):
    """A single Newton step there led anywhere: an intercept of −32 ± 60 where sampling has −4 ± 2."""
    rng = np.random.default_rng([52, n_groups, size, seed])
    outcome = np.zeros(1)
    while outcome.sum() < 2:
        g, x = np.repeat(np.arange(n_groups), size), rng.normal(size=n_groups * size)
        effects = 0.3 * rng.normal(size=n_groups)
        outcome = (rng.uniform(size=len(g)) < expit(-2.2 + 0.8 * x + effects[g])).astype(int)
    data = pd.DataFrame({"g": g, "x": x, "y": outcome})
    model = Model("y ~ x + (1 | g)", data)
    fit, exact = model.fit(), model.fit(Variational(bound="exact"))
    table, other = fit.summary(), exact.summary()
    assert (np.abs(table["estimate"] - other["estimate"]) < 0.5 * other["std_error"]).all()
    assert (table["std_error"] < 2 * other["std_error"]).all()
    assert fit.variance_components()["upper"].iloc[0] < 1.5 * exact.variance_components()["upper"].iloc[0]
    assert abs(fit.predict_proba(data)[:, 1].mean() - data["y"].mean()) < 0.05


def test_a_spline_beside_integrated_groups_is_marked_as_too_narrow():
    """Its variance is mean field's: .13 to .26 where sampling has .05 to 1.2. Without groups it has linear response."""
    with pytest.warns(ReliabilityWarning, match=r"components of s\(x\) are too narrow"):
        table = Model("y ~ s(x) + (1 | g)", grouped(40, 8)).fit().variance_components()
    assert dict(zip(table.index.get_level_values("term"), table["note"], strict=True)) == {
        "s(x)": "too narrow",
        "(1 | g)": "",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = Model("y ~ s(x)", grouped(40, 8)).fit().variance_components()
    assert list(alone["note"]) == [""]
