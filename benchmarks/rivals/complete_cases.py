"""Complete-case analysis: a classifier that never sees an incomplete row."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone


class CompleteCases(ClassifierMixin, BaseEstimator):
    """Fit to the complete rows. Missing values of new rows take the complete rows' mean."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Leave out incomplete rows, and fit."""
        complete = ~np.isnan(X).any(axis=1)
        self.means_ = X[complete].mean(axis=0)
        self.model_ = clone(self.classifier).fit(X[complete], y[complete])
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class of each row."""
        return self.model_.predict(self._filled(X))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the classes of each row."""
        return self.model_.predict_proba(self._filled(X))

    def _filled(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(X), self.means_, X)


def make(classifier: Any) -> CompleteCases:
    """Make it of a classifier that can't take NaN."""
    return CompleteCases(classifier)
