"""Evaluation of predictions of left-out or given rows, compared with baselines.

Baselines cost next to nothing, and are left out too. One predictor alone is a linear discriminant of its normal scores,
so that neither skewness nor outliers hurt it. It is chosen, and its means and variance are known, without the row that
it predicts; sums over rows give this in closed form.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import log_softmax, ndtri
from scipy.stats import rankdata

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.formula.sandbox import columns_of
from vbsvm.design.formula.terms import parse_terms
from vbsvm.plots.predictions import MAX_LINES
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.results import prediction
from vbsvm.results.comparison.leave_one_out import MIN_ROWS_PER_PREDICTOR, LeftOutRows, left_out_rows
from vbsvm.results.comparison.models import APPROXIMATE, LeftOutPredictions, Measure
from vbsvm.results.effects.marginal import AverageEffects, Subject
from vbsvm.results.effects.rows import MOST_LEVELS, EffectRows, is_discrete
from vbsvm.results.fit import Fit
from vbsvm.results.fit_predictions import NEW, odds_scores

if TYPE_CHECKING:
    import pandas as pd

# Numbers of effects tried, and shown: those with the largest range of probabilities.
MAX_TRIED, MAX_SHOWN = 8, 4
# Over more rows averages take longer than a page should.
MAX_EFFECT_ROWS = 100_000
# Rows × predictors up to which single predictors are tried.
MAX_NUMBERS = 10_000_000
# Of the share of all rows, in numbers of rows, where the others of a group are asked.
PRIOR_ROWS = 1.0


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
        """The models and their rows, or None if these are not in memory."""
        try:
            return self.of._effects_subject(self.data, None, self.covariance)
        except (ValueError, TypeError):  # no rows, or rows that can't be averaged over
            return None

    def tables(self) -> "dict[tuple[str, ...], pd.DataFrame]":
        """Effects of the main predictors, or of two that interact, by their names; empty without rows in memory."""
        subject = self.subject()
        if subject is None or len(subject.rows.weights) > MAX_EFFECT_ROWS:
            return {}
        fits: Any = subject.models.fits
        candidates = self._candidates(fits[0], subject.rows)
        chosen: dict[str, Any] = {"data": self.data, "covariance": self.covariance}
        effects = {names: self.of._effects_table(list(names), None, **chosen)[1] for names in candidates}
        spans = {names: float(np.ptp(table["estimate"].to_numpy(dtype=float))) for names, table in effects.items()}
        shown = sorted(effects, key=lambda names: -spans[names])[:MAX_SHOWN]
        return {names: effects[names] for names in candidates if names in shown}

    def _candidates(self, fit: Fit, rows: EffectRows) -> list[tuple[str, ...]]:
        """Effects to try: pairs that interact, and the other predictors in the order of ``ranked``."""
        pairs = [pair for pair in _interactions(fit, rows) if not self.grouping.intersection(pair)]
        names = [name for name in self.ranked(fit, rows) if not any(name in pair for pair in pairs)]
        if fit.selects:
            included = _included(fit, rows)
            names, pairs = [name for name in names if name in included], [one for one in pairs if included & {*one}]
        return [*pairs, *((name,) for name in names[:MAX_TRIED] if _is_shown(rows, name))][:MAX_TRIED]

    def ranked(self, fit: Fit, rows: EffectRows) -> list[str]:
        """Predictors in the order of the formula, or by the size of their standardised coefficients."""
        if not (owners := rows.owners):
            return [name for name in rows.names if name not in self.grouping]
        size = np.abs(fit.coef * fit.plan.recipe.spread[: fit.plan.n_shown])
        return list(dict.fromkeys(owners[k] for k in np.argsort(-size, kind="stable")))


def _included(fit: Fit, rows: EffectRows) -> set[str]:
    """Predictors with an inclusion probability above ½, also of a part of their columns or terms."""
    of_columns = np.flatnonzero(fit.inclusion_probability > 0.5)
    if rows.owners:
        return {rows.owners[k] for k in of_columns}
    terms = [fit.plan.shown_names[k] for k in of_columns]
    return {name for name in rows.names if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", term) for term in terms)}


def _interactions(fit: Fit, rows: EffectRows) -> Iterator[tuple[str, str]]:
    """Pairs of columns in two-way interactions of a formula: the one for the x-axis, and the one for the lines."""
    if fit.reader is None:
        return
    columns = list(fit.reader.columns)
    for term in parse_terms(fit.reader.parts.fixed):
        factors = [factor.expr for factor in term.factors]
        used = [[name] if name in columns else columns_of(name, columns) for name in factors if term.degree == 2]
        names = list(dict.fromkeys(name for of_factor in used for name in of_factor))
        if len(names) == 2 and all(_is_shown(rows, name) for name in names):
            first, second = sorted(names, key=lambda name: (is_discrete(rows, name), -rows.column(name).nunique()))
            if rows.levels(second) is None or len(rows.levels(second) or []) <= MAX_LINES:
                yield first, second


def _is_shown(rows: EffectRows, name: str) -> bool:
    """Whether an input has a few levels, or numbers that differ."""
    levels = rows.levels(name)
    return rows.column(name).nunique() > 1 if levels is None else 1 < len(levels) <= MOST_LEVELS


@final
@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedRows:
    """Classes, weights and groups of rows, and what weights of classes add to the log odds of each class."""

    rows: LeftOutRows
    offsets: Array

    def predicted(self, name: str, log_chances: Array) -> LeftOutPredictions:
        """Predictions from log probabilities (rows × classes); class weights shift the decision."""
        rows = self.rows
        decided = (log_chances - self.offsets).argmax(axis=1)
        return losses(name, replace(rows, log_probabilities=log_chances, decided=decided))

    @property
    def shares(self) -> Array:
        """Proportion of each class."""
        totals = np.bincount(self.rows.truth, self.rows.weights, minlength=len(self.offsets))
        return totals / totals.sum()


def losses(name: str, rows: LeftOutRows) -> LeftOutPredictions:
    """Predictions of rows, with integer classes, as ``LeftOutPredictions``."""
    log_probability = rows.log_probabilities[np.arange(len(rows.truth)), rows.truth]
    numbers = np.arange(len(rows.truth)) if rows.rows is None else rows.rows
    return LeftOutPredictions(name, numbers, rows.truth, rows.weights, rows.decided, log_probability, rows.groups)


def predict_base_rates(known: EvaluatedRows) -> LeftOutPredictions:
    """Baseline: the class proportions are predicted for every row."""
    with np.errstate(divide="ignore"):
        log_probabilities = np.broadcast_to(np.log(known.shares), known.rows.log_probabilities.shape)
    return known.predicted("shares", log_probabilities)


def other_rows_of_group(known: EvaluatedRows, factor: str) -> LeftOutPredictions:
    """Baseline: class proportions of the other rows of the group, shrunk by one row of the base rates."""
    rows, k = known.rows, len(known.offsets)
    code = rows.groups[factor] * k + rows.truth
    sums = np.bincount(code, rows.weights, minlength=(rows.groups[factor].max() + 1) * k).reshape(-1, k)
    others = sums[rows.groups[factor]]
    others[np.arange(len(code)), rows.truth] -= np.minimum(rows.weights, 1.0)
    sums_with_prior = np.maximum(others, 0.0) + PRIOR_ROWS * known.shares
    return known.predicted(factor, np.log(sums_with_prior / sums_with_prior.sum(axis=1, keepdims=True)))


def best_single_input(known: EvaluatedRows, inputs: EffectRows, names: Sequence[str]) -> LeftOutPredictions | None:
    """Baseline: the best single predictor by linear discriminant analysis, or None."""
    if len(names) < 2 or len(names) * len(known.rows.truth) > MAX_NUMBERS:
        return None
    best, chances, chosen = np.full(len(known.rows.truth), np.inf), None, np.zeros(len(known.rows.truth), dtype=int)
    for k, name in enumerate(names):
        for x in _columns(inputs, name):
            unexplained, log_chances = _one_column(known, x)
            better = unexplained < best
            best[better], chosen[better] = unexplained[better], k
            chances = log_chances if chances is None else np.where(better[:, None], log_chances, chances)
    if chances is None:
        return None
    return known.predicted(names[int(np.bincount(chosen).argmax())], chances)


def _columns(inputs: EffectRows, name: str) -> Iterator[Array]:
    """Normal scores of a number, missing ones at the median; an indicator of each level of a category."""
    column, levels = inputs.column(name), inputs.levels(name)
    if levels is not None:
        if len(levels) <= MOST_LEVELS:
            yield from ((column == level).to_numpy(dtype=float, na_value=0.0) for level in levels)
        return
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = np.isfinite(values)
    x = np.zeros(len(values))
    x[finite] = ndtri((rankdata(values[finite]) - 0.5) / max(int(finite.sum()), 1))
    yield x


def _one_column(known: EvaluatedRows, x: Array) -> tuple[Array, Array]:
    """Leave-one-out residual variance ratio and log probabilities of a one-predictor discriminant analysis."""
    rows, k = known.rows, len(known.offsets)
    truth, w = rows.truth, np.minimum(rows.weights, 1.0)
    counts, sums = (np.bincount(truth, rows.weights * values, minlength=k) for values in (np.ones(len(x)), x))
    total, squares = counts.sum(), float(rows.weights @ np.square(x))
    indicator = np.eye(k)[truth]
    n = counts - indicator * w[:, None]
    s = sums - indicator * (w * x)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(n > 0, s / n, 0.0)
        q = squares - w * np.square(x)
        within = q - (means * s).sum(axis=1)
        around = q - np.square(s.sum(axis=1)) / (total - w)
        unexplained = np.where(around > 1e-9 * squares, within / around, np.inf)
        variance = np.maximum(within / np.maximum(total - w - k, 1.0), 1e-9)
        chances = log_softmax(np.log(known.shares) - 0.5 * np.square(x[:, None] - means) / variance[:, None], axis=1)
    return unexplained, chances


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions of rows with known classes, and those of simple baselines by name.

    ``left_out`` says whether each row was predicted without it; else the fit may have seen the rows. ``as_new`` are the
    same rows as if their groups were new ones. ``optimistic`` are models that selected among many predictors with these
    rows. ``inputs`` are the predictors of the rows, or None if they are not in memory. ``maybe_training`` are rows that
    can't be told from those of the fit.
    """

    left_out: bool
    rows: LeftOutRows
    classes: tuple[str, ...]
    weighted: bool
    base_rates: LeftOutPredictions
    baselines: Mapping[str, LeftOutPredictions]
    as_new: LeftOutPredictions | None = None
    optimistic: bool = False
    inputs: EffectRows | None = None
    maybe_training: bool = False

    @cached_property
    def model(self) -> LeftOutPredictions:
        """The model's own predictions."""
        return losses("this model", self.rows)

    @property
    def most_common(self) -> str:
        """The class of largest total weight."""
        return self.classes[int(np.bincount(self.rows.truth, self.rows.weights).argmax())]

    @property
    def factor(self) -> str | None:
        """The factor with the most groups."""
        return max(self.rows.groups, key=lambda name: int(self.rows.groups[name].max()), default=None)

    def primary(self, of: LeftOutPredictions) -> Measure:
        """Primary measure: misclassification rate, or balanced error with class weights."""
        return of.balanced_error if self.weighted else of.error

    def se(self, measure: Measure) -> float:
        """Standard error, with the groups of the largest factor as independent units where there are some."""
        return measure.se if self.factor is None else measure.group_se(self.rows.groups[self.factor])

    def auc(self, of: LeftOutPredictions) -> float:
        """Area under the ROC curve, weighted; ties count ½."""
        p_label = np.exp(of.log_probability)
        p = np.round(np.where(of.labels == 1, p_label, 1.0 - p_label), 12)  # what rounding makes different is the same
        _, rank = np.unique(p, return_inverse=True)
        negative, positive = (np.bincount(rank, of.weights * (of.labels == label)) for label in (0, 1))
        below = np.cumsum(negative) - 0.5 * negative
        return float(positive @ below / (positive.sum() * negative.sum()))


