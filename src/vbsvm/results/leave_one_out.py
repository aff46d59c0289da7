"""Predictions of each row by a fit without it, from one fit to all rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.inference.gibbs import Sample
from vbsvm.results import prediction
from vbsvm.results.left_out_predictions import LeftOutPredictions
from vbsvm.results.prediction import Scores
from vbsvm.results.training_rows import TrainingRows

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

SCHEME = "leave-one-out, row by row"


def leave_one_out(fits: "Sequence[Fit]", classes: NDArray[Any]) -> LeftOutPredictions:
    """Of one model of two classes, or of several, one for each class against the rest, with the same rows.

    Scores without a row are those of the first order (``model/left_out.py``), and the link from scores to probabilities
    is the one of the fit.
    """
    first, *_ = rows_of = [_rows(fit) for fit in fits]
    found = [rows.left_out_scores() for rows in rows_of]
    y, scores = np.stack([one.y for one in found], axis=1), [Scores(one.f, one.u, one.u) for one in found]
    calibrations = [fit.score_calibration for fit in fits]
    chances = prediction.log_probabilities(prediction.log_odds(scores, calibrations))
    values = prediction.decision_values(scores, calibrations)
    if len(fits) == 1:
        truth, decided = ((one[:, 0] > 0).astype(np.intp) for one in (y, values))
    else:
        truth, decided = y.argmax(axis=1), values.argmax(axis=1)
    order = first.order
    given = order if first.given is None else first.given[order]
    factors = zip(fits[0].plan.factors, first.source.groupings, strict=True)
    return LeftOutPredictions(
        SCHEME,
        given,
        classes[truth],
        found[0].s,
        classes[decided],
        chances[np.arange(len(truth)), truth],
        {factor.name: grouping.index[order] for factor, grouping in factors},
        sum(float(fit.course.bounds[-1]) if len(fit.course.bounds) else np.nan for fit in fits),
    ).take(np.argsort(given))


def _rows(fit: "Fit") -> TrainingRows:
    """The training rows; refuse fits without them, and a sampler's."""
    if isinstance(fit.outcome, Sample):
        raise ValueError(
            "left-out predictions of a single fit are only available after variational Bayes; this fit was sampled. "
            "Cross-validate it, as in cross_validate(model, inference=Gibbs())."
        )
    if fit._rows is None:
        raise ValueError(
            "this fit has no training rows, as it was loaded from a file, unpickled or copied: fit it again."
        )
    if fit._rows.every > 1:
        raise ValueError(
            f"this fit has {fit._rows.source.n_rows} rows in files, too many to hold a prediction of each in memory: "
            "raise Files(…, memory_limit=…), or compare models on a part of the rows."
        )
    return fit._rows
