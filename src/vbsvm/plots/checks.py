"""Figures of how a fit was reached, and of how far it leans on what was assumed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.base import printing
from vbsvm.base.settings import require_count
from vbsvm.design.columns import INTERCEPT
from vbsvm.design.spelling import listed
from vbsvm.missing.patterns import CHANGED
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import largest, number_shown, one_fit, require_names
from vbsvm.results.comparison import Comparison, Pair

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Axes, Canvas, Figure

# More names than this do not fit beside the axis.
MOST_SHIFTED = 2
MOST_LINES = 12
MOST_PANELS = 24


def bound(fit: Any, ax: "Canvas" = None, *, class_: Any = None) -> "Axes":
    """How the bound rose: its distance from the final value, in nats, at each accepted step.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted by variational Bayes.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None makes a figure.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    one = one_fit("bound", fit, class_)
    if not len(one.history.bounds):
        raise ValueError(
            "bound: the bound is only available after variational Bayes with a bound; plots.traces shows the chains "
            "of a sampler."
        )
    bounds = one.bounds[np.isfinite(one.bounds)]
    below = bounds[-1] - bounds
    seen = below > 0
    ax = style.axes(ax, 2.5)
    ax.plot(1 + np.flatnonzero(seen), below[seen], "o-", color=style.BLUE, linewidth=1.2, markersize=3.5)
    ax.set_yscale("log")
    ax.invert_yaxis()
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel(f"accepted step of {len(bounds)}")
    ax.set_ylabel(f"nats below the final\nbound ({bounds[-1]:.2f})".replace("-", "−"))
    style.described(ax, f"The bound rises over {len(bounds)} accepted steps to {bounds[-1]:.2f}.")
    return style.dress(ax)


def sensitivity(
    table: "pd.DataFrame", ax: "Canvas" = None, *, terms: list[str] | None = None, top: int | None = None
) -> "Axes":
    """Tipping points: coefficients against the shift of missing values, in units of their size without shift.

    A circle marks a shift at which a coefficient changes its sign.

    Parameters
    ----------
    table : DataFrame
        The result of ``sensitivity`` of an estimator or a model.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None makes a figure.
    terms : list of str, default None
        Coefficients to show; None means all except the intercept.
    top : int, default None
        If no terms are named, how many of the largest without shift to show; None means at most twelve.
    """
    if not hasattr(table, "columns") or not hasattr(table, "attrs"):
        raise TypeError(f"sensitivity: pass the result of sensitivity(…); got {type(table).__name__}.")
    if not len(table) or any(dtype.kind not in "iuf" for dtype in (table.index.dtype, *table.dtypes)):
        raise TypeError(
            "sensitivity: pass the result of sensitivity(…), a table of numbers with the shifts as its index; got "
            f"another data frame, with the columns {listed(list(table.columns))}."
        )
    shift = table.index.to_numpy(dtype=float)
    nearest = int(np.abs(shift).argmin())
    chosen, left_out = _choose(table, nearest, terms, top)
    ax = style.axes(ax, 3.2)
    for k, name in enumerate(chosen):
        values = table[name].to_numpy(dtype=float)
        unit = abs(values[nearest])
        values = values / unit if unit > 0 else values
        colour, dashes = style.look(k)
        ax.plot(shift, values, dashes, color=colour, label=style.plain(name), linewidth=1.5)
        for i in np.flatnonzero(values[1:] * values[:-1] < 0):
            share = values[i] / (values[i] - values[i + 1])
            at = shift[i] + share * (shift[i + 1] - shift[i])
            ax.plot([at], [0.0], "o", color=colour, markersize=7, fillstyle="none")
    ax.axhline(0.0, color=style.MUTED, linewidth=0.8)
    ax.axvline(0.0, color=style.MUTED, linewidth=0.8, linestyle=":")
    columns = table.attrs.get("columns", [])
    told = ", ".join(columns) if 0 < len(columns) <= MOST_SHIFTED else "values"
    ax.set_xlabel(style.plain(f"shift of missing {told} (standard deviations)") + left_out)
    ax.set_ylabel("coefficient, in units of its size\nwithout shift")
    ax.legend(loc="best")
    style.described(ax, f"{len(chosen)} coefficients against a shift of missing values.")
    return style.dress(ax)


