"""A weight of k is k repeated rows, a weight of 0 a row left out: scales and balanced class weights included."""

import numpy as np
import pytest

from reference import simulate
from vbsvm import VBSVC, Normal, Ridge, Variational
from vbsvm.base.arrays import block_rows


def same_fit(one, other, rtol=1e-9):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    for name in ("coef_", "intercept_", "coef_std_", "penalty_", "elbo_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, err_msg=name)


@pytest.fixture
def data():
    X, y = simulate(90, 6, seed=2)
    X = 3.0 + X * np.array([1, 10, 0.1, 1, 1, 1e-3])
    return X, y, np.random.default_rng(4).integers(0, 4, size=90)


@pytest.mark.parametrize("prior", [Ridge(), Normal(0.5)])
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1.0: 3.0, 1.0: 0.5}])
@pytest.mark.parametrize("accelerate", [True, False])
def test_a_whole_weight_is_repetition(data, prior, class_weight, accelerate):
    X, y, s = data
    clf = VBSVC(prior, Variational(accelerate=accelerate), class_weight=class_weight)
    weighted = clf.fit(X, y, sample_weight=s)
    repeated = VBSVC(**clf.get_params(deep=False)).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    same_fit(weighted, repeated)


def test_each_sweep_and_its_bound_are_those_of_repeated_rows(data):
    X, y, s = data
    inference = Variational(accelerate=False, tol=1e-9)
    weighted = VBSVC(inference=inference).fit(X, y, s)
    repeated = VBSVC(inference=inference).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(weighted.elbo_trace_[0], repeated.elbo_trace_[0], rtol=1e-12)


def test_a_row_of_weight_0_may_hold_anything(data):
    X, y, _ = data
    X, y = X.copy(), y.copy()
    X[3], X[7, 2], y[5] = 1e300, np.nan, 77.0
    s = np.ones(len(y))
    s[[3, 5, 7]] = 0
    same_fit(VBSVC().fit(X, y, s), VBSVC().fit(X[s > 0], y[s > 0]))


def test_multiclass_weights_are_repetition():
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(60, 3)), rng.integers(0, 3, size=60)
    y = np.array(["a", "b", "c"])[np.argmax(X + rng.normal(size=X.shape), axis=1)]
    same_fit(
        VBSVC(class_weight="balanced").fit(X, y, s),
        VBSVC(class_weight="balanced").fit(np.repeat(X, s, axis=0), np.repeat(y, s)),
    )


def test_the_scale_of_weights_matters_and_a_number_is_taken_for_all(data):
    X, y, _ = data
    for two in (2, 2.0, np.int64(2), np.float32(2)):
        same_fit(VBSVC().fit(X, y, two), VBSVC().fit(X, y, np.full(len(y), 2)))
    assert VBSVC().fit(X, y, 2.0).elbo_ != pytest.approx(VBSVC().fit(X, y).elbo_)


def test_class_weights_do_not_enter_the_scales(data):
    X, y, _ = data
    weighted = VBSVC(class_weight={-1.0: 9.0}).fit(X, y)
    np.testing.assert_array_equal(weighted.fit_[0].plan.recipe.scale, VBSVC().fit(X, y).fit_[0].plan.recipe.scale)


def test_blocks_without_a_counted_row_are_passed_over():
    gap = 2 * block_rows(41)
    X, y = simulate(gap + 5000, 40, seed=0)
    s = np.ones(gap + 5000)
    s[:gap] = 0
    same_fit(VBSVC().fit(X, y, s), VBSVC().fit(X[gap:], y[gap:]))


def test_rows_that_do_not_count_change_nothing_in_large_tables():
    X, y = simulate(60_000, 3, seed=0)
    s = np.arange(60_000) % 2
    same_fit(VBSVC().fit(X, y, s), VBSVC().fit(X[1::2], y[1::2]))
    few = (np.arange(60_000) % 1000 == 7).astype(float)
    same_fit(VBSVC().fit(X, y, few), VBSVC().fit(X[7::1000], y[7::1000]))


def test_a_whole_weight_is_repetition_in_large_tables():
    X, y = simulate(15_000, 3, seed=0)
    tight = Variational(tol=1e-10)
    weighted = VBSVC(inference=tight).fit(X, y, np.full(15_000, 2))
    same_fit(weighted, VBSVC(inference=tight).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)), rtol=1e-6)
