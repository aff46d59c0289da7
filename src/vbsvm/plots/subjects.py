"""Whom a figure is about: one two-class fit of an estimator or a model, and rows with their scores."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.design import frames


def one_fit(what: str, fit: Any, class_: Any = None) -> Any:
    """The fit itself, or that of an estimator; of several classes the one that is asked for."""
    if not hasattr(fit, "fit_"):
        if not hasattr(fit, "plan"):
            kind = type(fit).__name__
            got = f"this {kind} is not fitted" if hasattr(fit, "fit") else f"got {kind}"
            raise TypeError(f"{what}: pass a fitted VBSVC, or the Fit of a Model; {got}.")
        return _of_two(what, fit, class_)
    if len(fit.fit_) == 1:
        return _of_two(what, fit.fit_[0], class_)
    return fit.fit_[_place(what, fit.classes_, class_)]


def _of_two(what: str, fit: Any, class_: Any) -> Any:
    if class_ is not None and class_ != fit.classes[1]:
        raise ValueError(f"{what}: of two classes, positive scores mean {fit.classes[1]!r}: leave class_ out.")
    return fit


def _place(what: str, classes: NDArray[Any], class_: Any) -> int:
    found = [k for k, label in enumerate(classes.tolist()) if label == class_]
    if not found:
        raise ValueError(f"{what}: say which class is set against the rest, class_=… of {classes.tolist()}.")
    return found[0]


@final
@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of rows, their probability of the positive class, whether they are of it, and both classes' names."""

    scores: Array
    chances: Array
    positive: NDArray[np.bool_]
    classes: tuple[str, str]

    @property
    def balanced_error(self) -> float:
        """Mean of the two classes' shares of rows on the wrong side."""
        sides = [(self.scores > 0)[self.positive == truth] != truth for truth in (False, True)]
        return float(np.mean([side.mean() for side in sides]))


def predicted(what: str, fit: Any, X: Any, y: Any = None, class_: Any = None) -> Predicted:
    """Predict rows whose class is known: X and y of an estimator, or the data of a model, outcome included."""
    if hasattr(fit, "fit_"):
        return _of_estimator(what, fit, X, y, class_)
    one = one_fit(what, fit)
    if one.reader is not None and y is None:
        outcome = one.reader.parts.outcome
        y = frames.take(X, [outcome])[outcome]
    if y is not None and one.classes[0] != f"not {one.classes[1]}":  # of the rest any label may be
        _require_known(what, y, one.classes)
    scores = one.decision_function(X)
    return _found(what, scores, one.predict_proba(X)[:, 1], y, one.classes[1], one.classes[0])


def _of_estimator(what: str, clf: Any, X: Any, y: Any, class_: Any) -> Predicted:
    classes, scores, chances = clf.classes_, clf.decision_function(X), clf.predict_proba(X)
    if y is not None:
        _require_known(what, y, classes)
    if len(classes) == 2:
        return _found(what, scores, chances[:, 1], y, classes[1], classes[0])
    k = _place(what, classes, class_)
    return _found(what, scores[:, k], chances[:, k], y, classes[k], None)


def _require_known(what: str, y: Any, classes: NDArray[Any]) -> None:
    unknown = sorted(set(np.asarray(y).tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"{what}: y holds {unknown[0]!r}, which was not a class in fit: {classes.tolist()}.")


def _found(what: str, scores: Array, chances: Array, y: Any, positive: Any, negative: Any) -> Predicted:
    if y is None:
        raise ValueError(f"{what}: y is needed, the known class of each row.")
    truth = np.asarray(y)
    if truth.shape != scores.shape:
        raise ValueError(f"{what}: y has the shape {truth.shape}, and there are {len(scores)} rows.")
    is_positive = np.array([label == positive for label in truth.tolist()], dtype=bool)
    if is_positive.all() or not is_positive.any():
        raise ValueError(f"{what}: rows of both classes are needed; {positive!r} is in {is_positive.sum()} of them.")
    return Predicted(scores, chances, is_positive, ("the rest" if negative is None else str(negative), str(positive)))
