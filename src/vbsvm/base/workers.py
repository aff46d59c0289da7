"""Worker processes that receive functions with their data once, and then calls with small arguments.

A worker is a new interpreter, independent of the main script. It is connected to this process by pipes, and by an
unnamed file from which all workers map the same arrays, so that nothing is left behind. A worker ends when its pipe
closes, which the system does when this process ends in any way.
"""

import io
import mmap
import multiprocessing.spawn
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import IO, Any, Self, final

import numpy as np

# Arrays keep their offset within a cache line, on which the order of summation of vector instructions depends.
CACHE_LINE = 64
SECONDS_BETWEEN_CHECKS = 1.0
BEGIN = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from vbsvm.base.workers import serve; serve()"
# Errors of a pipe whose process has ended.
_ENDED = (BrokenPipeError, ConnectionResetError, EOFError, pickle.UnpicklingError)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerError(RuntimeError):
    """Workers that can't be started or reached, or have ended; callers may compute without them."""


@final
class Workers:
    """``n`` workers, which call these functions by number."""

    def __init__(self, functions: Sequence[Callable[[Any], Any]], n: int) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            payload = _Payload(tuple(functions))
            with _shared_file(payload) or nullcontext() as file:
                number = None if file is None else file.fileno()
                for _ in range(n):
                    self._processes.append(_start_worker(number))
                for process in self._processes:
                    _send(process, sys.path)
                    payload.send(process, number)
                for process in self._processes:
                    _result_or_raise(_reply(process))
        except BaseException as error:
            self.close()
            if isinstance(error, _ENDED):
                raise WorkerError("a worker process has ended before it could begin") from error
            if isinstance(error, Exception):
                raise WorkerError(str(error) or type(error).__name__) from error
            raise

    def call(self, number: int, arguments: Sequence[Any]) -> list[Any]:
        """Results of the function of this number for each argument; its errors are raised here."""
        n = len(self._processes)
        try:
            for k, argument in enumerate(arguments):
                _send(self._processes[k % n], (number, argument))
            replies = [_reply(self._processes[k % n]) for k in range(len(arguments))]
        except _ENDED as error:
            raise WorkerError("a worker process has ended") from error
        return [_result_or_raise(reply) for reply in replies]

    def close(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()

    def __enter__(self) -> Self:
        """Workers end with the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """End all of them."""
        self.close()


class _Payload:
    """Functions as a pickle, with the arrays out of band, each with its position in shared memory."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        buffers: list[pickle.PickleBuffer] = []
        text = io.BytesIO()
        _Pickler(text, 5, buffer_callback=buffers.append).dump(functions)
        self.pickled, self.raw = text.getvalue(), [buffer.raw() for buffer in buffers]
        self.positions, end = [], 0
        for buffer in self.raw:
            address = np.frombuffer(buffer, np.uint8).ctypes.data if len(buffer) else 0
            begin = end + (address - end) % CACHE_LINE
            end = begin + len(buffer)
            self.positions.append((begin, end))
        self.size = end + 1

    def send(self, process: "subprocess.Popen[bytes]", file: int | None) -> None:
        """Send the pickle and the positions of the arrays; without a file the arrays follow."""
        _send(process, (file, self.size, self.positions, self.pickled))
        if file is None:
            pipe = _open(process.stdin)
            for buffer in self.raw:
                pipe.write(buffer)
            pipe.flush()


class _Pickler(pickle.Pickler):
    """Pickler that sends memory-mapped arrays as the name of their file, and broadcast arrays once."""

    def reducer_override(self, obj: Any) -> Any:
        """Reconstruction of such an array."""
        if not isinstance(obj, np.ndarray) or obj.dtype.hasobject or not obj.size:
            return NotImplemented
        if 0 in obj.strides and not (obj.flags.c_contiguous or obj.flags.f_contiguous):
            return np.broadcast_to, (obj[tuple(slice(None) if step else slice(1) for step in obj.strides)], obj.shape)
        file = _file_of(obj)
        if file is None or min(obj.strides, default=0) < 0:
            return NotImplemented
        offset = file.offset + obj.ctypes.data - file.ctypes.data
        return _mapped, (str(file.filename), offset, obj.dtype, obj.shape, obj.strides)


def _file_of(array: Any) -> "np.memmap[Any, Any] | None":
    """The memory-mapped file that an array is a view of, or None: the last base, as slices are ``memmap``s, too."""
    file = None
    while array is not None:
        if isinstance(array, np.memmap):
            file = array
        array = getattr(array, "base", None)
    return None if file is None or file.filename is None or file.mode == "c" else file


def _mapped(path: str, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    length = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize
    flat = np.memmap(path, np.uint8, "r", offset, (length,)).view(np.ndarray)
    return np.ndarray(shape, dtype, flat.data, strides=strides)


def _shared_file(payload: _Payload) -> IO[bytes] | None:
    """An unnamed file with the arrays of a payload, or None if not possible: then they go through the pipes."""
    if os.name == "nt":
        return None
    file = None
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        for buffer, (begin, _) in zip(payload.raw, payload.positions, strict=True):
            file.seek(begin)
            file.write(buffer)
        file.truncate(payload.size)
        file.flush()
    except OSError:  # no memory, or no folder for such files
        if file is not None:
            file.close()
        return None
    return file


def _start_worker(file: int | None) -> "subprocess.Popen[bytes]":
    """Start a worker in its own process group, so that only this process receives Ctrl-C."""
    command = [multiprocessing.spawn.get_executable(), "-P", "-c", BEGIN]
    files = () if file is None else (file,)
    on_windows, pipe = os.name == "nt", subprocess.PIPE
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        env=os.environ | ONE_THREAD,
        pass_fds=files,
        process_group=None if on_windows else 0,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _send(process: "subprocess.Popen[bytes]", message: object) -> None:
    pipe = _open(process.stdin)
    pickle.dump(message, pipe, 5)
    pipe.flush()


def _reply(process: "subprocess.Popen[bytes]") -> tuple[bool, Any]:
    return pickle.load(_open(process.stdout))


def _result_or_raise(reply: tuple[bool, Any]) -> Any:
    done, result = reply
    if not done:
        raise result
    return result


# Code of a worker


def serve() -> None:
    """Main loop of a worker: load the functions, then execute calls until the parent process ends."""
    calls, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed output must not mix with results
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    waiting: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    functions: tuple[Callable[[Any], Any], ...] = ()

    def load() -> None:
        nonlocal functions
        functions = _load_functions(calls)

    _execute(results, load)
    threading.Thread(target=_read, args=(calls, waiting), daemon=True).start()
    while True:
        number, argument = waiting.get()
        _execute(results, lambda: functions[number](argument))  # noqa: B023


def _load_functions(pipe: Any) -> Any:
    file, size, positions, text = pickle.load(pipe)
    memory = mmap.mmap(-1, size) if file is None else mmap.mmap(file, size, access=mmap.ACCESS_COPY)
    view = memoryview(memory)
    buffers = [view[begin:end] for begin, end in positions]
    if file is None:
        for part in buffers:
            while len(part):
                part = part[pipe.readinto(part) or os._exit(0) :]
    else:
        os.close(file)
    return pickle.loads(text, buffers=buffers)


def _execute(pipe: IO[bytes], call: Callable[[], Any]) -> None:
    """Send the result of a call, or its error; exit if memory or the reader is gone."""
    try:
        reply = pickle.dumps((True, call()), 5)
    except MemoryError:
        os._exit(1)
    except Exception as error:
        reply = _error(error)
    try:
        pipe.write(reply)
        pipe.flush()
    except OSError:
        os._exit(0)


def _error(error: Exception) -> bytes:
    """Pickled error with its traceback; one that can't be pickled ends the worker, and is raised again without it."""
    error.add_note(f"In a worker process:\n{traceback.format_exc()}")
    try:
        reply = pickle.dumps((False, error), 5)
        pickle.loads(reply)
    except Exception:
        os._exit(1)
    return reply


def _read(pipe: IO[bytes], waiting: "queue.SimpleQueue[tuple[int, Any]]") -> None:
    """Queue calls while others are executed; exit at the end of the pipe."""
    while True:
        try:
            waiting.put(pickle.load(pipe))
        except BaseException:
            os._exit(0)


def _watch(parent: int) -> None:
    """Exit when the parent process has changed: a fork of the old one may keep the pipe open."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_CHECKS)
    os._exit(0)
