"""The paper's default method (Section 4.1), as the reproduction has it: a linear SVM, its penalty on two grids.

The paper takes 100 hold-out splits; ten are taken here, to keep 1800 data sets affordable.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.methods import Method
from reproduction import default_svm

HOLDOUTS = 10


class DefaultMethod(ClassifierMixin, BaseEstimator):
    """Linear SVM whose penalty α has the least hold-out error on a grid, and then on a finer one around that."""

    def fit(self, X: NDArray, y: NDArray) -> Self:
        """Choose α and fit with it."""
        self.classes_ = np.unique(y)
        self.machine_ = default_svm.fit(X, np.where(y == self.classes_[1], 1.0, -1.0), HOLDOUTS, seed=0)
        return self

    def predict(self, X: NDArray) -> NDArray:
        """Class of each row."""
        return self.classes_[(self.machine_.scores(X) > 0).astype(np.intp)]


METHODS = (Method("SVC default method", DefaultMethod, tuned=True),)
