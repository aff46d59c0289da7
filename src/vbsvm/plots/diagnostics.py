"""Figures of how a fit was reached, how chains mix, what was missing, and how far results lean on assumptions."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.settings import check_count
from vbsvm.design.columns import INTERCEPT
from vbsvm.design.values import join_names
from vbsvm.missing.imputation import CHANGED
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import check_names, fits_of, n_to_show, select_fit, top_k
from vbsvm.results.comparison.approximations import Comparison, Pair
from vbsvm.results.fit import Fit
from vbsvm.results.history import Trace
from vbsvm.results.tables import missing_fractions

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Axes, Canvas, Figure


# More names than this do not fit into the axis label.
MAX_SHIFTED = 2
MAX_LINES = 12
MAX_PANELS = 24


def bound(fit: Any, ax: "Canvas" = None, *, class_: Any = None) -> "Axes":
    """ELBO gap: the distance of the evidence lower bound from its final value at each iteration.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted by variational Bayes.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None makes a figure.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    model = select_fit("bound", fit, class_)
    if not len(model.history.bounds):
        raise ValueError(
            "bound: the ELBO is only available after variational Bayes with a bound; plots.traces shows the "
            "chains of a sampler."
        )
    bounds = model.bounds[np.isfinite(model.bounds)]
    below = bounds[-1] - bounds
    positive = below > 0
    ax = style.axes(ax, 2.5)
    ax.plot(1 + np.flatnonzero(positive), below[positive], "o-", color=style.BLUE, linewidth=1.2, markersize=3.5)
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel(f"iteration\nfinal ELBO {bounds[-1]:.2f}".replace("-", "−"))
    ax.set_ylabel("ELBO gap")
    return style.finish(ax, f"The ELBO gap over {len(bounds)} iterations; the final ELBO is {bounds[-1]:.2f}.")


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
            "sensitivity: pass the result of sensitivity(…), a table of numbers with the shifts as its index; "
            f"got another data frame, with the columns {join_names(list(table.columns))}."
        )
    shift = table.index.to_numpy(dtype=float)
    nearest = int(np.abs(shift).argmin())
    chosen, left_out = _choose(table, nearest, terms, top)
    ax = style.axes(ax, 3.2)
    for k, name in enumerate(chosen):
        values = table[name].to_numpy(dtype=float)
        unit = abs(values[nearest])
        values = values / unit if unit > 0 else values
        colour, dashes = style.line_style(k)
        ax.plot(shift, values, dashes, color=colour, label=style.escape(name), linewidth=1.5)
        for i in np.flatnonzero(values[1:] * values[:-1] < 0):
            share = values[i] / (values[i] - values[i + 1])
            crossing = shift[i] + share * (shift[i + 1] - shift[i])
            ax.plot([crossing], [0.0], "o", color=colour, markersize=7, fillstyle="none")
    ax.axhline(0.0, color=style.MUTED, linewidth=0.8)
    ax.axvline(0.0, color=style.MUTED, linewidth=0.8, linestyle=":")
    columns = table.attrs.get("columns", [])
    what = ", ".join(columns) if 0 < len(columns) <= MAX_SHIFTED else "values"
    ax.set_xlabel(style.escape(f"shift of missing {what} (standard deviations)") + left_out)
    ax.set_ylabel("coefficient, in units of its size\nwithout shift")
    ax.legend(loc="best")
    return style.finish(ax, f"{len(chosen)} coefficients against a shift of missing values.")


