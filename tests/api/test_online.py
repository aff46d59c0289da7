"""Learning from batches, and fits that begin where the last one ended."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import log_loss

from vbsvm import VBSVC, Gibbs, LaplaceZero, Normal, Variational, load
from vbsvm.design.scaling import ColumnSummary
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.sources.past_rows import PastRows

N, D, BATCH = 6000, 8, 500


def data(n=N, d=D, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d)) + 3 * rng.normal(size=d)
    scores = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(d, classes if classes > 2 else 1))
    if classes > 2:
        return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, np.where(scores[:, 0] + rng.logistic(size=n) > 0, "yes", "no")


def in_batches(X, y, size=BATCH, clf=None, **more):
    clf = VBSVC() if clf is None else clf
    for begin in range(0, len(X), size):
        clf.partial_fit(X[begin : begin + size], y[begin : begin + size], **more)
    return clf


def off(clf, full, X):
    """Distance of the standardised coefficients, relative to their length."""
    scale = X.std(axis=0)
    return np.linalg.norm((clf.coef_ - full.coef_) * scale) / np.linalg.norm(full.coef_ * scale)


class TestPartialFit:
    def test_it_ends_close_to_the_fit_to_all_rows(self):
        X, y = data()
        clf, full = in_batches(X, y), VBSVC().fit(X, y)
        assert off(clf, full, X) < 0.04  # 0.014 was seen at 10 000 rows of 10 columns in batches of 500
        assert np.mean(clf.predict(X) == full.predict(X)) > 0.98
        np.testing.assert_allclose(clf.penalty_, full.penalty_, rtol=0.05)
        losses = [log_loss(y, one.predict_proba(X)) for one in (clf, full)]
        assert losses[0] < 1.01 * losses[1]
        assert clf.fit_[0].facts.n_rows == N

    def test_a_majorant_in_place_of_the_curvature_is_seen_by_that_test(self, monkeypatch):
        X, y = data()
        made = PastRows.from_state
        stiff = staticmethod(lambda *given: _stiff(made(*given), given[1]))
        monkeypatch.setattr(PastRows, "from_state", stiff)
        assert off(in_batches(X, y), VBSVC().fit(X, y), X) > 0.05

    def test_one_batch_is_a_fit(self):
        X, y = data(400)
        clf, full = VBSVC().partial_fit(X, y), VBSVC().fit(X, y)
        np.testing.assert_array_equal(clf.coef_, full.coef_)
        np.testing.assert_array_equal(clf.predict_proba(X), full.predict_proba(X))

    def test_every_accepted_step_raises_the_bound(self):
        X, y = data(1500)
        clf = VBSVC()
        for begin in range(0, 1500, 300):
            clf.partial_fit(X[begin : begin + 300], y[begin : begin + 300])
            assert (np.diff(clf.elbo_trace_[0]) > -1e-8).all()
            assert clf.converged_

    @pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"standardize": False}, {"prior": Normal(0.5)}])
    def test_settings(self, settings):
        X, y = data(3000, 4)
        clf = in_batches(X, y, clf=VBSVC(**settings))
        assert off(clf, VBSVC(**settings).fit(X, y), X) < 0.05

    def test_several_classes_some_of_which_a_batch_lacks(self):
        X, y = data(3000, 5, classes=3)
        lacking = np.flatnonzero(y[:2500] != 2)[-500:]
        others = np.setdiff1d(np.arange(3000), lacking)
        order = np.concatenate([others[:2000], lacking, others[2000:]])
        clf = in_batches(X[order], y[order], classes=[0, 1, 2])
        full = VBSVC().fit(X, y)
        assert list(clf.classes_) == [0, 1, 2]
        assert np.mean(clf.predict(X) == full.predict(X)) > 0.9
        np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)

    def test_weights_count_rows(self):
        X, y = data(2000, 4)
        s = np.random.default_rng(1).integers(0, 3, size=2000)
        weighed = VBSVC(inference=Variational(tol=1e-10)).partial_fit(X[:1000], y[:1000], sample_weight=s[:1000])
        weighed.partial_fit(X[1000:], y[1000:], sample_weight=s[1000:])
        written = VBSVC(inference=Variational(tol=1e-10))
        for half in (slice(0, 1000), slice(1000, 2000)):
            which = np.repeat(np.arange(2000)[half], s[half])
            written.partial_fit(X[which], y[which])
        np.testing.assert_allclose(weighed.coef_, written.coef_, rtol=1e-5)

    def test_a_column_that_was_constant_first(self):
        X, y = data(3000, 4)
        X[:500, 1] = 7.0
        clf = in_batches(X, y)
        assert off(clf, VBSVC().fit(X, y), X) < 0.1

    def test_it_goes_on_after_fit(self):
        X, y = data(1000)
        clf = VBSVC().fit(X[:500], y[:500]).partial_fit(X[500:], y[500:])
        np.testing.assert_array_equal(clf.coef_, in_batches(X, y).coef_)
        again = clf.fit(X, y)
        np.testing.assert_array_equal(again.coef_, VBSVC().fit(X, y).coef_)

    def test_pickles_go_on_and_files_do_not(self, tmp_path):
        X, y = data(1000)
        clf = VBSVC().partial_fit(X[:500], y[:500])
        back = pickle.loads(pickle.dumps(clf)).partial_fit(X[500:], y[500:])
        np.testing.assert_array_equal(back.coef_, clf.partial_fit(X[500:], y[500:]).coef_)
        clf.save(tmp_path / "model.vbsvm")
        with pytest.raises(ValueError, match="start with a new"):
            load(tmp_path / "model.vbsvm").partial_fit(X, y)
        assert not hasattr(clone(clf), "fit_")

    def test_what_is_wrong_is_said_and_changes_nothing(self):
        X, y = data(600)
        clf = VBSVC().partial_fit(X[:500], y[:500])
        before = clf.coef_
        gap = X[500:].copy()
        gap[3, 2] = np.nan
        for arguments, message in [
            ((gap, y[500:]), "Column 'x2' has a missing value in row 3: partial_fit needs complete rows"),
            ((X[500:, 1:], y[500:]), "X has 7 features, but VBSVC is expecting 8"),
            ((X[500:], np.full(100, "maybe")), "the class maybe in row 0, which is not among the classes"),
            ((X[500:], y[500:], ["yes", "no", "maybe"]), "classes are not those of the first call"),
            ((X[500:], y[:3]), "inconsistent numbers of samples"),
        ]:
            with pytest.raises(ValueError, match=message):
                clf.partial_fit(*arguments)
            np.testing.assert_array_equal(clf.coef_, before)
        clf.partial_fit(X[500:], y[500:])
        np.testing.assert_array_equal(clf.coef_, in_batches(X, y).coef_)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"group": 0}, "does not support group"),
            ({"class_weight": "balanced"}, "multiply it into sample_weight"),
            ({"prior": LaplaceZero()}, "does not support LaplaceZero"),
            ({"inference": Gibbs()}, "only available for variational fits"),
            ({"inference": Variational(bound="exact")}, "uses the augmented bound"),
        ],
    )
    def test_what_it_does_not_support_is_refused(self, settings, message):
        X, y = data(100)
        with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as error:
            VBSVC(**settings).partial_fit(X, y)
        assert message in str(error.value.__cause__)

    def test_sparse_tables_and_one_class_are_refused(self):
        X, y = data(100)
        with pytest.raises(TypeError, match="does not support sparse tables"):
            VBSVC().partial_fit(csr_array(X), y)
        with pytest.raises(ValueError, match="only one class"):
            VBSVC().partial_fit(X, np.full(100, "yes"))
        with pytest.raises(ValueError, match="only one class"):
            VBSVC().partial_fit(X, y, classes=["yes"])


def _stiff(past, state):
    """Past rows as streaming variational Bayes has them: weights are held, so that the gram is the curvature."""
    m = state.coefficients.mean
    return replace(past, curvature=past.gram, linear=past.linear + (past.gram - past.curvature) @ m)


def test_the_term_of_past_rows_does_not_depend_on_units():
    X, _ = data(300, 3)
    rng = np.random.default_rng(0)
    C = rng.normal(size=(40, 4))
    past = PastRows(rng.normal(size=4), C.T @ C, 2 * C.T @ C, 1.0, 40)
    old, new = (ColumnSummary.from_rows(rows, np.ones(len(rows))).recipe(True, True) for rows in (X[:100], X))
    moved = past.in_units_of(old, new)
    mean, root = rng.normal(size=4), np.triu(rng.normal(size=(4, 4)))
    M = np.diag(np.r_[1.0, old.scale / new.scale])
    M[1:, 0] = (old.centre - new.centre) / new.scale
    there = DenseGaussian(mean, root)
    here = DenseGaussian(M.T @ mean, M.T @ root)  # the same scores
    np.testing.assert_allclose(moved.stats(there).row_bound, past.stats(here).row_bound, rtol=1e-10)


class TestWarmStart:
    def test_it_ends_at_the_same_place_in_fewer_passes(self):
        X, y = data(4000)
        clf = VBSVC(warm_start=True).fit(X[:3900], y[:3900])
        full = VBSVC().fit(X, y)
        clf.fit(X, y)
        np.testing.assert_allclose(clf.coef_, full.coef_, atol=1e-4 * np.abs(full.coef_).max())
        np.testing.assert_allclose(clf.elbo_, full.elbo_, atol=1e-5)
        assert clf.n_iter_ < full.n_iter_

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("other", [{"prior": LaplaceZero()}, {"group": 0}, {"inference": Gibbs(draws=50, tune=50)}])
    def test_other_models_begin_as_usual(self, other):
        X, y = data(300)
        X[:, 0] = np.arange(300) % 10
        clf = VBSVC(warm_start=True, random_state=1, **other)
        first = clf.fit(X, y).coef_
        np.testing.assert_array_equal(clf.fit(X, y).coef_, first)

    def test_another_table_begins_as_usual(self):
        X, y = data(300)
        clf = VBSVC(warm_start=True).fit(X[:, :4], y)
        np.testing.assert_array_equal(clf.fit(X, y).coef_, VBSVC().fit(X, y).coef_)
