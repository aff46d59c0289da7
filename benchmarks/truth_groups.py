"""New levels of a grouping factor: uncertainty of the linear predictor, and log-loss compared with a base rate."""

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.truth_table import (
    Array,
    Design,
    Line,
    Numbers,
    at_most,
    average,
    averaged_over,
    bernoulli,
    largest,
    percent,
    recorded,
)
from vbsvm import Model, Variational, cross_validate

ROWS_A_GROUP, NEW_ROWS, NEW_GROUP = 5, 400, 10**6
MOST_EXCESS = 0.01
NO_SLOPE = "y ~ (1 | g)"
WITH_SLOPE = "y ~ x + (1 | g)"
WITHOUT_GROUPS = {NO_SLOPE: "y ~ 1", WITH_SLOPE: "y ~ x"}
# Formula, number of groups, sd of their intercepts, fixed intercept and slope: 10 to 15 % positive outcomes.
CELLS = [(NO_SLOPE, n, sd, b0, 0.0) for n in (5, 20, 50, 200) for sd, b0 in ((0.3, -2.0), (1.0, -2.2))]
CELLS.append((WITH_SLOPE, 50, 0.3, -2.2, 0.8))


def _frame(
    rng: np.random.Generator, groups: int, sd: float, b0: float, b1: float, size: int = ROWS_A_GROUP
) -> pd.DataFrame:
    """Groups with random intercepts, drawn again until both classes are there."""
    g = np.repeat(np.arange(groups), size)
    while True:
        x = rng.normal(size=len(g))
        y = bernoulli(rng, b0 + b1 * x + sd * rng.normal(size=groups)[g])
        if 0 < y.sum() < len(y):
            return pd.DataFrame({"y": y, "x": x, "g": g})


def _expected_loss(truth: Array, predicted: Array) -> float:
    with np.errstate(divide="ignore"):
        return float(np.mean(-truth * np.log(predicted) - (1 - truth) * np.log1p(-predicted)))


def _judged(formula: str, data: pd.DataFrame, rng: np.random.Generator, truth: tuple, likelihood: str) -> Numbers:
    """Fit, and predict rows of a new group; the log-loss is the expected one over all groups that there may be.

    ``plain`` is the same model without groups: whether a target can be reached at all.
    """
    sd, b0, b1 = truth
    inference = Variational(bound="exact") if likelihood == "hinge" else None
    x = rng.normal(size=NEW_ROWS) if b1 else np.zeros(1)
    new = pd.DataFrame({"x": x, "g": NEW_GROUP})
    with recorded():
        fit = Model(formula, data, likelihood=likelihood).fit(inference)
        upper = float(fit.variance_components()["upper"].iloc[0])
        spread = fit.decision_function(new, return_std=True)[1]
        chances = fit.predict_proba(new)[:, 1]
        plain = Model(WITHOUT_GROUPS[formula], data, likelihood=likelihood).fit(inference).predict_proba(new)[:, 1]
    expected = averaged_over(sd, expit, b0 + b1 * x)
    base = _expected_loss(expected, np.full(len(x), data["y"].mean()))
    excess = _expected_loss(expected, chances) - base
    return {
        "extreme": float(not np.all(spread <= 3 * upper)),
        "half": float(np.mean(np.abs(chances - 0.5) < 1e-6)),
        "excess": excess,
        "above": float(excess > MOST_EXCESS),
        "plain_above": float(_expected_loss(expected, plain) - base > MOST_EXCESS),
        "groups": float(data["g"].nunique()),
    }


def _cross_validated(formula: str, data: pd.DataFrame, seed: int) -> Numbers:
    """Log-loss of groups left out, minus that of the base rate in the other folds; nothing if a fold lacks a class."""
    folds, numbers = int(min(5, data["y"].sum())), {}
    if folds < 2:
        return {}
    y = data["y"].to_numpy()
    for prefix, text in {"cv": formula, "plain_cv": WITHOUT_GROUPS[formula]}.items():
        with recorded():
            try:
                model = Model(text, data, likelihood="logistic")
                found = cross_validate(model, folds, groups="g", random_state=seed)
            except ValueError:
                return {}
        fold = found.predictions["fold"].to_numpy()
        base = np.array([y[fold != k].mean() for k in fold])
        excess = float(found.table.loc["all", "log_loss"] - np.mean(-np.log(np.where(y > 0, base, 1 - base))))
        numbers |= {f"{prefix}_excess": excess, f"{prefix}_above": float(excess > MOST_EXCESS)}
    return numbers


