"""Sections on predictive performance, compared with simple baselines, on calibration, and on average effects."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

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
    Panel,
    Picture,
    Section,
    Table,
    Text,
    cell,
    cells,
    number,
    percent,
    picture,
    pictures,
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
    "Approximate leave-one-out: each observation is predicted as a fit to the others would predict it, by one step "
    "from the fit to all. The scales of most priors{} are not re-estimated, so that losses are slightly too small."
)
LINK = " and the link from decision values to probabilities"
REFITTED = "Leave-one-out: each observation is predicted by a refit without it; columns are standardised as in the fit."
IN_FOLDS = "Observations are predicted by refits without them, in {} folds, as an approximation may be inaccurate: {}."
SOME_REFITTED = " Observations of high leverage were refitted ({})."
FAR_OFF = " The approximation may be inaccurate here: {}. Use cross-validation."
SAMPLED = " After Gibbs sampling it uses the covariance of the draws, which adds some noise."
SELECTED = (
    "Predictors were selected with all observations, so that this evaluation is optimistic if there are many "
    "candidates. Fit the model within cross-validation before you rely on these numbers."
)
GROUPED = (
    "A left-out observation is predicted with the other observations of its {0}: the first line is for new "
    "observations of known levels. The line on new levels predicts the same observations as if their {0} were unknown, "
    "with the fixed effects of the fit. Cross-validation by group, cross_validate(model, groups={0!r}), refits."
)
OTHER_ROWS = (
    "The report was given {0} observations, but the fit used {1}, not all of them the same. For observations in both, "
    "these measures are in sample, and too good for new observations."
)
UNKNOWN = (
    "Predictive performance is not available: the training data are not stored in saved models or in fits by Dask. "
    "Give the report observations with known class."
)


def key_figures(evaluation: Evaluation | None, fit: Fit) -> Figures:
    """Key figures of the predictive performance."""
    pairs = []
    if evaluation is not None:
        source = "leave-one-out" if evaluation.left_out else "observations given to the report"
        source = "in sample if these are the training data: optimistic" if evaluation.maybe_training else source
        source = "optimistic: predictors selected with all observations" if evaluation.optimistic else source
        measure = "balanced error" if evaluation.weighted else "misclassified"
        lines = [(evaluation.model, f"{measure} ({source})")]
        if not evaluation.weighted:
            lines.append((evaluation.base_rates, f"{measure} by always predicting “{evaluation.most_common}”"))
        lines += [(baseline, f"{measure} by {name}") for name, baseline in evaluation.baselines.items()]
        pairs = [(percent(evaluation.primary(predictions).value, 1.0), meaning) for predictions, meaning in lines]
        if len(evaluation.classes) == 2:
            auc = f"{evaluation.auc(evaluation.model):.3f}"
            pairs.append((auc, f"AUC for “{evaluation.classes[1]}”"))
    if fit.facts is not None:
        pairs.append((f"{fit.facts.n_rows}", "observations"))
    return Figures(tuple(pairs))


def section(
    fits: Sequence[Fit], evaluation: Evaluation | None, external: Evaluation | None, predicted: Sequence[Predicted]
) -> Section:
    """Errors compared with baselines, errors by class, and decision values."""
    if evaluation is None:
        return Section("Predictive performance", (Text(UNKNOWN),))
    last = _confusion(evaluation) if len(fits) > 1 else _scores(predicted[0], "f0")
    blocks = (*map(Text, _about(fits, evaluation)), _compared(evaluation, external), _by_class(evaluation), last)
    return Section("Predictive performance", blocks)


def _about(fits: Sequence[Fit], evaluation: Evaluation) -> Iterator[str]:
    fit, n_rows = fits[0], len(evaluation.rows.truth)
    if not evaluation.left_out:
        if fit.facts is not None and not evaluation.maybe_training:
            yield OTHER_ROWS.format(n_rows, fit.facts.n_rows)
        return
    more = ""
    if fit.facts is not None and fit.facts.n_rows > n_rows:
        more = f" Of {fit.facts.n_rows} observations {n_rows} were evaluated."
    yield (
        _how(evaluation.rows, "" if fit.spec.likelihood.normalised else LINK)
        + (SAMPLED if fit.posterior.by_draws else "")
        + more
    )
    if fit.selects and evaluation.rows.method == models.APPROXIMATE:
        yield SELECTED
    if evaluation.factor is not None:
        yield GROUPED.format(evaluation.factor)


def _how(rows: LeftOutRows, link: str) -> str:
    """How rows were left out; ``link`` is what an approximation does not estimate again."""
    if rows.method == models.REFITTED:
        return REFITTED
    if rows.folds is not None:
        return IN_FOLDS.format(rows.folds, rows.doubt)
    refitted = "" if rows.method == models.APPROXIMATE else SOME_REFITTED.format(rows.method)
    return APPROXIMATE.format(link) + refitted + ("" if rows.doubt is None else FAR_OFF.format(rows.doubt))


def _compared(evaluation: Evaluation, other: Evaluation | None) -> Table:
    """Table of the model and its baselines, a row for each."""
    two = len(evaluation.classes) == 2
    lines, simple = [("the model", evaluation, evaluation.model)], [*evaluation.baselines.values()]
    if evaluation.as_new is not None:
        lines.append(("the model, new levels", evaluation, evaluation.as_new))
    lines += [(name, evaluation, p) for name, p in evaluation.baselines.items()]
    lines.append((f"always “{evaluation.most_common}”", evaluation, evaluation.base_rates))
    if other is not None and other is not evaluation:
        given = f"the model, the {len(other.rows.truth)} observations given"
        name = "the model, in sample" if other.maybe_training else given
        lines.append((name, other, other.model))
    head = ("predicted by", "error rate", "std. error", "balanced error", *(["AUC"] if two else []), "log loss")
    body = cells(*((name, *_line(of, p, two=two, simple=p in simple)) for name, of, p in lines))
    errors = "" if evaluation.factor is None else f"Standard errors are clustered on {evaluation.factor}. "
    source = "Leave-one-out predictions" if evaluation.left_out else "Predictions of the observations given"
    note = f"The log loss of “always {evaluation.most_common}” is that of the class proportions."
    return Table(f"{source}. {errors}{note}", head, body)


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
    head = ("class", "observed", "predicted", "errors", "error rate")
    return Table("Observations by class.", head, cells(*body))


def _count(value: float) -> Cell:
    return cell(int(value)) if float(value).is_integer() else cell(value)


def _confusion(evaluation: Evaluation) -> Table:
    k, rows = len(evaluation.classes), evaluation.rows
    counts = np.bincount(rows.truth * k + rows.decided, rows.weights, minlength=k * k).reshape(k, k)
    body = cells(*((name, *map(_count, line)) for name, line in zip(evaluation.classes, counts.tolist(), strict=True)))
    return Table("Confusion matrix: observed (rows) and predicted classes.", ("class", *evaluation.classes), body)


def _scores(rows: Predicted, key: str) -> Picture:
    source = " (leave-one-out)" if rows.left_out else ""
    what = "Decision values" if rows.margins else "Linear predictors"
    return picture(
        f"{key}-scores",
        f"Distributions of the {what.lower()} of the classes {rows.classes[0]} and {rows.classes[1]}{source}.",
        f"{what} by class{source}; above 0 the prediction is “{rows.classes[1]}”.",
        lambda ax: figures.scores(rows, ax=ax),
    )


def calibration(fits: Sequence[Fit], evaluation: Evaluation, found: Sequence[Predicted]) -> Section:
    """Observed proportions against predicted probabilities, class by class."""
    rows = "leave-one-out" if evaluation.left_out else "for the observations given to the report"
    text = (
        f"Predicted probabilities ({rows}) and observed proportions. Where the curve is above the diagonal, the class "
        "is more frequent than predicted. The curve is drawn only where there are observations."
    )
    approximate = evaluation.left_out and evaluation.rows.method.startswith(models.APPROXIMATE)
    if approximate and not fits[0].spec.likelihood.normalised:
        text += (
            " The link from decision values to probabilities, with two parameters, was fitted to the same "
            "leave-one-out decision values: a slope near 1 is expected, and the shape of the curve is more informative."
        )
    drawn = [
        picture(
            f"f{k}-calibration",
            f"Calibration plot: observed proportion of {one.classes[1]} against its predicted probability.",
            f"Calibration for “{one.classes[1]}”{' (leave-one-out)' if one.left_out else ''}: smooth curve with its "
            "95 % band, observed proportions in bins, and the distributions of the predictions at the edges.",
            partial(figures.calibration, one, None, None),
        )
        for k, one in enumerate(found)
    ]
    return Section("Calibration", (Text(text), *checks.calibration_checks(evaluation, found), *drawn))


def effects(owner: Owner, key: str) -> Section | None:
    """Section with figures and a table of marginal effects of the main predictors, or None."""
    tables = owner.tables()
    if not tables:
        return None
    text = Text(
        "Average predicted probabilities: the predictor is set to each value in all observations, which keep their "
        "other predictors" + (" and random effects" if owner.grouping else "") + ", and predictions are averaged. "
        "Predictors that interact in the formula are set jointly. The panels share their y-axis."
    )
    cautions = [Check(False, frame.attrs["caution"]) for frame in tables.values() if "caution" in frame.attrs]
    with mute_warnings(ReliabilityWarning):  # the page says it
        drawn = pictures([_panel(owner, names, f"{key}-effect{k}") for k, names in enumerate(tables)], shared_y=True)
    body = [row for names, table in tables.items() for row in _rows(names, table)]
    names, first = next(iter(tables.items()))
    head = ("predictor", "value", *["class"] * (first.index.nlevels > len(names)), *printing.headings(first))
    note = first.attrs["note"].removesuffix(first.attrs.get("caution", " "))
    table = Table(f"Average probabilities. {note}", head, tuple(body), folded=True)
    return Section("Marginal effects", (text, *cautions, *drawn, table))


def _panel(owner: Owner, names: tuple[str, ...], key: str) -> Panel:
    what = f"Average predicted probability by {' and '.join(names)}, with 95 % intervals"
    draw = partial(figures.effects, owner.of, list(names), None, data=owner.data, covariance=owner.covariance)
    return key, f"{what}; the table has the numbers.", f"{what}.", draw


def _rows(names: tuple[str, ...], table: "pd.DataFrame") -> tuple[tuple[Cell, ...], ...]:
    labels = [label if isinstance(label, tuple) else (label,) for label in table.index]
    values = [(", ".join(map(str, label[: len(names)])), *map(str, label[len(names) :])) for label in labels]
    parts = zip(values, table.to_numpy(dtype=float), printing.cells(table), strict=True)
    return cells(*((", ".join(names), *value, *map(number, line, texts)) for value, line, texts in parts))
