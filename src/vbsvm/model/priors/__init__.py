"""Priors of a block of coefficients; ``base`` says what a prior is."""

from vbsvm.model.priors.base import Prior
from vbsvm.model.priors.covariance import Covariance, InverseWishart
from vbsvm.model.priors.laplace_zero import Beta, Factorised, Joint, LaplaceZero
from vbsvm.model.priors.normal import Normal
from vbsvm.model.priors.ridge import Ridge

__all__ = ["Beta", "Covariance", "Factorised", "InverseWishart", "Joint", "LaplaceZero", "Normal", "Prior", "Ridge"]
