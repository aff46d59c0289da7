"""gpboost's generalised linear mixed model with a logit link, by a Laplace approximation."""

from typing import Any

import numpy as np


def make(groups: np.ndarray, threads: int | None = None) -> Any:
    """Make the model of random intercepts; None leaves the number of threads to it."""
    import gpboost

    settings = {} if threads is None else {"num_parallel_threads": threads}
    return gpboost.GPModel(group_data=groups, likelihood="bernoulli_logit", **settings)


def fit(groups: np.ndarray, X: np.ndarray, y: np.ndarray, threads: int | None = None) -> Any:
    """Make and fit it; X holds the column of ones, y is 0 or 1."""
    model = make(groups, threads)
    model.fit(y=y, X=X)
    return model
