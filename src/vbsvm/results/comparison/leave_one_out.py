"""Leave-one-out predictions: approximate, from one fit to all rows, or from refits where that is unreliable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.printing import ReliabilityWarning, progress, track, warn_user
from vbsvm.base.settings import check_whole
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult
from vbsvm.results import prediction
from vbsvm.results.calibration import LeftOutScores
from vbsvm.results.comparison.models import APPROXIMATE, REFITTED, LeftOutPredictions
from vbsvm.results.prediction import Link, Scores
from vbsvm.results.training_rows import TrainingRows, links, pass_order
from vbsvm.sources.distributed import Distributed, reweighted

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

SCHEME = "leave-one-out cross-validation"
UNRELIABLE = (
    "Leave-one-out predictions are approximate, and may be inaccurate here: {}. Use refits=200, for data in memory, or "
    "cross_validate."
)
# Default maximum of refits: tables of up to as many rows are refitted without each of them.
# Where rows × coefficients exceed LARGE, a fit takes longer, and there are fewer refits.
REFITS, REFITS_OF_LARGE, LARGE = 200, 10, 50_000
# Folds where all rows need refits: many, as a fit to fewer rows is a worse one.
FOLDS, MIN_FOLDS = 50, 5
# Of one row; and on average, which is the number of effective parameters for each row.
MAX_LEVERAGE, MAX_MEAN_LEVERAGE = 0.7, 0.2
# With fewer rows per candidate predictor, the selection depends on single rows.
MIN_ROWS_PER_PREDICTOR = 20
# Keeping the scales fixed when a row is left out makes losses too small: by 2/n to 4/n, up to 14/n with large effects.
MIN_ROWS_PER_FACTOR = 3000
# With groups integrated out, effects are far from normal if the mean variance of scores exceeds this.
MAX_VARIANCE = 1.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutRows:
    """Leave-one-out predictions of rows: scores (rows × models) and log probabilities (rows × classes).

    ``fitted`` are the scores of the fit to all rows. ``truth`` and ``decided`` are the numbers of classes. ``rows`` are
    the rows' numbers in the user's data, in order; None if rows are remote, or only a sample of them was evaluated.
    Then ``groups`` is empty. ``method`` says how they were left out, and ``doubt`` why the first-order approximation
    may be unreliable, or None.
    """

    truth: NDArray[np.intp]
    decided: NDArray[np.intp]
    weights: Array
    scores: Array
    fitted: Array
    log_probabilities: Array
    rows: NDArray[np.intp] | None
    groups: Mapping[str, NDArray[np.intp]]
    method: str = APPROXIMATE
    doubt: str | None = None
    folds: int | None = None


def left_out_rows(fits: "Sequence[Fit]", refits: int | None = 0, folds: int | None = None) -> LeftOutRows:
    """Leave-one-out predictions of one binary model, or of several one-vs-rest models of the same rows.

    Scores without a row are those of the first order (``model/left_out.py``), with the link from scores to
    probabilities of the fit; or those of up to ``refits`` refits.
    """
    first, *_ = rows_of = [_training_rows(fit) for fit in fits]
    scores = [rows.left_out_scores() for rows in rows_of]
    y = np.stack([p.y for p in scores], axis=1)
    truth = (y[:, 0] > 0).astype(np.intp) if len(fits) == 1 else y.argmax(axis=1)
    predictions = log_probabilities, decided, of_models = _predict(
        [Scores(p.f, p.u, p.u) for p in scores], [fit._link for fit in fits]
    )
    fitted = np.stack([p.f if p.fitted is None else p.fitted for p in scores], axis=1)
    columns = truth, decided, scores[0].s, of_models, fitted, log_probabilities
    if isinstance(first.source, Distributed) or first.every > 1:
        return LeftOutRows(*columns, None, {})
    order = first.order
    numbers = order if first.given is None else first.given[order]
    sets, method, doubt, n_folds = plan_refits(rows_of, scores, truth, numbers, refits, folds)
    for which, refitted in predict_by_refits(rows_of, scores[0].s, order, sets):
        for values, new in zip(predictions, refitted, strict=True):
            values[which] = new
    in_order, factors = np.argsort(numbers), zip(fits[0].plan.factors, first.source.groupings, strict=True)
    groups = {factor.name: grouping.index[order][in_order] for factor, grouping in factors}
    ordered: list[Any] = [column[in_order] for column in (*columns, numbers)]
    return LeftOutRows(*ordered, groups=groups, method=method, doubt=doubt, folds=n_folds)


def _predict(scores: Sequence[Scores], links_of: Sequence[Link | None]) -> tuple[Array, NDArray[np.intp], Array]:
    """Log probabilities (rows × classes), index of the predicted class, and scores (rows × models)."""
    values = prediction.decision_values(scores, links_of)
    decided = (values[:, 0] > 0).astype(np.intp) if len(scores) == 1 else values.argmax(axis=1)
    chances = prediction.log_probabilities(prediction.log_odds(scores, links_of))
    return chances, decided, np.stack([one.mean for one in scores], axis=1)


def leave_one_out(
    fits: "Sequence[Fit]", classes: NDArray[Any], refits: int | None = None, folds: int | None = None
) -> LeftOutPredictions:
    """Leave-one-out predictions in the order of the data; raise for fits that cannot predict every row."""
    if refits is not None:
        check_whole("left_out_predictions", 0, 10**9, refits=refits)
    for fit in fits:
        training_rows = _check_all_rows(fit)
        if folds is not None:
            check_whole("left_out_predictions", 2, training_rows.source.n_rows, folds=folds)
            if not training_rows.can_refit:
                raise ValueError("left_out_predictions: folds=… is only available for fits to data in memory.")
    result = left_out_rows(fits, refits, folds)
    assert result.rows is not None
    own_class = result.log_probabilities[np.arange(len(result.truth)), result.truth]
    bound = sum(float(fit.history.bounds[-1]) if len(fit.history.bounds) else np.nan for fit in fits)
    labels, decided = classes[result.truth], classes[result.decided]
    if result.doubt is not None and result.method == APPROXIMATE:
        warn_user(UNRELIABLE.format(result.doubt), ReliabilityWarning)
    scheme = SCHEME if result.folds is None else f"{result.folds}-fold cross-validation"
    how = tuple(fit.likelihood_power for fit in fits), result.method, result.doubt, result.folds
    return LeftOutPredictions(
        scheme, result.rows, labels, result.weights, decided, own_class, result.groups, bound, *how
    )


def _training_rows(fit: "Fit") -> TrainingRows:
    if fit._rows is None:
        raise ValueError(
            "this fit has no training data, because it was loaded from a file, unpickled or copied: refit the model."
        )
    return fit._rows


def _check_all_rows(fit: "Fit") -> TrainingRows:
    if isinstance(fit.outcome, Sample):
        raise ValueError(
            "leave-one-out predictions are only available for variational fits; this fit was sampled. Use "
            "cross_validate(model, inference=Gibbs())."
        )
    rows = _training_rows(fit)
    if isinstance(rows.source, Distributed):
        raise ValueError("this fit has its rows in a cluster: compare models on a sample of the rows, in memory.")
    if rows.every > 1:
        raise ValueError(
            f"this fit has {rows.source.n_rows} rows in files, too many for predictions in memory: increase "
            "Files(…, memory_limit=…), or compare models on a sample of the rows."
        )
    return rows


def plan_refits(
    rows_of: Sequence[TrainingRows],
    left_out: Sequence[LeftOutScores],
    truth: NDArray[np.intp],
    numbers: NDArray[np.intp],
    refits: int | None,
    folds: int | None,
) -> tuple[Sequence[NDArray[np.intp]], str, str | None, int | None]:
    """Choose rows to leave out by refits: all of a small table, those of high leverage, or all in folds.

    Returns sets of rows to leave out together, the name of the method, why the approximation may be unreliable, and
    the number of folds. ``numbers`` are those of the rows in the user's data. Without the only row of a class there
    would be no such class: it stays.
    """
    n, alone = len(truth), (np.bincount(truth)[truth] == 1) & (left_out[0].s <= 1.0)
    if refits is None:
        refits = REFITS if n * rows_of[0].source.n_core <= LARGE else REFITS_OF_LARGE
    doubt, n_refits = _doubt(rows_of, left_out), refits if all(rows.can_refit for rows in rows_of) else 0
    if folds is not None:
        return _stratified_folds(truth, numbers, ~alone, folds), f"{folds}-fold", doubt, folds
    if n <= n_refits:
        return [np.array([k]) for k in np.flatnonzero(~alone)], REFITTED, None, None
    leverage = np.max([p.leverage for p in left_out if p.leverage is not None], axis=0)
    high = np.flatnonzero(~(leverage <= MAX_LEVERAGE) & ~alone)
    if doubt is None and len(high) > n_refits:
        doubt = f"{len(high)} observations have a leverage above {MAX_LEVERAGE:g}"
    if doubt is not None and n_refits >= MIN_FOLDS:
        return plan_refits(rows_of, left_out, truth, numbers, refits, min(FOLDS, n_refits))
    if doubt is not None or not len(high):
        return [], APPROXIMATE, doubt, None
    return [np.array([k]) for k in high], f"{APPROXIMATE}, {len(high)} observations refitted", None, None


def _doubt(rows_of: Sequence[TrainingRows], left_out: Sequence[LeftOutScores]) -> str | None:
    """Why the first-order approximation may be unreliable for all rows, or None."""
    rows, n = rows_of[0], len(left_out[0].f)
    gates, factors = rows.spec.gate_map, len(rows.source.groupings)
    if gates is not None and n < MIN_ROWS_PER_PREDICTOR * gates.n_gates:
        return f"selection among {gates.n_gates} predictors with {n} observations"
    if rows.n >= n:
        return f"there are {rows.n} columns and {n} observations"
    leverage = max(float(np.mean(p.leverage)) for p in left_out if p.leverage is not None)
    if not leverage <= MAX_MEAN_LEVERAGE:
        return f"the model has about {leverage * n:.0f} effective parameters for {n} observations"
    if any((p.y * p.fitted > 0).all() for p in left_out if p.fitted is not None):
        return "the classes are completely separated"
    if isinstance(rows.outcome, OptimizeResult) and rows.outcome.integrated:
        certain = float(np.mean(left_out[0].u)) <= MAX_VARIANCE
        return None if certain else "random effects are too uncertain for a single step"
    return "variance components depend on single observations" if n < MIN_ROWS_PER_FACTOR * factors else None


def _stratified_folds(
    truth: NDArray[np.intp], numbers: NDArray[np.intp], may_leave: NDArray[np.bool_], k: int
) -> list[NDArray[np.intp]]:
    """Stratified folds: row indices in k sets, the same for all models of the same rows."""
    shuffle = np.random.default_rng(0).random(int(numbers.max()) + 1)[numbers]
    order = np.lexsort((shuffle, truth))
    order = order[may_leave[order]]
    return [np.sort(order[begin::k]) for begin in range(min(k, len(order)))]


def predict_by_refits(
    rows_of: Sequence[TrainingRows], counts: Array, order: NDArray[np.intp], sets: Sequence[NDArray[np.intp]]
) -> Iterator[tuple[NDArray[np.intp], tuple[Array, NDArray[np.intp], Array]]]:
    """Yield each set of rows and their predictions by a refit without them; ``order`` maps rows to the source.

    A row left out alone is one of its ``counts`` copies; those of a fold are left out as a whole.
    Probabilities are calibrated again.
    """
    first = rows_of[0].source
    assert not isinstance(first, Distributed)
    unit = np.arange(len(first.weights)) if first.candidates is None else first.candidates.row
    number = np.full(len(unit), -1)
    number[order] = np.arange(len(order))
    for which in track("refits", sets):
        is_left_out = np.isin(unit, unit[order[which]]).astype(np.float64)
        share = min(1.0, 1.0 / float(counts[which[0]])) if len(which) == 1 else 1.0
        subset = reweighted(first, is_left_out)
        with single_threaded_blas(), progress(0):
            try:
                fits = [rows.refitted(1.0 - share * is_left_out) for rows in rows_of]
            except (FloatingPointError, np.linalg.LinAlgError):  # without these rows the fit can't be made
                continue
            yield number[pass_order(subset)], _predict([fit.score_unseen(subset) for fit in fits], links(fits))
