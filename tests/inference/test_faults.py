"""Sampling under faults: what a killed run leaves behind, and runs whose files or helpers fail.

Each test has its planted cause: the same with the old behaviour, which must fail.
"""

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vbsvm
from vbsvm import VBSVC, Gibbs
from vbsvm.api.from_table import Table
from vbsvm.base import workers
from vbsvm.base.workers import WorkerError, Workers
from vbsvm.inference import chains, gibbs
from vbsvm.inference.checkpoint import CheckpointError

SOURCE = Path(vbsvm.__file__).parent.parent
SHORT = Gibbs(draws=40, tune=40, chains=2)
posix = pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX")


def table(n=200, missing=0.0):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -0.5, 0.0] + 1.5 * rng.logistic(size=n) > 0, 1, 0)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def quiet(call):
    """Few draws mix badly, and it is said; here that is no matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


def fitted(X, y, inference=SHORT, **settings):
    return quiet(lambda: VBSVC(inference=inference, random_state=5, **settings).fit(X, y))


def saved(model, path):
    model.save(path)
    return path.read_bytes()


@pytest.fixture
def alone(monkeypatch):
    """All in this process."""
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", np.inf)


@pytest.fixture
def helped(monkeypatch):
    """Processes from the second round on, whatever the machine."""
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr(chains, "cpu_count", lambda: 2)


# Nothing is left behind

SCRIPT = """
import sys
import numpy as np
from vbsvm import VBSVC, Gibbs
from vbsvm.api.from_table import Table
from vbsvm.base import workers
from vbsvm.inference import chains
chains.WORTH_A_PROCESS, chains.cpu_count, chains.SECONDS_BETWEEN = 0.0, lambda: 2, 0.0
right = workers.Workers.answers
def told(self, *question):
    print(*[process.pid for process in self._processes], flush=True)
    return right(self, *question)
workers.Workers.answers = told
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 10))
y = np.where(X[:, 0] + rng.logistic(size=2000) > 0, 1, 0)
{planted}
VBSVC(inference=Gibbs(draws=10_000, chains=2, checkpoint=sys.argv[1]), random_state=0).fit(X, y)
"""


def python(script, *arguments, folder, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment, text=True, **options)


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


def killed(folder, after):
    """Kill a run so many seconds after its workers have begun; give the pids of these."""
    run = python(SCRIPT.format(planted=""), str(folder / "run.chains"), folder=folder, stdout=subprocess.PIPE)
    pids = [int(pid) for pid in run.stdout.readline().split()]
    time.sleep(after)
    assert len(pids) == 2
    assert all(map(runs, pids))
    run.kill()
    run.communicate()
    return run.pid, pids


def shared_memory(pid):
    place = Path("/dev/shm")
    found = place.iterdir() if place.is_dir() else ()
    return [one.name for one in found if str(pid) in re.split(r"\W|_", one.name)]


@posix
def test_a_killed_run_leaves_no_process_memory_or_file(tmp_path):
    pid, pids = killed(tmp_path, after=0.3)
    assert left_after(pids, 10.0) == []
    assert shared_memory(pid) == []
    assert {one.name for one in tmp_path.iterdir() if one.suffix != ".part"} <= {"run.chains"}


@posix
@pytest.mark.long
def test_ten_killed_runs_leave_nothing_and_their_checkpoint_leads_to_the_same_draws(tmp_path):
    path, found = tmp_path / "run.chains", []
    for k in range(10):
        pid, pids = killed(tmp_path, after=0.1 + 0.05 * k)
        found += pids
        assert shared_memory(pid) == []
    assert left_after(found, 10.0) == []
    assert path.exists()
    chains_of = "import pathlib, sys; sys.argv[1]; import numpy as np; "
    drawn = {}
    for name in (str(path), str(tmp_path / "fresh")):
        end = "np.save(sys.argv[2], clf.fit_[0].outcome.coefficients)"
        script = SCRIPT.format(planted="import warnings; warnings.simplefilter('ignore')").replace(
            "VBSVC(inf", "clf = VBSVC(inf"
        )
        run = python(chains_of + script + end, name, f"{name}.npy", folder=tmp_path, stdout=subprocess.DEVNULL)
        assert run.wait() == 0
        drawn[name] = np.load(f"{name}.npy")
        Path(f"{name}.npy").unlink()
    np.testing.assert_array_equal(*drawn.values())
    assert list(tmp_path.iterdir()) == []  # parts of what was being written are gone as well


@posix
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
            time.sleep(40)
            os._exit(0)
        print(workers.forked, flush=True)
workers._send = send
"""


