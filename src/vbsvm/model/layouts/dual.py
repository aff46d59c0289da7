"""The dual layout for many more columns than rows: no matrix of columns × columns (``dual_parts``) is formed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import DenseScan, Gates, GateScan
from vbsvm.model.interfaces import Effects, PointDistribution, Precision, SecondMoments
from vbsvm.model.layouts.dense import LOG_2PI, DenseRows
from vbsvm.model.layouts.dual_parts import DualParts, SparseDesign, WideDesign, as_array

# Number of indicators that are scanned together, for which the matrix of products is formed.
CHUNK = 128


@final
@dataclass(frozen=True, eq=False)
class DualRows:
    """All rows in one block."""

    index: int
    design: WideDesign
    y: Array
    weights: Array

    @property
    def as_array(self) -> Array:
        """The rows as an array."""
        return as_array(self.design)

    def array_chunks(self) -> Iterator[Array]:
        """All rows as one chunk."""
        yield self.as_array

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        return self.design @ theta

    def gram(self, w: Array) -> "DualGram":
        """CᵀWC, represented by its factors."""
        return DualGram(self.design, w, np.zeros(self.design.shape[1]), np.ones(self.design.shape[1]))

    def cross(self, u: Array) -> Array:
        """Cᵀu."""
        return u @ self.design

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        return self.design[:, which]

    def slopes_by_row(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """Coefficients of these columns, the same in all rows."""
        return theta[columns][None]


@final
@dataclass(frozen=True, eq=False)
class DualGram:
    """ΓCᵀWCΓ + diag(extra) with Γ = diag(opened), never formed."""

    design: WideDesign
    w: Array
    extra: Array
    opened: Array

    def __add__(self, other: Self) -> "DualGram":
        """Add the sums of two sets of rows, before indicators are applied."""
        return self._with(other, other.w)

    def __sub__(self, other: Self) -> "DualGram":
        """Subtract the sums of other rows: these have negative weights."""
        return self._with(other, -other.w)

    def _with(self, other: Self, w: Array) -> "DualGram":
        design = np.concatenate([as_array(self.design), as_array(other.design)])
        return DualGram(design, np.concatenate([self.w, w]), self.extra, self.opened)

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal."""
        return np.square(self.opened) * (self.w @ np.square(as_array(self.design))) + self.extra

    def interpolate(self, other: Self, fraction: float) -> "DualGram":
        """(1 − fraction) × this gram + fraction × another of the same rows."""
        w, extra = self.w + fraction * (other.w - self.w), self.extra + fraction * (other.extra - self.extra)
        return DualGram(self.design, w, extra, self.opened)

    def times(self, theta: Array) -> Array:
        """Product with a vector."""
        return self.opened * ((self.w * (self.design @ (self.opened * theta))) @ self.design) + self.extra * theta

    def gated(self, gates: Gates, own: Self) -> "DualGram":
        """G ∘ E[γ̃γ̃ᵀ]; no indicator is shared."""
        return DualGram(self.design, self.w, gates.variance * own.diagonal, gates.by_coefficient)

    def scan(
        self, cross: Array, distribution: "DualGaussian | PointDistribution", gates: Gates, prior_log_odds: Array
    ) -> "DualScan":
        """Full conditionals of the indicators."""
        return DualScan(self, cross, distribution, gates, prior_log_odds)

    def conditional(self, cross: Array, precision: Precision) -> "DualGaussian":
        """The distribution of the coefficients (Algorithms 2 and 3, lines 2 and 3)."""
        parts = DualParts(self.design, self.w, self.extra + precision.diagonal, self.opened)
        return DualGaussian(parts.times(cross), parts)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None if that matrix is not numerically positive definite."""
        try:
            return self.conditional(right, precision).mean
        except np.linalg.LinAlgError:
            return None


@final
@dataclass(frozen=True, eq=False)
class DualGaussian(SecondMoments):
    """N(mean, Σ)."""

    mean: Array
    parts: DualParts

    @property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        return self.parts.variances

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        of_mean = float(np.square(self.mean[columns]).sum())
        free = np.isin(np.arange(len(self.mean))[columns], self.parts.free)
        if len(free) == len(self.parts.free) and free.all():
            return of_mean + self.parts.free_trace
        if self.parts.common_variance is None or free.any() or len(free) + len(self.parts.free) != len(self.mean):
            return float(self.squares[columns].sum())
        return of_mean + self.parts.penalised_trace

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|."""
        return 0.5 * len(self.mean) * (1 + LOG_2PI) + self.parts.half_log_det

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients, n × n."""
        U, V = self.parts.left[:, :n], self.parts.right[:n]
        return np.diag(self.parts.diagonal[:n]) - U.T @ U + V @ V.T

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices."""
        D, U, V = self.parts.diagonal, self.parts.left, self.parts.right
        same = D[left].sum() if left == right else 0.0
        spread = same - np.vdot(U[:, left], U[:, right]) + np.vdot(V[left], V[right])
        return float(self.mean[left] @ self.mean[right]) + float(spread)

    def quadratic(self, gram: DualGram) -> float:
        """E[θᵀ gram θ]."""
        of_rows = self.materialised(None).variances(as_array(gram.design) * gram.opened)
        spread = float(gram.w @ of_rows) + float(gram.extra @ self.variances)
        return float(self.mean @ gram.times(self.mean)) + spread

    def effective(self, gates: Gates | None) -> "DualGaussian | DualCoefficients":
        """Distribution of the effective coefficients; itself without indicators."""
        return self if gates is None else self.materialised(gates)

    def row_moments(self, rows: DualRows | DenseRows) -> tuple[Array, Array]:
        """Mean and variance of each row's score; variances for the rows of the fit may follow from CCᵀ."""
        if self.parts.common_variance is not None:
            if isinstance(rows, DualRows) and rows.design is self.parts.design:
                return rows.scores(self.mean), self.parts.row_variances()
            if isinstance(self.parts.design, SparseDesign):
                chunks = [self.parts.variances_of(part) for part in rows.array_chunks()]
                return rows.scores(self.mean), np.concatenate(chunks)
        return self.materialised(None).row_moments(rows)

    def effects(self, rows: DualRows | DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the coefficients of these columns, the same in all rows."""
        return self.materialised(None).effects(rows, columns)

    def materialised(self, gates: Gates | None) -> "DualCoefficients":
        """Distribution of the effective coefficients with explicit factors of the covariance, for any rows."""
        D, U, V = self.parts.diagonal, self.parts.left, self.parts.right
        if gates is None:
            return DualCoefficients(self.mean, D, U, V)
        opened, extra = gates.by_coefficient, gates.variance * self.squares
        return DualCoefficients(opened * self.mean, np.square(opened) * D + extra, opened * U, opened[:, None] * V)

    @property
    def precision(self) -> DualGram:
        """Σ⁻¹ = ΓCᵀWCΓ + diag λ."""
        return DualGram(self.parts.design, self.parts.w, self.parts.lam, self.parts.opened)

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """Draw the free ones, then the others given them (Bhattacharya, Chakraborty & Mallick 2016)."""
        parts = self.parts
        u = np.sqrt(parts.diagonal) * rng.standard_normal(len(parts.diagonal))
        of_rows = np.sqrt(parts.w) * (parts.design @ (parts.opened * u)) + rng.standard_normal(len(parts.w))
        noise = u - parts.left_transposed(solve_triangular(parts.factor, of_rows, lower=True, check_finite=False))
        return PointDistribution(self.mean + noise + parts.right @ rng.standard_normal(parts.right.shape[1]))

    def with_mean(self, mean: Array) -> "DualGaussian":
        """A copy with another mean."""
        return DualGaussian(mean, self.parts)

    def pack(self) -> Array:
        """Mean, logs of λ and of the weights, and the indicators that define Σ, as Σ itself would be too large."""
        return np.concatenate([self.mean, np.log(self.parts.lam), np.log(self.parts.w), self.parts.opened])

    def unpack(self, numbers: Array) -> "DualGaussian":
        """The distribution with these parameters, clipped to the range of floating point."""
        size, n = len(self.mean), len(self.parts.w)
        mean, lam, w, opened = np.split(numbers, np.cumsum([size, size, n]))
        lam, w = (np.exp(np.clip(x, -100.0, 100.0)) for x in (lam, w))
        return DualGaussian(mean, replace(self.parts, w=w, lam=lam, opened=np.clip(opened, 0.0, 1.0)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualCoefficients:
    """Mean, and factors of the covariance diag(D) − UᵀU + V Vᵀ of the effective coefficients; for dense rows, too."""

    mean: Array
    D: Array
    U: Array
    V: Array

    def row_moments(self, rows: DualRows | DenseRows) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        return rows.scores(self.mean), self.variances(rows.as_array)

    def effects(self, rows: DualRows | DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the coefficients of these columns, the same in all rows."""
        D, U, V = self.D[columns], self.U[:, columns], self.V[columns]
        with_score = rows.columns(columns) * D - (rows.as_array @ self.U.T) @ U + (rows.as_array @ self.V) @ V.T
        return Effects(self.mean[columns][None], with_score, (np.diag(D) - U.T @ U + V @ V.T)[None])

    def variances(self, design: Array) -> Array:
        """dg(CΣCᵀ)."""
        H, free = design @ self.U.T, design @ self.V
        spread = np.square(design) @ self.D - np.square(H).sum(axis=1) + np.square(free).sum(axis=1)
        return np.maximum(spread, 0.0)


@final
@dataclass(frozen=True, eq=False)
class DualScan(GateScan):
    """Full conditionals of the indicators, chunk by chunk; no matrix of columns × columns is formed."""

    gram: DualGram
    cross: Array
    distribution: DualGaussian | PointDistribution
    gates: Gates
    prior_log_odds: Array

    def scan(self, rng: np.random.Generator | None = None) -> Gates:
        """Update each indicator in turn; draw it if there is a generator."""
        C, w, mean = as_array(self.gram.design), self.gram.w, self.distribution.mean
        D, U, V = self._parts()
        opened, log_odds = self.gates.by_coefficient.copy(), self.gates.log_odds.copy()
        gated, gate_of = np.flatnonzero(self.gates.map.gated), self.gates.map.gate_of
        scores = C @ (opened * mean)
        H, L = (C * opened) @ U.T, (C * opened) @ V
        for begin in range(0, len(gated), CHUNK):
            columns: Any = gated[begin : begin + CHUNK]
            gates = self.gates.subset(columns)
            if columns[-1] - columns[0] == len(columns) - 1:
                columns = slice(int(columns[0]), int(columns[-1]) + 1)  # a view, where an index would copy
            Ck, Uk, Vk = C[:, columns], U[:, columns], V[columns]
            WC = w[:, None] * Ck
            cross = mean[columns] * (scores @ WC) + np.einsum("ik,ik->k", WC, Ck) * opened[columns] * D[columns]
            cross += np.einsum("kn,nk->k", WC.T @ L, Vk.T) - np.einsum("kn,nk->k", WC.T @ H, Uk)
            Omega = np.diag(D[columns]) - Uk.T @ Uk + Vk @ Vk.T + np.outer(mean[columns], mean[columns])
            products = (WC.T @ Ck) * Omega
            # Products among these indicators are part of the scan of the chunk.
            beyond = cross - products @ opened[columns]
            linear = self.cross[columns] * mean[columns] - beyond
            updated = DenseScan(gates, products, linear, self.prior_log_odds[gate_of[columns]]).scan(rng)
            change = updated.by_coefficient - opened[columns]
            scores += Ck @ (change * mean[columns])
            H += (Ck * change) @ Uk.T
            L += (Ck * change) @ Vk
            opened[columns] = updated.by_coefficient
            log_odds[gate_of[columns]] = updated.log_odds
        return self.gates.with_log_odds(log_odds)

    def _parts(self) -> tuple[Array, Array, Array]:
        if isinstance(self.distribution, DualGaussian):
            return self.distribution.parts.diagonal, self.distribution.parts.left, self.distribution.parts.right
        size = len(self.distribution.mean)
        return np.zeros(size), np.zeros((1, size)), np.zeros((size, 1))
