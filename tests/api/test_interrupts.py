"""Ctrl-C ends whatever takes long, and never gives half of a result as if it were whole."""

import os
import signal

import numpy as np
import pytest

import interrupted
import interrupted_commands
from interrupted import frame, quiet, table
from vbsvm import VBSVC, Gibbs, Model, cross_validate
from vbsvm.sources import files_text
from vbsvm.sources.memory import Memory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def passes(monkeypatch, call, interrupted_in=None):
    """How many passes over the rows a call makes; Ctrl-C arrives in one of them."""
    n, fold = 0, Memory.sum_stats

    def counted(*arguments, **options):
        nonlocal n
        n += 1
        if n == interrupted_in:
            raise KeyboardInterrupt
        return fold(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "sum_stats", counted)
        quiet(call)
    return n


def streamed():
    X, y = table(400, 3)
    model = VBSVC().partial_fit(X[:200], y[:200], classes=[0, 1])
    return lambda: model.partial_fit(X[200:], y[200:])


def sensitivity():
    data = frame(300, 9)
    model = Model("y ~ a + b", data.mask(data < -1.5))
    return lambda: model.sensitivity([-0.25, 0.25])


def posterior():
    fit = VBSVC().fit(*table(400, 5)).fit_[0]
    return lambda: fit.summary(covariance="posterior")


# What matplotlib makes of a signal inside its compiled code; and a signal between two lines of a context manager.
LOST = {"ValueError: Invalid affine transformation matrix", "BLAS is held to one thread"}
# Of each, something that takes several climbs.
CALLS = {
    "standard errors": posterior,
    "stream": streamed,
    "folds": lambda: lambda: cross_validate(Model("y ~ a + b", frame(200, 9), likelihood="hinge"), folds=2),
    "shifts": sensitivity,
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_in_any_pass_is_passed_on(name, monkeypatch):
    n = passes(monkeypatch, CALLS[name]())
    assert n > 3
    for k in np.unique(np.linspace(1, n, 12).astype(int)):
        with pytest.raises(KeyboardInterrupt):
            passes(monkeypatch, CALLS[name](), interrupted_in=k)


def test_standard_errors_are_right_after_ctrl_c(monkeypatch):
    ask, expected = posterior(), posterior()()
    for k in range(1, passes(monkeypatch, posterior())):
        with pytest.raises(KeyboardInterrupt):
            passes(monkeypatch, ask, interrupted_in=k)
    np.testing.assert_allclose(ask().select_dtypes("number"), expected.select_dtypes("number"), rtol=1e-6)


def test_a_batch_that_is_interrupted_is_not_learned(monkeypatch):
    X, y = table(400, 3)
    model = VBSVC().partial_fit(X[:200], y[:200], classes=[0, 1])
    before = model.coef_.copy()
    with pytest.raises(KeyboardInterrupt):
        passes(monkeypatch, lambda: model.partial_fit(X[200:], y[200:]), interrupted_in=3)
    np.testing.assert_array_equal(model.coef_, before)
    whole = VBSVC().partial_fit(X[:200], y[:200], classes=[0, 1]).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(model.partial_fit(X[200:], y[200:]).coef_, whole.coef_, rtol=1e-6)


def test_ctrl_c_before_the_chains_begin_ends_the_run(monkeypatch):
    model = VBSVC(inference=Gibbs(draws=20, tune=10, chains=1), random_state=1)
    with pytest.raises(KeyboardInterrupt):
        passes(monkeypatch, lambda: model.fit(*table(200, 3)), interrupted_in=2)
    assert not hasattr(model, "fit_")


def test_ctrl_c_while_pandas_reads_is_ctrl_c(tmp_path, monkeypatch):
    """An error without a message, as the handler of SIGINT raises it, is lost in pandas."""
    frame(5_000, 9).to_csv(tmp_path / "rows.csv", index=False)
    read, n = files_text._CheckedBytes.readinto, 0

    def signalled(self, buffer):
        nonlocal n
        n += 1
        if n > 2:
            signal.raise_signal(signal.SIGINT)
        return read(self, buffer)

    monkeypatch.setattr(files_text._CheckedBytes, "readinto", signalled)
    with pytest.raises(KeyboardInterrupt):
        VBSVC().fit_files(tmp_path / "rows.csv", "y")


# Python drops an interrupt that comes in the callback of a weak reference, with a message that pytest makes a warning.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("phase", interrupted.PHASES)
def test_ctrl_c_at_random_moments_leaves_nothing_behind(phase):
    arrived, longest, wrong, _ = interrupted.interrupted(phase, 20)
    assert [one for one in wrong if one not in LOST] == []
    assert arrived > 0
    assert longest < interrupted.HANG


@pytest.mark.long
@pytest.mark.parametrize("name", interrupted_commands.COMMANDS)
def test_ctrl_c_ends_commands(name, tmp_path):
    interrupted_commands.prepared(tmp_path)
    arrived, longest, wrong = interrupted_commands.interrupted(name, tmp_path, 10)
    assert wrong == []
    assert arrived > 0
    assert longest < interrupted.HANG
