"""From scores to probabilities that are frequencies: a link that is learned from the scores of rows left out.

The log odds of the positive class are ψ(f) = a f / √(1 + b (a f)²), plus an offset where class weights are in use. ψ is
odd and increasing: its sign is that of the score, and far from the hyperplane it levels off where scores are less
certain than they are large. Slope a and bend b maximise the likelihood of the labels, given scores of fits without the
row (``model/left_out.py``), so that no refit is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from vbsvm.base.arrays import Array
from vbsvm.model.left_out import RowInfluence

# The variance of a normal score widens a logistic curve as much as this share of it in the square of the slope.
WIDENING = np.pi / 8
# Beyond it a score says nothing; and a distribution without a mean has an infinite one.
LARGEST_VARIANCE = 1e20
# Beyond it log odds, or their differences, overflow.
LARGEST_SCORE = 4e307
# What rounding may not take away: the sign of two classes' log odds, and the order of several far from the hyperplane.
SMALLEST_LOG_ODDS = 1e-15
SMALLEST_SLOPE = 1e-12
# Half an error at the median size of a score is added to the rows: without it a slope would be infinite where all rows
# are on their side. The prior of the slope has its mode at 2, with the say of a fraction of a row; that of the bend
# expects none.
PSEUDO_ERROR = 0.5
PRIOR_SLOPE, PRIOR_WEIGHT = 2.0, 0.1
BEND_PENALTY = 0.3
MOST_STEPS = 60
LONGEST_STEP = 2.0
ENOUGH = 1e-11
# More rows than this are put into bins, of which so many lie on each side of 0.
MOST_ROWS = 8192
BINS = 1024


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """Slope a, bend b and offset of the log odds of a fit's positive class.

    The offset takes class weights back out: probabilities are those of the population of the sample weights.
    """

    slope: float
    bend: float = 0.0
    offset: float = 0.0


def log_odds(calibrations: Sequence[Calibration], scores: Array, variances: Array) -> Array:
    """Log odds from scores, rows × models, averaged over what is unknown of a row.

    ``variances`` are those that missing inputs and new groups cause. All models have the same bend and, in a row, the
    same variance, so that the largest of several log odds belongs to the largest a f.
    """
    slopes = np.array([one.slope for one in calibrations])
    bend = float(np.mean([one.bend for one in calibrations]))
    offsets = np.array([one.offset for one in calibrations])
    with np.errstate(over="ignore"):
        scaled = np.clip(scores * slopes, -LARGEST_SCORE, LARGEST_SCORE)
        unknown = np.minimum(np.square(slopes) * variances, LARGEST_VARIANCE).mean(axis=1, keepdims=True)
    found = scaled / np.hypot(np.sqrt(1.0 + WIDENING * unknown), np.sqrt(bend) * scaled)
    found = np.sign(scaled) * np.maximum(np.abs(found), SMALLEST_LOG_ODDS) + SMALLEST_SLOPE * scaled
    return found + offsets


def calibrate(rows: RowInfluence, counts: Array) -> Calibration:
    """Learn the link from what each row did to the fit; ``counts`` are the sample weights, without class weights."""
    with np.errstate(all="ignore"):
        score = rows.left_out_scores(counts)
        largest = np.abs(rows.score).max()
        score = np.clip(np.where(np.isfinite(score), score, rows.score), -largest, largest)
        offset = _offset(rows, counts)
        labelled = _Labelled(rows.y, counts, score, rows.unknown)
        slope, bend = _climb(labelled if len(score) <= MOST_ROWS else labelled.in_bins(), offset)
    return Calibration(slope, bend, offset)


def _offset(rows: RowInfluence, counts: Array) -> float:
    """How much larger the weights of the negative rows are in the loss than in the sample, against the positive."""
    if counts is rows.s:
        return 0.0
    positive = rows.y > 0
    negative, positive = (rows.s[side].sum() / counts[side].sum() for side in (~positive, positive))
    return float(np.log(negative) - np.log(positive))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Labelled:
    """Labels, weights, scores and their unknown variances."""

    y: Array
    s: Array
    f: Array
    u: Array

    def in_bins(self) -> "_Labelled":
        """Rows of one label with nearly the same score as one row."""
        if self.u.any():
            return self
        unit = _median(np.abs(self.f), self.s)
        if not unit > 0:
            return self
        place = np.arcsinh(self.f / unit)
        place *= BINS / np.abs(place).max()
        bins = np.rint(place).astype(np.intp) + BINS + (2 * BINS + 1) * (self.y > 0)
        s, f = (np.bincount(bins, one, minlength=4 * BINS + 2).astype(np.float64) for one in (self.s, self.s * self.f))
        y, kept = np.repeat([-1.0, 1.0], 2 * BINS + 1), s > 0
        return _Labelled(y[kept], s[kept], f[kept] / s[kept], np.zeros(int(kept.sum())))


def _median(values: Array, weights: Array) -> float:
    """The smallest value with half of the weight at or below it."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(below, 0.5 * below[-1])]])


