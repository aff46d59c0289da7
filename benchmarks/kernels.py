"""How much of a fit is spent in sums over rows: what a compiled kernel for these could gain at most.

The time in the kernels of all blocks, with BLAS and all, over the time of the fit, in one thread. Kernels that took no
time at all would make the fit faster by 1 / (1 − share).
"""

import argparse
import time
from typing import Any
from unittest.mock import patch

from benchmarks.simulation import simulate_overlapping
from benchmarks.tables import print_table
from vbsvm import VBSVC
from vbsvm.base import arrays
from vbsvm.sources import memory, rows

SIZES = [(200, 10), (1000, 10), (5000, 50)]


def share(n: int, d: int, turns: int) -> tuple[float, float]:
    """Seconds of the fastest of so many fits, and of its kernels."""
    X, y = simulate_overlapping(n, d)
    spent = 0.0

    def timed(sum_of: Any) -> Any:
        def method(block: Any, kernel: Any) -> Any:
            nonlocal spent
            begin = time.perf_counter()
            found = sum_of(block, kernel)
            spent += time.perf_counter() - begin
            return found

        return method

    best = (float("inf"), 0.0)
    with (
        patch.object(memory._Block, "sum", timed(memory._Block.sum)),
        patch.object(rows.CompleteBlock, "sum", timed(rows.CompleteBlock.sum)),
        patch.object(arrays, "THREADED_COLUMNS", d + 2),
    ):
        for _ in range(turns):
            spent, begin = 0.0, time.perf_counter()
            VBSVC().fit(X, y)
            best = min(best, (time.perf_counter() - begin, spent))
    return best


def main(arguments: list[str]) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    turns = 20 if parser.parse_args(arguments).quick else 100
    lines = []
    for n, d in SIZES:
        whole, kernels = share(n, d, turns)
        gain = whole / (whole - kernels)
        lines.append([f"{n}x{d}", f"{1e3 * whole:.2f}", f"{100 * kernels / whole:.0f} %", f"{gain:.2f}"])
    print(f"\nKernels over rows, fastest of {turns} fits in one thread")
    print_table(["", "fit, ms", "in kernels", "gain at most"], lines)
