"""Rows with missing predictors: patterns, conditional normal distributions, and rows of any layout.

A row is c = k + L d: k has zeros for what is missing, d are the missing predictors, and L says which columns of the
design they feed. An input feeds its own column; in a formula it may feed others too, such as an interaction with a
known one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array, RowSelection, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.design.scaling import Recipe
from vbsvm.model.interfaces import EffectiveCoefficients, Effects, Rows


@final
@dataclass(frozen=True, eq=False)
class Inputs:
    """Design columns by their role in the distribution of the missing values.

    ``variables`` have that distribution, ``given`` are what it is conditional on. ``derived`` columns are products of a
    variable and something known; ``feeds`` says which variable each is a product of.
    """

    variables: NDArray[np.intp]
    given: NDArray[np.intp]
    derived: NDArray[np.intp]
    feeds: NDArray[np.intp]

    @staticmethod
    def from_lists(variables: ArrayLike, given: ArrayLike, derived: ArrayLike = (), feeds: ArrayLike = ()) -> "Inputs":
        """Build it from lists of column numbers."""
        return Inputs(*(np.asarray(columns, dtype=np.intp) for columns in (variables, given, derived, feeds)))

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Columns that depend on missing values: the variables, then the derived ones."""
        return np.concatenate([self.variables, self.derived])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each derived column, and the column of its variable."""
        return list(zip(self.derived.tolist(), self.variables[self.feeds].tolist(), strict=True))

    def regressors(self, design: Array, auxiliary: Array) -> Array:
        """x̃ = [1; given columns of the design; auxiliary columns]."""
        return np.column_stack([np.ones(len(design)), design[:, self.given], auxiliary])


@final
@dataclass(frozen=True, eq=False)
class PatternGroup:
    """Rows with the same number k of missing variables, and their patterns (patterns × k variable numbers)."""

    rows: NDArray[np.intp]
    patterns: NDArray[np.intp]
    pattern_of: NDArray[np.intp]

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and variable index of the missing values, rows × k."""
        return self.rows[:, None], self.patterns[self.pattern_of]

    def covariances(self, precision: Array) -> Array:
        """Covariance of the missing variables given the observed ones, patterns × k × k."""
        return inverse(precision[self.patterns[:, :, None], self.patterns[:, None, :]])


def pattern_keys(missing: NDArray[np.bool_]) -> NDArray[np.void]:
    """A hashable key for each row's missing-data pattern."""
    keys = np.ascontiguousarray(np.packbits(missing, axis=1))
    return keys.view(np.dtype((np.void, keys.shape[1])))[:, 0]


def pattern_groups(missing: NDArray[np.bool_]) -> tuple[PatternGroup, ...]:
    """Group rows by their number of missing variables, and number the patterns."""
    counts, groups = missing.sum(axis=1), []
    for k in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == k)
        _, first, pattern_of = np.unique(pattern_keys(missing[rows]), return_index=True, return_inverse=True)
        patterns = np.nonzero(missing[rows[first]])[1].reshape(-1, k)
        groups.append(PatternGroup(rows, patterns, pattern_of))
    return tuple(groups)


def means_given_known(known: Array, expected: Array, precision: Array, groups: Sequence[PatternGroup]) -> Array:
    """Conditional means of the missing variables (rows × variables), 0 where observed.

    ``known`` is zero where a variable is missing; ``expected`` are unconditional means.
    """
    values, pull = np.zeros_like(known), (expected - known) @ precision
    for group in groups:
        covariance = group.covariances(precision)[group.pattern_of]
        values[group.cells] = np.einsum("rkj,rj->rk", covariance, pull[group.cells])
    return values


def with_noise(values: Array, precision: Array, groups: Sequence[PatternGroup], rng: np.random.Generator) -> Array:
    """Add normal noise with the conditional covariance to the missing values."""
    noisy = values.copy()
    for group in groups:
        noise = rng.standard_normal(group.patterns[group.pattern_of].shape)
        root = cholesky(group.covariances(precision))[group.pattern_of]
        noisy[group.cells] += np.einsum("rkj,rj->rk", root, noise)
    return noisy


