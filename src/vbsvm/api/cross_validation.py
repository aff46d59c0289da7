"""Cross-validation of a model by formula."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from vbsvm.api import validation
from vbsvm.api.model import Model
from vbsvm.api.task import read_inference
from vbsvm.base.arrays import Array
from vbsvm.base.printing import ReliabilityWarning, mute_warnings, progress, track
from vbsvm.base.settings import check_whole
from vbsvm.design import frames
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.results.comparison.models import CrossValidation, LeftOutPredictions, measures_by_fold

if TYPE_CHECKING:
    import pandas as pd

# Row numbers of the training set and of the test set.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def cross_validate(
    model: Model,
    folds: int | Iterable[Any] = 5,
    groups: str | None = None,
    random_state: Any = 0,
    *,
    inference: Variational | Gibbs | str | None = None,
    verbose: int | None = None,
) -> CrossValidation:
    """Cross-validated measures and predictions of a model by formula.

    Parameters
    ----------
    model : Model
        The model; it need not be fitted. For ``VBSVC`` use scikit-learn's ``cross_validate``, with ``GroupKFold`` for
        ``groups``.
    folds : int or iterable of pairs, default 5
        Number of folds, shuffled and stratified by class; or pairs (train, test) of row numbers, as from scikit-learn's
        splitters. Each row may be in at most one test set.
    groups : str, default None
        A column whose levels are left out as a whole, whether the formula has it or not: this measures predictions for
        *new* levels, with probabilities averaged over their random effects. Without it other observations of the same
        level stay in the training set.
    random_state : int, RandomState or None, default 0
        Seed of the shuffle, and of ``Gibbs``. The same seed gives the same folds for models of the same data.
    inference : Variational or Gibbs, default None
        As in ``Model.fit``.
    verbose : bool, default None
        Whether to show on stderr how many folds are done, as in ``Model.fit``.

    Returns
    -------
    CrossValidation
        With ``table`` (log loss, balanced error and accuracy by fold and overall) and ``predictions``.

    Notes
    -----
    Rows of weight 0 and those dropped by ``missing="drop"`` are in no fold. Missing predictors are imputed as in any
    fit and prediction. Scales, knots and levels are learned from the training set of each fold.
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"cross_validate takes a Model; got {type(model).__name__}. For estimators use cross_validate of "
            "sklearn.model_selection."
        )
    if model.in_files:
        raise ValueError("cross_validate is only available for data in memory: give Model a sample of the rows.")
    inference, seed = read_inference(inference), validation.read_seed(random_state)
    rows = _UsedRows.from_model(model)
    members = None if groups is None else rows.groups(groups)
    if not isinstance(folds, Iterable) or isinstance(folds, str):
        splits = _random_folds(folds, rows, members, seed)
    else:
        splits = _explicit_folds(folds, rows, members)
    with progress(verbose):
        scores, log_odds = _fit_and_predict(rows, splits, inference, seed)
    scheme = f"{len(splits)}-fold cross-validation" + ("" if groups is None else f" by {groups}")
    left_out = LeftOutPredictions(
        scheme,
        rows.numbers,
        model.classes[rows.truth],
        rows.weights,
        model.classes[(scores > 0).astype(np.intp)],
        log_expit(np.where(rows.truth > 0, log_odds, -log_odds)),
        {} if groups is None or members is None else {groups: members},
    )
    return _result(model, left_out, splits, log_odds, groups)


def _fit_and_predict(
    rows: "_UsedRows", splits: "list[Fold]", inference: Variational | Gibbs, seed: int
) -> tuple[Array, Array]:
    """Fit each fold; return decision values and log odds of the test rows (NaN for rows in no test set)."""
    scores, log_odds = (np.full(len(rows.numbers), np.nan) for _ in range(2))
    for k, (train, test) in enumerate(track("folds", splits), start=1):
        try:
            with progress(0), mute_warnings(ReliabilityWarning):  # coefficients and effects of a fold are not shown
                model = rows.model.refitted_to(rows.frame.iloc[train], rows.weights[train])
                fit = model.fit(inference, random_state=seed)
            if fit.interrupted:
                raise KeyboardInterrupt
            new = rows.frame.iloc[test]
            log_chances = fit.predict_log_proba(new)
            scores[test], log_odds[test] = fit.decision_function(new), log_chances[:, 1] - log_chances[:, 0]
        except ValueError as error:
            raise ValueError(f"cross_validate, fold {k}: {error}") from error
    return scores, log_odds


def _result(
    model: Model, left_out: LeftOutPredictions, splits: list[Fold], log_odds: Array, groups: str | None
) -> CrossValidation:
    """Summary by fold, and the out-of-fold predictions as a frame with the index of the data."""
    import pandas as pd

    fold = np.zeros(len(left_out.rows), dtype=np.intp)
    for k, (_, test) in enumerate(splits, start=1):
        fold[test] = k
    tested = np.flatnonzero(fold)
    left_out, fold = left_out.take(tested), fold[tested]
    index = getattr(model.data, "index", None)
    predictions = pd.DataFrame(
        {
            "fold": fold,
            "outcome": left_out.labels,
            "predicted": left_out.predicted,
            "probability": expit(log_odds[tested]),
        },
        index=pd.Index(left_out.rows, name="row") if index is None or callable(index) else index.take(left_out.rows),
    )
    predictions.attrs["note"] = f'probability: of class "{model.classes[1]!s}".'
    units = "observations" if groups is None else f"levels of {groups}"
    note = (
        f"{len(tested)} observations, {left_out.scheme}. se: standard error, with {units} as independent units; it "
        "ignores the overlap of training sets."
    )
    return CrossValidation(model.formula, measures_by_fold(left_out, fold, groups), predictions, note, left_out)


@final
@dataclass(frozen=True, eq=False)
class _UsedRows:
    """Rows of positive weight of a model's data: row numbers, columns, classes and weights."""

    model: Model
    n_user_rows: int
    numbers: NDArray[np.intp]
    frame: "pd.DataFrame"
    truth: NDArray[np.intp]  # 1 for the positive class
    weights: Array

    @staticmethod
    def from_model(model: Model) -> "_UsedRows":
        """Rows used by a model, in the order of the data."""
        import pandas as pd

        task = model._task
        assert task.row_numbers is not None
        assert task.reader is not None
        numbers, firsts = np.unique(task.row_numbers, return_index=True)
        frame = pd.DataFrame({name: frames.column(model.data, name) for name in task.reader.parts.columns})
        truth = (task.rows.y[firsts] > 0).astype(np.intp)
        return _UsedRows(model, len(frame), numbers, frame.take(numbers), truth, task.rows.weights[firsts])

    def groups(self, name: str) -> NDArray[np.intp]:
        """Integer codes of a grouping column; missing values are rejected."""
        import pandas as pd

        if not isinstance(name, str):
            raise TypeError(f"cross_validate: groups must be the name of a column of the data; got {name!r}.")
        return pd.factorize(frames.take(self.model.data, [name], self.numbers)[name])[0]


def _random_folds(folds: Any, rows: _UsedRows, members: NDArray[np.intp] | None, seed: int) -> list[Fold]:
    """Shuffled stratified folds, as indices into the rows used; with groups, each group is in one fold."""
    n_rows = len(rows.numbers)
    check_whole("cross_validate", 2, n_rows, folds=folds)
    n_folds, counts = int(folds), np.bincount(rows.truth, minlength=2)
    if n_folds > counts.min():
        label = rows.model.classes[counts.argmin()]
        raise ValueError(
            f"cross_validate: folds={n_folds}, but class {label!s} has only {counts.min()} observations, and each "
            "fold needs one: use fewer folds."
        )
    if members is None:
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(n_rows), rows.truth))
    n_groups = len(np.unique(members))
    if n_folds > n_groups:
        raise ValueError(f"cross_validate: folds={n_folds}, but groups has only {n_groups} levels: use fewer folds.")
    splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    return [(train, test) for train, test in splitter.split(np.zeros(n_rows), rows.truth, members) if len(test)]


def _explicit_folds(folds: Iterable[Any], rows: _UsedRows, members: NDArray[np.intp] | None) -> list[Fold]:
    """User-supplied (train, test) row numbers as indices into the rows used."""
    position = np.full(rows.n_user_rows, -1)
    position[rows.numbers] = np.arange(len(rows.numbers))
    splits, was_left_out = [], np.zeros(len(rows.numbers), dtype=bool)
    for k, pair in enumerate(folds, start=1):
        try:
            train, test = (np.asarray(index) for index in pair)
        except (TypeError, ValueError):
            raise TypeError(f"cross_validate: fold {k} must be a pair (train, test) of row numbers.") from None
        for index in (train, test):
            if index.ndim != 1 or index.dtype.kind not in "iu" or not ((index >= 0) & (index < len(position))).all():
                raise ValueError(
                    f"cross_validate: fold {k} must contain row numbers, integers from 0 to {len(position) - 1}."
                )
        train, test = (index[index >= 0] for index in (position[train], position[test]))
        if np.isin(test, train).any():
            raise ValueError(f"cross_validate: fold {k} has a row both in training and test sets.")
        if len(np.unique(test)) < len(test) or was_left_out[test].any():
            raise ValueError(f"cross_validate: fold {k} has a row twice in test sets.")
        if not len(train) or not len(test):
            raise ValueError(f"cross_validate: fold {k} has no row of positive weight in the training or the test set.")
        if members is not None and np.isin(members[test], members[train]).any():
            raise ValueError(f"cross_validate: fold {k} has a level of groups both in training and test sets.")
        was_left_out[test] = True
        splits.append((train, test))
    if not splits:
        raise ValueError("cross_validate: folds is empty.")
    return splits
