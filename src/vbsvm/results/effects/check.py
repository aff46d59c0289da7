"""Whether probabilities agree with the data: mean predictions against observed proportions in cells of observations.

A support vector machine learns which class is likelier, and not how likely it is. So effects of a hinge fit are checked
where they are asked for: within the levels of the variables (fifths of numbers with many values) and of ``by``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.inference.covariance.kinds import ADVICE
from vbsvm.results.comparison.leave_one_out import left_out_rows
from vbsvm.results.effects.rows import EffectRows, GivenRows, groups_of, is_discrete
from vbsvm.results.fit_predictions import observed_classes

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit

# Mean prediction and observed proportion of a cell may differ by this much, whatever chance says.
TOLERANCE = 0.03
LEVEL = 0.05
# Numbers with many values are cut into as many parts of equal size.
N_PARTS = 5
CHECKED = "Mean predictions and observed proportions agree in the cells of the variables."
NOT_CHECKED = (
    "The probabilities were not checked against observed proportions, as no observations with known outcome are "
    "available."
)


@final
@dataclass(frozen=True, eq=False)
class Misfit:
    """Cell with the largest z² between mean prediction and observed proportion."""

    cell: int
    predicted: float
    observed: float
    n: float


def misfit(
    codes: NDArray[np.intp],
    chances: Array,
    positive: Array,
    weights: Array,
    groups: Sequence[NDArray[np.intp]] = (),
    level: float = LEVEL,
) -> Misfit | None:
    """Test calibration in cells by χ²: the worst cell, or None if the test does not reject.

    The statistic is the sum of z² over the cells in which mean prediction and observed proportion differ by more than
    the tolerance, compared with χ² of as many degrees of freedom as there are cells. A cell's variance is that of the
    labels given the predictions, and at least that of its observed proportion (two observations added, one of each
    class) and that of independent groups. Observations of no cell have the code −1.
    """
    inside = codes >= 0
    names, codes = np.unique(codes[inside], return_inverse=True)
    chances, positive, weights = chances[inside], positive[inside], weights[inside]

    def total(of_rows: Array) -> Array:
        return np.bincount(codes, of_rows, minlength=len(names)).astype(np.float64)

    n, n_predicted, n_observed = total(weights), total(weights * chances), total(weights * positive)
    smoothed = (n_observed + 1.0) / (n + 2.0)
    variance = np.maximum(total(weights * chances * (1.0 - chances)), n * smoothed * (1.0 - smoothed))
    residuals = weights * (positive - chances)
    for of_rows in groups:
        pairs, pair = np.unique(codes + len(names) * of_rows[inside], return_inverse=True)
        squares = np.square(np.bincount(pair, residuals))
        variance = np.maximum(variance, np.bincount(pairs % len(names), squares, minlength=len(names)))
    predicted, observed = n_predicted / n, n_observed / n
    squares = np.where(np.abs(predicted - observed) > TOLERANCE, np.square(n_predicted - n_observed) / variance, 0.0)
    if not chi2.sf(squares.sum(), len(names)) < level:
        return None
    worst = int(np.argmax(squares))
    return Misfit(int(names[worst]), float(predicted[worst]), float(observed[worst]), float(n[worst]))


def quantile_bins(values: Array) -> NDArray[np.intp]:
    """Quintile of each number, or fewer bins if numbers are tied; −1 if missing."""
    known = np.isfinite(values)
    edges = np.unique(np.quantile(values[known], np.arange(1, N_PARTS) / N_PARTS)) if known.any() else np.empty(0)
    return np.where(known, np.searchsorted(edges, values), -1)


@final
@dataclass(frozen=True, eq=False)
class KnownRows:
    """Observations with outcomes and predicted probabilities, rows × classes; for two classes the second only.

    ``left_out`` marks leave-one-out predictions of training rows; else the rows are new to the fit.
    """

    rows: EffectRows
    truth: Array
    chances: Array
    groups: tuple[NDArray[np.intp], ...]
    left_out: bool

    @staticmethod
    def from_training(fits: "Sequence[Fit]", rows: EffectRows, given: GivenRows) -> "KnownRows | None":
        """Training observations with leave-one-out predictions; None if not available for every row."""
        try:
            left_out = left_out_rows(fits)
        except ValueError:  # the data have been changed since
            return None
        if left_out.rows is None or given.kept is None or not np.array_equal(left_out.rows, given.kept):
            return None
        truth = (left_out.truth[:, None] == np.arange(left_out.log_probabilities.shape[1])).astype(np.float64)
        classes = slice(1, None) if len(fits) == 1 else slice(None)
        chances, groups = np.exp(left_out.log_probabilities[:, classes]), tuple(left_out.groups.values())
        return KnownRows(rows, truth[:, classes], chances, groups, left_out=True)

    @staticmethod
    def from_new_data(fit: "Fit", rows: EffectRows, given: GivenRows) -> "KnownRows | None":
        """Observations of new data, or None if these lack the outcome."""
        if fit.reader is None or fit.reader.parts.outcome not in frames.names_of(given.data):
            return None
        try:
            truth = observed_classes(fit, given.data) == fit.classes[1]
        except (ValueError, TypeError):  # some outcomes are missing, or are none of the classes
            return None
        truth = truth if given.kept is None else truth[given.kept]
        encoded = rows.encoded({})
        groups = encoded.levels if encoded.candidates is None else ()
        chances = fit.predict_proba(encoded)[:, 1:]
        return KnownRows(rows, truth[:, None].astype(np.float64), chances, groups, left_out=False)

    def observed(self, values: Sequence[tuple[str, Any]], codes: NDArray[np.intp], n_groups: int) -> Array:
        """Observed class proportions among rows with these values, by group of rows; NaN without such rows.

        A number with many values has no cells: there the proportions are NaN.
        """
        inside = codes >= 0
        for name, value in values:
            inside &= np.asarray(self.rows.column(name) == value, dtype=bool) & is_discrete(self.rows, name)
        weights = self.rows.weights * inside
        of_classes, codes = weights * self.truth.T, codes[inside]
        total, *sums = (np.bincount(codes, of[inside], minlength=n_groups) for of in (weights, *of_classes))
        with np.errstate(invalid="ignore"):
            return (np.stack(sums) / total).T.ravel()

    def caution(self, what: str, variables: Sequence[str], by: Sequence[str], classes: NDArray[Any]) -> str | None:
        """Caution if probabilities are not calibrated in the cells of these variables, or None."""
        codes, labels = self._cells(what, variables, by)
        checked = classes[1:] if self.chances.shape[1] == 1 else classes
        for k, label in enumerate(checked):
            columns = self.chances[:, k], self.truth[:, k], self.rows.weights, self.groups, LEVEL / len(checked)
            worst = misfit(codes, *columns)
            if worst is not None:
                how = ", each predicted without itself" if self.left_out else ""
                return (
                    f"The mean predicted probability of {label!s} is {worst.predicted:.3f} where {labels[worst.cell]}, "
                    f"and the observed proportion is {worst.observed:.3f} ({worst.n:g} observations{how}): the "
                    f"probabilities of this SVM, and effects on them, may mislead. {ADVICE}"
                )
        return None

    def _cells(self, what: str, variables: Sequence[str], by: Sequence[str]) -> tuple[NDArray[np.intp], dict[int, str]]:
        """Cell of each row, −1 if a value is missing, and the labels of cells."""
        codes, keys = groups_of(what, self.rows, by)
        labels = [", ".join(f"{name} is {value!s}" for name, value in zip(by, key, strict=True)) for key in keys]
        for name in variables:
            levels, names = self._levels(name)
            crossed = np.where((codes >= 0) & (levels >= 0), codes * len(names) + levels, -1)
            labels = [", ".join(filter(None, (one, label))) for label in labels for one in names]
            codes = crossed
        return codes, dict(enumerate(labels))

    def _levels(self, name: str) -> tuple[NDArray[np.intp], list[str]]:
        """Level or bin of each row in a variable, and the labels of these."""
        import pandas as pd

        column = self.rows.column(name)
        if is_discrete(self.rows, name):
            codes, levels = pd.factorize(column, sort=True)
            return codes.astype(np.intp), [
                f"{name} is {level:g}" if isinstance(level, float) else f"{name} is {level!s}" for level in levels
            ]
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        codes = quantile_bins(values)
        ends = [values[codes == k] for k in range(int(codes.max()) + 1)]
        return codes, [f"{name} is {values_of_part.min():.4g} to {values_of_part.max():.4g}" for values_of_part in ends]
