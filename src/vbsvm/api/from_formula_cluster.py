"""The problem of a formula whose rows lie in the workers of a cluster: learned by summaries, encoded where they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.cluster_formula_rows import (
    APART,
    LevelSumsOf,
    PatternsOf,
    Placing,
    Reading,
    Summarising,
    columns_of,
    kept_frame,
)
from vbsvm.api.from_formula import KeptRows, stated
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded
from vbsvm.design.formula import syntax
from vbsvm.design.formula.reader import Reader
from vbsvm.design.formula.summary import FormulaSummary, Needs
from vbsvm.design.scaling import ColumnSummary, Recipe
from vbsvm.design.spelling import renumbered
from vbsvm.missing.categories import CategorySums
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.sources import collections
from vbsvm.sources.cluster import Cluster
from vbsvm.sources.distributed import Distributed

# Bytes of whole columns that are fetched from the workers, of which splines and some transforms are learned.
MOST_WHOLE = 2**31


@final
@dataclass(frozen=True, eq=False)
class FormulaCluster:
    """Encoded partitions in workers, and what has been learned of all rows."""

    cluster: Cluster
    parts: Sequence[Any]
    reader: Reader
    classes: NDArray[Any]
    columns: ColumnSummary
    n_dropped: int
    writes_out: bool

    @staticmethod
    def read(data: Any, formula: str, weights: Any, missing: str, positive: Any, standardize: bool) -> "FormulaCluster":
        """Learn what the terms mean, and let workers encode and keep the rows."""
        if collections.is_array(data):
            raise TypeError("data must be a data frame with named columns; got a dask array: use DaskVBSVC.")
        if weights is not None and not isinstance(weights, str):
            raise TypeError(
                "weights: where the data lie in a cluster, so do the weights; give the name of their column."
            )
        names, cluster = [str(name) for name in data.columns], Cluster.of()
        parts = syntax.read(formula, names, weights)
        frames.require_column(names, weights)
        keep = collections.delayed(partial(kept_frame, parts, weights, missing))
        kept = cluster.held([keep(number, part) for number, part in enumerate(collections.delayed_parts(data))])
        summary = cluster.sum(Summarising(Needs.of(parts)), kept)
        if summary.found is None:
            raise ValueError("The data have no row that counts: all are of weight 0, or miss values.")
        _require_room(summary.found)
        try:
            frame = summary.found.frame()
            classes = KeptRows(frame, np.ones(len(frame)), 0).outcome(parts, positive).labels
            reader, centred = summary.found.learn(standardize)
        except (ValueError, TypeError) as error:
            raise type(error)(renumbered(str(error), lambda row: row % APART)) from None
        writes_out = any(bool(frame[name].isna().any()) for name in reader.categories.names)
        encoded = cluster.each(Reading(reader, classes[1], writes_out), kept)
        counts = cluster.collected(cluster.each(_counts, kept))
        encoded = [part for part, count in zip(encoded, counts, strict=True) if count]
        columns = cluster.sum(columns_of, encoded)
        reader = reader.scaled(columns.recipe(reader.plan.recipe.intercept, standardize, centred))
        return FormulaCluster(cluster, encoded, reader, classes, columns, summary.n_dropped, writes_out)

    def problem(
        self, priors: Mapping[str, Prior | str], imputation: GaussianImputation, *, standardize: bool
    ) -> Problem:
        """The problem without rows."""
        reader, nothing = self.reader, np.empty(0)
        n_categories, none = len(reader.categories.names), np.empty(0, dtype=np.intp)
        candidates = Candidates(none, np.empty((0, n_categories), dtype=np.intp)) if self.writes_out else None
        rows = Encoded(
            np.empty((0, len(reader.plan.names))), tuple(none for _ in reader.plan.factors), candidates=candidates
        )
        outcome = TwoClasses(self.classes, nothing)
        about = self.columns.ranges, priors, imputation, self.n_dropped, none
        problem = stated(reader, rows, outcome, nothing, *about, standardize=standardize)
        return replace(problem, looked_at=self)

    def placed(self, task: Task) -> Task:
        """The task with its rows, which stay in the workers."""
        like, links = task.table, np.empty(0, dtype=np.intp)
        if like.missing_inputs is not None:
            known = task.missing_data.all_inputs.pairs
            links = np.array([known.index(pair) for pair in like.missing_inputs.inputs.pairs], dtype=np.intp)
        memories = self.cluster.each(Placing(like, links), self.parts)
        return replace(task, source=Distributed.of(self.cluster, memories, like), given=None)

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        return self.columns.deviation[columns]

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs and categories."""
        return self.cluster.sum(PatternsOf(columns, names, categories), self.parts)

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Moments of columns of the design by label and level."""
        return self.cluster.sum(LevelSumsOf(recipe, tuple(columns), tuple(sizes)), self.parts)


def _counts(kept: Any) -> int:
    return len(kept.weights)


def _require_room(total: FormulaSummary) -> None:
    if total.n_held > MOST_WHOLE:
        raise ValueError(
            f"Splines and transforms such as scale() and poly() are learned from all values of their columns "
            f"({', '.join(total.needs.held)}), which are {total.n_held / 1e9:.1f} GB; up to {MOST_WHOLE / 1e9:.1f} are "
            "fetched from a cluster: leave these terms out, or compute such columns before."
        )
