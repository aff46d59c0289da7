"""Fits, and what users should know of them: how they ended, classes never predicted, and doubtful selections."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from vbsvm.api import likelihood_power, validation
from vbsvm.api.task import Task, fit_all
from vbsvm.base import diagnostics
from vbsvm.base.arrays import single_threaded_blas
from vbsvm.base.printing import ReliabilityWarning
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.inference.variational import Variational
from vbsvm.missing.model import input_model
from vbsvm.model.layouts.dense import DenseGram
from vbsvm.model.priors import LaplaceZero
from vbsvm.model.spec import State
from vbsvm.model.sweep import pass_rows
from vbsvm.results import prediction
from vbsvm.results.fit import Fit
from vbsvm.results.fit_predictions import mean_scores
from vbsvm.sources.distributed import Distributed, InMemory

# Rows that are scored first; twice as many next, until every class has been assigned.
FIRST_ROWS = 512
# Largest batch of rows that are read from disk.
MAX_ROWS_ON_DISK = 2**15
# Class weights are not advised if the class has at least this proportion of the weight.
BALANCED_SHARE = 0.45
# Bounds that differ by less are close: a Bayes factor of 20.
CLOSE_ELBO = 3.0
# Largest number of alternative predictors that are named.
MAX_NAMED = 3
# An effect is clear if it exceeds this many (mean-field) standard deviations.
CLEAR_Z = 10.0
# Prior inclusion probability of the null model.
NO_INCLUSION = 1e-300
NULL_FIT = Variational(tol=1e-2)


Remark: TypeAlias = tuple[str, type[Warning]]


def fit_tasks(
    owner: str,
    tasks: list[Task],
    inference: Variational | Gibbs,
    random_state: Any,
    power: float | str | None,
    remedy: str,
    starts: Sequence[State] | None = None,
) -> tuple[tuple[Fit, ...], list[Remark]]:
    """The fits of one model for each class, and what is to be warned of; ``remedy`` is that of ``_unassigned_message``.

    Fits to rows in a cluster are without these, so that they need no cluster, and release its memory.
    """
    with single_threaded_blas():  # once for all that follows
        tasks, messages = at_power(owner, tasks, power, inference)
        seed = validation.read_seed(random_state) if isinstance(inference, Gibbs) else 0
        fits = tuple(fit_all(tasks, inference, seed, starts))
        for task, fit in zip(tasks, fits, strict=True):
            messages += _selection_messages(owner, task, fit)
        if isinstance(tasks[0].source, Distributed):
            fits = tuple(fit._without_rows() for fit in fits)
        unassigned = _unassigned_message(owner, remedy, tasks, fits)
    endings = dict.fromkeys(message for fit in fits for message in convergence_messages(owner, fit, inference))
    return fits, [
        *((message, ConvergenceWarning) for message in endings),
        *((message, ReliabilityWarning) for message in dict.fromkeys(messages)),
        *([] if unassigned is None else [(unassigned, OneClassWarning)]),
        *((message, ReliabilityWarning) for fit in fits for message in _random_effects_messages(owner, fit)),
    ]


def at_power(
    owner: str, tasks: list[Task], power: float | str | None, inference: Variational | Gibbs
) -> tuple[list[Task], list[str]]:
    """Tasks at their likelihood powers, and messages about these; 1 without selection, unless requested."""
    if power is None and tasks[0].spec.gate_map is None:
        return tasks, []
    return likelihood_power.with_powers(owner, tasks, power, inference)


def convergence_messages(owner: str, fit: Fit, inference: Variational | Gibbs) -> list[str]:
    """Messages about convergence of the optimisation or mixing of the chains, with advice."""
    if isinstance(inference, Variational):
        return [] if fit.converged else [_convergence_message(owner, fit, inference)]
    if fit.history.separable:
        return [
            f"{owner}: complete separation: most draws separate the classes. Under this prior the posterior has heavy "
            "tails, and its means depend on the length of the chains. Use a tighter prior, such as Ridge(3, 3) or "
            "Normal(1.0), or inference=Variational(), which stays finite."
        ]
    worst = fit.worst_mixing()
    messages = [f"{owner} was interrupted after {fit.history.passes} sweeps."] if fit.interrupted else []
    if worst is not None:
        rhat = f"max R-hat {worst.rhat:.3f} ({worst.rhat_of!r}; should be at most {diagnostics.MAX_RHAT}), "
        n_tune = inference.n_tune(warm=inference.suits_warm_start(fit.spec))
        messages.append(
            f"{owner}: chains have not converged: {'' if np.isnan(worst.rhat) else rhat}min ESS {worst.ess:.0f} "
            f"({worst.ess_of!r}; should be at least {diagnostics.MIN_ESS}). Increase the number of draws, as with "
            f"Gibbs(draws={4 * int(inference.draws)}, tune={2 * n_tune}), or use only coefficients whose R-hat and ESS "
            "in the tables are sufficient."
        )
    return messages


def _random_effects_messages(owner: str, fit: Fit) -> list[str]:
    """Messages on variances that the data do not identify, and on random effects that could not be integrated out."""
    assert fit.facts is not None
    unreplicated = []
    for factor, sizes in zip(fit.plan.factors, fit.facts.group_sizes, strict=True):
        if len(sizes) == 1:
            unreplicated.append((factor.name, "one level only"))
        elif fit.facts.weights is None and (sizes == 1).all():
            unreplicated.append((factor.name, "one observation for each level"))
    messages = [
        f"{owner}: the grouping factor {name!r} has {why}, which does not determine the variance of its "
        "random effects: it depends on the prior. Leave this term out of the model."
        for name, why in unreplicated
    ]
    if not unreplicated and isinstance(fit.outcome, OptimizeResult) and fit.outcome.declined:
        messages.append(
            f"{owner}: the random effects of {fit.plan.factors[-1].name!r} could not be integrated out, as "
            "happens if levels have one or two observations, or very many, or if a predictor nearly separates the "
            "classes. Their standard deviations are then too small, and coefficients can be off by a posterior "
            "standard deviation: use inference=Gibbs()."
        )
    return messages


def _convergence_message(owner: str, fit: Fit, inference: Variational) -> str:
    """Message why the optimisation did not converge, with advice."""
    spec, history = fit.spec, fit.history
    if history.ending is Status.INTERRUPTED:
        return f"{owner} was interrupted after {history.passes} iterations: the coefficients may still change."
    more, out_of_passes = f"Variational(max_iter={10 * inference.most_passes(spec)})", Status.OUT_OF_PASSES
    inputs = input_model(spec.missing)
    if inputs is not None and history.ending in (Status.INPUTS_OUT_OF_PASSES, out_of_passes):
        learning = "while it estimated the distribution of the predictors"
        tried = f"in {history.passes} iterations" if history.ending is out_of_passes else learning
        return (
            f"{owner} did not converge {tried}: the coefficients may still change. There may be too few "
            "observations to estimate the covariance of predictors with missing values: use a stronger prior, as with "
            f"imputation=GaussianImputation(psi={10 * max(1.0, inputs.psi):g}), drop such predictors, or increase "
            f"max_iter with inference={more}."
        )
    if history.ending is out_of_passes:
        return (
            f"{owner} reached max_iter ({history.passes} iterations) before it converged to tol={inference.tol:g}: "
            f"the coefficients may still change. Increase max_iter with inference={more}, or use a larger tol."
        )
    return (
        f"{owner} stopped because of rounding errors: the coefficients are not at the optimum. Predictors have a large "
        "mean relative to their standard deviation, or are collinear under a nearly flat prior: centre and "
        "scale them (standardize=True with an intercept does this), drop the collinear ones, or use Ridge()."
    )


class OneClassWarning(UserWarning):
    """One of the classes is predicted for no training observation."""


def _unassigned_message(owner: str, remedy: str, tasks: Sequence[Task], fits: Sequence[Fit]) -> str | None:
    """Message on classes never predicted in training, or None; ``remedy`` has {own} and {others} for even weights."""
    plan, likelihood = tasks[0].plan, tasks[0].spec.likelihood
    # an intercept alone predicts one class only; under a likelihood a rare class may never be the more probable one
    if likelihood.normalised or not (plan.names or plan.factors):
        return None
    task, source = tasks[0], tasks[0].source
    classes = task.classes if len(tasks) == 1 else [task.classes[1] for task in tasks]
    if isinstance(source, Distributed):  # workers are sent nothing of the cluster
        task = replace(task, source=source.template, sample_weights=None)
    unassigned = np.flatnonzero(~source.sum_over_memories(partial(_assigned_classes, task, fits, len(classes))))
    if not len(unassigned):
        return None
    label, names = classes[unassigned[0]], ", ".join(repr(str(classes[k])) for k in unassigned)
    message = (
        f"{owner}: class{'es' * (len(unassigned) > 1)} {names} predicted for no training observation. With a hinge "
        "loss, coefficients near 0 then do not mean that the predictors are unrelated to the outcome. "
    )
    facts = fits[0 if len(fits) == 1 else unassigned[0]].facts
    assert facts is not None
    share = facts.share(positive=len(fits) > 1 or unassigned[0] == 1)
    if share >= BALANCED_SHARE:
        return f"{message}The classes already have similar weights: the predictors may be uninformative."
    weights = {"own": f"{0.5 / share:.3g}", "others": f"{0.5 / (1 - share):.3g}"}
    return f"{message}Give {str(label)!r} more weight: {remedy.format(**weights)}."


def _assigned_classes(task: Task, fits: Sequence[Fit], n_classes: int, source: InMemory) -> NDArray[np.bool_]:
    """Mask of the classes predicted for some row; rows are scored in batches until all are."""
    task, is_assigned = replace(task, source=source), np.zeros(n_classes, dtype=bool)
    begin, size = 0, FIRST_ROWS if source.candidates is None else source.X.shape[0]
    while begin < source.X.shape[0] and not is_assigned.all():
        rows = slice(begin, begin + size)
        scores_by_model = [mean_scores(fit, task.encoded(rows)) for fit in fits]
        scores = prediction.decision_values(scores_by_model, [fit.calibration for fit in fits])
        weights = source.weights[rows]
        if source.candidates is not None:  # they are merged into their row
            weights = np.bincount(source.candidates.row, weights)
        predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)
        is_assigned[predicted[weights > 0]] = True
        if source.pages is not None:
            source.pages.count_bytes(size * source.X.itemsize * source.X.shape[1])
        begin, size = begin + size, 2 * size if source.pages is None else min(2 * size, MAX_ROWS_ON_DISK)
    return is_assigned


def _selection_messages(owner: str, task: Task, fit: Fit) -> list[str]:
    """Messages about the reliability of a variational selection of predictors."""
    outcome = fit.outcome
    if not fit.selects or not isinstance(outcome, OptimizeResult) or outcome.interrupted:
        return []
    messages, selected = [], _selected(task, outcome.state)
    close = [end for end in outcome.others if outcome.bounds[-1] - end.bounds[-1] < CLOSE_ELBO]
    if any((_selected(task, end.state) != selected).any() for end in close):
        messages.append(
            f"{owner}: the selected predictors depend on the start: {len(close)} of {len(outcome.others)} other starts "
            f"ended with an ELBO within {CLOSE_ELBO:g} of the highest, and some of them select other predictors. "
            "Predictors may be correlated: report the alternatives (print the fit), or put such predictors into one "
            "group with LaplaceZero(groups=…)."
        )
    pairs = _exchangeable(task, outcome.state, selected)
    if pairs:
        named = [f"{task.plan.name_of(out)!r} for {task.plan.name_of(chosen)!r}" for chosen, out in pairs[:MAX_NAMED]]
        messages.append(
            f"{owner}: other predictors would do as well as {len(pairs)} of the selected ones: {', '.join(named)}"
            f"{', …' if len(pairs) > MAX_NAMED else ''} (exchanging them lowers the ELBO by less than {CLOSE_ELBO:g}). "
            "Inclusion probabilities cannot distinguish between them: report the alternatives, or put such "
            "predictors into one group with LaplaceZero(groups=…)."
        )
    gain = _elbo_gain(task, outcome, selected)
    if gain < CLOSE_ELBO:
        messages.append(
            f"{owner}: no evidence for the {np.count_nonzero(selected)} selected predictors: "
            f"the ELBO differs from that of the fit without predictors by {gain:+.1f}, and less than "
            f"{CLOSE_ELBO:+g} is weak evidence. Do not report this selection without a test on other data."
        )
    return messages


def _selected(task: Task, state: State) -> NDArray[np.bool_]:
    """Which inclusion indicators are above their prior's threshold."""
    assert state.gates is not None
    priors = [block.prior for block in task.spec.blocks for _ in range(block.n_gates)]
    return state.gates.inclusion > [prior.threshold for prior in priors if isinstance(prior, LaplaceZero)]


