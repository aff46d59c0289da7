"""Checkpoints that can't be written cost a warning and no run, and one of other rows is refused."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from short_chains import SHORT, fitted, python, table
from vbsvm import Gibbs
from vbsvm.inference import chains, gibbs
from vbsvm.inference.chains import CheckpointError

LIMITED = """
import resource, signal, sys, warnings
import numpy as np
from vbsvm import VBSVC, Gibbs
from vbsvm.inference import chains
chains.WORTH_A_PROCESS, chains.SECONDS_BETWEEN, chains.WRITES_BETWEEN = np.inf, 0.0, 0.0
rng = np.random.default_rng(3)
X = rng.normal(size=(200, 3))
y = np.where(X[:, 0] + rng.logistic(size=200) > 0, 1, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    clf = VBSVC(inference=Gibbs(draws=400, tune=100, chains=2, checkpoint=sys.argv[1]), random_state=0).fit(X, y)
print(clf.fit_[0].outcome.coefficients.shape)
print(*[str(one.message) for one in told if "checkpoint" in str(one.message)], sep="\\n")
"""


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_checkpoint_that_grows_too_large_costs_one_warning_and_no_draw(tmp_path):
    path = tmp_path / "run.chains"
    run = python(LIMITED, str(path), folder=tmp_path, stdout=-1, stderr=-1)
    out, error = run.communicate()
    assert run.returncode == 0, error
    shape, warning = out.splitlines()
    assert shape == "(2, 400, 4)"
    assert str(path) in warning
    assert "can't be written (File too large)" in warning
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def always(monkeypatch):
    """A checkpoint after each round."""
    monkeypatch.setattr(chains, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(chains, "WRITES_BETWEEN", 0.0)


def test_a_checkpoint_that_raised_would_be_seen(alone, always, tmp_path, monkeypatch):
    """The planted cause: the error ends the run."""

    def full(*arguments):
        raise OSError(27, "File too large")

    monkeypatch.setattr(chains, "write_checkpoint", full)
    monkeypatch.setattr(chains._Checkpoints, "_tried", lambda self, run, what, call: call(run) or True)
    with pytest.raises(OSError, match="File too large"):
        fitted(*table(), replace(SHORT, checkpoint=tmp_path / "run.chains"))


def test_a_checkpoint_is_tried_again_and_the_older_one_stays(alone, always, tmp_path, monkeypatch):
    X, y = table()
    path = tmp_path / "run.chains"
    right, seen = chains.write_checkpoint, []

    def now_and_then(*arguments):
        seen.append(path.read_bytes() if path.exists() else None)
        if len(seen) in (3, 4):
            raise OSError(28, "No space left on device")
        right(*arguments)

    monkeypatch.setattr(chains, "write_checkpoint", now_and_then)
    with pytest.warns(UserWarning, match="No space left") as told:
        fitted(X, y, replace(SHORT, checkpoint=path))
    assert len([one for one in told if "checkpoint" in str(one.message)]) == 1
    assert len(seen) == chains.ROUNDS
    assert seen[2] == seen[3] == seen[4] is not None
    assert seen[5] not in (None, seen[4])


def test_checkpoints_are_written_less_often_where_that_takes_long(alone, tmp_path, monkeypatch):
    clock, writes = [0.0], []

    def sweep_for_a_second(self, k, run, end):
        clock[0] += 1.0
        return run.advance_to(end)

    def write_for_a_second(*arguments):
        clock[0] += 1.0
        writes.append(clock[0])

    monkeypatch.setattr(chains.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(chains._ChainPool, "advance_to", sweep_for_a_second)
    monkeypatch.setattr(chains, "write_checkpoint", write_for_a_second)
    X, y = table()
    fitted(X, y, replace(SHORT, draws=200, checkpoint=tmp_path / "run.chains"))
    assert len(writes) > 1
    assert np.diff(writes).min() > chains.WRITES_BETWEEN
    monkeypatch.setattr(chains, "WRITES_BETWEEN", 0.0)
    writes.clear()
    fitted(X, y, replace(SHORT, draws=200, checkpoint=tmp_path / "run.chains"))
    assert np.diff(writes).max() < 15.0


# Checkpoints know the order of rows


def checkpointed(X, y, tmp_path, monkeypatch, inference=SHORT):
    monkeypatch.setattr(chains, "SECONDS_BETWEEN", -1.0)
    with monkeypatch.context() as kept:
        kept.setattr(chains.atomic, "remove", lambda path: None)
        settings = replace(inference, checkpoint=tmp_path / "run.chains")
        fitted(X, y, settings)
    return settings


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_same_rows_in_another_order_are_refused(missing, alone, tmp_path, monkeypatch):
    X, y = table(missing=missing)
    settings = checkpointed(X, y, tmp_path, monkeypatch)
    incomplete = np.isnan(X).any(axis=1)
    neighbours = int(np.flatnonzero(incomplete[1:] != incomplete[:-1])[0]) if missing else 7
    swapped = np.arange(200)
    swapped[[neighbours, neighbours + 1]] = swapped[[neighbours + 1, neighbours]]
    for order in (np.random.default_rng(0).permutation(200), np.arange(200)[::-1], swapped):
        with pytest.raises(CheckpointError, match=r"another run .different: order of the rows"):
            fitted(X[order], y[order], settings)
    fitted(X.copy(order="F"), y, settings)  # the same rows are the same run
    assert not Path(settings.checkpoint).exists()


def test_a_fingerprint_without_places_would_take_any_order(alone, tmp_path, monkeypatch):
    """The planted cause: sums over rows alone."""
    X, y = table(missing=0.2)
    monkeypatch.setattr(gibbs.np, "cos", np.ones_like)
    settings = checkpointed(X, y, tmp_path, monkeypatch)
    fitted(X[::-1], y[::-1], settings)


def test_blocks_in_another_order_are_refused(alone, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(9000, 30)), np.arange(9000) % 2
    settings = checkpointed(X, y, tmp_path, monkeypatch, Gibbs(draws=2, tune=1, chains=1))
    order = np.r_[4369 : 2 * 4369, 0:4369, 2 * 4369 : 9000]
    with pytest.raises(CheckpointError, match="order of the rows"):
        fitted(X[order], y[order], settings)


@pytest.mark.long
@pytest.mark.parametrize("room", ["20k", "40k", "80k"])
def test_a_full_disk_costs_one_warning_and_no_draw(room, tmp_path):
    """A disk of a few blocks, which only root can mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        script = "\n".join(line for line in LIMITED.splitlines() if "setrlimit" not in line)
        script = script.replace("draws=400", "draws=8000")
        run = python(script, str(disk / "run.chains"), folder=tmp_path, stdout=-1, stderr=-1)
        out, error = run.communicate()
        assert run.returncode == 0, error
        shape, warning = out.splitlines()
        assert shape == "(2, 8000, 4)"
        assert "can't be written (No space left on device)" in warning
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