def _choose(table: "pd.DataFrame", nearest: int, terms: list[str] | None, top: int | None) -> tuple[list[str], str]:
    """The coefficients that are named, or the largest without shift; and a line on those that are left out."""
    check_names("sensitivity", terms)
    known = [name for name in table.columns if name not in (INTERCEPT, CHANGED)]
    if terms is not None:
        _check_known("sensitivity", terms, list(table.columns), "a coefficient")
        return list(terms), ""
    n_shown = n_to_show("sensitivity", top, len(known), MAX_LINES)
    size = np.abs(table[known].to_numpy(dtype=float)[nearest])
    return [known[k] for k in top_k(size, n_shown)], style.shown_note(n_shown, len(known), "the largest without shift")


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
    check_count("densities", n_columns=n_columns)
    pairs, left_out = _pairs(comparison, terms, top)
    n_columns = min(n_columns, len(pairs))
    n_rows = -(-len(pairs) // n_columns)
    figure, axes = style.panels(n_rows, n_columns, (max(2.2 * n_columns, style.WIDTH), 1.6 * n_rows + 0.4))
    for ax in axes.ravel()[len(pairs) :]:
        ax.remove()
    for pair, ax in zip(pairs, axes.ravel(), strict=False):
        ax.plot(pair.grid, pair.sampled, color=style.VERMILION, linewidth=1.5, label="Gibbs")
        ax.plot(pair.grid, pair.variational, color=style.BLUE, linewidth=1.5, linestyle="--", label="variational")
        x = pair.grid[(pair.sampled > 1e-3 * pair.sampled.max()) | (pair.variational > 1e-3 * pair.variational.max())]
        ax.set(title=style.wrapped([pair.name], 24)[0][0], yticks=[], xlim=(x[0], x[-1]))
        ax.fill_between(pair.grid, pair.sampled, color=style.VERMILION, alpha=0.15, linewidth=0)
        ax.text(0.99, 0.9, f"{pair.accuracy:.0f} %", transform=ax.transAxes, ha="right", fontsize=style.SMALL)
        ax.locator_params(axis="x", nbins=4)
        ax.set_ylim(0, None)
        alt = f"{pair.name}: both densities, which overlap by {pair.accuracy:.0f} %."
        style.finish(ax, alt, hidden=style.NO_Y_AXIS)
    handles, inferences = axes[0, 0].get_legend_handles_labels()
    sizes: dict[str, Any] = {"fontsize": style.SMALL, "title_fontsize": style.SMALL, "title": left_out.strip() or None}
    figure.legend(handles, inferences, loc="outside lower center", ncols=2, frameon=False, **sizes)
    return figure


def _pairs(comparison: Comparison, terms: list[str] | None, top: int | None) -> tuple[list[Pair], str]:
    """The parameters that are named, or the least accurate; and a line on those that are left out."""
    check_names("densities", terms)
    pairs = list(comparison.pairs)
    if not pairs:
        raise ValueError("densities: the comparison has no parameters, so there is nothing to draw.")
    if terms is not None:
        _check_known("densities", terms, [pair.name for pair in pairs], "in the comparison")
        return [pair for pair in pairs if pair.name in terms], ""
    n_shown = n_to_show("densities", top, len(pairs), MAX_PANELS)
    left_out = style.shown_note(n_shown, len(pairs), "those with the lowest accuracy")
    return [pairs[k] for k in top_k([-pair.accuracy for pair in pairs], n_shown)], left_out


def _check_known(what: str, terms: Sequence[str], known: list[str], kind: str) -> None:
    """Reject names that are not there, and none at all."""
    unknown = [name for name in terms if name not in known]
    if unknown or not len(terms):
        raise ValueError(f"{what}: {unknown or 'nothing'} is not {kind}: there are {printing.join_names(known)}.")


MAX_TRACES = 12
MAX_POINTS = 1000
ONE_COLUMN = 3
BINS = 20
LOG_SCALE_RATIO = 30


def traces(
    fit: Any, terms: Sequence[str] | None = None, axes: Any = None, *, top: int | None = None, class_: Any = None
) -> NDArray[Any]:
    """Draws in order, one line for each chain: the chains have mixed if the lines overlap.

    Standard deviations that span orders of magnitude are drawn on a logarithmic axis.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted with ``Gibbs()``.
    terms : sequence of str, default None
        Parameters to show: coefficients by their names, and the others as in ``Fit.traces``. None means all
        that vary, or those of them with the fewest effective draws.
    axes : sequence of matplotlib Axes, or empty Figure, default None
        Where to draw, one for each parameter; None creates a figure.
    top : int, default None
        How many parameters to show if no terms are named; None means at most twelve.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.

    Returns
    -------
    The axes, in an array.
    """
    chosen, left_out = _chosen("traces", select_fit("traces", fit, class_), terms, top)
    panels = _panels("traces", chosen, axes, "draw" + left_out)
    for trace, ax in zip(chosen, panels, strict=True):
        step = -(-trace.draws.shape[1] // MAX_POINTS)
        for k, draws in enumerate(trace.draws):
            draw_index = np.arange(0, len(draws), step)
            ax.plot(draw_index, draws[draw_index], color=style.line_style(k)[0], linewidth=0.5, alpha=0.8)
        ax.margins(x=0)
        if trace.scale and trace.draws.max() > LOG_SCALE_RATIO * trace.draws.min():
            ax.set_yscale("log")
        _set_title(ax, trace)
    return panels


def ranks(
    fit: Any, terms: Sequence[str] | None = None, axes: Any = None, *, top: int | None = None, class_: Any = None
) -> NDArray[Any]:
    """Rank plots: the proportion of each chain in twenty bins of the ranks of all draws, relative to its expectation.

    The chains have mixed if the lines are level at 1. Equal draws, such as those of inclusion indicators, are ranked at
    random. Parameters and return value are those of ``traces``.
    """
    chosen, left_out = _chosen("ranks", select_fit("ranks", fit, class_), terms, top)
    panels = _panels("ranks", chosen, axes, "rank among the draws of all chains" + left_out)
    for trace, ax in zip(chosen, panels, strict=True):
        shares = rank_shares(trace.draws)
        for k, share in enumerate(shares):
            ax.stairs(share, np.linspace(0, 1, BINS + 1), color=style.line_style(k)[0], linewidth=1.2, baseline=None)
        ax.axhline(1.0, color=style.MUTED, linewidth=0.8, linestyle=":")
        ax.set(xlim=(0, 1), ylim=(0, max(2.0, 1.1 * shares.max())))
        _set_title(ax, trace)
    return panels


def rank_shares(draws: Array) -> Array:
    """Proportion of each chain's draws in each bin of the ranks, relative to that of chains that agree."""
    noise = np.random.default_rng(0).random(draws.size)
    ranked = np.empty(draws.size)
    ranked[np.lexsort((noise, draws.ravel()))] = np.arange(draws.size) / draws.size
    bins = (BINS * ranked).astype(np.intp).reshape(draws.shape)
    expected = np.bincount(bins.ravel(), minlength=BINS) / len(draws)
    counts = np.stack([np.bincount(chain_bins, minlength=BINS) for chain_bins in bins])
    return np.divide(counts, expected, out=np.ones(counts.shape), where=expected > 0)


def _chosen(what: str, fit: Fit, terms: Sequence[str] | None, top: int | None) -> tuple[list[Trace], str]:
    """The parameters to show, and a line on those that are left out."""
    check_names(what, terms)
    known = fit.traces
    if terms is not None:
        by_name = {trace.name: trace for trace in known}
        _check_known(what, terms, list(by_name), "a parameter")
        return [by_name[name] for name in terms], ""
    moving = [trace for trace in known if np.ptp(trace.draws) > 0] or list(known)[:1]
    n_shown = n_to_show(what, top, len(moving), MAX_TRACES)
    if n_shown == len(moving):
        return moving, ""
    slowest = top_k([-trace.mixing.ess_bulk for trace in moving], n_shown)
    return [moving[k] for k in slowest], style.shown_note(n_shown, len(moving), "those with the smallest bulk ESS")


def _panels(what: str, chosen: list[Trace], axes: Any, label: str) -> NDArray[Any]:
    """The given axes, or those of a new or empty figure with a common label."""
    if axes is not None and not hasattr(axes, "subplots"):
        panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(panels) != len(chosen):
            raise ValueError(f"{what}: {len(panels)} axes are given for {len(chosen)} parameters.")
        return panels
    n_columns = 1 if len(chosen) <= ONE_COLUMN else 2
    n_rows = -(-len(chosen) // n_columns)
    size = (style.WIDTH if n_columns == 1 else 3.0 * n_columns, 1.5 * n_rows + 0.3)
    if axes is None:
        figure, made = style.panels(n_rows, n_columns, size)
    else:
        figure, made = axes, axes.subplots(n_rows, n_columns, squeeze=False)
        figure.set_size_inches(size)
    figure.supxlabel(label, fontsize=style.SMALL, color=style.INK)
    for ax in made.ravel()[len(chosen) :]:
        ax.remove()
    return made.ravel()[: len(chosen)]


def _set_title(ax: "Axes", trace: Trace) -> None:
    """Name, R̂ and effective draws above the panel."""
    mixing, lines = trace.mixing, textwrap.wrap(trace.name, 44)
    if np.isfinite(mixing.ess_bulk):
        lines.append(f"R-hat {mixing.rhat:.2f}, bulk ESS {mixing.ess_bulk:.0f}")
    style.finish(ax, f"Draws of {trace.name}, a line for each chain.")
    ax.set_title("\n".join(map(style.escape, lines)), fontsize=style.SMALL, color=style.INK, loc="left")
    ax.tick_params(which="both", labelsize=7)


MAX_PATTERNS = 12


def missing(fit: Any, ax: "Canvas" = None, *, top: int | None = None) -> "Axes":
    """Patterns of missing values: a row for each predictor, a column for each pattern; filled squares are missing.

    Below each pattern is its number of observations. At the right are the proportion of missing values of each
    predictor, and the fraction of missing information (FMI) about its coefficient, if the fit has it.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted to data with missing values.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    top : int, default None
        Number of the most common patterns to show; None means at most twelve. Of more than sixty predictors, those
        with the most missing values are shown.
    """
    model = fits_of("missing", fit)[0][0]  # all have the same rows
    patterns = model.missing_patterns
    if patterns is None or not len(patterns.names):
        raise ValueError("missing: the data of the fit had no missing values.")
    by_column = list(patterns.by_column.values())
    chosen = top_k(by_column, style.MAX_NAMES)
    n_patterns = n_to_show("missing", top, len(patterns.counts), MAX_PATTERNS)
    shown, counts = patterns.patterns[:n_patterns][:, chosen].T, patterns.counts[:n_patterns]
    names, height, _ = style.row_labels([patterns.names[k] for k in chosen])
    ax = style.axes(ax, height + 0.5)
    for which, marker, colour, size in ((shown, "s", style.VERMILION, 6.0), (~shown, ".", style.MUTED, 3.0)):
        rows, columns = np.nonzero(which)
        ax.plot(columns, rows, marker, color=colour, markersize=size, label="missing" if marker == "s" else "observed")
    lost = missing_fractions(model)
    style.annotate_row(ax, -1, "missing; FMI" if lost else "missing")
    for row, k in enumerate(chosen):
        share = lost.get(patterns.names[k])
        note = f"{100 * by_column[k] / patterns.total:.0f} %" + ("" if share is None else f"; {100 * share:.0f} %")
        style.annotate_row(ax, row, note)
    ax.set_yticks(range(len(chosen)), names)
    ax.set_xticks(range(n_patterns), [str(count) for count in counts], rotation=90)
    ax.set(xlim=(-0.7, max(n_patterns, 4) - 0.3), ylim=(len(chosen) - 0.4, -0.7))
    left_out = style.shown_note(len(chosen), len(patterns.names), "predictors with the most missing values")
    hidden = f"\nthe {n_patterns} most common of {len(patterns.counts)}" * (n_patterns < len(patterns.counts))
    ax.set_xlabel(f"observations with each pattern{hidden}{left_out}")
    ax.tick_params(axis="both", left=False, bottom=False)
    alt = f"Patterns of missing values of {len(chosen)} predictors: {n_patterns} patterns with their frequencies."
    return style.finish(ax, alt, hidden=(*style.NO_Y_AXIS, "bottom"))
