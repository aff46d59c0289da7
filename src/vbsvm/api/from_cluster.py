"""The problem of an estimator whose rows lie in the workers of a cluster: stated without rows, which stay there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import label_checks, validation
from vbsvm.api.cluster_rows import Encoding, PatternsOf, TableSummary, read_part
from vbsvm.api.from_table import outcomes, plan_of, positives, stated
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import Recipe
from vbsvm.missing.categories import CategorySums
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Prior
from vbsvm.results.training_rows import Unweighted
from vbsvm.sources import collections
from vbsvm.sources.cluster import Cluster
from vbsvm.sources.distributed import Distributed


@final
@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Partitions of a table in workers, the names of its columns, and what has been learned of all rows.

    ``group`` is the column of groups, where there is one; it is not among the names.
    """

    cluster: Cluster
    parts: Sequence[Any]
    names: tuple[str, ...]
    group: str | int | None
    summary: TableSummary

    @staticmethod
    def read(
        cluster: Cluster, X: Any, y: Any, sample_weight: Any, names: tuple[str, ...], group: str | int | None
    ) -> "ClusterTable":
        """Let workers read the partitions of collections, and keep them."""
        columns = None if collections.is_array(X) else list(X.columns)
        read = collections.delayed(partial(read_part, group, columns))
        rows = collections.partitions(X, y, sample_weight)
        parts = cluster.held([read(number, row) for number, row in enumerate(rows)])
        summary = cluster.sum(TableSummary.of, parts)
        if summary.columns is None:
            raise ValueError("X has no row of positive weight: nothing is left to fit.")
        summary.labels.require_few("y")
        label_checks.require_classes(summary.labels.labels)
        return ClusterTable(cluster, parts, names, group, summary)

    def tasks(
        self,
        likelihood: Likelihood,
        prior: Prior,
        imputation: GaussianImputation,
        class_weight: Any,
        *,
        intercept: bool,
        standardize: bool,
    ) -> list[Task]:
        """One model for two classes, else one for each class against the rest; rows are encoded in the workers."""
        labels, columns = self.summary.labels, self.summary.columns
        assert columns is not None
        validation.require_known(columns.ranges, self.names)
        plan = plan_of(columns.recipe(intercept, standardize), self.names, str(self.group), self._levels)
        nothing = np.empty(0)
        rows = Encoded(np.empty((0, len(self.names))), tuple(np.empty(0, dtype=np.intp) for _ in plan.factors))
        models = outcomes(labels.labels, [nothing for _ in positives(labels.labels)])
        problem = stated(plan, rows, nothing, columns.ranges, models, prior, imputation, None)
        factors = None
        if class_weight is not None:
            factors = label_checks.class_factors(class_weight, labels.labels, labels.totals)
        tasks = replace(problem, looked_at=self, likelihood=likelihood).tasks()
        numbers = positives(labels.labels)
        return [self._task(task, positive, factors) for task, positive in zip(tasks, numbers, strict=True)]

    @property
    def _levels(self) -> Levels | None:
        return None if self.summary.groups is None else Levels.learn([self.summary.groups.labels])[0]

    def _task(self, task: Task, positive: int, factors: Array | None) -> Task:
        encoding = Encoding(task.table, self.summary.labels.labels, positive, self._levels, factors)
        unweighted = None
        if factors is not None:
            counted, squared = (self._source(replace(encoding, factors=one)) for one in (None, np.square(factors)))
            unweighted = Unweighted(counted, squared)
        return replace(task, source=self._source(encoding), sample_weights=unweighted)

    def _source(self, encoding: Encoding) -> Distributed:
        return Distributed.of(self.cluster, self.cluster.each(encoding, self.parts), encoding.like)

    def deviations(self, columns: NDArray[np.intp]) -> Array:
        """Standard deviations of the known values of some columns."""
        assert self.summary.columns is not None
        return self.summary.columns.deviation[columns]

    def patterns(
        self, columns: NDArray[np.intp], names: tuple[str, ...], categories: tuple[str, ...]
    ) -> MissingPatterns:
        """Patterns of missing inputs; a table has no categories."""
        if not names:
            return MissingPatterns((), np.zeros((1, 0), dtype=bool), np.array([self.summary.labels.n_rows]))
        return self.cluster.sum(PatternsOf(columns, names), self.parts)

    def level_sums(self, recipe: Recipe, columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> CategorySums:
        """Asked only where a category is missing."""
        raise NotImplementedError
