"""Processes that are given functions once, with all the data in them, and then short questions.

A worker is this interpreter started anew, whatever the main script looks like. All that joins it to this process are
pipes, and a file without a name from which all workers map the same arrays: nothing could be left behind. A worker ends
when its pipe closes, which the system does when this process ends, however it ends.
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

# Arrays begin at the same place in a line of the processor's cache as they did: vector instructions add accordingly.
CACHE_LINE = 64
SECONDS_BETWEEN_LOOKS = 1.0
BEGIN = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from vbsvm.base.workers import serve; serve()"
# What a pipe says of a process that is no more.
_ENDED = (BrokenPipeError, ConnectionResetError, EOFError, pickle.UnpicklingError)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerError(RuntimeError):
    """Workers that can't be started or reached, or have ended; what they were asked can be done without them."""


@final
class Workers:
    """So many workers, which know these functions by their numbers."""

    def __init__(self, functions: Sequence[Callable[[Any], Any]], n: int) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            payload = _Payload(tuple(functions))
            with _shared_file(payload) or nullcontext() as file:
                number = None if file is None else file.fileno()
                for _ in range(n):
                    self._processes.append(_started(number))
                for process in self._processes:
                    _send(process, sys.path)
                    payload.send(process, number)
                for process in self._processes:
                    _answer_of(_reply(process))
        except BaseException as error:
            self.close()
            if isinstance(error, _ENDED):
                raise WorkerError("a worker process has ended before it could begin") from error
            if isinstance(error, Exception):
                raise WorkerError(str(error) or type(error).__name__) from error
            raise

    def call(self, number: int, questions: Sequence[Any]) -> list[Any]:
        """What the function of this number makes of each question; its errors are raised here."""
        n = len(self._processes)
        try:
            for k, question in enumerate(questions):
                _send(self._processes[k % n], (number, question))
            replies = [_reply(self._processes[k % n]) for k in range(len(questions))]
        except _ENDED as error:
            raise WorkerError("a worker process has ended") from error
        return [_answer_of(reply) for reply in replies]

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
    """Functions as a pickle, and apart from it the numbers in their arrays, each with its place in a common memory."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        buffers: list[pickle.PickleBuffer] = []
        text = io.BytesIO()
        _Pickler(text, 5, buffer_callback=buffers.append).dump(functions)
        self.pickled, self.raw = text.getvalue(), [buffer.raw() for buffer in buffers]
        self.places, end = [], 0
        for buffer in self.raw:
            begin = end + (_address(buffer) - end) % CACHE_LINE
            end = begin + len(buffer)
            self.places.append((begin, end))
        self.size = end + 1

    def send(self, process: "subprocess.Popen[bytes]", file: int | None) -> None:
        """Send the pickle, and where the arrays are; without a file these follow."""
        _send(process, (file, self.size, self.places, self.pickled))
        if file is None:
            pipe = _open(process.stdin)
            for buffer in self.raw:
                pipe.write(buffer)
            pipe.flush()


class _Pickler(pickle.Pickler):
    """A pickler by which arrays that are mapped from a file go as its name, and a repeated number as one number."""

    def reducer_override(self, obj: Any) -> Any:
        """How such an array is made again."""
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
    """The mapped file that an array is a view of, if it has the same numbers.

    It is the last one: a slice of it calls itself mapped as well, with the whole one's offset.
    """
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
    """The arrays of a payload in a file without a name; None where that is not possible: they go through the pipes."""
    if os.name == "nt":
        return None
    file = None
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        for buffer, (begin, _) in zip(payload.raw, payload.places, strict=True):
            file.seek(begin)
            file.write(buffer)
        file.truncate(payload.size)
        file.flush()
    except OSError:  # no room, or no folder for such files
        if file is not None:
            file.close()
        return None
    return file


def _started(file: int | None) -> "subprocess.Popen[bytes]":
    """A worker in a process group of its own, so that Ctrl-C is left to this process."""
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


def _answer_of(reply: tuple[bool, Any]) -> Any:
    done, answer = reply
    if not done:
        raise answer
    return answer


def _address(raw: memoryview) -> int:
    return np.frombuffer(raw, np.uint8).ctypes.data if len(raw) else 0


# What a worker does


def serve() -> None:
    """Load the functions, and answer until this process's parent is gone."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what others print may not come between
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    waiting: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    functions: tuple[Callable[[Any], Any], ...] = ()

    def load() -> None:
        nonlocal functions
        functions = _loaded(questions)

    _answer(answers, load)
    threading.Thread(target=_read, args=(questions, waiting), daemon=True).start()
    while True:
        number, question = waiting.get()
        _answer(answers, lambda: functions[number](question))  # noqa: B023


def _loaded(pipe: IO[bytes]) -> Any:
    file, size, places, text = pickle.load(pipe)
    memory = mmap.mmap(-1, size) if file is None else mmap.mmap(file, size, access=mmap.ACCESS_COPY)
    view = memoryview(memory)
    buffers = [view[begin:end] for begin, end in places]
    if file is None:
        for buffer in buffers:
            _fill(pipe, buffer)
    else:
        os.close(file)
    return pickle.loads(text, buffers=buffers)


def _fill(pipe: Any, part: memoryview) -> None:
    while len(part):
        part = part[pipe.readinto(part) or os._exit(0) :]


def _answer(pipe: IO[bytes], call: Callable[[], Any]) -> None:
    """Send what a call gives, or its error; without memory for it, or a reader, there is nothing left to do."""
    try:
        answer = pickle.dumps((True, call()), 5)
    except MemoryError:
        os._exit(1)
    except Exception as error:
        answer = _error(error)
    try:
        pipe.write(answer)
        pipe.flush()
    except OSError:
        os._exit(0)


def _error(error: Exception) -> bytes:
    """An error with where it arose; one that can't be sent ends the worker, and arises again without it."""
    error.add_note(f"In a worker process:\n{traceback.format_exc()}")
    try:
        answer = pickle.dumps((False, error), 5)
        pickle.loads(answer)
    except Exception:
        os._exit(1)
    return answer


def _read(pipe: IO[bytes], waiting: "queue.SimpleQueue[tuple[int, Any]]") -> None:
    """Read questions while others are answered; the end of the pipe is that of its other end's process."""
    while True:
        try:
            waiting.put(pickle.load(pipe))
        except BaseException:
            os._exit(0)


def _watch(parent: int) -> None:
    """End when another process has become the parent: a fork of the old one may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(0)
