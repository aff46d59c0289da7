"""The dense layout: one Gaussian over all coefficients, by its mean and a triangular root of its covariance.

Σ = U Uᵀ with U upper triangular, the inverse transpose of the precision's Cholesky factor. One matrix then gives all:
row variances ‖Uᵀc‖² (never negative), second moments, log-determinant, draws and packing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import DenseScan, Gates, GateScan
from vbsvm.model.interfaces import CoefficientDistribution, Effects, PointDistribution, Precision, SecondMoments
from vbsvm.model.matrices import DenseMatrix, DesignMatrix, SparseMatrix

LOG_2PI = math.log(2 * math.pi)
# Largest number of cells of sparse rows that are materialised together.
MAX_CELLS = 2**18
EPS = float(np.finfo(np.float64).eps)


_potrf, _trtri, _posv, _lauum = get_lapack_funcs(("potrf", "trtri", "posv", "lauum"), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRows:
    """A block of rows: its number, design matrix, labels ±1 and weights > 0."""

    index: int
    matrix: DesignMatrix
    y: Array
    weights: Array

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        return self.matrix.matvec(theta)

    def cross(self, u: Array) -> Array:
        """Cᵀu."""
        return self.matrix.rmatvec(u)

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        return self.matrix.columns(which)

    def slopes_by_row(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """Coefficients of these columns, the same in all rows; 0 for columns without one."""
        return _padded(theta, self.matrix.shape[1], columns)[None]


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseRows(MatrixRows):
    """Rows of the dense layout, whose gram is a matrix."""

    @property
    def as_array(self) -> Array:
        """The rows as a dense array."""
        if isinstance(self.matrix, DenseMatrix):
            return self.matrix.values
        return self.columns(np.arange(self.matrix.shape[1]))

    def array_chunks(self) -> Iterator[Array]:
        """The rows in dense chunks of moderate size."""
        if not isinstance(self.matrix, SparseMatrix):
            yield self.as_array
            return
        n_rows, n_columns = self.matrix.shape
        size = max(1, MAX_CELLS // n_columns)
        for begin in range(0, n_rows, size):
            yield self.matrix.rows(slice(begin, begin + size)).columns(np.arange(n_columns))

    def gram(self, w: Array) -> "DenseGram":
        """CᵀWC."""
        return DenseGram(self.matrix.sandwich(w))


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseGram:
    """CᵀWC as one matrix."""

    matrix: Array

    def __add__(self, other: Self) -> "DenseGram":
        """Add the sums of two sets of rows."""
        return DenseGram(self.matrix + other.matrix)

    def __sub__(self, other: Self) -> "DenseGram":
        """Subtract the sums of other rows."""
        return DenseGram(self.matrix - other.matrix)

    def interpolate(self, other: Self, fraction: float) -> "DenseGram":
        """(1 − fraction) × this gram + fraction × another."""
        return DenseGram(self.matrix + fraction * (other.matrix - self.matrix))

    def times(self, theta: Array) -> Array:
        """CᵀWCθ."""
        return self.matrix @ theta

    def gated(self, gates: Gates, own: Self) -> "DenseGram":
        """G ∘ E[γ̃γ̃ᵀ] (Algorithm 3, line 2)."""
        return DenseGram(gates.weigh(self.matrix, own.matrix))

    def scan(
        self, cross: Array, distribution: CoefficientDistribution, gates: Gates, prior_log_odds: Array
    ) -> GateScan:
        """Sequential full conditionals of the indicators (Algorithm 3, lines 6 and 7)."""
        return DenseScan(
            gates, self.matrix * distribution.outer(len(self.matrix)), cross * distribution.mean, prior_log_odds
        )

    def conditional(self, cross: Array, precision: Precision) -> "DenseGaussian":
        """Σ = (G + Λ)⁻¹, μ = Σ r (Algorithm 1, line 2; Algorithm 2, lines 2 and 3)."""
        if not len(cross):  # a model may have random effects alone; LAPACK takes no empty matrix
            return DenseGaussian(cross, self.matrix)
        lower = _cholesky(_plus(self.matrix, precision))
        inverse, _ = _trtri(lower, lower=1, overwrite_c=1)
        root = inverse.T
        return DenseGaussian(root @ (cross @ root), root)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None if that matrix is not numerically positive definite."""
        if not len(right):
            return right
        _, solution, info = _posv(_plus(self.matrix, precision), right, lower=1, overwrite_a=1)
        return solution if info == 0 else None


