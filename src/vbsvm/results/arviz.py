"""Draws for other tools: ArviZ."""

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ignored
from vbsvm.results import pointwise
from vbsvm.results.traces import Traces, effects_of
from vbsvm.results.training_rows import TrainingRows

OUTCOME, WEIGHTS = "outcome", "weights"
# No variable may have the name of a dimension, or of what the rows add.
_DIMENSIONS = ("chain", "draw", "term", "gate", "row", OUTCOME, WEIGHTS)


def posterior(traces: Traces) -> tuple[dict[str, Array], dict[str, list[str]]]:
    """Draws by name, chains × draws × …, on the scale of the user's columns; and which dimensions they have."""
    plan, spec, sample = traces.plan, traces.spec, traces.sample
    shown = plan.to_user_scale(sample.coefficients)
    found, dimensions = {"coefficients": shown}, {"coefficients": ["term"]}
    if plan.recipe.intercept:
        found["intercept"] = sample.coefficients[:, :, 0] - shown @ plan.recipe.centre[: plan.n_shown]
    if sample.gates is not None:
        found["gates"] = sample.gates
        dimensions["gates"] = ["gate"]
    for block, values in zip(spec.blocks, sample.scales, strict=True):
        units = np.array([unit for _, unit in effects_of(plan, block)])
        q = math.isqrt(values.shape[2])
        if q > 1:
            found[f"covariance of {block.name}"] = values.reshape(*values.shape[:2], q, q) * np.outer(units, units)
        elif np.ptp(values) > 0:
            found[f"sd of {block.name}"] = np.sqrt(values[:, :, 0]) * units[0]
    for factor, first in zip(plan.factors, plan.first_effects(), strict=True):
        units = np.tile(plan.units(factor), len(factor.levels))
        name = f"groups of {factor.name}" if factor.name in (*found, *_DIMENSIONS) else factor.name
        found[name] = sample.coefficients[:, :, first : first + factor.size] * units
        dimensions[name] = [f"effects of {factor.name}"]
    return found, dimensions


def to_arviz(traces: Traces, rows: TrainingRows | None = None, *, log_likelihood: bool = False) -> Any:
    """An InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x).

    Beside the group posterior there are observed_data and constant_data where the rows of the fit are at hand, and
    log_likelihood where it is asked for.
    """
    draws, dimensions = posterior(traces)
    coordinates: dict[str, Any] = {"term": list(traces.plan.shown_names)}
    if traces.sample.gates is not None:
        coordinates["gate"] = [str(k) for k in range(traces.sample.gates.shape[2])]
    groups: dict[str, dict[str, Any]] = {"posterior": draws}
    if log_likelihood:
        groups["log_likelihood"] = {OUTCOME: pointwise.log_likelihood(rows, traces.sample)}
    seen = pointwise.observed(rows)
    if seen is not None:
        groups |= {"observed_data": {OUTCOME: seen.labels}, "constant_data": {WEIGHTS: seen.weights}}
        dimensions |= {OUTCOME: ["row"], WEIGHTS: ["row"]}
        coordinates["row"] = seen.numbers
    found = _assembled(groups, dimensions, coordinates)
    if log_likelihood and not traces.spec.likelihood.normalised:
        found["log_likelihood"].attrs["caveat"] = pointwise.CAVEAT
    return found


def _assembled(groups: dict[str, dict[str, Any]], dims: dict[str, list[str]], coords: dict[str, Any]) -> Any:
    """The groups as the installed ArviZ holds them."""
    if find_spec("arviz_base") is not None:  # ArviZ 1.x
        return import_module("arviz_base").from_dict(groups, dims=dims, coords=coords)
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'vbsvm[arviz]'.")
    with ignored(FutureWarning):  # about ArviZ's own future
        return import_module("arviz").from_dict(**groups, dims=dims, coords=coords)
