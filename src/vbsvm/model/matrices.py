"""Design matrices: what distributions of coefficients ask of a block of rows, whatever the rows are stored as.

A matrix answers a few verbs; how it is stored, and whether columns were standardised in place or by algebra, is its own
affair. Grouping factors, whose columns of zeros and ones are never written out, are in ``layouts.grouping``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array


class DesignMatrix(Protocol):
    """C: rows of inputs as the coefficients meet them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def matvec(self, theta: Array) -> Array:
        """Cθ."""
        ...

    def rmatvec(self, u: Array) -> Array:
        """Cᵀu."""
        ...

    def matmat(self, other: Array) -> Array:
        """C times a matrix."""
        ...

    def sandwich(self, w: Array) -> Array:
        """CᵀWC, for weights ≥ 0."""
        ...

    def row_quadratic(self, root: Array) -> Array:
        """‖Uᵀc‖² of each row c, for an upper triangular U."""
        ...

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        ...

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns, written out."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseMatrix:
    """An array, and work space of the same shape."""

    values: Array
    scratch: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    def matvec(self, theta: Array) -> Array:
        """Cθ."""
        return self.values @ theta

    def rmatvec(self, u: Array) -> Array:
        """Cᵀu."""
        return u @ self.values

    def matmat(self, other: Array) -> Array:
        """C times a matrix."""
        return self.values @ other

    def sandwich(self, w: Array) -> Array:
        """CᵀWC as AᵀA with A = W^½C: NumPy then does half the multiplications, and the result is symmetric."""
        np.multiply(self.values, np.sqrt(w)[:, None], out=self.scratch)
        return self.scratch.T @ self.scratch

    def row_quadratic(self, root: Array) -> Array:
        """‖Uᵀc‖² of each row c, for an upper triangular U."""
        _times_upper_triangle(self.values, root, self.scratch)
        return np.einsum("ij,ij->i", self.scratch, self.scratch)

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        np.square(self.values, out=self.scratch)
        return self.scratch @ weights

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns."""
        return self.values[:, which]


@final
@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Rows of a scipy.sparse array behind an intercept, standardised by algebra: nothing is written out.

    A column x of the raw rows stands for (x − centre) / scale.
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
        """1/scale; a column that is constant is divided by infinity."""
        return 1.0 / self.scale

    def _raw(self, other: Array) -> tuple[Array, Array]:
        """What multiplies the raw columns, and what every row gets: Cθ = X(θ/scale) + (θ₀ − centreᵀ(θ/scale))."""
        first = int(self.intercept)
        unit = self._unit if other.ndim == 1 else self._unit[:, None]
        slopes = other[first:] * unit
        return slopes, (other[0] if first else 0.0) - self.centre @ slopes

    def matvec(self, theta: Array) -> Array:
        """Cθ."""
        slopes, left = self._raw(theta)
        return self.raw @ slopes + left

    def matmat(self, other: Array) -> Array:
        """C times a matrix."""
        slopes, left = self._raw(other)
        return self.raw @ slopes + left

    def rmatvec(self, u: Array) -> Array:
        """Cᵀu."""
        total = u.sum()
        of_columns = (self.raw.T @ u - self.centre * total) * self._unit
        return np.concatenate([[total], of_columns]) if self.intercept else of_columns

    def sandwich(self, w: Array) -> Array:
        """CᵀWC."""
        weighted = self.raw.multiply(w[:, None]).tocsr()
        gram, linear, total = (self.raw.T @ weighted).toarray(), self.raw.T @ w, float(w.sum())
        met = np.outer(self.centre, linear)
        gram = (gram - met - met.T + total * np.outer(self.centre, self.centre)) * self._unit * self._unit[:, None]
        if not self.intercept:
            return gram
        border = (linear - total * self.centre) * self._unit
        return np.block([[np.array([[total]]), border[None]], [border[:, None], gram]])

    def row_quadratic(self, root: Array) -> Array:
        """‖Uᵀc‖² of each row c."""
        product = self.matmat(root)
        return np.einsum("ij,ij->i", product, product)

    def row_squares(self, weights: Array) -> Array:
        """Σ c_k² weights_k of each row c."""
        first = int(self.intercept)
        unit = weights[first:] * np.square(self._unit)
        squares = self.raw.multiply(self.raw).tocsr() @ unit - 2.0 * (self.raw @ (unit * self.centre))
        return squares + float(unit @ np.square(self.centre)) + (weights[0] if first else 0.0)

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns, written out."""
        first, which = int(self.intercept), np.asarray(which)
        found = np.ones((self.shape[0], len(which)))
        raw = which >= first
        chosen = which[raw] - first
        found[:, raw] = (self.raw[:, chosen].toarray() - self.centre[chosen]) * self._unit[chosen]
        return found


def _times_upper_triangle(left: Array, upper: Array, out: Array) -> None:
    """left @ upper in two panels, the second of which alone needs all of ``left``: a quarter of the work is zeros.

    Written transposed, as the rows' work space is stored by columns.
    """
    half = len(upper) // 2
    if half < 16:
        np.matmul(upper.T, left.T, out=out.T)
    else:
        np.matmul(upper[:half, :half].T, left[:, :half].T, out=out[:, :half].T)
        np.matmul(upper[:, half:].T, left.T, out=out[:, half:].T)
