"""Scores of rows under a fitted distribution, new groups and missing inputs included, and what they say of classes.

New groups are treated in three places. That they add nothing to the mean of a score is in ``Grouping.factor``
(``sources/rows.py``), what they add to its variance is here, and whether they are refused (``groups="error"``)
is decided in ``results/fit_predictions.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import expit, log_expit, log_softmax, ndtr, ndtri, softmax

from vbsvm.base.arrays import Array, block_rows, single_threaded_blas
from vbsvm.base.distributions import MIDPOINTS
from vbsvm.design.columns import UNSEEN, Encoded, Plan
from vbsvm.missing.imputation import Population
from vbsvm.missing.rows import IncompleteRows
from vbsvm.missing.updates import conditional_means, imputation_variance
from vbsvm.model.interfaces import EffectiveCoefficients, PointDistribution
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.likelihoods import hinge
from vbsvm.model.matrices import SparseMatrix
from vbsvm.model.spec import Spec, State
from vbsvm.results import calibration
from vbsvm.results.calibration import Calibration, PosteriorMean
from vbsvm.sources.rows import Grouping, MissingInputs, RowBuilder

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

# Links from scores to probabilities.
Link = Calibration | PosteriorMean
# Multipliers that have no divisor in common with the number of quantiles.
LATTICE = (1, 2, 4, 5, 7, 8)
# Steps of the search for a quantile of a mixture.
BISECTIONS = 60


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Mean and variance of each row's score, and the part of the variance from missing predictors and new groups.

    The variance of a new group's effects is itself uncertain: ``departures`` (rows × values) says how far the part of
    new groups is from its average at equally likely values of the variance components; None without new groups.
    """

    mean: Array
    variance: Array
    from_unknown: Array
    departures: Array | None = None


def mean_scores(fit: "Fit", encoded: Encoded) -> Scores:
    """Moments of each row's score with the coefficients at their means."""
    state = fit.posterior.state
    return _scores(fit, PointDistribution(state.coefficients.mean).effective(state.gates), state, encoded)


def score_moments(fit: "Fit", encoded: Encoded, state: State) -> Scores:
    """Mean and variance of each row's score; an unseen group adds the prior variance zᵀΣz of its effects."""
    return _scores(fit, state.coefficients.effective(state.gates), state, encoded)


def _scores(fit: "Fit", coefficients: EffectiveCoefficients, state: State, encoded: Encoded) -> Scores:
    scores, unseen = Scores(*(np.zeros(encoded.table.shape[0]) for _ in range(3))), {}
    for k, levels in enumerate(encoded.levels):
        if (levels == UNSEEN).any():
            unseen[k] = prior_covariances(fit.plan, fit.spec, state, k)
    departures = np.zeros((len(scores.mean), len(MIDPOINTS))) if unseen else None
    for block in _blocks_of(fit, encoded):
        rows_of_block, design = block.where, block.design
        rows, incomplete = _completed(fit, block)
        if incomplete is not None:
            scores.from_unknown[rows_of_block] = imputation_variance(
                incomplete, rows, coefficients, _population(fit).distribution
            )
            design = incomplete.design
        scores.mean[rows_of_block], variance = coefficients.row_moments(rows)
        scores.variance[rows_of_block] = _overflown(variance)
        for k, covariances in unseen.items():
            if block.groupings[k].has_unseen and departures is not None:
                z = block.groupings[k].unseen_effects(design)
                added = _overflown(np.einsum("iq,kqr,ir->ik", z, covariances, z))
                average = added.mean(axis=1, keepdims=True)
                scores.from_unknown[rows_of_block] += average[:, 0]
                departures[rows_of_block] += np.where(np.isfinite(average), added - average, 0.0)
        scores.variance[rows_of_block] += scores.from_unknown[rows_of_block]
    return replace(scores, departures=departures)


def _overflown(variances: Array | float) -> Array:
    """Replace NaN variances, from overflow in intermediate products, by infinity."""
    return np.where(np.isnan(variances), np.inf, variances)


