"""The rows that effects are averages over: columns by name, which can be set to a value in every row."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from vbsvm.base.arrays import Array
from vbsvm.design import frames, one_hot
from vbsvm.design.columns import UNSEEN, Encoded, FactorPlan, group_labels
from vbsvm.design.frames import check_column, check_in_memory
from vbsvm.design.values import did_you_mean, join_names

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader
    from vbsvm.results.training_rows import TrainingRows


# Up to so many different values of a number are a grid of their own.
MAX_DISCRETE = 10
# Of other numbers a table shows these quantiles, and a figure so many points between the outermost.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
POINTS = 21
# Categories with more levels make no table that people read.
MOST_LEVELS = 50


@final
@dataclass(frozen=True, eq=False)
class GivenRows:
    """Data of a user, the indices of rows with positive weight (None if all), and their weights."""

    data: Any
    kept: NDArray[np.intp] | None
    weights: Array

    @staticmethod
    def of(what: str, data: Any, weights: str | ArrayLike | None, training: "TrainingRows | None") -> "GivenRows":
        """The given data with their weights, or else those of the fit; raise if neither are in memory."""
        if data is not None:
            counts = row_weights(what, data, weights)
            kept = None if (counts > 0).all() else np.flatnonzero(counts)
            return GivenRows(data, kept, counts if kept is None else counts[kept])
        if training is None or training.data is None:
            raise ValueError(
                f"{what}: averages are over rows, and this fit does not hold its data (a loaded one never does, nor "
                "one of files or a cluster): give rows with data=…"
            )
        return GivenRows(training.data, *training.counted())


def row_weights(what: str, data: Any, weights: str | ArrayLike | None) -> Array:
    """Check and return weights of rows: a column of the data, an array, or 1 by default."""
    n_rows = n_rows_of(data)
    if not n_rows:
        raise ValueError("The data have no rows.")
    values = frames.take(data, [weights])[weights] if isinstance(weights, str) else 1.0 if weights is None else weights
    counts = np.asarray(values, dtype=np.float64)
    if counts.ndim and counts.shape != (n_rows,):
        raise ValueError(f"{what}: weights have the shape {counts.shape}, and the data have {n_rows} rows.")
    counts = np.broadcast_to(counts, n_rows)
    if not (counts >= 0).all() or not 0 < counts.sum() < np.inf:
        raise ValueError(f"{what}: weights must be finite numbers of at least 0, and not all 0.")
    return counts


def n_rows_of(data: Any) -> int:
    """Number of rows of a frame, a dictionary of columns, or an array."""
    check_in_memory(data=data)
    if isinstance(data, dict):
        return len(frames.column(data, next(iter(data)))) if data else 0
    if hasattr(data, "shape"):
        return int(data.shape[0])
    if hasattr(data, "__len__"):
        return len(data)
    raise TypeError(
        f"data must be rows in memory, such as a data frame; got {type(data).__name__}. Of files, read some rows, as "
        "by pandas.read_parquet, and pass these."
    )


@final
@dataclass(frozen=True, eq=False)
class FormulaRows:
    """Rows of a formula's data."""

    reader: "Reader"
    data: Any
    kept: NDArray[np.intp] | None
    frame: "pd.DataFrame"
    weights: Array

    @staticmethod
    def of(reader: "Reader", given: "GivenRows") -> "FormulaRows":
        """Rows of a frame, which may lack the columns of groups."""
        frame = reader.select(given.data, given.kept, reader.lacking_groups(given.data))
        return FormulaRows(reader, given.data, given.kept, frame, given.weights)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the formula but the outcome."""
        return self.reader.columns

    @property
    def owners(self) -> tuple[str, ...]:
        """A term may have several predictors."""
        return ()

    def column(self, name: str) -> Any:
        """Values of a column of the data, which need not be in the formula."""
        if name in self.frame:
            return self.frame[name]
        return frames.take(self.data, [name], self.kept, may_miss=[name])[name]

    def levels(self, name: str) -> list[Any] | None:
        """Levels of the fit, or those of the data if it does not store them; None for a numeric input."""
        categories = self.reader.categories
        if name in categories.names:
            return categories.levels[categories.names.index(name)].tolist()
        if self.reader.kinds[name] == "b":
            return [False, True]
        grouped = any(name in factor.columns for factor in self.reader.plan.factors)
        if name in self.reader.numeric and not grouped:
            return None
        return sorted(self.column(name).dropna().unique().tolist())

    def encoded(self, changes: Mapping[str, Any]) -> Encoded:
        """Columns are set before they are encoded, so that transforms, curves and interactions follow."""
        frame, n = self.frame, len(self.frame)
        for name, value in changes.items():
            dtype = object if isinstance(value, str) else None
            values = value if isinstance(value, np.ndarray) else np.full(n, value, dtype=dtype)
            column: Any = frames.take({name: values}, [name], may_miss=self.reader.parts.inputs)[name]
            frame = frame.assign(**{name: self.reader.as_learned(column).set_axis(frame.index)})
        return self.reader.encode(frame)


def check_input(what: str, rows: "EffectRows", name: Any) -> None:
    """Raise if a name is not a predictor."""
    if not isinstance(name, str) or name not in rows.names:
        hint = did_you_mean(name, list(rows.names)) if isinstance(name, str) else ""
        names = join_names(list(rows.names))
        raise ValueError(f"{what}: {name!r} is not a predictor of the model; it has {names}.{hint}")


def grid(what: str, rows: "EffectRows", name: str, at: Any, *, fine: bool = False) -> list[Any]:
    """Values of an input for a table: those of ``at``, all levels of a category, or quantiles of a number."""
    check_input(what, rows, name)
    if at is not None:
        return _check_values(what, name, at)
    levels = rows.levels(name)
    if levels is not None:
        if len(levels) > MOST_LEVELS:
            raise ValueError(
                f"{what}: {name!r} has {len(levels)} levels, and a table of up to {MOST_LEVELS} is made: choose some "
                "with at=[…]."
            )
        return levels
    values = known_numbers(what, rows, name)
    distinct = np.unique(values)
    if len(distinct) <= MAX_DISCRETE:
        return [int(value) if value.is_integer() else value for value in distinct.tolist()]
    if fine:
        low, high = np.quantile(values, [QUANTILES[0], QUANTILES[-1]])
        return np.linspace(low, high, POINTS).tolist() if low < high else [float(low)]
    chosen = np.quantile(values, QUANTILES)
    size = chosen[-1] - chosen[0]
    decimals = 2 - math.floor(math.log10(size)) if size > 0 else 12
    while chosen[0] > 0 >= np.round(chosen[0], decimals):  # a logarithm of it may be in the model
        decimals += 1
    return np.unique(np.round(chosen, decimals)).tolist()


def _check_values(what: str, name: str, at: Any) -> list[Any]:
    values = [at] if isinstance(at, str) or np.ndim(at) == 0 else list(at)
    if not values or len(values) > 1000:
        raise ValueError(f"{what}: choose a list of 1 to 1000 values of {name!r}; got {len(values)}.")
    found = [value.item() if isinstance(value, np.generic) else value for value in values]
    found = [int(value) if isinstance(value, float) and value.is_integer() else value for value in found]
    for value in found:
        if value is None or (isinstance(value, float) and not np.isfinite(value)):
            raise ValueError(f"{what}: {value!r} was given; a value of {name!r} is needed.")
    return found


def known_numbers(what: str, rows: "EffectRows", name: str) -> Array:
    """Non-missing values of a numeric input."""
    values = rows.column(name).to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values) & (rows.weights > 0)]
    if not len(values):
        raise ValueError(f"{what}: {name!r} is missing in all rows: choose values with at=[…].")
    return values


def is_discrete(rows: "EffectRows", name: str) -> bool:
    """Whether an input is categorical, or numeric with few distinct values."""
    return rows.levels(name) is not None or rows.column(name).nunique() <= MAX_DISCRETE


def names_of(what: str, given: Any, word: str) -> list[str]:
    """One name or several, as a list."""
    names = [] if given is None else [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TypeError(f"{what}: {word} must be the name of a column, or a list of different names; got {given!r}.")
    return names


def groups_of(what: str, rows: "EffectRows", by: Sequence[str]) -> "tuple[NDArray[np.intp], list[tuple[Any, ...]]]":
    """Group index of each row, −1 if a value is missing, and the values of each group."""
    import pandas as pd

    if not by:
        return np.zeros(len(rows.weights), dtype=np.intp), [()]
    frame = pd.DataFrame({name: rows.column(name).to_numpy() for name in by})[rows.weights > 0]
    grouped = frame.groupby(list(by), sort=True, observed=True, dropna=True)
    if not grouped.ngroups or grouped.ngroups > MOST_LEVELS:
        set_to = {
            name: grid(what, rows, name, None)[1::2]
            for name in by
            if name in rows.names and not is_discrete(rows, name)
        }
        compare = f"use by={set_to} to compare at these values, or " if set_to else ""
        raise ValueError(
            f"{what}: by={list(by)} makes {grouped.ngroups} groups of rows; 1 to {MOST_LEVELS} make a table: {compare}"
            "cut numbers into a few ranges first, as a column of their own."
        )
    codes = np.full(len(rows.weights), -1, dtype=np.intp)
    codes[frame.index] = grouped.ngroup().fillna(-1).to_numpy(dtype=np.intp)
    return codes, [key if isinstance(key, tuple) else (key,) for key in grouped.size().index]


@final
@dataclass(frozen=True, eq=False)
class TableColumns:
    """Names of the columns of a table (numbers where they have none), levels of categories, and the group."""

    inputs: tuple[Any, ...]
    levels: Mapping[Any, NDArray[Any]]
    factor: FactorPlan | None

    def places(self, name: str) -> NDArray[np.intp]:
        """Columns of an input in the encoded table: one, or those of its levels."""
        return np.flatnonzero(self.owners == self.names.index(name))

    @cached_property
    def owners(self) -> NDArray[np.intp]:
        """Index of the input of each column of the encoded table."""
        return one_hot.owners(self.inputs, self.levels)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The predictors, as users call them."""
        return tuple(f"x{name}" if isinstance(name, int) else str(name) for name in self.inputs)

    def labels(self, name: str) -> NDArray[Any] | None:
        """Levels of a categorical input; None for a numeric one."""
        return self.levels.get(self.inputs[self.names.index(name)])


