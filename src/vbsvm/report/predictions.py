"""Sections on predictive performance, compared with simple baselines, on calibration, and on average effects."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vbsvm.base import printing
from vbsvm.base.printing import ReliabilityWarning, mute_warnings
from vbsvm.plots import predictions as figures
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import checks
from vbsvm.report.document import (
    Cell,
    Check,
    Figures,
    Picture,
    Section,
    Table,
    Text,
    cell,
    cells,
    number,
    percent,
    picture,
    share,
)
from vbsvm.report.evaluation import Evaluation, Owner
from vbsvm.results.comparison import models
from vbsvm.results.comparison.leave_one_out import LeftOutRows
from vbsvm.results.comparison.models import LeftOutPredictions
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd

APPROXIMATE = (
    "Each row is predicted as a fit to the other rows would predict it. This is an approximation by one step from the "
    "fit to all rows; the scales of most priors and the link from scores to probabilities stay as they are, so that "
    "losses are slightly too small."
)
REFITTED = "Each row is predicted by a refit without it, with columns standardised as in the fit to all rows."
IN_FOLDS = "Rows are predicted by refits without them, in {} folds, because an approximation may be far off: {}."
SOME_REFITTED = " Rows of high leverage were refitted ({})."
FAR_OFF = " The approximation may be far off here: {}. Use cross-validation."
SAMPLED = " After a sampler the covariance of its draws stands for the response of the fit, which adds some noise."
SELECTED = (
    "The choice of inputs is that of all rows: where many inputs were tried, left-out rows flatter the model. Fit it "
    "within cross-validation before you rely on these numbers."
)
GROUPED = (
    "A left-out row is predicted with the other rows of its {0} at hand: the first line speaks of new rows of known "
    "groups. The line on new groups predicts the same rows as if theirs had not been seen, with fixed effects as they "
    "were fitted to all rows. Cross-validation by group, cross_validate(model, groups={0!r}), fits again."
)
IN_SAMPLE = (
    "The fit does not have its training rows at hand, and the {0} rows that the report was given are as many as it was "
    "fitted to: if they are the same rows, these figures are in sample, and new rows are predicted worse."
)
OTHER_ROWS = (
    "The report was given {0} rows, but the fit used {1}. For rows that are in both, the figures are in sample: new "
    "rows are predicted worse."
)
UNKNOWN = (
    "How well the model predicts is not known here: a fit that was loaded from a file, or that is of a cluster, has no "
    "training rows at hand. Give the report rows whose class is known."
)


def key_figures(evaluation: Evaluation | None, fit: Fit) -> Figures:
    """Key figures of the predictive performance."""
    pairs = []
    if evaluation is not None:
        source = "each predicted without it" if evaluation.left_out else "among those that the report was given"
        source = "with inputs chosen by all rows: too good" if evaluation.optimistic else source
        measure, short = ("balanced error",) * 2 if evaluation.weighted else ("of rows wrong", "wrong")
        lines = [(evaluation.model, f"{measure}, {source}")]
        if not evaluation.weighted:
            lines.append((evaluation.base_rates, f"wrong if all are called {evaluation.most_common}"))
        lines += [(baseline, f"{short} by {name}") for name, baseline in evaluation.baselines.items()]
        pairs = [(percent(evaluation.primary(predictions).value, 1.0), meaning) for predictions, meaning in lines]
        if len(evaluation.classes) == 2:
            auc = f"{evaluation.auc(evaluation.model):.3f}"
            pairs.append((auc, f"AUC: how often {evaluation.classes[1]} is ranked above {evaluation.classes[0]}"))
    if fit.facts is not None:
        pairs.append((f"{fit.facts.n_rows}", "rows"))
    return Figures(tuple(pairs))


def section(
    fits: Sequence[Fit], evaluation: Evaluation | None, external: Evaluation | None, predicted: Sequence[Predicted]
) -> Section:
    """Errors compared with baselines, errors by class, and decision values."""
    if evaluation is None:
        return Section("How well it predicts", (Text(UNKNOWN),))
    last = _confusion(evaluation) if len(fits) > 1 else _scores(predicted[0], "f0")
    about = map(Text, _about(fits, evaluation))
    return Section("How well it predicts", (*about, _compared(evaluation, external, fits), _by_class(evaluation), last))


def _about(fits: Sequence[Fit], evaluation: Evaluation) -> Iterator[str]:
    fit, n_rows = fits[0], len(evaluation.rows.truth)
    if not evaluation.left_out:
        n_fitted = None if fit.facts is None else fit.facts.n_rows
        yield IN_SAMPLE.format(n_rows) if n_fitted in (None, n_rows) else OTHER_ROWS.format(n_rows, n_fitted)
        return
    more = ""
    if fit.facts is not None and fit.facts.n_rows > n_rows:
        more = f" Of {fit.facts.n_rows} rows {n_rows} were looked at."
    yield _how(evaluation.rows) + (SAMPLED if fit.posterior.by_draws else "") + more
    if fit.selects and evaluation.rows.method == models.APPROXIMATE:
        yield SELECTED
    if evaluation.rows.groups:
        yield GROUPED.format(max(evaluation.rows.groups, key=lambda name: int(evaluation.rows.groups[name].max())))


def _how(rows: LeftOutRows) -> str:
    """How rows were left out."""
    if rows.method == models.REFITTED:
        return REFITTED
    if rows.folds is not None:
        return IN_FOLDS.format(rows.folds, rows.doubt)
    refitted = "" if rows.method == models.APPROXIMATE else SOME_REFITTED.format(rows.method)
    return APPROXIMATE + refitted + ("" if rows.doubt is None else FAR_OFF.format(rows.doubt))


def _compared(evaluation: Evaluation, other: Evaluation | None, fits: Sequence[Fit]) -> Table:
    """Table of the model and its baselines, a row for each."""
    two = len(evaluation.classes) == 2
    lines, simple = [("this model", evaluation, evaluation.model)], [*evaluation.baselines.values()]
    if evaluation.as_new is not None:
        lines.append(("this model, new groups", evaluation, evaluation.as_new))
    lines += [(name, evaluation, p) for name, p in evaluation.baselines.items()]
    lines.append((f"always {evaluation.most_common}", evaluation, evaluation.base_rates))
    if other is not None and other is not evaluation:
        same = fits[0].facts is not None and fits[0].facts.n_rows == len(other.rows.truth)
        name = "this model, in sample" if same else f"this model, the {len(other.rows.truth)} rows given to the report"
        lines.append((name, other, other.model))
    head = ("predicted by", "rows wrong", "± se", "balanced error", *(["AUC"] if two else []), "log-loss")
    body = cells(*((name, *_line(of, p, two=two, simple=p in simple)) for name, of, p in lines))
    units = "groups" if evaluation.rows.groups else "rows"
    source = "Rows left out. " if evaluation.left_out else ""
    note = f"The log-loss of “always {evaluation.most_common}” is that of the shares of the classes."
    return Table(f"{source}Standard errors take {units} as independent. {note}", head, body)


def _line(evaluation: Evaluation, of: LeftOutPredictions, *, two: bool, simple: bool) -> Iterator[Cell]:
    """Measures of one model or baseline; no AUC for baselines, where leaving out breaks ties."""
    error = of.error
    yield share(error.value, 1.0)
    yield number(evaluation.se(error), f"{100 * evaluation.se(error):.1f}")
    yield share(of.balanced_error.value, 1.0)
    if two:
        auc = np.nan if simple else evaluation.auc(of)
        yield number(auc, "–" if simple else f"{auc:.3f}")
    yield number(of.log_loss.value, f"{of.log_loss.value:.3f}")


def _by_class(evaluation: Evaluation) -> Table:
    rows, body = evaluation.rows, []
    for k, label in enumerate(evaluation.classes):
        true, decided = rows.truth == k, rows.decided == k
        total, predicted, wrong = (float(rows.weights[selected].sum()) for selected in (true, decided, true & ~decided))
        body.append((label, _count(total), _count(predicted), _count(wrong), share(wrong, total)))
    return Table("Rows by class.", ("class", "rows", "predicted", "wrong", "share wrong"), cells(*body))


def _count(value: float) -> Cell:
    return cell(int(value)) if float(value).is_integer() else cell(value)


def _confusion(evaluation: Evaluation) -> Table:
    k, rows = len(evaluation.classes), evaluation.rows
    counts = np.bincount(rows.truth * k + rows.decided, rows.weights, minlength=k * k).reshape(k, k)
    body = cells(*((name, *map(_count, line)) for name, line in zip(evaluation.classes, counts.tolist(), strict=True)))
    return Table("True classes (lines) and predicted ones (columns).", ("class", *evaluation.classes), body)


def _scores(rows: Predicted, key: str) -> Picture:
    source = "of left-out rows " if rows.left_out else ""
    return picture(
        f"{key}-scores",
        f"Distributions of the scores {source}of {rows.classes[0]} and {rows.classes[1]}.",
        f"Scores {source}by class: right of 0 rows are called {rows.classes[1]}.",
        lambda ax: figures.scores(rows, ax=ax),
    )


def calibration(fits: Sequence[Fit], evaluation: Evaluation, found: Sequence[Predicted]) -> Section:
    """Whether probabilities are frequencies, class by class."""
    rows = "left-out rows" if evaluation.left_out else "the rows that the report was given"
    text = (
        f"Probabilities of {rows}, beside the shares that were observed. Where the curve is above the diagonal, the "
        "class is more common than predicted."
    )
    approximate = evaluation.left_out and evaluation.rows.method.startswith(models.APPROXIMATE)
    if approximate and not fits[0].spec.likelihood.normalised:
        text += (
            " The link from scores to probabilities, of two parameters, was learned from the same left-out scores: "
            "that the slope is near 1 is no surprise, and the shape of the curve tells more."
        )
    pictures = [_calibration_curve(rows_of_class, f"f{k}") for k, rows_of_class in enumerate(found)]
    return Section("Calibration", (Text(text), *checks.calibration_checks(evaluation, found), *pictures))


def _calibration_curve(rows: Predicted, key: str) -> Picture:
    return picture(
        f"{key}-calibration",
        f"Observed share of {rows.classes[1]} against its predicted probability.",
        f"Calibration for {rows.classes[1]}{', left-out rows' if rows.left_out else ''}: a smooth curve with its "
        "95 % band, points for ten bins, and the distribution of the rows at the edges.",
        lambda ax: figures.calibration(rows, ax=ax),
    )


def effects(owner: Owner, key: str) -> Section | None:
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
        pictures = [_panel(owner, name, f"{key}-effect{k}") for k, name in enumerate(tables)]
    body = [row for name, table in tables.items() for row in _rows(name, table)]
    first = next(iter(tables.values()))
    head = ("input", "value", *["class"] * (first.index.nlevels > 1), "average", *printing.headings(first)[1:])
    note = first.attrs["note"].removesuffix(first.attrs.get("caution", " "))
    table = Table(f"Average probabilities. {note}", head, tuple(body), folded=True)
    return Section("Effects", (text, *cautions, *pictures, table))


def _panel(owner: Owner, name: str, key: str) -> Picture:
    settings: dict[str, Any] = {"data": owner.data, "covariance": owner.covariance}
    return picture(
        key,
        f"Average probability over the values of {name}, with 95 % intervals; the table has the numbers.",
        f"Average probabilities over the values of {name}, with 95 % intervals.",
        lambda figure: figures.effects(owner.of, name, ax=figure, **settings),
    )


def _rows(name: str, table: "pd.DataFrame") -> tuple[tuple[Cell, ...], ...]:
    labels = [label if isinstance(label, tuple) else (label,) for label in table.index]
    pairs = zip(labels, table.to_numpy(dtype=float), printing.cells(table), strict=True)
    return cells(*((name, *map(str, label), *map(number, values, texts)) for label, values, texts in pairs))
