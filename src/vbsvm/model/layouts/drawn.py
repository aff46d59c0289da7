"""Layout for too many rows and columns for an exact covariance, which is estimated by draws.

With B = [W^½C; Λ^½] the covariance is Σ = (BᵀB)⁻¹, and P = BΣBᵀ is a projection. For z ~ N(0, I), e = ΣBᵀz has the
covariance Σ: a draw is the solution of one linear system, by conjugate gradients. The same z are used in all steps of a
fit (common random numbers), so that estimates change as smoothly as the weights.

Elements of Be = Pz and of z − Pz are independent, with variances h = P_ii and 1 − h. So their mean squares a and b over
the draws both estimate h, and with it the variance of row i's score, v = h/w, or that of coefficient j, Σ_jj = h/λ. The
estimates a and 1 − b are weighted by 1/h² and 1/(1 − h)², the inverses of their variances.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, sum_terms
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import Effects, PointDistribution, Precision, Rows, SecondMoments
from vbsvm.model.layouts.dense import MatrixRows

# Number of draws in the steps of a fit, whose errors partly cancel over rows, and for standard errors. The relative
# error of a variance is √(2/draws) or less.
DRAWS, N_FINAL_DRAWS = 24, 64
SEED = 0
# Relative tolerance of conjugate gradients, in the norm of the preconditioner.
ACCURACY = 2e-3
ACCURACY_OF_MEAN = 1e-6
ACCURACY_OF_STEP = 0.03
MAX_STEPS = 500
# Covariances of more coefficients are not materialised.
MAX_MATERIALISED = 5000
# Lower limit of an estimated variance, as a fraction of the mean square of its draws.
MIN_FRACTION = 0.1


@final
@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows(MatrixRows):
    """Rows of this layout, whose gram is never formed."""

    def gram(self, w: Array) -> Any:
        """CᵀWC as a ``DrawnGram``, which has no indicators and no differences."""
        return DrawnGram(((self, w),))

    def noise(self, n_draws: int) -> Array:
        """z of these rows, rows × draws: the same in all steps of a fit."""
        return np.random.default_rng([SEED, 1 + self.index]).standard_normal((len(self.y), n_draws))


@final
@dataclass(frozen=True, eq=False)
class DrawnGram:
    """CᵀWC, represented by rows and weights."""

    parts: tuple[tuple[DrawnRows, Array], ...]

    def __add__(self, other: Self) -> "DrawnGram":
        """Add the sums of two sets of rows."""
        return DrawnGram(self.parts + other.parts)

    def times(self, theta: Array) -> Array:
        """CᵀWCθ, for a vector or the columns of a matrix."""
        if theta.ndim == 1:
            return sum_terms(rows.matrix.rmatvec(w * rows.matrix.matvec(theta)) for rows, w in self.parts)
        return sum_terms(rows.matrix.rmatvec(w[:, None] * rows.matrix.matvec(theta)) for rows, w in self.parts)

    @cached_property
    def diagonal(self) -> Array:
        """Σ w c²."""
        return sum_terms(rows.matrix.column_squares(w) for rows, w in self.parts)

    def conditional(self, cross: Array, precision: Precision) -> "DrawnGaussian":
        """Draws from N(μ, Σ) with Σ = (G + Λ)⁻¹ and μ = Σ r."""
        mean = self._solved(cross[:, None], precision, ACCURACY_OF_MEAN)
        return self.drawn(mean[:, 0], precision, N_FINAL_DRAWS)

    def drawn(
        self, mean: Array, precision: Precision, n_draws: int, near: "DrawnGaussian | None" = None
    ) -> "DrawnGaussian":
        """Draws around a mean; ``near`` is a similar distribution, from which conjugate gradients start."""
        root = np.sqrt(precision.diagonal)[:, None]
        noise = np.random.default_rng([SEED, 0]).standard_normal((len(root), n_draws))
        right = root * noise
        for rows, w in self.parts:
            right += rows.matrix.rmatvec(np.sqrt(w)[:, None] * rows.noise(n_draws))
        draws = self._solved(right, precision, ACCURACY, None if near is None else near.draws.T)
        of_rows = {
            rows.index: _estimate(rows.matrix.matvec(draws), rows.noise(n_draws), np.sqrt(w)[:, None])
            for rows, w in self.parts
        }
        return DrawnGaussian(mean, draws.T, _estimate(draws, noise, root), of_rows)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None if that matrix is not numerically positive definite."""
        solution = self._solved(right[:, None], precision, ACCURACY_OF_STEP)[:, 0]
        return solution if np.isfinite(solution).all() else None

    def _solved(self, right: Array, precision: Precision, accuracy: float, start: Array | None = None) -> Array:
        """Conjugate gradients for all columns of the right side together, preconditioned by the diagonal of G + Λ."""
        lam = precision.diagonal[:, None]
        inverse = 1.0 / (self.diagonal[:, None] + lam)
        enough = accuracy**2 * np.einsum("ij,ij->j", right, inverse * right)
        solution = np.zeros_like(right) if start is None else start.copy()
        residual = right.copy() if start is None else right - self.times(solution) - lam * solution
        towards = inverse * residual
        square, search = np.einsum("ij,ij->j", residual, towards), towards.copy()
        for _ in range(MAX_STEPS):
            if not (square > enough).any():
                break
            product = self.times(search)
            product += lam * search
            along = np.einsum("ij,ij->j", search, product)
            step = np.divide(square, along, out=np.zeros_like(square), where=along > 0)
            solution += step * search
            residual -= np.multiply(product, step, out=product)
            np.multiply(inverse, residual, out=towards)
            before, square = square, np.einsum("ij,ij->j", residual, towards)
            search *= np.divide(square, before, out=np.zeros_like(square), where=before > 0)
            search += towards
        return solution


