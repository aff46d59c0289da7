"""Processes, threads and loops of others: the same results, no hang, and nothing left behind."""

import multiprocessing

import pytest

import parallel_runs
from short_chains import python

FORKED = """
import multiprocessing, threading, warnings
import numpy as np
from vbsvm import VBSVC, Model
from vbsvm.base import arrays, printing
from asked_at_once import frame
warnings.simplefilter("ignore")
fit, data = Model("y ~ a + s(b)", frame(200)).fit(), frame(200)
locks = [fit._rows.lock, printing._FILTERS, arrays._limit._lock]
held, done = threading.Event(), threading.Event()
def hold():
    with locks[0], locks[1], locks[2]:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
def ask():
    fit.summary()
    Model("y ~ a + s(b)", data).fit()
child = multiprocessing.get_context("fork").Process(target=ask)
child.start()
child.join(60)
code = child.exitcode
child.kill()
done.set()
thread.join()
with locks[0]:  # a thread that forks keeps what it holds
    child = multiprocessing.get_context("fork").Process(target=ask)
    child.start()
    child.join(60)
print(code, child.exitcode)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent(tmp_path):
    run = python(FORKED, folder=tmp_path, stdout=-1, stderr=-1, tests=True)
    out, error = run.communicate()
    assert out.split() == ["0", "0"], error


def test_a_daemon_thread_fits_like_the_main_one():
    assert parallel_runs.run("daemon thread") == (parallel_runs.run("alone")[0], "", [])


@pytest.mark.long
@pytest.mark.parametrize("name", parallel_runs.SCRIPTS)
def test_runs_in_parallel_are_those_of_one(name):
    if name.startswith("fork") and "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork")
    assert parallel_runs.run(name) == (parallel_runs.run("alone")[0], "", [])
