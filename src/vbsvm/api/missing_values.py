"""Missing inputs of one fit: which columns have a distribution, given what; and what predictions go by afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.variational import Outcome
from vbsvm.missing.input_model import GaussianImputation, InputModel
from vbsvm.missing.missingness import NotAtRandom
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.missing.population import Population, all_moments
from vbsvm.missing.rows import Inputs
from vbsvm.sources.memory import Memory, MissingInputs


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
        table: NDArray[np.floating],
        weights: Array,
        missing: NDArray[np.bool_],
        mains: Sequence[int] | None = None,
        links: Sequence[tuple[int, int]] = (),
        multipliers: Array | None = None,
        uncertain: Sequence[int] = (),
    ) -> "Completion":
        """Decide from the columns of the table that have missing_inputs.

        ``mains`` are the columns that are inputs themselves, by default all; ``links`` (column, input) are products of
        one of these inputs and known things, with their ``multipliers`` (rows × links). ``uncertain`` columns depend on
        categories that are missing in some rows, and tell nothing about the other inputs.
        """
        first, n_table = int(plan.recipe.intercept), len(plan.names)
        inputs = np.arange(n_table) if mains is None else np.asarray(mains, dtype=np.intp)
        place = {int(column): k for k, column in enumerate(inputs)}
        columns = np.array([column for column, _ in links], dtype=np.intp)
        feeds = np.array([place[of] for _, of in links], dtype=np.intp)
        everything = Inputs(inputs + first, np.empty(0, dtype=np.intp), columns + first, feeds)
        chosen = inputs if settings.joint else inputs[missing[inputs]]
        given = np.flatnonzero(~missing[: n_table - plan.n_carried])
        given = given[~np.isin(given, uncertain)]
        of_chosen = [j for j, (_, of) in enumerate(links) if missing[of]]
        number = {int(column): k for k, column in enumerate(chosen)}
        distribution = Inputs(
            chosen + first,
            np.empty(0, dtype=np.intp) if settings.joint else given + first,
            columns[of_chosen] + first,
            np.array([number[links[j][1]] for j in of_chosen], dtype=np.intp),
        )
        probit_of = None
        if isinstance(settings.mechanism, NotAtRandom) and missing.any():
            found = settings.mechanism.of([plan.names[k] for k in inputs[missing[inputs]]])
            if (inputs[missing[inputs]][found] >= n_table - plan.n_carried).any():
                raise ValueError("NotAtRandom: a column that only enters in products needs a term of its own.")
            probit_of = np.array([number[int(k)] for k in inputs[missing[inputs]][found]], dtype=np.intp)
        model, missing_inputs = InputModel(settings, distribution, len(inputs), probit_of), None
        names, units = tuple(plan.names[k] for k in inputs[missing[inputs]]), np.empty(0)
        if missing.any():
            units = _units(plan.recipe.scale[chosen], table[:, chosen], weights)
            validation.require_moderate_imputation(settings, len(inputs), len(names))
            adding = np.empty((len(table), 0)) if multipliers is None else multipliers[:, of_chosen]
            shift = np.zeros(len(chosen))
            shift[[number[int(k)] for k in inputs[missing[inputs]]]] = settings.shift_of(names)
            missing_inputs = MissingInputs(distribution, adding, units * shift, settings.labels)
        counted = weights > 0
        is_missing = (
            np.isnan(table[counted][:, inputs[missing[inputs]]]) if names else np.zeros((int(counted.sum()), 0), bool)
        )
        return Completion(model, everything, missing_inputs, MissingPatterns.of(is_missing, names), units)

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
            chosen = np.concatenate([[0], columns - int(source.recipe.intercept) + 1])
            moments = source.second_moments()[np.ix_(chosen, chosen)]
        return Population.of(moments, self.everything, self.model)


def _units(scale: Array, columns: NDArray[np.floating], weights: Array) -> Array:
    """A standard deviation of each column in units of the design: 1 where it was divided by it, 0 where it has none."""
    units = np.where(np.isfinite(scale), 1.0, 0.0)
    for k in np.flatnonzero(scale == 1.0):
        known = ~np.isnan(columns[:, k]) & (weights > 0)
        values, shares = columns[known, k], weights[known] / weights[known].sum()
        units[k] = np.sqrt(shares @ np.square(values - shares @ values))
    return units
