"""Selected inputs in the manner of scikit-learn's selectors: a classifier as a step that keeps the columns it uses."""

# Types have no word for methods that are there for some priors only.
# pyright: reportIncompatibleMethodOverride=false

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import TransformerTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vbsvm.api import validation
from vbsvm.design import one_hot
from vbsvm.model.priors import LaplaceZero

if TYPE_CHECKING:
    from vbsvm.api.estimator import Classifier


def _selects(estimator: "Classifier") -> bool:
    """Whether the prior has gates; an AttributeError says which prior has some."""
    if not isinstance(estimator.prior, LaplaceZero) and estimator.prior != "laplace-zero":
        raise AttributeError('inputs are only selected with prior="laplace-zero" or prior=LaplaceZero(…).')
    return True


# SelectorMixin's own transform already heeds set_output: wrapped once more here, it would be there for every prior.
class InputSelection(SelectorMixin, auto_wrap_output_keys=None):
    """``transform`` and its companions, for priors that select inputs."""

    def _get_support_mask(self) -> NDArray[np.bool_]:
        """Whether each column of X is kept: an input of which any model selects a coefficient; the group is none."""
        estimator: Any = self
        check_is_fitted(estimator)
        inputs = validation.input_names(estimator)
        owners = one_hot.owners(inputs, getattr(estimator, "levels_", {}))
        kept = {inputs[owner] for owner in owners[estimator.selected_.any(axis=0)]}
        columns = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
        return np.array([name in kept for name in columns])

    @available_if(_selects)
    def get_support(self, indices: bool = False) -> Any:
        """Which columns of X are selected: a mask, or their numbers.

        With several classes a column counts that is selected for any of them.
        """
        return super().get_support(indices)

    @available_if(_selects)
    def transform(self, X: ArrayLike) -> Any:
        """The selected columns of X, with values as they are; ``set_output`` says whether as an array or a frame."""
        return super().transform(X)

    @available_if(_selects)
    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit the model, and give the selected columns of X."""
        return super().fit_transform(X, y, **fit_params)

    @available_if(_selects)
    def inverse_transform(self, X: ArrayLike) -> Any:
        """Selected columns back in their places among zeros."""
        return super().inverse_transform(X)

    @available_if(_selects)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the selected columns."""
        return super().get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        """A transformer only where the prior selects."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags() if hasattr(self, "transform") else None
        return tags
