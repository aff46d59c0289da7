"""The paper's figures: boxes of balanced errors (Figures 1, 2 and 4) and shaded bars of inclusion (Figure 3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from reproduction import data
from reproduction.claims import ALL_CELLS
from reproduction.data import Array
from reproduction.findings import Findings
from reproduction.work import MCMC, PAPERS_METHODS, VB, Result
from vbsvm.plots import style

if TYPE_CHECKING:
    from vbsvm.plots.style import Figure

NAMES = {"simulation": "figure1", "toenail": "figure2", "spam": "figure3", "cardiac": "figure4"}
Drawing = Callable[["Figure"], None]


def drawing(experiment: str, findings: Findings) -> tuple[Drawing, str] | None:
    """What draws an experiment's figure into an empty one, and what it shows in words; None without results."""
    if experiment == "spam":
        found = {method: findings.selection(method) for method in (VB, MCMC)}
        known = {method: result for method, result in found.items() if result is not None}
        if len(known) < len(found):
            return None
        told = (
            "Inclusion probabilities of 57 predictors by VB and by MCMC, shaded by the probability of a positive sign "
            "given that they are in."
        )
        return lambda figure: _bars(figure, known), told
    cells = ALL_CELLS if experiment == "simulation" else ("",)
    errors = {cell: findings.errors(experiment, cell, PAPERS_METHODS) for cell in cells}
    if any(not len(found[VB]) for found in errors.values()):
        return None
    medians = "; ".join(
        f"{cell + ': ' if cell else ''}"
        + ", ".join(f"{method} {np.median(values):.3f}" for method, values in found.items())
        for cell, found in errors.items()
    )
    return lambda figure: _boxes(figure, errors), f"Boxplots of balanced error rates. Medians: {medians}."


def _boxes(figure: "Figure", errors: dict[str, dict[str, Array]]) -> None:
    side = 3 if len(errors) > 1 else 1
    figure.set_size_inches((7.2, 6.4) if side == 3 else (4.0, 2.9))
    axes = figure.subplots(side, side, sharey="row" if side == 3 else False, squeeze=False)
    for (cell, found), ax in zip(errors.items(), axes.ravel(), strict=True):
        quiet = {"color": style.MUTED, "linewidth": 0.9}
        boxes = ax.boxplot(
            list(found.values()),
            tick_labels=list(found),
            widths=0.55,
            patch_artist=True,
            boxprops={"facecolor": "none", "linewidth": 1.1},
            medianprops={"linewidth": 1.6},
            whiskerprops=quiet,
            capprops=quiet,
            flierprops={"marker": "o", "markersize": 2.2, "markerfacecolor": style.MUTED, "markeredgecolor": "none"},
        )
        for k, (box, median) in enumerate(zip(boxes["boxes"], boxes["medians"], strict=True)):
            colour, _ = style.line_style(k)
            box.set(edgecolor=colour)
            median.set(color=colour)
        if cell:
            n, d = cell.split("x")
            ax.set_title(f"n = {n}, d = {d}")
        style.finish(ax)
        ax.grid(axis="y", color=style.FAINT, linewidth=0.5)
        ax.set_axisbelow(True)
    for ax in axes[:, 0]:
        ax.set_ylabel("balanced error rate", fontsize=style.TEXT, color=style.INK)


def _bars(figure: "Figure", found: dict[str, Result]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    names, _, _ = data.spam()
    labels = [style.escape(name) for name in names]
    figure.set_size_inches(6.8, 9.2)
    left, right = figure.subplots(1, 2, sharey=True)
    scale, rows = ScalarMappable(Normalize(0, 1), "Greys"), np.arange(len(names))
    for ax, (method, result) in zip((left, right), found.items(), strict=True):
        colours = scale.to_rgba(np.array(result.positive))
        ax.barh(rows, result.inclusion, color=colours, edgecolor=style.INK, linewidth=0.5, height=0.75)
        ax.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6), xlabel="inclusion probability", title=method)
        ax.set_yticks(rows, labels)
        style.finish(ax)
        ax.tick_params(axis="y", labelsize=7)
    bar = figure.colorbar(scale, ax=(left, right), ticks=[0, 0.5, 1], shrink=0.4, pad=0.02, aspect=30)
    bar.set_label("P(coefficient > 0 | in)", fontsize=style.SMALL, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL, colors=style.INK)
