"""Data with missing values: the cardiac catheterisation data, and simulated inputs with cells missing in three ways."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.optimize import brentq
from scipy.special import expit

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

CARDIAC = "acath.csv"
TRAIN_ROWS, TEST_ROWS = 400, 2000
CORRELATION = 0.6
COEFFICIENTS = np.array([1.5, -1.0, 1.0, 0.5, -0.5])
INTERCEPT = 0.5
INCOMPLETE, DRIVER = (0, 1, 2), 3  # columns with missing values, and the complete one that they depend on under MAR
SLOPE = 2.0  # a value that is higher by one standard deviation has e² times the odds to be missing
MECHANISMS = ("MCAR", "MAR", "MNAR")
PERCENTS = (10, 30, 50)


def cardiac() -> tuple[Array, Labels] | None:
    """Age, sex, log duration and log cholesterol (a third of which is missing), and significant disease; or None."""
    path = Path(os.environ.get("VBSVM_DATA", ".")) / CARDIAC
    if not path.exists():
        print(f"\nLeft out: no file {CARDIAC} in the directory that the environment variable VBSVM_DATA names.")
        return None
    data = pd.read_csv(path)
    inputs = [data["age"], data["sex"], np.log(data["cad.dur"] + 1), np.log(data["choleste"])]
    return np.column_stack(inputs).astype(float), data["sigdz"].to_numpy(dtype=np.int64)


@final
@dataclass(frozen=True)
class Rows:
    """Inputs as they are, the same with missing values, and labels."""

    whole: Array
    incomplete: Array
    y: Labels


def simulate(mechanism: str, percent: int, seed: int) -> tuple[Rows, Rows]:
    """Draw training and test rows: normal inputs with correlations 0.6, 0.36, …, and labels of a logistic model."""
    rng = np.random.default_rng([MECHANISMS.index(mechanism), percent, seed])
    root = np.linalg.cholesky(toeplitz(CORRELATION ** np.arange(len(COEFFICIENTS))))

    def rows(n: int) -> Rows:
        X = rng.standard_normal((n, len(root))) @ root.T
        y = (rng.random(n) < expit(INTERCEPT + X @ COEFFICIENTS)).astype(np.int64)
        return Rows(X, make_missing(X, mechanism, percent / 100, rng), y)

    return rows(TRAIN_ROWS), rows(TEST_ROWS)


def make_missing(X: Array, mechanism: str, share: float, rng: np.random.Generator) -> Array:
    """Take that share of the cells out of three columns, by chance, by a complete column, or by their own values."""
    causes = {"MCAR": np.zeros((len(X), 1)), "MAR": X[:, [DRIVER]], "MNAR": X[:, INCOMPLETE]}[mechanism]
    chance = expit(_level(share, 0.0 if mechanism == "MCAR" else SLOPE) + SLOPE * causes)
    incomplete, columns = X.copy(), incomplete_columns()
    incomplete[:, columns] = np.where(rng.random((len(X), len(INCOMPLETE))) < chance, np.nan, X[:, columns])
    return incomplete


def incomplete_columns() -> NDArray[np.bool_]:
    """Which columns have incomplete."""
    return np.isin(np.arange(len(COEFFICIENTS)), INCOMPLETE)


def _level(share: float, slope: float) -> float:
    """The log odds of being missing at the mean of a standard normal cause, such that this share is missing overall."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    return float(brentq(lambda level: weights @ expit(level + slope * nodes) - share, -20, 20))


def simulate_large(n: int, d: int, share: float, n_patterns: int | None = None) -> tuple[Array, Labels]:
    """Independent normal inputs with cells missing by chance; or every row has one of a few patterns of them."""
    rng = np.random.default_rng(1)
    X, u = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = (X @ u + rng.logistic(size=n) > 0).astype(np.int64)
    if n_patterns is None:
        X[rng.random((n, d)) < share] = np.nan
    else:
        X[(rng.random((n_patterns, d)) < share)[rng.integers(0, n_patterns, n)]] = np.nan
    return X, y
