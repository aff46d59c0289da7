"""Missing inputs of one fit: which columns have a distribution, given what; and what predictions go by afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.base.arrays import Array
from vbsvm.design.candidates import KNOWN
from vbsvm.design.columns import Encoded, Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.variational import Outcome
from vbsvm.missing.input_model import PAPERS_PSI, InputModel
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.missing.population import Population, all_moments
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import REGRESSOR, GaussianImputation, NotAtRandom
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
        labels: Array,
    ) -> "Completion":
        """Decide from the columns of the table that have missing values; ``labels`` are columns that tell classes."""
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
        beside = labels if settings.labels == REGRESSOR else np.empty((len(rows.table), 0))
        missing_inputs, units, weak_psi = None, np.empty(0), PAPERS_PSI
        if missing.any():
            validation.require_moderate_missing(settings, len(inputs), len(names))
            units = _units(plan.recipe.scale[chosen], rows.table[:, chosen], weights)
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
            _patterns(rows, weights, incomplete, names, terms.categories),
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
    rows: Encoded, weights: Array, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
) -> MissingPatterns:
    """Patterns of missing inputs and categories; candidates count as the one row that they stand for."""
    if rows.candidates is None:
        counted = weights > 0
        missing = np.isnan(rows.table[counted][:, columns]) if names else np.zeros((int(counted.sum()), 0), bool)
        return MissingPatterns.of(missing, names)
    first = rows.candidates.firsts
    lost = rows.candidates.levels[first] != KNOWN
    chosen = np.flatnonzero(lost.any(axis=0))
    missing = np.column_stack([np.isnan(rows.table[first][:, columns]), lost[:, chosen]])
    return MissingPatterns.of(missing, (*names, *(categories[k] for k in chosen)))


def _units(scale: Array, columns: NDArray[np.floating], weights: Array) -> Array:
    """A standard deviation of each column in units of the design: 1 where it was divided by it, 0 where it has none."""
    units = np.where(np.isfinite(scale), 1.0, 0.0)
    for k in np.flatnonzero(scale == 1.0):
        known = ~np.isnan(columns[:, k]) & (weights > 0)
        values, shares = columns[known, k], weights[known] / weights[known].sum()
        units[k] = np.sqrt(shares @ np.square(values - shares @ values))
    return units
