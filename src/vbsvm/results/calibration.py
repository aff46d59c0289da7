"""Calibration: probabilities from decision values, by a link estimated from leave-one-out decision values.

The log odds of the positive class are ψ(f) = a f / √(1 + b (a f)²), plus an offset where class weights are in use. ψ is
odd and increasing: its sign is that of the score, and far from the hyperplane it levels off where scores are less
certain than they are large. Slope a and bend b maximise the likelihood of the labels, given scores of fits without the
row (``model/left_out.py``), so that no refit is needed. With several classes a common factor of all slopes follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, softmax

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.logistic import log_mean_expit
from vbsvm.model.row_pass import RowInfluence

# The variance of a normal score widens a logistic curve as much as this proportion of it in the square of the slope.
WIDENING = np.pi / 8
# Beyond it a score carries no information; a distribution without a mean has an infinite variance.
LARGEST_VARIANCE = 1e20
# Beyond it log odds, or their differences, overflow.
LARGEST_SCORE = 4e307
# What rounding may not take away: the sign of two classes' log odds, and the order of several far from the hyperplane.
SMALLEST_LOG_ODDS = 1e-15
SMALLEST_SLOPE = 1e-12
# Half an error at the median size of a score is added to the rows: without it a slope would be infinite where all rows
# are classified correctly. The prior of the slope has its mode at 2 and the weight of a fraction of a row; the bend's
# expects none.
PSEUDO_ERROR = 0.5
PRIOR_SLOPE, PRIOR_WEIGHT = 2.0, 0.1
BEND_PENALTY = 0.3
MAX_STEPS = 60
MAX_STEP = 2.0
TOLERANCE = 1e-11
# Weight of the prior at θ = 1, as a number of rows; and the largest |log θ|.
TEMPER_WEIGHT = 3.0
MAX_LOG_TEMPER = 12.0
# Maximum number of rows from which the common factor of several classes is estimated.
MAX_TEMPERED = 100_000
# More rows than MAX_ROWS are binned, with BINS bins on each side of 0.
MAX_ROWS = 8192
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

    def scaled(self, factor: float) -> "Calibration":
        """The link whose log odds, without the offset, are these times a factor."""
        return replace(self, slope=factor * self.slope, bend=self.bend / factor**2)


def log_odds(calibrations: Sequence[Calibration], scores: Array, variances: Array) -> Array:
    """Log odds from scores, rows × models, averaged over missing predictors and effects of new groups.

    ``variances`` are those that missing predictors and new groups cause. All models have the same bend and, in a row,
    the same variance, so that the largest of several log odds belongs to the largest a f.
    """
    return _link(calibrations, scores, variances) + np.array([calibration.offset for calibration in calibrations])


def _link(calibrations: Sequence[Calibration], scores: Array, variances: Array) -> Array:
    """ψ of each score, without offsets."""
    slopes = np.array([calibration.slope for calibration in calibrations])
    bend = float(np.mean([calibration.bend for calibration in calibrations]))
    with np.errstate(over="ignore"):
        scaled = np.clip(scores * slopes, -LARGEST_SCORE, LARGEST_SCORE)
        unknown = np.minimum(np.square(slopes) * variances, LARGEST_VARIANCE).mean(axis=1, keepdims=True)
    psi = scaled / np.hypot(np.sqrt(1.0 + WIDENING * unknown), np.sqrt(bend) * scaled)
    return np.sign(scaled) * np.maximum(np.abs(psi), SMALLEST_LOG_ODDS) + SMALLEST_SLOPE * scaled


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutScores:
    """Leave-one-out scores f of rows with labels y = ±1 and weights s; u is their variance by missing predictors.

    ``offset`` is what class weights added to the log odds, and ``fitted`` are the scores of the fit to all rows. A
    ``leverage`` near 1 says that f is not to be trusted.
    """

    y: Array
    s: Array
    f: Array
    u: Array
    offset: float = 0.0
    fitted: Array | None = None
    leverage: Array | None = None

    @staticmethod
    def from_influence(rows: RowInfluence, counts: Array) -> "LeftOutScores":
        """Leave-one-out scores from the influence of rows; ``counts`` are the sample weights, without class weights."""
        with np.errstate(all="ignore"):
            f = rows.left_out_scores(counts)
            largest = np.abs(rows.score).max()  # first-order scores beyond it are not reliable
            f = np.clip(np.where(np.isfinite(f), f, rows.score), -largest, largest)
            leverage = rows.leverage(counts)
        offset = 0.0 if counts is rows.s else _offset(rows, counts)
        return LeftOutScores(rows.y, counts, f, rows.missing_variance, offset, rows.score, leverage)

    def binned(self) -> "LeftOutScores":
        """Bin rows by label and score; each bin counts as one row."""
        unit = _median(np.abs(self.f), self.s)
        if self.u.any() or not unit > 0:
            return self
        place = np.arcsinh(self.f / unit)
        place *= BINS / np.abs(place).max()
        bins = np.rint(place).astype(np.intp) + BINS + (2 * BINS + 1) * (self.y > 0)
        s, f = (np.bincount(bins, x, minlength=4 * BINS + 2).astype(np.float64) for x in (self.s, self.s * self.f))
        y, kept = np.repeat([-1.0, 1.0], 2 * BINS + 1), s > 0
        return LeftOutScores(y[kept], s[kept], f[kept] / s[kept], np.zeros(int(kept.sum())), self.offset)


def _offset(rows: RowInfluence, counts: Array) -> float:
    """Log ratio of loss to sample weights of the negative rows, minus that of the positive rows."""
    sides = rows.y < 0, rows.y > 0
    negative, positive = (float(np.log(rows.s[side].sum()) - np.log(counts[side].sum())) for side in sides)
    return negative - positive


def calibrate(models: Sequence[LeftOutScores]) -> list[Calibration]:
    """Fit the link of each model: one for two classes, else one for each class against the rest, on the same rows."""
    with np.errstate(all="ignore"):
        links = [_calibration(model if len(model.f) <= MAX_ROWS else model.binned()) for model in models]
        return links if len(links) == 1 else _tempered(links, models)


def _tempered(calibrations: list[Calibration], models: Sequence[LeftOutScores]) -> list[Calibration]:
    """Multiply slopes by a factor θ, the mode of its posterior: one-vs-rest odds are overconfident between classes."""
    every = slice(None, None, -(-len(models[0].f) // MAX_TEMPERED))
    f, u = (np.stack([getattr(model, name)[every] for model in models], axis=1) for name in ("f", "u"))
    truth, s = np.stack([model.y[every] for model in models], axis=1) > 0, models[0].s[every]
    psi, offsets = _link(calibrations, f, u), np.array([model.offset for model in calibrations])
    psi_of_class = float(s @ psi[truth])

    def slope(log_theta: float) -> float:
        theta = float(np.exp(log_theta))
        chances = softmax(theta * psi + offsets, axis=1)
        return float(s @ (chances * psi).sum(axis=1)) - psi_of_class + TEMPER_WEIGHT * (1.0 - 1.0 / theta)

    if not np.isfinite(slope(0.0)) or slope(-MAX_LOG_TEMPER) > 0 or slope(MAX_LOG_TEMPER) < 0:
        return calibrations
    root: Any = brentq(slope, -MAX_LOG_TEMPER, MAX_LOG_TEMPER, xtol=1e-10)
    theta = float(np.exp(root))
    return [model.scaled(theta) for model in calibrations]


def _median(values: Array, weights: Array) -> float:
    """Weighted median: the smallest value with half of the weight at or below it."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(below, 0.5 * below[-1])]])


