"""The hinge likelihood of a score that is normal whatever the coefficients are, as where inputs are missing.

With h = 1 − y f ~ N(e, t), two averages over h have closed forms: log E exp(−2h₊), where the label has a say in what is
missing, and −2 E h₊, where it has none. With Z = E exp(−2h₊) and N the density of h at 0,

    Z = Φ(−e/√t) + P,   P = E[exp(−2h); h > 0] = exp{−2e + 2t + log Φ(e/√t − 2√t)},   ∂P/∂e = N − 2P,   ∂N/∂e = −(e/t)N,

and by the heat equation a derivative by t is half the second one by e.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.base import Averaged

LOG_2PI = math.log(2 * math.pi)


@final
@dataclass(frozen=True, slots=True)
class AveragedHinge:
    """Averages of the hinge likelihood."""

    kink: ClassVar[float] = 1.0

    def log_mean_likelihood(self, e: Array, t: Array) -> Averaged:
        """log E exp(−2h₊)."""
        return log_mean_likelihood(e, t)

    def mean_log_likelihood(self, e: Array, t: Array) -> Averaged:
        """−2 E h₊."""
        return mean_log_likelihood(e, t)


def log_mean_likelihood(e: Array, t: Array) -> Averaged:
    """log E exp(−2h₊)."""
    root, ratio = np.sqrt(t), e / t
    above = e / root - 2.0 * root
    log_density = -0.5 * e * ratio - 0.5 * np.log(t) - 0.5 * LOG_2PI
    # The same thing twice: far below 0 the first form is a difference of large numbers, far above the second overflows.
    log_above = np.where(
        above > -1.0,
        -2.0 * e + 2.0 * t + log_ndtr(np.maximum(above, -1.0)),
        -0.5 * e * ratio + np.log(0.5 * erfcx(np.maximum(-above, 1.0) / math.sqrt(2.0))),
    )
    value = np.logaddexp(log_ndtr(-e / root), log_above)
    P, N = np.exp(log_above - value), np.exp(log_density - value)
    first = -2.0 * P
    second = 4.0 * P - 2.0 * N
    third = -8.0 * P + (4.0 + 2.0 * ratio) * N
    fourth = 16.0 * P - (8.0 + (4.0 + 2.0 * ratio) * ratio - 2.0 / t) * N
    return Averaged(
        value,
        first,
        0.5 * second,
        second - first * first,
        0.5 * (third - first * second),
        0.25 * (fourth - second * second),
    )


def mean_log_likelihood(e: Array, t: Array) -> Averaged:
    """−2 E h₊."""
    root, ratio = np.sqrt(t), e / t
    below = ndtr(e / root)
    N = np.exp(-0.5 * e * ratio) / (root * math.sqrt(2 * math.pi))
    return Averaged(
        -2.0 * (e * below + t * N), -2.0 * below, -N, -2.0 * N, ratio * N, 0.5 * (1.0 / t - ratio * ratio) * N
    )
