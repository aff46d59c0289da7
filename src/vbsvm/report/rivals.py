"""Simple ways to predict the same rows, which a model should beat: they cost next to nothing, and are left out too.

One input alone is a linear discriminant of its normal scores, so that neither skewness nor outliers hurt it. It is
chosen, and its means and variance are known, without the row that it predicts; sums over rows give this in closed form.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.special import log_softmax, ndtri
from scipy.stats import rankdata

from vbsvm.base.arrays import Array
from vbsvm.results.effect_rows import MOST_LEVELS, EffectRows
from vbsvm.results.leave_one_out import LeftOutRows
from vbsvm.results.left_out_predictions import LeftOutPredictions

# Rows × inputs up to which single inputs are tried.
MOST_NUMBERS = 10_000_000
# Of the share of all rows, in numbers of rows, where the others of a group are asked.
PRIOR_ROWS = 1.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Classes, weights and groups of rows, and what weights of classes add to the log odds of each class."""

    rows: LeftOutRows
    offsets: Array

    def predicted(self, name: str, log_chances: Array) -> LeftOutPredictions:
        """Losses of rows with these log probabilities (rows × classes); classes that weigh more are chosen sooner."""
        rows = self.rows
        decided = (log_chances - self.offsets).argmax(axis=1)
        return of_rows(name, replace(rows, log_chances=log_chances, decided=decided))

    @property
    def shares(self) -> Array:
        """Share of each class."""
        totals = np.bincount(self.rows.truth, self.rows.weights, minlength=len(self.offsets))
        return totals / totals.sum()


def of_rows(name: str, rows: LeftOutRows) -> LeftOutPredictions:
    """Losses of rows, whose classes are numbers."""
    own = rows.log_chances[np.arange(len(rows.truth)), rows.truth]
    numbers = np.arange(len(rows.truth)) if rows.rows is None else rows.rows
    return LeftOutPredictions(name, numbers, rows.truth, rows.weights, rows.decided, own, rows.groups)


def shares_alone(known: Known) -> LeftOutPredictions:
    """Every row gets the shares of the classes, and so the most common class."""
    with np.errstate(divide="ignore"):
        chances = np.broadcast_to(np.log(known.shares), known.rows.log_chances.shape)
    return known.predicted("shares", chances)


def other_rows_of_group(known: Known, factor: str) -> LeftOutPredictions:
    """The classes of the other rows of a row's group, with the share of all rows as one row more."""
    rows, k = known.rows, len(known.offsets)
    code = rows.groups[factor] * k + rows.truth
    sums = np.bincount(code, rows.weights, minlength=(rows.groups[factor].max() + 1) * k).reshape(-1, k)
    others = sums[rows.groups[factor]]
    others[np.arange(len(code)), rows.truth] -= np.minimum(rows.weights, 1.0)
    found = np.maximum(others, 0.0) + PRIOR_ROWS * known.shares
    return known.predicted(factor, np.log(found / found.sum(axis=1, keepdims=True)))


def best_input(known: Known, inputs: EffectRows, names: Sequence[str]) -> LeftOutPredictions | None:
    """The input that tells the classes apart best, on its own; None where there is nothing to choose from."""
    if len(names) < 2 or len(names) * len(known.rows.truth) > MOST_NUMBERS:
        return None
    best, chances, chosen = np.full(len(known.rows.truth), np.inf), None, np.zeros(len(known.rows.truth), dtype=int)
    for k, name in enumerate(names):
        for x in _columns(inputs, name):
            unexplained, log_chances = _one_column(known, x)
            better = unexplained < best
            best[better], chosen[better] = unexplained[better], k
            chances = log_chances if chances is None else np.where(better[:, None], log_chances, chances)
    if chances is None:
        return None
    return known.predicted(names[int(np.bincount(chosen).argmax())], chances)


def _columns(inputs: EffectRows, name: str) -> Iterator[Array]:
    """Normal scores of a number, missing ones at the median; an indicator of each level of a category."""
    column, levels = inputs.column(name), inputs.levels(name)
    if levels is not None:
        if len(levels) <= MOST_LEVELS:
            yield from ((column == level).to_numpy(dtype=float, na_value=0.0) for level in levels)
        return
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    there = np.isfinite(values)
    x = np.zeros(len(values))
    x[there] = ndtri((rankdata(values[there]) - 0.5) / max(int(there.sum()), 1))
    yield x


def _one_column(known: Known, x: Array) -> tuple[Array, Array]:
    """The share of variance that classes leave unexplained, and log probabilities, of each row without itself."""
    rows, k = known.rows, len(known.offsets)
    truth, w = rows.truth, np.minimum(rows.weights, 1.0)
    counts, sums = (np.bincount(truth, rows.weights * one, minlength=k) for one in (np.ones(len(x)), x))
    total, squares = counts.sum(), float(rows.weights @ np.square(x))
    own = np.eye(k)[truth]
    n = counts - own * w[:, None]
    s = sums - own * (w * x)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(n > 0, s / n, 0.0)
        q = squares - w * np.square(x)
        within = q - (means * s).sum(axis=1)
        around = q - np.square(s.sum(axis=1)) / (total - w)
        unexplained = np.where(around > 1e-9 * squares, within / around, np.inf)
        variance = np.maximum(within / np.maximum(total - w - k, 1.0), 1e-9)
        chances = log_softmax(np.log(known.shares) - 0.5 * np.square(x[:, None] - means) / variance[:, None], axis=1)
    return unexplained, chances
