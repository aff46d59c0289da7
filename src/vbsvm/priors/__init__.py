"""Priors of a block of coefficients; ``base`` says what a prior is."""

from vbsvm.priors.base import Prior
from vbsvm.priors.covariance import Covariance, InverseWishart
from vbsvm.priors.laplace_zero import Beta, Factorised, Joint, LaplaceZero
from vbsvm.priors.normal import Normal
from vbsvm.priors.ridge import Ridge

__all__ = ["Beta", "Covariance", "Factorised", "InverseWishart", "Joint", "LaplaceZero", "Normal", "Prior", "Ridge"]
