"""Default priors: bias in small samples, and how little they move estimates where data are plentiful."""

import numpy as np
import pandas as pd

from benchmarks.real_data import tables
from benchmarks.truth_effects import SMALL
from benchmarks.truth_table import Design, Line, Numbers, Target, at_most, average, coverage, largest, percent, recorded
from vbsvm import Model, Normal

# Real tables with more than 30 observations a predictor.
TABLES = (
    "diabetes",
    "toenail, no groups",
    "cardiac, complete",
    "affairs",
    "votes",
    "travel by air",
    "doctor visits",
    "spam",
    "iris",
)
MOST_MOVED = 0.05


def plentiful(seed: int) -> Numbers:
    """A real table: the largest move of a coefficient from where flat priors put it, in standard errors.

    Of three classes or more the second is modelled against the rest. Without the table there is no number.
    """
    number = seed % len(TABLES)
    try:
        X, y = tables([TABLES[number]])[TABLES[number]]
    except (KeyError, ImportError):
        return {}
    data = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    data["y"] = y == np.unique(y)[1]
    with recorded():
        ours = Model("y ~ .", data, likelihood="logistic").fit().summary()
        flat = Model("y ~ .", data, {"fixed": Normal(1e8)}, likelihood="logistic").fit().summary()
    error = (flat["upper"] - flat["lower"]) / (2 * 1.959964)
    moved = float((np.abs(ours["estimate"] - flat["estimate"]) / error).max())
    return {"table": float(number), "moved": moved, "within": float(moved <= MOST_MOVED), "rows": len(X) / X.shape[1]}


PLENTIFUL = "plentiful data"
DESIGNS = (Design(PLENTIFUL, plentiful, len(TABLES)),)
WITHIN_A_QUARTER = Target(0.75, 1.25, ".75 to 1.25")
LINES = (
    Line(SMALL, "n = 40, true slope 1, default: estimate", "default_estimate", average, WITHIN_A_QUARTER),
    Line(SMALL, "… coverage", "default_held", percent, coverage(0.92)),
    Line(
        SMALL, 'n = 40, true slope 1, likelihood="logistic": estimate', "logistic_estimate", average, WITHIN_A_QUARTER
    ),
    Line(SMALL, "… coverage", "logistic_held", percent, coverage(0.92)),
    Line(PLENTIFUL, "real tables, n/p > 30: moved by ≤ .05 s.e. from flat priors", "within", percent),
    Line(PLENTIFUL, "… largest move in s.e.", "moved", largest, at_most(MOST_MOVED)),
    *(
        Line(PLENTIFUL, f"… {name}", "moved", largest, at_most(MOST_MOVED), {"table": number})
        for number, name in enumerate(TABLES)
    ),
)
