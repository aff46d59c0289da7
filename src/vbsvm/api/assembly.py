"""From a problem, whether it came as a table or as a formula, to the models that are fitted."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.api.missing_values import Completion, InputTerms
from vbsvm.api.task import Task
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.scaling import Range
from vbsvm.missing.level_model import LevelCounts, LevelModel
from vbsvm.missing.model import MissingModel
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.layouts.dual_parts import FREE
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.memory import Memory
from vbsvm.sources.row_builder import Grouping

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

    There is a model for each of ``outcomes``; all of them have the rest in common. ``ranges`` are those of the table's
    columns. ``sample_weights`` are the weights without those of classes, where these have some. Where categories are
    missing, ``known_levels`` counts the levels that are known. ``given`` are the numbers that the rows have in the
    user's data, where these are others.
    """

    plan: Plan
    rows: Encoded
    weights: Array
    ranges: Range
    outcomes: tuple[TwoClasses, ...]
    blocks: tuple[Block, ...]
    imputation: GaussianImputation
    terms: InputTerms
    known_levels: LevelCounts | None = None
    reader: "Reader | None" = None
    n_dropped: int = 0
    sample_weights: Array | None = None
    given: NDArray[np.intp] | None = None

    @property
    def _labels(self) -> Array:
        """Columns that tell the classes: all but one of the outcomes' signs, or the only ones."""
        return np.column_stack([one.signs for one in self.outcomes[: max(1, len(self.outcomes) - 1)]])

    def tasks(self) -> list[Task]:
        """Decide how missing values are treated and how rows lie in memory; refuse what can't be fitted."""
        plan, rows = self.plan, self.rows
        validation.require_representable(self.ranges, plan.recipe, plan.names)
        validation.require_mechanism(self.imputation, rows)
        missing = self.ranges.incomplete
        completion = Completion.of(self.imputation, plan, rows, self.weights, missing, self.terms, self._labels)
        levels = None
        if self.known_levels is not None:
            levels = LevelModel(tuple(map(len, self.known_levels.counts)), self.imputation.held)
        spec = Spec(self.blocks, MissingModel.of(completion.distribution, levels))
        validation.require_gates_that_fit(spec, plan)
        groupings = tuple(map(Grouping.of, plan.factors, rows.levels))
        source = Memory(
            rows.table,
            self.outcomes[0].signs,
            self.weights,
            plan.recipe,
            groupings,
            plan.n_carried,
            missing_inputs=completion.missing_inputs,
            candidates=rows.candidates,
            known_levels=self.known_levels,
        )
        source = replace(source, wide=_suits_dual(spec, source))
        validation.require_moderate_size(plan, source)
        about = self.reader, self.n_dropped, self.sample_weights, self.given
        return [
            Task(spec, plan, completion, replace(source, signs=one.signs), one.labels, *about) for one in self.outcomes
        ]


def _suits_dual(spec: Spec, source: Memory) -> bool:
    """Whether the dual layout suits the model: columns far outnumber rows, and priors hold nearly all of them."""
    gates = spec.gate_map
    if source.groupings or source.n_carried or source.missing_inputs is not None or source.candidates is not None:
        return False
    if spec.joint_gates or (gates is not None and gates.shared) or not validation.is_wide(source.X):
        return False
    return bool(np.count_nonzero(spec.precision(spec.start()).diagonal < FREE) <= MOST_FREE)
