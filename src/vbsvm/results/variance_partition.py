"""Intraclass correlation and R² of logistic models on the latent scale, whose residual variance is π²/3."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import ScaleDraws
from vbsvm.design.columns import INTERCEPT
from vbsvm.results.covariance import log_variances
from vbsvm.results.fit_predictions import NEW, mean_scores, second_moment, with_groups
from vbsvm.results.prediction import level_covariances

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

RESIDUAL = math.pi**2 / 3
# Quantiles of each variance component, paired at random; of an odd number the median is among them.
N_DRAWS = 4001
NOTE = "Residual variance π²/3; variances of random effects at posterior medians, of slopes as means over observations."


def icc(fit: "Fit", level: float, data: Any) -> "pd.DataFrame":
    """Intraclass correlation of each grouping factor with its posterior interval."""
    import pandas as pd

    if not fit.plan.factors:
        raise ValueError("icc: the model has no grouping factor.")
    variances = _random_variances(fit, "icc", data)
    typical, shares = np.median(variances, axis=0), variances / (variances.sum(axis=1, keepdims=True) + RESIDUAL)
    lower, upper = np.quantile(shares, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    index = pd.Index([factor.name for factor in fit.plan.factors], name="factor")
    table = pd.DataFrame({"estimate": typical / (typical.sum() + RESIDUAL), "lower": lower, "upper": upper}, index)
    table.attrs = {"level": level, "note": f"Intraclass correlation on the latent scale. {NOTE}"}
    return table


def r2(fit: "Fit", data: Any) -> "pd.DataFrame":
    """Marginal and conditional R² (Nakagawa & Schielzeth 2013), with the parts of the variance in ``attrs``."""
    import pandas as pd

    random = np.median(_random_variances(fit, "r2", data), axis=0)
    rows = fit._effects_subject(data, None, None).rows
    scores = mean_scores(fit, with_groups(fit, rows.encoded({}), NEW)).mean
    fixed = float(np.cov(scores, ddof=0, aweights=rows.weights))
    total, names = fixed + float(random.sum()) + RESIDUAL, [factor.name for factor in fit.plan.factors]
    table = pd.DataFrame({"r2": [fixed / total, 1.0 - RESIDUAL / total]}, index=["marginal", "conditional"])
    variances = {"fixed": fixed, **dict(zip(names, random.tolist(), strict=True)), "residual": RESIDUAL}
    table.attrs = {"variances": variances, "note": f"Explained proportion of the variance on the latent scale. {NOTE}"}
    return table


def _random_variances(fit: "Fit", what: str, data: Any) -> Array:
    """Draws of each factor's part of the variance, draws × factors: the mean of zᵀΣz over the rows (Johnson 2014)."""
    if not fit.spec.likelihood.normalised:
        raise ValueError(f"{what}: the hinge loss has no residual variance to compare with: use likelihood='logistic'.")
    values, sd_of_log, rng = [], log_variances(fit), np.random.default_rng(0)
    for block, scale in zip(fit.spec.blocks, fit.posterior.state.scales, strict=True):
        chances = rng.permutation((np.arange(N_DRAWS) + 0.5) / N_DRAWS)
        if isinstance(scale, ScaleDraws):
            values.append(scale.values)
        elif block.name in sd_of_log:
            values.append(
                np.exp(sd_of_log[block.name] * ndtri(chances))[:, None, None] * scale.values_at(np.array([0.5]))
            )
        else:
            values.append(scale.values_at(chances))
    intercepts = all(factor.effects == (INTERCEPT,) for factor in fit.plan.factors)
    moment, columns = np.ones((1, 1)) if intercepts else second_moment(fit, data), []
    for k, factor in enumerate(fit.plan.factors):
        of_effects = moment if intercepts else moment[np.ix_(factor.slopes, factor.slopes)]
        columns.append(np.einsum("kqr,qr->k", level_covariances(fit.plan, fit.spec, values, k), of_effects))
    return np.column_stack(columns) if columns else np.zeros((1, 0))
