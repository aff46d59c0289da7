"""Arrays: their types, work space that each thread reuses, and sums over blocks of rows in threads.

Blocks are small enough for a core's cache, and large enough that threads seldom wait for the GIL. Consecutive blocks
form chunks; each chunk is summed by one thread, and chunks are added in order. Block and chunk boundaries depend on the
shape of the data alone, so sums are bitwise identical for every number of threads.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from itertools import islice
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from vbsvm.base.cached import new_lock

Array = NDArray[np.float64]
RowSelection = slice | NDArray[np.intp] | NDArray[np.bool_]
# Numbers of work space that a thread keeps: 32 MB. Larger arrays are allocated each time.
MAX_REUSED = 2**22
_local = threading.local()


def work_space(size: int) -> Array:
    """Uninitialised array of ``size`` numbers that the thread reuses: allocating takes longer than filling it."""
    space: Array | None = getattr(_local, "space", None)
    if space is None or len(space) < size:
        space = np.empty(size)
        if size <= MAX_REUSED:
            _local.space = space
    return space[:size]


def inverse(matrices: Array) -> Array:
    """Inverse of a matrix, or of each matrix of a stack."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def cholesky(matrices: Array) -> Array:
    """Lower Cholesky factor of a matrix, or of each matrix of a stack."""
    return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)


BLOCK_CELLS = 2**17
CHUNKS = 64
# In narrower tables operations on a block are so short that threads only wait for the GIL.
THREADED_COLUMNS = 24


class Addable(Protocol):
    """Result of a kernel: anything that can be summed over blocks."""

    def __add__(self, other: Self, /) -> Self:
        """Add two blocks' results."""
        ...


T = TypeVar("T", bound=Addable)
A = TypeVar("A")


def block_rows(n_columns: int) -> int:
    """Number of rows of a block; in wide data large enough that adding two grams costs little."""
    return max(BLOCK_CELLS // max(n_columns, 1), n_columns)


def sum_over_rows(n_rows: int, n_columns: int, kernel: Callable[[], Callable[[int, slice], T]]) -> T:
    """Sum ``kernel()(index, rows)`` over all blocks of ``block_rows`` rows."""
    size = block_rows(n_columns)

    def of_thread() -> Callable[[int], T]:
        of_block = kernel()
        return lambda index: of_block(index, slice(index * size, min((index + 1) * size, n_rows)))

    return sum_over_blocks(-(-n_rows // size), n_columns, of_thread)


def sum_over_blocks(
    n_blocks: int, n_columns: int, kernel: Callable[[], Callable[[int], T]], *, memory_bound: bool = False
) -> T:
    """Sum ``kernel()(index)`` over all blocks, in threads where blocks are wide enough.

    ``kernel`` is called once in each thread and may allocate work space that its blocks share. A ``memory_bound`` one,
    which reads every number about once, runs without threads: these would not be faster.
    """
    with _limit as threads:
        if n_blocks == 1:
            return kernel()(0)
        blocks_a_chunk = -(-n_blocks // CHUNKS)
        chunks = [range(i, min(i + blocks_a_chunk, n_blocks)) for i in range(0, n_blocks, blocks_a_chunk)]
        of_thread = threading.local()

        def sum_chunk(chunk: range) -> T:
            if not hasattr(of_thread, "kernel"):
                of_thread.kernel = kernel()
            return sum_terms(map(of_thread.kernel, chunk))

        if threads == 1 or memory_bound or n_columns < THREADED_COLUMNS:
            return sum_terms(map(sum_chunk, chunks))
        return sum_terms(_map_in_order(_pool(os.getpid(), threads), sum_chunk, chunks, 2 * threads))


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Thread pool of a process, which is reused: starting threads takes longer than many a sum."""
    return ThreadPoolExecutor(threads)


def sum_terms(terms: Iterator[T]) -> T:
    """Sum of at least one term, in order."""
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def _map_in_order(pool: ThreadPoolExecutor, call: Callable[[A], T], items: list[A], ahead: int) -> Iterator[T]:
    """Yield ``call(item)`` in the order of the items, at most ``ahead`` at a time; cancel the rest on exit."""
    waiting: list[Future[T]] = []
    remaining = iter(items)
    try:
        waiting.extend(pool.submit(call, item) for item in islice(remaining, ahead))
        while waiting:
            result = waiting.pop(0).result()
            waiting.extend(pool.submit(call, item) for item in islice(remaining, 1))
            yield result
    finally:
        for future in waiting:
            future.cancel()


class _BlasLimit:
    """Process-wide limit of BLAS to one thread: the first user to enter sets it, the last to leave restores."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside = 0
        self._threads = 1
        self._limiter: Any = None

    def __enter__(self) -> int:
        """Limit BLAS to one thread; return the number of threads that it used before."""
        with self._lock:
            if self._inside == 0:
                blas = _controller().select(user_api="blas")
                self._threads = max((library["num_threads"] for library in blas.info()), default=1)
                self._limiter = blas.limit(limits=1)
            self._inside += 1
            return self._threads

    def __exit__(self, *error: object) -> None:
        """Restore the number of threads of BLAS when no other user is left."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limiter.restore_original_limits()


_limit = _BlasLimit()


@cache
def _controller() -> ThreadpoolController:
    """Controller of the BLAS libraries, looked up once: this takes longer than a pass over a small table."""
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[int]:
    """Context that limits BLAS to one thread: with more, small products in several threads wait for each other."""
    return _limit
