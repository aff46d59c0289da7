"""The one array type of the algebra, and ways to choose rows of an array."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Which = slice | NDArray[np.intp] | NDArray[np.bool_]


def inverse(matrices: Array) -> Array:
    """Inverse of a matrix, or of each of several."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def cholesky(matrices: Array) -> Array:
    """Lower Cholesky factor of a matrix, or of each of several."""
    return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
