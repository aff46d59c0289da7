"""Sparse tables: time beside the same table written out, and text-like tables beside LogisticRegressionCV."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import balanced_accuracy_score

from benchmarks.methods import rivals_may_not_converge
from benchmarks.rivals import logistic_regression_cv_sparse
from benchmarks.tables import print_table
from vbsvm import VBSVC
from vbsvm.api import validation

# Rows, columns and share of entries that are stored.
TABLES = ((20_000, 1000, 0.016), (20_000, 2000, 0.01))
TEXTS = ((10_000, 30_000, 0.003), (100_000, 100_000, 0.0005))
BOTH_WAYS = (3000, 2500, 0.01)


def simulate_table(n: int, p: int, density: float) -> tuple[Any, np.ndarray]:
    """Normal entries at random places, and labels by a linear score with noise."""
    rng = np.random.default_rng([n, p])
    X = sp.random_array((n, p), density=density, format="csr", rng=rng, data_sampler=rng.standard_normal)
    return X, (X @ rng.normal(size=p) + 2.0 * rng.normal(size=n) > 0).astype(int)


def simulate_text(n: int, p: int, density: float) -> tuple[Any, np.ndarray]:
    """Rows of words with frequencies 1/rank^.9, as tf-idf of length 1; a third of the words have a coefficient."""
    rng = np.random.default_rng([n, p])
    chances = 1.0 / np.arange(1, p + 1) ** 0.9
    counts = rng.poisson(density * p, n)
    words = rng.choice(p, counts.sum(), p=chances / chances.sum())
    X = sp.csr_array((np.ones(len(words)), (np.repeat(np.arange(n), counts), words)), shape=(n, p))
    X.data = 1.0 + np.log(X.data)
    X.data *= (np.log((1 + n) / (1 + np.bincount(X.indices, minlength=p))) + 1.0)[X.indices]
    lengths = np.sqrt(np.bincount(np.repeat(np.arange(n), np.diff(X.indptr)), np.square(X.data), minlength=n))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    scores = X @ np.where(rng.random(p) < 0.3, rng.normal(size=p), 0.0)
    scores = (scores - scores.mean()) / scores.std()
    return X, (scores + 0.6 * rng.normal(size=n) > 0).astype(int)


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """The fit, and seconds of CPU time."""
    begin = time.process_time()
    found = fit()
    return found, time.process_time() - begin


def beside_dense(n: int, p: int, density: float) -> list[str]:
    """One table in both forms."""
    X, y = simulate_table(n, p, density)
    sparse, fast = timed(lambda: VBSVC().fit(X, y))
    dense, slow = timed(lambda: VBSVC().fit(X.toarray(), y))
    apart = float(np.abs(sparse.coef_ - dense.coef_).max())
    return [f"{n} x {p}, {density:.2%}", f"{fast:.2f}", f"{slow:.1f}", f"{slow / fast:.1f}", f"{apart:.0e}"]


def beside_exact(n: int, p: int, density: float) -> list[str]:
    """One text-like table with the exact covariance, and with the covariance by draws."""
    X, y = simulate_text(n, p, density)
    exact, slow = timed(lambda: VBSVC(standardize=False).fit(X, y))
    before, validation.MAX_EXACT = validation.MAX_EXACT, 1
    try:
        drawn, fast = timed(lambda: VBSVC(standardize=False).fit(X, y))
    finally:
        validation.MAX_EXACT = before
    scales = float(np.sqrt(exact.penalty_[0] / drawn.penalty_[0]))
    apart = float(np.linalg.norm(drawn.coef_ - exact.coef_) / np.linalg.norm(exact.coef_))
    return [f"{n} x {p}, {density:.2%}", f"{fast:.2f}", f"{slow:.1f}", f"{scales:.3f}", f"{apart:.3f}"]


def beside_logistic(n: int, p: int, density: float) -> list[list[str]]:
    """Time and balanced error on new rows, half as many as were learned from."""
    X, y = simulate_text(n + n // 2, p, density)
    found = []
    makers = {"VBSVC": VBSVC} | {one.name: one.make for one in logistic_regression_cv_sparse.METHODS}
    for name, make in makers.items():
        with rivals_may_not_converge():
            clf, seconds = timed(lambda make=make: make().fit(X[:n], y[:n]))
        error = 1.0 - balanced_accuracy_score(y[n:], clf.predict(X[n:]))
        found.append([f"{n} x {p}, {density:.2%}", name, f"{seconds:.1f}", f"{error:.3f}"])
    return found


def main(arguments: list[str]) -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sparse", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tables of a tenth of the rows, and no large text")
    quick = parser.parse_args(arguments).quick
    tables = [(n // 10, p // 4, d) for n, p, d in TABLES] if quick else TABLES
    print("\nA sparse table and the same written out: seconds of CPU time, and how far coefficients are apart")
    print_table(["table", "sparse", "dense", "ratio", "apart"], [beside_dense(*one) for one in tables])
    print("\nCovariance by draws and exact: seconds of CPU time, ratio of scales, relative distance of coefficients")
    both = (BOTH_WAYS[0] // 4, BOTH_WAYS[1] // 4, BOTH_WAYS[2]) if quick else BOTH_WAYS
    print_table(["table", "draws", "exact", "scale", "apart"], [beside_exact(*both)])
    print("\nText-like tables: seconds of CPU time, and balanced error on new rows")
    texts = [(n // 2, p // 4, d) for n, p, d in TEXTS[:1]] if quick else TEXTS
    print_table(["table", "", "seconds", "error"], [line for one in texts for line in beside_logistic(*one)])
