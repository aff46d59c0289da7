"""Effects of groups from a few rows, with everything else held: fixed effects, other factors, variance components.

Given the core x of the arrow, effects of different groups are independent. With the distribution of x held, q(u | x) of
each group climbs the bound over its own rows: D = P + Σ w z zᵀ, B = Σ w z cᵀ and r = Σ u z, where P is the expected
precision of the effects. All groups go together; a step that lowers a group's bound is shortened for that group alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, cholesky
from vbsvm.base.reading import expect
from vbsvm.model.gates import Gates
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.base import Likelihood, RowTerms

MOST_STEPS = 500
# A climb ends where steps are shorter than this share of a standard deviation, or have been halved to that share.
ENOUGH = 1e-7
# What rounding may take from a bound.
ROUNDING = 1e-12


@final
@dataclass(frozen=True, eq=False)
class NaturalEffects:
    """q(u | x) ∝ exp(−½ uᵀDu + uᵀ(r − Bx)) of each group: D (m × q × q), B (m × q × p) and r (m × q)."""

    precision: Array
    border: Array
    right: Array

    @staticmethod
    def of_prior(precision: Array, n_groups: int, n_core: int) -> "NaturalEffects":
        """New groups, of which nothing is known but the precision (q × q) of their effects."""
        q = len(precision)
        zeros = np.zeros((n_groups, q, n_core)), np.zeros((n_groups, q))
        return NaturalEffects(np.broadcast_to(precision, (n_groups, q, q)), *zeros)

    @staticmethod
    def of(known: ArrowGaussian, which: NDArray[np.intp]) -> "NaturalEffects":
        """Groups of a distribution."""
        inverse = np.linalg.inv(known.root[which])
        precision = inverse.transpose(0, 2, 1) @ inverse
        border = precision @ known.link[which]
        right = np.einsum("gqr,gr->gq", precision, known.effects[which]) + border @ known.core.mean
        return NaturalEffects(precision, border, right)

    def plus(self, rows: ArrowRows, gates: Gates | None, u: Array, w: Array) -> "NaturalEffects":
        """With what rows add by their right sides u and weights w; only the core has gates."""
        gram, right = rows.gram(w), rows.cross(u).tail.total()
        border = gram.border if gates is None else gram.border * gates.open[: gram.border.shape[2]]
        return NaturalEffects(self.precision + gram.corner, self.border + border, self.right + right)

    def towards(self, other: "NaturalEffects", share: Array) -> "NaturalEffects":
        """Move a share of the way, which each group has for itself."""
        ours, theirs = (self.precision, self.border, self.right), (other.precision, other.border, other.right)
        wide = share[:, None, None], share[:, None, None], share[:, None]
        return NaturalEffects(*(one + by * (two - one) for one, two, by in zip(ours, theirs, wide, strict=True)))

    def joined(self, other: "NaturalEffects", which: NDArray[np.bool_]) -> "NaturalEffects":
        """Groups of the other where it says so."""
        return self.towards(other, which.astype(np.float64))

    def beside(self, core: DenseGaussian, shapes: tuple[tuple[int, int], ...]) -> ArrowGaussian:
        """The distribution, with that of the core."""
        root: Array = (
            np.linalg.inv(np.linalg.cholesky(self.precision)).transpose(0, 2, 1).astype(np.float64, copy=False)
        )
        half = root.transpose(0, 2, 1)
        effects = (root @ (half @ (self.right - self.border @ core.mean)[:, :, None]))[:, :, 0]
        return ArrowGaussian(core, effects, root, root @ (half @ self.border), shapes)

    def expected(self, at: ArrowGaussian) -> Array:
        """E[−½ uᵀDu + uᵀ(r − Bx)] of each group, and the entropy of u given x."""
        spread = np.einsum("gqr,gqr->g", self.precision, at.effect_covariances)
        quadratic = np.einsum("gq,gqr,gr->g", at.effects, self.precision, at.effects)
        with_core = np.einsum("gqp,gqp->g", self.border, at.link @ at.core.covariance)
        linear = np.einsum("gq,gq->g", at.effects, self.right - self.border @ at.core.mean)
        return -0.5 * (spread + quadratic) + linear + with_core + np.log(np.einsum("gqq->gq", at.root)).sum(axis=1)


@final
@dataclass(frozen=True, eq=False)
class AdaptedEffects:
    """Where the climb of the groups ended: their distribution, the bound of each, and what each row adds there."""

    rows: ArrowRows
    gates: Gates | None
    distribution: ArrowGaussian
    bound: Array
    terms: RowTerms

    def by_curvature(self, prior: NaturalEffects, core: DenseGaussian) -> ArrowGaussian:
        """The distribution by the curvature at the same mean, beside such a distribution of the core."""
        curvature = self.terms.w if self.terms.curvature is None else self.terms.curvature
        effects = prior.plus(self.rows, self.gates, np.zeros_like(curvature), curvature)
        found = effects.beside(core, self.distribution.shapes)
        return replace(found, effects=self.distribution.effects)


def adapt(
    likelihood: Likelihood,
    core: DenseGaussian,
    shapes: tuple[tuple[int, int], ...],
    gates: Gates | None,
    rows: ArrowRows,
    prior: NaturalEffects,
) -> AdaptedEffects:
    """Climb over the rows from what was known of their groups; the rows' tail counts these groups."""
    levels, n_groups, y, s = rows.tail.levels, rows.tail.n_levels, rows.signs, rows.weights

    def reached(effects: NaturalEffects) -> tuple[ArrowGaussian, RowTerms, Array]:
        found = effects.beside(core, shapes)
        f, v = found.message(gates).row_moments(rows)
        terms = likelihood.terms(f, v, y, s, expect)
        return found, terms, np.bincount(levels, s * terms.value, minlength=n_groups) + prior.expected(found)

    effects, share = prior, np.ones(n_groups)
    at, terms, bound = reached(effects)
    for _ in range(MOST_STEPS):
        target = prior.plus(rows, gates, terms.u, terms.w)
        tried = effects.towards(target, share)
        found, _, gained = reached(tried)
        better = gained >= bound - ROUNDING * (1.0 + np.abs(bound))
        sds = np.sqrt(np.einsum("gqq->gq", found.effect_covariances))
        moved = (np.abs(found.effects - at.effects) / sds).max(axis=1) / share
        effects = effects.joined(tried, better)
        at, terms, bound = reached(effects)
        share = np.where(better, np.minimum(1.0, 2.0 * share), 0.5 * share)
        if ((better & (moved < ENOUGH)) | (share < ENOUGH)).all():
            break
    return AdaptedEffects(rows, gates, at, bound, terms)


def mixture(components: Sequence[ArrowGaussian], weights: Array) -> ArrowGaussian:
    """Normal distributions of the groups' effects given the core, with the moments of a mixture; weights × groups."""
    if len(components) == 1:
        return components[0]
    effects = np.einsum("kg,kgq->gq", weights, [one.effects for one in components])
    link = np.einsum("kg,kgqp->gqp", weights, [one.link for one in components])
    covariance = np.zeros_like(components[0].root)
    for w, one in zip(weights, components, strict=True):
        off = one.effects - effects
        given_core = one.root @ one.root.transpose(0, 2, 1) + off[:, :, None] * off[:, None, :]
        covariance += w[:, None, None] * given_core
    root = cholesky(covariance[:, ::-1, ::-1])[:, ::-1, ::-1]
    return replace(components[0], effects=effects, root=root, link=link)
