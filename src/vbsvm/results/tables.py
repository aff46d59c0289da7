"""Every table that users print, as a function of a fit: coefficients, variance components, random effects, tidy tables.

Numbers are on the scale of the user's columns. ``attrs["note"]`` says what the standard errors and intervals are.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import Point
from vbsvm.design.columns import INTERCEPT
from vbsvm.results.covariance import Intervals, NormalIntervals, covariance, log_variances
from vbsvm.results.notes import Notes, noted, of_components
from vbsvm.results.variance_components import narrow_terms

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

# A posterior standard deviation that is more than this share of the prior's, of priors at least this wide.
PRIOR_DRIVEN, WEAK_VARIANCE, MAX_NAMED = 0.5, 1.0, 5
# Of a table with more rows than this, as many are shown if a prior selects them, and else the second number.
MOST_ROWS, MOST_LARGEST = 60, 20
# Names in tidy tables, and those in a summary.
TIDY = {"estimate": "estimate", "std_error": "std_error", "conf_low": "lower", "conf_high": "upper"}
# Columns of odds ratios, and those of which they are the exponentials.
ODDS_RATIOS = {"odds_ratio": "estimate", "odds_ratio_lower": "lower", "odds_ratio_upper": "upper"}


def coefficients(fit: "Fit", level: float, kind: str | None) -> "pd.DataFrame":
    """One row for each coefficient, the intercept first: estimate, standard error, interval, and further columns."""
    import pandas as pd

    from vbsvm.results.summary_table import SummaryTable

    plan, posterior, intervals = fit.plan, fit.posterior, covariance(fit, kind)
    chances, names, odds = [0.5 - 0.5 * level, 0.5 + 0.5 * level], plan.shown_names, fit.spec.likelihood.normalised
    sd = np.sqrt(intervals.variances)
    mean, sd, lower, upper = map(plan.to_user_scale, (posterior.mean, sd, *map(intervals.quantiles, chances)))
    sign, inclusion = plan.shown(intervals.sign_probabilities), plan.shown(posterior.inclusion)
    if plan.recipe.intercept:
        row = plan.intercept_row
        spread, (low, high), positive = intervals.combination(row, chances)
        mean, sd, names = np.r_[row @ posterior.mean, mean], np.r_[spread, sd], (INTERCEPT, *names)
        lower, upper = np.r_[low, lower], np.r_[high, upper]
        sign, inclusion = np.r_[positive, sign], np.r_[1.0, inclusion]
    columns = {"estimate": mean, "std_error": sd, "lower": lower, "upper": upper}
    if intervals.notes.of_posterior:
        columns["p_positive"] = sign
    if odds:
        with np.errstate(over="ignore"):
            columns |= {ratio: np.exp(columns[name]) for ratio, name in ODDS_RATIOS.items()}
    if fit.selects:
        columns["inclusion"] = inclusion
    if (missing := missing_information(fit, intervals)) is not None:
        columns["missing_information"] = missing
    frame = SummaryTable(columns | posterior.diagnostics(), index=pd.Index(names))
    frame, starts = noted(frame, intervals.notes, level), fit.history.starts if fit.selects else []
    if fit.reader is not None or fit.classes[0] is not None:  # and not one model of several
        frame.attrs["note"] = f"{modelled_class(fit)} {frame.attrs['note']}"
    if odds and not posterior.by_draws:
        frame.attrs["note"] += _prior_note(fit, intervals)
    if len(starts) > 1:
        frame.attrs["starts"] = starts
    return frame


def modelled_class(fit: "Fit") -> str:
    """Sentence that names the class whose decision value or log odds the coefficients describe."""
    return f'Modelled class: "{fit.classes[1]!s}".'


def most_notable(table: "pd.DataFrame") -> "tuple[pd.DataFrame, str]":
    """The rows of a table to be printed, in their order, and a sentence on which they are, or ""."""
    if len(table) <= MOST_ROWS or "estimate" not in table:
        return table, ""
    if "inclusion" in table:
        size, why = table["inclusion"].to_numpy(), "inclusion probability above 0.5"
        n = int((size > 0.5).sum())
        if n > MOST_ROWS:
            n, why = MOST_ROWS, "the largest inclusion probabilities"
    else:
        size, n = (table["estimate"] / table["std_error"]).abs().fillna(0.0).to_numpy(), MOST_LARGEST
        why = "the largest estimates relative to their standard errors"
    rows = np.sort(np.argsort(-size, kind="stable")[:n])
    return table.iloc[rows], f"{len(table)} coefficients; shown are the {n} with {why}."


def _prior_note(fit: "Fit", intervals: Intervals) -> str:
    """Note on coefficients whose posterior is dominated by a fixed weak prior, or ""."""
    prior = np.full(len(intervals.variances), np.inf)
    for block, scale in zip(fit.spec.blocks, fit.posterior.state.scales, strict=True):
        if isinstance(scale, Point) and scale.value >= WEAK_VARIANCE:
            for columns in block.columns:
                prior[columns] = scale.value
    ratios = fit.plan.shown(np.sqrt(intervals.variances / prior))
    names = [name for name, ratio in zip(fit.plan.shown_names, ratios, strict=True) if ratio > PRIOR_DRIVEN]
    if not names:
        return ""
    shown = ", ".join(names[:MAX_NAMED]) + f" and {len(names) - MAX_NAMED} more" * (len(names) > MAX_NAMED)
    return (
        f" The data say little about {shown}: the posterior standard deviation is more than half of the prior's, as "
        "with rare categories and collinear predictors. Estimates depend on the prior, and intervals may be far from "
        "those of the skewed posterior: use inference=Gibbs(), or give such terms a narrower prior."
    )


def missing_information(fit: "Fit", intervals: Intervals) -> Array | None:
    """Fraction of each coefficient's variance due to missing values, the intercept first; None without such."""
    between = intervals.between if isinstance(intervals, NormalIntervals) else None
    if between is None:
        return None
    total = intervals.covariance
    fraction = np.divide(between.diagonal(), total.diagonal(), out=np.zeros(len(total)), where=total.diagonal() > 0)
    if not fit.plan.recipe.intercept:
        return fit.plan.shown(fraction)
    row = fit.plan.intercept_row
    return np.r_[(row @ between @ row) / (row @ total @ row), fit.plan.shown(fraction)]


