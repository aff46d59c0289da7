"""Candidates: the expanded rows of a row with a missing category or drawn values, one per level or draw.

Missing values are drawn for columns that do not enter a formula linearly.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import yeojohnson, yeojohnson_normmax

from vbsvm.base.arrays import Array, RowSelection
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import JointNormal

if TYPE_CHECKING:
    import pandas as pd

# Maximum candidates per row: numbers of levels of several missing categories multiply. Beyond it, this many are drawn.
MAX_CANDIDATES = 256


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """The row that each candidate belongs to, and what was filled in; candidates of a row are consecutive.

    A row that misses nothing of that kind is its own only candidate. ``levels`` (candidates × categorical predictors)
    are numbers of levels; that of a known one is its complement (~), which is negative. ``log_fixed`` is the log
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
        pairs = zip(sizes, self.levels.T, strict=True)
        return tuple(
            np.bincount(of[of >= 0], weights[of >= 0], minlength=size).astype(np.float64) for size, of in pairs
        )


NONE, POWER, RANK = TRANSFORMS = "none", "power", "rank"
# Maximum number of quantiles stored for ranks.
MAX_QUANTILES = 500
# Powers beyond these are due to a few extreme values.
MIN_POWER, MAX_POWER = -3.0, 5.0


@final
@dataclass(frozen=True, eq=False)
class NormalScale:
    """Monotone piecewise linear transformation to normality through ``points`` (values, normal scores).

    It is linear between the points and constant beyond them, so that draws stay within the range of the observed
    values.
    """

    points: Array

    @staticmethod
    def learn(values: Array, transform: str) -> "NormalScale":
        """Learn it from the observed values of a column."""
        distinct, counts = np.unique(values, return_counts=True)
        if transform == RANK:
            ranks = (np.cumsum(counts) - 0.5 * counts) / len(values)
            return NormalScale(np.stack([distinct, ndtri(ranks)])[:, _spread_out(len(distinct))])
        if transform == POWER and len(distinct) > 2:
            grid = distinct[_spread_out(len(distinct))]
            centre, spread = values.mean(), values.std()
            power = float(np.clip(yeojohnson_normmax((values - centre) / spread), MIN_POWER, MAX_POWER))
            return NormalScale(np.stack([grid, np.asarray(yeojohnson((grid - centre) / spread, power))]))
        ends = distinct[[0, -1]]
        return NormalScale(np.stack([ends, ends]))

    def to_normal(self, values: Array) -> Array:
        """Transform to the normal scale; NaN stays NaN."""
        return np.interp(values, *self.points)

    def from_normal(self, values: Array) -> Array:
        """Transform back to the column's scale."""
        return np.interp(values, self.points[1], self.points[0])