@posix
def test_a_fork_that_holds_the_pipe_does_not_keep_workers(tmp_path):
    """What a fork inherits keeps the pipe open: then a worker sees that it has another parent."""
    script = SCRIPT.format(planted=FORKING)
    run = python(script, str(tmp_path / "run.chains"), folder=tmp_path, stdout=subprocess.PIPE)
    pids = [int(pid) for pid in run.stdout.readline().split()]
    fork = int(run.stdout.readline())
    try:
        run.kill()
        run.wait()
        assert left_after(pids, 10.0) == []
        assert runs(fork)
    finally:
        os.kill(fork, signal.SIGKILL)
        run.communicate()


def test_workers_end_with_their_block():
    with Workers([abs], 2) as two:
        pids = [process.pid for process in two._processes]
        assert two.answers(0, [-1, -2, -3]) == [1, 2, 3]
    assert not any(map(runs, pids))


# Workers


def doubled(array):
    return 2 * array


class Held:
    """A function that holds an array."""

    def __init__(self, array):
        self.array = array

    def __call__(self, number):
        return self.array.ctypes.data % workers.CACHE_LINE, self.array.strides, float(self.array[number])


@pytest.fixture
def known(monkeypatch):
    """Workers find the classes of this file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    module = __import__("test_faults")
    yield module
    sys.modules.pop("test_faults")


@pytest.mark.parametrize("by_file", [True, False])
def test_arrays_arrive_with_their_numbers_and_at_the_same_place_of_a_cache_line(by_file, known, monkeypatch, tmp_path):
    if not by_file:
        monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path / "nowhere"))
    numbers = np.arange(1000.0)
    given = [numbers[k:] for k in range(9)] + [np.broadcast_to(2.0, 7), np.empty(0), np.array(["a", "b"])[1:]]
    held = [known.Held(one) for one in given[:10]]
    with Workers([*held, len], 1) as one:
        for k, function in enumerate(held):
            assert one.answers(k, [3]) == [function(3)]


def test_a_mapped_array_goes_by_the_name_of_its_file(known, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(600.0).reshape(60, 10))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    held = known.Held(mapped.view(np.ndarray)[7:, 3])
    parcel = workers._Parcel((held,))
    assert parcel.raw == []
    assert parcel.size < 100
    with Workers([held], 1) as one:
        assert one.answers(0, [5])[0][1:] == ((80,), 123.0)


def test_errors_of_a_function_are_raised_and_workers_go_on():
    with Workers([abs, len], 2) as two:
        with pytest.raises(TypeError, match="bad operand"):
            two.answers(0, ["text"])
        assert two.answers(1, ["text"]) == [4]


def test_what_workers_cannot_load_or_send_is_said():
    with pytest.raises(WorkerError, match=r"[Cc]an't (pickle|get)"):
        Workers([lambda x: x], 1)
    with pytest.raises(WorkerError, match=r"No module named|test_faults"):
        Workers([doubled], 1)


# The same bits


KINDS = {
    "plain": lambda: table(),
    "missing": lambda: table(missing=0.2),
    "several blocks": lambda: (np.random.default_rng(1).normal(size=(3000, 60))[:, ::2], np.arange(3000) % 2),
    "classes": lambda: (table()[0], np.digitize(table()[0][:, 0], [-1.0, 1.0])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_saved_fits_have_the_same_bytes_with_and_without_processes(kind, tmp_path, monkeypatch):
    X, y = KINDS[kind]()
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
    monkeypatch.setattr(gibbs._Chain, "fresh", lambda self: replace(self, drawn=(), missing=None))
    monkeypatch.setattr(
        gibbs._Chain,
        "after",
        lambda self, part: replace(
            part, drawn=(*self.drawn, *part.drawn), missing=gibbs.added(self.missing, part.missing)
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
    monkeypatch.setattr(Table, "counted", lambda self: self)
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
    right, calls = Workers.answers, []

    def struck(self, *question):
        calls.append(1)
        if len(calls) == 3:
            self._processes[0].kill()
        return right(self, *question)

    monkeypatch.setattr(Workers, "answers", struck)
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


LIMITED = """
import resource, signal, sys, warnings
import numpy as np
from vbsvm import VBSVC, Gibbs
from vbsvm.inference import chains
chains.WORTH_A_PROCESS, chains.SECONDS_BETWEEN, chains.WRITES_BETWEEN = np.inf, 0.0, 0.0
{planted}
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


