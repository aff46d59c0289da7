"""Missing inputs of one fit: which columns have a distribution, given what; and what predictions go by afterwards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.formula.drawn_columns import HowToDraw, Learned
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.input_chains import drawn_values
from vbsvm.inference.loop import OptimizeResult
from vbsvm.missing.held_levels import HeldLevels
from vbsvm.missing.input_model import PAPERS_PSI, InputModel
from vbsvm.missing.level_sums import CategorySums, LevelSums
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.missing.population import Population, all_moments
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import REGRESSOR, GaussianImputation, NotAtRandom
from vbsvm.sources.kinds import AnyRows
from vbsvm.sources.row_builder import MissingInputs

# Missing categories depend on at most so many columns; with more, on the label alone.
MOST_GIVEN = 1000


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
class Completion:
    """How the missing inputs of a fit are treated; ``units`` are the modelled inputs' standard deviations."""

    model: InputModel
    everything: Inputs
    missing_inputs: MissingInputs | None
    missing_patterns: MissingPatterns
    units: Array

    @staticmethod
    def of(
        settings: GaussianImputation,
        plan: Plan,
        rows: Encoded,
        missing: NDArray[np.bool_],
        terms: InputTerms,
        looked_at: "LookedAt",
        labels: Callable[[], Array],
    ) -> "Completion":
        """Decide from the columns of the table that have missing values; ``labels`` gives columns that tell classes."""
        first, nothing = plan.recipe.first, np.empty(0, dtype=np.intp)
        inputs = np.asarray(terms.mains, dtype=np.intp)
        incomplete = inputs[missing[inputs]]
        names = tuple(plan.names[k] for k in incomplete)
        chosen = inputs if settings.joint else incomplete
        given = np.flatnonzero(~missing[: len(plan.names) - plan.n_carried])
        given = nothing if settings.joint else given[~np.isin(given, terms.uncertain)]
        of_chosen = [j for j, (_, of) in enumerate(terms.links) if missing[of]]
        distribution = _inputs(chosen, given, [terms.links[j] for j in of_chosen], first)
        places = np.flatnonzero(np.isin(chosen, incomplete))
        probit_of = None
        if isinstance(settings.mechanism, NotAtRandom) and missing.any():
            found = settings.mechanism.of(names)
            if (incomplete[found] >= len(plan.names) - plan.n_carried).any():
                raise ValueError("NotAtRandom: a column that only enters in products needs a term of its own.")
            probit_of = places[found]
        known = missing.any() and settings.labels == REGRESSOR
        beside = labels() if known else np.empty((rows.table.shape[0], 0))
        missing_inputs, units, weak_psi = None, np.empty(0), PAPERS_PSI
        if missing.any():
            validation.require_moderate_missing(settings, len(inputs), len(names))
            scale = plan.recipe.scale[chosen]
            units, left = np.where(np.isfinite(scale), 1.0, 0.0), np.flatnonzero(scale == 1.0)
            if len(left):  # columns that were not divided by theirs
                units[left] = looked_at.deviations(chosen[left])
            adding = np.empty((len(rows.table), 0)) if rows.multipliers is None else rows.multipliers[:, of_chosen]
            shift = np.zeros(len(chosen))
            shift[places] = settings.shift_of(names)
            missing_inputs = MissingInputs(distribution, adding, units * shift, beside, not settings.held)
            if settings.held and np.allclose(units[units > 0], 1.0):
                weak_psi = float(len(inputs))
        return Completion(
            InputModel(settings, distribution, len(inputs), probit_of, beside.shape[1], weak_psi),
            _inputs(inputs, nothing, terms.links, first),
            missing_inputs,
            looked_at.patterns(incomplete, names, (*terms.categories, *terms.drawn)),
            units,
        )

    @property
    def distribution(self) -> InputModel | None:
        """The part of the model that speaks of the inputs; None where nothing is missing."""
        return None if self.missing_inputs is None else self.model

    def population(self, source: AnyRows, outcome: OptimizeResult | Sample) -> Population | None:
        """Mean and covariance of all inputs, where there are not too many."""
        columns = self.everything.variables
        if source.recipe.n_columns > validation.MOST_JOINT:
            return None
        if outcome.inputs is not None:
            moments = all_moments(outcome.inputs, self.model.inputs, columns)
        else:
            chosen = np.concatenate([[0], columns - source.recipe.first + 1])
            moments = source.second_moments()[np.ix_(chosen, chosen)]
        return Population.of(moments, self.everything, self.model)


