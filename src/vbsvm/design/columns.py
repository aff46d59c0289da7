"""What the columns and factors of a design mean; shared by everything that fits and predicts."""

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
    """A grouping factor: its columns, its levels, and which design columns multiply the effects of a level."""

    columns: tuple[str, ...]
    levels: Levels
    effects: tuple[str, ...]
    slopes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Names of its columns."""
        return ":".join(self.columns)

    @property
    def size(self) -> int:
        """Number of effects of all levels."""
        return len(self.levels) * len(self.slopes)

    def encode(self, labels: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """Number of each row's level, or ``UNSEEN``, by the labels in the factor's columns."""
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
        """Design columns that have coefficients."""
        return self.recipe.n_columns - self.n_carried

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Names of the columns that users see."""
        return self.names[: self.n_shown]

    def name_of(self, column: int) -> str:
        """Name of a column of the design; the intercept is none of them."""
        return self.names[column - self.recipe.first]

    def shown(self, of_design: NDArray[Any]) -> NDArray[Any]:
        """What belongs to the columns that users see, of numbers of the design's columns along the last axis."""
        return of_design[..., self.recipe.first : self.recipe.first + self.n_shown]

    def to_user_scale(self, coefficients: Array) -> Array:
        """Coefficients of the columns that users see, on their scale: means, standard deviations, quantiles or draws.

        The last axis has all coefficients of the design in, and those of the shown columns out.
        """
        return self.shown(coefficients) / self.recipe.scale[: self.n_shown]

    def covariance_to_user_scale(self, covariance: Array) -> Array:
        """The same of a covariance matrix."""
        return self.to_user_scale(self.to_user_scale(covariance).T).T

    @property
    def intercept_row(self) -> Array:
        """The t for which tᵀθ is the intercept on the user's scale: 1, and −centre/scale of what users see."""
        row = np.zeros(self.n_fixed)
        row[: self.recipe.first] = 1.0
        self.shown(row)[:] = (-self.recipe.centre / self.recipe.scale)[: self.n_shown]
        return row

    def intercepts(self, draws: Array) -> Array:
        """The intercept on the user's scale of each draw of the design's coefficients, in a model that has one."""
        return draws[..., 0] - self.shown(draws) @ (self.recipe.centre / self.recipe.scale)[: self.n_shown]

    def units(self, factor: FactorPlan) -> list[float]:
        """What makes each effect of a factor, which is one of a design column, an effect of the user's column."""
        columns = [slope - self.recipe.first for slope in factor.slopes]
        return [1.0 if column < 0 else 1.0 / float(self.recipe.scale[column]) for column in columns]

    def first_effects(self) -> list[int]:
        """Where each factor's effects begin among the coefficients."""
        sizes = [factor.size for factor in self.factors]
        return [self.n_fixed + sum(sizes[:k]) for k in range(len(sizes))]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A table of numbers, and the level of each row in each factor (``UNSEEN`` where it was not there in fit).

    Where the table holds NaN, ``multipliers`` (rows × links) say what a unit of a missing input adds to other columns.
    Where categories are missing, the table's rows are ``candidates``.
    """

    table: NDArray[np.floating]
    levels: tuple[NDArray[np.intp], ...] = ()
    multipliers: Array | None = None
    candidates: Candidates | None = None

    def take(self, which: NDArray[np.intp]) -> "Encoded":
        """Some rows, or all in another order; the table lies column by column."""
        return Encoded(
            self.table.T[:, which].T,
            tuple(levels[which] for levels in self.levels),
            None if self.multipliers is None else self.multipliers[which],
            None if self.candidates is None else self.candidates.take(which),
        )

    def first_unseen(self) -> tuple[int, int] | None:
        """Factor and row of the first level that was not seen in fit."""
        for factor, levels in enumerate(self.levels):
            rows = np.flatnonzero(levels == UNSEEN)
            if len(rows):
                return factor, int(rows[0] if self.candidates is None else self.candidates.row[rows[0]])
        return None
