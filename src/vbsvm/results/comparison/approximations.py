"""Several fits of one model: a variational fit compared with a Gibbs fit, and fits of completed tables pooled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import stdtrit
from scipy.stats import gaussian_kde, norm

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma, TabulatedVariance
from vbsvm.base.settings import check_level
from vbsvm.results import variance_components
from vbsvm.results.fit import Fit
from vbsvm.results.history import Trace
from vbsvm.results.tables import MOST_ROWS
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
    """Both posterior densities of a parameter on a grid, and its probabilities of being exactly 0 (not included)."""

    name: str
    grid: Array
    variational: Array
    sampled: Array
    at_zero: tuple[float, float]
    drawn: tuple[float, float] = (math.nan, math.nan)  # mean and standard deviation of the draws that are not 0

    @property
    def accuracy(self) -> float:
        """Overlap of the two densities in per cent: 100 (1 − ½∫|q − p|) = 100 ∫min(q, p)."""
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
    standard deviations of random effects, splines and penalised predictors, correlations of random effects) the table
    has the means and standard deviations of both fits, and the accuracy of the variational density, 100 (1 − ½∫|q − p|)
    per cent.
    """
    import pandas as pd

    vb, gibbs = _fit(variational), _fit(sampled)
    if vb.history.traces is not None or gibbs.history.traces is None:
        raise ValueError("compare: the first argument must be a variational fit, the second a Gibbs fit.")
    if vb.plan.names != gibbs.plan.names or [b.name for b in vb.spec.blocks] != [b.name for b in gibbs.spec.blocks]:
        raise ValueError("compare: the two fits are of different models; fit the same model to the same data.")
    if vb.likelihood_power != gibbs.likelihood_power:
        raise ValueError(
            f"compare: the fits have different likelihood powers ({vb.likelihood_power:.3g} and "
            f"{gibbs.likelihood_power:.3g}), and therefore different posteriors: refit with the same likelihood_power."
        )
    pairs = [*_coefficients(vb, gibbs), *_components(vb, gibbs)]
    moments = [(*_moments(pair.grid, pair.variational), *pair.drawn) for pair in pairs]
    columns = ["variational", "variational sd", "Gibbs", "Gibbs sd"]
    table = pd.DataFrame(moments, columns=columns, index=pd.Index([pair.name for pair in pairs]))
    table["accuracy"] = [pair.accuracy for pair in pairs]
    return Comparison(tuple(pairs), table)


def _fit(model: Any) -> Fit:
    if isinstance(model, Fit):
        return model
    fits = getattr(model, "fit_", None)
    if fits is None or len(fits) != 1:
        raise TypeError("compare takes fits of a Model, or fitted estimators of two classes.")
    return fits[0]


def _coefficients(vb: Fit, gibbs: Fit) -> list[Pair]:
    distribution, inclusion, pairs = vb.posterior.state.gaussian, vb.inclusion_probability, []
    means, sds = (vb.plan.to_user_scale(of) for of in (distribution.mean, np.sqrt(distribution.variances)))
    for k, trace in enumerate(gibbs.traces.shown()):
        values, mean, sd = trace.draws.ravel(), means[k], sds[k]
        inside = values[values != 0] if vb.selects else values
        share = len(inside) / len(values)
        if not sd > 0 or len(inside) < 10 or np.ptp(inside) == 0:
            continue
        grid = np.union1d(np.linspace(mean - REACH * sd, mean + REACH * sd, POINTS), _around(inside))
        q, p = _density(grid, norm.pdf(grid, mean, sd)), _density(grid, _kernel(inside, grid))
        at_zero = 1 - float(inclusion[k]), 1 - share
        pairs.append(Pair(trace.name, grid, inclusion[k] * q, share * p, at_zero, _drawn(inside)))
    return pairs


