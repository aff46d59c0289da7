"""Products of the pairs of entries in each row of a sparse array: with them a gram costs as much as a row has pairs.

XᵀWX = Σ_i w_i x_i x_iᵀ and x_iᵀSx_i need nothing of X but the products x_ij x_ik of entries j ≤ k that row i has both.
Written as a sparse matrix P with a row for each row and a column for each pair (j, k), the first is Pᵀw and the second
P vec(S): products with vectors, the fastest thing that SciPy does with sparse arrays.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array


def n_pairs(counts: Any) -> int:
    """Number of pairs in rows of so many entries, an entry with itself included."""
    counts = np.asarray(counts, dtype=np.int64)
    return int((counts * (counts + 1) // 2).sum())


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """P: rows × pairs of columns; the pair j ≤ k of p columns has the number j p + k."""

    products: Any
    n_columns: int

    @staticmethod
    def of(X: Any) -> "Pairs":
        """The pairs of a CSR array whose rows are sorted and name each column once."""
        n_rows, n_columns = X.shape
        after = np.repeat(X.indptr[1:], np.diff(X.indptr)) - np.arange(X.nnz)  # entries from here to the row's end
        first = np.cumsum(after, dtype=np.int64) - after
        kind = np.int32 if max(n_columns**2, n_pairs(np.diff(X.indptr))) < 2**31 else np.int64
        left = np.repeat(np.arange(X.nnz, dtype=kind), after)
        right = np.arange(len(left), dtype=kind) + np.repeat((np.arange(X.nnz) - first).astype(kind), after)
        columns = X.indices.astype(kind, copy=False)
        begins = np.append(first, len(left))[X.indptr].astype(kind)
        pairs = columns[left] * kind(n_columns) + columns[right]
        products = csr_array((X.data[left] * X.data[right], pairs, begins), shape=(n_rows, n_columns**2))
        return Pairs(products, n_columns)

    def gram(self, w: Array) -> Array:
        """XᵀWX."""
        upper = (self.products.T @ w).reshape(self.n_columns, self.n_columns)
        diagonal = upper.diagonal().copy()
        gram = upper + upper.T
        np.fill_diagonal(gram, diagonal)
        return gram

    def quadratic(self, S: Array) -> Array:
        """xᵀSx of each row, for a symmetric S."""
        doubled = 2.0 * S
        np.fill_diagonal(doubled, S.diagonal())
        return self.products @ doubled.ravel()
