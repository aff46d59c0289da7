"""What a cross-validation found: measures by fold and in all, and the predictions of the rows left out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import printing
from vbsvm.results.left_out_predictions import LeftOutPredictions

if TYPE_CHECKING:
    import pandas as pd

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
    """Predictions of rows by fits to other folds. ``compare_models`` sets several of them beside each other.

    ``table`` has log-loss, balanced error and accuracy by fold and in all, with standard errors; with groups, these are
    taken as independent units, else rows are. ``predictions`` has a row for each row left out: its fold, outcome,
    predicted class, and the probability of the class that the corner names.
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
        shown = self.table.rename(columns=HEADS)
        return f"{printing.visible(self.formula)}\n\n{printing.table(shown)}\n\n{printing.wrapped(self.note)}"

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return (
            printing.html_frame(self.formula, self.table.rename(columns=HEADS), len(self.table))
            + f"<p>{printing.html_text(self.note)}</p>"
        )


def summarised(found: LeftOutPredictions, folds: NDArray[np.intp], groups: str | None) -> "pd.DataFrame":
    """Measures by fold and in all; the balanced error is NaN in a fold that lacks a class."""
    import pandas as pd

    names = [*map(str, np.unique(folds)), "all"]
    parts = [*(found.take(folds == fold) for fold in np.unique(folds)), found]
    lines = []
    for part in parts:
        line: dict[str, float] = {"rows": len(part.rows)}
        for name in MEASURES:
            measure = getattr(part, name)
            se = measure.se if groups is None else measure.group_se(part.groups[groups])
            line |= {name: measure.value, f"{name}_se": se}
        if len(np.unique(part.labels)) < len(np.unique(found.labels)):
            line |= {"balanced_error": np.nan, "balanced_error_se": np.nan}
        lines.append(line)
    return pd.DataFrame(lines, index=pd.Index(names, name="fold"))
