"""What a fitted estimator tells as attributes: arrays over its models, on the scale of the user's columns."""

from abc import ABC

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vbsvm.base.arrays import Array
from vbsvm.results.fit import Fit


class FittedAttributes(ABC):
    """Attributes with a trailing underscore, from ``fit_``: k models, one for two classes, else one for each class."""

    fit_: tuple[Fit, ...]

    @property
    def _fits(self) -> tuple[Fit, ...]:
        check_is_fitted(self)
        return self.fit_

    @property
    def coef_(self) -> Array:
        """Means of the coefficients, (k, n_features)."""
        return np.stack([fit.coef for fit in self._fits])

    @property
    def coef_std_(self) -> Array:
        """Mean-field standard deviations of the coefficients, (k, n_features)."""
        return np.stack([fit.coef_std for fit in self._fits])

    @property
    def coef_cov_(self) -> Array:
        """Mean-field covariances of the coefficients, (k, n_features, n_features)."""
        return np.stack([fit.coef_cov for fit in self._fits])

    @property
    def intercept_(self) -> Array:
        """Means of the intercepts, (k,)."""
        return np.array([fit.intercept for fit in self._fits])

    @property
    def intercept_std_(self) -> Array:
        """Mean-field standard deviations of the intercepts, (k,)."""
        return np.array([fit.intercept_std for fit in self._fits])

    @property
    def penalty_(self) -> Array:
        """Expected penalty α of the standardised inputs, (k,)."""
        return np.array([fit.penalty for fit in self._fits])

    @property
    def inclusion_probability_(self) -> Array:
        """Probability that each input is included, (k, n_features)."""
        self._require_gates("inclusion_probability_")
        return np.stack([fit.inclusion_probability for fit in self._fits])

    @property
    def sign_probability_(self) -> Array:
        """Probability that the coefficient is positive if the input is included, (k, n_features)."""
        self._require_gates("sign_probability_")
        return np.stack([fit.sign_probability for fit in self._fits])

    def _require_gates(self, name: str) -> None:
        if not self._fits[0].selects:
            raise AttributeError(f"{name} is only available after a fit with prior=LaplaceZero().")

    @property
    def imputation_mean_(self) -> Array:
        """Means of the inputs, (k, n_features)."""
        return np.stack([fit.imputation_mean for fit in self._fits])

    @property
    def imputation_cov_(self) -> Array:
        """Covariances of the inputs, (k, n_features, n_features)."""
        return np.stack([fit.imputation_cov for fit in self._fits])

    @property
    def elbo_(self) -> float:
        """Lower bound on the log evidence, summed over the models."""
        return float(sum(fit.elbo for fit in self._fits))

    @property
    def elbo_trace_(self) -> list[Array]:
        """Accepted bounds of each model."""
        return [fit.bounds for fit in self._fits]

    @property
    def n_iter_(self) -> int:
        """Passes over the data, the largest of the models."""
        return max(fit.outcome.passes for fit in self._fits)

    @property
    def converged_(self) -> bool:
        """Whether all models converged."""
        return all(fit.converged for fit in self._fits)
