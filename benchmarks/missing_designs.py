"""Missing inputs in designs of 2, 5 and 20 columns: how far coefficients and errors are from those without gaps.

Coefficients of each method are compared with those that it has itself on the same data without gaps, relative to their
length: as they are, and in their direction alone, after both have been scaled to the same length. (The length of a
tuned SVM's depends on the penalty that tuning happens to choose.) All columns have a signal. Values are missing
completely at random (MCAR), with a chance that rises with the first column (MAR) or with the value itself (MNAR).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from scipy.special import expit, logit

from benchmarks.methods import rivals_may_not_converge
from benchmarks.missing_jobs import RESULTS, known_results, run_jobs
from benchmarks.rivals import (
    complete_cases,
    grid_search,
    hist_gradient_boosting,
    iterative_imputer,
    mean_imputer,
    misaem_logistic,
)
from benchmarks.simulation import balanced_error
from benchmarks.tables import print_table
from vbsvm import VBSVC, GaussianImputation, Normal, VBLogistic, pool

DESIGNS, COVERAGE = RESULTS / "missing_designs.csv", RESULTS / "missing_coverage.csv"
CELL = ["mechanism", "columns", "correlation", "percent"]
DESIGN_COLUMNS = [*CELL, "data_set", "method", "off", "direction", "ber"]
COVERAGE_COLUMNS = ["mechanism", "data_set", "term", "covered", "sd", "error"]
MECHANISMS, WIDTHS, CORRELATIONS, PERCENTS = ("MCAR", "MAR", "MNAR"), (2, 5, 20), (0.0, 0.3, 0.7), (10, 30, 50)
TRAIN, TEST = 400, 2000
SIGNAL = 1.5
OURS, PAPERS, NONE, POOLED = "VBSVC", 'VBSVC, labels="likelihood"', 'VBSVC, labels="none"', "VBSVC, 20 imputations"
LOGISTIC = "VBLogistic"
ITERATIVE, MEANS, CASES = "tuned SVM, IterativeImputer", "tuned SVM, means", "tuned SVM, complete cases"
MISAEM, BOOSTED = "misaem", "HistGradientBoosting"
METHODS = (OURS, LOGISTIC, PAPERS, NONE, POOLED, ITERATIVE, MEANS, CASES, MISAEM, BOOSTED)
TUNED = (ITERATIVE, MEANS, CASES)
LINEAR_RIVALS = (*TUNED, MISAEM)
# These take most of the time, and may run in fewer data sets.
SLOW = (PAPERS, POOLED, MISAEM, BOOSTED)
FAST = tuple(name for name in METHODS if name not in SLOW)
# Methods that fit once, of which coefficients are compared; those of the logistic model stand beside.
SINGLE = (OURS, PAPERS, NONE, *LINEAR_RIVALS)
REFERENCES = {MISAEM: MISAEM, LOGISTIC: LOGISTIC} | dict.fromkeys(TUNED, MEANS)
FEWEST_CASES = 30
# A rival that has run in fewer data sets is shown, and not judged.
FEWEST_JUDGED = 5


def simulate(
    n: int, width: int, correlation: float, mechanism: str, percent: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, the same with gaps, and labels 0 and 1."""
    R = np.where(np.eye(width) > 0, 1.0, correlation)
    X = rng.normal(size=(n, width)) @ np.linalg.cholesky(R).T
    beta = np.where(np.arange(width) % 2 == 0, 1.0, 0.5)
    beta *= SIGNAL / np.sqrt(beta @ R @ beta)
    y = (X @ beta + rng.logistic(size=n) > 0).astype(int)
    by = {"MCAR": np.zeros_like(X), "MAR": np.repeat(X[:, :1], width, axis=1), "MNAR": X}[mechanism]
    # With x standard normal, E expit(a + 1.5 x) is about expit(a / (1 + 1.5² π/8)^½).
    odds = logit(percent / 100)
    slope = 0.0 if mechanism == "MCAR" else 1.5
    missing = rng.random(X.shape) < expit(odds * np.sqrt(1 + slope**2 * np.pi / 8) + slope * by)
    if mechanism == "MAR":
        missing[:, 0] = False
    return X, np.where(missing, np.nan, X), y


def tuned_svm() -> Any:
    """LinearSVC, tuned for the error that is reported."""
    return grid_search.make_linear_svc("balanced_accuracy")


def linear(predict: Callable[[np.ndarray], np.ndarray], width: int) -> np.ndarray:
    """Coefficients of a linear score, from its values."""
    values = predict(np.vstack([np.zeros(width), np.eye(width)]))
    return values[1:] - values[0]


