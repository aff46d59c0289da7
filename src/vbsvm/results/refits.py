"""Where the first order is not enough to leave rows out: fits without some of them, and what these say of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.inference.loop import OptimizeResult
from vbsvm.results import prediction
from vbsvm.results.calibration import LeftOutScores
from vbsvm.results.prediction import Link, Scores
from vbsvm.results.training_rows import TrainingRows, links, pass_order
from vbsvm.sources.distributed import Distributed, reweighted

# At most so many refits, unless it is said otherwise: tables of up to so many rows are refitted without each of them.
# Where rows × coefficients are more than the last of these numbers, a fit takes longer, and there are fewer refits.
REFITS, REFITS_OF_LARGE, LARGE = 200, 10, 50_000
# Folds where all rows need refits: many, as a fit to fewer rows is a worse one.
FOLDS, FEWEST_FOLDS = 50, 5
APPROXIMATE, REFITTED = "approximate", "refitted"
# Of one row; and on average, which is the number of effective parameters for each row.
MOST_LEVERAGE, MOST_MEAN_LEVERAGE = 0.7, 0.2
# Fewer rows for each predictor to choose from, and the choice depends on single rows.
ROWS_FOR_AN_INPUT = 20
# Scales that are held where a row leaves make losses too small: by 2/n to 4/n, and up to 14/n if effects are large.
ROWS_FOR_A_FACTOR = 3000
# Where groups are integrated out, their effects are far from normal if scores are less certain than this, on average.
MOST_VARIANCE = 1.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What models say of rows: log probabilities (rows × classes), what decides, and scores (rows × models)."""

    log_chances: Array
    values: Array
    scores: Array

    @staticmethod
    def of(found: Sequence[Scores], calibrations: Sequence[Link | None]) -> "Said":
        """From the scores of each model, and how they become probabilities."""
        chances = prediction.log_probabilities(prediction.log_odds(found, calibrations))
        values = prediction.decision_values(found, calibrations)
        return Said(chances, values, np.stack([one.mean for one in found], axis=1))

    def replace(self, which: NDArray[np.intp], new: "Said") -> None:
        """Take over what others say of some rows."""
        for old, own in ((self.log_chances, new.log_chances), (self.values, new.values), (self.scores, new.scores)):
            old[which] = own

    @property
    def decided(self) -> NDArray[np.intp]:
        """The class that each row is assigned to."""
        one = self.values.shape[1] == 1
        return (self.values[:, 0] > 0).astype(np.intp) if one else self.values.argmax(axis=1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Sets of rows that are left out together, how that is called, and what makes the first order doubtful."""

    sets: Sequence[NDArray[np.intp]]
    method: str
    doubt: str | None = None
    folds: int | None = None


def plan(
    rows_of: Sequence[TrainingRows],
    found: Sequence[LeftOutScores],
    truth: NDArray[np.intp],
    numbers: NDArray[np.intp],
    refits: int | None,
    folds: int | None,
) -> Plan:
    """Which rows to leave out by refits: all of a small table, those of high leverage, or all in folds.

    ``numbers`` are those of the rows in the user's data. Without the only row of a class there would be no such class:
    it stays.
    """
    n, alone = len(truth), (np.bincount(truth)[truth] == 1) & (found[0].s <= 1.0)
    if refits is None:
        refits = REFITS if n * rows_of[0].source.n_core <= LARGE else REFITS_OF_LARGE
    doubt, n_refits = _doubt(rows_of, found), refits if all(rows.can_refit for rows in rows_of) else 0
    if folds is not None:
        return Plan(_folds(truth, numbers, ~alone, folds), f"{folds}-fold", doubt, folds)
    if n <= n_refits:
        return Plan([np.array([k]) for k in np.flatnonzero(~alone)], REFITTED)
    leverage = np.max([one.leverage for one in found if one.leverage is not None], axis=0)
    high = np.flatnonzero(~(leverage <= MOST_LEVERAGE) & ~alone)
    if doubt is None and len(high) > n_refits:
        doubt = f"{len(high)} observations have a leverage above {MOST_LEVERAGE:g}"
    if doubt is not None and n_refits >= FEWEST_FOLDS:
        return plan(rows_of, found, truth, numbers, refits, min(FOLDS, n_refits))
    if doubt is not None or not len(high):
        return Plan([], APPROXIMATE, doubt)
    return Plan([np.array([k]) for k in high], f"{APPROXIMATE}, {len(high)} observations refitted")


def _doubt(rows_of: Sequence[TrainingRows], found: Sequence[LeftOutScores]) -> str | None:
    """What makes the first order doubtful for all rows, or None."""
    rows, n = rows_of[0], len(found[0].f)
    gates, factors = rows.spec.gate_map, len(rows.source.groupings)
    if gates is not None and n < ROWS_FOR_AN_INPUT * gates.n_gates:
        return f"{gates.n_gates} predictors were selected from with {n} observations"
    if rows.n >= n:
        return f"there are {rows.n} columns and {n} observations"
    leverage = max(float(np.mean(one.leverage)) for one in found if one.leverage is not None)
    if not leverage <= MOST_MEAN_LEVERAGE:
        return f"the model has about {leverage * n:.0f} effective parameters for {n} observations"
    if any((one.y * one.fitted > 0).all() for one in found if one.fitted is not None):
        return "the classes are completely separated"
    if isinstance(rows.outcome, OptimizeResult) and rows.outcome.integrated:
        certain = float(np.mean(found[0].u)) <= MOST_VARIANCE
        return None if certain else "random effects are too uncertain for one step"
    return "variance components depend on single observations" if n < ROWS_FOR_A_FACTOR * factors else None


def _folds(
    truth: NDArray[np.intp], numbers: NDArray[np.intp], may_leave: NDArray[np.bool_], k: int
) -> list[NDArray[np.intp]]:
    """Rows in k sets with the classes in equal shares; the same for all models of the same rows."""
    drawn = np.random.default_rng(0).random(int(numbers.max()) + 1)[numbers]
    order = np.lexsort((drawn, truth))
    order = order[may_leave[order]]
    return [np.sort(order[begin::k]) for begin in range(min(k, len(order)))]


def predicted(
    rows_of: Sequence[TrainingRows], counts: Array, order: NDArray[np.intp], sets: Sequence[NDArray[np.intp]]
) -> Iterator[tuple[NDArray[np.intp], Said]]:
    """What fits without each set of rows say of these; rows are numbered as in ``order``, their places in the source.

    A row that is left out alone is one of the ``counts`` that it stands for; those of a fold are left out as a whole.
    The link from scores to probabilities is learned again.
    """
    first = rows_of[0].source
    assert not isinstance(first, Distributed)
    unit = np.arange(len(first.weights)) if first.candidates is None else first.candidates.row
    number = np.full(len(unit), -1)
    number[order] = np.arange(len(order))
    for which in sets:
        left = np.isin(unit, unit[order[which]]).astype(np.float64)
        share = min(1.0, 1.0 / float(counts[which[0]])) if len(which) == 1 else 1.0
        only = reweighted(first, left)
        with single_threaded_blas():
            try:
                fits = [rows.refitted(1.0 - share * left) for rows in rows_of]
            except (FloatingPointError, np.linalg.LinAlgError):  # without these rows the fit can't be made
                continue
            yield number[pass_order(only)], Said.of([fit.scores_of(only) for fit in fits], links(fits))