def design_blocks(fit: "Fit", encoded: Encoded) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Rows of each block, and their columns with fixed effects, missing predictors at their expected values."""
    for block in _blocks_of(fit, encoded):
        yield block.where, _completed(fit, block)[0].as_array


def weighted_gram(fit: "Fit", encoded: Encoded, weights: Array) -> Array:
    """Weighted sum of c cᵀ over the rows c of the design, missing predictors at their expected values."""
    total = np.zeros((fit.plan.recipe.n_columns,) * 2)
    for block in _blocks_of(fit, encoded):
        incomplete = _completed(fit, block)[1]
        design = block.design if incomplete is None else incomplete.design
        total += design.T @ (weights[block.where, None] * design)
    return total


def _completed(fit: "Fit", block: "_Block") -> tuple[Any, IncompleteRows | None]:
    """Rows with missing inputs imputed by expected values, and the incomplete rows, or None if complete."""
    rows = block.rows
    if not isinstance(rows, IncompleteRows):
        return rows, None
    return rows.filled(conditional_means(rows, _population(fit).distribution)), rows


def _population(fit: "Fit") -> Population:
    assert fit._input_population is not None
    return fit._input_population


def check_finite(fit: "Fit", scores: Scores, encoded: Encoded) -> Scores:
    """Raise for rows without a finite score."""
    bad = ~(np.isfinite(scores.mean) & ~np.isnan(scores.from_unknown))
    if bad.any():
        row = int(np.argmax(bad))
        table_row = row if encoded.candidates is None else int(np.argmax(encoded.candidates.row == row))
        if np.isnan(encoded.table[table_row]).any() and fit._input_population is None:
            why = "it has missing values, which are not imputed for this number of columns: impute them first"
        else:
            why = "its values are too far from the training data"
        raise ValueError(f"The decision value of row {row} is {scores.mean[row]}: {why}.")
    return scores


def average_candidates(scores: Scores, rows: NDArray[np.intp], chances: Array) -> Scores:
    """Moments of the mixture over each row's candidates; ``rows`` is the row of each candidate."""
    total = np.bincount(rows, chances)

    def mean(values: Array) -> Array:
        with np.errstate(invalid="ignore"):  # 0 times an infinite variance
            return np.bincount(rows, np.where(chances > 0.0, chances * values, 0.0)) / total

    centre = mean(scores.mean)
    with np.errstate(over="ignore", invalid="ignore"):
        between = _overflown(np.maximum(mean(np.square(scores.mean)) - np.square(centre), 0.0))
    departures = scores.departures
    of_levels = None if departures is None else np.stack([mean(column) for column in departures.T], axis=1)
    return Scores(centre, mean(scores.variance) + between, mean(scores.from_unknown) + between, of_levels)


def decision_values(scores_of: Sequence[Scores], calibrations: Sequence[Link | None]) -> Array:
    """Decision values, rows × models; for several classes comparable across models.

    These are scores times slopes, or log odds for normalised likelihoods.
    """
    scores = np.stack([scores.mean for scores in scores_of], axis=1)
    links = [link for link in calibrations if link is not None]
    if len(scores_of) == 1 or len(links) < len(scores_of):
        return scores
    if isinstance(links[0], PosteriorMean):
        return _over_new_levels(scores_of, attrgetter("variance"), calibration.mean_log_odds)
    with np.errstate(over="ignore"):
        return scores * np.array([link.slope for link in links])


def log_odds(scores_of: Sequence[Scores], links: Sequence[Link | None]) -> Array:
    """Log odds of each model, rows × models, averaged over missing predictors and new random effects.

    Those of a likelihood that has probabilities of its own are averaged over the coefficients, too; others are
    calibrated. Files of older versions have no calibration: then those of the normalised pseudo-likelihood.
    """
    posterior_links = [link for link in links if isinstance(link, PosteriorMean)]
    if posterior_links:
        return calibration.population_log_odds(
            posterior_links, _over_new_levels(scores_of, attrgetter("variance"), calibration.mean_log_odds)
        )
    calibrations = [link for link in links if isinstance(link, Calibration)]
    if len(calibrations) < len(scores_of):
        return pseudo_log_odds(scores_of)
    return _over_new_levels(
        scores_of, attrgetter("from_unknown"), lambda f, v: calibration.log_odds(calibrations, f, v)
    )


