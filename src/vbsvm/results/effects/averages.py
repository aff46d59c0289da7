"""Averages of predicted probabilities over rows, and how far they are known.

An average of probabilities p answers to the coefficients of columns: its gradient is the weighted sum of ∂p/∂f c over
the rows c. Where scores become probabilities by a link that was learned from labels, its slope answers to the
coefficients too, and is uncertain itself (``Link``). What else a probability depends on is held: the link's bend,
variance components, effects of groups, and the distribution of missing inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, stdtr, stdtrit

from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.results import prediction
from vbsvm.results.calibration import Calibration
from vbsvm.results.covariance import MAX_COLUMNS, Intervals, NormalIntervals
from vbsvm.results.fit_predictions import odds_scores, score_changes, summed_slopes
from vbsvm.results.posterior import Sampled
from vbsvm.results.prediction import Scores

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

# More of a sampler's draws would tell nothing that a table shows.
MAX_DRAWS = 1000
# Draws of the largest |t|: the Monte Carlo error of its 95 % quantile is about .007.
N_LARGEST = 2**16
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

    @staticmethod
    def weighted_sum(averages: "Sequence[AverageEstimate]", weights: Array) -> "AverageEstimate":
        """Sum of averages times weights; a weight of 0 leaves an average out, whatever its value."""
        chosen, w = [one for one, weight in zip(averages, weights, strict=True) if weight], weights[weights != 0]
        with np.errstate(invalid="ignore"):
            return _combined(lambda parts: np.tensordot(w, parts, 1), chosen)

    @staticmethod
    def concatenated(averages: "Sequence[AverageEstimate]") -> "AverageEstimate":
        """All estimates one after another."""
        return _combined(np.concatenate, averages)

    def on_scale(self, scale: "Scale") -> "AverageEstimate":
        """Estimates on a scale, such as log odds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gradients = tuple(gradient / scale.slope(self.value)[:, None] for gradient in self.gradients)
            draws = None if self.draws is None else scale.forward(self.draws)
            return AverageEstimate(scale.forward(self.value), gradients, draws)


def _combined(function: Callable[[Sequence[Array]], Array], averages: Sequence[AverageEstimate]) -> AverageEstimate:
    """Apply a function along the estimates to values, gradients and draws."""
    gradients = tuple(map(function, zip(*(average.gradients for average in averages), strict=True)))
    draws = [average.draws.T for average in averages if average.draws is not None]
    return AverageEstimate(function([one.value for one in averages]), gradients, function(draws).T if draws else None)


class Scale(NamedTuple):
    """A scale on which intervals are symmetric; ``slope`` is the derivative of ``back``, by what ``back`` returns."""

    forward: Callable[[Array], Array]
    back: Callable[[Array], Array]
    slope: Callable[[Array], Array]


