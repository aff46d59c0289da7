"""Settings of every kind: each is fitted to finite numbers, or refused in words that name the class and the setting."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from vbsvm import (
    VBSVC,
    Beta,
    Covariance,
    GaussianImputation,
    Gibbs,
    InverseWishart,
    Joint,
    LaplaceZero,
    Model,
    Normal,
    NotAtRandom,
    Ridge,
    Shift,
    Variational,
)

VALUES = [
    None, "a", -1, 0, np.nan, np.inf, True, [], {}, 1e300, 1e-300, 1e100, 1e-100, 10**99, 10**400, object(),
    np.array([1, 2]),
]  # fmt: skip
SHORT = {"draws": 5, "tune": 5, "chains": 1}
BOTH = Variational(max_iter=30), Gibbs(**SHORT)


def complete():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, X[:, 0] + rng.logistic(size=30) > 0


def incomplete():
    X, y = complete()
    X[3, 1] = X[7, 2] = np.nan
    return X, y


def grouped():
    X, y = complete()
    return pd.DataFrame(X, columns=list("abc")).assign(y=y.astype(int), g=np.arange(30) % 5)


def finite(clf, X, y):
    clf.fit(X, y)
    for found in (clf.coef_, clf.coef_std_, clf.intercept_, clf.penalty_, clf.predict_proba(X)):
        assert np.isfinite(found).all()


def of_inputs(prior):
    for inference in BOTH[: 1 if prior.joint else 2]:
        finite(VBSVC(prior, inference, random_state=0), *complete())


def of_groups(prior):
    term, frame = "(1 | g)" if isinstance(prior, Ridge) else "(b | g)", grouped()
    for inference in BOTH:
        fit = Model(f"y ~ a + b + {term}", frame, {term: prior}).fit(inference, random_state=0)
        for found in (fit.coef, fit.coef_std, fit.predict_proba(frame), fit.random_effects()):
            assert np.isfinite(found).all(axis=None)
        fit.variance_components()


def of_missing(imputation):
    for inference in BOTH:
        finite(VBSVC(inference=inference, imputation=imputation, random_state=0), *incomplete())


def of_mechanism(mechanism):
    of_missing(GaussianImputation(mechanism=mechanism))


def of_inference(inference):
    if isinstance(inference, Variational) or max(inference.draws, inference.n_tune()) < 100:
        finite(VBSVC(inference=inference, random_state=0), *complete())


def refused(work):
    """The error in words that the work ends with, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        try:
            work()
        except (ValueError, TypeError) as error:
            return error
    return None


CLASSES = [
    (Ridge, ["shape", "rate"], {}, of_inputs),
    (Ridge, ["shape", "rate"], {}, of_groups),
    (Normal, ["variance"], {}, of_inputs),
    (
        LaplaceZero,
        ["rho", "expected_size", "shape", "rate", "threshold", "restarts", "groups", "gates"],
        {},
        of_inputs,
    ),
    (LaplaceZero, ["rho", "shape", "rate"], {"gates": Joint()}, of_inputs),
    (Beta, ["a", "b"], {}, lambda share: of_inputs(LaplaceZero(share))),
    (Covariance, ["scale", "degrees"], {}, of_groups),
    (InverseWishart, ["psi", "nu"], {}, of_groups),
    (GaussianImputation, ["psi", "nu", "variance", "joint", "labels", "mechanism"], {}, of_missing),
    (GaussianImputation, ["psi", "nu", "variance"], {"joint": True}, of_missing),
    (GaussianImputation, ["psi", "nu"], {"labels": "none"}, of_missing),
    (NotAtRandom, ["columns", "variance"], {}, of_mechanism),
    (Shift, ["by"], {}, of_mechanism),
    (Variational, ["tol", "max_iter", "accelerate"], {}, of_inference),
    (Gibbs, ["draws", "tune", "chains", "thin", "checkpoint", "accelerate"], SHORT, of_inference),
]