def _estimate(draws: Array, noise: Array, root: Array) -> Array:
    """Variances of elements from their draws, which times their root are elements of Pz; ``noise`` is z."""
    direct = np.square(draws).mean(axis=1)  # a/root²
    rest = np.square(noise - root * draws).mean(axis=1)  # b
    total = np.square(root[:, 0]) * direct + rest
    ratio = direct / total  # first estimate of h/root²
    h = np.square(root[:, 0]) * ratio
    weighted = np.square(1.0 - h) * direct + (1.0 - rest) * h * ratio
    return np.maximum(weighted / (np.square(1.0 - h) + np.square(h)), MIN_FRACTION * direct)


@final
@dataclass(frozen=True, eq=False)
class DrawnGaussian(SecondMoments):
    """N(mean, Σ) by draws e ~ N(0, Σ), draws × coefficients, and estimates of Σ's diagonal.

    In a fit it also has more accurate variances of the rows' scores, by the number of the block.
    """

    mean: Array
    draws: Array
    variances: Array
    _of_rows: dict[int, Array] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """State for copies and pickles, without that of the rows."""
        return {"mean": self.mean, "draws": self.draws, "variances": self.variances, "_of_rows": {}}

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns; variances by the draws themselves, whose errors cancel in a sum."""
        spread = float(np.square(self.draws[:, columns]).sum()) / len(self.draws)
        return float(np.square(self.mean[columns]).sum()) + spread

    @property
    def entropy(self) -> float:
        """NaN, as the determinant of Σ is not estimated."""
        return math.nan

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients."""
        if n > MAX_MATERIALISED:
            raise ValueError(
                f"The covariance of {n} coefficients is not formed; their standard deviations are available."
            )
        return self.draws[:, :n].T @ self.draws[:, :n] / len(self.draws)

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        spread = float(np.vdot(self.draws[:, left], self.draws[:, right])) / len(self.draws)
        return float(self.mean[left] @ self.mean[right]) + spread

    def quadratic(self, gram: DrawnGram) -> float:
        """E[θᵀ gram θ]."""
        spread = float(np.vdot(self.draws.T, gram.times(self.draws.T))) / len(self.draws)
        return float(self.mean @ gram.times(self.mean)) + spread

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """The mean and one of the draws."""
        return PointDistribution(self.mean + self.draws[rng.integers(len(self.draws))])

    def effective(self, gates: Gates | None) -> "DrawnGaussian":
        """Itself, as this layout has no indicators."""
        assert gates is None
        return self

    def row_moments(self, rows: Any) -> tuple[Array, Array]:
        """Mean and variance of each row's score; by the draws alone for rows that are not those of the fit."""
        mean = rows.scores(self.mean)
        if isinstance(rows, DrawnRows) and rows.index in self._of_rows:
            return mean, self._of_rows[rows.index]
        return mean, np.square(rows.matrix.matvec(self.draws.T)).mean(axis=1)

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Not implemented: this layout has no missing values."""
        raise NotImplementedError

    def with_mean(self, mean: Array) -> "DrawnGaussian":
        """A copy with another mean."""
        return DrawnGaussian(mean, self.draws, self.variances, self._of_rows)
