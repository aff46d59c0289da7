"""From a fit, estimator or pipeline to the one two-class fit that a figure shows, and its predictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import check_count
from vbsvm.design import frames
from vbsvm.results.comparison.leave_one_out import LeftOutRows, left_out_rows
from vbsvm.results.fit import Fit


def select_fit(what: str, fit: Any, class_: Any = None) -> Fit:
    """The fit itself, or that of an estimator, for several classes that of ``class_``."""
    fits, classes = fits_of(what, fit)
    if len(fits) > 1:
        return fits[_class_index(what, classes, class_)]
    positive = fits[0].classes[1]
    if class_ is not None and class_ != positive:
        raise ValueError(f"{what}: there are two classes, and {positive!r} is the modelled class: omit class_.")
    return fits[0]


def n_to_show(what: str, top: int | None, of: int, most: int) -> int:
    """Number of items to show: ``top``, or by default up to ``most``."""
    if top is None:
        return min(of, most)
    check_count(what, top=top)
    return min(of, int(top))


def top_k(sizes: ArrayLike, count: int) -> list[int]:
    """Sorted indices of the ``count`` largest values."""
    return sorted(np.argsort(-np.asarray(sizes), kind="stable")[:count].tolist())


def by_inclusion(fit: Fit) -> NDArray[np.intp]:
    """Indices of the coefficients by inclusion probability, equal ones by size per standard deviation."""
    size = np.abs(fit.coef * fit.plan.recipe.spread[: fit.plan.n_shown])
    return np.lexsort((-size, -np.round(fit.inclusion_probability, 3)))


def check_names(what: str, terms: Any) -> None:
    """Reject a single name in place of a list."""
    if isinstance(terms, str):
        raise TypeError(f"{what}: terms must be a list of names, such as [{terms!r}]; got {terms!r}.")


def fits_of(what: str, fitted: Any) -> tuple[Sequence[Fit], NDArray[Any]]:
    """All fits of an estimator and its classes; of a pipeline or a search, those of the estimator in it."""
    last, pipelines = _last_step(fitted)
    if hasattr(last, "fit_"):
        names = _column_names(what, last, pipelines)
        fits = last.fit_ if names is None else [_renamed(fit_of_class, names) for fit_of_class in last.fit_]
        return fits, last.classes_
    if hasattr(last, "plan"):
        return [last], last.classes
    kind = type(fitted).__name__
    if any(hasattr(last, name) for name in ("prior", "formula", "estimator")):
        got = f"this {kind} is not fitted"
    else:
        got = f"got {kind}" if last is fitted else f"this {kind} ends in {type(last).__name__}"
    raise TypeError(f"{what}: pass a fitted VBSVC, a pipeline that ends in one, or the Fit of a Model; {got}.")


def _last_step(fitted: Any) -> tuple[Any, list[Any]]:
    """The last step of a pipeline, or of a search's best one; and the pipelines around it, the inner ones first."""
    estimator = getattr(fitted, "best_estimator_", fitted)
    if not hasattr(estimator, "steps"):
        return estimator, []
    last, inner = _last_step(estimator.steps[-1][1])
    return last, [*inner, estimator]


def _column_names(what: str, last: Any, pipelines: list[Any]) -> list[str] | None:
    """Column names at the last step of a pipeline, or None if that step has its own."""
    several = [pipeline for pipeline in pipelines if len(pipeline.steps) > 1]
    if not several or hasattr(last, "feature_names_in_"):
        return None
    try:
        names = several[0][:-1].get_feature_names_out()
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"{what}: the pipeline can't name the columns that reach its last step. Fit it after "
            "set_output(transform='pandas'), or pass its last step, whose columns are called x0, x1, …"
        ) from error
    return [str(name) for k, name in enumerate(names) if k != last.group]


def _renamed(fit: Fit, names: list[str]) -> Fit:
    """The fit with other names of its columns."""
    new = dict(zip(fit.plan.names, names, strict=True))
    patterns = fit.missing_patterns
    if patterns is not None:
        patterns = replace(patterns, names=tuple(new[name] for name in patterns.names))
    return replace(fit, plan=replace(fit.plan, names=tuple(names)), missing_patterns=patterns)


