"""What a fit says of rows: scores, classes and probabilities; of rows in a cluster when they are asked for.

Predictions of rows in files are written to a file piece by piece: neither need fit in memory.
"""

import csv
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ParamSpec, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import warn_user
from vbsvm.base.settings import check_level
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import UNSEEN, Encoded
from vbsvm.design.formula.missing_inputs import columns_in
from vbsvm.design.values import did_you_mean, join_names
from vbsvm.missing.categories import FixedLevels, LevelDistributions
from vbsvm.missing.imputation import with_index
from vbsvm.missing.model import MissingModel
from vbsvm.model.spec import State
from vbsvm.results import prediction, tables
from vbsvm.results.comparison.leave_one_out import leave_one_out
from vbsvm.results.comparison.models import LeftOutPredictions
from vbsvm.results.covariance import score_posterior
from vbsvm.results.prediction import Scores
from vbsvm.sources import cluster as collections
from vbsvm.sources.files import PARQUET, Files, ParquetWriter
from vbsvm.sources.files import TEXT as ENDINGS
from vbsvm.sources.files_text import TEXT, TRUTH, WHOLE_NUMBERS
from vbsvm.storage.atomic import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader
    from vbsvm.results.fit import Fit

P = ParamSpec("P")
R = TypeVar("R")
# The random effects of rows: of their groups where the fit knows them; all of new groups; unseen groups are refused.
GROUPS = KNOWN, NEW, ERROR = ("known", "new", "error")
OF_ESTIMATOR = "This fit belongs to an estimator: use the methods of the estimator."


def accepts_new_groups(method: Callable[P, R]) -> Callable[P, R]:
    """A method that accepts ``new_groups="population"`` or ``"error"``, as ``groups=`` was called, with a warning."""

    @wraps(method)
    def renamed(*args: Any, **settings: Any) -> R:
        if "new_groups" in settings:
            if "groups" in settings:
                raise TypeError(f"{method.__name__}: new_groups is the earlier name of groups: give groups alone.")
            earlier = settings.pop("new_groups")
            settings["groups"] = KNOWN if earlier == "population" else earlier
            message = f"{method.__name__}: new_groups={earlier!r} is now groups={settings['groups']!r}"
            warn_user(f"{message}; the old form will go.", FutureWarning)
        return method(*args, **settings)

    return renamed


def check_groups(what: str, groups: str) -> str:
    """Check and return ``groups``; "observed" is the earlier name of "known"."""
    if groups == "observed":
        warn_user(f"{what}: groups='observed' is now groups='known'; the old form will go.", FutureWarning)
        return KNOWN
    if groups not in GROUPS:
        raise ValueError(f"{what}: groups must be 'known', 'new' or 'error'; got {groups!r}.")
    return groups


def with_groups(fit: "Fit", encoded: Encoded, groups: str) -> Encoded:
    """Rows of known and new groups as they are, or with all groups new; or raise if a group was not seen in fit."""
    if groups == NEW:
        return replace(encoded, levels=tuple(np.full_like(levels, UNSEEN) for levels in encoded.levels))
    for factor, levels in zip(fit.plan.factors, encoded.levels, strict=True) if groups == ERROR else ():
        if len(rows := np.flatnonzero(levels == UNSEEN)):
            row = int(rows[0] if encoded.candidates is None else encoded.candidates.row[rows[0]])
            raise ValueError(
                f"The group of row {row} in {factor.name!r} was not seen in fit. "
                "With groups='known' such rows are predicted as of a new group."
            )
    return encoded


def warn_of_lacking_groups(fit: "Fit", data: Any) -> None:
    """Warn once of data without the columns of groups."""
    lacking = [] if fit.reader is None else fit.reader.lacking_groups(data)
    if lacking and "groups" not in fit._warned:
        fit._warned["groups"] = (
            f"The data have no column {join_names(lacking)}: all observations are predicted as of new groups. "
            f"groups='new' asks for this without a warning.{did_you_mean(lacking[0], frames.names_of(data))}"
        )
        warn_user(fit._warned["groups"], UserWarning)


def read(fit: "Fit", data: Any, groups: str = KNOWN) -> Encoded:
    """Encode rows as the columns of the fit, with the groups that ``groups`` asks for."""
    groups = check_groups("predictions", groups)
    if isinstance(data, Encoded):
        return with_groups(fit, data, groups)
    if fit.reader is None:
        raise TypeError(OF_ESTIMATOR)
    if groups == KNOWN:
        warn_of_lacking_groups(fit, data)
    return with_groups(fit, fit.reader.read(data), groups)


def mean_scores(fit: "Fit", encoded: Encoded) -> Scores:
    """Scores with the coefficients at their means."""
    return _average(fit, prediction.mean_scores(fit, encoded), encoded)


def odds_scores(fit: "Fit", encoded: Encoded) -> Scores:
    """Scores for probabilities: with the variance of the coefficients for normalised likelihoods, else without."""
    if not fit.spec.likelihood.normalised:
        return mean_scores(fit, encoded)
    return _average(fit, prediction.score_moments(fit, encoded, fit.posterior.state), encoded)


def score_moments(fit: "Fit", encoded: Encoded) -> Scores:
    """Means and variances of scores, by the covariance shown in tables."""
    return _average(fit, prediction.score_moments(fit, encoded, score_posterior(fit).state), encoded)


def predict_interval(fit: "Fit", encoded: Encoded, proba: Array, data: Any, level: float) -> Any:
    """Table of each row's probability of the second class with its interval; of the type of the user's data."""
    import pandas as pd

    check_level("predict_interval", level)
    lower, upper = prediction.probability_interval(score_moments(fit, encoded), fit._link, level)
    table = with_index(pd.DataFrame({"estimate": proba[:, 1], "lower": lower, "upper": upper}), data)
    sampled = "draws" if fit.posterior.by_draws else "the posterior's curvature"
    link = "" if fit.spec.likelihood.normalised else ", with the link from decision values to probabilities fixed"
    note = f'Probability of "{fit.classes[1]!s}" of each observation; intervals by {sampled}{link}.'
    table.attrs = {"level": level, "note": note}
    return tables.like(data, table)


def _average(fit: "Fit", scores: Scores, encoded: Encoded) -> Scores:
    """Average scores over levels of missing categories and check that they are finite; estimators do so themselves."""
    if fit.reader is None:
        return scores
    if encoded.candidates is not None:
        shares = _candidate_shares(fit, encoded.candidates, encoded)
        scores = prediction.average_candidates(scores, encoded.candidates.row, shares)
    return prediction.check_finite(fit, scores, encoded)


def _log_odds(fit: "Fit", encoded: Encoded) -> Array:
    return prediction.log_odds([odds_scores(fit, encoded)], [fit._link])


def probabilities_at(fit: "Fit", encoded: Encoded, state: State) -> Array:
    """Probability of the second class of each row at a state, such as one with drawn coefficients."""
    scores = _average(fit, prediction.score_moments(fit, encoded, state), encoded)
    return prediction.probabilities(prediction.log_odds([scores], [fit._link]))[:, 1]


# By method: the name of a series of results, and the result for rows.
METHODS: "dict[str, tuple[str, Callable[[Fit, Encoded], NDArray[Any]]]]" = {
    "decision_function": ("score", lambda fit, rows: mean_scores(fit, rows).mean),
    "predict": ("class", lambda fit, rows: fit.classes[(mean_scores(fit, rows).mean > 0).astype(np.intp)]),
    "predict_proba": ("probability", lambda fit, rows: prediction.probabilities(_log_odds(fit, rows))),
    "predict_log_proba": ("log probability", lambda fit, rows: prediction.log_probabilities(_log_odds(fit, rows))),
}


def evaluate(fit: "Fit", method: str, data: Any, groups: str) -> Any:
    """Result of a prediction method for rows; lazy for Dask collections."""
    name, compute = METHODS[method]
    if not frames.is_collection(data):
        return compute(fit, read(fit, data, groups))
    if collections.is_array(data):
        raise TypeError("data must be a data frame with named columns; got a dask array.")
    empty = fit.classes[:0] if method == "predict" else np.empty(0 if method == "decision_function" else (0, 2))
    return PartitionMethod(method, name, fit.classes, empty, {"groups": groups}).of(fit, data)


