"""Balanced error in the nine cells of the paper's simulation (Section 4.2): VBSVC against the tuned rivals."""

import argparse
import csv
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from joblib import Parallel, delayed
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.methods import OURS, rivals_may_not_converge
from benchmarks.rivals import TUNED
from benchmarks.simulation import CELLS, balanced_error, simulate
from benchmarks.tables import print_table

METHODS = {method.name: method for method in (OURS, *TUNED)}
RESULTS = Path(__file__).parent / "results" / "nine_cells.csv"
HEADER = ("n", "d", "data_set", "method", "ber", "seconds")
COMPARED = ("difference", "95 % interval", "verdict")

Cell = tuple[int, int]
# Errors of each method, aligned by data set.
Errors = dict[str, np.ndarray]


@final
@dataclass(frozen=True, order=True)
class Job:
    """A method and a data set; the data set's number is its seed. Data sets come first in the order of jobs."""

    data_set: int
    n: int
    d: int
    method: str


@final
@dataclass(frozen=True)
class Comparison:
    """Paired difference VBSVC − rival: its mean and 95 % interval."""

    rival: str
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether VBSVC was shown to be worse."""
        return "not worse" if self.low <= 0 else "WORSE"


def run_job(job: Job) -> tuple[Job, float, float]:
    """Fit on the training rows; give the error on the test rows, and the seconds that fitting took."""
    X, y, X_test, y_test = simulate(job.n, job.d, job.data_set)
    with rivals_may_not_converge():
        begin = time.perf_counter()
        model = METHODS[job.method].make().fit(X, y)
        seconds = time.perf_counter() - begin
    return job, balanced_error(y_test, model.predict(X_test)), seconds


def run(jobs: Sequence[Job], path: Path, workers: int) -> None:
    """Run the jobs and append each result as it comes."""
    columns = (
        TextColumn("balanced error"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    # Costs differ a hundredfold between jobs, so only the speed of a long while tells the time left.
    with path.open("a", newline="") as file, Progress(*columns, speed_estimate_period=3600) as progress:
        writer = csv.writer(file, lineterminator="\n")
        task = progress.add_task("", total=len(jobs))
        for job, error, seconds in parallel(delayed(run_job)(job) for job in jobs):
            writer.writerow([job.n, job.d, job.data_set, job.method, f"{error:.6f}", f"{seconds:.4f}"])
            file.flush()
            progress.advance(task)


def open_results(path: Path, redo: Sequence[str]) -> dict[Job, float]:
    """Read the errors that are there already, without the methods to be done again; leave a file to append to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    # A run that was killed may have left half a line.
    lines = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    kept = [line for line in lines if line["method"] not in redo]
    clean = path.with_suffix(".tmp")
    with clean.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    clean.replace(path)
    return {
        Job(int(line["data_set"]), int(line["n"]), int(line["d"]), line["method"]): float(line["ber"]) for line in kept
    }


def complete(errors: dict[Job, float], cell: Cell, data_sets: int) -> Errors:
    """Errors of the methods in one cell, over the data sets that all of them have seen."""
    seen = [i for i in range(1, data_sets + 1) if all(Job(i, *cell, name) in errors for name in METHODS)]
    return {name: np.array([errors[Job(i, *cell, name)] for i in seen]) for name in METHODS}


def compare(errors: Errors, rival: str) -> Comparison:
    """Compare VBSVC with a rival on the same data sets."""
    difference = errors[OURS.name] - errors[rival]
    mean, count = float(difference.mean()), len(difference)
    half_width = 1.96 * float(difference.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return Comparison(rival, mean, mean - half_width, mean + half_width)


def best_rival(errors: Errors) -> str:
    """Give the tuned rival with the smallest mean error: chosen in hindsight, which favours it."""
    return min((method.name for method in TUNED), key=lambda name: errors[name].mean())


def print_cells(by_cell: dict[Cell, Errors]) -> None:
    """Print the mean errors in each cell, and VBSVC against the best tuned rival there."""
    rows = []
    for (n, d), errors in by_cell.items():
        means = [f"{100 * errors[name].mean():.2f}" for name in METHODS]
        best = compare(errors, best_rival(errors))
        rows.append([f"{n} x {d}", str(len(errors[OURS.name])), *means, best.rival, *_cells_of(best)])
    print("\nMean balanced error in %, and the paired difference VBSVC - best tuned rival of the cell")
    print_table(["", "data sets", *METHODS, "best rival", *COMPARED], rows)


def print_pooled(by_cell: dict[Cell, Errors]) -> None:
    """Print VBSVC against each tuned rival over the data sets of all cells."""
    pooled = {name: np.concatenate([errors[name] for errors in by_cell.values()]) for name in METHODS}
    rows = [
        [method.name, f"{100 * pooled[method.name].mean():.2f}", *_cells_of(compare(pooled, method.name))]
        for method in TUNED
    ]
    ours = pooled[OURS.name]
    print(f"\nAll cells together, {len(ours)} data sets; {OURS.name}: {100 * ours.mean():.2f}")
    print_table(["", "error", *COMPARED], rows)


def _cells_of(comparison: Comparison) -> list[str]:
    low, high = 100 * comparison.low, 100 * comparison.high
    return [f"{100 * comparison.mean:+.2f}", f"({low:+.2f}, {high:+.2f})", comparison.verdict]


def main(arguments: list[str]) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks nine_cells", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 data sets a cell")
    parser.add_argument("--datasets", type=int, metavar="N", help="data sets a cell (default: 200)")
    parser.add_argument("--cells", type=_parse_cells, default=CELLS, metavar="100x10,...", help="default: all nine")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: one for each core)")
    parser.add_argument("--redo", nargs="+", choices=list(METHODS), default=[], help="forget the results of a method")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept, and read on a restart")
    options = parser.parse_args(arguments)
    data_sets = options.datasets or (20 if options.quick else 200)

    done = open_results(options.results, options.redo)
    wanted = (Job(i, n, d, name) for i in range(1, data_sets + 1) for n, d in options.cells for name in METHODS)
    jobs = sorted(job for job in wanted if job not in done)
    print(f"\n{len(jobs)} fits to do; results are kept in {options.results}")
    if jobs:
        try:
            run(jobs, options.results, options.jobs)
        except KeyboardInterrupt:
            raise SystemExit("Stopped. The same command goes on from here.") from None
        done = open_results(options.results, [])
    by_cell = {cell: complete(done, cell, data_sets) for cell in options.cells}
    print_cells(by_cell)
    print_pooled(by_cell)


def _parse_cells(text: str) -> tuple[Cell, ...]:
    cells = []
    for cell in text.split(","):
        n, d = cell.split("x")
        cells.append((int(n), int(d)))
    return tuple(cells)
