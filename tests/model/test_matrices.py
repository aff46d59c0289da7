"""Design matrices: every verb of every kind against the array written out; a sparse fit against the dense one."""

import numpy as np
import pytest
import scipy.sparse as sp

from vbsvm import LaplaceZero, Normal, Ridge, Variational
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.matrices import DenseMatrix, SparseMatrix, StandardisedMatrix
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.memory import Memory
from vbsvm.sources.sparse import Sparse

N, D = 40, 40  # wide enough for the product in two panels


def rows(seed=0, n=N, d=D):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < 0.2, rng.normal(size=(n, d)), 0.0)


def pair(kind, intercept):
    """A matrix, and what it stands for as an array."""
    X = rows()
    centre, scale = X.mean(axis=0), X.std(axis=0)
    written = (X - centre) / scale
    if intercept:
        written = np.column_stack([np.ones(N), written])
    if kind == "sparse":
        return SparseMatrix(sp.csr_array(X), centre, scale, intercept), written
    if kind != "dense":
        return StandardisedMatrix(np.asarray(X, order=kind[-1]), centre, scale, intercept), written
    values = np.asfortranarray(written)
    return DenseMatrix(values), written


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "standardised by algebra, C", "standardised by algebra, F"])
@pytest.mark.parametrize("n_weighted", [N, 7])  # few weights are a way of their own
def test_every_verb_is_that_of_the_array(kind, intercept, n_weighted):
    matrix, C = pair(kind, intercept)
    rng = np.random.default_rng(1)
    theta, u, w = rng.normal(size=C.shape[1]), rng.normal(size=N), rng.gamma(1.0, size=N)
    w[rng.permutation(N)[n_weighted:]] = 0.0
    root, other = np.triu(rng.normal(size=(C.shape[1],) * 2)), rng.normal(size=(C.shape[1], 3))
    close = {"rtol": 1e-10, "atol": 1e-10}
    assert matrix.shape == C.shape
    np.testing.assert_allclose(matrix.matvec(theta), C @ theta, **close)
    np.testing.assert_allclose(matrix.rmatvec(u), C.T @ u, **close)
    np.testing.assert_allclose(matrix.matvec(other), C @ other, **close)
    np.testing.assert_allclose(matrix.rmatvec(C), C.T @ C, **close)
    np.testing.assert_allclose(matrix.sandwich(w), C.T @ (w[:, None] * C), **close)
    np.testing.assert_allclose(
        matrix.row_quadratic(DenseGaussian(theta, root)), np.square(C @ root).sum(axis=1), **close
    )
    np.testing.assert_allclose(matrix.row_squares(theta), np.square(C) @ theta, **close)
    np.testing.assert_allclose(matrix.columns(np.array([0, 3, 7])), C[:, [0, 3, 7]], **close)


@pytest.mark.parametrize("prior", [Ridge(), Normal(0.3), LaplaceZero(rho=0.2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_source_gives_the_dense_fit(prior, weighted, monkeypatch):
    monkeypatch.setattr("vbsvm.sources.sparse.block_rows", lambda n_columns: 64)
    X = rows(2, 200, 8)
    y = np.where(X[:, 0] - X[:, 1] + np.random.default_rng(3).normal(size=200) > 0, 1.0, -1.0)
    s = (np.arange(200) % 4).astype(float) if weighted else np.ones(200)
    recipe = ColumnSummary.from_rows(X, s).recipe(intercept=True, standardize=True)
    inputs = Block("inputs", (slice(1, 9),), prior, prior.gate_of([f"x{k}" for k in range(8)]))
    spec, tight = Spec((Block("intercept", (slice(0, 1),), Normal(1e2)), inputs)), Variational(tol=1e-12)
    dense, sparse = (
        tight.run(spec, one) for one in (Memory(X, y, s, recipe), Sparse.from_csr(sp.csr_array(X), y, s, recipe))
    )
    assert sparse.bounds[-1] == pytest.approx(dense.bounds[-1], rel=1e-10)
    np.testing.assert_allclose(sparse.state.coefficients.mean, dense.state.coefficients.mean, atol=1e-6)
    np.testing.assert_allclose(sparse.state.coefficients.variances, dense.state.coefficients.variances, rtol=1e-5)


def test_second_moments_are_those_of_the_dense_rows():
    X = rows(2, 50, 4)
    recipe, y, s = Recipe(X.mean(axis=0), X.std(axis=0), True), np.ones(50), np.ones(50)
    dense, sparse = Memory(X, y, s, recipe), Sparse.from_csr(sp.csr_array(X), y, s, recipe)
    np.testing.assert_allclose(sparse.second_moments(), dense.second_moments(), atol=1e-10)
