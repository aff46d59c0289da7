"""The arrow layout: a dense core, and one grouping factor whose levels are independent given the core.

Row i of group g has the score c_iᵀx + z_iᵀu_g. The core x holds the dense columns and all other grouping factors. The
precision of (x, u_1, …, u_m) is an arrow: D_g on the tail's diagonal, B_g next to it. With E_g = D_g⁻¹B_g the core's
distribution is dense with precision A − Σ B_gᵀE_g, and u_g given x has the variance D_g⁻¹. Nothing of m × m is formed.
"""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Self, final

import numpy as np

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.model.gates import DenseScan, Gates, GateScan
from vbsvm.model.interfaces import PointDistribution, Precision, SecondMoments
from vbsvm.model.layouts.dense import LOG_2PI, DenseGaussian, DenseGram, packed_triangles, unpacked_triangles
from vbsvm.model.layouts.grouping import ArrowCoefficients, ByGroup, LevelMoments, by_group

# Cached properties that do not depend on the mean.
MEAN_FREE = ("effect_covariances", "variances")


@final
@dataclass(frozen=True, eq=False)
class ArrowGram:
    """The core's gram A (p × p), the border B (m × q × p), and the corner Z_gᵀW_gZ_g (m × q × q).

    ``shapes`` are levels and effects of the core's factors.
    """

    core: DenseGram
    border_sums: ByGroup
    corner_sums: ByGroup
    shapes: tuple[tuple[int, int], ...]

    @cached_property
    def border(self) -> Array:
        """B_g, m × q × p."""
        return self.border_sums.to_array()

    @cached_property
    def corner(self) -> Array:
        """Z_gᵀW_gZ_g, m × q × q."""
        return self.corner_sums.to_array()

    def __add__(self, other: Self) -> "ArrowGram":
        """Add the sums of two sets of rows."""
        border, corner = self.border_sums + other.border_sums, self.corner_sums + other.corner_sums
        return ArrowGram(self.core + other.core, border, corner, self.shapes)

    def __sub__(self, other: Self) -> "ArrowGram":
        """Subtract the sums of other rows."""
        border, corner = self.border_sums - other.border_sums, self.corner_sums - other.corner_sums
        return ArrowGram(self.core - other.core, border, corner, self.shapes)

    def interpolate(self, other: Self, fraction: float) -> "ArrowGram":
        """(1 − fraction) × this gram + fraction × another."""
        border = self.border + fraction * (other.border - self.border)
        corner = self.corner + fraction * (other.corner - self.corner)
        return ArrowGram(self.core.interpolate(other.core, fraction), by_group(border), by_group(corner), self.shapes)

    def times(self, theta: Array) -> Array:
        """Product with [x; u]."""
        x, u = self._split(theta)
        border = _flat(self.border)
        head = self.core.times(x) + u.ravel() @ border
        tail = border @ x + _times(self.corner, u[:, :, None]).ravel()
        return np.concatenate([head, tail])

    def gated(self, gates: Gates, own: Self) -> "ArrowGram":
        """G ∘ E[γ̃γ̃ᵀ]; only the core has indicators."""
        border = self.border * gates.by_coefficient[: self.border.shape[2]]
        return ArrowGram(self.core.gated(gates, own.core), by_group(border), by_group(self.corner), self.shapes)

    def scan(
        self, cross: Array, distribution: "ArrowGaussian | PointDistribution", gates: Gates, prior_log_odds: Array
    ) -> GateScan:
        """Full conditionals of the indicators; products with random effects are part of the linear term."""
        A = self.core.matrix
        linear = (cross * distribution.mean)[: len(A)] - distribution.cross_moments(_flat(self.border))
        return DenseScan(gates, A * distribution.outer(len(A)), linear, prior_log_odds)

    def conditional(self, cross: Array, precision: Precision) -> "ArrowGaussian":
        """The distribution of [x; u]: D_g is eliminated first, then the core is dense (Algorithm 2, lines 2 and 3)."""
        of_core, root, half = self._eliminate(precision)
        r_x, reduced = self._reduce(cross, root, half)
        core = self._without_groups(half).conditional(r_x, of_core)
        return ArrowGaussian(core, _effects(root, half, reduced, core.mean), root, _times(root, half), self.shapes)

    def solve(self, right: Array, precision: Precision) -> Array | None:
        """(G + Λ)⁻¹ right, or None if that matrix is not numerically positive definite."""
        try:
            of_core, root, half = self._eliminate(precision)
        except np.linalg.LinAlgError:
            return None
        r_x, reduced = self._reduce(right, root, half)
        x = self._without_groups(half).solve(r_x, of_core)
        return None if x is None else np.concatenate([x, _effects(root, half, reduced, x).ravel()])

    def _eliminate(self, precision: Precision) -> tuple[Precision, Array, Array]:
        """Λ of the core, upper triangular roots R_g of D_g⁻¹ = R_gR_gᵀ, and R_gᵀB_g."""
        n_core, q = self.border.shape[2], self.border.shape[1]
        diagonal, diagonals = self._split(precision.diagonal)
        of_groups = diagonals[:, :, None] if q == 1 else diagonals[:, :, None] * np.eye(q)
        couplings = []
        for left, right, value in precision.couplings:
            if left.start < n_core:
                couplings.append((left, right, value))
            else:
                j, k = left.start - n_core, right.start - n_core
                of_groups[:, j, k] = of_groups[:, k, j] = value
        D = self.corner + of_groups
        root = np.sqrt(1.0 / D) if q == 1 else inverse(cholesky(D)).transpose(0, 2, 1)
        return Precision(diagonal, tuple(couplings)), root, _times(root.transpose(0, 2, 1), self.border)

    def _reduce(self, right: Array, root: Array, half: Array) -> tuple[Array, Array]:
        """Right side of the core, r_x − Σ E_gᵀr_g, and R_gᵀr_g."""
        r_x, r_u = self._split(right)
        reduced = _times(root.transpose(0, 2, 1), r_u[:, :, None])[:, :, 0]
        return r_x - reduced.ravel() @ _flat(half), reduced

    def _without_groups(self, half: Array) -> DenseGram:
        """A − Σ B_gᵀE_g."""
        tail = _flat(half)
        return DenseGram(self.core.matrix - tail.T @ tail)

    def _split(self, theta: Array) -> tuple[Array, Array]:
        n_core, q = self.border.shape[2], self.border.shape[1]
        return theta[:n_core], theta[n_core:].reshape(-1, q)


