"""Covariance of many more coefficients than rows, represented by matrices of rows × rows or rows × columns.

Few coefficients have a prior so wide that they are free (the intercept); the others have the precision λ. Given the
free ones, the others' covariance is D − UᵀU with D = diag(1/λ), M = I + W^½ C D Cᵀ W^½ = R Rᵀ and U = R⁻¹ W^½ C D
(Woodbury). The free ones are then integrated in as a core of their own: the difference of two numbers of the size of
their prior variance would be rounding error. The design is an array, or sparse rows with the same interface.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.cached import cached_property
from vbsvm.model.layouts.dense import MAX_CELLS
from vbsvm.model.matrices import SparseMatrix


@final
@dataclass(frozen=True, eq=False)
class SparseDesign:
    """A CSR array behind an intercept, standardised by algebra: C @ right, left @ C, C[:, columns] and the shape."""

    data: Array
    indices: NDArray[np.integer]
    indptr: NDArray[np.integer]
    centre: Array
    scale: Array
    intercept: bool

    __array_ufunc__ = None  # an array on the left leaves the product to this class

    def __post_init__(self) -> None:
        """Raise if the arrays are no valid CSR array: those of a file may not be."""
        self.matrix.raw.check_format(full_check=True)

    @cached_property
    def matrix(self) -> SparseMatrix:
        """The rows as a design matrix."""
        shape = len(self.indptr) - 1, len(self.centre)
        raw = csr_array((self.data, self.indices, self.indptr), shape=shape)
        return SparseMatrix(raw, self.centre, self.scale, self.intercept)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __matmul__(self, right: Array) -> Array:
        """C right."""
        return self.matrix.matvec(right)

    def __rmatmul__(self, left: Array) -> Array:
        """Left times C."""
        return self.matrix.rmatvec(left.T).T

    def __getitem__(self, where: tuple[Any, Any]) -> Array:
        """C[:, columns] as a dense array."""
        _, columns = where
        return self.matrix.columns(np.arange(self.shape[1])[columns])

    def products(self) -> Array:
        """CCᵀ, from X(1/scale²)Xᵀ and the centres."""
        raw, unit = self.matrix.raw, 1.0 / np.square(self.scale)
        scaled = csr_array((self.data * np.sqrt(unit)[self.indices], self.indices, self.indptr), shape=raw.shape)
        of_centre = raw @ (unit * self.centre)
        rest = float(self.centre @ (unit * self.centre)) + float(self.intercept)
        return np.asarray((scaled @ scaled.T).toarray()) - of_centre[:, None] - of_centre + rest

    def column_chunks(self) -> Iterator[slice]:
        """Slices of columns that are materialised together."""
        n_rows, n_columns = self.shape
        size = max(1, MAX_CELLS // max(n_rows, 1))
        return (slice(begin, min(begin + size, n_columns)) for begin in range(0, n_columns, size))


WideDesign = Array | SparseDesign


def as_array(design: WideDesign) -> Array:
    """The design as an array."""
    return design[:, np.arange(design.shape[1])] if isinstance(design, SparseDesign) else design


(_trtri,) = get_lapack_funcs(("trtri",), dtype=np.float64)

# Coefficients with a smaller prior precision than this are free.
FREE = 1e-4

_products: dict[int, tuple[weakref.ref[Any], Array]] = {}


def products_of_rows(design: WideDesign) -> Array:
    """CCᵀ, computed once and cached as long as the design exists."""
    key = id(design)
    cached = _products.get(key)
    if cached is not None and cached[0]() is design:
        return cached[1]
    with single_threaded_blas():
        products = design.products() if isinstance(design, SparseDesign) else design @ design.T
    _products[key] = weakref.ref(design, lambda _: _products.pop(key, None)), products
    return products


def _scaled(scale: Array, values: Array) -> Array:
    """A vector, or the rows of a matrix, times these numbers."""
    return scale * values if values.ndim == 1 else scale[:, None] * values


@final
@dataclass(frozen=True, eq=False)
class DualParts:
    """A covariance (ΓCᵀWCΓ + diag λ)⁻¹ = diag(D) − UᵀU + V Vᵀ."""

    design: WideDesign
    w: Array
    lam: Array
    opened: Array

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """Coefficients with nearly flat priors."""
        return np.flatnonzero(self.lam < FREE)

    @cached_property
    def diagonal(self) -> Array:
        """1/λ; 0 for the free ones."""
        D = 1.0 / self.lam
        D[self.free] = 0.0
        return D

    @cached_property
    def weighted(self) -> Array:
        """W^½CΓ."""
        return np.sqrt(self.w)[:, None] * as_array(self.design) * self.opened

    @cached_property
    def common_variance(self) -> float | None:
        """1/λ if it is the same for all coefficients but the free ones and there are no indicators, else None."""
        penalised = self.lam[self.lam >= FREE]
        if not len(penalised) or not (self.opened == 1.0).all():
            return None
        return 1.0 / float(penalised[0]) if np.ptp(penalised) <= 1e-12 * penalised[0] else None

    @cached_property
    def of_rows(self) -> Array:
        """CCᵀ of the columns that are not free."""
        of_free = self.design[:, self.free]
        return products_of_rows(self.design) - of_free @ of_free.T

    @cached_property
    def factor(self) -> Array:
        """Lower Cholesky factor of M = I + W^½CΓDΓCᵀW^½."""
        with single_threaded_blas():
            if self.common_variance is None:
                M = (self.weighted * self.diagonal) @ self.weighted.T
            else:
                root = np.sqrt(self.w)
                M = (self.common_variance * root[:, None] * root) * self.of_rows
            M.ravel()[:: len(M) + 1] += 1.0
            return np.asarray(np.linalg.cholesky(M), dtype=np.float64)

    @cached_property
    def inverse(self) -> Array:
        """R⁻¹."""
        with single_threaded_blas():
            return _trtri(self.factor.T, lower=0)[0].T

    def _solved(self, right: Array, trans: int = 0) -> Array:
        with single_threaded_blas():
            return solve_triangular(self.factor, right, lower=True, trans=trans, check_finite=False)

    @cached_property
    def left(self) -> Array:
        """R⁻¹W^½CΓD, rows × columns."""
        with single_threaded_blas():
            return solve_triangular(self.factor, self.weighted * self.diagonal, lower=True, check_finite=False)

    @cached_property
    def _free(self) -> Array:
        """Q = R⁻¹W^½CΓ of the free columns, rows × free."""
        return self._solved(np.sqrt(self.w)[:, None] * self.design[:, self.free] * self.opened[self.free])

    @cached_property
    def _free_root_and_link(self) -> tuple[Array, Array]:
        """Root of the free coefficients' covariance, and the regression of the others on them: DΓCᵀW^½R⁻ᵀQ."""
        Q = self._free
        inner = np.linalg.cholesky(Q.T @ Q + np.diag(self.lam[self.free]))
        link = self.left_transposed(Q)
        return np.asarray(np.linalg.inv(inner).T, dtype=np.float64), link

    def _left_times(self, right: Array) -> Array:
        """R⁻¹W^½CΓD times a vector or a matrix."""
        scale, root = self.opened * self.diagonal, np.sqrt(self.w)
        return self._solved(_scaled(root, self.design @ _scaled(scale, right)))

    def left_transposed(self, right: Array) -> Array:
        """The transpose of that matrix times a vector or a matrix."""
        solved = self._solved(right, trans=1)
        return _scaled(self.opened * self.diagonal, (_scaled(np.sqrt(self.w), solved).T @ self.design).T)

    @cached_property
    def right(self) -> Array:
        """V: contribution of the free coefficients to a root of Σ, columns × free."""
        root, link = self._free_root_and_link
        with single_threaded_blas():
            V = -link @ root
        V[self.free] = root
        return V

    def times(self, right: Array) -> Array:
        """Σ right."""
        root, link = self._free_root_and_link
        of_free = root @ (root.T @ (right[self.free] - link.T @ right))
        product = self.diagonal * right - self.left_transposed(self._left_times(right)) - link @ of_free
        product[self.free] = of_free
        return product

    @cached_property
    def half_log_det(self) -> float:
        """½ log|Σ|."""
        of_free = float(np.log(np.abs(self._free_root_and_link[0].diagonal())).sum())
        of_prior = 0.5 * float(np.log(self.diagonal[self.diagonal > 0]).sum())
        return of_prior - float(np.log(self.factor.diagonal()).sum()) + of_free

    def row_variances(self) -> Array:
        """dg(CΣCᵀ) of the rows themselves: W^½CΣCᵀW^½ is I − M⁻¹, plus the contribution of the free coefficients."""
        assert self.common_variance is not None
        of_penalised = (1.0 - np.einsum("ji,ji->i", self.inverse, self.inverse)) / self.w
        root, _ = self._free_root_and_link
        followed = self.of_rows @ (np.sqrt(self.w)[:, None] * self._solved(self._free, trans=1))
        of_free = (self.design[:, self.free] - self.common_variance * followed) @ root
        return np.maximum(of_penalised, 0.0) + np.einsum("if,if->i", of_free, of_free)

    @cached_property
    def free_trace(self) -> float:
        """Sum of the variances of the free coefficients."""
        return float(np.square(self._free_root_and_link[0]).sum())

    @cached_property
    def penalised_trace(self) -> float:
        """Sum of the variances of all coefficients but the free ones."""
        assert self.common_variance is not None
        n_penalised = len(self.lam) - len(self.free)
        of_rows = len(self.w) - float(np.vdot(self.inverse, self.inverse))
        root, link = self._free_root_and_link
        return self.common_variance * (n_penalised - of_rows) + float(np.square(link @ root).sum())

    @cached_property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        variances = self.diagonal - self._left_squares() + np.einsum("kf,kf->k", self.right, self.right)
        return np.maximum(variances, 0.0)

    def _left_squares(self) -> Array:
        """Squared norms of the columns of R⁻¹W^½CΓD, in chunks for a sparse design."""
        if not isinstance(self.design, SparseDesign):
            return np.einsum("ik,ik->k", self.left, self.left)
        squares, scale = np.empty(self.design.shape[1]), self.opened * self.diagonal
        for chunk in self.design.column_chunks():
            left = self._solved(np.sqrt(self.w)[:, None] * self.design[:, chunk] * scale[chunk])
            squares[chunk] = np.einsum("ik,ik->k", left, left)
        return squares

    def variances_of(self, design: Array) -> Array:
        """dg(CΣCᵀ) of other rows, without the matrix R⁻¹W^½CΓD."""
        left, right = self._left_times(design.T), design @ self.right
        spread = np.square(design) @ self.diagonal - np.square(left).sum(axis=0) + np.square(right).sum(axis=1)
        return np.maximum(spread, 0.0)
