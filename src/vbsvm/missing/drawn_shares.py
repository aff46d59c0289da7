"""Shares of drawn values given the label of their row, where the formula's own terms say how labels depend on them.

Values were drawn from a distribution that is only roughly that given the label. A value's share is its probability
given the other inputs, times that of the label given all inputs, over that with which it was drawn: importance
sampling. The label's probability is that of a logistic model with the columns of the design, which is fitted to the
values by their shares in turn (Ibrahim's method of weights). The shares are held afterwards.
"""

import numpy as np
from scipy.special import expit, log_expit

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import Candidates

# Prior precisions of the logistic model's coefficients, of standardised columns and of the bends of curves.
OF_COLUMNS, OF_BENDS = 0.01, 0.25
MOST_STEPS, AT_REST = 50, 1e-4


def log_shares(design: Array, signs: Array, weights: Array, candidates: Candidates, bends: slice) -> Array:
    """Log share of each candidate among those that differ by drawn values only.

    Columns of the design with missing values (NaN) count as their mean. ``bends`` are the columns of curves.
    """
    assert candidates.told is not None
    runs = candidates.runs
    x = np.where(np.isnan(design), 0.0, design)
    penalty = np.full(x.shape[1], OF_COLUMNS)
    penalty[bends] = OF_BENDS
    theta, logs = np.zeros(x.shape[1]), np.zeros(len(x))
    even = candidates.softmax(np.zeros(len(x)))  # levels of missing categories, and draws, count alike
    shares = even
    for _ in range(MOST_STEPS):
        scores = signs * (x @ theta)
        p = expit(-scores)
        s = weights * shares
        hessian = x.T @ ((s * p * (1.0 - p))[:, None] * x) + np.diag(penalty)
        step = np.linalg.solve(hessian, x.T @ (s * p * signs) - penalty * theta)
        theta = theta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        logs = candidates.told + log_expit(signs * (x @ theta))
        shares = runs.softmax(logs) * even * runs.sizes
        if np.abs(step).max() < AT_REST:
            break
    return np.log(np.maximum(runs.softmax(logs), 1e-300))
