"""The table X of an estimator: tables of any kind become an array of floats, and the group of each row.

What can't be read is refused with its column and row. Arrays of floats are handed on as they are, not copied.
"""

import numbers
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d, validate_data

from vbsvm.design import one_hot, values
from vbsvm.design.columns import LabelSummary, group_labels
from vbsvm.design.frames import check_collected, check_in_memory, check_unique
from vbsvm.design.scaling import canonical_csr
from vbsvm.design.values import did_you_mean, join_names, unicode_variant

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.api.estimator import Classifier

_OPTIONS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
# Proportion of stored cells above which a CSR array takes more memory than a dense one.
MAX_DENSITY = 2 / 3


def read_data(
    estimator: "Classifier", X: Any, y: Any, sample_weight: Any = None, *, reset: bool = True
) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Predictors, labels, and the group of each row (None without groups), as ``fit`` gets them."""
    if estimator.group is None and estimator.categories is None:
        X = _as_numbers(X)
        _check_equal_lengths(X, y)
        table, labels = _validated(estimator, X, y, reset=reset, accept_sparse="csr", **_OPTIONS)
        return _canonical_csr(table), labels, None
    table, members = read_table(estimator, X, sample_weight, reset=True)
    _check_equal_lengths(table, y)
    return table, column_or_1d(y, warn=True), members


def _check_equal_lengths(X: Any, y: Any) -> None:
    """Reject more labels than rows, or less."""
    if y is not None and not issparse(y) and len(X.shape) == 2 and X.shape[0] != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {X.shape[0]} rows, y has {len(y)} "
            "labels."
        )


def read_table(
    estimator: "Classifier", X: Any, sample_weight: Any = None, *, reset: bool
) -> tuple[Any, NDArray[Any] | None]:
    """Predictors as a float array, not copied if they are one, and the group of each row (None without groups).

    The group's column is taken out before the numeric check: it may hold text. So may columns of categories, whose
    levels are learned with ``reset`` from rows whose weight is not 0.
    """
    if estimator.group is None and estimator.categories is None:
        table = _validated(estimator, _as_numbers(X), reset=reset, accept_sparse="csr", **_OPTIONS)
        return _canonical_csr(table), None
    group = estimator.group
    if group is not None:
        check_group(group)
    X = _as_table(X, dtype=object)
    if issparse(X):
        raise TypeError(
            f"{'categories' if group is None else 'group'}: sparse data was passed, but categories and groups "
            "need a dense table: use X.toarray(), or a formula with Model."
        )
    read_columns(estimator, X, reset=reset)
    if estimator.categories is None:
        return read_rows(X, group)
    table, members = _split_group(X, group)
    columns = list(_columns(table))
    if reset:
        weights, n_rows = np.asarray(1.0 if sample_weight is None else sample_weight), len(columns[0][1])
        used = weights != 0 if weights.shape == (n_rows,) else np.ones(n_rows, dtype=bool)  # validated later
        found = categories_of(table, None, used)
        estimator.levels_ = {name: one_hot.check_levels(name, summary.labels) for name, summary in found.items()}
    encoded, new = one_hot.encode([(name, cells) for name, cells, _ in columns], estimator.levels_)
    if new and not reset:
        _warn_of_new_levels(columns, new)
    return check_array(encoded, input_name="X", **_OPTIONS), members


def _columns(X: Any) -> Iterator[tuple[Any, NDArray[Any], Any]]:
    """Names, values and types of the columns of a frame or an array, whose names are numbers."""
    if hasattr(X, "columns"):
        yield from ((name, _cells(X[name]), X[name].dtype) for name in X.columns)
        return
    X = values.unmasked(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: reshape X to rows and columns.")
    yield from ((j, X[:, j], X.dtype) for j in range(X.shape[1]))


def _warn_of_new_levels(columns: Sequence[tuple[Any, NDArray[Any], Any]], new: dict[Any, int]) -> None:
    shown = [
        f"{name!r} ({values.shown(cells[new[name]])} in row {new[name]})" for name, cells, _ in columns if name in new
    ]
    warnings.warn(
        f"Levels not seen in fit in {join_names(shown)[1:-1]}: they are treated as missing, and imputed from the other "
        "predictors.",
        UserWarning,
        stacklevel=6,
    )


def check_group(group: Any) -> None:
    """Reject a group that is no column name or number."""
    if not isinstance(group, str | numbers.Integral):
        raise TypeError(
            f"group must be the name or the number of a column of X; got {type(group).__name__}. Put the groups into X."
        )


def read_columns(estimator: BaseEstimator, X: Any, *, reset: bool) -> None:
    """Let scikit-learn learn or check the columns; for polars, of an empty pandas frame that has them."""
    if hasattr(X, "columns") and not hasattr(X, "iloc"):
        X = header(X.columns)
    _validated(estimator, X, reset=reset, skip_check_array=True)


def header(names: Iterable[str]) -> "pd.DataFrame":
    """An empty frame with these columns."""
    import pandas as pd

    return pd.DataFrame(columns=list(names))


def _validated(estimator: BaseEstimator, X: Any, *labels: Any, **options: Any) -> Any:
    """``validate_data`` of scikit-learn; column names that differ only in Unicode form are explained."""
    try:
        return validate_data(estimator, X, *labels, **options)
    except ValueError as error:
        fitted_names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
        names = [str(name) for name in getattr(X, "columns", ())]
        hints = [unicode_variant(name, names) for name in fitted_names if name not in names]
        if "feature names" not in str(error) or not any(hints):
            raise
        raise ValueError(f"{str(error).rstrip()}\n{next(filter(None, hints))}") from error


def read_rows(
    X: Any, group: str | int | None, levels: Mapping[Any, NDArray[Any]] | None = None
) -> tuple[Any, NDArray[Any] | None]:
    """Predictors and groups of a part of a table whose columns are known; ``levels`` encode categories."""
    inputs, members = (X, None) if group is None else _split_group(_as_table(X, dtype=object), group)
    if levels is None:
        table = _as_numbers(inputs)
    else:
        table, _ = one_hot.encode([(name, cells) for name, cells, _ in _columns(inputs)], levels)
    return check_array(table, input_name="X", ensure_min_samples=0, **_OPTIONS), members


def categories_of(X: Any, group: str | int | None, weights: NDArray[Any]) -> dict[Any, LabelSummary]:
    """Labels of the columns of categories in a part of a table, over its rows of positive weight."""
    found = {}
    for name, cells, dtype in _columns(_split_group(_as_table(X, dtype=object), group)[0]):
        if one_hot.is_category(dtype, cells):
            known = np.flatnonzero((weights > 0) & ~values.missing(cells))
            labels = group_labels(cells[known], name, known.tolist())
            found[name] = LabelSummary.from_rows(labels, weights[known])
    return found


def _split_group(X: Any, group: str | int | None) -> tuple[Any, NDArray[Any] | None]:
    """The predictors, and the group of each row if any."""
    if group is None:
        return X, None
    inputs, members = _pop_column(X, group)
    members = _checked_groups(members, group)
    if inputs.shape[1] == 0:
        raise ValueError(f"X has no column besides the group {group!r}; at least one predictor is needed.")
    return inputs, members


def group_column(X: Any, group: str | int) -> NDArray[Any]:
    """The group of each row of a table whose columns are known."""
    column = _cells(X[group]) if hasattr(X, "columns") else values.unmasked(X[:, int(group)])
    return _checked_groups(column, group)


def _checked_groups(members: NDArray[Any], group: str | int) -> NDArray[Any]:
    missing = values.missing(members)
    if missing.any():
        raise ValueError(f"The group of row {int(np.argmax(missing))} is missing in column {group!r}. Drop such rows.")
    return group_labels(members, group)


def _canonical_csr(table: Any) -> Any:
    """Canonical CSR of a sparse table; dense if more than ``MAX_DENSITY`` of the cells are stored."""
    if not issparse(table):
        return table
    csr = canonical_csr(table)
    is_dense = csr.nnz > MAX_DENSITY * csr.shape[0] * csr.shape[1] and np.isfinite(csr.data).all()
    return csr.toarray() if is_dense else csr


def _as_table(X: Any, dtype: Any = None) -> Any:
    """X as an array, or as a pandas or polars frame; ``dtype`` is that of lists, in which types may be mixed."""
    as_it_is = issparse(X) or (issubclass(type(X), np.ndarray) and not issubclass(type(X), np.matrix))
    if not as_it_is:
        check_collected(X, "X")
        check_in_memory(X=X)
        if hasattr(X, "to_pandas") and hasattr(X, "schema") and hasattr(X, "column_names"):  # of arrow
            X = X.to_pandas(ignore_metadata=True)
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            check_unique(list(X.columns), "X has")
            return X
    table = X if as_it_is else _as_array(X, dtype)
    if table.ndim == 0:
        raise TypeError(
            f"X must be a table of numbers, such as a 2D array or a data frame; got {values.named(type(X))}."
        )
    if table.dtype.kind == "V":
        raise TypeError("X is an array of records: make it a table, as in pandas.DataFrame(X).")
    return table


def _as_array(X: Any, dtype: Any) -> NDArray[Any]:
    """An array of lists, or of anything that gives an array; rows of different lengths are named."""
    try:
        table = np.asarray(X, dtype=dtype)
        return np.asarray(X, dtype=object) if table.dtype.kind in "USc" else table
    except ValueError:
        if not all(hasattr(row, "__len__") for row in X):
            raise ValueError("X must be a table: some of its rows are lists, and others are single values.") from None
        sizes = [len(row) for row in X]
        row = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
        if row is not None:
            raise ValueError(
                f"X has rows of different lengths: row 0 has {sizes[0]} values, row {row} has {sizes[row]}."
            ) from None
        return np.stack([values.objects(list(row)) for row in X])


def _as_numbers(X: Any) -> Any:
    """X with numeric types only; columns that are not numeric are rejected."""
    X = _as_table(X)
    if hasattr(X, "columns"):
        return _frame_of_numbers(X)
    if issparse(X):
        return X
    X = values.unmasked(X)
    if X.dtype.kind in "biuf":
        return X
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X contains {values.named(type(X[0]))} in row 0."
        )
    columns = [values.as_floats(X[:, j], f"Column {j}", text=True) for j in range(X.shape[1])]
    return np.column_stack(columns) if columns else X


def _frame_of_numbers(X: Any) -> Any:
    """A pandas frame of numbers, also of polars, whose column names older versions of scikit-learn do not find."""
    plain = all(
        kind.kind in "biuf" and not hasattr(kind, "fill_value")
        if hasattr(kind, "kind")
        else values.is_polars_number(kind)
        for kind in X.dtypes  # those of which scikit-learn makes floats; no sparse ones
    )
    if plain and hasattr(X, "iloc"):
        return X
    import pandas as pd

    if plain:
        return pd.DataFrame(X.to_numpy(), columns=list(X.columns))
    columns = [values.as_floats(cells, f"Column {name!r}", text=True) for name, cells, _ in _columns(X)]
    return pd.DataFrame(dict(enumerate(columns))).set_axis(X.columns, axis=1)


def _cells(column: Any) -> NDArray[Any]:
    """Values of a column of a pandas or polars frame."""
    return np.asarray(column) if hasattr(column, "iloc") else values.from_polars(column)


def _pop_column(X: Any, group: str | int) -> tuple[Any, NDArray[Any]]:
    """Predictors without the group column, and that column."""
    if hasattr(X, "columns"):
        names = list(X.columns)
        if group not in names or isinstance(group, bool):
            raise ValueError(
                f"group={group!r} is not a column of X; its columns are "
                f"{join_names(names)}.{did_you_mean(str(group), names)}"
            )
        if not isinstance(group, str) and names.index(group) != group:
            raise ValueError(
                f"group={group!r} is the name of one column and the number of another: make the column names text."
            )
        return X[[name for name in names if name != group]], _cells(X[group])
    number = isinstance(group, numbers.Integral) and not isinstance(group, bool)
    if X.ndim != 2 or not number or not -X.shape[1] <= group < X.shape[1]:
        raise ValueError(f"group={group!r} is not a column number of X, which has the shape {X.shape}.")
    others = np.arange(X.shape[1]) != int(group) % X.shape[1]
    return X[:, others], values.unmasked(X[:, int(group)])
