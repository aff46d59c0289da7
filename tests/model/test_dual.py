"""The dual layout: what is found among products of rows equals what written-out parts and the dense layout say."""

import gc

import numpy as np
import pytest

from models import mean_field_sweep, spec_of, unscaled
from vbsvm.model.interfaces import Precision
from vbsvm.model.layouts import dual_parts
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.dual import DualRows
from vbsvm.model.matrices import DenseMatrix
from vbsvm.sources.memory import Memory

N, D = 25, 70


def rows(scale=1.0):
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(N), scale * rng.normal(size=(N, D))])
    y, s = np.where(rng.random(N) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, N)
    return DualRows(0, design, y, s), DenseRows(0, DenseMatrix(design), y, s)


@pytest.mark.parametrize("spread", [0.0, 0.7])  # equal and unequal prior precisions: with and without the short way
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("w", [1e-3, 1.0, 1e3])
def test_moments_of_rows_and_sums_of_squares_are_those_of_the_dense_layout(spread, scale, w):
    wide, dense = rows(scale)
    rng = np.random.default_rng(1)
    weights, u = w * rng.uniform(0.5, 2.0, N), rng.normal(size=N)
    precision = Precision(np.r_[1e-8, np.exp(spread * rng.normal(size=D))])
    found = wide.gram(weights).conditional(wide.cross(u), precision)
    expected = dense.gram(weights).conditional(dense.cross(u), precision)
    assert (found.parts.common_variance is None) == bool(spread)
    size = np.sqrt(expected.variances)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-7 * size.max())
    (f, v), (g, c) = found.effective(None).row_moments(wide), expected.row_moments(dense)
    np.testing.assert_allclose(f, g, atol=1e-7 * np.sqrt(c).max())
    np.testing.assert_allclose(v, c, rtol=1e-6)
    for columns in (slice(0, 1), slice(1, D + 1), slice(0, D + 1), slice(3, 9)):
        assert found.square_sum(columns) == pytest.approx(expected.square_sum(columns), rel=1e-7)
    assert found.entropy == pytest.approx(expected.entropy, rel=1e-9)


def test_other_rows_than_its_own_are_scored_from_written_parts():
    wide, dense = rows()
    precision = Precision(np.r_[1e-8, np.full(D, 2.0)])
    found = wide.gram(np.ones(N)).conditional(wide.cross(np.ones(N)), precision)
    expected = dense.gram(np.ones(N)).conditional(dense.cross(np.ones(N)), precision)
    new = np.column_stack([np.ones(7), np.random.default_rng(5).normal(size=(7, D))])
    blank = DenseRows(0, DenseMatrix(new), np.ones(7), np.ones(7))
    for one, other in zip(found.effective(None).row_moments(blank), expected.row_moments(blank), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_products_of_rows_are_formed_once_and_go_with_the_rows():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(N, D)), np.where(rng.random(N) < 0.5, 1.0, -1.0)
    source = Memory(X, y, np.ones(N), unscaled(D), wide=True)
    spec, before = spec_of(D), len(dual_parts._products)
    state = spec.start()
    for _ in range(4):
        state = mean_field_sweep(spec, state, source)
        assert state.coefficients.parts.common_variance is not None
    assert len(dual_parts._products) == before + 1
    del source, state
    gc.collect()
    assert len(dual_parts._products) == before
