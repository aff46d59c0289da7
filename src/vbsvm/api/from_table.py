"""The problem of an estimator: a table of numbers, labels and weights, and the group of each row where there is one."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.api import validation
from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.missing_values import InputTerms
from vbsvm.base.arrays import Array
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, Plan
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import Range, Recipe, column_ranges, learn_recipe
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.priors import Normal, Prior, Ridge
from vbsvm.model.spec import Block
from vbsvm.results.fit import INPUTS

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

    def problem(
        self, prior: Prior, imputation: GaussianImputation, class_weight: Any, *, intercept: bool, standardize: bool
    ) -> Problem:
        """Columns are scaled by the rows' own weights; in the loss these are multiplied by those of the classes."""
        ranges = column_ranges(self.X, self.weights)
        validation.require_usable(self.X, self.weights, ranges, self.names)
        recipe = learn_recipe(self.X, self.weights, ranges, intercept, standardize)
        weights = validation.with_class_weights(self.weights, class_weight, self.classes, self.codes)
        levels = None if self.members is None else Levels.learn([self.members[weights > 0]])[0]
        own = None if class_weight is None else self.weights
        return replace(self, weights=weights).stated(recipe, ranges, levels, prior, imputation, own)

    def stated(
        self,
        recipe: Recipe,
        ranges: Range,
        levels: Levels | None,
        prior: Prior,
        imputation: GaussianImputation,
        own: Array | None = None,
    ) -> Problem:
        """The problem of these rows, where columns and groups have been learned; ``own`` are weights without classes'.

        What is learned may be that of more rows.
        """
        factors, rows = (), Encoded(self.X)
        if levels is not None and self.members is not None:
            factors = (FactorPlan((self.group,), levels, (INTERCEPT,), slopes=(0,)),)
            rows = Encoded(self.X, (levels.encode([self.members]),))
        plan = Plan(recipe, self.names, len(self.names), factors)
        terms, blocks = InputTerms(range(len(self.names))), _blocks(prior, plan)
        outcomes = self._outcomes()
        return Problem(plan, rows, self.weights, ranges, outcomes, blocks, imputation, terms, sample_weights=own)

    def _outcomes(self) -> tuple[TwoClasses, ...]:
        """One model for two classes, else one for each class against the rest, which None stands for."""
        if len(self.classes) == 2:
            return (TwoClasses(self.classes, self._signs(1)),)
        return tuple(
            TwoClasses(np.array([None, label], dtype=object), self._signs(k)) for k, label in enumerate(self.classes)
        )

    def _signs(self, positive: int) -> Array:
        return np.where(self.codes == positive, 1.0, -1.0)


def _blocks(prior: Prior, plan: Plan) -> tuple[Block, ...]:
    """Examples 1 and 2 of the paper: an intercept that is not penalised, inputs, and random intercepts of groups."""
    blocks = [Block("intercept", (slice(0, 1),), INTERCEPT_PRIOR)] if plan.recipe.intercept else []
    columns = slice(plan.recipe.first, plan.n_fixed)
    blocks.append(Block(INPUTS, (columns,), prior, prior.gate_of(plan.names)))
    for begin, factor in zip(plan.first_effects(), plan.factors, strict=True):
        blocks.append(Block(f"(1 | {factor.name})", (slice(begin, begin + factor.size),), Ridge()))
    return tuple(blocks)
