"""Variance components: what was inferred of the spread of each block's effects, on the user's scale."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import hyp2f1, ndtri

from vbsvm.base import diagnostics
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma, InverseWishart, MatrixPoint, Point, TabulatedVariance
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.design.columns import Plan
from vbsvm.model.priors.covariance import HuangWandDistribution
from vbsvm.model.priors.laplace_zero import LaplaceZeroDistribution
from vbsvm.model.spec import Spec, State
from vbsvm.results.history import Traces, correlation_name, effects_of

if TYPE_CHECKING:
    import pandas as pd

# Quantiles of correlations: this many points, out to where hardly any mass is left.
POINTS = 4001
REACH = 20.0
LARGEST = 1 - 1e-15
TOO_NARROW = "too narrow"
# How much longer than the shortest of some thousand draws an interval is that is as short but for noise.
NEARLY = 1.03


@final
@dataclass(frozen=True, slots=True)
class Correlation:
    """Distribution of a correlation under a 2 × 2 inverse Wishart; it is that of a sample correlation (Hotelling 1953).

    The inverse matrix is Wishart and has the opposite correlation, as has the inverse of the scale.
    """

    centre: float
    degrees: float

    def density(self, r: Array) -> Array:
        """Density at correlations between −1 and 1."""
        nu, rho = self.degrees, self.centre
        log = math.log(nu - 1) + math.lgamma(nu) - math.lgamma(nu + 0.5) - 0.5 * math.log(2 * math.pi)
        log = log + 0.5 * nu * math.log1p(-rho * rho) + 0.5 * (nu - 3) * np.log1p(-r * r)
        log = log - (nu - 0.5) * np.log1p(-rho * r)
        return np.exp(log) * hyp2f1(0.5, 0.5, nu + 0.5, 0.5 * (1 + rho * r))

    def quantiles(self, chances: Array) -> Array:
        """Quantiles by the trapezoidal rule on Fisher's z; a correlation of ±1 to rounding is a point."""
        if abs(self.centre) >= LARGEST:
            return np.full(len(chances), self.centre)
        z = math.atanh(self.centre) + np.linspace(-1.0, 1.0, POINTS) * REACH / math.sqrt(self.degrees)
        r = np.clip(np.tanh(z), -LARGEST, LARGEST)
        steps = self.density(r) * (1 - r * r)
        below = np.cumsum(steps) - 0.5 * steps
        return np.interp(chances, below / steps.sum(), r)


@final
@dataclass(frozen=True, slots=True)
class Marginal:
    """Marginal distribution of the variance of an effect in the user's units, or of the correlation of two effects."""

    term: str
    effect: str
    distribution: InverseGamma | TabulatedVariance | Point | Correlation
    mean_field: bool

    @property
    def note(self) -> str:
        """Note on an interval that is too narrow (effects not integrated out), or ""."""
        return TOO_NARROW if self.mean_field and isinstance(self.distribution, InverseGamma | Correlation) else ""

    def quantiles(self, chances: Array) -> Array:
        """Quantiles of the standard deviation, or of the correlation."""
        if isinstance(self.distribution, Correlation):
            return self.distribution.quantiles(chances)
        if isinstance(self.distribution, Point):
            return np.full(len(chances), math.sqrt(self.distribution.value))
        return np.sqrt(self.distribution.values_at(chances)[:, 0, 0])


def marginals(plan: Plan, spec: Spec, state: State) -> Iterator[Marginal]:
    """Yield for each block the marginals of its variances, then of its correlations, by the variational posterior.

    If random effects are integrated out, the variances of other blocks, such as splines, stay mean-field ones.
    """
    integrated = any(isinstance(scale, TabulatedVariance) for scale in state.scales)
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        distribution = scale.covariance if isinstance(scale, HuangWandDistribution) else scale
        distribution = distribution.variance if isinstance(distribution, LaplaceZeroDistribution) else distribution
        if isinstance(distribution, Point) and block.columns[0].start < plan.n_fixed:
            continue
        effects, mean_field = list(effects_of(plan, block)), integrated or block.columns[0].start >= plan.n_fixed
        for j, (name, unit) in enumerate(effects):
            yield Marginal(block.name, name, _variance(distribution, j, unit), mean_field)
        if isinstance(distribution, InverseWishart | MatrixPoint):
            for j in range(len(effects)):
                for i in range(j):
                    pair = correlation_name(effects[i][0], effects[j][0])
                    yield Marginal(block.name, pair, _correlation(distribution, i, j), mean_field)


