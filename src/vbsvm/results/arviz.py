"""Draws for other tools: ArviZ."""

import math
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.results.traces import Traces, effects_of

# No variable may have the name of a dimension.
_DIMENSIONS = ("chain", "draw", "term", "gate")


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


def to_arviz(traces: Traces) -> Any:
    """An InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x) with the group posterior."""
    draws, dimensions = posterior(traces)
    coordinates = {"term": list(traces.plan.shown_names)}
    if traces.sample.gates is not None:
        coordinates["gate"] = [str(k) for k in range(traces.sample.gates.shape[2])]
    if find_spec("arviz_base") is not None:  # ArviZ 1.x
        return import_module("arviz_base").from_dict({"posterior": draws}, dims=dimensions, coords=coordinates)
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'vbsvm[arviz]'.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about ArviZ's own future
        return import_module("arviz").from_dict(posterior=draws, dims=dimensions, coords=coordinates)
