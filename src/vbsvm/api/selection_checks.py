"""Whether a selection can be relied on: do starts agree, would others do as well, and is it better than none at all?"""

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.task import Task
from vbsvm.base.reading import expect
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.model.layouts.dense import DenseGram
from vbsvm.model.priors import LaplaceZero
from vbsvm.model.spec import State
from vbsvm.model.sweep import pass_rows
from vbsvm.results.fit import Fit

# Bounds that differ by less are close: a Bayes factor of 20.
CLOSE = 3.0
# So many predictors that would do as well are named.
MOST_NAMED = 3
# A coefficient of so many standard deviations, which are those of mean field, is no noise.
SURE = 10.0
# A prior probability of inclusion that leaves everything out.
NEVER = 1e-300
CLOSED_FIT = Variational(tol=1e-2)


def selection_remarks(owner: str, task: Task, fit: Fit) -> list[str]:
    """What users should know of the selected predictors of a variational fit."""
    outcome = fit.outcome
    if not fit.selects or not isinstance(outcome, OptimizeResult) or outcome.interrupted:
        return []
    found, best = [], _selected(task, outcome.state)
    close = [end for end in outcome.others if outcome.bounds[-1] - end.bounds[-1] < CLOSE]
    if any((_selected(task, end.state) != best).any() for end in close):
        found.append(
            f"{owner}: the selected predictors depend on the start: {len(close)} of {len(outcome.others)} other starts "
            f"ended with an ELBO within {CLOSE:g} of the highest, and some of them select other predictors. Predictors "
            "may be correlated: report the alternatives (print the fit), or put such predictors into one group with "
            "LaplaceZero(groups=…)."
        )
    pairs = _exchangeable(task, outcome.state, best)
    if pairs:
        named = [f"{task.plan.name_of(out)!r} for {task.plan.name_of(chosen)!r}" for chosen, out in pairs[:MOST_NAMED]]
        found.append(
            f"{owner}: other predictors would do as well as {len(pairs)} of the selected ones: {', '.join(named)}"
            f"{', …' if len(pairs) > MOST_NAMED else ''} (exchanging them lowers the ELBO by less than {CLOSE:g}). "
            "Inclusion probabilities do not tell which of them matters: report the alternatives, or put such "
            "predictors into one group with LaplaceZero(groups=…)."
        )
    gain = _gain(task, outcome, best)
    if gain < CLOSE:
        found.append(
            f"{owner}: nothing distinguishes the selected predictors ({np.count_nonzero(best)}) from noise: the ELBO "
            f"differs from that of the fit without predictors by {gain:+.1f}, and less than {CLOSE:+g} is weak "
            "evidence. Do not report this selection without a test on other data."
        )
    return found


def _selected(task: Task, state: State) -> NDArray[np.bool_]:
    """Which inclusion indicators are above their prior's threshold."""
    assert state.gates is not None
    priors = [block.prior for block in task.spec.blocks for _ in range(block.n_gates)]
    return state.gates.inclusion > [prior.threshold for prior in priors if isinstance(prior, LaplaceZero)]


def _exchangeable(task: Task, state: State, selected: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Selected columns, each with the best one outside, where exchanging the two hardly lowers the bound.

    The rows' quadratic terms are those of the fit: at other coefficients they are a lower bound, so that what is given
    here can be exchanged. Only predictors with an inclusion indicator of their own, and tables with a dense gram.
    """
    gates = task.spec.gate_map
    assert gates is not None
    stats = pass_rows(task.spec, state, task.source, expect)
    if not isinstance(stats.gram, DenseGram):
        return []
    own = np.zeros(len(gates.gate_of), dtype=bool)
    own[[members[0] for members in gates.members if len(members) == 1]] = True
    inside = ~gates.gated | np.append(selected, False)[gates.gate_of]
    chosen, outside = np.flatnonzero(inside), np.flatnonzero(own & ~inside)
    if not len(outside):
        return []
    G, r, prior = stats.gram.matrix, stats.cross, task.spec.precision(state).diagonal
    covariance = np.linalg.inv(G[np.ix_(chosen, chosen)] + np.diag(prior[chosen]))
    found = []
    for j in np.flatnonzero(own[chosen]):
        column, others = covariance[:, j], np.append(outside, chosen[j])
        without = covariance - np.outer(column, column) / column[j]
        links = G[np.ix_(others, chosen)]
        links[-1, j] = 0.0
        precision = G[others, others] + prior[chosen[j]] - np.einsum("kj,jl,kl->k", links, without, links)
        score = 0.5 * np.square(r[others] - links @ without @ r[chosen]) / precision - 0.5 * np.log(precision)
        best = int(np.argmax(score[:-1]))
        if score[-1] - score[best] < CLOSE:
            found.append((int(chosen[j]), int(outside[best])))
    return found


def _gain(task: Task, outcome: OptimizeResult, selected: NDArray[np.bool_]) -> float:
    """How far the bound lies above that without predictors; infinite where nothing is selected, or it is plain."""
    spec, state = task.spec, outcome.state
    assert spec.gate_map is not None
    inside = np.append(selected, False)[spec.gate_map.gate_of]
    sizes = np.abs(state.coefficients.mean) / np.sqrt(state.gaussian.variances)
    if not inside.any() or sizes[inside].max() > SURE:
        return np.inf
    closed = spec.with_priors(
        lambda prior: replace(cast(LaplaceZero, prior), rho=NEVER, expected_size=None, restarts=0)
    )
    end = CLOSED_FIT.run(closed, task.source, replace(closed.start(NEVER), missing=state.missing)).finished()
    return float(outcome.bounds[-1] - end.bounds[-1])
