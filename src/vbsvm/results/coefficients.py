"""The table of coefficients, on the user's scale."""

from typing import TYPE_CHECKING

import numpy as np

from vbsvm.design.columns import INTERCEPT, Plan
from vbsvm.results.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd


def table(plan: Plan, posterior: Posterior, level: float, *, gates: bool) -> "pd.DataFrame":
    """One row for each coefficient, the intercept first; ``gates`` add how likely each of them is included."""
    import pandas as pd

    chances, names = [0.5 - 0.5 * level, 0.5 + 0.5 * level], plan.shown_names
    sd = np.sqrt(posterior.variances)
    mean, sd, lower, upper = map(plan.to_user_scale, (posterior.mean, sd, *map(posterior.quantiles, chances)))
    sign, inclusion = plan.shown(posterior.signs), plan.shown(posterior.inclusion)
    if plan.recipe.intercept:
        row = plan.intercept_row
        spread, (low, high), positive = posterior.combination(row, chances)
        mean, sd, names = np.r_[row @ posterior.mean, mean], np.r_[spread, sd], (INTERCEPT, *names)
        lower, upper = np.r_[low, lower], np.r_[high, upper]
        sign, inclusion = np.r_[positive, sign], np.r_[1.0, inclusion]
    columns = {"coefficient": mean, "sd": sd, "lower": lower, "upper": upper, "p_positive": sign}
    if gates:
        columns["inclusion"] = inclusion
    return pd.DataFrame(columns | posterior.diagnostics(), index=pd.Index(names))
