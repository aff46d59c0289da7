"""VBSVC as a scikit-learn classifier: conventions, names, shapes, frames, labels, grids."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, ndtr
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import vbsvm
from optional import optional
from reference import simulate
from vbsvm import VBSVC, Joint, LaplaceZero, Model, Normal, Ridge, Variational, VBLogistic
from vbsvm.model.likelihoods import hinge

pl = optional("polars")
pa = optional("pyarrow")

ESTIMATORS = [
    VBSVC(),
    VBSVC(Normal(1.0)),
    VBSVC(inference=Variational(accelerate=False)),
    VBSVC(LaplaceZero()),
    VBSVC(LaplaceZero(0.3)),
    VBSVC(LaplaceZero(0.3, gates=Joint())),
    VBLogistic(),
]


def expected_failures(estimator):
    """Checks that an estimator does not pass, and why; its docstring says so as well."""
    if not isinstance(estimator, VBLogistic):
        return {}
    why = "averaged probabilities depend on the variance of a decision value, and need not have the order of the values"
    return {"check_decision_proba_consistency": why}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the checks themselves provoke warnings of scikit-learn and NumPy …
        warnings.filterwarnings("error", module="vbsvm")  # … but none may come from us
        if "n_iter" not in getattr(check, "func", check).__name__:  # that one allows too few passes
            warnings.simplefilter("error", ConvergenceWarning)
        joint = isinstance(estimator.prior, LaplaceZero) and estimator.prior.joint
        # Plain sweeps creep where one class has a ten-millionth of the weight, joint distributions where nothing is to
        # be found.
        if estimator.inference is not None or joint:
            warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def test_names_and_shapes_for_two_classes(cancer):
    X, y = cancer
    clf = VBSVC().fit(X, y)
    assert clf.classes_.tolist() == [0, 1]
    assert clf.coef_.shape == clf.coef_std_.shape == (1, 30)
    assert clf.coef_cov_.shape == (1, 30, 30)
    assert clf.intercept_.shape == clf.intercept_std_.shape == clf.penalty_.shape == (1,)
    assert isinstance(clf.elbo_, float)
    assert [trace.ndim for trace in clf.elbo_trace_] == [1]
    assert isinstance(clf.n_iter_, int)
    assert clf.converged_ is True
    assert clf.n_features_in_ == 30
    assert clf.feature_names_in_.tolist() == X.columns.tolist()
    assert clf.decision_function(X).shape == (569,)
    assert clf.predict_proba(X).shape == (569, 2)
    np.testing.assert_allclose(np.sqrt(np.diagonal(clf.coef_cov_[0])), clf.coef_std_[0])


def test_names_and_shapes_for_several_classes(iris):
    X, y = iris
    clf = VBSVC().fit(X, y)
    assert clf.coef_.shape == clf.coef_std_.shape == (3, 4)
    assert clf.coef_cov_.shape == (3, 4, 4)
    assert clf.intercept_.shape == clf.intercept_std_.shape == clf.penalty_.shape == (3,)
    assert len(clf.elbo_trace_) == len(clf.fit_) == 3
    assert clf.elbo_ == pytest.approx(sum(trace[-1] for trace in clf.elbo_trace_))
    assert clf.decision_function(X).shape == clf.predict_proba(X).shape == (150, 3)
    assert clf.score(X, y) > 0.9


def test_several_classes_are_each_against_the_rest(iris):
    X, y = iris
    clf = VBSVC().fit(X, y)
    for k in range(3):
        alone = VBSVC().fit(X, y == k)
        np.testing.assert_allclose(clf.coef_[k], alone.coef_[0], rtol=1e-12)
        scores = clf.decision_function(X)[:, k] / clf.slopes_[k]
        np.testing.assert_allclose(scores, alone.decision_function(X), rtol=1e-12)


def test_coefficients_are_on_the_users_scale(cancer):
    X, y = cancer
    clf = VBSVC(inference=Variational(tol=1e-10)).fit(X, y)
    np.testing.assert_allclose(X.to_numpy() @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(X), rtol=1e-8)
    other_units = X * 1000.0 ** np.resize([-1, 0, 1], 30) + 7
    again = VBSVC(inference=Variational(tol=1e-10)).fit(other_units, y)
    np.testing.assert_allclose(again.decision_function(other_units), clf.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(again.coef_ * 1000.0 ** np.resize([-1, 0, 1], 30), clf.coef_, rtol=1e-4)
    assert again.elbo_ == pytest.approx(clf.elbo_, abs=1e-7)


def test_the_intercepts_spread_is_that_of_the_score_at_the_origin():
    X, y = simulate(200, 3, seed=0)
    X = X * [1.0, 5.0, 0.2] + [3.0, -2.0, 1.0]
    clf = VBSVC().fit(X, y)
    fit = clf.fit_[0]
    C = fit.plan.recipe.encode(np.zeros((1, 3)), np.empty((1, 4)))
    np.testing.assert_allclose(clf.intercept_std_[0] ** 2, (C @ fit.covariance @ C.T)[0, 0])
    np.testing.assert_allclose(clf.intercept_[0], clf.decision_function(np.zeros((1, 3)))[0])


def test_standardising_inside_is_standardising_outside(cancer):
    X, y = cancer
    inside = VBSVC(inference=Variational(tol=1e-10)).fit(X, y)
    outside = make_pipeline(StandardScaler(), VBSVC(standardize=False, inference=Variational(tol=1e-10))).fit(X, y)
    np.testing.assert_allclose(inside.decision_function(X), outside.decision_function(X), atol=1e-7)
    np.testing.assert_allclose(inside.penalty_, outside[-1].penalty_)


def test_without_intercept_the_hyperplane_goes_through_the_origin():
    X, y = simulate(100, 3, seed=0)
    clf = VBSVC(fit_intercept=False).fit(X + 5, y)
    assert clf.intercept_.tolist() == clf.intercept_std_.tolist() == [0.0]
    assert clf.decision_function(np.zeros((1, 3)))[0] == 0.0
    assert clf.summary().index.tolist() == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    "labels",
    [("no", "yes"), (0, 1), (-1, 1), (3, 7), (False, True), (0.0, 2.0), (np.str_("b"), np.str_("ä"))],
)
def test_labels_of_every_kind(labels):
    X, y = simulate(100, 3, seed=1)
    named = np.array(labels)[(y > 0).astype(int)]
    clf = VBSVC().fit(X, named)
    assert clf.classes_.tolist() == list(labels)
    assert clf.classes_.dtype == named.dtype
    assert set(clf.predict(X)) == set(labels)
    np.testing.assert_array_equal(clf.decision_function(X), VBSVC().fit(X, y).decision_function(X))
    pandas_labels = pd.Series(named).astype("category")
    np.testing.assert_array_equal(VBSVC().fit(X, pandas_labels).predict(X), clf.predict(X))


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow-backed pandas"])
def test_frames_bring_their_names(cancer, frame):
    X, y = cancer
    expected = VBSVC().fit(X.to_numpy(), y)
    table = {
        "pandas": lambda: X,
        "polars": lambda: pl.from_pandas(X),
        "arrow-backed pandas": lambda: X.astype(pd.ArrowDtype(pa.float64())),
    }[frame]()
    labels = pl.Series(y.to_numpy()) if frame == "polars" else y
    clf = VBSVC().fit(table, labels)
    np.testing.assert_allclose(clf.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_array_equal(clf.predict(table), expected.predict(X.to_numpy()))
    assert clf.summary().index.tolist() == ["(intercept)", *X.columns]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[X.columns[::-1]])


def test_the_normalised_pseudo_likelihood_has_a_name_of_its_own_and_agrees_with_predict(cancer, iris):
    X, y = cancer
    clf = VBSVC().fit(X, y)
    f, p = clf.decision_function(X), clf.pseudo_probability(X)
    up, down = np.exp(-2 * np.maximum(1 - f, 0)), np.exp(-2 * np.maximum(1 + f, 0))
    np.testing.assert_allclose(p[:, 1], up / (up + down), rtol=1e-12)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    X, y = iris
    np.testing.assert_allclose(VBSVC().fit(X, y).pseudo_probability(X).sum(axis=1), 1)


def test_proba_stays_ordered_far_from_the_hyperplane(iris):
    X, y = iris
    clf = VBSVC().fit(X, y)
    far = X * 1e4
    np.testing.assert_array_equal(clf.classes_[clf.predict_proba(far).argmax(axis=1)], clf.predict(far))


@pytest.mark.parametrize("size", [1.0, 1e4, 1e150, 1e305])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_log_probabilities_are_finite_and_those_of_predict_proba(iris, size, n_classes, missing):
    X, y = iris
    X = X.iloc[: 50 * n_classes]
    clf = VBSVC().fit(X, y[: len(X)])
    far = size * (X - X.mean())
    if missing:
        far.iloc[::3, 0] = np.nan
    logs, p = clf.predict_log_proba(far), clf.predict_proba(far)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), p, rtol=1e-9, atol=1e-300)
    seen = p > 1e-300
    np.testing.assert_allclose(logs[seen], np.log(p[seen]), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(clf.classes_[logs.argmax(axis=1)], clf.predict(far))


def test_log_probabilities_of_new_groups_are_those_of_the_mean_probability():
    X, y = simulate(200, 2, seed=0)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, g=np.arange(200) % 20)
    fit = Model("y ~ a + b + (1 | g)", frame).fit()
    new = frame.assign(g=99, a=np.linspace(-60, 60, 200))
    logs, p = fit.predict_log_proba(new), fit.predict_proba(new)
    assert np.isfinite(logs).all()
    seen = p > 1e-300
    np.testing.assert_allclose(logs[seen], np.log(p[seen]), rtol=1e-9, atol=1e-12)
    # Where the spread is wide beside the hinge, the mean probability is that of a positive score.
    np.testing.assert_allclose(hinge.averaged_log_odds(np.array([4e5]), np.array([1e8])), -log_ndtr(-40.0), rtol=1e-3)


def test_the_summary_says_what_its_spreads_are(cancer):
    X, y = cancer
    clf = VBSVC().fit(X, y)
    table = clf.summary(level=0.9)
    assert table.columns.tolist() == ["estimate", "std_error", "lower", "upper"]
    np.testing.assert_allclose(table["estimate"], np.r_[clf.intercept_, clf.coef_[0]])
    np.testing.assert_allclose(table["std_error"], np.r_[clf.intercept_std_, clf.coef_std_[0]])
    np.testing.assert_allclose(table["upper"] - table["lower"], 2 * 1.6448536269514722 * table["std_error"])
    assert "robust" in table.attrs["note"]
    assert table.attrs["std_error"] == "std. error"
    for kind, said in {
        "posterior": "by linear response",
        "curvature": "by the curvature",
        "mean-field": "mean-field approximation",
    }.items():
        other = clf.summary(level=0.9, covariance=kind)
        assert said in other.attrs["note"]
        assert other.attrs["std_error"] == "posterior sd"
        np.testing.assert_allclose(other["p_positive"], ndtr(other["estimate"] / other["std_error"]))
        np.testing.assert_array_equal(other["estimate"], table["estimate"])
        assert not np.allclose(other["std_error"], table["std_error"], rtol=0.05)
    with pytest.raises(ValueError, match="covariance must be one of 'robust'"):
        clf.summary(covariance="sandwich")
    with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
        clf.summary(level=95)


def test_the_summary_of_several_classes_has_them_as_first_level(iris):
    X, y = iris
    table = VBSVC().fit(X, y).summary()
    assert table.index.nlevels == 2
    assert table.loc[1].index.tolist() == ["(intercept)", *X.columns]
    assert "robust" in table.attrs["note"]


@pytest.mark.parametrize("estimator", [VBSVC, VBLogistic])
def test_the_note_of_a_summary_begins_with_the_modelled_class(estimator, iris):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["dose", "age"])
    y = np.where(X["dose"] + rng.normal(size=200) > 0, "case", "control")
    clf, formula = estimator().fit(X, y), Model("y ~ dose + age", X.assign(y=y)).fit()
    for table in (clf.summary(), clf.summary(covariance="curvature"), clf.tidy(), clf.fit_[0].summary()):
        assert table.attrs["note"].startswith('Modelled class: "control". ')
    assert clf.summary()["estimate"]["dose"] < 0  # a dose makes a case
    assert formula.summary().attrs["note"].startswith('Modelled class: "control". ')
    for fit in (clf.fit_[0], formula):  # the head of what is printed has it
        for shown in (str(fit), fit._repr_html_()):
            assert " ".join(shown.split()).count("Modelled class") == 1
    three = X.assign(y=np.digitize(X["dose"], [-0.5, 0.5]).astype(str))
    one = Model("y ~ dose + age", three, positive="2").fit()
    assert one.summary().attrs["note"].startswith('Modelled class: "2". ')
    assert "Modelled class" not in estimator().fit(*iris).summary().attrs["note"]  # the index has the classes
    assert repr(clf) == f"{estimator.__name__}()"


def test_grids_name_the_settings_of_prior_and_inference():
    X, y = simulate(80, 4, seed=0)
    search = GridSearchCV(VBSVC(), {"prior__shape": [0.01, 5.0], "inference__tol": [1e-3, 1e-8]}, cv=3).fit(X, y)
    assert isinstance(search.best_estimator_.prior, Ridge)
    assert set(search.best_params_) == {"prior__shape", "inference__tol"}
    numbers = {
        "prior__shape": np.arange(1, 3),
        "inference__max_iter": np.array([100, 500]),
        "inference__tol": np.ones(1, "f4"),
    }
    GridSearchCV(VBSVC(), numbers, cv=3, error_score="raise").fit(X, y)
    whole = GridSearchCV(VBSVC(), {"prior": [Ridge(), Normal(0.1), Normal(10.0)]}, cv=3).fit(X, y)
    assert whole.best_params_["prior"] in (Ridge(), Normal(0.1), Normal(10.0))


def test_set_params_replaces_frozen_settings_and_clone_keeps_them():
    prior = Ridge(2.0, 3.0)
    clf = VBSVC(prior).set_params(prior__rate=7.0, inference__accelerate=False, standardize=False)
    assert clf.prior == Ridge(2.0, 7.0)
    assert prior == Ridge(2.0, 3.0)
    assert clf.inference == Variational(accelerate=False)
    assert clf.get_params()["prior__rate"] == 7.0
    copy = clone(clf)
    assert copy.prior == clf.prior
    assert copy.inference == clf.inference
    assert VBSVC().set_params(prior=Normal(2.0), prior__variance=3.0).prior == Normal(3.0)
    with pytest.raises(ValueError, match="Ridge has no parameter 'rho'"):
        VBSVC().set_params(prior__rho=0.1)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        VBSVC().set_params(colour="red")
    with pytest.raises(ValueError, match="rate must be a positive"):
        clf.set_params(standardize=True, prior__rate=-1.0)
    assert clf.standardize is False  # a refusal changes nothing


def test_it_does_as_well_as_a_tuned_linear_svm(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), LinearSVC(dual=False))
    tuned = GridSearchCV(pipeline, {"linearsvc__C": 10.0 ** np.arange(-3, 3)})
    ours, theirs = cross_val_score(VBSVC(), X, y, cv=5), cross_val_score(tuned, X, y, cv=5)
    assert ours.mean() > theirs.mean() - 0.01


def test_balanced_class_weights_help_the_rare_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X[:, 0] + rng.logistic(size=2000) > 3.5
    plain, balanced = VBSVC().fit(X, y), VBSVC(class_weight="balanced").fit(X, y)
    assert balanced_accuracy_score(y, balanced.predict(X)) > balanced_accuracy_score(y, plain.predict(X)) + 0.1


def test_it_works_in_pipelines_and_selections(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), SelectFromModel(VBSVC(), max_features=5), VBSVC())
    pipeline.set_output(transform="pandas")
    assert pipeline.fit(X, y).score(X, y) > 0.9
    assert pipeline[-1].n_features_in_ == 5


def test_it_shows_itself():
    assert repr(VBSVC(Normal(1.0), fit_intercept=False)) == "VBSVC(fit_intercept=False, prior=Normal(variance=1.0))"
    assert "VBSVC" in VBSVC(Ridge())._repr_html_()


def test_public_names_load_on_first_use():
    assert {*vbsvm.__all__, "plots", "datasets"} == set(dir(vbsvm))
    for name in vbsvm.__all__:
        assert getattr(vbsvm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Kernel'"):
        _ = vbsvm.Kernel
