"""Candidates: the rows that a row with a missing category or a drawn value is written out as, one for each of them."""

from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, RowSelection
from vbsvm.base.cached import cached_property


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """The row that each candidate stands for, and what was filled in; a row's candidates are neighbours.

    A row that misses nothing of that kind is its own only candidate. ``levels`` (candidates × categorical inputs) are
    numbers of levels; that of a known one is its complement (~), which is negative. ``log_fixed`` is the log
    probability of each candidate, where that is fixed before the fit, and ``log_predictive`` the same without the
    label. Where a row has too many combinations of levels, its candidates are drawn: ``log_importance`` is the
    logarithm of how often each was, over its probability. ``draws`` (candidates × columns that are drawn) are numbers
    of draws, negative where the value is known, and ``log_ratio`` is the logarithm of how much likelier drawn values
    would be if the label were not known. ``log_weights`` are those of candidates that differ by drawn values only.
    """

    row: NDArray[np.intp]
    levels: NDArray[np.intp]
    log_fixed: Array | None = None
    log_importance: Array | None = None
    log_predictive: Array | None = None
    draws: NDArray[np.intp] | None = None
    log_ratio: Array | None = None
    log_weights: Array | None = None

    def take(self, which: RowSelection) -> "Candidates":
        """Some of the candidates."""
        parts = [getattr(self, field.name) for field in fields(self)]
        taken: list[Any] = [None if part is None else part[which] for part in parts]
        return Candidates(*taken)

    @cached_property
    def filled_in(self) -> NDArray[np.bool_]:
        """What was missing, candidates × categorical inputs and columns that are drawn."""
        missing = self.levels >= 0
        return missing if self.draws is None else np.column_stack([missing, self.draws >= 0])

    @cached_property
    def draw_number(self) -> NDArray[np.intp]:
        """The number of the draw that each candidate is of, −1 where nothing was drawn."""
        assert self.draws is not None
        return self.draws.max(axis=1)

    @cached_property
    def draw_runs(self) -> "Candidates":
        """Candidates of a row that differ by drawn values only, as if they were those of a row of their own."""
        return Candidates(np.cumsum(self.draw_number <= 0) - 1, np.empty((len(self.row), 0), dtype=np.intp))

    @property
    def sizes(self) -> NDArray[np.intp]:
        """The number of candidates of its row, for each of them."""
        return np.diff(np.r_[self.firsts, len(self.row)])[self._row_position]

    @property
    def prior_probabilities(self) -> Array:
        """Probabilities before the coefficients: fixed ones, or equal ones."""
        return self.softmax(np.zeros(len(self.row)) if self.log_fixed is None else self.log_fixed)

    def in_completed_table(self, number: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Candidates that belong to a completed table: one of those that differ by drawn values only.

        It is that of the draw with this number, as far as its weight allows; else another, by what weights exceed
        equal ones.
        """
        if self.draws is None:
            return np.ones(len(self.row), dtype=bool)
        runs = self.draw_runs
        weights = np.full(len(self.row), 1.0) / runs.sizes if self.log_weights is None else np.exp(self.log_weights)
        of_number = self.draw_number == number % runs.sizes
        keep_probability = runs.max_by_row(np.where(of_number | (self.draw_number < 0), weights * runs.sizes, 0.0))
        with np.errstate(divide="ignore"):
            excess = np.log(np.maximum(weights - 1.0 / runs.sizes, 0.0))
        stays = rng.random(len(runs.firsts))[runs._row_position] < keep_probability
        alternative = np.zeros(len(self.row), dtype=bool)
        alternative[runs.sample_one(np.where(np.isfinite(excess), excess, -1e300), rng)] = True
        return (self.draw_number < 0) | np.where(stays, of_number, alternative)

    @cached_property
    def firsts(self) -> NDArray[np.intp]:
        """The first candidate of each row."""
        return np.flatnonzero(np.r_[True, self.row[1:] != self.row[:-1]])

    def split(self, weights: Array) -> Array:
        """The weight of each candidate, of which a row's have the same, from those of the rows."""
        return (weights / np.bincount(self.row))[self.row]

    def first_candidates_in(self, block: slice) -> NDArray[np.intp]:
        """The first candidate of each row that begins in a run of candidates."""
        begin, rows = block.start, self.row[block]
        previous_row = self.row[begin - 1] if begin else rows[0] - 1
        return begin + np.flatnonzero(np.r_[previous_row, rows[:-1]] != rows)

    @cached_property
    def _row_position(self) -> NDArray[np.intp]:
        """The row of each candidate, counted from 0 in their order."""
        return np.repeat(np.arange(len(self.firsts)), np.diff(np.r_[self.firsts, len(self.row)]))

    def log_prob(self, log_prob_of_levels: tuple[Array, ...]) -> Array:
        """Log probability of the levels that were filled in, from that of each level of each categorical input."""
        total = np.zeros(len(self.row)) if self.log_importance is None else self.log_importance.copy()
        for log_prob, levels in zip(log_prob_of_levels, self.levels.T, strict=True):
            total += np.where(levels < 0, 0.0, log_prob[levels])
        return total

    def max_by_row(self, values: Array) -> Array:
        """The largest value among the candidates of a row, for each of them."""
        return np.maximum.reduceat(values, self.firsts)[self._row_position]

    def softmax(self, values: Array) -> Array:
        """Probabilities, which add to 1 over the candidates of a row."""
        weights = np.exp(values - self.max_by_row(values))
        return weights / np.add.reduceat(weights, self.firsts)[self._row_position]

    def logsumexp_by_row(self, values: Array) -> Array:
        """Logarithm of the summed exponentials over the candidates of each row."""
        maxima = np.maximum.reduceat(values, self.firsts)
        return maxima + np.log(np.add.reduceat(np.exp(values - maxima[self._row_position]), self.firsts))

    def sample_one(self, logs: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """One candidate of each row, drawn by its log probability (the Gumbel-max trick)."""
        noisy = logs + rng.gumbel(size=len(logs))
        return np.flatnonzero(noisy == self.max_by_row(noisy))

    def of_selected(self, values: Array, responsibilities: Array) -> Array:
        """Values of the candidate with the responsibility 1, for all candidates of its row."""
        return values[np.flatnonzero(responsibilities)][self._row_position]

    def counts(self, weights: Array, sizes: tuple[int, ...]) -> tuple[Array, ...]:
        """Sums of weights by the level that was filled in, for each categorical input."""
        counts = []
        for size, levels in zip(sizes, self.levels.T, strict=True):
            missing = levels >= 0
            counts.append(np.bincount(levels[missing], weights[missing], minlength=size).astype(np.float64))
        return tuple(counts)
