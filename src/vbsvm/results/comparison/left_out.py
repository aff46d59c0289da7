"""Left-out predictions and their measures: losses of rows, means, and standard errors of these."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.base.arrays import Array

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Weighted mean of losses over rows, and each row's deviation from it; ``counts`` are the rows' weights."""

    value: float
    deviations: Array
    counts: Array

    @property
    def se(self) -> float:
        """Standard error, with rows as independent units; a weight of k counts as k rows."""
        total = float(self.counts.sum())
        if not total > 1:
            return np.nan
        return float(np.sqrt(total / (total - 1) * (self.counts @ np.square(self.deviations))))

    def group_se(self, groups: NDArray[np.intp]) -> float:
        """Standard error with groups as independent units: deviations are summed within each of them."""
        sums = np.bincount(groups, self.counts * self.deviations)[np.unique(groups)]
        if len(sums) < 2:
            return np.nan
        return float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()))

    def __sub__(self, other: "Measure") -> "Measure":
        """The paired difference: the same rows under two models."""
        return Measure(self.value - other.value, self.deviations - other.deviations, self.counts)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPredictions:
    """Predicted classes and log probabilities of rows by fits without them, in the order of the user's data.

    ``rows`` are the rows' numbers in the data, ``labels`` their classes, ``weights`` the numbers of rows that each
    stands for, and ``groups`` the number of each row's group, by the name of the factor. ``scheme`` says how rows were
    left out. ``bound`` is that of the fit to all rows, NaN where there is none, and ``powers`` are those of its
    likelihoods. ``method`` is "refitted" (a refit
    without each observation), "approximate" (one step from the fit to all), "approximate, 12 observations refitted" or
    "50-fold"; ``doubt`` says why the approximation alone is not reliable here, or is None; ``folds`` is their number.
    """

    scheme: str
    rows: NDArray[np.intp]
    labels: NDArray[Any]
    weights: Array
    predicted: NDArray[Any]
    log_probability: Array  # of each row's own class
    groups: Mapping[str, NDArray[np.intp]]
    bound: float = np.nan
    powers: tuple[float, ...] = ()
    method: str = ""
    doubt: str | None = None
    folds: int | None = None

    def __repr__(self) -> str:
        """How many observations there are, how they were left out, and both measures."""
        measures = {"log-loss": self.log_loss, "balanced error": self.balanced_error}
        measures_text = ", ".join(
            f"{name} {measure.value:.4f} ± {measure.se:.4f}" for name, measure in measures.items()
        )
        return f"<LeftOutPredictions of {len(self.rows)} observations, {self.method or self.scheme}: {measures_text}>"

    def take(self, which: NDArray[Any]) -> "LeftOutPredictions":
        """Select rows."""
        names = ("rows", "labels", "weights", "predicted", "log_probability")
        groups = {name: of_rows[which] for name, of_rows in self.groups.items()}
        return replace(self, groups=groups, **{name: getattr(self, name)[which] for name in names})

    @property
    def log_loss(self) -> Measure:
        """Mean of minus the log probability of the rows' own classes."""
        return self._mean(-self.log_probability)

    @property
    def accuracy(self) -> Measure:
        """Accuracy: proportion of correctly classified rows."""
        return self._mean(1.0 - self._errors)

    @property
    def error(self) -> Measure:
        """Misclassification rate."""
        return self._mean(self._errors)

    @property
    def balanced_error(self) -> Measure:
        """Balanced error: mean over the classes of their misclassification rates."""
        classes, codes = np.unique(self.labels, return_inverse=True)
        totals = np.bincount(codes, self.weights)
        shares = np.bincount(codes, self.weights * self._errors) / totals
        deviations = (self._errors - shares[codes]) / (len(classes) * totals[codes])
        return Measure(float(shares.mean()), deviations, self.weights)

    @property
    def _errors(self) -> Array:
        return (self.predicted != self.labels).astype(np.float64)

    def _mean(self, losses: Array) -> Measure:
        total = float(self.weights.sum())
        value = float(self.weights @ losses) / total
        return Measure(value, (losses - value) / total, self.weights)


MEASURES = ("log_loss", "balanced_error", "accuracy")
# How the columns are headed where they are printed.
HEADS = {
    "log_loss": "log loss",
    "log_loss_se": "loss se",
    "balanced_error": "balanced error",
    "balanced_error_se": "error se",
    "accuracy": "correct",
    "accuracy_se": "correct se",
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """Cross-validated predictions and measures; ``compare_models`` compares several of them.

    ``table`` has log-loss, balanced error and accuracy by fold and in all, with standard errors; with groups, these are
    taken as independent units, else rows are. ``predictions`` has a row for each row left out: its fold, outcome,
    predicted class, and the probability of the class in ``attrs["note"]``.
    """

    formula: str
    table: "pd.DataFrame"
    predictions: "pd.DataFrame"
    note: str
    _left_out: LeftOutPredictions

    def left_out_predictions(self) -> LeftOutPredictions:
        """The same predictions as ``compare_models`` takes them."""
        return self._left_out

    def __repr__(self) -> str:
        """Formula, table and a note on its standard errors."""
        table = self.table.rename(columns=HEADS)
        return f"{printing.visible(self.formula)}\n\n{printing.table(table)}\n\n{printing.wrap_text(self.note)}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return (
            printing.html_frame(self.formula, self.table.rename(columns=HEADS), len(self.table))
            + f"<p>{printing.html_text(self.note)}</p>"
        )


def measures_by_fold(left_out: LeftOutPredictions, folds: NDArray[np.intp], groups: str | None) -> "pd.DataFrame":
    """Measures by fold and in all; the balanced error is NaN in a fold that lacks a class."""
    import pandas as pd

    names = [*map(str, np.unique(folds)), "all"]
    parts = [*(left_out.take(folds == fold) for fold in np.unique(folds)), left_out]
    lines = []
    for part in parts:
        line: dict[str, float] = {"rows": len(part.rows)}
        for name in MEASURES:
            measure = getattr(part, name)
            se = measure.se if groups is None else measure.group_se(part.groups[groups])
            line |= {name: measure.value, f"{name}_se": se}
        if len(np.unique(part.labels)) < len(np.unique(left_out.labels)):
            line |= {"balanced_error": np.nan, "balanced_error_se": np.nan}
        lines.append(line)
    return pd.DataFrame(lines, index=pd.Index(names, name="fold"))
