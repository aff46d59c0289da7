"""Threads: what a fit costs on an idle machine and beside a busy core, with BLAS allowed one thread and all of them.

Each fit runs in a process of its own, as BLAS reads its settings once. vbsvm holds BLAS to one thread in either case,
and sums over row blocks in as many threads as BLAS may use: "all" should be the better setting, or nearly so.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tables import print_table
from vbsvm import VBSVC, Joint, LaplaceZero, Model

LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def _columns(n: int, p: int, **settings: Any) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X[:, :10] @ rng.normal(size=10) + 2 * rng.normal(size=n) > 0
    return lambda: VBSVC(**settings).fit(X, y)


def _nested() -> Callable[[], Any]:
    """Two nested factors of some 1300 and 161 levels in 2159 rows."""
    rng = np.random.default_rng(0)
    outer = rng.integers(0, 161, 2159)
    inner = 10 * outer + rng.integers(0, 10, 2159)
    x = rng.normal(size=2159)
    y = x + rng.normal(size=161)[outer] + rng.normal(size=2159) > 0
    table = pd.DataFrame({"y": y, "x": x, "a": outer.astype(str), "b": inner.astype(str)})
    model = Model("y ~ x + (1 | a/b)", table, likelihood="hinge")
    return model.fit


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "nested factors": _nested,
    "2000 × 505": lambda: _columns(2000, 505),
    "2000 × 520": lambda: _columns(2000, 520),
    "800 × 600": lambda: _columns(800, 600),
    "2000 × 1000": lambda: _columns(2000, 1000),
    "2000 × 600, gates": lambda: _columns(2000, 600, prior=LaplaceZero()),
    "1000 × 550, joint gates": lambda: _columns(1000, 550, prior=LaplaceZero(gates=Joint())),
    "300 × 3000": lambda: _columns(300, 3000),
}


def _measure(name: str, rounds: int) -> tuple[float, float]:
    """Least wall and CPU seconds of one fit."""
    fit, found = CASES[name](), []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        fit()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def _in_a_process(name: str, rounds: int, threads: int) -> tuple[float, float]:
    """The same in a new process that allows BLAS this many threads."""
    command = [sys.executable, "-m", "benchmarks", "threads", "--one", name, "--rounds", str(rounds)]
    environment = os.environ | dict.fromkeys(LIMITS, str(threads))
    wall, cpu = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    return wall, cpu


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy from another process."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def _row(name: str, rounds: int) -> list[str]:
    cells = [name]
    one, every = (_in_a_process(name, rounds, threads) for threads in (1, os.cpu_count() or 1))
    with busy_core():
        one_busy, every_busy = (_in_a_process(name, rounds, threads) for threads in (1, os.cpu_count() or 1))
    for single, several in ((one, every), (one_busy, every_busy)):
        cells += [f"{single[0]:.2f}", f"{several[0]:.2f}", f"{several[0] / min(single[0], several[0]):.2f}"]
    return [*cells, f"{every_busy[1] / one[1]:.2f}"]


def main(arguments: list[str]) -> None:
    """Print one row for each case: seconds idle and beside a busy core, and "all" over the better of both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks threads", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=list(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(_measure(options.one, options.rounds)))
        return
    header = ["", "idle: 1", "all", "all / best", "busy: 1", "all", "all / best", "CPU busy / idle"]
    print("\nSeconds with BLAS allowed one thread and all of them, idle and beside a busy core")
    print_table(header, [_row(name, 1 if options.quick else options.rounds) for name in CASES])
