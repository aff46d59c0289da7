"""Rows whose missing inputs are integrated out: expectations over the coefficients of what is left.

Given the coefficients, the score of such a row is normal. Its mean is a linear score f; its variance is bᵀCb, where b
multiplies the missing inputs and C is their covariance given the known ones. Under a normal distribution of the
coefficients the root of bᵀCb varies along the mean of b, p = bᵀC E[b]/(E[b]ᵀC E[b])^½, a second linear score; of what is
across it only the expectation ``across`` is used. So a row term is an expectation over two normal scores, and by the
theorems of Bonnet and Price its derivatives by their means and covariances are expectations of derivatives.

The kink of the loss would upset a quadrature where C is small. So −2 E h₊ is integrated over f in closed form, and only
the difference to it, which vanishes with C, by Gauss and Hermite's rule.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.averaged_hinge import log_mean_likelihood, mean_log_likelihood

# Nodes along p, and along f given p.
N_ALONG = 5
N_GIVEN = 9
# A variance of the score given the coefficients that is smaller than this share of the variance over coefficients.
NO_SPREAD = 1e-12
TINY = 1e-200


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScorePairs:
    """Of each row: means and covariances of the scores f and p, and what is across p; labels y."""

    y: Array
    f: Array
    p: Array
    ff: Array
    fp: Array
    pp: Array
    across: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowExpectations:
    """Expectations of each row: g, its derivatives by f, p and t = p² + across.

    ``f``, ``p``, ``t`` are first derivatives, ``ff`` and ``fp`` second ones; ``pp`` is the second one by p that goes
    through t twice, 4p² ∂²g/∂t². ``tilt`` (rows × 3 × 3) has the expectations of 2 ∂g/∂t times the products of 1 and
    of the two standard normal numbers that f and p are made of: p first, then what f has beside it.
    """

    value: Array
    f: Array
    p: Array
    t: Array
    ff: Array
    fp: Array
    pp: Array
    tilt: Array


def expectations(pairs: ScorePairs, *, labels: bool) -> RowExpectations:
    """Average over both scores; without ``labels`` of −2 E h₊, in which the label does not move missing values."""
    with_p, beside = standard_roots(pairs)
    sums = np.zeros((7, len(pairs.y)))
    tilt = np.zeros((len(pairs.y), 3, 3))
    rule, given = _rule(N_ALONG), _rule(N_GIVEN)
    e, sign = 1.0 - pairs.y * pairs.f, -pairs.y
    for x, weight in zip(*rule, strict=True):
        p = pairs.p + np.sqrt(pairs.pp) * x
        t = np.maximum(np.maximum(p * p + pairs.across, NO_SPREAD * np.square(beside)), TINY)
        at = e + sign * with_p * x
        loss = mean_log_likelihood(at, t + np.square(beside))
        steps = sign * beside
        _add(sums, p, weight, loss.value, loss.e, loss.t, loss.ee, loss.et, loss.tt)
        second = np.square(beside) * 2.0 * loss.tt  # by the heat equation
        _add_tilt(tilt, x, weight, loss.t, steps * loss.et, loss.t + second)
        if not labels:
            continue
        for z, share in zip(*given, strict=True):
            e_z = at + steps * z
            rest = log_mean_likelihood(e_z, t) - mean_log_likelihood(e_z, t)
            both = weight * share
            _add(sums, p, both, rest.value, rest.e, rest.t, rest.ee, rest.et, rest.tt)
            _add_tilt(tilt, x, both, rest.t, z * rest.t, z * z * rest.t)
    value, by_e, by_p, by_t, by_ee, by_ep, by_pp = sums
    return RowExpectations(value, sign * by_e, by_p, by_t, by_ee, sign * by_ep, by_pp, tilt)


def standard_roots(pairs: ScorePairs) -> tuple[Array, Array]:
    """How much of f goes with p, in units of p's standard deviation, and the standard deviation of what is beside it."""
    root = np.sqrt(pairs.pp)
    with_p = np.divide(pairs.fp, root, out=np.zeros_like(root), where=root > 0)
    return with_p, np.sqrt(np.maximum(pairs.ff - np.square(with_p), 0.0))


def _add(sums: Array, p: Array, weight: float, value: Array, e: Array, t: Array, ee: Array, et: Array, tt: Array) -> None:
    for row, one in zip(sums, (value, e, 2.0 * p * t, t, ee, 2.0 * p * et, 4.0 * p * p * tt), strict=True):
        row += weight * one


def _add_tilt(tilt: Array, x: float, weight: float, t: Array, with_z: Array, with_zz: Array) -> None:
    """Add 2 ∂g/∂t times the products of (1, x, z)."""
    weight = 2.0 * weight
    tilt[:, 0, 0] += weight * t
    tilt[:, 0, 1] += weight * x * t
    tilt[:, 1, 1] += weight * x * x * t
    tilt[:, 0, 2] += weight * with_z
    tilt[:, 1, 2] += weight * x * with_z
    tilt[:, 2, 2] += weight * with_zz
    tilt[:, 1, 0], tilt[:, 2, 0], tilt[:, 2, 1] = tilt[:, 0, 1], tilt[:, 0, 2], tilt[:, 1, 2]


def _rule(n: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Hermite's rule for a standard normal number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()
