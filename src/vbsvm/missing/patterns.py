"""Missing inputs as users see them: which were missing together, and what they are expected to be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.missing import conditional
from vbsvm.missing.population import Population
from vbsvm.missing.rows import pattern_groups, pattern_keys

if TYPE_CHECKING:
    import pandas as pd

CHANGED = "changed predictions"
"""Column of a sensitivity analysis, beside the coefficients: the share of rows whose class is another one."""


@final
@dataclass(frozen=True, eq=False)
class MissingPatterns:
    """Patterns of missing values in the rows that were fitted, the commonest first; True is missing."""

    names: tuple[str, ...]
    patterns: NDArray[np.bool_]
    counts: NDArray[np.intp]

    @staticmethod
    def of(missing: NDArray[np.bool_], names: tuple[str, ...]) -> "MissingPatterns":
        """Count the patterns of some columns."""
        if not len(names):
            return MissingPatterns(names, np.zeros((1, 0), dtype=bool), np.array([len(missing)]))
        _, first, counts = np.unique(pattern_keys(missing), return_index=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return MissingPatterns(names, missing[first[order]], counts[order])

    def __add__(self, other: Self) -> "MissingPatterns":
        """Count the patterns of both sets of rows, in the same columns."""
        if not self.names:
            return MissingPatterns((), self.patterns, self.counts + other.counts)
        patterns, counts = np.concatenate([self.patterns, other.patterns]), np.r_[self.counts, other.counts]
        _, first, place = np.unique(pattern_keys(patterns), return_index=True, return_inverse=True)
        totals = np.zeros(len(first), dtype=np.intp)
        np.add.at(totals, place.ravel(), counts)
        order = np.argsort(-totals, kind="stable")
        return MissingPatterns(self.names, patterns[first[order]], totals[order])

    def of_missing(self, n_first: int) -> "MissingPatterns":
        """The same without those columns after the first ones that are never missing."""
        kept = np.asarray(self.patterns.any(axis=0))
        kept[:n_first] = True
        names = tuple(name for name, one in zip(self.names, kept, strict=True) if one)
        return MissingPatterns(names, self.patterns[:, kept], self.counts)

    @property
    def total(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def n_incomplete(self) -> int:
        """Number of rows that miss something."""
        return int(self.counts[self.patterns.any(axis=1)].sum())

    @property
    def by_column(self) -> dict[str, int]:
        """Number of rows that miss each input."""
        return dict(zip(self.names, (self.counts @ self.patterns).tolist(), strict=True))

    def table(self) -> "pd.DataFrame":
        """One row for each pattern; counts get a longer name where an input has theirs."""
        import pandas as pd

        frame = pd.DataFrame(self.patterns, columns=pd.Index(self.names))
        for name, values in (("rows", self.counts), ("share", self.counts / self.total)):
            frame[f"{name} of the pattern" if name in self.names else name] = values
        frame.index.name = "pattern"
        frame.attrs["missing"] = self.by_column
        return frame


def impute(plan: Plan, population: Population, encoded: Encoded) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Expected values of missing inputs given the row's known ones, and their standard deviations."""
    import pandas as pd

    columns = population.inputs.variables - plan.recipe.first
    centre, scale = plan.recipe.centre[columns], plan.recipe.scale[columns]
    # The candidates of a row have the same numeric inputs.
    rows = slice(None) if encoded.candidates is None else encoded.candidates.firsts
    values = np.array(encoded.table[rows][:, columns], dtype=np.float64)
    missing = np.isnan(values)
    deviations = np.zeros_like(values)
    incomplete = missing.any(axis=1)
    if incomplete.any():
        with np.errstate(invalid="ignore"):
            known = np.where(np.isfinite(scale), (values[incomplete] - centre) / scale, 0.0)
        known, groups = np.where(missing[incomplete], 0.0, known), pattern_groups(missing[incomplete])
        found = conditional.means(known, population.mean, population.distribution.precision, groups)
        spread = conditional.deviations(known, population.distribution.precision, groups)
        varies = np.where(np.isfinite(scale), scale, 0.0)
        values[incomplete] = np.where(missing[incomplete], centre + varies * found, values[incomplete])
        deviations[incomplete] = np.where(missing[incomplete], varies * spread, 0.0)
    names = pd.Index([plan.names[k] for k in columns])
    return pd.DataFrame(values, columns=names), pd.DataFrame(deviations, columns=names)


def indexed(tables: "tuple[pd.DataFrame, pd.DataFrame]", data: object) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The tables with the index of the frame that was given, if it has one."""
    return with_index(tables[0], data), with_index(tables[1], data)


def with_index(table: "pd.DataFrame", data: object) -> "pd.DataFrame":
    """The table with the index of the frame that was given, if it has one."""
    index = getattr(data, "index", None)
    return table if index is None or callable(index) or len(index) != len(table) else table.set_axis(index)


def mean_and_covariance(plan: Plan, population: Population) -> tuple[Array, Array]:
    """Mean and covariance of the inputs on the scale of their columns."""
    columns = population.inputs.variables - plan.recipe.first
    centre, scale = plan.recipe.centre[columns], plan.recipe.spread[columns]
    return centre + scale * population.mean, population.covariance * scale * scale[:, None]
