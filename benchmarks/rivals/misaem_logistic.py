"""misaem's logistic regression with normal inputs, some missing, by stochastic approximation EM."""

import warnings
from typing import Any

import numpy as np


def fit(X: np.ndarray, y: np.ndarray, spreads: bool = False) -> Any:
    """Fit it; y is 0 or 1. Its default simulates standard errors and likelihood too: 25 times the work."""
    from misaem import SAEMLogisticRegression

    model = SAEMLogisticRegression(var_cal=spreads, ll_obs_cal=spreads, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its argument penalty=None has another name by now
        return model.fit(X, y, progress_bar=False)
