"""Random effects: accuracy on toenail, speed against mixed-model software, and growth with the number of groups."""

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from benchmarks.peak_memory import measure_in_new_process
from benchmarks.rivals import gpboost_glmm, linear_svc_dummies, statsmodels_vb
from benchmarks.tables import print_table
from benchmarks.timing import fastest, print_ratio, print_times
from vbsvm import Model, Variational
from vbsvm.base.update_mode import mean_field
from vbsvm.datasets import load_toenail
from vbsvm.model import sweep

FORMULA = "outcome ~ visit * treatment + (1 | patientID)"
INPUTS, GROUP = ["visit", "treated", "both"], "patientID"
RESULTS = Path(__file__).parent / "results" / "toenail_splits.csv"
FIXED_C = (0.1, 1.0, 10.0)


def toenail() -> pd.DataFrame:
    """The data, with the columns that the rivals need ready."""
    data = load_toenail()
    treated = (data["treatment"] == "terbinafine").astype(float)
    return data.assign(treated=treated, both=treated * data["visit"])


def methods() -> dict[str, Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]]:
    """Each takes training and test rows, and gives the test rows' predictions."""

    def ours(formula: str) -> Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]:
        return lambda train, test: Model(formula, train, likelihood="hinge").fit().predict(test)

    def svm(group: str | None, C: float | None = None) -> Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]:
        def run(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
            columns = [*INPUTS, GROUP]
            model = linear_svc_dummies.make(INPUTS, group, C).fit(train[columns], train["outcome"])
            return model.predict(test[columns])

        return run

    fixed = {f"linear SVM, dummies, C = {C:g}": svm(GROUP, C) for C in FIXED_C}
    return {
        "Model, (1 | patientID)": ours(FORMULA),
        "Model without groups": ours("outcome ~ visit * treatment"),
        "linear SVM, tuned": svm(None),
        "linear SVM, dummies, tuned": svm(GROUP),
        **fixed,
    }


def _run_split(by: str, split: int, train: np.ndarray, test: np.ndarray) -> list[tuple[str, int, str, float, float]]:
    data, rows = toenail(), []
    for name, method in methods().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            begin = time.perf_counter()
            found = method(data.iloc[train], data.iloc[test])
            seconds = time.perf_counter() - begin
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            error = 1 - balanced_accuracy_score(data["outcome"].iloc[test], found)
        rows.append((by, split, name, error, seconds))
    return rows


def splits(n_splits: int) -> None:
    """Balanced error over random splits of the visits (as in the paper) and of the patients; resumable."""
    data = toenail()
    kinds = {"visits": ShuffleSplit, "patients": GroupShuffleSplit}
    RESULTS.parent.mkdir(exist_ok=True)
    done = pd.read_csv(RESULTS, names=["by", "split", "method", "ber", "seconds"]) if RESULTS.exists() else None
    for by, kind in kinds.items():
        known = set() if done is None else set(done.loc[done["by"] == by, "split"])
        groups = data[GROUP] if by == "patients" else None
        pairs = kind(n_splits, test_size=0.25, random_state=0).split(data, groups=groups)
        jobs = [delayed(_run_split)(by, k, *pair) for k, pair in enumerate(pairs) if k not in known]
        for rows in Parallel(n_jobs=-1, return_as="generator_unordered")(jobs):
            with RESULTS.open("a", newline="") as file:
                csv.writer(file).writerows(rows)
    table = pd.read_csv(RESULTS, names=["by", "split", "method", "ber", "seconds"])
    table = table[table["split"] < n_splits]
    for by in kinds:
        part = table[table["by"] == by].pivot(index="split", columns="method", values="ber")
        ours = part["Model, (1 | patientID)"]
        print(f"\nToenail, a quarter of the {by} held out, {len(part)} splits: balanced error")
        rows = [
            [
                name,
                f"{part[name].mean():.3f}",
                f"{part[name].std() / np.sqrt(len(part)):.3f}",
                f"{(ours - part[name]).mean():+.3f}",
            ]
            for name in methods()
        ]
        print_table(["", "mean", "s.e.", "Model − it"], rows)


def fit_speed(rounds: int) -> None:
    """Fit toenail; the model object is built already, as is its rivals' design."""
    data = toenail()
    model = Model(FORMULA, data, likelihood="hinge")
    X = np.column_stack([np.ones(len(data)), data[INPUTS].to_numpy()])
    y, groups = (data["outcome"] == "none or mild").to_numpy(dtype=float), data[GROUP].to_numpy()
    # gpboost stops at a relative change of 1e-6 of its objective, some 1e-3 nats here.
    calls = {
        "Model.fit": model.fit,
        "Model.fit, tol=1e-3": lambda: model.fit(Variational(tol=1e-3)),
        "Model and fit": lambda: Model(FORMULA, data, likelihood="hinge").fit(),
        "gpboost GPModel and fit": lambda: gpboost_glmm.fit(groups, X, y),
    }
    seconds = fastest(calls, rounds)
    slow = fastest({"statsmodels fit_vb": lambda: statsmodels_vb.fit(groups, X, y)}, 1)
    seconds |= slow
    print_times("Fit, toenail with random intercepts", seconds, "Model.fit")
    for rival in ("gpboost GPModel and fit", "statsmodels fit_vb"):
        print_ratio(seconds, rival, "Model.fit")


def growth(rounds: int, n: int = 500_000, m: int = 50_000) -> None:
    """Time of a pass, and of a step with it, at n rows in m groups and at twice of both; then memory of a fit."""
    passes, steps = {}, {}
    for factor in (1, 2):
        model = Model("y ~ x + z + (1 | g)", simulate(factor * n, factor * m), likelihood="hinge")
        spec, source = model.spec, model._task.source
        state, _ = sweep.sweep(spec, spec.start(), source, mean_field)
        passes[factor] = partial(sweep.pass_rows, spec, state, source, mean_field, with_curvature=True)
        stats = passes[factor]()
        steps[factor] = lambda spec=spec, state=state, stats=stats: sweep.update(spec, state, stats, mean_field)
    for name, calls in {"pass": passes, "update": steps}.items():
        seconds = fastest({f"{factor * n} rows": call for factor, call in calls.items()}, rounds)
        print_times(f"One {name}, a row in ten a group", seconds, f"{n} rows")
        print_ratio(seconds, f"{2 * n} rows", f"{n} rows")
    model = Model("y ~ x + z + (1 | g)", simulate(2 * n, 2 * m), likelihood="hinge")
    begin = time.perf_counter()
    fit = model.fit()
    seconds = time.perf_counter() - begin
    used = measure_in_new_process("groups", 2 * n, 2 * m)
    print(f"\nFit of {2 * n} rows in {2 * m} groups: {seconds:.1f} s, {fit.outcome.passes} passes,")
    print(f"{used / 1e6:.0f} MB beyond the model's own table, {used / (2 * n):.0f} bytes a row")


def simulate(n: int, m: int) -> pd.DataFrame:
    """Rows in groups at random, with two inputs and a random intercept."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": rng.integers(0, m, n), "x": rng.normal(size=n), "z": rng.normal(size=n)})
    eta = frame["x"] - 0.5 * frame["z"] + 1.5 * rng.normal(size=m)[frame["g"]]
    return frame.assign(y=rng.random(n) < 1 / (1 + np.exp(-eta)))


PARTS = {"splits": (splits, 100, 10), "fit": (fit_speed, 30, 5), "growth": (growth, 3, 1)}


def main(arguments: list[str]) -> None:
    """Print accuracy, ratios and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks groups", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer splits and rounds")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    options = parser.parse_args(arguments)
    for name in options.parts:
        part, full, quick = PARTS[name]
        part(quick if options.quick else full)
