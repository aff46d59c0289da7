"""The paper's default method (Section 4.1): LIBSVM, its penalty by repeated hold-out on two grids.

The paper takes 100 hold-out splits; ten are taken here, to keep 1800 data sets affordable.
"""

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.methods import Method
from benchmarks.simulation import balanced_error

HOLDOUTS = 10
# From strong to weak penalties, so that ties go to the stronger.
FIRST_GRID = np.logspace(2.5, -2, 10)
SECOND_GRID = np.logspace(0.5, -0.5, 9)


class DefaultMethod(ClassifierMixin, BaseEstimator):
    """Linear SVM whose penalty α has the least hold-out error on a grid, and then on a finer one around that."""

    def fit(self, X: NDArray, y: NDArray) -> Self:
        """Choose α and fit with it."""
        self.classes_ = np.unique(y)
        coarse = _best(FIRST_GRID, X, y)
        self.alpha_ = _best(coarse * SECOND_GRID, X, y)
        self.scaler_ = StandardScaler().fit(X)
        self.model_ = _svm(self.alpha_).fit(self.scaler_.transform(X), y)
        return self

    def predict(self, X: NDArray) -> NDArray:
        """Class of each row."""
        return self.model_.predict(self.scaler_.transform(X))


def _svm(alpha: float) -> SVC:
    """Σ hinge + α‖β‖² is LIBSVM's ½‖β‖² + C Σ hinge with C = 1/(2α)."""
    return SVC(kernel="linear", C=1 / (2 * alpha))


def _best(alphas: NDArray, X: NDArray, y: NDArray) -> float:
    """Give the α with the smallest mean hold-out error; the splits are the same for each."""
    errors = [_holdout_errors(alphas, X, y, held) for held in _holdouts(y)]
    return float(alphas[np.mean(errors, axis=0).argmin()])


def _holdout_errors(alphas: NDArray, X: NDArray, y: NDArray, held: NDArray[np.bool_]) -> list[float]:
    """Error of each α on the rows held out, scaled by the others."""
    scaler = StandardScaler().fit(X[~held])
    train, test = scaler.transform(X[~held]), scaler.transform(X[held])
    return [balanced_error(y[held], _svm(alpha).fit(train, y[~held]).predict(test)) for alpha in alphas]


def _holdouts(y: NDArray) -> Iterator[NDArray[np.bool_]]:
    """Hold out a random quarter of each class, so that the rest always holds every class."""
    rng = np.random.default_rng(0)
    for _ in range(HOLDOUTS):
        held = np.zeros(len(y), dtype=bool)
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            held[rows[: len(rows) // 4]] = True
        yield held


METHODS = (Method("SVC default method", DefaultMethod, tuned=True),)
