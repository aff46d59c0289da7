"""Tidy tables, as broom names their columns: one row for each coefficient, or for each model."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

# Names in tidy tables, and those in a summary.
COLUMNS = {"estimate": "coefficient", "std_error": "sd", "conf_low": "lower", "conf_high": "upper"}


def terms(fit: "Fit", level: float, covariance: str | None, exponentiate: bool) -> "pd.DataFrame":
    """``term``, ``estimate``, ``std_error``, ``conf_low``, ``conf_high``: the numbers of ``Fit.summary``."""
    import pandas as pd

    if exponentiate and not fit.spec.likelihood.normalised:
        raise ValueError(
            "tidy: exponentiate=True gives odds ratios, and scores of the hinge loss are no log odds: use "
            'VBLogistic, or Model(…, likelihood="logistic").'
        )
    shown = fit.summary(level, covariance)
    columns: dict[str, Any] = {"term": [str(name) for name in shown.index]}
    for name, own in COLUMNS.items():
        values = shown[own].to_numpy()
        with np.errstate(over="ignore"):
            columns[name] = np.exp(values) if exponentiate and name != "std_error" else values
    found = pd.DataFrame(columns)
    found.attrs = dict(shown.attrs)
    return found


def model_row(fit: "Fit") -> dict[str, Any]:
    """What one row says of a model as a whole; ``elbo`` is NaN where there is no bound."""
    bounds, power = fit.course.bounds, fit.likelihood_power
    return {
        "n_rows": np.nan if fit.facts is None else float(fit.facts.n_rows),
        "n_terms": len(fit.coef) + int(fit.plan.recipe.intercept),
        "elbo": float(bounds[-1]) if len(bounds) else np.nan,
        "converged": bool(fit.converged),
    } | ({} if power == 1.0 else {"likelihood_power": power})


def models(fits: "tuple[Fit, ...]") -> "pd.DataFrame":
    """One row for each model."""
    import pandas as pd

    return pd.DataFrame([model_row(fit) for fit in fits])


def by_class(frames: "list[pd.DataFrame]", classes: Any) -> "pd.DataFrame":
    """Tables of models one below the other, with the class as the first column."""
    import pandas as pd

    for label, frame in zip(classes, frames, strict=True):
        frame.insert(0, "class", [label] * len(frame))
    joined = pd.concat(frames, ignore_index=True)
    joined.attrs = dict(frames[0].attrs)
    return joined
