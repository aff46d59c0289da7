"""Figures of average probabilities: lines with bands over a number, points with bars over a category."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.plots import style
from vbsvm.results.effects.marginal import AverageEffects
from vbsvm.results.effects.rows import grid

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Axes, Canvas

# More lines than this can't be told apart.
MAX_LINES = 12


def effects(
    fit: Any,
    variable: str,
    by: str | list[str] | None = None,
    ax: "Canvas" = None,
    *,
    class_: Any = None,
    at: Any = None,
    data: Any = None,
    weights: Any = None,
    groups: str = "observed",
    level: float = 0.95,
    covariance: str | None = None,
) -> "Axes":
    """Average predicted probabilities over the values of an input, with their intervals.

    A number has a line with a band from its 5 to its 95 % quantile, a category points with bars.

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit.
    variable : str
        The input.
    by : str or list of str, default None
        Columns that part the rows: a line for each group.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    class_ : label, default None
        The class whose probability is shown, if there are more than two. None shows all, and can't be with ``by``.
    at, data, weights, groups, level, covariance
        As for ``Fit.effects``.
    """
    if not isinstance(fit, AverageEffects):
        raise TypeError(f"effects: pass a fitted VBSVC or the Fit of a Model; got {type(fit).__name__}.")
    subject = fit._effects_subject(data, weights, covariance)
    values = grid("effects", subject.rows, variable, at, fine=True)
    chosen: dict[str, Any] = {"data": data, "weights": weights, "groups": groups, "covariance": covariance}
    _, table = fit._effects_table(variable, by, at=values, level=level, **chosen)
    if "caution" in table.attrs:
        warn_user(table.attrs["caution"], ReliabilityWarning)
    positive = subject.classes[1] if len(subject.models.fits) == 1 else class_
    lines = _lines(table, class_, several=len(subject.models.fits) > 1, parted=by is not None)
    number = subject.rows.levels(variable) is None
    ax = _draw(style.axes(ax, 2.8), lines, values, number=number)
    shown = f"{100 * level:g} % {'band' if number else 'interval'}{subject.models.intervals[0].notes.aside}"
    ax.set_xlabel(f"{style.wrapped([variable], style.LINE)[0][0]}\n{shown}")
    label = "average probability" + ("" if positive is None else f" of {positive!s}")
    ax.set_ylabel(style.wrapped([label], 32)[0][0])
    if len(lines) > 1:
        title = "class" if by is None else ", ".join([by] if isinstance(by, str) else by)
        ax.legend(title=style.escape(title), title_fontsize=style.SMALL)
    return style.finish(ax, f"Average probability over the values of {variable}, with {shown}s.")


def _lines(table: "pd.DataFrame", class_: Any, *, several: bool, parted: bool) -> "dict[str, pd.DataFrame]":
    """The table of each line, by its name."""
    if several and class_ is not None:
        if class_ not in table.index.get_level_values("class"):
            raise ValueError(f"effects: there is no class {class_!r}.")
        table = table.xs(class_, level="class")
    elif several and parted:
        raise ValueError("effects: with by, choose the class whose probability is shown with class_=…")
    rest = list(range(1, table.index.nlevels))
    if not rest:
        return {"": table}
    lines = {
        ", ".join(map(str, key if isinstance(key, tuple) else (key,))): part
        for key, part in table.groupby(level=rest if len(rest) > 1 else rest[0], sort=False)
    }
    if len(lines) > MAX_LINES:
        raise ValueError(f"effects: {len(lines)} lines can't be told apart: choose at most {MAX_LINES} groups in by.")
    return lines


def _draw(ax: "Axes", lines: "dict[str, pd.DataFrame]", values: list[Any], *, number: bool) -> "Axes":
    """Lines with bands, or points with bars side by side."""
    x = np.asarray(values, dtype=float) if number else np.arange(len(values), dtype=float)
    for k, (name, part) in enumerate(lines.items()):
        colour, dashes = style.line_style(k)
        estimate, lower, upper = (part[column].to_numpy(dtype=float) for column in ("estimate", "lower", "upper"))
        if number:
            ax.fill_between(x, lower, upper, color=colour, alpha=0.18, linewidth=0)
            marker = "o" if len(values) <= style.MAX_NAMES // 5 else ""
            look: dict[str, Any] = {"color": colour, "linewidth": 1.6, "marker": marker, "markersize": 3.5}
            ax.plot(x, estimate, dashes, label=style.escape(name), **look)
            continue
        shifted = x + 0.12 * (k - 0.5 * (len(lines) - 1))
        ax.vlines(shifted, lower, upper, color=colour, linewidth=1.4)
        ax.plot(shifted, estimate, "os^DvPX"[k % 7], color=colour, markersize=4.5, label=style.escape(name))
    if not number:
        names, _ = style.wrapped([str(value) for value in values], max(48 // len(values), 6))
        ax.set_xticks(x, names)
        ax.set_xlim(-0.5, len(values) - 0.5)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, 0.0), min(high, 1.0))
    return ax