def _components(vb: Fit, gibbs: Fit) -> list[Pair]:
    """Standard deviations of effects and their correlations, on the scale of the user's columns."""
    pairs = []
    marginals = variance_components.marginals(vb.plan, vb.spec, vb.posterior.state)
    for marginal, component in zip(marginals, gibbs.traces.components(), strict=True):
        if np.ptp(component.draws) > 0:
            if isinstance(marginal.distribution, InverseGamma | TabulatedVariance):
                pairs.append(_sd_pair(component, marginal.distribution))
            elif isinstance(marginal.distribution, Correlation):
                pairs.append(_correlation_pair(component, marginal.distribution))
    return pairs


def _sd_pair(trace: Trace, distribution: InverseGamma | TabulatedVariance) -> Pair:
    """Densities of σ, from the distribution of σ² and by kernels reflected at 0."""
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
    """Densities of a correlation; kernels are placed on Fisher's z, so that they stay within ±1."""
    z = np.arctanh(np.clip(trace.draws.ravel(), -1 + 1e-12, 1 - 1e-12))
    by_distribution = distribution.quantiles(np.linspace(TAIL, 1 - TAIL, POINTS))
    grid = np.unique(np.concatenate([np.linspace(-1.0, 1.0, POINTS), by_distribution, np.tanh(_around(z))]))
    grid = grid[np.abs(grid) < 1 - 1e-12]
    p = _kernel(z, np.arctanh(grid)) / (1 - np.square(grid))
    q = _density(grid, distribution.density(grid))
    return Pair(trace.name, grid, q, _density(grid, p), (0.0, 0.0), _drawn(trace.draws))


def _around(values: Array) -> Array:
    """Grid over the range of the draws, extended by the reach of a kernel."""
    reach = REACH * float(values.std()) * len(values) ** -0.2
    return np.linspace(values.min() - reach, values.max() + reach, POINTS)


def _density(grid: Array, values: Array) -> Array:
    """Normalise values to integrate to one on the grid."""
    mass = np.trapezoid(values, grid)
    return values / mass if mass > 0 else values


def _drawn(draws: Array) -> tuple[float, float]:
    return float(draws.mean()), float(draws.std())


