"""Sparse rows of a design with many more columns than rows: what the dual layout asks of an array, by algebra."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.layouts.dense import AT_ONCE
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
        """Refuse arrays that do not belong together: a file may hold any."""
        self.matrix.raw.check_format(full_check=True)

    @staticmethod
    def of(matrix: SparseMatrix) -> "SparseDesign":
        """The same rows."""
        raw = matrix.raw
        return SparseDesign(raw.data, raw.indices, raw.indptr, matrix.centre, matrix.scale, matrix.intercept)

    @cached_property
    def matrix(self) -> SparseMatrix:
        """The same as a design matrix."""
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
        return self.matrix.matmat(right)

    def __rmatmul__(self, left: Array) -> Array:
        """Left times C."""
        return self.matrix.rmatvec(left) if left.ndim == 1 else self.matrix.rmatmat(left.T).T

    def __getitem__(self, where: tuple[Any, Any]) -> Array:
        """C[:, columns], written out."""
        _, columns = where
        return self.matrix.columns(np.arange(self.shape[1])[columns])

    def products(self) -> Array:
        """CCᵀ: X(1/scale²)Xᵀ and what the centre takes away."""
        raw, unit = self.matrix.raw, 1.0 / np.square(self.scale)
        scaled = csr_array((self.data * np.sqrt(unit)[self.indices], self.indices, self.indptr), shape=raw.shape)
        of_centre = raw @ (unit * self.centre)
        rest = float(self.centre @ (unit * self.centre)) + float(self.intercept)
        return np.asarray((scaled @ scaled.T).toarray()) - of_centre[:, None] - of_centre + rest

    def column_chunks(self) -> Iterator[slice]:
        """Columns that may be written out together."""
        n_rows, n_columns = self.shape
        size = max(1, AT_ONCE // max(n_rows, 1))
        return (slice(begin, min(begin + size, n_columns)) for begin in range(0, n_columns, size))


WideDesign = Array | SparseDesign


def written(design: WideDesign) -> Array:
    """The design as an array."""
    return design[:, np.arange(design.shape[1])] if isinstance(design, SparseDesign) else design
