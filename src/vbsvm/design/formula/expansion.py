"""Expansion of rows: one that misses a category or a value that is drawn becomes a row for each level or draw.

Columns whose missing values are drawn are those that do not enter a formula linearly.
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

# Most candidates of a row: numbers of levels of several missing categories multiply. With more, this many are drawn.
MAX_CANDIDATES = 256


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """Columns that are categories, and may be missing: their levels, and how often each occurred in fit."""

    names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    counts: tuple[NDArray[np.float64], ...]

    @staticmethod
    def learn(frame: "pd.DataFrame", names: list[str], weights: NDArray[np.float64]) -> "Categories":
        """Take the levels that occur, and their total weights."""
        levels, counts = [], []
        for name in names:
            known = frame[name].notna().to_numpy()
            values, codes = np.unique(np.asarray(frame[name])[known], return_inverse=True)
            levels.append(values)
            counts.append(np.bincount(codes, weights[known], minlength=len(values)).astype(np.float64))
        return Categories(tuple(names), tuple(levels), tuple(counts))

    def known_levels(self, frame: "pd.DataFrame") -> NDArray[np.intp]:
        """Complements (~) of the numbers of the rows' levels, rows × categories.

        A level that is missing, or was not seen in fit, counts as the first: the one is filled in, the other refused.
        """
        import pandas as pd

        codes = np.empty((len(frame), len(self.names)), dtype=np.intp)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            codes[:, k] = ~np.maximum(pd.Index(levels).get_indexer(pd.Index(_labels(frame, name))), 0)
        return codes

    def write_out(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each candidate: every level that a missing category may have is filled in.

        Rows with too many combinations of levels have drawn ones instead, by how often each level occurred.
        """
        missing, sizes = _missing(frame, self.names), self._sizes
        many = self._too_many(missing)
        n_candidates = np.where(missing & ~many[:, None], sizes, 1).prod(axis=1)
        draws = {int(row): self._draw(missing[row], int(row)) for row in np.flatnonzero(many)}
        for row, (codes, _) in draws.items():
            n_candidates[row] = len(codes)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes, weights = self.known_levels(frame)[row], np.zeros(len(row))
        for k, size in enumerate(sizes):
            lost = missing[row, k]
            codes[lost, k] = turn[lost] % size
            turn[lost] //= size
        for number, (combinations, weight) in draws.items():
            which, lost = row == number, missing[number]
            codes[np.ix_(which, lost)], weights[which] = combinations[:, lost], weight
        written = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            lost, values = missing[row, k], _labels(frame, name)[row]
            values[lost] = levels[codes[lost, k]]
            written[name] = values
        return written, Candidates(row, codes, log_importance=weights if draws else None)

    def n_candidates(self, frame: "pd.DataFrame", missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Number of candidates of each row of a part of the data, by which categories are missing.

        Too many are refused: combinations are drawn where all rows are at hand.
        """
        many = self._too_many(missing)
        if many.any():
            row = int(many.argmax())
            lost = [name for name, gone in zip(self.names, missing[row], strict=True) if gone]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(lost)}, which have more than "
                f"{MAX_CANDIDATES} combinations. Leave such rows out, or fit rows that are in memory."
            )
        return np.where(missing, self._sizes, 1).prod(axis=1)

    @property
    def _sizes(self) -> NDArray[np.intp]:
        return np.array([len(levels) for levels in self.levels], dtype=np.intp)

    def _too_many(self, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.where(missing, np.log(self._sizes), 0.0).sum(axis=1) > np.log(MAX_CANDIDATES) + 1e-9

    def _draw(self, missing: NDArray[np.bool_], row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Combinations of levels for a row, and the logarithm of how often each was drawn over its chance."""
        rng = np.random.default_rng(row)
        codes, logs = np.zeros((MAX_CANDIDATES, len(self.names)), dtype=np.intp), np.zeros(MAX_CANDIDATES)
        for k in np.flatnonzero(missing):
            chances = (1.0 + self.counts[k]) / (1.0 + self.counts[k]).sum()
            codes[:, k] = rng.choice(len(chances), size=MAX_CANDIDATES, p=chances)
            logs += np.log(chances[codes[:, k]])
        combinations, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
        return combinations, np.log(counts) - logs[first]


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Values of columns in rows that miss some, draws × rows × columns, and a log ratio of densities.

    ``log_ratio`` (draws × rows) is the logarithm of how much likelier values would be if the label were not known.
    """

    values: Array
    log_ratio: Array

    def of_rows(self, rows: NDArray[np.intp]) -> "Draws":
        """Those of some rows."""
        return Draws(self.values[:, rows], self.log_ratio[:, rows])


@final
@dataclass(frozen=True, eq=False)
class SampledColumns:
    """Result of a sampler of variables of which some are missing: their distribution, and draws.

    ``draws`` are those of the last variables, in the rows that miss one of these. ``total`` is the weight of the rows
    that miss nothing.
    """

    distribution: JointNormal
    total: float
    draws: Draws


@final
@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """How missing values of columns are drawn: n for each row, on a scale on which the columns are normal.

    ``sample`` takes rows × variables, and the number of the last ones that are drawn.
    """

    sample: Callable[[Array, int], SampledColumns]
    n: int
    transform: str


@final
@dataclass(frozen=True, eq=False)
class DrawnColumns:
    """Columns of the data that are drawn, and their joint normal distribution with columns of the table.

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
        """Learn their distribution, and draw them; NaN is missing in the table's columns, too."""
        values = _values(frame, names)
        scales = tuple(NormalScale.learn(one[~np.isnan(one)], sampler.transform) for one in values.T)
        x = np.column_stack([table[:, given], _to_normal(scales, values)])
        centre, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(centre))
        kept = np.flatnonzero(varies | (np.arange(len(varies)) >= len(given)))
        spread = np.where(varies, spread, 1.0)[kept]
        result = sampler.sample((x[:, kept] - centre[kept]) / spread, len(names))
        given = given[kept[: len(kept) - len(names)]]
        columns = DrawnColumns(names, given, scales, centre[kept], spread, result.distribution, sampler.n, result.total)
        return columns, Draws(columns._on_own_scale(result.draws.values), result.draws.log_ratio)

    def missing(self, frame: "pd.DataFrame") -> NDArray[np.bool_]:
        """What rows miss of these columns."""
        return _missing(frame, self.names)

    def at_typical(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The frame with a value in the middle for what is missing."""
        return frame.assign(
            **{
                name: frame[name].astype(np.float64).fillna(scale.typical)
                for name, scale in zip(self.names, self.scales, strict=True)
            }
        )

    def expected(self, frame: "pd.DataFrame", table: NDArray[np.floating]) -> Draws:
        """Values of rows whose label is not known: evenly spread over their distribution, the same in every call."""
        noise = np.broadcast_to(_even_noise(self.n, len(self.names))[:, None], (self.n, len(frame), len(self.names)))
        return self._filled(frame, table, self.distribution, noise)

    def proposed(self, frame: "pd.DataFrame", table: NDArray[np.floating], rng: np.random.Generator) -> Draws:
        """Values of rows whose label is not known, drawn from a distribution whose parameters are drawn."""
        noise = rng.standard_normal((self.n, len(frame), len(self.names)))
        return self._filled(frame, table, self.distribution.draw_parameters(self.total, rng), noise)

    def _filled(
        self, frame: "pd.DataFrame", table: NDArray[np.floating], distribution: JointNormal, noise: Array
    ) -> Draws:
        """Values that standard normal ones, draws × rows × columns, are moved to."""
        first, values = len(self.given), _values(frame, self.names)
        x = (np.column_stack([table[:, self.given], _to_normal(self.scales, values)]) - self.centre) / self.spread
        draws = np.repeat(x[None, :, first:], self.n, axis=0)
        for conditional in distribution.conditionals(x, np.isnan(x), first):
            cells = np.ix_(np.arange(self.n), conditional.rows, conditional.variables - first)
            draws[cells] = conditional.mean + noise[cells] @ conditional.root.T
        return Draws(self._on_own_scale(draws), np.zeros(draws.shape[:2]))

    def write_out(
        self, frame: "pd.DataFrame", candidates: Candidates, draws: Draws
    ) -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each draw, and the candidates that these are; ``draws`` are of the rows that miss.

        A row that has many candidates already gets fewer draws for each.
        """
        missing = self.missing(frame)
        lost = np.asarray(missing.any(axis=1))
        room = MAX_CANDIDATES // np.bincount(candidates.row)[candidates.row]
        counts = np.where(lost, np.clip(room, 1, self.n), 1)
        which = np.repeat(np.arange(len(frame)), counts)
        number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        place, drawn = (np.cumsum(lost) - 1)[which], lost[which]
        written, log_ratio = frame.take(which).reset_index(drop=True), np.zeros(len(which))
        log_ratio[drawn] = draws.log_ratio[number[drawn], place[drawn]]
        for j, name in enumerate(self.names):
            column, gone = _values(written, (name,))[:, 0], missing[which, j]
            column[gone] = draws.values[number[gone], place[gone], j]
            written[name] = column
        numbers = np.where(missing[which], number[:, None], -1)
        return written, replace(candidates.take(which), draws=numbers, log_ratio=log_ratio)

    def _on_own_scale(self, values: Array) -> Array:
        """Values of the columns from centred and scaled ones on their normal scales."""
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
    return np.column_stack([scale.to_normal(one) for scale, one in zip(scales, values.T, strict=True)])


def _even_noise(n: int, n_variables: int) -> Array:
    """n points whose every coordinate has the quantiles of a standard normal variable, in mixed order."""
    rng, quantiles = np.random.default_rng(0), ndtri((np.arange(n) + 0.5) / n)
    quantiles = quantiles / max(float(np.sqrt(np.square(quantiles).mean())), 1e-12)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_variables - 1))]
    return np.asarray(quantiles[np.stack(orders, axis=1)], dtype=np.float64)
