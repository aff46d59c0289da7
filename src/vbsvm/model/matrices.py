"""Design matrices C of a block of rows: dense, or standardised implicitly, dense or sparse.

All have the same methods, whatever the storage and whether columns are standardised explicitly or implicitly. Grouping
factors, whose indicator columns are never materialised, are in ``layouts.grouping``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from vbsvm.base.arrays import Array, work_space
from vbsvm.base.cached import cached_property

# Width of the panels of columns of a triangular product.
PANEL = 128
# Multiplications of a dense product that take as long as one pair of entries of a sparse row.
PAIR = 150


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseMatrix:
    """An explicit array. Products use work space of the thread, so that methods are thread-safe."""

    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    def matvec(self, theta: Array) -> Array:
        """Cθ, also of a matrix."""
        return self.values @ theta

    def rmatvec(self, u: Array) -> Array:
        """Cᵀu, also of a matrix."""
        return u @ self.values if u.ndim == 1 else self.values.T @ u

    def sandwich(self, w: Array) -> Array:
        """CᵀWC as AᵀA with A = W^½C: NumPy then does half the multiplications, and the result is symmetric."""
        row_index = _rows_of_few_weights(w)
        if row_index is not None:
            scaled = np.sqrt(w[row_index]) * self.values.T[:, row_index]
            return scaled @ scaled.T
        scaled = np.multiply(self.values, np.sqrt(w)[:, None], out=_by_columns(self.values))
        return scaled.T @ scaled

    def row_quadratic(self, distribution: Any) -> Array:
        """‖Uᵀc‖² of each row c, for a covariance Σ = UUᵀ with the root U."""
        product = _by_columns(self.values)
        _times_upper_triangle(self.values, distribution.root, product)
        return np.einsum("ij,ij->i", product, product)

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        return np.square(self.values, out=_by_columns(self.values)) @ weights

    def column_squares(self, w: Array) -> Array:
        """Σ w c_k² of each column, over rows."""
        return w @ np.square(self.values, out=_by_columns(self.values))

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns."""
        return self.values[:, which]


