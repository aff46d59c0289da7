"""Rows of a source: built from encoded rows, for fitting and prediction; and sums over numbered blocks of them."""

import mmap
import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas, sum_over_blocks
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import UNSEEN, FactorPlan
from vbsvm.design.scaling import Recipe
from vbsvm.missing.categories import LevelCounts
from vbsvm.missing.distributions import InputDistribution, InputSums
from vbsvm.missing.model import MissingSums
from vbsvm.missing.rows import IncompleteRows, Inputs, PatternGroup, pattern_groups, write_zeros
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.drawn import DrawnRows
from vbsvm.model.layouts.dual import DualRows
from vbsvm.model.layouts.grouping import Factor
from vbsvm.model.matrices import DenseMatrix, SparseMatrix, StandardisedMatrix
from vbsvm.model.row_pass import CompleteRows, RowPass, Stats, add_optional


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """Group index of each row, and the design columns that the random effects multiply.

    With ``has_unseen``, the index may be ``UNSEEN``: such a row has no random effects.
    """

    index: NDArray[np.intp]
    n_groups: int
    slopes: tuple[int, ...]
    has_unseen: bool = False

    @staticmethod
    def from_levels(factor: FactorPlan, levels: NDArray[np.intp]) -> "Grouping":
        """Build it from a factor and the level of each row."""
        return Grouping(levels, len(factor.levels), factor.slopes, bool((levels == UNSEEN).any()))

    @property
    def size(self) -> int:
        """Number of random effects."""
        return self.n_groups * len(self.slopes)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether rows are sorted by group, so that a block contains few groups."""
        return not (self.index[1:] < self.index[:-1]).any()

    def take(self, which: Any) -> "Grouping":
        """The same of some rows."""
        return replace(self, index=self.index[which])

    def factor(self, design: Array) -> Factor:
        """The factor for these design rows; z is 0 for unseen groups."""
        index, z = self.index, design[:, self.slopes]
        if self.has_unseen:
            unseen = index == UNSEEN
            index, z = np.where(unseen, 0, index), z * ~unseen[:, None]
        return Factor(index, self.n_groups, z, self.slopes)

    def unseen_effects(self, design: Array) -> Array:
        """Covariates of the effects of unseen groups; 0 in all other rows."""
        return design[:, self.slopes] * (self.index == UNSEEN)[:, None]


@final
@dataclass(frozen=True, eq=False)
class MissingInputs:
    """Columns with missing values, the change of derived columns per unit of a missing one, and its shift.

    ``multipliers`` (rows × derived) are on the scale of the raw columns. ``auxiliary`` (rows × regressors) are
    regressors of the missing values that are not in the design: labels. ``adapt``: whether the missing values are
    inferred jointly with the coefficients.
    """

    inputs: Inputs
    multipliers: Array
    shift: Array
    auxiliary: Array
    adapt: bool = True

    def take(self, which: Any) -> "MissingInputs":
        """The same of some rows."""
        return replace(self, multipliers=self.multipliers[which], auxiliary=self.auxiliary[which])


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """Mask of the incomplete rows, and their missing-data patterns."""

    incomplete: NDArray[np.bool_]
    groups: tuple[PatternGroup, ...]


@final
@dataclass(frozen=True, eq=False)
class RowBuilder:
    """A block of encoded rows, with NaN for missing predictors, and the settings of the layout that they are built for.

    The last ``n_random_only`` design columns have no fixed coefficients; the last of the groupings is the arrow's tail.
    """

    index: int
    design: Array
    y: Array
    weights: Array
    recipe: Recipe
    n_random_only: int = 0
    groupings: tuple[Grouping, ...] = ()
    missing_inputs: MissingInputs | None = None
    wide: bool = False

    def patterns(self) -> Patterns:
        """Find the incomplete rows and their missing-data patterns."""
        assert self.missing_inputs is not None
        missing = np.isnan(self.design[:, self.missing_inputs.inputs.variables])
        incomplete = np.asarray(missing.any(axis=1))
        return Patterns(incomplete, pattern_groups(missing[incomplete]))

    def all_rows(self) -> Any:
        """All rows, treated as complete."""
        return self._rows(self.design, slice(None))

    def parts(self, patterns: Patterns) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield the complete and the incomplete rows, if any, each with its row index in the block."""
        if not patterns.incomplete.all():
            which = np.flatnonzero(~patterns.incomplete)
            yield which, self._rows(self._taken(which), which)
        if patterns.incomplete.any():
            which = np.flatnonzero(patterns.incomplete)
            yield which, self._incomplete(which, patterns.groups)

    def _taken(self, which: NDArray[np.intp]) -> Array:
        """A copy of some rows in column-major order, like the work space."""
        return self.design.T[:, which].T

    def _rows(self, design: Array, which: Any) -> Any:
        """Rows of the layout with this design and the labels, weights and groups of the selected rows."""
        n_fixed = self.recipe.n_columns - self.n_random_only
        y, weights = self.y[which], self.weights[which]
        if self.wide:
            return DualRows(self.index, design[:, :n_fixed], y, weights)
        rows = DenseRows(self.index, DenseMatrix(design[:, :n_fixed]), y, weights)
        if not self.groupings:
            return rows
        *factors, tail = (grouping.take(which).factor(design) for grouping in self.groupings)
        return ArrowRows(rows, tuple(factors), tail)

    def _incomplete(self, which: NDArray[np.intp], groups: tuple[PatternGroup, ...]) -> IncompleteRows:
        assert self.missing_inputs is not None
        missing_inputs, inputs = self.missing_inputs, self.missing_inputs.inputs
        multipliers = missing_inputs.multipliers[which]
        derived = self.recipe.derived(multipliers, inputs.derived, inputs.variables[inputs.feeds])
        design = self._taken(which)
        return IncompleteRows(
            self.index,
            self.y[which],
            self.weights[which],
            lambda design, part: self._rows(design, which[part]),
            design,
            groups,
            inputs,
            write_zeros(design, inputs, derived),
            missing_inputs.shift,
            missing_inputs.auxiliary[which],
            missing_inputs.adapt,
        )


