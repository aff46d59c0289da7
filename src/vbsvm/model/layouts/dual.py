"""The dual layout: many more columns than rows. Matrices are rows × rows or rows × columns, never columns × columns.

Few coefficients have a prior so wide that they are free (the intercept); the others have the precision λ. Given the
free ones, the others' covariance is D − UᵀU with D = diag(1/λ), M = I + W^½ C D Cᵀ W^½ = R Rᵀ and U = R⁻¹ W^½ C D
(Woodbury). The free ones are then integrated in as a core of their own: to subtract two numbers of the size of their
prior variance would leave nothing but rounding.
"""

import weakref
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, solve_triangular

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.gates import DrawnGates, Gates, GateScan
from vbsvm.model.interfaces import Effects, Precision
from vbsvm.model.layouts.dense import LOG_2PI, DenseRows

(_trtri,) = get_lapack_funcs(("trtri",), dtype=np.float64)

# Coefficients with a smaller prior precision than this are free.
FREE = 1e-4
# Gates that are scanned together: the matrix of their own products is formed.
CHUNK = 128


_products: dict[int, tuple[weakref.ref[Array], Array]] = {}


def products_of_rows(design: Array) -> Array:
    """CCᵀ, formed once for all passes and kept as long as the rows are."""
    key = id(design)
    known = _products.get(key)
    if known is not None and known[0]() is design:
        return known[1]
    with single_threaded_blas():
        found = design @ design.T
    _products[key] = weakref.ref(design, lambda _: _products.pop(key, None)), found
    return found


@final
@dataclass(frozen=True, eq=False)
class DualRows:
    """All rows in one block.

    Where all coefficients but the free ones have the same prior precision, and no gates, a pass needs nothing else of
    the size of the columns than products with vectors.
    """

    index: int
    design: Array
    signs: Array
    weights: Array

    @property
    def written(self) -> Array:
        """The rows as an array."""
        return self.design

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        return self.design @ theta

    def gram(self, w: Array) -> "DualGram":
        """CᵀWC, as its parts."""
        return DualGram(self.design, w, np.zeros(self.design.shape[1]), np.ones(self.design.shape[1]))

    def cross(self, u: Array) -> Array:
        """Cᵀu."""
        return u @ self.design

    def columns(self, which: NDArray[np.intp]) -> Array:
        """These columns of the design."""
        return self.design[:, which]

    def multiplying(self, theta: Array, columns: NDArray[np.intp]) -> Array:
        """Coefficients of these columns, the same in all rows."""
        return theta[columns][None]


@final
@dataclass(frozen=True, eq=False)
class DualGram:
    """ΓCᵀWCΓ + diag(extra) with Γ = diag(opened), never formed."""

    design: Array
    w: Array
    extra: Array
    opened: Array

    def __add__(self, other: Self) -> "DualGram":
        """Add the sums of two sets of rows, before gates are applied."""
        return self._with(other, other.w)

    def __sub__(self, other: Self) -> "DualGram":
        """Take away the sums of other rows: they count with the opposite sign."""
        return self._with(other, -other.w)

    def _with(self, other: Self, w: Array) -> "DualGram":
        design, weights = np.concatenate([self.design, other.design]), np.concatenate([self.w, w])
        return DualGram(design, weights, self.extra, self.opened)

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal."""
        return np.square(self.opened) * (self.w @ np.square(self.design)) + self.extra

    def towards(self, other: Self, share: float) -> "DualGram":
        """Move a share of the way to another gram of the same rows."""
        if not share:
            return self
        w, extra = self.w + share * (other.w - self.w), self.extra + share * (other.extra - self.extra)
        return DualGram(self.design, w, extra, self.opened)

    def times(self, theta: Array) -> Array:
        """Product with a vector."""
        return self.opened * ((self.w * (self.design @ (self.opened * theta))) @ self.design) + self.extra * theta

    def gated(self, gates: Gates | None, own: Self) -> "DualGram":
        """G ∘ E[γ̃γ̃ᵀ]; every gate has one coefficient."""
        if gates is None:
            return self
        return DualGram(self.design, self.w, gates.spread * own.diagonal, gates.open)

    def scan(
        self, cross: Array, distribution: "DualGaussian | PointDistribution", gates: Gates, prior_log_odds: Array
    ) -> "DualScan":
        """Full conditionals of the gates."""
        return DualScan(self, cross, distribution, gates, prior_log_odds)

    def conditional(self, cross: Array, precision: Precision) -> "DualGaussian":
        """The distribution of the coefficients (Algorithms 2 and 3, lines 2 and 3)."""
        parts = DualParts(self.design, self.w, self.extra + precision.diagonal, self.opened)
        return DualGaussian(parts.times(cross), parts)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None where that matrix is not positive in floating point."""
        try:
            return self.conditional(right, precision).mean
        except np.linalg.LinAlgError:
            return None


