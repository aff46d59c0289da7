"""Marginal effects: coverage of risk differences, average slopes and a spline, and warnings of the hinge's."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.truth_table import (
    NODES,
    WEIGHTS,
    Array,
    Design,
    Line,
    Numbers,
    at_least,
    at_most,
    averaged_over,
    bernoulli,
    coverage,
    is_warned,
    percent,
    recorded,
)
from vbsvm import Model

FACTORS = {"a": (0.0, 0.4, 0.8, 1.2), "b": (0.0, -0.5, 0.5, 1.0), "c": (0.0, 0.7)}
INTERCEPTS = (-1.2, -2.8)  # about 45 and 16 % positive outcomes, in turn
MOST_MISSED = 0.05
METHODS = {"default": {}, "hinge": {"likelihood": "hinge"}, "logistic": {"likelihood": "logistic"}}
GRID = np.linspace(-1.8, 1.8, 9)


def _density(log_odds: Array) -> Array:
    chances = expit(log_odds)
    return chances * (1 - chances)


def _held(table: pd.DataFrame, truth: Array) -> Array:
    """Which of the intervals contain the truth."""
    return ((table["lower"].to_numpy() <= truth) & (truth <= table["upper"].to_numpy())).astype(float)


def _differences(codes: dict[str, np.ndarray], intercept: float) -> dict[str, Array]:
    """True risk differences of each factor's levels against the first, averaged over the rows."""
    score = {name: np.array(FACTORS[name])[code] for name, code in codes.items()}
    total, found = intercept + sum(score.values()), {}
    for name, effects in FACTORS.items():
        risks = [expit(total - score[name] + effect).mean() for effect in effects]
        found[name] = np.array(risks[1:]) - risks[0]
    return found


def discrete(seed: int) -> Numbers:
    """1000 rows of three factors; risk differences by the default, by the hinge and by the logistic likelihood.

    An error of more than .05 may be chance; a difference between the likelihoods on the same data is not.
    """
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, len(effects), 1000) for name, effects in FACTORS.items()}
    intercept = INTERCEPTS[seed % 2]
    y = bernoulli(rng, intercept + sum(np.array(FACTORS[name])[code] for name, code in codes.items()))
    data = pd.DataFrame({name: [f"level {k}" for k in code] for name, code in codes.items()}).assign(y=y)
    truth, numbers, estimates = np.concatenate(list(_differences(codes, intercept).values())), {}, {}
    for method, settings in METHODS.items():
        with recorded() as found:
            fit = Model("y ~ a + b + c", data, **settings).fit()
            table = pd.concat([fit.contrasts(name) for name in FACTORS])
        estimates[method] = table["estimate"].to_numpy()
        numbers[f"{method}_held"] = _held(table, truth).mean()
        numbers[f"{method}_missed"] = float(np.abs(estimates[method] - truth).max() > MOST_MISSED)
        numbers[f"{method}_warned"] = float(is_warned(found))
    apart = np.abs(estimates["hinge"] - estimates["logistic"]).max()
    return numbers | {"hinge_apart": float(apart > MOST_MISSED)}


def two_normal_classes(seed: int) -> Numbers:
    """500 rows of two normal classes with the same covariance, whose log odds are linear; slopes by the hinge."""
    rng, centre = np.random.default_rng(seed), np.array([0.6, 0.3, 0.0])
    y = rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 3)) + np.where(y > 0, 1, -1)[:, None] * centre
    data = pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(y=y)
    beta = 2 * centre
    truth = beta * _density(X @ beta).mean()
    with recorded() as found:
        fit = Model("y ~ x1 + x2 + x3", data, likelihood="hinge").fit()
        table = pd.concat([fit.slopes(name) for name in ("x1", "x2", "x3")])
    return {"warned": float(is_warned(found)), "held": _held(table, truth).mean()}


def _slope_held(formula: str, data: pd.DataFrame, truth: float) -> Numbers:
    """Whether the interval of the default model's average slope by x contains the truth."""
    with recorded() as found:
        table = Model(formula, data).fit().slopes("x")
    return {"held": _held(table, np.array([truth]))[0], "warned": float(is_warned(found))}


def groups_of_two(seed: int) -> Numbers:
    """100 groups of 2 with random intercepts; the true slope is averaged over groups."""
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(100), 2), rng.normal(size=200)
    data = pd.DataFrame({"x": x, "g": g, "y": bernoulli(rng, -0.5 + x + rng.normal(size=100)[g])})
    return _slope_held("y ~ x + (1 | g)", data, averaged_over(1.0, _density, -0.5 + x).mean())


