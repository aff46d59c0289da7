"""Missing values of one fit: how they are treated, decided in one place, and what predictions go by afterwards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import JointNormal
from vbsvm.design.candidates import ColumnSampler, Draws
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.inputs import drawn_values
from vbsvm.inference.loop import OptimizeResult
from vbsvm.missing.categories import CategorySums, FixedLevels, LevelCounts, LevelModel, LevelSums
from vbsvm.missing.imputation import MissingPatterns, Population, all_moments
from vbsvm.missing.model import PAPER_PSI, InputModel, MissingModel
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import REGRESSOR, GaussianImputation, NotAtRandom
from vbsvm.sources.distributed import AnyRows
from vbsvm.sources.rows import MissingInputs

# Most columns that missing categories depend on; with more, they depend on the label alone.
MAX_GIVEN = 1000


@final
@dataclass(frozen=True, eq=False)
class InputTerms:
    """Which columns of a table are inputs that may be missing, and what depends on them.

    ``mains`` are the columns that are inputs themselves; ``links`` (column, input) are products of one of these inputs
    and known things. ``uncertain`` columns depend on categories that are missing in some rows, and tell nothing about
    the other inputs; ``categories`` are the names of all that may be missing, ``drawn`` those of columns whose missing
    values were drawn.
    """

    mains: Sequence[int]
    links: Sequence[tuple[int, int]] = ()
    uncertain: Sequence[int] = ()
    categories: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


@final
@dataclass(frozen=True, eq=False)
class MissingDataPlan:
    """How the missing values of a fit are treated.

    ``model`` is that of what is missing, or None; ``input_model`` is there for predictions even if no input is missing
    in the fit. ``all_inputs`` are those that may be missing in new rows, ``units`` the modelled inputs' standard
    deviations.
    """

    model: MissingModel | None
    input_model: InputModel
    all_inputs: Inputs
    missing_inputs: MissingInputs | None
    missing_patterns: MissingPatterns
    units: Array

    @property
    def fixed_levels(self) -> FixedLevels | None:
        """Distributions of the levels of missing categories that do not adapt to the coefficients, or None."""
        return None if self.model is None or self.model.levels is None else self.model.levels.given

    def population(self, source: AnyRows, outcome: OptimizeResult | Sample) -> Population | None:
        """Mean and covariance of all inputs, or None for more than ``MAX_JOINT`` columns."""
        columns = self.all_inputs.variables
        if source.recipe.n_columns > validation.MAX_JOINT:
            return None
        if outcome.inputs is not None:
            moments = all_moments(outcome.inputs, self.input_model.inputs, columns)
        else:
            chosen = np.concatenate([[0], columns - source.recipe.first + 1])
            moments = source.second_moments()[np.ix_(chosen, chosen)]
        return Population.from_moments(moments, self.all_inputs, self.input_model)


def plan_missing_data(
    settings: GaussianImputation,
    plan: Plan,
    rows: Encoded,
    missing: NDArray[np.bool_],
    terms: InputTerms,
    row_statistics: "RowStatistics",
    labels: Callable[[], Array],
    level_counts: LevelCounts | None,
) -> MissingDataPlan:
    """Decide how missing values are treated, from the columns of the table that have some.

    Distributions of inputs and of levels of categories are fixed before the coefficients, or adapt to these, as
    ``settings.fixed`` says; columns that were drawn (``column_sampler``) have been expanded before. ``labels`` gives
    columns that tell classes; ``level_counts`` are there where categories may be missing.
    """
    first, inputs = plan.recipe.first, np.asarray(terms.mains, dtype=np.intp)
    incomplete = inputs[missing[inputs]]
    names = tuple(plan.names[k] for k in incomplete)
    complete = np.flatnonzero(~missing[: len(plan.names) - plan.n_carried])
    complete = complete[~np.isin(complete, terms.uncertain)]
    no_columns = complete[:0]
    chosen, regressors = (inputs, no_columns) if settings.joint else (incomplete, complete)
    links = [j for j, (_, of) in enumerate(terms.links) if missing[of]]
    input_model = InputModel(settings, _inputs(chosen, regressors, [terms.links[j] for j in links], first), len(inputs))
    missing_inputs, units = None, np.empty(0)
    if missing.any():
        positions = np.flatnonzero(np.isin(chosen, incomplete))
        probit_of = _probit_columns(settings, plan, incomplete, names, positions)
        validation.check_missing_size(settings, len(inputs), len(names))
        units = _units(plan.recipe.scale[chosen], chosen, row_statistics)
        auxiliary = labels() if settings.labels == REGRESSOR else np.empty((rows.table.shape[0], 0))
        multipliers = np.empty((len(rows.table), 0)) if rows.multipliers is None else rows.multipliers[:, links]
        shift = np.zeros(len(chosen))
        shift[positions] = settings.shift_of(names)
        missing_inputs = MissingInputs(input_model.inputs, multipliers, units * shift, auxiliary, not settings.fixed)
        standardised = np.allclose(units[units > 0], 1.0)
        weak_psi = float(len(inputs)) if settings.fixed and standardised else PAPER_PSI
        input_model = replace(input_model, probit_of=probit_of, n_beside=auxiliary.shape[1], weak_psi=weak_psi)
    patterns = row_statistics.patterns(incomplete, names, (*terms.categories, *terms.drawn)).without_complete_columns(
        len(names)
    )
    levels = None
    if level_counts is not None:
        sizes, fixed = tuple(map(len, level_counts.counts)), None
        if settings.fixed:  # a category that no row misses has its proportions: it is among the inputs itself
            regressors = no_columns if len(complete) > MAX_GIVEN else complete + first
            columns = tuple(regressors if name in patterns.names else no_columns for name in terms.categories)
            moments = row_statistics.level_sums(plan.recipe, columns, sizes)
            fixed = FixedLevels(columns, moments, settings.labels == REGRESSOR)
        levels = LevelModel(sizes, settings.fixed, fixed)
    model = MissingModel.from_parts(None if missing_inputs is None else input_model, levels)
    return MissingDataPlan(
        model, input_model, _inputs(inputs, no_columns, terms.links, first), missing_inputs, patterns, units
    )


def _probit_columns(
    settings: GaussianImputation,
    plan: Plan,
    incomplete: NDArray[np.intp],
    names: tuple[str, ...],
    positions: NDArray[np.intp],
) -> NDArray[np.intp] | None:
    """The variables that are missing not at random, or None."""
    if not isinstance(settings.mechanism, NotAtRandom):
        return None
    chosen = settings.mechanism.of(names)
    if (incomplete[chosen] >= len(plan.names) - plan.n_carried).any():
        raise ValueError("NotAtRandom: a column that only enters in products needs a term of its own.")
    return positions[chosen]


def _units(scale: Array, columns: NDArray[np.intp], row_statistics: "RowStatistics") -> Array:
    """Standard deviations of design columns: 1 if scaled, else computed from the rows."""
    units, unscaled = np.where(np.isfinite(scale), 1.0, 0.0), np.flatnonzero(scale == 1.0)
    if len(unscaled):
        units[unscaled] = row_statistics.deviations(columns[unscaled])
    return units


def column_sampler(settings: GaussianImputation, y: Array, weights: Array) -> ColumnSampler | None:
    """Sampler of missing values of columns that enter nonlinearly, or None."""
    if not settings.draws_columns:
        return None
    labels = y if settings.labels == REGRESSOR else None

    def sampler(x: Array, n_drawn: int) -> tuple[JointNormal, float, Draws]:
        return drawn_values(x, n_drawn, labels, weights, settings.psi, settings.draws, len(y))

    return ColumnSampler(sampler, settings.draws, settings.transform)


def _inputs(columns: NDArray[np.intp], given: NDArray[np.intp], links: Sequence[tuple[int, int]], first: int) -> Inputs:
    """Columns of a table, and products of them, as columns of the design, which begin at ``first``."""
    place = {int(column): k for k, column in enumerate(columns)}
    return Inputs.from_lists(
        columns + first, given + first, [k + first for k, _ in links], [place[of] for _, of in links]
    )


class RowStatistics(Protocol):
    """Statistics of encoded rows that the treatment of missing values needs."""

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        ...

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs, which have these names, and of categories, missing or not."""
        ...

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Moments of columns of the design by label and level, for each category the columns and number of levels."""
        ...


@final
@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Statistics of rows in memory, computed block by block (``runs``)."""

    rows: Encoded
    weights: Array
    runs: Callable[[], Iterable[slice]]
    y: Array | None = None

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        table, weights = self.rows.table, self.weights
        parts = (ColumnSummary.from_rows(table[rows][:, columns], weights[rows]) for rows in self.runs())
        return reduce(add, parts).deviation

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs and categories; all candidates of a row count once."""
        all_names = (*names, *categories)
        if all_names:
            return reduce(
                add,
                (MissingPatterns.from_mask(self._missing(rows, columns, all_names), all_names) for rows in self.runs()),
            )
        count = sum(int(np.count_nonzero(self.weights[rows])) for rows in self.runs())
        return MissingPatterns((), np.zeros((1, 0), dtype=bool), np.array([count]))

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Moments of columns of the design by label and level."""
        return reduce(add, (self._level_sums(rows, recipe, columns, sizes) for rows in self.runs()))

    def _level_sums(
        self, rows: slice, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]
    ) -> CategorySums:
        """Moments of a block of rows with observed level; each row counts once."""
        assert self.rows.candidates is not None
        assert self.y is not None
        firsts, sums = self.rows.candidates.first_candidates_in(rows), []
        design = recipe.encode(self.rows.table[firsts], recipe.work_space(len(firsts)))
        labels, weights = (self.y[firsts] > 0).astype(np.intp), self.weights[firsts]
        for of_one, size, levels in zip(columns, sizes, ~self.rows.candidates.levels[firsts].T, strict=True):
            observed = levels >= 0
            x = design[np.ix_(observed, of_one)]
            sums.append(LevelSums.from_rows(x, labels[observed], levels[observed], weights[observed], (2, size)))
        return CategorySums(tuple(sums))

    def _missing(self, rows: slice, columns: NDArray[np.intp], names: tuple[str, ...]) -> NDArray[np.bool_]:
        """Missingness mask of a block of rows: columns, then categories."""
        table, candidates = self.rows.table, self.rows.candidates
        if candidates is not None:
            row_index = candidates.first_candidates_in(rows)
            return np.column_stack([np.isnan(table[row_index][:, columns]), candidates.filled_in[row_index]])
        missing = np.isnan(table[rows][self.weights[rows] > 0][:, columns])
        return np.column_stack([missing, np.zeros((len(missing), len(names) - len(columns)), dtype=bool)])