PLAIN = Scale(lambda x: x, lambda x: x, np.ones_like)
LOGS = Scale(np.log, np.exp, lambda ratio: ratio)
LOGITS = Scale(logit, expit, lambda p: p * (1.0 - p))


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
        sampled = [(model.sample.flat, model) for model in self.intervals if isinstance(model, Sampled)]
        chosen = np.linspace(0, len(sampled[0][0]) - 1, min(len(sampled[0][0]), MAX_DRAWS)).astype(np.intp)
        changes = [draws[chosen, : model.plan.n_fixed] - model.mean for draws, model in sampled]
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

    @property
    def of_posterior(self) -> bool:
        """Whether standard errors are those of a posterior, and not of repeated sampling."""
        return all(intervals.notes.of_posterior for intervals in self.intervals)

    def interval(
        self, of: AverageEstimate, level: float, scale: Scale, *, simultaneous: bool = False, tested: bool = False
    ) -> dict[str, Array]:
        """Estimates, standard errors and intervals on the user's scale; with ``tested`` p-values of 0 or P(> 0)."""
        by = self._interval_by_covariance if of.draws is None else self._interval_by_draws
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            sd, lower, upper, test = by(of, level, scale, simultaneous)
            ends = {"lower": scale.back(lower), "upper": scale.back(upper)}
            test_column = {"p_positive" if self.of_posterior else "p_value": test} if tested else {}
            return {"estimate": scale.back(of.value), "std_error": sd, **ends, **test_column}

    def _interval_by_draws(
        self, of: AverageEstimate, level: float, scale: Scale, simultaneous: bool
    ) -> tuple[Array, Array, Array, Array]:
        assert of.draws is not None
        lower, upper = np.quantile(of.draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        if simultaneous:
            sd = of.draws.std(axis=0)
            reach = sd * np.quantile(np.nan_to_num(np.abs(of.draws - of.value) / sd).max(axis=1), level)
            lower, upper = of.value - reach, of.value + reach
        return scale.back(of.draws).std(axis=0), lower, upper, (of.draws > 0).mean(axis=0)

    def _interval_by_covariance(
        self, of: AverageEstimate, level: float, scale: Scale, simultaneous: bool
    ) -> tuple[Array, Array, Array, Array]:
        known = np.isfinite(of.value)  # else a probability is 0 or 1 to rounding, and nothing is left to doubt
        errors = [
            [np.hypot(intervals.combination(np.array(t), [])[0], link) for *t, link in of_model]
            for intervals, of_model in zip(self.intervals, of.gradients, strict=True)
        ]
        sd = np.where(known, np.sum(errors, axis=0), 0.0)
        t = np.where(known & ((sd > 0) | (of.value != 0)), of.value / sd, np.where(known, 0.0, np.nan))
        degrees = min(one.degrees if isinstance(one, NormalIntervals) else np.inf for one in self.intervals)
        p, quantile = 2.0 * stdtr(degrees, -np.abs(t)), float(stdtrit(degrees, 0.5 + 0.5 * level))
        if simultaneous:
            largest = largest_statistics(self._loadings(of.gradients, sd), degrees)
            beyond = 1.0 - np.searchsorted(largest, np.abs(t)) / len(largest)
            p, quantile = np.clip(beyond, p, np.minimum(len(p) * p, 1.0)), float(np.quantile(largest, level))
        lower, upper = (np.where(known, of.value + way * quantile * sd, of.value) for way in (-1.0, 1.0))
        on_scale = np.where(known, scale.slope(scale.back(of.value)) * sd, 0.0)
        return on_scale, lower, upper, stdtr(degrees, t) if self.of_posterior else p

    def _loadings(self, gradients: Sequence[Array], sd: Array) -> Array:
        """L such that L Lᵀ is the estimates' correlation, or taken as none: that is conservative (Šidák 1967)."""
        if len(gradients) > 1 or gradients[0].shape[1] > MAX_COLUMNS:
            return np.eye(len(sd))
        values, vectors = np.linalg.eigh(self.intervals[0].covariance)
        by_coefficient = gradients[0][:, :-1] @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return np.nan_to_num(np.column_stack([by_coefficient, gradients[0][:, -1]]) / sd[:, None], posinf=0.0)


def largest_statistics(loadings: Array, degrees: float) -> Array:
    """Sorted draws, the same each time, of the largest |t| among estimates (Hothorn, Bretz & Westfall 2008).

    ``loadings`` are those of the standardised estimates on independent variables.
    """
    rng, triangle, largest = np.random.default_rng(0), np.linalg.qr(loadings.T)[1], []
    for run in _slices(N_LARGEST, max(triangle.shape)):
        t = rng.standard_normal((run.stop - run.start, len(triangle))) @ triangle
        scales = np.sqrt(rng.chisquare(degrees, len(t)) / degrees) if np.isfinite(degrees) else 1.0
        largest.append(np.abs(t).max(axis=1) / scales)
    return np.sort(np.concatenate(largest))


def _slices(n: int, numbers_each: int) -> list[slice]:
    """Slices of range(n) whose numbers fit in memory at once."""
    size = max(1, MAX_NUMBERS // max(numbers_each, 1))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def weights_in_groups(weights: Array, codes: NDArray[np.intp], n_groups: int) -> Array:
    """Normalised weights of rows within their group, rows × groups; 0 for rows without a group (−1)."""
    matrix = weights[:, None] * (codes[:, None] == np.arange(n_groups))
    return matrix / matrix.sum(axis=0)