@final
@dataclass(frozen=True, eq=False)
class TableRows:
    """A table of numbers, and the group of each row where there is one."""

    columns: TableColumns
    table: NDArray[np.floating]
    members: NDArray[Any] | None
    weights: Array

    @staticmethod
    def of(
        columns: TableColumns, table: Any, members: NDArray[Any] | None, kept: NDArray[np.intp] | None, weights: Array
    ) -> "TableRows":
        """Rows of an encoded table; ``kept`` are the indices of rows with positive weight."""
        if issparse(table):
            raise TypeError("effects: a sparse table was passed; give some of its rows as data=X.toarray().")
        if kept is not None and len(kept) < len(table):
            table, members = table[kept], None if members is None else members[kept]
        return TableRows(columns, table, members, weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The predictors, and the group."""
        factor = self.columns.factor
        return self.columns.names if factor is None else (*self.columns.names, factor.name)

    @property
    def owners(self) -> tuple[str, ...]:
        """The input of each column of the encoded table."""
        return tuple(self.columns.names[k] for k in self.columns.owners)

    def column(self, name: str) -> Any:
        """An input, or the group."""
        import pandas as pd

        check_column(list(self.names), name)
        if name not in self.columns.names:
            return pd.Series(self.members)
        columns, labels = self.table[:, self.columns.places(name)], self.columns.labels(name)
        if labels is None:
            return pd.Series(columns[:, 0])
        codes = one_hot.codes_of(columns)
        return pd.Series(labels.astype(object)[codes]).where(codes != UNSEEN, None)

    def levels(self, name: str) -> list[Any] | None:
        """Levels of a categorical input or the group; None for a numeric input."""
        if name in self.columns.names:
            labels = self.columns.labels(name)
            return None if labels is None else list(labels)
        return None if self.columns.factor is None else list(self.columns.factor.levels.labels)

    def encoded(self, changes: Mapping[str, Any]) -> Encoded:
        """A copy of the table with columns set."""
        table, members, factor = self.table, self.members, self.columns.factor
        for name, value in changes.items():
            if name not in self.columns.names:
                members = group_labels(np.full(len(table), value, dtype=object), name)
                continue
            table = table.astype(np.float64, order="K", copy=True) if table is self.table else table
            table[:, self.columns.places(name)] = self._cells(name, value)
        return Encoded(table, () if factor is None or members is None else (factor.encode([members]),))

    def _cells(self, name: str, value: Any) -> Array:
        """Values for the columns of an input: rows × columns, or one row for all."""
        labels = self.columns.labels(name)
        if labels is not None:
            if value not in labels.tolist():
                known, hint = labels.tolist(), did_you_mean(str(value), labels)
                raise ValueError(f"Input {name!r} has no level {value!r}; it has {join_names(known)}.{hint}")
            return one_hot.columns_of(np.flatnonzero(labels == value), labels)
        if isinstance(value, str):
            raise ValueError(f"Input {name!r} is a number; got {value!r}.")
        return np.reshape(value, (-1, 1))


# Rows with weights and columns by name, which can be encoded with some of them set.
EffectRows = FormulaRows | TableRows
