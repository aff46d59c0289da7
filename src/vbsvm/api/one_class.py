"""A fitted model that assigns no training row to one of the classes, which nobody should have to find out alone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.candidates import Candidates
from vbsvm.results import prediction
from vbsvm.results.fit import Fit
from vbsvm.sources.distributed import Distributed, InMemory

# Rows that are scored first; twice as many next, until every class has been assigned.
FIRST_ROWS = 512
# Of rows that are read from disk, so many at most.
MOST_ROWS = 2**15
# Where a class has at least this share of the weight, larger weights are not the remedy.
EVEN = 0.45


class OneClassWarning(UserWarning):
    """No training row is assigned to one of the classes."""


def describe_unassigned(
    what: str, remedy: str, tasks: Sequence[Task], fits: Sequence[Fit], classes: NDArray[Any]
) -> str | None:
    """Say which classes no training row is assigned to, and what helps; None where each has some row.

    ``remedy`` says how classes are weighed; ``{own}`` and ``{others}`` in it become the weights that make them equal.
    """
    plan = tasks[0].plan
    if not plan.names and not plan.factors:  # an intercept alone knows one class only
        return None
    if tasks[0].spec.likelihood.normalised:  # a rare class may well be nowhere the likelier one
        return None
    unassigned = _unassigned(tasks, fits, len(classes))
    if not len(unassigned):
        return None
    label, named = classes[unassigned[0]], ", ".join(repr(str(classes[k])) for k in unassigned)
    said = (
        f"{what}: no row of the training data is assigned to class{'es' * (len(unassigned) > 1)} {named}. With a hinge "
        "loss, coefficients near 0 then do not mean that the inputs are unrelated to the outcome. "
    )
    share = _share(fits, int(unassigned[0]))
    if share >= EVEN:
        return f"{said}The classes already have similar weights: the inputs may say little about the outcome."
    weights = {"own": f"{0.5 / share:.3g}", "others": f"{0.5 / (1 - share):.3g}"}
    return f"{said}Give {str(label)!r} more weight: {remedy.format(**weights)}."


def _share(fits: Sequence[Fit], code: int) -> float:
    """Share of a class in the total weight."""
    facts = fits[0 if len(fits) == 1 else code].facts
    assert facts is not None
    return facts.share(positive=len(fits) > 1 or code == 1)


def _unassigned(tasks: Sequence[Task], fits: Sequence[Fit], n_classes: int) -> NDArray[np.intp]:
    """Numbers of the classes that no row of positive weight is assigned to."""
    source = tasks[0].source
    if not isinstance(source, Distributed):
        return np.flatnonzero(~_assigned_classes(tasks[0], fits, n_classes, source))
    alone = replace(tasks[0], source=source.like, sample_weights=None)
    return np.flatnonzero(~source.of_memories(partial(_assigned_classes, alone, fits, n_classes)))


def _assigned_classes(task: Task, fits: Sequence[Fit], n_classes: int, source: InMemory) -> NDArray[np.bool_]:
    """Which classes some row of a table is assigned to; rows are scored until all are."""
    task, seen = replace(task, source=source), np.zeros(n_classes, dtype=bool)
    begin, size = 0, FIRST_ROWS if source.candidates is None else source.X.shape[0]
    while begin < source.X.shape[0] and not seen.all():
        where = slice(begin, begin + size)
        found = [fit._mean_scores(task.encoded(where)) for fit in fits]
        scores = prediction.decision_values(found, [fit.calibration for fit in fits])
        counted = _counted(source.weights[where], source.candidates)
        seen[_assigned(scores)[counted]] = True
        if source.pages is not None:
            source.pages.seen(size * source.X.itemsize * source.X.shape[1])
        begin, size = begin + size, 2 * size if source.pages is None else min(2 * size, MOST_ROWS)
    return seen


def _assigned(scores: Array) -> NDArray[np.intp]:
    """Number of each row's class: by the sign of one score, or the largest of several."""
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)


def _counted(weights: Array, candidates: Candidates | None) -> NDArray[np.bool_]:
    """Which rows have a weight; candidates of one row count as that row."""
    return weights > 0 if candidates is None else np.bincount(candidates.row, weights) > 0
