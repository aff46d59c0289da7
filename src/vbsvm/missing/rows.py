"""Rows with missing inputs: which they are, and how values for them become rows of any layout.

A row is c = k + L d: k has zeros for what is missing, d are the missing inputs, and L says which columns of the design
they feed. An input feeds its own column; in a formula it may feed others too, such as an interaction with a known one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array, Which
from vbsvm.base.cached import cached_property
from vbsvm.model.interfaces import Effects, Rows


@final
@dataclass(frozen=True, eq=False)
class Inputs:
    """Columns of the design, as the distribution of the missing values sees them.

    ``variables`` have that distribution, ``given`` are what it is conditional on. ``derived`` columns are products of a
    variable and something known; ``feeds`` says which variable each is a product of.
    """

    variables: NDArray[np.intp]
    given: NDArray[np.intp]
    derived: NDArray[np.intp]
    feeds: NDArray[np.intp]

    @staticmethod
    def of(variables: ArrayLike, given: ArrayLike, derived: ArrayLike = (), feeds: ArrayLike = ()) -> "Inputs":
        """Make it from lists of numbers."""
        return Inputs(*(np.asarray(columns, dtype=np.intp) for columns in (variables, given, derived, feeds)))

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Columns that missing values feed: the variables, then the derived ones."""
        return np.concatenate([self.variables, self.derived])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each derived column, and the variable's column that it is a product of."""
        return list(zip(self.derived.tolist(), self.variables[self.feeds].tolist(), strict=True))

    def regressors(self, design: Array, beside: Array) -> Array:
        """x̃ = [1; what is given; what is known beside the design]."""
        return np.column_stack([np.ones(len(design)), design[:, self.given], beside])


