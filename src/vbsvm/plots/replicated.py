"""Posterior predictive checks: data that the model would produce again, compared with the data observed."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import warn_user
from vbsvm.base.settings import check_count, check_level
from vbsvm.design.columns import Encoded
from vbsvm.plots import style
from vbsvm.plots.predictions import scores
from vbsvm.results.covariance import score_posterior
from vbsvm.results.effects.rows import MAX_DISCRETE, FormulaRows, GivenRows
from vbsvm.results.fit import Fit
from vbsvm.results.fit_predictions import observed_classes, probabilities_at

if TYPE_CHECKING:
    from vbsvm.plots.style import Axes, Canvas

MAX_BARS = 30


def predictive(
    fit: Any,
    by: Any = None,
    *earlier: Any,
    ax: "Canvas" = None,
    data: Any = None,
    n_draws: int = 400,
    level: float = 0.95,
    **settings: Any,
) -> "Axes":
    """Posterior predictive check: proportions of the modelled class in replicated data and in the data observed.

    Replicated data have the same observations, coefficients and random effects drawn from the posterior, and classes
    drawn with the probabilities that follow; variance components are fixed, and in an SVM the link to probabilities.
    With a table in place of ``by``, or labels, it is ``plots.scores``, whose name it had before.

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
    n_draws, level : int, default 400; float, default 0.95
        Number of replicated data sets, and level of the intervals.
    """
    if earlier or settings or not (by is None or isinstance(by, str)):
        warn_user("plots.predictive(fit, X, y) is now plots.scores(fit, X, y); the old form will go.", FutureWarning)
        shown: Any = (fit, *([] if by is None else [by]), *earlier)
        return scores(*shown, **settings | ({} if ax is None else {"ax": ax}))
    check_count("predictive", n_draws=n_draws)
    check_level("predictive", level)
    if not isinstance(fit, Fit) or fit.reader is None:
        raise TypeError(f"predictive: pass the Fit of a Model; got {type(fit).__name__}. plots.scores shows any fit.")
    given = GivenRows.of("predictive", data, None, fit._rows)
    rows, kept = FormulaRows.of(fit.reader, given), slice(None) if given.kept is None else given.kept
    weights, positive = rows.weights, (observed_classes(fit, given.data) == fit.classes[1])[kept]
    names, codes = ([], np.zeros(len(weights), np.intp)) if by is None else _levels(rows, by)
    replicated = replicate(fit, rows.encoded({}), codes, weights, n_draws)
    observed = np.bincount(codes, weights * positive) / np.bincount(codes, weights)
    ax = style.axes(ax, 2.8 if by is None else 1.0 + min(0.16 * len(names), 5.0))
    if by is None:
        ax.hist(replicated[:, 0], min(MAX_BARS, len(np.unique(replicated))), color=style.SKY, label="replicated data")
        ax.axvline(observed[0], color=style.VERMILION, linewidth=1.6, label="observed")
        ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, handlelength=1.2)
        share, unit = float((replicated[:, 0] >= observed[0]).mean()), "data sets"
        note = f"{100 * share:.0f} % of the data sets: observed, or more"
    else:
        _draw_levels(ax, names, observed, np.quantile(replicated, [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level], axis=0))
        note, unit = f"{100 * level:g} % predictive interval, and observed", style.wrapped([by])[0][0]
    label = style.wrapped([f"proportion of {fit.classes[1]}"], style.LINE)[0][0]
    ax.set(xlabel=f"{label}\n{note}", ylabel=unit)
    return style.finish(ax, f"Replicated and observed proportions of {fit.classes[1]}.")


def replicate(fit: Fit, encoded: Encoded, codes: NDArray[np.intp], weights: Array, n_draws: int) -> Array:
    """Proportions of the second class by group of observations in replicated data, data sets × groups.

    An observation of a whole weight k counts as k observations.
    """
    state, rng, sums = score_posterior(fit).state, np.random.default_rng(0), []
    distribution: Any = state.coefficients
    whole = bool((weights == np.rint(weights)).all())
    counts, each = (weights.astype(np.intp), 1.0) if whole else (np.ones(len(weights), np.intp), weights)
    for _ in range(n_draws):
        chances = probabilities_at(fit, encoded, state.with_coefficients(distribution.draw(rng)))
        sums.append(np.bincount(codes, each * rng.binomial(counts, chances)))
    return np.array(sums) / np.bincount(codes, weights)


def _levels(rows: FormulaRows, by: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Levels of a column, and that of each observation."""
    import pandas as pd

    column = rows.column(by)
    codes, levels = pd.factorize(column, sort=True)
    if by in rows.reader.parts.inputs and column.dtype.kind == "f" and len(levels) > MAX_DISCRETE:
        raise ValueError(f"predictive: {by!r} has {len(levels)} values: cut it into ranges first, as another column.")
    if (codes < 0).any():
        raise ValueError(f"predictive: {by!r} is missing in {(codes < 0).sum()} observations.")
    return list(levels), codes.astype(np.intp)


def _draw_levels(ax: "Axes", names: list[Any], observed: Array, quantiles: Array) -> None:
    """Intervals with the observed proportions, in the order of these where there are too many levels for names."""
    many, places = len(names) > style.MAX_NAMES, np.arange(len(names))
    order = np.argsort(observed, kind="stable") if many else places
    (lower, middle, upper), observed = quantiles[:, order], observed[order]
    outside = (observed < lower) | (observed > upper)
    ax.hlines(places, lower, upper, color=style.SKY, linewidth=1.0 if many else 3.0)
    ax.plot(middle, places, "|", color=style.BLUE, markersize=2 if many else 5)
    for which, marker, colour in ((~outside, "o", style.INK), (outside, "D", style.VERMILION)):
        ax.plot(observed[which], places[which], marker, color=colour, markersize=2 if many else 4)
    ax.set_yticks([] if many else places, [] if many else style.wrapped(names)[0])
    ax.set_ylim(len(names) - 0.5, -0.5)
