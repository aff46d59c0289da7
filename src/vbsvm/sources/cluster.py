"""A Dask cluster: compute partitions, map functions over futures, and sum results; and helpers for Dask collections.

Whatever is held in workers is a future whose task the scheduler knows: what is lost with a worker is computed again.
Messages and sums are pickled, as Dask does with all tasks: whoever uses a cluster trusts it. Nothing of this is ever
written to a file.
"""

import asyncio
import itertools
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar, final
from uuid import uuid4
from weakref import ref

import numpy as np

from vbsvm.base.arrays import Addable
from vbsvm.design.frames import is_collection
from vbsvm.design.values import join_names

T = TypeVar("T", bound=Addable)

# Retries of failed reads, as a disk or network may fail temporarily.
RETRIES = 2
# Number of terms added per task.
FAN_IN = 8
# Total bytes up to which each task gets its own copy of the pickled function.
MAX_COPIED = 2**20
# Messages of a pass hold matrices of columns × columns, which a graph may hold; Dask would warn of such graphs.
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
# A setting of Dask: how long a fit waits for workers where a cluster has none; None is for ever.
WORKER_TIMEOUT = "vbsvm.worker-timeout"
POLL_SECONDS = 5.0

INSTALL = "Dask is not installed: pip install 'vbsvm[dask]'."
KILLED = (
    "Several workers died over the same part of the data, most likely out of memory: use smaller partitions, or "
    "workers with more memory."
)
LOST = (
    "The cluster has lost the data or has stopped: data scattered from a client can't be recomputed after their worker "
    "dies, or after a restart of the scheduler. Load the data within the cluster, as by dask.dataframe.read_parquet."
)
NO_WORKERS = (
    "The Dask cluster at {address} has had no workers for {empty:g} seconds, and a fit waits for at most {limit:g}. "
    "Start some, as by 'dask worker {address}'; dask.config.set({{'vbsvm.worker-timeout': 900}}) sets another limit."
)

BAD_PARTITION = (
    "Partition {number} can't be computed ({why}). Every partition must be a data frame with all columns of the "
    "collection, and every file that it is read from must be complete."
)


