"""Reading and validation of labels and weights; errors name the row."""

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from vbsvm.base.arrays import Array
from vbsvm.design import values
from vbsvm.design.frames import check_in_memory
from vbsvm.design.values import join_names

# Beyond it a count leaves the range of floating point.
MAX_WEIGHT = 1e50
# Kinds of whole numbers and words, as NumPy calls them.
WHOLE_NUMBER_KINDS = "biuSU"


def read_labels(y: Any) -> Any:
    """Labels of one type as an array; missing, infinite and other invalid labels are rejected with their row."""
    if not isinstance(y, np.ndarray):
        check_in_memory(y=y)
    labels = values.as_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = y = column_or_1d(labels, warn=True)
    if y is None or labels.ndim > 1:
        return y
    if labels.ndim == 0:
        raise TypeError(f"y must have one label for each row, as a list or an array; got {values.named(type(y))}.")
    missing = values.missing(labels)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"y contains NaN or None: the label of row {row} is missing. Drop such rows.")
    kinds = values.kinds_of(labels)
    if values.COMPLEX in kinds:
        row = values.first_row(labels, values.COMPLEX)
        raise ValueError(f"Complex data not supported: y contains a complex number in row {row}.")
    if set(kinds) == {values.TEXT}:
        return np.asarray(y)
    if labels.dtype.kind == "O":
        labels = _labels_of_objects(labels)
    if values.OTHER in kinds:
        raise TypeError(f"y contains {values.named(kinds[values.OTHER])}: make its labels text or numbers.")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError(f"y contains infinity: the label of row {int(np.argmax(np.isinf(labels)))} is not a class.")
    return labels


def _labels_of_objects(labels: NDArray[Any]) -> NDArray[Any]:
    """Numbers or dates in an array of their own type."""
    types = (str, bool, int, float, np.bool_, np.integer, np.floating, np.datetime64)
    for row, label in enumerate(labels):
        if not isinstance(label, types) or isinstance(label, np.timedelta64) or values.beyond_64_bits(label):
            label_text = f"{values.shown(label)} ({type(label).__name__})"
            raise TypeError(f"y contains {label_text} in row {row}: make its labels text, or numbers of up to 64 bits.")
    kinds = [values.kind_of(type(label)).replace(values.TRUTH, values.NUMBER) for label in labels]
    row = next((row for row, kind in enumerate(kinds) if kind != kinds[0]), None)
    if row is not None:
        raise ValueError(f"y mixes {kinds[0]} and {kinds[row]} (rows 0 and {row}): make its labels one kind.")
    return np.array(labels.tolist())


def check_labels(y: NDArray[Any], classes: NDArray[Any]) -> None:
    """Reject labels that are not classes; integers and text with few distinct values always are."""
    if y.dtype.kind not in WHOLE_NUMBER_KINDS or 2 * len(classes) > len(y):
        check_classification_targets(y)


def class_codes(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Index of each row's class; arbitrary for rows of weight 0."""
    return np.minimum(np.searchsorted(classes, y), len(classes) - 1)


def check_classes(labels: NDArray[Any]) -> None:
    """Reject labels, each given once, that are no classes, or of one class only."""
    if labels.dtype.kind not in WHOLE_NUMBER_KINDS:
        check_classification_targets(np.repeat(labels, 3))  # of labels that occur once scikit-learn would warn
    check_several_classes(labels)


def check_several_classes(classes: NDArray[Any]) -> None:
    """Reject labels of one class only."""
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes[0]!s}, in the rows of positive weight; at least two classes are needed."
        )


def read_weights(
    sample_weight: ArrayLike | None, n_rows: int, name: str = "sample_weight", *, may_all_be_zero: bool = False
) -> Array:
    """Give one weight a row; equal weights take no memory. Some of the rows alone may all have a weight of 0."""
    if sample_weight is None:
        return np.broadcast_to(np.float64(1.0), n_rows)
    raw = _weights(sample_weight, name)
    weights = np.full(n_rows, raw) if raw.ndim == 0 else raw
    if weights.shape != (n_rows,):
        raise ValueError(f"{name} has the shape {weights.shape}; there are {n_rows} rows, so ({n_rows},) is needed.")
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        bad_value = "NaN" if np.isnan(weights[bad[0]]) else "infinity"
        raise ValueError(f"{name} contains {bad_value} in row {bad[0]}; leave the row out, or give it a weight of 0.")
    if weights.min(initial=0.0) < 0:
        row = int(np.argmin(weights))
        raise ValueError(f"{name} is negative in row {row} ({weights[row]:g}); weights are counts of rows.")
    if weights.max(initial=0.0) == 0 and not may_all_be_zero:
        raise ValueError(f"{name} is zero in every row: there is nothing to fit.")
    return check_counts(weights)