@final
@dataclass(frozen=True, eq=False)
class PatternGroup:
    """Rows that miss the same number k of variables, and their patterns (patterns × k numbers of variables)."""

    rows: NDArray[np.intp]
    patterns: NDArray[np.intp]
    pattern_of: NDArray[np.intp]

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and variables of the missing values, rows × k."""
        return self.rows[:, None], self.patterns[self.pattern_of]


def pattern_keys(missing: NDArray[np.bool_]) -> NDArray[np.void]:
    """One value for each row, equal where patterns are."""
    keys = np.ascontiguousarray(np.packbits(missing, axis=1))
    return keys.view(np.dtype((np.void, keys.shape[1])))[:, 0]


def pattern_groups(missing: NDArray[np.bool_]) -> tuple[PatternGroup, ...]:
    """Sort rows by the number of variables that they miss, and number the patterns."""
    counts, groups = missing.sum(axis=1), []
    for k in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == k)
        _, first, pattern_of = np.unique(pattern_keys(missing[rows]), return_index=True, return_inverse=True)
        patterns = np.nonzero(missing[rows[first]])[1].reshape(-1, k)
        groups.append(PatternGroup(rows, patterns, pattern_of))
    return tuple(groups)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowMaker:
    """What rows of a block have beside their design: the block's number, labels and weights.

    ``make`` gives rows of the layout with any design; the second argument says which of the rows they are.
    """

    index: int
    signs: Array
    weights: Array
    make: Callable[[Array, Which], Rows]


@final
@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows of a block that miss inputs: the design with zeros for missing values, and a maker of the layout's rows.

    ``multipliers`` (rows × derived) is how much a unit of its variable adds to each derived column. ``shift`` is added
    to every missing value of a variable before it enters the score, and not known to the distribution of the inputs.
    ``beside`` (rows × regressors) is what that is conditional on beside columns of the design: labels. ``adapt`` says
    whether missing values adapt to what the coefficients make of the labels.
    """

    maker: RowMaker
    design: Array
    groups: tuple[PatternGroup, ...]
    inputs: Inputs
    multipliers: Array
    shift: Array
    beside: Array
    adapt: bool

    @staticmethod
    def of(
        maker: RowMaker,
        design: Array,
        inputs: Inputs,
        multipliers: Array,
        groups: tuple[PatternGroup, ...] | None = None,
        shift: Array | None = None,
        beside: Array | None = None,
        adapt: bool = True,
    ) -> "IncompleteRows":
        """Take a design with NaN for missing values, which is written into.

        ``multipliers`` (rows × derived × 2) say what each derived column is where its input is 0, and how much a unit
        of the input adds.
        """
        missing = np.isnan(design[:, inputs.variables])
        for j, (column, variable) in enumerate(zip(inputs.derived, inputs.feeds, strict=True)):
            here = missing[:, variable]
            design[here, column] = multipliers[here, j, 0]
        design[:, inputs.variables] = np.where(missing, 0.0, design[:, inputs.variables])
        slopes = np.where(missing[:, inputs.feeds], multipliers[:, :, 1], 0.0)
        groups = pattern_groups(missing) if groups is None else groups
        shift = np.zeros(len(inputs.variables)) if shift is None else shift
        beside = np.empty((len(design), 0)) if beside is None else beside
        return IncompleteRows(maker, design, groups, inputs, slopes, shift, beside, adapt)

    def weighted(self, weights: Array) -> "IncompleteRows":
        """The same rows with other weights."""
        return replace(self, maker=replace(self.maker, weights=weights))

    @property
    def index(self) -> int:
        """Number of the block."""
        return self.maker.index

    @property
    def signs(self) -> Array:
        """Labels ±1."""
        return self.maker.signs

    @property
    def weights(self) -> Array:
        """Weights of the rows."""
        return self.maker.weights

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which variables are missing, rows × variables."""
        found = np.zeros((len(self.design), len(self.inputs.variables)), dtype=bool)
        for group in self.groups:
            found[group.cells] = True
        return found

    @cached_property
    def regressors(self) -> Array:
        """x̃ of each row."""
        return self.inputs.regressors(self.design, self.beside)

    @cached_property
    def known(self) -> Array:
        """Known values of the variables, zero where missing."""
        return self.design[:, self.inputs.variables]

    def filled(self, values: Array) -> Rows:
        """Rows with these missing values (rows × variables, zero where there is none), shifted."""
        return self.maker.make(self._filled(values), slice(None))

    def leaning(self, values: Array, factors: Array, change: Array) -> Rows:
        """The filled rows times a factor each, and L times a change of the variables added."""
        design = self._filled(values)
        design *= factors[:, None]
        self._feed(design, change, slice(None))
        return self.maker.make(design, slice(None))

    def _filled(self, values: Array) -> Array:
        design = self.design.copy(order="K")
        self._feed(design, values + self.missing * self.shift, slice(None))
        return design

    def directions(self, which: Which, values: Array) -> Rows:
        """L times some vectors of the variables: rows of the layout whose gram is that of the missing values' spread.

        ``which`` are the rows whose groups and multipliers they have.
        """
        design = np.zeros((self.design.shape[1], len(values))).T
        self._feed(design, values, which)
        return self.maker.make(design, which)

    def _feed(self, design: Array, values: Array, which: Which) -> None:
        design[:, self.inputs.variables] += values
        for j, (column, variable) in enumerate(zip(self.inputs.derived, self.inputs.feeds, strict=True)):
            design[:, column] += self.multipliers[which, j] * values[:, variable]

    def through(self, effects: Effects) -> Effects:
        """Distribution of what multiplies the variables, given that of what multiplies the columns they feed."""
        n_variables = len(self.inputs.variables)
        if not len(self.inputs.derived):
            return effects
        links = np.zeros((len(self.design), len(self.inputs.columns), n_variables))
        links[:, np.arange(n_variables), np.arange(n_variables)] = 1.0
        links[:, n_variables + np.arange(len(self.inputs.derived)), self.inputs.feeds] = self.multipliers
        return effects.through(links)
