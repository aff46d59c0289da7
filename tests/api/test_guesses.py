"""What newcomers type: packages without an import of their own, and guesses, which are errors with a hint."""

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import vbsvm
from saved_models import table
from vbsvm import VBSVC, Model, VBLogistic, compare_models
from vbsvm.base import guesses
from vbsvm.dask import DaskVBLogistic, DaskVBSVC

ESTIMATORS = [VBSVC, VBLogistic, DaskVBSVC, DaskVBLogistic]


@pytest.fixture(scope="module")
def fit():
    return Model("y ~ a + (1 | g)", table()).fit()


@pytest.fixture(scope="module")
def clf():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    return VBSVC().fit(X, X[:, 0] + rng.logistic(size=80) > 0)


def test_packages_need_no_import_of_their_own():
    code = (
        "import sys, vbsvm\n"
        "assert not {'vbsvm.plots', 'vbsvm.datasets', 'numpy'} & set(sys.modules)\n"
        "print(len(vbsvm.datasets.load_toenail()), vbsvm.plots.coefficients.__name__)\n"
        "assert {'plots', 'datasets'} < set(dir(vbsvm))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1908", "coefficients"]
    with pytest.raises(AttributeError, match="module 'vbsvm' has no attribute 'plotz'"):
        _ = vbsvm.plotz


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ranef", "random_effects()"),
        ("fixef", "summary()"),
        ("VarCorr", "variance_components()"),
        ("plot", "vbsvm.plots.coefficients(fit)"),
        ("load", "vbsvm.load(path)"),
        ("coef_", "have no underscore"),
    ],
)
def test_a_guess_of_a_fits_method_gets_the_name(fit, name, hint):
    with pytest.raises(AttributeError, match=f"^Fit has no {name!r}: .*{re.escape(hint)}"):
        getattr(fit, name)
    assert not hasattr(fit, name)
    assert name not in dir(fit)


def test_a_fits_own_messages_stay(fit):
    with pytest.raises(AttributeError, match="traces is only available after"):
        _ = fit.traces
    with pytest.raises(AttributeError, match=r"^'Fit' object has no attribute 'rane'"):
        _ = fit.rane


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_guess_of_an_estimators_method_gets_the_name(kind):
    with pytest.raises(AttributeError, match=rf"^{kind.__name__} has no 'load': load a file with vbsvm\.load"):
        kind.load("model.vbsvm")
    for name in guesses.ESTIMATOR:
        assert not hasattr(kind(), name)
    assert not {*guesses.ESTIMATOR} & {*dir(kind())}


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", ["C", "kernel", "max_iter"])
def test_a_guess_of_a_parameter_gets_the_name(kind, name):
    with pytest.raises(
        TypeError, match=re.escape(f"{kind.__name__} has no argument {name!r}: {guesses.SETTINGS[name]}.")
    ):
        kind(**{name: 1})
    with pytest.raises(ValueError, match=re.escape(guesses.SETTINGS[name])):
        kind().set_params(**{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'whatever'"):
        kind(whatever=1)
    with pytest.raises(ValueError, match=r"'prior__rate'\.$"):
        kind().set_params(whatever=1)


def test_a_grid_over_the_penalty_is_told_that_there_is_none(clf):
    with pytest.raises(ValueError, match="the penalty is inferred"):
        GridSearchCV(VBSVC(), {"C": [0.1, 1]}).fit(np.arange(20.0)[:, None], np.arange(20) % 2)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_hints_leave_signatures_and_clones_as_they_are(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert set(kind().get_params()) == set(names)
    assert clone(kind(standardize=False)).standardize is False


@pytest.mark.parametrize(
    ("argument", "value", "hint"),
    [
        ("family", "binomial", 'likelihood="logistic"'),
        ("groups", "g", "(1 | group)"),
        ("random_state", 0, "fit(inference, random_state=0)"),
        ("C", 1.0, "Normal(variance) fixes it"),
    ],
)
def test_a_guess_of_a_models_argument_gets_the_name(argument, value, hint):
    with pytest.raises(TypeError, match=rf"^Model has no argument {argument!r}: .*{re.escape(hint)}"):
        Model("y ~ a", table(), **{argument: value})
    with pytest.raises(TypeError, match="unexpected keyword argument 'whatever'"):
        Model("y ~ a", table(), whatever=1)


def test_further_guesses(fit, clf):
    with pytest.raises(
        TypeError, match=r"^Fit\.summary has no argument 'kind': odds ratios are the columns odds_ratio,"
    ):
        fit.summary(kind="or")
    with pytest.raises(TypeError, match=r"^Classifier\.summary has no argument 'exponentiate'"):
        clf.summary(exponentiate=True)
    with pytest.raises(TypeError, match=r"predict_proba\(data\) has probabilities"):
        fit.predict(table(), type="response")
    with pytest.raises(TypeError, match=r"^Model\.fit has no argument 'draws': inference=Gibbs\(…\) has draws"):
        Model("y ~ a", table()).fit(draws=100)
    with pytest.raises(AttributeError, match=r"its fit has: fit = model\.fit\(\), and then fit\.predict"):
        Model("y ~ a", table()).predict(table())
    with pytest.raises(TypeError, match=r"compare_models\(\{'a': a, 'b': b\}\); got list"):
        compare_models([fit, fit])


def test_no_guess_is_a_name_that_there_is():
    guessed = [(vbsvm.Fit, guesses.FIT), (Model, guesses.MODEL), *((kind, guesses.ESTIMATOR) for kind in ESTIMATORS)]
    for kind, names in guessed:
        assert {type(inspect.getattr_static(kind, name)).__name__ for name in names} == {"_Guess"}
    with pytest.raises(AssertionError):
        guesses.explain({"fit": "a name that there is"})(VBSVC)
    assert not set(guesses.SETTINGS) & set(VBSVC().get_params())
    assert not set(guesses.MODEL_SETTINGS) & set(inspect.signature(Model).parameters)
    assert not set(guesses.SUMMARY) & set(inspect.signature(vbsvm.Fit.summary).parameters)
    assert not set(guesses.SETTINGS) & set(inspect.signature(Model.fit).parameters)
