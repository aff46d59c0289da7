"""Rows with missing inputs under an exact bound, where labels move the inputs: integrated out given the coefficients.

Given the coefficients θ, the missing inputs d of a row have the distribution N(m, C) that the known ones imply, tilted
by the likelihood of the label. The row's likelihood is the constant that normalises it, exp g = E exp(−2h₊), and the
derivatives of g by the mean f and the variance t = bᵀCb of the score, where b multiplies d, give the moments of d:
E[d] = m + C b g_f, and E(d − m)(d − m)ᵀ = C + C b bᵀC 2g_t. So the family of distributions is q(θ) q(inputs) Π q(d | θ)
with the best q(d | θ) for every θ; the paper's has q(θ) q(inputs) Π q(d) q(a).
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.model import MissingSums
from vbsvm.missing.row_expectations import ScorePairs, expectations
from vbsvm.missing.row_updates import Cells, Coordinates, Spread, conditional_means
from vbsvm.missing.rows import IncompleteRows, PatternGroup
from vbsvm.model.interfaces import Effects, Gram, Message, Rows
from vbsvm.model.layouts.dense import LOG_2PI
from vbsvm.model.likelihoods.base import Averages, Likelihood
from vbsvm.model.row_pass import Stats


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Integrated:
    """What rows of a group add.

    To the gram: ``weights`` (rows × 2 × 2) of c and of L times ``directions``, which p multiplies; and ``spread``. To
    the right side: ``u`` times c, and L times ``lift``. ``change`` is E[d] − m, and ``about`` is E(d − m)(d − m)ᵀ.
    """

    weights: Array
    directions: Array
    u: Array
    lift: Array
    change: Array
    about: Array
    row_bound: float
    constant: float
    spread: Spread


def integrated_stats(
    rows: IncompleteRows, message: Message, likelihood: Likelihood, distribution: InputDistribution
) -> Stats:
    """Sums of a pass: G = −Σ E∇²g, r = Σ E∇g + Gμ, and the moments of the inputs."""
    assert likelihood.averages is not None
    s, means = rows.weights, conditional_means(rows, distribution)
    at_means = rows.filled(means)
    f, v = message.row_moments(at_means)
    effects = rows.through(message.effects(at_means, rows.inputs.columns))
    base = rows.known + means
    squares, row_bound, constant, grams = base.T @ (s[:, None] * base), 0.0, 0.0, []
    weights, u = np.zeros((len(s), 2, 2)), np.zeros(len(s))
    directions, lift, change = np.zeros_like(base), np.zeros_like(base), np.zeros_like(base)
    for group in rows.groups:
        at, cells = group.rows, group.cells
        moments = f[at], np.broadcast_to(v, f.shape)[at]
        found = _integrate(rows, group, effects, *moments, likelihood.averages, distribution.precision)
        weights[at], u[at] = found.weights, found.u
        directions[cells], lift[cells], change[cells] = found.directions, found.lift, found.change
        row_bound, constant = row_bound + found.row_bound, constant + found.constant
        np.add.at(squares, (cells[1][:, :, None], cells[1][:, None, :]), s[at, None, None] * found.about)
        spread = found.spread
        grams.append(_signed_gram(rows.directions(spread.which, spread.vectors), spread.of_rows))
    sizes, axes = np.linalg.eigh(weights)
    for j in range(2):
        leaning = rows.leaning(means, axes[:, 0, j], axes[:, 1, j, None] * directions)
        grams.append(_signed_gram(leaning, sizes[:, j]))
    gram, met = sum(grams[1:], grams[0]), base.T @ (s[:, None] * change)
    return Stats(
        gram=gram,
        cross_sums=rows.leaning(means, u, lift).cross(np.ones(len(s))),
        row_bound=row_bound,
        constant=constant - row_bound,
        curvature=gram,
        missing=MissingSums(InputSums(rows.regressors.T @ (s[:, None] * (base + change)), squares + met + met.T)),
    )


def _integrate(
    rows: IncompleteRows, group: PatternGroup, effects: Effects, f: Array, v: Array, averages: Averages, T: Array
) -> _Integrated:
    """Integrate over the missing inputs of rows that miss the same number of them."""
    s, cells = rows.weights[group.rows], Cells.of(group, effects)
    found, of_row = Coordinates.of(cells, T), cells.of_row
    axes, with_f = found.axes, effects.with_score[group.cells]
    C = (axes @ axes.transpose(0, 2, 1))[of_row]
    unit, length = _unit(np.einsum("ck,ckj->cj", cells.mean, axes))
    direction = np.einsum("ckj,cj->ck", axes, unit)
    with_p = np.einsum("ckl,cl->ck", cells.covariance, direction)
    pp = np.maximum(np.einsum("ck,ck->c", with_p, direction), 0.0)
    across = np.maximum(np.einsum("ckj,ckl,clj->c", axes, cells.covariance, axes) - pp, 0.0)
    directions, with_p = direction[of_row], with_p[of_row]
    fp = np.einsum("rk,rk->r", with_f, directions)
    pairs = ScorePairs(rows.signs[group.rows], f, length[of_row], v, fp, pp[of_row], across[of_row])
    g = expectations(pairs, averages)
    made = _made_of(pairs, cells.mean[of_row], with_f, with_p)
    moved = made[:, :, 0] * g.f[:, None] + with_f * g.ff[:, None] + with_p * g.fp[:, None]
    change, k = np.einsum("rkl,rl->rk", C, moved), C.shape[1]
    left = cells.covariance[of_row] - made[:, :, 1:] @ made[:, :, 1:].transpose(0, 2, 1)
    about = C @ (2.0 * g.t[:, None, None] * left + made @ g.tilt @ made.transpose(0, 2, 1))
    bound = g.value + 0.5 * (k * (1 + LOG_2PI) - found.log_det[of_row] + np.einsum("rkk->r", about))
    W = -s[:, None, None] * np.stack([g.ff, g.fp, g.fp, g.pp], axis=1).reshape(-1, 2, 2)
    of_spread = -2.0 * s * g.t
    mean = np.stack([pairs.f, pairs.p], axis=1)
    u = np.einsum("rjk,rk->rj", W, mean)
    u[:, 1] += of_spread * pairs.p
    lift = u[:, 1, None] * directions + s[:, None] * np.einsum("rkl,rlj,rj->rk", C, made, g.tilt[:, :, 0])
    u[:, 0] += s * g.f
    second = np.stack([pairs.ff, pairs.fp, pairs.fp, pairs.pp], axis=1).reshape(-1, 2, 2)
    second += mean[:, :, None] * mean[:, None, :]
    constant = float(u[:, 0] @ pairs.f) + float(np.vdot(lift, made[:, :, 0])) - 0.5 * float(np.vdot(W, second))
    constant -= 0.5 * float(of_spread @ (np.square(pairs.p) + pairs.pp + pairs.across))
    spread = Spread.of(cells, found, np.ones((len(s), k)), of_spread, s, len(rows.inputs.variables))
    return _Integrated(W, directions, u[:, 0], lift, change, C + about @ C, float(s @ bound), constant, spread)


def _made_of(pairs: ScorePairs, mean: Array, with_f: Array, with_p: Array) -> Array:
    """b as its mean and its covariances with the two standard normal numbers of the scores, rows × k × 3."""
    of_p, of_f, beside = pairs.roots
    first = _over(with_p, of_p)
    return np.stack([mean, first, _over(with_f - of_f[:, None] * first, beside)], axis=2)


def _unit(vectors: Array) -> tuple[Array, Array]:
    """Vectors of length 1, and their lengths before; the first axis where there is nothing to point along."""
    length = np.sqrt(np.einsum("pk,pk->p", vectors, vectors))
    unit = _over(vectors, length)
    unit[length == 0.0, 0] = 1.0
    return unit, length


def _over(vectors: Array, size: Array) -> Array:
    """Vectors over their sizes; zero where the size is."""
    return np.divide(vectors, size[:, None], out=np.zeros_like(vectors), where=size[:, None] > 0)


def _signed_gram(rows: Rows, w: Array) -> Gram:
    """CᵀWC for weights of either sign."""
    return rows.gram(np.maximum(w, 0.0)) - rows.gram(np.maximum(-w, 0.0))
