"""Linear support vector machines that tune themselves, by variational Bayes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vbsvm.version import __version__

if TYPE_CHECKING:
    from vbsvm.archive import ModelFileError
    from vbsvm.comparison import compare
    from vbsvm.deployment import to_sklearn
    from vbsvm.estimators import VBSVC
    from vbsvm.fit.gibbs import Gibbs
    from vbsvm.fit.variational import Variational
    from vbsvm.imputation import GaussianImputation
    from vbsvm.loading import load
    from vbsvm.mechanism import NotAtRandom, Shift
    from vbsvm.model import Model
    from vbsvm.one_class import OneClassWarning
    from vbsvm.priors import Beta, Covariance, Factorised, InverseWishart, Joint, LaplaceZero, Normal, Ridge

__all__ = [
    "VBSVC",
    "Beta",
    "Covariance",
    "Factorised",
    "GaussianImputation",
    "Gibbs",
    "InverseWishart",
    "Joint",
    "LaplaceZero",
    "Model",
    "ModelFileError",
    "Normal",
    "NotAtRandom",
    "OneClassWarning",
    "Ridge",
    "Shift",
    "Variational",
    "__version__",
    "compare",
    "load",
    "to_sklearn",
]

_HOMES = {
    "compare": "vbsvm.comparison",
    "load": "vbsvm.loading",
    "to_sklearn": "vbsvm.deployment",
    "VBSVC": "vbsvm.estimators",
    "Beta": "vbsvm.priors",
    "Covariance": "vbsvm.priors",
    "Factorised": "vbsvm.priors",
    "GaussianImputation": "vbsvm.imputation",
    "Gibbs": "vbsvm.fit.gibbs",
    "InverseWishart": "vbsvm.priors",
    "Joint": "vbsvm.priors",
    "LaplaceZero": "vbsvm.priors",
    "Model": "vbsvm.model",
    "ModelFileError": "vbsvm.archive",
    "Normal": "vbsvm.priors",
    "NotAtRandom": "vbsvm.mechanism",
    "OneClassWarning": "vbsvm.one_class",
    "Ridge": "vbsvm.priors",
    "Shift": "vbsvm.mechanism",
    "Variational": "vbsvm.fit.variational",
}


def __getattr__(name: str) -> Any:
    """Load public names on first use, so that importing the package stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vbsvm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return __all__
