"""Priors that the user has not given: the paper's under the hinge loss, weakly informative ones in logistic models."""

from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Covariance, HalfT, Normal, Prior, Ridge

# The paper's σ_β² = 1e8.
INTERCEPT_PRIOR = Normal(1e8)
# A standard deviation of 2.5 for the log odds ratio of a standard deviation of the predictor, as in rstanarm.
FIXED_PRIOR = Normal(6.25)


def fixed_prior(likelihood: Likelihood, *, standardised: bool) -> Prior:
    """Of fixed effects; flat where columns are not standardised, as then no scale is known for them."""
    return FIXED_PRIOR if likelihood.normalised and standardised else INTERCEPT_PRIOR


def predictors_prior(likelihood: Likelihood) -> Prior:
    """Of the predictors of an estimator: their variance, and so the penalty, is inferred."""
    return HalfT() if likelihood.normalised else Ridge()


def intercepts_prior(likelihood: Likelihood) -> Prior:
    """Of a random intercept or slope on its own."""
    return HalfT() if likelihood.normalised else Ridge()


def covariance_prior(likelihood: Likelihood) -> Prior:
    """Of random effects that vary together."""
    return Covariance(scale=2.5) if likelihood.normalised else Covariance()
