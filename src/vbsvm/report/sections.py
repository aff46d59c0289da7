"""The sections of a report of one fit: what each says, and whether it has something to say."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vbsvm.base import diagnostics, printing
from vbsvm.design.columns import INTERCEPT, FactorPlan
from vbsvm.model.gates import GateMap
from vbsvm.plots import checks, estimates, mixing
from vbsvm.plots import groups as groups_figure
from vbsvm.plots.resolve_fit import largest
from vbsvm.report import verdicts
from vbsvm.report.blocks import Block, Cell, Picture, Section, Table, Text, cell, number
from vbsvm.report.figures import picture
from vbsvm.results import tables
from vbsvm.results.covariance import covariance
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader

LEVEL = 0.95
MOST_IN_FIGURE = 30
MOST_IN_TABLE = 2000
# Columns of the tables of a fit that have another name in the report.
HEADS = {
    "coefficient": "mean",
    "p_positive": "P(> 0)",
    "missing_information": "information lost",
    "rhat": "R̂",
    "ess_bulk": "ESS, bulk",
    "ess_tail": "ESS, tail",
    "gate_rhat": "R̂, gate",
    "gate_ess": "ESS, gate",
}


def coefficients(fit: Fit, key: str) -> Section:
    """Forest plot and table."""
    table = fit.summary(LEVEL)
    n_terms = fit.plan.n_shown
    unit = np.concatenate([np.full(len(table) - n_terms, np.nan), fit.plan.recipe.spread[:n_terms]])
    scaled = table["coefficient"].to_numpy(dtype=float) * unit
    chosen = largest(np.where(np.isnan(scaled), np.inf, np.abs(scaled)), MOST_IN_TABLE)
    written = _rows(table.iloc[chosen])
    body = [(cell(str(table.index[k])), *row, cell(float(scaled[k]))) for k, row in zip(chosen, written, strict=True)]
    head = ("term", *_heads(table), "mean per sd")
    which = f"{100 * LEVEL:g} % intervals {covariance(fit).notes.intervals}"
    blocks: list[Block] = [
        Text(
            f"A coefficient is the change of the score for one unit of its column; “mean per sd” is for one standard "
            f"deviation and comparable across columns. Positive coefficients mean {fit.classes[1]!s}."
        )
    ]
    if n_terms:
        n_in = max(int((fit.inclusion_probability > 0.5).sum()), 1)
        top = min(n_in, MOST_IN_FIGURE)
        shown = "all" if top == n_terms else f"the {top} largest of {n_terms}"
        alt = (
            f"Forest plot of {shown} coefficients for one standard deviation of each column; the table has the numbers."
        )
        interval = covariance(fit).notes.interval(LEVEL)
        caption = f"Coefficients for one standard deviation of their columns ({shown}): {interval}."
        blocks.append(picture(f"{key}-forest", alt, caption, lambda ax: estimates.coefficients(fit, ax, top=top)))
    caption = f"Coefficients, {which}." + (
        f" The {len(chosen)} largest of {len(table)}." if len(chosen) < len(table) else ""
    )
    return Section("Coefficients", (*blocks, Table(caption, head, tuple(body))))


def selection(fit: Fit, gates: GateMap, key: str) -> Section:
    """Which inputs are in."""
    chances = fit.inclusion_probability
    gated = fit.plan.shown(gates.gate_of) >= 0
    top = min(int(gated.sum()), estimates.MOST_INCLUDED)
    n_in = int((chances[gated] > 0.5).sum())
    between = int(((chances[gated] > 0.05) & (chances[gated] < 0.95)).sum())
    text = (
        f"{n_in} of {int(gated.sum())} inputs are more likely in than out (inclusion probability above ½); "
        f"{between or 'none'} of the probabilities {'lies' if between == 1 else 'lie'} between 0.05 and 0.95."
    )
    caption = (
        f"Inclusion probabilities{'' if top == gated.sum() else f', the {top} largest'}. Blue circles are positive, "
        "vermilion squares negative, and filled where the sign is nearly certain; numbers are coefficients for one "
        "standard deviation."
    )
    alt = f"Dots of the inclusion probabilities of {top} inputs; the table of coefficients has the numbers."
    return Section(
        "Selection",
        (Text(text), picture(f"{key}-inclusion", alt, caption, lambda ax: estimates.inclusion(fit, ax, top=top))),
    )


def curves(fit: Fit, reader: "Reader", key: str) -> Section:
    """One figure for each spline."""
    blocks: list[Block] = [
        Text(
            "A curve is the change of the score from its mean over the rows, including the linear part. Ticks at the "
            "bottom are the knots, placed at quantiles of the data."
        )
    ]
    for k, curve in enumerate(reader.curves):
        term = str(curve.term)
        caption = f"{term}: {covariance(fit).notes.band(LEVEL)}."
        blocks.append(_curve(f"{key}-curve{k}", fit, term, caption))
    if not fit.plan.factors:
        blocks.append(_components(fit))
    return Section("Curves", tuple(blocks))


def _curve(key: str, fit: Fit, term: str, caption: str) -> Picture:
    return picture(key, f"The curve {term} with its band.", caption, lambda ax: estimates.spline(fit, ax, term=term))


def groups(fit: Fit, key: str) -> Section:
    """Variance components, and the effects of each factor's groups."""
    blocks: list[Block] = [
        Text(
            "Group effects have mean 0 and a spread that is inferred with them: groups with few rows are shrunk "
            "towards 0."
        ),
        _components(fit),
    ]
    for k, factor in enumerate(fit.plan.factors):
        for j, effect in enumerate(factor.effects):
            blocks.append(_caterpillar(f"{key}-groups{k}x{j}", fit, factor, effect))
        blocks.append(_effects_table(fit, factor))
    return Section("Groups", tuple(blocks))


