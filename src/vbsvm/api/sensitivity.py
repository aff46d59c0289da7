"""Sensitivity of a fit to shifts of missing values from their imputed values: the tipping-point table."""

import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vbsvm.api.fit_warnings import at_power, convergence_messages
from vbsvm.api.task import Task, read_inference
from vbsvm.base.settings import is_number, is_within
from vbsvm.design.columns import INTERCEPT
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.missing.imputation import CHANGED
from vbsvm.missing.settings import Shift, check_known
from vbsvm.model.spec import State
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

# Step between warm-started fits, which follow one optimum of the ELBO.
STEP = 0.25
# Shifts are in standard deviations: further out nothing is left to learn, and every quarter of one is a fit.
MAX_SHIFT = 100.0
MAX_SHIFTS = 10_000


def table(
    owner: str,
    tasks: list[Task],
    given: Variational | Gibbs | str | None,
    power: float | str | None,
    deltas: Sequence[float],
    columns: Sequence[str] | None,
) -> "pd.DataFrame":
    """One row for each shift: coefficients, and the proportion of complete rows whose predicted class changes."""
    import pandas as pd

    inference = read_inference(given)
    if isinstance(inference, Gibbs):
        raise ValueError("sensitivity is only available for variational fits: use inference=Variational().")
    (task,), _ = at_power(owner, tasks, power, inference)
    missing_inputs, patterns = task.source.missing_inputs, task.missing_data.patterns
    if missing_inputs is None or patterns is None:
        raise ValueError(
            "sensitivity: no numeric predictor has missing values (those of columns that are drawn, as in s(x), are "
            "not shifted), so there is nothing to shift."
        )
    of_distribution = {task.plan.name_of(k) for k in missing_inputs.inputs.variables}
    missing = [name for name in patterns.names if name in of_distribution]
    wanted, chosen = _read_shifts(deltas), _read_columns(columns, missing)
    unshifted = _fit_at_shift(task, inference, Shift(0.0))
    fits = {0.0: unshifted}
    for side in ([delta for delta in wanted if delta > 0], [delta for delta in reversed(wanted) if delta < 0]):
        fit = unshifted
        for before, after in pairwise([0.0, *side]):
            fit = fits[after] = _continue_to(task, inference, fit, chosen, before, after)
    failed = [delta for delta in wanted if not fits[delta].converged]
    if failed:
        reason = convergence_messages("sensitivity", fits[failed[0]], inference)[0]
        message = f"{len(failed)} of {len(wanted)} fits did not converge, as at a shift of {failed[0]:g}. {reason}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    encoded, shown = task.complete_rows(), [fits[delta] for delta in wanted]
    changed = np.array([fit.predict(encoded) for fit in shown]) != unshifted.predict(encoded)
    index, names = pd.Index(wanted, name="shift"), [INTERCEPT, *task.plan.shown_names]
    frame = pd.DataFrame([[fit.intercept, *fit.coef] for fit in shown], index, names)
    frame[CHANGED] = pd.DataFrame(changed, index).mean(axis=1)
    frame.attrs["columns"] = chosen
    return frame


def _read_shifts(deltas: Sequence[float]) -> list[float]:
    """Validated shifts, sorted and unique."""
    values = np.asarray(deltas, dtype=object).ravel().tolist()
    if not values or not all(is_number(value) for value in values):
        raise ValueError(f"sensitivity: deltas must be numbers, such as [-1, -0.5, 0, 0.5, 1]; got {deltas!r}.")
    far = [value for value in values if not is_within(value, -MAX_SHIFT, MAX_SHIFT)]
    if far:
        raise ValueError(
            f"sensitivity: deltas are shifts in standard deviations, from {-MAX_SHIFT:g} to {MAX_SHIFT:g}; got "
            f"{far[0]!r}."
        )
    wanted = sorted({float(value) for value in values})
    if len(wanted) > MAX_SHIFTS:
        raise ValueError(
            f"sensitivity: {len(wanted)} deltas are given, and each is a fit; up to {MAX_SHIFTS} are taken."
        )
    return wanted


def _read_columns(columns: Sequence[str] | None, missing: list[str]) -> list[str]:
    """The columns to shift: all that miss values, unless some are named."""
    if columns is None:
        return missing
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"sensitivity: columns must be a list of column names; got {columns!r}.")
    chosen = list(columns)
    if not chosen:
        raise ValueError(f"sensitivity: columns is empty; columns with missing values are {missing}.")
    check_known("sensitivity", chosen, missing)
    return chosen


def _continue_to(task: Task, inference: Variational, fit: Fit, columns: list[str], before: float, after: float) -> Fit:
    """Fit from one shift to another in small steps, each started from the last."""
    n_steps = int(np.ceil(abs(after - before) / STEP))
    for delta in np.linspace(before, after, n_steps + 1)[1:]:
        fit = _fit_at_shift(task, inference, Shift(dict.fromkeys(columns, float(delta))), fit.outcome.state)
    return fit


def _fit_at_shift(task: Task, inference: Variational, shift: Shift, start: State | None = None) -> Fit:
    """The fit at a shift; Ctrl-C ends the whole table."""
    shifted = task.shifted(shift)
    fit = shifted.result(shifted.optimize(inference, start), inference=inference)
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit
