"""Convert data frames of any kind to pandas with the columns in use; errors name the rows of missing values."""

import numbers
from collections.abc import Callable, Container, Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.design import values
from vbsvm.design.values import did_you_mean, join_names

if TYPE_CHECKING:
    import pandas as pd

_WORDS = {values.TEXT: "text", values.NUMBER: "numbers", values.TRUTH: "numbers"}


def names_of(data: Any) -> list[str]:
    """Column names of a pandas or polars frame, an arrow table, or a dictionary of columns."""
    check_collected(data, "data")
    if hasattr(data, "column_names"):
        names = list(data.column_names)
    elif hasattr(data, "columns"):
        names = list(data.columns)
    elif isinstance(data, dict):
        names = list(data)
    else:
        raise TypeError(
            f"data must be a data frame (pandas, polars, arrow) or a dictionary of columns; got {type(data).__name__}."
        )
    check_unique(names, "The data have")
    return names


def check_unique(names: list[Any], subject: str) -> None:
    """Reject duplicate column names; ``subject`` starts the error message."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{subject} two columns of the name {twice!r}: rename one.")


def check_collected(data: Any, name: str) -> None:
    """Reject lazy frames and classes."""
    if isinstance(data, type):
        raise TypeError(f"{name} is the class {data.__name__} itself; a table is needed.")
    if callable(getattr(data, "collect", None)):
        raise TypeError(f"{name} is a {type(data).__name__}, which has no rows yet: call its collect() first.")


def is_collection(data: Any) -> bool:
    """Whether data is a Dask array, series or data frame."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "to_delayed")


def check_in_memory(**given: Any) -> None:
    """Reject Dask collections where data in memory is needed."""
    for name, data in given.items():
        if is_collection(data):
            raise TypeError(
                f"{name} is a collection of Dask: use DaskVBSVC or DaskVBLogistic of vbsvm.dask, or pass "
                f"{name}.compute() if it fits in memory."
            )


def take(
    data: Any, columns: Sequence[str], kept: NDArray[np.intp] | None = None, may_miss: Container[str] = ()
) -> "pd.DataFrame":
    """Return these columns as a pandas frame; raise for dates, and for missing values in columns that need all.

    ``kept`` are the rows that count. The frame's index has the rows as they were given, and errors name them so.
    """
    import pandas as pd

    names = names_of(data)
    for name in columns:
        check_column(names, name)
    if not names:
        raise ValueError("The data have no columns.")
    columns_by_name = {name: column(data, name) for name in columns or names[:1]}
    first, n_rows = next((name, len(cells)) for name, cells in columns_by_name.items())
    for name, cells in columns_by_name.items():
        if len(cells) != n_rows:
            raise ValueError(f"Column {name!r} has {len(cells)} values, and column {first!r} has {n_rows}.")
    frame = pd.DataFrame(columns_by_name)[list(columns)]
    if kept is not None:
        frame = frame.take(kept)
    if len(frame) == 0:
        raise ValueError("The data have no rows.")
    return frame.assign(**{name: _read(frame[name], name in may_miss) for name in columns})


def check_column(names: list[str], name: str | None) -> None:
    """Raise if the column does not exist; None is skipped."""
    if name is not None and name not in names:
        raise ValueError(f"The data have no column {name!r}; they have {join_names(names)}.{did_you_mean(name, names)}")


def _read(column: Any, may_miss: bool) -> Any:
    """Convert a column to a type for formulaic; its index numbers rows in errors."""
    name, missing = column.name, column.isna().to_numpy()
    known = column[~missing]
    kinds = values.kinds_of(np.asarray(known.unique() if hasattr(column.dtype, "categories") else known))
    for kind, of_type in kinds.items():
        if kind in (values.DATE, values.COMPLEX) or (kind == values.OTHER and not _has_text(of_type)):
            row = next(row for row, value in known.items() if values.kind_of(type(value)) == kind)
            if kind == values.DATE:
                raise ValueError(
                    f"Column {name!r} contains dates or times: make it a number, such as days, or text (row {row})."
                )
            raise TypeError(
                f"Column {name!r} contains {values.named(of_type)} in row {row}: make its values numbers or text."
            )
    if missing.any() and not may_miss:
        lost = column.index[missing]
        shown = ", ".join(map(str, lost[:5])) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise ValueError(
            f"Column {name!r} has no value in row{'s' if len(lost) > 1 else ''} {shown}. The outcome, weights "
            "and groups must be known: leave these rows out."
        )
    if column.dtype.kind == "O" and len({_WORDS.get(kind, kind) for kind in kinds}) > 1:
        words = [_WORDS.get(values.kind_of(type(value)), type(value).__name__) for value in known]
        row = next(row for row, word in enumerate(words) if word != words[0])
        one, other = sorted((words[0], words[row]), key=lambda word: (word != "text", word))
        raise ValueError(
            f"Column {name!r} mixes {one} and {other} (rows {known.index[0]} and {known.index[row]}): make it one kind."
        )
    return _plain(column, known, set(kinds), may_miss)