@pytest.mark.parametrize(
    ("kind", "name", "others", "use"),
    [
        pytest.param(kind, name, others, use, id=f"{kind.__name__}-{name}-{use.__name__}-{len(others)}")
        for kind, names, others, use in CLASSES
        for name in names
    ],
)
def test_a_setting_of_any_kind_fits_or_is_refused_in_words(kind, name, others, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Gibbs(checkpoint="a") writes there
    for value in VALUES:
        refusal = refused(lambda value=value: use(kind(**{**others, name: value})))
        if refusal is not None:
            assert type(refusal) in (ValueError, TypeError), (value, refusal)
            assert kind.__name__ in str(refusal), (value, refusal)
            assert name in str(refusal), (value, refusal)


TINY, HUGE = 1e-100, 1e100
EXTREMES = [
    *((of_inputs, Ridge(shape, rate)) for shape in (TINY, HUGE) for rate in (TINY, HUGE)),
    *((of_groups, Ridge(shape, rate)) for shape in (TINY, HUGE) for rate in (TINY, HUGE)),
    *((of_inputs, Normal(variance)) for variance in (TINY, HUGE)),
    *((of_inputs, LaplaceZero(rho, shape=TINY, rate=HUGE)) for rho in (1e-300, 1 - 1e-16)),
    *((of_inputs, LaplaceZero(rho, shape=HUGE, rate=TINY)) for rho in (1e-300, 1 - 1e-16)),
    *((of_inputs, LaplaceZero(Beta(a, b))) for a in (1e-6, 1e9) for b in (1e-6, 1e9)),
    *((of_groups, Covariance(scale, degrees)) for scale in (1e-10, 1e10) for degrees in (1e-6, 1e6)),
    *((of_groups, InverseWishart(psi, nu)) for psi in (1e-20, 1e20) for nu in (1 + 1e-15, 1e9)),
    *((of_missing, GaussianImputation(psi, nu, TINY, joint=True)) for psi in (TINY, HUGE) for nu in (TINY, HUGE)),
    (of_mechanism, Shift(-999_999)),
]


@pytest.mark.parametrize(("use", "settings"), EXTREMES)
def test_the_largest_and_smallest_settings_give_finite_numbers(use, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        use(settings)


def test_a_wide_table_under_a_flat_prior_gives_words_and_no_linalg_error():
    X = np.random.default_rng(0).normal(size=(12, 40))
    with pytest.raises(FloatingPointError, match=r"first step can't be made.*use a prior with a smaller variance"):
        VBSVC(Normal(HUGE)).fit(X, np.arange(12) % 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LaplaceZero(0.2, expected_size=3),
            r"rho=0.2 and expected_size=3 both set the number of included predictors",
        ),
        (lambda: LaplaceZero([0.1, 0.2], expected_size=1), "both set the number"),
        (lambda: LaplaceZero(Beta(), expected_size=1), "both set the number"),
        (lambda: LaplaceZero(groups=["ab", "cd"]), "groups must be a list of lists of columns"),
        (lambda: LaplaceZero(groups=[{"a": 1}]), "groups must be a list of lists of columns"),
        (lambda: VBSVC(LaplaceZero(groups=[[[1], 2]])).fit(*complete()), r"groups contain \[1\], which is not one of"),
        (lambda: NotAtRandom(columns=["a", "b", "a"]), "columns names a column twice"),
        (lambda: Shift({"a": "far"}), "by must be a number"),
        (lambda: Gibbs(checkpoint=""), "checkpoint must be a path or None"),
    ],
)
def test_settings_that_contradict_themselves(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("start", "change", "message"),
    [
        ({}, {"prior__rho": 0.1}, r"Ridge has no parameter 'rho'; it has \['shape', 'rate'\]"),
        ({}, {"prior__": 0.1}, "Ridge has no parameter ''"),
        ({}, {"prior__rate__x": 0.1}, "Ridge has no parameter 'rate__x'"),
        ({}, {"inference__draws": 10}, "Variational has no parameter 'draws'"),
        ({}, {"imputation__rate": 10}, "GaussianImputation has no parameter 'rate'"),
        ({"prior": 5}, {"prior__rate": 1.0}, r"prior must be an object such as Ridge\(\).*got 5"),
        ({}, {"prior": "rigde", "prior__rate": 1.0}, "prior: 'rigde' is not known"),
        ({"inference": 5}, {"inference__tol": 1.0}, r"inference must be an object such as Variational\(\)"),
        ({"imputation": 5}, {"imputation__psi": 1.0}, r"imputation must be an object such as GaussianImputation\(\)"),
        ({}, {"standardize__x": 1}, "Invalid parameter 'standardize__x' for VBSVC: it has"),
        ({}, {"group": "g", "colour": 1}, "Invalid parameter 'colour' for VBSVC: it has"),
        ({}, {"__rate": 1}, "Invalid parameter '__rate'"),
        ({"prior": LaplaceZero(expected_size=2)}, {"prior__rho": 0.5}, "both set the number of included predictors"),
    ],
)
def test_set_params_says_what_is_wrong_and_changes_nothing(start, change, message):
    clf = VBSVC(**start)
    before = clf.get_params(deep=False)
    with pytest.raises((ValueError, TypeError), match=message):
        clf.set_params(**change)
    assert clf.get_params(deep=False) == before


@pytest.mark.parametrize(
    ("change", "name", "found"),
    [
        ({"prior__rate": 1.0}, "prior", Ridge(rate=1.0)),
        ({"inference__tol": 1e-3}, "inference", Variational(tol=1e-3)),
        ({"imputation__psi": 1.0}, "imputation", GaussianImputation(psi=1.0)),
        ({"prior__rho": 0.5, "prior": LaplaceZero()}, "prior", LaplaceZero(0.5)),
        ({"inference": Gibbs(), "inference__draws": 7}, "inference", Gibbs(draws=7)),
    ],
)
def test_set_params_changes_what_is_there_or_the_default(change, name, found):
    assert getattr(VBSVC().set_params(**change), name) == found
