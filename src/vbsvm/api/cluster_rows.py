"""Rows as workers of a cluster see them: a partition is read, summarised, and encoded where it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import inputs, label_checks, validation
from vbsvm.api.missing_values import EncodedRows
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.design.levels import UNSEEN, Levels
from vbsvm.design.scaling import ColumnSummary
from vbsvm.design.summaries import LabelSummary
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.model.row_pass import added
from vbsvm.sources.collections import columns_of_part
from vbsvm.sources.distributed import settled
from vbsvm.sources.memory import Memory


@final
@dataclass(frozen=True, eq=False)
class ReadPart:
    """A partition as numbers, with its labels and weights, and the group of each row where there are groups."""

    table: NDArray[np.floating]
    labels: NDArray[Any]
    weights: Array
    members: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        """Sums over the table are to have the same bits wherever it came from."""
        object.__setattr__(self, "table", settled(self.table))
        object.__setattr__(self, "weights", settled(self.weights))

    def __reduce__(self) -> tuple[Any, ...]:
        """By its fields, so that what arrives elsewhere is settled as well."""
        return ReadPart, (self.table, self.labels, self.weights, self.members)

    def __sizeof__(self) -> int:
        """Bytes that would have to move."""
        return self.table.nbytes + self.labels.nbytes + self.weights.nbytes


def read_part(
    group: str | int | None, columns: Sequence[Any] | None, number: int, rows: tuple[Any, Any, Any]
) -> ReadPart:
    """Read a partition: inputs, which are a frame of these columns, or an array where they are None; labels; weights.

    Errors say which partition.
    """
    X, y, sample_weight = rows
    try:
        X = X if columns is None else columns_of_part(X, columns)
        table, members = inputs.read_some(X, group)
        labels = _labels(y)
        if len(labels) != len(table):
            raise ValueError(f"X has {len(table)} rows, and y has {len(labels)} labels.")
        given = None if sample_weight is None else np.asarray(sample_weight).reshape(-1)
        weights = label_checks.read_weights(given, len(table), may_all_be_zero=True)
        _require_finite(table, weights, _names(X, group))
        return ReadPart(table, labels, weights, members)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Partition {number}: {error}") from None


def _labels(y: Any) -> NDArray[Any]:
    """Labels of some rows; there may be none."""
    if hasattr(y, "columns") and y.shape[1] == 1:
        y = y.iloc[:, 0]
    return label_checks.column_of_labels(y) if len(y) else np.empty(0)


def _names(X: Any, group: str | int | None) -> tuple[str, ...]:
    """Names of the inputs."""
    if hasattr(X, "columns"):
        return tuple(str(name) for name in X.columns if name != group)
    return tuple(f"x{k}" for k in range(X.shape[1]) if group is None or k != int(group) % X.shape[1])


def _require_finite(table: NDArray[np.floating], weights: Array, names: tuple[str, ...]) -> None:
    validation.require_finite(table if weights.all() else table[weights > 0], names)


@final
@dataclass(frozen=True, eq=False)
class TableSummary:
    """What is learned of labels, columns and groups; summaries of partitions add up.

    ``columns`` are None where no row counts, ``groups`` where there are none.
    """

    labels: LabelSummary
    columns: ColumnSummary | None
    groups: LabelSummary | None = None

    @staticmethod
    def of(part: ReadPart) -> "TableSummary":
        """Summarise a partition."""
        labels = LabelSummary.of(part.labels, part.weights)
        groups = None if part.members is None else LabelSummary.of(part.members, part.weights)
        return TableSummary(labels, ColumnSummary.of(part.table, part.weights) if labels.n_rows else None, groups)

    def __add__(self, other: Self) -> "TableSummary":
        """Join two sets of rows."""
        groups = added(self.groups, other.groups)
        return TableSummary(self.labels + other.labels, added(self.columns, other.columns), groups)


@final
@dataclass(frozen=True, eq=False)
class Encoding:
    """How a partition becomes a source of one model: what all have in common, the classes, and their weights.

    ``levels`` are those of the groups, where there are some.
    """

    like: Memory
    classes: NDArray[Any]
    positive: int
    levels: Levels | None = None
    factors: Array | None = None

    def __call__(self, part: ReadPart) -> Memory:
        """The rows of a partition."""
        codes = label_checks.class_codes(self.classes, part.labels) if len(part.labels) else np.empty(0, dtype=np.intp)
        weights, groupings, incomplete = part.weights, (), self.like.missing_inputs
        if self.factors is not None:
            weights = label_checks.require_counts(weights * self.factors[codes])
        if self.levels is not None:
            assert part.members is not None
            index = self.levels.encode([part.members]) if len(part.members) else np.empty(0, dtype=np.intp)
            groupings = (replace(self.like.groupings[0], index=index, has_unseen=bool((index == UNSEEN).any())),)
        if incomplete is not None:
            beside = np.where(codes[:, None] == self._beside(incomplete.beside.shape[1]), 1.0, -1.0)
            incomplete = replace(incomplete, multipliers=np.empty((len(part.table), 0)), beside=beside)
        signs = np.where(codes == self.positive, 1.0, -1.0)
        return replace(
            self.like, X=part.table, signs=signs, weights=weights, groupings=groupings, missing_inputs=incomplete
        )

    def _beside(self, n_columns: int) -> NDArray[np.intp]:
        """The classes that columns beside the inputs tell apart: the second of two, else all but the last."""
        return np.arange(n_columns) + (1 if len(self.classes) == 2 else 0)


@final
@dataclass(frozen=True, eq=False)
class PatternsOf:
    """Counts the patterns of missing inputs in a partition."""

    columns: NDArray[np.intp]
    names: tuple[str, ...]

    def __call__(self, part: ReadPart) -> MissingPatterns:
        """The patterns of one."""
        everything = slice(0, len(part.table))
        rows = EncodedRows(Encoded(part.table), part.weights, lambda: [everything])
        return rows.patterns(self.columns, self.names, ())