def _weights(raw: Any, name: str) -> Array:
    """Weights as floats, or one number for all; NaN where they are masked or missing."""
    check_in_memory(**{name: raw})
    weights = values.as_array(raw)
    if weights.ndim == 0 and weights.dtype.kind not in "biuf":
        raise TypeError(f"{name} must have one number for each row; got {values.named(type(raw))}.")
    return weights.astype(np.float64) if weights.ndim != 1 else values.as_floats(weights, name)


def class_factors(class_weight: dict[Any, float] | str, classes: NDArray[Any], totals: Array) -> Array:
    """Multiplier of the weights of each class; ``totals`` are their total weights."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        factors = totals.sum() / (len(classes) * totals)
    elif not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be 'balanced', a dictionary with the weight of each class, or None; got "
            f"{class_weight!r}."
        )
    else:
        factors = _explicit_factors(class_weight, classes)
    for label, factor in zip(classes, factors, strict=True):
        if not 0 < factor < MAX_WEIGHT:
            raise ValueError(f"class_weight of class {label!s} is {factor:g}; a positive finite number is needed.")
    return factors


def _explicit_factors(class_weight: Mapping[Any, Any], classes: NDArray[Any]) -> Array:
    """Weight of each class, 1 if not named; unknown keys are rejected if some class has no weight."""
    labels = list(classes)
    unknown = [key for key in class_weight if key not in labels]
    others = [str(label) for label in labels if label not in class_weight]
    if unknown and others:
        raise ValueError(
            f"class_weight has a weight of {unknown[0]!r}, which is not a class of y, and none of "
            f"{', '.join(others[:12])}: its keys must be the labels of y, {join_names(classes.tolist())}."
        )
    factors = [class_weight.get(label, 1.0) for label in labels]
    for label, factor in zip(labels, factors, strict=True):
        if not isinstance(factor, numbers.Real):
            raise ValueError(f"class_weight of class {label!s} is {factor!r}; a positive finite number is needed.")
    return np.array(factors, dtype=np.float64)


def read_outcome(column: Any, positive: Any) -> tuple[NDArray[Any], Array]:
    """Give the labels of the two classes, the positive one last, and ±1 for each row."""
    name = column.name
    if column.dtype.kind == "f" and np.isinf(column).any():
        row = column.index[int(np.argmax(np.isinf(column)))]
        raise ValueError(f"The outcome {name!r} is infinite in row {row}: make it a class, or leave the row out.")
    levels = np.array(sorted(column.unique().tolist(), key=lambda level: (isinstance(level, str), level)), dtype=object)
    if column.dtype.kind == "f" and len(levels) > 2 and not all(float(level).is_integer() for level in levels):
        raise ValueError(
            f"The outcome {name!r} contains continuous numbers; a class is needed: add a column such as {name} > 0."
        )
    if positive is None:
        if len(levels) > 2:
            raise ValueError(
                f"The outcome {name!r} has {len(levels)} levels ({join_names(levels.tolist(), 6)}). Choose the "
                f"one to set against the rest, as in positive={levels[0]!r}; VBSVC fits all of them at once."
            )
        positive = levels[-1]
    elif not isinstance(positive, str | numbers.Real | np.bool_):
        raise TypeError(f"positive must be one level of the outcome {name!r}; got {values.named(type(positive))}.")
    elif positive not in levels.tolist():
        raise ValueError(f"positive={positive!r} is not a level of the outcome {name!r}: {levels.tolist()[:12]}.")
    positive = next(level for level in levels if level == positive)
    is_positive = (column == positive).to_numpy(dtype=bool)
    if len(levels) < 2:
        raise ValueError(f"The outcome {name!r} has only one class in the rows of positive weight; two are needed.")
    others = [level for level in levels if level != positive]
    negative = others[0] if len(others) == 1 else f"not {positive}"
    same_kind = type(negative) is type(positive) and not isinstance(negative, str)
    return np.array([negative, positive], None if same_kind else object), np.where(is_positive, 1.0, -1.0)


def check_counts(weights: Array) -> Array:
    """Reject weights beyond the range of floating point."""
    if weights.max(initial=0.0) >= MAX_WEIGHT:
        row = int(np.argmax(weights))
        raise ValueError(f"The weight of row {row} is {weights[row]:g}; weights are counts of rows, below 1e50.")
    return weights
