"""Labels, weights and sizes are checked here, and what is wrong is said with its place; ``inputs`` reads tables.

Nothing below this layer checks input again.
"""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from vbsvm.base.arrays import Array
from vbsvm.design import one_hot, values
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import Range, Recipe
from vbsvm.design.spelling import listed
from vbsvm.missing.settings import GaussianImputation, NotAtRandom
from vbsvm.model.spec import Spec
from vbsvm.sources.kinds import AnyRows, InMemory

# Beyond these sizes a square, a count, or the square of a coefficient leaves the range of floating point.
LARGEST_INPUT = 1e120
LARGEST_WEIGHT = 1e50
SMALLEST_SCALE = 1e-152
# The model holds several matrices of columns × columns: at this size a few gigabytes, and hours.
MOST_COLUMNS = 10_000
MOST_CELLS = 10**8
# Sparse tables with more rows and more columns than this have the covariance of their coefficients by draws.
MOST_EXACT = 3000
# Up to this number of columns, their joint distribution is learned: predictions then take missing values.
MOST_JOINT = 3000


def is_wide(X: Any) -> bool:
    """Whether there are so many more columns than rows that matrices of rows × rows are the smaller ones."""
    n_rows, n_columns = X.shape
    return 0 < 2 * n_rows < n_columns or (issparse(X) and n_rows <= MOST_EXACT < n_columns)


def needs_draws(X: Any) -> bool:
    """Whether a table is too large for a matrix of rows × rows and for one of columns × columns."""
    most = MOST_EXACT if issparse(X) else MOST_COLUMNS
    return min(X.shape) > most or (not issparse(X) and is_wide(X) and X.shape[1] > MOST_COLUMNS and X.size > MOST_CELLS)


