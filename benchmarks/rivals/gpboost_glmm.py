"""gpboost's generalised linear mixed model with a logit link, by a Laplace approximation."""

from typing import Any

import numpy as np
import pandas as pd

Numbers = dict[str, float]


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


def estimates(formula: str, data: pd.DataFrame) -> tuple[Numbers, Numbers, Numbers] | None:
    """Estimates, standard errors, and standard deviations of effects by our names; None for slopes."""
    import formulaic

    fixed, *terms = formula.replace(")", "").split(" + (")
    if any(not term.startswith("1 | ") for term in terms):
        return None
    factors = [term.removeprefix("1 | ") for term in terms]
    X = formulaic.model_matrix(fixed.split("~")[1], data)
    names = ["(intercept)" if name == "Intercept" else str(name) for name in X.columns]
    model = make(data[factors].to_numpy())
    model.fit(y=data["y"].to_numpy(dtype=float), X=np.asarray(X, dtype=float))
    found = np.asarray(model.get_coef(std_err=True, format_pandas=False))
    variances = np.asarray(model.get_cov_pars(format_pandas=False)).ravel()
    scales = {f"(1 | {factor}), (intercept)": float(v) ** 0.5 for factor, v in zip(factors, variances, strict=True)}
    return _by_name(names, found[0]), _by_name(names, found[1]), scales


def _by_name(names: list[str], values: np.ndarray) -> Numbers:
    return {name: float(value) for name, value in zip(names, values, strict=True)}
