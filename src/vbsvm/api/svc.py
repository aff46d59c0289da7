"""The two classifiers, support vector machine and logistic regression, and ``load`` for these and for fits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike

from vbsvm.api import validation
from vbsvm.api.estimator import LEARNED, Classifier
from vbsvm.base import guesses
from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.likelihoods.logistic import LOGISTIC
from vbsvm.results import prediction
from vbsvm.results.consistency import check_agreement
from vbsvm.results.fit import Fit
from vbsvm.storage import saving

C = TypeVar("C", bound=Classifier)


@final
@guesses.explain(__init__=guesses.SETTINGS)
@dataclass(eq=False, repr=False, kw_only=True)
class VBSVC(Classifier):
    """Linear support vector classifier whose penalty is estimated with the coefficients.

    The hinge loss is used as a pseudo-likelihood and fitted by variational Bayes (Luts & Ormerod), so that the penalty
    is inferred with the coefficients: there is nothing to tune, and no cross-validation is run.

    Parameters
    ----------
    prior : Ridge, Normal, LaplaceZero, "ridge" or "laplace-zero", default None
        Prior of the coefficients of the standardised predictors. None means ``Ridge()``: their variance, and so the
        penalty, is inferred. ``Normal(1 / (4 * alpha))`` fixes it at alpha. ``LaplaceZero()`` selects predictors.
    inference : Variational, Gibbs, "variational" or "gibbs", default None
        How the model is fitted. None means ``Variational()``; ``Gibbs()`` draws from the posterior.
    imputation : GaussianImputation, default None
        Distribution of the predictors, from which missing values (NaN) are imputed within the fit. None means
        ``GaussianImputation()``.
    group : str or int, default None
        Column of X with the grouping factor (a name for data frames, a number for arrays), numbers or text. Each level
        has a random intercept, and the variance of the intercepts is inferred. A new level has a random intercept of 0.
    standardize : bool, default True
        Scale the predictors to mean 0 and standard deviation 1 inside the fit. Coefficients are reported on the
        original scale; priors and ``penalty_`` refer to the standardised predictors.
    fit_intercept : bool, default True
        Add an intercept with a nearly flat prior. Without one the predictors are scaled but not centred, so that
        the hyperplane passes through the origin.
    class_weight : dict or "balanced", default None
        Weights of the classes, multiplied by ``sample_weight`` in the loss; columns are standardised without them.
        "balanced" gives all classes the same total weight.
    random_state : int, RandomState or None, default None
        Seed of ``Gibbs``; an integer gives the same draws every time, whatever the number of processes.
    verbose : bool or int, default None
        Whether to show the progress of fits on stderr. None is in terminals and notebooks, once a fit takes seconds.
    warm_start : bool, default False
        Start ``fit`` from the last solution: the same result, up to the tolerance, in fewer iterations if the data have
        changed little. It applies to variational fits to complete tables, without ``LaplaceZero`` and ``group``; others
        ignore it.
    categories : {None, "one-hot"}, default None
        Encoding of columns of text and categories. None raises an error. "one-hot" encodes each level as a dummy
        variable, and only the second of two; coefficients are named ``column[level]``. Missing levels are imputed like
        missing numbers, and so are levels not seen in ``fit``, with a warning.
    likelihood_power : float or "calibrated", default None
        The power of the pseudo-likelihood, above 0 and up to 1. At 1, the paper's model, the posterior is
        overconfident. "calibrated" estimates the power at which posterior and sampling variances agree, by one or two
        further fits. None is "calibrated" with ``LaplaceZero``, and 1 with other priors, with ``group``, with more
        predictors than observations, if missing values are inferred together with the coefficients, and
        with ``Variational(bound="augmented")`` or ``accelerate=False``, the paper's algorithm.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_, coef_std_ : ndarray of shape (k, n_features)
        Means and standard deviations of the coefficients; k is 1 for two classes, else the number of classes
        (one against the rest). Standard deviations are those of ``summary``: robust standard errors in most models,
        computed from the training data on first access.
    coef_cov_ : ndarray of shape (k, n_features, n_features)
        Covariances of the coefficients, of the same kind; ``fit_[0].coefficient_covariance(kind)`` gives others.
    intercept_, intercept_std_ : ndarray of shape (k,)
        The intercepts and their standard deviations.
    slopes_ : ndarray of shape (k,)
        Derivative of the log odds of a class with respect to the decision value, at 0; estimated with
        ``predict_proba``. With several classes ``decision_function`` is ``slopes_ * (X @ coef_.T + intercept_)``.
    penalty_ : ndarray of shape (k,)
        Expected penalty α = 1/(4σ²) of the standardised predictors.
    likelihood_power_ : ndarray of shape (k,)
        Likelihood power of each model.
    elbo_ : float
        Evidence lower bound of the pseudo-likelihood, summed over the k models; comparable only between fits of the
        same ``likelihood_power_``.
    elbo_trace_ : list of k ndarrays
        ELBO after each accepted step.
    n_iter_ : int
        Number of iterations (passes over the data), including rejected steps; the maximum over the k models.
    converged_ : bool
        Whether all k models converged.
    fit_ : tuple of k Fit
        The fitted models themselves.
    inclusion_probability_, sign_probability_ : ndarray of shape (k, n_features)
        With ``prior=LaplaceZero()``: the probability that a predictor is included, and that its coefficient is
        positive if it is.
    selected_ : ndarray of bool of shape (k, n_features)
        With ``prior=LaplaceZero()``: predictors whose inclusion probability is above the prior's threshold.
    imputation_mean_, imputation_cov_ : ndarray of shape (k, n_features) and (k, n_features, n_features)
        Mean and covariance of the predictors, from which missing values are imputed; for up to 3000 features.
    levels_ : dict of ndarray
        With ``categories="one-hot"``: the levels of each categorical column.
    random_effects_ : DataFrame
        With ``group``: mean and standard deviation of the random intercept of each level.
    n_features_in_, feature_names_in_
        As in any scikit-learn estimator; the group column is counted here, but not in ``coef_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vbsvm import VBSVC
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = VBSVC().fit(X, y)
    >>> print(f"{clf.score(X, y):.2f}")
    0.99
    """

    likelihood: ClassVar[Likelihood] = HINGE

    likelihood_power: float | str | None = None

    def pseudo_probability(self, X: ArrayLike) -> Array:
        """Probabilities by the normalised pseudo-likelihood e^{−2(1 − f)₊} : e^{−2(1 + f)₊}; they are not calibrated.

        They are averaged over the posterior like those of ``predict_proba``.
        """
        return prediction.probabilities(prediction.pseudo_log_odds(self._scores(X)))


@final
@guesses.explain(__init__=guesses.SETTINGS)
@dataclass(eq=False, repr=False, kw_only=True)
class VBLogistic(Classifier):
    """Logistic regression whose penalty is estimated with the coefficients.

    Everything but the likelihood is as in ``VBSVC``: the penalty is inferred with the coefficients by variational
    Bayes, and there is nothing to tune. Coefficients are log odds ratios, and probabilities are posterior
    means: there is nothing to calibrate.

    Parameters
    ----------
    prior : HalfT, Ridge, Normal, LaplaceZero, "half-t", "ridge" or "laplace-zero", default None
        Prior of the coefficients of the standardised predictors. None means ``HalfT()``: their standard deviation, and
        so the penalty, is inferred. ``Ridge()`` infers it with an inverse gamma prior of the variance. ``Normal(C)``
        fixes it, as ``C`` does in scikit-learn. ``LaplaceZero()`` selects predictors.
    inference : Variational, Gibbs, "variational" or "gibbs", default None
        How the model is fitted. None means ``Variational()``; ``Gibbs()`` draws from the posterior, with Pólya-Gamma
        weights.
    imputation : GaussianImputation, default None
        Distribution of the predictors, from which missing values (NaN) are imputed. None means
        ``GaussianImputation()``.
    group : str or int, default None
        Column of X with the grouping factor (a name for data frames, a number for arrays). Each level has a random
        intercept, and the variance of the intercepts is inferred.
    standardize : bool, default True
        Scale the predictors to mean 0 and standard deviation 1 inside the fit. Coefficients are reported on the
        original scale; priors and ``penalty_`` refer to the standardised predictors.
    fit_intercept : bool, default True
        Add an intercept with a nearly flat prior.
    class_weight : dict or "balanced", default None
        Weights of the classes, multiplied by ``sample_weight`` in the likelihood. They move the decision boundary;
        probabilities are still those of the population of ``sample_weight``.
    random_state : int, RandomState or None, default None
        Seed of ``Gibbs``; an integer gives the same draws every time, whatever the number of processes.
    verbose : bool or int, default None
        Whether to show the progress of fits on stderr. None is in terminals and notebooks, once a fit takes seconds.
    warm_start : bool, default False
        Start ``fit`` from the last solution.
    categories : {None, "one-hot"}, default None
        Encoding of columns of text and categories. None raises an error. "one-hot" encodes each level as a dummy
        variable, and only the second of two; coefficients are named ``column[level]``. Missing levels are imputed like
        missing numbers, and so are levels not seen in ``fit``, with a warning.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_, coef_std_ : ndarray of shape (k, n_features)
        Means and standard deviations of the coefficients, log odds ratios; k is 1 for two classes, else the number of
        classes (one against the rest).
    intercept_, intercept_std_ : ndarray of shape (k,)
        The intercepts and their standard deviations.
    penalty_, elbo_, elbo_trace_, n_iter_, converged_, fit_
        As in ``VBSVC``.
    inclusion_probability_, sign_probability_, selected_, imputation_mean_, imputation_cov_, random_effects_
        As in ``VBSVC``.
    n_features_in_, feature_names_in_
        As in any scikit-learn estimator; the group column is counted here, but not in ``coef_``.

    Notes
    -----
    ``decision_function`` gives the posterior mean of the log odds, ``predict_proba`` the posterior mean of the
    probability, which is closer to one half if the log odds are less certain. Probabilities may therefore be ordered
    differently from decision values, and scikit-learn's ``check_decision_proba_consistency`` fails.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vbsvm import VBLogistic
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = VBLogistic().fit(X, y)
    >>> print(f"{clf.score(X, y):.2f}")
    0.99
    """

    likelihood: ClassVar[Likelihood] = LOGISTIC


def load(path: str | os.PathLike[str]) -> Fit | VBSVC | VBLogistic:
    """Read a file written by ``save`` of a fit or an estimator; predictions and summaries are the same as before.

    Nothing in the file is executed. An invalid file raises ``ModelFileError``.

    Examples
    --------
    >>> import tempfile, vbsvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     vbsvm.VBSVC().fit(X, y).save(f"{place}/model.vbsvm")
    ...     clf = vbsvm.load(f"{place}/model.vbsvm")
    >>> print(f"{clf.score(X, y):.2f}")
    0.99
    """
    estimators = {kind.__name__: partial(_classifier, kind) for kind in (VBSVC, VBLogistic)}
    return saving.read(path, {"Fit": _fit, **estimators})


def _fit(content: Mapping[str, Any]) -> Fit:
    fit = saving.REGISTRY.make(Fit, content)
    check_agreement(fit)
    return fit


def _classifier(kind: type[C], content: Mapping[str, Any]) -> C:
    clf = kind(**content["parameters"])
    clf.check_settings()
    fits = [_fit(content_of_fit) for content_of_fit in content["fits"]]
    learned = content["learned"]
    classes = learned["classes_"]
    if set(learned) | {"feature_names_in_", "levels_"} != set(LEARNED) or not isinstance(classes, np.ndarray):
        raise ValueError(f"a {kind.__name__} does not have the attributes {sorted(learned)}")
    if len(classes) < 2 or len(fits) != (1 if len(classes) == 2 else len(classes)):
        raise ValueError(f"there are {len(fits)} models of {len(classes)} classes")
    labels = [fit.classes[1] for fit in fits] if len(fits) > 1 else fits[0].classes
    if [*map(str, labels)] != [*map(str, classes)]:
        raise ValueError("its classes differ from those of its models")
    vars(clf).update(learned, fit_=tuple(fits))
    n_columns = learned["n_features_in_"]
    if len(learned.get("feature_names_in_", range(n_columns))) != n_columns:
        raise ValueError(f"it has {n_columns!r} columns, but {len(learned['feature_names_in_'])} names")
    factors = [factor.name for factor in fits[0].plan.factors]
    if factors != ([] if clf.group is None else [str(clf.group)]):
        raise ValueError(f"its group {clf.group!r} differs from that of its models")
    if validation.column_names(clf) != fits[0].plan.names:
        raise ValueError(f"its columns differ from those of its models, {fits[0].plan.names}")
    return clf
