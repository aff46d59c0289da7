"""One-hot encoding of categories; a column with two levels becomes one indicator, of the second."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design import values
from vbsvm.design.columns import UNSEEN, Levels, group_labels

# More would be a table of hundreds of columns for one: a grouping rather than a predictor.
MAX_LEVELS = 1000


def is_category(dtype: Any, cells: NDArray[Any]) -> bool:
    """Whether a column is categorical, by its type or because it contains text."""
    of_categories = hasattr(dtype, "categories") or str(dtype).startswith(("Categorical", "Enum"))
    return of_categories or values.TEXT in values.kinds_of(cells)


def by_label(columns: Sequence[Any], labels: Sequence[Any], levels: Mapping[Any, NDArray[Any]]) -> dict[Any, Any]:
    """The levels of columns by what these are called in print."""
    return {label: levels[column] for column, label in zip(columns, labels, strict=True) if column in levels}


def check_levels(column: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """The levels of a column; raise if there are none, or too many."""
    if len(labels) == 0:
        raise ValueError(f"Column {column!r} has no value in any row of positive weight. Drop it.")
    if len(labels) > MAX_LEVELS:
        raise ValueError(
            f"Column {column!r} has {len(labels)} levels; up to {MAX_LEVELS} are supported. Merge rare ones, drop it, "
            f"or make it the group of random intercepts: group={column!r}."
        )
    return labels


def shown_levels(labels: NDArray[Any]) -> NDArray[Any]:
    """The levels with an indicator column."""
    return labels[1:] if len(labels) == 2 else labels


def names(columns: Sequence[Any], levels: Mapping[Any, NDArray[Any]]) -> list[str]:
    """Names of the encoded columns: numeric columns, and ``column[level]``."""
    encoded: list[str] = []
    for column in columns:
        encoded += [f"{column}[{one}]" for one in shown_levels(levels[column])] if column in levels else [str(column)]
    if levels and len(set(encoded)) < len(encoded):
        duplicate = next(name for name in encoded if encoded.count(name) > 1)
        raise ValueError(f"Two encoded columns would have the name {duplicate!r}: rename a column or a level of X.")
    return encoded


def owners(columns: Sequence[Any], levels: Mapping[Any, NDArray[Any]]) -> NDArray[np.intp]:
    """Index of the original column of each encoded column."""
    counts = [len(shown_levels(levels[column])) if column in levels else 1 for column in columns]
    return np.repeat(np.arange(len(counts)), counts)


def columns_of(codes: NDArray[np.intp], labels: NDArray[Any]) -> Array:
    """Indicator columns of level numbers, rows × shown levels; NaN for ``UNSEEN``."""
    first = len(labels) - len(shown_levels(labels))
    indicators = (codes[:, None] == np.arange(first, len(labels))).astype(np.float64)
    indicators[codes == UNSEEN] = np.nan
    return indicators


def codes_of(table: NDArray[np.floating]) -> NDArray[np.intp]:
    """Level numbers of indicator columns: the inverse of ``columns_of``."""
    missing = np.isnan(table).any(axis=1)
    numbers = (table[:, 0] > 0).astype(np.intp) if table.shape[1] == 1 else np.argmax(np.nan_to_num(table), axis=1)
    return np.where(missing, UNSEEN, numbers)


def encode(
    columns: Iterable[tuple[Any, NDArray[Any]]], levels: Mapping[Any, NDArray[Any]]
) -> tuple[Array, dict[Any, int]]:
    """Encode all columns; also return the row of the first new level by column."""
    blocks, new = [], {}
    for column, cells in columns:
        if column not in levels:
            blocks.append(values.as_floats(cells, f"Column {column!r}", text=True))
            continue
        known = np.flatnonzero(~values.missing(cells))
        labels, of_column = group_labels(cells[known], column, known.tolist()), Levels.from_labels(levels[column])
        of_column.check_kinds([labels], [column])
        codes = np.full(len(cells), UNSEEN)
        codes[known] = of_column.encode([labels])
        blocks.append(columns_of(codes, levels[column]))
        unseen = known[codes[known] == UNSEEN]
        if len(unseen):
            new[column] = int(unseen[0])
    return np.column_stack(blocks), new
