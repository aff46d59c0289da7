"""Columns and grouping factors of a design, for fitting and prediction alike; summaries of labels, and levels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import Candidates
from vbsvm.design.scaling import Recipe
from vbsvm.design.values import NUMBER, TRUTH, beyond_64_bits, kind_of, shown

if TYPE_CHECKING:
    import pandas as pd

UNSEEN = -1


def group_labels(
    labels: NDArray[Any], column: str | int, rows: "Sequence[int] | pd.Index | None" = None
) -> NDArray[Any]:
    """Check labels of groups (text, numbers or dates of one kind); errors name the row.

    ``rows`` numbers the labels in errors; 0, 1, … by default.
    """
    rows = range(len(labels)) if rows is None else rows
    if labels.dtype.kind in "biuUM" or (labels.dtype.kind == "f" and np.isfinite(labels).all()):
        return labels
    known = [isinstance(label, str) or _is_number(label) for label in labels]
    if not all(known):
        row = known.index(False)
        raise ValueError(
            f"Column {column!r} contains {shown(labels[row])} in row {rows[row]}: make its groups text or numbers."
        )
    text = [isinstance(label, str) for label in labels]
    if any(text) and not all(text):
        one, other = rows[0], rows[text.index(not text[0])]
        raise ValueError(
            f"Column {column!r} mixes text and numbers (rows {one} and {other}): make its groups one kind."
        )
    return labels.astype(np.float64 if Decimal in set(map(type, labels)) else object)


def _is_number(label: Any) -> bool:
    """Whether a label is a finite number of up to 64 bits."""
    if kind_of(type(label)) not in (NUMBER, TRUTH):
        return False
    return not beyond_64_bits(label) if isinstance(label, int) else math.isfinite(label)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Sorted labels of each column of a factor, and the combinations that occurred."""

    parts: tuple[NDArray[Any], ...]
    seen: NDArray[np.intp]

    @staticmethod
    def learn(columns: Sequence[NDArray[Any]]) -> tuple["Levels", NDArray[np.intp]]:
        """The levels that occur, and the level number of each row."""
        pairs = [np.unique(labels, return_inverse=True) for labels in columns]
        parts = tuple(values for values, _ in pairs)
        seen, row_levels = np.unique(_combine(parts, [codes for _, codes in pairs]), return_inverse=True)
        return Levels(parts, seen), row_levels

    @staticmethod
    def from_labels(labels: NDArray[Any]) -> "Levels":
        """The levels of a one-column factor, from its sorted labels."""
        return Levels((labels,), np.arange(len(labels)))

    def __len__(self) -> int:
        """Number of levels."""
        return len(self.seen)

    @property
    def columns(self) -> list[NDArray[Any]]:
        """Labels of the levels in each column."""
        codes = np.unravel_index(self.seen, [len(values) for values in self.parts])
        return [values[of_column] for values, of_column in zip(self.parts, codes, strict=True)]

    @property
    def labels(self) -> list[Any]:
        """Label of each level; tuples if the factor has several columns."""
        return list(self.columns[0] if len(self.parts) == 1 else zip(*self.columns, strict=True))

    def check_kinds(self, columns: Sequence[NDArray[Any]], names: Sequence[str]) -> None:
        """Raise if labels are of another kind than in fit."""
        for values, labels, name in zip(self.parts, columns, names, strict=True):
            if len(labels) and kind_of_labels(values) != kind_of_labels(labels):
                raise ValueError(
                    f"The labels in column {name!r} were {kind_of_labels(values)} in fit, and {shown(labels[0])} (row "
                    "0) is not: give them as they were."
                )

    def encode(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """Level number of each row, or ``UNSEEN``."""
        coded = [_places(values, labels) for values, labels in zip(self.parts, columns, strict=True)]
        known = np.all([codes != UNSEEN for codes in coded], axis=0)
        level_numbers = _places(self.seen, _combine(self.parts, [np.maximum(codes, 0) for codes in coded]))
        return np.where(known, level_numbers, UNSEEN)


def _combine(parts: Sequence[NDArray[Any]], codes: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    return np.ravel_multi_index(tuple(codes), [len(values) for values in parts])


def kind_of_labels(labels: NDArray[Any]) -> str:
    """Kind of the labels: text, numbers or dates."""
    if labels.dtype.kind == "M":
        return "dates"
    return "text" if len(labels) and isinstance(labels[0], str) else "numbers"


def _check_one_kind(labels: NDArray[Any], other: NDArray[Any], what: str) -> None:
    """Raise if labels of two sets of rows differ in kind."""
    kind, other_kind = kind_of_labels(labels), kind_of_labels(other)
    if len(labels) and len(other) and kind != other_kind:
        raise ValueError(f"Some {what} are {kind} ({labels[0]!r}), and others {other_kind} ({other[0]!r}).")


def _places(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Position of each label among the sorted values, or ``UNSEEN``."""
    places = np.minimum(np.searchsorted(values, labels), len(values) - 1)
    return np.where(values[places] == labels, places, UNSEEN)


# An outcome of more different values is a measurement or an identifier; all of them would be held in memory.
MAX_CLASSES = 10_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class LabelSummary:
    """Sorted labels over rows of positive weight, with total weights and row counts."""

    labels: NDArray[Any]
    totals: Array
    counts: NDArray[np.intp]

    @staticmethod
    def from_rows(labels: NDArray[Any], weights: Array) -> "LabelSummary":
        """Summarise rows; those of weight 0 are ignored."""
        positive = slice(None) if weights.all() else weights > 0
        unique, codes = np.unique(labels[positive], return_inverse=True)
        totals = np.bincount(codes, weights[positive], minlength=len(unique)).astype(np.float64)
        return LabelSummary(unique, totals, np.bincount(codes, minlength=len(unique)))

    def __add__(self, other: Self) -> "LabelSummary":
        """Pool two sets of rows; labels of different kinds raise."""
        if not len(self.labels) or not len(other.labels):
            return self if len(self.labels) else other
        _check_one_kind(self.labels, other.labels, "labels")
        labels, codes = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        totals = np.bincount(codes, np.concatenate([self.totals, other.totals])).astype(np.float64)
        counts = np.bincount(codes, np.concatenate([self.counts, other.counts])).astype(np.intp)
        return LabelSummary(labels, totals, counts)

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return int(self.counts.sum())

    def check_few(self, what: str) -> None:
        """Raise if there are too many labels for classes; ``what`` names the column."""
        if len(self.labels) > MAX_CLASSES:
            raise ValueError(
                f"{what} contains more than {MAX_CLASSES} different values, such as {self.labels[0]!r} and "
                f"{self.labels[-1]!r}: classes are needed."
            )


@final
@dataclass(frozen=True, slots=True, eq=False)
class LevelSummary:
    """Combinations of labels in a factor's columns, in the order of its levels, with row counts."""

    columns: tuple[NDArray[Any], ...]
    counts: NDArray[np.intp]

    @staticmethod
    def from_rows(columns: Sequence[NDArray[Any]]) -> "LevelSummary":
        """Summarise rows."""
        return _counted(columns, np.ones(len(columns[0]), dtype=np.intp))

    def __add__(self, other: Self) -> "LevelSummary":
        """Pool two sets of rows."""
        for labels, other_labels in zip(self.columns, other.columns, strict=True):
            _check_one_kind(labels, other_labels, "groups")
        columns = [np.concatenate(both) for both in zip(self.columns, other.columns, strict=True)]
        return _counted(columns, np.concatenate([self.counts, other.counts]))


def _counted(columns: Sequence[NDArray[Any]], counts: NDArray[np.intp]) -> LevelSummary:
    """Unique combinations with total counts, in the order of the levels."""
    levels, numbers = Levels.learn(columns)
    return LevelSummary(tuple(levels.columns), np.bincount(numbers, counts).astype(np.intp))


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
        """Convert coefficients (last axis: all of the design in, the shown columns' out) to the user's scale."""
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

    Where the table holds NaN, ``multipliers`` (rows × links) say what a unit of a missing predictor adds to other
    columns. Where categories are missing, the table's rows are ``candidates``.
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
