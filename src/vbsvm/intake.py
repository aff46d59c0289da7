"""At the door: tables, labels and weights are checked here, and what is wrong is said with its place.

Nothing below this layer checks input again.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from vbsvm.design.recipe import Range, Recipe

Array = NDArray[np.float64]

# Beyond these sizes a square, or a coefficient's reciprocal, leaves the range of floating point.
LARGEST_RAW = 1e120
LARGEST_WEIGHT = 1e50
SMALLEST_SCALE = 1e-290


def read_table(estimator: BaseEstimator, X: Any, **options: Any) -> Any:
    """Give X as a float array without copying one that already is; options go to ``validate_data``."""
    try:
        return validate_data(estimator, X, dtype=[np.float64, np.float32], ensure_all_finite=False, **options)
    except ValueError as error:
        text = _text_column(X)
        if text is None:
            raise
        raise ValueError(
            f"{text} is not numeric ({error}). Encode categories first, for example with "
            "sklearn.preprocessing.OneHotEncoder in a Pipeline, or drop the column."
        ) from error


def read_labels(y: NDArray[Any], weights: Array) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Give the sorted classes and each row's class index; rows of weight 0 do not bring a class with them."""
    check_classification_targets(y)
    counted = slice(None) if weights.all() else weights > 0
    classes = np.unique(y[counted])
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only, {classes[0]!s}, in the rows of positive weight; two or more classes are needed."
        )
    return classes, np.minimum(np.searchsorted(classes, y), len(classes) - 1)


def read_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array:
    """Give one weight a row; equal weights take no memory."""
    if sample_weight is None or isinstance(sample_weight, int | float):
        weights = np.broadcast_to(np.float64(1.0 if sample_weight is None else sample_weight), n_rows)
    else:
        weights = check_array(sample_weight, ensure_2d=False, dtype="float64", input_name="sample_weight")
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}; X has {n_rows} rows, so ({n_rows},) is needed.")
    if weights.min() < 0:
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight is negative in row {row} ({weights[row]:g}); weights are counts of rows.")
    if not 0 < weights.max() < LARGEST_WEIGHT:
        raise ValueError(f"The largest sample_weight is {weights.max():g}: all are zero, or some can be no counts.")
    return weights


def require_finite(X: NDArray[np.floating], ranges: Range, names: tuple[str, ...]) -> None:
    """Refuse NaN and infinity, naming the first column and row that hold them."""
    bad = np.flatnonzero(~np.isfinite(ranges.low) | ~np.isfinite(ranges.high))
    if len(bad):
        raise ValueError(_describe_non_finite(X, int(bad[0]), len(bad), names))


def require_finite_scores(X: NDArray[np.floating], scores: Array, names: tuple[str, ...]) -> None:
    """Refuse rows without a finite score: a NaN or infinity in X, or values too far out for floating point."""
    rows = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(rows):
        bad = np.flatnonzero(~np.isfinite(X[rows]).all(axis=0))
        if len(bad):
            raise ValueError(_describe_non_finite(X, int(bad[0]), len(bad), names))
        raise ValueError(f"The score of row {rows[0]} overflows: its values lie too far from those seen in fit.")


def _describe_non_finite(X: NDArray[np.floating], column: int, n_columns: int, names: tuple[str, ...]) -> str:
    """Say where a NaN or an infinity stands, and what to do about it."""
    row = int(np.flatnonzero(~np.isfinite(X[:, column]))[0])
    others = f" and in {n_columns - 1} other column{'s' if n_columns > 2 else ''}" if n_columns > 1 else ""
    place = f"in column {names[column]!r} (first in row {row}){others}"
    if np.isnan(X[row, column]):
        return (
            f"Input X contains NaN {place}. Missing values are not supported yet: fill them first, for example with "
            "sklearn.impute.SimpleImputer in a Pipeline, or drop those rows."
        )
    return f"Input X contains infinity {place}. Replace it by a finite number, or drop those rows."


def require_representable(ranges: Range, recipe: Recipe, names: tuple[str, ...], standardize: bool) -> None:
    """Refuse columns whose squares or coefficients floating point can't hold."""
    large = np.flatnonzero(ranges.size > LARGEST_RAW)
    if not standardize and len(large):
        raise ValueError(
            f"Column {names[large[0]]!r} reaches {ranges.size[large[0]]:.3g}: its squares overflow. "
            "Use standardize=True, or rescale it."
        )
    small = np.flatnonzero(recipe.scale < SMALLEST_SCALE)
    if len(small):
        raise ValueError(
            f"Column {names[small[0]]!r} has a standard deviation of {recipe.scale[small[0]]:.3g}: its coefficient "
            "would overflow. Rescale it."
        )


def column_names(estimator: Any) -> tuple[str, ...]:
    """Feature names of a data frame, or x0, x1, … for an array."""
    names = getattr(estimator, "feature_names_in_", None)
    return tuple(f"x{i}" for i in range(estimator.n_features_in_)) if names is None else tuple(map(str, names))


def _text_column(X: Any) -> str | None:
    """Find the first column that can't be read as numbers."""
    if hasattr(X, "columns"):
        columns = {name: X[name] for name in X.columns}
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS":
        columns = {i: X[:, i] for i in range(X.shape[1])}
    else:
        return None
    for name, column in columns.items():
        try:
            np.asarray(column).astype(np.float64)
        except (TypeError, ValueError):
            return f"Column {name!r}"
    return None
