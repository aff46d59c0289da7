"""A grouping factor in a block of rows: the level of every row.

A factor multiplies some of the row's own columns z (the intercept, slopes) by the effects u of the row's level. It is
kept as an index, and its one-hot columns are never written out: what would be a product with them is a sum by level.
"""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """The level of each row, and the columns z (rows × q) that multiply the level's effects.

    ``slopes`` says which of the design's columns these are.
    """

    levels: NDArray[np.intp]
    n_levels: int
    z: Array
    slopes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Levels, and effects of each."""
        return self.n_levels, self.z.shape[1]

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.n_levels * self.z.shape[1]

    @cached_property
    def window(self) -> tuple[int, "Factor"]:
        """The run of levels that occur here: its first, and the factor with levels counted from there."""
        first, last = int(self.levels.min()), int(self.levels.max())
        if last - first + 1 == self.n_levels:
            return 0, self
        return first, Factor(self.levels - first, last - first + 1, self.z, self.slopes)

    def within(self, n_columns: int) -> slice | list[int] | None:
        """Where z stands among the first columns of the design, or None where it does not; a slice is quicker."""
        first, last = self.slopes[0], self.slopes[-1]
        if max(self.slopes) >= n_columns:
            return None
        return slice(first, last + 1) if self.slopes == tuple(range(first, last + 1)) else list(self.slopes)

    def places(self, columns: NDArray[np.intp]) -> Array:
        """1 where an effect (first axis) multiplies one of these columns of the design (second axis)."""
        return np.equal.outer(np.array(self.slopes), columns).astype(np.float64)

    def of_rows(self, by_level: Array) -> Array:
        """Look up each row's level in an array whose first axis are the levels."""
        return np.take(by_level, self.levels, axis=0)

    def scores(self, effects: Array) -> Array:
        """zᵀu of each row's level."""
        return self.scores_of_rows(self.of_rows(effects))

    def scores_of_rows(self, effects: Array) -> Array:
        """zᵀu with effects u given row by row."""
        return self.z[:, 0] * effects[:, 0] if self.z.shape[1] == 1 else np.einsum("iq,iq->i", self.z, effects)

    def scores_by_column(self, matrices: Array) -> Array:
        """zᵀM with a matrix (q × columns) given row by row."""
        return np.einsum("iq,iqj->ij", self.z, matrices)

    def cross(self, u: Array) -> Array:
        """Zᵀu by level, levels × q."""
        sums = np.empty((self.z.shape[1], self.n_levels))
        for j, z in enumerate(self.z.T):
            sums[j] = self._sum(u * z)
        return sums.T

    def with_columns(self, w: Array, columns: Array) -> Array:
        """ZᵀWC by level, levels × q × columns."""
        sums = np.empty((self.z.shape[1], columns.shape[1], self.n_levels))
        for j, z in enumerate(self.z.T):
            wz = w * z
            for k, column in enumerate(columns.T):
                sums[j, k] = self._sum(wz * column)
        return sums.transpose(2, 0, 1)

    def with_factor(self, w: Array, other: "Factor") -> Array:
        """ZᵀWZ′ of two factors, levels × q × levels′ × q′."""
        sums = np.empty((*self.shape[1:], *other.shape[1:], self.n_levels * other.n_levels))
        pairs = self.levels * other.n_levels + other.levels
        for j, z in enumerate(self.z.T):
            wz = w * z
            for k, z_other in enumerate(other.z.T):
                sums[j, k] = np.bincount(pairs, wz * z_other, minlength=sums.shape[2])
        return sums.reshape(*sums.shape[:2], self.n_levels, other.n_levels).transpose(2, 0, 3, 1)

    def _sum(self, values: Array) -> NDArray[Any]:
        return np.bincount(self.levels, values, minlength=self.n_levels)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ByGroup:
    """Sums by group, as pieces that each cover a run of groups: a block of sorted rows knows a few groups only."""

    pieces: tuple[tuple[int, Array], ...]
    n_groups: int

    def __add__(self, other: Self) -> "ByGroup":
        """Collect the pieces; they are added when they are needed."""
        return ByGroup(self.pieces + other.pieces, self.n_groups)

    def __sub__(self, other: Self) -> "ByGroup":
        """Collect the pieces of the other with the opposite sign."""
        return ByGroup(self.pieces + tuple((first, -piece) for first, piece in other.pieces), self.n_groups)

    def total(self) -> Array:
        """Sums of all groups, the pieces added in their order."""
        if len(self.pieces) == 1 and len(self.pieces[0][1]) == self.n_groups:
            return self.pieces[0][1]
        total = np.zeros((self.n_groups, *self.pieces[0][1].shape[1:]))
        for first, piece in self.pieces:
            total[first : first + len(piece)] += piece
        return total