def _calibration(rows: LeftOutScores) -> Calibration:
    """Fit slope a and bend b by damped Newton steps in (log a, b a² × mean square of the scores)."""
    square = float(rows.s @ np.square(rows.f) / rows.s.sum())
    if not 0.0 < square < np.inf:
        return Calibration(PRIOR_SLOPE, 0.0, rows.offset)
    objective = _Objective(rows, _median(np.abs(rows.f), rows.s), square)
    point = np.array([np.log(PRIOR_SLOPE), 0.0])
    loss, gradient, curvature = objective.evaluate(point)
    damping = 0.0
    for _ in range(MAX_STEPS):
        proposal = _bounded_step(point, gradient, curvature, damping)
        trial_loss, *derivatives = objective.evaluate(proposal)
        if trial_loss <= loss:
            gain, point, loss, damping = loss - trial_loss, proposal, trial_loss, 0.1 * damping
            gradient, curvature = derivatives
            if gain < TOLERANCE * (1.0 + loss):
                break
        else:
            damping = max(10.0 * damping, 0.1)
    a = float(np.exp(point[0]))
    return Calibration(a, float(point[1] / (square * a * a)), rows.offset)


def _bounded_step(parameters: Array, gradient: Array, curvature: Array, damping: float) -> Array:
    """Parameters after a Newton step, with the bend bounded below by 0."""
    damped = curvature + damping * np.diag(curvature.diagonal())
    if parameters[1] > 0.0 or gradient[1] < 0.0:
        step = -np.linalg.solve(damped, gradient)
        if parameters[1] + step[1] > 0.0:
            return parameters + np.clip(step, -MAX_STEP, MAX_STEP)
    step = -(gradient[0] - damped[0, 1] * parameters[1]) / damped[0, 0]
    return np.array([parameters[0] + np.clip(step, -MAX_STEP, MAX_STEP), 0.0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    """Negative log posterior of (a, b): labels, half a pseudo-error, and the priors."""

    rows: LeftOutScores
    median: float
    square: float

    def evaluate(self, place: Array) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian at (log a, b a² × mean square); the expected Hessian if not positive definite."""
        rows, a, c = self.rows, float(np.exp(place[0])), float(place[1])
        q = np.square(rows.f) / self.square
        bent = 1.0 + c * q
        root = bent + (WIDENING * a * a) * rows.u
        psi = a * rows.f / np.sqrt(root)
        p = expit(psi + rows.offset)
        error, x = rows.s * (p - (rows.y > 0)), a * self.median
        of_error, of_prior = PSEUDO_ERROR * x * float(expit(x)), PRIOR_WEIGHT * a / PRIOR_SLOPE
        value = float(rows.s @ np.logaddexp(0.0, -rows.y * (psi + rows.offset))) + BEND_PENALTY * c
        value += PSEUDO_ERROR * float(np.logaddexp(0.0, x)) + of_prior - PRIOR_WEIGHT * float(place[0])
        bent, q = bent / root, q / root
        J = np.stack([psi * bent, -0.5 * psi * q])
        gradient = J @ error + [of_error + of_prior - PRIOR_WEIGHT, BEND_PENALTY]
        curvature = (J * (rows.s * p * (1.0 - p))) @ J.T + 1e-9 * np.eye(2)
        curvature[0, 0] += of_error * (1.0 + x * float(expit(-x))) + of_prior
        error *= psi  # times second derivatives of ψ, as proportions of ψ
        rest = 1.0 - bent
        mixed = float(error @ (q * (rest - 0.5 * bent)))
        of_slope, of_bend = float(error @ (bent * (bent - 2.0 * rest))), 0.75 * float(error @ (q * q))
        observed = curvature + np.array([[of_slope, mixed], [mixed, of_bend]])
        positive = observed[0, 0] > 0 and np.linalg.det(observed) > 0
        return value, gradient, observed if positive else curvature


@final
@dataclass(frozen=True, slots=True)
class PosteriorMean:
    """The link of a logistic likelihood: the score is the log odds, and ``offset`` corrects for class weights."""

    slope: ClassVar[float] = 1.0
    offset: float = 0.0


def population_log_odds(links: Sequence[PosteriorMean], odds: Array) -> Array:
    """Log odds of the population, rows × models; of several classes the log probability of each against the rest."""
    odds = odds + np.array([link.offset for link in links])
    return odds if len(links) == 1 else odds - np.logaddexp(0.0, odds)


def mean_log_odds(scores: Array, variances: Array) -> Array:
    """Log odds of the mean of expit under normal scores; they have the sign of the mean score."""
    t = np.minimum(variances, LARGEST_VARIANCE)
    odds = log_mean_expit(scores, t) - log_mean_expit(-scores, t)
    return np.sign(scores) * np.maximum(np.abs(odds), SMALLEST_SLOPE * np.abs(scores))