def evaluate_left_out(fits: Sequence[Fit], owner: Owner | None) -> Evaluation | None:
    """Leave-one-out evaluation of the training rows, or None if the fit has no rows in memory."""
    if any(fit._rows is None for fit in fits):
        return None
    owner = None if owner is None else replace(owner, data=None)
    return _with_baselines(fits, left_out_rows(fits, None), _offsets(fits), owner, left_out=True)


def evaluate_given(fits: Sequence[Fit], predicted: Sequence[Predicted], owner: Owner | None) -> Evaluation | None:
    """Evaluation of rows given to the report, or None if there are none."""
    if not predicted:
        return None
    positive, p = (np.stack(list(map(attrgetter(name), predicted)), axis=1) for name in ("positive", "probabilities"))
    scores = np.stack([rows_k.scores for rows_k in predicted], axis=1)
    if len(fits) == 1:
        log_chances = np.concatenate([np.log1p(-p), np.log(p)], axis=1)
        truth, decided = positive[:, 0].astype(np.intp), (scores[:, 0] > 0).astype(np.intp)
    else:
        log_chances, truth = np.log(p), positive.argmax(axis=1)
        decided = (scores * np.array([fit.slope for fit in fits])).argmax(axis=1)
    rows = LeftOutRows(truth, decided, predicted[0].weights, scores, scores, log_chances, None, {})
    # Files of fits hold no digest of the observations, but their numbers by class.
    counts = [(len(truth) - n_positive, n_positive) for n_positive in positive.sum(axis=0).tolist()]
    same = all(fit.facts is None or fit.facts.rows == n for fit, n in zip(fits, counts, strict=True))
    return replace(_with_baselines(fits, rows, _offsets(fits), owner, left_out=False), maybe_training=same)


