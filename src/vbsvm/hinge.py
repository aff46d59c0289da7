"""The whole likelihood: the hinge loss exp{−2 s (1 − y f)₊} as a Gaussian scale mixture over a latent scale a.

Elementwise over rows, from their labels y, weights s > 0, and the mean f and variance v of their scores, with
h = 1 − y f (paper, Section 2.3).
"""

import numpy as np
from scipy.special import log_expit, logsumexp

from vbsvm.arrays import Array
from vbsvm.laws import Latent
from vbsvm.readings import Reading


def weigh(h: Array, v: Array | float, s: Array, resolve: Reading, *site: str | int) -> tuple[Array, Array, Array]:
    """Resolve the latent scales; give χ, √χ and w = s² E[1/a] (Algorithm 1, line 3; Algorithm 2, line 3).

    The conditional of a is GIG(½, 1, s²χ) with the slack χ = E(1 − y f)² = h² + v, a sum that never cancels.
    """
    slack = h * h + v
    root = np.sqrt(slack)
    return slack, root, resolve(Latent(s, root), *site).weight


def row_bound(h: Array, root: Array, s: Array) -> float:
    """Row term of the bound with the laws of the latent scales fresh: −Σ s (h + √χ)."""
    return -float(s @ (h + root))


def constant(root: Array, w: Array, s: Array) -> float:
    """κ = Σ (s + ½ s √χ + ½ w): the part of the row term that no update of the coefficients moves."""
    return float(s.sum()) + 0.5 * float(s @ root) + 0.5 * float(w.sum())


def log_odds(f: Array) -> Array:
    """Log odds of y = 1 by the normalised pseudo-likelihood e^{−2(1 − f)₊} : e^{−2(1 + f)₊}."""
    return 2.0 * (f + np.clip(f, -1.0, 1.0))


def averaged_log_odds(f: Array, variance: Array) -> Array:
    """Log odds of the mean probability where f is known up to this variance; it rises in f and is odd in it."""
    uncertain = variance > 0
    if not uncertain.any():
        return log_odds(f)
    found = log_odds(f)
    z, weights = np.polynomial.hermite_e.hermegauss(48)
    around = log_odds(f[uncertain, None] + np.sqrt(variance[uncertain, None]) * z)
    weights = weights / weights.sum()
    found[uncertain] = logsumexp(log_expit(around), axis=1, b=weights) - logsumexp(
        log_expit(-around), axis=1, b=weights
    )
    return found


def curvature(slack: Array, w: Array, v: Array) -> Array:
    """Minus the second derivative of the collapsed row term −s (h + √χ) in f: s v χ^(−3/2) = w v/χ."""
    return w * (v / slack)
