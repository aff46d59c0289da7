"""What the training rows add to ArviZ: labels, weights, and the log likelihood of each row in each draw."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.inference.gibbs import Sample
from vbsvm.results.training_rows import TrainingRows
from vbsvm.sources.distributed import Distributed

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


def observed(rows: TrainingRows | None) -> ObservedRows | None:
    """The rows of a fit, where they are at hand in memory."""
    if rows is None or isinstance(rows.source, Distributed):
        return None
    numbers, sorting = _in_order(rows)
    source, order = rows.source, rows.order[sorting]
    return ObservedRows(numbers[sorting], (source.signs[order] > 0).astype(np.intp), source.weights[order])


def _in_order(rows: TrainingRows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The user's number of each row of a pass, and what sorts them."""
    numbers = rows.order if rows.given is None else rows.given[rows.order]
    return numbers, np.argsort(numbers, kind="stable")


def log_likelihood(rows: TrainingRows | None, sample: Sample) -> Array:
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
    parts = source.total(lambda part: [np.stack([part.scores(theta, None) for theta in draws])])
    seen, (_, sorting) = observed(rows), _in_order(rows)
    assert seen is not None
    margins = np.concatenate(parts, axis=1)[:, sorting] * np.where(seen.labels > 0, 1.0, -1.0)
    normalised = rows.spec.likelihood.normalised
    found = -np.logaddexp(0.0, -margins) if normalised else -2.0 * np.maximum(1.0 - margins, 0.0)
    return (found * seen.weights).reshape(n_chains, n_draws, -1)