def _offsets(fits: Sequence[Fit]) -> Array:
    """Offset of each class's log odds due to class weights."""
    links = [fit._link for fit in fits]
    offsets = [0.0 if link is None else link.offset for link in links]
    return np.array([0.0, *offsets] if len(fits) == 1 else offsets)


def _with_baselines(
    fits: Sequence[Fit], rows: LeftOutRows, offsets: Array, owner: Owner | None, *, left_out: bool
) -> Evaluation:
    known, baselines, as_new, table = EvaluatedRows(rows, offsets), {}, None, None
    if rows.groups:
        factor = max(rows.groups, key=lambda name: int(rows.groups[name].max()))
        baselines[f"the other observations of the same {factor}"] = other_rows_of_group(known, factor)
    subject = None if owner is None else owner.subject()
    if owner is not None and subject is not None and len(subject.rows.weights) == len(rows.truth):
        table = subject.rows
        inputs = [name for name in subject.rows.names if name not in owner.grouping]
        single = best_single_input(known, subject.rows, inputs) if left_out else None
        if single is not None:
            baselines[f"“{single.scheme}” alone"] = single
        if left_out and rows.groups:
            new_rows = replace(subject, groups=NEW).encoded({})
            scores = [odds_scores(fit, new_rows) for fit in fits]
            log_odds = prediction.log_odds(scores, [fit._link for fit in fits])
            as_new = known.predicted("new groups", prediction.log_probabilities(log_odds))
    labels = fits[0].classes if len(fits) == 1 else [fit.classes[1] for fit in fits]
    names = tuple("the rest" if label is None else str(label) for label in labels)
    gates = fits[0].spec.gate_map
    many_inputs = gates is not None and gates.n_gates * MIN_ROWS_PER_PREDICTOR > len(rows.truth)
    optimistic = many_inputs and rows.method == APPROXIMATE
    shares = predict_base_rates(known)
    return Evaluation(left_out, rows, names, bool(offsets.any()), shares, baselines, as_new, optimistic, table)