@final
@dataclass(frozen=True, eq=False)
class PartitionMethod:
    """Prediction method applied to a partition of a Dask collection; keeps the index of a frame.

    ``example`` is its result without rows, and ``name`` that of a series of results.
    """

    method: str
    name: str
    classes: NDArray[Any]
    example: NDArray[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, model: Any, block: Any) -> Any:
        """Result for a partition, which may be empty."""
        values = getattr(model, self.method)(block, **self.settings) if len(block) else self.example
        return self.framed(values, block.index) if hasattr(block, "index") else values

    def framed(self, values: Any, index: Any) -> Any:
        """Values of rows as a series, or as a frame with a column for each class."""
        import pandas as pd

        if values.ndim == 1:
            return pd.Series(values, index=index, name=self.name)
        return pd.DataFrame(values, index=index, columns=pd.Index(self.classes))

    def of(self, model: Any, data: Any) -> Any:
        """Lazy results for all partitions."""
        example = self.example if collections.is_array(data) else self.framed(self.example, data._meta.index)
        return collections.map_partitions_lazily(self, model, data, example)


class Predictor(ABC):
    """Mixin of fits and estimators: predictions of rows in files, and of the fit's rows by fits without them."""

    @abstractmethod
    def _models(self) -> "tuple[Sequence[Fit], NDArray[Any]]":
        """The fits, and the classes that they tell apart."""

    @abstractmethod
    def _file_columns(self) -> tuple[Sequence[str], Collection[str]]:
        """Columns that the model needs, and those of them that are text in any case."""

    def predict_files(
        self,
        files: Any,
        to: str | os.PathLike[str],
        *,
        proba: bool = False,
        scores: bool = False,
        keep: Sequence[str] = (),
        overwrite: bool = False,
    ) -> int:
        """Predict the rows of files, which need not fit in memory, and write them to a file; give their number.

        Parameters
        ----------
        files : str, path, list of them, or Files
            Names of Parquet or CSV files, a pattern such as ``"new/*.parquet"``, or a folder.
        to : str or path
            The file that is written, .parquet or .csv: a row for each, in the same order.
        proba, scores : bool, default False
            Add the probability of each class, and the score.
        keep : list of str, default ()
            Columns of the files that are copied, such as an identifier.
        overwrite : bool, default False
            Replace a file that exists, when all rows are there. False refuses it, unless it is empty.
        """
        columns, text = self._file_columns()
        added: dict[str, Any] = {"keep": keep, "proba": proba, "scores": scores, "overwrite": overwrite}
        return write_predictions(self, files, to, columns=columns, text=text, classes=self._models()[1], **added)

    def left_out_predictions(self, refits: int | None = None, folds: int | None = None) -> LeftOutPredictions:
        """Predict each training observation by a fit without it; ``compare_models`` asks for it.

        With up to ``refits`` observations the fit is repeated without each of them. Else predictions are approximate,
        by one step from the fit to all; where that may be far off, they come from refits without single observations,
        or in up to 50 folds, within the same limit. ``refits=None`` is 200, or 10 where observations × coefficients
        exceed 50 000; 0 gives the approximation, and ``folds=k`` k folds. ``method`` of the result says what was
        done. In refits columns are standardised as in the fit to all.
        """
        return leave_one_out(*self._models(), refits, folds)


def observed_classes(fit: "Fit", data: Any) -> NDArray[Any]:
    """Observed class of each row, from the outcome column; raise for classes that were not in fit."""
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
    """Cᵀu for each column u of ``of_rows``: the gradient of Σ u f by the coefficients of columns."""
    if encoded.candidates is not None:
        shares = _candidate_shares(fit, encoded.candidates, encoded)
        of_rows = shares[:, None] * of_rows[encoded.candidates.row]
    total = np.zeros((fit.plan.n_fixed, of_rows.shape[1]))
    for where, columns in prediction.design_blocks(fit, encoded):
        total += columns.T @ of_rows[where]
    return total


def second_moment(fit: "Fit", data: Any) -> Array:
    """Mean of c cᵀ over the rows c of the design, of the data or of the fit's own rows."""
    rows = fit._effects_subject(data, None, None).rows
    encoded, weights = rows.encoded({}), rows.weights / rows.weights.sum()
    if encoded.candidates is not None:
        weights = _candidate_shares(fit, encoded.candidates, encoded) * weights[encoded.candidates.row]
    return prediction.weighted_gram(fit, encoded, weights)


