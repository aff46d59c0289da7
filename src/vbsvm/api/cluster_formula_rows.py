"""Rows of a formula as workers of a cluster see them: those that count, encoded where they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.from_formula import counts_of
from vbsvm.api.missing_values import EncodedRows
from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded
from vbsvm.design.formula.reader import Reader
from vbsvm.design.formula.summary import FormulaSummary, Needs
from vbsvm.design.formula.syntax import FormulaParts
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.missing.categories import CategorySums
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.model.row_pass import added
from vbsvm.sources.collections import columns_of_part
from vbsvm.sources.distributed import settled
from vbsvm.sources.memory import Memory

if TYPE_CHECKING:
    import pandas as pd

# No partition has as many rows: rows of all partitions have numbers of their own.
APART = 2**32


@final
@dataclass(frozen=True, eq=False)
class KeptFrame:
    """A partition: number and frame, the rows that count (None for all), their weights, and how many were dropped."""

    number: int
    frame: "pd.DataFrame"
    rows: NDArray[np.intp] | None
    weights: Array
    n_dropped: int

    @property
    def first(self) -> int:
        """Number of the first row."""
        return self.number * APART


@contextmanager
def in_partition(number: int) -> Iterator[None]:
    """Name the partition in errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"Partition {number}: {error}") from None


def kept_frame(parts: FormulaParts, weights: str | None, missing: str, number: int, data: "pd.DataFrame") -> KeptFrame:
    """The rows of a partition that count."""
    columns = [*parts.columns, *([] if weights is None or weights in parts.columns else [weights])]
    with in_partition(number):
        data = columns_of_part(data, columns)
    if not len(data):
        return KeptFrame(number, data, None, np.empty(0), 0)
    with in_partition(number):
        counts, n_dropped = counts_of(parts, data, weights, missing, some=True)
    counts = np.ones(len(data)) if counts is None else counts
    kept = None if counts.all() else np.flatnonzero(counts)
    return KeptFrame(number, data, kept, counts if kept is None else counts[kept], n_dropped)


@final
@dataclass(frozen=True, eq=False)
class KeptSummary:
    """What is learned of the rows that count, None where there are none, and how many were dropped."""

    found: FormulaSummary | None
    n_dropped: int

    def __add__(self, other: Self) -> "KeptSummary":
        """Join two sets of rows."""
        return KeptSummary(added(self.found, other.found), self.n_dropped + other.n_dropped)


@final
@dataclass(frozen=True, eq=False)
class Summarising:
    """Summarises the rows of a partition for a formula."""

    needs: Needs

    def __call__(self, kept: KeptFrame) -> KeptSummary:
        """The summary of one."""
        if not len(kept.weights):
            return KeptSummary(None, kept.n_dropped)
        with in_partition(kept.number):
            return KeptSummary(self.needs.summary(kept.frame, kept.rows, kept.weights, kept.first), kept.n_dropped)


@final
@dataclass(frozen=True, eq=False)
class EncodedPart:
    """Rows of a partition in the order of the last factor's levels; candidates of a row share the last weights."""

    encoded: Encoded
    signs: Array
    weights: Array
    shared: Array

    def __post_init__(self) -> None:
        """Sums over the table are to have the same bits wherever it came from."""
        object.__setattr__(self, "encoded", replace(self.encoded, table=settled(self.encoded.table)))

    @property
    def rows(self) -> EncodedRows:
        """The rows, all at once."""
        everything = slice(0, len(self.weights))
        return EncodedRows(self.encoded, self.weights, lambda: [everything], self.signs)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its fields, so that what arrives elsewhere is settled as well."""
        return EncodedPart, (self.encoded, self.signs, self.weights, self.shared)

    def __sizeof__(self) -> int:
        """Bytes that would have to move."""
        return self.encoded.table.nbytes + sum(one.nbytes for one in (*self.encoded.levels, self.signs, self.weights))


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """Encodes the rows of a partition by what was learned of all; ``positive`` is a level of the outcome."""

    reader: Reader
    positive: Any
    writes_out: bool

    def __call__(self, kept: KeptFrame) -> EncodedPart | None:
        """The rows of one; None where none counts."""
        if not len(kept.weights):
            return None
        outcome = self.reader.parts.outcome
        with in_partition(kept.number):
            frame = self.reader.taken(kept.frame, kept.rows)
            encoded = self.reader.encode(frame)
            column = frames.take(kept.frame, [outcome], kept.rows)[outcome]
        signs = np.where((column == self.positive).to_numpy(dtype=bool), 1.0, -1.0)
        weights = shared = kept.weights
        if encoded.candidates is None and self.writes_out:  # nothing is missing here, but elsewhere
            levels = self.reader.categories.known_levels(frame)
            encoded = replace(encoded, candidates=Candidates(np.arange(len(levels)), levels))
        if encoded.candidates is not None:
            row, shared = encoded.candidates.row, encoded.candidates.split(weights)
            signs, weights = signs[row], weights[row]
        if encoded.levels and (encoded.levels[-1][1:] < encoded.levels[-1][:-1]).any():
            order = np.argsort(encoded.levels[-1], kind="stable")
            encoded, signs, weights, shared = encoded.take(order), signs[order], weights[order], shared[order]
        return EncodedPart(encoded, signs, weights, shared)


def columns_of(part: EncodedPart) -> ColumnSummary:
    """What is learned of the columns of encoded rows."""
    return ColumnSummary.of(part.encoded.table, part.shared)


@final
@dataclass(frozen=True, eq=False)
class PatternsOf:
    """Counts the patterns of missing inputs and categories in a partition."""

    columns: NDArray[np.intp]
    names: tuple[str, ...]
    categories: tuple[str, ...]

    def __call__(self, part: EncodedPart) -> MissingPatterns:
        """The patterns of one."""
        return part.rows.patterns(self.columns, self.names, self.categories)


@final
@dataclass(frozen=True, eq=False)
class LevelSumsOf:
    """Moments by label and level in a partition; see ``LookedAt.level_sums``."""

    recipe: Recipe
    columns: tuple[NDArray[np.intp], ...]
    sizes: tuple[int, ...]

    def __call__(self, part: EncodedPart) -> CategorySums:
        """The moments of one."""
        return part.rows.level_sums(self.recipe, self.columns, self.sizes)


@final
@dataclass(frozen=True, eq=False)
class Placing:
    """Makes a source of an encoded partition; ``links`` are the multipliers that the model's missing inputs have."""

    like: Memory
    links: NDArray[np.intp]

    def __call__(self, part: EncodedPart) -> Memory:
        """The rows of one."""
        encoded, incomplete = part.encoded, self.like.missing_inputs
        if incomplete is not None:
            multipliers = np.zeros((len(part.weights), len(self.links)))
            if encoded.multipliers is not None:
                multipliers = encoded.multipliers[:, self.links]
            beside = part.signs[:, None][:, : incomplete.beside.shape[1]]
            incomplete = replace(incomplete, multipliers=multipliers, beside=beside)
        groupings = tuple(
            replace(grouping, index=index) for grouping, index in zip(self.like.groupings, encoded.levels, strict=True)
        )
        return replace(
            self.like,
            X=encoded.table,
            signs=part.signs,
            weights=part.weights,
            groupings=groupings,
            missing_inputs=incomplete,
            candidates=encoded.candidates,
        )
