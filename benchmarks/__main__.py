"""Run the benchmarks: ``python -m benchmarks [name] [--quick]``; without a name all of them."""

import argparse
import sys

from benchmarks import (
    bounds,
    climbs,
    files,
    groups,
    missing,
    nine_cells,
    passes,
    probabilities,
    sampling,
    selection,
    speed,
    threads,
    uncertainty,
    untuned,
)

BENCHMARKS = {
    "speed": speed.main,
    "passes": passes.main,
    "untuned": untuned.main,
    "climbs": climbs.main,
    "groups": groups.main,
    "selection": selection.main,
    "missing": missing.main,
    "probabilities": probabilities.main,
    "sampling": sampling.main,
    "nine_cells": nine_cells.main,
    "threads": threads.main,
    "bounds": bounds.main,
    "uncertainty": uncertainty.main,
    "files": files.main,
}


def main(arguments: list[str]) -> None:
    """Run one benchmark with its own options, or all of them: speed and passes in full, the others quick."""
    if arguments and arguments[0] in BENCHMARKS:
        BENCHMARKS[arguments[0]](arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog="A benchmark's own options: python -m benchmarks speed --help."
    )
    parser.add_argument(
        "benchmark", nargs="?", choices=list(BENCHMARKS), help="default: all, from untuned on with --quick"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and data sets")
    options = parser.parse_args(arguments)
    quick = ["--quick"] if options.quick else []
    if options.benchmark:
        BENCHMARKS[options.benchmark](quick)
        return
    speed.main(quick)
    passes.main(quick)
    untuned.main(["--quick"])
    climbs.main(["--quick"])
    groups.main(["--quick"])
    selection.main(["--quick"])
    missing.main(["--quick"])
    probabilities.main(["--quick"])
    sampling.main(["--quick"])
    nine_cells.main(["--quick"])
    threads.main(["--quick"])
    bounds.main(["--quick"])
    uncertainty.main(["--quick"])
    files.main(["--quick"])


if __name__ == "__main__":
    main(sys.argv[1:])