def score_changes(fit: "Fit", encoded: Encoded, changes: Array) -> Array:
    """Changes of the rows' scores by changes of the columns' coefficients (each a row of ``changes``)."""
    by_row = np.empty((encoded.table.shape[0], len(changes)))
    for where, columns in prediction.design_blocks(fit, encoded):
        by_row[where] = columns @ changes.T
    if encoded.candidates is None:
        return by_row
    shares = _candidate_shares(fit, encoded.candidates, encoded)
    return np.add.reduceat(shares[:, None] * by_row, encoded.candidates.firsts, axis=0)


def _candidate_shares(fit: "Fit", candidates: Candidates, encoded: Encoded) -> Array:
    """Probability of each candidate within its row."""
    return candidates.softmax(candidate_log_probs(fit, candidates, encoded.table))


def candidate_log_probs(
    fit: "Fit",
    candidates: Candidates,
    table: NDArray[np.floating],
    signs: Array | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Log probability of each candidate, with or without labels; with ``rng`` under drawn parameters."""
    assert fit.reader is not None
    conditional = level_distributions(fit)
    if conditional is not None:
        levels = conditional.without_labels if rng is None else conditional.draw(rng, labelled=signs is not None)
        return conditional.log_prob_of_table(levels, candidates, fit.plan.recipe, table, signs)
    learned = getattr(fit.posterior.state.missing, "levels", None)
    distributions = learned or LevelDistributions.from_concentrations(
        tuple(1.0 + weights for weights in fit.reader.categories.counts)
    )
    if rng is not None:
        return candidates.log_prob(distributions.draw(rng).logs)
    return candidates.log_prob(tuple(np.log(weights / weights.sum()) for weights in distributions.concentrations))


def level_distributions(fit: "Fit") -> FixedLevels | None:
    """Conditional distributions of missing categories, or None if none were missing in fit."""
    missing = fit.spec.missing
    levels = missing.levels if isinstance(missing, MissingModel) else None
    return None if levels is None else levels.given


def text_columns(reader: "Reader") -> set[str]:
    """Columns that were text in fit, to be read as text from files even if they look like numbers."""
    levels: list[tuple[str, Any]] = []
    for matrix in (reader.fixed, *(effects.matrix for effects in reader.effects), *reader.hidden):
        for expression, values in matrix.learned["categories"].items():
            levels += [(name, values) for name in columns_in(expression, list(reader.kinds))]
    for factor in reader.plan.factors:
        levels += [(name, values[:1]) for name, values in zip(factor.columns, factor.levels.parts, strict=True)]
    return {
        name
        for name, values in levels
        if reader.kinds.get(name) == "O" and all(isinstance(value, str) for value in values)
    }


def predict_frame(
    fitted: Any, inputs: Any, kept: "pd.DataFrame", classes: NDArray[Any], *, proba: bool, scores: bool
) -> "pd.DataFrame":
    """Predictions of a frame: kept columns, the predicted class, and scores and probabilities on request."""
    several = len(classes) > 2
    scored = [f"score {label}" for label in classes] if several else ["score"]
    chances = [f"probability {label}" for label in classes]
    for name in kept.columns:
        if name in ["prediction", *(scored if scores else []), *(chances if proba else [])]:
            raise ValueError(f"keep: {name!r} is the name of a column that predictions have: rename it in the table.")
    table = kept.assign(prediction=fitted.predict(inputs))
    if scores:
        values = np.asarray(fitted.decision_function(inputs))
        table = table.assign(**dict(zip(scored, np.atleast_2d(values.T), strict=True)))
    if proba:
        table = table.assign(**dict(zip(chances, fitted.predict_proba(inputs).T, strict=True)))
    return table


def write_predictions(
    fitted: Any,
    given: Any,
    to: str | os.PathLike[str] | IO[str],
    *,
    columns: Sequence[str],
    text: Collection[str],
    classes: NDArray[Any],
    keep: Sequence[str] = (),
    proba: bool = False,
    scores: bool = False,
    overwrite: bool = True,
    change: "Callable[[pd.DataFrame], pd.DataFrame] | None" = None,
) -> int:
    """Predict the rows of files and write them atomically; return the number of rows.

    ``columns`` are those that the model needs, ``text`` those of them that are text in any case; ``change`` is made to
    each piece before it is written.
    """
    if isinstance(keep, str):
        raise TypeError(f"keep must be a list of columns; got the text {keep!r}.")
    table = Files.of(given).opened(text)
    reader = getattr(fitted, "reader", None)  # of a formula, whose groups are new without their columns
    lacking = [] if reader is None else reader.lacking_groups(dict.fromkeys(table.names))
    columns = [name for name in columns if name not in lacking]
    for name in (*columns, *keep):
        if name not in table.names:
            raise ValueError(
                f"The files have no column {name!r}; they have {join_names(table.names)}."
                f"{did_you_mean(name, table.names)}"
            )
    if isinstance(to, str | os.PathLike) and Path(to).resolve() in [one.path.resolve() for one in table.files]:
        raise ValueError(f"{os.fspath(to)} is one of the files that are read: write the predictions to another.")
    if not overwrite and isinstance(to, str | os.PathLike) and Path(to).is_file() and Path(to).stat().st_size:
        raise FileExistsError(f"{os.fspath(to)} exists already: choose another name, or replace it by overwrite=True.")
    chosen, n_rows = list(dict.fromkeys((*columns, *keep))), 0
    with _writer(to) as writer:
        for piece in table.pieces(chosen):
            with piece.numbered():
                kept_columns = _consistent_types(piece.frame.loc[:, list(keep)], table.types)
                inputs = piece.frame.loc[:, list(columns)]
                predictions = predict_frame(fitted, inputs, kept_columns, classes, proba=proba, scores=scores)
                writer(predictions if change is None else change(predictions))
            n_rows += len(piece.frame)
        if not n_rows:
            raise ValueError("The files hold no rows.")
    return n_rows


def _consistent_types(frame: "pd.DataFrame", types: dict[str, str]) -> "pd.DataFrame":
    """Convert columns to types that are the same in every piece, with or without missing values."""
    changed: dict[str, Any] = {}
    for name in frame.columns:
        if types[name] in (WHOLE_NUMBERS, TRUTH):
            changed[name] = frame[name].astype("Int64" if types[name] == WHOLE_NUMBERS else "boolean")
        elif types[name] == TEXT or frame[name].dtype.kind not in "iufM":
            changed[name] = frame[name].astype(object).map(str, na_action="ignore").astype("string")
    return frame.assign(**changed)


@contextmanager
def _writer(to: Any) -> Iterator[Any]:
    """Yield a function that writes further rows: as CSV to a stream, or to a file in the format of its extension."""
    if hasattr(to, "write"):
        yield _text_writer(to, ",")
        return
    ending = Path(os.fspath(to)).suffix.lower()
    if ending not in (*PARQUET, *ENDINGS):
        raise ValueError(f"{to}: predictions are written to files that end in .parquet, .csv, .tsv or .txt.")
    try:
        with atomic_write(to) as file:
            if ending in PARQUET:
                with ParquetWriter(file) as writer:
                    yield writer.write
            else:
                yield _text_writer(file, ENDINGS[ending])
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"The disk of {to} is full. Free space there, or write to another disk; no partial file is left"
        raise OSError(errno.ENOSPC, message) from error


def _text_writer(file: Any, sep: str) -> Any:
    begun = False

    def write(frame: "pd.DataFrame") -> None:
        nonlocal begun
        write_text(frame, file, sep, header=not begun)
        begun = True

    return write


def write_text(frame: "pd.DataFrame", file: Any, sep: str = ",", *, header: bool = True) -> None:
    """Write a table as CSV; cells with a carriage return, a line end for many readers, are quoted."""
    texts = [frame[name].astype(str).str for name in frame if frame[name].dtype.kind == "O"]
    returns = frame.columns.astype(str).str.contains("\r").any() or any(text.contains("\r").any() for text in texts)
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL  # the latter only quotes them from Python 3.13 on
    frame.to_csv(file, sep=sep, index=False, header=header, quoting=quoting)
