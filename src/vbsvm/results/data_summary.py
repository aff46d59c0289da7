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
    """Numbers of training rows with positive weight: by class, their weights, and by level of each factor.

    Pairs are for the negative and the positive class. ``weights`` are the classes' sums of weights, and None where
    every row has the weight 1. ``group_sizes`` has for each factor the number of rows of each of its levels.
    ``n_dropped`` rows were left out because they miss values.
    """

    rows: tuple[int, int]
    weights: tuple[float, float] | None
    group_sizes: tuple[NDArray[np.intp], ...]
    n_dropped: int = 0

    @staticmethod
    def from_source(source: AnyRows, n_dropped: int = 0) -> "Facts":
        """Count the rows of positive weight, in memory, files or a cluster."""
        return replace(source.sum_over_memories(Facts._from_memory), n_dropped=n_dropped)

    @staticmethod
    def _from_memory(source: InMemory) -> "Facts":
        """Count the rows of a table; candidates count as the one row that they represent."""
        return reduce(add, (Facts._from_run(source, where) for where in source.observation_runs()))

    @staticmethod
    def _from_run(source: InMemory, run: Any) -> "Facts":
        weights, signs = source.weights[run], source.y[run]
        counted = slice(None) if weights.all() else weights > 0
        weights, positive = weights[counted], signs[counted] > 0
        sizes = [
            np.bincount(grouping.index[run][counted], minlength=grouping.n_groups) for grouping in source.groupings
        ]
        total, of_positive, n_positive = float(weights.sum()), float(weights[positive].sum()), int(positive.sum())
        unit_weights = bool((weights == 1.0).all())
        rows = len(weights) - n_positive, n_positive
        return Facts(rows, None if unit_weights else (total - of_positive, of_positive), tuple(sizes))

    def __add__(self, other: Self) -> "Facts":
        """Add the counts of two sets of rows."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = _add_pairs(self._totals, other._totals)
        sizes = tuple(a + b for a, b in zip(self.group_sizes, other.group_sizes, strict=True))
        return Facts(_add_pairs(self.rows, other.rows), weights, sizes, self.n_dropped + other.n_dropped)

    @property
    def _totals(self) -> tuple[float, float]:
        """Sums of weights of the negative and the positive class."""
        return self.rows if self.weights is None else self.weights

    def share(self, *, positive: bool) -> float:
        """Proportion of a class in the total weight."""
        totals = self._totals
        return totals[int(positive)] / sum(totals)

    @property
    def left_out(self) -> str:
        """Text on how many rows were left out, or ""."""
        if not self.n_dropped:
            return ""
        return f"{self.n_dropped} row{'s' if self.n_dropped > 1 else ''} with missing values left out"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.rows)


def _add_pairs(a: tuple[N, N], b: tuple[N, N]) -> tuple[N, N]:
    return a[0] + b[0], a[1] + b[1]
