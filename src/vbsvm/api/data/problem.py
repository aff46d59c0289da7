"""How any data become models that are fitted: a reader says what columns mean, partitions where rows are."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import validation
from vbsvm.api.data.partitions import Design, EncodedData, Partitions, Reader
from vbsvm.api.missing_values import EncodedRows, MissingDataPlan, plan_missing_data
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.layouts.dual_parts import FREE
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.spec import Spec
from vbsvm.sources.block_source import runs
from vbsvm.sources.distributed import InMemory
from vbsvm.sources.memory import Memory
from vbsvm.sources.row_builder import Grouping
from vbsvm.sources.sparse import Sparse

# Largest number of unpenalised coefficients in the dual layout, which keeps their matrix.
MAX_UNPENALISED = 50


def build_problem(
    reader: Reader, partitions: Partitions, imputation: GaussianImputation, likelihood: Likelihood
) -> "Problem":
    """The problem of rows in partitions: all of them are summarised, then encoded by what was learned."""
    return Problem.from_data(partitions.read(reader), imputation, likelihood)


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be fitted: encoded rows, what their columns mean, how missing inputs are treated, and the likelihood.

    There is a model for each of the rows' labels; all of them have the rest in common.
    """

    data: EncodedData
    design: Design
    imputation: GaussianImputation
    likelihood: Likelihood

    @staticmethod
    def from_data(data: EncodedData, imputation: GaussianImputation, likelihood: Likelihood) -> "Problem":
        """The problem of encoded rows."""
        return Problem(data, data.encoder.design(data.columns, data.rows), imputation, likelihood)

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of all classes."""
        return self.data.encoder.classes

    @property
    def _label_pairs(self) -> list[NDArray[Any]]:
        """Negative and positive class of each model; None means the rest."""
        if len(self.classes) == 2:
            return [self.classes]
        return [np.array([None, label], dtype=object) for label in self.classes]

    def _labels(self) -> Array:
        """Labels ±1 as regressors of missing inputs: all models' but the last, or the only one's."""
        labels = self.data.rows.labels
        return np.column_stack(labels[: max(1, len(labels) - 1)])

    def tasks(self) -> list[Task]:
        """Choose the treatment of missing values and the layout, validate, and build a task for each model."""
        data, design, rows = self.data, self.design, self.data.rows
        plan, encoded, ranges = design.plan, rows.encoded, data.columns.ranges
        validation.check_representable(ranges, plan.recipe, plan.names)
        validation.check_mechanism(self.imputation, encoded)
        n_rows, row_bytes = encoded.table.shape[0], encoded.table.dtype.itemsize * encoded.table.shape[1]
        row_statistics, missing = data.remote, ranges.incomplete
        if row_statistics is None:
            row_statistics = EncodedRows(
                encoded, rows.weights, lambda: runs(n_rows, data.pages, row_bytes), rows.labels[0]
            )
        missing_data = plan_missing_data(
            self.imputation, plan, encoded, missing, design.terms, row_statistics, self._labels, design.known_levels
        )
        spec = Spec(design.blocks(self.likelihood), missing_data.model, self.likelihood)
        validation.check_gates(spec, plan)
        source = self._source(spec, missing_data)
        validation.check_model_size(plan, spec, source)
        shared = design.formula, data.encoder.n_dropped, rows.sample_weights, rows.row_numbers
        tasks = [
            Task(spec, plan, missing_data, replace(source, y=y), classes, *shared)
            for y, classes in zip(rows.labels, self._label_pairs, strict=True)
        ]
        remote = data.remote
        return tasks if remote is None else [remote.with_rows(task, number) for number, task in enumerate(tasks)]

    def _source(self, spec: Spec, missing_data: MissingDataPlan) -> InMemory:
        """The rows, in the layout that suits the model."""
        plan, rows, encoded = self.design.plan, self.data.rows, self.data.rows.encoded
        if issparse(encoded.table):
            return _with_layout(spec, Sparse.from_csr(encoded.table, rows.labels[0], rows.weights, plan.recipe))
        source = Memory(
            encoded.table,
            rows.labels[0],
            rows.weights,
            plan.recipe,
            tuple(map(Grouping.from_levels, plan.factors, encoded.levels)),
            plan.n_carried,
            missing_inputs=missing_data.missing_inputs,
            candidates=encoded.candidates,
            known_levels=self.design.known_levels,
            pages=self.data.pages,
            fixed_levels=missing_data.fixed_levels,
        )
        return _with_layout(spec, source)


def _with_layout(spec: Spec, source: InMemory) -> InMemory:
    """The source with the layout of its covariance: by columns, by rows (wide), or by draws."""
    if not _supports_row_layout(spec, source):
        return source
    if validation.needs_draws(source.X) and spec.gate_map is None:
        return replace(source, drawn_covariance=True)
    return replace(source, wide=validation.is_wide(source.X))


def _supports_row_layout(spec: Spec, source: InMemory) -> bool:
    """Whether a rows × rows layout applies: no groups, nothing missing, nearly all columns penalised."""
    gates = spec.gate_map
    carried = source.n_core < source.n_columns
    if source.groupings or carried or source.missing_inputs is not None or source.candidates is not None:
        return False
    if spec.joint_gates or (gates is not None and gates.shared):
        return False
    return bool(np.count_nonzero(spec.precision(spec.start()).diagonal < FREE) <= MAX_UNPENALISED)
