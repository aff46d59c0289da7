"""The exact expected hinge: a tighter bound on the same posterior, for every model without gates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from models import mean_field_stats, mean_field_terms, random_state, source_of, spec_of, unscaled
from reference import simulate
from shown import by_mean_field
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, Normal, Ridge, Variational, load
from vbsvm.inference import solvers
from vbsvm.inference.loop import optimize
from vbsvm.inference.profiled import ProfiledNewton
from vbsvm.model.interfaces import Precision
from vbsvm.model.likelihoods.hinge import EXACT_HINGE, ExactHinge
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import elbo, row_term_fixed_weights
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping

EXACT = Variational(bound="exact")
TIGHT = Variational(bound="exact", tol=1e-11, max_iter=20_000)


ROWS = [(0.3, 0.5, 1, 1), (-2.0, 0.1, -1, 2.5), (1.0, 1e-4, 1, 1), (5.0, 2.0, -1, 3)]


def grouped(n=240, seed=0):
    rng = np.random.default_rng(seed)
    g, x = rng.integers(0, 20, n), rng.normal(size=n)
    y = np.where(x + 1.5 * rng.normal(size=20)[g] + rng.logistic(size=n) > 0, "yes", "no")
    return pd.DataFrame({"y": y, "x": x, "g": g, "h": rng.integers(0, 6, n), "z": rng.uniform(size=n)})


@pytest.mark.parametrize(("f", "v", "y", "s"), ROWS)
class TestTerms:
    def test_the_value_is_the_expected_loss(self, f, v, y, s):
        loss, _ = integrate.quad(
            lambda z: max(0.0, 1 - y * (f + np.sqrt(v) * z)) * stats.norm.pdf(z), -12, 12, points=[(y - f) / np.sqrt(v)]
        )
        found = mean_field_terms(EXACT_HINGE, *map(np.atleast_1d, map(float, (f, v, y, s))))
        np.testing.assert_allclose(found.value, -2 * loss, rtol=1e-7, atol=1e-12)

    def test_u_w_and_the_curvature_are_its_derivatives(self, f, v, y, s):
        def value(f, v):
            return (
                s * mean_field_terms(EXACT_HINGE, np.array([f]), np.array([v]), np.array([y]), np.array([s])).value[0]
            )

        e = 1e-5 * np.sqrt(v)
        found = mean_field_terms(EXACT_HINGE, np.array([f]), np.array([v]), np.array([float(y)]), np.array([float(s)]))
        by_v = (value(f, v + e * v) - value(f, v - e * v)) / (2 * e * v)
        by_f = (value(f + e, v) - value(f - e, v)) / (2 * e)
        by_ff = (value(f + 100 * e, v) - 2 * value(f, v) + value(f - 100 * e, v)) / (100 * e) ** 2
        size = s * (1 + 1 / np.sqrt(v))
        np.testing.assert_allclose(found.w[0], -2 * by_v, rtol=1e-4, atol=1e-5 * size)
        np.testing.assert_allclose(found.u[0] - found.w[0] * f, by_f, rtol=1e-4, atol=1e-6 * size)
        np.testing.assert_allclose(found.curvature[0], -by_ff, rtol=2e-3, atol=1e-4 * size)


def test_it_is_the_tighter_bound_at_any_state():
    X, y = simulate(60, 4, seed=2)
    spec, source = spec_of(4), source_of(X, y)
    exact = replace(spec, likelihood=EXACT_HINGE)
    for seed in range(5):
        state = random_state(spec, np.random.default_rng(seed))
        ours, papers = (mean_field_stats(one, state, source) for one in (exact, spec))
        assert ours.row_bound > papers.row_bound
        # With its own weights held, the row term is that of the pass at the same state.
        assert row_term_fixed_weights(state, ours) == pytest.approx(ours.row_bound, rel=1e-10)


TASKS = {
    "dense": lambda: VBSVC()._tasks(*simulate(150, 6, seed=1), None)[0],
    "weights": lambda: VBSVC()._tasks(*simulate(150, 6, seed=1), np.arange(150) % 3 + 0.5)[0],
    "fixed penalty": lambda: VBSVC(Normal(0.3))._tasks(*simulate(150, 6, seed=1), None)[0],
    "dual": lambda: VBSVC()._tasks(*simulate(30, 90, seed=1), None)[0],
    "groups": lambda: Model("y ~ x + (1 | g)", grouped(), likelihood="hinge")._task,
    "slopes": lambda: Model("y ~ x + (x | g)", grouped(), likelihood="hinge")._task,
    "crossed": lambda: Model("y ~ x + (1 | g) + (1 | h)", grouped(), likelihood="hinge")._task,
    "splines": lambda: Model("y ~ x + s(z)", grouped(), likelihood="hinge")._task,
}


@pytest.mark.parametrize("name", TASKS)
def test_a_climb_starts_from_the_papers_and_rises(name):
    task = TASKS[name]()
    paper, exact = Variational(bound="paper").run(task.spec, task.source), EXACT.run(task.spec, task.source)
    assert exact.exact
    assert not paper.exact
    assert exact.ending.name == "CONVERGED"
    assert exact.bounds[0] > paper.bounds[-1]
    assert np.diff(exact.bounds).min(initial=0.0) > -1e-9 * abs(exact.bounds[-1])


@pytest.mark.parametrize("early", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("name", ["dense", "groups", "slopes", "crossed"])
def test_it_ends_at_the_same_place_wherever_it_begins(name, early, monkeypatch):
    """Wherever the paper's climb is left, and whichever strategy goes on from there."""
    task, spec = TASKS[name](), replace(TASKS[name]().spec, likelihood=EXACT_HINGE)
    paper = Variational(bound="paper").run(task.spec, task.source).state
    wanted = optimize(spec, task.source, paper, ProfiledNewton(1e-10), 1e-10, 2000)
    monkeypatch.setattr(solvers, "OPTIONS", replace(solvers.OPTIONS, early_tol=early))
    found = EXACT.run(task.spec, task.source)
    assert found.ending.name == "CONVERGED"
    assert found.bounds[-1] == pytest.approx(wanted.bounds[-1], abs=2e-5)
    assert found.bounds[-1] > elbo(
        spec, paper, mean_field_stats(spec, paper, task.source).row_bound
    )  # the paper's own optimum is another place


