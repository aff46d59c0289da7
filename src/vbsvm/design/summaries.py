"""Summaries of some of the rows that add up to that of all rows: what is learned once of labels and groups.

``summary(rows) + summary(other_rows)`` is the summary of both, whoever has which rows. ``scaling.ColumnSummary`` does
the same for columns of numbers, and ``formula.summary`` for the columns of a formula.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.levels import Levels, kind_of_labels

# An outcome of more different values is a measurement or an identifier; all of them would be held in memory.
MOST_CLASSES = 10_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class LabelSummary:
    """Sorted labels of the rows of positive weight, the total weight and the number of rows of each."""

    labels: NDArray[Any]
    totals: Array
    counts: NDArray[np.intp]

    @staticmethod
    def of(labels: NDArray[Any], weights: Array) -> "LabelSummary":
        """Summarise some rows; those of weight 0 do not bring a label with them."""
        counted = slice(None) if weights.all() else weights > 0
        found, codes = np.unique(labels[counted], return_inverse=True)
        totals = np.bincount(codes, weights[counted], minlength=len(found)).astype(np.float64)
        return LabelSummary(found, totals, np.bincount(codes, minlength=len(found)))

    def __add__(self, other: Self) -> "LabelSummary":
        """Join two sets of rows; labels of two kinds have no common order, and are refused."""
        if not len(self.labels) or not len(other.labels):
            return self if len(self.labels) else other
        one, two = kind_of_labels(self.labels), kind_of_labels(other.labels)
        if one != two:
            raise ValueError(f"Some labels are {one} ({self.labels[0]!r}), and others {two} ({other.labels[0]!r}).")
        labels, place = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        totals = np.bincount(place, np.concatenate([self.totals, other.totals]), minlength=len(labels))
        counts = np.zeros(len(labels), dtype=np.intp)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return LabelSummary(labels, totals.astype(np.float64), counts)

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return int(self.counts.sum())

    def require_few(self, what: str) -> None:
        """Refuse what is no class; ``what`` is the column."""
        if len(self.labels) > MOST_CLASSES:
            raise ValueError(
                f"{what} holds more than {MOST_CLASSES} different values, such as {self.labels[0]!r} and "
                f"{self.labels[-1]!r}: classes are needed."
            )


@final
@dataclass(frozen=True, slots=True, eq=False)
class LevelSummary:
    """Combinations of labels that occur in the columns of a grouping factor, and the number of rows of each."""

    columns: tuple[NDArray[Any], ...]
    counts: NDArray[np.intp]

    @staticmethod
    def of(columns: Sequence[NDArray[Any]]) -> "LevelSummary":
        """Summarise some rows."""
        return _counted(columns, np.ones(len(columns[0]), dtype=np.intp))

    def __add__(self, other: Self) -> "LevelSummary":
        """Join two sets of rows."""
        for one, more in zip(self.columns, other.columns, strict=True):
            if len(one) and len(more) and kind_of_labels(one) != kind_of_labels(more):
                raise ValueError(
                    f"Some groups are {kind_of_labels(one)} ({one[0]!r}), and others {kind_of_labels(more)} "
                    f"({more[0]!r})."
                )
        columns = [np.concatenate(both) for both in zip(self.columns, other.columns, strict=True)]
        return _counted(columns, np.concatenate([self.counts, other.counts]))

    def levels(self) -> Levels:
        """The levels of the factor; ``counts`` are in their order."""
        return Levels.learn(self.columns)[0]


def _counted(columns: Sequence[NDArray[Any]], counts: NDArray[np.intp]) -> LevelSummary:
    """Each combination once, in the order of its levels."""
    levels, numbers = Levels.learn(columns)
    _, first = np.unique(numbers, return_index=True)
    totals = np.zeros(len(levels), dtype=np.intp)
    np.add.at(totals, numbers, counts)
    return LevelSummary(tuple(labels[first] for labels in columns), totals)
