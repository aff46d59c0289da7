"""What scikit-learn expects or takes: a classifier as a selector of columns, and a fit as a linear classifier."""

# Types have no word for methods that are there for some priors only.
# pyright: reportIncompatibleMethodOverride=false

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vbsvm.api import validation
from vbsvm.design import one_hot
from vbsvm.results.fit import Fit

if TYPE_CHECKING:
    from vbsvm.api.estimator import Classifier


def linear_classifier(
    fits: Sequence[Fit], classes: NDArray[Any], names: NDArray[Any] | None
) -> LinearSVC | LogisticRegression:
    """A linear classifier with the decision values of these fits, one for two classes and else one for each class."""
    kind: Any = LogisticRegression if fits[0].spec.likelihood.normalised else LinearSVC
    classifier = kind(fit_intercept=bool(fits[0].plan.recipe.intercept))
    slopes = [1.0] if len(fits) == 1 else [fit.slope for fit in fits]
    classifier.coef_ = np.stack([slope * fit.coef for slope, fit in zip(slopes, fits, strict=True)])
    classifier.intercept_ = np.array([slope * fit.intercept for slope, fit in zip(slopes, fits, strict=True)])
    classifier.classes_ = classes.copy()
    classifier.n_features_in_ = classifier.coef_.shape[1]
    passes = max(fit.outcome.passes for fit in fits)
    classifier.n_iter_ = np.array([passes], dtype=np.int32) if kind is LogisticRegression else passes
    if names is not None:
        classifier.feature_names_in_ = names.copy()
    return classifier


def to_sklearn(fit: Fit) -> LinearSVC | LogisticRegression:
    """The fit of a ``Model`` as a fitted linear classifier of scikit-learn over its columns, with the same scores.

    It is a ``LinearSVC``, or with a logistic likelihood a ``LogisticRegression``, whose probabilities are those at the
    coefficients' means. Every term of the formula must be a plain numeric column: categories, transforms, interactions,
    splines and random effects are not supported. It predicts complete rows only. ``VBSVC`` and ``VBLogistic`` have a
    method of the same name.
    """
    if not isinstance(fit, Fit):
        kind = type(fit).__name__
        theirs = f"For a {kind} use {kind}.to_sklearn." if hasattr(fit, "to_sklearn") else "Estimators have a method."
        raise TypeError(f"to_sklearn takes the Fit of a Model; got {kind}. {theirs}")
    if fit.reader is None:
        raise TypeError("This fit belongs to an estimator: use VBSVC.to_sklearn or VBLogistic.to_sklearn.")
    reader, first = fit.reader, fit.plan.recipe.first
    hindrances = [str(term.term) for term in (*reader.effects, *reader.curves)]
    names = []
    for term, factors in zip(reader.fixed.names[first:], reader.fixed.factors[first:], strict=True):
        if len(factors) == 1 and factors[0] in reader.numeric and factors[0] not in reader.fixed.categorical:
            names.append(factors[0])
        else:
            hindrances.append(term)
    if hindrances:
        raise ValueError(
            "to_sklearn: a linear classifier takes numeric columns only, but the formula has "
            f"{', '.join(hindrances[:5])}"
            f"{' and more' if len(hindrances) > 5 else ''}. Use save and vbsvm.load instead."
        )
    return linear_classifier([fit], fit.classes, np.array(names, dtype=object))


def _selects(estimator: "Classifier") -> bool:
    """Whether the prior selects predictors; else an AttributeError names one that does."""
    if not estimator._selects_inputs:
        raise AttributeError('predictors are only selected with prior="laplace-zero" or prior=LaplaceZero(…).')
    return True


# SelectorMixin's own transform already heeds set_output: wrapped once more here, it would be there for every prior.
class InputSelection(SelectorMixin, auto_wrap_output_keys=None):
    """Mixin with ``transform`` and its companions, for priors that select predictors."""

    def _get_support_mask(self) -> NDArray[np.bool_]:
        """Whether each column of X is kept: a predictor of which any model selects a coefficient; the group is none."""
        estimator: Any = self
        check_is_fitted(estimator)
        inputs = validation.input_names(estimator)
        owners = one_hot.owners(inputs, getattr(estimator, "levels_", {}))
        selected = {inputs[owner] for owner in owners[estimator.selected_.any(axis=0)]}
        columns = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
        return np.array([name in selected for name in columns])

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
