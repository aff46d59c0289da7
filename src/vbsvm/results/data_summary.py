"""What a fit keeps of its data: a few counts, which reports and tables tell when the data are long gone."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.sources.distributed import AnyRows, InMemory

N = TypeVar("N", int, float)


@final
@dataclass(frozen=True, eq=False)
class Facts:
    """Rows that counted, by class, by weight and by group.

    Pairs are for the negative and the positive class. ``weights`` are the classes' sums of weights, and None where
    every row has the weight 1. ``group_sizes`` has for each factor the number of rows of each of its levels.
    ``n_dropped`` rows were left out because they miss values.
    """

    rows: tuple[int, int]
    weights: tuple[float, float] | None
    group_sizes: tuple[NDArray[np.intp], ...]
    n_dropped: int = 0

    @staticmethod
    def of(source: AnyRows, n_dropped: int = 0) -> "Facts":
        """Count the rows of positive weight, wherever they lie."""
        return replace(source.sum_over_memories(Facts._of_memory), n_dropped=n_dropped)

    @staticmethod
    def _of_memory(source: InMemory) -> "Facts":
        """Count the rows of a table; candidates count as the one row that they represent."""
        return reduce(add, (Facts._of_run(source, where) for where in source.observation_runs()))

    @staticmethod
    def _of_run(source: InMemory, where: Any) -> "Facts":
        weights, signs = source.weights[where], source.y[where]
        counted = slice(None) if weights.all() else weights > 0
        weights, positive = weights[counted], signs[counted] > 0
        sizes = [
            np.bincount(grouping.index[where][counted], minlength=grouping.n_groups) for grouping in source.groupings
        ]
        total, of_positive, n_positive = float(weights.sum()), float(weights[positive].sum()), int(positive.sum())
        even = bool((weights == 1.0).all())
        rows = len(weights) - n_positive, n_positive
        return Facts(rows, None if even else (total - of_positive, of_positive), tuple(sizes))

    def __add__(self, other: Self) -> "Facts":
        """Join the counts of two sets of rows."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = _pairwise(self._totals, other._totals)
        sizes = tuple(one + two for one, two in zip(self.group_sizes, other.group_sizes, strict=True))
        return Facts(_pairwise(self.rows, other.rows), weights, sizes, self.n_dropped + other.n_dropped)

    @property
    def _totals(self) -> tuple[float, float]:
        """Sums of weights of the negative and the positive class."""
        return self.rows if self.weights is None else self.weights

    def share(self, *, positive: bool) -> float:
        """Share of one of the classes in the total weight."""
        totals = self._totals
        return totals[int(positive)] / sum(totals)

    @property
    def left_out(self) -> str:
        """Say how many rows were left out; nothing where none was."""
        if not self.n_dropped:
            return ""
        return f"{self.n_dropped} row{'s' if self.n_dropped > 1 else ''} with missing values left out"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.rows)


def _pairwise(one: tuple[N, N], two: tuple[N, N]) -> tuple[N, N]:
    return one[0] + two[0], one[1] + two[1]
