"""Frames of any kind become pandas frames with the columns that are used; what is missing is said with its rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def names_of(data: Any) -> list[str]:
    """Column names of a pandas or polars frame, an arrow table, or a dictionary of columns."""
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


def take(data: Any, columns: Sequence[str]) -> "pd.DataFrame":
    """Give these columns as a pandas frame with rows 0, 1, …; refuse what is missing, and dates."""
    import pandas as pd

    names = names_of(data)
    for name in columns:
        if name not in names:
            raise ValueError(f"The data have no column {name!r}; they have {', '.join(map(repr, names[:12]))}.")
    frame = pd.DataFrame({name: _column(data, name) for name in columns}, columns=list(columns))
    if not columns and names:
        frame = pd.DataFrame(index=range(len(_column(data, names[0]))))
    if len(frame) == 0:
        raise ValueError("The data have no rows.")
    for name in columns:
        if frame[name].dtype.kind in "mM":
            raise ValueError(f"Column {name!r} holds dates or times: turn it into a number, such as days.")
        missing = frame[name].isna().to_numpy()
        if missing.any():
            rows = np.flatnonzero(missing)
            shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
            raise ValueError(
                f"Column {name!r} has no value in row{'s' if len(rows) > 1 else ''} {shown}. Missing values are not "
                "supported yet: leave these rows out, or fill them first."
            )
    return frame


def _column(data: Any, name: str) -> Any:
    column = data[name]
    if hasattr(column, "combine_chunks"):  # arrow
        column = column.to_pandas()
    elif hasattr(column, "to_numpy") and not hasattr(column, "reset_index"):  # polars
        column = column.to_numpy()
    return column.reset_index(drop=True) if hasattr(column, "reset_index") else column
