"""What a fit says of rows: scores, classes and probabilities; of rows in a cluster when they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded
from vbsvm.missing.categories import FixedLevels, LevelDistributions
from vbsvm.missing.model import MissingModel
from vbsvm.results import prediction
from vbsvm.results.covariance import score_posterior
from vbsvm.results.prediction import Scores
from vbsvm.sources import cluster as collections

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

OF_ESTIMATOR = "This fit belongs to an estimator: use the methods of the estimator."


def read(fit: "Fit", data: Any, new_groups: str = "population") -> Encoded:
    """Rows as the columns of the fit; ``new_groups="error"`` refuses groups that were not seen."""
    if new_groups not in ("population", "error"):
        raise ValueError(f"new_groups must be 'population' or 'error'; got {new_groups!r}.")
    if isinstance(data, Encoded):
        encoded = data
    elif fit.reader is None:
        raise TypeError(OF_ESTIMATOR)
    else:
        encoded = fit.reader.read(data)
    unseen = encoded.first_unseen() if new_groups == "error" else None
    if unseen is not None:
        factor, row = unseen
        raise ValueError(
            f"The group of row {row} in {fit.plan.factors[factor].name!r} was not seen in fit. "
            "new_groups='population' gives such rows the population's score."
        )
    return encoded


def mean_scores(fit: "Fit", encoded: Encoded) -> Scores:
    """Scores with the coefficients at their means."""
    return _averaged(fit, prediction.mean_scores(fit, encoded), encoded)


def odds_scores(fit: "Fit", encoded: Encoded) -> Scores:
    """Scores that probabilities are made of: with the variance of the coefficients where they are averaged over it."""
    if not fit.spec.likelihood.normalised:
        return mean_scores(fit, encoded)
    return _averaged(fit, prediction.score_moments(fit, encoded, fit.posterior.state), encoded)


def score_moments(fit: "Fit", encoded: Encoded) -> Scores:
    """Means and variances of scores that tables show."""
    return _averaged(fit, prediction.score_moments(fit, encoded, score_posterior(fit).state), encoded)


def _averaged(fit: "Fit", found: Scores, encoded: Encoded) -> Scores:
    """Average over the levels of missing categories; an estimator looks at its scores itself."""
    if fit.reader is None:
        return found
    if encoded.candidates is not None:
        found = prediction.averaged(found, *_shares(fit, encoded.candidates, encoded.table))
    return prediction.require_finite(fit, found, encoded)


def _classes(fit: "Fit", encoded: Encoded) -> NDArray[Any]:
    return fit.classes[(mean_scores(fit, encoded).mean > 0).astype(np.intp)]


def _log_odds(fit: "Fit", encoded: Encoded) -> Array:
    return prediction.log_odds([odds_scores(fit, encoded)], [fit._link])


# By method: what a series of its answers is called, its answer without rows, and that for rows.
ANSWERS: "dict[str, tuple[str, Callable[[Fit], NDArray[Any]], Callable[[Fit, Encoded], NDArray[Any]]]]" = {
    "decision_function": ("score", lambda _: np.empty(0), lambda fit, rows: mean_scores(fit, rows).mean),
    "predict": ("class", lambda fit: fit.classes[:0], _classes),
    "predict_proba": (
        "probability",
        lambda _: np.empty((0, 2)),
        lambda fit, rows: prediction.probabilities(_log_odds(fit, rows)),
    ),
    "predict_log_proba": (
        "log probability",
        lambda _: np.empty((0, 2)),
        lambda fit, rows: prediction.log_probabilities(_log_odds(fit, rows)),
    ),
}


def answer(fit: "Fit", method: str, data: Any, new_groups: str) -> Any:
    """What a method gives for rows; for those in a cluster it is computed there when it is asked for."""
    name, example, compute = ANSWERS[method]
    if not collections.is_collection(data):
        return compute(fit, read(fit, data, new_groups))
    if collections.is_array(data):
        raise TypeError("data must be a data frame with named columns; got a dask array.")
    return PartAnswer(method, name, fit.classes, example(fit), {"new_groups": new_groups}).of(fit, data)


@final
@dataclass(frozen=True, eq=False)
class PartAnswer:
    """What a method of a model gives for a partition: with the index of a frame where it is one.

    ``example`` is its answer without rows, and ``name`` that of a series of its answers.
    """

    method: str
    name: str
    classes: NDArray[Any]
    example: NDArray[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, model: Any, block: Any) -> Any:
        """The answer for a partition, which may have no rows."""
        found = getattr(model, self.method)(block, **self.settings) if len(block) else self.example
        return self.framed(found, block.index) if hasattr(block, "index") else found

    def framed(self, values: Any, index: Any) -> Any:
        """Values of rows as a series, or as a frame with a column for each class."""
        import pandas as pd

        if values.ndim == 1:
            return pd.Series(values, index=index, name=self.name)
        return pd.DataFrame(values, index=index, columns=pd.Index(self.classes))

    def of(self, model: Any, data: Any) -> Any:
        """The answers for all partitions, which are not computed yet."""
        example = self.example if collections.is_array(data) else self.framed(self.example, data._meta.index)
        return collections.map_partitions_lazily(self, model, data, example)


def known_outcome(fit: "Fit", data: Any) -> NDArray[Any]:
    """The class of each row, by the outcome's column of the data; refuse what was no class in fit."""
    if fit.reader is None:
        raise TypeError(OF_ESTIMATOR)
    outcome = frames.take(data, [fit.reader.parts.outcome])[fit.reader.parts.outcome]
    labels, rest = outcome.to_numpy(), f"not {fit.classes[1]}"
    if fit.classes[0] == rest:
        labels = np.where(labels == fit.classes[1], fit.classes[1], fit.classes[0])
    unknown = ~np.isin(labels.astype(object), fit.classes.astype(object))
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(f"The outcome of row {row} is {labels[row]!r}; in fit there were {list(fit.classes)}.")
    return labels


