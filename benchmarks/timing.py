"""Timings that can be compared on a noisy machine: interleaved, and the minimum of each."""

import math
import time
import timeit
from collections.abc import Callable
from typing import Any

from benchmarks.tables import print_table

# Calls that are shorter than this (in seconds) are timed several at once.
SHORTEST = 0.04
# BLAS keeps its threads spinning for a while after a large call: whoever comes next would pay for it.
PAUSE = 0.2


def fastest(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of one call of each: the minimum over rounds, in each of which every call has its turn.

    Garbage collection is off while a call is timed (``timeit`` sees to that). Each call is warmed up first.
    """
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    repeats = {name: math.ceil(SHORTEST / min(timer.repeat(2, number=1))) for name, timer in timers.items()}
    seconds = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, timer in timers.items():
            if repeats[name] == 1:
                time.sleep(PAUSE)
            seconds[name] = min(seconds[name], timer.timeit(repeats[name]) / repeats[name])
    return seconds


def print_times(title: str, seconds: dict[str, float], reference: str) -> None:
    """Print the times, and their ratios to the reference."""
    print(f"\n{title}")
    rows = [[name, f"{1e3 * each:.2f}", f"{each / seconds[reference]:.2f}"] for name, each in seconds.items()]
    print_table(["", "ms", f"/ {reference}"], rows)


def print_ratio(seconds: dict[str, float], above: str, below: str) -> None:
    """Print one ratio in a line of its own."""
    print(f"{above} / {below} = {seconds[above] / seconds[below]:.2f}")