def missing_fractions(fit: "Fit") -> dict[str, float]:
    """Fraction of missing information by coefficient, empty if tables do not show it."""
    fractions = missing_information(fit, covariance(fit))
    if fractions is None:
        return {}
    names = ((INTERCEPT,) if fit.plan.recipe.intercept else ()) + tuple(fit.plan.shown_names)
    return dict(zip(names, fractions.tolist(), strict=True))


def coefficient_covariance(fit: "Fit", kind: str | None) -> "pd.DataFrame":
    """Covariance of the coefficients in the table, the intercept first."""
    import pandas as pd

    plan, design = fit.plan, covariance(fit, kind).covariance
    names, matrix = plan.shown_names, plan.covariance_to_user_scale(design)
    if plan.recipe.intercept:
        row = plan.intercept_row @ design
        covariances = plan.to_user_scale(row)
        matrix = np.block([[np.array([[row @ plan.intercept_row]]), covariances[None]], [covariances[:, None], matrix]])
        names = (INTERCEPT, *names)
    return pd.DataFrame(matrix, index=list(names), columns=list(names))


def components(fit: "Fit", level: float) -> "pd.DataFrame":
    """Standard deviations of random effects and splines with their intervals, and correlations."""
    table = fit.posterior.variance_components(level, _log_variances(fit))
    return noted(table, component_notes(fit), level)


def printed_components(fit: "Fit", level: float = 0.95) -> "pd.DataFrame":
    """Table of variance components as printed: without the column of notes if that is empty."""
    table = components(fit, level)
    return table if narrow_terms(table) else table.drop(columns="note", errors="ignore")


def _log_variances(fit: "Fit") -> dict[str, float]:
    """Standard deviations of log σ² by linear response, if the model has variance components."""
    return log_variances(fit) if len(fit.posterior.variance_components(0.5)) else {}


def component_notes(fit: "Fit") -> Notes:
    """Notes on the variance components."""
    narrow = bool(narrow_terms(fit.posterior.variance_components(0.5)))
    return of_components(fit.posterior.notes, narrow=narrow, by_response=narrow or bool(_log_variances(fit)))


def random_effects(fit: "Fit", factor: str | None = None, level: float = 0.95) -> "pd.DataFrame":
    """Random effects of one factor, or of all by factor, group and effect, with normal intervals."""
    names = [plan_of_factor.name for plan_of_factor in fit.plan.factors]
    if factor is not None and factor not in names:
        raise ValueError(f"random_effects: there is no factor {factor!r}; there are {names}.")
    if not names:
        raise ValueError("random_effects: the model has no groups.")
    chosen = names if factor is None else [factor]
    frames = [_effects_of_factor(fit, names.index(name)) for name in chosen]
    table = frames[0] if len(chosen) == 1 else _stack_factors(fit, frames)
    half = ndtri(0.5 + 0.5 * level) * table["std_error"]
    table = table.assign(lower=table["estimate"] - half, upper=table["estimate"] + half)
    return noted(table, fit.posterior.notes, level)


