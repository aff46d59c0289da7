"""Several classes, one against the rest: their climbs share passes over large tables, and nothing else changes."""

import signal
import threading
import time

import numpy as np
import pytest

from vbsvm import VBSVC, Variational
from vbsvm.api import task
from vbsvm.sources import together
from vbsvm.sources.memory import Memory

N, BLOCK = 120, 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(Memory, "_block_rows", lambda self: BLOCK)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("climb")]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, np.array(["a", "b", "c", "d"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=N), [-0.8, 0.0, 0.8])]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classes_that_climb_together_are_the_same_as_one_after_another(data, size, class_weight, monkeypatch):
    X, y = data
    weights = np.arange(N) % 3
    fitted = [VBSVC(class_weight=class_weight).fit(X, y, weights)]
    for most in (1, size):
        monkeypatch.setattr(task, "most_together", lambda source, most=most: most)
        fitted.append(VBSVC(class_weight=class_weight).fit(X, y, weights))
    for other in fitted[1:]:
        np.testing.assert_array_equal(fitted[0].coef_, other.coef_)
        np.testing.assert_array_equal(fitted[0].coef_cov_, other.coef_cov_)
        assert fitted[0].elbo_ == other.elbo_
        assert fitted[0].n_iter_ == other.n_iter_


class Interrupt:
    """Ctrl-C in the k-th shared pass."""

    def __init__(self, monkeypatch, k):
        fold = together.fold_blocks

        def interrupted(*given, **options):
            nonlocal k
            k -= 1
            if k == 0:
                signal.raise_signal(signal.SIGINT)
                time.sleep(5 * together.PATIENCE)
            return fold(*given, **options)

        monkeypatch.setattr(together, "fold_blocks", interrupted)


def test_ctrl_c_stores_every_class_and_raises_again(data, monkeypatch):
    X, y = data
    Interrupt(monkeypatch, 20)
    clf = VBSVC(inference=Variational(tol=1e-10))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert clf.classes_.tolist() == ["a", "b", "c", "d"]
    assert [fit.interrupted for fit in clf.fit_] == [True] * 4
    assert not clf.converged_
    assert np.isfinite(clf.decision_function(X)).all()


def test_ctrl_c_before_there_is_a_state_of_every_class_keeps_the_earlier_fit(data, monkeypatch):
    X, y = data
    clf = VBSVC().fit(X, y)
    before = clf.coef_
    Interrupt(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X + 1, y)
    np.testing.assert_array_equal(clf.coef_, before)
    Interrupt(monkeypatch, 20)
    monkeypatch.setattr(task, "most_together", lambda source: 2)
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
        if source.k == 2:
            raise FloatingPointError("class c")
        return outcome

    monkeypatch.setattr(Variational, "run", failing)
    with pytest.raises(FloatingPointError, match="class c"):
        clf.fit(X + 1, y)
    np.testing.assert_array_equal(clf.coef_, before)