T = TypeVar("T")
# Numbers per row that the optimiser caches if rows are resident.
CACHED_PER_ROW = 12
# Rows per slice; and approximate bytes per row in addition to its predictors: label, weight, groups.
RUN = 2**17
EXTRA_ROW_BYTES = 64


@final
class Pages:
    """Memory maps of some arrays, released before they exceed a quarter of the memory limit.

    ``limit`` is what rows may take in all: pages a quarter of it, and what an optimisation keeps of each row one half.
    Unless it is ``permanent``, the ``folder`` that they are in is removed with them, once a fit has been finished.
    """

    def __init__(
        self, arrays: Sequence[NDArray[Any]], limit: int, folder: Path | None = None, *, permanent: bool = True
    ) -> None:
        self._maps = [mapped for array in arrays if (mapped := _map_of(array)) is not None]
        self.limit, self.folder, self._permanent, self._n_bytes_read = limit, folder, permanent, 0
        self.verbose: bool | None = None  # whether the optimisation shows its progress

    def finish(self) -> None:
        """Mark the fit as finished: no checkpoint will be resumed, and a temporary folder may go."""
        if not self._permanent and self.folder is not None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
            self._permanent = True

    def can_cache(self, n_rows: int) -> bool:
        """Whether the optimiser may cache a few numbers per row."""
        return n_rows * CACHED_PER_ROW <= self.max_cached

    @property
    def max_cached(self) -> int:
        """How many numbers the optimiser may cache in all."""
        return self.limit // 16

    def count_bytes(self, n_bytes: int) -> None:
        """Count bytes that are read; above a quarter of the limit release all pages, which threads may read again."""
        self._n_bytes_read += n_bytes
        if self._n_bytes_read > self.limit // 4:
            self._n_bytes_read = n_bytes
            self.release()

    def release(self) -> None:
        """Release all pages."""
        for mapped in self._maps:
            if hasattr(mapped, "madvise"):  # not on Windows, which trims a process by itself
                mapped.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[type["Pages"], tuple[list[Any], int]]:
        """Pickle without the maps: every process opens its own."""
        return Pages, ([], self.limit)