def test_its_curvature_is_its_gram_and_formed_once():
    task = TASKS["groups"]()
    state = Variational(bound="paper").run(task.spec, task.source).state
    exact = mean_field_stats(replace(task.spec, likelihood=EXACT_HINGE), state, task.source, with_curvature=True)
    assert exact.curvature is exact.gram
    paper = mean_field_stats(task.spec, state, task.source, with_curvature=True)
    assert not np.allclose(paper.curvature.corner, paper.gram.corner)


@pytest.mark.parametrize("name", ["dense", "weights", "fixed penalty", "groups", "slopes", "crossed"])
def test_it_ends_where_no_single_update_rises(name):
    """A stationary point: the full step from there goes nowhere, and small moves of the mean only lower the bound."""
    task = TASKS[name]()
    spec = replace(task.spec, likelihood=EXACT_HINGE)
    outcome = TIGHT.run(task.spec, task.source)
    stats = mean_field_stats(spec, outcome.state, task.source)
    distribution = stats.gram.conditional(stats.cross, spec.precision(outcome.state))
    at = outcome.state.coefficients
    np.testing.assert_allclose(distribution.mean, at.mean, atol=2e-4 * np.sqrt(at.variances).max())
    np.testing.assert_allclose(distribution.variances, at.variances, rtol=2e-3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 0.1 * np.sqrt(at.variances) * rng.normal(size=len(at.mean))
        moved = replace(outcome.state, coefficients=at.with_mean(at.mean + step))
        row_bound = mean_field_stats(spec, moved, task.source).row_bound
        assert elbo(spec, moved, row_bound) < outcome.bounds[-1]


def test_arrow_and_dense_agree():
    """Groups as an arrow, and as columns of zeros and ones."""
    data = grouped(80)
    X, y = data[["x"]].to_numpy(), np.where(data["y"] == "yes", 1.0, -1.0)
    columns = np.column_stack([X, np.eye(20)[data["g"]]])
    groups = Grouping(data["g"].to_numpy(), 20, (0,))
    arrow = Memory(X, y, np.ones(80), unscaled(1), (groups,))
    dense = Memory(columns, y, np.ones(80), unscaled(21))
    blocks = Block("fixed", (slice(0, 2),), Normal(100.0)), Block("groups", (slice(2, 22),), Ridge())
    one, other = (TIGHT.run(Spec(blocks), source) for source in (arrow, dense))
    assert one.bounds[-1] == pytest.approx(other.bounds[-1], rel=1e-9)
    np.testing.assert_allclose(one.state.coefficients.mean, other.state.coefficients.mean, atol=1e-4)


@pytest.mark.parametrize("name", ["dense", "dual", "groups", "slopes", "crossed"])
def test_the_precision_of_a_distribution_gives_it_back(name):
    """Σ⁻¹ and Σ⁻¹μ are what shorter steps mix."""
    task = TASKS[name]()
    distribution = Variational(bound="paper").run(task.spec, task.source).state.coefficients
    nothing = Precision(np.zeros(len(distribution.mean)))
    again = distribution.precision.conditional(distribution.precision.times(distribution.mean), nothing)
    np.testing.assert_allclose(again.mean, distribution.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(again.variances, distribution.variances, rtol=1e-6)


@pytest.mark.parametrize("prior", [None, Normal(1.0)])
@pytest.mark.parametrize(("n", "p"), [(40, 1), (60, 5), (40, 60), (20, 200)])
def test_separable_data_converge_with_scales_held(n, p, prior):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X[:, 0] += np.sign(X[:, 0])
    y = X[:, 0] > 0
    plain = VBSVC(prior)
    exact = VBSVC(prior, EXACT)
    plain.fit(X, y)
    exact.fit(X, y)
    assert exact.converged_
    assert np.isfinite(exact.coef_std_).all()
    np.testing.assert_allclose(exact.penalty_, plain.penalty_, rtol=1e-12)


def test_spreads_are_nearer_to_the_posteriors():
    X, y = simulate(200, 4, seed=3)
    drawn = VBSVC(inference=Gibbs(draws=1500, tune=500, chains=2), random_state=0).fit(X, y)
    ratio = {
        name: np.exp(np.log(by_mean_field(VBSVC(inference=inference).fit(X, y)).coef_std_ / drawn.coef_std_).mean())
        for name, inference in {"paper": Variational(), "exact": EXACT}.items()
    }
    assert ratio["paper"] < 0.7
    assert 0.8 < ratio["exact"] < 1.1


def test_what_it_does_not_take_is_refused_in_words():
    X, y = simulate(60, 3, seed=0)
    with pytest.raises(ValueError, match=r"bound='exact'\) does not support LaplaceZero"):
        VBSVC(LaplaceZero(), EXACT).fit(X, y)
    for wrong in ("tight", None, 1, ["exact"]):
        with pytest.raises(ValueError, match="Variational: bound must be"):
            Variational(bound=wrong)


def test_it_is_saved_shown_and_reported(tmp_path):
    data = grouped()
    fit = Model("y ~ x + (1 | g)", data, likelihood="hinge").fit(EXACT)
    fit.save(tmp_path / "m.vbsvm")
    again = load(tmp_path / "m.vbsvm")
    assert isinstance(again.outcome.likelihood, ExactHinge)
    np.testing.assert_array_equal(again.decision_function(data), fit.decision_function(data))
    assert "exact bound" in fit.report(tmp_path / "r.html", data).read_text(encoding="utf-8")
    several = VBSVC(inference=EXACT).fit(data[["x", "z"]], np.digitize(data["x"] + data["z"], [0.0, 1.0]))
    assert several.predict_proba(data[["x", "z"]]).shape == (240, 3)
