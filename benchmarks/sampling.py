"""Gibbs beside variational Bayes by balanced error; beside NumPyro's NUTS by effective draws a second; checkpoints."""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks import groups, missing_data, simulation
from benchmarks.rivals import numpyro_nuts
from benchmarks.simulation import balanced_error
from benchmarks.tables import print_table
from vbsvm import VBSVC, Gibbs, Model, Normal, Ridge, Variational
from vbsvm.base import diagnostics
from vbsvm.base.arrays import single_threaded_blas
from vbsvm.base.update_mode import Draw, OverRelaxed, mean_field
from vbsvm.design.scaling import Recipe
from vbsvm.inference import chains
from vbsvm.inference.gibbs import stretch
from vbsvm.model.spec import Block, Spec
from vbsvm.model.sweep import pass_rows, sweep, update
from vbsvm.sources.memory import Memory

CELLS = ((200, 10), (500, 50))
SWEEPS = 1000


def simulate(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes: no hyperplane separates them."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) / np.sqrt(d) + 1.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def model(X: np.ndarray, y: np.ndarray) -> tuple[Spec, Memory]:
    """Algorithm 2 with Example 1."""
    n, d = X.shape
    blocks = (Block("intercept", (slice(0, 1),), Normal(1e8)), Block("inputs", (slice(1, d + 1),), Ridge()))
    return Spec(blocks), Memory(X, y, np.ones(n), Recipe(np.zeros(d), np.ones(d), True))


def smallest(draws: np.ndarray) -> float:
    """Smallest effective number of draws over the coefficients."""
    return min(diagnostics.ess_bulk(draws[:, :, j]) for j in range(draws.shape[2]))


def rates(n: int, d: int, draws: int) -> list[float]:
    """Effective draws a second of ours and of NUTS, one process and one thread each; tuning is left out."""
    X, y = simulate(n, d)
    spec, source = model(X, y)
    chains.WORTH_A_PROCESS = np.inf
    begin = time.perf_counter()
    sample = Gibbs(draws=draws, tune=500, chains=2).run(spec, source, 0)
    ours = smallest(sample.coefficients) / ((time.perf_counter() - begin) * draws / (draws + 500))
    theta, seconds = numpyro_nuts.sample(X, y, draws // 4, 500, 2, 0)
    return [ours, smallest(theta) / seconds, float(np.abs(theta.mean((0, 1)) - sample.coefficients.mean((0, 1))).max())]


def sweep_cost(n: int, d: int, rounds: int) -> float:
    """Seconds of a sweep with its move / seconds of a variational pass with its update, interleaved minima.

    BLAS is held to one thread for all of them together, as in a run.
    """
    spec, source = model(*simulate(n, d))
    distribution = spec.start()
    distribution = update(spec, distribution, pass_rows(spec, distribution, source, mean_field), mean_field)
    point, best = spec.start(), [np.inf, np.inf]
    with single_threaded_blas():
        for k in range(rounds):
            begin = time.perf_counter()
            mode = OverRelaxed(Draw(0, 0, k), point.coefficients.mean)
            point, _ = sweep(spec, point, source, mode)
            point, _ = stretch(spec, point, source, 0.2, mode)
            middle = time.perf_counter()
            stats = pass_rows(spec, distribution, source, mean_field, with_curvature=True)
            distribution = update(spec, distribution, stats, mean_field)
            best = [min(best[0], middle - begin), min(best[1], time.perf_counter() - middle)]
    return best[0] / best[1]


def orders(n_sets: int) -> None:
    """Balanced error of both inferences on the paper's simulation, on toenail and on cardiac splits, paired."""
    work = [("simulation 200 × 10", _simulated), ("simulation 500 × 50", _wide), ("toenail, rows", _toenail)]
    if missing_data.cardiac() is not None:
        work.append(("cardiac", _cardiac))
    lines = []
    for name, run in work:
        errors = np.array(Parallel(n_jobs=2)(delayed(run)(seed) for seed in range(n_sets)))
        apart = errors[:, 0] - errors[:, 1]
        told = f"{apart.mean():+.4f} ± {apart.std(ddof=1) / np.sqrt(n_sets):.4f}"
        lines.append([name, f"{errors[:, 0].mean():.4f}", f"{errors[:, 1].mean():.4f}", told])
    print(f"\nBalanced error, {n_sets} data sets or splits each; {SWEEPS} + {SWEEPS} sweeps of one chain")
    print_table(["", "variational", "Gibbs", "difference ± s.e."], lines)


def _both(fit: Callable[[Variational | Gibbs], Any], test: Any, labels: np.ndarray) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one chain may be short of effective draws, and data may be separable
        found = [fit(how).predict(test) for how in (Variational(), Gibbs(SWEEPS, SWEEPS, chains=1))]
    return balanced_error(labels, found[0]), balanced_error(labels, found[1])


def _simulated(seed: int, n: int = 200, d: int = 10) -> tuple[float, float]:
    X, y, X_test, y_test = simulation.simulate(n, d, seed)
    return _both(lambda how: VBSVC(inference=how, random_state=seed).fit(X, y), X_test, y_test)


def _wide(seed: int) -> tuple[float, float]:
    return _simulated(seed, 500, 50)


def _toenail(seed: int) -> tuple[float, float]:
    data = groups.toenail()
    test = np.random.default_rng(seed).random(len(data)) < 0.25
    formula = "outcome ~ visit * treatment + (1 | patientID)"
    return _both(
        lambda how: Model(formula, data[~test], likelihood="hinge").fit(how, random_state=seed),
        data[test],
        data["outcome"][test].to_numpy(),
    )


def _cardiac(seed: int) -> tuple[float, float]:
    found = missing_data.cardiac()
    assert found is not None
    X, y = found
    complete = np.flatnonzero(~np.isnan(X).any(axis=1))
    test = np.random.default_rng(seed).choice(complete, len(complete) // 4, replace=False)
    train = np.setdiff1d(np.arange(len(X)), test)
    return _both(lambda how: VBSVC(inference=how, random_state=seed).fit(X[train], y[train]), X[test], y[test])


def checkpoint_costs(repeats: int) -> None:
    """Seconds with a checkpoint that is written as often as it may be / without; interleaved, the best of each."""
    chains.WORTH_A_PROCESS, chains.SECONDS_BETWEEN = np.inf, 0.0
    lines = []
    for n, d, draws in ((200, 10, 4000), (2000, 10, 4000), (200, 500, 600)):
        X, y = simulate(n, d)
        spec, source = model(X, y)
        best = [np.inf, np.inf]
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(repeats):
                for k, path in enumerate((None, f"{folder}/run.chains")):
                    begin = time.perf_counter()
                    Gibbs(draws=draws, tune=100, chains=2, checkpoint=path).run(spec, source, 0)
                    best[k] = min(best[k], time.perf_counter() - begin)
        lines.append([f"{n} × {d}, {draws} draws", f"{best[0]:.2f}", f"{best[1] / best[0]:.3f}"])
    print("\nSampling with checkpoints that are written as often as they may be")
    print_table(["rows × inputs", "seconds without", "with / without"], lines)


PARTS = ("rates", "orders", "checkpoints")


def main(arguments: list[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sampling")
    parser.add_argument("--quick", action="store_true", help="fewer draws and data sets")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    options = parser.parse_args(arguments)
    if "orders" in options.parts:
        orders(4 if options.quick else 20)
    if "checkpoints" in options.parts:
        checkpoint_costs(2 if options.quick else 5)
    if "rates" not in options.parts:
        return
    draws = 1000 if options.quick else 6000
    lines = []
    for n, d in CELLS:
        ours, nuts, apart = rates(n, d, draws)
        lines.append([f"{n} × {d}", f"{ours:.0f}", f"{nuts:.0f}", f"{ours / nuts:.2f}", f"{apart:.3f}"])
    print("\nSmallest effective number of draws a second")
    print_table(["rows × inputs", "Gibbs", "NUTS", "ratio", "largest difference of means"], lines)
    lines = [
        [f"{n} × {d}", f"{sweep_cost(n, d, max(50, 200_000 // n)):.2f}"] for n, d in (*CELLS, (5000, 50), (50_000, 50))
    ]
    print("\nA sweep with its move / a variational pass with its update")
    print_table(["rows × inputs", "ratio"], lines)
