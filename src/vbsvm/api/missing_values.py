"""Treatment of missing values in one fit, decided in one place, and what predictions use afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.api.data.partitions import Design, EncodedData, InputTerms, LabelledData
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import JointNormal
from vbsvm.design.candidates import ColumnSampler, Draws
from vbsvm.design.scaling import Recipe
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.inputs import drawn_values
from vbsvm.inference.loop import OptimizeResult
from vbsvm.missing.categories import CategorySums, FixedLevels, LevelModel, LevelSums
from vbsvm.missing.imputation import MissingPatterns, Population, all_moments
from vbsvm.missing.model import PAPER_PSI, InputModel, MissingModel
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import REGRESSOR, GaussianImputation, NotAtRandom, Shift
from vbsvm.sources.distributed import AnyRows
from vbsvm.sources.rows import MissingInputs

# Most columns that missing categories depend on; with more, they depend on the label alone.
MAX_GIVEN = 1000


@final
@dataclass(frozen=True, eq=False)
class MissingDataPlan:
    """How the missing values of a fit are treated: of complete tables those of new rows, else as planned.

    ``first`` is the design column of the table's first; ``units`` are the modelled predictors' standard deviations.
    """

    settings: GaussianImputation
    terms: InputTerms
    first: int
    model: MissingModel | None = None
    fixed_levels: FixedLevels | None = None
    input_model: InputModel | None = None
    missing_inputs: MissingInputs | None = None
    patterns: MissingPatterns | None = None
    units: Array | None = None

    @property
    def all_inputs(self) -> Inputs:
        """The predictors that may be missing in new rows."""
        mains = np.asarray(self.terms.mains, dtype=np.intp)
        return _inputs(mains, mains[:0], self.terms.links, self.first)

    def population(self, source: AnyRows, outcome: OptimizeResult | Sample) -> Population | None:
        """Mean and covariance of all predictors, or None for more than ``MAX_JOINT`` columns."""
        inputs = self.all_inputs
        columns, model = inputs.variables, self.input_model or InputModel(self.settings, inputs, len(inputs.variables))
        if source.recipe.n_columns > validation.MAX_JOINT:
            return None
        if outcome.inputs is not None:
            moments = all_moments(outcome.inputs, model.inputs, columns)
        else:
            chosen = np.concatenate([[0], columns - source.recipe.first + 1])
            moments = source.second_moments()[np.ix_(chosen, chosen)]
        return Population.from_moments(moments, inputs, model)


def plan_missing_data(settings: GaussianImputation, data: EncodedData, design: Design) -> MissingDataPlan:
    """Decide how missing values are treated, from the columns of the table that have some.

    Distributions of predictors and of levels of categories are fixed before the coefficients, or adapt to these, as
    ``settings.fixed`` says; columns that were drawn (``column_sampler``) have been expanded before.
    """
    plan, terms, rows, missing = design.plan, design.terms, data.rows.encoded, data.columns.ranges.incomplete
    if rows.candidates is not None and isinstance(settings.mechanism, NotAtRandom):
        raise ValueError("NotAtRandom does not support missing categories: make missing a category of its own.")
    first, inputs = plan.recipe.first, np.asarray(terms.mains, dtype=np.intp)
    incomplete = inputs[missing[inputs]]
    names = tuple(plan.names[k] for k in incomplete)
    complete = np.flatnonzero(~missing[: len(plan.names) - plan.n_carried])
    complete = complete[~np.isin(complete, terms.uncertain)]
    no_columns = complete[:0]
    input_model = missing_inputs = units = None
    if missing.any():
        chosen, regressors = (inputs, no_columns) if settings.joint else (incomplete, complete)
        links = [j for j, (_, of) in enumerate(terms.links) if missing[of]]
        of_model = _inputs(chosen, regressors, [terms.links[j] for j in links], first)
        positions = np.flatnonzero(np.isin(chosen, incomplete))
        probit_of = None
        if isinstance(settings.mechanism, NotAtRandom):
            not_at_random = settings.mechanism.of(names)
            if (incomplete[not_at_random] >= len(plan.names) - plan.n_carried).any():
                raise ValueError("NotAtRandom: a column that only enters in products needs a term of its own.")
            probit_of = positions[not_at_random]
        if len(chosen) > validation.MAX_JOINT:
            raise ValueError(
                f"{len(names)} of {len(inputs)} columns have missing values, and the joint distribution of "
                f"{len(chosen)} columns would have to be learned; up to {validation.MAX_JOINT} are supported. Drop "
                "columns, or impute them first."
            )
        scale = plan.recipe.scale[chosen]
        units = np.where(scale == 1.0, data.columns.deviation[chosen], np.isfinite(scale))
        labels = data.rows.labels  # all models' but the last, or the only one's
        labels = labels[: max(1, len(labels) - 1)] if settings.labels == REGRESSOR else ()
        auxiliary = np.stack(labels, axis=1) if labels else np.empty((len(rows.table), 0))
        multipliers = np.empty((len(rows.table), 0)) if rows.multipliers is None else rows.multipliers[:, links]
        shift = np.zeros(len(chosen))
        if isinstance(settings.mechanism, Shift):
            shift[positions] = settings.mechanism.of(names)
        missing_inputs = MissingInputs(of_model, multipliers, units * shift, auxiliary, not settings.fixed)
        standardised = np.allclose(units[units > 0], 1.0)
        weak_psi = float(len(inputs)) if settings.fixed and standardised else PAPER_PSI
        input_model = InputModel(settings, of_model, len(inputs), probit_of, auxiliary.shape[1], weak_psi)
    patterns = data.sum(partial(_patterns, incomplete, (*names, *terms.categories, *terms.drawn)))
    patterns = patterns.without_complete_columns(len(names))
    levels = fixed = None
    if design.known_levels is not None:
        sizes = tuple(map(len, design.known_levels.counts))
        if settings.fixed:  # a category that no row misses has its proportions: it is among the predictors itself
            regressors = no_columns if len(complete) > MAX_GIVEN else complete + first
            columns = tuple(regressors if name in patterns.names else no_columns for name in terms.categories)
            moments = data.sum(partial(_level_sums, plan.recipe, columns, sizes))
            fixed = FixedLevels(columns, moments, settings.labels == REGRESSOR)
        levels = LevelModel(sizes, settings.fixed, fixed)
    missing = missing_inputs is not None or levels is not None
    model = MissingModel(input_model if missing_inputs is not None else None, levels) if missing else None
    return MissingDataPlan(settings, terms, first, model, fixed, input_model, missing_inputs, patterns, units)


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


def _patterns(
    columns: NDArray[np.intp], names: tuple[str, ...], labelled: LabelledData, block: slice
) -> MissingPatterns:
    """Patterns of missing columns, then of categories, in a block; all candidates of a row count once."""
    table, candidates = labelled.encoded.table, labelled.encoded.candidates
    if candidates is None:
        missing = np.isnan(table[block][labelled.weights[block] > 0][:, columns])
        of_categories = np.zeros((len(missing), len(names) - len(columns)), dtype=bool)
    else:
        row_index = candidates.first_candidates_in(block)
        missing, of_categories = np.isnan(table[row_index][:, columns]), candidates.filled_in[row_index]
    return MissingPatterns.from_mask(np.column_stack([missing, of_categories]), names)


def _level_sums(
    recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int], labelled: LabelledData, block: slice
) -> CategorySums:
    """Moments of each category's columns by label and level, over rows with an observed level; each counts once."""
    candidates = labelled.encoded.candidates
    assert candidates is not None
    firsts, sums = candidates.first_candidates_in(block), []
    design = recipe.encode(labelled.encoded.table[firsts], recipe.work_space(len(firsts)))
    labels, weights = (labelled.labels[0][firsts] > 0).astype(np.intp), labelled.weights[firsts]
    for of_one, size, levels in zip(columns, sizes, ~candidates.levels[firsts].T, strict=True):
        observed = levels >= 0
        x = design[np.ix_(observed, of_one)]
        sums.append(LevelSums.from_rows(x, labels[observed], levels[observed], weights[observed], (2, size)))
    return CategorySums(tuple(sums))