def new_groups(seed: int) -> Numbers:
    """One of the cells, in turn."""
    rng = np.random.default_rng(seed)
    formula, groups, sd, b0, b1 = CELLS[seed % len(CELLS)]
    data = _frame(rng, groups, sd, b0, b1)
    return {**_judged(formula, data, rng, (sd, b0, b1), "logistic"), **_cross_validated(formula, data, seed)}


def new_groups_hinge(seed: int) -> Numbers:
    """The same by the hinge and its exact bound."""
    rng = np.random.default_rng(seed)
    formula, groups, sd, b0, b1 = CELLS[seed % len(CELLS)]
    return _judged(formula, _frame(rng, groups, sd, b0, b1), rng, (sd, b0, b1), "hinge")


def one_group(seed: int) -> Numbers:
    """A factor with one level, which tells nothing about other levels."""
    rng = np.random.default_rng(seed)
    b0, b1 = -1.0, 0.8
    x = rng.normal(size=50)
    data = pd.DataFrame({"y": bernoulli(rng, b0 + b1 * x), "x": x, "g": 0})
    return _judged(WITH_SLOPE, data, rng, (0.0, b0, b1), "logistic")


def small_groups(seed: int) -> Numbers:
    """Groups of three to five rows with some 12 % positive outcomes, and a slope: is any standard error absurd?"""
    rng = np.random.default_rng(seed)
    groups, size = ((10, 5), (20, 3), (40, 3))[seed % 3]
    data = _frame(rng, groups, 0.3, -2.2, 0.8, size)
    while data["y"].sum() < 2:
        data = _frame(rng, groups, 0.3, -2.2, 0.8, size)
    model = Model(WITH_SLOPE, data, likelihood="logistic")
    with recorded():
        fit, exact = model.fit().summary(), model.fit(Variational(bound="exact")).summary()
    return {"absurd": float((fit["std_error"] > 3 * exact["std_error"]).any())}


NEW, HINGE, ONE, SMALL = "new groups", "new groups, hinge", "one group", "small groups"
DESIGNS = (
    Design(NEW, new_groups, 1200),
    Design(HINGE, new_groups_hinge, 300),
    Design(ONE, one_group, 100),
    Design(SMALL, small_groups, 600),
)
EXTREME, HALF = "sd of a new group's linear predictor > 3 × upper limit of σ", "probability of a new group exactly .5"
NONE, BASE = at_most(0.0, "0"), f"expected log-loss − base rate's > {MOST_EXCESS:g}"
LINES = (
    Line(NEW, f"logistic: {EXTREME}", "extreme", percent, NONE),
    *(Line(NEW, f"… {n} groups of 5", "extreme", percent, NONE, {"groups": n}) for n in (5, 20, 50, 200)),
    Line(NEW, f"logistic: {HALF}", "half", percent, NONE),
    Line(NEW, f"logistic: {BASE}", "above", percent, NONE),
    *(Line(NEW, f"… {n} groups of 5", "above", percent, NONE, {"groups": n}) for n in (5, 20, 50, 200)),
    Line(NEW, "… by the model without groups", "plain_above"),
    Line(NEW, "logistic: the same difference, largest", "excess", largest, at_most(MOST_EXCESS)),
    Line(NEW, "logistic: cross_validate(groups=), log-loss − base rate's", "cv_excess", average, at_most(MOST_EXCESS)),
    Line(NEW, f"… > {MOST_EXCESS:g}", "cv_above", percent, NONE),
    Line(NEW, "… by the model without groups", "plain_cv_above"),
    Line(NEW, "… largest", "cv_excess", largest, at_most(MOST_EXCESS)),
    Line(HINGE, f"hinge: {EXTREME}", "extreme", percent, NONE),
    Line(HINGE, f"hinge: {HALF}", "half", percent, NONE),
    Line(HINGE, f"hinge: {BASE}", "above", percent),
    Line(HINGE, "… by the model without groups", "plain_above"),
    Line(SMALL, "10 × 5, 20 × 3, 40 × 3: a standard error > 3 × the exact bound's", "absurd", percent, NONE),
    Line(ONE, f"one group, logistic: {EXTREME}", "extreme", percent, NONE),
    Line(ONE, f"one group, logistic: {HALF}", "half", percent, NONE),
)
