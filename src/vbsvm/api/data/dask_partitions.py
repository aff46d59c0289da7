"""Rows in the workers of a Dask cluster: partitions are summarised and encoded there, and stay."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.data.partitions import EncodedData, Encoder, LabelledData, Partition, Partitions, Reader
from vbsvm.api.data.table_reader import RawTable
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.columns import UNSEEN
from vbsvm.design.scaling import ColumnSummary
from vbsvm.design.values import renumbered
from vbsvm.results.training_rows import Unweighted
from vbsvm.sources.cluster import Cluster, columns_of_part, delayed, delayed_parts, is_array, partitions
from vbsvm.sources.distributed import Distributed, aligned
from vbsvm.sources.memory import Memory

# Offset between the row numbers of partitions, which makes them unique.
ROW_NUMBERS_PER_PART = 2**32
# Bytes of whole columns that are fetched from the workers, of which splines and some transforms are learned.
MAX_WHOLE_BYTES = 2**31


@final
class DaskPartitions(Partitions):
    """Partitions in workers, which read them once; ``raw`` takes the columns that are needed from a delayed one."""

    place = "a cluster"

    def __init__(self, cluster: Cluster, parts: Sequence[Any], raw: Callable[..., Any], names: list[str]) -> None:
        self._cluster, self._delayed, self._raw, self._names = cluster, parts, raw, names
        self._parts: list[Any] = []

    @staticmethod
    def from_frame(data: Any) -> "DaskPartitions":
        """The partitions of a data frame, in the cluster of the client that was made last."""
        if is_array(data):
            raise TypeError("data must be a data frame with named columns; got a dask array: use DaskVBSVC.")
        names = [str(name) for name in data.columns]
        return DaskPartitions(Cluster.from_client(), delayed_parts(data), columns_of_part, names)

    @staticmethod
    def from_table(cluster: Cluster, X: Any, y: Any, sample_weight: Any) -> "DaskPartitions":
        """The partitions of predictors, labels, and weights or None."""
        columns = None if is_array(X) else list(X.columns)
        rows = partitions(X, y, sample_weight)
        return DaskPartitions(cluster, rows, partial(_raw_table, columns), [])

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._names

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """Partitions stay where they are."""
        raise NotImplementedError

    def sum(self, function: Callable[[Partition], Any], columns: Sequence[str] | None = None) -> Any:
        """Sum of a function over the partitions, each where it is."""
        if not self._parts:
            read = delayed(partial(_raw_partition, self._raw, columns))
            self._parts = self._cluster.compute([read(number, part) for number, part in enumerate(self._delayed)])
        total = self._cluster.sum(partial(_apply, function), self._parts)
        self.check_memory(total)
        return total

    def memory_advice(self, n_bytes: int) -> str | None:
        """What to do where whole columns take this many bytes; None where they can be fetched from the workers."""
        if n_bytes <= MAX_WHOLE_BYTES:
            return None
        return (
            f"which are {n_bytes / 1e9:.1f} GB; up to {MAX_WHOLE_BYTES / 1e9:.1f} are fetched from a cluster: leave "
            "these terms out, or compute such columns before."
        )

    def learn(self, reader: Reader) -> Encoder:
        """What the reader learns from all rows; errors number those of a partition from 0."""
        try:
            return super().learn(reader)
        except (ValueError, TypeError) as error:
            raise type(error)(renumbered(str(error), lambda row: row % ROW_NUMBERS_PER_PART)) from None

    def encode(self, encoder: Encoder) -> EncodedData:
        """Encode the partitions in their workers, which keep them."""
        cluster = self._cluster
        encoded = cluster.map(partial(_encode_partition, encoder), self._parts)
        flags = cluster.gather(cluster.map(lambda part: part is not None, encoded))
        nonempty = [part for part, has_rows in zip(encoded, flags, strict=True) if has_rows]
        columns = cluster.sum(lambda part: part.columns, nonempty)
        no_rows = np.empty(0, dtype=np.intp)
        (rows,) = cluster.gather(cluster.map(lambda part: part.rows.take(no_rows), nonempty[:1]))
        return EncodedData(encoder, rows, columns, remote=WorkerRows(cluster, nonempty))


@final
class EncodedPartition:
    """Encoded rows of a partition in a worker, aligned so that sums have the same bits, and their columns' summary."""

    def __init__(self, rows: LabelledData, columns: ColumnSummary) -> None:
        self.rows, self.columns = _aligned(rows), columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by constructor arguments, so that unpickled arrays are aligned, too."""
        return EncodedPartition, (self.rows, self.columns)

    def __sizeof__(self) -> int:
        """Bytes of all arrays, for the scheduler."""
        return sum(array.nbytes for array in self.rows.arrays().values())


@final
@dataclass(frozen=True, eq=False)
class WorkerRows:
    """Encoded partitions in workers."""

    cluster: Cluster
    parts: Sequence[Any]

    def sum(self, function: Callable[[LabelledData, slice], Any]) -> Any:
        """Sum of a function of the rows of each partition."""
        return self.cluster.sum(lambda part: function(part.rows, slice(0, len(part.rows.weights))), self.parts)

    def with_rows(self, task: Task, number: int) -> Task:
        """The task of a model with its rows, which stay in the workers."""
        like, links = task.table, np.empty(0, dtype=np.intp)
        if like.missing_inputs is not None:
            pairs = task.missing_data.all_inputs.pairs
            links = np.array([pairs.index(pair) for pair in like.missing_inputs.inputs.pairs], dtype=np.intp)

        def source(weights: Callable[[LabelledData], Any]) -> Distributed:
            memories = self.cluster.map(partial(_memory_source, like, links, number, weights), self.parts)
            return Distributed.from_memories(self.cluster, memories, like)

        unweighted = None
        if task.sample_weights is not None:
            unweighted = Unweighted(source(lambda rows: rows.sample_weights), source(_squares_over_sample_weights))
        return replace(task, source=source(lambda rows: rows.weights), sample_weights=unweighted)


@contextmanager
def _partition_named_in_errors(number: int) -> Iterator[None]:
    """Prefix errors with the number of the partition."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"Partition {number}: {error}") from None


