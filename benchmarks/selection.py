"""Selection of inputs: F1 against the truth of simulated data, beside L1 and best-subset logistic regression."""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from benchmarks.rivals import abess_logistic, l1_logistic
from benchmarks.tables import print_table
from vbsvm import VBSVC, Joint, LaplaceZero, VBLogistic

CELLS = ((500, 200, 20), (100, 2000, 10))
RESULTS = Path(__file__).parent / "results" / "selection.csv"
COLUMNS = ["n", "p", "k", "data_set", "method", "precision", "recall", "f1", "size"]
OURS = "LaplaceZero()"


def simulate(n: int, p: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent inputs, k of which have coefficients of ±1 to ±2; labels from a logistic model."""
    rng = np.random.default_rng([seed, n, p])
    X, truth = rng.normal(size=(n, p)), np.zeros(p, dtype=bool)
    truth[rng.choice(p, k, replace=False)] = True
    beta = np.where(truth, rng.choice([-1.0, 1.0], p) * rng.uniform(1.0, 2.0, p), 0.0)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ beta))).astype(int), truth


def methods() -> dict:
    """Each takes inputs and labels, and gives which inputs are in."""

    def ours(prior: LaplaceZero, power: float | None = None):
        return lambda X, y: VBSVC(prior=prior, likelihood_power=power).fit(X, y).selected_[0]

    return {
        OURS: ours(LaplaceZero()),
        "LaplaceZero(gates=Joint())": ours(LaplaceZero(gates=Joint())),
        "LaplaceZero(), likelihood power 1": ours(LaplaceZero(), 1.0),
        "LaplaceZero(gates=Joint()), likelihood power 1": ours(LaplaceZero(gates=Joint()), 1.0),
        "VBLogistic(LaplaceZero())": lambda X, y: VBLogistic(LaplaceZero()).fit(X, y).selected_[0],
        "L1 logistic, tuned": l1_logistic.select,
        "abess": abess_logistic.select,
    }


def run(n: int, p: int, k: int, seed: int) -> list[tuple]:
    """Precision, recall and F1 of each method on one data set."""
    X, y, truth = simulate(n, p, k, seed)
    rows = []
    for name, select in methods().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = select(X, y)
        hits, size = int((found & truth).sum()), int(found.sum())
        precision, recall = hits / max(size, 1), hits / k
        rows.append((n, p, k, seed, name, precision, recall, 2 * hits / (size + k), size))
    return rows


def main(arguments: list[str]) -> None:
    """Print mean precision, recall and F1, and paired differences; resumable."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks selection", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 data sets instead of 50")
    n_sets = 5 if parser.parse_args(arguments).quick else 50
    RESULTS.parent.mkdir(exist_ok=True)
    known = set()
    if RESULTS.exists():
        known = set(pd.read_csv(RESULTS, names=COLUMNS)[["n", "data_set"]].itertuples(index=False, name=None))
    jobs = [delayed(run)(*cell, seed) for seed in range(n_sets) for cell in CELLS if (cell[0], seed) not in known]
    for rows in Parallel(n_jobs=-1, return_as="generator_unordered")(jobs):
        with RESULTS.open("a", newline="") as file:
            csv.writer(file).writerows(rows)
    table = pd.read_csv(RESULTS, names=COLUMNS)
    for n, p, k in CELLS:
        part = table[(table["n"] == n) & (table["p"] == p) & (table["data_set"] < n_sets)]
        f1 = part.pivot(index="data_set", columns="method", values="f1")
        print(f"\n{n} rows, {k} of {p} inputs, {len(f1)} data sets")
        lines = []
        for name in methods():
            of_method, gap = part[part["method"] == name], f1[OURS] - f1[name]
            half = 1.96 * gap.std() / np.sqrt(len(gap))
            means = [f"{of_method[column].mean():.3f}" for column in ("precision", "recall", "f1")]
            lines.append([name, *means, f"{of_method['size'].mean():.1f}", f"{gap.mean():+.3f} ± {half:.3f}"])
        print_table(["", "precision", "recall", "F1", "size", f"{OURS} − it"], lines)
