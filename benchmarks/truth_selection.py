"""Selection of predictors: how many without effect are included, and F1."""

import numpy as np

from benchmarks.selection import simulate
from benchmarks.truth_table import NO_WORSE, Array, Design, Line, Numbers, at_most, average, bernoulli, recorded
from vbsvm import VBSVC, LaplaceZero, VBLogistic

ESTIMATORS = {"hinge": VBSVC, "logistic": VBLogistic}
ROWS, COLUMNS, BLOCK, CORRELATION = 200, 40, 5, 0.9


def _blocks(rng: np.random.Generator) -> Array:
    """Predictors in blocks of five with a correlation of .9."""
    common = np.repeat(rng.normal(size=(ROWS, COLUMNS // BLOCK)), BLOCK, axis=1)
    return np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * rng.normal(size=(ROWS, COLUMNS))


def _selected(X: Array, y: np.ndarray) -> dict[str, np.ndarray]:
    with recorded():
        return {name: make(prior=LaplaceZero()).fit(X, y).selected_[0] for name, make in ESTIMATORS.items()}


def no_signal(seed: int) -> Numbers:
    """200 × 40 without any effect: independent predictors, and blocks."""
    rng = np.random.default_rng(seed)
    y = bernoulli(rng, np.zeros(ROWS))
    tables = {"independent": rng.normal(size=(ROWS, COLUMNS)), "blocks": _blocks(rng)}
    found = {f"{name}_{kind}": chosen for kind, X in tables.items() for name, chosen in _selected(X, y).items()}
    return {name: float(chosen.sum()) for name, chosen in found.items()}


def three_true(seed: int) -> Numbers:
    """200 × 40 in blocks, three of which hold one predictor with an effect."""
    rng = np.random.default_rng(seed)
    X, truth = _blocks(rng), np.zeros(COLUMNS, dtype=bool)
    truth[rng.choice(COLUMNS // BLOCK, 3, replace=False) * BLOCK] = True
    found = _selected(X, bernoulli(rng, 1.5 * X[:, truth].sum(axis=1)))
    false = {f"{name}_false": float((chosen & ~truth).sum()) for name, chosen in found.items()}
    return false | {f"{name}_true": float((chosen & truth).sum()) for name, chosen in found.items()}


def many_true(seed: int) -> Numbers:
    """500 × 200 independent predictors, of which 20 have an effect."""
    X, y, truth = simulate(500, 200, 20, seed)
    found = _selected(X, y)
    return {f"{name}_f1": 2 * (one & truth).sum() / (one.sum() + truth.sum()) for name, one in found.items()}


NOISE, THREE, MANY = "no signal, 200 × 40", "3 of 40, blocks of .9", "20 of 200, 500 rows"
DESIGNS = (Design(NOISE, no_signal, 200), Design(THREE, three_true, 200), Design(MANY, many_true, 100))
NAMES = {"hinge": "VBSVC", "logistic": "VBLogistic"}
MOST = {
    ("hinge", "independent"): 0.3,
    ("hinge", "blocks"): 1.0,
    ("logistic", "independent"): 0.1,
    ("logistic", "blocks"): 0.2,
}
LINES = (
    *(
        Line(NOISE, f"{NOISE}, {kind}, {NAMES[name]}: included", f"{name}_{kind}", average, at_most(most))
        for (name, kind), most in MOST.items()
    ),
    *(Line(THREE, f"{THREE}, {NAMES[name]}: without effect", f"{name}_false", average) for name in ESTIMATORS),
    *(Line(THREE, f"{THREE}, {NAMES[name]}: with effect", f"{name}_true", average) for name in ESTIMATORS),
    *(Line(MANY, f"{MANY}, {NAMES[name]}: F1", f"{name}_f1", average, NO_WORSE) for name in ESTIMATORS),
)