@final
@dataclass(frozen=True, eq=False)
class DualParts:
    """A covariance (ΓCᵀWCΓ + diag λ)⁻¹ = diag(D) − UᵀU + V Vᵀ."""

    design: Array
    w: Array
    lam: Array
    opened: Array

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """Coefficients with next to no prior precision."""
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
        return np.sqrt(self.w)[:, None] * self.design * self.opened

    @cached_property
    def common(self) -> float | None:
        """1/λ where it is the same for all coefficients but the free ones and there are no gates; else None."""
        held = self.lam[self.lam >= FREE]
        if not len(held) or not (self.opened == 1.0).all():
            return None
        return 1.0 / float(held[0]) if np.ptp(held) <= 1e-12 * held[0] else None

    @cached_property
    def of_rows(self) -> Array:
        """CCᵀ of the columns that are not free."""
        of_free = self.design[:, self.free]
        return products_of_rows(self.design) - of_free @ of_free.T

    @cached_property
    def factor(self) -> Array:
        """Lower Cholesky factor of M = I + W^½CΓDΓCᵀW^½."""
        with single_threaded_blas():
            if self.common is None:
                M = (self.weighted * self.diagonal) @ self.weighted.T
            else:
                root = np.sqrt(self.w)
                M = (self.common * root[:, None] * root) * self.of_rows
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
        """Root of the free coefficients' covariance, and how the others follow them: DΓCᵀW^½R⁻ᵀQ."""
        Q = self._free
        inner = np.linalg.cholesky(Q.T @ Q + np.diag(self.lam[self.free]))
        link = self._left_transposed(Q)
        return np.asarray(np.linalg.inv(inner).T, dtype=np.float64), link

    def _left_times(self, right: Array) -> Array:
        """R⁻¹W^½CΓD right."""
        return self._solved(np.sqrt(self.w) * (self.design @ (self.opened * self.diagonal * right)))

    def _left_transposed(self, right: Array) -> Array:
        """The transpose of that matrix times a vector or a matrix."""
        solved = self._solved(right, trans=1)
        scale = self.opened * self.diagonal
        if right.ndim == 1:
            return scale * ((np.sqrt(self.w) * solved) @ self.design)
        return scale[:, None] * (self.design.T @ (np.sqrt(self.w)[:, None] * solved))

    @cached_property
    def right(self) -> Array:
        """What the uncertainty of the free coefficients adds, columns × free."""
        root, link = self._free_root_and_link
        with single_threaded_blas():
            V = -link @ root
        V[self.free] = root
        return V

    def times(self, right: Array) -> Array:
        """Σ right."""
        root, link = self._free_root_and_link
        of_free = root @ (root.T @ (right[self.free] - link.T @ right))
        product = self.diagonal * right - self._left_transposed(self._left_times(right)) - link @ of_free
        product[self.free] = of_free
        return product

    @cached_property
    def half_log_det(self) -> float:
        """½ log|Σ|."""
        of_free = float(np.log(np.abs(self._free_root_and_link[0].diagonal())).sum())
        return (
            0.5 * float(np.log(self.diagonal[self.diagonal > 0]).sum())
            - float(np.log(self.factor.diagonal()).sum())
            + of_free
        )

    def row_variances(self) -> Array:
        """dg(CΣCᵀ) of the rows themselves: W^½CΣCᵀW^½ is I − M⁻¹, but for what the free coefficients add."""
        assert self.common is not None
        held = (1.0 - np.einsum("ji,ji->i", self.inverse, self.inverse)) / self.w
        root, _ = self._free_root_and_link
        followed = self.of_rows @ (np.sqrt(self.w)[:, None] * self._solved(self._free, trans=1))
        of_free = (self.design[:, self.free] - self.common * followed) @ root
        return np.maximum(held, 0.0) + np.einsum("if,if->i", of_free, of_free)

    @cached_property
    def free_trace(self) -> float:
        """Sum of the variances of the free coefficients."""
        return float(np.square(self._free_root_and_link[0]).sum())

    @cached_property
    def held_trace(self) -> float:
        """Sum of the variances of all coefficients but the free ones."""
        assert self.common is not None
        n_held = len(self.lam) - len(self.free)
        of_rows = len(self.w) - float(np.vdot(self.inverse, self.inverse))
        root, link = self._free_root_and_link
        return self.common * (n_held - of_rows) + float(np.square(link @ root).sum())

    @cached_property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        spread = (
            self.diagonal - np.einsum("ik,ik->k", self.left, self.left) + np.einsum("kf,kf->k", self.right, self.right)
        )
        return np.maximum(spread, 0.0)


