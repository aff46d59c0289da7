"""Figures of what was estimated: coefficients, inclusion, curves, and effects of groups."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import check_flag, check_level
from vbsvm.design.columns import INTERCEPT
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import by_inclusion, n_to_show, select_fit
from vbsvm.results import tables
from vbsvm.results.covariance import covariance as covariance_of
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Curve
    from vbsvm.plots.style import Axes, Canvas


# More predictors can't be read.
MAX_INCLUDED = 20
POINTS = 201
# Log odds ratios are clipped to ± this, so that intervals under separation can be drawn.
MAX_LOG_ODDS = 50.0


def coefficients(
    fit: Any,
    ax: "Canvas" = None,
    *,
    class_: Any = None,
    level: float = 0.95,
    standardized: bool = True,
    ordered: bool = True,
    top: int | None = None,
    covariance: str | None = None,
    exponentiate: bool = False,
) -> "Axes":
    """Forest plot: estimate and interval of each coefficient but the intercept.

    The axis says which intervals these are. An open circle is a coefficient with an inclusion probability of at most ½
    (``LaplaceZero``).

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    level : float, default 0.95
        Probability of the intervals.
    standardized : bool, default True
        Show coefficients for one standard deviation of each column, which makes them comparable; False shows them for
        one unit. In a model that did not scale its columns both are the same.
    ordered : bool, default True
        Put the largest at the top; False keeps the order of the columns.
    top : int, default None
        How many of the largest in magnitude to show; None means at most sixty.
    covariance : str, default None
        Type of standard error, as in ``Fit.summary``.
    exponentiate : bool, default False
        Show odds ratios, on a logarithmic axis; for logistic models.
    """
    check_level("coefficients", level)
    check_flag("coefficients", standardized=standardized, ordered=ordered, exponentiate=exponentiate)
    model = select_fit("coefficients", fit, class_)._showing(covariance)
    logistic = model.spec.likelihood.normalised
    if exponentiate and not logistic:
        raise ValueError("coefficients: exponentiate=True gives odds ratios, which a support vector machine has not.")
    table = model.summary(level).iloc[model.plan.recipe.first :]
    scale = model.plan.recipe.scale[: model.plan.n_shown]
    unit = model.plan.recipe.spread[: model.plan.n_shown] if standardized else np.ones(len(table))
    ends = table[["estimate", "lower", "upper"]].to_numpy(dtype=float).T * unit
    mean = ends[0]
    n_shown = n_to_show("coefficients", top, len(mean), style.MAX_NAMES)
    order = np.argsort(-np.abs(mean), kind="stable")[:n_shown]
    order = order[np.argsort(-mean[order], kind="stable")] if ordered else np.sort(order)
    names, height, _ = style.row_labels([str(table.index[k]) for k in order])
    ax = style.axes(ax, height)
    filled = table["inclusion"].to_numpy(dtype=float)[order] > 0.5 if model.selects else None
    ends = ends[:, order]
    ends = np.exp(np.clip(ends, -MAX_LOG_ODDS, MAX_LOG_ODDS)) if exponentiate else ends
    intervals(ax, np.arange(float(len(order))), ends, filled, 1.0 if exponentiate else 0.0)
    if exponentiate:
        style.log_axis(ax)
    ax.set_yticks(range(len(order)), names)
    ax.set_ylim(len(order) - 0.4, -0.6)
    per = "per SD" if standardized and (scale != 1.0).any() else "per unit"
    left_out = style.shown_note(n_shown, len(mean), "the largest")
    what = "odds ratio of" if exponentiate else "log odds ratio of" if logistic else "change in decision value for"
    label = style.wrapped([f'{what} "{model.classes[1]!s}" {per}'], style.LINE)[0][0]
    ax.set_xlabel(f"{label}\n{covariance_of(model).notes.interval(level)}{left_out}", loc="right")
    kind = "odds ratios" if exponentiate else "coefficients"
    alt = f"Forest plot of {n_shown} of {len(mean)} {kind} with {100 * level:g} % intervals."
    return style.finish(ax, alt, hidden=style.NO_Y_AXIS)


def intervals(
    ax: "Axes", rows: Array, ends: Array, filled: NDArray[np.bool_] | None = None, neutral: float = 0.0
) -> None:
    """Points with intervals (estimates, lower and upper ends) at the heights ``rows``, and the line of no effect."""
    mean, lower, upper = ends
    filled = np.ones(len(mean), dtype=bool) if filled is None else filled
    ax.axvline(neutral, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(rows, lower, upper, color=style.BLUE, linewidth=1.3)
    ax.plot(mean[filled], rows[filled], "o", color=style.BLUE, markersize=4)
    ax.plot(mean[~filled], rows[~filled], "o", color=style.BLUE, markersize=4, markerfacecolor=style.PAPER)
    ax.tick_params(axis="y", left=False)


def spline(
    fit: Any, ax: "Canvas" = None, *, term: str | None = None, level: float = 0.95, covariance: str | None = None
) -> "Axes":
    """The curve of an ``s(x)`` term with its band, over the range of x in fit; ticks are the knots.

    The curve is the deviation of the linear predictor (decision value) from its mean over the observations.
    Interactions of x are not included.

    Parameters
    ----------
    fit : Fit
        The fit of a ``Model`` with a spline.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    term : str, default None
        The spline, such as "s(age)"; may be None if there is only one.
    level : float, default 0.95
        Probability of the band, pointwise.
    covariance : str, default None
        Type of standard error, as in ``Fit.summary``.
    """
    check_level("spline", level)
    model = select_fit("spline", fit)
    curves = {} if model.reader is None else {str(curve.term): curve for curve in model.reader.curves}
    if not curves:
        raise ValueError("spline: the model has no s(x) term.")
    term = next(iter(curves)) if term is None and len(curves) == 1 else term
    if term not in curves:
        raise ValueError(f"spline: choose a curve with term=…; there are {list(curves)}.")
    curve = curves[term]
    x = np.linspace(curve.spline.low, curve.spline.low + curve.spline.width, POINTS)
    rows = _curve_rows(model, curve, x)
    quantiles = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    spreads = covariance_of(model, covariance)
    band = np.array([spreads.combination(row, quantiles)[1] for row in rows])
    ax = style.axes(ax, 2.8)
    ax.axhline(0.0, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    ax.fill_between(x, band[:, 0], band[:, 1], color=style.SKY, alpha=0.35, linewidth=0)
    ax.plot(x, rows @ model.posterior.mean, color=style.BLUE, linewidth=1.6)
    knots = curve.spline.low + curve.spline.width * np.unique(curve.spline.knots)
    ax.plot(knots, np.zeros(len(knots)), "|", color=style.INK, markersize=6, transform=ax.get_xaxis_transform())
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel(style.escape(curve.term.expression.strip("`")) + f"\n{spreads.notes.band(level)}")
    what = "log odds" if model.spec.likelihood.normalised else "decision value"
    ax.set_ylabel(style.escape(f"{term}: {what}"))
    return style.finish(
        ax, f"The smooth term {term} with its {100 * level:g} % band; ticks at the bottom are the knots."
    )


def _curve_rows(model: Fit, curve: "Curve", x: Array) -> Array:
    """Design rows in which all but the curve's own columns are at their mean."""
    plan, recipe = model.plan, model.plan.recipe
    line = plan.names.index(f"{curve.term} line" if curve.with_line else curve.values.names[0])
    bend = plan.names.index(f"{curve.term} bend 1")
    columns = np.array([line, *range(bend, bend + curve.spline.n_columns)])
    raw = np.column_stack([x, curve.spline.encode(x)])
    rows = np.zeros((len(x), plan.n_fixed))
    rows[:, recipe.first + columns] = (raw - recipe.centre[columns]) / recipe.scale[columns]
    return rows