def _stack_factors(fit: "Fit", frames: "list[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    pieces = []
    for factor, frame in zip(fit.plan.factors, frames, strict=True):
        several = len(factor.effects) > 1
        rows = [label if isinstance(label, tuple) else (label,) for label in frame.index]
        groups = [":".join(map(str, row[:-1] if several else row)) for row in rows]
        effects = [row[-1] for row in rows] if several else [factor.effects[0]] * len(rows)
        levels = [factor.name] * len(rows), groups, effects
        pieces.append(frame.set_axis(pd.MultiIndex.from_arrays(levels, names=["factor", "group", "effect"])))
    return pd.concat(pieces)


def _effects_of_factor(fit: "Fit", k: int) -> "pd.DataFrame":
    import pandas as pd

    factor, begin, units = fit.plan.factors[k], fit.plan.first_effects()[k], fit.plan.units(fit.plan.factors[k])
    shape = len(factor.levels), len(factor.slopes)
    mean, sd = (moment.reshape(shape) for moment in fit.posterior.effects(slice(begin, begin + factor.size)))
    labels = factor.levels.labels
    several = len(factor.columns) > 1
    index = pd.MultiIndex.from_tuples(labels, names=factor.columns) if several else pd.Index(labels, name=factor.name)
    frames = {
        name: pd.DataFrame({"estimate": mean[:, j] * units[j], "std_error": sd[:, j] * units[j]}, index=index)
        for j, name in enumerate(factor.effects)
    }
    if len(frames) == 1:
        return next(iter(frames.values()))
    table = pd.concat(frames, names=["effect"])
    order = list(range(1, table.index.nlevels))
    return table.reorder_levels([*order, 0]).sort_index(kind="stable", sort_remaining=False)


def tidy(fit: "Fit", level: float, kind: str | None, exponentiate: bool) -> "pd.DataFrame":
    """The numbers of ``coefficients`` as broom names them: term, estimate, std_error, conf_low, conf_high."""
    import pandas as pd

    if exponentiate and not fit.spec.likelihood.normalised:
        raise ValueError(
            "tidy: exponentiate=True gives odds ratios, and scores of the hinge loss are no log odds: use "
            'VBLogistic, or Model(…, likelihood="logistic").'
        )
    summary = fit.summary(level, kind)
    columns: dict[str, Any] = {"term": [str(name) for name in summary.index]}
    for name, column in TIDY.items():
        values = summary[column].to_numpy()
        with np.errstate(over="ignore"):
            columns[name] = np.exp(values) if exponentiate and name != "std_error" else values
    table = pd.DataFrame(columns)
    table.attrs = dict(summary.attrs)
    return table


def glance(fit: "Fit") -> "pd.DataFrame":
    """One row about the model as a whole; ``elbo`` is NaN where there is no bound."""
    import pandas as pd

    bounds, power = fit.history.bounds, fit.likelihood_power
    row = {
        "n_rows": np.nan if fit.facts is None else float(fit.facts.n_rows),
        "n_terms": len(fit.coef) + int(fit.plan.recipe.intercept),
        "elbo": float(bounds[-1]) if len(bounds) else np.nan,
        "converged": bool(fit.converged),
    }
    return pd.DataFrame([row if power == 1.0 else row | {"likelihood_power": power}])


def by_class(frames: "list[pd.DataFrame]", classes: Any) -> "pd.DataFrame":
    """Tidy tables of models one below the other, with the class as the first column."""
    import pandas as pd

    if len(frames) == 1:
        return frames[0]
    for label, frame in zip(classes, frames, strict=True):
        frame.insert(0, "class", [label] * len(frame))
    table = pd.concat(frames, ignore_index=True)
    table.attrs = dict(frames[0].attrs)
    return table


def like(data: Any, table: Any) -> Any:
    """Convert a pandas table to polars if the data are a polars frame; a named index becomes columns."""
    if type(data).__module__.partition(".")[0] != "polars":  # which need not be imported to know it
        return table
    import polars as pl

    names = [name or "row" for name in table.index.names]
    frame = table if names == ["row"] else table.reset_index(names=names)
    return pl.DataFrame({str(name): frame[name].tolist() for name in frame.columns})


def like_rows(fit: "Fit", table: "pd.DataFrame") -> Any:
    """Convert a table to the frame type of the training data, if these are in memory."""
    return like(None if fit._rows is None else fit._rows.data, table)
