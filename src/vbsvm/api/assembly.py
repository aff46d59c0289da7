"""From a table of numbers, labels and weights to the models that are fitted: one for two classes, else one a class."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.api.missing_values import Completion
from vbsvm.api.problem import Task, with_layout
from vbsvm.base.arrays import Array
from vbsvm.design.columns import INTERCEPT, FactorPlan, Plan
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import column_ranges, learn_recipe
from vbsvm.missing.input_model import GaussianImputation, InputModel
from vbsvm.missing.model import MissingModel
from vbsvm.model.priors import Normal, Prior, Ridge
from vbsvm.model.spec import Block, Spec
from vbsvm.results.fit import INPUTS
from vbsvm.sources.memory import Grouping, Memory

INTERCEPT_PRIOR = Normal(1e8)


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Named columns, and of each row the class by number, the weight, and the group where there is one."""

    X: NDArray[np.floating]
    names: tuple[str, ...]
    classes: NDArray[Any]
    codes: NDArray[np.intp]
    weights: Array
    members: NDArray[Any] | None
    group: str

    def tasks(
        self, prior: Prior, settings: GaussianImputation, class_weight: Any, *, intercept: bool, standardize: bool
    ) -> list[Task]:
        """One model for two classes, else one for each class against the rest."""
        ranges = column_ranges(self.X, self.weights)
        validation.require_usable(self.X, self.weights, ranges, self.names)
        recipe = learn_recipe(self.X, self.weights, ranges, intercept, standardize)
        validation.require_representable(ranges, recipe, self.names)

        weights = validation.with_class_weights(self.weights, class_weight, self.classes, self.codes)
        factors, groupings = (), ()
        if self.members is not None:
            levels, _ = Levels.learn([self.members[weights > 0]])
            factors = (FactorPlan((self.group,), levels, (INTERCEPT,), slopes=(0,)),)
            groupings = (Grouping(levels.encode([self.members]), len(levels), slopes=(0,)),)
        plan = Plan(recipe, self.names, len(self.names), factors)
        missing = ranges.incomplete
        completion = Completion.of(settings, plan, self.X, weights, missing)
        spec = _spec(prior, plan, completion.distribution)
        validation.require_gates_that_fit(spec, plan)
        tasks = []
        for positive in range(1, 2) if len(self.classes) == 2 else range(len(self.classes)):
            signs = np.where(self.codes == positive, 1.0, -1.0)
            source = Memory(self.X, signs, weights, recipe, groupings, missing_inputs=completion.missing_inputs)
            tasks.append(Task(spec, plan, completion, with_layout(spec, source), self._of_two(positive)))
        return tasks

    def _of_two(self, positive: int) -> NDArray[Any]:
        """Labels of a model's two classes; None stands for the rest."""
        return self.classes if len(self.classes) == 2 else np.array([None, self.classes[positive]], dtype=object)


def _spec(prior: Prior, plan: Plan, inputs: InputModel | None) -> Spec:
    """Examples 1 and 2 of the paper: an intercept that is not penalised, inputs, and random intercepts of groups."""
    blocks = [Block("intercept", (slice(0, 1),), INTERCEPT_PRIOR)] if plan.recipe.intercept else []
    columns = slice(plan.recipe.first, plan.n_fixed)
    blocks.append(Block(INPUTS, (columns,), prior, prior.gate_of(plan.names)))
    for begin, factor in zip(plan.first_effects(), plan.factors, strict=True):
        blocks.append(Block(f"(1 | {factor.name})", (slice(begin, begin + factor.size),), Ridge()))
    return Spec(tuple(blocks), MissingModel.of(inputs))
