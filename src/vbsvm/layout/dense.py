"""The dense layout: one Gaussian law over all coefficients, held by its mean and a triangular root of its covariance.

Σ = U Uᵀ with U upper triangular, the inverse transpose of the precision's Cholesky factor. One matrix then serves
every need: row variances ‖Uᵀc‖² (never negative), second moments, log-determinant, draws and packing.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from vbsvm.arrays import Array

LOG_2PI = math.log(2 * math.pi)


_potrf, _trtri, _posv = get_lapack_funcs(("potrf", "trtri", "posv"), dtype=np.float64)


class CoefficientLaw(Protocol):
    """What rows, priors and the bound ask of the law of the coefficients."""

    @property
    def mean(self) -> Array:
        """E[θ]."""
        ...

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        ...

    @property
    def entropy(self) -> float:
        """Differential entropy."""
        ...

    def row_moments(self, design: Array, scratch: Array) -> tuple[Array, Array | float]:
        """Mean and variance of each row's score cᵀθ; ``scratch`` has the shape of ``design`` and is overwritten."""
        ...

    def quadratic(self, gram: Array) -> float:
        """E[θᵀ gram θ]."""
        ...

    def draw(self, rng: np.random.Generator) -> "DensePoint":
        """Replace the law by a point drawn from it."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class DensePoint:
    """Coefficients without spread: the start of variational Bayes, and every state of Gibbs."""

    mean: Array

    @property
    def squares(self) -> Array:
        """θ²."""
        return np.square(self.mean)

    @property
    def entropy(self) -> float:
        """Minus infinity, so that the bound of a start is below every other."""
        return -math.inf

    def row_moments(self, design: Array, scratch: Array) -> tuple[Array, float]:
        """A point's scores have no variance: the quadratic form is skipped."""
        return design @ self.mean, 0.0

    def quadratic(self, gram: Array) -> float:
        """θᵀ gram θ."""
        return float(self.mean @ gram @ self.mean)

    def draw(self, rng: np.random.Generator) -> Self:
        """Return itself."""
        return self


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseGaussian:
    """N(mean, root rootᵀ)."""

    mean: Array
    root: Array

    @property
    def squares(self) -> Array:
        """Diagonal of Ω = Σ + μμᵀ."""
        return np.einsum("ij,ij->i", self.root, self.root) + np.square(self.mean)

    @property
    def covariance(self) -> Array:
        """Σ."""
        return self.root @ self.root.T

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|."""
        return 0.5 * len(self.mean) * (1 + LOG_2PI) + float(np.log(self.root.diagonal()).sum())

    def row_moments(self, design: Array, scratch: Array) -> tuple[Array, Array]:
        """Give f = Cμ and v = dg(CΣCᵀ) (Algorithm 2, line 3)."""
        _times_upper_triangle(design, self.root, scratch)
        return design @ self.mean, np.einsum("ij,ij->i", scratch, scratch)

    def quadratic(self, gram: Array) -> float:
        """⟨gram, Ω⟩."""
        return float(self.mean @ gram @ self.mean) + float(np.vdot(gram @ self.root, self.root))

    def draw(self, rng: np.random.Generator) -> DensePoint:
        """Draw μ + U z."""
        return DensePoint(self.mean + self.root @ rng.standard_normal(len(self.mean)))

    def at(self, mean: Array) -> "DenseGaussian":
        """Move the law to another mean."""
        return DenseGaussian(mean, self.root)

    def pack(self) -> Array:
        """Mean and the upper triangle of the root, its diagonal as logs: every vector is a valid law."""
        flat, diagonal = _triangle(len(self.mean))
        triangle = self.root.ravel()[flat]
        triangle[diagonal] = np.log(triangle[diagonal])
        return np.concatenate([self.mean, triangle])

    @property
    def packed_size(self) -> int:
        """Length of the packed vector."""
        size = len(self.mean)
        return size + size * (size + 1) // 2

    def unpack(self, numbers: Array) -> "DenseGaussian":
        """Make the law that packs to these numbers."""
        size = len(self.mean)
        flat, diagonal = _triangle(size)
        triangle = numbers[size:].copy()
        triangle[diagonal] = np.exp(triangle[diagonal])
        root = np.zeros(size * size)
        root[flat] = triangle
        return DenseGaussian(numbers[:size], root.reshape(size, size))


def conditional(gram: Array, cross: Array, precision: Array) -> DenseGaussian:
    """Σ = (G + Λ)⁻¹, μ = Σ r (Algorithm 1, line 2; Algorithm 2, lines 2 and 3)."""
    lower = _cholesky(_plus_diagonal(gram, precision))
    inverse, _ = _trtri(lower, lower=1, overwrite_c=1)
    root = inverse.T
    return DenseGaussian(root @ (cross @ root), root)


def newton_mean(mean: Array, gram: Array, cross: Array, curvature: Array, precision: Array) -> Array | None:
    """μ + (H + Λ)⁻¹ {r − (G + Λ) μ}: the Newton step of the mean on the bound collapsed over the latent scales.

    H is the curvature where the paper's update has the majorant G. None where H + Λ is not positive in floating point.
    """
    gradient = cross - gram @ mean - precision * mean
    _, step, info = _posv(_plus_diagonal(curvature, precision), gradient, lower=1, overwrite_a=1)
    return mean + step if info == 0 else None


def _plus_diagonal(gram: Array, diagonal: Array) -> Array:
    """gram + diag(diagonal), in the order that LAPACK takes without a copy (the matrix is symmetric)."""
    total = gram.copy()
    total.ravel()[:: len(diagonal) + 1] += diagonal
    return total.T


def _cholesky(precision: Array) -> Array:
    """Lower Cholesky factor.

    Linearly dependent columns under a wide prior can leave a matrix that is positive on paper only. Then the diagonal
    is raised, first by the rounding error that the gram's own sums carry, at most by a millionth.
    """
    lower, info = _potrf(precision, lower=1, clean=1)
    widening = 4 * len(precision) * np.finfo(np.float64).eps
    while info != 0 and widening < 1e-6:
        raised = precision.copy(order="F")
        raised.ravel(order="F")[:: len(precision) + 1] *= 1 + widening
        lower, info = _potrf(raised, lower=1, clean=1, overwrite_a=1)
        widening *= 16
    if info != 0:
        raise FloatingPointError(
            "The precision matrix of the coefficients is not positive definite in floating point. The columns are of "
            "extremely different size, or depend on each other linearly under a prior that is nearly flat: standardise "
            "them, drop the dependent ones, or take a prior with a smaller variance."
        )
    return lower


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


@lru_cache(maxsize=16)
def _triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Flat positions of the upper triangle, and of the diagonal within them."""
    rows, columns = np.triu_indices(size)
    return rows * size + columns, np.flatnonzero(rows == columns)
