"""The arrow layout: a dense core, and one grouping factor whose effects meet each other only through the core.

Row i of group g has the score c_iᵀx + z_iᵀu_g, where z_i are some of the core's own columns (the intercept, slopes).
The precision of (x, u_1, …, u_m) is an arrow: D_g on the tail's diagonal, B_g beside it. With E_g = D_g⁻¹B_g the core's
law is dense with precision A − Σ B_gᵀE_g, and u_g given x has the variance D_g⁻¹. Nothing of m × m is formed.
"""

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.layout.base import PointLaw
from vbsvm.layout.dense import LOG_2PI, DenseGaussian, DenseGram, DenseRows


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowRows:
    """A block of core rows, the group of each row, and which core columns multiply the group's effects."""

    core: DenseRows
    groups: NDArray[np.intp]
    slopes: tuple[int, ...]
    n_groups: int

    @property
    def index(self) -> int:
        """Place of the block in the data."""
        return self.core.index

    @property
    def signs(self) -> Array:
        """Labels ±1."""
        return self.core.signs

    @property
    def weights(self) -> Array:
        """Sample weights, above 0."""
        return self.core.weights

    def scores(self, theta: Array) -> Array:
        """Cx + zᵀu_g."""
        x, u = _split(theta, self.core.design.shape[1], len(self.slopes))
        return self.core.scores(x) + np.einsum("iq,iq->i", self.core.design[:, self.slopes], u[self.groups])

    def gram(self, w: Array) -> "ArrowGram":
        """A = CᵀWC and B_g = Z_gᵀW_gC_g; D_g is in B_g, as Z is part of C."""
        C = self.core.design
        border = np.empty((len(self.slopes), C.shape[1], self.n_groups))
        for q, slope in enumerate(self.slopes):
            wz = w * C[:, slope]
            for p in range(C.shape[1]):
                border[q, p] = self._sum_by_group(wz * C[:, p])
        return ArrowGram(self.core.gram(w), border.transpose(2, 0, 1), self.slopes)

    def cross(self, u: Array) -> Array:
        """Cᵀu and Z_gᵀu_g."""
        tail = [self._sum_by_group(u * self.core.design[:, slope]) for slope in self.slopes]
        return np.concatenate([self.core.cross(u), np.stack(tail, axis=1).ravel()])

    def _sum_by_group(self, values: Array) -> Array:
        return np.bincount(self.groups, weights=values, minlength=self.n_groups).astype(np.float64, copy=False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowGram:
    """The core's gram A (p × p), and the border B (m × q × p); D_g are the border's columns of the slopes."""

    core: DenseGram
    border: Array
    slopes: tuple[int, ...]

    @property
    def corner(self) -> Array:
        """Z_gᵀW_gZ_g, m × q × q."""
        return self.border[:, :, self.slopes]

    def __add__(self, other: Self) -> "ArrowGram":
        """Add the sums of two sets of rows."""
        return ArrowGram(self.core + other.core, self.border + other.border, self.slopes)

    def towards(self, other: Self, share: float) -> "ArrowGram":
        """Move a share of the way to another gram."""
        if not share:
            return self
        border = self.border + share * (other.border - self.border)
        return ArrowGram(self.core.towards(other.core, share), border, self.slopes)

    def times(self, theta: Array) -> Array:
        """Multiply by [x; u]."""
        x, u = _split(theta, self.border.shape[2], len(self.slopes))
        head = self.core.times(x) + np.einsum("gqp,gq->p", self.border, u)
        return np.concatenate([head, (self.border @ x + np.einsum("gqr,gr->gq", self.corner, u)).ravel()])

    def conditional(self, cross: Array, precision: Array) -> "ArrowGaussian":
        """The law of [x; u]: D_g is eliminated first, then the core is dense (Algorithm 2, lines 2 and 3)."""
        n_core, q = self.border.shape[2], len(self.slopes)
        r_x, r_u = _split(cross, n_core, q)
        own, of_groups = _split(precision, n_core, q)
        D = self.corner + of_groups[:, :, None] * np.eye(q)
        root = _inverse_root(D)
        half = root.transpose(0, 2, 1) @ self.border
        link = root @ half
        tail = half.reshape(-1, n_core)
        core = DenseGram(self.core.matrix - tail.T @ tail).conditional(r_x - np.einsum("gqp,gq->p", link, r_u), own)
        alone = np.einsum("gqr,gsr,gs->gq", root, root, r_u)
        return ArrowGaussian(core, alone - link @ core.mean, root, link, self.slopes)

    def solve(self, right: Array, precision: Array) -> Array | None:
        """(G + Λ)⁻¹ right, or None where that matrix is not positive in floating point."""
        try:
            return self.conditional(right, precision).mean
        except FloatingPointError:
            return None


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrowGaussian:
    """The law of the core, and u_g | x ~ N(effects_g − link_g (x − E x), root_g root_gᵀ)."""

    core: DenseGaussian
    effects: Array
    root: Array
    link: Array
    slopes: tuple[int, ...]

    @property
    def mean(self) -> Array:
        """E[x] and then E[u_g], group by group."""
        return np.concatenate([self.core.mean, self.effects.ravel()])

    @property
    def effect_variances(self) -> Array:
        """Diagonals of Var(u_g) = D_g⁻¹ + E_gΣE_gᵀ, m × q."""
        through_core = self.link @ self.core.root
        return np.einsum("gqr,gqr->gq", self.root, self.root) + np.einsum("gqp,gqp->gq", through_core, through_core)

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return np.concatenate([self.core.squares, (self.effect_variances + np.square(self.effects)).ravel()])

    @property
    def entropy(self) -> float:
        """½P(1 + log 2π) + ½ log|Σ|, and log|Σ| = log|Σ_xx| − Σ log|D_g|."""
        diagonals = np.einsum("gqq->gq", self.root)
        return self.core.entropy + 0.5 * self.effects.size * (1 + LOG_2PI) + float(np.log(diagonals).sum())

    def row_moments(self, rows: ArrowRows) -> tuple[Array, Array]:
        """f = cᵀμ + zᵀu_g and v = zᵀD_g⁻¹z + tᵀΣt with t = c − E_gᵀz."""
        C, g = rows.core.design, rows.groups
        z = C[:, self.slopes]
        t = C - np.einsum("iq,iqp->ip", z, self.link[g])
        own = np.einsum("iq,iqr->ir", z, self.root[g])
        v = self.core.variances(t, rows.core.scratch) + np.einsum("ir,ir->i", own, own)
        return C @ self.core.mean + np.einsum("iq,iq->i", z, self.effects[g]), v

    def quadratic(self, gram: ArrowGram) -> float:
        """⟨gram, Ω⟩, from Cov(u_g, x) = −E_gΣ and Var(u_g) = D_g⁻¹ + E_gΣE_gᵀ."""
        Sigma = self.core.covariance
        through = self.link @ Sigma
        of_groups = self.root @ self.root.transpose(0, 2, 1) + through @ self.link.transpose(0, 2, 1)
        spread = np.vdot(gram.core.matrix, Sigma) - 2 * np.vdot(gram.border, through) + np.vdot(gram.corner, of_groups)
        return float(self.mean @ gram.times(self.mean)) + float(spread)

    def draw(self, rng: np.random.Generator) -> PointLaw:
        """Draw the core, then each group given the core."""
        x = self.core.draw(rng).mean
        noise = np.einsum("gqr,gr->gq", self.root, rng.standard_normal(self.effects.shape))
        return PointLaw(np.concatenate([x, (self.effects - self.link @ (x - self.core.mean) + noise).ravel()]))

    def at(self, mean: Array) -> "ArrowGaussian":
        """Move the law to another mean."""
        x, u = _split(mean, len(self.core.mean), len(self.slopes))
        return ArrowGaussian(self.core.at(x), u, self.root, self.link, self.slopes)

    @property
    def packed_size(self) -> int:
        """Length of the packed vector."""
        q = len(self.slopes)
        return self.core.packed_size + len(self.effects) * (q + q * (q + 1) // 2 + q * len(self.core.mean))

    def pack(self) -> Array:
        """The packed core, effects, the triangles of the groups' roots with logs on the diagonal, and the links."""
        triangles = self.root[:, *np.triu_indices(len(self.slopes))]
        diagonal = _diagonal(len(self.slopes))
        triangles[:, diagonal] = np.log(triangles[:, diagonal])
        return np.concatenate([self.core.pack(), self.effects.ravel(), triangles.ravel(), self.link.ravel()])

    def unpack(self, numbers: Array) -> "ArrowGaussian":
        """Make the law that packs to these numbers."""
        m, q = self.effects.shape
        ends = np.cumsum([self.core.packed_size, m * q, m * q * (q + 1) // 2])
        core, effects, triangles, link = np.split(numbers, ends)
        triangles = triangles.reshape(m, -1).copy()
        diagonal = _diagonal(q)
        triangles[:, diagonal] = np.exp(triangles[:, diagonal])
        root = np.zeros_like(self.root)
        root[:, *np.triu_indices(q)] = triangles
        return ArrowGaussian(
            self.core.unpack(core), effects.reshape(m, q), root, link.reshape(self.link.shape), self.slopes
        )


def _split(theta: Array, n_core: int, q: int) -> tuple[Array, Array]:
    return theta[:n_core], theta[n_core:].reshape(-1, q)


def _inverse_root(D: Array) -> Array:
    """R_g, upper triangular, with D_g⁻¹ = R_gR_gᵀ."""
    if D.shape[1] == 1:
        return np.sqrt(1.0 / D)
    return np.linalg.inv(np.linalg.cholesky(D)).transpose(0, 2, 1).astype(np.float64, copy=False)


def _diagonal(q: int) -> NDArray[np.intp]:
    """Positions of the diagonal within the packed upper triangle."""
    rows, columns = np.triu_indices(q)
    return np.flatnonzero(rows == columns)
