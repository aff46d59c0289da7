"""Figures of how a sampler's chains mix: traces and ranks of single parameters, one panel each."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import largest, number_shown, one_fit, require_names
from vbsvm.results.fit import Fit
from vbsvm.results.history import Trace

if TYPE_CHECKING:
    from vbsvm.plots.style import Axes

MOST_PANELS = 12
MOST_POINTS = 1000
ONE_COLUMN = 3
BINS = 20
MAGNITUDES = 30


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
        Parameters to show: coefficients by their names, "gate of x", "sd of (1 | g)". None means all
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
    chosen, left_out = _chosen("traces", one_fit("traces", fit, class_), terms, top)
    panels = _panels("traces", chosen, axes, "draw" + left_out)
    for trace, ax in zip(chosen, panels, strict=True):
        step = -(-trace.draws.shape[1] // MOST_POINTS)
        for k, draws in enumerate(trace.draws):
            at = np.arange(0, len(draws), step)
            ax.plot(at, draws[at], color=style.look(k)[0], linewidth=0.5, alpha=0.8)
        ax.margins(x=0)
        if trace.scale and trace.draws.max() > MAGNITUDES * trace.draws.min():
            ax.set_yscale("log")
        _told(ax, trace)
    return panels


def ranks(
    fit: Any, terms: Sequence[str] | None = None, axes: Any = None, *, top: int | None = None, class_: Any = None
) -> NDArray[Any]:
    """Share of each chain in twenty bins of the ranks of all draws: the chains have mixed if the lines are level at 1.

    Equal draws, such as those of gates, are ranked at random. Parameters and return value are those of ``traces``.
    """
    chosen, left_out = _chosen("ranks", one_fit("ranks", fit, class_), terms, top)
    panels = _panels("ranks", chosen, axes, "rank among the draws of all chains" + left_out)
    for trace, ax in zip(chosen, panels, strict=True):
        shares = rank_shares(trace.draws)
        for k, share in enumerate(shares):
            ax.stairs(share, np.linspace(0, 1, BINS + 1), color=style.look(k)[0], linewidth=1.2, baseline=None)
        ax.axhline(1.0, color=style.MUTED, linewidth=0.8, linestyle=":")
        ax.set(xlim=(0, 1), ylim=(0, max(2.0, 1.1 * shares.max())))
        _told(ax, trace)
    return panels


def rank_shares(draws: Array) -> Array:
    """Share of each chain's draws in each bin of the ranks, over what it would be in chains that agree."""
    noise = np.random.default_rng(0).random(draws.size)
    ranked = np.empty(draws.size)
    ranked[np.lexsort((noise, draws.ravel()))] = np.arange(draws.size) / draws.size
    bins = (BINS * ranked).astype(np.intp).reshape(draws.shape)
    expected = np.bincount(bins.ravel(), minlength=BINS) / len(draws)
    counts = np.stack([np.bincount(one, minlength=BINS) for one in bins])
    return np.divide(counts, expected, out=np.ones(counts.shape), where=expected > 0)


def _chosen(what: str, fit: Fit, terms: Sequence[str] | None, top: int | None) -> tuple[list[Trace], str]:
    """The parameters to show, and a line on those that are left out."""
    require_names(what, terms)
    known = fit.traces
    found = list(known)
    if terms is not None:
        by_name = {trace.name: trace for trace in found}
        unknown = [name for name in terms if name not in by_name]
        if unknown or not len(terms):
            there = printing.listed(list(by_name))
            raise ValueError(f"{what}: {unknown or 'nothing'} is not a parameter: there are {there}.")
        return [by_name[name] for name in terms], ""
    moving = [k for k, trace in enumerate(found) if np.ptp(trace.draws) > 0] or [0]
    n_shown = number_shown(what, top, len(moving), MOST_PANELS)
    if n_shown < len(moving):
        mixing = (*known.coefficient_mixing, *known.gate_mixing, *known.component_mixing)
        slowest = largest([-mixing[k].ess_bulk for k in moving], n_shown)
        left_out = style.left_out(n_shown, len(moving), "those with the fewest effective draws")
        return [found[moving[k]] for k in slowest], left_out
    return [found[k] for k in moving], ""


def _panels(what: str, chosen: list[Trace], axes: Any, label: str) -> NDArray[Any]:
    """The given axes, or those of a new or empty figure with a common label."""
    if axes is not None and not hasattr(axes, "subplots"):
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != len(chosen):
            raise ValueError(f"{what}: {len(given)} axes are given for {len(chosen)} parameters.")
        return given
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


def _told(ax: "Axes", trace: Trace) -> None:
    """Name, R̂ and effective draws above the panel."""
    mixing, lines = trace.mixing, textwrap.wrap(trace.name, 44)
    if np.isfinite(mixing.ess_bulk):
        lines.append(f"R̂ {mixing.rhat:.2f}, {mixing.ess_bulk:.0f} effective draws")
    style.dress(ax)
    ax.set_title("\n".join(map(style.plain, lines)), fontsize=style.SMALL, color=style.INK, loc="left")
    ax.tick_params(which="both", labelsize=7)
    style.described(ax, f"{trace.name}, chain by chain.")
