"""Short names of settings: ``prior="laplace-zero"`` means ``LaplaceZero()``, with its defaults."""

from collections.abc import Mapping
from typing import Any

from vbsvm.design.values import did_you_mean
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.model.priors import Covariance, HalfT, InverseWishart, LaplaceZero, Ridge

INFERENCES: Mapping[str, type[Any]] = {"variational": Variational, "gibbs": Gibbs}
# Normal has no default variance, and so no short name.
PRIORS: Mapping[str, type[Any]] = {"ridge": Ridge, "half-t": HalfT, "laplace-zero": LaplaceZero}
FORMULA_PRIORS: Mapping[str, type[Any]] = PRIORS | {"covariance": Covariance, "inverse-wishart": InverseWishart}


def resolve_alias(owner: str, value: Any, classes: Mapping[str, type[Any]]) -> Any:
    """Settings object for a short name; other objects are returned unchanged, and classes are rejected."""
    if isinstance(value, type):
        name = value.__name__
        raise TypeError(f"{owner} must be an object such as {name}(…); got the class {name} itself: add the brackets.")
    if not isinstance(value, str):
        return value
    if value not in classes:
        names = ", ".join(map(repr, classes))
        raise ValueError(f"{owner}: {value!r} is not known; the short names are {names}.{did_you_mean(value, classes)}")
    return classes[value]()
