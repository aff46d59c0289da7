"""Processes that are given functions once: what arrives there, what comes back, and how they end."""

import io
import os
import pickle
import sys
import types

import numpy as np
import pytest

from vbsvm.base import workers
from vbsvm.base.workers import WorkerError, Workers
from worker_functions import Held, raise_odd_error


def is_there(process):
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_workers_end_with_their_block():
    with Workers([abs], 2) as two:
        assert two.call(0, [-1, -2, -3]) == [1, 2, 3]
        assert all(map(is_there, two._processes))
    assert not any(map(is_there, two._processes))


@pytest.mark.parametrize("by_file", [True, False])
def test_arrays_arrive_with_their_numbers_and_at_the_same_place_of_a_cache_line(by_file, monkeypatch, tmp_path):
    if not by_file:
        monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path / "nowhere"))
    numbers = np.arange(1000.0)
    held = [Held(one) for one in [*(numbers[k:] for k in range(9)), np.broadcast_to(2.0, 7)]]
    others = [Held(np.empty(0)), Held(np.array(["a", "b"])[1:])]
    with Workers([*held, *others], 1) as one:
        for k, function in enumerate(held):
            assert one.call(k, [3]) == [function(3)]


@pytest.fixture
def mapped(tmp_path):
    """An array of 60 x 10 numbers in a file."""
    np.save(tmp_path / "a.npy", np.arange(600.0).reshape(60, 10))
    return np.load(tmp_path / "a.npy", mmap_mode="r")


def views(mapped):
    """The number 123 as number 5 of several views: of the array, and of slices that are mapped arrays themselves."""
    return [mapped.view(np.ndarray)[7:, 3], mapped[7:, 3], np.asarray(mapped[7:])[:, 3], mapped[4:][3:].T[3]]


def test_a_mapped_array_goes_by_the_name_of_its_file(mapped):
    held = [Held(view) for view in views(mapped)]
    payload = workers._Payload(tuple(held))
    assert payload.raw == []
    assert payload.size < 100
    with Workers(held, 1) as one:
        for k in range(len(held)):
            assert one.call(k, [5])[0][1:] == ((80,), 123.0)


def test_the_offset_of_a_slice_would_lead_elsewhere(mapped, monkeypatch):
    """The planted cause: NumPy gives a slice of a mapped array the offset of the whole one."""
    monkeypatch.setattr(workers, "_file_of", lambda array: array)

    def sent(array):
        text = io.BytesIO()
        workers._Pickler(text, 5).dump(array)
        return pickle.loads(text.getvalue())

    np.testing.assert_array_equal(sent(mapped), mapped)
    assert sent(mapped[7:])[0, 0] != mapped[7, 0]


def test_errors_of_a_function_are_raised_and_workers_go_on():
    with Workers([abs, len], 2) as two:
        with pytest.raises(TypeError, match="bad operand") as raised:
            two.call(0, [1, "text", -3, "text"])
        assert "In a worker process" in raised.value.__notes__[0]
        assert two.call(1, ["text", "a", ""]) == [4, 1, 0]


def test_a_worker_that_ends_is_told():
    with Workers([raise_odd_error, os._exit], 1) as one, pytest.raises(WorkerError, match="a worker process has ended"):
        one.call(0, [1])
    with Workers([raise_odd_error, os._exit], 1) as one, pytest.raises(WorkerError, match="a worker process has ended"):
        one.call(1, [0])


def test_an_answer_that_is_cut_short_is_told(monkeypatch):
    with Workers([abs], 1) as one:
        monkeypatch.setattr(workers, "_open", lambda pipe: io.BytesIO(pickle.dumps((True, "a" * 1000), 5)[:500]))
        with pytest.raises(WorkerError, match="a worker process has ended"):
            one.call(0, [1])


def test_what_workers_cannot_load_or_send_is_said(monkeypatch):
    with pytest.raises(WorkerError, match=r"[Cc]an't (pickle|get)"):
        Workers([lambda x: x], 1)
    only_here = types.ModuleType("only_here")
    exec("def double(x): return 2 * x", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    with pytest.raises(WorkerError, match="No module named 'only_here'"):
        Workers([only_here.double], 1)


def test_an_interpreter_that_does_not_begin_is_told(monkeypatch):
    monkeypatch.setattr(workers, "BEGIN", "pass")
    with pytest.raises(WorkerError, match="ended before it could begin"):
        Workers([abs], 1)
