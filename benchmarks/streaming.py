"""How far learning from batches ends from a fit to all rows, with past rows' own curvature and with their majorant."""

import argparse
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.tables import print_table
from vbsvm import VBSVC
from vbsvm.sources.past_rows import PastRows

CASES = [(10_000, 10, 500), (10_000, 10, 2000), (5000, 50, 500), (2000, 10, 100), (2000, 10, 50)]


def simulated(n: int, d: int) -> tuple[Any, Any]:
    """Columns of different size and centre; the score has a standard deviation of 1.5."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d)) + 3 * rng.normal(size=d)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.where(Z @ rng.normal(size=d) * (1.5 / np.sqrt(d)) + rng.logistic(size=n) > 0, 1, 0)


def in_batches(X: Any, y: Any, size: int) -> VBSVC:
    """Learn batch by batch."""
    clf = VBSVC()
    for begin in range(0, len(X), size):
        clf.partial_fit(X[begin : begin + size], y[begin : begin + size])
    return clf


def stiff(past: PastRows, mean: Any) -> PastRows:
    """Past rows whose weights are held: the gram is their curvature."""
    return replace(past, curvature=past.gram, linear=past.linear + (past.gram - past.curvature) @ mean)


def main(arguments: list[str]) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks streaming", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smaller tables only")
    cases = CASES[3:] if parser.parse_args(arguments).quick else CASES
    made, lines = PastRows.from_state, []
    for n, d, size in cases:
        X, y = simulated(n, d)
        full, clf = VBSVC().fit(X, y), in_batches(X, y, size)
        with patch.object(PastRows, "of", lambda *given: stiff(made(*given), given[1].coefficients.mean)):
            held = in_batches(X, y, size)
        scale = X.std(axis=0)
        unit = np.linalg.norm(full.coef_ * scale)
        off = [f"{np.linalg.norm((one.coef_ - full.coef_) * scale) / unit:.3f}" for one in (held, clf)]
        same = np.mean(clf.predict(X) == full.predict(X))
        lines.append([f"{n}x{d}, {size}", *off, f"{100 * same:.1f} %"])
    print("\nBatches: distance of the coefficients from a fit to all rows, relative to their length")
    print_table(["", "weights held", "curvature", "same predictions"], lines)