@final
@dataclass(frozen=True, eq=False)
class DualGaussian:
    """N(mean, Σ)."""

    mean: Array
    parts: DualParts

    @property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        return self.parts.variances

    @cached_property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return self.variances + np.square(self.mean)

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        of_mean = float(np.square(self.mean[columns]).sum())
        free = np.isin(np.arange(len(self.mean))[columns], self.parts.free)
        if len(free) == len(self.parts.free) and free.all():
            return of_mean + self.parts.free_trace
        if self.parts.common is None or free.any() or len(free) + len(self.parts.free) != len(self.mean):
            return float(self.squares[columns].sum())
        return of_mean + self.parts.held_trace

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|."""
        return 0.5 * len(self.mean) * (1 + LOG_2PI) + self.parts.half_log_det

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients: columns × columns, for those who ask for it."""
        U, V = self.parts.left[:, :n], self.parts.right[:n]
        return np.diag(self.parts.diagonal[:n]) - U.T @ U + V @ V.T

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.covariances(n) + np.outer(self.mean[:n], self.mean[:n])

    def fixed(self, n: int) -> Self:
        """Itself: all coefficients are those of dense columns."""
        return self

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over the pairs of two strides."""
        D, U, V = self.parts.diagonal, self.parts.left, self.parts.right
        same = D[left].sum() if left == right else 0.0
        spread = same - np.vdot(U[:, left], U[:, right]) + np.vdot(V[left], V[right])
        return float(self.mean[left] @ self.mean[right]) + float(spread)

    def quadratic(self, gram: DualGram) -> float:
        """E[θᵀ gram θ]."""
        of_rows = self.written_message(None).variances(gram.design * gram.opened)
        spread = float(gram.w @ of_rows) + float(gram.extra @ self.variances)
        return float(self.mean @ gram.times(self.mean)) + spread

    def message(self, gates: Gates | None) -> "DualMessage | KernelMessage":
        """What rows need, with the gates applied."""
        if gates is None and self.parts.common is not None:
            return KernelMessage(self)
        return self.written_message(gates)

    def written_message(self, gates: Gates | None) -> "DualMessage":
        """The same with the parts of the covariance written out, for any rows."""
        D, U, V = self.parts.diagonal, self.parts.left, self.parts.right
        if gates is None:
            return DualMessage(self.mean, D, U, V)
        opened, extra = gates.open, gates.spread * self.squares
        return DualMessage(opened * self.mean, np.square(opened) * D + extra, opened * U, opened[:, None] * V)

    @property
    def precision(self) -> DualGram:
        """Σ⁻¹ = ΓCᵀWCΓ + diag λ."""
        return DualGram(self.parts.design, self.parts.w, self.parts.lam, self.parts.opened)

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """Draw the free ones, then the others given them (Bhattacharya, Chakraborty & Mallick 2016)."""
        parts = self.parts
        u = np.sqrt(parts.diagonal) * rng.standard_normal(len(parts.diagonal))
        of_rows = parts.weighted @ u + rng.standard_normal(len(parts.w))
        noise = u - parts.left.T @ solve_triangular(parts.factor, of_rows, lower=True, check_finite=False)
        return PointDistribution(self.mean + noise + parts.right @ rng.standard_normal(parts.right.shape[1]))

    def at(self, mean: Array) -> "DualGaussian":
        """Move the distribution to another mean."""
        return DualGaussian(mean, self.parts)

    @property
    def packed_size(self) -> int:
        """Length of the packed vector."""
        return 3 * len(self.mean) + len(self.parts.w)

    def pack(self) -> Array:
        """Mean, logs of λ and of the weights, and the gates that Σ was formed with: Σ itself would be too large."""
        return np.concatenate([self.mean, np.log(self.parts.lam), np.log(self.parts.w), self.parts.opened])

    def unpack(self, numbers: Array) -> "DualGaussian":
        """Make the distribution that packs to these numbers, kept within what floating point holds."""
        size, n = len(self.mean), len(self.parts.w)
        mean, lam, w, opened = np.split(numbers, np.cumsum([size, size, n]))
        lam, w = (np.exp(np.clip(x, -100.0, 100.0)) for x in (lam, w))
        return DualGaussian(mean, replace(self.parts, w=w, lam=lam, opened=np.clip(opened, 0.0, 1.0)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class KernelMessage:
    """A distribution whose own rows find their variances among products of rows."""

    distribution: DualGaussian

    def row_moments(self, rows: DualRows | DenseRows) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        if rows.written is not self.distribution.parts.design:
            return self.distribution.written_message(None).row_moments(rows)
        return rows.scores(self.distribution.mean), self.distribution.parts.row_variances()

    def effects(self, rows: DualRows | DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the coefficients of these columns, the same in all rows."""
        return self.distribution.written_message(None).effects(rows, columns)


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualMessage:
    """Mean, and the parts of the covariance diag(D) − UᵀU + V Vᵀ of the effective coefficients.

    Predictions ask with dense rows.
    """

    mean: Array
    D: Array
    U: Array
    V: Array

    def row_moments(self, rows: DualRows | DenseRows) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        return rows.scores(self.mean), self.variances(rows.written)

    def effects(self, rows: DualRows | DenseRows, columns: NDArray[np.intp]) -> Effects:
        """Distribution of the coefficients of these columns, the same in all rows."""
        D, U, V = self.D[columns], self.U[:, columns], self.V[columns]
        with_score = rows.columns(columns) * D - (rows.written @ self.U.T) @ U + (rows.written @ self.V) @ V.T
        return Effects(self.mean[columns][None], with_score, (np.diag(D) - U.T @ U + V @ V.T)[None])

    def variances(self, design: Array) -> Array:
        """dg(CΣCᵀ)."""
        H, free = design @ self.U.T, design @ self.V
        spread = np.square(design) @ self.D - np.square(H).sum(axis=1) + np.square(free).sum(axis=1)
        return np.maximum(spread, 0.0)