@final
class Cluster:
    """Client of a Dask cluster for one fit, with unique task keys."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._token, self._numbers = uuid4().hex, itertools.count()
        self._partitions: list[ref[Any]] = []

    @staticmethod
    def from_client(client: Any = None) -> "Cluster":
        """Wrap a client, or the default client; reject clients that can't be used."""
        try:
            from distributed import Client, default_client
        except ImportError as error:
            raise ImportError(INSTALL) from error
        if client is None:
            try:
                client = default_client()
            except ValueError:
                raise ValueError(
                    "There is no Dask client: make one, as in distributed.Client('tcp://scheduler:8786'), or "
                    "distributed.Client() for this machine alone, and pass it as client=."
                ) from None
        if not isinstance(client, Client):
            raise TypeError(f"client must be a distributed.Client or None; got {type(client).__name__}.")
        if client.asynchronous:
            raise TypeError("client is asynchronous; a fit waits for its results: make a client of its own for it.")
        if client.status != "running":
            raise ValueError(f"The Dask client is {client.status}: make a new one.")
        _seconds_without_workers()
        return Cluster(client)

    def compute(self, delayed: Sequence[Any]) -> list[Any]:
        """Compute delayed partitions; return their futures."""
        futures = self._client.compute(list(delayed), retries=RETRIES)
        self._partitions = [ref(future) for future in futures]  # workers free what is not used elsewhere
        return futures

    def map(self, function: Callable[..., Any], *things: Sequence[Any], what: str = "part") -> list[Any]:
        """Map a function over futures (and further sequences); return the futures of the results."""
        name = self._new_key(what)
        return self._client.map(function, *things, key=[f"{name}-{k}" for k in range(len(things[0]))])

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Gather the values of futures."""
        with self._explained_errors(futures):
            return self._gather(futures)

    def _gather(self, futures: Sequence[Any]) -> list[Any]:
        """Gather the values of futures; warn while the cluster has no workers, and raise after the timeout."""
        limit, empty, warned = _seconds_without_workers(), 0.0, False
        coroutine = self._client.gather(list(futures), asynchronous=True)
        answer = asyncio.run_coroutine_threadsafe(coroutine, self._client.loop.asyncio_loop)
        while True:  # where it ends early, the gathering ends with its futures, which the caller cancels
            step = min(POLL_SECONDS, limit - empty)
            try:
                return answer.result(step)
            except TimeoutError:
                if answer.done():  # what was asked has failed so itself
                    raise
            empty = 0.0 if self._client.scheduler_info()["workers"] else empty + step
            words = NO_WORKERS.format(address=self._client.scheduler.address, empty=empty, limit=limit)
            if empty >= limit:
                raise TimeoutError(words)
            if empty and not warned:
                warnings.warn(f"{words} The fit goes on when there are some.", stacklevel=2)
            warned = empty > 0.0

    def sum(self, function: Callable[[Any], T], things: Sequence[Any]) -> T:
        """Sum function(future) over futures in a tree of fixed shape; the last terms are added in the client."""
        submitted: list[Any] = []
        with self._explained_errors(submitted):
            terms = self._submit_terms(function, things, submitted)
            while len(terms) > FAN_IN:
                groups = [terms[k : k + FAN_IN] for k in range(0, len(terms), FAN_IN)]
                terms = [self._client.submit(_sum_pickled, some, key=self._new_key("added")) for some in groups]
                submitted += terms
            return pickle.loads(_sum_pickled(self._gather(terms)))

    def _submit_terms(self, function: Callable[[Any], T], things: Sequence[Any], submitted: list[Any]) -> list[Any]:
        """Submit the function for all futures: pickled into each task if small, else once into the graph."""
        import cloudpickle
        from dask import config

        message = cloudpickle.dumps(function)
        if len(message) * len(things) <= MAX_COPIED:
            terms = self.map(partial(_call_pickled, message), things, what="sum")
        else:
            with config.set({LARGE_GRAPH: "1TB"}):
                shared_message = self._client.submit(bytes, message, key=self._new_key("message"))
            submitted.append(shared_message)
            terms = self.map(_call_pickled, [shared_message] * len(things), things, what="sum")
        submitted += terms
        return terms

    @contextmanager
    def _explained_errors(self, futures: Sequence[Any]) -> Iterator[None]:
        """Cancel the futures on any error, and explain errors of the cluster."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except BaseException as error:
            statuses = [getattr(future(), "status", None) for future in self._partitions]
            with suppress(Exception):  # a cluster that is gone has nothing to cancel
                self._client.cancel(list(futures), force=True)
            if isinstance(error, KilledWorker):
                raise RuntimeError(KILLED) from error
            if isinstance(error, CancelledError | asyncio.CancelledError):
                raise RuntimeError(LOST) from error
            if "error" in statuses and isinstance(error, Exception) and not str(error).startswith("Partition "):
                what = "it lacks a column" if isinstance(error, KeyError) else type(error).__name__
                why = f"{what}: {str(error).rstrip('.')}"
                raise ValueError(BAD_PARTITION.format(number=statuses.index("error"), why=why)) from error
            raise

    def _new_key(self, what: str) -> str:
        """A unique task key; the scheduler estimates durations by its prefix."""
        return f"vbsvm_{what}-{self._token}-{next(self._numbers)}"


def _seconds_without_workers() -> float:
    """The timeout without workers from the Dask configuration, checked."""
    from dask import config
    from dask.utils import parse_timedelta

    given = config.get(WORKER_TIMEOUT, 300)
    if given is None:
        return np.inf
    try:
        limit = float(parse_timedelta(given, default="s"))
    except (AttributeError, KeyError, TypeError, ValueError):
        limit = np.nan
    if not limit > 0.0:
        raise ValueError(
            f"Dask's setting {WORKER_TIMEOUT!r} is {given!r}: give a positive number of seconds, a text such as "
            "'2 hours', or None to wait without a limit."
        )
    return limit


def _call_pickled(message: bytes, thing: Any) -> bytes:
    """Call a pickled function in a worker; return the pickled result."""
    with np.errstate(all="ignore"):
        return pickle.dumps(pickle.loads(message)(thing))


def _sum_pickled(terms: list[bytes]) -> bytes:
    return pickle.dumps(reduce(add, map(pickle.loads, terms)))


def is_array(data: Any) -> bool:
    """Whether a collection is a Dask array."""
    return hasattr(data, "chunks")


def check_collection(data: Any, name: str) -> None:
    """Reject data that is not a Dask collection."""
    if not is_collection(data):
        raise TypeError(
            f"{name} must be a dask array or data frame; got {type(data).__name__}. Data in memory are fitted by "
            "VBSVC, or put into a cluster by dask.array.from_array."
        )


