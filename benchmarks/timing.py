"""Timings that can be compared on a noisy machine: interleaved, and the minimum of each."""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from benchmarks.tables import print_table

# Calls that are shorter than this (in seconds) are timed several at once.
SHORTEST = 0.04
# BLAS keeps its threads spinning for a while after a large call: whoever comes next would pay for it.
PAUSE = 0.2


@final
@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of all threads of the process together."""

    wall: float
    cpu: float

    def least(self, other: "Cost") -> "Cost":
        """The smaller one of each."""
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu))


def fastest(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of one call of each, as ``least_costs`` has them."""
    return {name: cost.wall for name, cost in least_costs(calls, rounds).items()}


def least_costs(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Cost]:
    """Cost of one call of each: the minimum over rounds, in each of which every call has its turn.

    Garbage collection is off while a call is timed. Each call is warmed up first.
    """
    repeats = {name: math.ceil(SHORTEST / _warm_up(call)) for name, call in calls.items()}
    costs = dict.fromkeys(calls, Cost(math.inf, math.inf))
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE)
            costs[name] = costs[name].least(_cost(call, repeats[name]))
    return costs


def _warm_up(call: Callable[[], Any]) -> float:
    """Seconds of a call, or of a second one where that does not take long."""
    first = _cost(call, 1).wall
    return first if first > SHORTEST else _cost(call, 1).wall


def _cost(call: Callable[[], Any], repeats: int) -> Cost:
    """Cost of one of several calls in a row."""
    collects = gc.isenabled()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            call()
        return Cost((time.perf_counter() - wall) / repeats, (time.process_time() - cpu) / repeats)
    finally:
        if collects:
            gc.enable()


def print_times(title: str, seconds: dict[str, float], reference: str) -> None:
    """Print the times, and their ratios to the reference."""
    print(f"\n{title}")
    rows = [[name, f"{1e3 * each:.2f}", f"{each / seconds[reference]:.2f}"] for name, each in seconds.items()]
    print_table(["", "ms", f"/ {reference}"], rows)


def print_ratio(seconds: dict[str, float], above: str, below: str) -> None:
    """Print one ratio in a line of its own."""
    print(f"{above} / {below} = {seconds[above] / seconds[below]:.2f}")
