"""Peak memory of a fit beyond its data, in a process of its own: ``python -m benchmarks.peak_memory columns n d``."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from vbsvm import VBSVC

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ROOT = Path(__file__).parent.parent


def measure_in_new_process(what: str, n: int, d: int) -> int:
    """Bytes that fitting n rows of d columns, or in d groups, takes beyond the data at its peak."""
    command = [sys.executable, "-m", "benchmarks.peak_memory", what, str(n), str(d)]
    return int(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _of_groups(n: int, m: int) -> int:
    from benchmarks.groups import simulate
    from vbsvm import Model

    model = Model("y ~ x + z + (1 | g)", simulate(n, m), likelihood="hinge")
    before = peak_from_here()
    model.fit()
    return peak() - before


def _of_columns(n: int, d: int) -> int:
    rng = np.random.default_rng(1)
    X, y, u = np.empty((n, d)), np.empty(n, dtype=np.int64), rng.standard_normal(d)
    for begin in range(0, n, 10_000):
        rows = X[begin : begin + 10_000]
        rng.standard_normal(out=rows)
        y[begin : begin + 10_000] = np.where(rows @ u + rng.logistic(size=len(rows)) > 0, 1, -1)
    before = peak_from_here()
    VBSVC().fit(X, y)
    return peak() - before


def peak_from_here() -> int:
    """Set the high-water mark to the present size where the system allows that, and give it."""
    if CLEAR.exists():
        try:
            CLEAR.write_text("5")
        except OSError:
            print("The high-water mark can't be reset; it is taken as it stands.", file=sys.stderr)
    return peak()


def peak() -> int:
    """Largest resident size so far, in bytes."""
    if STATUS.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())):
        return 1024 * int(found[1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    measure = {"columns": _of_columns, "groups": _of_groups}[sys.argv[1]]
    print(measure(int(sys.argv[2]), int(sys.argv[3])))
