"""Posterior predictive checks: data that the model would produce again, compared with the data observed."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import warn_user
from vbsvm.base.settings import check_count
from vbsvm.model.interfaces import PointDistribution, SampledCoefficients
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.plots import style
from vbsvm.plots.predictions import scores
from vbsvm.results.covariance import score_posterior
from vbsvm.results.effects.rows import MAX_DISCRETE, FormulaRows, GivenRows
from vbsvm.results.fit import Fit
from vbsvm.results.fit_predictions import observed_classes, probabilities_at

if TYPE_CHECKING:
    from vbsvm.design.columns import Encoded
    from vbsvm.plots.style import Axes, Canvas

MAX_BARS = 30


def predictive(
    fit: Any,
    by: Any = None,
    y: Any = None,
    ax: "Canvas" = None,
    *,
    data: Any = None,
    n_draws: int = 400,
    level: float = 0.95,
    X: Any = None,
    class_: Any = None,
) -> "Axes":
    """Posterior predictive check: proportions of the modelled class in replicated data and in the data observed.

    Replicated data have the same observations, coefficients and random effects drawn from the posterior, and classes
    drawn with the probabilities that follow. An observed proportion that they hardly ever have shows what the model
    does not describe. Variance components are fixed, and in an SVM the link to probabilities.

    Parameters
    ----------
    fit : Fit
        The fit of a ``Model``.
    by : str, default None
        A grouping factor or another column with few values: the predictive interval of each of its levels with the
        observed proportion. None shows the distribution of the proportion of all observations.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    data : data frame, default None
        Observations with their outcome; None means those of the fit.
    n_draws : int, default 400
        Number of replicated data sets.
    level : float, default 0.95
        Level of the predictive intervals.
    y, X, class_
        Earlier arguments: with these, and with a table in place of ``by``, it is ``plots.scores``.
    """
    if not (by is None or isinstance(by, str)) or any(one is not None for one in (y, X, class_)):
        warn_user("plots.predictive(fit, X, y) is now plots.scores(fit, X, y); the old form will go.", FutureWarning)
        return scores(fit, by if X is None else X, y, ax, class_=class_)
    check_count("predictive", n_draws=n_draws)
    if not isinstance(fit, Fit) or fit.reader is None:
        raise TypeError(f"predictive: pass the Fit of a Model; got {type(fit).__name__}. plots.scores shows any fit.")
    given = GivenRows.of("predictive", data, None, fit._rows)
    rows, chosen = FormulaRows.of(fit.reader, given), slice(None) if given.kept is None else given.kept
    positive = (observed_classes(fit, given.data) == fit.classes[1])[chosen]
    names, codes = (np.array(["all"]), np.zeros(len(positive), np.intp)) if by is None else _levels(rows, by)
    replicated = replicate(fit, rows.encoded({}), codes, rows.weights, n_draws)
    observed = np.bincount(codes, rows.weights * positive) / np.bincount(codes, rows.weights)
    ax = style.axes(ax, 2.8 if by is None else 1.0 + min(0.16 * len(names), 8.0))
    label = style.wrapped([f"proportion of {fit.classes[1]}"], style.LINE)[0][0]
    if by is None:
        _draw_distribution(ax, replicated[:, 0], float(observed[0]), label)
    else:
        _draw_levels(ax, names, observed, np.quantile(replicated, [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0))
        ax.set_xlabel(f"{label}\n{100 * level:g} % predictive interval, and observed")
        ax.set_ylabel(style.escape(by))
    return style.finish(ax, f"Replicated and observed proportions of {fit.classes[1]}.")


def replicate(fit: Fit, encoded: "Encoded", codes: NDArray[np.intp], weights: Array, n_draws: int) -> Array:
    """Proportions of the second class by group of observations in replicated data, data sets × groups.

    An observation of a whole weight k counts as k observations.
    """
    state, rng = score_posterior(fit).state, np.random.default_rng(0)
    distribution: Any = state.coefficients
    whole = bool((weights == np.rint(weights)).all())
    counts, size = weights.astype(np.intp) if whole else np.ones(len(weights), np.intp), np.bincount(codes, weights)
    proportions = np.empty((n_draws, len(size)))
    for k in range(n_draws):
        if isinstance(distribution, SampledCoefficients | DrawnGaussian):
            draw = distribution.draws[rng.integers(len(distribution.draws))]
            draw = draw + distribution.mean if isinstance(distribution, DrawnGaussian) else draw
        else:
            draw = distribution.draw(rng).mean
        chances = probabilities_at(fit, encoded, state.with_coefficients(PointDistribution(draw)))
        hits = rng.binomial(counts, chances) * (1.0 if whole else weights)
        proportions[k] = np.bincount(codes, hits) / size
    return proportions


def _levels(rows: FormulaRows, by: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Levels of a column, and that of each observation."""
    import pandas as pd

    column = rows.column(by)
    codes, levels = pd.factorize(column, sort=True)
    factors = {name for factor in rows.reader.plan.factors for name in factor.columns}
    if by not in factors and column.dtype.kind == "f" and len(levels) > MAX_DISCRETE:
        raise ValueError(f"predictive: {by!r} has {len(levels)} values: cut it into ranges first, as another column.")
    if (codes < 0).any():
        raise ValueError(f"predictive: {by!r} is missing in {(codes < 0).sum()} observations.")
    return np.asarray(levels), codes.astype(np.intp)


def _draw_distribution(ax: "Axes", replicated: Array, observed: float, label: str) -> None:
    ax.hist(replicated, min(MAX_BARS, len(np.unique(replicated))), color=style.SKY, label="replicated data")
    ax.axvline(observed, color=style.VERMILION, linewidth=1.6, label="observed")
    above = float((replicated >= observed).mean())
    ax.set_xlabel(f"{label}\nas large as observed, or larger, in {100 * above:.0f} % of the replicated data")
    ax.set_ylabel("data sets")
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, handlelength=1.2)


def _draw_levels(ax: "Axes", names: NDArray[Any], observed: Array, quantiles: Array) -> None:
    """Intervals with the observed proportions, in the order of these where there are too many levels for names."""
    many = len(names) > style.MAX_NAMES
    lower, middle, upper = quantiles[:, np.argsort(observed, kind="stable")] if many else quantiles
    observed, places = np.sort(observed) if many else observed, np.arange(len(names))
    outside = (observed < lower) | (observed > upper)
    ax.hlines(places, lower, upper, color=style.SKY, linewidth=1.0 if many else 3.0)
    ax.plot(middle, places, "|", color=style.BLUE, markersize=2 if many else 5)
    size = 2.0 if many else 4.0
    ax.plot(observed[~outside], places[~outside], "o", color=style.INK, markersize=size)
    ax.plot(observed[outside], places[outside], "D", color=style.VERMILION, markersize=size)
    ax.set_yticks([] if many else places, [] if many else style.wrapped(names)[0])
    ax.set_ylim(len(names) - 0.5, -0.5)