def pseudo_log_odds(scores_of: Sequence[Scores]) -> Array:
    """Log odds of each model by the normalised pseudo-likelihood, averaged over missing predictors and new groups."""

    def average(scores: Array, variances: Array) -> Array:
        # The same variance for all classes: the largest probability then belongs to the largest score.
        common = variances.mean(axis=1, keepdims=True)
        return hinge.averaged_log_odds(scores, np.broadcast_to(common, scores.shape))

    return _over_new_levels(scores_of, attrgetter("from_unknown"), average)


def _over_new_levels(
    scores_of: Sequence[Scores], variance: Callable[[Scores], Array], average: Callable[[Array, Array], Array]
) -> Array:
    """Log odds of probabilities averaged over normal scores and over the variances of new groups' effects."""
    scores, variances = (np.stack(list(map(part, scores_of)), axis=1) for part in (attrgetter("mean"), variance))
    odds = average(scores, variances)
    departures = [s.departures for s in scores_of if s.departures is not None]
    if not departures:
        return odds
    of_models = np.stack(departures, axis=2)  # rows × values × models
    new = of_models.any(axis=(1, 2))
    values = [average(scores[new], variances[new] + of_models[new, k]) for k in range(of_models.shape[1])]
    positive, negative = (np.logaddexp.reduce(log_expit(way * np.array(values)), axis=0) for way in (1.0, -1.0))
    odds[new] = positive - negative
    return odds


def probabilities(log_odds: Array) -> Array:
    """Class probabilities from log odds: of the second of two classes, or of each class against the rest."""
    return expit(_of_both(log_odds)) if log_odds.shape[1] == 1 else softmax(log_odds, axis=1)


def log_probabilities(log_odds: Array) -> Array:
    """Log probabilities, finite even if probabilities underflow."""
    return log_expit(_of_both(log_odds)) if log_odds.shape[1] == 1 else log_softmax(log_odds, axis=1)


