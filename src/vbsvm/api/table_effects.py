"""The rows of an estimator's table, which effects are averages over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, FactorPlan
from vbsvm.design.frames import require_column
from vbsvm.design.levels import group_labels


@final
@dataclass(frozen=True, eq=False)
class TableRows:
    """A table of numbers, and the group of each row where there is one."""

    inputs: tuple[str, ...]
    table: NDArray[np.floating]
    factor: FactorPlan | None
    members: NDArray[Any] | None
    weights: Array

    @staticmethod
    def of(
        inputs: tuple[str, ...],
        table: Any,
        factor: FactorPlan | None,
        members: NDArray[Any] | None,
        kept: NDArray[np.intp] | None,
        weights: Array,
    ) -> "TableRows":
        """Rows of a table that was read; ``kept`` are those that count."""
        if issparse(table):
            raise TypeError("effects: a sparse table was passed; give some of its rows as data=X.toarray().")
        if kept is not None and len(kept) < len(table):
            table, members = table[kept], None if members is None else members[kept]
        return TableRows(inputs, table, factor, members, weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, and the group."""
        return self.inputs if self.factor is None else (*self.inputs, self.factor.name)

    def column(self, name: str) -> Any:
        """An input, or the group."""
        import pandas as pd

        require_column(list(self.names), name)
        return pd.Series(self.table[:, self.inputs.index(name)] if name in self.inputs else self.members)

    def levels(self, name: str) -> list[Any] | None:
        """Inputs are numbers; the group has levels."""
        return None if self.factor is None or name in self.inputs else list(self.factor.levels.labels)

    def encoded(self, changes: Mapping[str, Any]) -> Encoded:
        """A copy of the table with columns set."""
        table, members = self.table, self.members
        for name, value in changes.items():
            if name not in self.inputs:
                members = group_labels(np.full(len(table), value, dtype=object), name)
                continue
            if isinstance(value, str):
                raise ValueError(f"Input {name!r} is a number; got {value!r}.")
            table = table.astype(np.float64, order="K", copy=True) if table is self.table else table
            table[:, self.inputs.index(name)] = value
        return Encoded(table, () if self.factor is None or members is None else (self.factor.encode([members]),))
