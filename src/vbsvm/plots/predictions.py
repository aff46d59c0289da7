"""Figures of predictions: how scores separate the classes, whether probabilities are calibrated, and their averages.

The curve of calibration is smooth, with a band, beside the slope of the log odds. Both start from the predicted log
odds x: the log odds of the class are x + a + b (x − x₀), so that a = b = 0 is a prediction that is right. The curve has
its own a and b near each x₀; the slope has one for all rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.base.settings import check_count
from vbsvm.plots import style
from vbsvm.plots.resolve_fit import predicted
from vbsvm.results.effects.marginal import AverageEffects
from vbsvm.results.effects.rows import grid, names_of

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Axes, Canvas

SPIKES = 50
SPIKE_HEIGHT = 0.12
MAX_BARS = 40
MIN_BIN_WEIGHT = 20
# Scores beyond this multiple of the upper quartile of their absolute values are in the outermost bars.
MAX_QUARTILES = 4.0


def calibration(
    fit: Any, X: Any = None, y: Any = None, ax: "Canvas" = None, *, class_: Any = None, n_bins: int = 10
) -> "Axes":
    """Observed proportion of the modelled class against its predicted probability: a smooth curve with its 95 % band.

    The curve is drawn only where there are observations. Points are bins of equal width, joined until each has twenty
    observations. Spikes show the distribution of the rows (their
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
    check_count("calibration", n_bins=n_bins)
    rows, ax = predicted("calibration", fit, X, y, class_), style.axes(ax, 3.6, 3.6)
    probabilities, positive, weights = rows.probabilities, rows.positive, rows.weights
    bins = _bins(probabilities, weights, n_bins)
    total = np.bincount(bins, weights)
    mean, share = (np.bincount(bins, weights * values) / total for values in (probabilities, positive))
    smooth = calibration_curve(probabilities, positive, weights)
    ax.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8, linestyle="--", label="as predicted")
    ax.fill_between(smooth.predicted, smooth.lower, smooth.upper, color=style.SKY, alpha=0.35, linewidth=0)
    ax.plot(smooth.predicted, smooth.observed, color=style.BLUE, linewidth=1.4, label="observed, 95 % band")
    ax.plot(mean, share, "o", color=style.BLUE, markersize=3.5, label="observed in bins")
    _spikes(ax, probabilities[positive], weights[positive], style.VERMILION, top=True)
    _spikes(ax, probabilities[~positive], weights[~positive], style.GREEN, top=False)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
    ax.set_aspect("equal")
    source = "\n(leave-one-out)" if rows.left_out else ""
    ax.set_xlabel(style.escape(f"predicted probability of {rows.classes[1]}") + source)
    ax.set_ylabel(style.escape(f"observed proportion of {rows.classes[1]}"))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.88), handlelength=1.6)
    alt = f"Observed proportion of {rows.classes[1]} against its predicted probability, with a 95 % band."
    return style.finish(ax, alt)


def _bins(probabilities: Array, weights: Array, n_bins: int) -> NDArray[np.intp]:
    """Bin of each row; adjacent bins are merged until each has weight ``MIN_BIN_WEIGHT``."""
    bins = np.minimum((probabilities * n_bins).astype(np.intp), n_bins - 1)
    counts, joined, weight = np.bincount(bins, weights, minlength=n_bins), np.zeros(n_bins, dtype=np.intp), 0.0
    for k in range(n_bins - 1):
        weight += float(counts[k])
        full = weight >= MIN_BIN_WEIGHT and counts[k + 1 :].sum() >= MIN_BIN_WEIGHT
        joined[k + 1], weight = joined[k] + full, 0.0 if full else weight
    return joined[bins]


def _spikes(ax: "Axes", probabilities: Array, weights: Array, colour: str, *, top: bool) -> None:
    """Counts of rows along the lower or the upper edge, the highest of them at a fixed height."""
    counts, edges = np.histogram(probabilities, bins=SPIKES, range=(0, 1), weights=weights)
    middle, filled = 0.5 * (edges[1:] + edges[:-1]), counts > 0
    heights = SPIKE_HEIGHT * np.sqrt(counts[filled] / counts.max())
    begin, end = (1.02 - heights, 1.02) if top else (-0.02, heights - 0.02)
    ax.vlines(middle[filled], begin, end, color=colour, linewidth=1.6)


