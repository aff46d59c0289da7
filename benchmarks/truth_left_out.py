"""Leave-one-out: the log-loss of the approximation, and that of a refit without each observation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.truth_table import Array, Design, Line, Numbers, at_most, average, bernoulli, percent, recorded
from vbsvm import VBSVC, LaplaceZero, Model, VBLogistic

MOST_OFF = 0.02


def _compared(approximate: float, real: float) -> Numbers:
    return {"approximate": approximate, "real": real, "difference": approximate - real, "off": abs(approximate - real)}


def _of_estimator(make: Callable[[], Any], X: Array, y: NDArray[Any], weights: Array | None = None) -> Numbers:
    """Refits without one observation; of a weight of k, one of its k observations is left out."""
    counts = np.ones(len(y)) if weights is None else weights
    losses = np.empty(len(y))
    with recorded():
        approximate = make().fit(X, y, weights).left_out_predictions().log_loss.value
        for i, label in enumerate(y):
            others = counts.copy()
            others[i] -= min(counts[i], 1.0)
            kept = others > 0
            clf = make().fit(X[kept], y[kept], None if weights is None else others[kept])
            losses[i] = -clf.predict_log_proba(X[i : i + 1])[0, np.flatnonzero(clf.classes_ == label)[0]]
    return _compared(approximate, float(counts @ losses / counts.sum()))


def _of_model(formula: str, data: pd.DataFrame) -> Numbers:
    losses = np.empty(len(data))
    with recorded():
        fit = Model(formula, data, likelihood="logistic").fit()
        approximate = fit.left_out_predictions().log_loss.value
        for i in range(len(data)):
            without = Model(formula, data.drop(index=i), likelihood="logistic").fit()
            losses[i] = -without.predict_log_proba(data.iloc[[i]])[0, data["y"].iloc[i]]
    return _compared(approximate, float(losses.mean()))


def _plain(rng: np.random.Generator, n: int, beta: Array) -> tuple[Array, NDArray[Any]]:
    """Normal predictors and a logistic outcome, drawn again until each class has three observations."""
    while True:
        X = rng.normal(size=(n, len(beta)))
        y = bernoulli(rng, X @ beta)
        if 3 <= y.sum() <= n - 3:
            return X, y


def wide(make: Callable[[], Any]) -> Callable[[int], Numbers]:
    """60 observations of 200 predictors, five with an effect."""
    return lambda seed: _of_estimator(make, *_plain(np.random.default_rng(seed), 60, np.r_[np.ones(5), np.zeros(195)]))


def selected(make: Callable[..., Any]) -> Callable[[int], Numbers]:
    """100 observations of 10 predictors, three with an effect, with inclusion indicators."""
    beta = np.r_[np.ones(3), np.zeros(7)]
    return lambda seed: _of_estimator(
        lambda: make(prior=LaplaceZero()), *_plain(np.random.default_rng(seed), 100, beta)
    )


def groups(seed: int) -> Numbers:
    """20 groups of 5 that do not differ: with random intercepts, without, and whether both ways agree on their help."""
    rng, g = np.random.default_rng(seed), np.repeat(np.arange(20), 5)
    X, y = _plain(rng, 100, np.array([0.8]))
    data = pd.DataFrame({"x": X[:, 0], "g": g, "y": y})
    ours, without = _of_model("y ~ x + (1 | g)", data), _of_model("y ~ x", data)
    gains = [without[way] - ours[way] for way in ("approximate", "real")]
    return dict(ours) | {
        "same_sign": float((gains[0] > 0) == (gains[1] > 0)),
        "helps_approximate": float(gains[0] > 0),
        "helps_real": float(gains[1] > 0),
    }


def missing(seed: int) -> Numbers:
    """80 observations, 20 % of the values of two of three predictors missing."""
    rng = np.random.default_rng(seed)
    X, y = _plain(rng, 80, np.array([1.0, 0.5, 0.0]))
    X[:, :2][rng.random((80, 2)) < 0.2] = np.nan
    return _of_estimator(VBLogistic, X, y)


def separated(seed: int) -> Numbers:
    """60 observations that a line separates."""
    X = np.random.default_rng(seed).normal(size=(60, 2))
    score = X @ [1.0, 0.5]
    return _of_estimator(VBLogistic, X, (score > np.median(score)).astype(np.int64))


def tiny(seed: int) -> Numbers:
    """20 observations of three predictors."""
    return _of_estimator(VBLogistic, *_plain(np.random.default_rng(seed), 20, np.array([1.0, 0.5, 0.0])))


def weighted(seed: int) -> Numbers:
    """60 observations that count one to three times."""
    rng = np.random.default_rng(seed)
    X, y = _plain(rng, 60, np.array([1.0, 0.5, 0.0]))
    return _of_estimator(VBLogistic, X, y, rng.integers(1, 4, 60).astype(float))


def several_classes(seed: int) -> Numbers:
    """75 observations of three normal classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(75) % 3
    return _of_estimator(VBLogistic, rng.normal(size=(75, 3)) + 1.2 * np.eye(3)[y], y)


NAMED: dict[str, Callable[[int], Numbers]] = {
    "60 × 200, VBLogistic": wide(VBLogistic),
    "60 × 200, VBSVC": wide(VBSVC),
    "LaplaceZero, VBLogistic": selected(VBLogistic),
    "LaplaceZero, VBSVC": selected(VBSVC),
    "20 groups of 5, σ = 0": groups,
    "20 % missing": missing,
    "complete separation": separated,
    "n = 20": tiny,
    "weights": weighted,
    "three classes": several_classes,
}
GROUPED = "leave-one-out, 20 groups of 5, σ = 0"
DESIGNS = tuple(Design(f"leave-one-out, {name}", one_set, 40) for name, one_set in NAMED.items())
LINES = (
    *(
        line
        for design in DESIGNS
        for line in (
            Line(design.name, f"{design.name}: |approximate − real|", "off", average, at_most(MOST_OFF)),
            Line(design.name, "… approximate − real", "difference", average),
        )
    ),
    Line(GROUPED, f"{GROUPED}: the same answer whether intercepts help", "same_sign", percent),
    Line(GROUPED, "… intercepts help, approximate", "helps_approximate"),
    Line(GROUPED, "… intercepts help, real", "helps_real"),
)
