"""Intraclass correlations and explained variance of logistic models, on the latent scale: residual variance π²/3.

The variance of random effects with slopes is the mean of zᵀΣz over the observations (Johnson 2014).
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from vbsvm.base.arrays import Array
from vbsvm.results.covariance import log_variances
from vbsvm.results.fit_predictions import design_moments
from vbsvm.results.posterior import Sampled
from vbsvm.results.prediction import level_covariances

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

RESIDUAL = math.pi**2 / 3
# Quantiles of each variance component that are paired at random; an odd number has the median among them.
N_DRAWS = 4001


def check_latent(fit: "Fit", what: str) -> None:
    """Raise for a likelihood whose latent variable has no known variance."""
    if not fit.spec.likelihood.normalised:
        raise ValueError(
            f"{what}: decision values of the hinge loss have no residual variance to compare with: use a logistic "
            "model (likelihood='logistic')."
        )


def random_variances(fit: "Fit", second_moment: Array | None) -> Array:
    """Draws of each factor's variance of the linear predictor, draws × factors.

    ``second_moment`` is the mean of c cᵀ over the rows c of the design; None if all random effects are intercepts.
    """
    plan, spec, posterior = fit.plan, fit.spec, fit.posterior
    if isinstance(posterior, Sampled):
        sizes = (math.isqrt(values.shape[2]) for values in posterior.sample.scales)
        values = [one.reshape(-1, q, q) for one, q in zip(posterior.sample.scales, sizes, strict=True)]
    else:
        rng, sd_of_log, values = np.random.default_rng(0), log_variances(fit), []
        for block, scale in zip(spec.blocks, posterior.state.scales, strict=True):
            chances = rng.permutation((np.arange(N_DRAWS) + 0.5) / N_DRAWS)
            if block.name in sd_of_log:
                spread = np.exp(sd_of_log[block.name] * ndtri(chances))
                values.append(spread[:, None, None] * scale.values_at(np.array([0.5])))
            else:
                values.append(scale.values_at(chances))
    by_factor = []
    for k, factor in enumerate(plan.factors):
        covariances = level_covariances(plan, spec, values, k)
        moment = np.ones((1, 1)) if second_moment is None else second_moment[np.ix_(factor.slopes, factor.slopes)]
        by_factor.append(np.einsum("kqr,qr->k", covariances, moment))
    return np.stack(by_factor, axis=1) if by_factor else np.zeros((1, 0))


def icc(fit: "Fit", level: float, data: Any) -> "pd.DataFrame":
    """Latent-scale intraclass correlation of each grouping factor, with posterior intervals."""
    import pandas as pd

    check_latent(fit, "icc")
    factors = fit.plan.factors
    if not factors:
        raise ValueError("icc: the model has no grouping factor.")
    intercepts = all(factor.effects == ("(intercept)",) for factor in factors)
    variances = random_variances(fit, None if intercepts else design_moments(fit, data)[1])
    shares = variances / (variances.sum(axis=1, keepdims=True) + RESIDUAL)
    typical = np.median(variances, axis=0)
    lower, upper = np.quantile(shares, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    index = pd.Index([factor.name for factor in factors], name="factor")
    table = pd.DataFrame({"estimate": typical / (typical.sum() + RESIDUAL), "lower": lower, "upper": upper}, index)
    note = "Intraclass correlation on the latent scale, σ² / (Σ σ² + π²/3), at the posterior medians of the variances"
    table.attrs = {"level": level, "note": f"{note}; posterior intervals{_MEAN * (not intercepts)}."}
    return table


_MEAN = ". Variances of random slopes are means over the observations"


def r2(fit: "Fit", data: Any) -> "pd.DataFrame":
    """Marginal and conditional R² of Nakagawa & Schielzeth (2013), at the posterior means and medians."""
    import pandas as pd

    check_latent(fit, "r2")
    mean, second_moment = design_moments(fit, data)
    coefficients, n = fit.posterior.mean, fit.plan.n_fixed
    fixed = float(coefficients @ (second_moment - np.outer(mean, mean))[:n, :n] @ coefficients)
    random = np.median(random_variances(fit, second_moment), axis=0)
    total = fixed + float(random.sum()) + RESIDUAL
    table = pd.DataFrame({"r2": [fixed / total, 1.0 - RESIDUAL / total]}, index=pd.Index(["marginal", "conditional"]))
    names = [factor.name for factor in fit.plan.factors]
    variances = {"fixed": fixed, **dict(zip(names, random.tolist(), strict=True)), "residual": RESIDUAL}
    note = (
        "Proportion of the variance on the latent scale that fixed effects explain (marginal), or fixed and random "
        f"effects (conditional); residual variance π²/3{_MEAN * bool(names)}."
    )
    table.attrs = {"variances": variances, "note": note}
    return table
