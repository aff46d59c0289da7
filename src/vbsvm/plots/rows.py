"""Figures of rows: how scores separate the classes, and whether probabilities hold."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import require_count
from vbsvm.plots import calibration_curve, style
from vbsvm.plots.resolve_fit import Predicted, predicted

if TYPE_CHECKING:
    from vbsvm.plots.style import Axes, Canvas

SPIKES = 50
SPIKE_HEIGHT = 0.12
MOST_BARS = 40
FEWEST = 20
# Scores beyond so many times the upper quartile of their size are counted in the outermost bars.
REACH = 4.0


def calibration(
    fit: Any, X: Any = None, y: Any = None, ax: "Canvas" = None, *, class_: Any = None, n_bins: int = 10
) -> "Axes":
    """Observed share of the positive class against its predicted probability: a smooth curve with its 95 % band.

    Points are bins of equal width, joined until each has twenty rows. Spikes show the distribution of the rows (their
    height is the square root of a count): the positive class at the top, the other at the bottom.

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit that predicts.
    X, y : table and labels, default None
        Rows whose class is known. For the fit of a ``Model``, X is a data frame with the outcome, and y is not needed.
        None means the rows of the fit, each as a fit without it would predict it.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    n_bins : int, default 10
        Number of bins before they are joined.
    """
    require_count("calibration", n_bins=n_bins)
    return draw_calibration(predicted("calibration", fit, X, y, class_), ax, n_bins)


def draw_calibration(found: Predicted, ax: "Canvas", n_bins: int = 10) -> "Axes":
    """The figure of ``calibration``, of rows that are predicted already."""
    ax = style.axes(ax, 3.6, 3.6)
    chances, positive, weights = found.chances, found.positive, found.weights
    places = _bins(chances, weights, n_bins)
    total = np.bincount(places, weights)
    mean, share = (np.bincount(places, weights * one) / total for one in (chances, positive))
    smooth = calibration_curve.curve(chances, positive, weights)
    ax.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8, linestyle="--", label="as predicted")
    ax.fill_between(smooth.predicted, smooth.lower, smooth.upper, color=style.SKY, alpha=0.35, linewidth=0)
    ax.plot(smooth.predicted, smooth.observed, color=style.BLUE, linewidth=1.4, label="observed, 95 % band")
    ax.plot(mean, share, "o", color=style.BLUE, markersize=3.5, label="observed in bins")
    _spikes(ax, chances[positive], weights[positive], style.VERMILION, top=True)
    _spikes(ax, chances[~positive], weights[~positive], style.GREEN, top=False)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
    ax.set_aspect("equal")
    how = "\nleft-out rows" if found.left_out else ""
    ax.set_xlabel(style.plain(f"predicted probability of {found.classes[1]}") + how)
    ax.set_ylabel(style.plain(f"observed share of {found.classes[1]}"))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.88), handlelength=1.6)
    style.described(ax, f"Observed share of {found.classes[1]} against its predicted probability, with a 95 % band.")
    return style.dress(ax)


def _bins(chances: Array, weights: Array, n_bins: int) -> NDArray[np.intp]:
    """Number of each row's bin; neighbours are joined, from the left, until each has rows enough."""
    places = np.minimum((chances * n_bins).astype(np.intp), n_bins - 1)
    counts, number, held, joined = np.bincount(places, weights, minlength=n_bins), 0, 0.0, []
    for k, count in enumerate(counts):
        joined.append(number)
        held += float(count)
        if held >= FEWEST and counts[k + 1 :].sum() >= FEWEST:
            number, held = number + 1, 0.0
    return np.array(joined)[places]


def _spikes(ax: "Axes", chances: Array, weights: Array, colour: str, *, top: bool) -> None:
    """Counts of rows along the lower or the upper edge, the highest of them at a fixed height."""
    counts, edges = np.histogram(chances, bins=SPIKES, range=(0, 1), weights=weights)
    heights = SPIKE_HEIGHT * np.sqrt(counts / counts.max())
    middle = 0.5 * (edges[1:] + edges[:-1])
    begin, end = (1.02 - heights, np.full(SPIKES, 1.02)) if top else (np.full(SPIKES, -0.02), heights - 0.02)
    seen = counts > 0
    ax.vlines(middle[seen], begin[seen], end[seen], color=colour, linewidth=1.6)


def predictive(fit: Any, X: Any = None, y: Any = None, ax: "Canvas" = None, *, class_: Any = None) -> "Axes":
    """Scores of rows by class; the prediction changes at 0, and correct scores beyond the margins at ±1 have no loss.

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit that predicts.
    X, y : table and labels, default None
        Rows whose class is known. For the fit of a ``Model``, X is a data frame with the outcome, and y is not needed.
        None means the rows of the fit, each as a fit without it would predict it.
    ax : matplotlib Axes or empty Figure, default None
        Where to draw; None creates a figure.
    class_ : label, default None
        The class to set against the rest, if the estimator has more than two.
    """
    return draw_predictive(predicted("predictive", fit, X, y, class_), ax)


def draw_predictive(found: Predicted, ax: "Canvas") -> "Axes":
    """The figure of ``predictive``, of rows that are predicted already."""
    ax = style.axes(ax, 2.8)
    reach = max(REACH * float(np.quantile(np.abs(found.scores), 0.75)), 1.25)
    low, high = max(float(found.scores.min()), -reach), min(float(found.scores.max()), reach)
    n_bars = int(np.clip(2.5 * np.cbrt(len(found.scores)), 10, MOST_BARS))
    edges = np.linspace(min(low, -1.25), max(high, 1.25), n_bars + 1)
    inside = np.clip(found.scores, edges[0], edges[-1])
    looks = ((False, style.GREEN, "--", "\\\\\\\\"), (True, style.VERMILION, "-", ""))
    for truth, colour, line, hatch in looks:
        chosen = found.positive == truth
        weights = found.weights[chosen]
        counts = np.histogram(inside[chosen], bins=edges, weights=weights)[0] / weights.sum()
        label = style.wrapped([f"{found.classes[int(truth)]} ({chosen.sum()} rows)"], style.LINE)[0][0]
        ax.stairs(counts, edges, color=colour, linewidth=1.4, linestyle=line, label=label)
        ax.stairs(counts, edges, fill=True, color=colour, alpha=0.25, linewidth=0)
        if hatch:
            ax.stairs(counts, edges, fill=True, facecolor="none", edgecolor=colour, hatch=hatch, linewidth=0, alpha=0.6)
    ax.axvline(0.0, color=style.INK, linewidth=0.8)
    for margin in (-1.0, 1.0) if found.margins else ():
        ax.axvline(margin, color=style.MUTED, linewidth=0.8, linestyle=":")
    beyond = int((inside != found.scores).sum())
    more = ["margins at ±1 dotted"] * found.margins + [f"{beyond} rows beyond the ends"] * (beyond > 0)
    ax.set_ylim(0, None)
    how = " of left-out rows" if found.left_out else ""
    label = style.wrapped([f"score{how} (positive: {found.classes[1]})"], style.LINE)[0][0]
    ax.set_xlabel("\n".join([label, *(["; ".join(more)] if more else [])]))
    ax.set_ylabel("share of the class")
    n_columns = 2 if sum(map(len, found.classes)) < style.NAME else 1
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=n_columns, handlelength=1.2, columnspacing=1.0)
    style.described(ax, f"Distributions of the scores of {found.classes[0]} and {found.classes[1]}.")
    return style.dress(ax)
