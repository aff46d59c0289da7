"""Thousands of fits and predictions in one process, and what of its memory and its open files is left in use."""

import gc
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from vbsvm import VBSVC, Files, Model, VBLogistic

rng = np.random.default_rng(1)
X = rng.normal(size=(120, 4))
y = np.where(X[:, 0] + rng.logistic(size=120) > 0, 1, 0)
frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, g=rng.integers(0, 10, 120))


def _files():
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder) / "rows.csv", index=False)
        return VBSVC().fit_files(Files(Path(folder) / "rows.csv", cache=Path(folder) / "cache"), "y")


def _predictions(fit, rows):
    return lambda: fit.predict_proba(rows)


# What is done again and again, and how many times of the number that is asked for.
CALLS = {
    "VBSVC, fit": (lambda: VBSVC().fit(X, y), 1.0),
    "VBSVC, fit and summary": (lambda: VBSVC().fit(X, y).fit_[0].summary(), 1.0),
    "VBLogistic with group, fit": (lambda: VBLogistic(group="g").fit(frame[["a", "b", "g"]], y), 1.0),
    "Model, fit": (lambda: Model("y ~ a + s(b) + (1 | g)", frame).fit(), 1.0),
    "VBSVC, predict": (_predictions(VBSVC().fit(X, y), X), 1.0),
    "Model, predict": (_predictions(Model("y ~ a + s(b) + (1 | g)", frame).fit(), frame), 1.0),
    "fit_files": (_files, 0.1),
}


def open_files():
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident():
    """Memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(name, times):
    """By how many bytes a call, and by how many open files, this process grew in the second half of so many calls."""
    call, share = CALLS[name]
    half, found = max(5, int(times * share / 2)), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            for _ in range(half):
                call()
            found.append((resident(), open_files()))
    (memory, files), (memory_after, files_after) = found
    return 2 * half, (memory_after - memory) / half, files_after - files


def main():
    """Print a table."""
    for name in sys.argv[2:] or CALLS:
        times, per_call, files = growth(name, int(sys.argv[1]))
        sys.stdout.write(f"| {name} | {times} | {per_call:.0f} | {files} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
