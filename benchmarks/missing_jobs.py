"""Jobs of the benchmarks of missing inputs: run in two processes (or VBSVM_JOBS), and resumed from what is there."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, parallel_config

RESULTS = Path(os.environ.get("VBSVM_RESULTS", Path(__file__).parent / "results"))
JOBS = int(os.environ.get("VBSVM_JOBS", "2"))


def run_jobs(jobs: Iterable[Any], path: Path) -> None:
    """Run jobs in processes of one thread each, and append the rows of each as they come."""
    path.parent.mkdir(exist_ok=True)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for rows in Parallel(n_jobs=JOBS, return_as="generator_unordered")(jobs):
            with path.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)


def known_results(path: Path, columns: Sequence[str], keys: Sequence[str]) -> set[tuple]:
    """Keys of the results that are there already."""
    if not path.exists():
        return set()
    return set(pd.read_csv(path, names=list(columns))[list(keys)].itertuples(index=False, name=None))
