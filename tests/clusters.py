"""Dask clusters of worker processes on this machine, for tests."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

LOCAL = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "scheduler_port": 0,
    "dashboard_address": "127.0.0.1:0",
    "memory_limit": 0,
    "silence_logs": 50,
}


@contextmanager
def workers(n, *, default=True):
    """A client of some workers of one thread; ports are free ones, on this machine alone."""
    from dask import config

    from distributed import Client, LocalCluster

    # Workers start Python anew: they are to find the package and the tests where this process does.
    path = os.pathsep.join([*(str(Path(one).resolve()) for one in sys.path if one), os.environ.get("PYTHONPATH", "")])
    with (
        config.set({"distributed.nanny.environ.PYTHONPATH": path}),
        LocalCluster(n_workers=n, **LOCAL) as cluster,
        Client(cluster, set_as_default=default) as client,
    ):
        if n:
            client.wait_for_workers(n, timeout=60)
        yield client


def kill_one(client):
    """End a worker as a power failure would; its nanny starts another."""
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


def kill_during(client, passes, after):
    """Kill a worker as soon as ``after`` of ``passes``, a list that grows, have begun."""

    def watch():
        deadline = time.monotonic() + 30
        while len(passes) < after and time.monotonic() < deadline:
            time.sleep(0.001)
        kill_one(client)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def wait_until(condition, seconds=30):
    """Wait for what a cluster does in its own time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