def scores_of(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Linear scores of a fitted model for complete rows."""
    if isinstance(model, complete_cases.CompleteCases):
        model = model.model_
    if hasattr(model, "decision_function"):
        return model.decision_function
    return lambda X: logit(model.predict_proba(X)[:, 1])


def fitted(name: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit a method that fits once."""
    settings = {OURS: "regressor", PAPERS: "likelihood", NONE: "none"}
    if name in settings:
        return VBSVC(imputation=GaussianImputation(labels=settings[name])).fit(X, y)
    if name == LOGISTIC:
        return VBLogistic().fit(X, y)
    if name == MISAEM:
        return misaem_logistic.fit(X, y)
    if name == BOOSTED:
        return hist_gradient_boosting.make().fit(X, y)
    makers = {ITERATIVE: iterative_imputer.make, MEANS: mean_imputer.make, CASES: complete_cases.make}
    return makers[name](tuned_svm()).fit(X, y)


def run_data_set(
    mechanism: str, width: int, correlation: float, percent: int, seed: int, methods: Sequence[str]
) -> list[tuple]:
    """How far coefficients are from those without gaps, and the error on test rows with gaps, of each method."""
    rng = np.random.default_rng([seed, width, percent, int(10 * correlation)])
    X, gaps, y = simulate(TRAIN, width, correlation, mechanism, percent, rng)
    _, test, y_test = simulate(TEST, width, correlation, mechanism, percent, rng)
    same = {name: REFERENCES.get(name, OURS) for name in methods}
    found: list[tuple] = []
    with rivals_may_not_converge():
        references = {name: linear(scores_of(fitted(name, X, y)), width) for name in set(same.values())}
        for name in methods:
            measured = _measured(name, gaps, y, test, y_test, references[same[name]])
            found.append((mechanism, width, correlation, percent, seed, name, *measured))
    return found


def _measured(
    name: str, X: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray, reference: np.ndarray
) -> tuple[float, float, float]:
    complete = ~np.isnan(X).any(axis=1)
    if name == CASES and (complete.sum() < FEWEST_CASES or min(np.bincount(y[complete], minlength=2)) < 10):
        return np.nan, np.nan, np.nan
    if name == POOLED:
        first = fitted(OURS, X, y)
        fits = [VBSVC().fit(one.to_numpy(), y) for one in first.impute(X, 20, y=y, random_state=0)]
        coefficients = pool(fits, covariance="mean-field").coefficients[1:]
        return *_distances(coefficients, reference), np.nan
    model = fitted(name, X, y)
    off = np.nan, np.nan
    if name != BOOSTED:
        off = _distances(linear(scores_of(model), X.shape[1]), reference)
    some = ~np.isnan(test).all(axis=1)  # misaem leaves out rows without any value: these get the commoner class
    predicted = np.full(len(test), int(y.mean() > 0.5))
    predicted[some] = model.predict(test[some])
    return *off, balanced_error(y_test, predicted if name == MISAEM else model.predict(test))


def _distances(found: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """How far coefficients are from the reference, relative to its length: as they are, and scaled to that."""
    length = np.linalg.norm(reference)
    scaled = length / np.linalg.norm(found) * found
    return float(np.linalg.norm(found - reference) / length), float(np.linalg.norm(scaled - reference) / length)


def turns(n_sets: int, n_slow: int) -> list[tuple[int, Sequence[str]]]:
    """Data sets in turn, with the methods that are to run; slow ones have theirs spread evenly among the others'."""
    order: list[tuple[int, Sequence[str]]] = []
    for seed in range(n_sets):
        order.append((seed, FAST))
        slow = (seed + 1) * n_slow // n_sets
        order.extend((one, SLOW) for one in range(seed * n_slow // n_sets, slow))
    return order


def designs(
    n_sets: int, percents: Sequence[int] = PERCENTS, widths: Sequence[int] = WIDTHS, n_slow: int | None = None
) -> None:
    """Every cell has its first data set, then every cell its second, and so on; resumable."""
    known = known_results(DESIGNS, DESIGN_COLUMNS, [*CELL, "data_set", "method"])
    cells = [(m, w, c, p) for m in MECHANISMS for w in widths for c in CORRELATIONS for p in percents]
    jobs = []
    for seed, methods in turns(n_sets, n_sets if n_slow is None else min(n_slow, n_sets)):
        for cell in sorted(cells, key=lambda one: one[1]) if methods is SLOW else cells:  # narrow ones are quick
            missing = [name for name in methods if (*cell, seed, name) not in known]
            if missing:
                jobs.append(delayed(run_data_set)(*cell, seed, missing))
    run_jobs(jobs, DESIGNS)
    print_designs(n_sets, percents, widths)


def print_designs(n_sets: int, percents: Sequence[int] = PERCENTS, widths: Sequence[int] = WIDTHS) -> None:
    """The tables of what has been measured so far."""
    table = pd.read_csv(DESIGNS, names=DESIGN_COLUMNS)
    table = table[(table["data_set"] < n_sets) & table["percent"].isin(percents) & table["columns"].isin(widths)]
    counts = table.groupby([*CELL, "method"]).size().groupby("method").agg(["min", "max"])
    print("\nData sets a cell: " + "; ".join(f"{name} {low}–{high}" for name, low, high in counts.itertuples()))
    for measure, title in (
        ("off", "Coefficients: distance from those without gaps, relative to their length"),
        ("direction", "The same, scaled to the same length"),
        ("ber", "Balanced error on test rows with gaps"),
    ):
        print(f"\n{title}: means over correlations")
        groups = [(m, w, p) for m in MECHANISMS for w in widths for p in percents]
        means = table.groupby(["mechanism", "columns", "percent", "method"])[measure].mean()
        headers = ["", *(f"{m} {w}, {p} %" for m, w, p in groups)]
        lines = [[name, *(f"{means.get((*one, name), np.nan):.3f}" for one in groups)] for name in METHODS]
        print_table(headers, lines)
    judge(table)


def judge(table: pd.DataFrame) -> None:
    """In how many cells ours is the nearest of the methods that fit once, or within two standard errors of it.

    Each rival is compared in the data sets that it has run in; the best is the one that ours is furthest behind.
    """
    print("\nCells of MCAR and MAR (MNAR is shown, and not judged)")
    judged = table[table["mechanism"] != "MNAR"]
    rivals = [one for one in SINGLE if one != OURS]
    for measure, ours, others in (
        ("off", OURS, rivals),
        ("direction", OURS, rivals),
        ("ber", OURS, LINEAR_RIVALS),
        ("ber", LOGISTIC, LINEAR_RIVALS),
    ):
        wide = judged.pivot(index=[*CELL, "data_set"], columns="method", values=measure)
        n, good, worst, gaps = 0, 0, [], []
        for cell, rows in wide.groupby(level=CELL):
            differences = {rival: (rows[ours] - rows[rival]).dropna() for rival in others if rival in rows}
            best = max(
                (one for one in differences if len(differences[one]) >= FEWEST_JUDGED),
                key=lambda one: differences[one].mean(),
            )
            difference = differences[best]
            behind = difference.mean() / max(difference.std() / np.sqrt(len(difference)), 1e-12)
            n, good = n + 1, good + int(behind <= 2)
            gaps.append(difference.mean())
            worst.append((behind, f"{' '.join(map(str, cell))} behind {best} by {difference.mean():.4f}"))
        told = f"not behind the best rival by more than two standard errors in {good} of {n} cells"
        print(f"{measure}, {ours}: {told}; behind by {np.mean(gaps):.4f} on average")
        for behind, where in sorted(worst, reverse=True):
            if behind > 2:
                print(f"  behind by {behind:.1f} standard errors: {where}")


def run_coverage(mechanism: str, seed: int, truth: tuple[float, ...]) -> list[tuple]:
    """Whether 95 % intervals of the default fit hold the coefficients that minimise the population's hinge loss."""
    rng = np.random.default_rng([7, seed])
    _, gaps, y = simulate(TRAIN, 5, 0.3, mechanism, 30, rng)
    table = VBSVC().fit(gaps, y).summary()
    covered = (table["lower"] <= truth) & (np.asarray(truth) <= table["upper"])
    errors = table["estimate"] - np.asarray(truth)
    return [
        (mechanism, seed, name, int(inside), sd, error)
        for name, inside, sd, error in zip(table.index, covered, table["std_error"], errors, strict=True)
    ]


def coverage(n_sets: int) -> None:
    """Coverage with 30 % of the values missing; resumable."""
    X, _, y = simulate(400_000, 5, 0.3, "MCAR", 30, np.random.default_rng(99))
    fit = VBSVC(Normal(1e8)).fit(X, y)
    truth = (float(fit.intercept_[0]), *map(float, fit.coef_[0]))
    known = known_results(COVERAGE, COVERAGE_COLUMNS, ["mechanism", "data_set"])
    wanted = [(mechanism, seed) for seed in range(n_sets) for mechanism in ("MCAR", "MAR")]
    run_jobs((delayed(run_coverage)(*job, truth) for job in wanted if job not in known), COVERAGE)
    table = pd.read_csv(COVERAGE, names=COVERAGE_COLUMNS)
    table = table[table["data_set"] < n_sets]
    print(f"\nCoverage of 95 % intervals for the population's minimiser, 30 % missing, {n_sets} data sets")
    lines = []
    for mechanism, rows in table.groupby("mechanism"):
        by_set = rows.groupby("data_set")["covered"].mean()
        ratio = rows.groupby("term").apply(lambda one: one["sd"].mean() / one["error"].std())
        share, error = 100 * by_set.mean(), 100 * by_set.std() / np.sqrt(len(by_set))
        lines.append([str(mechanism), f"{share:.1f} ± {error:.1f} %", f"{ratio.min():.2f} to {ratio.max():.2f}"])
    print_table(["", "covered", "sd / spread of estimates"], lines)
