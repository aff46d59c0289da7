"""Figures of what was found: coefficients, inclusion, effects of groups, curves."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import require_flag, require_level
from vbsvm.design.columns import INTERCEPT
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import number_shown, one_fit
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Curve
    from vbsvm.plots.style import Axes, Canvas

# More groups than this are drawn as one band: single lines would lie on top of each other.
MOST_LINES = 400
NORMAL = 1.959964
POINTS = 201


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
) -> "Axes":
    """Forest plot: mean and interval of each coefficient but the intercept.

    The axis notes which intervals these are. An open circle is a coefficient that is more likely out than in
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
        Which spread, as in ``Fit.summary``.
    """
    require_level("coefficients", level)
    require_flag("coefficients", standardized=standardized, ordered=ordered)
    one = one_fit("coefficients", fit, class_)
    one = one.showing(covariance)
    table = one.summary(level).iloc[one.plan.recipe.first :]
    scale = one.plan.recipe.scale[: one.plan.n_shown]
    unit = one.plan.recipe.spread[: one.plan.n_shown] if standardized else np.ones(len(table))
    mean, lower, upper = (table[name].to_numpy(dtype=float) * unit for name in ("coefficient", "lower", "upper"))
    n_shown = number_shown("coefficients", top, len(mean), style.MOST_NAMES)
    order = np.argsort(-np.abs(mean), kind="stable")[:n_shown]
    order = order[np.argsort(-mean[order], kind="stable")] if ordered else np.sort(order)
    names, row, wide = style.wrapped([str(table.index[k]) for k in order])
    ax = style.axes(ax, 0.75 + row * len(order), max(style.WIDTH, 3.2 + wide))
    opened = table["inclusion"].to_numpy(dtype=float)[order] > 0.5 if one.selects else np.ones(len(order), dtype=bool)
    _intervals(ax, mean[order], lower[order], upper[order], opened)
    ax.set_yticks(range(len(order)), names)
    ax.set_ylim(len(order) - 0.4, -0.6)
    per = "one standard deviation" if standardized and (scale != 1.0).any() else "one unit"
    left_out = style.left_out(n_shown, len(mean), "the largest")
    ax.set_xlabel(f"change of the score for {per}\n{one.intervals().words.interval(level)}{left_out}", loc="right")
    return style.dress(ax, hidden=("top", "right", "left"))


def _intervals(ax: "Axes", mean: Array, lower: Array, upper: Array, filled: NDArray[np.bool_]) -> None:
    """Points with intervals, one a row, and the line of no effect; hundreds of rows get thin, light lines."""
    rows, many = np.arange(len(mean)), len(mean) > style.MOST_NAMES
    ax.axvline(0.0, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(rows, lower, upper, color=style.SKY if many else style.BLUE, linewidth=0.5 if many else 1.4)
    size = 1.8 if many else 4.5
    ax.plot(mean[filled], rows[filled], "o", color=style.BLUE, markersize=size)
    ax.plot(mean[~filled], rows[~filled], "o", color=style.BLUE, markersize=size, markerfacecolor="white")
    ax.tick_params(axis="y", left=False)


def random_effects(
    fit: Any,
    ax: "Canvas" = None,
    *,
    factor: str | None = None,
    effect: str | None = None,
    top: int | None = None,
    class_: Any = None,
) -> "Axes":
    """Caterpillar plot: effects of the groups of one factor in order, mean ± 1.96 standard deviations.

    Up to sixty groups are named, up to four hundred have a line each, and more become a band.

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
        How many of the groups with the largest effects in magnitude to show; None means all groups.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    one = one_fit("random_effects", fit, class_)
    factor, effect, table = _effect_of_groups(one, factor, effect)
    mean, sd = table["mean"].to_numpy(dtype=float), table["sd"].to_numpy(dtype=float)
    n_groups = number_shown("random_effects", top, len(mean), len(mean))
    order = np.argsort(-np.abs(mean), kind="stable")[:n_groups]
    order = order[np.argsort(mean[order], kind="stable")]
    named = table.index[order] if n_groups <= style.MOST_NAMES else []
    names, row, wide = style.wrapped([group_name(label) for label in named])
    ax = style.axes(ax, 0.75 + row * n_groups if names else 5.4, max(style.WIDTH, 3.2 + wide))
    mean, sd = mean[order], sd[order]
    if n_groups > MOST_LINES:
        rows = np.arange(n_groups)
        ax.axvline(0.0, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
        ax.fill_betweenx(rows, mean - NORMAL * sd, mean + NORMAL * sd, color=style.SKY, alpha=0.45, linewidth=0)
        ax.plot(mean, rows, color=style.BLUE, linewidth=1.2)
    else:
        _intervals(ax, mean, mean - NORMAL * sd, mean + NORMAL * sd, np.ones(n_groups, dtype=bool))
    ax.set_ylim(-0.6 - 0.01 * n_groups, n_groups - 0.4 + 0.01 * n_groups)
    if names:
        ax.set_yticks(range(n_groups), names)
    else:
        ax.set_yticks([])
        ax.set_ylabel(style.plain(f"{n_groups} groups of {factor}, in order"))
    what = "effect on the score" if effect == INTERCEPT else f"effect of {effect} on the score"
    left_out = style.left_out(n_groups, len(table), "the largest")
    ax.set_xlabel(
        style.plain(f"{what}, by {factor}") + f"\nmean ± 1.96 standard deviations{one.posterior.words.aside}{left_out}",
        loc="right",
    )
    return style.dress(ax, hidden=("top", "right", "left"))


def group_name(label: object) -> str:
    """A group in one word, also where several columns make it."""
    return ":".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _effect_of_groups(one: Fit, factor: str | None, effect: str | None) -> "tuple[str, str, pd.DataFrame]":
    """The factor and the effect that are meant, and the table of this effect, group by group."""
    known = {of_factor.name: of_factor for of_factor in one.plan.factors}
    if not known:
        raise ValueError("random_effects: the model has no groups.")
    factor = next(iter(known)) if factor is None and len(known) == 1 else factor
    if factor not in known:
        raise ValueError(f"random_effects: choose a factor with factor=…; there are {list(known)}.")
    effects = known[factor].effects
    effect = effects[0] if effect is None else effect
    if effect not in effects:
        raise ValueError(f"random_effects: {factor} has no effect {effect!r}; it has {list(effects)}.")
    table = one.random_effects(factor)
    return factor, effect, table.xs(effect, level=table.index.nlevels - 1) if len(effects) > 1 else table


def spline(
    fit: Any, ax: "Canvas" = None, *, term: str | None = None, level: float = 0.95, covariance: str | None = None
) -> "Axes":
    """The curve of an ``s(x)`` term with its band, over the range of x in fit; ticks are the knots.

    The curve is the change of the score from its mean over the rows. Interactions of x are not included.

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
        Which spread, as in ``Fit.summary``.
    """
    require_level("spline", level)
    one = one_fit("spline", fit)
    curves = {} if one.reader is None else {str(curve.term): curve for curve in one.reader.curves}
    if not curves:
        raise ValueError("spline: the model has no s(x) term.")
    term = next(iter(curves)) if term is None and len(curves) == 1 else term
    if term not in curves:
        raise ValueError(f"spline: choose a curve with term=…; there are {list(curves)}.")
    curve = curves[term]
    x = np.linspace(curve.spline.low, curve.spline.low + curve.spline.width, POINTS)
    rows = _curve_rows(one, curve, x)
    chances = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    intervals = one.intervals(covariance)
    band = np.array([intervals.combination(row, chances)[1] for row in rows])
    ax = style.axes(ax, 3.2)
    ax.axhline(0.0, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    ax.fill_between(x, band[:, 0], band[:, 1], color=style.SKY, alpha=0.45, linewidth=0)
    ax.plot(x, rows @ one.posterior.mean, color=style.BLUE, linewidth=1.6)
    knots = curve.spline.low + curve.spline.width * np.unique(curve.spline.knots)
    ax.plot(knots, np.zeros(len(knots)), "|", color=style.INK, markersize=6, transform=ax.get_xaxis_transform())
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel(style.plain(curve.term.expression.strip("`")) + f"\n{intervals.words.interval(level, 'band')}")
    ax.set_ylabel(style.plain(f"{term}: change of the score"))
    return style.dress(ax)


def _curve_rows(one: Fit, curve: "Curve", x: Array) -> Array:
    """Design rows in which all but the curve's own columns are at their mean."""
    plan, recipe = one.plan, one.plan.recipe
    line = plan.names.index(f"{curve.term} line" if curve.with_line else curve.values.names[0])
    bend = plan.names.index(f"{curve.term} bend 1")
    columns = np.array([line, *range(bend, bend + curve.spline.n_columns)])
    raw = np.column_stack([x, curve.spline.encode(x)])
    rows = np.zeros((len(x), plan.n_fixed))
    rows[:, recipe.first + columns] = (raw - recipe.centre[columns]) / recipe.scale[columns]
    return rows


def inclusion(fit: Any, ax: "Canvas" = None, *, top: int | None = None, class_: Any = None) -> "Axes":
    """Bars of inclusion probabilities, shaded by the probability that the coefficient is positive (paper, Figure 3).

    A + or − above a bar marks an input that is more likely in than out and whose sign is nearly certain (97.5 %).

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted with ``LaplaceZero()``.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure wide enough for the names.
    top : int, default None
        How many inputs with the largest probabilities to show, in that order. None shows all in the order of the
        columns, or the sixty largest if there are more.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    one = one_fit("inclusion", fit, class_)
    if not one.selects:
        raise ValueError("inclusion: the model has no gates; fit it with LaplaceZero().")
    names, chances, signs = one.plan.shown_names, one.inclusion_probability, one.sign_probability
    n_shown = number_shown("inclusion", top, len(names), style.MOST_NAMES)
    in_order = top is None and n_shown == len(names)
    shown = np.arange(len(names)) if in_order else np.argsort(-chances, kind="stable")[:n_shown]
    labels, row, long = style.wrapped([names[k] for k in shown], 60)
    ax = style.axes(ax, 2.4 + long, max(4.0, row * len(shown) + 1.6))
    scale = style.shades(style.SIGNS)
    bars = range(len(shown))
    ax.bar(bars, chances[shown], width=0.8, color=scale.to_rgba(signs[shown]), edgecolor=style.INK, linewidth=0.6)
    for k, column in enumerate(shown):
        if chances[column] > 0.5 and abs(signs[column] - 0.5) > 0.475:
            mark = "+" if signs[column] > 0.5 else "−"
            at, up = (k, chances[column]), (0, 1)
            ax.annotate(mark, at, up, textcoords="offset points", ha="center", fontsize=7, color=style.INK)
    ax.axhline(0.5, color=style.MUTED, linewidth=0.8, linestyle=":")
    ax.set(ylim=(0, 1.08), yticks=[0, 0.5, 1], xlim=(-0.7, len(shown) - 0.3), ylabel="inclusion probability")
    ax.set_xticks(bars, labels, rotation=90)
    ax.set_xlabel(style.left_out(n_shown, len(names), "the most probable").strip())
    bar = ax.figure.colorbar(scale, ax=ax, ticks=[0, 0.5, 1], pad=0.01, aspect=30)
    bar.set_label("P(coefficient > 0)", fontsize=style.SMALL, color=style.INK)
    bar.outline.set_edgecolor(style.INK)
    bar.ax.tick_params(labelsize=style.SMALL, colors=style.INK)
    return style.dress(ax)
