"""Short names of settings: ``prior="laplace-zero"`` means ``LaplaceZero()``, with its defaults."""

from collections.abc import Mapping
from typing import Any

from vbsvm.design.values import meant
from vbsvm.inference.gibbs import Gibbs
from vbsvm.inference.variational import Variational
from vbsvm.model.priors import Covariance, HalfT, InverseWishart, LaplaceZero, Ridge

INFERENCES: Mapping[str, type[Any]] = {"variational": Variational, "gibbs": Gibbs}
# Normal has no default variance, and so no short name.
PRIORS: Mapping[str, type[Any]] = {"ridge": Ridge, "half-t": HalfT, "laplace-zero": LaplaceZero}
FORMULA_PRIORS: Mapping[str, type[Any]] = PRIORS | {"covariance": Covariance, "inverse-wishart": InverseWishart}


def resolve_alias(what: str, given: Any, known: Mapping[str, type[Any]]) -> Any:
    """The settings of a short name; any other object stays as it is, and a class without its brackets is refused."""
    if isinstance(given, type):
        name = given.__name__
        raise TypeError(f"{what} must be an object such as {name}(…); got the class {name} itself: add the brackets.")
    if not isinstance(given, str):
        return given
    if given not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"{what}: {given!r} is not known; the short names are {names}.{meant(given, known)}")
    return known[given]()