def limited(tmp_path, planted=""):
    path = tmp_path / "run.chains"
    run = python(LIMITED.format(planted=planted), str(path), folder=tmp_path, stdout=-1, stderr=-1)
    out, err = run.communicate()
    return run.returncode, out.splitlines(), err


@posix
def test_a_checkpoint_that_grows_too_large_costs_one_warning_and_no_draw(tmp_path):
    code, told, error = limited(tmp_path)
    assert code == 0, error
    assert told[0] == "(2, 400, 4)"
    (warning,) = told[1:]
    assert str(tmp_path / "run.chains") in warning
    assert "can't be written (File too large)" in warning
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_checkpoint_that_raised_would_be_seen(tmp_path):
    """The planted cause: the error ends the run."""
    plain = "chains._Checkpoints._tried = lambda self, run, what, call: call(run) or True"
    code, told, error = limited(tmp_path, plain)
    assert code != 0
    assert told == []
    assert "File too large" in error


def test_a_checkpoint_is_tried_again_and_the_older_one_stays(alone, tmp_path, monkeypatch):
    X, y = table()
    path = tmp_path / "run.chains"
    monkeypatch.setattr(chains, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(chains, "WRITES_BETWEEN", 0.0)
    right, seen = chains.checkpoint.write, []

    def now_and_then(*arguments):
        seen.append(path.read_bytes() if path.exists() else None)
        if len(seen) in (3, 4):
            raise OSError(28, "No space left on device")
        right(*arguments)

    monkeypatch.setattr(chains.checkpoint, "write", now_and_then)
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
        return run.advanced(end)

    def write_for_a_second(*arguments):
        clock[0] += 1.0
        writes.append(clock[0])

    monkeypatch.setattr(chains.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(chains._Hands, "advanced", sweep_for_a_second)
    monkeypatch.setattr(chains.checkpoint, "write", write_for_a_second)
    X, y = table()
    fitted(X, y, replace(SHORT, draws=200, checkpoint=tmp_path / "run.chains"))
    assert len(writes) > 1
    assert np.diff(writes).min() > chains.WRITES_BETWEEN
    monkeypatch.setattr(chains, "WRITES_BETWEEN", 0.0)
    writes.clear()
    fitted(X, y, replace(SHORT, draws=200, checkpoint=tmp_path / "run.chains"))
    assert np.diff(writes).max() < 15.0


# Checkpoints know the order of rows


def checkpointed(X, y, tmp_path, monkeypatch):
    monkeypatch.setattr(chains, "SECONDS_BETWEEN", -1.0)
    with monkeypatch.context() as kept:
        kept.setattr(chains.atomic, "remove", lambda path: None)
        settings = replace(SHORT, checkpoint=tmp_path / "run.chains")
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
    few = Gibbs(draws=2, tune=1, chains=1)
    monkeypatch.setitem(globals(), "SHORT", few)
    settings = checkpointed(X, y, tmp_path, monkeypatch)
    order = np.r_[4369 : 2 * 4369, 0:4369, 2 * 4369 : 9000]
    with pytest.raises(CheckpointError, match="order of the rows"):
        fitted(X[order], y[order], settings)


# As users call it

PLAIN = """
import numpy as np, warnings
warnings.simplefilter("ignore")
from vbsvm import VBSVC, Gibbs
from vbsvm.inference import chains
print("begin")
chains.WORTH_A_PROCESS, chains.cpu_count = 0.0, lambda: 2
asked = []
right = chains.Workers.answers
chains.Workers.answers = lambda self, *question: asked.append(1) or right(self, *question)
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