def probability_interval(scores: Scores, link: Link | None, level: float) -> tuple[Array, Array]:
    """Ends of the interval of each row's probability of the second class: the link at quantiles of its score."""
    known = np.zeros_like(scores.mean)
    lower, upper = (
        probabilities(log_odds([Scores(_quantile(scores, chance), known, known)], [link]))[:, 1]
        for chance in (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    )
    return lower, upper


def _quantile(scores: Scores, chance: float) -> Array:
    """Quantile of each row's score: normal, or with a new group a mixture over the variances of its effects."""
    variances = scores.variance[:, None] + (0.0 if scores.departures is None else scores.departures)
    sd = np.sqrt(np.minimum(np.maximum(variances, 0.0), calibration.LARGEST_VARIANCE))
    ends = float(ndtri(chance)) * sd
    low, high = ends.min(axis=1), ends.max(axis=1)
    for _ in range(BISECTIONS if sd.shape[1] > 1 else 0):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.nanmean(ndtr(middle[:, None] / sd), axis=1) < chance
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return scores.mean + 0.5 * (low + high)


def _of_both(log_odds: Array) -> Array:
    return np.concatenate([-log_odds, log_odds], axis=1)


def table(mean: Array, sd: Array) -> "pd.DataFrame":
    """Table of means and standard deviations of scores, and the probability that each is positive."""
    import pandas as pd

    positive = ndtr(np.divide(mean, sd, out=np.copysign(np.inf, mean), where=sd > 0))
    return pd.DataFrame({"estimate": mean, "std_error": sd, "p_positive": positive})


def prior_covariances(plan: Plan, spec: Spec, state: State, k: int) -> Array:
    """Equally likely prior covariances of a new level of the k-th factor, with quantiles paired by a lattice."""
    n = len(MIDPOINTS)
    orders = [np.arange(n) * LATTICE[j % len(LATTICE)] % n for j in range(len(spec.blocks))]
    values = [scale.values_at(MIDPOINTS[order]) for order, scale in zip(orders, state.scales, strict=True)]
    return level_covariances(plan, spec, values, k)


def level_covariances(plan: Plan, spec: Spec, values: Sequence[Array], k: int) -> Array:
    """Covariances of the effects of a level of the k-th factor, from values of each block's variance or covariance.

    They are 0 between effects of different terms.
    """
    begin, q = plan.first_effects()[k], len(plan.factors[k].slopes)
    covariances = np.zeros((len(values[0]), q, q))
    for block, of_block in zip(spec.blocks, values, strict=True):
        effects = [columns.start - begin for columns in block.columns if 0 <= columns.start - begin < q]
        if effects:
            of_block = of_block if of_block.shape[1] > 1 else of_block * np.eye(len(effects))
            covariances[:, np.array(effects)[:, None], effects] = of_block
    return covariances


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A block of rows to predict, complete or incomplete: their indices, design and groups."""

    where: NDArray[np.intp]
    rows: Any
    design: Array
    groupings: tuple[Grouping, ...]


def _blocks_of(fit: "Fit", encoded: Encoded) -> Iterator[_Block]:
    return _sparse_blocks(fit.plan, encoded.table) if issparse(encoded.table) else _blocks(fit, encoded)


def _blocks(fit: "Fit", encoded: Encoded) -> Iterator[_Block]:
    plan = fit.plan
    n_rows, size = len(encoded.table), block_rows(plan.recipe.n_columns)
    work_space = plan.recipe.work_space(min(size, n_rows))
    groupings = list(map(Grouping.from_levels, plan.factors, encoded.levels))
    missing_inputs = None
    with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas():  # the caller looks at the scores
        for index, begin in enumerate(range(0, n_rows, size)):
            row_slice = slice(begin, min(begin + size, n_rows))
            nothing = np.broadcast_to(0.0, row_slice.stop - begin)  # neither labels nor weights have a say in scores
            design = plan.recipe.encode(encoded.table[row_slice], work_space)
            members = tuple(grouping.take(row_slice) for grouping in groupings)
            builder = RowBuilder(index, design, nothing, nothing, plan.recipe, plan.n_carried, members)
            row_index = np.arange(row_slice.start, row_slice.stop)
            population = fit._input_population if np.isnan(design.sum()) else None
            if population is None:
                yield _Block(row_index, builder.all_rows(), design, members)
                continue
            if missing_inputs is None:
                none, inputs = np.empty((n_rows, 0)), population.inputs  # any of which may be missing in new rows
                multipliers = none if encoded.multipliers is None else encoded.multipliers
                missing_inputs = MissingInputs(inputs, multipliers, np.zeros(len(inputs.variables)), none)
            builder = replace(builder, missing_inputs=missing_inputs.take(row_slice))
            for which, rows in builder.parts(builder.patterns()):
                yield _Block(row_index[which], rows, design[which], tuple(grouping.take(which) for grouping in members))


def _sparse_blocks(plan: Plan, table: Any) -> Iterator[_Block]:
    """Blocks of a sparse table, which has neither groups nor missing values."""
    n_rows, size = table.shape[0], block_rows(plan.recipe.n_columns)
    with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas():
        for index, begin in enumerate(range(0, n_rows, size)):
            raw: Any = csr_array(table[begin : begin + size], dtype=np.float64)
            matrix = SparseMatrix(raw, plan.recipe.centre, plan.recipe.scale, plan.recipe.intercept)
            nothing = np.broadcast_to(0.0, raw.shape[0])
            where = np.arange(begin, begin + raw.shape[0])
            yield _Block(where, DenseRows(index, matrix, nothing, nothing), np.empty((raw.shape[0], 0)), ())