def _exchangeable(task: Task, state: State, selected: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Pairs (selected, unselected) whose exchange lowers the ELBO by less than ``CLOSE_ELBO``.

    The rows' quadratic terms are those of the fit: at other coefficients they are a lower bound, so that what is given
    here can be exchanged. Only predictors with an inclusion indicator of their own, and tables with a dense gram.
    """
    gates = task.spec.gate_map
    assert gates is not None
    stats = pass_rows(task.spec, state, task.source, mean_field)
    if not isinstance(stats.gram, DenseGram):
        return []
    has_own_gate = np.zeros(len(gates.gate_of), dtype=bool)
    has_own_gate[[members[0] for members in gates.members if len(members) == 1]] = True
    inside = ~gates.gated | np.append(selected, False)[gates.gate_of]
    chosen, outside = np.flatnonzero(inside), np.flatnonzero(has_own_gate & ~inside)
    if not len(outside):
        return []
    G, r, prior = stats.gram.matrix, stats.cross, task.spec.precision(state).diagonal
    covariance = np.linalg.inv(G[np.ix_(chosen, chosen)] + np.diag(prior[chosen]))
    pairs = []
    for j in np.flatnonzero(has_own_gate[chosen]):
        column, others = covariance[:, j], np.append(outside, chosen[j])
        without = covariance - np.outer(column, column) / column[j]
        links = G[np.ix_(others, chosen)]
        links[-1, j] = 0.0
        precision = G[others, others] + prior[chosen[j]] - np.einsum("kj,jl,kl->k", links, without, links)
        score = 0.5 * np.square(r[others] - links @ without @ r[chosen]) / precision - 0.5 * np.log(precision)
        best = int(np.argmax(score[:-1]))
        if score[-1] - score[best] < CLOSE_ELBO:
            pairs.append((int(chosen[j]), int(outside[best])))
    return pairs


def _elbo_gain(task: Task, outcome: OptimizeResult, selected: NDArray[np.bool_]) -> float:
    """ELBO minus that of the null model; infinite if nothing is selected or an effect is clear."""
    spec, state = task.spec, outcome.state
    assert spec.gate_map is not None
    inside = np.append(selected, False)[spec.gate_map.gate_of]
    sizes = np.abs(state.coefficients.mean) / np.sqrt(state.gaussian.variances)
    if not inside.any() or sizes[inside].max() > CLEAR_Z:
        return np.inf
    closed = spec.with_priors(
        lambda prior: replace(cast(LaplaceZero, prior), rho=NO_INCLUSION, expected_size=None, restarts=0)
    )
    end = NULL_FIT.run(closed, task.source, replace(closed.start(NO_INCLUSION), missing=state.missing)).finished()
    return float(outcome.bounds[-1] - end.bounds[-1])
