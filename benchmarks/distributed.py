"""Passes over rows in a Dask cluster on this machine: what a round costs, what moves, and what a killed worker changes.

Workers have one thread each. An empty pass is one over a few rows: all of it is the way there and back. Bytes are those
of the message, which every worker gets, and of the sums that come back for each partition.
"""

import argparse
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np

from benchmarks.tables import print_table
from distributed import Client, LocalCluster
from vbsvm import Variational
from vbsvm.api.dask_estimator import DaskVBSVC
from vbsvm.api.data.dask_partitions import DaskPartitions
from vbsvm.api.data.table_reader import TableReader
from vbsvm.api.task import Task, build_problem, read_imputation
from vbsvm.base.update_mode import mean_field
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.priors import Ridge
from vbsvm.model.row_pass import RowPass
from vbsvm.sources import distributed
from vbsvm.sources.cluster import Cluster
from vbsvm.sources.distributed import Distributed

LARGE, QUICK = 4_000_000, 400_000
COLUMNS, PARTITIONS = 50, 8
KILLS, QUICK_KILLS = 30, 3


@contextmanager
def cluster_of(n_workers: int) -> Iterator[Client]:
    """A cluster of worker processes with one thread each."""
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "memory_limit": 0, "silence_logs": 50}
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **local) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client


def table(n: int, d: int, n_partitions: int) -> tuple[Any, Any]:
    """Rows that workers draw themselves, and their labels."""
    chunks = -(-n // n_partitions)
    X = da.random.default_rng(1).normal(size=(n, d), chunks=(chunks, d))
    noise = da.random.default_rng(2).logistic(size=n, chunks=chunks)
    return X, (X[:, 0] - X[:, 1] + noise > 0).astype(int)


def task_of(client: Client, n: int, d: int, n_partitions: int) -> Task:
    """The model of these rows, which workers hold."""
    X, y = table(n, d, n_partitions)
    names = tuple(f"x{k}" for k in range(d))
    rows = DaskPartitions.from_table(Cluster.from_client(client), X, y, None)
    (task,) = build_problem(TableReader(names, Ridge()), rows, read_imputation(None), HINGE).tasks()
    return task


def seconds_of(call: Callable[[], Any], rounds: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def pass_of(task: Task) -> RowPass:
    """A pass from the state after a step, as climbs make them: with the curvature."""
    state = Variational(max_iter=2).run(task.spec, task.source).state
    return RowPass(task.spec.likelihood, state.coefficients.effective(None), mean_field, with_curvature=True)


def rounds(client: Client) -> None:
    """What a round costs for several numbers of partitions."""
    lines = []
    for n_partitions in (1, PARTITIONS, 64, 256):
        task = task_of(client, 20 * n_partitions, 5, n_partitions)
        row_pass = pass_of(task)
        lines.append([str(n_partitions), f"{1000 * seconds_of(partial(task.source.sum_stats, row_pass), 30):.1f}"])
    print_table(["partitions", "an empty pass, ms"], lines)


def bytes_moved(client: Client) -> None:
    """What moves in a pass."""
    lines = []
    for d in (10, COLUMNS, 100):
        task = task_of(client, 4 * d, d, 2)
        row_pass = pass_of(task)
        message = len(cloudpickle.dumps(partial(distributed._stats, row_pass)))
        sums = len(pickle.dumps(task.source.sum_stats(row_pass)))
        lines.append([str(d), f"{message:,}", f"{sums:,}"])
    print_table(["columns", "message, bytes", "sums of a partition, bytes"], lines)


def scaling(n: int) -> None:
    """A pass by one worker and by two."""
    times = {}
    for n_workers in (1, 2):
        with cluster_of(n_workers) as client:
            task = task_of(client, n, COLUMNS, PARTITIONS)
            row_pass = pass_of(task)
            task.source.sum_stats(row_pass)
            times[n_workers] = seconds_of(partial(task.source.sum_stats, row_pass), 7)
    lines = [[str(n_workers), f"{1000 * seconds:.0f}"] for n_workers, seconds in times.items()]
    print_table([f"workers, {n:,} x {COLUMNS}", "a pass, ms"], lines)
    print(f"two workers against one: {times[1] / times[2]:.2f} x\n")


def kills(n_kills: int) -> None:
    """Fits during which a worker is killed, each in a cluster of its own, against one that nobody disturbs."""
    X, y = table(200_000, 20, PARTITIONS)
    different, fold = 0, Distributed.sum_stats
    with cluster_of(2) as client:
        whole = DaskVBSVC(client=client).fit(X, y)
    for k in range(n_kills):
        passes: list[int] = []
        Distributed.sum_stats = lambda self, row_pass, seen=passes: (seen.append(1), fold(self, row_pass))[1]
        with cluster_of(2) as client:
            killing = threading.Thread(target=_kill, args=(client, passes, 1 + k % 9), daemon=True)
            killing.start()
            found = DaskVBSVC(client=client).fit(X, y)
            killing.join()
        different += not (np.array_equal(found.coef_, whole.coef_) and found.elbo_ == whole.elbo_)
        print(f"killed {k + 1} of {n_kills}, {different} with other bits", file=sys.stderr, flush=True)
    Distributed.sum_stats = fold
    print(f"{n_kills} fits with a worker killed: {n_kills - different} with the same bits, {different} with others\n")


def _kill(client: Client, passes: list[int], after: int) -> None:
    pids = list(client.run(os.getpid).values())
    while len(passes) < after:
        time.sleep(0.001)
    os.kill(pids[after % 2], signal.SIGKILL)


PARTS = ("rounds", "bytes", "kills", "scaling")


def main(arguments: list[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks distributed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} rows and {QUICK_KILLS} kills")
    parser.add_argument("--only", choices=PARTS, action="append", help="this table, and not all of them")
    options = parser.parse_args(arguments)
    chosen = options.only or PARTS
    if "scaling" in chosen:
        scaling(QUICK if options.quick else LARGE)
    if "kills" in chosen:
        kills(QUICK_KILLS if options.quick else KILLS)
    with cluster_of(2) as client:
        if "rounds" in chosen:
            rounds(client)
        if "bytes" in chosen:
            bytes_moved(client)