def scores(fit: Any, X: Any = None, y: Any = None, ax: "Canvas" = None, *, class_: Any = None) -> "Axes":
    """Decision values (or linear predictors) by class; an SVM has no loss for correct ones outside the margins at ±1.

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
    rows, ax = predicted("scores", fit, X, y, class_), style.axes(ax, 2.8)
    reach = max(MAX_QUARTILES * float(np.quantile(np.abs(rows.scores), 0.75)), 1.25)
    low, high = max(float(rows.scores.min()), -reach), min(float(rows.scores.max()), reach)
    n_bars = int(np.clip(2.5 * np.cbrt(len(rows.scores)), 10, MAX_BARS))
    edges = np.linspace(min(low, -1.25), max(high, 1.25), n_bars + 1)
    inside = np.clip(rows.scores, edges[0], edges[-1])
    looks = ((False, style.GREEN, "--", "\\\\\\\\"), (True, style.VERMILION, "-", ""))
    for truth, colour, line, hatch in looks:
        chosen = rows.positive == truth
        weights = rows.weights[chosen]
        counts = np.histogram(inside[chosen], bins=edges, weights=weights)[0] / weights.sum()
        label = style.wrapped([f"{rows.classes[int(truth)]} (n = {chosen.sum()})"], style.LINE)[0][0]
        ax.stairs(counts, edges, color=colour, linewidth=1.4, linestyle=line, label=label)
        ax.stairs(counts, edges, fill=True, color=colour, alpha=0.25, linewidth=0)
        if hatch:
            ax.stairs(counts, edges, fill=True, facecolor="none", edgecolor=colour, hatch=hatch, linewidth=0, alpha=0.6)
    ax.axvline(0.0, color=style.INK, linewidth=0.8)
    for margin in (-1.0, 1.0) if rows.margins else ():
        ax.axvline(margin, color=style.MUTED, linewidth=0.8, linestyle=":")
    beyond = int((inside != rows.scores).sum())
    more = ["margins at ±1 dotted"] * rows.margins + [f"{beyond} observations beyond the ends"] * (beyond > 0)
    ax.set_ylim(0, None)
    what = ("decision value" if rows.margins else "linear predictor") + ", leave-one-out" * rows.left_out
    label = style.wrapped([f"{what} (positive: {rows.classes[1]})"], style.LINE)[0][0]
    ax.set_xlabel("\n".join([label, *(["; ".join(more)] if more else [])]))
    ax.set_ylabel("proportion of the class")
    n_columns = 2 if sum(map(len, rows.classes)) < style.NAME else 1
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=n_columns, handlelength=1.2, columnspacing=1.0)
    return style.finish(ax, f"Distributions by class, {rows.classes[0]} and {rows.classes[1]}: {what}.")


# Log odds are clipped to ± this.
MAX_LOG_ODDS = 12.0
# Number of bins of the log odds.
BINS = 512
POINTS = 81
# Proportion of the rows beyond the curve at either end.
TRIMMED_SHARE = 0.005
# The curve is drawn where an observation has a predicted probability as near as this.
MAX_GAP = 0.1
# Smallest bandwidth of the kernel, in log odds.
MIN_BANDWIDTH = 0.4
# A weak prior of a and b, of standard deviation 2, keeps them finite where rows are few.
PRECISION = 0.25
Z_95 = 1.959964
MAX_STEPS = 30


@final
@dataclass(frozen=True, slots=True, eq=False)
class CalibrationCurve:
    """Predicted probabilities, the observed shares at them, and a 95 % band."""

    predicted: Array
    observed: Array
    lower: Array
    upper: Array


@final
@dataclass(frozen=True, slots=True)
class Slope:
    """Calibration slope with its 95 % interval; 1 is ideal."""

    value: float
    lower: float
    upper: float


def calibration_curve(probabilities: Array, positive: NDArray[np.bool_], weights: Array) -> CalibrationCurve:
    """Local logistic regression on the log odds, with a Gaussian kernel."""
    x, total, hits = _binned(probabilities, positive, weights)
    ends = np.interp([TRIMMED_SHARE, 1.0 - TRIMMED_SHARE], (np.cumsum(total) - 0.5 * total) / total.sum(), x)
    points = np.linspace(ends[0], ends[1], POINTS) if ends[1] > ends[0] else ends[:1]
    centre = float(total @ x) / total.sum()
    sd = np.sqrt(float(total @ np.square(x - centre)) / total.sum())
    width = max(1.3 * sd * total.sum() ** -0.2, MIN_BANDWIDTH)
    distances = x - points[:, None]
    kernel = np.exp(-0.5 * np.square(distances / width))
    shift, se = _fit_offsets(x, distances, kernel, total, hits)
    curve = expit(points + shift + Z_95 * np.array([[0.0], [-1.0], [1.0]]) * se)
    curve[:, (np.abs(expit(x) - expit(points)[:, None]) > MAX_GAP).all(axis=1)] = np.nan
    return CalibrationCurve(expit(points), *curve)


def calibration_slope(
    probabilities: Array, positive: NDArray[np.bool_], weights: Array, groups: NDArray[np.intp] | None = None
) -> Slope:
    """Slope of a logistic recalibration model; with groups, its interval is cluster-robust."""
    x = _log_odds(probabilities)
    Z = np.column_stack([np.ones(len(x)), x])
    prior, (shift, change) = PRECISION * np.eye(2), _newton(x, x[None], np.ones(1), weights, weights * positive)
    slope = 1.0 + float(change[0])
    p = expit(shift[0] + slope * x)
    H = (Z.T * (weights * p * (1.0 - p))) @ Z + prior
    J = (Z.T * (weights * np.square(positive - p))) @ Z
    if groups is not None:
        scores = Z * (weights * (positive - p))[:, None]
        sums = np.stack([np.bincount(groups, column) for column in scores.T], axis=1)
        J = sums.T @ sums
    half = Z_95 * float(np.sqrt(np.linalg.solve(H, np.linalg.solve(H, J + prior).T)[1, 1]))
    return Slope(slope, slope - half, slope + half)


def _log_odds(probabilities: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.clip(logit(probabilities), -MAX_LOG_ODDS, MAX_LOG_ODDS)


def _binned(probabilities: Array, positive: NDArray[np.bool_], weights: Array) -> tuple[Array, Array, Array]:
    """Log odds in bins, in order: their means, the rows in each, and those of the class."""
    x = _log_odds(probabilities)
    span = float(np.ptp(x)) or 1.0
    bins = np.minimum(((x - x.min()) / span * BINS).astype(np.intp), BINS - 1)
    sums = np.stack([np.bincount(bins, s, minlength=BINS) for s in (weights * x, weights, weights * positive)])
    x_sum, total, hits = sums.astype(np.float64)[:, sums[1] > 0]
    return x_sum / total, total, hits


def _fit_offsets(x: Array, z: Array, kernel: Array, total: Array, hits: Array) -> tuple[Array, Array]:
    """The shift a of the log odds at each point, and its standard error."""
    a, b = _newton(x, z, kernel, total, hits)
    information = total * (p := expit(x + a[:, None] + b[:, None] * z)) * (1.0 - p)
    H, J = _moments(kernel * information, z), _moments(np.square(kernel) * information, z)
    row_a, row_b = _solve(H, np.ones(len(a)), np.zeros(len(a)))  # the first row of H⁻¹
    return a, np.sqrt(J[0] * row_a * row_a + 2.0 * J[1] * row_a * row_b + J[2] * row_b * row_b)


def _newton(x: Array, z: Array, kernel: Array, total: Array, hits: Array) -> tuple[Array, Array]:
    """Shifts a and b of the log odds x + a + b z at each point, by Newton steps."""
    a, b = np.zeros(len(z)), np.zeros(len(z))
    for _ in range(MAX_STEPS):
        p = expit(x + a[:, None] + b[:, None] * z)
        gradient = kernel * (hits - total * p)
        H = _moments(kernel * total * p * (1.0 - p), z)
        step_a, step_b = _solve(H, gradient.sum(axis=1) - PRECISION * a, (gradient * z).sum(axis=1) - PRECISION * b)
        a, b = a + np.clip(step_a, -2.0, 2.0), b + np.clip(step_b, -2.0, 2.0)
    return a, b


def _moments(weights: Array, z: Array) -> tuple[Array, Array, Array]:
    """Sums of 1, z and z², with the prior."""
    first, second = (weights * z).sum(axis=1), (weights * np.square(z)).sum(axis=1)
    return weights.sum(axis=1) + PRECISION, first, second + PRECISION


def _solve(H: tuple[Array, Array, Array], rhs_a: Array, rhs_b: Array) -> tuple[Array, Array]:
    determinant = H[0] * H[2] - np.square(H[1])
    return (H[2] * rhs_a - H[1] * rhs_b) / determinant, (H[0] * rhs_b - H[1] * rhs_a) / determinant


# More lines than this can't be told apart.
MAX_LINES = 12


def effects(
    fit: Any,
    variable: str | list[str],
    by: str | list[str] | dict[str, Any] | None = None,
    ax: "Canvas" = None,
    *,
    class_: Any = None,
    at: Any = None,
    data: Any = None,
    weights: Any = None,
    groups: str = "known",
    level: float = 0.95,
    covariance: str | None = None,
) -> "Axes":
    """Average predicted probabilities over the values of a predictor, with their intervals.

    A number has a line with a band from its 5 to its 95 % quantile, a category points with bars.

    Parameters
    ----------
    fit : VBSVC or Fit
        The fit.
    variable : str or list of str
        The predictor. Of two, as in an interaction, both are set in all observations: the first is the x-axis, and the
        values of the second have a line each.
    by : str, list of str, or dict of lists, default None
        Columns that stratify the observations, or predictors with the values that they are set to: a line for each.
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
    names = names_of("effects", variable, "variable")
    if not 1 <= len(names) <= 2 or (by is not None and len(names) == 2):
        raise ValueError(f"effects: name one predictor, or two without by=…; got {variable!r}.")
    x, at = names[0], at if isinstance(at, dict) else {names[0]: at}
    values = grid("effects", subject.rows, x, at.get(x), fine=True)
    chosen: dict[str, Any] = {"data": data, "weights": weights, "groups": groups, "covariance": covariance}
    _, table = fit._effects_table(names, by, at={**at, x: values}, level=level, **chosen)
    by = names[1:] or by
    if "caution" in table.attrs:
        warn_user(table.attrs["caution"], ReliabilityWarning)
    positive = subject.classes[1] if len(subject.models.fits) == 1 else class_
    lines = _lines(table, class_, several=len(subject.models.fits) > 1, parted=by is not None)
    number = subject.rows.levels(x) is None
    ax = _draw(style.axes(ax, 2.8), lines, values, number=number)
    shown = f"{100 * level:g} % {'band' if number else 'interval'}"
    ax.set_xlabel(f"{style.wrapped([x], style.LINE)[0][0]}\n{shown}{subject.models.intervals[0].notes.aside}")
    label = "average probability" + ("" if positive is None else f" of {positive!s}")
    ax.set_ylabel(style.wrapped([label], 32)[0][0])
    if len(lines) > 1:
        title = "class" if by is None else ", ".join([by] if isinstance(by, str) else by)
        n_columns = max(1, style.LINE // (6 + max(map(len, lines))))
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": n_columns}
        ax.legend(title=style.escape(title), title_fontsize=style.SMALL, alignment="left", borderpad=0.0, **above)
    return style.finish(ax, f"Average predicted probability by {' and '.join(names)}, with {shown}s.")


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