def held_levels(
    settings: GaussianImputation,
    plan: Plan,
    missing: NDArray[np.bool_],
    terms: InputTerms,
    sizes: tuple[int, ...],
    lost: Sequence[str],
    looked_at: "LookedAt",
) -> HeldLevels:
    """Levels of categories given the inputs that all rows have, and the label; ``lost`` are those that rows miss.

    A category that no row misses has its shares: it is among the inputs itself.
    """
    given = np.flatnonzero(~missing[: len(plan.names) - plan.n_carried])
    given = given[~np.isin(given, terms.uncertain)] + plan.recipe.first
    nothing = given[:0]
    given = nothing if len(given) > MOST_GIVEN else given
    columns = tuple(given if name in lost else nothing for name in terms.categories)
    return HeldLevels(columns, looked_at.level_sums(plan.recipe, columns, sizes), settings.labels == REGRESSOR)


def how_to_draw(settings: GaussianImputation, signs: Array, weights: Array) -> HowToDraw | None:
    """How missing values are drawn where columns do not enter linearly; not where they adapt to the coefficients."""
    if not settings.held or settings.mechanism is not None:
        return None
    labels = signs if settings.labels == REGRESSOR else None

    def sampler(x: Array, n_drawn: int) -> Learned:
        return drawn_values(x, n_drawn, labels, weights, settings.psi, settings.draws, len(signs))

    return HowToDraw(sampler, settings.draws, settings.transform)


def _inputs(columns: NDArray[np.intp], given: NDArray[np.intp], links: Sequence[tuple[int, int]], first: int) -> Inputs:
    """Columns of a table, and products of them, as columns of the design, which begin at ``first``."""
    place = {int(column): k for k, column in enumerate(columns)}
    return Inputs.of(columns + first, given + first, [k + first for k, _ in links], [place[of] for _, of in links])


class LookedAt(Protocol):
    """What is seen of rows beside the ranges of their columns, wherever they lie."""

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        ...

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs, which have these names, and of missing categories."""
        ...

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Moments of columns of the design by label and level, for each category the columns and number of levels."""
        ...


@final
@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows at hand, their weights and, where categories are missing, labels; ``runs`` are looked at in turn."""

    rows: Encoded
    weights: Array
    runs: Callable[[], Iterable[slice]]
    signs: Array | None = None

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        table, weights = self.rows.table, self.weights
        parts = (ColumnSummary.of(table[where][:, columns], weights[where]) for where in self.runs())
        return reduce(add, parts).deviation

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs and categories."""
        return self.counted(columns, names, categories).of_missing(len(names))

    def counted(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """The same with all categories, missing or not; candidates count as the one row that they stand for."""
        every = (*names, *categories)
        if every:
            return reduce(
                add, (MissingPatterns.of(self._missing(where, columns, every), every) for where in self.runs())
            )
        count = sum(int(np.count_nonzero(self.weights[where])) for where in self.runs())
        return MissingPatterns((), np.zeros((1, 0), dtype=bool), np.array([count]))

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Moments of columns of the design by label and level."""
        return reduce(add, (self._level_sums(where, recipe, columns, sizes) for where in self.runs()))

    def _level_sums(
        self, where: slice, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]
    ) -> CategorySums:
        """The moments of a run of rows; each counts once, where its level is known."""
        assert self.rows.candidates is not None
        assert self.signs is not None
        some, found = self.rows.candidates.firsts_in(where), []
        design = recipe.encode(self.rows.table[some], recipe.work_space(len(some)))
        labels, weights = (self.signs[some] > 0).astype(np.intp), self.weights[some]
        for of_one, size, levels in zip(columns, sizes, ~self.rows.candidates.levels[some].T, strict=True):
            known = levels >= 0
            x = design[np.ix_(known, of_one)]
            found.append(LevelSums.of(x, labels[known], levels[known], weights[known], (2, size)))
        return CategorySums(tuple(found))

    def _missing(self, where: slice, columns: NDArray[np.intp], names: tuple[str, ...]) -> NDArray[np.bool_]:
        """What is missing in a run of rows: of these columns, then of the categories."""
        table, candidates = self.rows.table, self.rows.candidates
        if candidates is not None:
            some = candidates.firsts_in(where)
            return np.column_stack([np.isnan(table[some][:, columns]), candidates.filled_in[some]])
        missing = np.isnan(table[where][self.weights[where] > 0][:, columns])
        return np.column_stack([missing, np.zeros((len(missing), len(names) - len(columns)), dtype=bool)])
