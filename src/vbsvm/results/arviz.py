"""Draws for other tools: ArviZ."""

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ignore_warnings
from vbsvm.inference.gibbs import Sample
from vbsvm.results.history import Traces, effects_of
from vbsvm.results.training_rows import TrainingRows
from vbsvm.sources.distributed import Distributed

OUTCOME, WEIGHTS = "outcome", "weights"
# No variable may have the name of a dimension, or of what the rows add.
_DIMENSIONS = ("chain", "draw", "term", "gate", "row", OUTCOME, WEIGHTS)


def posterior(traces: Traces) -> tuple[dict[str, Array], dict[str, list[str]]]:
    """Draws by variable name (chains × draws × …) on the user's scale, and their dimension names."""
    plan, spec, sample = traces.plan, traces.spec, traces.sample
    shown = plan.to_user_scale(sample.coefficients)
    draws, dimensions = {"coefficients": shown}, {"coefficients": ["term"]}
    if plan.recipe.intercept:
        draws["intercept"] = sample.coefficients[:, :, 0] - shown @ plan.recipe.centre[: plan.n_shown]
    if sample.gates is not None:
        draws["gates"] = sample.gates
        dimensions["gates"] = ["gate"]
    for block, values in zip(spec.blocks, sample.scales, strict=True):
        units = np.array([unit for _, unit in effects_of(plan, block)])
        q = math.isqrt(values.shape[2])
        if q > 1:
            draws[f"covariance of {block.name}"] = values.reshape(*values.shape[:2], q, q) * np.outer(units, units)
        elif np.ptp(values) > 0:
            draws[f"sd of {block.name}"] = np.sqrt(values[:, :, 0]) * units[0]
    for factor, first in zip(plan.factors, plan.first_effects(), strict=True):
        units = np.tile(plan.units(factor), len(factor.levels))
        name = f"groups of {factor.name}" if factor.name in (*draws, *_DIMENSIONS) else factor.name
        draws[name] = sample.coefficients[:, :, first : first + factor.size] * units
        dimensions[name] = [f"effects of {factor.name}"]
    return draws, dimensions


def to_arviz(traces: Traces, rows: TrainingRows | None = None, *, log_likelihood: bool = False) -> Any:
    """Convert draws to an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x).

    In addition to the group posterior there are observed_data and constant_data if the training data are in memory,
    and log_likelihood on request.
    """
    draws, dimensions = posterior(traces)
    coordinates: dict[str, Any] = {"term": list(traces.plan.shown_names)}
    if traces.sample.gates is not None:
        coordinates["gate"] = [str(k) for k in range(traces.sample.gates.shape[2])]
    groups: dict[str, dict[str, Any]] = {"posterior": draws}
    if log_likelihood:
        groups["log_likelihood"] = {OUTCOME: pointwise_log_likelihood(rows, traces.sample)}
    observed = observed_rows(rows)
    if observed is not None:
        _, coordinates["row"], labels, weights = observed
        groups |= {"observed_data": {OUTCOME: labels}, "constant_data": {WEIGHTS: weights}}
        dimensions |= {OUTCOME: ["row"], WEIGHTS: ["row"]}
    data = _assembled(groups, dimensions, coordinates)
    if log_likelihood and not traces.spec.likelihood.normalised:
        data["log_likelihood"].attrs["caveat"] = CAVEAT
    return data


def _assembled(groups: dict[str, dict[str, Any]], dims: dict[str, list[str]], coords: dict[str, Any]) -> Any:
    """Build the container of the installed ArviZ version."""
    if find_spec("arviz_base") is not None:  # ArviZ 1.x
        return import_module("arviz_base").from_dict(groups, dims=dims, coords=coords)
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'vbsvm[arviz]'.")
    with ignore_warnings(FutureWarning):  # about ArviZ's own future
        return import_module("arviz").from_dict(**groups, dims=dims, coords=coords)


# Chains × draws × rows: two gigabytes.
MAX_NUMBERS = 2**28
CAVEAT = (
    "The hinge loss is a pseudo-likelihood, not normalised: elpd by LOO or WAIC is not interpretable. Use "
    "vbsvm.compare_models, which compares models by predicted probabilities."
)


def observed_rows(
    rows: TrainingRows | None,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Array] | None:
    """Rows with positive weight in the order of the data: places in a pass, the user's numbers, labels, weights.

    A label of 1 is the positive class. None if the rows are not in memory.
    """
    if rows is None or isinstance(rows.source, Distributed):
        return None
    numbers = rows.order if rows.given is None else rows.given[rows.order]
    sorting = np.argsort(numbers, kind="stable")
    order = rows.order[sorting]
    return sorting, numbers[sorting], (rows.source.y[order] > 0).astype(np.intp), rows.source.weights[order]


def pointwise_log_likelihood(rows: TrainingRows | None, sample: Sample) -> Array:
    """Weighted log likelihood of each row, chains × draws × rows in the order of the data."""
    if rows is None or isinstance(rows.source, Distributed):
        raise ValueError("to_arviz: log_likelihood=True needs the training data, which saved models do not contain.")
    if rows.spec.missing is not None:
        raise ValueError("to_arviz: log_likelihood=True needs complete data: draws of missing values are not stored.")
    n_chains, n_draws, n = sample.coefficients.shape
    source = rows._unchanged
    if n_chains * n_draws * source.n_rows > MAX_NUMBERS:
        raise ValueError(
            f"to_arviz: log_likelihood=True needs {n_chains * n_draws} draws × {source.n_rows} rows; up to "
            f"{MAX_NUMBERS} numbers are supported. Use fewer draws."
        )
    draws = sample.coefficients.reshape(-1, n)
    parts = source.sum_parts(lambda part: [np.stack([part.scores(theta, None) for theta in draws])])
    observed = observed_rows(rows)
    assert observed is not None
    sorting, _, labels, weights = observed
    margins = np.concatenate(parts, axis=1)[:, sorting] * np.where(labels > 0, 1.0, -1.0)
    normalised = rows.spec.likelihood.normalised
    values = -np.logaddexp(0.0, -margins) if normalised else -2.0 * np.maximum(1.0 - margins, 0.0)
    return (values * weights).reshape(n_chains, n_draws, -1)
