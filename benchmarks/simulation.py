"""The paper's simulation (Section 4.2) and its measure of error."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

TEST_ROWS = 1000
SIZES = (100, 200, 500)
DIMENSIONS = (10, 50, 100)
CELLS = tuple((n, d) for n in SIZES for d in DIMENSIONS)


def simulate(n: int, d: int, seed: int) -> tuple[Array, Labels, Array, Labels]:
    """Draw a truth, n training rows and 1000 fresh test rows of it: X_train, y_train, X_test, y_test."""
    rng = np.random.default_rng([seed, n, d])
    beta, u = rng.standard_normal(), rng.standard_normal(d)

    def rows(count: int) -> tuple[Array, Labels]:
        X = rng.standard_normal((count, d))
        return X, np.where(rng.random(count) < expit(beta + X @ u), 1, -1)

    return *rows(n), *rows(TEST_ROWS)


def simulate_overlapping(n: int, d: int, classes: int = 2, seed: int = 1) -> tuple[Array, Labels]:
    """Classes that overlap alike for every d: the best score that there is has a standard deviation of 2."""
    rng = np.random.default_rng([seed, n, d, classes])
    X, u = rng.standard_normal((n, d)), rng.standard_normal((d, classes if classes > 2 else 1))
    scores = X @ (2 * u / np.linalg.norm(u, axis=0))
    if classes == 2:
        return X, (scores[:, 0] + rng.logistic(size=n) > 0).astype(np.int64)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def balanced_error(y: NDArray, predicted: NDArray) -> float:
    """Mean of the error rates of the classes that y holds."""
    wrong = predicted != y
    return float(np.mean([wrong[y == label].mean() for label in np.unique(y)]))
