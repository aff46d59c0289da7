"""A variational fit beside a sampler's of the same model: how much of each posterior density the first one has."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.stats import gaussian_kde, norm

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma, TabulatedVariance
from vbsvm.results import variance_components
from vbsvm.results.display import MOST_ROWS
from vbsvm.results.fit import Fit
from vbsvm.results.history import Trace
from vbsvm.results.variance_components import Correlation

if TYPE_CHECKING:
    import pandas as pd

POINTS = 401
TAIL = 1e-3
REACH = 5.0
MOST_DRAWS = 20_000
ACCURACY = "Accuracy: overlap of the two densities, in per cent."


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """Densities of one parameter by both, on a grid; and the chances that it is exactly 0 (a closed gate)."""

    name: str
    grid: Array
    variational: Array
    sampled: Array
    at_zero: tuple[float, float]
    drawn: tuple[float, float] = (math.nan, math.nan)  # mean and standard deviation of the draws that are not 0

    @property
    def accuracy(self) -> float:
        """100 (1 − ½∫|q − p|), in per cent: what both have in common, 100 ∫min(q, p)."""
        common = np.trapezoid(np.minimum(self.variational, self.sampled), self.grid) + min(self.at_zero)
        return float(np.clip(100 * common, 0.0, 100.0))


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Pairs of densities: coefficients first, then standard deviations of blocks and correlations of their effects."""

    pairs: tuple[Pair, ...]
    table: "pd.DataFrame"

    def __repr__(self) -> str:
        """The table, and what its last column is."""
        return f"{printing.table(self.table)}\n\n{ACCURACY}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return printing.html_frame("", self.table, MOST_ROWS) + f"<p>{ACCURACY}</p>"


def compare(variational: Any, sampled: Any) -> Comparison:
    """Compare a variational fit with a Gibbs fit of the same model and data.

    Pass two fits of a ``Model``, or two fitted ``VBSVC`` estimators of two classes. For each parameter (coefficients,
    standard deviations of random effects, splines and penalised inputs, correlations of effects) the table has the
    means and standard deviations of both fits, and the accuracy of the variational density, 100 (1 − ½∫|q − p|) per
    cent.
    """
    import pandas as pd

    one, other = _fit(variational), _fit(sampled)
    if one.history.traces is not None or other.history.traces is None:
        raise ValueError("compare takes a variational fit first and a Gibbs fit second.")
    if one.plan.names != other.plan.names or [b.name for b in one.spec.blocks] != [b.name for b in other.spec.blocks]:
        raise ValueError("compare: the two fits are of different models; fit the same model to the same data.")
    if one.likelihood_power != other.likelihood_power:
        raise ValueError(
            f"compare: the fits have different likelihood powers ({one.likelihood_power:.3g} and "
            f"{other.likelihood_power:.3g}), and so different posteriors: fit both with the same likelihood_power."
        )
    pairs = [*_coefficients(one, other), *_components(one, other)]
    moments = [(*_moments(pair.grid, pair.variational), *pair.drawn) for pair in pairs]
    columns = ["variational", "variational sd", "Gibbs", "Gibbs sd"]
    table = pd.DataFrame(moments, columns=columns, index=pd.Index([pair.name for pair in pairs]))
    table["accuracy"] = [pair.accuracy for pair in pairs]
    table.columns.name = "accuracy in per cent"
    return Comparison(tuple(pairs), table)


def _fit(given: Any) -> Fit:
    if isinstance(given, Fit):
        return given
    fits = getattr(given, "fit_", None)
    if fits is None or len(fits) != 1:
        raise TypeError("compare takes fits of a Model, or fitted estimators of two classes.")
    return fits[0]


