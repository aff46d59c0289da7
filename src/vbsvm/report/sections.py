"""The sections of a report: those that all its models share, and those of one fit."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vbsvm.base import printing
from vbsvm.base.diagnostics import MIN_DRAWS
from vbsvm.base.printing import count_noun
from vbsvm.design.columns import INTERCEPT, FactorPlan
from vbsvm.design.scaling import Recipe
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.missing.model import MissingModel
from vbsvm.model.gates import GateMap
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.plots import diagnostics, estimates
from vbsvm.plots.resolve_fit import top_k
from vbsvm.report import checks
from vbsvm.report.document import (
    Block,
    Cell,
    Check,
    Code,
    Figures,
    Section,
    Table,
    Text,
    cells,
    number,
    percent,
    picture,
    share,
)
from vbsvm.results import display, tables
from vbsvm.results.covariance import covariance
from vbsvm.results.fit import Fit
from vbsvm.results.history import Facts

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader


def title_of(fits: Sequence[Fit]) -> str:
    """What the report is about, where the user does not say it."""
    fit, kind = fits[0], display.kind(fits[0].spec, fits[0].plan)
    if fit.reader is not None:
        return f"{kind} for {fit.reader.parts.outcome}"
    if len(fits) > 1:
        return f"{kind} for {len(fits)} classes"
    return f"{kind}: {fit.classes[1]!s} against {fit.classes[0]!s}"


def summary_section(fits: Sequence[Fit], figures: Figures, notes: Sequence[Check]) -> Section:
    """What the model is, how well it predicts, and what the checks found."""
    fit = fits[0]
    longest = max((model.history for model in fits), key=lambda history: history.passes)
    kind = display.kind(fit.spec, fit.plan).lower()
    several = f" for each of {len(fits)} classes against the rest" if len(fits) > 1 else ""
    rows = "" if fit.facts is None else f", fitted to {_row_count(fit.facts)}"
    text = f"A {kind}{several} with {_columns(fit)}{rows}, by {display.inference_in_short(longest)}."
    patterns = fit.missing_patterns
    if patterns is not None and patterns.n_incomplete:
        text += f" {_share(patterns.n_incomplete, patterns.total)} of the rows have missing values."
    blocks: list[Block] = [] if fit.reader is None else [Code(fit.reader.parts.text)]
    return Section("In short", (Text(text), *blocks, figures, *notes))


def model_section(fits: Sequence[Fit]) -> Section:
    """The model in words."""
    fit = fits[0]
    if len(fits) > 1:
        about = (
            f"The {len(fits)} classes are each set against the rest: every row has a score for each class, linear in "
            "the columns, and the largest is the predicted class."
        )
    else:
        about = (
            "Every row has a score, linear in the columns, and its sign is the predicted class. Positive scores mean "
            f"{fit.classes[1]!s}, negative ones {fit.classes[0]!s}."
        )
    scaling, inference = _scaling(fit.plan.recipe, fit.plan.n_shown), display.inference_description(fit.history)
    texts = [about, f"{_columns(fit)}. {scaling} {inference}"]
    if any(block.name == "inputs" and isinstance(block.prior, HalfT | Ridge) for block in fit.spec.blocks):
        found = ", ".join(printing.format_inline(one.penalty) for one in fits)
        texts.append(f"The penalty α of the inputs was inferred: {found}. (The C of scikit-learn's SVC is 1/(2α).)")
    if any(one.likelihood_power != 1.0 for one in fits):
        found = ", ".join(f"{one.likelihood_power:.3g}" for one in fits)
        texts.append(f"Likelihood power: {found}. The pseudo-likelihood of the hinge loss is raised to it.")
    body = cells(*((one.name, one.size, one.prior.written(), one.prior.in_words) for one in fit.spec.blocks))
    caption = "Priors, for the columns as they are scaled in the fit."
    priors = Table(caption, ("block", "coefficients", "prior", "in words"), body)
    return Section("The model", (*map(Text, texts), priors))


def data_section(fits: Sequence[Fit]) -> Section:
    """Rows, classes, weights; what was missing; groups."""
    fit = fits[0]
    if fit.facts is None:
        return Section("The data", (Text("The fit has no record of its rows."),))
    blocks: list[Block] = [Text(f"{_row_count(fit.facts)}."), _classes(fits)]
    if fit.facts.weights is not None:
        blocks.append(Text("Rows are weighted: a weight of k counts as k rows."))
    if fit.plan.factors:
        pairs = zip(fit.plan.factors, fit.facts.group_sizes, strict=True)
        sizes = (
            (factor.name, len(factor.levels), int(n.min()), float(np.median(n)), int(n.max())) for factor, n in pairs
        )
        head = ("factor", "groups", "fewest rows", "median", "most rows")
        blocks.append(Table("Groups, and rows of a group.", head, cells(*sizes)))
    return Section("The data", tuple(blocks))


def _classes(fits: Sequence[Fit]) -> Table:
    pairs = []
    for fit in fits:
        if fit.facts is not None:
            both = list(zip(fit.classes, fit.facts.rows, fit.facts.weights or (None, None), strict=True))
            pairs += both if len(fits) == 1 else both[1:]
    n_columns, total = 3 if pairs[0][2] is None else 4, sum(n_rows for _, n_rows, _ in pairs)
    body = cells(*((str(label), n, share(n, total), weight)[:n_columns] for label, n, weight in pairs))
    return Table("Rows by class.", ("class", "rows", "share", "sum of weights")[:n_columns], body)


def missing_section(fit: Fit, patterns: MissingPatterns) -> Section:
    """How much is missing, where, and what that costs."""
    lost = {name: f"{100 * part:.0f} %" for name, part in tables.missing_fractions(fit).items()}
    head, columns = ("column", "missing", "share", "information lost")[: 4 if lost else 3], patterns.by_column.items()
    body = ((name, count, share(count, patterns.total), lost.get(name, ""))[: len(head)] for name, count in columns)
    is_fixed = isinstance(fit.spec.missing, MissingModel) and fit.spec.missing.fixed
    how = "by a distribution that was learned first" if is_fixed else "together with the coefficients"
    blocks = (
        Text(
            f"{_share(patterns.n_incomplete, patterns.total)} of the rows have at least one missing value, in "
            f"{count_noun(len(patterns.counts), 'pattern')}. Missing values were inferred {how}; "
            "no row was dropped."
        ),
        Table("Missing values by column.", head, cells(*body)),
        picture(
            "missing",
            "Which inputs are missing together, one row for each pattern.",
            "Patterns of missing values: squares are missing, dots are known.",
            lambda ax: diagnostics.missing(fit, ax),
        ),
    )
    return Section("Missing values", blocks)


def _row_count(facts: Facts) -> str:
    weight = "" if facts.weights is None else f", of weight {sum(facts.weights):.6g}"
    return f"{facts.n_rows} rows{weight}" + (f"; {facts.left_out}" if facts.left_out else "")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({percent(part, whole)})"


def _columns(fit: Fit) -> str:
    parts = [count_noun(fit.plan.n_shown, "column")]
    if fit.reader is not None and fit.reader.curves:
        parts.append(count_noun(len(fit.reader.curves), "curve"))
    parts += [f"{len(factor.levels)} groups of {factor.name}" for factor in fit.plan.factors]
    return ", ".join(parts) + ("" if fit.plan.recipe.intercept else ", no intercept")


def _scaling(recipe: Recipe, n_shown: int) -> str:
    if (recipe.scale[:n_shown] == 1.0).all():
        return "Columns were not scaled."
    if recipe.intercept:
        return "Columns were scaled to mean 0 and standard deviation 1 in the fit."
    return "Columns were scaled to standard deviation 1 in the fit, but not centred."


LEVEL = 0.95
MAX_IN_FIGURE = 30
MAX_IN_TABLE = 2000


def coefficients(fit: Fit, key: str) -> Section:
    """Forest plot and table."""
    table, n_terms, notes = fit.summary(LEVEL), fit.plan.n_shown, covariance(fit).notes
    unit = np.concatenate([np.full(len(table) - n_terms, np.nan), fit.plan.recipe.spread[:n_terms]])
    scaled = table["estimate"].to_numpy(dtype=float) * unit
    chosen = top_k(np.where(np.isnan(scaled), np.inf, np.abs(scaled)), MAX_IN_TABLE)
    written = _rows(table.iloc[chosen])
    body = cells(*((str(table.index[k]), *row, float(scaled[k])) for k, row in zip(chosen, written, strict=True)))
    head = ("term", *printing.headings(table), "estimate per sd")
    blocks: list[Block] = [
        Text(
            f"A coefficient is the change of the score for one unit of its column; “estimate per sd” is for one "
            f"standard deviation and comparable across columns. Positive coefficients mean {fit.classes[1]!s}."
        )
    ]
    if n_terms:
        top = min(max(int((fit.inclusion_probability > 0.5).sum()), 1), MAX_IN_FIGURE)
        shown = "all" if top == n_terms else f"the {top} largest of {n_terms}"
        alt = (
            f"Forest plot of {shown} coefficients for one standard deviation of each column; the table has the numbers."
        )
        caption = f"Coefficients for one standard deviation of their columns ({shown}): {notes.interval(LEVEL)}."
        blocks.append(picture(f"{key}-forest", alt, caption, lambda ax: estimates.coefficients(fit, ax, top=top)))
    caption = f"Coefficients, {100 * LEVEL:g} % intervals {notes.intervals}."
    caption += f" The {len(chosen)} largest of {len(table)}." if len(chosen) < len(table) else ""
    return Section("Coefficients", (*blocks, Table(caption, head, body)))


def selection(fit: Fit, gates: GateMap, key: str) -> Section:
    """Inclusion probabilities."""
    gated = fit.inclusion_probability[fit.plan.shown(gates.gate_of) >= 0]
    top, n_in = min(len(gated), estimates.MAX_INCLUDED), int((gated > 0.5).sum())
    between = int(((gated > 0.05) & (gated < 0.95)).sum())
    text = (
        f"{n_in} of {len(gated)} inputs are more likely in than out (inclusion probability above ½); "
        f"{between or 'none'} of the probabilities {'lies' if between == 1 else 'lie'} between 0.05 and 0.95."
    )
    caption = (
        f"Inclusion probabilities{'' if top == len(gated) else f', the {top} largest'}. Blue circles are positive, "
        "vermilion squares negative, and filled where the sign is nearly certain; numbers are coefficients for one "
        "standard deviation."
    )
    alt = f"Dots of the inclusion probabilities of {top} inputs; the table of coefficients has the numbers."
    figure = picture(f"{key}-inclusion", alt, caption, lambda ax: estimates.inclusion(fit, ax, top=top))
    return Section("Selection", (Text(text), figure))


def curves(fit: Fit, reader: "Reader", key: str) -> Section:
    """One figure for each spline."""
    blocks: list[Block] = [
        Text(
            "A curve is the change of the score from its mean over the rows, including the linear part. Ticks at the "
            "bottom are the knots, placed at quantiles of the data."
        )
    ]
    for k, term in enumerate(str(curve.term) for curve in reader.curves):
        caption, draw = f"{term}: {covariance(fit).notes.band(LEVEL)}.", partial(estimates.spline, fit, term=term)
        blocks.append(picture(f"{key}-curve{k}", f"The curve {term} with its band.", caption, draw))
    return Section("Curves", (*blocks, *([] if fit.plan.factors else [_components(fit)])))


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
            what = "Intercepts" if effect == INTERCEPT else f"Slopes of {effect}"
            caption = f"{what} of the {len(factor.levels)} groups of {factor.name}, in order."
            draw = partial(estimates.random_effects, fit, factor=factor.name, effect=effect)
            blocks.append(picture(f"{key}-groups{k}x{j}", f"Caterpillar plot. {caption}", caption, draw))
        blocks.append(_effects_table(fit, factor))
    return Section("Groups", tuple(blocks))


def _components(fit: Fit) -> Table:
    """Standard deviations of effects and curves, and correlations."""
    table = tables.printed_components(fit, LEVEL)
    names = [f"{term}" if effect == "all" else f"{term}, {effect}" for term, effect in table.index]
    which = f"with {100 * LEVEL:g} % intervals {tables.component_notes(fit).components}"
    return _table(f"Standard deviations of effects, and correlations, {which}.", "effects", names, table)


def _effects_table(fit: Fit, factor: FactorPlan) -> Table:
    table = tables.random_effects(fit, factor.name)
    shown = table.iloc[top_k(np.abs(table["estimate"].to_numpy(dtype=float)), MAX_IN_TABLE)]
    more = "" if len(shown) == len(table) else f", the {len(shown)} largest of {len(table)}"
    names = [estimates.group_name(label) for label in shown.index]
    return _table(f"Effects of each group of {factor.name}{more}", factor.name, names, shown, folded=True)


def _table(caption: str, what: str, names: list[str], table: "pd.DataFrame", *, folded: bool = False) -> Table:
    """A table with these names of its rows, written as it is printed elsewhere."""
    body = cells(*((name, *row) for name, row in zip(names, _rows(table), strict=True)))
    return Table(caption, (what, *printing.headings(table)), body, folded)


def convergence_section(fit: Fit, key: str) -> Section:
    """Convergence: checks, and the ELBO or the traces."""
    blocks: list[Block] = list(checks.fit_checks(fit))
    bounds, drawn = fit.history.bounds, fit.history.traces
    if len(bounds) > 2:
        caption = (
            f"The bound on the log evidence at each accepted step, as its distance from the end at "
            f"{printing.format_inline(fit.elbo, 7)}. It should rise steadily to the end."
        )
        alt = f"The bound rises over {len(bounds)} accepted steps."
        blocks.append(picture(f"{key}-bound", alt, caption, lambda ax: diagnostics.bound(fit, ax)))
    if drawn is not None and drawn.n_draws >= MIN_DRAWS and fit.plan.n_shown:
        caption = "Draws of the parameters that mix worst, by chain. Well-mixed chains overlap and show no trend."
        alt = "Traces of the chains."
        blocks.append(picture(f"{key}-trace", alt, caption, lambda ax: diagnostics.traces(fit, axes=ax, top=3)))
    return Section("How the fit ended", tuple(blocks))


def fit_sections(fit: Fit, key: str) -> Iterator[Section]:
    """Sections about the results of one two-class model."""
    yield coefficients(fit, key)
    if fit.spec.gate_map is not None:
        yield selection(fit, fit.spec.gate_map, key)
    if fit.reader is not None and fit.reader.curves:
        yield curves(fit, fit.reader, key)
    if fit.plan.factors:
        yield groups(fit, key)


def _rows(table: "pd.DataFrame") -> Iterator[tuple[Cell, ...]]:
    """The rows of a table of coefficients or effects, written as they are printed elsewhere."""
    pairs = zip(table.itertuples(index=False), printing.cells(table), strict=True)
    for values, texts in pairs:
        yield tuple(
            Cell(value) if isinstance(value, str) else number(value, text)
            for value, text in zip(values, texts, strict=True)
        )
