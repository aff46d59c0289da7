"""The section on effects: average probabilities over the values of the main inputs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from vbsvm.base import printing
from vbsvm.plots import averages
from vbsvm.report.blocks import Cell, Section, Table, Text, cell, number
from vbsvm.report.figures import picture
from vbsvm.results.effect_rows import MOST_LEVELS, EffectRows
from vbsvm.results.effects import AverageEffects

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.plots.style import Figure
    from vbsvm.results.fit import Fit

# Inputs that are looked at, and that are shown: those whose probabilities differ most.
MOST_TRIED, MOST_SHOWN = 8, 4
# Over more rows averages take longer than a page should.
MOST_ROWS = 100_000
PANEL = 3.4, 2.9


@final
@dataclass(frozen=True, eq=False)
class Owner:
    """Whose effects are shown: a fit or an estimator, rows where these are given, and which spread."""

    of: AverageEffects
    data: Any = None
    covariance: str | None = None

    @property
    def has_groups(self) -> bool:
        """Whether the model has groups."""
        fits: Any = getattr(self.of, "fit_", (self.of,))
        return bool(fits[0].plan.factors)

    def tables(self) -> "dict[str, pd.DataFrame]":
        """Effects of the main inputs by name; none where the rows are not at hand, or too many."""
        try:
            subject = self.of._effects_subject(self.data, None, self.covariance)
        except (ValueError, TypeError):  # no rows, or rows that can't be averaged over
            return {}
        if len(subject.rows.weights) > MOST_ROWS:
            return {}
        fits: Any = subject.models.fits
        tried = _candidates(fits[0], subject.rows)
        found = {name: self.of.effects(name, data=self.data, covariance=self.covariance) for name in tried}
        spans = {name: float(np.ptp(table["estimate"].to_numpy(dtype=float))) for name, table in found.items()}
        chosen = sorted(found, key=lambda name: -spans[name])[:MOST_SHOWN]
        return {name: found[name] for name in tried if name in chosen}


def _candidates(fit: "Fit", rows: EffectRows) -> list[str]:
    """Inputs that are worth a look: of many, the first in a formula, or those with the largest coefficients."""
    groups = {name for factor in fit.plan.factors for name in factor.columns}
    names = [name for name in rows.names if name not in groups]
    if owners := rows.owners:
        size = np.abs(fit.coef * fit.plan.recipe.spread[: fit.plan.n_shown])
        names = list(dict.fromkeys(owners[k] for k in np.argsort(-size, kind="stable")))
    return [name for name in names[:MOST_TRIED] if _is_shown(rows, name)]


def _is_shown(rows: EffectRows, name: str) -> bool:
    """Whether an input has a few levels, or numbers that differ."""
    levels = rows.levels(name)
    if levels is not None:
        return 1 < len(levels) <= MOST_LEVELS
    return rows.column(name).nunique() > 1


def section(owner: Owner, key: str) -> Section | None:
    """A figure with a panel for each of the main inputs, and the numbers; None where there is nothing to show."""
    tables = owner.tables()
    if not tables:
        return None
    text = Text(
        "Average predicted probabilities: all rows get the value in question and keep their other inputs, and what is "
        "predicted for them is averaged." + (" Rows keep their groups." if owner.has_groups else "")
    )
    names = ", ".join(tables)
    alt = f"Average probabilities over the values of {names}; the table has the numbers."
    caption = f"Average probabilities over the values of {names}, with 95 % intervals."
    figure = picture(f"{key}-effects", alt, caption, lambda figure: _panels(figure, owner, list(tables)))
    body = [row for name, table in tables.items() for row in _rows(name, table)]
    several = next(iter(tables.values())).index.nlevels > 1
    head = ("input", "value", *(("class",) if several else ()), "average", "sd", "lower", "upper")
    note = next(iter(tables.values())).attrs["spreads"]
    return Section("Effects", (text, figure, Table(f"Average probabilities. {note}", head, tuple(body), folded=True)))


def _panels(figure: "Figure", owner: Owner, names: list[str]) -> None:
    n_columns = min(2, len(names))
    n_rows = -(-len(names) // n_columns)
    figure.set_size_inches(PANEL[0] * n_columns, PANEL[1] * n_rows)
    axes: Any = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes, names, strict=False):
        averages.effects(owner.of, name, ax=ax, data=owner.data, covariance=owner.covariance)


def _rows(name: str, table: "pd.DataFrame") -> list[tuple[Cell, ...]]:
    labels = [label if isinstance(label, tuple) else (label,) for label in table.index]
    pairs = zip(labels, table.to_numpy(dtype=float), printing.cells(table), strict=True)
    return [
        (cell(name), *(cell(str(one)) for one in label), *map(number, values, texts)) for label, values, texts in pairs
    ]