@final
@dataclass(frozen=True, eq=False)
class DualScan:
    """Full conditionals of the gates, chunk by chunk; no matrix of columns × columns is formed."""

    gram: DualGram
    cross: Array
    distribution: DualGaussian | PointDistribution
    gates: Gates
    prior_log_odds: Array

    def _scan(self, rng: np.random.Generator | None = None) -> Gates:
        C, w, mean = self.gram.design, self.gram.w, self.distribution.mean
        D, U, V = self._parts()
        opened, log_odds = self.gates.open.copy(), self.gates.log_odds.copy()
        gated, gate_of = np.flatnonzero(self.gates.map.gated), self.gates.map.gate_of
        scores = C @ (opened * mean)
        H, L = (C * opened) @ U.T, (C * opened) @ V
        for begin in range(0, len(gated), CHUNK):
            columns: Any = gated[begin : begin + CHUNK]
            gates = self.gates.part(columns)
            if columns[-1] - columns[0] == len(columns) - 1:
                columns = slice(int(columns[0]), int(columns[-1]) + 1)  # a view, where an index would copy
            Ck, Uk, Vk = C[:, columns], U[:, columns], V[columns]
            WC = w[:, None] * Ck
            met = mean[columns] * (scores @ WC) + np.einsum("ik,ik->k", WC, Ck) * opened[columns] * D[columns]
            met += np.einsum("kn,nk->k", WC.T @ L, Vk.T) - np.einsum("kn,nk->k", WC.T @ H, Uk)
            Omega = np.diag(D[columns]) - Uk.T @ Uk + Vk @ Vk.T + np.outer(mean[columns], mean[columns])
            products = (WC.T @ Ck) * Omega
            # What these gates meet among themselves is left to the scan of the chunk.
            beyond = met - products @ opened[columns]
            linear = self.cross[columns] * mean[columns] - beyond
            found = GateScan(gates, products, linear, self.prior_log_odds[gate_of[columns]]).scan(rng)
            change = found.open - opened[columns]
            scores += Ck @ (change * mean[columns])
            H += (Ck * change) @ Uk.T
            L += (Ck * change) @ Vk
            opened[columns] = found.open
            log_odds[gate_of[columns]] = found.log_odds
        return self.gates.at(log_odds)

    def _parts(self) -> tuple[Array, Array, Array]:
        if isinstance(self.distribution, DualGaussian):
            return self.distribution.parts.diagonal, self.distribution.parts.left, self.distribution.parts.right
        size = len(self.distribution.mean)
        return np.zeros(size), np.zeros((1, size)), np.zeros((size, 1))

    @cached_property
    def result(self) -> Gates:
        """Each gate's distribution in turn, given the distributions of the others."""
        return self._scan()

    def draw(self, rng: np.random.Generator) -> DrawnGates:
        """Each gate drawn in turn, given the others."""
        return DrawnGates(self._scan(rng))
