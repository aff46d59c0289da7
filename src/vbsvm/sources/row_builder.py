"""Build rows of a layout from encoded rows, for fitting and prediction alike."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import UNSEEN, FactorPlan
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
    """Group index of each row, and the design columns that the group effects multiply.

    With ``has_unseen``, the index may be ``UNSEEN``: such a row has no group effects.
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
        """Number of group effects."""
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
    """A block of encoded rows, with NaN for missing inputs, and the settings of the layout that they are built for.

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
