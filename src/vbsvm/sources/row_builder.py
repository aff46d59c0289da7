"""Encoded rows become rows of a layout: the one place where that is done, in fitting and in prediction."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import FactorPlan
from vbsvm.design.levels import UNSEEN
from vbsvm.design.scaling import Recipe
from vbsvm.missing.rows import IncompleteRows, Inputs, PatternGroup, pattern_groups, write_zeros
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.dual import DualRows
from vbsvm.model.layouts.grouping import Factor
from vbsvm.model.matrices import DenseMatrix


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each row, by number, and which design columns multiply the groups' effects.

    Where ``has_unseen``, the number may be ``UNSEEN``: such a row has none of the effects.
    """

    index: NDArray[np.intp]
    n_groups: int
    slopes: tuple[int, ...]
    has_unseen: bool = False

    @staticmethod
    def of(factor: FactorPlan, levels: NDArray[np.intp]) -> "Grouping":
        """The groups of rows that have these levels of a factor."""
        return Grouping(levels, len(factor.levels), factor.slopes, bool((levels == UNSEEN).any()))

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.n_groups * len(self.slopes)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the rows lie in the order of their groups, so that a block of them knows a few groups only."""
        return not (self.index[1:] < self.index[:-1]).any()

    def take(self, which: Any) -> "Grouping":
        """The same of some rows."""
        return replace(self, index=self.index[which])

    def factor(self, design: Array) -> Factor:
        """The factor in these rows of the design; z is 0 in rows of unseen groups, so that they add nothing."""
        index, z = self.index, design[:, self.slopes]
        if self.has_unseen:
            unseen = index == UNSEEN
            index, z = np.where(unseen, 0, index), z * ~unseen[:, None]
        return Factor(index, self.n_groups, z, self.slopes)

    def unseen_effects(self, design: Array) -> Array:
        """What multiplies the effects of unseen groups, and 0 in all other rows."""
        return design[:, self.slopes] * (self.index == UNSEEN)[:, None]


@final
@dataclass(frozen=True, eq=False)
class MissingInputs:
    """Which columns may miss values, what a unit of a missing one adds to columns derived from it, and its shift.

    ``multipliers`` (rows × derived) are on the scale of the raw columns. ``beside`` (rows × regressors) is what missing
    values are conditional on beside columns of the design: labels. ``adapt`` says whether they adapt to what the
    coefficients make of the labels.
    """

    inputs: Inputs
    multipliers: Array
    shift: Array
    beside: Array
    adapt: bool = True

    def take(self, which: Any) -> "MissingInputs":
        """The same of some rows."""
        return replace(self, multipliers=self.multipliers[which], beside=self.beside[which])


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """Which rows miss inputs, and the patterns of those that do."""

    incomplete: NDArray[np.bool_]
    groups: tuple[PatternGroup, ...]


@final
@dataclass(frozen=True, eq=False)
class RowBuilder:
    """A block of encoded rows, with NaN for missing inputs, and how they become rows of the layout at hand.

    The last ``n_carried`` columns of the design have no coefficients; the last of the groupings is the arrow's tail.
    """

    index: int
    design: Array
    signs: Array
    weights: Array
    recipe: Recipe
    n_carried: int = 0
    groupings: tuple[Grouping, ...] = ()
    missing_inputs: MissingInputs | None = None
    wide: bool = False

    def patterns(self) -> Patterns:
        """Find the rows that miss inputs."""
        assert self.missing_inputs is not None
        missing = np.isnan(self.design[:, self.missing_inputs.inputs.variables])
        incomplete = np.asarray(missing.any(axis=1))
        return Patterns(incomplete, pattern_groups(missing[incomplete]))

    def whole(self) -> Any:
        """All rows, taken as complete."""
        return self._rows(self.design, slice(None))

    def parts(self, patterns: Patterns) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Complete and incomplete rows where there are any, each with their places in the block."""
        if not patterns.incomplete.all():
            which = np.flatnonzero(~patterns.incomplete)
            yield which, self._rows(self._taken(which), which)
        if patterns.incomplete.any():
            which = np.flatnonzero(patterns.incomplete)
            yield which, self._incomplete(which, patterns.groups)

    def _taken(self, which: NDArray[np.intp]) -> Array:
        """A copy of some rows, column by column like the work space."""
        return self.design.T[:, which].T

    def _rows(self, design: Array, which: Any) -> Any:
        """Rows of the layout with any design, and with labels, weights and groups of these rows of the block."""
        n_fixed = self.recipe.n_columns - self.n_carried
        signs, weights = self.signs[which], self.weights[which]
        if self.wide:
            return DualRows(self.index, design[:, :n_fixed], signs, weights)
        rows = DenseRows(self.index, DenseMatrix(design[:, :n_fixed]), signs, weights)
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
            self.signs[which],
            self.weights[which],
            lambda design, part: self._rows(design, which[part]),
            design,
            groups,
            inputs,
            write_zeros(design, inputs, derived),
            missing_inputs.shift,
            missing_inputs.beside[which],
            missing_inputs.adapt,
        )
