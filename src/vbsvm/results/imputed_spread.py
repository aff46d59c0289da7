"""Robust spreads where values are missing: those of completed tables, and what differs between these.

Rubin's rules with the estimate of the fit: the covariance is the mean of the sandwiches of completed tables, and
(1 + 1/m) times the covariance of the estimates that these have.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.design.candidates import Candidates
from vbsvm.inference.curvature_spread import curvature_stats
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.sandwich import Units
from vbsvm.inference.spreads import Spread, Spreads
from vbsvm.missing.imputation import ProperDraw
from vbsvm.missing.model import MissingModel, input_model
from vbsvm.missing.settings import NotAtRandom
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.results.completed_rows import chosen_rows, completed
from vbsvm.sources.memory import Memory

# Completed tables.
TABLES = 20


def n_tables(candidates: Candidates | None) -> int:
    """How many completed tables are looked at: not more than there are draws where columns are drawn."""
    if candidates is None or candidates.draws is None:
        return TABLES
    return min(TABLES, 1 + int(candidates.draws.max()))


def suits(spec: Spec) -> bool:
    """Whether missing values have a distribution that coefficients do not change, and are missing at random."""
    inputs = input_model(spec.missing)
    selective = inputs is not None and isinstance(inputs.settings.mechanism, NotAtRandom)
    return isinstance(spec.missing, MissingModel) and spec.missing.fixed and not selective and spec.gate_map is None


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """What a completed table says: its estimate and its sandwich."""

    mean: Array
    spread: Spread


def imputed_spread(
    spec: Spec,
    outcome: OptimizeResult,
    source: Memory,
    draws: Sequence[ProperDraw | None],
    n: int,
    squares: Array | None,
    units: Units | None,
    by: str,
) -> Spread:
    """The robust spread of the first n coefficients; ``draws`` are those of the inputs, one for each table.

    ``squares`` are s²/k of each row, of weight s and there k times, if class weights are among the source's own.
    """
    whole, state = replace(spec, missing=None, likelihood=outcome.likelihood), replace(outcome.state, missing=None)
    told = Spreads(spec, outcome.state, source, n).reliability
    rng, answers = np.random.default_rng(len(draws)), []
    with single_threaded_blas():
        for number, draw in enumerate(draws):
            which = chosen_rows(source, number, rng)
            rows = completed(source, draw, which, rng)
            squared = None if squares is None else replace(rows, weights=squares[which])
            answers.append(_answer(Spreads(whole, state, rows, n, squared=squared, units=units), by))
    sandwiches = [one.spread.covariance for one in answers]
    mean = outcome.state.coefficients.mean[:n]
    found = [one for one in sandwiches if one is not None]
    if len(found) < len(answers):
        return Spread("robust", mean, None, told.and_warnings(answers[0].spread.reliability.warnings[-1]))
    between = (1 + 1 / len(answers)) * np.atleast_2d(np.cov(np.stack([one.mean for one in answers]).T))
    first = answers[0].spread
    covariance = np.mean(found, axis=0) + between
    return replace(first, mean=mean, covariance=covariance, reliability=told, between=between)


def _answer(spreads: Spreads, by: str) -> _Answer:
    spread = spreads.of("robust", by)
    if spread.by == "response":
        return _Answer(spread.mean, spread)
    return _Answer(_newton_step(spreads.spec, spreads.state, spreads.source)[: spreads.n], spread)


def _newton_step(spec: Spec, state: State, source: Source) -> Array:
    """The mean after a Newton step on these rows, all else held."""
    stats, mean, precision = curvature_stats(spec, state, source), state.coefficients.mean, spec.precision(state)
    assert stats.curvature is not None
    gradient = stats.cross - stats.gram.times(mean) - precision.times(mean)
    return mean + stats.curvature.conditional(gradient, precision).mean
