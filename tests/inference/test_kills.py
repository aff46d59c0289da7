"""What a killed run leaves behind: no process, no memory, and no file but its checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import killed_chains
from short_chains import python, shared_memory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

# It prints the pids of its workers at the beginning of each round, and saves its draws at the end.
SCRIPT = """
import sys, warnings
import numpy as np
from vbsvm import VBSVC, Gibbs
from vbsvm.base import workers
from vbsvm.inference import chains
warnings.simplefilter("ignore")
chains.WORTH_A_PROCESS, chains.cpu_count, chains.SECONDS_BETWEEN, chains.WRITES_BETWEEN = 0.0, lambda: 2, 0.0, 0.0
right = workers.Workers.call
def told(self, *question):
    print(*[process.pid for process in self._processes], flush=True)
    return right(self, *question)
workers.Workers.call = told
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 10))
y = np.where(X[:, 0] + rng.logistic(size=2000) > 0, 1, 0)
{planted}
clf = VBSVC(inference=Gibbs(draws=4_000, chains=2, checkpoint=sys.argv[1]), random_state=0).fit(X, y)
np.save(sys.argv[1] + ".npy", clf.fit_[0].outcome.coefficients)
"""


def pids_of(run):
    return [int(pid) for pid in run.stdout.readline().split()]


def runs(pid):
    """Whether a process is still there and not only waiting to be buried."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def left_after(pids, seconds):
    end = time.monotonic() + seconds
    while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def killed(folder, rounds, after):
    """Kill a run so many seconds after its workers have begun a round; give its pid and those of these."""
    run = python(SCRIPT.format(planted=""), str(folder / "run.chains"), folder=folder, stdout=subprocess.PIPE)
    for _ in range(rounds):
        pids = pids_of(run)
    time.sleep(after)
    assert len(pids) == 2
    assert all(map(runs, pids))
    run.kill()
    run.communicate()
    return run.pid, pids


def test_a_killed_run_leaves_no_process_memory_or_file(tmp_path):
    pid, pids = killed(tmp_path, rounds=1, after=0.2)
    assert left_after(pids, 10.0) == []
    assert shared_memory(pid) == []
    assert {one.name for one in tmp_path.iterdir() if one.suffix != ".part"} <= {"run.chains"}


@pytest.mark.long
def test_ten_killed_runs_leave_nothing_and_their_checkpoint_leads_to_the_same_draws(tmp_path):
    path, found = tmp_path / "run.chains", []
    for k in range(10):
        pid, pids = killed(tmp_path, rounds=1 + k % 3, after=0.03 * k)
        found += pids
        assert shared_memory(pid) == []
    assert left_after(found, 10.0) == []
    assert path.exists()
    drawn = []
    for place in (path, tmp_path / "fresh"):
        run = python(SCRIPT.format(planted=""), str(place), folder=tmp_path, stdout=subprocess.DEVNULL)
        assert run.wait() == 0
        drawn.append(np.load(f"{place}.npy"))
        Path(f"{place}.npy").unlink()
    np.testing.assert_array_equal(*drawn)
    assert list(tmp_path.iterdir()) == []  # parts of what was being written are gone as well


def test_a_killed_sampler_of_groups_and_missing_values_resumes_to_the_same_draws(tmp_path):
    kills, same, left = killed_chains.killed("missing, groups", tmp_path, 1)
    assert (kills, same, left) == (1, True, [])


@pytest.mark.long
@pytest.mark.parametrize("place", ["here", "elsewhere"])
@pytest.mark.parametrize("kind", killed_chains.KINDS)
def test_killed_samplers_of_every_kind_resume_to_the_same_draws(kind, place, tmp_path):
    kills, same, left = killed_chains.killed(kind, tmp_path, 5, place)
    assert kills > 0
    assert same
    assert left == []


def test_workers_that_did_not_look_for_their_parent_would_be_found():
    """The planted cause: a process that is not told of its parent's end outlives it."""
    script = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid)"
    (pid,) = map(int, subprocess.run([sys.executable, "-c", script], stdout=-1, check=True).stdout.split())
    try:
        assert left_after([pid], 0.5) == [pid]
    finally:
        os.kill(pid, signal.SIGKILL)


FORKING = """
import os, time
right_send = workers._send
def send(process, message):
    right_send(process, message)
    if not hasattr(workers, "forked") and isinstance(message, tuple) and len(message) == 2:
        workers.forked = os.fork()
        if workers.forked == 0:
            time.sleep(600)
            os._exit(0)
        print(workers.forked, flush=True)
workers._send = send
"""


def test_a_fork_that_holds_the_pipe_does_not_keep_workers(tmp_path):
    """What a fork inherits keeps the pipe open: then a worker sees that it has another parent."""
    script = SCRIPT.format(planted=FORKING)
    run = python(script, str(tmp_path / "run.chains"), folder=tmp_path, stdout=subprocess.PIPE)
    pids = pids_of(run)
    (fork,) = pids_of(run)
    try:
        run.kill()
        run.wait()
        assert left_after(pids, 10.0) == []
        assert runs(fork)
    finally:
        os.kill(fork, signal.SIGKILL)
        run.communicate()