def table(
    plan: Plan, spec: Spec, state: State, level: float, log_variances: Mapping[str, float] | None = None
) -> "pd.DataFrame":
    """One row for each standard deviation and correlation; ``log_variances`` has known ones of log σ² by term."""
    components, sd_of_log = list(marginals(plan, spec, state)), log_variances or {}
    rows = [_row(m, level, sd_of_log.get(m.term)) for m in components]
    return _frame(rows, [(m.term, m.effect) for m in components]).assign(note=[m.note for m in components])


def narrow_terms(table: "pd.DataFrame") -> list[str]:
    """Terms whose intervals are too narrow."""
    if "note" not in table:
        return []
    terms = table.index.get_level_values("term")
    return list(dict.fromkeys(str(term) for term, note in zip(terms, table["note"], strict=True) if note))


def warn_of_narrow(table: "pd.DataFrame") -> None:
    """Warn if the table has intervals that are too narrow."""
    narrow = narrow_terms(table)
    if narrow:
        warn_user(
            f"Intervals of the variance components of {', '.join(narrow)} are too narrow: their effects were not "
            "integrated out, and nominal 95 % intervals covered 40 to 90 % in simulations. Use inference=Gibbs().",
            ReliabilityWarning,
        )


def _row(marginal: Marginal, level: float, log_sd: float | None) -> tuple[float, ...]:
    """Median, interval (highest-density if tabulated, else by ``log_sd`` of log σ² if known), and squared median."""
    chances = np.array([0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level])
    if isinstance(marginal.distribution, TabulatedVariance):
        median = float(marginal.distribution.quantiles(chances[:1])[0])
        return median, *marginal.distribution.highest_density(level), median * median
    if log_sd is None:
        return _with_variance(marginal.quantiles(chances), of_sd=not isinstance(marginal.distribution, Correlation))
    return _with_variance(marginal.quantiles(chances[:1]) * np.exp(0.5 * log_sd * ndtri(chances)), of_sd=True)


def table_of_draws(traces: Traces, level: float, *, highest_density: bool) -> "pd.DataFrame":
    """Table of variance components from draws, with R̂ and effective draws."""
    chances, rows, index = [0.5, 0.5 - 0.5 * level, 0.5 + 0.5 * level], [], []
    for component in traces.components():
        quantiles = np.quantile(component.draws, chances)
        if highest_density and component.scale:
            quantiles[1:] = _shortest(component.draws.ravel(), level)
        rows.append(_with_variance(quantiles, of_sd=component.scale))
        index.append((component.term, component.effect))
    frame = _frame(rows, index)
    return frame if frame.empty else frame.assign(**diagnostics.columns(traces.component_mixing))


def _shortest(draws: Array, level: float) -> tuple[float, float]:
    """Highest-density interval of σ by its draws: the shortest, or that from 0 if it is nearly as short."""
    ordered = np.concatenate([[0.0], np.sort(draws)])
    n = min(math.ceil(level * len(draws)), len(draws) - 1)
    lengths = ordered[n:] - ordered[: len(ordered) - n]
    first = 0 if lengths[0] < NEARLY * lengths.min() else int(np.argmin(lengths))
    return float(ordered[first]), float(ordered[first + n])


def _frame(rows: list[tuple[float, ...]], index: list[tuple[str, str]]) -> "pd.DataFrame":
    import pandas as pd

    places = pd.MultiIndex.from_tuples(index, names=["term", "effect"])
    return pd.DataFrame(rows, index=places, columns=["std_dev", "lower", "upper", "variance"], dtype=float)


def _variance(distribution: Any, j: int, unit: float) -> InverseGamma | TabulatedVariance | Point:
    """Distribution of the variance of the j-th effect, in the user's units."""
    if isinstance(distribution, TabulatedVariance):
        return distribution.scaled(unit)
    if isinstance(distribution, InverseWishart):
        distribution = InverseGamma(
            0.5 * (distribution.degrees - len(distribution.scale) + 1), 0.5 * distribution.scale[j, j]
        )
    if isinstance(distribution, InverseGamma):
        return InverseGamma(distribution.shape, unit**2 * distribution.rate)
    value = distribution.value[j, j] if isinstance(distribution, MatrixPoint) else distribution.value
    return Point(unit**2 * float(value))


def _correlation(distribution: InverseWishart | MatrixPoint, i: int, j: int) -> Correlation | Point:
    matrix = distribution.scale if isinstance(distribution, InverseWishart) else distribution.value
    centre = float(matrix[i, j] / math.sqrt(matrix[i, i] * matrix[j, j]))
    if isinstance(distribution, MatrixPoint):
        return Point(centre)
    return Correlation(centre, distribution.degrees - len(matrix) + 2)


def _with_variance(quantiles: Array, *, of_sd: bool) -> tuple[float, ...]:
    """Append the median of the variance to quantiles whose first is the median; the mean may be far off."""
    return (*quantiles, quantiles[0] ** 2 if of_sd else math.nan)
