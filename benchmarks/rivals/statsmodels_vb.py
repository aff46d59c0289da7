"""statsmodels' Bayesian mixed logistic regression, by mean-field variational Bayes."""

from typing import Any

import numpy as np


def fit(groups: np.ndarray, X: np.ndarray, y: np.ndarray) -> Any:
    """Make and fit it; X holds the column of ones, y is 0 or 1."""
    from scipy.sparse import csr_array
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    _, index = np.unique(groups, return_inverse=True)
    dummies = csr_array((np.ones(len(index)), (np.arange(len(index)), index)))
    model = BinomialBayesMixedGLM(y, X, dummies, ident=np.zeros(dummies.shape[1], dtype=int))
    return model.fit_vb()
