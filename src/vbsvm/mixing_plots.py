"""Figures of how a sampler's chains mix: traces and ranks of single parameters, one panel each."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from vbsvm.arrays import Array
from vbsvm.traces import Trace

# Chains are told apart by colour-blind readers, and by their lightness.
COLOURS = ("#5e3c99", "#e66101", "#b2abd2", "#fdb863", "#2d004b", "#7f3b08")
MOST_PANELS = 12
MOST_POINTS = 1000
BINS = 20
MAGNITUDES = 30


def traces(fit: Any, terms: Sequence[str] | None = None, axes: Any = None) -> Any:
    """Draws one after another, a line for each chain: chains whose lines lie over each other have mixed.

    Standard deviations that span magnitudes are drawn on a logarithmic axis.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted with ``Gibbs()``. Of several classes the first model is shown; pass one of ``fit_`` for another.
    terms : sequence of str, default None
        Parameters to show: coefficients by their names, "gate of x", "sd of (1 | g)". None is all that ever move, or
        the twelve of them that have the fewest effective draws.
    axes : sequence of matplotlib Axes, default None
        Where to draw, one for each parameter; None makes a figure.

    Returns
    -------
    The axes, in an array.
    """
    chosen = _chosen("traces", fit, terms)
    panels = _panels("traces", chosen, axes, "draw")
    for trace, ax in zip(chosen, panels, strict=True):
        step = -(-trace.draws.shape[1] // MOST_POINTS)
        for k, draws in enumerate(trace.draws):
            at = np.arange(0, len(draws), step)
            ax.plot(at, draws[at], color=COLOURS[k % len(COLOURS)], linewidth=0.5, alpha=0.8)
        ax.margins(x=0)
        if trace.scale and trace.draws.max() > MAGNITUDES * trace.draws.min():
            ax.set_yscale("log")
        _told(ax, trace)
    return panels


def ranks(fit: Any, terms: Sequence[str] | None = None, axes: Any = None) -> Any:
    """How often each chain has the ranks of twenty bins among the draws of all: level lines at 1 have mixed.

    Equal draws, such as those of gates, are ranked at random. Parameters and what is returned are those of ``traces``.
    """
    chosen = _chosen("ranks", fit, terms)
    panels = _panels("ranks", chosen, axes, "rank among the draws of all chains")
    for trace, ax in zip(chosen, panels, strict=True):
        shares = rank_shares(trace.draws)
        for k, share in enumerate(shares):
            ax.stairs(share, np.linspace(0, 1, BINS + 1), color=COLOURS[k % len(COLOURS)], linewidth=1.2, baseline=None)
        ax.axhline(1.0, color="0.5", linewidth=0.8, linestyle=":")
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


def _chosen(what: str, fit: Any, terms: Sequence[str] | None) -> list[Trace]:
    one = fit.fit_[0] if hasattr(fit, "fit_") else fit
    found = list(one.traces)
    if terms is not None:
        by_name = {trace.name: trace for trace in found}
        unknown = [name for name in terms if name not in by_name]
        if unknown or not len(terms):
            raise ValueError(f"{what}: {unknown or 'nothing'} is not a parameter: there are {list(by_name)}.")
        return [by_name[name] for name in terms]
    moving = [trace for trace in found if np.ptp(trace.draws) > 0] or found[:1]
    if len(moving) <= MOST_PANELS:
        return moving
    slowest = np.argsort([trace.mixing.ess_bulk for trace in moving], kind="stable")[:MOST_PANELS]
    return [moving[k] for k in np.sort(slowest)]


def _panels(what: str, chosen: list[Trace], axes: Any, label: str) -> Any:
    """The given axes, or those of a new figure with a common label."""
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != len(chosen):
            raise ValueError(f"{what}: {len(given)} axes are given for {len(chosen)} parameters.")
        return given
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'vbsvm[plots]'.") from error
    n_columns = min(3, len(chosen))
    n_rows = -(-len(chosen) // n_columns)
    size = (3.2 * n_columns, 1.8 * n_rows + 0.3)
    figure, made = pyplot.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    figure.supxlabel(label, fontsize=8)
    for ax in made.ravel()[len(chosen) :]:
        ax.remove()
    return made.ravel()[: len(chosen)]


def _told(ax: Any, trace: Trace) -> None:
    """Name, R̂ and effective draws above the panel."""
    mixing, lines = trace.mixing, textwrap.wrap(trace.name, 44)
    if np.isfinite(mixing.ess_bulk):
        lines.append(f"R̂ {mixing.rhat:.2f}, {mixing.ess_bulk:.0f} effective draws")
    ax.set_title("\n".join(lines), fontsize=8, loc="left")
    ax.tick_params(which="both", labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)
