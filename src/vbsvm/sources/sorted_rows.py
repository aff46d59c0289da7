"""Rows that come piece by piece are written where they stand in the order of their groups."""

from typing import final

import numpy as np
from numpy.typing import NDArray


@final
class Places:
    """Where rows go that come piece by piece: one after another, or sorted by group, in the order of their coming.

    ``counts`` are the numbers of rows of each group; None where there are no groups.
    """

    def __init__(self, counts: NDArray[np.intp] | None) -> None:
        self._next = 0 if counts is None else np.cumsum(counts) - counts

    def of(self, n_rows: int, groups: NDArray[np.intp] | None) -> slice | NDArray[np.intp]:
        """Places of the next rows, of these groups."""
        if groups is None or isinstance(self._next, int):
            begin, self._next = self._next, self._next + n_rows
            return slice(begin, begin + n_rows)
        order = np.argsort(groups, kind="stable")
        met, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
        places = np.empty(n_rows, dtype=np.intp)
        places[order] = np.repeat(self._next[met] - first, counts) + np.arange(n_rows)
        self._next[met] += counts
        return places
