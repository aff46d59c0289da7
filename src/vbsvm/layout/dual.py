"""The dual layout: many more columns than rows. Matrices are rows × rows or rows × columns, never columns × columns.

Few coefficients have a prior so wide that they are free (the intercept); the others have the precision λ. Given the
free ones, the others' covariance is D − UᵀU with D = diag(1/λ), M = I + W^½ C D Cᵀ W^½ = R Rᵀ and U = R⁻¹ W^½ C D
(Woodbury). The free ones are then integrated in as a core of their own: to subtract two numbers of the size of their
prior variance would leave nothing but rounding.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from scipy.linalg import solve_triangular

from vbsvm.arrays import Array
from vbsvm.gates import DrawnGates, Gates, GateScan
from vbsvm.layout.base import CoefficientLaw, PointLaw, Precision
from vbsvm.layout.dense import LOG_2PI, DenseRows

# Coefficients with a smaller prior precision than this are free.
FREE = 1e-4
# Gates that are scanned together: the matrix of their own products is formed.
CHUNK = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualRows:
    """All rows in one block."""

    dense: DenseRows

    @property
    def index(self) -> int:
        """Place of the block in the data."""
        return self.dense.index

    @property
    def signs(self) -> Array:
        """Labels ±1."""
        return self.dense.signs

    @property
    def weights(self) -> Array:
        """Sample weights, above 0."""
        return self.dense.weights

    @property
    def design(self) -> Array:
        """C."""
        return self.dense.design

    def scores(self, theta: Array) -> Array:
        """Cθ."""
        return self.dense.scores(theta)

    def gram(self, w: Array) -> "DualGram":
        """CᵀWC, as its parts."""
        return DualGram(self.design, w, np.zeros(self.design.shape[1]))

    def cross(self, u: Array) -> Array:
        """Cᵀu."""
        return self.dense.cross(u)


@final
@dataclass(frozen=True, eq=False)
class DualGram:
    """CᵀWC + diag(extra), never formed."""

    design: Array
    w: Array
    extra: Array

    def __add__(self, other: Self) -> "DualGram":
        """All rows are in one block: there is nothing to add."""
        raise NotImplementedError

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of CᵀWC + diag(extra)."""
        return self.w @ np.square(self.design) + self.extra

    def towards(self, other: Self, share: float) -> "DualGram":
        """Move a share of the way to another gram of the same rows."""
        if not share:
            return self
        return DualGram(self.design, self.w + share * (other.w - self.w), self.extra)

    def times(self, theta: Array) -> Array:
        """CᵀWCθ + extra θ."""
        return (self.w * (self.design @ theta)) @ self.design + self.extra * theta

    def gated(self, gates: Gates | None, own: Self) -> "DualGram":
        """G ∘ E[γ̃γ̃ᵀ]; every gate has one coefficient."""
        if gates is None:
            return self
        return DualGram(self.design * gates.open, self.w, gates.spread * own.diagonal)

    def scan(self, cross: Array, law: Any, gates: Gates, prior_log_odds: Array) -> "DualScan":
        """Full conditionals of the gates."""
        return DualScan(self, cross, law, gates, prior_log_odds)

    def conditional(self, cross: Array, precision: Precision) -> "DualGaussian":
        """The law of the coefficients (Algorithms 2 and 3, lines 2 and 3)."""
        lam, half = self.extra + precision.diagonal, np.sqrt(self.w)
        free = np.flatnonzero(lam < FREE)
        D = 1.0 / lam
        D[free] = 0.0
        weighted = half[:, None] * self.design
        CD = weighted * D
        M = CD @ weighted.T
        M.ravel()[:: len(M) + 1] += 1.0
        R = np.asarray(np.linalg.cholesky(M), dtype=np.float64)
        U = solve_triangular(R, CD, lower=True, check_finite=False)
        Q = solve_triangular(R, weighted[:, free], lower=True, check_finite=False)  # R⁻¹W^½X of the free columns
        inner = np.linalg.cholesky(Q.T @ Q + np.diag(lam[free]))
        root = np.linalg.inv(inner).T  # of the free coefficients' covariance
        link = U.T @ Q  # D Cᵀ S X: how the others follow the free ones
        alone = D * cross - U.T @ (U @ cross)
        mean_free = root @ (root.T @ (cross[free] - link.T @ cross))
        mean = alone - link @ mean_free
        mean[free] = mean_free
        V = -link @ root
        V[free] = root
        log_det = float(np.log(D[D > 0]).sum()) - 2 * float(np.log(R.diagonal()).sum())
        log_det += 2 * float(np.log(np.abs(root.diagonal())).sum())
        return DualGaussian(mean, D, U, V, 0.5 * log_det, weighted, R)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None where that matrix is not positive in floating point."""
        try:
            return self.conditional(right, precision).mean
        except np.linalg.LinAlgError:
            return None


@final
@dataclass(frozen=True, eq=False)
class DualGaussian:
    """N(mean, diag(D) − UᵀU + V Vᵀ)."""

    mean: Array
    D: Array
    U: Array
    V: Array
    half_log_det: float
    weighted: Array
    R: Array

    @cached_property
    def variances(self) -> Array:
        """Diagonal of Σ."""
        spread = self.D - np.einsum("ik,ik->k", self.U, self.U) + np.einsum("kf,kf->k", self.V, self.V)
        return np.maximum(spread, 0.0)

    @cached_property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return self.variances + np.square(self.mean)

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|."""
        return 0.5 * len(self.mean) * (1 + LOG_2PI) + self.half_log_det

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients: columns × columns, for those who ask for it."""
        U, V = self.U[:, :n], self.V[:n]
        return np.diag(self.D[:n]) - U.T @ U + V @ V.T

    def outer(self, n: int) -> Array:
        """E[θθᵀ] of the first n coefficients."""
        return self.covariances(n) + np.outer(self.mean[:n], self.mean[:n])

    def fixed(self, n: int) -> Self:
        """Itself: all coefficients are those of dense columns."""
        return self

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over the pairs of two strides."""
        same = self.D[left].sum() if left == right else 0.0
        spread = same - np.vdot(self.U[:, left], self.U[:, right]) + np.vdot(self.V[left], self.V[right])
        return float(self.mean[left] @ self.mean[right]) + float(spread)

    def quadratic(self, gram: DualGram) -> float:
        """E[θᵀ gram θ]."""
        of_rows = DualMessage(self.mean, self.D, self.U, self.V, np.zeros(len(self.mean))).variances(gram.design)
        spread = float(gram.w @ of_rows) + float(gram.extra @ self.variances)
        return float(self.mean @ gram.times(self.mean)) + spread

    def message(self, gates: Gates | None) -> "DualMessage":
        """What rows need, with the gates applied."""
        if gates is None:
            return DualMessage(self.mean, self.D, self.U, self.V, np.zeros(len(self.mean)))
        opened = gates.open
        extra = gates.spread * self.squares
        return DualMessage(
            opened * self.mean, np.square(opened) * self.D, opened * self.U, opened[:, None] * self.V, extra
        )

    def draw(self, rng: np.random.Generator) -> PointLaw:
        """Draw the free ones, then the others given them (Bhattacharya, Chakraborty & Mallick 2016)."""
        n, n_free = len(self.R), self.V.shape[1]
        u = np.sqrt(self.D) * rng.standard_normal(len(self.D))
        of_rows = self.weighted @ u + rng.standard_normal(n)
        noise = u - self.U.T @ solve_triangular(self.R, of_rows, lower=True, check_finite=False)
        return PointLaw(self.mean + noise + self.V @ rng.standard_normal(n_free))

    def at(self, mean: Array) -> "DualGaussian":
        """Move the law to another mean."""
        return DualGaussian(mean, self.D, self.U, self.V, self.half_log_det, self.weighted, self.R)

    packed_size = 0

    def pack(self) -> Array:
        """Not packed: a wide model climbs without extrapolation, which would hold rows × columns numbers a step."""
        raise NotImplementedError

    def unpack(self, numbers: Array) -> Self:
        """See ``pack``."""
        raise NotImplementedError


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualMessage:
    """Mean, and the parts of the covariance of the effective coefficients."""

    mean: Array
    D: Array
    U: Array
    V: Array
    extra: Array

    def row_moments(self, rows: Any) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        return rows.design @ self.mean, self.variances(rows.design)

    def variances(self, design: Array) -> Array:
        """dg(CΣCᵀ)."""
        H, free = design @ self.U.T, design @ self.V
        spread = np.square(design) @ (self.D + self.extra) - np.square(H).sum(axis=1) + np.square(free).sum(axis=1)
        return np.maximum(spread, 0.0)


