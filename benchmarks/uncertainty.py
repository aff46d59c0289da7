"""Can spreads and intervals be trusted? Beside long Gibbs runs, by coverage in simulations, and at which cost."""

import argparse

from benchmarks import uncertainty_costs, uncertainty_coverage, uncertainty_spreads

PARTS = ("spreads", "coverage", "costs")


def main(arguments: list[str]) -> None:
    """Run the parts that were asked for; what is there already is not run again."""
    designs = list(uncertainty_coverage.DESIGNS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks uncertainty", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small tables, five data sets a design, few rounds")
    parser.add_argument("--sets", type=int, metavar="N", help="data sets a design (default: 200)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    parser.add_argument("--designs", nargs="+", choices=designs, default=designs, help="of the coverage; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the coverage (default: 1)")
    options = parser.parse_args(arguments)
    if "costs" in options.parts:
        uncertainty_costs.run(3 if options.quick else 15)
    if "coverage" in options.parts:
        sets = options.sets or (5 if options.quick else 200)
        uncertainty_coverage.run(sets, options.jobs, options.designs)
    if "spreads" in options.parts:
        uncertainty_spreads.run(quick=options.quick)
