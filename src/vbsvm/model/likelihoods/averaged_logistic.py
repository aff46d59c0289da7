"""The logistic likelihood of a score that is normal whatever the coefficients are, as where inputs are missing.

With expit x = Σ p Φ(r x) (``exact_logistic``), both averages over h = −y f ~ N(e, t) have closed forms in normal curves
of variance t + 1/r². Far out the mixture's tails are too light. There the other side takes its place: E expit(−h) =
e^(−e + t/2) E expit(h') with h' ~ N(e − t, t), which is exact.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import ndtr

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.base import Averaged

# Shares of the components, and their standard deviations one over r (Monahan & Stefanski 1992).
_SHARES = (
    0.003246343272134,
    0.051517477033972,
    0.195077912673858,
    0.315569823632818,
    0.274149576158423,
    0.131076880695470,
    0.027912418727972,
    0.001449567805354,
)
_RATES = (
    1.365340806296348,
    1.059523971016916,
    0.830791313765644,
    0.650732166639391,
    0.508135425366489,
    0.396313345166341,
    0.308904252267995,
    0.238212616409306,
)
# Share and variance of each component.
COMPONENTS = tuple((p, 1.0 / (r * r)) for p, r in zip(_SHARES, _RATES, strict=True))


@final
@dataclass(frozen=True, slots=True)
class AveragedLogistic:
    """Averages of the logistic likelihood."""

    kink: ClassVar[float] = 0.0

    def log_mean_likelihood(self, e: Array, t: Array) -> Averaged:
        """Log E expit(−h)."""
        tilted = e > 0.5 * t
        Z = _ratios(np.where(tilted, e - t, -e), t)
        # Derivatives by e: of ΣpΦ(−e/c), and of e^(−e) ΣpΦ((e − t)/c), each over the sum itself.
        D = [np.where(tilted, 1.0, -1.0) ** j * ratio for j, ratio in enumerate(Z.ratios)]
        first = np.where(tilted, D[1] - 1.0, D[1])
        second = np.where(tilted, D[2] - 2.0 * D[1] + 1.0, D[2])
        third = np.where(tilted, D[3] - 3.0 * D[2] + 3.0 * D[1] - 1.0, D[3])
        fourth = np.where(tilted, D[4] - 4.0 * D[3] + 6.0 * D[2] - 4.0 * D[1] + 1.0, D[4])
        value = Z.log_sum + np.where(tilted, 0.5 * t - e, 0.0)
        return Averaged(
            value,
            first,
            0.5 * second,
            second - first * first,
            0.5 * (third - first * second),
            0.25 * (fourth - second * second),
        )

    def mean_log_likelihood(self, e: Array, t: Array) -> Averaged:
        """E log expit(−h)."""
        value, first, second, third, fourth = (np.zeros(np.broadcast_shapes(e.shape, t.shape)) for _ in range(5))
        for p, square in COMPONENTS:
            c = np.sqrt(t + square)
            a = e / c
            above = p * ndtr(a)
            density = (p / math.sqrt(2 * math.pi)) * np.exp(-0.5 * a * a) / c
            value -= e * above + c * c * density
            first -= above
            second -= density
            third += density * (a / c)
            fourth += density * ((1.0 - a * a) / (c * c))
        return Averaged(value, first, 0.5 * second, second, 0.5 * third, 0.25 * fourth)


AVERAGED_LOGISTIC = AveragedLogistic()


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Ratios:
    """log ΣpΦ(x/c), and its derivatives by x of order 0 to 4, each over the sum itself."""

    log_sum: Array
    ratios: tuple[Array, ...]


def _ratios(x: Array, t: Array) -> _Ratios:
    total, first, second, third, fourth = (np.zeros(np.broadcast_shapes(x.shape, t.shape)) for _ in range(5))
    for p, square in COMPONENTS:
        c = np.sqrt(t + square)
        a = x / c
        density = (p / math.sqrt(2 * math.pi)) * np.exp(-0.5 * a * a) / c
        total += p * ndtr(a)
        first += density
        second -= density * (a / c)
        third += density * ((a * a - 1.0) / (c * c))
        fourth += density * (a * (3.0 - a * a) / (c * c * c))
    return _Ratios(np.log(total), (np.ones_like(total), *(one / total for one in (first, second, third, fourth))))