def summed_slopes(fit: "Fit", encoded: Encoded, of_rows: Array) -> Array:
    """Cᵀu for each column u of ``of_rows``: how sums over rows answer to the coefficients of columns."""
    if encoded.candidates is not None:
        row, shares = _shares(fit, encoded.candidates, encoded.table)
        of_rows = shares[:, None] * of_rows[row]
    return prediction.cross(fit, encoded, of_rows)


def score_changes(fit: "Fit", encoded: Encoded, changes: Array) -> Array:
    """What changes of the columns' coefficients (each a row of ``changes``) add to the rows' scores."""
    found = prediction.scores_at(fit, encoded, changes)
    if encoded.candidates is None:
        return found
    _, shares = _shares(fit, encoded.candidates, encoded.table)
    return np.add.reduceat(shares[:, None] * found, encoded.candidates.firsts, axis=0)


def _shares(fit: "Fit", candidates: Candidates, table: NDArray[np.floating]) -> tuple[NDArray[np.intp], Array]:
    """The row of each candidate, and its share of that row."""
    return candidates.row, candidates.softmax(log_chances(fit, candidates, table))


def log_chances(
    fit: "Fit",
    candidates: Candidates,
    table: NDArray[np.floating],
    signs: Array | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Log probability of each candidate, whose label need not be known; of drawn parameters on request."""
    assert fit.reader is not None
    given = fixed_levels(fit)
    if given is not None:
        levels = given.without_labels if rng is None else given.draw(rng, labelled=signs is not None)
        return given.log_prob_of_table(levels, candidates, fit.plan.recipe, table, signs)
    learned = getattr(fit.posterior.state.missing, "levels", None)
    distributions = learned or LevelDistributions.from_concentrations(
        tuple(1.0 + one for one in fit.reader.categories.counts)
    )
    if rng is not None:
        return candidates.log_prob(distributions.draw(rng).logs)
    return candidates.log_prob(tuple(np.log(one / one.sum()) for one in distributions.concentrations))


def log_label_chances(fit: "Fit", encoded: Encoded, signs: Array) -> Array:
    """Log probability of these labels, for each candidate as if its values were known."""
    scores = prediction.mean_scores(fit, encoded)
    return log_expit(signs * prediction.log_odds([scores], [fit._link])[:, 0])


def fixed_levels(fit: "Fit") -> FixedLevels | None:
    """What missing categories depend on, where some were missing in fit."""
    missing = fit.spec.missing
    levels = missing.levels if isinstance(missing, MissingModel) else None
    return None if levels is None else levels.given
