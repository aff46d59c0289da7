"""What is known of how well a fit predicts: its rows as fits without them predict them, or rows that were given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report import rivals
from vbsvm.report.effects import Owner
from vbsvm.results import prediction
from vbsvm.results.fit import Fit
from vbsvm.results.fit_predictions import odds_scores
from vbsvm.results.leave_one_out import APPROXIMATE, ROWS_FOR_AN_INPUT, LeftOutRows, left_out_rows
from vbsvm.results.left_out_predictions import LeftOutPredictions, Measure


@final
@dataclass(frozen=True, eq=False)
class Tested:
    """Predictions of rows whose classes are known, and what simple rivals say of the same rows, by name.

    ``left_out`` says whether each row was predicted without it; else the fit may have seen the rows. ``as_new`` are the
    same rows as if their groups were new ones. ``flattered`` are models that chose among many inputs with these rows.
    """

    left_out: bool
    rows: LeftOutRows
    classes: tuple[str, ...]
    weighted: bool
    in_shares: LeftOutPredictions
    others: Mapping[str, LeftOutPredictions]
    as_new: LeftOutPredictions | None = None
    flattered: bool = False

    @cached_property
    def own(self) -> LeftOutPredictions:
        """The model's own predictions."""
        return rivals.of_rows("this model", self.rows)

    @property
    def most_common(self) -> str:
        """The class that most rows have."""
        return self.classes[int(np.bincount(self.rows.truth, self.rows.weights).argmax())]

    def leading(self, of: LeftOutPredictions) -> Measure:
        """What the model is judged by: the share of wrong rows, or with weights of classes the balanced error."""
        return of.balanced_error if self.weighted else of.error

    @property
    def measured(self) -> str:
        """What the leading measure is called."""
        return "balanced error" if self.weighted else "rows wrong"

    def se(self, measure: Measure) -> float:
        """Standard error, with the groups of the largest factor as independent units where there are some."""
        if not self.rows.groups:
            return measure.se
        return measure.group_se(max(self.rows.groups.values(), key=lambda one: int(one.max())))

    def auc(self, of: LeftOutPredictions) -> float:
        """How often a row of the positive class has a larger probability of it than one of the other; ties count ½."""
        own = np.exp(of.log_probability)
        p = np.round(np.where(of.labels == 1, own, 1.0 - own), 12)  # what rounding makes different is the same
        _, place = np.unique(p, return_inverse=True)
        negative, positive = (np.bincount(place, of.weights * (of.labels == label)) for label in (0, 1))
        below = np.cumsum(negative) - 0.5 * negative
        return float(positive @ below / (positive.sum() * negative.sum()))


def of_fit(fits: Sequence[Fit], owner: Owner | None) -> Tested | None:
    """The rows of the fit, each predicted without it; None where the fit has no rows at hand."""
    if any(fit._rows is None for fit in fits):
        return None
    rows = left_out_rows(fits, None)
    offsets = _offsets(fits)
    return _with_rivals(fits, rows, offsets, owner if owner is None else replace(owner, data=None), left_out=True)


def of_given(fits: Sequence[Fit], found: Sequence[Predicted], owner: Owner | None) -> Tested | None:
    """Rows that a report was given, predicted by the fit."""
    if not found:
        return None
    if len(fits) == 1:
        one = found[0]
        log_chances = np.stack([np.log1p(-one.chances), np.log(one.chances)], axis=1)
        truth, decided = (one.positive).astype(np.intp), (one.scores > 0).astype(np.intp)
    else:
        log_chances = np.log(np.stack([one.chances for one in found], axis=1))
        truth = np.stack([one.positive for one in found], axis=1).argmax(axis=1)
        values = np.stack([one.scores * fit.slope for one, fit in zip(found, fits, strict=True)], axis=1)
        decided = values.argmax(axis=1)
    scores = np.stack([one.scores for one in found], axis=1)
    rows = LeftOutRows(truth, decided, found[0].weights, scores, scores, log_chances, None, {})
    return _with_rivals(fits, rows, _offsets(fits), owner, left_out=False)


def _offsets(fits: Sequence[Fit]) -> Array:
    """What weights of classes add to the log odds of each."""
    links = [fit._link for fit in fits]
    found = [0.0 if link is None else link.offset for link in links]
    return np.array([0.0, *found] if len(fits) == 1 else found)


def _with_rivals(
    fits: Sequence[Fit], rows: LeftOutRows, offsets: Array, owner: Owner | None, *, left_out: bool
) -> Tested:
    known, others, as_new = rivals.Known(rows, offsets), {}, None
    if rows.groups:
        factor = max(rows.groups, key=lambda name: int(rows.groups[name].max()))
        others[f"the other rows of the same {factor}"] = rivals.other_rows_of_group(known, factor)
    subject = None if owner is None else owner.subject()
    if owner is not None and subject is not None and len(subject.rows.weights) == len(rows.truth):
        inputs = [name for name in subject.rows.names if name not in owner.grouping]
        alone = rivals.best_input(known, subject.rows, inputs) if left_out else None
        if alone is not None:
            others[f"“{alone.scheme}” alone"] = alone
        if left_out and rows.groups:
            scores = [odds_scores(fit, subject.encoded({}, "new")) for fit in fits]
            log_odds = prediction.log_odds(scores, [fit._link for fit in fits])
            as_new = known.predicted("new groups", prediction.log_probabilities(log_odds))
    labels = fits[0].classes if len(fits) == 1 else [fit.classes[1] for fit in fits]
    names = tuple("the rest" if label is None else str(label) for label in labels)
    gates = fits[0].spec.gate_map
    few = gates is not None and gates.n_gates * ROWS_FOR_AN_INPUT > len(rows.truth)
    flattered = few and rows.method == APPROXIMATE
    shares = rivals.shares_alone(known)
    return Tested(left_out, rows, names, bool(offsets.any()), shares, others, as_new, flattered)
