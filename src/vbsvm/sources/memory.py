"""Rows of an array in memory or of a memory-mapped array."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, RowSelection, block_rows
from vbsvm.base.cached import cached_property
from vbsvm.design.candidates import Candidates
from vbsvm.design.scaling import Recipe, weighted_rows
from vbsvm.missing.categories import FixedLevels, LevelCounts
from vbsvm.missing.distributions import InputDistribution, InputSums, Regressors
from vbsvm.missing.row_parts import CandidatePart, IncompletePart
from vbsvm.missing.rows import IncompleteRows
from vbsvm.missing.updates import expected_sums
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.drawn import DrawnRows
from vbsvm.model.matrices import StandardisedMatrix
from vbsvm.model.row_pass import CompleteRows
from vbsvm.sources.rows import (
    EXTRA_ROW_BYTES,
    BlockSource,
    CompleteBlock,
    Grouping,
    MissingInputs,
    Pages,
    Patterns,
    RowBuilder,
    runs,
)

# Largest size of a table whose rows are replicated by their weights, in numbers: a gigabyte.
MAX_REPLICATED = 2**27


@final
@dataclass(frozen=True, eq=False)
class Memory(BlockSource):
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole.

    The last of the groupings is the arrow's tail. The last ``n_random_only`` columns of the design have random effects
    only and no fixed coefficients. A ``wide`` table has many more columns than rows: the dual layout. One with too many
    of both has a ``drawn_covariance``. ``missing_inputs`` describes columns with NaN. Where categories are missing,
    rows are ``candidates``, ``known_levels`` counts the observed levels, and ``fixed_levels`` gives the candidates'
    probabilities if these do not depend on the coefficients.
    """

    X: NDArray[np.floating]
    y: Array
    weights: Array
    recipe: Recipe
    groupings: tuple[Grouping, ...] = ()
    n_random_only: int = 0
    wide: bool = False
    missing_inputs: MissingInputs | None = None
    candidates: Candidates | None = None
    known_levels: LevelCounts | None = None
    first_block: int = 0  # number of blocks in the parts before this one
    in_parts: bool = False  # whether there are other parts
    pages: Pages | None = None  # of memory-mapped arrays that may not stay in memory
    drawn_covariance: bool = False
    fixed_levels: FixedLevels | None = None

    @cached_property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        size = self._block_rows()
        return 1 if self.wide or self.drawn_covariance else max(1, -(-len(self.X) // size))

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return sum(int(np.count_nonzero(self.weights[where])) for where in self.observation_runs())

    def observation_runs(self) -> Iterator[Any]:
        """Consecutive slices of the observations: the first candidate of each row, or all rows."""
        for where in runs(len(self.X), self.pages):
            yield where if self.candidates is None else self.candidates.first_candidates_in(where)

    @property
    def rows_resident(self) -> bool:
        """Whether passes are cheap and a few numbers per row fit in memory."""
        return self.pages is None or self.pages.can_cache(len(self.X))

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return self.recipe.n_columns

    @property
    def n_core(self) -> int:
        """Number of coefficients with a full covariance: all but the effects of the last grouping."""
        return self.recipe.n_columns - self.n_random_only + sum(grouping.size for grouping in self.groupings[:-1])

    def encoder(self) -> "Callable[[int], _Block | CompleteBlock]":
        """Return a function that encodes block k, into work space shared by its blocks."""
        n_rows, pages = len(self.X), self.pages
        if self.n_blocks == 1:
            return lambda index: self._encoder(n_rows)(0, slice(0, n_rows))
        if self.plain and pages is None and self.weights.all():  # otherwise blocks would copy rows
            return self._plain_blocks.__getitem__
        size = self._block_rows()
        encode = self._encoder(size + self._max_candidates)
        n_bytes = size * (self.X.itemsize * self.X.shape[1] + EXTRA_ROW_BYTES)

        def block_of(index: int) -> _Block | CompleteBlock:
            if pages is not None:
                pages.count_bytes(n_bytes)
            return encode(index, self._aligned(slice(index * size, min((index + 1) * size, n_rows))))

        return block_of

    @cached_property
    def plain(self) -> bool:
        """Whether several blocks without groups and missing values are standardised implicitly inside products."""
        special = self.groupings or self.n_random_only or self.wide or self.missing_inputs or self.candidates
        return not special and (self.n_blocks > 1 or self.in_parts) and not self.recipe.far.any()

    @cached_property
    def _max_candidates(self) -> int:
        if self.candidates is None:
            return 0
        largest, last = 0, 0
        for where in runs(len(self.X), self.pages):
            firsts = np.r_[last, self.candidates.first_candidates_in(where), where.stop]
            largest, last = max(largest, int(np.diff(firsts).max())), int(firsts[-2])
        return largest

    def _aligned(self, where: slice) -> slice:
        """The block, moved so that all candidates of a row are in one block."""
        if self.candidates is None:
            return where
        rows = self.candidates.row

        def first(row: int) -> int:
            while 0 < row < len(rows) and rows[row] == rows[row - 1]:
                row -= 1
            return row

        return slice(first(where.start), first(where.stop))

    def _encoder(self, size: int) -> "Callable[[int, slice], _Block | CompleteBlock]":
        """Return a function that encodes a block of rows into its own work space."""
        if self.plain or self.drawn_covariance:
            return self._plain_block
        design = self.recipe.work_space(size)

        def block_of(index: int, where: slice) -> _Block:
            raw, weights, selected = weighted_rows(self.X, self.weights, where)
            encoded = self.recipe.encode(raw, design)
            rows = RowBuilder(
                self.first_block + index,
                encoded,
                self.y[where][selected],
                weights,
                self.recipe,
                self.n_random_only,
                tuple(grouping.take(where).take(selected) for grouping in self.groupings),
                None if self.missing_inputs is None else self.missing_inputs.take(where).take(selected),
                self.wide,
            )
            candidates = None if self.candidates is None else self.candidates.take(where).take(selected)
            if candidates is not None and self.fixed_levels is not None:
                candidates = self.fixed_levels.with_log_prob(candidates, encoded, rows.y)
            return _Block(self, rows, candidates)

        return block_of

    @cached_property
    def _plain_blocks(self) -> list[CompleteBlock]:
        """The blocks of a plain table in memory."""
        size, n_rows = self._block_rows(), len(self.X)
        starts = range(0, n_rows, size)
        return [self._plain_block(k, slice(at, min(at + size, n_rows))) for k, at in enumerate(starts)]

    def _plain_block(self, index: int, where: slice) -> CompleteBlock:
        """Rows that are standardised implicitly: views of X where all weights are positive."""
        raw, weights, selected = weighted_rows(self.X, self.weights, where)
        matrix = StandardisedMatrix(raw, self.recipe.centre, self.recipe.scale, self.recipe.intercept)
        layout = DrawnRows if self.drawn_covariance else DenseRows
        return CompleteBlock(layout(self.first_block + index, matrix, self.y[where][selected], weights), matrix)

    @cached_property
    def patterns(self) -> dict[int, Patterns]:
        """Missing-data patterns by block, filled in during the first pass."""
        return {}

    def _block_rows(self) -> int:
        """Number of rows per block; larger with groups, so that adding the sums of blocks is cheap."""
        n_columns = self.recipe.n_columns
        if not self.groupings:
            return block_rows(n_columns)
        *others, tail = self.groupings
        n_core = n_columns + sum(grouping.size for grouping in others)
        in_block = 0 if tail.is_sorted else tail.size
        return max(block_rows(n_columns), n_core * (n_core + in_block) // n_columns)

    def sample(self, n_rows: int) -> "Memory | None":
        """Stratified sample of n rows with weights that add up to those of all rows, or None."""
        if self.pages is not None or self.in_parts or not self.plain:
            return None
        shift = np.random.default_rng(0).random(n_rows)  # random, as the order of the rows may be periodic
        row_index = ((np.arange(n_rows) + shift) * (len(self.X) / n_rows)).astype(np.intp)
        sample = self.take(row_index)
        total = sample.weights.sum()
        return replace(sample, weights=sample.weights * (self.weights.sum() / total)) if total > 0 else None

    def take(self, which: RowSelection) -> "Memory":
        """Some of the rows, or copies of them."""
        return replace(
            self,
            X=self.X[which],
            y=self.y[which],
            weights=self.weights[which],
            groupings=tuple(grouping.take(which) for grouping in self.groupings),
            missing_inputs=None if self.missing_inputs is None else self.missing_inputs.take(which),
            candidates=None if self.candidates is None else self.candidates.take(which),
        )

    def replicated(self) -> "Memory":
        """Replicate each row by its weight, which must be a whole number."""
        whole = self.weights == np.floor(self.weights)
        if not whole.all():
            raise ValueError(
                f"Gibbs: a row has the weight {self.weights[np.argmin(whole)]:g}. With missing values Gibbs supports "
                "integer weights only: leave class_weight and other weights out, or use Variational()."
            )
        total, max_rows = float(self.weights.sum()), MAX_REPLICATED // (4 + self.recipe.n_columns)
        if total > max(max_rows, len(self.X)):
            raise ValueError(
                f"Gibbs: the weights add up to {total:.3g} rows. With missing values Gibbs repeats rows by weight, "
                f"up to {max_rows} rows with this number of columns: use smaller weights, or Variational()."
            )
        counts = self.weights.astype(np.intp)
        if (counts == 1).all():
            return self
        row_index = np.repeat(np.arange(len(counts)), counts)
        row = None
        if self.candidates is not None:  # each copy of a row has candidates of its own, side by side
            copy = np.concatenate([np.arange(count) for count in counts])
            order = np.lexsort((row_index, copy, self.candidates.row[row_index]))
            row_index, copy = row_index[order], copy[order]
            pairs = np.stack([self.candidates.row[row_index], copy], axis=1)
            _, row = np.unique(pairs, axis=0, return_inverse=True)
        copies = replace(self.take(row_index), weights=np.broadcast_to(1.0, len(row_index)))
        return copies if copies.candidates is None else replace(copies, candidates=replace(copies.candidates, row=row))


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """A block of encoded rows, as complete rows and rows with missing values."""

    source: Memory
    rows: RowBuilder
    candidates: Candidates | None

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """Sum the kernel over complete rows and rows with missing values."""
        return reduce(add, map(kernel, self._parts))

    @cached_property
    def _parts(self) -> list[Any]:
        whole = self.rows.missing_inputs is None
        parts: list[Any] = []
        for which, rows in [(None, self.rows.all_rows())] if whole else self.rows.parts(self._patterns):
            part = IncompletePart(rows, which) if isinstance(rows, IncompleteRows) else CompleteRows(rows, which)
            candidates = self.candidates if which is None or self.candidates is None else self.candidates.take(which)
            parts.append(part if candidates is None else CandidatePart(part, candidates))
        return parts

    @property
    def _patterns(self) -> Patterns:
        """The block's incomplete rows and their missing-data patterns."""
        if self.source.pages is not None:
            return self.rows.patterns()
        cached = self.source.patterns
        if self.rows.index not in cached:
            cached[self.rows.index] = self.rows.patterns()
        return cached[self.rows.index]

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ, with an intercept added if the design has none."""
        design = self.rows.design
        x = design if self.source.recipe.intercept else np.column_stack([np.ones(len(design)), design])
        return x.T @ (self._prior_weights[:, None] * x)

    @property
    def _prior_weights(self) -> Array:
        """Weights of the rows, divided among candidates by their fixed probabilities."""
        weights = self.rows.weights
        return weights if self.candidates is None else weights * self.candidates.prior_probabilities

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Σ s x̃E[d]ᵀ and Σ s E[ddᵀ] over the incomplete rows."""
        for part in self._parts:
            if isinstance(part.rows, IncompleteRows):
                return expected_sums(part.rows, self._prior_weights[self._patterns.incomplete], distribution)
        shape = distribution.coefficients.shape
        return InputSums(np.zeros(shape), np.zeros((shape[1], shape[1])))

    def constant_sums(self) -> InputSums:
        """Σ s x̃x̃ᵀ over all rows; Σ s x̃dᵀ and Σ s ddᵀ over the complete ones."""
        assert self.rows.missing_inputs is not None
        inputs, design, weights = self.rows.missing_inputs.inputs, self.rows.design, self._prior_weights
        x, complete = inputs.regressors(design, self.rows.missing_inputs.auxiliary), ~self._patterns.incomplete
        d, s = design[complete][:, inputs.variables], weights[complete, None]
        gram = x.T @ (weights[:, None] * x)
        return InputSums(x[complete].T @ (s * d), d.T @ (s * d), float(weights.sum()), Regressors(gram))
