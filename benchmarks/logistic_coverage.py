"""How often intervals of logistic models with random intercepts hold the truth: 30 groups of 10 rows, simulated."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from benchmarks.tables import print_table
from benchmarks.uncertainty_coverage import GROUPED, NULL, draw_grouped
from vbsvm import Model

RESULTS = Path(__file__).parent / "results" / "logistic_coverage.csv"
HEADER = ("data_set", "kind", "coefficient", "held", "estimate", "sd")
GROUPS, LEVEL = 30, 0.95
TRUTH = {"(intercept)": 0.5, "x1": 1.5, "x2": 1.0, NULL: 0.0}
SIGMA = 1.5
KINDS = ("posterior", "robust")


def run_one(number: int) -> list[tuple[int, str, str, bool, float, float]]:
    """Fit one data set, and look whether its intervals hold the truth."""
    data = draw_grouped(np.random.default_rng([number, GROUPS]), GROUPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = Model(GROUPED, data, likelihood="logistic").fit()
        rows = []
        for kind in KINDS:
            table = fit.summary(LEVEL, covariance=kind)
            for name, truth in TRUTH.items():
                one = table.loc[name]
                held = bool(one["lower"] <= truth <= one["upper"])
                rows.append((number, kind, name, held, float(one["estimate"]), float(one["std_error"])))
        one = fit.variance_components(LEVEL).iloc[0]
    held = bool(one["lower"] <= SIGMA <= one["upper"])
    return [*rows, (number, "posterior", "σ", held, float(one["std_dev"]), np.nan)]


def run(sets: int, jobs: int) -> None:
    """Run what is missing, and print the table."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    if not RESULTS.exists():
        RESULTS.write_text(",".join(HEADER) + "\n")
    done = set(pd.read_csv(RESULTS)["data_set"])
    work = (delayed(run_one)(k) for k in range(1, sets + 1) if k not in done)
    with RESULTS.open("a", newline="") as file:
        for rows in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
            csv.writer(file, lineterminator="\n").writerows(rows)
            file.flush()
    found = pd.read_csv(RESULTS)
    found = found[found["data_set"] <= sets]
    lines = []
    for kind in KINDS:
        for name in (*TRUTH, "σ"):
            part = found[(found["kind"] == kind) & (found["coefficient"] == name)]
            if len(part):
                share = part["held"].mean()
                error = np.sqrt(share * (1 - share) / len(part))
                lines.append([kind, name, str(len(part)), f"{100 * share:.1f} ± {100 * error:.1f}"])
        fixed = found[(found["kind"] == kind) & (found["coefficient"] != "σ")].groupby("data_set")["held"].mean()
        error = fixed.std() / np.sqrt(len(fixed))
        lines.append([kind, "all coefficients", str(len(fixed)), f"{100 * fixed.mean():.1f} ± {100 * error:.1f}"])
    print(f"\nCoverage in % of 95 % intervals, {GROUPS} groups x 10 rows")
    print_table(["", "", "data sets", "coverage"], lines)
