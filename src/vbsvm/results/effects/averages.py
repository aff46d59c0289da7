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
MOST_DRAWS = 1000
# Numbers that are held at once.
AT_ONCE = 2**22
# The step of numeric derivatives by the score, in units of the score where that is large.
STEP = 1e-5
# Fewer rows tell nothing of a link.
FEWEST_ROWS = 30


@final
@dataclass(frozen=True, eq=False)
class Averaged:
    """Numbers, and how they answer to the coefficients of each model (numbers × coefficients); or their draws.

    The last column of a gradient is the standard deviation that the link's slope causes on its own.
    """

    value: Array
    gradients: tuple[Array, ...]
    draws: Array | None = None

    def minus(self, other: "Averaged") -> "Averaged":
        """Differences."""
        gradients = tuple(one - two for one, two in zip(self.gradients, other.gradients, strict=True))
        draws = None if self.draws is None or other.draws is None else self.draws - other.draws
        return Averaged(self.value - other.value, gradients, draws)

    def logs(self) -> "Averaged":
        """Logarithms of probabilities."""
        return self._mapped(np.log, lambda p: 1.0 / p)

    def logits(self) -> "Averaged":
        """Log odds of probabilities."""
        return self._mapped(logit, lambda p: 1.0 / (p * (1.0 - p)))

    def _mapped(self, function: Callable[[Array], Array], slope: Callable[[Array], Array]) -> "Averaged":
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = slope(self.value)[:, None]
            gradients = tuple(factor * one for one in self.gradients)
            return Averaged(function(self.value), gradients, None if self.draws is None else function(self.draws))


@final
@dataclass(frozen=True, eq=False)
class Scale:
    """On which scale intervals are symmetric: the way back from there, and its slope by what it gives."""

    back: Callable[[Array], Array]
    slope: Callable[[Array], Array]


PLAIN = Scale(lambda x: x, np.ones_like)
LOGS = Scale(np.exp, lambda ratio: ratio)
LOGITS = Scale(expit, lambda p: p * (1.0 - p))


