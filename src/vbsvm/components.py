"""Variance components: what was inferred of the spread of each block's effects, on the user's scale."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainccinv

from vbsvm import diagnostics
from vbsvm.arrays import Array
from vbsvm.design.plan import Plan
from vbsvm.laws import InverseGamma, InverseWishart, MatrixPoint, Point
from vbsvm.priors.covariance import HuangWandLaw
from vbsvm.priors.laplace_zero import LaplaceZeroLaw
from vbsvm.spec import Spec, State
from vbsvm.traces import Traces, correlation_name, effects_of

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 2000


def table(plan: Plan, spec: Spec, state: State, level: float) -> "pd.DataFrame":
    """One row for each standard deviation and each correlation: median, interval, and the mean variance."""
    rows = []
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        law = scale.covariance if isinstance(scale, HuangWandLaw) else scale
        law = law.variance if isinstance(law, LaplaceZeroLaw) else law
        if isinstance(law, Point) and block.columns[0].start < plan.n_fixed:
            continue
        effects = list(effects_of(plan, block))
        for j, (name, unit) in enumerate(effects):
            rows.append((block.name, name, *_spread(_marginal(law, j), unit, level)))
        if isinstance(law, InverseWishart | MatrixPoint):
            rows += _correlations(block.name, [name for name, _ in effects], law, level)
    return _framed([row[2:] for row in rows], [row[:2] for row in rows])


def table_of_draws(traces: Traces, level: float) -> "pd.DataFrame":
    """The same from a sampler's draws, with R̂ and effective draws."""
    chances, rows, index = [0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level], [], []
    for one in traces.components():
        variance = float(np.square(one.trace.draws).mean()) if one.trace.scale else math.nan
        rows.append((*np.quantile(one.trace.draws, chances), variance))
        index.append((one.term, one.effect))
    frame = _framed(rows, index)
    return frame if frame.empty else frame.assign(**diagnostics.columns(traces.component_mixing))


def _framed(rows: list[Any], index: list[Any]) -> "pd.DataFrame":
    import pandas as pd

    places = pd.MultiIndex.from_tuples(index, names=["term", "effect"])
    return pd.DataFrame(rows, index=places, columns=["sd", "lower", "upper", "variance"], dtype=float)


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
            rows.append((term, correlation_name(names[i], names[j]), *found, math.nan))
    return rows
