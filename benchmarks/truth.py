"""Whether what fits report is true: one table of findings, before a change and now, each with its target.

Run it with an older checkout on PYTHONPATH as ``python -m benchmarks.truth --label before``, and with this one as
``python -m benchmarks truth``. It can be stopped and goes on where it was; the table shows both labels.
"""

import argparse
import json
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import vbsvm
from benchmarks import (
    truth_components,
    truth_effects,
    truth_groups,
    truth_left_out,
    truth_priors,
    truth_selection,
)
from benchmarks.tables import print_table
from benchmarks.truth_table import Design, Line, Numbers, table_row

RESULTS = Path(__file__).parent / "results"
LABELS = BEFORE, NOW = "before", "now"
FIRST_SEED = 100_000  # smaller seeds are those of trials
PARTS = {
    "groups": truth_groups,
    "effects": truth_effects,
    "selection": truth_selection,
    "components": truth_components,
    "priors": truth_priors,
    "left_out": truth_left_out,
}
DESIGNS = {design.name: design for part in PARTS.values() for design in part.DESIGNS}
Found = Mapping[str, Mapping[int, Any]]


def run_one(name: str, seed: int) -> dict[str, Any]:
    """What a line of the journal holds: the numbers of one data set, or its error, and the CPU time."""
    begin = time.process_time()
    try:
        numbers = {key: float(value) for key, value in DESIGNS[name].one_set(seed).items()}
        result: dict[str, Any] = {"numbers": numbers}
    except Exception as error:
        result = {"error": "".join(traceback.format_exception_only(error)).strip(), "numbers": {}}
    return {"design": name, "seed": seed, "seconds": round(time.process_time() - begin, 4), **result}


def read(path: Path) -> dict[str, dict[int, Any]]:
    """Lines of a journal by design and seed; a run that was killed may have left half a line, which is ignored."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    if path.exists():
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            found[line["design"]][line["seed"]] = line
    return dict(found)


def left_to_do(designs: Iterable[Design], most: int | None, done: Found) -> list[tuple[str, int]]:
    """Data sets that are not in the journal, so ordered that all designs advance alike towards their full number."""
    jobs = []
    for design in designs:
        sets = design.sets if most is None else min(most, design.sets)
        known = done.get(design.name, {})
        jobs += [(k / design.sets, design.name, FIRST_SEED + k) for k in range(sets) if FIRST_SEED + k not in known]
    return [(name, seed) for _, name, seed in sorted(jobs, key=lambda job: job[0])]


def run(designs: Sequence[Design], path: Path, most: int | None, workers: int) -> None:
    """Run what is missing, and append to the journal as results come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    jobs = left_to_do(designs, most, read(path))
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a") as file:
            file.write("\n")
    print(
        f"{len(jobs)} data sets to do with {Path(vbsvm.__file__).parent}; kept in {path}", file=sys.stderr, flush=True
    )
    work = (delayed(run_one)(*job) for job in jobs)
    for result in Parallel(n_jobs=workers, return_as="generator_unordered")(work):
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def _numbers(found: Found, design: str) -> dict[int, Numbers]:
    return {seed: one["numbers"] for seed, one in found.get(design, {}).items() if "error" not in one}


def print_truth(lines: Iterable[Line], before: Found, now: Found) -> None:
    """Print one line for each finding."""
    rows = [table_row(line, _numbers(before, line.design), _numbers(now, line.design)) for line in lines]
    print("\nProportions with Wilson's 95 % interval; means ± standard error; near: the interval reaches the target")
    print_table(["", BEFORE, "sets", NOW, "sets", "target", "verdict"], rows)


def print_failures(found: Found, label: str) -> None:
    """Print how many data sets ended in an error, and the first of these."""
    for name, sets in found.items():
        failed = {seed: one["error"] for seed, one in sets.items() if "error" in one}
        if failed:
            seed = min(failed)
            print(f"{label}, {name}: {len(failed)} of {len(sets)} data sets failed; seed {seed}: {failed[seed]}")


def print_times(names: Iterable[str], found: Sequence[Found]) -> None:
    """Print the mean CPU time of a data set."""
    rows = []
    for name in names:
        seconds = [[one["seconds"] for one in of_label.get(name, {}).values()] for of_label in found]
        rows.append([name, *(f"{np.mean(one):.2f} ({len(one)})" if one else "" for one in seconds)])
    print("\nCPU seconds of a data set (number of data sets)")
    print_table(["", BEFORE, NOW], rows)


def main(arguments: list[str]) -> None:
    """Run what is missing of one label, and print the table of both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks truth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two data sets of each design")
    parser.add_argument("--label", choices=LABELS, default=NOW, help=f"whose results these are (default: {NOW})")
    parser.add_argument("--sets", type=int, metavar="N", help="at most N data sets of each design; 0: the table only")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"default: {','.join(PARTS)}")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--times", action="store_true", help="print the CPU time of a data set, too")
    options = parser.parse_args(arguments)
    names = options.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(PARTS)}")
    most = 2 if options.quick and options.sets is None else options.sets
    lines = [line for name in names for line in PARTS[name].LINES]
    designs = [DESIGNS[name] for name in dict.fromkeys(line.design for line in lines)]
    if most != 0:
        run(designs, RESULTS / f"truth-{options.label}.jsonl", most, options.jobs)
    before, now = (read(RESULTS / f"truth-{label}.jsonl") for label in LABELS)
    print_truth(lines, before, now)
    for label, found in zip(LABELS, (before, now), strict=True):
        print_failures(found, label)
    if options.times:
        print_times([design.name for design in designs], (before, now))


if __name__ == "__main__":
    main(sys.argv[1:])
