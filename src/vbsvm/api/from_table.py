"""The problem of an estimator: a table of numbers, labels and weights, and the group of each row where there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vbsvm.api import label_checks, validation
from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.default_priors import INTERCEPT_PRIOR, intercepts_prior
from vbsvm.api.missing_values import InputTerms
from vbsvm.base.arrays import Array
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, Plan
from vbsvm.design.levels import Levels
from vbsvm.design.scaling import Range, Recipe, column_ranges, learn_recipe
from vbsvm.design.sparse_columns import learn_sparse_recipe, sparse_ranges, with_common_scale
from vbsvm.missing.settings import GaussianImputation
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Prior
from vbsvm.model.spec import Block
from vbsvm.results.fit import INPUTS
from vbsvm.sources.pages import Pages


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
    given: NDArray[np.intp] | None = None

    def counted(self) -> "Table":
        """The same without rows of weight 0; ``given`` are the numbers that the others had, and have in errors."""
        if self.weights.all():
            return self
        self._ranges()
        kept = np.flatnonzero(self.weights)
        members = None if self.members is None else self.members[kept]
        return replace(
            self, X=self.X[kept], codes=self.codes[kept], weights=self.weights[kept], members=members, given=kept
        )

    def problem(
        self, prior: Prior, imputation: GaussianImputation, class_weight: Any, *, intercept: bool, standardize: bool
    ) -> Problem:
        """Columns are scaled by the rows' own weights; in the loss these are multiplied by those of the classes."""
        sparse, ranges = issparse(self.X), self._ranges()
        learn = learn_sparse_recipe if sparse else learn_recipe
        recipe = learn(self.X, self.weights, ranges, intercept, standardize)
        if sparse and validation.needs_draws(self.X):
            recipe = with_common_scale(recipe)
        weights = label_checks.with_class_weights(self.weights, class_weight, self.classes, self.codes)
        levels, rows = None, Encoded(self.X)
        if self.members is not None:
            levels, _ = Levels.learn([self.members[weights > 0]])
            rows = Encoded(self.X, (levels.encode([self.members]),))
        plan, own = plan_of(recipe, self.names, self.group, levels), None if class_weight is None else self.weights
        signs = [np.where(self.codes == positive, 1.0, -1.0) for positive in positives(self.classes)]
        return stated(plan, rows, weights, ranges, outcomes(self.classes, signs), prior, imputation, own, self.given)

    def _ranges(self) -> Range:
        """Ranges of the columns; refuse what can't be fitted, by rows and columns."""
        sparse = issparse(self.X)
        ranges = (sparse_ranges if sparse else column_ranges)(self.X, self.weights)
        (validation.require_usable_sparse if sparse else validation.require_usable)(
            self.X, self.weights, ranges, self.names
        )
        return ranges


def plan_of(recipe: Recipe, names: tuple[str, ...], group: str, levels: Levels | None) -> Plan:
    """Columns of these names, and the levels of the group where there is one."""
    factors = () if levels is None else (FactorPlan((group,), levels, (INTERCEPT,), slopes=(0,)),)
    return Plan(recipe, names, len(names), factors)


def positives(classes: NDArray[Any]) -> Sequence[int]:
    """The classes that a model sets against the rest: the second of two, else each."""
    return (1,) if len(classes) == 2 else range(len(classes))


def outcomes(classes: NDArray[Any], signs: Sequence[Array]) -> tuple[TwoClasses, ...]:
    """One model for two classes, else one for each class against the rest, which None stands for."""
    if len(classes) == 2:
        return (TwoClasses(classes, signs[0]),)
    return tuple(
        TwoClasses(np.array([None, label], dtype=object), own) for label, own in zip(classes, signs, strict=True)
    )


def stated(
    plan: Plan,
    rows: Encoded,
    weights: Array,
    ranges: Range,
    outcomes: tuple[TwoClasses, ...],
    prior: Prior,
    imputation: GaussianImputation,
    sample_weights: Array | None,
    given: NDArray[np.intp] | None = None,
    pages: Pages | None = None,
) -> Problem:
    """The problem of a table in which every column is an input that may be missing."""
    terms, blocks = InputTerms(range(len(plan.names))), partial(_blocks, prior, plan)
    return Problem(
        plan,
        rows,
        weights,
        ranges,
        outcomes,
        blocks,
        imputation,
        terms,
        sample_weights=sample_weights,
        given=given,
        pages=pages,
    )


def _blocks(prior: Prior, plan: Plan, likelihood: Likelihood) -> tuple[Block, ...]:
    """Examples 1 and 2 of the paper: an intercept that is not penalised, inputs, and random intercepts of groups."""
    blocks = [Block("intercept", (slice(0, 1),), INTERCEPT_PRIOR)] if plan.recipe.intercept else []
    columns = slice(plan.recipe.first, plan.n_fixed)
    blocks.append(Block(INPUTS, (columns,), prior, prior.gate_of(plan.names)))
    for begin, factor in zip(plan.first_effects(), plan.factors, strict=True):
        of_groups = intercepts_prior(likelihood)
        blocks.append(Block(f"(1 | {factor.name})", (slice(begin, begin + factor.size),), of_groups))
    return tuple(blocks)
