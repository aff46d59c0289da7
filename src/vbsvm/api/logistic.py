"""The logistic classifier."""

from typing import ClassVar, final

from vbsvm.api.estimator import Classifier
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.logistic import LOGISTIC


@final
class VBLogistic(Classifier):
    """Logistic regression that infers its own penalty.

    Everything but the likelihood is as in ``VBSVC``: the penalty is inferred with the coefficients by variational
    Bayes, and there is nothing to tune. Coefficients are log odds, and probabilities are those of the model, averaged
    over the posterior: there is nothing to calibrate.

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
        Distribution of the inputs, from which missing values (NaN) are inferred. None means ``GaussianImputation()``.
    group : str or int, default None
        Column of X that holds the group of each row (a name for data frames, a number for arrays). Each group gets a
        random intercept, and the variance of the intercepts is inferred.
    standardize : bool, default True
        Scale the inputs to mean 0 and standard deviation 1 inside the fit. Coefficients are reported on
        the original scale of the inputs. Priors and ``penalty_`` refer to the standardised inputs.
    fit_intercept : bool, default True
        Add an intercept with a nearly flat prior.
    class_weight : dict or "balanced", default None
        Weights of the classes, multiplied by ``sample_weight`` in the likelihood. They move the border between the
        classes; probabilities are still those of the population of ``sample_weight``.
    random_state : int, RandomState or None, default None
        Seed of ``Gibbs``; an integer gives the same draws every time, whatever the number of processes.
    warm_start : bool, default False
        Begin ``fit`` where the last one ended.
    categories : {None, "one-hot"}, default None
        What is done with columns of text and categories. None refuses them. "one-hot" encodes each level as a column of
        zeros and ones, and the second alone where there are two; coefficients are named ``column[level]``. Missing
        levels are inferred like missing numbers, and so are levels that fit has not seen, with a warning.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_, coef_std_ : ndarray of shape (k, n_features)
        Means and standard deviations of the coefficients, as log odds; k is 1 for two classes, else the number of
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
    probability, which is nearer to one half where the log odds are less certain. So two rows may have probabilities in
    another order than their decision values, and scikit-learn's ``check_decision_proba_consistency`` fails.

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