def inclusion(fit: Any, ax: "Canvas" = None, *, top: int | None = None, class_: Any = None) -> "Axes":
    """Inclusion probabilities as dots, the largest at the top, with the line at 50 %; numbers are the coefficients.

    Dots right of the line are filled if the sign has a probability above 97.5 %: blue circles are positive, vermilion
    squares negative. Equal probabilities are in the order of the coefficients per standard deviation, which are at the
    right.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted with ``LaplaceZero()``.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    top : int, default None
        Number of predictors with the largest probabilities to show; None means at most twenty.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    model = select_fit("inclusion", fit, class_)
    if not model.selects:
        raise ValueError("inclusion: the model has no inclusion indicators; fit it with LaplaceZero().")
    probabilities, signs = model.inclusion_probability, model.sign_probability
    scaled = model.coef * model.plan.recipe.spread[: model.plan.n_shown]
    n_shown = n_to_show("inclusion", top, len(probabilities), MAX_INCLUDED)
    shown = by_inclusion(model)[:n_shown]
    names, height, _ = style.row_labels([model.plan.shown_names[k] for k in shown])
    ax = style.axes(ax, height)
    ax.hlines(range(n_shown), 0.0, probabilities[shown], color=style.FAINT, linewidth=0.8, zorder=0)
    ax.axvline(0.5, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    for positive, colour, marker in ((True, style.BLUE, "o"), (False, style.VERMILION, "s")):
        label = "positive" if positive else "negative"
        for sure in (True, False):
            certain = (probabilities > 0.5) & (np.abs(signs - 0.5) > 0.475)
            rows = np.flatnonzero(((signs > 0.5) == positive)[shown] & (certain[shown] == sure))
            look = {"color": colour, "markersize": 4.5, "label": label if sure else None}
            ax.plot(probabilities[shown][rows], rows, marker, markerfacecolor=colour if sure else style.PAPER, **look)
    for row, column in enumerate(shown):
        text = f"{scaled[column]:+.2f}".replace("-", "−") if probabilities[column] > 0.5 else ""
        style.annotate_row(ax, row, text)
    style.annotate_row(ax, -1, "per SD")
    ax.set(xlim=(0.0, 1.03), ylim=(n_shown - 0.4, -0.7), xticks=[0, 0.5, 1])
    ax.set_yticks(range(n_shown), names)
    ax.tick_params(axis="y", left=False)
    left_out = style.shown_note(n_shown, len(probabilities), "the most probable")
    label = style.wrapped([f'inclusion probability for "{model.classes[1]!s}"'], style.LINE)[0][0]
    ax.set_xlabel(f"{label}{left_out}")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, handletextpad=0.1, columnspacing=0.8, borderpad=0.0)
    which = f"inclusion probabilities of {n_shown} of {model.plan.n_shown} predictors"
    alt = f"Dot plot of the {which}; {int((probabilities > 0.5).sum())} are above ½."
    return style.finish(ax, alt, hidden=style.NO_Y_AXIS)


# Groups named at either end if there are too many, and the height in rows of the band between them.
NAMED, BAND_ROWS = 10, 12
Z_95 = 1.959964


def random_effects(
    fit: Any,
    ax: "Canvas" = None,
    *,
    factor: str | None = None,
    effect: str | None = None,
    top: int | None = None,
    class_: Any = None,
    labels: bool = True,
) -> "Axes":
    """Caterpillar plot: random effects of one grouping factor in order, mean ± 1.96 standard deviations.

    Up to sixty levels are named. Of more, the ten at either end are, and those between them become a band.

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    factor : str, default None
        The grouping factor; may be None if there is only one.
    effect : str, default None
        The effect, such as the slope of "visit"; None means the first, usually the intercept.
    top : int, default None
        Number of levels with the largest effects in magnitude to show; None means all levels.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    labels : bool, default True
        Name the levels; False leaves them unnamed, for example if they are patients.
    """
    check_flag("random_effects", labels=labels)
    model = select_fit("random_effects", fit, class_)
    factor, effect, table = _effect_of_groups(model, factor, effect)
    mean, sd = table["estimate"].to_numpy(dtype=float), table["std_error"].to_numpy(dtype=float)
    n_groups = n_to_show("random_effects", top, len(mean), len(mean))
    order = np.argsort(-np.abs(mean), kind="stable")[:n_groups]
    order = order[np.argsort(mean[order], kind="stable")]
    mean, sd = mean[order], sd[order]
    named = np.arange(n_groups)
    if n_groups > style.MAX_NAMES:
        named = np.r_[:NAMED, n_groups - NAMED : n_groups]
    heights = np.arange(len(named), dtype=float)
    if len(named) < n_groups:
        heights[NAMED:] += BAND_ROWS
    levels = [":".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in table.index[order[named]]]
    names, _, row = style.row_labels(levels if labels else [""] * len(levels))
    ax = style.axes(ax, 0.9 + row * (heights[-1] + 1))
    lower, upper = mean - Z_95 * sd, mean + Z_95 * sd
    intervals(ax, heights, np.stack([mean, lower, upper])[:, named])
    if len(named) < n_groups:
        between = slice(NAMED, n_groups - NAMED)
        rows = np.linspace(NAMED - 0.3, NAMED + BAND_ROWS - 0.7, n_groups - 2 * NAMED)
        ax.fill_betweenx(rows, lower[between], upper[between], color=style.SKY, alpha=0.35, linewidth=0)
        ax.plot(mean[between], rows, color=style.BLUE, linewidth=1.4)
        names = [*names[:NAMED], f"… {n_groups - 2 * NAMED} more …", *names[NAMED:]]
        heights = np.insert(heights, NAMED, NAMED + 0.5 * (BAND_ROWS - 1))
    ax.set_yticks(heights, names)
    ax.set_ylim(-0.7, heights[-1] + 0.7)
    scale = "log odds" if model.spec.likelihood.normalised else "decision value"
    what = f"random intercept ({scale})" if effect == INTERCEPT else f"random slope of {effect} ({scale})"
    label = style.wrapped([f"{what}, by {factor}"], style.LINE)[0][0]
    left_out = style.shown_note(n_groups, len(table), "the largest")
    ax.set_xlabel(f"{label}\nmean ± 1.96 SD{model.posterior.notes.aside}{left_out}", loc="right")
    alt = f"Caterpillar plot: {what} of {n_groups} levels of {factor}, in order, with 95 % intervals."
    return style.finish(ax, alt, hidden=style.NO_Y_AXIS)


def _effect_of_groups(model: Fit, factor: str | None, effect: str | None) -> "tuple[str, str, pd.DataFrame]":
    """The factor and the effect that are meant, and the table of this effect, group by group."""
    factors = {of_factor.name: of_factor for of_factor in model.plan.factors}
    if not factors:
        raise ValueError("random_effects: the model has no grouping factor.")
    factor = next(iter(factors)) if factor is None and len(factors) == 1 else factor
    if factor not in factors:
        raise ValueError(f"random_effects: choose a factor with factor=…; there are {list(factors)}.")
    effects = factors[factor].effects
    effect = effects[0] if effect is None else effect
    if effect not in effects:
        raise ValueError(f"random_effects: {factor} has no effect {effect!r}; it has {list(effects)}.")
    table = tables.random_effects(model, factor)
    return factor, effect, table.xs(effect, level=table.index.nlevels - 1) if len(effects) > 1 else table
