"""The one array type of the algebra, ways to choose rows of an array, and work space of a thread."""

import threading

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RowSelection = slice | NDArray[np.intp] | NDArray[np.bool_]
# Numbers of work space that a thread keeps: 32 MB. More are asked of the system each time.
MAX_KEPT = 2**22
_kept = threading.local()


def work_space(size: int) -> Array:
    """Room for so many numbers, which the thread keeps: to ask the system anew takes longer than to fill it."""
    space: Array | None = getattr(_kept, "space", None)
    if space is None or len(space) < size:
        space = np.empty(size)
        if size <= MAX_KEPT:
            _kept.space = space
    return space[:size]


def inverse(matrices: Array) -> Array:
    """Inverse of a matrix, or of each of several."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def cholesky(matrices: Array) -> Array:
    """Lower Cholesky factor of a matrix, or of each of several."""
    return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
