"""Priors of a block of coefficients, one file each; ``base`` is the interface. It may import base, and the interfaces
and layouts of model; priors depend on the data only through the moments of their own coefficients.
"""

from vbsvm.model.priors.base import Prior
from vbsvm.model.priors.covariance import Covariance, InverseWishart
from vbsvm.model.priors.laplace_zero import Beta, Factorised, Joint, LaplaceZero
from vbsvm.model.priors.normal import HalfT, Normal, Ridge

__all__ = [
    "Beta",
    "Covariance",
    "Factorised",
    "HalfT",
    "InverseWishart",
    "Joint",
    "LaplaceZero",
    "Normal",
    "Prior",
    "Ridge",
]
