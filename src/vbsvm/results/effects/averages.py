"""Averages of predicted probabilities over rows, and how far they are known.

An average of probabilities p answers to the coefficients of columns: its gradient is the weighted sum of ∂p/∂f c over
the rows c. Where scores become probabilities by a link that was learned from labels, its slope answers to the
coefficients too, and is uncertain itself (``Link``). What else a probability depends on is held: the link's bend,
variance components, effects of groups, and the distribution of missing inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.results import prediction
from vbsvm.results.calibration import Calibration
from vbsvm.results.covariance import Intervals
from vbsvm.results.fit_predictions import odds_scores, score_changes, summed_slopes
from vbsvm.results.posterior import Sampled
from vbsvm.results.prediction import Scores

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

# More of a sampler's draws would tell nothing that a table shows.
MAX_DRAWS = 1000
# Numbers that are held at once.
MAX_NUMBERS = 2**22
# The step of numeric derivatives by the score, in units of the score where that is large.
STEP = 1e-5
# Fewer rows tell nothing of a link.
MIN_ROWS = 30


@final
@dataclass(frozen=True, eq=False)
class AverageEstimate:
    """Estimates and their gradients by the coefficients of each model (estimates × coefficients); or their draws.

    The last column of a gradient is the standard deviation that the link's slope causes on its own.
    """

    value: Array
    gradients: tuple[Array, ...]
    draws: Array | None = None

    def minus(self, other: "AverageEstimate") -> "AverageEstimate":
        """Differences."""
        gradients = tuple(a - b for a, b in zip(self.gradients, other.gradients, strict=True))
        draws = None if self.draws is None or other.draws is None else self.draws - other.draws
        return AverageEstimate(self.value - other.value, gradients, draws)

    def logs(self) -> "AverageEstimate":
        """Logarithms of probabilities."""
        return self._transform(np.log, lambda p: 1.0 / p)

    def logits(self) -> "AverageEstimate":
        """Log odds of probabilities."""
        return self._transform(logit, lambda p: 1.0 / (p * (1.0 - p)))

    def _transform(self, function: Callable[[Array], Array], slope: Callable[[Array], Array]) -> "AverageEstimate":
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = slope(self.value)[:, None]
            gradients = tuple(factor * gradient for gradient in self.gradients)
            return AverageEstimate(
                function(self.value), gradients, None if self.draws is None else function(self.draws)
            )


# Scales on which intervals are symmetric: the inverse, and the derivative of that as a function of its value.
Scale = tuple[Callable[[Array], Array], Callable[[Array], Array]]
PLAIN: Scale = (lambda x: x, np.ones_like)
LOGS: Scale = (np.exp, lambda ratio: ratio)
LOGITS: Scale = (expit, lambda p: p * (1.0 - p))


@final
@dataclass(frozen=True, eq=False)
class Link:
    """Uncertainty of the slope a of a link ψ(f), estimated by maximum likelihood given the scores.

    ``response`` is −∂ log a/∂θ, and ``sd`` the standard deviation of log a given the coefficients θ. Together
    they replace the coefficients' own variance in the direction of their size, on which probabilities do not depend.
    """

    response: Array
    sd: float

    @staticmethod
    def learn(fit: "Fit", encoded: Encoded, weights: Array, n_rows: float) -> "Link | None":
        """Estimate from rows like the ``n_rows`` of the fit; None without a calibration, or with too few rows.

        With ψ the log odds: ∂ log a/∂θ = −Σ p(1 − p) ψ ψ′ c / Σ p(1 − p) ψ².
        """
        calibration = fit._link
        if not isinstance(calibration, Calibration) or len(weights) < MIN_ROWS:
            return None
        scores = odds_scores(fit, encoded)
        up, middle, down = (
            prediction.log_odds([replace(scores, mean=scores.mean + way * STEP)], [calibration])[:, 0]
            for way in (1.0, 0.0, -1.0)
        )
        p, psi = expit(middle), middle - calibration.offset
        each = weights / weights.sum() * p * (1.0 - p) * psi
        information = float(each @ psi)
        if not information * n_rows > 0:
            return None
        slopes = summed_slopes(fit, encoded, (each * (up - down) / (2.0 * STEP))[:, None])[:, 0]
        return Link(slopes / information, 1.0 / np.sqrt(information * n_rows))


@final
@dataclass(frozen=True, eq=False)
class Models:
    """Models that give the class probabilities (one, or one for each of several classes), and their covariances.

    Fits of one class against the rest have no joint covariance: standard errors are added as if fully correlated, so
    that intervals of several classes are conservative. ``link`` is that of two classes, or None if taken as fixed.
    """

    fits: "Sequence[Fit]"
    intervals: Sequence[Intervals]
    link: Link | None = None

    def average(self, encoded: Encoded, weights: Array) -> AverageEstimate:
        """Weighted sums of probabilities, for each group and class; ``weights`` are rows × groups."""
        scores = [odds_scores(fit, encoded) for fit in self.fits]
        value = (weights.T @ self._probabilities(scores)).ravel()
        if all(isinstance(intervals, Sampled) for intervals in self.intervals):
            return AverageEstimate(value, (), self._average_draws(encoded, scores, weights))
        return AverageEstimate(value, tuple(self._gradient(encoded, scores, weights, k) for k in range(len(scores))))

    def _probabilities(self, scores: Sequence[Scores], links: Sequence[prediction.Link | None] | None = None) -> Array:
        """Probabilities, rows × classes; for two classes that of the second only."""
        links = [fit._link for fit in self.fits] if links is None else links
        chances = prediction.probabilities(prediction.log_odds(scores, links))
        return chances[:, 1:] if len(scores) == 1 else chances

    def _slopes(self, scores: Sequence[Scores], k: int) -> Array:
        """Derivatives ∂p/∂f of each row by the score of the k-th model, rows × classes, by central differences."""
        f = scores[k].mean
        step = STEP * np.maximum(1.0, np.abs(f))
        up, down = (
            self._probabilities([*scores[:k], replace(scores[k], mean=f + way * step), *scores[k + 1 :]])
            for way in (1.0, -1.0)
        )
        return (up - down) / (2.0 * step[:, None])

    def _gradient(self, encoded: Encoded, scores: Sequence[Scores], weights: Array, k: int) -> Array:
        slopes, pieces = self._slopes(scores, k), []
        for run in _slices(weights.shape[1], len(slopes) * slopes.shape[1]):
            of_rows = (weights[:, run, None] * slopes[:, None, :]).reshape(len(slopes), -1)
            pieces.append(summed_slopes(self.fits[k], encoded, of_rows).T)
        gradient = np.concatenate(pieces)
        if self.link is None:
            return np.column_stack([gradient, np.zeros(len(gradient))])
        calibration = self.fits[k]._link
        assert isinstance(calibration, Calibration)
        up, down = (self._probabilities(scores, [calibration.scaled(np.exp(way * STEP))]) for way in (1.0, -1.0))
        by_slope = weights.T @ ((up - down) / (2.0 * STEP))  # ∂p/∂ log a
        return np.column_stack([gradient - by_slope * self.link.response, by_slope * self.link.sd])

    def _average_draws(self, encoded: Encoded, scores: Sequence[Scores], weights: Array) -> Array:
        """Averages at each draw of the coefficients, draws × estimates."""
        changes = [_centred_draws(model) for model in self.intervals if isinstance(model, Sampled)]
        n_rows, pieces = len(weights), []
        for run in _slices(len(changes[0]), n_rows * len(scores)):
            size = run.stop - run.start
            shifted = [
                Scores(
                    (model.mean[:, None] + score_changes(fit, encoded, change[run])).ravel(),
                    np.repeat(model.variance, size),
                    np.repeat(model.from_unknown, size),
                    None if model.departures is None else np.repeat(model.departures, size, axis=0),
                )
                for fit, model, change in zip(self.fits, scores, changes, strict=True)
            ]
            chances = self._probabilities(shifted).reshape(n_rows, -1)
            sums = (weights.T @ chances).reshape(weights.shape[1], size, -1)
            pieces.append(sums.transpose(1, 0, 2).reshape(size, -1))
        return np.concatenate(pieces)

    def interval(self, of: AverageEstimate, level: float, scale: Scale) -> tuple[Array, Array, Array, Array]:
        """Estimates, standard errors, and lower and upper ends of intervals, on the user's scale."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            back, slope = scale
            estimate, chances = back(of.value), [0.5 - 0.5 * level, 0.5 + 0.5 * level]
            if of.draws is not None:
                lower, upper = np.quantile(of.draws, chances, axis=0)
                return estimate, back(of.draws).std(axis=0), back(lower), back(upper)
            sd, reach = self._half_widths(of.gradients, chances[1])
            known = np.isfinite(of.value)  # else a probability is 0 or 1 to rounding, and nothing is left to doubt
            lower, upper = (np.where(known, back(of.value + way * reach), estimate) for way in (-1.0, 1.0))
            return estimate, np.where(known, slope(estimate) * sd, 0.0), lower, upper

    def _half_widths(self, gradients: Sequence[Array], chance: float) -> tuple[Array, Array]:
        """Standard errors, and half widths of intervals."""
        sd, reach = (np.zeros(len(gradients[0])) for _ in range(2))
        for fit, intervals, of_model in zip(self.fits, self.intervals, gradients, strict=True):
            for j, (*gradient, by_link) in enumerate(of_model):
                t = np.array(gradient)
                spread, (end,), _ = intervals.combination(t, [chance])
                distance = end - float(t @ fit.posterior.mean)
                total = float(np.hypot(spread, by_link))
                sd[j] += total
                reach[j] += total * (distance / spread if spread > 0 else float(ndtri(chance)))
        return sd, reach


def _centred_draws(sampled: Sampled) -> Array:
    """Draws of the columns' coefficients minus their mean."""
    draws = sampled.sample.flat[:, : sampled.plan.n_fixed]
    chosen = np.linspace(0, len(draws) - 1, min(len(draws), MAX_DRAWS)).astype(np.intp)
    return draws[chosen] - sampled.mean


def _slices(n: int, numbers_each: int) -> list[slice]:
    """Slices of range(n) whose numbers fit in memory at once."""
    size = max(1, MAX_NUMBERS // max(numbers_each, 1))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def weights_in_groups(weights: Array, codes: NDArray[np.intp], n_groups: int) -> Array:
    """Normalised weights of rows within their group, rows × groups; 0 for rows without a group (−1)."""
    matrix = np.zeros((len(weights), n_groups))
    inside = codes >= 0
    matrix[np.flatnonzero(inside), codes[inside]] = weights[inside]
    return matrix / matrix.sum(axis=0)
