"""The section on effects: average probabilities over the values of the main inputs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from vbsvm.base import printing
from vbsvm.base.printing import ReliabilityWarning, mute_warnings
from vbsvm.plots import predictions
from vbsvm.report.document import Cell, Check, Picture, Section, Table, Text, cells, number, picture
from vbsvm.results.effects.marginal import AverageEffects, Subject
from vbsvm.results.effects.rows import MOST_LEVELS, EffectRows

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

# Numbers of inputs tried, and shown: those with the largest range of probabilities.
MAX_TRIED, MAX_SHOWN = 8, 4
# Over more rows averages take longer than a page should.
MAX_ROWS = 100_000


@final
@dataclass(frozen=True, eq=False)
class Owner:
    """Fit or estimator whose marginal effects are shown, with optional data and type of standard error."""

    of: AverageEffects
    data: Any = None
    covariance: str | None = None

    @property
    def grouping(self) -> set[str]:
        """Columns whose values are groups."""
        fits: Any = getattr(self.of, "fit_", (self.of,))
        return {name for factor in fits[0].plan.factors for name in factor.columns}

    def subject(self) -> Subject | None:
        """The models and their rows, or None if these are not in memory or too many."""
        try:
            subject = self.of._effects_subject(self.data, None, self.covariance)
        except (ValueError, TypeError):  # no rows, or rows that can't be averaged over
            return None
        return subject if len(subject.rows.weights) <= MAX_ROWS else None

    def tables(self) -> "dict[str, pd.DataFrame]":
        """Effects of the main inputs by name; none where there are no rows."""
        subject = self.subject()
        if subject is None:
            return {}
        fits: Any = subject.models.fits
        candidates = self._candidates(fits[0], subject.rows)
        chosen: dict[str, Any] = {"data": self.data, "covariance": self.covariance}
        effects = {name: self.of._effects_table(name, None, **chosen)[1] for name in candidates}
        spans = {name: float(np.ptp(table["estimate"].to_numpy(dtype=float))) for name, table in effects.items()}
        shown = sorted(effects, key=lambda name: -spans[name])[:MAX_SHOWN]
        return {name: effects[name] for name in candidates if name in shown}

    def _candidates(self, fit: "Fit", rows: EffectRows) -> list[str]:
        """Inputs to try: the first of a formula, or those with the largest standardised coefficients."""
        names = [name for name in rows.names if name not in self.grouping]
        if owners := rows.owners:
            size = np.abs(fit.coef * fit.plan.recipe.spread[: fit.plan.n_shown])
            names = list(dict.fromkeys(owners[k] for k in np.argsort(-size, kind="stable")))
        return [name for name in names[:MAX_TRIED] if _is_shown(rows, name)]


def _is_shown(rows: EffectRows, name: str) -> bool:
    """Whether an input has a few levels, or numbers that differ."""
    levels = rows.levels(name)
    if levels is not None:
        return 1 < len(levels) <= MOST_LEVELS
    return rows.column(name).nunique() > 1


def section(owner: Owner, key: str) -> Section | None:
    """Section with a figure and table of marginal effects of the main inputs, or None."""
    tables = owner.tables()
    if not tables:
        return None
    text = Text(
        "Average predicted probabilities: all rows get the value in question and keep their other inputs, and "
        "what is predicted for them is averaged." + (" Rows keep their groups." if owner.grouping else "")
    )
    cautions = [Check(False, frame.attrs["caution"]) for frame in tables.values() if "caution" in frame.attrs]
    with mute_warnings(ReliabilityWarning):  # the page says it
        figures = [_panel(owner, name, f"{key}-effect{k}") for k, name in enumerate(tables)]
    body = [row for name, table in tables.items() for row in _rows(name, table)]
    first = next(iter(tables.values()))
    head = ("input", "value", *(("class",) if first.index.nlevels > 1 else ()), "average", *first.columns[1:])
    note = first.attrs["spreads"].removesuffix(first.attrs.get("caution", " "))
    table = Table(f"Average probabilities. {note}", head, tuple(body), folded=True)
    return Section("Effects", (text, *cautions, *figures, table))


def _panel(owner: Owner, name: str, key: str) -> Picture:
    settings: dict[str, Any] = {"data": owner.data, "covariance": owner.covariance}
    return picture(
        key,
        f"Average probability over the values of {name}, with 95 % intervals; the table has the numbers.",
        f"Average probabilities over the values of {name}, with 95 % intervals.",
        lambda figure: predictions.effects(owner.of, name, ax=figure, **settings),
    )


def _rows(name: str, table: "pd.DataFrame") -> tuple[tuple[Cell, ...], ...]:
    labels = [label if isinstance(label, tuple) else (label,) for label in table.index]
    pairs = zip(labels, table.to_numpy(dtype=float), printing.cells(table), strict=True)
    return cells(*((name, *map(str, label), *map(number, values, texts)) for label, values, texts in pairs))
