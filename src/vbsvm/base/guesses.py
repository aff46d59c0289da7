"""Names and arguments of other packages that are something else here: tables of hints, and errors that give them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, final

C = TypeVar("C", bound=type)


def _table(hints: dict[str, str]) -> dict[str, str]:
    """The hint for each of the names, which are separated by blanks."""
    return {name: hint for names, hint in hints.items() for name in names.split()}


_EITHER = {
    "load": "load a file with vbsvm.load(path)",
    "conf_int confint": "summary(level=0.95) has intervals, in the columns lower and upper",
    "fixef": "summary() has the fixed effects",
    "aic bic": "vbsvm.compare_models({'a': a, 'b': b}) compares models by left-out predictions",
    "margins get_margeff": "effects() has average marginal effects",
    "plot": "vbsvm.plots has figures, such as vbsvm.plots.coefficients(fit)",
}
_OF_FIT = {
    "ranef": "random_effects() has the random effects",
    "VarCorr": "variance_components() has standard deviations and correlations",
    "vcov cov_params": "coefficient_covariance() has the covariance",
    "coef_ intercept_ classes_": "coef, intercept and classes have no underscore; summary() has a table",
}
_OF_ESTIMATOR = {
    "ranef random_effects": "random_effects_ has the random effects",
    "VarCorr variance_components": "fit_[0].variance_components() has the standard deviations",
    "coef": "coef_ has the estimates; summary() has a table",
}
FIT, ESTIMATOR, MODEL = _table(_EITHER | _OF_FIT), _table(_EITHER | _OF_ESTIMATOR), {"load": _EITHER["load"]}
_SETTINGS = {
    "C alpha penalty": "the penalty is inferred from the data; a prior such as Normal(variance) fixes it",
    "kernel gamma degree": "the model is linear in its predictors; Model('y ~ s(x)', data) has curves",
    "solver method": "inference=Variational() or Gibbs() is the algorithm",
    "tol max_iter": "inference=Variational(…) has max_iter and tol",
    "draws chains": "inference=Gibbs(…) has draws and chains",
    "seed": "random_state=… is the seed of Gibbs()",
}
_OF_MODEL = {
    "family link loss": 'likelihood="logistic" (the default) or "hinge" is the model of two classes',
    "group groups": "random effects are terms of the formula, such as (1 | group)",
    "prior": 'priors={"fixed": Normal(1.0)} has priors by term',
    "inference random_state": "it is an argument of fit: Model(…).fit(inference, random_state=0)",
    "class_weight sample_weight": "weights=… has a number for each row, or names a column",
}
SETTINGS, MODEL_SETTINGS = _table(_SETTINGS), _table(_SETTINGS | _OF_MODEL)
SUMMARY = {
    "kind": "odds ratios are the columns odds_ratio, odds_ratio_lower and odds_ratio_upper of logistic models",
    "exponentiate": "logistic models have a column odds_ratio; tidy(exponentiate=True) has odds ratios alone",
}
PREDICTION = {"type": "predict_proba(data) has probabilities, and decision_function(data) scores"}


@final
class _Guess(str):
    """A hint in place of an attribute: to read it, from the class too, is an error that gives the hint."""

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__} has no {self}.")


def explain(attributes: dict[str, str] | None = None, **arguments: dict[str, str]) -> Callable[[C], C]:
    """Class decorator: these attributes, and by method these arguments, are errors that give their hint."""

    def decorate(cls: C) -> C:
        for name, hint in (attributes or {}).items():
            assert not hasattr(cls, name)
            setattr(cls, name, _Guess(f"{name!r}: {hint}"))
        for method, hints in arguments.items():
            owner = cls.__name__ if method == "__init__" else f"{cls.__name__}.{method}"
            setattr(cls, method, _checked(owner, getattr(cls, method), hints))
        return cls

    return decorate


def _checked(owner: str, function: Callable[..., Any], hints: dict[str, str]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs.keys() & hints:
            raise TypeError(f"{owner} has no argument {name!r}: {hints[name]}.")
        return function(*args, **kwargs)

    return call
