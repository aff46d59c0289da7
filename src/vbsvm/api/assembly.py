"""From a problem, whether it came as a table or as a formula, to the models that are fitted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import validation
from vbsvm.api.missing_values import EncodedRows, InputTerms, LookedAt, MissingDataPlan, plan_missing_data
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import Range
from vbsvm.missing.categories import LevelCounts
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.layouts.dual_parts import FREE
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.kinds import InMemory
from vbsvm.sources.memory import Memory
from vbsvm.sources.pages import Pages, runs
from vbsvm.sources.row_builder import Grouping
from vbsvm.sources.sparse import Sparse

if TYPE_CHECKING:
    from vbsvm.design.formula.reader import Reader

# The dual layout keeps a matrix of the coefficients that no prior holds.
MOST_FREE = 50


@final
@dataclass(frozen=True, eq=False)
class TwoClasses:
    """The labels of a model's negative and positive class, and ±1 for each row."""

    labels: NDArray[Any]
    signs: Array


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be fitted: columns and factors, rows and weights, priors by block, and how inputs may be missing.

    ``blocks`` depend on the likelihood, which decides on priors that the user has not given. There is a model for each
    of ``outcomes``; all of them have the rest in common. ``ranges`` are those of the table's
    columns. ``sample_weights`` are the weights without those of classes, where these have some. Where categories are
    missing, ``known_levels`` counts the levels that are known. ``given`` are the numbers that the rows have in the
    user's data, where these are others. ``pages`` are those of arrays that are memory-mapped. Where
    the rows lie elsewhere, there are none here, and ``looked_at`` tells what has been seen of them.
    """

    plan: Plan
    rows: Encoded
    weights: Array
    ranges: Range
    outcomes: tuple[TwoClasses, ...]
    blocks: Callable[[Likelihood], tuple[Block, ...]]
    imputation: GaussianImputation
    terms: InputTerms
    known_levels: LevelCounts | None = None
    reader: "Reader | None" = None
    n_dropped: int = 0
    sample_weights: Array | None = None
    given: NDArray[np.intp] | None = None
    pages: Pages | None = None
    looked_at: LookedAt | None = None
    likelihood: Likelihood = HINGE

    def under(self, likelihood: Likelihood) -> "Problem":
        """The same problem with another likelihood."""
        return replace(self, likelihood=likelihood)

    @property
    def text(self) -> str:
        """The formula."""
        assert self.reader is not None
        return self.reader.parts.text

    def _labels(self) -> Array:
        """Columns that tell the classes: all but one of the outcomes' signs, or the only ones."""
        return np.column_stack([one.signs for one in self.outcomes[: max(1, len(self.outcomes) - 1)]])

    def tasks(self) -> list[Task]:
        """Decide how missing values are treated and how rows lie in memory; refuse what can't be fitted."""
        plan, rows = self.plan, self.rows
        validation.require_representable(self.ranges, plan.recipe, plan.names)
        validation.require_mechanism(self.imputation, rows)
        n_rows, row_bytes = rows.table.shape[0], rows.table.dtype.itemsize * rows.table.shape[1]
        looked_at, missing = self.looked_at, self.ranges.incomplete
        if looked_at is None:
            signs = self.outcomes[0].signs
            looked_at = EncodedRows(rows, self.weights, lambda: runs(n_rows, self.pages, row_bytes), signs)
        missing_data = plan_missing_data(
            self.imputation, plan, rows, missing, self.terms, looked_at, self._labels, self.known_levels
        )
        spec = Spec(self.blocks(self.likelihood), missing_data.model, self.likelihood)
        validation.require_gates_that_fit(spec, plan)
        source = self._source(spec, missing_data)
        validation.require_moderate_size(plan, spec, source)
        about = self.reader, self.n_dropped, self.sample_weights, self.given
        return [
            Task(spec, plan, missing_data, replace(source, signs=one.signs), one.labels, *about)
            for one in self.outcomes
        ]

    def _source(self, spec: Spec, missing_data: MissingDataPlan) -> InMemory:
        """The rows, in the layout that suits the model."""
        plan, rows = self.plan, self.rows
        if issparse(rows.table):
            source = Sparse.of(rows.table, self.outcomes[0].signs, self.weights, plan.recipe)
            return _with_layout(spec, source)
        source = Memory(
            rows.table,
            self.outcomes[0].signs,
            self.weights,
            plan.recipe,
            tuple(map(Grouping.of, plan.factors, rows.levels)),
            plan.n_carried,
            missing_inputs=missing_data.missing_inputs,
            candidates=rows.candidates,
            known_levels=self.known_levels,
            pages=self.pages,
            held_levels=missing_data.fixed_levels,
        )
        return _with_layout(spec, source)


def _with_layout(spec: Spec, source: InMemory) -> InMemory:
    """The source with the layout that suits the model, where that is not one of columns × columns."""
    if not _suits_rows(spec, source):
        return source
    if validation.needs_draws(source.X) and spec.gate_map is None:
        return replace(source, drawn_covariance=True)
    return replace(source, wide=validation.is_wide(source.X))


def _suits_rows(spec: Spec, source: InMemory) -> bool:
    """Whether a layout by rows suits the model: no groups, nothing missing, and priors hold nearly all columns."""
    gates = spec.gate_map
    carried = source.n_core < source.n_columns
    if source.groupings or carried or source.missing_inputs is not None or source.candidates is not None:
        return False
    if spec.joint_gates or (gates is not None and gates.shared):
        return False
    return bool(np.count_nonzero(spec.precision(spec.start()).diagonal < FREE) <= MOST_FREE)
