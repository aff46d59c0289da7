"""What a fitted estimator tells as attributes: arrays over its models, on the scale of the user's columns."""

from abc import ABC
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from vbsvm.base.arrays import Array
from vbsvm.model.priors import LaplaceZero
from vbsvm.results import tables
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    import pandas as pd


class FittedAttributes(ABC):
    """Attributes with a trailing underscore, from ``fit_``: k models, one for two classes, else one for each class."""

    fit_: tuple[Fit, ...]
    classes_: NDArray[Any]
    group: str | int | None

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
        """Standard deviations of the coefficients, (k, n_features)."""
        return np.stack([fit.coef_std for fit in self._fits])

    @property
    def coef_cov_(self) -> Array:
        """Covariances of the coefficients, (k, n_features, n_features)."""
        return np.stack([fit.coef_cov for fit in self._fits])

    @property
    def intercept_(self) -> Array:
        """Means of the intercepts, (k,)."""
        return np.array([fit.intercept for fit in self._fits])

    @property
    def intercept_std_(self) -> Array:
        """Standard deviations of the intercepts, (k,)."""
        return np.array([fit.intercept_std for fit in self._fits])

    @property
    def slopes_(self) -> Array:
        """What a unit of each model's score adds to the log odds where the score is 0, (k,)."""
        return np.array([fit.slope for fit in self._fits])

    @property
    def penalty_(self) -> Array:
        """Expected penalty α of the standardised inputs, (k,)."""
        return np.array([fit.penalty for fit in self._fits])

    @property
    def likelihood_power_(self) -> Array:
        """The power of the pseudo-likelihood that was used, (k,)."""
        if self._fits[0].spec.likelihood.normalised:
            raise AttributeError("likelihood_power_ is only available under the hinge loss: the power is 1 here.")
        return np.array([fit.likelihood_power for fit in self._fits])

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

    @property
    def selected_(self) -> NDArray[np.bool_]:
        """Whether each input's inclusion probability is above the prior's threshold, (k, n_features)."""
        self._require_gates("selected_")
        prior = next(block.prior for block in self.fit_[0].spec.blocks if block.gate_of is not None)
        assert isinstance(prior, LaplaceZero)
        return self.inclusion_probability_ > prior.threshold

    @property
    def random_effects_(self) -> Any:
        """Mean and standard deviation of each group's effect; with several classes, the class is the first level."""
        if self.group is None:
            raise AttributeError("random_effects_ is only available after a fit with group= set to a column of X.")
        frames = [tables.random_effects(fit) for fit in self._fits]
        return tables.like_rows(self._fits[0], frames[0] if len(frames) == 1 else self._by_class(frames))

    def _by_class(self, frames: "list[pd.DataFrame]") -> "pd.DataFrame":
        """Tables of the models one below the other."""
        import pandas as pd

        joined = pd.concat(frames, keys=self.classes_, names=["class", frames[0].index.name])
        corners = [str(frame.columns.name) for frame in frames]
        joined.columns.name = max(corners, key=len)  # the one that says that numbers are rough, if there is one
        joined.attrs = frames[0].attrs | {"spreads": _notes(self.classes_, frames)}
        return joined


def _notes(classes: NDArray[Any], frames: "list[pd.DataFrame]") -> str:
    """What is to be known of spreads: once, or class by class where they differ."""
    notes = [frame.attrs["spreads"] for frame in frames]
    if len(set(notes)) == 1:
        return notes[0]
    return " ".join(f"Class {label!s}: {note}" for label, note in zip(classes, notes, strict=True))