def _kernel(values: Array, grid: Array) -> Array:
    step = -(-len(values) // MOST_DRAWS)
    return np.asarray(gaussian_kde(values[::step])(grid), dtype=np.float64)


def _moments(grid: Array, density: Array) -> tuple[float, float]:
    weights = _density(grid, density)  # of the values that are not 0
    mean = float(np.trapezoid(grid * weights, grid))
    return mean, float(np.sqrt(np.trapezoid(np.square(grid - mean) * weights, grid)))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """Pooled coefficients of several fits: estimates, standard errors and degrees of freedom.

    ``within`` and ``between`` are the mean of the fits' variances and the variance of their coefficients;
    ``missing_information`` is each coefficient's fraction of missing information.
    """

    names: tuple[str, ...]
    n_fits: int
    coefficients: Array
    within: Array
    between: Array
    degrees: Array
    missing_information: Array

    @property
    def standard_errors(self) -> Array:
        """Standard errors: square roots of within + (1 + 1/m) between."""
        return np.sqrt(self.within + (1 + 1 / self.n_fits) * self.between)

    def summary(self, level: float = 0.95) -> "pd.DataFrame":
        """One row for each coefficient, with a Student's t interval and the fraction of missing information."""
        import pandas as pd

        check_level("summary", level)
        mean, error = self.coefficients, self.standard_errors
        half = stdtrit(self.degrees, 0.5 + 0.5 * level) * error
        columns = {
            "estimate": mean,
            "std_error": error,
            "lower": mean - half,
            "upper": mean + half,
            "degrees": self.degrees,
            "missing_information": self.missing_information,
        }
        table = pd.DataFrame(columns, index=pd.Index(self.names))
        table.attrs = {"level": level, "note": self._note}
        return table

    def __repr__(self) -> str:
        """The table, and a note on it."""
        return f"{printing.table(self.summary())}\n\n{self._note}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return printing.html_frame("", self.summary(), MOST_ROWS) + f"<p>{self._note}</p>"

    @property
    def _note(self) -> str:
        return f"Pooled over {self.n_fits} fits by Rubin's rules."


def pool(fits: Sequence[Any], covariance: str | None = None) -> Pooled:
    """Pool fits to multiply imputed data, as from ``impute(X, n)``, by Rubin's rules.

    Parameters
    ----------
    fits : sequence of Fit or VBSVC
        At least two fits of the same model; ``VBSVC`` with two classes.
    covariance : str, default None
        Type of standard error; see ``Fit.summary``. The default is that of the fits' tables.
    """
    models = [_binary_fit(fit) for fit in fits]
    if len(models) < 2:
        raise ValueError(f"pool: at least two fits are needed; got {len(models)}.")
    tables = [fit.summary(covariance=covariance) for fit in models]
    names = tuple(map(str, tables[0].index))
    for k, (fit, table) in enumerate(zip(models, tables, strict=True)):
        if tuple(map(str, table.index)) != names:
            raise ValueError(f"pool: fit {k} has other coefficients than the first: pool fits of one model.")
        if _n_rows(fit) != _n_rows(models[0]):
            raise ValueError(
                f"pool: fit {k} has {_n_rows(fit)} rows, and the first {_n_rows(models[0])}: pool fits to "
                "imputations of the same data."
            )
        if not np.isfinite(table["std_error"]).all():
            name = names[int(np.argmin(np.isfinite(table["std_error"])))]
            raise ValueError(f"pool: fit {k} has no standard error of {name!r}: use another covariance=….")
    estimates, errors = (np.stack([table[name].to_numpy() for table in tables]) for name in ("estimate", "std_error"))
    return rubin(names, estimates, np.square(errors), _n_rows(models[0]) - len(names))


def rubin(names: tuple[str, ...], estimates: Array, variances: Array, complete_degrees: float) -> Pooled:
    """Rubin's rules for estimates and variances (fits × coefficients).

    ``complete_degrees`` are those that a complete table would have (Barnard & Rubin 1999).
    """
    m = len(estimates)
    within, between = variances.mean(axis=0), estimates.var(axis=0, ddof=1)
    added = (1 + 1 / m) * between
    total = within + added
    fraction = np.divide(added, total, out=np.zeros_like(total), where=total > 0)
    with np.errstate(divide="ignore"):
        by_fits = (m - 1) / np.square(fraction)
    complete = max(float(complete_degrees), 1.0)
    by_rows = (complete + 1) / (complete + 3) * complete * (1 - fraction)
    degrees = 1 / (1 / by_fits + 1 / np.maximum(by_rows, 1e-300))
    ratio = np.divide(added, within, out=np.full_like(total, np.inf), where=within > 0)
    with np.errstate(invalid="ignore"):
        missing = np.where(np.isfinite(ratio), (ratio + 2 / (degrees + 3)) / (ratio + 1), 1.0)
    return Pooled(names, m, estimates.mean(axis=0), within, between, degrees, np.where(added > 0, missing, 0.0))


def _binary_fit(fit: Any) -> Fit:
    """The single fit of a binary model; raise for other objects and for several classes."""
    fits = [fit] if isinstance(fit, Fit) else getattr(fit, "fit_", None)
    if not isinstance(fits, list | tuple) or not all(isinstance(part, Fit) for part in fits):
        raise TypeError(f"pool: fits of VBSVC or Model are needed; got {fit!r}.")
    if len(fits) != 1:
        raise ValueError("pool: with several classes pool the fits of one class, as in [clf.fit_[0] for clf in …].")
    return fits[0]


def _n_rows(fit: Fit) -> int:
    return 0 if fit.facts is None else fit.facts.n_rows
