"""Columns and grouping factors of a design, for fitting and prediction alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import Candidates
from vbsvm.design.levels import UNSEEN, Levels
from vbsvm.design.scaling import Recipe

INTERCEPT = "(intercept)"


@final
@dataclass(frozen=True, slots=True, eq=False)
class FactorPlan:
    """A grouping factor: its columns, its levels, and the design columns that its effects multiply."""

    columns: tuple[str, ...]
    levels: Levels
    effects: tuple[str, ...]
    slopes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its column names joined."""
        return ":".join(self.columns)

    @property
    def size(self) -> int:
        """Number of effects over all levels."""
        return len(self.levels) * len(self.slopes)

    def encode(self, labels: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """Level number of each row, or ``UNSEEN``, from the labels in the factor's columns."""
        self.levels.check_kinds(labels, self.columns)
        return self.levels.encode(labels)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a table and the levels of its rows become a design.

    The design's columns are the intercept (if the recipe has one) and the table's columns, named here. The first
    ``n_shown`` of these are the fixed effects that users see, then come the splines' columns, and the last
    ``n_carried`` have no coefficients: only factors multiply them. The last of the factors is the arrow's tail.
    """

    recipe: Recipe
    names: tuple[str, ...]
    n_shown: int
    factors: tuple[FactorPlan, ...] = ()
    n_carried: int = 0

    @property
    def n_fixed(self) -> int:
        """Number of design columns with fixed coefficients."""
        return self.recipe.n_columns - self.n_carried

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Names of the columns that users see."""
        return self.names[: self.n_shown]

    def name_of(self, column: int) -> str:
        """Name of a design column other than the intercept."""
        return self.names[column - self.recipe.first]

    def shown(self, of_design: NDArray[Any]) -> NDArray[Any]:
        """Select the users' columns from numbers by design column along the last axis."""
        return of_design[..., self.recipe.first : self.recipe.first + self.n_shown]

    def to_user_scale(self, coefficients: Array) -> Array:
        """Convert coefficients (means, sds, quantiles or draws) to the user's scale.

        The last axis has all coefficients of the design in, and those of the shown columns out.
        """
        return self.shown(coefficients) / self.recipe.scale[: self.n_shown]

    def covariance_to_user_scale(self, covariance: Array) -> Array:
        """Convert a covariance matrix to the user's scale."""
        return self.to_user_scale(self.to_user_scale(covariance).T).T

    @property
    def intercept_row(self) -> Array:
        """The vector t such that tᵀθ is the intercept on the user's scale."""
        row = np.zeros(self.n_fixed)
        row[: self.recipe.first] = 1.0
        self.shown(row)[:] = (-self.recipe.centre / self.recipe.scale)[: self.n_shown]
        return row

    def intercepts(self, draws: Array) -> Array:
        """Intercept on the user's scale of each draw of the coefficients."""
        return draws[..., 0] - self.shown(draws) @ (self.recipe.centre / self.recipe.scale)[: self.n_shown]

    def units(self, factor: FactorPlan) -> list[float]:
        """Factors that convert a grouping factor's effects to the user's scale."""
        columns = [slope - self.recipe.first for slope in factor.slopes]
        return [1.0 if column < 0 else 1.0 / float(self.recipe.scale[column]) for column in columns]

    def first_effects(self) -> list[int]:
        """Index of each factor's first effect among the coefficients."""
        sizes = [factor.size for factor in self.factors]
        return [self.n_fixed + sum(sizes[:k]) for k in range(len(sizes))]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A numeric table, and the level of each row in each factor (``UNSEEN`` for new levels).

    Where the table holds NaN, ``multipliers`` (rows × links) say what a unit of a missing input adds to other columns.
    Where categories are missing, the table's rows are ``candidates``.
    """

    table: NDArray[np.floating]
    levels: tuple[NDArray[np.intp], ...] = ()
    multipliers: Array | None = None
    candidates: Candidates | None = None

    def take(self, which: NDArray[np.intp]) -> "Encoded":
        """Select or reorder rows; the table is stored by column."""
        return Encoded(
            self.table.T[:, which].T,
            tuple(levels[which] for levels in self.levels),
            None if self.multipliers is None else self.multipliers[which],
            None if self.candidates is None else self.candidates.take(which),
        )

    def first_unseen(self) -> tuple[int, int] | None:
        """Factor and row of the first unseen level, or None."""
        for factor, levels in enumerate(self.levels):
            rows = np.flatnonzero(levels == UNSEEN)
            if len(rows):
                return factor, int(rows[0] if self.candidates is None else self.candidates.row[rows[0]])
        return None