def _climb(rows: _Labelled, offset: float) -> tuple[float, float]:
    """Slope a and bend b: Fisher scoring in (log a, b a² × mean square of the scores), damped where a step fails."""
    objective = _Objective.of(rows, offset)
    if objective is None:
        return PRIOR_SLOPE, 0.0
    at = np.array([np.log(PRIOR_SLOPE), 0.0])
    loss, gradient, information = objective.at(at)
    damping = 0.0
    for _ in range(MOST_STEPS):
        moved = _moved(at, gradient, information, damping)
        reached, *slopes = objective.at(moved)
        if reached <= loss:
            gain, at, loss, damping = loss - reached, moved, reached, 0.1 * damping
            gradient, information = slopes
            if gain < ENOUGH * (1.0 + loss):
                break
        else:
            damping = max(4.0 * damping, 0.01)
    a = float(np.exp(at[0]))
    return a, float(at[1] / (objective.square * a * a))


def _moved(at: Array, gradient: Array, information: Array, damping: float) -> Array:
    """A step, which ends where the bend is 0."""
    damped = information + damping * np.diag(information.diagonal())
    if at[1] > 0.0 or gradient[1] < 0.0:
        step = -np.linalg.solve(damped, gradient)
        if at[1] + step[1] > 0.0:
            return at + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    step = -(gradient[0] - damped[0, 1] * at[1]) / damped[0, 0]
    return np.array([at[0] + np.clip(step, -LONGEST_STEP, LONGEST_STEP), 0.0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    """Minus the log likelihood of labels, with half an error more, and the priors."""

    rows: _Labelled
    offset: float
    median: float
    square: float

    @staticmethod
    def of(rows: _Labelled, offset: float) -> "_Objective | None":
        """None where scores say nothing, as they are all 0."""
        square = float(rows.s @ np.square(rows.f) / rows.s.sum())
        if not 0.0 < square < np.inf:
            return None
        return _Objective(rows, offset, _median(np.abs(rows.f), rows.s), square)

    def at(self, place: Array) -> tuple[float, Array, Array]:
        """Value, gradient and information at (log a, b a² × mean square)."""
        rows, a, c = self.rows, float(np.exp(place[0])), float(place[1])
        squares = np.square(rows.f) / self.square
        bent = 1.0 + c * squares
        root = bent + (WIDENING * a * a) * rows.u
        psi = a * rows.f / np.sqrt(root)
        odds = psi + self.offset
        p = expit(odds)
        value = float(rows.s @ np.logaddexp(0.0, -rows.y * odds))
        J = np.stack([psi * bent / root, -0.5 * psi * squares / root])
        gradient = J @ (rows.s * (p - (rows.y > 0)))
        information = (J * (rows.s * p * (1.0 - p))) @ J.T
        of_error = PSEUDO_ERROR * a * self.median * float(expit(a * self.median))
        of_prior = PRIOR_WEIGHT * a / PRIOR_SLOPE
        value += PSEUDO_ERROR * float(np.logaddexp(0.0, a * self.median)) + BEND_PENALTY * c
        value += of_prior - PRIOR_WEIGHT * float(place[0])
        gradient += [of_error + of_prior - PRIOR_WEIGHT, BEND_PENALTY]
        information[0, 0] += of_error + of_prior
        information[1, 1] += 1e-9
        return value, gradient, information