def plain_labels(y: Any) -> Any:
    """Labels of one kind as an array; refuse missing and infinite ones, and what is no label, naming the row."""
    labels = values.array_of(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = y = column_or_1d(labels, warn=True)
    if y is None or labels.ndim > 1:
        return y
    if labels.ndim == 0:
        raise TypeError(f"y must hold one label for each row, as a list or an array; got {values.named(type(y))}.")
    gone = values.missing(labels)
    if gone.any():
        row = int(np.argmax(gone))
        raise ValueError(f"y contains NaN or None: the label of row {row} is missing. Drop such rows.")
    kinds = values.kinds_of(labels)
    if values.COMPLEX in kinds:
        row = values.first_row(labels, values.COMPLEX)
        raise ValueError(f"Complex data not supported: y holds a complex number in row {row}.")
    if set(kinds) == {values.TEXT}:
        return np.asarray(y)
    if labels.dtype.kind == "O":
        labels = _labels_of_objects(labels)
    if values.OTHER in kinds:
        raise TypeError(f"y holds {values.named(kinds[values.OTHER])}: make its labels text or numbers.")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError(f"y contains infinity: the label of row {int(np.argmax(np.isinf(labels)))} is not a class.")
    return labels


def _labels_of_objects(labels: NDArray[Any]) -> NDArray[Any]:
    """Numbers or dates in an array of their own type."""
    types = (str, bool, int, float, np.bool_, np.integer, np.floating, np.datetime64)
    for row, label in enumerate(labels):
        if not isinstance(label, types) or isinstance(label, np.timedelta64) or values.beyond_64_bits(label):
            what = f"{values.shown(label)} ({type(label).__name__})"
            raise TypeError(f"y holds {what} in row {row}: make its labels text, or numbers of up to 64 bits.")
    kinds = [values.kind_of(type(label)).replace(values.TRUTH, values.NUMBER) for label in labels]
    row = next((row for row, kind in enumerate(kinds) if kind != kinds[0]), None)
    if row is not None:
        raise ValueError(f"y mixes {kinds[0]} and {kinds[row]} (rows 0 and {row}): make its labels one kind.")
    return np.array(labels.tolist())


def read_labels(y: NDArray[Any], weights: Array) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Give the sorted classes and each row's class index; rows of weight 0 do not bring a class with them."""
    counted = slice(None) if weights.all() else weights > 0
    classes = np.unique(y[counted])
    if y.dtype.kind not in "biuSU" or 2 * len(classes) > len(y):  # of a few whole numbers or words nothing is wrong
        check_classification_targets(y)
    require_two(classes)
    return classes, class_codes(classes, y)


def class_codes(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Number of each row's class; any for the label of rows that do not count."""
    return np.minimum(np.searchsorted(classes, y), len(classes) - 1)


def column_of_labels(column: Any) -> NDArray[Any]:
    """Labels in a column of a frame, as an array."""
    return column_or_1d(plain_labels(column), warn=True)


def require_classes(labels: NDArray[Any]) -> None:
    """Refuse labels, each given once, that are no classes, or of one class only."""
    check_classification_targets(labels)
    require_two(labels)


def require_two(classes: NDArray[Any]) -> None:
    """Refuse labels of one class only."""
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class, {classes[0]!s}, in the rows of positive weight; two or more classes are needed."
        )


def read_weights(
    sample_weight: ArrayLike | None, n_rows: int, name: str = "sample_weight", *, may_all_be_zero: bool = False
) -> Array:
    """Give one weight a row; equal weights take no memory. Some of the rows alone may all have a weight of 0."""
    if sample_weight is None:
        return np.broadcast_to(np.float64(1.0), n_rows)
    given = _weights(sample_weight, name)
    weights = np.full(n_rows, given) if given.ndim == 0 else given
    if weights.shape != (n_rows,):
        raise ValueError(f"{name} has the shape {weights.shape}; there are {n_rows} rows, so ({n_rows},) is needed.")
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        what = "NaN" if np.isnan(weights[bad[0]]) else "infinity"
        raise ValueError(f"{name} contains {what} in row {bad[0]}; leave the row out, or give it a weight of 0.")
    if weights.min(initial=0.0) < 0:
        row = int(np.argmin(weights))
        raise ValueError(f"{name} is negative in row {row} ({weights[row]:g}); weights are counts of rows.")
    if weights.max(initial=0.0) == 0 and not may_all_be_zero:
        raise ValueError(f"{name} is zero in every row: nothing is left to fit.")
    return require_counts(weights)


def _weights(given: Any, name: str) -> Array:
    """Weights as floats, or one number for all; NaN where they are masked or missing."""
    weights = values.array_of(given)
    if weights.ndim == 0 and weights.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold one number for each row; got {values.named(type(given))}.")
    return weights.astype(np.float64) if weights.ndim != 1 else values.as_floats(weights, name)


def with_class_weights(
    weights: Array, class_weight: dict[Any, float] | str | None, classes: NDArray[Any], codes: NDArray[np.intp]
) -> Array:
    """Multiply each row's weight by that of its class."""
    if class_weight is None:
        return weights
    factors = class_factors(class_weight, classes, np.bincount(codes, weights).astype(np.float64))
    return require_counts(weights * factors[codes])


def class_factors(class_weight: dict[Any, float] | str, classes: NDArray[Any], totals: Array) -> Array:
    """What the weights of each class are multiplied by; ``totals`` are the classes' own."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        factors = totals.sum() / (len(classes) * totals)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    for label, factor in zip(classes, factors, strict=True):
        if not 0 < factor < LARGEST_WEIGHT:
            raise ValueError(f"class_weight of class {label!s} is {factor:g}; a positive finite number is needed.")
    return factors


def read_outcome(name: str, column: Any, positive: Any) -> tuple[NDArray[Any], Array]:
    """Give the labels of the two classes, the positive one last, and ±1 for each row."""
    if column.dtype.kind == "f" and np.isinf(column).any():
        row = column.index[int(np.argmax(np.isinf(column)))]
        raise ValueError(f"The outcome {name!r} is infinite in row {row}: make it a class, or leave the row out.")
    levels = np.array(sorted(column.unique().tolist(), key=lambda level: (isinstance(level, str), level)), dtype=object)
    if column.dtype.kind == "f" and len(levels) > 2 and not all(float(level).is_integer() for level in levels):
        raise ValueError(
            f"The outcome {name!r} holds continuous numbers; a class is needed: add a column such as {name} > 0."
        )
    if positive is None:
        if len(levels) > 2:
            raise ValueError(
                f"The outcome {name!r} has {len(levels)} levels ({listed(levels.tolist(), 6)}). Choose the one to set "
                f"against the rest, as in positive={levels[0]!r}; VBSVC fits all of them at once."
            )
        positive = levels[-1]
    elif not isinstance(positive, str | numbers.Real | np.bool_):
        raise TypeError(f"positive must be one level of the outcome {name!r}; got {values.named(type(positive))}.")
    elif positive not in levels.tolist():
        raise ValueError(f"positive={positive!r} is not a level of the outcome {name!r}: {levels.tolist()[:12]}.")
    positive = next(level for level in levels if level == positive)
    is_positive = (column == positive).to_numpy(dtype=bool)
    others = [level for level in levels if level != positive]
    return _labels(others[0] if len(others) == 1 else f"not {positive}", positive), np.where(is_positive, 1.0, -1.0)


def _labels(negative: Any, positive: Any) -> NDArray[Any]:
    """Both labels in an array of their own kind, or of objects where they are of two kinds."""
    if type(negative) is type(positive) and not isinstance(negative, str):
        return np.array([negative, positive])
    return np.array([negative, positive], dtype=object)


def require_both_signs(signs: Array, outcome: str) -> None:
    """Refuse an outcome of one class only."""
    if len(signs) == 0 or signs.min() == signs.max():
        raise ValueError(f"The outcome {outcome!r} has only one class in the rows of positive weight; two are needed.")


def require_moderate_size(plan: Plan, spec: Spec, source: InMemory) -> None:
    """Refuse a model that would take hours and many gigabytes: its matrices are columns × columns, or rows × columns.

    Effects of all factors but the last count as columns.
    """
    n_rows, n_columns = source.X.shape
    n_columns -= plan.n_carried
    n_core = n_columns + sum(factor.size for factor in plan.factors[:-1])
    tail = plan.factors[-1].size if plan.factors else 0
    if source.drawn_covariance or (source.wide and issparse(source.X) and spec.gate_map is None):
        return
    if source.wide:
        too_large = n_columns > MOST_COLUMNS and n_rows * n_columns > MOST_CELLS
    else:
        too_large = n_core > MOST_COLUMNS or n_core * (n_core + tail) > MOST_CELLS
    if not too_large:
        return
    if n_columns > MOST_COLUMNS or not plan.factors:
        raise ValueError(
            f"The model has {n_rows} rows and {n_columns} columns; up to {MOST_COLUMNS} columns are supported with "
            "groups, missing values, LaplaceZero(), or columns that no prior holds (with LaplaceZero() and more than "
            f"twice as many columns as rows, up to {MOST_CELLS:.0e} numbers in all). Reduce them first, for example "
            "with sklearn.feature_selection.SelectKBest."
        )
    sizes = ", ".join(f"{factor.name} {factor.size}" for factor in plan.factors)
    several = "Only the largest factor may have many levels: drop a smaller one, or merge its levels."
    raise ValueError(
        f"The model has {n_columns} columns and effects of groups ({sizes}): matrices of {n_core} by {n_core + tail} "
        f"would be needed, which is too large. {several if len(plan.factors) > 1 else 'Drop columns, or merge levels.'}"
    )


def require_mechanism(settings: GaussianImputation, rows: Encoded) -> None:
    """Refuse values that are missing not at random beside missing categories."""
    if rows.candidates is not None and isinstance(settings.mechanism, NotAtRandom):
        raise ValueError("NotAtRandom does not support missing categories: make missing a category of its own.")


def require_moderate_missing(settings: GaussianImputation, n_inputs: int, n_missing: int) -> None:
    """Refuse distributions of missing inputs whose matrices would take hours."""
    n_variables = n_inputs if settings.joint else n_missing
    if n_variables > MOST_JOINT:
        raise ValueError(
            f"{n_missing} of {n_inputs} columns have missing values, and the joint distribution of {n_variables} "
            f"columns would have to be learned; up to {MOST_JOINT} are supported. Drop columns, or impute them first."
        )


def require_sampleable(spec: Spec, source: AnyRows) -> None:
    """Refuse what only variational Bayes has."""
    if source.drawn_covariance:
        raise ValueError(
            f"Gibbs does not support {source.n_rows} rows with {spec.n_columns} coefficients: a sweep would take "
            "seconds. Use Variational(), or select columns first."
        )
    if spec.joint_gates:
        raise ValueError("Gibbs does not support LaplaceZero(gates=Joint()): use gates=Factorised().")


def read_seed(random_state: Any) -> int:
    """A seed from None, a number or a generator."""
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def require_gates_that_fit(spec: Spec, plan: Plan) -> None:
    """Refuse joint distributions of gates and coefficients beside random effects."""
    if spec.joint_gates and plan.factors:
        raise ValueError("LaplaceZero(gates=Joint()) does not support random effects: use gates=Factorised().")


def require_counts(weights: Array) -> Array:
    """Refuse weights that are no counts."""
    if weights.max(initial=0.0) >= LARGEST_WEIGHT:
        row = int(np.argmax(weights))
        raise ValueError(f"The weight of row {row} is {weights[row]:g}; weights are counts of rows, below 1e50.")
    return weights


def require_usable(X: NDArray[np.floating], weights: Array, ranges: Range, names: tuple[str, ...]) -> None:
    """Refuse infinity in rows that count, naming column and row, and columns without any value."""
    require_known(ranges, names)
    bad = np.flatnonzero(~np.isfinite(ranges.low) | ~np.isfinite(ranges.high))
    if len(bad):
        rows = np.flatnonzero(np.isinf(X[:, bad[0]]) & (weights > 0))
        raise ValueError(_describe_infinite(int(rows[0]), names[bad[0]], len(bad) - 1))


def require_known(ranges: Range, names: tuple[str, ...]) -> None:
    """Refuse columns without any value."""
    empty = np.flatnonzero(ranges.incomplete & (ranges.low > ranges.high))
    if len(empty):
        raise ValueError(f"Column {names[empty[0]]!r} has no value in any row of positive weight. Drop it.")


def require_usable_sparse(X: Any, weights: Array, ranges: Range, names: tuple[str, ...]) -> None:
    """Refuse infinity and NaN in rows of a sparse table that count, naming column and row."""
    bad = np.flatnonzero(ranges.incomplete | ~np.isfinite(ranges.low) | ~np.isfinite(ranges.high))
    if len(bad):
        column = X[:, [int(bad[0])]].toarray()[:, 0]
        row = int(np.flatnonzero(~np.isfinite(column) & (weights > 0))[0])
        others = len(bad) - 1
        describe = _describe_missing_sparse if np.isnan(column[row]) else _describe_infinite
        raise ValueError(describe(row, names[bad[0]], others))


def require_finite(X: NDArray[np.floating], names: tuple[str, ...]) -> None:
    """Refuse infinity, naming column and row; and a sparse table, in which nothing may be missing."""
    if issparse(X):
        raise TypeError("impute: X is sparse, and values may be missing in dense tables only: use X.toarray().")
    bad = np.flatnonzero(np.isinf(X).any(axis=0))
    if len(bad):
        raise ValueError(_describe_infinite(int(np.argmax(np.isinf(X[:, bad[0]]))), names[bad[0]], len(bad) - 1))


def require_finite_scores(X: Any, scores: Array, names: tuple[str, ...], *, fills: bool = True) -> None:
    """Refuse rows without a finite score: an infinity in X, or values too far out for floating point."""
    rows = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(rows):
        row = int(rows[0])
        cells = X[[row]].toarray()[0] if issparse(X) else X[row]
        bad = np.flatnonzero(np.isinf(cells))
        if len(bad):
            raise ValueError(_describe_infinite(row, names[bad[0]], len(bad) - 1))
        missing = np.flatnonzero(np.isnan(cells))
        if len(missing) and issparse(X):
            raise ValueError(_describe_missing_sparse(row, names[missing[0]], len(missing) - 1))
        if len(missing) and not fills:
            raise ValueError(
                f"Input X contains NaN in column {names[missing[0]]!r} (row {row}). Missing values are "
                f"inferred for up to {MOST_JOINT} columns, and X has {X.shape[1]}: impute them first."
            )
        raise ValueError(f"The score of row {row} overflows: its values are too far from those seen in fit.")


def require_representable(ranges: Range, recipe: Recipe, names: tuple[str, ...]) -> None:
    """Refuse columns whose squares or coefficients floating point can't hold."""
    large = np.flatnonzero(~(recipe.reach(ranges) < LARGEST_INPUT))
    if len(large):
        raise ValueError(
            f"Column {names[large[0]]!r} reaches {ranges.size[large[0]]:.3g}: its squares overflow. Rescale it, or let "
            "standardize=True centre and scale it, beside an intercept."
        )
    small = np.flatnonzero(recipe.scale < SMALLEST_SCALE)
    if len(small):
        raise ValueError(
            f"Column {names[small[0]]!r} has a standard deviation of {recipe.scale[small[0]]:.3g}: its coefficient "
            "would overflow. Rescale it."
        )


def input_names(estimator: Any) -> tuple[Any, ...]:
    """Names of the columns of X, or their numbers where they have none; without the group."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return tuple(name for name in names if estimator.group is None or name != estimator.group)
    numbers = list(range(estimator.n_features_in_))
    if estimator.group is not None:
        del numbers[estimator.group]
    return tuple(numbers)


def column_names(estimator: Any) -> tuple[str, ...]:
    """Names of the inputs of the model: x0, x1, … for an array, and ``column[level]`` for categories."""
    inputs, levels = input_names(estimator), getattr(estimator, "levels_", {})
    named = hasattr(estimator, "feature_names_in_")
    called = [name if named else f"x{name}" for name in inputs]
    own = {call: levels[name] for name, call in zip(inputs, called, strict=True) if name in levels}
    return tuple(one_hot.names(called, own))


def _describe_infinite(row: int, column: str, n_others: int) -> str:
    """Say where an infinity stands, and what to do about it."""
    return (
        f"Input X contains infinity in column {column!r} (first in row {row}){_and_others(n_others)}. Replace it by a "
        "finite number, or by NaN if the value is missing."
    )


def _describe_missing_sparse(row: int, column: str, n_others: int) -> str:
    """Say where a value is missing, and what to do about it."""
    return (
        f"Input X contains NaN in column {column!r} (first in row {row}){_and_others(n_others)}. Missing values are "
        "inferred in dense tables only: use X.toarray(), or impute them first."
    )


def _and_others(n_others: int) -> str:
    return f" and in {n_others} other column{'s' if n_others > 1 else ''}" if n_others else ""
