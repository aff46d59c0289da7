"""Passes over the data: the paper's sweep against the accelerated climb.

Plain sweeps go on until the bound rises by less than 10⁻¹⁰. The accelerated climb is counted twice: until its bound is
no more than 10⁻⁹ below the one where plain sweeps ended, and until it stops by the same rule. Refused steps count.
"""

import argparse
import warnings
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.simulation import CELLS, simulate
from benchmarks.tables import print_table
from vbsvm import VBSVC, Variational

TOL = 1e-10
SLACK = 1e-9
LARGE = 100_000, 50
PLAIN = Variational(accelerate=False, tol=TOL, max_iter=100_000)
ACCELERATED = Variational(tol=TOL, max_iter=100_000)


@final
@dataclass(frozen=True)
class Count:
    """Passes of plain sweeps, of the climb until it was as high and until it stopped, and how far it ended above."""

    plain: int
    as_high: int
    stopped: int
    gap: float

    def __add__(self, other: Self) -> "Count":
        """Add the passes of two data sets; keep the smaller gap."""
        passes = self.plain + other.plain, self.as_high + other.as_high, self.stopped + other.stopped
        return Count(*passes, min(self.gap, other.gap))

    def row(self, name: str) -> list[str]:
        """Give the cells of a table."""
        ratios = [f"{self.plain / self.as_high:.1f}", f"{self.plain / self.stopped:.1f}"]
        counts = [str(self.plain), str(self.as_high), str(self.stopped)]
        return [name, *counts, *ratios, f"{self.gap:.1e}", "" if self.gap >= -SLACK else "LOWER"]


def count(n: int, d: int, seed: int) -> Count:
    """Count the passes over one data set."""
    X, y, _, _ = simulate(n, d, seed)
    plain, climb = (VBSVC(inference=inference).fit(X, y) for inference in (PLAIN, ACCELERATED))
    as_high = _passes_to(plain.elbo_ - SLACK, X, y, climb.n_iter_)
    return Count(plain.n_iter_, as_high, climb.n_iter_, climb.elbo_ - plain.elbo_)


def _passes_to(target: float, X: np.ndarray, y: np.ndarray, most: int) -> int:
    """Passes until the accelerated climb's bound is at the target, or ``most``: a climb cut short is its beginning."""

    def is_there(passes: int) -> bool:
        return VBSVC(inference=replace(ACCELERATED, max_iter=passes)).fit(X, y).elbo_ >= target

    shortest = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return shortest + bisect_left(range(shortest, most), True, key=is_there)


def small_tables(seeds: int, cells: tuple[tuple[int, int], ...] = CELLS) -> None:
    """Compare the climbs in each cell, summed over its data sets, and over all cells together."""
    counts = {}
    for n, d in cells:
        first, *others = (count(n, d, seed) for seed in range(1, seeds + 1))
        counts[f"{n} x {d}"] = sum(others, start=first)
    first, *others = counts.values()
    counts["all"] = sum(others, start=first)
    print(f"\nPasses over the data, plain sweeps until the bound rises by less than {TOL:g}; data sets a cell: {seeds}")
    headers = ["", "plain", "as high", "stopped", "plain / as high", "plain / stopped", "smallest gap", ""]
    print_table(headers, [each.row(name) for name, each in counts.items()])


def large_table(n: int, d: int) -> None:
    """Count the passes of the accelerated climb over a large table."""
    X, y, _, _ = simulate(n, d, 1)
    print(f"\nPasses of the accelerated climb, {n} x {d}")
    for inference in (ACCELERATED, Variational()):
        print(f"tol={inference.tol:g}: {VBSVC(inference=inference).fit(X, y).n_iter_}")


def main(arguments: list[str]) -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks passes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="data sets a cell (default: 1)")
    parser.add_argument("--quick", action="store_true", help="one data set a cell, and not the large table")
    options = parser.parse_args(arguments)
    small_tables(1 if options.quick else options.seeds)
    if not options.quick:
        large_table(*LARGE)