def _raw_table(names: list[Any] | None, rows: tuple[Any, Any, Any], columns: Sequence[str] | None) -> RawTable:
    """Raw table of one partition; X is a frame with these columns, or an array if None."""
    X, y, weights = rows
    if hasattr(y, "columns") and y.shape[1] == 1:
        y = y.iloc[:, 0]
    X = X if names is None else columns_of_part(X, names)
    return RawTable(X, y, None if weights is None else np.asarray(weights).reshape(-1))


def _raw_partition(raw: Callable[..., Any], columns: Sequence[str] | None, number: int, rows: Any) -> Partition:
    named = partial(_partition_named_in_errors, number)
    with named():
        return Partition(raw(rows, columns), number * ROW_NUMBERS_PER_PART, named)


def _apply(function: Callable[[Partition], Any], part: Partition) -> Any:
    with part.error_context():
        return function(part)


def _encode_partition(encoder: Encoder, part: Partition) -> EncodedPartition | None:
    """Encode a partition and summarise its columns; arrays are aligned first, so that sums are reproducible."""
    with part.error_context():
        rows = encoder(part)
        if rows is None:
            return None
        rows = _aligned(rows)
        columns = encoder.columns(rows)
    return EncodedPartition(rows.sorted_by_level() if encoder.in_order else rows, columns)


def _aligned(rows: LabelledData) -> LabelledData:
    """The rows in newly aligned arrays, without row numbers."""
    encoded = replace(rows.encoded, table=aligned(rows.encoded.table))
    return replace(rows, encoded=encoded, weights=aligned(rows.weights), row_numbers=None)


def _squares_over_sample_weights(rows: LabelledData) -> Array:
    """Squared weights divided by the sample weights, 0 where these are 0."""
    base: Any = rows.sample_weights
    return np.divide(np.square(rows.weights), base, out=np.zeros(len(base)), where=base > 0)


def _memory_source(
    template: Memory,
    links: NDArray[np.intp],
    number: int,
    weights: Callable[[LabelledData], Any],
    part: EncodedPartition,
) -> Memory:
    """In-memory source of one partition and model; ``links`` are columns of the multipliers."""
    rows, encoded, incomplete = part.rows, part.rows.encoded, template.missing_inputs
    if incomplete is not None:
        multipliers = np.empty((len(rows.weights), 0))
        if encoded.multipliers is not None:
            multipliers = encoded.multipliers[:, links]
        auxiliary = np.column_stack(rows.labels)[:, : incomplete.auxiliary.shape[1]]
        incomplete = replace(incomplete, multipliers=multipliers, auxiliary=auxiliary)
    groupings = tuple(
        replace(grouping, index=index, has_unseen=bool((index == UNSEEN).any()))
        for grouping, index in zip(template.groupings, encoded.levels, strict=True)
    )
    return replace(
        template,
        X=encoded.table,
        y=rows.labels[number],
        weights=weights(rows),
        groupings=groupings,
        missing_inputs=incomplete,
        candidates=encoded.candidates,
    )
