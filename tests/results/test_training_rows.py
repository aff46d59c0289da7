"""What is learned after the fit, from rows that the user still holds."""

import copy
import pickle

import numpy as np
import pytest

import vbsvm
from vbsvm import VBSVC


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 4)) @ rng.standard_normal((4, 4)) + 2.0
    return X, np.where(X[:, 0] - X[:, 1] + rng.standard_normal(90) > 0, "b", "a")


def incomplete(X):
    rows = X[:5].copy()
    rows[:, 2] = np.nan
    return rows


def test_a_fit_reads_the_users_array_and_files_and_pickles_do_not_hold_it(data, tmp_path):
    X, y = data
    clf = VBSVC().fit(X, y)
    assert clf.fit_[0]._rows.source.X is X
    expected = clf.decision_function(incomplete(X))
    clf.save(tmp_path / "m")
    for other in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf), vbsvm.load(tmp_path / "m")):
        assert other.fit_[0]._rows is None
        np.testing.assert_array_equal(other.decision_function(incomplete(X)), expected)
        np.testing.assert_array_equal(other.imputation_mean_, clf.imputation_mean_)


@pytest.mark.parametrize("change", ["all", "a few rows", "one cell"])
def test_rows_that_were_changed_since_the_fit_are_refused_where_something_has_yet_to_be_learned(change):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 10))
    y = X[:, 0] + rng.logistic(size=30_000) > 0
    rows = incomplete(X)
    clf, before = VBSVC().fit(X, y), VBSVC().fit(X, y)
    known = before.decision_function(rows)
    where = {"all": slice(None), "a few rows": slice(20_001, 20_005), "one cell": (17_003, 9)}[change]
    X[where] *= 2.0
    for ask in (
        lambda: clf.decision_function(rows),
        clf.summary,
        lambda: clf.predict_proba(X),
        lambda: pickle.dumps(clf),
    ):
        with pytest.raises(ValueError, match="changed in place since the fit"):
            ask()
    assert np.isfinite(clf.decision_function(X)).all()  # complete rows need nothing more
    np.testing.assert_array_equal(before.decision_function(rows), known)  # it was learned in time


def test_a_small_table_is_kept_as_it_was(data):
    X, y = data
    clf, again = VBSVC().fit(X, y), VBSVC().fit(X.copy(), y)
    X *= 2.0
    np.testing.assert_allclose(clf.coef_std_, again.coef_std_, rtol=1e-12)


def test_several_classes_learn_the_inputs_distribution_once(data):
    X, _ = data
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    fits = VBSVC().fit(X, y).fit_
    assert fits[2]._input_population is fits[0]._input_population
