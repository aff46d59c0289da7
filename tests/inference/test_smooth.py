"""The climb of the exact logistic likelihood: what is left to gain is known, and many rows give it a head start."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_limits

from models import mean_field_stats, mean_field_sweep, source_of, spec_of
from vbsvm import Ridge, VBLogistic
from vbsvm.design.scaling import Recipe
from vbsvm.inference import smooth
from vbsvm.inference.loop import optimize
from vbsvm.inference.profiled import ProfiledNewton, covariance_update
from vbsvm.inference.smooth import OPTIONS, SmoothNewton, gain_by_priors, subsample_start
from vbsvm.model.likelihoods.logistic import EXACT_LOGISTIC
from vbsvm.model.sweep import elbo


def overlapping(n, d, seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < expit(size * X[:, 0] - 0.5), 1.0, -1.0)


def heavy(n):
    rng = np.random.default_rng(5)
    X = rng.standard_t(2, size=(n, 6))
    return X, np.where(rng.random(n) < expit(np.tanh(X[:, 0])), 1.0, -1.0)


DATA = {
    "few rows": overlapping(150, 20),
    "some rows": overlapping(2000, 6),
    "many rows": overlapping(30_000, 8),
    "many rows and columns": overlapping(26_000, 40),
    "no signal": overlapping(20_000, 5, size=0.0),
    "strong": overlapping(20_000, 5, size=15.0),
    "heavy tails": heavy(24_000),
}


def of(name):
    X, y = DATA[name]
    return replace(spec_of(X.shape[1]), likelihood=EXACT_LOGISTIC), source_of(X, y)


@pytest.mark.parametrize("name", DATA)
def test_the_optimum_is_that_of_the_profiled_climb(name):
    spec, source = of(name)
    known = optimize(spec, source, spec.start(), ProfiledNewton(1e-11), 1e-11, 2000)
    strategy = SmoothNewton(1e-6)
    start = subsample_start(spec, source, spec.start(), strategy)
    found = optimize(spec, source, start, strategy, 1e-6, 2000)
    assert (np.diff(found.bounds) >= 0).all()
    assert -1e-6 < found.bounds[-1] - known.bounds[-1] < 1e-9 * abs(known.bounds[-1])
    sd = np.sqrt(known.state.gaussian.variances)
    np.testing.assert_array_less(np.abs(found.state.coefficients.mean - known.state.coefficients.mean), 2e-3 * sd)
    np.testing.assert_allclose(np.sqrt(found.state.gaussian.variances), sd, rtol=1e-3)


@pytest.mark.parametrize("name", ["few rows", "some rows", "many rows and columns"])
def test_the_sums_of_a_visit_are_those_of_a_full_pass(name):
    spec, source = of(name)
    state = mean_field_sweep(spec, spec.start(), source)
    at = SmoothNewton(1e-6).evaluate(spec, source, state)
    stats = mean_field_stats(spec, at.state, source)
    assert at.bound == pytest.approx(elbo(spec, at.state, stats.row_bound), rel=1e-11)
    np.testing.assert_allclose(at.stats.cross, stats.cross, rtol=1e-8, atol=1e-8 * np.abs(stats.cross).max())
    np.testing.assert_allclose(at.stats.gram.matrix, stats.gram.matrix, rtol=1e-9, atol=1e-9 * source.n_rows)


@pytest.mark.parametrize("name", ["few rows", "some rows", "heavy tails"])
def test_what_is_left_to_gain_is_what_the_next_step_gains(name):
    """With the gram to first order; by the weights of rows at most so much."""
    spec, source = of(name)
    state = mean_field_sweep(spec, spec.start(), source)
    strategy = SmoothNewton(1e-9)
    at, gained = strategy.evaluate(spec, source, state), 0
    for _ in range(3):
        weights, image = strategy.rows.weights, covariance_update(spec, at, at.state)
        reached = strategy.evaluate(spec, source, image)
        gain = reached.bound - at.bound
        if gain > 1e-7:
            assert 0.2 * gain < at.remaining_gain < 5 * gain
            gained += 1
        at_most = gain_by_priors(spec, image, reached.state) + strategy.rows.max_gain(weights)
        assert OPTIONS.safety * at_most > 0.9 * reached.remaining_gain - 1e-9
        at = reached
    assert gained >= 2


def test_many_rows_need_two_passes_and_few_no_sample():
    X, y = DATA["many rows"]
    assert VBLogistic().fit(X, y).n_iter_ == 2
    spec, source = of("some rows")
    start = spec.start()
    assert subsample_start(spec, source, start, SmoothNewton(1e-6)) is start


def test_a_sample_weighs_as_much_as_all_and_is_always_the_same():
    X, y = DATA["many rows"]
    s = np.random.default_rng(0).gamma(0.5, size=len(y))
    source = source_of(X, y, s)
    one, other = source.sample(500), source.sample(500)
    assert one.weights.sum() == pytest.approx(s.sum())
    np.testing.assert_array_equal(one.X, other.X)
    assert len(np.unique(one.X[:, 0])) == 500
    far = Recipe(np.full(8, 1e6), np.ones(8), intercept=True)  # not standardised by algebra: not a plain table
    assert replace(source, recipe=far).sample(500) is None


@pytest.mark.parametrize("name", ["many rows", "many rows and columns"])
def test_threads_change_no_bit(name):
    X, y = DATA[name]
    fits = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            fits.append(VBLogistic().fit(X, y))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].elbo_ == fits[1].elbo_


def test_weights_are_repetitions_with_a_head_start():
    X, y = overlapping(20_000, 4)
    counts = np.random.default_rng(1).integers(0, 4, size=len(y))
    weighted = VBLogistic().fit(X, y, sample_weight=counts)
    repeated = VBLogistic().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, abs=2e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3 * weighted.coef_std_.max())


def test_rows_that_come_in_turns_and_a_sample_that_is_separated():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40_000, 3))
    turns = np.where(np.arange(len(X)) % 8 == 0, 1.0, -1.0)
    rare = np.where(X[:, 0] + 0.3 * rng.logistic(size=len(X)) > 4.5, 1.0, -1.0)
    for y in (turns, rare):
        spec, source = replace(spec_of(3), likelihood=EXACT_LOGISTIC), source_of(X, y)
        known = optimize(spec, source, spec.start(), ProfiledNewton(1e-9), 1e-9, 2000)
        assert VBLogistic(Ridge(), standardize=False).fit(X, y).elbo_ == pytest.approx(known.bounds[-1], abs=2e-6)


def test_an_interrupt_during_the_head_start_is_an_interrupt(monkeypatch):
    X, y = DATA["many rows"]
    fit = VBLogistic().fit(*DATA["some rows"])
    before = fit.fit_

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(smooth, "optimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(X, y)
    assert fit.fit_ is before
