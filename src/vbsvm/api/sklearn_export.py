"""A fitted model as scikit-learn's own linear classifier, for places where vbsvm is not installed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from vbsvm.results.fit import Fit


def linear_classifier(
    fits: Sequence[Fit], classes: NDArray[Any], names: NDArray[Any] | None
) -> LinearSVC | LogisticRegression:
    """A linear classifier with the decision values of these fits, one for two classes and else one for each class."""
    kind: Any = LogisticRegression if fits[0].spec.likelihood.normalised else LinearSVC
    found = kind(fit_intercept=bool(fits[0].plan.recipe.intercept))
    slopes = [1.0] if len(fits) == 1 else [fit.slope for fit in fits]
    found.coef_ = np.stack([slope * fit.coef for slope, fit in zip(slopes, fits, strict=True)])
    found.intercept_ = np.array([slope * fit.intercept for slope, fit in zip(slopes, fits, strict=True)])
    found.classes_ = classes.copy()
    found.n_features_in_ = found.coef_.shape[1]
    passes = max(fit.outcome.passes for fit in fits)
    found.n_iter_ = np.array([passes], dtype=np.int32) if kind is LogisticRegression else passes
    if names is not None:
        found.feature_names_in_ = names.copy()
    return found


def to_sklearn(fit: Fit) -> LinearSVC | LogisticRegression:
    """The fit of a ``Model`` as a fitted linear classifier of scikit-learn over its columns, with the same scores.

    It is a ``LinearSVC``, or with a logistic likelihood a ``LogisticRegression``, whose probabilities are those at the
    coefficients' means. Every term of the formula must be a plain numeric column: categories, transforms, interactions,
    splines and group effects are not supported. It predicts complete rows only. ``VBSVC`` and ``VBLogistic`` have a
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