def design_rows(recipe: Recipe, raw: NDArray[np.floating]) -> Array:
    """Encode raw rows as design rows; columns without variance are 0."""
    with np.errstate(invalid="ignore"):
        design = recipe.encode(raw, recipe.work_space(len(raw)))
    design[:, recipe.first :][:, ~np.isfinite(recipe.scale)] = 0.0
    return design


def write_zeros(design: Array, inputs: Inputs, multipliers: Array) -> Array:
    """Replace NaN by zeros in the design; return the derived columns' change per unit of a missing value.

    ``multipliers`` (rows × derived × 2) are intercept and slope of each derived column in its variable.
    """
    missing = np.isnan(design[:, inputs.variables])
    for j, (column, variable) in enumerate(zip(inputs.derived, inputs.feeds, strict=True)):
        rows = missing[:, variable]
        design[rows, column] = multipliers[rows, j, 0]
    design[:, inputs.variables] = np.where(missing, 0.0, design[:, inputs.variables])
    return np.where(missing[:, inputs.feeds], multipliers[:, :, 1], 0.0)


@final
@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows of a block that miss predictors: its number, labels, weights, and a design with zeros for missing values.

    ``make`` gives rows of the layout with any design; its second argument says which of the rows they are.
    ``multipliers`` (rows × derived) is how much a unit of its variable adds to each derived column. ``shift`` is added
    to every missing value of a variable before it enters the score, and not known to the distribution of the
    predictors. ``auxiliary`` columns are further regressors of missing values: labels. ``adapt`` says whether
    missing values adapt to what the coefficients make of the labels.
    """

    index: int
    y: Array
    weights: Array
    make: Callable[[Array, RowSelection], Rows]
    design: Array
    groups: tuple[PatternGroup, ...]
    inputs: Inputs
    multipliers: Array
    shift: Array
    auxiliary: Array
    adapt: bool
    cache: dict[str, Any] = field(default_factory=dict)  # moments under the last fixed distribution

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of missing values, rows × variables."""
        missing = np.zeros((len(self.design), len(self.inputs.variables)), dtype=bool)
        for group in self.groups:
            missing[group.cells] = True
        return missing

    @cached_property
    def regressors(self) -> Array:
        """x̃ of each row."""
        return self.inputs.regressors(self.design, self.auxiliary)

    @cached_property
    def known(self) -> Array:
        """Observed values of the variables, 0 where missing."""
        return self.design[:, self.inputs.variables]

    def filled(self, values: Array) -> Rows:
        """Rows with these missing values (rows × variables, 0 where observed) plus the shift."""
        return self.make(self._filled(values), slice(None))

    def scaled_and_shifted(self, values: Array, factors: Array, change: Array) -> Rows:
        """The filled rows times a factor each, plus L times a change of the variables."""
        design = self._filled(values)
        design *= factors[:, None]
        self._feed(design, change, slice(None))
        return self.make(design, slice(None))

    def _filled(self, values: Array) -> Array:
        design = self.design.copy(order="K")
        self._feed(design, values + self.missing * self.shift, slice(None))
        return design

    def directions(self, which: RowSelection, values: Array) -> Rows:
        """L times vectors of the variables in the rows ``which``: rows whose gram is that of their covariance."""
        design = np.zeros((self.design.shape[1], len(values))).T
        self._feed(design, values, which)
        return self.make(design, which)

    def _feed(self, design: Array, values: Array, which: RowSelection) -> None:
        design[:, self.inputs.variables] += values
        for j, (column, variable) in enumerate(zip(self.inputs.derived, self.inputs.feeds, strict=True)):
            design[:, column] += self.multipliers[which, j] * values[:, variable]

    def effects(self, coefficients: EffectiveCoefficients, filled: Rows) -> Effects:
        """Distribution of the effective coefficients of the variables, derived columns included."""
        effects, n_variables = coefficients.effects(filled, self.inputs.columns), len(self.inputs.variables)
        if not len(self.inputs.derived):
            return effects
        links = np.zeros((len(self.design), len(self.inputs.columns), n_variables))
        links[:, np.arange(n_variables), np.arange(n_variables)] = 1.0
        links[:, n_variables + np.arange(len(self.inputs.derived)), self.inputs.feeds] = self.multipliers
        return effects.through(links)
