"""A fit that begins where the last one ended, with columns as the new rows standardise them."""

from collections.abc import Sequence

import numpy as np

from vbsvm.api.task import Task
from vbsvm.design.scaling import Recipe
from vbsvm.inference.loop import OptimizeResult
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.spec import State
from vbsvm.results.fit import Fit


def starts(fits: Sequence[Fit], tasks: Sequence[Task]) -> list[State] | None:
    """Where each climb may begin; None where the last fits are of another kind: then the usual start serves."""
    found = [_start(fit, task) for fit, task in zip(fits, tasks, strict=False)]
    if len(fits) != len(tasks) or any(state is None for state in found):
        return None
    return [state for state in found if state is not None]


def _start(fit: Fit, task: Task) -> State | None:
    """The end of a fit in the units of another task, for models of complete columns without gates and groups."""
    old, new, outcome = fit.plan.recipe, task.plan.recipe, fit.outcome
    if not isinstance(outcome, OptimizeResult) or not isinstance(outcome.state.coefficients, DenseGaussian):
        return None
    same = fit.plan.names == task.plan.names and _blocks(fit) == _blocks(task) and old.intercept == new.intercept
    plain = fit.spec.missing is task.spec.missing is task.spec.gate_map is None and not task.plan.factors
    if not same or not plain or not np.isfinite([old.scale, new.scale]).all():
        return None
    return outcome.state.moved(_moved(outcome.state.coefficients, old, new))


def _blocks(model: Fit | Task) -> list[str]:
    return [f"{block.name}: {block.prior!r}, {block.columns}" for block in model.spec.blocks]


def _moved(distribution: DenseGaussian, old: Recipe, new: Recipe) -> DenseGaussian:
    """The same distribution of scores, for columns in other units: the slopes change theirs, the intercept follows."""
    M = np.diag(np.concatenate([np.ones(new.first), new.scale / old.scale]))
    if new.intercept:
        M[0, 1:] = (new.centre - old.centre) / old.scale
    return DenseGaussian(M @ distribution.mean, M @ distribution.root)
