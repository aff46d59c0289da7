"""Frames of any kind become pandas frames with the columns that are used; what is missing is said with its rows."""

import numbers
from collections.abc import Container, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.spelling import meant

if TYPE_CHECKING:
    import pandas as pd


def names_of(data: Any) -> list[str]:
    """Column names of a pandas or polars frame, an arrow table, or a dictionary of columns."""
    require_collected(data, "data")
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
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The data have two columns of the name {twice!r}: rename one.")
    return names


def require_collected(data: Any, name: str) -> None:
    """Refuse a lazy frame: a table is needed as it is."""
    if callable(getattr(data, "collect", None)):
        raise TypeError(f"{name} is a {type(data).__name__}, which holds no rows yet: call its collect() first.")


def take(
    data: Any, columns: Sequence[str], kept: NDArray[np.intp] | None = None, may_miss: Container[str] = ()
) -> "pd.DataFrame":
    """Give these columns as a pandas frame with rows 0, 1, …; refuse dates, and what is missing where it may not be.

    ``kept`` are the rows that count; errors name rows of the data as they were given.
    """
    import pandas as pd

    names = names_of(data)
    for name in columns:
        if name not in names:
            shown = ", ".join(map(repr, names[:12]))
            raise ValueError(f"The data have no column {name!r}; they have {shown}.{meant(name, names)}")
    frame = pd.DataFrame({name: _column(data, name) for name in columns}, columns=list(columns))
    if not columns and names:
        frame = pd.DataFrame(index=range(len(_column(data, names[0]))))
    if kept is not None:
        frame = frame.take(kept)
    if len(frame) == 0:
        raise ValueError("The data have no rows.")
    for name in columns:
        if _holds_dates(frame[name]):
            raise ValueError(f"Column {name!r} holds dates or times: make it a number, such as days, or text.")
        missing = frame[name].isna().to_numpy()
        if missing.any() and name not in may_miss:
            rows = np.flatnonzero(missing) if kept is None else kept[missing]
            shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
            raise ValueError(
                f"Column {name!r} has no value in row{'s' if len(rows) > 1 else ''} {shown}. The outcome, weights "
                "and groups must be known: leave these rows out."
            )
        frame[name] = _plain(_of_one_kind(frame[name]))
    return frame.reset_index(drop=True)


def missing_rows(data: Any, columns: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Rows of each of these columns without a value."""
    import pandas as pd

    return {name: pd.Series(_column(data, name)).isna().to_numpy() for name in columns}


def _holds_dates(column: Any) -> bool:
    import pandas as pd

    values = getattr(column.dtype, "categories", column)
    if values.dtype.kind != "O":
        return values.dtype.kind in "mM"
    kinds = (date, time, timedelta, pd.Period, np.datetime64, np.timedelta64)
    return any(isinstance(value, kinds) and value is not pd.NaT for value in values)


def as_learned(column: Any, kind: str) -> Any:
    """The column in the kind that it had in fit: numbers become labels again, and labels that are numbers, numbers."""
    import pandas as pd

    dtype = column.dtype
    if kind == "O" and dtype.kind in "biuf":
        return column.astype(object)
    if kind in "biuf" and isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind in "biuf":
        return column.astype(np.float64 if column.hasnans else dtype.categories.dtype)
    return column


def _of_one_kind(column: Any) -> Any:
    """Refuse text beside anything else: there is no order of both."""
    if column.dtype.kind == "O":
        known = column.dropna()
        text = np.array([isinstance(value, str) for value in known], dtype=bool)
        if text.any() and not text.all():
            one, other = known.index[0], known.index[int(np.argmax(text != text[0]))]
            raise ValueError(
                f"Column {column.name!r} mixes text and numbers (rows {one} and {other}): make it one kind."
            )
    return column


def _plain(column: Any) -> Any:
    """The column in a type that formulaic knows, without categories that do not occur."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column if all(map(_is_label, column.cat.categories)) else column.cat.rename_categories(str)
    known = column.dropna()
    if dtype.kind == "O" and len(known) and all(isinstance(value, numbers.Number | Decimal) for value in known):
        if len(known) < len(column) or isinstance(known.iloc[0], Decimal):
            return column.map(lambda value: np.nan if pd.isna(value) else float(value)).astype(np.float64)
        return pd.to_numeric(column.infer_objects())
    if dtype.kind == "O" and not all(map(_is_label, known)):
        return column.astype(object).map(str, na_action="ignore").astype(object)
    if pd.api.types.is_string_dtype(dtype):
        return column.astype(object)
    if pd.api.types.is_extension_array_dtype(dtype):
        kinds = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
        if len(known) < len(column) and dtype.kind in kinds:
            return column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        return column.astype(kinds.get(dtype.kind, object))
    return column


def _is_label(value: Any) -> bool:
    """Whether a label is one that files know."""
    return isinstance(value, str | numbers.Real | np.bool_)


def _column(data: Any, name: str) -> Any:
    column = data[name]
    if hasattr(column, "combine_chunks"):  # arrow
        column = column.to_pandas()
    elif hasattr(column, "to_numpy") and not hasattr(column, "reset_index"):  # polars
        column = column.to_numpy()
    return column.reset_index(drop=True) if hasattr(column, "reset_index") else column
