"""Missing categories in a frame: a row that misses one is written out as its candidates."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.candidates import KNOWN, Candidates

if TYPE_CHECKING:
    import pandas as pd

# Of one row; the numbers of levels of several missing categories multiply.
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

    def log_chances(
        self, frame: "pd.DataFrame", groups: NDArray[np.intp], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], ...]:
        """Of each category the log probability of its levels in each group of rows, groups × levels.

        The probabilities are posterior means under a flat prior.
        """
        found = []
        for name, levels in zip(self.names, self.levels, strict=True):
            known = frame[name].notna().to_numpy()
            codes = np.searchsorted(levels, np.asarray(frame[name])[known])
            counts = np.ones((int(groups.max()) + 1, len(levels)))
            np.add.at(counts, (groups[known], codes), weights[known])
            found.append(np.log(counts / counts.sum(axis=1, keepdims=True)))
        return tuple(found)

    def write_out(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each candidate: every level that a missing category may have is filled in."""
        missing = np.stack([frame[name].isna().to_numpy() for name in self.names], axis=1)
        n_candidates = self.n_candidates(frame, missing)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes = np.full((len(row), len(self.names)), KNOWN, dtype=np.intp)
        written = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            lost, column = missing[row, k], frame[name]
            codes[lost, k] = turn[lost] % len(levels)
            turn[lost] //= len(levels)
            values = (column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object))[row]
            values[lost] = levels[codes[lost, k]]
            written[name] = values
        return written, Candidates(row, codes)

    def n_candidates(self, frame: "pd.DataFrame", missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Number of candidates of each row, by which categories are missing; too many are refused."""
        found = np.where(missing, [len(levels) for levels in self.levels], 1).prod(axis=1)
        if found.max() > MOST_CANDIDATES:
            row = int(found.argmax())
            lost = [name for name, gone in zip(self.names, missing[row], strict=True) if gone]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(lost)}, which have {found[row]} "
                f"combinations; up to {MOST_CANDIDATES} are supported. Leave such rows out."
            )
        return found
