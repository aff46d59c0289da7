"""The table of coefficients, on the user's scale."""

from typing import TYPE_CHECKING

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import Point
from vbsvm.design.columns import INTERCEPT, Plan
from vbsvm.model.spec import Spec, State
from vbsvm.results.intervals import Intervals, NormalIntervals
from vbsvm.results.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

# A posterior standard deviation that is more than this share of the prior's, of priors at least this wide.
PRIOR_DRIVEN, WEAK_VARIANCE, MOST_NAMED = 0.5, 1.0, 5


def table(
    plan: Plan, posterior: Posterior, intervals: Intervals, level: float, *, gates: bool, odds: bool
) -> "pd.DataFrame":
    """One row for each coefficient, the intercept first; ``gates`` add how likely each of them is included.

    ``odds`` adds the factor by which a unit of each column multiplies the odds.
    """
    import pandas as pd

    chances, names = [0.5 - 0.5 * level, 0.5 + 0.5 * level], plan.shown_names
    sd = np.sqrt(intervals.variances)
    mean, sd, lower, upper = map(plan.to_user_scale, (posterior.mean, sd, *map(intervals.quantiles, chances)))
    sign, inclusion = plan.shown(intervals.signs), plan.shown(posterior.inclusion)
    if plan.recipe.intercept:
        row = plan.intercept_row
        spread, (low, high), positive = intervals.combination(row, chances)
        mean, sd, names = np.r_[row @ posterior.mean, mean], np.r_[spread, sd], (INTERCEPT, *names)
        lower, upper = np.r_[low, lower], np.r_[high, upper]
        sign, inclusion = np.r_[positive, sign], np.r_[1.0, inclusion]
    columns = {"coefficient": mean, "sd": sd, "lower": lower, "upper": upper, "p_positive": sign}
    if odds:
        with np.errstate(over="ignore"):
            columns["odds_ratio"] = np.exp(mean)
    if gates:
        columns["inclusion"] = inclusion
    if (missing := missing_information(plan, intervals)) is not None:
        columns["missing_information"] = missing
    return pd.DataFrame(columns | posterior.diagnostics(), index=pd.Index(names))


def about_prior(plan: Plan, spec: Spec, state: State, intervals: Intervals) -> str:
    """What to know of columns with a given weak prior about which the data say little; empty where there are none."""
    prior = np.full(len(intervals.variances), np.inf)
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        if isinstance(scale, Point) and scale.value >= WEAK_VARIANCE:
            for columns in block.columns:
                prior[columns] = scale.value
    shares = plan.shown(np.sqrt(intervals.variances / prior))
    names = [name for name, share in zip(plan.shown_names, shares, strict=True) if share > PRIOR_DRIVEN]
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMED]) + f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
    return (
        f" The data say little about {shown}: the posterior standard deviation is more than half of the prior's, as "
        "with rare categories and collinear predictors. Estimates depend on the prior, and intervals may be far from "
        "those of the skewed posterior: use inference=Gibbs(), or give such terms a narrower prior."
    )


def missing_information(plan: Plan, intervals: Intervals) -> Array | None:
    """The share of each coefficient's variance that missing values cause, the intercept first; None without them."""
    between = intervals.between if isinstance(intervals, NormalIntervals) else None
    if between is None:
        return None
    total = intervals.covariance
    share = np.divide(between.diagonal(), total.diagonal(), out=np.zeros(len(total)), where=total.diagonal() > 0)
    found = plan.shown(share)
    if not plan.recipe.intercept:
        return found
    row = plan.intercept_row
    return np.r_[(row @ between @ row) / (row @ total @ row), found]


def covariance(plan: Plan, intervals: Intervals) -> "pd.DataFrame":
    """Covariance of the coefficients that the table shows, the intercept first, on the user's scale."""
    import pandas as pd

    design, names = intervals.covariance, plan.shown_names
    found = plan.covariance_to_user_scale(design)
    if plan.recipe.intercept:
        row = plan.intercept_row @ design
        beside = plan.to_user_scale(row)
        found = np.block([[np.array([[row @ plan.intercept_row]]), beside[None]], [beside[:, None], found]])
        names = (INTERCEPT, *names)
    return pd.DataFrame(found, index=list(names), columns=list(names))
