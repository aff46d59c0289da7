"""Rows of an array in memory, or of a memory-mapped one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import block_rows
from vbsvm.design.scaling import Recipe, weighted_rows
from vbsvm.missing.candidates import LevelCounts, Options
from vbsvm.missing.input_distributions import InputSums, Regressors
from vbsvm.missing.row_updates import CandidatePart, IncompletePart
from vbsvm.missing.rows import IncompleteRows, Inputs, PatternGroup, pattern_groups
from vbsvm.model.layouts.arrow import ArrowRows
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.dual import DualRows
from vbsvm.model.layouts.grouping import Factor
from vbsvm.model.matrices import DenseMatrix
from vbsvm.model.row_pass import CompleteRows
from vbsvm.sources.block_source import BlockSource

# Numbers that rows may take when they are written out as often as their weights say: a gigabyte.
MOST_REPEATED = 2**27


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each row, by number, and which design columns multiply the groups' effects."""

    index: NDArray[np.intp]
    n_groups: int
    slopes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.n_groups * len(self.slopes)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the rows lie in the order of their groups, so that a block of them knows a few groups only."""
        return not (self.index[1:] < self.index[:-1]).any()

    def factor(self, levels: NDArray[np.intp], design: Array) -> Factor:
        """The factor in rows of these levels."""
        return Factor(levels, self.n_groups, design[:, self.slopes], self.slopes)


@final
@dataclass(frozen=True, eq=False)
class MissingInputs:
    """Which columns may miss values, what a unit of a missing one adds to columns derived from it, and its shift.

    ``multipliers`` (rows × derived) are on the scale of the raw columns; ``labels`` says whether labels have a
    say in their missing values.
    """

    inputs: Inputs
    multipliers: Array
    shift: Array
    labels: bool = True


@final
@dataclass(frozen=True, eq=False)
class Memory(BlockSource):
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole.

    The last of the groupings is the arrow's tail. The last ``n_carried`` columns of the design have no coefficients of
    their own: only groups' effects multiply them. A ``wide`` table has many more columns than rows: the dual layout.
    Where the array holds NaN, ``missing_inputs`` says what is known of these columns. Where categories are missing,
    ``options`` says which rows are alternatives, and ``known_levels`` counts the levels that are known.
    """

    X: NDArray[np.floating]
    signs: Array
    weights: Array
    recipe: Recipe
    groupings: tuple[Grouping, ...] = ()
    n_carried: int = 0
    wide: bool = False
    missing_inputs: MissingInputs | None = None
    options: Options | None = None
    known_levels: LevelCounts | None = None
    first_block: int = 0  # where these are a part of the rows: how many blocks come before

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        size = self._block_rows()
        return 1 if self.wide else max(1, -(-len(self.X) // size))

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        counted = self.weights > 0
        if self.options is not None:
            return len(np.unique(self.options.origin[counted]))
        return int(np.count_nonzero(counted))

    @property
    def may_miss_inputs(self) -> bool:
        """Whether some input is missing somewhere."""
        return self.missing_inputs is not None

    @property
    def level_counts(self) -> LevelCounts | None:
        """How often each level of a category that may be missing is known."""
        return self.known_levels

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return self.recipe.n_columns

    def encoder(self) -> "Callable[[int], _Block]":
        """Give a function that encodes the block of a number, into work space that its blocks share."""
        if self.n_blocks == 1:
            return lambda index: self._only_block
        size, n_rows = self._block_rows(), len(self.X)
        block_of = self._encoder(size + self._most_options)
        return lambda index: block_of(index, self._aligned(slice(index * size, min((index + 1) * size, n_rows))))

    @cached_property
    def _most_options(self) -> int:
        return 0 if self.options is None else int(np.bincount(self.options.origin).max())

    def _aligned(self, where: slice) -> slice:
        """The block moved so that it begins and ends with an origin: alternatives stay together."""
        if self.options is None:
            return where
        origin = self.options.origin

        def first(row: int) -> int:
            while 0 < row < len(origin) and origin[row] == origin[row - 1]:
                row -= 1
            return row

        return slice(first(where.start), first(where.stop))

    @cached_property
    def _only_block(self) -> "_Block":
        """All rows of a small table: encoded once, as they need no more room than one block's work space."""
        return self._encoder(len(self.X))(0, slice(0, len(self.X)))

    def _encoder(self, size: int) -> "Callable[[int, slice], _Block]":
        """Give a function that encodes a block of rows into work space of its own."""
        design, scratch = self.recipe.work_space(size), self.recipe.work_space(size)

        def block_of(index: int, where: slice) -> _Block:
            raw, weights, kept = weighted_rows(self.X, self.weights, where)
            encoded = self.recipe.encode(raw, design)
            levels = tuple(grouping.index[where][kept] for grouping in self.groupings)
            multipliers = None if self.missing_inputs is None else self.missing_inputs.multipliers[where][kept]
            options = None if self.options is None else self.options.take(where).take(kept)
            index += self.first_block
            return _Block(self, index, encoded, self.signs[where][kept], weights, levels, scratch, multipliers, options)

        return block_of

    @cached_property
    def pattern_groups(self) -> dict[int, tuple[NDArray[np.bool_], tuple[PatternGroup, ...]]]:
        """Which rows of each block are incomplete, and their patterns; found in the first pass."""
        return {}

    def _block_rows(self) -> int:
        """Rows in a block: with groups so many that adding two blocks' sums costs little beside forming them."""
        n_columns = self.recipe.n_columns
        if not self.groupings:
            return block_rows(n_columns)
        *others, tail = self.groupings
        n_core = n_columns + sum(grouping.size for grouping in others)
        in_block = 0 if tail.is_sorted else tail.size
        return max(block_rows(n_columns), n_core * (n_core + in_block) // n_columns)

    def repeated(self) -> "Memory":
        """Every row as often as its weight says; whole numbers are needed, and not too many."""
        whole = self.weights == np.floor(self.weights)
        if not whole.all():
            row = int(np.argmin(whole))
            raise ValueError(
                f"Gibbs: the weight of row {row} is {self.weights[row]:g}. Where values are missing, a sampler takes "
                "whole numbers as weights: leave class_weight and other weights out, or take Variational()."
            )
        total, most = float(self.weights.sum()), MOST_REPEATED // (4 + self.recipe.n_columns)
        if total > max(most, len(self.X)):
            raise ValueError(
                f"Gibbs: the weights add up to {total:.3g} rows. Where values are missing, a sampler writes each row "
                f"out as often as its weight says, up to {most} rows for so many columns: take smaller weights, or "
                "Variational()."
            )
        counts = self.weights.astype(np.intp)
        if (counts == 1).all():
            return self
        which = np.repeat(np.arange(len(counts)), counts)
        options = None
        if self.options is not None:  # the copies of a row are origins of their own, alternatives side by side
            copy = np.concatenate([np.arange(count) for count in counts])
            order = np.lexsort((which, copy, self.options.origin[which]))
            which, copy = which[order], copy[order]
            pairs = np.stack([self.options.origin[which], copy], axis=1)
            _, origin = np.unique(pairs, axis=0, return_inverse=True)
            options = replace(self.options.take(which), origin=origin)
        groupings = tuple(replace(grouping, index=grouping.index[which]) for grouping in self.groupings)
        missing_inputs = (
            None
            if self.missing_inputs is None
            else replace(self.missing_inputs, multipliers=self.missing_inputs.multipliers[which])
        )
        ones = np.broadcast_to(1.0, len(which))
        return replace(
            self,
            X=self.X[which],
            signs=self.signs[which],
            weights=ones,
            groupings=groupings,
            missing_inputs=missing_inputs,
            options=options,
        )

    def thin(self, step: int) -> "Memory | None":
        """Every ``step``-th row that counts, or None where that leaves out a class or tears groups apart.

        Views of the same arrays where all rows count.
        """
        if self.groupings or self.options is not None:
            return None
        kept = slice(None, None, step) if self.weights.all() else np.flatnonzero(self.weights)[::step]
        signs = self.signs[kept]
        if signs.min() == signs.max():
            return None
        missing_inputs = (
            None
            if self.missing_inputs is None
            else replace(self.missing_inputs, multipliers=self.missing_inputs.multipliers[kept])
        )
        return Memory(
            self.X[kept],
            signs,
            self.weights[kept],
            self.recipe,
            n_carried=self.n_carried,
            missing_inputs=missing_inputs,
        )


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """A block of encoded rows, and how it becomes rows of the layout at hand."""

    source: Memory
    index: int
    design: Array
    signs: Array
    weights: Array
    levels: tuple[NDArray[np.intp], ...]
    scratch: Array
    multipliers: Array | None
    options: Options | None

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """Sum the kernel over complete rows and rows with missing values."""
        first, *others = (kernel(part) for part in self._parts)
        return first + others[0] if others else first

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        if self.source.missing_inputs is None:
            rows = self._rows(self.design, slice(None), self.scratch)
            return (self._optional(CompleteRows(rows), slice(None)),)
        incomplete, groups = self._incomplete
        parts: list[Any] = []
        if not incomplete.all():
            which = np.flatnonzero(~incomplete)
            parts.append(self._optional(CompleteRows(self._make(self.design.T[:, which].T, which)), which))
        if incomplete.any():
            which = np.flatnonzero(incomplete)
            rows = self._incomplete_rows(self.source.missing_inputs, which, groups)
            parts.append(self._optional(IncompletePart(rows), which))
        return tuple(parts)

    def _optional(self, part: Any, which: Any) -> Any:
        return part if self.options is None else CandidatePart(part, self.options.take(which))

    @property
    def _incomplete(self) -> tuple[NDArray[np.bool_], tuple[PatternGroup, ...]]:
        """Which rows miss values, and their patterns."""
        assert self.source.missing_inputs is not None
        known = self.source.pattern_groups
        if self.index not in known:
            missing = np.isnan(self.design[:, self.source.missing_inputs.inputs.variables])
            incomplete = np.asarray(missing.any(axis=1))
            known[self.index] = incomplete, pattern_groups(missing[incomplete])
        return known[self.index]

    def _make(self, design: Array, which: Any) -> Any:
        return self._rows(design, which, self.source.recipe.work_space(len(design)))

    def _rows(self, design: Array, which: Any, scratch: Array) -> Any:
        """Rows of the layout with any design, and with the groups of these rows of the block."""
        source, n_fixed = self.source, self.source.recipe.n_columns - self.source.n_carried
        signs, weights = self.signs[which], self.weights[which]
        if source.wide:
            return DualRows(self.index, design[:, :n_fixed], signs, weights)
        matrix = DenseMatrix(design[:, :n_fixed], scratch[: len(design), :n_fixed])
        rows = DenseRows(self.index, matrix, signs, weights)
        if not self.levels:
            return rows
        groupings = zip(source.groupings, self.levels, strict=True)
        *factors, tail = (grouping.factor(levels[which], design) for grouping, levels in groupings)
        return ArrowRows(rows, tuple(factors), tail)

    def _incomplete_rows(
        self, missing_inputs: MissingInputs, which: NDArray[np.intp], groups: tuple[PatternGroup, ...]
    ) -> IncompleteRows:
        assert self.multipliers is not None
        inputs = missing_inputs.inputs
        derived = self.source.recipe.derived(self.multipliers[which], inputs.derived, inputs.variables[inputs.feeds])
        return IncompleteRows.of(
            self.index,
            self.design.T[:, which].T,
            self.signs[which],
            self.weights[which],
            inputs,
            derived,
            lambda design, part: self._make(design, which[part]),
            groups,
            missing_inputs.shift,
            missing_inputs.labels,
        )

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ, the design's own intercept left out."""
        x = np.column_stack([np.ones(len(self.design)), self.design[:, self.source.recipe.first :]])
        shares = 1.0 if self.options is None else self.options.softmax(np.zeros(len(x)))
        return x.T @ ((shares * self.weights)[:, None] * x)

    def known_sums(self) -> InputSums:
        """Σ s x̃x̃ᵀ over all rows; Σ s x̃dᵀ and Σ s ddᵀ over the complete ones."""
        assert self.source.missing_inputs is not None
        inputs, (incomplete, _) = self.source.missing_inputs.inputs, self._incomplete
        x, complete, weights = inputs.regressors(self.design), ~incomplete, self.weights
        if self.options is not None:  # alternatives have these columns in common
            weights = weights * self.options.softmax(np.zeros(len(weights)))
        d, s = self.design[complete][:, inputs.variables], weights[complete, None]
        gram = x.T @ (weights[:, None] * x)
        return InputSums(x[complete].T @ (s * d), d.T @ (s * d), float(weights.sum()), Regressors(gram))
