"""Random effects from a few rows, with everything else fixed: fixed effects, other factors, variance components.

Given the core x of the arrow, effects of different groups are independent. With the distribution of x fixed, q(u | x)
of each group maximises the bound over its own rows: D = P + Σ w z zᵀ, B = Σ w z cᵀ and r = Σ u z, where P is the
expected precision of the effects. All groups go together; a step that lowers a group's bound is shortened for that
group alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.update_mode import mean_field
from vbsvm.model.gates import Gates
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.base import Likelihood, RowTerms

MAX_STEPS = 500
# Converged if steps are shorter than this proportion of a standard deviation, or have been halved to that fraction.
TOLERANCE = 1e-7
# What rounding may take from a bound.
ROUNDING = 1e-12


@final
@dataclass(frozen=True, eq=False)
class NaturalEffects:
    """Natural parameters of q(u | x) ∝ exp(−½ uᵀDu + uᵀ(r − Bx)) of m groups: D (m×q×q), B (m×q×p), r (m×q)."""

    precision: Array
    border: Array
    right: Array

    @staticmethod
    def from_prior(precision: Array, n_groups: int, n_core: int) -> "NaturalEffects":
        """Prior of new groups, from the precision (q × q) of their effects."""
        q = len(precision)
        zeros = np.zeros((n_groups, q, n_core)), np.zeros((n_groups, q))
        return NaturalEffects(np.broadcast_to(precision, (n_groups, q, q)), *zeros)

    @staticmethod
    def from_distribution(distribution: ArrowGaussian, which: NDArray[np.intp]) -> "NaturalEffects":
        """Natural parameters of some groups of a distribution."""
        half = inverse(distribution.root[which])
        precision = half.transpose(0, 2, 1) @ half
        border = precision @ distribution.link[which]
        right = np.einsum("gqr,gr->gq", precision, distribution.effects[which]) + border @ distribution.core.mean
        return NaturalEffects(precision, border, right)

    def add_rows(self, rows: ArrowRows, gates: Gates | None, u: Array, w: Array) -> "NaturalEffects":
        """Add the contributions of rows with right sides u and weights w; only the core has indicators."""
        gram, right = rows.gram(w), rows.cross(u).tail.to_array()
        border = gram.border if gates is None else gram.border * gates.by_coefficient[: gram.border.shape[2]]
        return NaturalEffects(self.precision + gram.corner, self.border + border, self.right + right)

    def interpolate(self, other: "NaturalEffects", share: Array) -> "NaturalEffects":
        """Interpolate towards other parameters by a fraction for each group."""
        ours, theirs = (self.precision, self.border, self.right), (other.precision, other.border, other.right)
        fractions = share[:, None, None], share[:, None, None], share[:, None]
        return NaturalEffects(*(a + fraction * (b - a) for a, b, fraction in zip(ours, theirs, fractions, strict=True)))

    def with_core(self, core: DenseGaussian, shapes: tuple[tuple[int, int], ...]) -> ArrowGaussian:
        """Joint distribution of the effects and the core."""
        root = inverse(cholesky(self.precision)).transpose(0, 2, 1)
        half = root.transpose(0, 2, 1)
        effects = (root @ (half @ (self.right - self.border @ core.mean)[:, :, None]))[:, :, 0]
        return ArrowGaussian(core, effects, root, root @ (half @ self.border), shapes)

    def expected(self, q: ArrowGaussian) -> Array:
        """E[−½ uᵀDu + uᵀ(r − Bx)] of each group, and the entropy of u given x."""
        trace = np.einsum("gqr,gqr->g", self.precision, q.effect_covariances)
        quadratic = np.einsum("gq,gqr,gr->g", q.effects, self.precision, q.effects)
        with_core = np.einsum("gqp,gqp->g", self.border, q.link @ q.core.covariance)
        linear = np.einsum("gq,gq->g", q.effects, self.right - self.border @ q.core.mean)
        return -0.5 * (trace + quadratic) + linear + with_core + np.log(np.einsum("gqq->gq", q.root)).sum(axis=1)


@final
@dataclass(frozen=True, eq=False)
class AdaptedEffects:
    """Result of the adaptation of groups: their distribution, each group's bound, and the terms of rows."""

    rows: ArrowRows
    gates: Gates | None
    distribution: ArrowGaussian
    bound: Array
    terms: RowTerms

    def by_curvature(self, prior: NaturalEffects, core: DenseGaussian) -> ArrowGaussian:
        """Distribution by the curvature at the same mean, joint with one of the core."""
        curvature = self.terms.w if self.terms.curvature is None else self.terms.curvature
        effects = prior.add_rows(self.rows, self.gates, np.zeros_like(curvature), curvature)
        distribution = effects.with_core(core, self.distribution.shapes)
        return replace(distribution, effects=self.distribution.effects)


def adapt(
    likelihood: Likelihood,
    core: DenseGaussian,
    shapes: tuple[tuple[int, int], ...],
    gates: Gates | None,
    rows: ArrowRows,
    prior: NaturalEffects,
) -> AdaptedEffects:
    """Maximise the bound of each group's effects over the rows; the rows' last factor numbers these groups."""
    levels, n_groups, y, s = rows.tail.levels, rows.tail.n_levels, rows.y, rows.weights

    def evaluate(effects: NaturalEffects) -> tuple[ArrowGaussian, RowTerms, Array]:
        q = effects.with_core(core, shapes)
        f, v = q.effective(gates).row_moments(rows)
        terms = likelihood.terms(f, v, y, s, mean_field)
        return q, terms, np.bincount(levels, s * terms.value, minlength=n_groups) + prior.expected(q)

    effects, share = prior, np.ones(n_groups)
    current, terms, bound = evaluate(effects)
    for _ in range(MAX_STEPS):
        target = prior.add_rows(rows, gates, terms.u, terms.w)
        trial = effects.interpolate(target, share)
        q, _, trial_bound = evaluate(trial)
        better = trial_bound >= bound - ROUNDING * (1.0 + np.abs(bound))
        sds = np.sqrt(np.einsum("gqq->gq", q.effect_covariances))
        change = (np.abs(q.effects - current.effects) / sds).max(axis=1) / share
        effects = effects.interpolate(trial, better.astype(np.float64))
        current, terms, bound = evaluate(effects)
        share = np.where(better, np.minimum(1.0, 2.0 * share), 0.5 * share)
        if ((better & (change < TOLERANCE)) | (share < TOLERANCE)).all():
            break
    return AdaptedEffects(rows, gates, current, bound, terms)


def mixture(components: Sequence[ArrowGaussian], weights: Array) -> ArrowGaussian:
    """Moment-match a mixture of random effects given the core; ``weights`` are components × groups."""
    if len(components) == 1:
        return components[0]
    effects = np.einsum("kg,kgq->gq", weights, [c.effects for c in components])
    link = np.einsum("kg,kgqp->gqp", weights, [c.link for c in components])
    covariance = np.zeros_like(components[0].root)
    for w, c in zip(weights, components, strict=True):
        deviation = c.effects - effects
        given_core = c.root @ c.root.transpose(0, 2, 1) + deviation[:, :, None] * deviation[:, None, :]
        covariance += w[:, None, None] * given_core
    root = np.ascontiguousarray(cholesky(covariance[:, ::-1, ::-1])[:, ::-1, ::-1])
    return replace(components[0], effects=effects, root=root, link=link)
