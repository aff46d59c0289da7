"""The caterpillar plot: effects of groups in order, with those at the ends by name."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.design.columns import INTERCEPT
from vbsvm.plots import style
from vbsvm.plots.estimates import intervals
from vbsvm.plots.resolve_fit import number_shown, one_fit
from vbsvm.results import tables
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Axes, Canvas

# Of more groups than can be named, so many at either end are, and the others are a band of so many rows.
NAMED, BAND_ROWS = 10, 12
NORMAL = 1.959964


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

    Up to sixty groups are named. Of more, the ten at either end are, and those between them become a band.

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
    mean, sd = mean[order], sd[order]
    named = np.arange(n_groups)
    if n_groups > style.MOST_NAMES:
        named = np.r_[:NAMED, n_groups - NAMED : n_groups]
    heights = np.arange(len(named), dtype=float)
    if len(named) < n_groups:
        heights[NAMED:] += BAND_ROWS
    names, _, row = style.rows([group_name(label) for label in table.index[order[named]]])
    ax = style.axes(ax, 0.9 + row * (heights[-1] + 1))
    lower, upper = mean - NORMAL * sd, mean + NORMAL * sd
    intervals(ax, heights, mean[named], lower[named], upper[named])
    if len(named) < n_groups:
        between = slice(NAMED, n_groups - NAMED)
        _band(ax, mean[between], lower[between], upper[between])
        names = [*names[:NAMED], f"… {n_groups - 2 * NAMED} more …", *names[NAMED:]]
        heights = np.insert(heights, NAMED, NAMED + 0.5 * (BAND_ROWS - 1))
    ax.set_yticks(heights, names)
    ax.set_ylim(-0.7, heights[-1] + 0.7)
    what = "effect on the score" if effect == INTERCEPT else f"effect of {effect} on the score"
    left_out = style.left_out(n_groups, len(table), "the largest")
    ax.set_xlabel(
        style.wrapped([f"{what}, by {factor}"], style.LINE)[0][0]
        + f"\nmean ± 1.96 sd{one.posterior.notes.aside}{left_out}",
        loc="right",
    )
    style.described(ax, f"Caterpillar plot: {what} of {n_groups} groups of {factor}, in order, with intervals.")
    return style.dress(ax, hidden=("top", "right", "left"))


def _band(ax: "Axes", mean: Array, lower: Array, upper: Array) -> None:
    """All groups between those that are named, in the height of a few rows."""
    rows = np.linspace(NAMED - 0.3, NAMED + BAND_ROWS - 0.7, len(mean))
    ax.fill_betweenx(rows, lower, upper, color=style.SKY, alpha=0.35, linewidth=0)
    ax.plot(mean, rows, color=style.BLUE, linewidth=1.4)


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
    table = tables.random_effects(one, factor)
    return factor, effect, table.xs(effect, level=table.index.nlevels - 1) if len(effects) > 1 else table
