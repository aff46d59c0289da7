"""How a fit moves when missing values are shifted away from what the known inputs suggest: the tipping-point table."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vbsvm.api.problem import Task
from vbsvm.design.columns import INTERCEPT
from vbsvm.inference.variational import Variational
from vbsvm.missing.missingness import Shift, require_known
from vbsvm.missing.patterns import CHANGED
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

# The bound may have several optima. Fits follow one of them in steps of this size.
STEP = 0.25


def table(task: Task, inference: Variational, deltas: Sequence[float], columns: Sequence[str] | None) -> "pd.DataFrame":
    """One row for each shift: coefficients, and the share of complete rows whose class is not that without shift."""
    import pandas as pd

    holes, first = task.source.holes, int(task.plan.recipe.intercept)
    if holes is None:
        raise ValueError("sensitivity: no numeric input has missing values, so there is nothing to shift.")
    of_law = {task.plan.names[k - first] for k in holes.inputs.variables}
    missing = [name for name in task.completion.gaps.names if name in of_law]
    chosen = list(missing) if columns is None else list(columns)
    require_known("sensitivity", chosen, missing)
    wanted = sorted(set(np.atleast_1d(np.asarray(deltas, dtype=float)).tolist()))
    if not wanted or not np.isfinite(wanted).all():
        raise ValueError("sensitivity: deltas must be numbers, such as [-1, -0.5, 0, 0.5, 1].")
    plain = task.shifted(Shift(0.0)).fit(inference)
    found = {0.0: plain}
    for side in ([delta for delta in wanted if delta > 0], [delta for delta in reversed(wanted) if delta < 0]):
        fit = plain
        for before, after in pairwise([0.0, *side]):
            fit = found[after] = _follow(task, inference, fit, chosen, before, after)
    encoded = task.complete_rows()
    classes = plain.predict(encoded)
    rows = {delta: {**_coefficients(found[delta]), CHANGED: float(np.mean(found[delta].predict(encoded) != classes))}
            for delta in wanted}  # fmt: skip
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.index.name = "shift"
    frame.attrs["columns"] = chosen
    return frame


def _follow(task: Task, inference: Variational, fit: Fit, columns: list[str], before: float, after: float) -> Fit:
    """Go from one shift to another in small steps, each from where the last ended."""
    n_steps = int(np.ceil(abs(after - before) / STEP))
    for delta in np.linspace(before, after, n_steps + 1)[1:]:
        fit = task.shifted(Shift(dict.fromkeys(columns, float(delta)))).fit(inference, fit.outcome.state)
    return fit


def _coefficients(fit: Fit) -> dict[str, float]:
    names = fit.plan.names[: fit.plan.n_shown]
    return dict(zip((INTERCEPT, *names), (fit.intercept, *fit.coef), strict=True))
