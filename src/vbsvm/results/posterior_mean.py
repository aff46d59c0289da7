"""Probabilities of a likelihood that has its own: averaged over all that is unknown, with nothing to calibrate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.logistic import log_mean_expit

# Beyond it a score says nothing; and a distribution without a mean has an infinite one.
LARGEST_VARIANCE = 1e20
# What rounding may not take away: the sign of the log odds, and their order far from the hyperplane.
SMALLEST_SLOPE = 1e-12


@final
@dataclass(frozen=True, slots=True)
class PosteriorMean:
    """The link of a logistic likelihood: a score is the log odds, and ``offset`` takes class weights back out."""

    slope: ClassVar[float] = 1.0
    offset: float = 0.0


def log_odds(links: Sequence[PosteriorMean], odds: Array) -> Array:
    """Log odds of the population, rows × models, from those of the mean probability.

    Of several classes the log probability against the rest is given instead: their probabilities are in proportion to
    these.
    """
    odds = odds + np.array([one.offset for one in links])
    return odds if len(links) == 1 else odds - np.logaddexp(0.0, odds)


def averaged(scores: Array, variances: Array) -> Array:
    """Log odds of the mean of expit under normal scores; they have the sign of the mean score."""
    t = np.minimum(variances, LARGEST_VARIANCE)
    odds = log_mean_expit(scores, t) - log_mean_expit(-scores, t)
    return np.sign(scores) * np.maximum(np.abs(odds), SMALLEST_SLOPE * np.abs(scores))