def _choose(table: "pd.DataFrame", nearest: int, terms: list[str] | None, top: int | None) -> tuple[list[str], str]:
    """The coefficients that are named, or the largest without shift; and a line on those that are left out."""
    require_names("sensitivity", terms)
    known = [name for name in table.columns if name not in (INTERCEPT, CHANGED)]
    if terms is not None:
        unknown = [name for name in terms if name not in table.columns]
        if unknown or not len(terms):
            raise ValueError(f"sensitivity: there is no coefficient {unknown}; there are {printing.listed(known)}.")
        return list(terms), ""
    n_shown = number_shown("sensitivity", top, len(known), MOST_LINES)
    size = np.abs(table[known].to_numpy(dtype=float)[nearest])
    return [known[k] for k in largest(size, n_shown)], style.left_out(n_shown, len(known), "the largest without shift")


def densities(
    comparison: Comparison, *, terms: list[str] | None = None, top: int | None = None, n_columns: int = 3
) -> "Figure":
    """Densities of a variational fit and of a sampler's, one panel for each parameter, with the accuracy in per cent.

    Parameters
    ----------
    comparison : Comparison
        The result of ``compare``.
    terms : list of str, default None
        Parameters to show; None means all.
    top : int, default None
        If no terms are named, how many of those with the lowest accuracy to show; None means at most 24.
    n_columns : int, default 3
        Panels side by side.

    Returns
    -------
    The figure.
    """
    if not hasattr(comparison, "pairs"):
        raise TypeError(f"densities: pass the result of compare(fit, sampled); got {type(comparison).__name__}.")
    require_count("densities", n_columns=n_columns)
    pairs, left_out = _pairs(comparison, terms, top)
    n_columns = min(n_columns, len(pairs))
    n_rows = -(-len(pairs) // n_columns)
    figure, axes = style.panels(n_rows, n_columns, (max(2.2 * n_columns, style.WIDTH), 1.6 * n_rows + 0.4))
    for ax in axes.ravel()[len(pairs) :]:
        ax.remove()
    for pair, ax in zip(pairs, axes.ravel(), strict=False):
        ax.plot(pair.grid, pair.sampled, color=style.VERMILION, linewidth=1.5, label="Gibbs")
        ax.plot(pair.grid, pair.variational, color=style.BLUE, linewidth=1.5, linestyle="--", label="variational")
        seen = pair.grid[
            (pair.sampled > 1e-3 * pair.sampled.max()) | (pair.variational > 1e-3 * pair.variational.max())
        ]
        ax.set(title=style.wrapped([pair.name], 24)[0][0], yticks=[], xlim=(seen[0], seen[-1]))
        ax.fill_between(pair.grid, pair.sampled, color=style.VERMILION, alpha=0.15, linewidth=0)
        ax.text(0.99, 0.9, f"{pair.accuracy:.0f} %", transform=ax.transAxes, ha="right", fontsize=style.SMALL)
        ax.locator_params(axis="x", nbins=4)
        ax.set_ylim(0, None)
        style.described(ax, f"{pair.name}: both densities, which overlap by {pair.accuracy:.0f} %.")
        style.dress(ax, hidden=("top", "right", "left"))
    handles, inferences = axes[0, 0].get_legend_handles_labels()
    title = left_out.strip() or None
    figure.legend(
        handles,
        inferences,
        loc="outside lower center",
        ncols=2,
        frameon=False,
        title=title,
        fontsize=style.SMALL,
        title_fontsize=style.SMALL,
    )
    return figure


def _pairs(comparison: Comparison, terms: list[str] | None, top: int | None) -> tuple[list[Pair], str]:
    """The parameters that are named, or the least accurate; and a line on those that are left out."""
    require_names("densities", terms)
    found = list(comparison.pairs)
    if not found:
        raise ValueError("densities: the comparison has no parameters, so there is nothing to draw.")
    if terms is not None:
        known = [pair.name for pair in found]
        unknown = [name for name in terms if name not in known]
        if unknown or not len(terms):
            there = printing.listed(known)
            raise ValueError(f"densities: {unknown or 'nothing'} is not in the comparison: there are {there}.")
        return [pair for pair in found if pair.name in terms], ""
    n_shown = number_shown("densities", top, len(found), MOST_PANELS)
    left_out = style.left_out(n_shown, len(found), "those with the lowest accuracy")
    return [found[k] for k in largest([-pair.accuracy for pair in found], n_shown)], left_out
