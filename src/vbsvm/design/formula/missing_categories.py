"""Missing categories in a frame: a row that misses one is written out as its candidates."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.candidates import Candidates

if TYPE_CHECKING:
    import pandas as pd

# Of one row; the numbers of levels of several missing categories multiply. With more, so many are drawn.
MOST_CANDIDATES = 256


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

        found = np.empty((len(frame), len(self.names)), dtype=np.intp)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            column = frame[name]
            values = column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object)
            found[:, k] = ~np.maximum(pd.Index(levels).get_indexer(pd.Index(values)), 0)
        return found

    def write_out(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each candidate: every level that a missing category may have is filled in.

        Rows with too many combinations of levels have drawn ones instead, by how often each level occurred.
        """
        missing = np.stack([frame[name].isna().to_numpy() for name in self.names], axis=1)
        sizes = np.array([len(levels) for levels in self.levels])
        many = np.where(missing, np.log(sizes), 0.0).sum(axis=1) > np.log(MOST_CANDIDATES) + 1e-9
        n_candidates = np.where(missing & ~many[:, None], sizes, 1).prod(axis=1)
        drawn = {int(row): self._drawn(missing[row], int(row)) for row in np.flatnonzero(many)}
        for row, (codes, _) in drawn.items():
            n_candidates[row] = len(codes)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes, weights = self.known_levels(frame)[row], np.zeros(len(row))
        for k, size in enumerate(sizes):
            lost = missing[row, k]
            codes[lost, k] = turn[lost] % size
            turn[lost] //= size
        for one, (combinations, weight) in drawn.items():
            here, lost = row == one, missing[one]
            codes[np.ix_(here, lost)], weights[here] = combinations[:, lost], weight
        written = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            lost, column = missing[row, k], frame[name]
            values = (column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object))[row]
            values[lost] = levels[codes[lost, k]]
            written[name] = values
        return written, Candidates(row, codes, drawn=weights if drawn else None)

    def n_candidates(self, frame: "pd.DataFrame", missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Number of candidates of each row of a part of the data, by which categories are missing.

        Too many are refused: combinations are drawn where all rows are at hand.
        """
        sizes = np.array([len(levels) for levels in self.levels])
        many = np.where(missing, np.log(sizes), 0.0).sum(axis=1) > np.log(MOST_CANDIDATES) + 1e-9
        if many.any():
            row = int(many.argmax())
            lost = [name for name, gone in zip(self.names, missing[row], strict=True) if gone]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(lost)}, which have more than "
                f"{MOST_CANDIDATES} combinations. Leave such rows out, or fit rows that are in memory."
            )
        return np.where(missing, sizes, 1).prod(axis=1)

    def _drawn(self, missing: NDArray[np.bool_], row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Combinations of levels for a row, and the logarithm of how often each was drawn over its chance."""
        rng = np.random.default_rng(row)
        codes, logs = np.zeros((MOST_CANDIDATES, len(self.names)), dtype=np.intp), np.zeros(MOST_CANDIDATES)
        for k in np.flatnonzero(missing):
            chances = (1.0 + self.counts[k]) / (1.0 + self.counts[k]).sum()
            codes[:, k] = rng.choice(len(chances), size=MOST_CANDIDATES, p=chances)
            logs += np.log(chances[codes[:, k]])
        found, first, often = np.unique(codes, axis=0, return_index=True, return_counts=True)
        return found, np.log(often) - logs[first]
