"""Draw the charts of the benchmarks from ``benchmark-data/*.csv``: ``python docs/charts.py``.

A chart names the digest of each of its data files in its metadata, so that a test can tell whether it is up to date.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from vbsvm.plots import style

HERE = Path(__file__).parent
DATA, IMAGES = HERE / "benchmark-data", HERE / "images" / "benchmarks"
# The palette of the package's figures; sky blue would be too dark where pages invert lightness.
PURPLE = "#aa4499"
COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.INK, PURPLE, style.MUTED)
MARKERS = "os^Dv*"
POINTS = "balanced error rate\n(percentage points"
HEADER = "# "  # begins the name of a row that is a heading
LONG = 25  # characters of a label that needs a line of the legend
FEW_DECADES = 300
Series = tuple[str, Sequence[float], Sequence[float] | None, Sequence[float] | None]


def read(name: str) -> pd.DataFrame:
    """A data file, indexed by the labels that its rows have in a chart, or else by their names in the tables."""
    data = pd.read_csv(DATA / f"{name}.csv")
    return data.set_index("label" if "label" in data else data.columns[0])


def times(ratios: Iterable[float]) -> list[str]:
    """Ratios as they are written next to a row."""
    return [f"{ratio:g} ×" for ratio in ratios]


def dots(
    names: Iterable[str],
    series: Sequence[Series],
    xlabel: str,
    *,
    log: bool = False,
    reference: float | None = None,
    values: Sequence[str] = (),
) -> Axes:
    """A row for each name, with a point of each series, and an interval where there are ends."""
    names = list(names)
    labels, height, _ = style.row_labels([name.removeprefix(HEADER) for name in names])
    one_column = max(len(label) for label, *_ in series) > LONG
    n_lines = 0 if len(series) == 1 else len(series) if one_column else (len(series) + 1) // 2
    ax = style.axes(None, height + 0.16 * n_lines)
    rows = np.arange(len(names))
    offsets = np.linspace(-0.17, 0.17, len(series)) if len(series) > 1 else (0.0,)
    for k, (label, centres, lower, upper) in enumerate(series):
        if lower is not None and upper is not None:
            ax.hlines(rows + offsets[k], lower, upper, color=COLOURS[k], linewidth=1.6)
        settings: dict[str, Any] = {"markersize": 4.5, "markeredgewidth": 0, "linestyle": ""}
        ax.plot(centres, rows + offsets[k], marker=MARKERS[k], color=COLOURS[k], label=label, **settings)
    if reference is not None:
        ax.axvline(reference, color=style.MUTED, linewidth=0.8, linestyle="--", zorder=0)
    for row, value in enumerate(values):
        style.annotate_row(ax, row, value)
    ax.set_yticks(rows, labels)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel(xlabel, loc="right")
    if log:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 5, 10)))
    if n_lines:
        layout: dict[str, Any] = {"handletextpad": 0.2, "columnspacing": 1.2, "borderpad": 0.1, "labelspacing": 0.2}
        texts = {"frameon": False, "fontsize": style.SMALL, "labelcolor": style.INK}
        ax.figure.legend(loc="outside upper left", ncols=1 if one_column else 2, **layout, **texts)
    style.finish(ax, hidden=style.NO_Y_AXIS)
    ax.tick_params(axis="y", length=0)
    for row, name in enumerate(names):
        if name.startswith(HEADER):
            ax.get_yticklabels()[row].set_weight("bold")
        else:
            ax.axhline(row, color=style.FAINT, linewidth=0.5, zorder=-1)
    return ax


def differences(names: Iterable[str], data: pd.DataFrame, xlabel: str, digits: int) -> Axes:
    """Differences with 95 % intervals of plus and minus two standard errors, unless the data have intervals."""
    centre = data["difference"]
    lower = data["lower"] if "lower" in data else centre - 2 * data["std_error"]
    upper = data["upper"] if "upper" in data else centre + 2 * data["std_error"]
    values = ["" if np.isnan(value) else f"{value:+.{digits}f}".replace("-", "−") for value in centre]
    return dots(names, [("", centre, lower, upper)], xlabel, reference=0.0, values=values)


def points(data: pd.DataFrame, columns: Mapping[str, str]) -> list[Series]:
    """A series of points for each column, under another name."""
    return [(name, data[column], None, None) for column, name in columns.items()]


def with_headers(data: pd.DataFrame, headers: Mapping[int, str]) -> tuple[list[str], pd.DataFrame]:
    """Names and data with an empty row before some positions, which is a heading."""
    names, order = [], []
    for k, name in enumerate(data.index):
        names += [HEADER + headers[k], name] if k in headers else [name]
        order += [-1, k] if k in headers else [k]
    return names, data.reset_index(drop=True).reindex(order)


def accuracy() -> None:
    """Differences of error rates to tuned baselines."""
    names, data = with_headers(read("accuracy"), {0: "Mean of all designs", 4: "Best baseline, n × d"})
    differences(names, data, f"VBSVC − baseline, {POINTS}; below 0: VBSVC is better)", 2)


def iterations() -> None:
    """Iterations of coordinate ascent and of the default solver."""
    data = read("iterations")
    columns = {"vbsvc": "VBSVC", "cavi": "coordinate ascent (CAVI)"}
    xlabel = "iterations to the same ELBO (log scale)"
    ax = dots(data.index, points(data, columns), xlabel, log=True, values=times(data["ratio"]))
    ax.set_ylabel("n × d", fontsize=style.TEXT)


def tuned() -> None:
    """Time of tuned baselines."""
    ranges(read("tuned"), "time / time of one VBSVC fit (log scale)")


def ranges(data: pd.DataFrame, xlabel: str) -> None:
    """Ranges of ratios over several runs."""
    values = [f"{lower:g}–{upper:g} ×" for lower, upper in zip(data["lower"], data["upper"], strict=True)]
    series = [("", np.sqrt(data["lower"] * data["upper"]), data["lower"], data["upper"])]
    dots(data.index, series, xlabel, log=True, values=values, reference=1.0)


def untuned() -> None:
    """Time of a fit with its penalty, compared with one fit without."""
    data = read("untuned").join(read("untuned-logistic")["ratio"])
    columns = {
        "linear_svc": "VBSVC / LinearSVC",
        "logistic_regression": "VBSVC / LogisticRegression",
        "ratio": "VBLogistic / LogisticRegression",
    }
    xlabel = "ratio of elapsed times (log scale; below 1: vbsvm is faster)"
    ax = dots(data.index, points(data, columns), xlabel, log=True, reference=1.0)
    ax.set_ylabel("n × d (× classes)", fontsize=style.TEXT)


def mixed_accuracy() -> None:
    """Error rates for visits of known patients and for new patients."""
    data = read("mixed-accuracy")
    columns = {"visits": "visits held out", "patients": "patients held out"}
    ax = dots(data.index, points(data, columns), "balanced error rate (.5: random guessing)", reference=0.5)
    ax.set_xlim(0, 0.55)


def mixed_speed() -> None:
    """Time of other packages for the toenail model."""
    ranges(read("mixed-speed"), "ratio of elapsed times\n(log scale; above 1: vbsvm is faster)")


def selection() -> None:
    """Precision, recall and F1 in both designs."""
    parts = [read("selection-200"), read("selection-2000")]
    names, data = with_headers(pd.concat(parts), {0: "20 of 200 predictors", len(parts[0]): "10 of 2000 predictors"})
    values = ["" if np.isnan(value) else f"{value:.3f}" for value in data["f1"]]
    columns = {"f1": "F1 (value at the right)", "precision": "precision", "recall": "recall"}
    ax = dots(names, points(data, columns), "mean over 50 data sets", values=values)
    ax.set_xlim(-0.02, 1.02)


def missing() -> None:
    """Error rates by the proportion of missing values and by mechanism."""
    data = read("missing").drop(index=["VBSVC, labels=none", "logistic, complete cases"])
    _, all_axes = style.panels(1, 3, (style.WIDTH, 2.9))
    for ax, mechanism in zip(all_axes[0], ("mcar", "mar", "mnar"), strict=True):
        for k, (name, line) in enumerate(data[[f"{mechanism}_{percent}" for percent in (10, 30, 50)]].iterrows()):
            settings: dict[str, Any] = {"linewidth": 2.0 if name == "VBSVC" else 1.1, "markeredgewidth": 0}
            ax.plot([10, 30, 50], line, marker=MARKERS[k], markersize=4, color=COLOURS[k], **settings)
        ax.set(title=mechanism.upper(), xticks=[10, 30, 50], xlim=(5, 55), ylim=(0.25, 0.355), xlabel="missing (%)")
        style.finish(ax)
        ax.tick_params(axis="y", labelleft=mechanism == "mcar")
    all_axes[0, 0].set_ylabel("balanced error rate", fontsize=style.TEXT)
    ends = data["mnar_50"].sort_values()
    for name, place in zip(ends.index, apart(ends.tolist(), 0.0105), strict=True):
        settings = {"fontsize": style.SMALL, "color": style.INK, "annotation_clip": False, "linespacing": 0.95}
        text = name.replace(", ", ",\n")
        all_axes[0, 2].annotate(text, (50, place), (7, 0), textcoords="offset points", va="center", **settings)


def apart(places: list[float], gap: float) -> list[float]:
    """Increasing places moved apart until neighbours have this distance."""
    for _ in range(100):
        for k, (a, b) in enumerate(pairwise(places)):
            push = max(0.0, gap - (b - a)) / 2
            places[k], places[k + 1] = a - push, b + push
    return places


def missing_cardiac() -> None:
    """Differences of error rates on the cardiac data."""
    data = read("missing-cardiac")
    differences(data.index, data, "VBSVC − method, balanced error rate ± 2 s.e.\n(below 0: VBSVC is better)", 4)


def sampling() -> None:
    """Differences of error rates between variational Bayes and Gibbs sampling."""
    data = read("sampling")
    differences(data.index, data, "variational − Gibbs, balanced error rate ± 2 s.e.", 4)


def posterior_sd() -> None:
    """Posterior standard deviations over those of Gibbs sampling."""
    data = read("posterior-sd")
    kinds = {"mean_field": "mean-field", "exact": "mean-field, exact bound", "posterior": "linear response"}
    ends = [(name, data[f"{key}_min"], data[f"{key}_max"]) for key, name in kinds.items()]
    series = [(name, (lower + upper) / 2, lower, upper) for name, lower, upper in ends]
    dots(data.index, series, "posterior sd / that of Gibbs sampling", reference=1.0).set_xlim(0, 1.1)


def coverage() -> None:
    """Coverage of nominal 95 % intervals."""
    data = read("coverage").set_index("kind", append=True)["coverage"].unstack("kind", sort=False)
    columns = {"mean-field": "mean-field", "posterior": "linear response"}
    columns |= {"robust": "robust (default)", "Gibbs": "Gibbs sampling"}
    ax = dots(data.index, points(data, columns), "coverage of nominal 95 % intervals (%)", reference=95.0)
    ax.set_xlim(30, 100)


def standard_errors() -> None:
    """CPU time of standard errors."""
    data = read("standard-errors")
    values = [f"{value:.2f}" for value in data["fits"]]
    dots(data.index, points(data, {"fits": ""}), "CPU time / that of the fit", values=values, reference=1.0).set_xlim(0)


def validity() -> None:
    """Coverage of what is reported, before and now."""
    data = read("validity")
    columns = {"before": "earlier version", "now": "this version"}
    ax = dots(data.index, points(data, columns), "coverage of nominal 95 % intervals (%)", reference=95.0)
    ax.set_xlim(-3, 103)


def bounds() -> None:
    """Differences of error rates between the bounds."""
    data = read("bounds")
    differences(data.index, data, f"exact − augmented bound, {POINTS}; ± 2 s.e.)", 2)


def sparse() -> None:
    """CPU time of a fit to sparse and to dense storage."""
    data = read("sparse")
    columns = {"sparse": "sparse", "dense": "dense"}
    dots(data.index, points(data, columns), "CPU time of a fit (s, log scale)", log=True, values=times(data["ratio"]))


def files() -> None:
    """Time of fits to files."""
    data = read("files")
    values = [f"{value:g} s" for value in data["seconds"]]
    dots(data.index, points(data, {"seconds": ""}), "elapsed time (s, log scale)", log=True, values=values)


# Each chart, and the data files that it shows.
CHARTS: dict[Callable[[], None], tuple[str, ...]] = {
    accuracy: ("accuracy",),
    iterations: ("iterations",),
    tuned: ("tuned",),
    untuned: ("untuned", "untuned-logistic"),
    mixed_accuracy: ("mixed-accuracy",),
    mixed_speed: ("mixed-speed",),
    selection: ("selection-200", "selection-2000"),
    missing: ("missing",),
    missing_cardiac: ("missing-cardiac",),
    sampling: ("sampling",),
    posterior_sd: ("posterior-sd",),
    coverage: ("coverage",),
    standard_errors: ("standard-errors",),
    validity: ("validity",),
    bounds: ("bounds",),
    sparse: ("sparse",),
    files: ("files",),
}


def digest(name: str) -> str:
    """Digest of a data file, as it is written into a chart."""
    return f"{name}.csv {hashlib.sha256((DATA / f'{name}.csv').read_text(encoding='utf-8').encode()).hexdigest()[:16]}"


def main() -> None:
    """Draw each chart as SVG, the same bytes each time."""
    IMAGES.mkdir(exist_ok=True)
    for draw, names in CHARTS.items():
        draw()
        metadata = {**dict.fromkeys(("Date", "Creator", "Format", "Type")), "Source": ", ".join(map(digest, names))}
        with mpl.rc_context({"svg.hashsalt": "vbsvm"}):
            plt.gcf().savefig(IMAGES / f"{draw.__name__.replace('_', '-')}.svg", metadata=metadata)
        plt.close("all")


if __name__ == "__main__":
    main()
