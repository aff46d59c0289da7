"""Whether a selection can be relied on: do starts agree, and is it better than none at all?"""

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.task import Task
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.model.priors import LaplaceZero
from vbsvm.model.spec import State
from vbsvm.results.fit import Fit

# Bounds that differ by less are close: a Bayes factor of 20.
CLOSE = 3.0
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
