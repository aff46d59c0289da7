"""Draws for other tools: ArviZ."""

import math
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

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
        groups["log_likelihood"] = {OUTCOME: pointwise_log_likelihood(rows, traces.sample)}
    seen = observed_rows(rows)
    if seen is not None:
        groups |= {"observed_data": {OUTCOME: seen.labels}, "constant_data": {WEIGHTS: seen.weights}}
        dimensions |= {OUTCOME: ["row"], WEIGHTS: ["row"]}
        coordinates["row"] = seen.numbers
    found = _assembled(groups, dimensions, coordinates)
    if log_likelihood and not traces.spec.likelihood.normalised:
        found["log_likelihood"].attrs["caveat"] = CAVEAT
    return found


def _assembled(groups: dict[str, dict[str, Any]], dims: dict[str, list[str]], coords: dict[str, Any]) -> Any:
    """The groups as the installed ArviZ holds them."""
    if find_spec("arviz_base") is not None:  # ArviZ 1.x
        return import_module("arviz_base").from_dict(groups, dims=dims, coords=coords)
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'vbsvm[arviz]'.")
    with ignore_warnings(FutureWarning):  # about ArviZ's own future
        return import_module("arviz").from_dict(**groups, dims=dims, coords=coords)


# Chains × draws × rows: two gigabytes.
MOST_NUMBERS = 2**28
CAVEAT = (
    "The hinge loss is no normalised likelihood: these are logs of a pseudo-likelihood, and elpd by LOO or WAIC has no "
    "absolute meaning. vbsvm.compare_models compares models by predicted probabilities instead."
)


@final
@dataclass(frozen=True, eq=False)
class ObservedRows:
    """Rows of the user's data that count, in their order: numbers, labels (1 is the positive class) and weights."""

    numbers: NDArray[np.intp]
    labels: NDArray[np.intp]
    weights: Array


def observed_rows(rows: TrainingRows | None) -> ObservedRows | None:
    """The rows of a fit, where they are at hand in memory."""
    if rows is None or isinstance(rows.source, Distributed):
        return None
    numbers, sorting = _in_order(rows)
    source, order = rows.source, rows.order[sorting]
    return ObservedRows(numbers[sorting], (source.y[order] > 0).astype(np.intp), source.weights[order])


def _in_order(rows: TrainingRows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The user's number of each row of a pass, and what sorts them."""
    numbers = rows.order if rows.given is None else rows.given[rows.order]
    return numbers, np.argsort(numbers, kind="stable")


def pointwise_log_likelihood(rows: TrainingRows | None, sample: Sample) -> Array:
    """Logs of each row's likelihood to the power of its weight, chains × draws × rows in the order of the data."""
    if rows is None or isinstance(rows.source, Distributed):
        raise ValueError("to_arviz: log_likelihood=True needs the rows of the fit, which a loaded one does not hold.")
    if rows.spec.missing is not None:
        raise ValueError("to_arviz: log_likelihood=True needs complete inputs: missing values are not kept with draws.")
    n_chains, n_draws, n = sample.coefficients.shape
    source = rows._unchanged
    if n_chains * n_draws * source.n_rows > MOST_NUMBERS:
        raise ValueError(
            f"to_arviz: log_likelihood=True would make numbers of {n_chains * n_draws} draws × {source.n_rows} rows; "
            f"up to {MOST_NUMBERS} are made. Ask for fewer draws."
        )
    draws = sample.coefficients.reshape(-1, n)
    parts = source.sum_parts(lambda part: [np.stack([part.scores(theta, None) for theta in draws])])
    seen, (_, sorting) = observed_rows(rows), _in_order(rows)
    assert seen is not None
    margins = np.concatenate(parts, axis=1)[:, sorting] * np.where(seen.labels > 0, 1.0, -1.0)
    normalised = rows.spec.likelihood.normalised
    found = -np.logaddexp(0.0, -margins) if normalised else -2.0 * np.maximum(1.0 - margins, 0.0)
    return (found * seen.weights).reshape(n_chains, n_draws, -1)
