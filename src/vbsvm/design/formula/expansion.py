"""Expansion of incomplete rows: a row with a missing category or drawn value becomes one row per level or draw.

Missing values are drawn for columns that do not enter a formula linearly.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import JointNormal
from vbsvm.design.candidates import Candidates
from vbsvm.design.curves import NormalScale

if TYPE_CHECKING:
    import pandas as pd

# Maximum candidates per row: numbers of levels of several missing categories multiply. Beyond it, this many are drawn.
MAX_CANDIDATES = 256


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """Categorical columns that may be missing: their levels and level weights in fit."""

    names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    counts: tuple[NDArray[np.float64], ...]

    @staticmethod
    def learn(frame: "pd.DataFrame", names: list[str], weights: NDArray[np.float64]) -> "Categories":
        """The levels that occur, with total weights."""
        levels, counts = [], []
        for name in names:
            known = frame[name].notna().to_numpy()
            values, codes = np.unique(np.asarray(frame[name])[known], return_inverse=True)
            levels.append(values)
            counts.append(np.bincount(codes, weights[known], minlength=len(values)).astype(np.float64))
        return Categories(tuple(names), tuple(levels), tuple(counts))

    def known_levels(self, frame: "pd.DataFrame") -> NDArray[np.intp]:
        """Complements (~) of the rows' level numbers, rows × categories.

        A level that is missing, or was not seen in fit, counts as the first: the one is filled in, the other refused.
        """
        import pandas as pd

        codes = np.empty((len(frame), len(self.names)), dtype=np.intp)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            codes[:, k] = ~np.maximum(pd.Index(levels).get_indexer(pd.Index(_labels(frame, name))), 0)
        return codes

    def expand(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """Expand rows with missing categories to one row per candidate level.

        Rows with too many combinations of levels get drawn ones, by the frequencies of the levels.
        """
        missing, sizes = _missing(frame, self.names), self._sizes
        too_many = self._too_many(missing)
        n_candidates = np.where(missing & ~too_many[:, None], sizes, 1).prod(axis=1)
        draws = {int(row): self._draw(missing[row], int(row)) for row in np.flatnonzero(too_many)}
        for row, (codes, _) in draws.items():
            n_candidates[row] = len(codes)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        remainder = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes, weights = self.known_levels(frame)[row], np.zeros(len(row))
        for k, size in enumerate(sizes):
            missing_k = missing[row, k]
            codes[missing_k, k] = remainder[missing_k] % size
            remainder[missing_k] //= size
        for number, (combinations, weight) in draws.items():
            candidates_of_row, missing_k = row == number, missing[number]
            codes[np.ix_(candidates_of_row, missing_k)], weights[candidates_of_row] = combinations[:, missing_k], weight
        expanded = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            missing_k, values = missing[row, k], _labels(frame, name)[row]
            values[missing_k] = levels[codes[missing_k, k]]
            expanded[name] = values
        return expanded, Candidates(row, codes, log_importance=weights if draws else None)

    def n_candidates(self, frame: "pd.DataFrame", missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Number of candidates of each row, by which categories are missing.

        Too many raise: combinations are drawn only if all rows are in memory.
        """
        too_many = self._too_many(missing)
        if too_many.any():
            row = int(too_many.argmax())
            missing_names = [name for name, is_missing in zip(self.names, missing[row], strict=True) if is_missing]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(missing_names)}, which have more than "
                f"{MAX_CANDIDATES} combinations. Leave such rows out, or fit rows that are in memory."
            )
        return np.where(missing, self._sizes, 1).prod(axis=1)

    @property
    def _sizes(self) -> NDArray[np.intp]:
        return np.array([len(levels) for levels in self.levels], dtype=np.intp)

    def _too_many(self, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.where(missing, np.log(self._sizes), 0.0).sum(axis=1) > np.log(MAX_CANDIDATES) + 1e-9

    def _draw(self, missing: NDArray[np.bool_], row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Draw combinations of levels for a row; also the log of counts over probabilities."""
        rng = np.random.default_rng(row)
        codes, logs = np.zeros((MAX_CANDIDATES, len(self.names)), dtype=np.intp), np.zeros(MAX_CANDIDATES)
        for k in np.flatnonzero(missing):
            probabilities = (1.0 + self.counts[k]) / (1.0 + self.counts[k]).sum()
            codes[:, k] = rng.choice(len(probabilities), size=MAX_CANDIDATES, p=probabilities)
            logs += np.log(probabilities[codes[:, k]])
        combinations, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
        return combinations, np.log(counts) - logs[first]


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
class SampledColumns:
    """Result of sampling incomplete variables: their distribution, and draws.

    ``draws`` are those of the last variables, in the rows that miss one of these. ``total`` is the weight of the rows
    that miss nothing.
    """

    distribution: JointNormal
    total: float
    draws: Draws


@final
@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """Sampler of missing values of columns: n draws per row, on a scale on which the columns are normal.

    ``sample`` takes rows × variables, and the number of the last ones that are drawn.
    """

    sample: Callable[[Array, int], SampledColumns]
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
        result = sampler.sample((x[:, used] - centre[used]) / spread, len(names))
        given = given[used[: len(used) - len(names)]]
        columns = DrawnColumns(names, given, scales, centre[used], spread, result.distribution, sampler.n, result.total)
        return columns, Draws(columns._from_normal(result.draws.values), result.draws.log_ratio)

    def missing(self, frame: "pd.DataFrame") -> NDArray[np.bool_]:
        """Mask of missing values of these columns."""
        return _missing(frame, self.names)

    def at_typical(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The frame with median values for missing ones."""
        return frame.assign(
            **{
                name: frame[name].astype(np.float64).fillna(scale.typical)
                for name, scale in zip(self.names, self.scales, strict=True)
            }
        )

    def expected(self, frame: "pd.DataFrame", table: NDArray[np.floating]) -> Draws:
        """Deterministic quantile draws for rows without a label."""
        noise = np.broadcast_to(_even_noise(self.n, len(self.names))[:, None], (self.n, len(frame), len(self.names)))
        return self._draw_missing(frame, table, self.distribution, noise)

    def proposed(self, frame: "pd.DataFrame", table: NDArray[np.floating], rng: np.random.Generator) -> Draws:
        """Random draws for rows without a label, at drawn parameters."""
        noise = rng.standard_normal((self.n, len(frame), len(self.names)))
        return self._draw_missing(frame, table, self.distribution.draw_parameters(self.total, rng), noise)

    def _draw_missing(
        self, frame: "pd.DataFrame", table: NDArray[np.floating], distribution: JointNormal, noise: Array
    ) -> Draws:
        """Draws of the missing values, made from standard normal noise (draws × rows × columns)."""
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


def _missing(frame: "pd.DataFrame", names: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.stack([frame[name].isna().to_numpy() for name in names], axis=1)


def _labels(frame: "pd.DataFrame", name: str) -> NDArray[Any]:
    column = frame[name]
    return column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object)


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
