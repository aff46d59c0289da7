"""Rows on many machines: parts of the rows in the workers of a Dask cluster, which return sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Addable, Array
from vbsvm.design.candidates import Candidates
from vbsvm.design.scaling import Recipe
from vbsvm.missing.categories import LevelCounts
from vbsvm.missing.distributions import InputDistribution, InputSums
from vbsvm.model.row_pass import Part, RowPass, Stats
from vbsvm.sources.cluster import Cluster
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping, MissingInputs
from vbsvm.sources.sparse import Sparse, SparseTable

T = TypeVar("T", bound=Addable)

# Bytes of which every allocation begins at a multiple.
ALIGNMENT = 16


@final
class WorkerPart:
    """The part of the rows in one worker."""

    def __init__(self, memory: Memory) -> None:
        incomplete = memory.missing_inputs
        if incomplete is not None:
            auxiliary = aligned(incomplete.auxiliary)
            incomplete = replace(incomplete, multipliers=aligned(incomplete.multipliers), auxiliary=auxiliary)
        X, y, weights = map(aligned, (memory.X, memory.y, memory.weights))
        self.memory = replace(memory, X=X, y=y, weights=weights, missing_inputs=incomplete)

    def __sizeof__(self) -> int:
        """Size in bytes, by which the scheduler decides on transfers."""
        arrays = self.memory.X, self.memory.y, self.memory.weights
        return sum(array.nbytes for array in arrays) + sum(grouping.index.nbytes for grouping in self.memory.groupings)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without cached results."""
        return WorkerPart, (replace(self.memory),)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The array contiguous and aligned in memory: else the last bits of sums depend on which rows have travelled."""
    if (array.flags.c_contiguous or array.flags.f_contiguous) and array.ctypes.data % ALIGNMENT == 0:
        return array
    return np.array(array, order="F" if array.flags.f_contiguous else "C")


@final
@dataclass(frozen=True, eq=False)
class Distributed:
    """Rows in the workers of a cluster; ``template`` is a ``Memory`` without rows and with the common settings."""

    cluster: Cluster
    parts: tuple[Any, ...]
    template: Memory
    n_rows: int
    rows_resident: Final = False  # each pass is a network round trip
    drawn_covariance: Final = False

    @staticmethod
    def from_memories(cluster: Cluster, memories: Sequence[Any], template: Memory) -> "Distributed":
        """Number the blocks of the futures of ``Memory`` consecutively, and drop those without rows."""
        sizes = cluster.gather(cluster.map(attrgetter("n_rows", "n_blocks"), memories))
        nonempty = [k for k, (n_rows, _) in enumerate(sizes) if n_rows]
        firsts = list(accumulate((sizes[k][1] for k in nonempty[:-1]), initial=0))
        parts = cluster.map(_worker_part, [memories[k] for k in nonempty], firsts)
        return Distributed(cluster, tuple(parts), template, sum(n_rows for n_rows, _ in sizes))

    def sample(self, n_rows: int) -> None:
        """None: rows are remote."""

    @property
    def n_core(self) -> int:
        """Number of coefficients with a full covariance."""
        return self.template.n_core

    @property
    def recipe(self) -> Recipe:
        """Centring and scaling of the columns."""
        return self.template.recipe

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, without rows."""
        return self.template.groupings

    @property
    def missing_inputs(self) -> MissingInputs | None:
        """Columns with missing values, without rows."""
        return self.template.missing_inputs

    @property
    def candidates(self) -> Candidates | None:
        """Candidates without rows, or None."""
        return self.template.candidates

    def replicated(self) -> "Distributed":
        """Replicate each row by its integer weight."""
        memories = self.cluster.map(lambda part: part.memory.replicated(), self.parts)
        return Distributed.from_memories(self.cluster, memories, self.template)

    def sum_stats(self, row_pass: RowPass) -> Stats:
        """Sum the statistics of all rows: the only pass over the data in a sweep."""
        return self.sum_over_memories(methodcaller("sum_stats", row_pass))

    def sum_parts(self, kernel: Callable[[Part], T], *, memory_bound: bool = False) -> T:
        """Sum anything that adds over the parts of all blocks."""
        return self.sum_over_memories(methodcaller("sum_parts", kernel, memory_bound=memory_bound))

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Sums of the predictors, with missing values at this distribution."""
        return self.sum_over_memories(methodcaller("input_sums", distribution))

    def second_moments(self) -> Array:
        """Σ s [1; d][1; d]ᵀ of all predictors, without missing values."""
        return self.sum_over_memories(Memory.second_moments)

    def sum_over_memories(self, function: Callable[[Memory], T]) -> T:
        """Sum function(memory) over the parts, each in its worker."""
        return self.cluster.sum(lambda part: function(part.memory), self.parts)


def _worker_part(memory: Memory, first_block: int) -> WorkerPart:
    """A part with its first block number; counts of observed levels go to the first part alone."""
    counts = memory.known_levels
    if counts is not None and first_block:
        counts = LevelCounts(tuple(np.zeros_like(level_counts) for level_counts in counts.counts))
    return WorkerPart(replace(memory, first_block=first_block, in_parts=True, known_levels=counts))


InMemory = Memory | Sparse
AnyRows = Memory | Sparse | Distributed


def reweighted(source: InMemory, nonempty: Array) -> InMemory:
    """The same rows with weights multiplied by these factors."""
    weights = source.weights * nonempty
    if isinstance(source, Memory):
        return replace(source, weights=weights)
    return replace(source, weights=weights, table=SparseTable.from_rows(source.X, weights, source.recipe))
