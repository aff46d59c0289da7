"""Figures for a paper: each takes a fit and matplotlib axes (or makes them), and gives the axes back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.arrays import Array
from vbsvm.design.plan import INTERCEPT
from vbsvm.sensitivity import CHANGED

# From orange (negative) over white to purple (positive): told apart by colour-blind readers, and in grey at the ends.
SIGNS = "PuOr"


def sensitivity(table: Any, ax: Any = None, *, terms: list[str] | None = None) -> Any:
    """Tipping points: coefficients against the shift of missing values, in units of their size without shift.

    A circle marks a shift at which a coefficient changes its sign.

    Parameters
    ----------
    table : DataFrame
        What ``sensitivity`` of an estimator or a model gives.
    ax : matplotlib Axes, default None
        Where to draw; None makes a figure.
    terms : list of str, default None
        Coefficients to show; None is all but the intercept.
    """
    if ax is None:
        _, ax = _pyplot().subplots(figsize=(5.0, 3.4), layout="constrained")
    chosen = [name for name in table.columns if name not in (INTERCEPT, CHANGED)] if terms is None else terms
    shift = table.index.to_numpy(dtype=float)
    nearest = int(np.abs(shift).argmin())
    styles = ("-", "--", "-.", ":")
    for k, name in enumerate(chosen):
        values = table[name].to_numpy(dtype=float)
        unit = abs(values[nearest])
        values = values / unit if unit > 0 else values
        (line,) = ax.plot(shift, values, styles[k // 10 % 4], label=name, linewidth=1.5)
        for i in np.flatnonzero(values[1:] * values[:-1] < 0):
            share = values[i] / (values[i] - values[i + 1])
            at = shift[i] + share * (shift[i + 1] - shift[i])
            ax.plot([at], [0.0], "o", color=line.get_color(), markersize=7, fillstyle="none")
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.axvline(0.0, color="0.5", linewidth=0.8, linestyle=":")
    ax.set_xlabel(f"shift of missing {', '.join(table.attrs.get('columns', ['values']))} (standard deviations)")
    ax.set_ylabel("coefficient, relative to no shift")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def densities(comparison: Any, *, terms: list[str] | None = None, n_columns: int = 4) -> Any:
    """Densities of a variational fit and of a sampler's, one panel a parameter, with the accuracy in per cent.

    Parameters
    ----------
    comparison : Comparison
        What ``compare`` gives.
    terms : list of str, default None
        Parameters to show; None is all.
    n_columns : int, default 4
        Panels side by side.

    Returns
    -------
    The figure.
    """
    pairs = [pair for pair in comparison.pairs if terms is None or pair.name in terms]
    if not pairs:
        raise ValueError(f"densities: none of {terms} is a parameter: {[pair.name for pair in comparison.pairs]}.")
    n_columns = min(n_columns, len(pairs))
    n_rows = -(-len(pairs) // n_columns)
    size = (2.4 * n_columns, 1.9 * n_rows + 0.4)
    figure, axes = _pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.ravel()[len(pairs) :]:
        ax.remove()
    for pair, ax in zip(pairs, axes.ravel(), strict=False):
        ax.plot(pair.grid, pair.sampled, color="#e66101", linewidth=1.5, label="Gibbs")
        ax.plot(pair.grid, pair.variational, color="#5e3c99", linewidth=1.5, linestyle="--", label="variational")
        seen = pair.grid[
            (pair.sampled > 1e-3 * pair.sampled.max()) | (pair.variational > 1e-3 * pair.variational.max())
        ]
        ax.set(title=pair.name, yticks=[], xlim=(seen[0], seen[-1]))
        ax.title.set_fontsize(9)
        ax.tick_params(labelsize=7)
        ax.text(0.97, 0.9, f"{pair.accuracy:.0f} %", transform=ax.transAxes, ha="right", fontsize=9)
        ax.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def inclusion(fit: Any, ax: Any = None, *, top: int | None = None) -> Any:
    """Bars of inclusion probabilities, shaded by the probability that the coefficient is positive (paper, Figure 3).

    Parameters
    ----------
    fit : VBSVC or Fit
        Fitted with ``LaplaceZero()``. Of several classes the first model is shown; pass one of ``fit_`` for another.
    ax : matplotlib Axes, default None
        Where to draw; None makes a figure wide enough for the names.
    top : int, default None
        Show the inputs with the largest probabilities only, in that order; None shows all in the order of the columns.
    """
    names, chances, signs = _of(fit)
    shown = np.arange(len(names)) if top is None else np.argsort(-chances, kind="stable")[:top]
    pyplot = _pyplot()
    if ax is None:
        _, ax = pyplot.subplots(figsize=(max(4.0, 0.19 * len(shown) + 1.6), 3.6), layout="constrained")
    colours = pyplot.get_cmap(SIGNS)
    ax.bar(range(len(shown)), chances[shown], width=0.8, color=colours(signs[shown]), edgecolor="0.25", linewidth=0.6)
    ax.axhline(0.5, color="0.5", linewidth=0.8, linestyle=":")
    ax.set(ylim=(0, 1.02), xlim=(-0.7, len(shown) - 0.3), ylabel="inclusion probability")
    ax.set_xticks(range(len(shown)), [names[k] for k in shown], rotation=90, fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)
    scale = pyplot.cm.ScalarMappable(cmap=colours)
    scale.set_clim(0, 1)
    bar = ax.figure.colorbar(scale, ax=ax, ticks=[0, 0.5, 1], pad=0.01, aspect=30)
    bar.set_label("P(coefficient > 0)")
    return ax


def _of(fit: Any) -> tuple[list[str], Array, Array]:
    """Names, inclusion and sign probabilities of a fit or of an estimator's first one."""
    one = fit.fit_[0] if hasattr(fit, "fit_") else fit
    if not one.selects:
        raise ValueError("inclusion: the model has no gates; fit it with LaplaceZero().")
    names: NDArray[Any] = np.array(one.plan.names[: one.plan.n_shown], dtype=object)
    return names.tolist(), one.inclusion_probability, one.sign_probability


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'vbsvm[plots]'.") from error
    return pyplot