def _spread_out(n: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Up to ``MAX_QUANTILES`` evenly spaced indices below n, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(n, MAX_QUANTILES)).round().astype(np.intp))


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Drawn values of columns (draws × incomplete rows × columns), with a log ratio of densities.

    ``log_ratio`` (draws × rows) is the logarithm of how much likelier values would be if the label were not known.
    """

    values: Array
    log_ratio: Array

    def take(self, rows: NDArray[np.intp]) -> "Draws":
        """Select rows."""
        return Draws(self.values[:, rows], self.log_ratio[:, rows])


@final
@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """Sampler of missing values of columns: n draws per row, on a scale on which the columns are normal.

    ``sample`` takes rows × variables, and the number of the last ones that are drawn; it returns the variables'
    distribution, the weight of the rows that miss nothing, and draws in the rows that miss one of the last variables.
    """

    sample: Callable[[Array, int], tuple[JointNormal, float, Draws]]
    n: int
    transform: str


@final
@dataclass(frozen=True, eq=False)
class DrawnColumns:
    """Columns whose missing values are drawn, and their joint normal distribution with columns of the table.

    The variables are columns of the table (``given``), and then those that are drawn, on their normal scales; all of
    them are centred and scaled. ``n`` is the number of draws for each row, ``total`` that of complete rows.
    """

    names: tuple[str, ...]
    given: NDArray[np.intp]
    scales: tuple[NormalScale, ...]
    centre: Array
    spread: Array
    distribution: JointNormal
    n: int
    total: float

    @staticmethod
    def learn(
        names: tuple[str, ...],
        frame: "pd.DataFrame",
        table: NDArray[np.floating],
        given: NDArray[np.intp],
        sampler: ColumnSampler,
    ) -> "tuple[DrawnColumns, Draws]":
        """Learn the distribution, and draw the missing values; NaN is missing in the table, too."""
        values = _values(frame, names)
        scales = tuple(NormalScale.learn(column[~np.isnan(column)], sampler.transform) for column in values.T)
        x = np.column_stack([table[:, given], _to_normal(scales, values)])
        centre, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(centre))
        used = np.flatnonzero(varies | (np.arange(len(varies)) >= len(given)))
        spread = np.where(varies, spread, 1.0)[used]
        distribution, total, draws = sampler.sample((x[:, used] - centre[used]) / spread, len(names))
        given = given[used[: len(used) - len(names)]]
        columns = DrawnColumns(names, given, scales, centre[used], spread, distribution, sampler.n, total)
        return columns, Draws(columns._from_normal(draws.values), draws.log_ratio)

    def missing(self, frame: "pd.DataFrame") -> NDArray[np.bool_]:
        """Mask of missing values of these columns."""
        return frame[list(self.names)].isna().to_numpy()

    def at_typical(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The frame with median values for missing ones."""
        medians = [float(scale.points[0, scale.points.shape[1] // 2]) for scale in self.scales]
        return frame.astype(dict.fromkeys(self.names, np.float64)).fillna(dict(zip(self.names, medians, strict=True)))

    def draw(self, frame: "pd.DataFrame", table: NDArray[np.floating], rng: np.random.Generator | None = None) -> Draws:
        """Draws for rows without a label: quantiles, or random draws at drawn parameters."""
        shape, distribution = (self.n, len(frame), len(self.names)), self.distribution
        if rng is None:
            noise = np.broadcast_to(_even_noise(self.n, len(self.names))[:, None], shape)
        else:
            noise = rng.standard_normal(shape)
            distribution = distribution.draw_parameters(self.total, rng)
        first, values = len(self.given), _values(frame, self.names)
        x = (np.column_stack([table[:, self.given], _to_normal(self.scales, values)]) - self.centre) / self.spread
        draws = np.repeat(x[None, :, first:], self.n, axis=0)
        for conditional in distribution.conditionals(x, np.isnan(x), first):
            cells = np.ix_(np.arange(self.n), conditional.rows, conditional.variables - first)
            draws[cells] = conditional.mean + noise[cells] @ conditional.root.T
        return Draws(self._from_normal(draws), np.zeros(draws.shape[:2]))

    def expand(self, frame: "pd.DataFrame", candidates: Candidates, draws: Draws) -> "tuple[pd.DataFrame, Candidates]":
        """Expand incomplete rows to one row per draw; ``draws`` are for the incomplete rows.

        A row that has many candidates already gets fewer draws for each.
        """
        missing = self.missing(frame)
        incomplete = np.asarray(missing.any(axis=1))
        n_allowed = MAX_CANDIDATES // np.bincount(candidates.row)[candidates.row]
        counts = np.where(incomplete, np.clip(n_allowed, 1, self.n), 1)
        row_index = np.repeat(np.arange(len(frame)), counts)
        draw = np.arange(len(row_index)) - np.repeat(np.cumsum(counts) - counts, counts)
        position, drawn = (np.cumsum(incomplete) - 1)[row_index], incomplete[row_index]
        expanded, log_ratio = frame.take(row_index).reset_index(drop=True), np.zeros(len(row_index))
        log_ratio[drawn] = draws.log_ratio[draw[drawn], position[drawn]]
        for j, name in enumerate(self.names):
            column, is_missing = _values(expanded, (name,))[:, 0], missing[row_index, j]
            column[is_missing] = draws.values[draw[is_missing], position[is_missing], j]
            expanded[name] = column
        numbers = np.where(missing[row_index], draw[:, None], -1)
        return expanded, replace(candidates.take(row_index), draws=numbers, log_ratio=log_ratio)

    def _from_normal(self, values: Array) -> Array:
        """Transform standardised normal values back to the columns' scales."""
        first = len(self.given)
        normal = self.centre[first:] + self.spread[first:] * values
        return np.stack([scale.from_normal(normal[..., j]) for j, scale in enumerate(self.scales)], axis=-1)


def _values(frame: "pd.DataFrame", names: tuple[str, ...]) -> Array:
    return np.column_stack([frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names])


def _to_normal(scales: tuple[NormalScale, ...], values: Array) -> Array:
    return np.column_stack([scale.to_normal(column) for scale, column in zip(scales, values.T, strict=True)])


def _even_noise(n: int, n_variables: int) -> Array:
    """n points with standard normal quantiles in each coordinate, in random order."""
    rng, quantiles = np.random.default_rng(0), ndtri((np.arange(n) + 0.5) / n)
    quantiles = quantiles / max(float(np.sqrt(np.square(quantiles).mean())), 1e-12)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_variables - 1))]
    return np.asarray(quantiles[np.stack(orders, axis=1)], dtype=np.float64)
