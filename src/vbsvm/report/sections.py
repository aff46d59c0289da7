"""The sections of a report: those that all its models share, and those of one fit."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.diagnostics import MIN_DRAWS
from vbsvm.base.printing import count_noun
from vbsvm.design.columns import INTERCEPT
from vbsvm.design.scaling import Recipe
from vbsvm.missing.imputation import MissingPatterns
from vbsvm.missing.model import MissingModel
from vbsvm.model.gates import GateMap
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.plots import diagnostics, estimates
from vbsvm.plots.resolve_fit import by_inclusion, top_k
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
    return f"{kind}: {fit.classes[1]!s} versus {fit.classes[0]!s}"


def summary_section(fits: Sequence[Fit], figures: Figures, notes: Sequence[Check]) -> Section:
    """Section with the model in a sentence, key figures, and the results of the checks."""
    fit = fits[0]
    longest = max((model.history for model in fits), key=lambda history: history.passes)
    several = f" for each of {len(fits)} classes versus the rest" if len(fits) > 1 else ""
    rows = "" if fit.facts is None else f", fitted to {_row_count(fit.facts)}"
    text = f"{display.kind(fit.spec, fit.plan)}{several} with {_columns(fit)}{rows}, by"
    text += f" {display.inference_in_short(longest)}."
    patterns = fit.missing_patterns
    if patterns is not None and patterns.n_incomplete:
        text += f" {_share(patterns.n_incomplete, patterns.total)} of the observations have missing values."
    blocks: list[Block] = [] if fit.reader is None else [Code(fit.reader.parts.text)]
    return Section("Summary", (Text(text), *blocks, figures, *notes))


def model_section(fits: Sequence[Fit]) -> Section:
    """The model in words."""
    fit, what = fits[0], predictor_name(fits[0])
    if len(fits) > 1:
        about = (
            f"One model for each of the {len(fits)} classes versus the rest. Each has a {what}, a linear function of "
            "the design columns; the class with the largest one is predicted."
        )
    else:
        about = (
            f"The {what} is a linear function of the design columns. Where it is positive, “{fit.classes[1]!s}” is "
            f"predicted, otherwise “{fit.classes[0]!s}”."
        )
    scaling, inference = _scaling(fit.plan.recipe, fit.plan.n_shown), display.inference_description(fit.history)
    texts = [about, f"{_columns(fit)}. {scaling} {inference}"]
    if any(block.name == "inputs" and isinstance(block.prior, HalfT | Ridge) for block in fit.spec.blocks):
        found = ", ".join(printing.format_inline(one.penalty) for one in fits)
        hinge = "" if fit.spec.likelihood.normalised else " (The C of scikit-learn's SVC is 1/(2α).)"
        texts.append(f"The penalty α of the coefficients was inferred: {found}.{hinge}")
    if any(one.likelihood_power != 1.0 for one in fits):
        found = ", ".join(f"{one.likelihood_power:.3g}" for one in fits)
        texts.append(f"Likelihood power: {found}. The pseudo-likelihood is raised to this power.")
    body = cells(*((one.name, one.size, one.prior.written(), one.prior.in_words) for one in fit.spec.blocks))
    caption = "Priors of the coefficients of the scaled columns."
    priors = Table(caption, ("block", "coefficients", "prior", "description"), body)
    return Section("Model", (*map(Text, texts), priors))


def predictor_name(fit: Fit) -> str:
    """Name of what is linear in the columns, by the likelihood."""
    return "linear predictor (log odds)" if fit.spec.likelihood.normalised else "decision value"


def data_section(fits: Sequence[Fit], described: Table | None) -> Section:
    """Observations, classes, weights and grouping factors; and Table 1, if the data are in memory."""
    fit = fits[0]
    if fit.facts is None:
        return Section("Data", (Text("The numbers of observations are not stored in this fit."),))
    blocks: list[Block] = [Text(f"{_row_count(fit.facts)}."), *([] if described is None else [described])]
    blocks.append(_classes(fits))
    if fit.facts.weights is not None:
        blocks.append(Text("Observations are weighted: a weight of k counts as k observations."))
    if fit.plan.factors:
        pairs = zip(fit.plan.factors, fit.facts.group_sizes, strict=True)
        sizes = (
            (factor.name, len(factor.levels), int(n.min()), float(np.median(n)), int(n.max())) for factor, n in pairs
        )
        head = ("grouping factor", "levels", "smallest", "median", "largest")
        blocks.append(Table("Grouping factors: levels, and observations per level.", head, cells(*sizes)))
    return Section("Data", tuple(blocks))


def _classes(fits: Sequence[Fit]) -> Table:
    pairs = []
    for fit in fits:
        if fit.facts is not None:
            both = list(zip(fit.classes, fit.facts.rows, fit.facts.weights or (None, None), strict=True))
            pairs += both if len(fits) == 1 else both[1:]
    n_columns, total = 3 if pairs[0][2] is None else 4, sum(n_rows for _, n_rows, _ in pairs)
    body = cells(*((str(label), n, share(n, total), weight)[:n_columns] for label, n, weight in pairs))
    head = ("class", "observations", "proportion", "sum of weights")[:n_columns]
    return Table("Observations by class.", head, body)


def missing_section(fit: Fit, patterns: MissingPatterns) -> Section:
    """Missing values and their patterns, and the fraction of missing information."""
    lost = {name: f"{100 * part:.0f} %" for name, part in tables.missing_fractions(fit).items()}
    head, columns = ("predictor", "missing", "proportion", "FMI")[: 4 if lost else 3], patterns.by_column.items()
    fmi = " FMI: fraction of missing information about the coefficient." if lost else ""
    body = ((name, count, share(count, patterns.total), lost.get(name, ""))[: len(head)] for name, count in columns)
    is_fixed = isinstance(fit.spec.missing, MissingModel) and fit.spec.missing.fixed
    how = "from a distribution that was estimated first" if is_fixed else "jointly with the coefficients"
    blocks = (
        Text(
            f"{_share(patterns.n_incomplete, patterns.total)} of the observations have at least one missing value; "
            f"there are {count_noun(len(patterns.counts), 'pattern')}. Missing values were imputed {how}; "
            "no observation was dropped."
        ),
        Table(f"Missing values by predictor.{fmi}", head, cells(*body)),
        picture(
            "missing",
            "Patterns of missing values: which predictors are missing together, with the numbers of observations.",
            "Patterns of missing values: squares are missing, dots are observed.",
            lambda ax: diagnostics.missing(fit, ax),
        ),
    )
    return Section("Missing values", blocks)


def _row_count(facts: Facts) -> str:
    weight = "" if facts.weights is None else f" with a total weight of {sum(facts.weights):.6g}"
    return count_noun(facts.n_rows, "observation") + weight + (f"; {facts.left_out}" if facts.left_out else "")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({percent(part, whole)})"


def _columns(fit: Fit) -> str:
    parts = [count_noun(fit.plan.n_shown, "design column")]
    if fit.reader is not None and fit.reader.curves:
        parts.append(count_noun(len(fit.reader.curves), "smooth term"))
    parts += [f"{count_noun(len(factor.levels), 'level')} of {factor.name}" for factor in fit.plan.factors]
    return ", ".join(parts) + ("" if fit.plan.recipe.intercept else ", no intercept")


def _scaling(recipe: Recipe, n_shown: int) -> str:
    if (recipe.scale[:n_shown] == 1.0).all():
        return "Columns were not scaled."
    if recipe.intercept:
        return "Columns were standardised to mean 0 and standard deviation 1."
    return "Columns were scaled to standard deviation 1, but not centred."


LEVEL = 0.95
MAX_IN_FIGURE = 30
# Numbers of coefficients in a table; and of those that are probably excluded.
MAX_COEFFICIENTS, MAX_UNLIKELY = 200, 10


def coefficients(fit: Fit, key: str) -> Section:
    """Forest plot and table of the coefficients; of a logistic model, of odds ratios first."""
    table, n_terms, notes = fit.summary(LEVEL), fit.plan.n_shown, covariance(fit).notes
    unit = np.concatenate([np.full(len(table) - n_terms, np.nan), fit.plan.recipe.spread[:n_terms]])
    scaled = table["estimate"].to_numpy(dtype=float) * unit
    chosen, more = top_k(np.where(np.isnan(scaled), np.inf, np.abs(scaled)), MAX_COEFFICIENTS), ""
    if fit.selects:
        most = max(MAX_UNLIKELY, min(MAX_COEFFICIENTS, int((fit.inclusion_probability > 0.05).sum())))
        first = len(table) - n_terms
        chosen = [*range(first), *(first + by_inclusion(fit)[:most]).tolist()]
    if (n_more := len(table) - len(chosen)) > 0:
        which = "largest inclusion probabilities" if fit.selects else "largest coefficients"
        more = f" Shown are the {len(chosen)} with the {which}; {n_more} are not shown."
    odds = fit.spec.likelihood.normalised
    change = "is the factor by which the odds change" if odds else "is the change of the decision value"
    what, one = ("odds ratios", "An odds ratio") if odds else ("coefficients", "A coefficient")
    text = f"{one} {change} for an increase of one unit of its column; per SD: of one standard deviation, which is"
    blocks: list[Block] = [Text(f"{text} comparable across columns. Modelled class: “{fit.classes[1]!s}”.")]
    if n_terms:
        top = min(max(int((fit.inclusion_probability > 0.5).sum()), 1), MAX_IN_FIGURE)
        shown = "all" if top == n_terms else f"the {top} largest of {n_terms}"
        alt = f"Forest plot of {shown} {what} per SD with {100 * LEVEL:g} % intervals; the table has the numbers."
        caption = f"{what.capitalize()} per SD of the column ({shown}): {notes.interval(LEVEL)}."
        draw = partial(estimates.coefficients, fit, top=top, exponentiate=odds)
        blocks.append(picture(f"{key}-forest", alt, caption, draw))
    if odds:
        blocks.append(_odds_ratios(table, unit, chosen, notes.intervals + "." + more))
        table = table.drop(columns=list(tables.ODDS_RATIOS))
    written = _rows(table.iloc[chosen])
    body = cells(*((str(table.index[k]), *row, float(scaled[k])) for k, row in zip(chosen, written, strict=True)))
    head = ("term", *printing.headings(table), "estimate per SD")
    scale = " (log odds)" if odds else ""
    caption = f"Coefficients{scale}, with {100 * LEVEL:g} % intervals {notes.intervals}.{more}"
    title = "Odds ratios and coefficients" if odds else "Coefficients"
    return Section(title, (*blocks, Table(caption, head, body)))


def _odds_ratios(table: "pd.DataFrame", unit: Array, chosen: list[int], which: str) -> Table:
    """Odds ratios per unit and per SD, with their intervals."""
    logs = table[list(tables.ODDS_RATIOS.values())].to_numpy(dtype=float)
    with np.errstate(over="ignore"):
        ratios = np.exp(np.column_stack([logs, logs * unit[:, None]]))
    ends = [f"{100 * LEVEL:g} % CI, {end}" for end in ("lower", "upper")]
    body = cells(*((str(table.index[k]), *map(float, ratios[k])) for k in chosen))
    head = ("term", "OR per unit", *ends, "OR per SD", *ends)
    return Table(f"Odds ratios (OR), with {100 * LEVEL:g} % intervals {which}", head, body)


def selection(fit: Fit, gates: GateMap, key: str) -> Section:
    """Inclusion probabilities."""
    indicated = fit.inclusion_probability[fit.plan.shown(gates.gate_of) >= 0]
    top, n_in = min(len(indicated), estimates.MAX_INCLUDED), int((indicated > 0.5).sum())
    between = int(((indicated > 0.05) & (indicated < 0.95)).sum())
    text = (
        f"{n_in} of {len(indicated)} predictors have an inclusion probability above ½; "
        f"{between or 'none'} of the probabilities {'is' if between == 1 else 'are'} between 0.05 and 0.95."
    )
    caption = (
        f"Inclusion probabilities{'' if top == len(indicated) else f', the {top} largest'}. Blue circles are positive "
        "coefficients, vermilion squares negative ones; they are filled if the sign has a probability above 97.5 %. "
        "Numbers are coefficients per SD."
    )
    alt = f"Dot plot of the inclusion probabilities of {top} predictors; the table of coefficients has the numbers."
    figure = picture(f"{key}-inclusion", alt, caption, lambda ax: estimates.inclusion(fit, ax, top=top))
    return Section("Variable selection", (Text(text), figure))


def curves(fit: Fit, reader: "Reader", key: str) -> Section:
    """One figure for each spline."""
    blocks: list[Block] = [
        Text(
            f"A curve is the deviation of the {predictor_name(fit)} from its mean over the observations, the linear "
            "part included. Ticks at the bottom are the knots, at quantiles of the data."
        )
    ]
    for k, term in enumerate(str(curve.term) for curve in reader.curves):
        caption, draw = f"{term}: {covariance(fit).notes.band(LEVEL)}.", partial(estimates.spline, fit, term=term)
        blocks.append(picture(f"{key}-curve{k}", f"The smooth term {term} with its band.", caption, draw))
    return Section("Smooth terms", (*blocks, *([] if fit.plan.factors else [_components(fit)])))


def groups(fit: Fit, key: str) -> Section:
    """Variance components, and the random effects of each factor."""
    blocks: list[Block] = [
        Text(
            "Random effects have mean 0 and a standard deviation that is estimated with them: levels with few "
            "observations are shrunk towards 0. Levels, which may be persons, are not named here; random_effects() "
            "lists their effects."
        ),
        _components(fit),
    ]
    for k, factor in enumerate(fit.plan.factors):
        for j, effect in enumerate(factor.effects):
            what = "Random intercepts" if effect == INTERCEPT else f"Random slopes of {effect}"
            caption = f"{what} of the {len(factor.levels)} levels of {factor.name}, in order."
            draw = partial(estimates.random_effects, fit, factor=factor.name, effect=effect, labels=False)
            blocks.append(picture(f"{key}-groups{k}x{j}", f"Caterpillar plot. {caption}", caption, draw))
    return Section("Random effects", tuple(blocks))


def _components(fit: Fit) -> Table:
    """Standard deviations of effects and curves, and correlations."""
    table = tables.printed_components(fit, LEVEL)
    names = [f"{term}" if effect == "all" else f"{term}, {effect}" for term, effect in table.index]
    which = f"with {100 * LEVEL:g} % intervals {tables.component_notes(fit).components}"
    title = "Variance components: standard deviations of random effects and smooth terms, and correlations,"
    body = cells(*((name, *row) for name, row in zip(names, _rows(table), strict=True)))
    return Table(f"{title} {which}.", ("term", *printing.headings(table)), body)


def convergence_section(fit: Fit, key: str) -> Section:
    """Convergence: checks, and the ELBO or the traces."""
    blocks: list[Block] = list(checks.fit_checks(fit))
    bounds, drawn = fit.history.bounds, fit.history.traces
    if len(bounds) > 2:
        caption = (
            f"ELBO gap: the distance of the evidence lower bound from its final value, "
            f"{printing.format_inline(fit.elbo, 7)}, at each iteration. It should fall steadily."
        )
        alt = f"The ELBO gap falls over {len(bounds)} iterations."
        blocks.append(picture(f"{key}-bound", alt, caption, lambda ax: diagnostics.bound(fit, ax)))
    if drawn is not None and drawn.n_draws >= MIN_DRAWS and fit.plan.n_shown:
        caption = "Trace plots of the parameters that mix worst. Chains that have converged overlap and have no trend."
        alt = "Trace plots of the chains."
        blocks.append(picture(f"{key}-trace", alt, caption, lambda ax: diagnostics.traces(fit, axes=ax, top=3)))
    return Section("Convergence", tuple(blocks))


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