def _class_index(what: str, classes: NDArray[Any], class_: Any) -> int:
    matches = [k for k, label in enumerate(classes.tolist()) if label == class_]
    if not matches:
        raise ValueError(
            f"{what}: choose the class to set against the rest with class_=…; there are {classes.tolist()}."
        )
    return matches[0]


@final
@dataclass(frozen=True, eq=False)
class Predicted:
    """Decision values, predicted probabilities and true classes of rows for one two-class model.

    ``left_out`` says whether each row was predicted by a fit without it, and ``margins`` whether the loss has some.
    """

    scores: Array
    probabilities: Array
    positive: NDArray[np.bool_]
    classes: tuple[str, str]
    weights: Array
    left_out: bool = False
    margins: bool = True

    @staticmethod
    def from_left_out(rows: LeftOutRows, fits: Sequence[Fit], k: int = 0) -> "Predicted":
        """The rows of the fit; of several classes the k-th against the rest."""
        fit = fits[k]
        column = 1 if len(fits) == 1 else k
        names = "the rest" if len(fits) > 1 or fit.classes[0] is None else str(fit.classes[0]), str(fit.classes[1])
        probabilities = np.exp(rows.log_probabilities[:, column])
        margins = not fit.spec.likelihood.normalised
        return Predicted(rows.scores[:, k], probabilities, rows.truth == column, names, rows.weights, True, margins)


def predicted(what: str, fit: Any, X: Any = None, y: Any = None, class_: Any = None) -> Predicted:
    """Predict rows whose class is known: X and y of an estimator, or the data of a model, outcome included.

    Without rows, those of the fit, each as a fit without it would predict it. Predictions are returned as they are.
    """
    if isinstance(fit, Predicted):
        return fit
    if X is None:
        return _predicted_left_out(what, fit, class_)
    last, _ = _last_step(fit)
    model = None if hasattr(last, "fit_") else select_fit(what, fit)
    if model is not None and model.reader is not None and y is None:
        outcome = model.reader.parts.outcome
        y = frames.take(X, [outcome])[outcome]
    classes = last.classes_ if model is None else model.classes
    scores, probabilities = np.asarray(fit.decision_function(X)), fit.predict_proba(X)
    if y is None:
        raise ValueError(f"{what}: pass y, the known class of each row.")
    if model is None or classes[0] != f"not {classes[1]}":  # of the rest any label may be
        _check_known(what, y, classes)
    k, negative = 1, "the rest" if classes[0] is None else str(classes[0])
    if len(classes) > 2:
        k, negative = _class_index(what, classes, class_), "the rest"
        scores = scores[:, k] / select_fit(what, fit, class_).slope  # in units of the margin, as for two classes
    truth = np.asarray(y)
    if truth.shape != scores.shape:
        raise ValueError(f"{what}: y has the shape {truth.shape}, and there are {len(scores)} rows.")
    positive = np.array([label == classes[k] for label in truth.tolist()], dtype=bool)
    if positive.all() or not positive.any():
        raise ValueError(
            f"{what}: rows of both classes are needed; {classes[k]!r} is the class of {positive.sum()} of them."
        )
    margins = model is None or not model.spec.likelihood.normalised
    names = negative, str(classes[k])
    return Predicted(scores, probabilities[:, k], positive, names, np.ones(len(scores)), margins=margins)


def _predicted_left_out(what: str, fit: Any, class_: Any) -> Predicted:
    fits, classes = fits_of(what, fit)
    k = 0 if len(fits) == 1 else _class_index(what, classes, class_)
    try:
        return Predicted.from_left_out(left_out_rows(fits, None), fits, k)
    except ValueError as error:
        raise ValueError(f"{what}: {error} Or pass rows whose class is known.") from error


def _check_known(what: str, y: Any, classes: NDArray[Any]) -> None:
    unknown = sorted(set(np.asarray(y).tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(
            f"{what}: y holds {unknown[0]!r}, which was not a class in fit; the classes are {classes.tolist()}."
        )
