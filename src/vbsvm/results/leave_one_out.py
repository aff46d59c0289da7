"""Predictions of each row by a fit without it, from one fit to all rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.inference.gibbs import Sample
from vbsvm.results import prediction
from vbsvm.results.left_out_predictions import LeftOutPredictions
from vbsvm.results.prediction import Scores
from vbsvm.results.training_rows import TrainingRows
from vbsvm.sources.distributed import Distributed

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

SCHEME = "leave-one-out, row by row"


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutRows:
    """What fits without a row say of it: scores (rows × models) and log probabilities (rows × classes).

    ``fitted`` are the scores of the fit to all rows. ``truth`` and ``decided`` are the numbers of classes. ``rows`` are
    the rows' numbers in the user's data, in order; None where rows lie elsewhere, or only some of them were looked at.
    Then nothing is known of their ``groups``.
    """

    truth: NDArray[np.intp]
    decided: NDArray[np.intp]
    weights: Array
    scores: Array
    fitted: Array
    log_chances: Array
    rows: NDArray[np.intp] | None
    groups: Mapping[str, NDArray[np.intp]]

    def take(self, which: NDArray[np.intp]) -> "LeftOutRows":
        """Some rows, or all in another order."""
        return LeftOutRows(
            self.truth[which],
            self.decided[which],
            self.weights[which],
            self.scores[which],
            self.fitted[which],
            self.log_chances[which],
            None if self.rows is None else self.rows[which],
            {name: of_rows[which] for name, of_rows in self.groups.items()},
        )


def left_out_rows(fits: "Sequence[Fit]") -> LeftOutRows:
    """Of one model of two classes, or of several, one for each class against the rest, with the same rows.

    Scores without a row are those of the first order (``model/left_out.py``), and the link from scores to probabilities
    is the one of the fit.
    """
    first, *_ = rows_of = [_at_hand(fit) for fit in fits]
    found = [rows.left_out_scores() for rows in rows_of]
    y, scores = np.stack([one.y for one in found], axis=1), [Scores(one.f, one.u, one.u) for one in found]
    calibrations = [fit.score_calibration for fit in fits]
    chances = prediction.log_probabilities(prediction.log_odds(scores, calibrations))
    values = prediction.decision_values(scores, calibrations)
    if len(fits) == 1:
        truth, decided = ((one[:, 0] > 0).astype(np.intp) for one in (y, values))
    else:
        truth, decided = y.argmax(axis=1), values.argmax(axis=1)
    raw, fitted = (np.stack(of_all, axis=1) for of_all in zip(*((one.f, one.fitted) for one in found), strict=True))
    if isinstance(first.source, Distributed) or first.every > 1:
        return LeftOutRows(truth, decided, found[0].s, raw, fitted, chances, None, {})
    order = first.order
    given = order if first.given is None else first.given[order]
    factors = zip(fits[0].plan.factors, first.source.groupings, strict=True)
    groups = {factor.name: grouping.index[order] for factor, grouping in factors}
    unordered = LeftOutRows(truth, decided, found[0].s, raw, fitted, chances, given, groups)
    return unordered.take(np.argsort(given))


def leave_one_out(fits: "Sequence[Fit]", classes: NDArray[Any]) -> LeftOutPredictions:
    """The same as losses of rows; refuse fits that can't tell them of every row."""
    for fit in fits:
        _require_all_rows(fit)
    found = left_out_rows(fits)
    assert found.rows is not None
    own = found.log_chances[np.arange(len(found.truth)), found.truth]
    bound = sum(float(fit.course.bounds[-1]) if len(fit.course.bounds) else np.nan for fit in fits)
    labels, decided = classes[found.truth], classes[found.decided]
    return LeftOutPredictions(SCHEME, found.rows, labels, found.weights, decided, own, found.groups, bound)


def _at_hand(fit: "Fit") -> TrainingRows:
    if fit._rows is None:
        raise ValueError(
            "this fit has no training rows, as it was loaded from a file, unpickled or copied: fit it again."
        )
    return fit._rows


def _require_all_rows(fit: "Fit") -> None:
    if isinstance(fit.outcome, Sample):
        raise ValueError(
            "left-out predictions of a single fit are only available after variational Bayes; this fit was sampled. "
            "Cross-validate it, as in cross_validate(model, inference=Gibbs())."
        )
    rows = _at_hand(fit)
    if isinstance(rows.source, Distributed):
        raise ValueError("this fit has its rows in a cluster: compare models on a part of the rows, in memory.")
    if rows.every > 1:
        raise ValueError(
            f"this fit has {rows.source.n_rows} rows in files, too many to hold a prediction of each in memory: "
            "raise Files(…, memory_limit=…), or compare models on a part of the rows."
        )
