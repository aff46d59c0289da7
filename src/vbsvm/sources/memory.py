"""Rows of an array in memory, or of a memory-mapped one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.row_sums import Addable, block_rows
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
from vbsvm.sources.block_source import BESIDE, BlockSource, Pages, runs
from vbsvm.sources.row_builder import Grouping, MissingInputs, Patterns, RowBuilder

T = TypeVar("T", bound=Addable)

# Numbers that rows may take when they are written out as often as their weights say: a gigabyte.
MOST_REPEATED = 2**27


@final
@dataclass(frozen=True, eq=False)
class Memory(BlockSource):
    """An array, its labels ±1 and its weights; the array is read in blocks and never copied as a whole.

    The last of the groupings is the arrow's tail. The last ``n_carried`` columns of the design have no coefficients of
    their own: only groups' effects multiply them. A ``wide`` table has many more columns than rows: the dual layout.
    One with too many of both has a ``drawn_covariance``.
    Where the array holds NaN, ``missing_inputs`` says what is known of these columns. Where categories are missing,
    rows are ``candidates``, ``known_levels`` counts the levels that are known, and ``held_levels`` gives candidates
    their probabilities where these are known before the coefficients.
    """

    X: NDArray[np.floating]
    signs: Array
    weights: Array
    recipe: Recipe
    groupings: tuple[Grouping, ...] = ()
    n_carried: int = 0
    wide: bool = False
    missing_inputs: MissingInputs | None = None
    candidates: Candidates | None = None
    known_levels: LevelCounts | None = None
    first_block: int = 0  # where these are a part of the rows: how many blocks come before
    in_parts: bool = False  # whether others follow or come before
    pages: Pages | None = None  # of arrays that are memory-mapped, where these may not stay in memory
    drawn_covariance: bool = False
    held_levels: FixedLevels | None = None

    @cached_property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        size = self._block_rows()
        return 1 if self.wide or self.drawn_covariance else max(1, -(-len(self.X) // size))

    @cached_property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return sum(int(np.count_nonzero(self.weights[where])) for where in self.row_runs())

    def runs(self) -> Iterator[slice]:
        """Runs of rows, one after another, for what is counted row by row."""
        return runs(len(self.X), self.pages)

    def row_runs(self) -> Iterator[Any]:
        """The same of rows as the user knows them: of candidates, only the first of each row."""
        for where in self.runs():
            yield where if self.candidates is None else self.candidates.firsts_in(where)

    @property
    def rows_resident(self) -> bool:
        """Whether rows may be looked at often, and a few numbers of each be kept."""
        return self.pages is None or self.pages.may_keep(len(self.X))

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

    @property
    def n_core(self) -> int:
        """Number of coefficients whose covariances are all kept: all but the effects of the last grouping."""
        return self.recipe.n_columns - self.n_carried + sum(grouping.size for grouping in self.groupings[:-1])

    def of_memories(self, function: "Callable[[Memory], T]") -> T:
        """Sum a function over the tables that rows lie in: this one."""
        return function(self)

    def encoder(self) -> "Callable[[int], _Block | _PlainBlock]":
        """Give a function that encodes the block of a number, into work space that its blocks share."""
        if self.drawn_covariance:
            return lambda index: self._drawn_block
        if self.n_blocks == 1:
            return lambda index: self._encoder(len(self.X))(0, slice(0, len(self.X)))
        if self.pages is None and self.plain and self.weights.all():
            return self._plain_blocks.__getitem__
        size, n_rows = self._block_rows(), len(self.X)
        encode = self._encoder(size + self._most_candidates)

        def block_of(index: int) -> _Block | _PlainBlock:
            return encode(index, self._aligned(slice(index * size, min((index + 1) * size, n_rows))))

        if self.pages is None:
            return block_of
        return self.pages.watched(block_of, size * (self.X.itemsize * self.X.shape[1] + BESIDE))

    @cached_property
    def plain(self) -> bool:
        """Whether rows are those of a table without groups and missing values that can be standardised by algebra.

        A table of one block is standardised once, as it needs no more room than work space does.
        """
        special = self.groupings or self.n_carried or self.wide or self.missing_inputs or self.candidates
        return not special and (self.n_blocks > 1 or self.in_parts) and self.recipe.near_zero

    @cached_property
    def _most_candidates(self) -> int:
        if self.candidates is None:
            return 0
        most, last = 0, 0
        for where in self.runs():
            firsts = np.r_[last, self.candidates.firsts_in(where), where.stop]
            most, last = max(most, int(np.diff(firsts).max())), int(firsts[-2])
        return most

    def _aligned(self, where: slice) -> slice:
        """The block moved so that it parts the candidates of no row."""
        if self.candidates is None:
            return where
        rows = self.candidates.row

        def first(row: int) -> int:
            while 0 < row < len(rows) and rows[row] == rows[row - 1]:
                row -= 1
            return row

        return slice(first(where.start), first(where.stop))

    def _encoder(self, size: int) -> "Callable[[int, slice], _Block | _PlainBlock]":
        """Give a function that encodes a block of rows into work space of its own."""
        if self.plain:
            return self._plain_block
        design = self.recipe.work_space(size)

        def block_of(index: int, where: slice) -> _Block:
            raw, weights, kept = weighted_rows(self.X, self.weights, where)
            encoded = self.recipe.encode(raw, design)
            rows = RowBuilder(
                self.first_block + index,
                encoded,
                self.signs[where][kept],
                weights,
                self.recipe,
                self.n_carried,
                tuple(grouping.take(where).take(kept) for grouping in self.groupings),
                None if self.missing_inputs is None else self.missing_inputs.take(where).take(kept),
                self.wide,
            )
            candidates = None if self.candidates is None else self.candidates.take(where).take(kept)
            if candidates is not None and self.held_levels is not None:
                candidates = self.held_levels.attached(candidates, encoded, rows.signs)
            return _Block(self, rows, candidates)

        return block_of

    @cached_property
    def _plain_blocks(self) -> "list[_PlainBlock]":
        """Blocks of rows that are standardised by algebra: views, if all rows count."""
        size, n_rows = self._block_rows(), len(self.X)
        return [
            self._plain_block(index, slice(begin, min(begin + size, n_rows)))
            for index, begin in enumerate(range(0, n_rows, size))
        ]

    def _plain_block(self, index: int, where: slice) -> "_PlainBlock":
        raw, weights, kept = weighted_rows(self.X, self.weights, where)
        matrix = StandardisedMatrix(raw, self.recipe.centre, self.recipe.scale, self.recipe.intercept)
        return _PlainBlock(DenseRows(self.first_block + index, matrix, self.signs[where][kept], weights))

    @cached_property
    def _drawn_block(self) -> "_PlainBlock":
        """All rows, standardised by algebra."""
        dense = self._plain_block(0, slice(0, len(self.X))).rows
        return _PlainBlock(DrawnRows(dense.index, dense.matrix, dense.y, dense.weights))

    @cached_property
    def patterns(self) -> dict[int, Patterns]:
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

    def sample(self, n_rows: int) -> "Memory | None":
        """So many rows, one drawn from each run of the same length, that weigh as much as all; None of other tables."""
        if self.pages is not None or self.in_parts or not self.plain:
            return None
        places = np.arange(n_rows) + np.random.default_rng(0).random(n_rows)  # drawn, as rows may come in turns
        which = (places * (len(self.X) / n_rows)).astype(np.intp)
        weights = self.weights[which]
        if not weights.any():
            return None
        weights = weights * (self.weights.sum() / weights.sum())
        return replace(self, X=self.X[which], signs=self.signs[which], weights=weights)

    def repeated(self) -> "Memory":
        """Every row as often as its weight says; whole numbers are needed, and not too many."""
        whole = self.weights == np.floor(self.weights)
        if not whole.all():
            raise ValueError(
                f"Gibbs: a row has the weight {self.weights[np.argmin(whole)]:g}. Where values are missing, a sampler "
                "takes whole numbers as weights: leave class_weight and other weights out, or take Variational()."
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
        candidates = None
        if self.candidates is not None:  # each copy of a row has candidates of its own, side by side
            copy = np.concatenate([np.arange(count) for count in counts])
            order = np.lexsort((which, copy, self.candidates.row[which]))
            which, copy = which[order], copy[order]
            pairs = np.stack([self.candidates.row[which], copy], axis=1)
            _, row = np.unique(pairs, axis=0, return_inverse=True)
            candidates = replace(self.candidates.take(which), row=row)
        return replace(
            self,
            X=self.X[which],
            signs=self.signs[which],
            weights=np.broadcast_to(1.0, len(which)),
            groupings=tuple(grouping.take(which) for grouping in self.groupings),
            missing_inputs=None if self.missing_inputs is None else self.missing_inputs.take(which),
            candidates=candidates,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _PlainBlock:
    """A block of complete rows that are standardised by algebra."""

    rows: DenseRows | DrawnRows

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """The kernel of the rows."""
        return kernel(CompleteRows(self.rows))

    def known_sums(self) -> InputSums:
        """Asked only where inputs may be missing."""
        raise NotImplementedError

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Asked only where inputs may be missing."""
        raise NotImplementedError

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ."""
        matrix = self.rows.matrix
        assert isinstance(matrix, StandardisedMatrix)
        return replace(matrix, intercept=True).sandwich(self.rows.weights)


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """A block of encoded rows, as complete rows and rows with missing values."""

    source: Memory
    rows: RowBuilder
    candidates: Candidates | None

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """Sum the kernel over complete rows and rows with missing values."""
        parts = self._parts
        return kernel(parts[0]) if len(parts) == 1 else kernel(parts[0]) + kernel(parts[1])

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        if self.source.missing_inputs is None:
            return (self._part(slice(None), self.rows.whole()),)
        return tuple(self._part(which, rows) for which, rows in self.rows.parts(self._patterns))

    def _part(self, which: Any, rows: Any) -> Any:
        """Rows as a pass sees them."""
        places = None if isinstance(which, slice) else which
        part = IncompletePart(rows, places) if isinstance(rows, IncompleteRows) else CompleteRows(rows, places)
        return part if self.candidates is None else CandidatePart(part, self.candidates.take(which))

    @property
    def _patterns(self) -> Patterns:
        """Which rows miss values, and their patterns."""
        if self.source.pages is not None:
            return self.rows.patterns()
        known = self.source.patterns
        if self.rows.index not in known:
            known[self.rows.index] = self.rows.patterns()
        return known[self.rows.index]

    def second_moments(self) -> Array:
        """Σ s [1; c][1; c]ᵀ, the design's own intercept left out."""
        shares = 1.0 if self.candidates is None else self.candidates.expected_shares
        return second_moments(self.rows.design, shares * self.rows.weights, self.source.recipe.intercept)

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Σ s x̃E[d]ᵀ and Σ s E[ddᵀ] over the rows that miss inputs."""
        for part in self._parts:
            if isinstance(part.rows, IncompleteRows):
                weights = part.rows.weights
                if isinstance(part, CandidatePart):
                    weights = weights * part.candidates.expected_shares
                return expected_sums(part.rows, weights, distribution)
        shape = distribution.coefficients.shape
        return InputSums(np.zeros(shape), np.zeros((shape[1], shape[1])))

    def known_sums(self) -> InputSums:
        """Σ s x̃x̃ᵀ over all rows; Σ s x̃dᵀ and Σ s ddᵀ over the complete ones."""
        assert self.source.missing_inputs is not None
        assert self.rows.missing_inputs is not None
        inputs, design, weights = self.source.missing_inputs.inputs, self.rows.design, self.rows.weights
        x, complete = inputs.regressors(design, self.rows.missing_inputs.beside), ~self._patterns.incomplete
        if self.candidates is not None:
            weights = weights * self.candidates.expected_shares
        d, s = design[complete][:, inputs.variables], weights[complete, None]
        gram = x.T @ (weights[:, None] * x)
        return InputSums(x[complete].T @ (s * d), d.T @ (s * d), float(weights.sum()), Regressors(gram))


def second_moments(design: Array, weights: Array, intercept: bool) -> Array:
    """Σ s [1; c][1; c]ᵀ over rows of the design, whose own intercept is left out."""
    x = design if intercept else np.column_stack([np.ones(len(design)), design])
    return x.T @ (weights[:, None] * x)