@dataclass(frozen=True, eq=False)
class _ImplicitlyStandardised(ABC):
    """Raw rows X with an optional intercept, whose columns x represent (x − centre) / scale.

    Standardised columns are never materialised: Cθ = X(θ/scale) + (θ₀ − centreᵀ(θ/scale)), and the like.
    """

    raw: Any
    centre: Array
    scale: Array
    intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.raw.shape[0], self.raw.shape[1] + int(self.intercept)

    @cached_property
    def _unit(self) -> Array:
        """1/scale, which is 0 for a constant column."""
        return 1.0 / self.scale

    def _raw(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients of the raw columns, and the intercept."""
        first = int(self.intercept)
        unit = self._unit if theta.ndim == 1 else self._unit[:, None]
        slopes = theta[first:] * unit
        return slopes, (theta[0] if first else 0.0) - self.centre @ slopes

    def matvec(self, theta: Array) -> Array:
        """Cθ, also of a matrix."""
        slopes, intercept = self._raw(theta)
        return self.raw @ slopes + intercept

    def rmatvec(self, u: Array) -> Array:
        """Cᵀu, also of a matrix."""
        total, unit = u.sum(axis=0), self._unit if u.ndim == 1 else self._unit[:, None]
        of_columns = (self.raw.T @ u - np.multiply.outer(self.centre, total)) * unit
        return np.concatenate([[total], of_columns]) if self.intercept else of_columns

    def column_squares(self, w: Array) -> Array:
        """Σ w c_k² of each column, over rows: Σ w x² − 2 m Σ w x + m² Σ w."""
        total = float(w.sum())
        of_columns = self._raw_squares(w) - 2.0 * self.centre * (self.raw.T @ w) + total * np.square(self.centre)
        of_columns = np.maximum(of_columns, 0.0) * np.square(self._unit)
        return np.concatenate([[total], of_columns]) if self.intercept else of_columns

    @abstractmethod
    def _raw_squares(self, w: Array) -> Array:
        """Σ w x² of each raw column."""

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns as an array."""
        which = np.asarray(which)
        columns, not_intercept = np.ones((self.shape[0], len(which))), which >= int(self.intercept)
        raw_columns = which[not_intercept] - int(self.intercept)
        raw = self.raw[:, raw_columns]
        raw = raw.toarray() if issparse(raw) else raw
        columns[:, not_intercept] = (raw - self.centre[raw_columns]) * self._unit[raw_columns]
        return columns

    def _standardised(self, gram: Array, linear: Array, total: float) -> Array:
        """CᵀWC from XᵀWX (which is overwritten), XᵀW1 and 1ᵀW1."""
        rest = linear - 0.5 * total * self.centre  # XᵀWX − centre linearᵀ − linear centreᵀ + total centre centreᵀ
        gram -= np.stack([self.centre, rest], axis=1) @ np.stack([rest, self.centre])
        gram *= self._unit
        gram *= self._unit[:, None]
        if not self.intercept:
            return gram
        standardised = np.empty((len(gram) + 1, len(gram) + 1))
        standardised[1:, 1:], standardised[0, 0] = gram, total
        standardised[0, 1:] = standardised[1:, 0] = (linear - total * self.centre) * self._unit
        return standardised


@final
@dataclass(frozen=True, eq=False)
class StandardisedMatrix(_ImplicitlyStandardised):
    """Implicitly standardised dense rows, for columns whose means are not far from zero."""

    def sandwich(self, w: Array) -> Array:
        """CᵀWC; rows of weight 0 are left out if they are the majority."""
        row_index = _rows_of_few_weights(w)
        raw, w = (self.raw, w) if row_index is None else (self.raw[row_index], w[row_index])
        scaled = np.multiply(raw, np.sqrt(w)[:, None], out=_like(raw))
        return self._standardised(scaled.T @ scaled, raw.T @ w, float(w.sum()))

    def row_quadratic(self, distribution: Any) -> Array:
        """‖Uᵀc‖² of each row c, for a covariance Σ = UUᵀ with the root U."""
        slopes, left = self._raw(distribution.root)
        first = int(self.intercept)  # of U's first column, which is that of the intercept, only the first number counts
        slopes, rest = slopes[:, first:], left[first:]
        product = _like(self.raw)
        _times_upper_triangle(self.raw, slopes, product)
        quadratic = np.einsum("ij,ij->i", product, product)
        quadratic += self.raw @ (slopes @ (2.0 * rest))  # ‖p + rest‖² = ‖p‖² + 2 pᵀrest + ‖rest‖²
        quadratic += float(left @ left)
        return np.maximum(quadratic, 0.0, out=quadratic)

    def _raw_squares(self, w: Array) -> Array:
        return np.einsum("i,ij,ij->j", w, self.raw, self.raw)

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        first = int(self.intercept)
        centred = np.subtract(self.raw, self.centre, out=_like(self.raw))
        squares = np.square(centred, out=centred) @ (weights[first:] * np.square(self._unit))
        return squares + weights[0] if first else squares


def n_pairs(counts: Any) -> int:
    """Total number of pairs of entries of rows with these numbers of entries, self-pairs included."""
    counts = np.asarray(counts, dtype=np.int64)
    return int((counts * (counts + 1) // 2).sum())


def pair_products(X: Any) -> Any:
    """P: products of the pairs of entries in each row of a CSR array; columns j ≤ k of p have the column j p + k of P.

    XᵀWX is Pᵀw and xᵀSx of each row is P vec(S), at a cost proportional to the number of pairs: sparse
    matrix-vector products are the fastest operation on SciPy's sparse arrays.
    """
    n_rows, n_columns = X.shape
    after = np.repeat(X.indptr[1:], np.diff(X.indptr)) - np.arange(X.nnz)  # entries from this one to the row's end
    first = np.cumsum(after, dtype=np.int64) - after
    dtype = np.int32 if max(n_columns**2, n_pairs(np.diff(X.indptr))) < 2**31 else np.int64
    left = np.repeat(np.arange(X.nnz, dtype=dtype), after)
    right = np.arange(len(left), dtype=dtype) + np.repeat((np.arange(X.nnz) - first).astype(dtype), after)
    columns = X.indices.astype(dtype, copy=False)
    begins = np.append(first, len(left))[X.indptr].astype(dtype)
    pairs = columns[left] * dtype(n_columns) + columns[right]
    return csr_array((X.data[left] * X.data[right], pairs, begins), shape=(n_rows, n_columns**2))


@final
@dataclass(frozen=True, eq=False)
class SparseMatrix(_ImplicitlyStandardised):
    """Implicitly standardised rows of a CSR array with sorted indices and no duplicates.

    Columns with a mean far from zero lose precision. Grams and quadratic forms are computed from pairs of entries, or
    from the dense rows if it is faster for their number of entries.
    """

    @cached_property
    def _pairs(self) -> Any:
        n_rows, n_columns = self.raw.shape
        sparse_enough = PAIR * n_pairs(np.diff(self.raw.indptr)) <= n_rows * n_columns**2
        return pair_products(self.raw) if sparse_enough else None

    def rows(self, which: slice) -> "SparseMatrix":
        """A slice of the rows."""
        return SparseMatrix(self.raw[which], self.centre, self.scale, self.intercept)

    @property
    def _dense(self) -> StandardisedMatrix:
        return StandardisedMatrix(self.raw.toarray(), self.centre, self.scale, self.intercept)

    def sandwich(self, w: Array) -> Array:
        """CᵀWC."""
        if self._pairs is None:
            return self._dense.sandwich(w)
        upper = (self._pairs.T @ w).reshape(self.raw.shape[1], -1)
        gram = upper + upper.T
        np.fill_diagonal(gram, upper.diagonal())
        return self._standardised(gram, self.raw.T @ w, float(w.sum()))

    def row_quadratic(self, distribution: Any) -> Array:
        """cᵀΣc of each row c, as xᵀSx + 2 xᵀ(b − Sm) + σ² − 2 bᵀm + mᵀSm.

        S and b are the covariances of the raw columns' coefficients, with each other and with the intercept, whose
        variance is σ²; m is the centre.
        """
        if self._pairs is None:
            return self._dense.row_quadratic(distribution)
        first, covariance = int(self.intercept), distribution.covariance
        S = covariance[first:, first:] * self._unit
        S *= self._unit[:, None]
        b, variance = (covariance[0, 1:] * self._unit, float(covariance[0, 0])) if first else (np.zeros(len(S)), 0.0)
        of_centre = S @ self.centre
        doubled = 2.0 * S
        np.fill_diagonal(doubled, S.diagonal())
        quadratic = self._pairs @ doubled.ravel() + self.raw @ (2.0 * (b - of_centre))
        quadratic += variance - 2.0 * float(b @ self.centre) + float(self.centre @ of_centre)
        return np.maximum(quadratic, 0.0, out=quadratic)

    @property
    def _squared(self) -> Any:
        """X∘X."""
        raw = self.raw
        return csr_array((np.square(raw.data), raw.indices, raw.indptr), shape=raw.shape)

    def _raw_squares(self, w: Array) -> Array:
        return self._squared.T @ w

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        first = int(self.intercept)
        unit = weights[first:] * np.square(self._unit)
        squares = self._squared @ unit - 2.0 * (self.raw @ (unit * self.centre))
        return squares + float(unit @ np.square(self.centre)) + (weights[0] if first else 0.0)


# C: the rows of the design.
DesignMatrix = DenseMatrix | StandardisedMatrix | SparseMatrix


def _like(raw: Array) -> Array:
    """Work space of the shape and memory order of these rows."""
    by_rows = raw.strides[0] >= raw.strides[1]
    return work_space(raw.size).reshape(raw.shape) if by_rows else _by_columns(raw)


def _by_columns(rows: Array) -> Array:
    """Column-major work space of the shape of these rows."""
    return work_space(rows.size).reshape(rows.shape[::-1]).T


def _rows_of_few_weights(w: Array) -> NDArray[np.intp] | None:
    """Rows of nonzero weight if these are less than half, else None."""
    return np.flatnonzero(w) if 2 * np.count_nonzero(w) < len(w) else None


def _times_upper_triangle(left: Array, upper: Array, out: Array) -> None:
    """left @ upper in panels of columns, skipping the zeros below the diagonal of ``upper``."""
    size = len(upper)
    width = max(size, 1) if size < 32 else min(PANEL, -(-size // 2))
    by_columns = out.strides[0] < out.strides[1]
    for begin in range(0, size, width):
        end = min(begin + width, size)
        rows, panel, product = left[:, :end], upper[:end, begin:end], out[:, begin:end]
        if by_columns:
            np.matmul(panel.T, rows.T, out=product.T)
        else:
            np.matmul(rows, panel, out=product)
