"""Variance components: what was inferred of the spread of each block's effects, on the user's scale."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainccinv

from vbsvm.arrays import Array
from vbsvm.design.plan import Plan
from vbsvm.laws import InverseGamma, InverseWishart, MatrixPoint, Point
from vbsvm.priors.covariance import HuangWandLaw
from vbsvm.priors.laplace_zero import LaplaceZeroLaw
from vbsvm.spec import Block, Spec, State

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 2000


def table(plan: Plan, spec: Spec, state: State, level: float) -> "pd.DataFrame":
    """One row for each standard deviation and each correlation: median, interval, and the mean variance."""
    import pandas as pd

    rows = []
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        law = scale.covariance if isinstance(scale, HuangWandLaw) else scale
        law = law.variance if isinstance(law, LaplaceZeroLaw) else law
        if isinstance(law, Point) and block.columns[0].start < plan.n_fixed:
            continue
        effects = list(_effects(plan, block))
        for j, (name, unit) in enumerate(effects):
            rows.append((block.name, name, *_spread(_marginal(law, j), unit, level)))
        if isinstance(law, InverseWishart | MatrixPoint):
            rows += _correlations(block.name, [name for name, _ in effects], law, level)
    index = pd.MultiIndex.from_tuples([row[:2] for row in rows], names=["term", "effect"])
    return pd.DataFrame(
        [row[2:] for row in rows], index=index, columns=["sd", "lower", "upper", "variance"], dtype=float
    )


def table_of_draws(plan: Plan, spec: Spec, scales: tuple[Array, ...], level: float) -> "pd.DataFrame":
    """The same from a sampler's draws: of each block its variance or covariance matrix, chains × draws × numbers."""
    import pandas as pd

    chances, rows = [0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level], []
    for block, values in zip(spec.blocks, scales, strict=True):
        draws = values.reshape(-1, values.shape[2])
        if block.columns[0].start < plan.n_fixed and np.ptp(draws) == 0:
            continue
        effects = list(_effects(plan, block))
        q = len(effects)
        matrices = draws.reshape(-1, q, q) if draws.shape[1] == q * q else draws[:, :1, None]
        for j, (name, unit) in enumerate(effects):
            variances = unit**2 * matrices[:, j, j]
            rows.append((block.name, name, *np.sqrt(np.quantile(variances, chances)), variances.mean()))
        for j in range(matrices.shape[1]):
            for i in range(j):
                correlation = matrices[:, i, j] / np.sqrt(matrices[:, i, i] * matrices[:, j, j])
                told = f"correlation of {effects[i][0]} and {effects[j][0]}"
                rows.append((block.name, told, *np.quantile(correlation, chances), math.nan))
    index = pd.MultiIndex.from_tuples([row[:2] for row in rows], names=["term", "effect"])
    return pd.DataFrame(
        [row[2:] for row in rows], index=index, columns=["sd", "lower", "upper", "variance"], dtype=float
    )


def _effects(plan: Plan, block: Block) -> Iterator[tuple[str, float]]:
    """Name of each effect of a block, and what its scale is multiplied by to be that of the user's column."""
    begin = block.columns[0].start
    if begin < plan.n_fixed:
        yield "all", 1.0
        return
    for first, factor in zip(plan.first_effects(), plan.factors, strict=True):
        if first <= begin < first + factor.size:
            units = plan.units(factor)
            for place in (columns.start - first for columns in block.columns):
                yield factor.effects[place], units[place]


def _marginal(law: Any, j: int) -> InverseGamma | Point:
    """Law of the variance of the j-th effect."""
    if isinstance(law, InverseWishart):
        return InverseGamma(0.5 * (law.degrees - len(law.scale) + 1), 0.5 * law.scale[j, j])
    return Point(law.value[j, j]) if isinstance(law, MatrixPoint) else law


def _spread(law: InverseGamma | Point, unit: float, level: float) -> tuple[float, float, float, float]:
    """Median and interval of σ, and E[σ²]."""
    if isinstance(law, Point):
        sd = unit * math.sqrt(law.value)
        return sd, sd, sd, sd**2
    chances = np.array([0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level])
    sds = unit * np.sqrt(law.rate / gammainccinv(law.shape, chances))
    return float(sds[0]), float(sds[1]), float(sds[2]), unit**2 * law.mean


def _correlations(term: str, names: list[str], law: InverseWishart | MatrixPoint, level: float) -> list[tuple]:
    """Median and interval of each correlation, from draws with a fixed seed; it has no variance."""
    if isinstance(law, MatrixPoint):
        draws = law.value[None]
    else:
        rng = np.random.default_rng(0)
        draws = np.array([law.draw(rng).value for _ in range(DRAWS)])
    sds = np.sqrt(np.einsum("kjj->kj", draws))
    rows = []
    for j in range(len(names)):
        for i in range(j):
            correlation: Array = draws[:, i, j] / (sds[:, i] * sds[:, j])
            found = np.quantile(correlation, [0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level])
            rows.append((term, f"correlation of {names[i]} and {names[j]}", *found, math.nan))
    return rows
