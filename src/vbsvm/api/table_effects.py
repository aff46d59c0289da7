"""The rows of an estimator's table, which effects are averages over."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.base.arrays import Array
from vbsvm.design import one_hot
from vbsvm.design.columns import Encoded, FactorPlan
from vbsvm.design.frames import check_column
from vbsvm.design.levels import UNSEEN, group_labels
from vbsvm.design.values import join_names


@final
@dataclass(frozen=True, eq=False)
class TableColumns:
    """Names of the columns of a table (numbers where they have none), levels of categories, and the group."""

    inputs: tuple[Any, ...]
    levels: Mapping[Any, NDArray[Any]]
    factor: FactorPlan | None

    def places(self, name: str) -> NDArray[np.intp]:
        """Where an input stands in the encoded table: one place, or those of its levels."""
        return np.flatnonzero(self.owners == self.names.index(name))

    @cached_property
    def owners(self) -> NDArray[np.intp]:
        """The number of the input of each column of the encoded table."""
        return one_hot.owners(self.inputs, self.levels)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The inputs, as users call them."""
        return tuple(f"x{name}" if isinstance(name, int) else str(name) for name in self.inputs)

    def labels(self, name: str) -> NDArray[Any] | None:
        """Levels of a category; None of a number."""
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
        columns: TableColumns,
        table: Any,
        members: NDArray[Any] | None,
        kept: NDArray[np.intp] | None,
        weights: Array,
    ) -> "TableRows":
        """Rows of a table that was read; ``kept`` are those that count."""
        if issparse(table):
            raise TypeError("effects: a sparse table was passed; give some of its rows as data=X.toarray().")
        if kept is not None and len(kept) < len(table):
            table, members = table[kept], None if members is None else members[kept]
        return TableRows(columns, table, members, weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, and the group."""
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
        own, labels = self.table[:, self.columns.places(name)], self.columns.labels(name)
        if labels is None:
            return pd.Series(own[:, 0])
        codes = one_hot.codes_of(own)
        return pd.Series(labels.astype(object)[codes]).where(codes != UNSEEN, None)

    def levels(self, name: str) -> list[Any] | None:
        """Those of a category or the group; None of a number."""
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
        """What is written into the columns of an input: rows × places, or one row for all."""
        labels = self.columns.labels(name)
        if labels is not None:
            if value not in labels.tolist():
                raise ValueError(f"Input {name!r} has no level {value!r}; it has {join_names(labels.tolist())}.")
            return one_hot.columns_of(np.flatnonzero(labels == value), labels)
        if isinstance(value, str):
            raise ValueError(f"Input {name!r} is a number; got {value!r}.")
        return np.reshape(value, (-1, 1))