@final
@dataclass(frozen=True, eq=False)
class ArrowGaussian(SecondMoments):
    """The distribution of the core, and u_g | x ~ N(effects_g − link_g (x − E x), root_g root_gᵀ)."""

    core: DenseGaussian
    effects: Array
    root: Array
    link: Array
    shapes: tuple[tuple[int, int], ...]

    @cached_property
    def mean(self) -> Array:
        """E[x] and then E[u_g], group by group."""
        return np.concatenate([self.core.mean, self.effects.ravel()])

    @cached_property
    def effect_covariances(self) -> Array:
        """Var(u_g) = D_g⁻¹ + E_gΣE_gᵀ, m × q × q."""
        root, through_core = self.root, (_flat(self.link) @ self.core.root).reshape(self.link.shape)
        if root.shape[1] == 1:
            return np.square(root) + np.einsum("gqp,gqp->g", through_core, through_core)[:, None, None]
        return root @ root.transpose(0, 2, 1) + through_core @ through_core.transpose(0, 2, 1)

    @cached_property
    def variances(self) -> Array:
        """Var(θ), elementwise."""
        return np.concatenate([self.core.variances, _diagonals(self.effect_covariances).ravel()])

    def covariances(self, n: int) -> Array:
        """Covariance of the first n coefficients of the core."""
        return self.core.covariances(n)

    def marginal(self, n: int) -> DenseGaussian:
        """Distribution of the first n coefficients of the core."""
        return self.core.marginal(n)

    def products(self, left: slice, right: slice) -> float:
        """Σ E[θ_j θ_k] over corresponding elements of two slices, both in the core or both in the tail."""
        n_core = len(self.core.mean)
        if left.start < n_core:
            return self.core.products(left, right)
        j, k = left.start - n_core, right.start - n_core
        return float(self.effects[:, j] @ self.effects[:, k]) + float(self.effect_covariances[:, j, k].sum())

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|, and log|Σ| = log|Σ_xx| − Σ log|D_g|."""
        logs = np.log(_diagonals(self.root))
        return self.core.entropy + 0.5 * self.effects.size * (1 + LOG_2PI) + float(logs.sum())

    def outer(self, n: int) -> Array:
        """E[xxᵀ] of the first n coefficients of the core."""
        return self.core.outer(n)

    def cross_moments(self, border: Array) -> Array:
        """Σ B E[u x_k] over all random effects u, for each coefficient x_k of the core."""
        covariance = np.einsum("ik,ik->k", border, _flat(self.link) @ self.core.covariance)
        return (self.effects.ravel() @ border) * self.core.mean - covariance

    def effective(self, gates: Gates | None) -> "ArrowCoefficients":
        """Distribution of the effective coefficients, with moments by level for lookup."""
        n_dense = len(self.core.mean) - sum(m * q for m, q in self.shapes)
        dense, *places = core_slices(n_dense, self.shapes)
        Sigma = self.core.covariance
        with_core = -(_flat(self.link) @ Sigma).reshape(self.link.shape)
        factors, pairs = [], {}
        for k, (columns, (m, q)) in enumerate(zip(places, self.shapes, strict=True)):
            within = np.einsum("gqgr->gqr", Sigma[columns, columns].reshape(m, q, m, q))
            factors.append(
                LevelMoments(
                    self.core.mean[columns].reshape(m, q), Sigma[columns, dense].reshape(m, q, n_dense), within
                )
            )
            for j, (other, shape) in enumerate(zip(places[:k], self.shapes, strict=False)):
                pairs[k, j] = Sigma[columns, other].reshape(m, q, *shape)
            pairs[len(places), k] = with_core[:, :, columns].reshape(*self.effects.shape, m, q)
        factors.append(LevelMoments(self.effects, with_core[:, :, dense], self.effect_covariances))
        if gates is not None:
            factors = [
                replace(distribution, with_dense=distribution.with_dense * gates.by_coefficient[:n_dense])
                for distribution in factors
            ]
        return ArrowCoefficients(self.core.marginal(n_dense).effective(gates), tuple(factors), pairs)

    def quadratic(self, gram: ArrowGram) -> float:
        """⟨gram, Ω⟩, from Cov(u_g, x) = −E_gΣ."""
        Sigma = self.core.covariance
        spread = np.vdot(gram.core.matrix, Sigma) - 2 * np.vdot(gram.border, self.link @ Sigma)
        spread += np.vdot(gram.corner, self.effect_covariances)
        return float(self.mean @ gram.times(self.mean)) + float(spread)

    @property
    def precision(self) -> ArrowGram:
        """Σ⁻¹: D_g in the corner, D_gE_g on the border, and the core's precision + Σ E_gᵀD_gE_g."""
        half = inverse(self.root)
        corner = half.transpose(0, 2, 1) @ half
        border = corner @ self.link
        core = DenseGram(self.core.precision.matrix + _flat(self.link).T @ _flat(border))
        return ArrowGram(core, by_group(border), by_group(corner), self.shapes)

    def draw(self, rng: np.random.Generator) -> PointDistribution:
        """Draw the core, then each group given the core."""
        x = self.core.draw(rng).mean
        noise = np.einsum("gqr,gr->gq", self.root, rng.standard_normal(self.effects.shape))
        return PointDistribution(np.concatenate([x, (self.effects - self.link @ (x - self.core.mean) + noise).ravel()]))

    def with_mean(self, mean: Array) -> "ArrowGaussian":
        """A copy with another mean."""
        n_core = len(self.core.mean)
        effects = mean[n_core:].reshape(self.effects.shape)
        moved = ArrowGaussian(self.core.with_mean(mean[:n_core]), effects, self.root, self.link, self.shapes)
        vars(moved).update({name: vars(self)[name] for name in MEAN_FREE if name in vars(self)})
        return moved

    def pack(self) -> Array:
        """The packed core, effects, the triangles of the groups' roots with logs on the diagonal, and the links."""
        triangles = packed_triangles(self.root).ravel()
        return np.concatenate([self.core.pack(), self.effects.ravel(), triangles, self.link.ravel()])

    def unpack(self, numbers: Array) -> "ArrowGaussian":
        """The distribution with these parameters: inverse of ``pack``."""
        m, q = self.effects.shape
        lengths = m * q, m * (q * (q + 1) // 2), self.link.size
        core, effects, triangles, link = np.split(numbers, len(numbers) - np.cumsum(lengths[::-1])[::-1])
        root = unpacked_triangles(triangles.reshape(m, -1), q)
        core, effects = self.core.unpack(core), effects.reshape(m, q)
        return ArrowGaussian(core, effects, root, link.reshape(self.link.shape), self.shapes)


def core_slices(n_dense: int, shapes: tuple[tuple[int, int], ...]) -> list[slice]:
    """Slices of the core: the dense columns, then each factor."""
    ends = [0, *accumulate((m * q for m, q in shapes), initial=n_dense)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _flat(blocks: Array) -> Array:
    """The blocks of all levels, stacked."""
    m, q, n_core = blocks.shape
    return blocks.reshape(m * q, n_core)


def _diagonals(matrices: Array) -> Array:
    """Diagonals of the levels' matrices."""
    return matrices[:, 0] if matrices.shape[1] == 1 else np.einsum("gqq->gq", matrices)


def _times(left: Array, right: Array) -> Array:
    """Product of each level's matrices; with q = 1 by plain multiplication, which is faster."""
    return left * right if left.shape[1] == 1 else left @ right


def _effects(root: Array, half: Array, reduced: Array, x: Array) -> Array:
    """u_g = D_g⁻¹(r_g − B_gx)."""
    rest = reduced - (_flat(half) @ x).reshape(reduced.shape)
    return _times(root, rest[:, :, None])[:, :, 0]
