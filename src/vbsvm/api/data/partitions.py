"""Where rows are, and what is made of them: partitions are summed over, then encoded by what was learned of all.

A place for rows is a class with one method, ``parts``. What columns mean is up to a reader: summaries of partitions
(``reader.summary``) add up, ``reader.learn`` makes of their sum an encoder (classes, levels, transforms), and
``encoder(part)`` gives the encoded rows of a partition. ``encoder.columns`` are summaries of their columns, by which
``encoder.design`` scales them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import ColumnSummary
from vbsvm.missing.categories import LevelCounts
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import add_optional
from vbsvm.model.spec import Block
from vbsvm.sources.rows import Pages, runs

if TYPE_CHECKING:
    from vbsvm.api.data.dask_partitions import WorkerRows
    from vbsvm.api.data.formula_reader import FormulaEncoder, FormulaReader
    from vbsvm.api.data.table_reader import TableEncoder, TableReader
    from vbsvm.design.formula.reader import Reader as FormulaDesign

Reader: TypeAlias = "TableReader | FormulaReader"
Encoder: TypeAlias = "TableEncoder | FormulaEncoder"


@final
@dataclass(frozen=True, eq=False)
class Partition:
    """Raw rows of a partition, the number of the first, and a context manager that names it in errors."""

    raw: Any
    first: int = 0
    error_context: Callable[[], AbstractContextManager[None]] = nullcontext


@final
@dataclass(frozen=True, eq=False)
class RowCounts:
    """Number of encoded rows, and of those of each level of the last factor, where there is one."""

    n_rows: int
    by_level: NDArray[np.intp] | None

    def __add__(self, other: Self) -> "RowCounts":
        """Join two sets of rows."""
        return RowCounts(self.n_rows + other.n_rows, add_optional(self.by_level, other.by_level))


@final
@dataclass(frozen=True, eq=False)
class LabelledData:
    """Encoded rows with their labels ±1 in each model, and their weights.

    ``weights`` are multiplied by those of classes; ``sample_weights`` are not, and are None without class weights.
    ``row_numbers`` are those of the rows in the user's data, where these are others.
    """

    encoded: Encoded
    labels: tuple[Array, ...]
    weights: Array
    sample_weights: Array | None = None
    row_numbers: NDArray[np.intp] | None = None

    def take(self, row_index: NDArray[np.intp]) -> "LabelledData":
        """Some rows, or all in another order."""
        return LabelledData(
            self.encoded.take(row_index),
            tuple(y[row_index] for y in self.labels),
            self.weights[row_index],
            None if self.sample_weights is None else self.sample_weights[row_index],
            None if self.row_numbers is None else self.row_numbers[row_index],
        )

    def sorted_by_level(self) -> "LabelledData":
        """The rows in the order of the last factor's levels, so that a pass finds what it looks up side by side."""
        levels = self.encoded.levels
        if not levels or not (levels[-1][1:] < levels[-1][:-1]).any():
            return self
        return self.take(np.argsort(levels[-1], kind="stable"))

    @property
    def column_weights(self) -> Array:
        """Weights by which columns are scaled: without those of classes, and shared by the candidates of a row."""
        weights = self.weights if self.sample_weights is None else self.sample_weights
        candidates = self.encoded.candidates
        return weights if candidates is None else weights / np.bincount(candidates.row)[candidates.row]

    @property
    def n_user_rows(self) -> int:
        """Number of rows of the user's data: all candidates of a row count as one."""
        candidates = self.encoded.candidates
        return len(self.weights) if candidates is None else int(candidates.row[-1]) + 1

    def arrays(self, n_before: int = 0) -> dict[str, NDArray[Any]]:
        """The rows as arrays by name, for ``from_arrays``; ``n_before`` rows of other partitions come before."""
        encoded, candidates = self.encoded, self.encoded.candidates
        arrays: dict[str, NDArray[Any] | None] = {
            "X": encoded.table,
            "weights": self.weights,
            "own": self.sample_weights,
            "given": self.row_numbers,
            "multipliers": encoded.multipliers,
            "row": None if candidates is None else candidates.row + n_before,
            "levels": None if candidates is None else candidates.levels,
            **{f"signs{k}": y for k, y in enumerate(self.labels)},
            **{f"groups{k}": levels for k, levels in enumerate(encoded.levels)},
        }
        return {name: array for name, array in arrays.items() if array is not None}

    @staticmethod
    def from_arrays(arrays: dict[str, NDArray[Any]]) -> "LabelledData":
        """Rows from arrays by name; an array of one number is a weight common to all rows."""

        def numbered(name: str) -> tuple[NDArray[Any], ...]:
            return tuple(arrays[f"{name}{k}"] for k in range(len(arrays)) if f"{name}{k}" in arrays)

        n_rows = len(arrays["X"])
        weights = {name: np.broadcast_to(arrays[name], n_rows) for name in ("weights", "own") if name in arrays}
        candidates = Candidates(arrays["row"], arrays["levels"]) if "row" in arrays else None
        encoded = Encoded(arrays["X"], numbered("groups"), arrays.get("multipliers"), candidates)
        return LabelledData(encoded, numbered("signs"), weights["weights"], weights.get("own"), arrays.get("given"))

    @staticmethod
    def concatenated(parts: Sequence["LabelledData"]) -> "LabelledData":
        """The rows of several partitions, one after another."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(rows.n_user_rows for rows in parts)])
        pieces = [rows.arrays(int(n)) for rows, n in zip(parts, before, strict=False)]
        return LabelledData.from_arrays({name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]})


@final
@dataclass(frozen=True, eq=False)
class InputTerms:
    """Which columns of a table are predictors that may be missing, and what depends on them.

    ``mains`` are the columns that are predictors themselves; ``links`` (column, input) are products of one of these
    predictors and known things. ``uncertain`` columns depend on categories that are missing in some rows, and tell
    nothing about the other predictors; ``categories`` are the names of all that may be missing, ``drawn`` those of
    columns whose missing values were drawn.
    """

    mains: Sequence[int]
    links: Sequence[tuple[int, int]] = ()
    uncertain: Sequence[int] = ()
    categories: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


@final
@dataclass(frozen=True, eq=False)
class Design:
    """Meaning of the columns of encoded rows: plan, blocks and their priors by likelihood, incomplete predictors.

    Where categories are missing, ``known_levels`` counts the levels that are known.
    """

    plan: Plan
    blocks: Callable[[Likelihood], tuple[Block, ...]]
    terms: InputTerms
    formula: "FormulaDesign | None" = None
    known_levels: LevelCounts | None = None


@final
@dataclass(frozen=True, eq=False)
class EncodedData:
    """Encoded rows, their encoder, and the summary of their columns.

    ``pages`` are those of memory-mapped arrays. Where rows are ``remote``, ``rows`` has none of them, but their kind.
    """

    encoder: Encoder
    rows: LabelledData
    columns: ColumnSummary
    pages: Pages | None = None
    remote: "WorkerRows | None" = None

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return self.rows.encoded.candidates is None and not self.columns.ranges.incomplete.any()

    def sum(self, function: Callable[[LabelledData, slice], Any]) -> Any:
        """Sum of a function of rows and a block of them, over the blocks in memory or all partitions in workers."""
        if self.remote is not None:
            return self.remote.sum(function)
        table = self.rows.encoded.table
        blocks = runs(table.shape[0], self.pages, table.dtype.itemsize * table.shape[1])
        return reduce(add, (function(self.rows, block) for block in blocks))


class Partitions(ABC):
    """Rows in partitions. ``resident`` ones are all in memory and in one partition.

    ``place`` is where they are, and ``no_rows`` what is said where none of them counts.
    """

    resident = False
    place = "partitions"
    no_rows = "The data have no rows to fit: all have weight 0 or missing values."

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the columns."""

    @abstractmethod
    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """The partitions in their order; ``columns`` are those that are needed, None for all."""

    def sum(self, function: Callable[[Partition], Any], columns: Sequence[str] | None = None) -> Any:
        """Sum of a function over the partitions, in their order, or None if there are none."""
        total = None
        for part in self.parts(columns):
            with part.error_context():
                total = add_optional(total, function(part))
            self.check_memory(total)
        return total

    def check_memory(self, total: Any) -> None:
        """Reject formulas whose whole columns, of which splines and some transforms are learned, are too large."""
        if (summary := getattr(total, "formula", None)) is not None:
            summary.check_size(self.memory_advice)

    def memory_advice(self, n_bytes: int) -> str | None:
        """What to do where whole columns take this many bytes, or more; None where they fit in memory."""
        return None

    def encode(self, encoder: Encoder) -> EncodedData:
        """The encoded rows of all partitions, in memory."""
        rows, columns = [], []
        for part in self.parts(encoder.reader.columns):
            with part.error_context():
                encoded = encoder(part)
                if encoded is not None:
                    rows.append(encoded)
                    columns.append(encoder.columns(encoded))
        joined = LabelledData.concatenated(rows)
        return EncodedData(encoder, joined.sorted_by_level() if encoder.in_order else joined, reduce(add, columns))

    def read(self, reader: Reader) -> EncodedData:
        """Learn from all rows how they are encoded, and encode them."""
        return self.encode(self.learn(reader))

    def learn(self, reader: Reader) -> Encoder:
        """What the reader learns from all rows."""
        return reader.learn(self.sum(reader.summary, reader.label_columns or reader.columns))


@final
@dataclass(frozen=True, eq=False)
class MemoryPartitions(Partitions):
    """Rows in memory: one partition, which is neither copied nor sent."""

    raw: Any
    resident = True
    place = "memory"

    @property
    def names(self) -> list[str]:
        """Names of the columns of a frame."""
        return frames.names_of(self.raw)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """All rows."""
        yield Partition(self.raw)
