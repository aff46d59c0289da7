"""Short names of settings mean the settings with their defaults."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from saved_models import table
from vbsvm import VBSVC, Covariance, Gibbs, LaplaceZero, Model, Ridge, VBLogistic, load


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    return X, X[:, 0] + rng.logistic(size=80) > 0


@pytest.mark.parametrize(("alias", "prior"), [("ridge", Ridge()), ("laplace-zero", LaplaceZero())])
def test_a_prior_by_name_is_the_prior(data, alias, prior, tmp_path):
    clf = VBSVC(alias).fit(*data)
    np.testing.assert_allclose(clf.coef_, VBSVC(prior).fit(*data).coef_, rtol=1e-6, atol=1e-9)
    assert clf.get_params()["prior"] == alias
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").prior == alias


@pytest.mark.filterwarnings("ignore:.*chains have not converged")
def test_gibbs_by_name_samples_and_takes_settings(data):
    clf = VBLogistic(inference="gibbs", random_state=0).set_params(inference__draws=20, inference__tune=20)
    assert clf.inference == Gibbs(draws=20, tune=20)
    assert clf.fit(*data).fit_[0].traces.sample.coefficients.shape[1] == 20


def test_a_grid_goes_over_names(data):
    grid = GridSearchCV(VBSVC(), {"prior": ["ridge", "laplace-zero"]}, cv=2).fit(*data)
    assert grid.cv_results_["param_prior"].tolist() == ["ridge", "laplace-zero"]


def test_priors_of_a_formula_have_names_too():
    model = Model("y ~ a + (b | g)", table(), {"fixed": "ridge", "(b | g)": "covariance"})
    same = Model("y ~ a + (b | g)", table(), {"fixed": Ridge(), "(b | g)": Covariance()})
    np.testing.assert_allclose(model.fit("variational").coef, same.fit().coef, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: VBSVC("rigde").fit(X, y), r"prior: 'rigde' is not known; .* Did you mean 'ridge'\?"),
        (
            lambda X, y: VBSVC("normal").fit(X, y),
            "prior: 'normal' is not known; the short names are 'ridge', ",
        ),
        (lambda X, y: VBSVC(inference="Gibbs").fit(X, y), r"inference: 'Gibbs' is not known; .* mean 'gibbs'\?"),
        (lambda X, y: Model("y ~ a", table(), {"a": "rigde"}), r"priors: 'a': 'rigde' is not known"),
        (lambda X, y: Model("y ~ a", table()).fit("mcmc"), "inference: 'mcmc' is not known"),
    ],
)
def test_an_unknown_name_is_refused_in_words(data, make, words):
    with pytest.raises(ValueError, match=words):
        make(*data)