def header(X: Any) -> Any:
    """An empty table with the columns of a collection."""
    check_collection(X, "X")
    if not is_array(X):
        return X._meta
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must have rows and columns.")
    if np.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns: compute them first, as by X.compute_chunk_sizes().")
    return np.empty((0, X.shape[1]))


def columns_of_part(part: Any, names: Sequence[Any]) -> Any:
    """Select columns of a partition by name; raise if one is lacking."""
    if not hasattr(part, "columns"):
        raise TypeError(f"it is no data frame, but {type(part).__name__}: let every partition be one.")
    lacking = [name for name in names if name not in part.columns]
    if lacking:
        raise ValueError(f"it has no column {lacking[0]!r}; it has {join_names(list(part.columns))}.")
    return part.loc[:, list(names)]


def split_target(data: Any, target: str, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Split a data frame into predictors, labels and weights by column names."""
    check_collection(data, "X")
    columns = [] if is_array(data) else [str(name) for name in data.columns]
    names = [target, sample_weight] if isinstance(sample_weight, str) else [target]
    for name in names:
        if name not in columns:
            raise ValueError(f"X has no column {name!r}: target is the column of a data frame with the labels.")
    weights = data[sample_weight] if isinstance(sample_weight, str) else sample_weight
    return data.drop(columns=names), data[target], weights


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Delayed partitions, each a tuple of X, y, and weights or None."""
    others = [(y, "y")] if sample_weight is None else [(y, "y"), (sample_weight, "sample_weight")]
    for collection, name in others:
        check_collection(collection, name)
    aligned = [_whole_rows(X), *(_aligned(X, collection, name) for collection, name in others)]
    for other, (_, name) in zip(aligned[1:], others, strict=True):
        if other.npartitions != aligned[0].npartitions:
            raise ValueError(
                f"X has {aligned[0].npartitions} partitions, and {name} has {other.npartitions}: their rows can't be "
                "paired. Put both into one data frame and name the labels' column, as in fit(frame, target='y'). "
                "Columns of one frame that were made arrays (.values, .to_dask_array()) or persisted each by itself "
                "are divided by their own sizes: persist the frame first, and use its columns."
            )
    if not any(map(is_array, aligned)):
        # One graph for all of them: small files are joined by Dask, depending on the columns read.
        return delayed_parts(aligned[0].map_partitions(_row, *aligned[1:], meta=X._meta, enforce_metadata=False))
    return [delayed(_row)(*row) for row in zip(*map(delayed_parts, aligned), strict=True)]


def _row(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    return X, y, sample_weight


def _whole_rows(X: Any) -> Any:
    """X rechunked so that each row is in one chunk."""
    return X.rechunk({1: -1}) if is_array(X) and len(X.chunks[1]) > 1 else X


def _aligned(X: Any, other: Any, name: str) -> Any:
    """Labels or weights rechunked like X, if both sizes are known."""
    if not is_array(other):
        return other
    if other.ndim == 2 and other.shape[1] == 1:
        other = other[:, 0]
    if other.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got an array of {other.ndim}.")
    if not is_array(X) or np.isnan(X.shape[0]) or np.isnan(other.shape[0]):
        return other
    if X.shape[0] != other.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, and {name} has {other.shape[0]}.")
    return other if other.chunks[0] == X.chunks[0] else other.rechunk((X.chunks[0],))


def delayed_parts(collection: Any) -> list[Any]:
    """The delayed partitions of a collection."""
    parts = collection.to_delayed()
    return list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)


def delayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """dask.delayed(function), not pure."""
    try:
        from dask.delayed import delayed as dask_delayed
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return dask_delayed(function, pure=False)


def map_partitions_lazily(function: Callable[[Any, Any], Any], model: Any, X: Any, example: Any) -> Any:
    """Apply function(model, table) to each partition, lazily.

    ``example`` is its answer for a frame, or an array, without rows. The model is put into the graph once.
    """
    compute = delayed(lambda fitted: fitted)(model)
    if not is_array(X):
        return X.map_partitions(_apply, compute, function, meta=example)
    X = _whole_rows(X)
    if example.ndim == 1:
        return X.map_blocks(_apply, compute, function, drop_axis=1, dtype=example.dtype, meta=example)
    chunks = (X.chunks[0], (example.shape[1],))
    return X.map_blocks(_apply, compute, function, chunks=chunks, dtype=example.dtype, meta=example)


def _apply(block: Any, model: Any, function: Callable[[Any, Any], Any]) -> Any:
    return function(model, block)
