"""Scores of rows under a fitted law, new groups included."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vbsvm.arrays import Array
from vbsvm.design.levels import UNSEEN
from vbsvm.design.plan import Encoded, FactorPlan, Plan
from vbsvm.layout.arrow import ArrowRows
from vbsvm.layout.base import Message, PointLaw
from vbsvm.layout.dense import DenseRows
from vbsvm.layout.factors import Factor
from vbsvm.rowblocks import block_rows, single_threaded_blas
from vbsvm.spec import Spec, State


def mean_scores(plan: Plan, state: State, encoded: Encoded) -> Array:
    """Mean score of each row; a group that was not seen in fit adds nothing."""
    effective = PointLaw(state.coefficients.mean).message(state.gates).mean
    scores = np.empty(len(encoded.table))
    for where, rows, _ in _blocks(plan, encoded):
        scores[where] = rows.scores(effective)
    return scores


def score_moments(plan: Plan, spec: Spec, state: State, encoded: Encoded) -> tuple[Array, Array]:
    """Mean and variance of each row's score; a group that was not seen in fit adds its prior variance zᵀE[Σ]z."""
    message: Message = state.coefficients.message(state.gates)
    means, variances = np.empty(len(encoded.table)), np.zeros(len(encoded.table))
    of_new = [prior_covariance(plan, spec, state, k) for k in range(len(plan.factors))]
    for where, rows, unseen in _blocks(plan, encoded):
        means[where], variances[where] = message.row_moments(rows)
        for covariance, z in zip(of_new, unseen, strict=True):
            new = z.any(axis=1)
            variances[where][new] += np.einsum("iq,qr,ir->i", z[new], covariance, z[new])
    return means, variances


def prior_covariance(plan: Plan, spec: Spec, state: State, k: int) -> Array:
    """E[Σ] of the effects of a level of the k-th factor; zero between effects of different terms."""
    begin, q = plan.first_effects()[k], len(plan.factors[k].slopes)
    covariance = np.zeros((q, q))
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        places = [columns.start - begin for columns in block.columns if 0 <= columns.start - begin < q]
        if places:
            mean = scale.mean
            covariance[np.ix_(places, places)] = mean if isinstance(mean, np.ndarray) else mean * np.eye(len(places))
    return covariance


def _blocks(plan: Plan, encoded: Encoded) -> Iterator[tuple[slice, Any, list[Array]]]:
    """Row blocks as in fitting; and for each factor the columns z of its new levels, zero in all other rows."""
    n_rows, size = len(encoded.table), block_rows(plan.recipe.n_columns)
    design, scratch = plan.recipe.work_space(min(size, n_rows)), plan.recipe.work_space(min(size, n_rows))
    nothing = np.empty(0)
    with np.errstate(over="ignore", invalid="ignore"), single_threaded_blas():  # the caller looks at the scores
        for index, begin in enumerate(range(0, n_rows, size)):
            where = slice(begin, min(begin + size, n_rows))
            filled = plan.recipe.encode(encoded.table[where], design)
            fixed = filled[:, : plan.n_fixed]
            rows: Any = DenseRows(index, fixed, nothing, nothing, scratch[: len(filled), : plan.n_fixed])
            pairs = [
                _seen_and_new(factor, levels[where], filled)
                for factor, levels in zip(plan.factors, encoded.levels, strict=True)
            ]
            if pairs:
                *factors, tail = (seen for seen, _ in pairs)
                rows = ArrowRows(rows, tuple(factors), tail)
            yield where, rows, [new for _, new in pairs]


def _seen_and_new(plan: FactorPlan, levels: Any, design: Array) -> tuple[Factor, Array]:
    """The factor with z = 0 in rows of new levels, so that they add nothing; and z of those rows alone."""
    z, new = design[:, plan.slopes], levels == UNSEEN
    if not new.any():
        return Factor(levels, len(plan.levels), z, plan.slopes), np.zeros_like(z)
    return Factor(np.where(new, 0, levels), len(plan.levels), z * ~new[:, None], plan.slopes), z * new[:, None]
