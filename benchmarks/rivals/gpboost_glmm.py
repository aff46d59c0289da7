"""gpboost's generalised linear mixed model with a logit link, by a Laplace approximation."""

from typing import Any

import numpy as np


def make(groups: np.ndarray) -> Any:
    """Make the model of random intercepts."""
    import gpboost

    return gpboost.GPModel(group_data=groups, likelihood="bernoulli_logit")


def fit(groups: np.ndarray, X: np.ndarray, y: np.ndarray) -> Any:
    """Make and fit it; X holds the column of ones, y is 0 or 1."""
    model = make(groups)
    model.fit(y=y, X=X)
    return model
