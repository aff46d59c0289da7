"""Chains in processes of their own: the same bits as without, whoever asks for them and whatever happens to them."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import vbsvm
from short_chains import SHORT, SOURCE, fitted, quiet, saved, table
from vbsvm import VBSVC, Gibbs
from vbsvm.api.data.table_reader import ReadTable
from vbsvm.base import workers
from vbsvm.base.workers import Workers
from vbsvm.inference import chains, gibbs

# The same bits


def mapped(tmp_path):
    """The last rows of a table that is mapped from a file."""
    X, y = table(400)
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")[200:], y[200:]


KINDS = {
    "plain": lambda tmp_path: table(),
    "missing": lambda tmp_path: table(missing=0.2),
    "several blocks": lambda tmp_path: (
        np.random.default_rng(1).normal(size=(3000, 60))[:, ::2],
        np.arange(3000) % 2,
    ),
    "classes": lambda tmp_path: (table()[0], np.digitize(table()[0][:, 0], [-1.0, 1.0])),
    "mapped": mapped,
}


@pytest.mark.parametrize("kind", KINDS)
def test_saved_fits_have_the_same_bytes_with_and_without_processes(kind, tmp_path, monkeypatch):
    X, y = KINDS[kind](tmp_path)
    few = Gibbs(draws=20, tune=20, chains=2) if kind != "several blocks" else Gibbs(draws=4, tune=2, chains=2)
    monkeypatch.setattr(chains, "cpu_count", lambda: 2)
    found = []
    for worth in (np.inf, 0.0):
        monkeypatch.setattr(chains, "WORTH_A_PROCESS", worth)
        found.append(saved(fitted(X, y, few), tmp_path / "m"))
    assert found[0] == found[1]


def test_sums_that_begin_anew_in_each_round_would_be_seen(tmp_path, helped, monkeypatch):
    """The planted cause: a round's sums of missing values are made apart and added, as they once were in processes."""
    X, y = table(missing=0.2)
    right = saved(fitted(X, y), tmp_path / "m")
    monkeypatch.setattr(gibbs.Chain, "without_draws", lambda self: replace(self, draws=(), missing=None))
    monkeypatch.setattr(
        gibbs.Chain,
        "append",
        lambda self, part: replace(
            part, draws=(*self.draws, *part.draws), missing=gibbs.add_optional(self.missing, part.missing)
        ),
    )
    assert saved(fitted(X, y), tmp_path / "m") != right


def with_and_without(path, kind=VBSVC):
    """Bytes of a sampled fit to rows of which some have the weight 0, and of one without these; of several blocks."""
    rng = np.random.default_rng(1)
    X, counts = rng.normal(size=(9000, 30)), np.arange(9000) % 3
    y, found = np.where(X[:, 0] + rng.logistic(size=9000) > 0, "a", "b"), []
    X[counts == 0] *= 7.3  # they may hold anything
    for rows in (slice(None), counts > 0):
        clf = kind(inference=Gibbs(draws=3, tune=2, chains=1), random_state=5, class_weight="balanced")
        found.append(saved(quiet(lambda clf=clf, rows=rows: clf.fit(X[rows], y[rows], counts[rows])), path))
    return found


@pytest.mark.parametrize("kind", [VBSVC, vbsvm.VBLogistic])
def test_rows_of_weight_0_change_no_bit(kind, alone, tmp_path):
    one, other = with_and_without(tmp_path / "m", kind)
    assert one == other


def test_rows_of_weight_0_that_stay_would_be_seen(alone, monkeypatch, tmp_path):
    """The planted cause: they are left out block by block, so that blocks end elsewhere."""
    monkeypatch.setattr(ReadTable, "without_zero_weights", lambda self: self)
    one, other = with_and_without(tmp_path / "m")
    assert one != other


def test_an_error_names_the_row_as_it_was_given(alone):
    X, y = table()
    X[9, 1] = np.inf
    weights = np.r_[0.0, 0.0, np.ones(198)]
    with pytest.raises(ValueError, match="row 9"):
        VBSVC(inference=SHORT).fit(X, y, weights)


# No run is lost


def test_a_worker_that_ends_costs_a_warning_and_no_draw(helped, alone, monkeypatch):
    X, y = table()
    whole = fitted(X, y)
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", 0.0)
    right, calls = Workers.call, []

    def struck(self, *question):
        calls.append(1)
        if len(calls) == 3:
            self._processes[0].kill()
        return right(self, *question)

    monkeypatch.setattr(Workers, "call", struck)
    with pytest.warns(UserWarning, match="go on in one process, with the same draws .a worker process has ended"):
        again = fitted(X, y)
    assert len(calls) == 3
    np.testing.assert_array_equal(again.fit_[0].outcome.coefficients, whole.fit_[0].outcome.coefficients)


def test_processes_that_cannot_be_started_cost_a_warning_and_no_draw(helped, alone, monkeypatch):
    X, y = table()
    whole = fitted(X, y)
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr(workers.multiprocessing.spawn, "get_executable", lambda: "/nowhere/python")
    with pytest.warns(UserWarning, match="one process"):
        again = fitted(X, y)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


# As users call it

PLAIN = """
import numpy as np, warnings
warnings.simplefilter("ignore")
from vbsvm import VBSVC, Gibbs
from vbsvm.inference import chains
print("begin")
chains.WORTH_A_PROCESS, chains.cpu_count = 0.0, lambda: 2
asked = []
right = chains.Workers.call
chains.Workers.call = lambda self, *question: asked.append(1) or right(self, *question)
rng = np.random.default_rng(3)
X = rng.normal(size=(200, 3))
clf = VBSVC(inference=Gibbs(draws=40, tune=40, chains=2), random_state=5).fit(X, np.where(X[:, 0] > 0, 1, 0))
print(len(asked), clf.coef_.tolist())
"""


@pytest.mark.parametrize("way", ["a script without a guard", "standard input"])
def test_a_plain_script_uses_processes(way, tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    command = [sys.executable, *([str(tmp_path / "script.py")] if way.startswith("a") else ["-"])]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, input=PLAIN, capture_output=True, text=True, check=True, env=environment)
    first, second = done.stdout.splitlines()
    assert first == "begin"
    assert second.startswith(f"{chains.ROUNDS - 1} [[")


def test_processes_of_others_start_none(helped, monkeypatch):
    X, y = table()
    monkeypatch.setattr(chains, "Workers", None)  # a call of it would fail
    with pytest.raises(TypeError, match="not callable"):
        fitted(X, y)
    monkeypatch.setattr(chains.multiprocessing, "parent_process", lambda: "a process of joblib, say")
    fitted(X, y)