def runs(n_rows: int, pages: Pages | None, row_bytes: int = EXTRA_ROW_BYTES) -> Iterator[slice]:
    """Yield consecutive slices of the rows, and count their pages as read."""
    for begin in range(0, n_rows, RUN):
        if pages is not None:
            pages.count_bytes(RUN * row_bytes)
        yield slice(begin, min(begin + RUN, n_rows))


def _map_of(array: Any) -> mmap.mmap | None:
    """The memory map behind an array, or None."""
    while array is not None:
        if isinstance(array, np.memmap):
            return getattr(array, "_mmap", None)
        array = getattr(array, "base", None)
    return None


@final
@dataclass(frozen=True, slots=True, eq=False)
class CompleteBlock:
    """A block of complete rows, whose design is a matrix that is standardised implicitly."""

    rows: DenseRows | DualRows | DrawnRows
    matrix: SparseMatrix | StandardisedMatrix

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """Return kernel(rows)."""
        return kernel(CompleteRows(self.rows))

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ, with an intercept added if the design has none."""
        return replace(self.matrix, intercept=True).sandwich(self.rows.weights)


class BlockSource(ABC):
    """Rows in numbered blocks; sums do not depend on the thread or the time at which a block is encoded.

    With a ``drawn_covariance`` the covariance of the coefficients is estimated from random draws, for its size.
    ``missing_inputs`` describes columns with missing values, and ``known_levels`` counts the observed levels of each
    category with missing values.
    """

    drawn_covariance: bool = False
    missing_inputs: MissingInputs | None = None
    known_levels: LevelCounts | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone, without cached work space."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows of positive weight."""

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of row blocks."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of design columns."""

    @property
    def n_core(self) -> int:
        """Number of coefficients with a full covariance."""
        return self.n_columns

    @property
    def rows_resident(self) -> bool:
        """Whether passes are cheap and a few numbers per row fit in memory."""
        return True

    def sample(self, n_rows: int) -> "BlockSource | None":
        """A sample of n rows with weights that add up to those of all rows, or None."""
        return None

    @abstractmethod
    def encoder(self) -> Callable[[int], Any]:
        """Return a function that encodes block k, for use in one thread."""

    def sum_over_memories(self, function: Callable[[Any], T]) -> T:
        """Apply ``function`` to this table: the sum over all tables that hold the rows."""
        return function(self)

    def sum_stats(self, row_pass: RowPass) -> Stats:
        """Sum the statistics of all rows: the only pass over the data in a sweep."""
        stats = self._sum_blocks(lambda block: block.sum(lambda part: part.stats(row_pass)))
        if self._constant_sums is None and self.known_levels is None:
            return stats
        return replace(stats, missing=add_optional(MissingSums(self._constant_sums, self.known_levels), stats.missing))

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Sums of the predictors, with missing values at this distribution; labels are ignored."""
        assert self._constant_sums is not None
        return self._constant_sums + self._sum_blocks(lambda block: block.input_sums(distribution))

    def sum_parts(self, kernel: Callable[[Any], Any], *, memory_bound: bool = False) -> Any:
        """Sum ``kernel(part)`` over the parts of all blocks; a ``memory_bound`` one runs without threads."""
        return self._sum_blocks(lambda block: block.sum(kernel), memory_bound=memory_bound)

    def second_moments(self) -> Array:
        """Σ s [1; d][1; d]ᵀ of all predictors, without missing values."""
        return self._sum_blocks(lambda block: block.second_moments())

    @cached_property
    def _constant_sums(self) -> InputSums | None:
        """Constant sums of the predictors: Σ s x̃x̃ᵀ over all rows, the others over complete rows."""
        return self._sum_blocks(lambda block: block.constant_sums()) if self.missing_inputs is not None else None

    @cached_property
    def _single_block(self) -> Any:
        """The block of a source that has one."""
        return self.encoder()(0)

    def _sum_blocks(self, kernel: Callable[[Any], Any], *, memory_bound: bool = False) -> Any:
        if self.n_blocks == 1:  # small fits consist of such calls: no overhead
            with single_threaded_blas():
                return kernel(self._single_block)

        def of_thread() -> Callable[[int], Any]:
            block_of = self.encoder()
            return lambda index: kernel(block_of(index))

        return sum_over_blocks(self.n_blocks, self.n_columns, of_thread, memory_bound=memory_bound)