def _components(fit: Fit) -> Table:
    """Standard deviations of effects and curves, and correlations."""
    table = tables.printed_components(fit, LEVEL)
    body = tuple(
        (cell(f"{term}" if effect == "all" else f"{term}, {effect}"), *row)
        for (term, effect), row in zip(table.index, _rows(table), strict=True)
    )
    head = ("effects", *_heads(table.rename(columns={"sd": "median sd"})))
    which = tables.component_notes(fit).components
    return Table(
        f"Standard deviations of effects, and correlations, with {100 * LEVEL:g} % intervals {which}.", head, body
    )


def _caterpillar(key: str, fit: Fit, factor: FactorPlan, effect: str) -> Picture:
    what = "Intercepts" if effect == INTERCEPT else f"Slopes of {effect}"
    caption = f"{what} of the {len(factor.levels)} groups of {factor.name}, in order."
    return picture(
        key,
        f"Caterpillar plot. {caption}",
        caption,
        lambda ax: groups_figure.random_effects(fit, ax, factor=factor.name, effect=effect),
    )


def _effects_table(fit: Fit, factor: FactorPlan) -> Table:
    table = tables.random_effects(fit, factor.name)
    mean = table["mean"].to_numpy(dtype=float)
    chosen = largest(np.abs(mean), MOST_IN_TABLE)
    shown = table.iloc[chosen]
    body = tuple(
        (cell(groups_figure.group_name(label)), *row) for label, row in zip(shown.index, _rows(shown), strict=True)
    )
    more = "" if len(chosen) == len(table) else f", the {len(chosen)} largest of {len(table)}"
    head = (factor.name, *_heads(table))
    return Table(f"Effects of each group of {factor.name}{more}", head, body, folded=True)


def ending(fit: Fit, key: str) -> Section:
    """How the fit was reached: verdicts, and the climb or the chains."""
    blocks: list[Block] = list(verdicts.of(fit))
    bounds, drawn = fit.history.bounds, fit.history.traces
    if len(bounds) > 2:
        caption = (
            f"The bound on the log evidence at each accepted step, as its distance from the end at "
            f"{printing.told(fit.elbo, 7)}. It should rise steadily to the end."
        )
        alt = f"The bound rises over {len(bounds)} accepted steps."
        blocks.append(picture(f"{key}-bound", alt, caption, lambda ax: checks.bound(fit, ax)))
    if drawn is not None and drawn.n_draws >= diagnostics.FEWEST and fit.plan.n_shown:
        caption = "Draws of the parameters that mix worst, by chain. Well-mixed chains overlap and show no trend."
        blocks.append(
            picture(f"{key}-trace", "Traces of the chains.", caption, lambda ax: mixing.traces(fit, axes=ax, top=3))
        )
    return Section("How the fit ended", tuple(blocks))


def of_fit(fit: Fit, key: str) -> Iterator[Section]:
    """What was found of one two-class model."""
    yield coefficients(fit, key)
    if fit.spec.gate_map is not None:
        yield selection(fit, fit.spec.gate_map, key)
    if fit.reader is not None and fit.reader.curves:
        yield curves(fit, fit.reader, key)
    if fit.plan.factors:
        yield groups(fit, key)


def _heads(table: "pd.DataFrame") -> Iterator[str]:
    return (HEADS.get(name, name) for name in map(str, table.columns))


def _rows(table: "pd.DataFrame") -> Iterator[tuple[Cell, ...]]:
    """The rows of a table of coefficients or effects, written as they are printed elsewhere."""
    pairs = zip(table.itertuples(index=False), printing.cells(table), strict=True)
    return (tuple(map(_written, values, texts)) for values, texts in pairs)


def _written(value: str | float, text: str) -> Cell:
    return cell(value) if isinstance(value, str) else number(value, text)
