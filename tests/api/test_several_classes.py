"""Several classes, one against the rest: they are fitted one after another."""

from dataclasses import replace

import numpy as np
import pytest

from vbsvm import VBSVC, Variational
from vbsvm.inference.loop import Status
from vbsvm.sources.memory import Memory

N = 120


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(Memory, "_block_rows", lambda self: 16)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, np.array(["a", "b", "c", "d"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=N), [-0.8, 0.0, 0.8])]


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_each_class_is_the_same_as_alone(data, class_weight):
    X, y = data
    weights = np.arange(N) % 3
    totals = np.array([weights[y == label].sum() for label in y])
    factors = 1.0 if class_weight is None else weights.sum() / (4 * totals)
    fitted = VBSVC(class_weight=class_weight, standardize=False).fit(X, y, weights)
    for k, label in enumerate(fitted.classes_):
        alone = VBSVC(standardize=False).fit(X, y == label, weights * factors)
        np.testing.assert_allclose(fitted.coef_[k], alone.coef_[0], rtol=1e-12)
        assert fitted.fit_[k].outcome.passes == alone.n_iter_


def interrupt(monkeypatch, k):
    """Ctrl-C during the fit of class number k."""
    run, left = Variational.run, iter(range(k, -1, -1))

    def interrupted(self, *given):
        outcome = run(self, *given)
        return replace(outcome, ending=Status.INTERRUPTED) if next(left, -1) == 0 else outcome

    monkeypatch.setattr(Variational, "run", interrupted)


def test_ctrl_c_during_the_last_class_stores_every_class_and_raises_again(data, monkeypatch):
    X, y = data
    interrupt(monkeypatch, 3)
    clf = VBSVC()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert clf.classes_.tolist() == ["a", "b", "c", "d"]
    assert [fit.interrupted for fit in clf.fit_] == [False, False, False, True]
    assert not clf.converged_
    assert np.isfinite(clf.decision_function(X)).all()


def test_ctrl_c_before_there_is_a_state_of_every_class_keeps_the_earlier_fit(data, monkeypatch):
    X, y = data
    clf = VBSVC().fit(X, y)
    before = clf.coef_
    interrupt(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X + 1, y)
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.converged_


def test_a_class_that_fails_is_told(data, monkeypatch):
    X, y = data
    clf = VBSVC().fit(X, y)
    before, run = clf.coef_, Variational.run

    def failing(self, spec, source, *rest):
        outcome = run(self, spec, source, *rest)
        if np.count_nonzero(source.y > 0) == np.count_nonzero(y == "c"):
            raise FloatingPointError("class c")
        return outcome

    monkeypatch.setattr(Variational, "run", failing)
    with pytest.raises(FloatingPointError, match="class c"):
        clf.fit(X + 1, y)
    np.testing.assert_array_equal(clf.coef_, before)