@final
@dataclass(frozen=True, eq=False)
class DualScan:
    """Full conditionals of the gates, chunk by chunk; no matrix of columns × columns is formed."""

    gram: DualGram
    cross: Array
    law: CoefficientLaw | DualGaussian
    gates: Gates
    prior_log_odds: Array

    def _scan(self, rng: np.random.Generator | None = None) -> Gates:
        C, w, mean = self.gram.design, self.gram.w, self.law.mean
        D, U, V = self._parts()
        opened, log_odds = self.gates.open.copy(), self.gates.log_odds.copy()
        gated = np.flatnonzero(self.gates.map.gated)
        scores = C @ (opened * mean)
        H, L = (C * opened) @ U.T, (C * opened) @ V
        for begin in range(0, len(gated), CHUNK):
            columns = gated[begin : begin + CHUNK]
            Ck, Uk, Vk = C[:, columns], U[:, columns], V[columns]
            WC = w[:, None] * Ck
            met = mean[columns] * (scores @ WC) + self._own(WC, Ck) * opened[columns] * D[columns]
            met += np.einsum("kn,nk->k", WC.T @ L, Vk.T) - np.einsum("kn,nk->k", WC.T @ H, Uk)
            Omega = np.diag(D[columns]) - Uk.T @ Uk + Vk @ Vk.T + np.outer(mean[columns], mean[columns])
            products = (WC.T @ Ck) * Omega
            # What these gates meet among themselves is left to the scan of the chunk.
            beyond = met - products @ opened[columns]
            gates = self.gates.part(columns)
            chunk = GateScan(
                gates.at(log_odds[self.gates.map.gate_of[columns]]),
                products,
                self.cross[columns] * mean[columns] - beyond,
                self.prior_log_odds[self.gates.map.gate_of[columns]],
            )
            found = chunk.scan(rng)
            change = found.open - opened[columns]
            scores += Ck @ (change * mean[columns])
            H += (Ck * change) @ Uk.T
            L += (Ck * change) @ Vk
            opened[columns] = found.open
            log_odds[self.gates.map.gate_of[columns]] = found.log_odds
        return self.gates.at(log_odds)

    def _own(self, WC: Array, Ck: Array) -> Array:
        return np.einsum("ik,ik->k", WC, Ck)

    def _parts(self) -> tuple[Array, Array, Array]:
        if isinstance(self.law, DualGaussian):
            return self.law.D, self.law.U, self.law.V
        size = len(self.law.mean)
        return np.zeros(size), np.zeros((1, size)), np.zeros((size, 1))

    @cached_property
    def result(self) -> Gates:
        """Each gate's law in turn, given the laws of the others."""
        return self._scan()

    def draw(self, rng: np.random.Generator) -> DrawnGates:
        """Each gate drawn in turn, given the others."""
        return DrawnGates(self._scan(rng))
