"""The sections that all models of a report share: at a glance, the model, the data."""

from collections.abc import Sequence

import numpy as np

from vbsvm.base import printing
from vbsvm.base.printing import counted
from vbsvm.design.scaling import Recipe
from vbsvm.missing.model import MissingModel
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.plots import missing_values
from vbsvm.report.blocks import Block, Code, Figures, Section, Table, Text, Verdict, cell, percent, share
from vbsvm.report.figures import picture
from vbsvm.results import display
from vbsvm.results.data_summary import Facts
from vbsvm.results.fit import Fit
from vbsvm.results.tables import missing_shares


def title_of(fits: Sequence[Fit]) -> str:
    """What the report is about, where the user does not say it."""
    fit, kind = fits[0], display.kind(fits[0].spec, fits[0].plan)
    if fit.reader is not None:
        return f"{kind} for {fit.reader.parts.outcome}"
    if len(fits) > 1:
        return f"{kind} for {len(fits)} classes"
    return f"{kind}: {fit.classes[1]!s} against {fit.classes[0]!s}"


def summary(fits: Sequence[Fit], figures: Figures, notes: Sequence[Verdict]) -> Section:
    """What the model is, how well it predicts, and what the checks found."""
    fit = fits[0]
    longest = max((one.history for one in fits), key=lambda history: history.passes)
    kind = display.kind(fit.spec, fit.plan).lower()
    several = f" for each of {len(fits)} classes against the rest" if len(fits) > 1 else ""
    rows = "" if fit.facts is None else f", fitted to {_rows(fit.facts)}"
    told = f"A {kind}{several} with {_columns(fit)}{rows}, by {display.inference_in_short(longest)}."
    patterns = fit.missing_patterns
    if patterns is not None and patterns.n_incomplete:
        told += f" {_share(patterns.n_incomplete, patterns.total)} of the rows have missing values."
    blocks: list[Block] = [] if fit.reader is None else [Code(fit.reader.parts.text)]
    return Section("In short", (Text(told), *blocks, figures, *notes))


def model(fits: Sequence[Fit]) -> Section:
    """The model in words."""
    fit = fits[0]
    about = (
        "Every row has a score, linear in the columns, and its sign is the predicted class. Positive scores mean "
        f"{fit.classes[1]!s}, negative ones {fit.classes[0]!s}."
    )
    if len(fits) > 1:
        about = (
            f"The {len(fits)} classes are each set against the rest: every row has a score for each class, linear in "
            "the columns, and the largest is the predicted class."
        )
    blocks: list[Block] = [Text(about)]
    scaling, inference = _scaling(fit.plan.recipe, fit.plan.n_shown), display.inference_description(fit.history)
    blocks.append(Text(f"{_columns(fit)}. {scaling} {inference}"))
    if any(block.name == "inputs" and isinstance(block.prior, HalfT | Ridge) for block in fit.spec.blocks):
        found = ", ".join(printing.told(one.penalty) for one in fits)
        blocks.append(
            Text(f"The penalty α of the inputs was inferred: {found}. (The C of scikit-learn's SVC is 1/(2α).)")
        )
    if any(one.likelihood_power != 1.0 for one in fits):
        found = ", ".join(f"{one.likelihood_power:.3g}" for one in fits)
        blocks.append(Text(f"Likelihood power: {found}. The pseudo-likelihood of the hinge loss is raised to it."))
    body = tuple(
        (cell(block.name), cell(block.size), cell(block.prior.written()), cell(block.prior.in_words))
        for block in fit.spec.blocks
    )
    caption = "Priors, for the columns as they are scaled in the fit."
    blocks.append(Table(caption, ("block", "coefficients", "prior", "in words"), body))
    return Section("The model", tuple(blocks))


def data(fits: Sequence[Fit]) -> Section:
    """Rows, classes, weights; what was missing; groups."""
    fit = fits[0]
    blocks: list[Block] = []
    if fit.facts is None:
        blocks.append(Text("The fit has no record of its rows."))
    else:
        blocks += [Text(f"{_rows(fit.facts)}."), _classes(fits)]
        if fit.facts.weights is not None:
            blocks.append(Text("Rows are weighted: a weight of k counts as k rows."))
    if fit.facts is not None and fit.plan.factors:
        body = tuple(
            (
                cell(factor.name),
                cell(len(factor.levels)),
                *(cell(value) for value in (int(sizes.min()), float(np.median(sizes)), int(sizes.max()))),
            )
            for factor, sizes in zip(fit.plan.factors, fit.facts.group_sizes, strict=True)
        )
        head = ("factor", "groups", "fewest rows", "median", "most rows")
        blocks.append(Table("Groups, and rows of a group.", head, body))
    return Section("The data", tuple(blocks))


def _classes(fits: Sequence[Fit]) -> Table:
    pairs = []
    for fit, facts in ((fit, fit.facts) for fit in fits if fit.facts is not None):
        both = list(zip(fit.classes, facts.rows, facts.weights or (None, None), strict=True))
        pairs += both if len(fits) == 1 else both[1:]
    weighted = pairs[0][2] is not None
    total = sum(n_rows for _, n_rows, _ in pairs)
    body = tuple(
        (cell(str(label)), cell(n_rows), share(n_rows, total), *([cell(weight)] if weighted else []))
        for label, n_rows, weight in pairs
    )
    return Table("Rows by class.", ("class", "rows", "share", *(["sum of weights"] if weighted else [])), body)


def missing(fit: Fit, patterns: MissingPatterns) -> Section:
    """How much is missing, where, and what that costs."""
    known, heads = missing_shares(fit), ("column", "missing", "share")
    body = tuple(
        (
            cell(name),
            cell(count),
            share(count, patterns.total),
            *([cell(f"{100 * known[name]:.0f} %" if name in known else "")] if known else []),
        )
        for name, count in patterns.by_column.items()
    )
    held = isinstance(fit.spec.missing, MissingModel) and fit.spec.missing.held
    how = "by a distribution that was learned first" if held else "together with the coefficients"
    blocks = (
        Text(
            f"{_share(patterns.n_incomplete, patterns.total)} of the rows have at least one missing value, in "
            f"{counted(len(patterns.counts), 'pattern')}. Missing values were inferred {how}; "
            "no row was dropped."
        ),
        Table("Missing values by column.", (*heads, *(["information lost"] if known else [])), body),
        picture(
            "missing",
            "Which inputs are missing together, one row for each pattern.",
            "Patterns of missing values: squares are missing, dots are known.",
            lambda ax: missing_values.missing(fit, ax),
        ),
    )
    return Section("Missing values", blocks)


def _rows(facts: Facts) -> str:
    weight = "" if facts.weights is None else f", of weight {sum(facts.weights):.6g}"
    return f"{facts.n_rows} rows{weight}" + (f"; {facts.left_out}" if facts.left_out else "")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({percent(part, whole)})"


def _columns(fit: Fit) -> str:
    parts = [counted(fit.plan.n_shown, "column")]
    if fit.reader is not None and fit.reader.curves:
        parts.append(counted(len(fit.reader.curves), "curve"))
    parts += [f"{len(factor.levels)} groups of {factor.name}" for factor in fit.plan.factors]
    return ", ".join(parts) + ("" if fit.plan.recipe.intercept else ", no intercept")


def _scaling(recipe: Recipe, n_shown: int) -> str:
    if (recipe.scale[:n_shown] == 1.0).all():
        return "Columns were not scaled."
    if recipe.intercept:
        return "Columns were scaled to mean 0 and standard deviation 1 in the fit."
    return "Columns were scaled to standard deviation 1 in the fit, but not centred."
