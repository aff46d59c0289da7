"""Curves of a missing input: how near they are to those without gaps, and how often intervals hold the truth.

400 rows, a curve of an input of which 30 % are missing, by chance or with a chance that depends on a complete input and
on the label. Curves are compared by the scores along a grid, about their mean. The truth of intervals is the
coefficient of the square that minimises the population's hinge loss.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from scipy.special import expit

from benchmarks.missing_jobs import RESULTS, known_results, run_jobs
from benchmarks.tables import print_table
from vbsvm import GaussianImputation, Model, Normal

CURVES = RESULTS / "missing_curves.csv"
COLUMNS = ["shape", "mechanism", "data_set", "method", "off", "slope", "covered"]
ROWS = 400
SHAPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "square": ("y ~ x + a + I(a**2)", lambda a: 1.2 - 1.2 * a**2),
    "wave": ("y ~ x + s(a)", lambda a: 2 * np.sin(2 * a)),
}
METHODS: dict[str, dict[str, Any]] = {
    "Model": {},
    'Model, labels="none"': {"imputation": GaussianImputation(labels="none")},
    "complete rows": {"missing": "drop"},
}
GRID = pd.DataFrame({"a": np.linspace(-1.8, 1.8, 25), "x": 0.0})


def simulate(shape: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Whole data, and a uniform number for each row, by which its value is missing."""
    rng = np.random.default_rng([seed, len(shape)])
    data = pd.DataFrame({"x": rng.normal(size=n)})
    data["a"] = 0.5 * data["x"] + np.sqrt(0.75) * rng.normal(size=n)
    data["y"] = (SHAPES[shape][1](data["a"]) + 0.8 * data["x"] + rng.logistic(size=n) > 0).astype(int)
    return data, rng.random(n)


def with_gaps(data: pd.DataFrame, u: np.ndarray, mechanism: str) -> pd.DataFrame:
    """The data with values of ``a`` missing."""
    chance = 0.3 if mechanism == "MCAR" else expit(-1.1 + 1.2 * data["x"] + 0.8 * (2 * data["y"] - 1))
    return data.assign(a=data["a"].mask(u < chance))


def curve(fit: Any) -> np.ndarray:
    """Scores along the grid, about their mean."""
    scores = fit.decision_function(GRID)
    return scores - scores.mean()


def run_curves(shape: str, mechanism: str, seed: int, truth: float) -> list[tuple]:
    """Distance from the curve of the whole data, its slope on that, and whether an interval holds the truth."""
    formula, found = SHAPES[shape][0], []
    whole, u = simulate(shape, ROWS, seed)
    data, wanted = with_gaps(whole, u, mechanism), curve(Model(formula, whole, likelihood="hinge").fit())
    for name, settings in METHODS.items():
        fit = Model(formula, data, likelihood="hinge", **settings).fit()
        scores, covered = curve(fit), np.nan
        if shape == "square":
            row = fit.summary().iloc[-1]
            covered = float(row["lower"] <= truth <= row["upper"])
        off = float(np.linalg.norm(scores - wanted) / np.linalg.norm(wanted))
        found.append((shape, mechanism, seed, name, off, float(scores @ wanted / (wanted @ wanted)), covered))
    return found


def curves(n_sets: int) -> None:
    """Both shapes and mechanisms, in turn; resumable."""
    whole, _ = simulate("square", 200_000, 10**6)
    truth = float(Model(SHAPES["square"][0], whole, {"fixed": Normal(1e8)}, likelihood="hinge").fit().coef[-1])
    known = known_results(CURVES, COLUMNS, ["shape", "mechanism", "data_set"])
    wanted = [(shape, how, seed) for seed in range(n_sets) for shape in SHAPES for how in ("MCAR", "MAR")]
    run_jobs((delayed(run_curves)(*job, truth) for job in wanted if job not in known), CURVES)
    table = pd.read_csv(CURVES, names=COLUMNS)
    table = table[table["data_set"] < n_sets]
    print(f"\nCurves of an input of which 30 % are missing, {table['data_set'].nunique()} data sets")
    lines = []
    for (shape, how, name), rows in table.groupby(["shape", "mechanism", "method"], sort=False):
        share = f"{100 * rows['covered'].mean():.0f} %" if shape == "square" else ""
        lines.append([f"{shape}, {how}", str(name), f"{rows['off'].mean():.3f}", f"{rows['slope'].mean():.3f}", share])
    print_table(["", "", "distance", "slope", "covered"], lines)
