"""Polars out for polars in: tables go back as the kind of frame that the rows came in."""

from typing import Any


def is_polars(data: Any) -> bool:
    """Whether data are a polars frame, which need not be imported to know it."""
    return type(data).__module__.partition(".")[0] == "polars"


def like(data: Any, table: Any) -> Any:
    """A pandas table as a polars frame where the data are one: a named index becomes columns."""
    if not is_polars(data):
        return table
    import polars as pl

    names = [name or "row" for name in table.index.names]
    frame = table if names == ["row"] else table.reset_index(names=names)
    return pl.DataFrame({str(name): frame[name].tolist() for name in frame.columns})
