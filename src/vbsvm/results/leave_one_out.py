"""Predictions of each row by a fit without it: from one fit to all rows, or from refits where that is not enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.base.settings import require_whole
from vbsvm.inference.gibbs import Sample
from vbsvm.results import refits as refits_of
from vbsvm.results.left_out_predictions import LeftOutPredictions
from vbsvm.results.prediction import Scores
from vbsvm.results.refits import Said
from vbsvm.results.training_rows import TrainingRows
from vbsvm.sources.distributed import Distributed

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

SCHEME = "leave-one-out, row by row"
UNRELIABLE = (
    "Leave-one-out predictions are approximate, and may be far off here: {}. Allow refits (refits=200, of data in "
    "memory), or use cross_validate."
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutRows:
    """What fits without a row say of it: scores (rows × models) and log probabilities (rows × classes).

    ``fitted`` are the scores of the fit to all rows. ``truth`` and ``decided`` are the numbers of classes. ``rows`` are
    the rows' numbers in the user's data, in order; None where rows lie elsewhere, or only some of them were looked at.
    Then nothing is known of their ``groups``. ``method`` says how they were left out, and ``doubt`` why the first order
    alone is not to be trusted here, or None.
    """

    truth: NDArray[np.intp]
    decided: NDArray[np.intp]
    weights: Array
    scores: Array
    fitted: Array
    log_chances: Array
    rows: NDArray[np.intp] | None
    groups: Mapping[str, NDArray[np.intp]]
    method: str = refits_of.APPROXIMATE
    doubt: str | None = None
    folds: int | None = None

    def take(self, which: NDArray[np.intp]) -> "LeftOutRows":
        """Some rows, or all in another order."""
        return replace(
            self,
            truth=self.truth[which],
            decided=self.decided[which],
            weights=self.weights[which],
            scores=self.scores[which],
            fitted=self.fitted[which],
            log_chances=self.log_chances[which],
            rows=None if self.rows is None else self.rows[which],
            groups={name: of_rows[which] for name, of_rows in self.groups.items()},
        )


def left_out_rows(fits: "Sequence[Fit]", refits: int | None = 0, folds: int | None = None) -> LeftOutRows:
    """Of one model of two classes, or of several, one for each class against the rest, with the same rows.

    Scores without a row are those of the first order (``model/left_out.py``), with the link from scores to
    probabilities of the fit; or those of refits, of which there may be some (``results/refits.py``).
    """
    first, *_ = rows_of = [_at_hand(fit) for fit in fits]
    found = [rows.left_out_scores() for rows in rows_of]
    y = np.stack([one.y for one in found], axis=1)
    truth = (y[:, 0] > 0).astype(np.intp) if len(fits) == 1 else y.argmax(axis=1)
    said = Said.of([Scores(one.f, one.u, one.u) for one in found], [fit.score_calibration for fit in fits])
    fitted = np.stack([one.f if one.fitted is None else one.fitted for one in found], axis=1)
    if isinstance(first.source, Distributed) or first.every > 1:
        return LeftOutRows(truth, said.decided, found[0].s, said.scores, fitted, said.log_chances, None, {})
    order = first.order
    given = order if first.given is None else first.given[order]
    plan = refits_of.plan(rows_of, found, truth, given, refits, folds)
    for which, by_refit in refits_of.predicted(rows_of, found[0].s, order, plan.sets):
        said.replace(which, by_refit)
    factors = zip(fits[0].plan.factors, first.source.groupings, strict=True)
    groups = {factor.name: grouping.index[order] for factor, grouping in factors}
    how = plan.method, plan.doubt, plan.folds
    unordered = LeftOutRows(truth, said.decided, found[0].s, said.scores, fitted, said.log_chances, given, groups, *how)
    return unordered.take(np.argsort(given))


def leave_one_out(
    fits: "Sequence[Fit]", classes: NDArray[Any], refits: int | None = None, folds: int | None = None
) -> LeftOutPredictions:
    """The same as losses of rows; refuse fits that can't tell them of every row."""
    if refits is not None:
        require_whole("left_out_predictions", 0, 10**9, refits=refits)
    for fit in fits:
        rows = _require_all_rows(fit)
        if folds is not None:
            require_whole("left_out_predictions", 2, rows.source.n_rows, folds=folds)
            _require_refits(rows)
    found = left_out_rows(fits, refits, folds)
    assert found.rows is not None
    own = found.log_chances[np.arange(len(found.truth)), found.truth]
    bound = sum(float(fit.course.bounds[-1]) if len(fit.course.bounds) else np.nan for fit in fits)
    labels, decided = classes[found.truth], classes[found.decided]
    if found.doubt is not None and found.method == refits_of.APPROXIMATE:
        warn_user(UNRELIABLE.format(found.doubt), ReliabilityWarning)
    scheme = SCHEME if found.folds is None else f"refits in {found.folds} folds"
    how = tuple(fit.likelihood_power for fit in fits), found.method, found.doubt, found.folds
    return LeftOutPredictions(scheme, found.rows, labels, found.weights, decided, own, found.groups, bound, *how)


def _at_hand(fit: "Fit") -> TrainingRows:
    if fit._rows is None:
        raise ValueError(
            "this fit has no training rows, as it was loaded from a file, unpickled or copied: fit it again."
        )
    return fit._rows


def _require_all_rows(fit: "Fit") -> TrainingRows:
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
    return rows


def _require_refits(rows: TrainingRows) -> None:
    if not rows.can_refit:
        raise ValueError("left_out_predictions: folds=… is only available for fits to data in memory.")