def random_slopes(seed: int) -> Numbers:
    """60 groups of 10 with random intercepts and slopes; the true slope is averaged over groups."""
    rng = np.random.default_rng(seed)
    g, x, sd = np.repeat(np.arange(60), 10), rng.normal(size=600), 0.7
    own = 1 + sd * rng.normal(size=60)
    data = pd.DataFrame({"x": x, "g": g, "y": bernoulli(rng, -0.5 + rng.normal(size=60)[g] + own[g] * x)})
    slopes = 1 + sd * NODES
    by_slope = [slope * averaged_over(1.0, _density, -0.5 + slope * x).mean() for slope in slopes]
    return _slope_held("y ~ x + (x | g)", data, float(WEIGHTS @ by_slope))


def interaction(seed: int) -> Numbers:
    """300 rows with an interaction of two continuous predictors."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, 300))
    log_odds = -0.5 + 0.8 * x + 0.5 * z + 0.6 * x * z
    data = pd.DataFrame({"x": x, "z": z, "y": bernoulli(rng, log_odds)})
    return _slope_held("y ~ x * z", data, float(np.mean((0.8 + 0.6 * z) * _density(log_odds))))


def straight_line(seed: int) -> Numbers:
    """A spline of a predictor whose log odds are linear: probabilities on a grid."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, 300)
    data = pd.DataFrame({"x": x, "y": bernoulli(rng, 0.3 + x)})
    with recorded():
        table = Model("y ~ s(x)", data).fit().effects("x", at=GRID.tolist())
    return {"held": _held(table, expit(0.3 + GRID)).mean()}


def small_sample(seed: int) -> Numbers:
    """40 rows, three predictors: coefficient and average slope of the first, by the default and the logistic model."""
    rng, beta = np.random.default_rng(seed), np.array([1.0, -0.5, 0.0])
    X = rng.normal(size=(40, 3))
    y = bernoulli(rng, X @ beta)
    data = pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(y=y)
    slope, numbers = beta[0] * _density(X @ beta).mean(), {}
    for method in ("default", "logistic"):
        with recorded():
            fit = Model("y ~ x1 + x2 + x3", data, **METHODS[method]).fit()
            one, table = fit.summary().loc[["x1"]], fit.slopes("x1")
        numbers[f"{method}_estimate"] = float(one["estimate"].iloc[0])
        numbers[f"{method}_held"] = _held(one, beta[:1])[0]
        numbers[f"{method}_slope_held"] = _held(table, np.array([slope]))[0]
    return numbers


def _designs(*named: tuple[str, Callable[[int], Numbers], int]) -> tuple[Design, ...]:
    return tuple(Design(*one) for one in named)


DISCRETE, NORMAL, SMALL = "discrete predictors", "two normal classes", "n = 40"
DESIGNS = _designs(
    (DISCRETE, discrete, 400),
    (NORMAL, two_normal_classes, 400),
    ("100 groups of 2", groups_of_two, 400),
    ("random slopes, 60 × 10", random_slopes, 400),
    ("interaction", interaction, 400),
    ("spline of a straight line", straight_line, 400),
    (SMALL, small_sample, 400),
)
ENOUGH = coverage(0.91)
LINES = (
    Line(DISCRETE, "risk differences, discrete predictors, default: coverage", "default_held", percent, ENOUGH),
    Line(DISCRETE, '… likelihood="logistic": coverage', "logistic_held"),
    Line(DISCRETE, "… hinge: coverage", "hinge_held"),
    Line(DISCRETE, '… an error > .05, likelihood="logistic"', "logistic_missed"),
    Line(DISCRETE, "… an error > .05, hinge", "hinge_missed"),
    Line(
        DISCRETE,
        "… of these, with a ReliabilityWarning",
        "hinge_warned",
        percent,
        at_least(0.95, "≥ 95 %"),
        {"hinge_missed": 1.0},
        none_is_met=True,
    ),
    Line(DISCRETE, "… hinge and logistic differ by > .05", "hinge_apart"),
    Line(
        DISCRETE,
        "… of these, with a ReliabilityWarning",
        "hinge_warned",
        percent,
        at_least(0.95, "≥ 95 %"),
        {"hinge_apart": 1.0},
        none_is_met=True,
    ),
    Line(NORMAL, "two normal classes, hinge: with a ReliabilityWarning", "warned", percent, at_most(0.05, "≤ 5 %")),
    Line(NORMAL, "… average slopes: coverage", "held"),
    *(
        Line(name, f"average slope, {name}, default: coverage", "held", percent, ENOUGH)
        for name in ("100 groups of 2", "random slopes, 60 × 10", "interaction")
    ),
    Line(SMALL, "average slope, n = 40, default: coverage", "default_slope_held", percent, ENOUGH),
    Line(
        "spline of a straight line", "spline of a straight line, default: pointwise coverage", "held", percent, ENOUGH
    ),
)
