"""The arrow layout equals the dense one on the same design with one-hot columns written out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from grouped_models import dense_twin, grouped_problems
from models import spec_of
from vbsvm import Covariance, Normal, Ridge, Variational
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.design.scaling import Recipe
from vbsvm.inference.steps import newton_step
from vbsvm.model import sweep
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import elbo, row_term_fixed_weights
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping


@settings(max_examples=80, deadline=None)
@given(grouped_problems())
def test_arrow_equals_dense(problem):
    spec, arrow = problem
    dense = dense_twin(arrow)
    one = other = spec.start()
    for _ in range(4):
        one, arrow_stats = sweep.sweep(spec, one, arrow, mean_field)
        other, dense_stats = sweep.sweep(spec, other, dense, mean_field)
        np.testing.assert_allclose(arrow_stats.cross, dense_stats.cross, rtol=1e-10, atol=1e-10)
        distribution, twin = one.coefficients, other.coefficients
        scale = 1e-10 * (1 + np.abs(twin.mean).max())
        np.testing.assert_allclose(distribution.mean, twin.mean, rtol=1e-10, atol=scale)
        np.testing.assert_allclose(distribution.squares, twin.squares, rtol=1e-9, atol=scale)
        assert distribution.entropy == pytest.approx(twin.entropy, rel=1e-10, abs=1e-10)
        assert distribution.quadratic(arrow_stats.gram) == pytest.approx(twin.quadratic(dense_stats.gram), rel=1e-9)
    stats = sweep.pass_rows(spec, one, arrow, mean_field, with_curvature=True)
    twin_stats = sweep.pass_rows(spec, other, dense, mean_field, with_curvature=True)
    ours = elbo(spec, one, stats.row_bound)
    assert ours == pytest.approx(elbo(spec, other, twin_stats.row_bound), rel=1e-10)
    assert row_term_fixed_weights(one, stats) == pytest.approx(stats.row_bound, rel=1e-9)
    gradient = np.linspace(-1, 1, spec.n_columns)
    step = stats.curvature.interpolate(stats.gram, 0.3).solve(gradient, spec.precision(one))
    twin_step = twin_stats.curvature.interpolate(twin_stats.gram, 0.3).solve(gradient, spec.precision(other))
    np.testing.assert_allclose(step, twin_step, rtol=1e-8, atol=1e-9 * np.abs(twin_step).max())


@settings(max_examples=30, deadline=None)
@given(grouped_problems())
def test_packing_and_unpacking_is_the_identity(problem):
    spec, arrow = problem
    state, _ = sweep.sweep(spec, spec.start(), arrow, mean_field)
    again = state.unpack(state.packed)
    for name in ("mean", "squares", "entropy"):
        np.testing.assert_allclose(getattr(again.coefficients, name), getattr(state.coefficients, name), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(grouped_problems())
def test_a_distribution_that_has_moved_has_the_spreads_of_a_new_one(problem):
    spec, arrow = problem
    at = sweep.sweep(spec, spec.start(), arrow, mean_field)[0].coefficients
    early = at.with_mean(2.0 * at.mean + 1.0)  # before anything was computed
    assert at.squares.shape == at.mean.shape
    late = at.with_mean(2.0 * at.mean + 1.0)
    for name in ("mean", "variances", "squares", "effect_covariances", "entropy"):
        np.testing.assert_array_equal(getattr(late, name), getattr(early, name))
    assert not np.allclose(late.squares, at.squares)  # squares follow the mean, and are not handed on


@pytest.mark.parametrize("accelerate", [True, False])
def test_the_climb_ends_at_the_dense_optimum(accelerate):
    rng = np.random.default_rng(3)
    n, m = 400, 25
    index = rng.integers(0, m, size=n)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 2 * rng.normal(size=m)[index] + rng.logistic(size=n) > 0, 1.0, -1.0)
    arrow = Memory(X, y, np.ones(n), Recipe(np.zeros(3), np.ones(3), intercept=True), (Grouping(index, m, (0,)),))
    spec = Spec((*spec_of(3, Normal(1e8)).blocks, Block("groups", (slice(4, 4 + m),), Ridge())))
    inference = Variational(tol=1e-10, max_iter=20_000, accelerate=accelerate, bound="augmented")
    one, other = inference.run(spec, arrow), inference.run(spec, dense_twin(arrow))
    assert one.bounds[-1] == pytest.approx(other.bounds[-1], abs=1e-8)
    np.testing.assert_allclose(one.state.coefficients.mean, other.state.coefficients.mean, atol=1e-5)
    if accelerate:
        assert one.passes < 60


def test_a_newton_step_is_the_dense_one():
    rng = np.random.default_rng(0)
    index = rng.integers(0, 6, size=80)
    X, y = rng.normal(size=(80, 2)), rng.choice([-1.0, 1.0], size=80)
    arrow = Memory(X, y, np.ones(80), Recipe(np.zeros(2), np.ones(2), intercept=True), (Grouping(index, 6, (0, 2)),))
    spec = Spec((*spec_of(2).blocks, Block("groups", (slice(3, 15),), Ridge())))
    states = []
    for source in (arrow, dense_twin(arrow)):
        state, _ = sweep.sweep(spec, spec.start(), source, mean_field)
        stats = sweep.pass_rows(spec, state, source, mean_field, with_curvature=True)
        states.append(newton_step(spec, _Visit(state, stats), 0.0))
    np.testing.assert_allclose(states[0].coefficients.mean, states[1].coefficients.mean, rtol=1e-8)


class _Visit:
    def __init__(self, state, stats):
        self.state, self.stats = state, stats


def test_draws_have_the_distributions_mean_and_covariance():
    rng = np.random.default_rng(1)
    index = rng.integers(0, 3, size=30)
    X, y = rng.normal(size=(30, 1)), rng.choice([-1.0, 1.0], size=30)
    arrow = Memory(X, y, np.ones(30), Recipe(np.zeros(1), np.ones(1), intercept=True), (Grouping(index, 3, (0, 1)),))
    spec = Spec((*spec_of(1).blocks, Block("groups", (slice(2, 8, 2), slice(3, 8, 2)), Covariance(1.0))))
    distribution = sweep.sweep(spec, spec.start(), arrow, mean_field)[0].coefficients
    twin = sweep.sweep(spec, spec.start(), dense_twin(arrow), mean_field)[0].coefficients
    draws = np.array([Draw(0, 0, k)(distribution, "coefficients").mean for k in range(20_000)])
    z = (draws.mean(axis=0) - twin.mean) / np.sqrt(np.diagonal(twin.covariance) / 20_000)
    assert np.abs(z).max() < 4.5
    spread = np.cov(draws.T) - twin.covariance
    assert np.abs(spread).max() < 0.05 * np.abs(twin.covariance).max()
    unlinked = replace(distribution, link=np.zeros_like(distribution.link))  # groups that forget the core would be seen
    wrong = np.cov(np.array([Draw(0, 0, k)(unlinked, "coefficients").mean for k in range(20_000)]).T)
    assert np.abs(wrong - twin.covariance).max() > 0.05 * np.abs(twin.covariance).max()
