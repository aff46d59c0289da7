"""Robust covariances where values are missing: those of completed tables, and what differs between these.

Rubin's rules with the estimate of the fit: the covariance is the mean of the sandwiches of completed tables, and
(1 + 1/m) times the covariance of the estimates that these have.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vbsvm.base.arrays import Array, RowSelection, single_threaded_blas
from vbsvm.design.candidates import Candidates
from vbsvm.inference.covariance.kinds import CovarianceEstimate, Covariances, curvature_stats
from vbsvm.inference.covariance.sandwich import Units
from vbsvm.inference.loop import OptimizeResult
from vbsvm.missing.imputation import ProperDraw
from vbsvm.missing.model import MissingModel, input_model
from vbsvm.missing.rows import design_rows
from vbsvm.missing.settings import NotAtRandom
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.sources.memory import Memory

# Completed tables.
TABLES = 20


def n_tables(candidates: Candidates | None) -> int:
    """Number of completed tables, at most that of the draws if columns are drawn."""
    if candidates is None or candidates.draws is None:
        return TABLES
    return min(TABLES, 1 + int(candidates.draws.max()))


def supports(spec: Spec) -> bool:
    """Whether values are missing at random, with an imputation model that does not depend on the coefficients."""
    inputs = input_model(spec.missing)
    selective = inputs is not None and isinstance(inputs.settings.mechanism, NotAtRandom)
    return isinstance(spec.missing, MissingModel) and spec.missing.fixed and not selective and spec.gate_map is None


def imputed_covariance(
    spec: Spec,
    outcome: OptimizeResult,
    source: Memory,
    draws: Sequence[ProperDraw | None],
    n: int,
    squares: Array | None,
    units: Units | None,
    by: str,
) -> CovarianceEstimate:
    """Robust covariance of the first n coefficients by multiple imputation; ``draws`` has one for each table.

    ``squares`` are s²/k of each row, of weight s and there k times, if class weights are among the source's own.
    """
    whole, state = replace(spec, missing=None, likelihood=outcome.likelihood), replace(outcome.state, missing=None)
    reliability = Covariances(spec, outcome.state, source, n).reliability
    rng, means, estimates = np.random.default_rng(len(draws)), [], []
    with single_threaded_blas():
        for number, draw in enumerate(draws):
            which = choose_candidates(source, number, rng)
            rows = complete_rows(source, draw, which, rng)
            squared = None if squares is None else replace(rows, weights=squares[which])
            completed = Covariances(whole, state, rows, n, squared=squared, units=units)
            estimates.append(estimate := completed.of("robust", by))
            if number == 0:  # further warnings than those of the rows, such as that clusters are few
                of_rows = len(completed.reliability.warnings)
                reliability = reliability.and_warnings(*estimate.reliability.warnings[of_rows:])
            means.append(estimate.mean if estimate.by == "response" else _newton_step(whole, state, rows)[:n])
    mean, (first, *_) = outcome.state.coefficients.mean[:n], estimates
    sandwiches = [estimate.covariance for estimate in estimates if estimate.covariance is not None]
    if len(sandwiches) < len(estimates):
        return CovarianceEstimate("robust", mean, None, reliability)
    between = (1 + 1 / len(means)) * np.atleast_2d(np.cov(np.stack(means).T))
    return replace(
        first, mean=mean, covariance=np.mean(sandwiches, axis=0) + between, reliability=reliability, between=between
    )


def _newton_step(spec: Spec, state: State, source: Source) -> Array:
    """Mean after a Newton step on these rows, with all else fixed."""
    stats, mean, precision = curvature_stats(spec, state, source), state.coefficients.mean, spec.precision(state)
    assert stats.curvature is not None
    gradient = stats.cross - stats.gram.times(mean) - precision.times(mean)
    return mean + stats.curvature.conditional(gradient, precision).mean


def complete_rows(source: Memory, draw: ProperDraw | None, which: RowSelection, rng: np.random.Generator) -> Memory:
    """These of the rows, as ``choose_candidates`` gives them, with drawn values for missing predictors."""
    chosen = source
    if source.candidates is not None:
        chosen = replace(source.take(which), candidates=None, known_levels=None)
    return chosen if chosen.missing_inputs is None or draw is None else _with_inputs(chosen, draw, rng)


def choose_candidates(source: Memory, number: int, rng: np.random.Generator) -> RowSelection:
    """Draw a candidate of each row, among those of the table's number, with drawn probabilities.

    All rows if there are no candidates.
    """
    candidates = source.candidates
    if candidates is None:
        return slice(None)
    distributions = source.fixed_levels
    assert distributions is not None
    levels = distributions.draw(rng, labelled=True)
    chances = distributions.log_prob_of_table(levels, candidates, source.recipe, source.X, source.y)
    return candidates.sample_one(np.where(candidates.in_completed_table(number, rng), chances, -np.inf), rng)


def _with_inputs(source: Memory, draw: ProperDraw, rng: np.random.Generator) -> Memory:
    assert source.missing_inputs is not None
    recipe, inputs, known = source.recipe, source.missing_inputs.inputs, source.missing_inputs
    variables, derived = inputs.variables - recipe.first, inputs.derived - recipe.first
    rows = np.flatnonzero(np.isnan(source.X[:, variables]).any(axis=1) & (source.weights > 0))
    design = design_rows(recipe, source.X[rows])
    missing = np.isnan(source.X[np.ix_(rows, variables)])
    values = draw.fill(design, known.auxiliary[rows], rng)[:, len(inputs.given) :] + missing * known.shift
    raw = recipe.centre[variables] + recipe.spread[variables] * values
    X = source.X.astype(np.float64)
    X[np.ix_(rows, variables)] = np.where(missing, raw, X[np.ix_(rows, variables)])
    for j, (column, of) in enumerate(zip(derived, inputs.feeds, strict=True)):
        X[rows, column] = np.where(missing[:, of], known.multipliers[rows, j] * raw[:, of], X[rows, column])
    return replace(source, X=X, missing_inputs=None)
