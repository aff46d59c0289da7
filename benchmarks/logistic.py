"""Logistic models: the posterior beside samplers and mixed-model software, coverage, log loss, noise, and speed."""

import argparse

from benchmarks import (
    logistic_coverage,
    logistic_posterior,
    logistic_predictions,
    logistic_sampler,
    logistic_speed,
)

PARTS = ("speed", "posterior", "nuts", "coverage", "logloss", "missing")


def main(arguments: list[str]) -> None:
    """Run the parts that were asked for; Gibbs runs and data sets that are there already are not run again."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks logistic", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, draws and data sets")
    parser.add_argument("--sets", type=int, metavar="N", help="data sets of the coverage (default: 300)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the coverage (default: 1)")
    options = parser.parse_args(arguments)
    if "speed" in options.parts:
        logistic_speed.run(quick=options.quick)
    if "posterior" in options.parts:
        logistic_posterior.run(quick=options.quick)
    if "nuts" in options.parts:
        logistic_sampler.run(quick=options.quick)
    if "coverage" in options.parts:
        logistic_coverage.run(options.sets or (5 if options.quick else 300), options.jobs)
    if "logloss" in options.parts:
        logistic_predictions.log_loss(quick=options.quick)
    if "missing" in options.parts:
        logistic_predictions.noise_columns(quick=options.quick)
