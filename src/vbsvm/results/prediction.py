"""Scores of rows under a fitted distribution: new groups and missing inputs included."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import block_rows, single_threaded_blas
from vbsvm.design.columns import Encoded, FactorPlan, Plan
from vbsvm.design.levels import UNSEEN
from vbsvm.missing.population import Population
from vbsvm.missing.row_updates import conditional_means, left_over
from vbsvm.missing.rows import IncompleteRows
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.interfaces import Message
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.grouping import Factor
from vbsvm.model.matrices import DenseMatrix
from vbsvm.model.spec import Spec, State


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Mean of each row's score, its variance, and the part of that which missing inputs and new groups cause."""

    mean: Array
    variance: Array
    from_unknown: Array


def mean_scores(plan: Plan, spec: Spec, state: State, encoded: Encoded, population: Population | None) -> Scores:
    """Moments of each row's score with the coefficients at their means."""
    return _scores(
        plan, PointDistribution(state.coefficients.mean).message(state.gates), spec, state, encoded, population
    )


def score_moments(plan: Plan, spec: Spec, state: State, encoded: Encoded, population: Population | None) -> Scores:
    """Mean and variance of each row's score; a group that was not seen in fit adds its prior variance zᵀE[Σ]z."""
    return _scores(plan, state.coefficients.message(state.gates), spec, state, encoded, population)


def _scores(
    plan: Plan, message: Message, spec: Spec, state: State, encoded: Encoded, population: Population | None
) -> Scores:
    of_new = [prior_covariance(plan, spec, state, k) for k in range(len(plan.factors))]
    found = Scores(*(np.zeros(len(encoded.table)) for _ in range(3)))
    for block in _blocks(plan, encoded, population):
        at, rows = block.where, block.rows
        if isinstance(rows, IncompleteRows):
            assert population is not None
            rows = rows.filled(conditional_means(rows, population.distribution))
        found.mean[at], found.variance[at] = message.row_moments(rows)
        if isinstance(block.rows, IncompleteRows) and population is not None:
            found.from_unknown[at] = left_over(block.rows, rows, message, population.distribution)
        for covariance, z in zip(of_new, block.unseen, strict=True):
            found.from_unknown[at] += _quadratic(z, covariance)
        found.variance[at] += found.from_unknown[at]
    return found


def _quadratic(z: Array, covariance: Array) -> Array:
    """zᵀΣz of each row; a distribution without a mean has infinite variances, in the rows with such effects alone."""
    finite = np.isfinite(covariance.diagonal())
    known = np.where(finite[:, None] & finite, covariance, 0.0)
    return np.einsum("iq,qr,ir->i", z, known, z) + np.where(z[:, ~finite].any(axis=1), np.inf, 0.0)


def require_finite(scores: Scores, encoded: Encoded, population: Population | None) -> Scores:
    """Refuse rows without a finite score: they have no class."""
    bad = ~(np.isfinite(scores.mean) & ~np.isnan(scores.from_unknown))
    if bad.any():
        row = int(np.argmax(bad))
        at = row if encoded.origin is None else int(np.argmax(encoded.origin == row))
        if population is None and np.isnan(encoded.table[at]).any():
            why = "it has missing inputs, and they are not inferred for so many columns: impute them first"
        else:
            why = "its values are too far from those seen in fit"
        raise ValueError(f"The score of row {row} is {scores.mean[row]}: {why}.")
    return scores


def averaged(scores: Scores, origin: NDArray[np.intp], chances: Array) -> Scores:
    """Scores of rows that were written out by level: moments of the mixture of their alternatives."""
    total = np.bincount(origin, chances)

    def mean(values: Array) -> Array:
        return np.bincount(origin, chances * values) / total

    centre = mean(scores.mean)
    between = np.maximum(mean(np.square(scores.mean)) - np.square(centre), 0.0)
    return Scores(centre, mean(scores.variance) + between, mean(scores.from_unknown) + between)


def prior_covariance(plan: Plan, spec: Spec, state: State, k: int) -> Array:
    """E[Σ] of the effects of a level of the k-th factor; zero between effects of different terms."""
    begin, q = plan.first_effects()[k], len(plan.factors[k].slopes)
    covariance = np.zeros((q, q))
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        places = [columns.start - begin for columns in block.columns if 0 <= columns.start - begin < q]
        if places:
            mean = scale.mean
            covariance[np.ix_(places, places)] = mean if isinstance(mean, np.ndarray) else mean * np.eye(len(places))
    return covariance


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Rows as in fitting, or with missing values; where they stand; for each factor z of its new levels, else zero."""

    where: NDArray[np.intp]
    rows: Any
    unseen: list[Array]


def _blocks(plan: Plan, encoded: Encoded, population: Population | None) -> Iterator[_Block]:
    n_rows, size = len(encoded.table), block_rows(plan.recipe.n_columns)
    design = plan.recipe.work_space(min(size, n_rows))
    with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas():  # the caller looks at the scores
        for index, begin in enumerate(range(0, n_rows, size)):
            where = np.arange(begin, min(begin + size, n_rows))
            filled = plan.recipe.encode(encoded.table[begin : where[-1] + 1], design)
            if population is None or not np.isnan(filled.sum()):
                yield _block(plan, encoded, where, filled)
                continue
            incomplete = np.isnan(filled[:, population.inputs.variables]).any(axis=1)
            if not incomplete.all():
                yield _block(plan, encoded, where[~incomplete], filled[~incomplete])
            if incomplete.any():
                yield _incomplete(plan, encoded, where[incomplete], filled[incomplete], population, index)


def _block(plan: Plan, encoded: Encoded, where: NDArray[np.intp], design: Array) -> _Block:
    nothing, fixed = np.zeros(len(where)), design[:, : plan.n_fixed]
    rows: Any = DenseRows(0, DenseMatrix(fixed, np.empty_like(fixed)), nothing, nothing)
    pairs = [
        _seen_and_new(factor, levels[where], design)
        for factor, levels in zip(plan.factors, encoded.levels, strict=True)
    ]
    if pairs:
        *factors, tail = (seen for seen, _ in pairs)
        rows = ArrowRows(rows, tuple(factors), tail)
    return _Block(where, rows, [new for _, new in pairs])


def _incomplete(
    plan: Plan, encoded: Encoded, where: NDArray[np.intp], design: Array, population: Population, index: int
) -> _Block:
    inputs = population.inputs
    multipliers = np.empty((len(where), 0)) if encoded.multipliers is None else encoded.multipliers[where]
    derived = plan.recipe.derived(multipliers, inputs.derived, inputs.variables[inputs.feeds])
    nothing = np.zeros(len(where))

    def make(filled: Array, part: Any) -> Any:
        return _block(plan, encoded, where[part], filled).rows

    rows = IncompleteRows.of(index, design, nothing, nothing, inputs, derived, make)
    unseen = _block(plan, encoded, where, rows.design).unseen
    return _Block(where, rows, unseen)


def _seen_and_new(plan: FactorPlan, levels: Any, design: Array) -> tuple[Factor, Array]:
    """The factor with z = 0 in rows of new levels, so that they add nothing; and z of those rows alone."""
    z, new = design[:, plan.slopes], levels == UNSEEN
    if not new.any():
        return Factor(levels, len(plan.levels), z, plan.slopes), np.zeros_like(z)
    return Factor(np.where(new, 0, levels), len(plan.levels), z * ~new[:, None], plan.slopes), z * new[:, None]