@final
@dataclass(frozen=True, eq=False)
class DenseGaussian(SecondMoments):
    """N(mean, root rootᵀ)."""

    mean: Array
    root: Array

    @cached_property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        return np.vecdot(self.root, self.root)

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        return self.root[:n] @ self.root[:n].T

    @cached_property
    def covariance(self) -> Array:
        """Σ = UUᵀ, by a triangular product in a third of the time of a full one."""
        if not len(self.mean):
            return self.root
        upper, _ = _lauum(self.root, lower=0)
        covariance = upper + upper.T
        np.fill_diagonal(covariance, upper.diagonal())
        return covariance

    def marginal(self, n: int) -> "DenseGaussian":
        """Distribution of the first n coefficients."""
        if n == len(self.mean):
            return self
        # A triangular root of Σ's corner: R from QR of the reversed rows, reversed back to be upper triangular.
        R = np.asarray(np.linalg.qr(self.root[:n][::-1].T, mode="r"))
        return DenseGaussian(self.mean[:n], np.ascontiguousarray(R.T[::-1, ::-1]))

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        return float(self.mean[left] @ self.mean[right]) + float(np.vdot(self.root[left], self.root[right]))

    def outer(self, n: int) -> Array:
        """Ω of the first n coefficients."""
        return self.covariance[:n, :n] + np.outer(self.mean[:n], self.mean[:n])

    def effective(self, gates: Gates | None) -> "DenseGaussian | GatedCoefficients":
        """Distribution of the effective coefficients; itself without indicators."""
        if gates is None:
            return self
        inclusion, n = gates.by_coefficient[: len(self.mean)], len(self.mean)
        extra = gates.variance[:n] * self.squares
        shared = []
        for k in gates.map.shared:
            shared.append(
                (k, gates.variance[k[0]] * (self.root[k] @ self.root[k].T + np.outer(self.mean[k], self.mean[k])))
            )
            extra[k] = 0.0
        return GatedCoefficients(DenseGaussian(inclusion * self.mean, inclusion[:, None] * self.root), extra, shared)

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|."""
        return 0.5 * len(self.mean) * (1 + LOG_2PI) + float(np.log(self.root.diagonal()).sum())

    def row_moments(self, rows: DenseRows) -> tuple[Array, Array]:
        """Give f = Cμ and v = dg(CΣCᵀ) (Algorithm 2, line 3)."""
        variance = rows.matrix.row_quadratic(self)
        return rows.matrix.matvec(self.mean), variance

    def effects(self, rows: DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the coefficients of these columns, the same in all rows."""
        root = _padded(self.root, len(self.mean), columns)
        mean = _padded(self.mean, len(self.mean), columns)
        return Effects(mean[None], rows.matrix.matvec(self.root) @ root.T, (root @ root.T)[None])

    def quadratic(self, gram: DenseGram) -> float:
        """⟨gram, Ω⟩."""
        return float(self.mean @ gram.times(self.mean)) + float(np.vdot(gram.matrix @ self.root, self.root))

    @property
    def precision(self) -> DenseGram:
        """Σ⁻¹ = U⁻ᵀU⁻¹."""
        if not len(self.mean):
            return DenseGram(self.root)
        inverse, _ = _trtri(self.root, lower=0)
        return DenseGram(inverse.T @ inverse)

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """Draw μ + U z."""
        return PointDistribution(self.mean + self.root @ rng.standard_normal(len(self.mean)))

    def with_mean(self, mean: Array) -> "DenseGaussian":
        """A copy with another mean."""
        moved = DenseGaussian(mean, self.root)
        vars(moved)["variances"] = self.variances
        return moved

    def pack(self) -> Array:
        """Mean and upper triangle of the root with log diagonal: every vector is a valid distribution."""
        return np.concatenate([self.mean, packed_triangles(self.root[None])[0]])

    def unpack(self, numbers: Array) -> "DenseGaussian":
        """The distribution with these parameters: inverse of ``pack``."""
        size = len(self.mean)
        return DenseGaussian(numbers[:size], unpacked_triangles(numbers[None, size:], size)[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class GatedCoefficients:
    """Distribution of the effective coefficients γ∘v: with indicators at their means, plus their variance.

    ``extra`` is Var γ_k E v_k² of each coefficient with an indicator of its own; ``shared`` has Var γ E[vvᵀ] of the
    coefficients that share an indicator.
    """

    distribution: DenseGaussian
    extra: Array
    shared: list[tuple[NDArray[np.intp], Array]]

    def row_moments(self, rows: DenseRows) -> tuple[Array, Array]:
        """Give f = Cm and v = dg(C Var(γ∘v) Cᵀ) (Algorithm 3, line 10)."""
        f, v = self.distribution.row_moments(rows)
        v += rows.matrix.row_squares(self.extra)
        for columns, outer in self.shared:
            of_gate = rows.columns(columns)
            v += np.einsum("ij,jk,ik->i", of_gate, outer, of_gate)
        return f, v

    def effects(self, rows: DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the effective coefficients of these columns."""
        covariance = np.diag(self.extra)
        for members, outer in self.shared:
            covariance[np.ix_(members, members)] += outer
        return with_covariance(self.distribution.effects(rows, columns), covariance, rows, columns)


def with_covariance(effects: Effects, added: Array, rows: DenseRows, columns: NDArray[np.intp]) -> Effects:
    """Add a further covariance of the coefficients."""
    of_columns = _padded(added, len(added), columns)
    covariance = _padded(of_columns.T, len(added), columns)
    return Effects(effects.mean, effects.with_score + rows.matrix.matvec(of_columns.T), effects.covariance + covariance)


def _padded(values: Array, n_coefficients: int, columns: NDArray[np.intp]) -> Array:
    """Values of these columns, 0 for columns without a coefficient."""
    exists = columns < n_coefficients
    if exists.all():
        return values[columns]
    padded = np.zeros((len(columns), *values.shape[1:]))
    padded[exists] = values[columns[exists]]
    return padded


def _plus(gram: Array, precision: Precision) -> Array:
    """gram + Λ in column-major order, which LAPACK takes without a copy."""
    total = gram.copy()
    total.ravel()[:: len(total) + 1] += precision.diagonal
    for left, right, value in precision.couplings:
        rows, columns = np.r_[left], np.r_[right]
        total[rows, columns] += value
        total[columns, rows] += value
    return total.T


def _cholesky(precision: Array) -> Array:
    """Lower Cholesky factor.

    Linearly dependent columns under a wide prior can give a matrix that is not numerically positive definite. Then the
    diagonal is inflated, first by the rounding error of the gram's sums, at most by a factor of 1 + 1e−6.
    """
    lower, info = _potrf(precision, lower=1, clean=1)
    widening = 4 * len(precision) * EPS
    while info != 0 and widening < 1e-6:
        raised = precision.copy(order="F")
        raised.ravel(order="F")[:: len(precision) + 1] *= 1 + widening
        lower, info = _potrf(raised, lower=1, clean=1, overwrite_a=1)
        widening *= 16
    if info != 0:
        raise FloatingPointError(
            "The precision matrix of the coefficients is not positive definite in floating point. The columns are of "
            "extremely different size, or depend on each other linearly under a prior that is nearly flat: standardise "
            "them, drop the dependent ones, or use a prior with a smaller variance."
        )
    return lower


def packed_triangles(matrices: Array) -> Array:
    """Upper triangle of each matrix as a row, with log diagonal."""
    flat, diagonal = _upper_triangle(matrices.shape[1])
    triangles = matrices.reshape(len(matrices), matrices.shape[1] ** 2).take(flat, axis=1)
    triangles[:, diagonal] = np.log(triangles[:, diagonal])
    return triangles


def unpacked_triangles(triangles: Array, size: int) -> Array:
    """The matrices with these triangles: inverse of ``packed_triangles``."""
    flat, diagonal = _upper_triangle(size)
    matrices = np.zeros((len(triangles), size * size))
    matrices[:, flat] = triangles
    matrices[:, flat[diagonal]] = np.exp(triangles[:, diagonal])
    return matrices.reshape(len(triangles), size, size)


@lru_cache(maxsize=16)
def _upper_triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Flat positions of the upper triangle, and of the diagonal within them."""
    rows, columns = np.triu_indices(size)
    return rows * size + columns, np.flatnonzero(rows == columns)
