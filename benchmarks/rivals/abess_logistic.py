"""Best subset selection for logistic regression by abess, its size chosen by its own information criterion."""

import numpy as np


def select(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Inputs in the best subset."""
    from abess.linear import LogisticRegression

    return np.abs(np.ravel(LogisticRegression(ic_type="gic").fit(X, y).coef_)) > 0
