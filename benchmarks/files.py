"""Files larger than memory: time and memory of a fit, passes against those in memory, and rivals on the same files.

A rival that is not installed (pip install dask-ml pyspark; Spark needs Java) is left out, and its line says so.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import print_table

N_COLUMNS = 50
N_FILES = 8
GROUP = 125_000
TEST_ROWS = 100_000


def main(arguments: list[str]) -> None:
    """Measure at a number of rows and at twice as many; each fit in a process of its own, so that its peak is known."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks files")
    parser.add_argument("--rows", type=float, default=1e6, help="rows of the smaller table (default 1e6)")
    parser.add_argument("--limit", default="1GB", help="memory that rows may take (default 1GB)")
    parser.add_argument("--folder", type=Path, help="where to write the files (default: a temporary folder)")
    parser.add_argument("--once", action="store_true", help="only the smaller table, from files alone")
    parser.add_argument("--only", choices=tuple(HOW), action="append", help="this way, and not all of them")
    parser.add_argument("--quick", action="store_true", help="100 000 rows")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        how, folder = options.run
        print(json.dumps(HOW[how](Path(folder), options.limit)))
        return
    n_rows = int(1e5 if options.quick else options.rows)
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        sizes = [n_rows] if options.once else [n_rows, 2 * n_rows]
        rows = []
        for size in sizes:
            folder = Path(place) / str(size)
            _write(folder, size)
            ways = options.only or (["files"] if options.once or size != n_rows else list(HOW))
            for how in ways:
                found = _measured(how, folder, options.limit)
                rows.append([f"{size}", how, *(found.get(name, "") for name in COLUMNS)])
        print_table(["rows", "from", *COLUMNS], [[_shown(cell) for cell in row] for row in rows])


COLUMNS = [
    "seconds",
    "CPU seconds",
    "of it encoding",
    "passes",
    "seconds a pass",
    "seconds of probabilities",
    "peak MB",
    "error",
]


def _shown(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _write(folder: Path, n_rows: int) -> None:
    """Files of normal inputs and a logistic outcome, and a file of rows to test on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    slopes = 2 * rng.normal(size=N_COLUMNS) / np.sqrt(N_COLUMNS)
    names = [f"x{k}" for k in range(N_COLUMNS)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.string())])
    sizes = [n_rows // N_FILES] * N_FILES
    for path, size in [
        *((folder / f"{k}.parquet", size) for k, size in enumerate(sizes)),
        (folder / "test", TEST_ROWS),
    ]:
        with pq.ParquetWriter(path, schema) as file:
            for begin in range(0, size, GROUP):
                X = rng.normal(size=(min(GROUP, size - begin), N_COLUMNS))
                y = np.where(X @ slopes + rng.logistic(size=len(X)) > 0, "yes", "no")
                file.write_table(pa.table({**{name: X[:, k] for k, name in enumerate(names)}, "y": y}))


def _measured(how: str, folder: Path, limit: str) -> dict[str, Any]:
    """Run one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "files", "--run", how, str(folder), "--limit", limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    if done.returncode:
        if how in RIVALS and "ModuleNotFoundError" in done.stderr:
            return {"seconds": "not installed"}
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def _error(predict, folder: Path) -> float:
    import pandas as pd

    test = pd.read_parquet(folder / "test")
    wrong = predict(test.drop(columns="y")) != test["y"].to_numpy()
    return float(np.mean([wrong[test["y"] == label].mean() for label in ("no", "yes")]))


def _a_pass(clf) -> float:
    """Seconds of a pass that forms the gram and scores, the best of three."""
    fit = clf.fit_[0]
    source, coefficients = fit._rows.source, fit.outcome.state.coefficients.effective(None)
    from vbsvm.base.update_mode import mean_field
    from vbsvm.model.row_pass import RowPass

    times = []
    for _ in range(3):
        begin = time.perf_counter()
        source.sum_stats(RowPass(fit.outcome.likelihood, coefficients, mean_field))
        times.append(time.perf_counter() - begin)
    return min(times)


def _files(folder: Path, limit: str) -> dict[str, float]:
    from vbsvm import VBSVC, Files

    with tempfile.TemporaryDirectory(dir=folder) as cache:
        files = Files(str(folder / "*.parquet"), cache=cache, memory_limit=limit)
        begin, worked = time.perf_counter(), time.process_time()
        clf = VBSVC().fit_files(files, "y")
        whole, worked = time.perf_counter() - begin, time.process_time() - worked
        begin = time.perf_counter()
        VBSVC().fit_files(files, "y")
        climbing = time.perf_counter() - begin
        begin = time.perf_counter()
        assert clf.fit_[0]._link is not None
        chances, peak = time.perf_counter() - begin, _peak()
        return {
            "seconds": whole,
            "CPU seconds": worked,
            "of it encoding": whole - climbing,
            "passes": clf.n_iter_,
            "seconds a pass": _a_pass(clf),
            "seconds of probabilities": chances,
            "peak MB": peak,
            "error": _error(clf.predict, folder),
        }


def _memory(folder: Path, limit: str) -> dict[str, float]:
    import pandas as pd

    from vbsvm import VBSVC

    frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)
    X, y = np.ascontiguousarray(frame.drop(columns="y").to_numpy()), frame.pop("y").to_numpy()
    names = list(frame.columns)
    del frame
    begin, worked = time.perf_counter(), time.process_time()
    clf = VBSVC().fit(X, y)
    whole, worked = time.perf_counter() - begin, time.process_time() - worked
    begin = time.perf_counter()
    assert clf.fit_[0]._link is not None
    return {
        "seconds": whole,
        "CPU seconds": worked,
        "passes": clf.n_iter_,
        "seconds of probabilities": time.perf_counter() - begin,
        "seconds a pass": _a_pass(clf),
        "peak MB": _peak(),
        "error": _error(lambda test: clf.predict(test[names].to_numpy()), folder),
    }


def _rival(module: str, folder: Path, limit: str) -> dict[str, float]:
    """Round by round until the error is as low as it becomes; reading counts, and so does starting a cluster."""
    rounds = import_module(f"benchmarks.rivals.{module}").rounds(folder)
    found, total = [], 0.0
    while True:
        begin = time.perf_counter()
        predict = next(rounds, None)
        total += time.perf_counter() - begin
        if predict is None:
            break
        found.append((total, _error(predict, folder)))
    best = min(error for _, error in found)
    first = next(k for k, (_, error) in enumerate(found) if error <= best + 5e-4)
    return {"seconds": found[first][0], "passes": first + 1, "peak MB": _peak(), "error": found[first][1]}


RIVALS = {"SGD": "sgd_files", "dask-ml": "dask_ml_logistic", "Spark": "spark_linear_svc"}
HOW = {"files": _files, "memory": _memory} | {name: partial(_rival, module) for name, module in RIVALS.items()}