def _coefficients(one: Fit, other: Fit) -> list[Pair]:
    distribution, inclusion, found = one.posterior.state.gaussian, one.inclusion_probability, []
    means, sds = (one.plan.to_user_scale(of) for of in (distribution.mean, np.sqrt(distribution.variances)))
    for k, trace in enumerate(other.traces.shown()):
        values, mean, sd = trace.draws.ravel(), means[k], sds[k]
        inside = values[values != 0] if one.selects else values
        share = len(inside) / len(values)
        if not sd > 0 or len(inside) < 10 or np.ptp(inside) == 0:
            continue
        grid = np.union1d(np.linspace(mean - REACH * sd, mean + REACH * sd, POINTS), _around(inside))
        q, p = _density(grid, norm.pdf(grid, mean, sd)), _density(grid, _kernel(inside, grid))
        found.append(
            Pair(trace.name, grid, inclusion[k] * q, share * p, (1 - float(inclusion[k]), 1 - share), _drawn(inside))
        )
    return found


def _components(one: Fit, other: Fit) -> list[Pair]:
    """Standard deviations of effects and their correlations, on the scale of the user's columns."""
    found = []
    marginals = variance_components.marginals(one.plan, one.spec, one.posterior.state)
    for marginal, drawn in zip(marginals, other.traces.components(), strict=True):
        if np.ptp(drawn.trace.draws) > 0:
            if isinstance(marginal.distribution, InverseGamma | TabulatedVariance):
                found.append(_sd_pair(drawn.trace, marginal.distribution))
            elif isinstance(marginal.distribution, Correlation):
                found.append(_correlation_pair(drawn.trace, marginal.distribution))
    return found


def _sd_pair(trace: Trace, distribution: InverseGamma | TabulatedVariance) -> Pair:
    """σ by the distribution of σ²; kernels that reach below 0 are reflected."""
    values = trace.draws.ravel()
    by_distribution = np.sqrt(distribution.values_at(np.linspace(TAIL, 1 - TAIL, POINTS))[:, 0, 0])
    high = max(by_distribution[-1], 1.1 * np.quantile(values, 1 - TAIL))
    low = max(min(by_distribution[0], values.min()), 1e-9 * high)
    spans = np.linspace(0.0, high, POINTS), np.geomspace(low, high, POINTS)  # it may span magnitudes
    around = _around(values)
    grid = np.unique(np.concatenate([by_distribution, *spans, around[(around > 0) & (around < high)]]))
    q = 2 * grid * distribution.density(np.square(grid))
    p = _kernel(values, grid) + _kernel(values, -grid)
    return Pair(trace.name, grid, _density(grid, q), _density(grid, p), (0.0, 0.0), _drawn(values))


def _correlation_pair(trace: Trace, distribution: Correlation) -> Pair:
    """Correlations; the kernels are laid on Fisher's z, in which they do not reach beyond ±1."""
    z = np.arctanh(np.clip(trace.draws.ravel(), -1 + 1e-12, 1 - 1e-12))
    by_distribution = distribution.quantiles(np.linspace(TAIL, 1 - TAIL, POINTS))
    grid = np.unique(np.concatenate([np.linspace(-1.0, 1.0, POINTS), by_distribution, np.tanh(_around(z))]))
    grid = grid[np.abs(grid) < 1 - 1e-12]
    p = _kernel(z, np.arctanh(grid)) / (1 - np.square(grid))
    q = _density(grid, distribution.density(grid))
    return Pair(trace.name, grid, q, _density(grid, p), (0.0, 0.0), _drawn(trace.draws))


def _around(values: Array) -> Array:
    """Points over the range of some draws, and as far beyond as a kernel reaches."""
    reach = REACH * float(values.std()) * len(values) ** -0.2
    return np.linspace(values.min() - reach, values.max() + reach, POINTS)


def _density(grid: Array, values: Array) -> Array:
    """Values made to integrate to one on the grid."""
    mass = np.trapezoid(values, grid)
    return values / mass if mass > 0 else values


def _drawn(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std())


def _kernel(values: Array, grid: Array) -> Array:
    step = -(-len(values) // MOST_DRAWS)
    return np.asarray(gaussian_kde(values[::step])(grid), dtype=np.float64)


def _moments(grid: Array, density: Array) -> tuple[float, float]:
    mass = np.trapezoid(density, grid)
    mean = np.trapezoid(grid * density, grid) / mass if mass > 0 else 0.0
    variance = np.trapezoid(np.square(grid - mean) * density, grid) / mass if mass > 0 else 0.0
    return float(mean), float(np.sqrt(variance))
