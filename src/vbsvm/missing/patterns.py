"""Missing inputs as users see them: which were missing together, and what they are expected to be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, inverse
from vbsvm.design.columns import Encoded, Plan
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

    first = int(plan.recipe.intercept)
    columns = population.inputs.variables - first
    centre, scale = plan.recipe.centre[columns], plan.recipe.scale[columns]
    # A row that misses a category stands there once for each level; numeric inputs are the same in all of these.
    rows = slice(None) if encoded.origin is None else np.unique(encoded.origin, return_index=True)[1]
    values = np.array(encoded.table[rows][:, columns], dtype=np.float64)
    missing = np.isnan(values)
    deviations = np.zeros_like(values)
    incomplete = missing.any(axis=1)
    if incomplete.any():
        with np.errstate(invalid="ignore"):
            known = np.where(np.isfinite(scale), (values[incomplete] - centre) / scale, 0.0)
        found, spread = _conditional(known, missing[incomplete], population)
        varies = np.where(np.isfinite(scale), scale, 0.0)
        values[incomplete] = np.where(missing[incomplete], centre + varies * found, values[incomplete])
        deviations[incomplete] = np.where(missing[incomplete], varies * spread, 0.0)
    names = pd.Index([plan.names[k] for k in columns])
    return pd.DataFrame(values, columns=names), pd.DataFrame(deviations, columns=names)


def _conditional(known: Array, missing: NDArray[np.bool_], population: Population) -> tuple[Array, Array]:
    """Conditional means and standard deviations, pattern by pattern."""
    T = population.distribution.precision
    pull = (population.mean - np.where(missing, 0.0, known)) @ T
    values, spread = np.zeros_like(known), np.zeros_like(known)
    for group in pattern_groups(missing):
        M = group.patterns
        covariance = inverse(T[M[:, :, None], M[:, None, :]])
        values[group.cells] = np.einsum("rkj,rj->rk", covariance[group.pattern_of], pull[group.cells])
        spread[group.cells] = np.sqrt(np.einsum("pkk->pk", covariance))[group.pattern_of]
    return values, spread


def indexed(tables: "tuple[pd.DataFrame, pd.DataFrame]", data: Any) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The tables with the index of the frame that was given, if it has one."""
    index = getattr(data, "index", None)
    if index is None or callable(index) or len(index) != len(tables[0]):
        return tables
    return tables[0].set_axis(index), tables[1].set_axis(index)


def mean_and_covariance(plan: Plan, population: Population) -> tuple[Array, Array]:
    """Mean and covariance of the inputs on the scale of their columns."""
    columns = population.inputs.variables - int(plan.recipe.intercept)
    centre, scale = plan.recipe.centre[columns], plan.recipe.scale[columns]
    scale = np.where(np.isfinite(scale), scale, 0.0)
    return centre + scale * population.mean, population.covariance * scale * scale[:, None]
