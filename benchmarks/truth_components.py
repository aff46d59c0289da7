"""Variance components of logistic models: coverage of their intervals, unless these are marked as too narrow."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from benchmarks.truth_table import Design, Line, Numbers, bernoulli, coverage, percent, recorded
from vbsvm import Model

TOO_NARROW = "too narrow"
CORRELATION = "correlation"


def _judged(formula: str, data: pd.DataFrame, truth: Mapping[tuple[str, str], float]) -> Numbers:
    """Which intervals contain the truth, and which of them the table or a warning marks as too narrow.

    ``truth`` has standard deviations and correlations by term and by how the name of the effect begins.
    """
    with recorded() as found:
        fit = Model(formula, data, likelihood="logistic").fit()
        table = fit.variance_components()
    texts = [*map(str, table.attrs.values()), *(str(one.message) for one in found)]
    all_marked = any(TOO_NARROW in text for text in texts)
    held, unmarked = [], []
    for (term, effect), value in truth.items():
        chosen = [key for key in table.index if key[0] == term and key[1].startswith(effect)]
        (one,) = (table.loc[key] for key in chosen)
        if np.isfinite(one["lower"]) and np.isfinite(one["upper"]):
            held.append(float(one["lower"] <= value <= one["upper"]))
            unmarked.append(not all_marked and not any(TOO_NARROW in str(cell) for cell in one))
    sure = [one for one, is_sure in zip(held, unmarked, strict=True) if is_sure]
    return {
        "held": float(np.mean(held)) if held else np.nan,
        "unmarked": float(any(unmarked)),
        "unmarked_held": float(np.mean(sure)) if sure else np.nan,
    }


def random_slopes(seed: int) -> Numbers:
    """60 groups of 10 with correlated intercepts and slopes."""
    rng, (sd0, sd1, rho) = np.random.default_rng(seed), (1.0, 0.7, 0.3)
    g, x, z = np.repeat(np.arange(60), 10), rng.normal(size=600), rng.normal(size=(60, 2))
    own = sd1 * (rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1])
    data = pd.DataFrame({"x": x, "g": g, "y": bernoulli(rng, -0.5 + sd0 * z[g, 0] + (1 + own[g]) * x)})
    term = "(x | g)"
    return _judged(f"y ~ x + {term}", data, {(term, "(intercept)"): sd0, (term, "x"): sd1, (term, CORRELATION): rho})


def nested(seed: int) -> Numbers:
    """30 groups of 6 groups of 5."""
    rng, sd_a, sd_b = np.random.default_rng(seed), 1.0, 0.7
    b = np.repeat(np.arange(180), 5)
    a = b // 6
    x = rng.normal(size=len(b))
    log_odds = -0.5 + 0.8 * x + sd_a * rng.normal(size=30)[a] + sd_b * rng.normal(size=180)[b]
    data = pd.DataFrame({"x": x, "a": a, "b": b, "y": bernoulli(rng, log_odds)})
    effect = "(intercept)"
    return _judged("y ~ x + (1 | a/b)", data, {("(1 | a)", effect): sd_a, ("(1 | a:b)", effect): sd_b})


def incomplete(seed: int) -> Numbers:
    """60 groups of 10 with random intercepts, and 10 % of the values of both predictors missing."""
    rng, sd = np.random.default_rng(seed), 1.0
    g, X = np.repeat(np.arange(60), 10), rng.normal(size=(600, 2))
    X[:, 1] = 0.5 * X[:, 0] + np.sqrt(0.75) * X[:, 1]
    y = bernoulli(rng, -0.5 + X @ [1.0, 0.5] + sd * rng.normal(size=60)[g])
    X[rng.random(X.shape) < 0.1] = np.nan
    data = pd.DataFrame(X, columns=["x1", "x2"]).assign(g=g, y=y)
    return _judged("y ~ x1 + x2 + (1 | g)", data, {("(1 | g)", "(intercept)"): sd})


def no_variance(seed: int) -> Numbers:
    """20 groups of 5 that do not differ: whether the interval of σ contains 0."""
    rng, g = np.random.default_rng(seed), np.repeat(np.arange(20), 5)
    x = rng.normal(size=100)
    data = pd.DataFrame({"x": x, "g": g, "y": bernoulli(rng, -0.5 + 0.8 * x)})
    with recorded():
        one = Model("y ~ x + (1 | g)", data, likelihood="logistic").fit().variance_components().iloc[0]
    return {"zero": float(one["lower"] <= 1e-8), "upper": float(one["upper"])}


NAMED = {
    "variance components of random slopes": random_slopes,
    "variance components of nested factors": nested,
    "variance component with 10 % missing": incomplete,
}
ZERO = "σ = 0, 20 × 5"
DESIGNS = (*(Design(name, one_set, 200) for name, one_set in NAMED.items()), Design(ZERO, no_variance, 400))
LINES = (
    *(
        line
        for name in NAMED
        for line in (
            Line(
                name,
                f"{name}: coverage if not marked too narrow",
                "unmarked_held",
                percent,
                coverage(0.91),
                none_is_met=True,
            ),
            Line(name, "… fits with an interval that is not marked", "unmarked"),
            Line(name, "… coverage of all intervals", "held"),
        )
    ),
    Line(ZERO, f"{ZERO}: interval of σ contains 0", "zero", percent),
)
