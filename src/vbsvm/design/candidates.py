"""Candidates: the expanded rows of a row with a missing category or drawn values, one per level or draw."""

from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, RowSelection
from vbsvm.base.cached import cached_property


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """The row that each candidate belongs to, and what was filled in; candidates of a row are consecutive.

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
        """Select candidates."""
        parts = [getattr(self, field.name) for field in fields(self)]
        taken: list[Any] = [None if part is None else part[which] for part in parts]
        return Candidates(*taken)

    @cached_property
    def filled_in(self) -> NDArray[np.bool_]:
        """Mask of filled-in values, candidates × (categorical predictors, drawn columns)."""
        missing = self.levels >= 0
        return missing if self.draws is None else np.column_stack([missing, self.draws >= 0])

    @cached_property
    def draw_number(self) -> NDArray[np.intp]:
        """Number of each candidate's draw, −1 if nothing was drawn."""
        assert self.draws is not None
        return self.draws.max(axis=1)

    @cached_property
    def draw_runs(self) -> "Candidates":
        """Candidates grouped by row and levels: a group's members differ in drawn values only."""
        return Candidates(np.cumsum(self.draw_number <= 0) - 1, np.empty((len(self.row), 0), dtype=np.intp))

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of candidates of the row, for each candidate."""
        return np.diff(np.r_[self.firsts, len(self.row)])[self._row_position]

    @property
    def prior_probabilities(self) -> Array:
        """Fixed probabilities of the candidates, or equal ones."""
        return self.softmax(np.zeros(len(self.row)) if self.log_fixed is None else self.log_fixed)

    def in_completed_table(self, number: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Mask of the candidates in completed table no. ``number``: one of each group that differs in draws.

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
        """Index of each row's first candidate."""
        return np.flatnonzero(np.r_[True, self.row[1:] != self.row[:-1]])

    def split(self, weights: Array) -> Array:
        """Divide the weights of rows equally among their candidates."""
        return (weights / np.bincount(self.row))[self.row]

    def first_candidates_in(self, block: slice) -> NDArray[np.intp]:
        """First candidates of the rows that begin in this slice."""
        begin, rows = block.start, self.row[block]
        previous_row = self.row[begin - 1] if begin else rows[0] - 1
        return begin + np.flatnonzero(np.r_[previous_row, rows[:-1]] != rows)

    @cached_property
    def _row_position(self) -> NDArray[np.intp]:
        """Row of each candidate, numbered consecutively from 0."""
        return np.repeat(np.arange(len(self.firsts)), np.diff(np.r_[self.firsts, len(self.row)]))

    def log_prob(self, log_prob_of_levels: tuple[Array, ...]) -> Array:
        """Log probability of each candidate, from those of the levels of each categorical predictor."""
        total = np.zeros(len(self.row)) if self.log_importance is None else self.log_importance.copy()
        for log_prob, levels in zip(log_prob_of_levels, self.levels.T, strict=True):
            total += np.where(levels < 0, 0.0, log_prob[levels])
        return total

    def max_by_row(self, values: Array) -> Array:
        """Maximum over the candidates of the row, for each candidate."""
        return np.maximum.reduceat(values, self.firsts)[self._row_position]

    def softmax(self, values: Array) -> Array:
        """Softmax over the candidates of each row."""
        weights = np.exp(values - self.max_by_row(values))
        return weights / np.add.reduceat(weights, self.firsts)[self._row_position]

    def logsumexp_by_row(self, values: Array) -> Array:
        """Log-sum-exp over the candidates of each row."""
        maxima = np.maximum.reduceat(values, self.firsts)
        return maxima + np.log(np.add.reduceat(np.exp(values - maxima[self._row_position]), self.firsts))

    def sample_one(self, logs: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw one candidate per row by log probability (the Gumbel-max trick)."""
        noisy = logs + rng.gumbel(size=len(logs))
        return np.flatnonzero(noisy == self.max_by_row(noisy))

    def of_selected(self, values: Array, responsibilities: Array) -> Array:
        """Values of the candidate with responsibility 1, for all candidates of its row."""
        return values[np.flatnonzero(responsibilities)][self._row_position]

    def counts(self, weights: Array, sizes: tuple[int, ...]) -> tuple[Array, ...]:
        """Sums of weights by filled-in level, for each categorical predictor."""
        counts = []
        for size, levels in zip(sizes, self.levels.T, strict=True):
            missing = levels >= 0
            counts.append(np.bincount(levels[missing], weights[missing], minlength=size).astype(np.float64))
        return tuple(counts)
