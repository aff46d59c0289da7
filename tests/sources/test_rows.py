"""The row pass: the same sums whatever the order, type and home of X and the number of threads; and no copy of X."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from models import random_state, spec_of
from vbsvm import VBSVC
from vbsvm.base import arrays
from vbsvm.base.update_mode import mean_field
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.model.sweep import pass_rows
from vbsvm.sources.memory import Memory

N, D = 36_000, 25  # eight blocks of rows, wide enough for threads


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * 3 + 100
    return X, rng.choice([-1.0, 1.0], size=N), rng.gamma(1.0, size=N)


def stats_of(X, y, s):
    recipe = ColumnSummary.from_rows(X, s).recipe(intercept=True, standardize=True)
    spec = spec_of(D)
    state = random_state(spec, np.random.default_rng(1))
    return pass_rows(spec, state, Memory(X, y, s, recipe), mean_field, with_curvature=True)


def assert_same(one, other, rtol):
    for name in ("gram", "cross", "row_bound", "constant", "curvature"):
        a, b = (getattr(x, "matrix", x) for x in (getattr(one, name), getattr(other, name)))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(a).max(), err_msg=name)


def test_the_sums_are_those_of_the_formulas(data):
    X, y, s = data
    found = stats_of(X, y, s)
    distribution = random_state(spec_of(D), np.random.default_rng(1)).coefficients
    mean = np.average(X, axis=0, weights=s)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=s))
    C = np.column_stack([np.ones(N), Z])
    f, v = C @ distribution.mean, np.einsum("ij,jk,ik->i", C, distribution.covariance, C)
    chi = (1 - y * f) ** 2 + v
    w = s / np.sqrt(chi)
    np.testing.assert_allclose(found.gram.matrix, C.T @ (w[:, None] * C), rtol=1e-9, atol=1e-9 * w.sum())
    np.testing.assert_allclose(found.cross, C.T @ (y * (s + w)), rtol=1e-9, atol=1e-9 * w.sum())
    np.testing.assert_allclose(found.row_bound, np.sum(s * (y * f - 1 - np.sqrt(chi))), rtol=1e-11)
    np.testing.assert_allclose(found.constant, np.sum(s + s * np.sqrt(chi) / 2 + w / 2), rtol=1e-11)
    np.testing.assert_allclose(
        found.curvature.matrix, C.T @ ((s * v * chi**-1.5)[:, None] * C), rtol=1e-8, atol=1e-8 * w.sum()
    )


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_change_no_bit(data, threads, monkeypatch):
    X, y, s = data
    assert 6 * arrays.block_rows(D + 1) < N
    found, enter = [], arrays._BlasLimit.__enter__
    for k in (1, threads):
        monkeypatch.setattr(arrays._BlasLimit, "__enter__", lambda limit, k=k: enter(limit) and k)
        found.append(stats_of(X, y, s))
    assert_same(*found, rtol=0)


def test_order_and_home_of_the_array_change_nothing(data, tmp_path):
    X, y, s = data
    expected = stats_of(X, y, s)
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.zeros((2 * N, D))
    wide[::2] = X
    for variant in (np.asfortranarray(X), read_only, np.load(tmp_path / "X.npy", mmap_mode="r"), wide[::2]):
        assert_same(expected, stats_of(variant, y, s), rtol=1e-13)


def test_single_precision_input_is_summed_in_double(data):
    X, y, s = data
    single = X.astype(np.float32)
    assert_same(stats_of(single.astype(np.float64), y, s), stats_of(single, y, s), rtol=1e-12)


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 40))
    y = X[:, 0] + rng.normal(size=len(X)) > 0
    return X, y, VBSVC().fit(X, y).coef_


@pytest.mark.parametrize("kind", ["C", "F", "float32", "read-only", "memory-mapped"])
def test_fit_takes_every_float_array_in_place(kind, large, tmp_path, monkeypatch):
    """Peak of NumPy's allocations in a whole fit, labels included, beside an array of 64 MB (float32: 32 MB)."""
    X, y, coef = large
    if kind == "memory-mapped":
        np.save(tmp_path / "X.npy", X)
    variant = {
        "C": lambda: X,
        "F": lambda: np.asfortranarray(X),
        "float32": lambda: X.astype(np.float32),
        "read-only": lambda: np.broadcast_to(X, X.shape),
        "memory-mapped": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
    }[kind]()
    enter = arrays._BlasLimit.__enter__
    monkeypatch.setattr(arrays._BlasLimit, "__enter__", lambda limit: enter(limit) and 2)
    tracemalloc.start()
    clf = VBSVC().fit(variant, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(clf.coef_, coef, rtol=1e-4, atol=1e-6)
    assert peak < 0.5 * variant.nbytes


def test_blas_gets_its_threads_back(data):
    X, y, s = data
    with threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpool_info()]
        stats_of(X, y, s)
        assert [library["num_threads"] for library in threadpool_info()] == before
        with pytest.raises(ZeroDivisionError):
            arrays.sum_over_rows(N, D, lambda: lambda index, rows: 1 / 0)
        assert [library["num_threads"] for library in threadpool_info()] == before


def test_passes_of_two_threads_at_once_leave_blas_as_it_was():
    with threadpool_limits(2, user_api="blas"):
        with arrays.single_threaded_blas() as first:
            with arrays.single_threaded_blas() as second:
                assert first == second == 2
            assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {1}
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {2}


def test_blocks_cover_all_rows_once_whatever_the_shape():
    for n, p in [(1, 1), (1023, 3), (1024, 200), (1025, 200), (50_001, 7), (3000, 2000)]:
        seen = arrays.sum_over_rows(n, p, lambda n=n: lambda index, rows: np.bincount(np.arange(n)[rows], minlength=n))
        assert (seen == 1).all()


@pytest.mark.parametrize("power", [-150, -6, 0, 6, 150])
def test_scales_are_exact_for_columns_of_any_size(power):
    x = np.random.default_rng(0).normal(size=(3000, 1)) + 5
    s = np.ones(3000)
    X = x * 10.0**power
    recipe = ColumnSummary.from_rows(X, s).recipe(intercept=True, standardize=True)
    np.testing.assert_allclose(recipe.scale / 10.0**power, x.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(recipe.centre / 10.0**power, x.mean(axis=0), rtol=1e-12)


def test_scales_do_not_cancel_far_from_zero():
    X = 1e9 + np.random.default_rng(0).normal(size=(5000, 1))
    s = np.ones(5000)
    recipe = ColumnSummary.from_rows(X, s).recipe(intercept=True, standardize=True)
    np.testing.assert_allclose(recipe.scale, X.std(axis=0), rtol=1e-9)


def test_a_design_row_is_the_standardised_row_behind_a_one():
    recipe = Recipe(np.array([1.0, 2.0]), np.array([2.0, 4.0]), intercept=True)
    np.testing.assert_array_equal(recipe.encode(np.array([[3.0, 10.0]]), np.empty((5, 3))), [[1.0, 1.0, 2.0]])


def test_importing_the_package_loads_nothing_heavy():
    code = "import vbsvm, sys; assert not {'sklearn', 'pandas', 'scipy', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
