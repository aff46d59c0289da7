"""Rows whose missing inputs are integrated out: expectations over the coefficients of what is left.

Given the coefficients, the score of such a row is normal. Its mean is a linear score f; its variance is t = bᵀCb, where
b multiplies the missing inputs and C is their covariance given the known ones. Where b is normal, too, t varies mostly
along the mean of b: t = p² + across with a second linear score p = bᵀC E[b]/(E[b]ᵀC E[b])^½, and of what is across only
the expectation is used. (With one missing input there is nothing across.) So a row term is an expectation over two
normal scores, and by the theorems of Bonnet and Price its derivatives by their means and covariances are expectations
of derivatives.

The kink of the hinge loss would upset a quadrature where C is small. So the mean log likelihood is integrated over f in
closed form, and only the difference to it, which vanishes with C, by Gauss and Hermite's rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.base import Averaged, Averages

# A normal number is replaced by so many nodes, by its standard deviation in units of that of the score given the
# coefficients: derivatives are then right to some 1e-6 of their size, but for the widest.
NODES = ((0.1, 3), (0.5, 8), (1.5, 20), (np.inf, 40))
# A variance of the score given the coefficients counts as this share of the variance over coefficients at least.
LEAST_SHARE = 1e-12
TINY = 1e-200


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScorePairs:
    """Of each row: its label, means and covariances of the scores f and p, and what is across p."""

    y: Array
    f: Array
    p: Array
    ff: Array
    fp: Array
    pp: Array
    across: Array

    @property
    def roots(self) -> tuple[Array, Array, Array]:
        """Root of the covariance: of p; of f what goes with p, and what is beside it."""
        of_p = np.sqrt(self.pp)
        with_p = np.divide(self.fp, of_p, out=np.zeros_like(of_p), where=of_p > 0)
        return of_p, with_p, np.sqrt(np.maximum(self.ff - np.square(with_p), 0.0))

    def of_rows(self, which: NDArray[np.bool_]) -> "ScorePairs":
        """The same of some rows."""
        parts = (self.y, self.f, self.p, self.ff, self.fp, self.pp, self.across)
        return ScorePairs(*(one[which] for one in parts))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowExpectations:
    """Expectations of each row: of g and of its derivatives by f, p and t = p² + across.

    ``f``, ``p``, ``t`` are first derivatives, ``ff`` and ``fp`` second ones; ``pp`` is the part of the second one by p
    that goes through t twice, 4p² ∂²g/∂t². ``tilt`` (rows × 3 × 3) has the expectations of 2 ∂g/∂t times the products
    of 1 and of the two standard normal numbers that the scores are made of, p's first.
    """

    value: Array
    f: Array
    p: Array
    t: Array
    ff: Array
    fp: Array
    pp: Array
    tilt: Array


def expectations(pairs: ScorePairs, averages: Averages) -> RowExpectations:
    """Average over both scores."""
    of_p, with_p, _ = pairs.roots
    given = np.square(pairs.p) + pairs.pp + pairs.across
    width = np.maximum(of_p, np.abs(with_p)) / np.sqrt(given + TINY)
    sums = np.empty((12, len(width)))
    for n_nodes, which in _by_width(width):
        sums[:, which] = _averaged(pairs.of_rows(which), averages, n_nodes)
    value, e, p, t, ee, ep, pp, x, xx, z, xz, zz = sums
    tilt = 2.0 * np.stack([t, x, z, x, xx, xz, z, xz, zz], axis=1).reshape(-1, 3, 3)
    return RowExpectations(value, -pairs.y * e, p, t, ee, -pairs.y * ep, pp, tilt)


def _averaged(pairs: ScorePairs, averages: Averages, n_nodes: int) -> Array:
    """Twelve averages of each row, over p by so many nodes."""
    of_p, with_p, beside = pairs.roots
    e, sign = averages.kink - pairs.y * pairs.f, -pairs.y
    sums = np.zeros((12, len(e)))
    for x, weight in zip(*_rule(n_nodes), strict=True):
        p, at, step = pairs.p + of_p * x, e + sign * with_p * x, sign * beside
        t = np.maximum(p * p + pairs.across, np.maximum(LEAST_SHARE * np.square(beside), TINY))
        loss = averages.mean_log_likelihood(at, t + np.square(beside))
        # E[∂g/∂t z] and E[∂g/∂t z²] by Stein's lemma and the heat equation.
        sums += weight * _twelve(loss, p, x, step * loss.et, loss.t + 2.0 * np.square(beside) * loss.tt)
        for n_given, some in _by_width(beside / np.sqrt(t)):
            nodes, shares = _rule(n_given)
            z = nodes[:, None]
            at_z, spread = at[some] + step[some] * z, t[some] + 0.0 * z
            rest = averages.log_mean_likelihood(at_z, spread) - averages.mean_log_likelihood(at_z, spread)
            sums[:, some] += weight * (shares @ _twelve(rest, p[some], x, z * rest.t, z * z * rest.t))
    return sums


def _twelve(g: Averaged, p: Array, x: float, with_z: Array, with_zz: Array) -> Array:
    """What is averaged: g and its derivatives, and ∂g/∂t times products of x and z."""
    by_p = 2.0 * p
    products = (x * g.t, x * x * g.t, with_z, x * with_z, with_zz)
    return np.stack([g.value, g.e, by_p * g.t, g.t, g.ee, by_p * g.et, by_p * by_p * g.tt, *products])


def _by_width(width: Array) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Rows that need the same number of nodes."""
    narrower = np.zeros(len(width), dtype=bool)
    for widest, n_nodes in NODES:
        which = ~narrower & ~(width > widest)
        if which.any():
            yield n_nodes, which
        narrower |= which


@lru_cache(maxsize=len(NODES))
def _rule(n_nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Hermite's rule for a standard normal number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, weights / weights.sum()
