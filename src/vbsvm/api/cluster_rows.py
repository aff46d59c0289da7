"""Rows as workers of a cluster see them: a partition is read, summarised, and encoded where it is."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from vbsvm.api import inputs, validation
from vbsvm.base.arrays import Array
from vbsvm.design.scaling import ColumnSummary
from vbsvm.design.summaries import LabelSummary
from vbsvm.model.stats import added
from vbsvm.sources.distributed import settled
from vbsvm.sources.memory import Memory


@final
@dataclass(frozen=True, eq=False)
class ReadPart:
    """A partition as numbers, with its labels and weights."""

    table: NDArray[np.floating]
    labels: NDArray[Any]
    weights: Array

    def __post_init__(self) -> None:
        """Sums over the table are to have the same bits wherever it came from."""
        object.__setattr__(self, "table", settled(self.table))
        object.__setattr__(self, "weights", settled(self.weights))

    def __reduce__(self) -> tuple[Any, ...]:
        """By its fields, so that what arrives elsewhere is settled as well."""
        return ReadPart, (self.table, self.labels, self.weights)

    def __sizeof__(self) -> int:
        """Bytes that would have to move."""
        return self.table.nbytes + self.labels.nbytes + self.weights.nbytes


def read_part(number: int, X: Any, y: Any, sample_weight: Any) -> ReadPart:
    """Read a partition; errors say which."""
    try:
        table, _ = inputs.read_some(X, None)
        labels = _labels(y)
        if len(labels) != len(table):
            raise ValueError(f"X has {len(table)} rows, and y has {len(labels)} labels.")
        weights = np.ones(len(table))
        if sample_weight is not None:
            weights = validation.weights_of_some(np.asarray(sample_weight).reshape(-1), len(table))
        _require_finite(table, weights, getattr(X, "columns", None))
        return ReadPart(table, labels, weights)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Partition {number}: {error}") from None


def _labels(y: Any) -> NDArray[Any]:
    """Labels of some rows; there may be none."""
    if hasattr(y, "columns") and y.shape[1] == 1:
        y = y.iloc[:, 0]
    return column_or_1d(validation.plain_labels(y)) if len(y) else np.empty(0)


def _require_finite(table: NDArray[np.floating], weights: Array, columns: Any) -> None:
    counted = table if weights.all() else table[weights > 0]
    names = tuple(f"x{k}" for k in range(table.shape[1])) if columns is None else tuple(map(str, columns))
    validation.require_finite(counted, names)


@final
@dataclass(frozen=True, eq=False)
class TableSummary:
    """What is learned of labels and columns; summaries of partitions add up. None where no row counts."""

    labels: LabelSummary
    columns: ColumnSummary | None

    @staticmethod
    def of(part: ReadPart) -> "TableSummary":
        """Summarise a partition."""
        labels = LabelSummary.of(part.labels, part.weights)
        return TableSummary(labels, ColumnSummary.of(part.table, part.weights) if labels.n_rows else None)

    def __add__(self, other: Self) -> "TableSummary":
        """Join two sets of rows."""
        return TableSummary(self.labels + other.labels, added(self.columns, other.columns))


@final
@dataclass(frozen=True, eq=False)
class Encoding:
    """How a partition becomes a source of one model: what all have in common, the classes, and their weights."""

    like: Memory
    classes: NDArray[Any]
    positive: int
    factors: Array | None = None

    def __call__(self, part: ReadPart) -> Memory:
        """The rows of a partition."""
        codes = validation.class_codes(self.classes, part.labels) if len(part.labels) else np.empty(0, dtype=np.intp)
        weights = part.weights
        if self.factors is not None:
            weights = validation.weighted(weights, self.factors, codes)
        return replace(self.like, X=part.table, signs=np.where(codes == self.positive, 1.0, -1.0), weights=weights)