def _has_text(kind: type) -> bool:
    """Whether values of a type have a text form that may name a category."""
    return not issubclass(kind, Sized | Iterable | Callable) and (kind.__str__, kind.__repr__) != (
        object.__str__,
        object.__repr__,
    )


def as_learned(column: Any, kind: str) -> Any:
    """Convert a column to its type at fitting, labels or numbers; raise if numbers have become something else."""
    import pandas as pd

    dtype = column.dtype
    if kind == "O" and dtype.kind in "biuf":
        return column.astype(object)
    if kind in "biuf" and isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind in "biuf":
        return column.astype(np.float64 if column.hasnans else dtype.categories.dtype)
    if kind in "biuf" and dtype.kind not in "biuf" and column.notna().any():
        raise ValueError(f"Column {column.name!r} was numeric in fit, and contains {column.dropna().iloc[0]!r} now.")
    return column


def _plain(column: Any, known: Any, kinds: set[str], is_input: bool) -> Any:
    """The column in a type for formulaic, without unused categories; ``known`` are its values of these kinds."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column if all(map(_is_label, column.cat.categories)) else column.cat.rename_categories(str)
    if dtype.kind == "O" and kinds and kinds <= {values.NUMBER, values.TRUTH}:
        return _numbers(column, known, is_input)
    if dtype.kind == "O" and not all(map(_is_label, known)):
        return column.astype(object).map(str, na_action="ignore").astype(object)
    if pd.api.types.is_string_dtype(dtype):
        return column.astype(object)
    if pd.api.types.is_extension_array_dtype(dtype):
        types = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
        if len(known) < len(column) and dtype.kind in types:
            return column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        return column.astype(types.get(dtype.kind, object))
    return column


def _numbers(column: Any, known: Any, is_input: bool) -> Any:
    """Convert a column of Python numbers; labels beyond 64 bits would coincide as floats."""
    import pandas as pd

    large = next((row for row, value in known.items() if values.beyond_64_bits(value)), None)
    if large is not None and not is_input:
        raise ValueError(f"Column {column.name!r} contains a whole number beyond 64 bits in row {large}: make it text.")
    native = all(issubclass(kind, int | float | np.generic) for kind in set(map(type, known)))
    if native and large is None and len(known) == len(column):
        return pd.to_numeric(column.infer_objects())
    try:
        return column.map(lambda value: np.nan if pd.isna(value) else float(value)).astype(np.float64)
    except OverflowError:
        raise ValueError(f"Column {column.name!r} contains a number beyond 1e308 in row {large}: rescale it.") from None


def _is_label(value: object) -> bool:
    """Whether a label can be stored in model files."""
    return isinstance(value, str | numbers.Real | np.bool_)


def _of_arrow(column: Any, name: str) -> Any:
    try:
        column.validate(full=True)  # text that is none would be found out later
        return column.to_pandas()
    except Exception as error:  # arrow has kinds of errors of its own
        raise TypeError(
            f"Column {name!r} is an Arrow array of type {column.type}, which can't be read ({error}): make its values "
            "numbers or text."
        ) from error


def column(data: Any, name: str) -> "pd.Series":
    """A column as a pandas series with index 0, 1, …, masked values missing."""
    import pandas as pd

    series = data[name]
    if hasattr(series, "to_pylist"):  # of arrow
        series = _of_arrow(series, name)
    elif hasattr(getattr(series, "dtype", None), "is_numeric"):  # of polars
        series = values.from_polars(series)
    if isinstance(series, list | tuple | range):
        series = values.as_array(series) if values.as_array(series).ndim == 1 else values.objects(series)
    elif str(getattr(series, "dtype", "")) == "object" and series.ndim == 1:
        series = values.objects(series.tolist())
    series = values.unmasked(series)
    if getattr(series, "ndim", 0) != 1 or not hasattr(series, "dtype") or series.dtype.kind == "V":
        raise TypeError(
            f"Column {name!r} is {values.named(type(series))}; a list or an array with a value a row is needed."
        )
    if isinstance(series, np.ndarray):
        series = series.astype(series.dtype.newbyteorder("="), copy=False)
    series = pd.Series(series).reset_index(drop=True)
    return series.sparse.to_dense() if isinstance(series.dtype, pd.SparseDtype) else series
