"""The array type of the package, the type of a row selection, and work space that each thread reuses."""

import threading

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RowSelection = slice | NDArray[np.intp] | NDArray[np.bool_]
# Numbers of work space that a thread keeps: 32 MB. Larger arrays are allocated each time.
MAX_REUSED = 2**22
_local = threading.local()


def work_space(size: int) -> Array:
    """Uninitialised array of ``size`` numbers that the thread reuses: allocating takes longer than filling it."""
    space: Array | None = getattr(_local, "space", None)
    if space is None or len(space) < size:
        space = np.empty(size)
        if size <= MAX_REUSED:
            _local.space = space
    return space[:size]


def inverse(matrices: Array) -> Array:
    """Inverse of a matrix, or of each matrix of a stack."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def cholesky(matrices: Array) -> Array:
    """Lower Cholesky factor of a matrix, or of each matrix of a stack."""
    return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
