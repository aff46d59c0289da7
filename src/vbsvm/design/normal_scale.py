"""Scales on which a column is taken to be normal: its own, a power of it, or its ranks."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtri
from scipy.stats import yeojohnson, yeojohnson_normmax

from vbsvm.base.arrays import Array

NONE, POWER, RANK = TRANSFORMS = "none", "power", "rank"
# Ranks are kept at so many quantiles.
MOST_QUANTILES = 500
# Powers beyond these come from a few extreme values.
LEAST_POWER, LARGEST_POWER = -3.0, 5.0


@final
@dataclass(frozen=True, eq=False)
class NormalScale:
    """A rising curve through ``points``: values of a column (the first row), and what these are on the normal scale.

    Between the points it is a line, and beyond them it ends, so that what is drawn stays within the range of the
    values that are known.
    """

    points: Array

    @staticmethod
    def learn(values: Array, transform: str) -> "NormalScale":
        """Learn it from the known values of a column."""
        distinct, counts = np.unique(values, return_counts=True)
        if transform == RANK:
            ranks = (np.cumsum(counts) - 0.5 * counts) / len(values)
            return NormalScale(np.stack([distinct, ndtri(ranks)])[:, _spread_out(len(distinct))])
        if transform == POWER and len(distinct) > 2:
            grid = distinct[_spread_out(len(distinct))]
            centre, spread = values.mean(), values.std()
            power = float(np.clip(yeojohnson_normmax((values - centre) / spread), LEAST_POWER, LARGEST_POWER))
            return NormalScale(np.stack([grid, np.asarray(yeojohnson((grid - centre) / spread, power))]))
        ends = distinct[[0, -1]]
        return NormalScale(np.stack([ends, ends]))

    def to_normal(self, values: Array) -> Array:
        """Values on the normal scale; NaN stays."""
        return np.interp(values, *self.points)

    def from_normal(self, values: Array) -> Array:
        """Values of the column."""
        return np.interp(values, self.points[1], self.points[0])

    @property
    def typical(self) -> float:
        """A value in the middle."""
        return float(self.points[0, self.points.shape[1] // 2])


def _spread_out(n: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Numbers from 0 to n − 1, at most so many as there are quantiles, the ends among them."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_QUANTILES)).round().astype(np.intp))
