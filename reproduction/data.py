"""The data of the paper's experiments, and how they are split; what the paper leaves open is decided here."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from vbsvm.datasets import load_acath, load_spam, load_toenail

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
SIZES, DIMENSIONS = (100, 200, 500), (10, 50, 100)
CELLS = tuple((n, d) for d in DIMENSIONS for n in SIZES)
TEST_ROWS = 1000
TEST_SHARE = 0.25
TOENAIL_FORMULA = "outcome ~ visit * treatment + (1 | patientID)"


@final
@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows with labels ±1. ``X`` may hold NaN."""

    X: Array
    signs: Array
    X_test: Array
    signs_test: Array

    def complete(self) -> "Split":
        """The same without training rows that have missing values."""
        whole = ~np.isnan(self.X).any(axis=1)
        return Split(self.X[whole], self.signs[whole], self.X_test, self.signs_test)


def simulate(n: int, d: int, rng: np.random.Generator) -> Split:
    """Draw a truth, n training rows and 1000 test rows of it (Section 4.2); both classes are always there."""
    while True:
        beta, u = rng.standard_normal(), rng.standard_normal(d)
        X = rng.standard_normal((n + TEST_ROWS, d))
        signs = np.where(rng.random(len(X)) < expit(beta + X @ u), 1.0, -1.0)
        # Hold-outs and balanced errors need a few rows of both classes.
        if min((signs[:n] > 0).sum(), (signs[:n] < 0).sum()) >= 4 and abs(signs[n:].mean()) < 1:
            return Split(X[:n], signs[:n], X[n:], signs[n:])


@cache
def toenail() -> "pd.DataFrame":
    """The toenail data."""
    return load_toenail()


def split_toenail(rng: np.random.Generator) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """A random quarter of all visits is the test set, so that most patients are in both parts (Section 4.3)."""
    data = toenail()
    test = _quarter(len(data), np.arange(len(data)), rng)
    return data.loc[~test], data.loc[test]


def toenail_columns(data: "pd.DataFrame") -> tuple[Array, Array]:
    """Visit, treatment and their product, and labels: 1 is moderate or severe."""
    treated = (data["treatment"] == "terbinafine").to_numpy(dtype=float)
    visit = data["visit"].to_numpy(dtype=float)
    return np.column_stack([visit, treated, visit * treated]), np.where(
        data["outcome"] == "moderate or severe", 1.0, -1.0
    )


@cache
def spam() -> tuple[tuple[str, ...], Array, Array]:
    """Names of the 57 inputs, the inputs, and labels: 1 is spam."""
    data = load_spam()
    inputs = data.drop(columns="class")
    return tuple(inputs.columns), inputs.to_numpy(dtype=float), np.where(data["class"] == "spam", 1.0, -1.0)


@cache
def cardiac() -> tuple[Array, Array]:
    """Age, sex, log(1 + duration), log(cholesterol), a third of which is missing; labels: 1 is significant disease."""
    data = load_acath()
    inputs = [data["age"], data["sex"], np.log1p(data["cad.dur"]), np.log(data["choleste"])]
    return np.column_stack(inputs).astype(float), np.where(data["sigdz"] == 1, 1.0, -1.0)


def split_cardiac(rng: np.random.Generator) -> Split:
    """A random quarter of the complete rows is the test set (Section 4.5)."""
    X, signs = cardiac()
    test = _quarter(len(X), np.flatnonzero(~np.isnan(X).any(axis=1)), rng)
    return Split(X[~test], signs[~test], X[test], signs[test])


def _quarter(n: int, candidates: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.bool_]:
    test = np.zeros(n, dtype=bool)
    test[rng.choice(candidates, round(TEST_SHARE * len(candidates)), replace=False)] = True
    return test
