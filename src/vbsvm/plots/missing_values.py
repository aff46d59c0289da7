"""The figure of missing values: which inputs are missing together."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.plots import style
from vbsvm.plots.resolve_fit import any_fit, largest, number_shown
from vbsvm.results.tables import missing_shares

if TYPE_CHECKING:
    from vbsvm.plots.style import Axes, Canvas

MOST_PATTERNS = 12


def missing(fit: Any, ax: "Canvas" = None, *, top: int | None = None) -> "Axes":
    """Which inputs were missing together: a row for each input, a column for each pattern; filled squares are missing.

    Below each pattern is its number of rows. Beside each input is the share of its values that is missing; and of the
    information about its coefficient that this takes away, where the fit can tell.

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted to data with missing values.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    top : int, default None
        How many of the most common patterns to show; None means at most twelve. Of more than sixty inputs, those with
        the most missing values are shown.
    """
    found = any_fit("missing", fit)
    patterns = found.missing_patterns
    if patterns is None or not len(patterns.names):
        raise ValueError("missing: the data of the fit had no missing values.")
    by_column = list(patterns.by_column.values())
    chosen = largest(by_column, style.MOST_NAMES)
    n_patterns = number_shown("missing", top, len(patterns.counts), MOST_PATTERNS)
    shown, counts = patterns.patterns[:n_patterns][:, chosen].T, patterns.counts[:n_patterns]
    names, height, _ = style.rows([patterns.names[k] for k in chosen])
    ax = style.axes(ax, height + 0.5)
    for which, marker, colour, size in ((shown, "s", style.VERMILION, 6.0), (~shown, ".", style.MUTED, 3.0)):
        rows, columns = np.nonzero(which)
        ax.plot(columns, rows, marker, color=colour, markersize=size, label="missing" if marker == "s" else "known")
    lost = missing_shares(found)
    style.beside(ax, -1, "missing; lost" if lost else "missing")
    for row, k in enumerate(chosen):
        share = lost.get(patterns.names[k])
        told = f"{100 * by_column[k] / patterns.total:.0f} %" + ("" if share is None else f"; {100 * share:.0f} %")
        style.beside(ax, row, told)
    ax.set_yticks(range(len(chosen)), names)
    ax.set_xticks(range(n_patterns), [str(count) for count in counts], rotation=90)
    ax.set(xlim=(-0.7, max(n_patterns, 4) - 0.3), ylim=(len(chosen) - 0.4, -0.7))
    left_out = style.left_out(len(chosen), len(patterns.names), "inputs with the most missing values")
    hidden = f"\nthe {n_patterns} most common of {len(patterns.counts)}" * (n_patterns < len(patterns.counts))
    ax.set_xlabel(f"rows with each pattern{hidden}{left_out}")
    ax.tick_params(axis="both", left=False, bottom=False)
    style.described(ax, f"Patterns of missing values of {len(chosen)} inputs, {n_patterns} patterns with their rows.")
    return style.dress(ax, hidden=("top", "right", "left", "bottom"))
