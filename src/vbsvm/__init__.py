"""Linear support vector machines and logistic models that tune themselves, by variational Bayes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vbsvm.version import __version__

if TYPE_CHECKING:
    from vbsvm import datasets as datasets
    from vbsvm import plots as plots
    from vbsvm.api.cross_validation import cross_validate
    from vbsvm.api.fit_warnings import OneClassWarning
    from vbsvm.api.model import Model
    from vbsvm.api.sklearn_support import to_sklearn
    from vbsvm.api.svc import VBSVC, VBLogistic, load
    from vbsvm.base.printing import ReliabilityWarning
    from vbsvm.inference.gibbs import Gibbs
    from vbsvm.inference.variational import Variational
    from vbsvm.missing.settings import GaussianImputation, NotAtRandom, Shift
    from vbsvm.model.priors import (
        Beta,
        Covariance,
        Factorised,
        HalfT,
        InverseWishart,
        Joint,
        LaplaceZero,
        Normal,
        Ridge,
    )
    from vbsvm.results.comparison.approximations import compare, pool
    from vbsvm.results.comparison.models import compare_models
    from vbsvm.results.fit import Fit
    from vbsvm.sources.files import Files
    from vbsvm.storage.saving import ModelFileError

__all__ = [
    "VBSVC",
    "Beta",
    "Covariance",
    "Factorised",
    "Files",
    "Fit",
    "GaussianImputation",
    "Gibbs",
    "HalfT",
    "InverseWishart",
    "Joint",
    "LaplaceZero",
    "Model",
    "ModelFileError",
    "Normal",
    "NotAtRandom",
    "OneClassWarning",
    "ReliabilityWarning",
    "Ridge",
    "Shift",
    "VBLogistic",
    "Variational",
    "__version__",
    "compare",
    "compare_models",
    "cross_validate",
    "load",
    "pool",
    "to_sklearn",
]

_HOMES = {
    "compare": "vbsvm.results.comparison.approximations",
    "compare_models": "vbsvm.results.comparison.models",
    "cross_validate": "vbsvm.api.cross_validation",
    "load": "vbsvm.api.svc",
    "pool": "vbsvm.results.comparison.approximations",
    "to_sklearn": "vbsvm.api.sklearn_support",
    "VBLogistic": "vbsvm.api.svc",
    "VBSVC": "vbsvm.api.svc",
    "Beta": "vbsvm.model.priors",
    "Covariance": "vbsvm.model.priors",
    "Factorised": "vbsvm.model.priors",
    "Files": "vbsvm.sources.files",
    "Fit": "vbsvm.results.fit",
    "GaussianImputation": "vbsvm.missing.settings",
    "Gibbs": "vbsvm.inference.gibbs",
    "HalfT": "vbsvm.model.priors",
    "InverseWishart": "vbsvm.model.priors",
    "Joint": "vbsvm.model.priors",
    "LaplaceZero": "vbsvm.model.priors",
    "Model": "vbsvm.api.model",
    "ModelFileError": "vbsvm.storage.saving",
    "Normal": "vbsvm.model.priors",
    "NotAtRandom": "vbsvm.missing.settings",
    "OneClassWarning": "vbsvm.api.fit_warnings",
    "ReliabilityWarning": "vbsvm.base.printing",
    "Ridge": "vbsvm.model.priors",
    "Shift": "vbsvm.missing.settings",
    "Variational": "vbsvm.inference.variational",
}
# Packages that need no import of their own.
_PACKAGES = ("datasets", "plots")


def __getattr__(name: str) -> Any:
    """Load public names on first use, so that importing the package stays quick."""
    if name in _PACKAGES:
        return import_module(f"vbsvm.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'vbsvm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return [*__all__, *_PACKAGES]
