"""Run the benchmarks: ``python -m benchmarks [name] [--quick]``; without a name all of them."""

import argparse
import sys

from benchmarks import (
    bounds,
    climbs,
    distributed,
    files,
    groups,
    kernels,
    logistic,
    missing,
    nine_cells,
    passes,
    probabilities,
    sampling,
    selection,
    sparse,
    speed,
    streaming,
    threads,
    truth,
    uncertainty,
    untuned,
)

BENCHMARKS = {
    "speed": speed.main,
    "passes": passes.main,
    "untuned": untuned.main,
    "climbs": climbs.main,
    "kernels": kernels.main,
    "groups": groups.main,
    "selection": selection.main,
    "missing": missing.main,
    "probabilities": probabilities.main,
    "sampling": sampling.main,
    "nine_cells": nine_cells.main,
    "streaming": streaming.main,
    "threads": threads.main,
    "distributed": distributed.main,
    "bounds": bounds.main,
    "uncertainty": uncertainty.main,
    "truth": truth.main,
    "logistic": logistic.main,
    "sparse": sparse.main,
    "files": files.main,
}


# What is run in full where all are run, and how; the others are quick.
IN_FULL = {"speed": [], "passes": [], "untuned": ["--turns", "3"]}


def main(arguments: list[str]) -> None:
    """Run one benchmark with its own options, or all of them: those on speed in full, the others quick."""
    if arguments and arguments[0] in BENCHMARKS:
        BENCHMARKS[arguments[0]](arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog="A benchmark's own options: python -m benchmarks speed --help."
    )
    parser.add_argument(
        "benchmark", nargs="?", choices=list(BENCHMARKS), help="default: all, from climbs on with --quick"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and data sets")
    options = parser.parse_args(arguments)
    quick = ["--quick"] if options.quick else []
    if options.benchmark:
        BENCHMARKS[options.benchmark](quick)
        return
    for name, benchmark in BENCHMARKS.items():
        benchmark(quick or IN_FULL.get(name, ["--quick"]))


if __name__ == "__main__":
    main(sys.argv[1:])
