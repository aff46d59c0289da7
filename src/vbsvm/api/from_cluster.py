"""The problem of an estimator whose rows lie in the workers of a cluster: stated without rows, which stay there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from vbsvm.api import validation
from vbsvm.api.cluster_rows import Encoding, TableSummary, read_part
from vbsvm.api.from_table import Table
from vbsvm.api.task import Task
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.results.training_rows import Unweighted
from vbsvm.sources import collections
from vbsvm.sources.cluster import Cluster
from vbsvm.sources.distributed import Distributed


@final
@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Partitions of a table in workers, the names of its columns, and what has been learned of all rows."""

    cluster: Cluster
    parts: Sequence[Any]
    names: tuple[str, ...]
    summary: TableSummary

    @staticmethod
    def read(cluster: Cluster, X: Any, y: Any, sample_weight: Any, names: tuple[str, ...]) -> "ClusterTable":
        """Let workers read the partitions of collections, and keep them."""
        read = collections.delayed(read_part)
        rows = collections.partitions(X, y, sample_weight)
        parts = cluster.held([read(number, *row) for number, row in enumerate(rows)])
        summary = cluster.sum(TableSummary.of, parts)
        if summary.columns is None:
            raise ValueError("X has no row of positive weight: nothing is left to fit.")
        check_classification_targets(summary.labels.labels)
        validation.require_two_classes(summary.labels.labels)
        return ClusterTable(cluster, parts, names, summary)

    def tasks(
        self, prior: Prior, imputation: GaussianImputation, class_weight: Any, *, intercept: bool, standardize: bool
    ) -> list[Task]:
        """One model for two classes, else one for each class against the rest; rows are encoded in the workers."""
        labels, columns = self.summary.labels, self.summary.columns
        assert columns is not None
        validation.require_known(columns.ranges, self.names)
        recipe = columns.recipe(intercept, standardize)
        nothing = np.empty((0, len(self.names))), np.empty(0, dtype=np.intp), np.empty(0)
        empty = Table(nothing[0], self.names, labels.labels, nothing[1], nothing[2], None, "")
        problem = empty.stated(recipe, columns.ranges, None, prior, imputation)
        factors = None
        if class_weight is not None:
            factors = validation.class_factors(class_weight, labels.labels, labels.totals)
        tasks = problem.tasks()
        return [self._task(task, k if len(tasks) > 1 else 1, factors) for k, task in enumerate(tasks)]

    def _task(self, task: Task, positive: int, factors: Any) -> Task:
        encoding = Encoding(task.rows, self.summary.labels.labels, positive, factors)
        patterns = replace(task.completion.missing_patterns, counts=np.array([self.summary.labels.n_rows]))
        unweighted = None
        if factors is not None:
            counted, squared = (self._source(replace(encoding, factors=one)) for one in (None, np.square(factors)))
            unweighted = Unweighted(counted, squared)
        completion = replace(task.completion, missing_patterns=patterns)
        return replace(task, source=self._source(encoding), completion=completion, sample_weights=unweighted)

    def _source(self, encoding: Encoding) -> Distributed:
        memories = self.cluster.each(encoding, self.parts)
        return Distributed.of(self.cluster, memories, encoding.like)
