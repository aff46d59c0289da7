"""Speed and memory, as ratios within one run: absolute times say more about the machine."""

import argparse

import numpy as np

from benchmarks.methods import rivals_may_not_converge
from benchmarks.peak_memory import measure_in_new_process
from benchmarks.rivals import grid_search, linear_svc, linear_svc_hinge, logistic_regression_cv
from benchmarks.simulation import simulate
from benchmarks.timing import fastest, print_ratio, print_times
from vbsvm import VBSVC, Ridge
from vbsvm.base.update_mode import mean_field
from vbsvm.design.scaling import ColumnSummary
from vbsvm.model.interfaces import PointDistribution, Precision
from vbsvm.model.layouts import dense
from vbsvm.model.spec import Block, Spec, State
from vbsvm.model.sweep import pass_rows
from vbsvm.sources.memory import Memory

SEED = 1
OURS, PRIMAL, GRID = "VBSVC", "LinearSVC(dual=False)", "GridSearchCV(SVC)"
MEMORY_LIMIT, MEMORY_PER_ROW = 100_000_000, 16


def small_fit(rounds: int, n: int = 200, d: int = 10) -> None:
    """Fit a small table."""
    X, y, _, _ = simulate(n, d, SEED)
    # Tuned by plain accuracy, which is the quickest to score.
    calls = {
        OURS: lambda: VBSVC().fit(X, y),
        PRIMAL: lambda: linear_svc.make().fit(X, y),
        "LinearSVC(loss='hinge')": lambda: linear_svc_hinge.make().fit(X, y),
        "LogisticRegressionCV": lambda: logistic_regression_cv.make("accuracy").fit(X, y),
        GRID: lambda: grid_search.make_svc().fit(X, y),
    }
    with rivals_may_not_converge():
        seconds = fastest(calls, rounds)
    print_times(f"Fit, {n} x {d}", seconds, OURS)
    print_ratio(seconds, OURS, PRIMAL)
    print_ratio(seconds, GRID, OURS)


def large_fit(rounds: int, n: int = 100_000, d: int = 50) -> None:
    """Fit a large table."""
    X, y, _, _ = simulate(n, d, SEED)
    with rivals_may_not_converge():
        seconds = fastest({OURS: lambda: VBSVC().fit(X, y), PRIMAL: lambda: linear_svc.make().fit(X, y)}, rounds)
    print_times(f"Fit, {n} x {d}", seconds, OURS)
    print_ratio(seconds, OURS, PRIMAL)


def row_pass(rounds: int, n: int = 100_000, d: int = 100) -> None:
    """Pass over the rows once, against NumPy's way to form the two costly parts of it alone."""
    X, y, _, _ = simulate(n, d, SEED)
    spec, source, state = _pass_ready(X, y)
    distribution = state.coefficients
    assert isinstance(distribution, dense.DenseGaussian)
    S, w = distribution.covariance, np.random.default_rng(SEED).uniform(0.5, 2.0, n)
    seconds = fastest(
        {
            "pass": lambda: pass_rows(spec, state, source, mean_field),
            "pass with curvature": lambda: pass_rows(spec, state, source, mean_field, with_curvature=True),
            "naive, one einsum": lambda: (
                X.T @ (w[:, None] * X),
                np.einsum("ij,jk,ik->i", X, S, X, optimize=True),
            ),
            "naive, product and einsum": lambda: (X.T @ (w[:, None] * X), np.einsum("ij,ij->i", X @ S, X)),
        },
        rounds,
    )
    rival = min((name for name in seconds if name.startswith("naive")), key=lambda name: seconds[name])
    print_times(f"One pass over the rows, {n} x {d}", seconds, rival)
    print_ratio(seconds, "pass", rival)
    print_ratio(seconds, "pass with curvature", rival)


def _pass_ready(X: np.ndarray, y: np.ndarray) -> tuple[Spec, Memory, State]:
    """A model without an intercept, rows as a fit holds them, and the state that follows the first sweep."""
    weights = np.broadcast_to(1.0, len(X))
    recipe = ColumnSummary.from_rows(X, weights).recipe(intercept=False, standardize=True)
    source = Memory(X, y.astype(np.float64), weights, recipe)
    spec = Spec((Block("inputs", (slice(0, X.shape[1]),), Ridge()),))
    stats = pass_rows(spec, State(PointDistribution(np.zeros(X.shape[1])), ()), source, mean_field)
    return spec, source, State(stats.gram.conditional(stats.cross, Precision(np.ones(X.shape[1]))), ())


def peak_memory(rounds: int, n: int = 1_000_000, d: int = 50) -> None:
    """Measure what a fit needs beyond its data; once, as it hardly varies."""
    used, limit = measure_in_new_process("columns", n, d), MEMORY_LIMIT + MEMORY_PER_ROW * n
    print(f"\nPeak memory of a fit beyond X and y, {n} x {d}")
    print(f"{used / 1e6:.1f} MB, {'within' if used <= limit else 'BEYOND'} the limit of {limit / 1e6:.1f} MB")


# Each part with its rounds, full and quick.
PARTS = {
    "small": (small_fit, 15, 5),
    "large": (large_fit, 7, 2),
    "pass": (row_pass, 15, 5),
    "memory": (peak_memory, 1, 1),
}


def main(arguments: list[str]) -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    options = parser.parse_args(arguments)
    for name in options.parts:
        part, full, quick = PARTS[name]
        part(quick if options.quick else full)
