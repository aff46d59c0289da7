"""Verbs of the layouts that fits seldom or never ask for: they give what the dense layout gives."""

from typing import Any, cast

import numpy as np

from vbsvm.model import interfaces, matrices
from vbsvm.model.interfaces import Precision
from vbsvm.model.layouts import dense, dual


def wide_and_dense(seed=0, n=6, p=15):
    """The same rows in the dual and in the dense layout, and weights."""
    rng = np.random.default_rng(seed)
    C, w, ones = rng.normal(size=(n, p)), rng.uniform(0.5, 2.0, n), np.ones(n)
    return dual.DualRows(0, C, ones, ones), dense.DenseRows(0, matrices.DenseMatrix(C), ones, ones), w


def test_grams_of_wide_rows_add_and_subtract():
    (one, one_dense, w), (other, other_dense, v) = wide_and_dense(), wide_and_dense(1)
    theta = np.arange(15.0)
    a, b, A, B = one.gram(w), other.gram(v), one_dense.gram(w), other_dense.gram(v)
    np.testing.assert_allclose((a + b).times(theta), (A + B).times(theta), rtol=1e-12)
    np.testing.assert_allclose((a - b).times(theta), (A - B).times(theta), rtol=1e-10)
    precision, right = Precision(np.full(15, 0.7)), np.sin(theta)
    np.testing.assert_allclose((a + b).solve(right, precision), (A + B).solve(right, precision), rtol=1e-9)


def test_effects_of_wide_rows_are_those_of_dense_ones():
    rows, dense_rows, w = wide_and_dense()
    precision, columns = Precision(np.r_[1e-8, np.full(14, 0.7)]), np.array([0, 3, 14])
    cross = rows.cross(w)
    found = rows.gram(w).conditional(cross, precision).effective(None).effects(rows, columns)
    expected = cast(Any, dense_rows.gram(w).conditional(cross, precision).effective(None)).effects(dense_rows, columns)
    for name in ("mean", "with_score", "covariance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-7, atol=1e-9)


def test_moments_of_draws():
    draws = np.random.default_rng(0).normal(size=(50, 4))
    one, (_, rows, w) = interfaces.SampledCoefficients(draws), wide_and_dense(p=4)
    outer = draws.T @ draws / 50
    np.testing.assert_allclose(one.outer(4), outer)
    np.testing.assert_allclose(one.squares, outer.diagonal())
    np.testing.assert_allclose(one.products(slice(0, 2), slice(2, 4)), outer[0, 2] + outer[1, 3])
    np.testing.assert_allclose(one.quadratic(rows.gram(w)), np.vdot(rows.gram(w).matrix, outer))
    assert one.entropy == -np.inf
