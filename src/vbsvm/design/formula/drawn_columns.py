"""Columns that miss values and do not enter a formula linearly: rows are written out with drawn values for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.joint_normal import JointNormal
from vbsvm.design.candidates import Candidates
from vbsvm.design.curves import NormalScale
from vbsvm.design.formula.missing_inputs import MOST_CANDIDATES

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Values of columns in rows that miss some, draws × rows × columns, and what labels told about them.

    ``told`` (draws × rows) is the logarithm of how much likelier values would be if the label were not known.
    """

    values: Array
    told: Array

    def of_rows(self, rows: NDArray[np.intp]) -> "Draws":
        """Those of some rows."""
        return Draws(self.values[:, rows], self.told[:, rows])


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """What a sampler finds of variables of which some are missing: their distribution, and draws.

    ``draws`` are those of the last variables, in the rows that miss one of these. ``total`` is the weight of the rows
    that miss nothing.
    """

    distribution: JointNormal
    total: float
    draws: Draws


# Learns from rows × variables, of which the last so many are drawn.
Sampler = Callable[[Array, int], Learned]


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
        how: "HowToDraw",
    ) -> "tuple[DrawnColumns, Draws]":
        """Learn their distribution, and draw them; NaN is missing in the table's columns, too."""
        values = _values(frame, names)
        scales = tuple(NormalScale.learn(one[~np.isnan(one)], how.transform) for one in values.T)
        x = np.column_stack(
            [table[:, given], *(scale.to_normal(one) for scale, one in zip(scales, values.T, strict=True))]
        )
        centre, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(centre))
        kept = np.flatnonzero(varies | (np.arange(len(varies)) >= len(given)))
        spread = np.where(varies, spread, 1.0)[kept]
        learned = how.sampler((x[:, kept] - centre[kept]) / spread, len(names))
        given = given[kept[: len(kept) - len(names)]]
        found = DrawnColumns(names, given, scales, centre[kept], spread, learned.distribution, how.n, learned.total)
        return found, Draws(found._on_own_scale(learned.draws.values), learned.draws.told)

    def missing(self, frame: "pd.DataFrame") -> NDArray[np.bool_]:
        """What rows miss of these columns."""
        return np.stack([frame[name].isna().to_numpy() for name in self.names], axis=1)

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
        return self._filled(frame, table, self.distribution.redrawn(self.total, rng), noise)

    def _filled(
        self, frame: "pd.DataFrame", table: NDArray[np.floating], distribution: JointNormal, noise: Array
    ) -> Draws:
        """Values that standard normal ones, draws × rows × columns, are moved to."""
        first, values = len(self.given), _values(frame, self.names)
        x = (np.column_stack([table[:, self.given], _to_normal(self.scales, values)]) - self.centre) / self.spread
        found = np.repeat(x[None, :, first:], self.n, axis=0)
        for one in distribution.given(x, np.isnan(x), first):
            cells = np.ix_(np.arange(self.n), one.rows, one.variables - first)
            found[cells] = one.mean + noise[cells] @ one.root.T
        return Draws(self._on_own_scale(found), np.zeros(found.shape[:2]))

    def write_out(
        self, frame: "pd.DataFrame", candidates: Candidates, draws: Draws
    ) -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each draw, and the candidates that these are; ``draws`` are of the rows that miss.

        A row that has many candidates already gets fewer draws for each.
        """
        missing = self.missing(frame)
        lost = np.asarray(missing.any(axis=1))
        room = MOST_CANDIDATES // np.bincount(candidates.row)[candidates.row]
        counts = np.where(lost, np.clip(room, 1, self.n), 1)
        which = np.repeat(np.arange(len(frame)), counts)
        turn = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        place, here = (np.cumsum(lost) - 1)[which], lost[which]
        written, told = frame.take(which).reset_index(drop=True), np.zeros(len(which))
        told[here] = draws.told[turn[here], place[here]]
        for j, name in enumerate(self.names):
            column, gone = written[name].to_numpy(dtype=np.float64, na_value=np.nan).copy(), missing[which, j]
            column[gone] = draws.values[turn[gone], place[gone], j]
            written[name] = column
        numbers = np.where(missing[which], turn[:, None], -1)
        return written, replace(candidates.take(which), draws=numbers, told=told)

    def _on_own_scale(self, values: Array) -> Array:
        """Values of the columns from centred and scaled ones on their normal scales."""
        first = len(self.given)
        normal = self.centre[first:] + self.spread[first:] * values
        return np.stack([scale.from_normal(normal[..., j]) for j, scale in enumerate(self.scales)], axis=-1)


@final
@dataclass(frozen=True, eq=False)
class HowToDraw:
    """The sampler, how many values it draws for each row, and on which scale columns are normal."""

    sampler: Sampler
    n: int
    transform: str


def _values(frame: "pd.DataFrame", names: tuple[str, ...]) -> Array:
    return np.column_stack([frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names])


def _to_normal(scales: tuple[NormalScale, ...], values: Array) -> Array:
    return np.column_stack([scale.to_normal(one) for scale, one in zip(scales, values.T, strict=True)])


def _even_noise(n: int, n_variables: int) -> Array:
    """So many points whose every coordinate has the quantiles of a standard normal variable, in mixed order."""
    rng, quantiles = np.random.default_rng(0), ndtri((np.arange(n) + 0.5) / n)
    quantiles = quantiles / max(float(np.sqrt(np.square(quantiles).mean())), 1e-12)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_variables - 1))]
    return np.asarray(quantiles[np.stack(orders, axis=1)], dtype=np.float64)
