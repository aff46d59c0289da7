"""Missing inputs of one fit: which columns have a distribution, given what; and what predictions go by afterwards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.base.arrays import Array
from vbsvm.design.candidates import KNOWN
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import ColumnSummary
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.variational import Outcome
from vbsvm.missing.input_model import InputModel
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.missing.population import Population, all_moments
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import GaussianImputation, NotAtRandom
from vbsvm.sources.memory import Memory
from vbsvm.sources.row_builder import MissingInputs


@final
@dataclass(frozen=True, eq=False)
class InputTerms:
    """Which columns of a table are inputs that may be missing, and what depends on them.

    ``mains`` are the columns that are inputs themselves; ``links`` (column, input) are products of one of these inputs
    and known things. ``uncertain`` columns depend on categories that are missing in some rows, and tell nothing about
    the other inputs; ``categories`` are the names of all that may be missing.
    """

    mains: Sequence[int]
    links: Sequence[tuple[int, int]] = ()
    uncertain: Sequence[int] = ()
    categories: tuple[str, ...] = ()


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
        weights: Array,
        missing: NDArray[np.bool_],
        terms: InputTerms,
        runs: Callable[[], Iterable[slice]],
    ) -> "Completion":
        """Decide from the columns of the table that have missing values; ``runs`` of rows are looked at in turn."""
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
        missing_inputs, units = None, np.empty(0)
        if missing.any():
            validation.require_moderate_missing(settings, len(inputs), len(names))
            units = _units(plan.recipe.scale[chosen], rows.table, chosen, weights, runs)
            adding = np.empty((len(rows.table), 0)) if rows.multipliers is None else rows.multipliers[:, of_chosen]
            shift = np.zeros(len(chosen))
            shift[places] = settings.shift_of(names)
            missing_inputs = MissingInputs(distribution, adding, units * shift, settings.labels)
        return Completion(
            InputModel(settings, distribution, len(inputs), probit_of),
            _inputs(inputs, nothing, terms.links, first),
            missing_inputs,
            _patterns(rows, weights, incomplete, names, terms.categories, runs),
            units,
        )

    @property
    def distribution(self) -> InputModel | None:
        """The part of the model that speaks of the inputs; None where nothing is missing."""
        return None if self.missing_inputs is None else self.model

    def population(self, source: Memory, outcome: Outcome | Sample) -> Population | None:
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


def _inputs(columns: NDArray[np.intp], given: NDArray[np.intp], links: Sequence[tuple[int, int]], first: int) -> Inputs:
    """Columns of a table, and products of them, as columns of the design, which begin at ``first``."""
    place = {int(column): k for k, column in enumerate(columns)}
    return Inputs.of(columns + first, given + first, [k + first for k, _ in links], [place[of] for _, of in links])


def _patterns(
    rows: Encoded,
    weights: Array,
    columns: NDArray[np.intp],
    names: tuple[str, ...],
    categories: tuple[str, ...],
    runs: Callable[[], Iterable[slice]],
) -> MissingPatterns:
    """Patterns of missing inputs and categories; candidates count as the one row that they stand for."""
    if rows.candidates is None:
        if not names:
            count = sum(int(np.count_nonzero(weights[where])) for where in runs())
            return MissingPatterns(names, np.zeros((1, 0), dtype=bool), np.array([count]))
        return reduce(
            add,
            (
                MissingPatterns.of(np.isnan(rows.table[where][weights[where] > 0][:, columns]), names)
                for where in runs()
            ),
        )
    candidates = rows.candidates
    lost = np.logical_or.reduce([(candidates.levels[where] != KNOWN).any(axis=0) for where in runs()])
    chosen = np.flatnonzero(lost)
    found = (
        MissingPatterns.of(
            np.column_stack([np.isnan(rows.table[some][:, columns]), candidates.levels[some][:, chosen] != KNOWN]),
            (*names, *(categories[k] for k in chosen)),
        )
        for some in map(candidates.firsts_in, runs())
    )
    return reduce(add, found)


def _units(
    scale: Array,
    table: NDArray[np.floating],
    columns: NDArray[np.intp],
    weights: Array,
    runs: Callable[[], Iterable[slice]],
) -> Array:
    """A standard deviation of each column in units of the design: 1 where it was divided by it, 0 where it has none."""
    units, left = np.where(np.isfinite(scale), 1.0, 0.0), np.flatnonzero(scale == 1.0)
    if len(left):
        parts = (ColumnSummary.of(table[where][:, columns[left]], weights[where]) for where in runs())
        units[left] = reduce(add, parts).deviation
    return units
