"""A fitted model as a linear classifier of scikit-learn: the same scores without vbsvm."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from saved_models import table
from vbsvm import (
    VBSVC,
    Beta,
    GaussianImputation,
    Gibbs,
    Joint,
    LaplaceZero,
    Model,
    NotAtRandom,
    VBLogistic,
    load,
    to_sklearn,
)
from vbsvm.inference.loop import Status


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True, as_frame=True)


@pytest.mark.parametrize(
    "clf",
    [VBSVC(), VBSVC(fit_intercept=False), VBSVC(standardize=False), VBSVC(LaplaceZero(rho=0.1))],
    ids=["default", "through the origin", "as it is", "selected"],
)
def test_scores_and_predictions_are_the_same(clf, cancer):
    X, y = cancer[0].iloc[:, :10] / cancer[0].iloc[:, :10].std(), np.where(cancer[1], "benign", "malignant")
    found = clf.fit(X, y).to_sklearn()
    assert type(found) is LinearSVC
    np.testing.assert_allclose(found.decision_function(X), clf.decision_function(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.predict(X), clf.predict(X))
    np.testing.assert_array_equal(found.coef_, clf.coef_)
    np.testing.assert_array_equal(found.intercept_, clf.intercept_)
    np.testing.assert_array_equal(found.feature_names_in_, X.columns)
    assert found.n_features_in_ == 10
    assert found.score(X, y) == clf.score(X, y)


def test_a_logistic_model_is_a_logistic_regression(cancer):
    X, y = cancer[0].iloc[:, :10] / cancer[0].iloc[:, :10].std(), cancer[1]
    clf = VBLogistic().fit(X, y)
    found = clf.to_sklearn()
    assert type(found) is LogisticRegression
    np.testing.assert_allclose(found.decision_function(X), clf.decision_function(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.predict(X), clf.predict(X))
    np.testing.assert_allclose(found.predict_proba(X)[:, 1], expit(clf.decision_function(X)))
    fit = Model("y ~ x0 + x1", X.iloc[:, :2].set_axis(["x0", "x1"], axis=1).assign(y=y), likelihood="logistic").fit()
    assert type(to_sklearn(fit)) is LogisticRegression


def test_several_classes_of_a_logistic_model_have_the_scores_at_the_means():
    X, y = load_iris(return_X_y=True)
    clf = VBLogistic().fit(X, y)
    np.testing.assert_allclose(clf.to_sklearn().decision_function(X), X @ clf.coef_.T + clf.intercept_, atol=1e-9)


def test_several_classes_constant_columns_and_arrays_are_the_same():
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.full(len(X), 7.0)])
    clf = VBSVC().fit(X, y)
    found = clf.to_sklearn()
    np.testing.assert_allclose(found.decision_function(X), clf.decision_function(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.predict(X), clf.predict(X))
    assert not hasattr(found, "feature_names_in_")


@pytest.mark.filterwarnings("ignore:VBSVC. chains have not converged")
def test_draws_become_their_means(cancer):
    X, y = cancer[0].iloc[:100, :3], cancer[1][:100]
    clf = VBSVC(inference=Gibbs(draws=20, tune=10, chains=2), random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.to_sklearn().decision_function(X), clf.decision_function(X), rtol=1e-10)


def test_it_is_pickled_to_a_place_without_vbsvm(cancer, tmp_path):
    X, y = cancer
    clf = VBSVC().fit(X, y)
    (tmp_path / "model").write_bytes(pickle.dumps((clf.to_sklearn(), X, clf.predict(X))))
    code = (
        "import pickle, sys; sys.modules['vbsvm'] = None\n"
        "model, X, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert (model.predict(X) == expected).all()"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "model"], check=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_onnx_predicts_the_same_labels(classes):
    skl2onnx, onnxruntime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], np.array(["setosa", "versicolor", "virginica"])[y[y < classes]]
    clf = VBSVC().fit(X, y)
    kind = skl2onnx.common.data_types.FloatTensorType([None, 4])
    onnx = skl2onnx.convert_sklearn(clf.to_sklearn(), initial_types=[("X", kind)])
    session = onnxruntime.InferenceSession(onnx.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"X": X.astype(np.float32)})[0], clf.predict(X))


def test_groups_are_refused_in_words():
    data = table()
    clf = VBSVC(group="g").fit(data[["a", "g"]], data["y"])
    with pytest.raises(ValueError, match="has random effects"):
        clf.to_sklearn()
    with pytest.raises(Exception, match="not fitted"):
        VBSVC().to_sklearn()


def test_a_formula_of_plain_columns_is_a_linear_svc():
    data = table()
    fit = Model("y ~ b + a + k + flag", data).fit()
    found, columns = to_sklearn(fit), ["b", "a", "k", "flag"]
    assert list(found.feature_names_in_) == columns
    expected = fit.decision_function(data)
    np.testing.assert_allclose(found.decision_function(data[columns].astype(float)), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.predict(data[columns].astype(float)), fit.predict(data))


@pytest.mark.parametrize(
    ("formula", "term"),
    [
        ("y ~ a + h", r"h\[T"),
        ("y ~ a:b + a", "a:b"),
        ("y ~ log(b)", r"log\(b\)"),
        ("y ~ C(k)", r"C\(k\)"),
        ("y ~ a + s(b)", r"s\(b\)"),
        ("y ~ a + (1 | g)", r"\(1 \| g\)"),
    ],
)
def test_a_term_that_has_no_place_is_named(formula, term):
    with pytest.raises(ValueError, match=f"the formula has {term}"):
        to_sklearn(Model(formula, table()).fit())


def test_what_is_no_fit_of_a_model_is_refused_in_words():
    clf = VBSVC().fit(pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]}), [0, 1, 0, 1])
    with pytest.raises(TypeError, match=r"VBSVC\.to_sklearn"):
        to_sklearn(clf)
    with pytest.raises(TypeError, match=r"VBSVC\.to_sklearn"):
        to_sklearn(clf.fit_[0])
    with pytest.raises(TypeError, match="got int"):
        to_sklearn(3)


@pytest.mark.parametrize("ending", Status)
def test_an_ending_stays_itself_in_copies(ending):
    make, values = ending.__reduce__()
    assert make(*values) is pickle.loads(pickle.dumps(ending)) is ending


@pytest.mark.parametrize(
    ("settings", "X"),
    [
        ({}, "complete"),
        ({"prior": LaplaceZero(Beta())}, "complete"),
        ({"prior": LaplaceZero(0.2, gates=Joint())}, "complete"),
        ({"imputation": GaussianImputation(mechanism=NotAtRandom())}, "incomplete"),
        ({"group": "g"}, "grouped"),
        ({"inference": Gibbs(draws=20, tune=10, chains=2), "random_state": 0}, "incomplete"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_skops_keeps_a_classifier_without_pickle(settings, X, tmp_path):
    sio = pytest.importorskip("skops.io")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    y = np.where(frame["a"] + rng.logistic(size=60) > 0, "yes", "no")
    if X == "incomplete":
        frame.iloc[3, 1] = np.nan
    if X == "grouped":
        frame["g"] = np.resize(["u", "v", "w"], 60)
    clf = VBSVC(**settings).fit(frame, y)
    file = sio.dumps(clf)
    unknown = sio.get_untrusted_types(data=file)
    assert all(name.startswith("vbsvm.") for name in unknown)
    again = sio.loads(file, trusted=unknown)
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(frame), getattr(clf, method)(frame))
    pd.testing.assert_frame_equal(again.summary(), clf.summary())
    again.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(frame), clf.predict_proba(frame))