@final
@dataclass(frozen=True, eq=False)
class Link:
    """How the slope a of a link ψ(f) is known: its maximum likelihood given the scores.

    ``response`` is −∂ log a/∂θ, and ``sd`` the standard deviation of log a where the coefficients θ are known. Together
    they replace the coefficients' own spread in the direction of their size, which probabilities do not depend on.
    """

    response: Array
    sd: float

    @staticmethod
    def learn(fit: "Fit", encoded: Encoded, weights: Array, n_rows: float) -> "Link | None":
        """From rows like those of the fit, which had ``n_rows``; None where nothing was learned, or rows are too few.

        With ψ the log odds: ∂ log a/∂θ = −Σ p(1 − p) ψ ψ′ c / Σ p(1 − p) ψ².
        """
        calibration = fit._link
        if not isinstance(calibration, Calibration) or len(weights) < FEWEST_ROWS:
            return None
        found = odds_scores(fit, encoded)
        up, middle, down = (
            prediction.log_odds([replace(found, mean=found.mean + way * STEP)], [calibration])[:, 0]
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
    """The models that together give probabilities: one of two classes, or one for each of several; and their spreads.

    Fits of one class against the rest have no joint covariance. Their parts are added as if all erred together, so that
    intervals of several classes are rather too wide. A ``link`` is that of two classes; None is held.
    """

    fits: "Sequence[Fit]"
    intervals: Sequence[Intervals]
    link: Link | None = None

    @staticmethod
    def of(
        fits: "Sequence[Fit]",
        intervals: Sequence[Intervals],
        rows: Callable[[], tuple[Encoded, Array]],
        n_rows: float,
    ) -> "Models":
        """Models whose link is learned from ``rows`` and their weights, where a covariance is shown and not draws."""
        if len(fits) > 1 or isinstance(intervals[0], Sampled):
            return Models(fits, intervals)
        return Models(fits, intervals, Link.learn(fits[0], *rows(), n_rows))

    @property
    def by_draws(self) -> bool:
        """Whether draws are shown, and not a covariance."""
        return all(isinstance(one, Sampled) for one in self.intervals)

    def average(self, encoded: Encoded, weights: Array) -> Averaged:
        """Sums of the rows' probabilities, with weights that are rows × groups; for each group and then class."""
        found = [odds_scores(fit, encoded) for fit in self.fits]
        value = (weights.T @ self._chances(found)).ravel()
        if self.by_draws:
            return Averaged(value, (), self._drawn(encoded, found, weights))
        return Averaged(value, tuple(self._gradient(encoded, found, weights, k) for k in range(len(found))))

    def _chances(self, found: Sequence[Scores], links: Sequence[prediction.Link | None] | None = None) -> Array:
        """Probabilities, rows × classes; of two classes that of the second alone."""
        links = [fit._link for fit in self.fits] if links is None else links
        chances = prediction.probabilities(prediction.log_odds(found, links))
        return chances[:, 1:] if len(found) == 1 else chances

    def _slopes(self, found: Sequence[Scores], k: int) -> Array:
        """∂p/∂f of each row by the score of the k-th model, rows × classes; central differences."""
        f = found[k].mean
        step = STEP * np.maximum(1.0, np.abs(f))
        up, down = (self._chances(_moved(found, k, f + way * step)) for way in (1.0, -1.0))
        return (up - down) / (2.0 * step[:, None])

    def _gradient(self, encoded: Encoded, found: Sequence[Scores], weights: Array, k: int) -> Array:
        slopes, pieces = self._slopes(found, k), []
        for some in _runs(weights.shape[1], len(slopes) * slopes.shape[1]):
            of_rows = (weights[:, some, None] * slopes[:, None, :]).reshape(len(slopes), -1)
            pieces.append(summed_slopes(self.fits[k], encoded, of_rows).T)
        gradient = np.concatenate(pieces)
        if self.link is None:
            return np.column_stack([gradient, np.zeros(len(gradient))])
        by_slope = weights.T @ self._by_slope(found[k], self.fits[k]._link)
        return np.column_stack([gradient - by_slope * self.link.response, by_slope * self.link.sd])

    def _by_slope(self, found: Scores, calibration: prediction.Link | None) -> Array:
        """∂p/∂ log a of each row, in a column."""
        assert isinstance(calibration, Calibration)
        up, down = (self._chances([found], [calibration.scaled(np.exp(way * STEP))]) for way in (1.0, -1.0))
        return (up - down) / (2.0 * STEP)

    def _drawn(self, encoded: Encoded, found: Sequence[Scores], weights: Array) -> Array:
        """The averages at a sampler's draws of the coefficients, draws × numbers."""
        changes = [_changes(one) for one in self.intervals if isinstance(one, Sampled)]
        n_rows, pieces = len(weights), []
        for some in _runs(len(changes[0]), n_rows * len(found)):
            size = some.stop - some.start
            moved = [
                Scores(
                    (one.mean[:, None] + score_changes(fit, encoded, change[some])).ravel(),
                    np.repeat(one.variance, size),
                    np.repeat(one.from_unknown, size),
                    None if one.departures is None else np.repeat(one.departures, size, axis=0),
                )
                for fit, one, change in zip(self.fits, found, changes, strict=True)
            ]
            chances = self._chances(moved).reshape(n_rows, -1)
            sums = (weights.T @ chances).reshape(weights.shape[1], size, -1)
            pieces.append(sums.transpose(1, 0, 2).reshape(size, -1))
        return np.concatenate(pieces)

    def interval(self, of: Averaged, level: float, scale: Scale) -> tuple[Array, Array, Array, Array]:
        """Estimates on the scale of the user, their standard deviations, and intervals."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            estimate, chances = scale.back(of.value), [0.5 - 0.5 * level, 0.5 + 0.5 * level]
            if of.draws is not None:
                lower, upper = np.quantile(of.draws, chances, axis=0)
                return estimate, scale.back(of.draws).std(axis=0), scale.back(lower), scale.back(upper)
            sd, reach = self._spread(of.gradients, chances[1])
            known = np.isfinite(of.value)  # else a probability is 0 or 1 to rounding, and nothing is left to doubt
            lower, upper = (np.where(known, scale.back(of.value + way * reach), estimate) for way in (-1.0, 1.0))
            return estimate, np.where(known, scale.slope(estimate) * sd, 0.0), lower, upper

    def _spread(self, gradients: Sequence[Array], chance: float) -> tuple[Array, Array]:
        """Standard deviations, and how far intervals reach."""
        sd, reach = (np.zeros(len(gradients[0])) for _ in range(2))
        for fit, intervals, of_model in zip(self.fits, self.intervals, gradients, strict=True):
            for j, (*gradient, own) in enumerate(of_model):
                t = np.array(gradient)
                spread, (end,), _ = intervals.combination(t, [chance])
                reached = end - float(t @ fit.posterior.mean)
                total = float(np.hypot(spread, own))
                sd[j] += total
                reach[j] += total * (reached / spread if spread > 0 else float(ndtri(chance)))
        return sd, reach


def _changes(sampled: Sampled) -> Array:
    """Draws of the columns' coefficients, as distances from their mean."""
    draws = sampled.sample.flat[:, : sampled.plan.n_fixed]
    chosen = np.linspace(0, len(draws) - 1, min(len(draws), MOST_DRAWS)).astype(np.intp)
    return draws[chosen] - sampled.mean


def _moved(found: Sequence[Scores], k: int, mean: Array) -> list[Scores]:
    """The same scores, but for those of one model."""
    return [replace(one, mean=mean) if j == k else one for j, one in enumerate(found)]


def _runs(n: int, numbers_each: int) -> list[slice]:
    """Runs of so many things that the numbers of each run can be held."""
    size = max(1, AT_ONCE // max(numbers_each, 1))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def shares(weights: Array, codes: NDArray[np.intp], n_groups: int) -> Array:
    """The share of each row in the average of its group, rows × groups; rows without a group (−1) have none."""
    found = np.zeros((len(weights), n_groups))
    inside = codes >= 0
    found[np.flatnonzero(inside), codes[inside]] = weights[inside]
    return found / found.sum(axis=0)
