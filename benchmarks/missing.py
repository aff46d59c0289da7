"""Missing inputs: error, log loss and coverage beside imputation and complete cases; speed, and growth with rows."""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import delayed
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.methods import rivals_may_not_converge
from benchmarks.missing_curves import curves
from benchmarks.missing_data import (
    COEFFICIENTS,
    MECHANISMS,
    PERCENTS,
    TRAIN_ROWS,
    cardiac,
    incomplete_columns,
    simulate,
    simulate_large,
)
from benchmarks.missing_designs import PERCENTS as DESIGN_PERCENTS
from benchmarks.missing_designs import coverage, designs
from benchmarks.missing_jobs import RESULTS, known_results, run_jobs
from benchmarks.missing_tables import real_tables
from benchmarks.rivals import (
    complete_cases,
    grid_search,
    hist_gradient_boosting,
    iterative_imputer,
    linear_svc,
    logistic_regression_cv,
    mean_imputer,
    misaem_logistic,
)
from benchmarks.simulation import balanced_error
from benchmarks.tables import print_table
from benchmarks.timing import fastest, print_ratio, print_times
from vbsvm import VBSVC, GaussianImputation, Variational
from vbsvm.base.update_mode import mean_field
from vbsvm.model.sweep import pass_rows

SPLITS, SIMULATION = RESULTS / "missing_splits.csv", RESULTS / "missing_simulation.csv"
SPLIT_COLUMNS = ["split", "method", "ber", "seconds"]
MEASURES = ["ber", "log_loss", "ber_missing", "log_loss_missing"]
COVERAGE = ["covered", "covered_complete", "sd", "off"]
CELL = ["mechanism", "percent"]
SIMULATION_COLUMNS = [*CELL, "data_set", "method", *MEASURES, *COVERAGE]
OURS, ALONE, COMPLETE = "VBSVC", 'VBSVC, labels="none"', "VBSVC, nothing missing"
LABELLESS = GaussianImputation(labels="none")
ITERATIVE, MISAEM, MISAEM_DEFAULT = "IterativeImputer, LinearSVC", "misaem, coefficients only", "misaem"


def tuned_svm() -> Any:
    """LinearSVC, tuned for the error that is reported; without class weights, as ours is."""
    return grid_search.make_linear_svc("balanced_accuracy")


def platt(classifier: Any) -> CalibratedClassifierCV:
    """Probabilities by a sigmoid of the scores, in three folds."""
    return CalibratedClassifierCV(classifier, method="sigmoid", cv=3)


def mean_and_error(values: pd.Series) -> str:
    """Mean of paired differences, and its standard error."""
    values = values.dropna()
    return f"{values.mean():+.4f} ± {values.std() / np.sqrt(len(values)):.4f}"


def split_methods() -> dict[str, Callable[[np.ndarray, np.ndarray], Any]]:
    """Each takes training inputs and labels, and gives what predicts."""
    return {
        OURS: lambda X, y: VBSVC().fit(X, y),
        ALONE: lambda X, y: VBSVC(imputation=LABELLESS).fit(X, y),
        "VBSVC, complete cases": lambda X, y: complete_cases.make(VBSVC()).fit(X, y),
        "tuned SVM, complete cases": lambda X, y: complete_cases.make(tuned_svm()).fit(X, y),
        "tuned SVM, IterativeImputer": lambda X, y: iterative_imputer.make(tuned_svm()).fit(X, y),
        "HistGradientBoosting": lambda X, y: hist_gradient_boosting.make().fit(X, y),
        "misaem": misaem_logistic.fit,
    }


def run_split(X: np.ndarray, y: np.ndarray, split: int) -> list[tuple[int, str, float, float]]:
    """Error of each method on a random quarter of the complete rows; all other rows are for training."""
    complete = np.flatnonzero(~np.isnan(X).any(axis=1))
    test = np.random.default_rng(split).choice(complete, len(complete) // 4, replace=False)
    train = np.setdiff1d(np.arange(len(X)), test)
    scaled = (X - np.nanmean(X[train], axis=0)) / np.nanstd(X[train], axis=0)
    rows = []
    for name, fit in split_methods().items():
        with rivals_may_not_converge():
            begin = time.perf_counter()
            model = fit(scaled[train], y[train])
            seconds = time.perf_counter() - begin
        rows.append((split, name, balanced_error(y[test], model.predict(scaled[test])), seconds))
    return rows


def splits(n_splits: int) -> None:
    """Balanced error on complete cardiac cases that were held out; resumable."""
    if (data := cardiac()) is None:
        return
    known = known_results(SPLITS, SPLIT_COLUMNS, ["split"])
    run_jobs((delayed(run_split)(*data, k) for k in range(n_splits) if (k,) not in known), SPLITS)
    table = pd.read_csv(SPLITS, names=SPLIT_COLUMNS)
    errors = table[table["split"] < n_splits].pivot(index="split", columns="method", values="ber")
    print(f"\nCardiac data, a quarter of the complete cases held out, {len(errors)} splits: balanced error")
    lines = [
        [name, f"{errors[name].mean():.4f}", "" if name == OURS else mean_and_error(errors[OURS] - errors[name])]
        for name in split_methods()
    ]
    print_table(["", "mean", f"{OURS} − it, ± s.e."], lines)
    print("The splits overlap: the standard errors are those of the splits, and too small for new patients.")


def contenders() -> dict[str, Any]:
    """Classifiers by name; those that are called a tuned SVM have no probabilities of their own."""
    return {
        OURS: VBSVC(),
        "VBSVC, Platt": platt(VBSVC()),
        ALONE: VBSVC(imputation=LABELLESS),
        f"{ALONE}, Platt": platt(VBSVC(imputation=LABELLESS)),
        COMPLETE: VBSVC(),
        "tuned SVM, complete cases": complete_cases.make(tuned_svm()),
        "logistic CV, complete cases": complete_cases.make(logistic_regression_cv.make()),
        "tuned SVM, means": mean_imputer.make(tuned_svm()),
        "tuned SVM, IterativeImputer": iterative_imputer.make(tuned_svm()),
        "logistic CV, IterativeImputer": iterative_imputer.make(logistic_regression_cv.make()),
        "HistGradientBoosting": hist_gradient_boosting.make(),
    }


def with_probabilities(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The fitted model itself; or, where that has scores only, Platt scaling of it with the penalty that it found."""
    if isinstance(model, complete_cases.CompleteCases):
        search, around = model.model_, complete_cases.make
    elif isinstance(model, Pipeline):
        search, around = model[-1], lambda classifier: make_pipeline(clone(model[0]), classifier)
    else:
        return model
    return around(platt(search.best_estimator_)).fit(X, y) if isinstance(search, GridSearchCV) else model


def direction_coverage(model: VBSVC) -> tuple[float, float, float, float]:
    """Compare the coefficients' direction with the true one, intervals scaled along.

    Inputs are normal, so that any linear classifier with a convex loss aims at the true direction. Gives the share of
    95 % intervals that hold the truth, of columns with missing values and of complete ones; the root mean
    square of their standard deviations; and that of the errors.
    """
    table = model.summary(0.95).iloc[1:] / np.linalg.norm(model.coef_[0])
    truth, with_missing = COEFFICIENTS / np.linalg.norm(COEFFICIENTS), incomplete_columns()
    inside = ((table["lower"] <= truth) & (truth <= table["upper"])).to_numpy()
    off = table["estimate"].to_numpy() - truth
    sd, error = (float(np.sqrt(np.mean(np.square(x)))) for x in (table["std_error"], off))
    return float(inside[with_missing].mean()), float(inside[~with_missing].mean()), sd, error


def run_data_set(mechanism: str, percent: int, seed: int) -> list[tuple]:
    """Error and log loss of each method on whole test rows and on test rows with missing values; coverage of ours."""
    train, test = simulate(mechanism, percent, seed)
    lines = []
    for name, classifier in contenders().items():
        whole = name == COMPLETE
        X = train.whole if whole else train.incomplete
        with rivals_may_not_converge():
            model = classifier.fit(X, train.y)
            chances = with_probabilities(model, X, train.y)
        measured: list[float] = []
        for X_test in (test.whole, test.whole if whole else test.incomplete):
            measured.append(balanced_error(test.y, model.predict(X_test)))
            measured.append(float(log_loss(test.y, chances.predict_proba(X_test)[:, 1])))
        coverage = direction_coverage(model) if isinstance(model, VBSVC) else (np.nan,) * len(COVERAGE)
        lines.append((mechanism, percent, seed, name, *measured, *coverage))
    return lines


def simulation(n_sets: int) -> None:
    """Three mechanisms by three shares of missing cells; resumable."""
    known = known_results(SIMULATION, SIMULATION_COLUMNS, [*CELL, "data_set"])
    cells = [(mechanism, percent) for mechanism in MECHANISMS for percent in PERCENTS]
    wanted = [(*cell, seed) for seed in range(n_sets) for cell in cells]
    run_jobs((delayed(run_data_set)(*job) for job in wanted if job not in known), SIMULATION)
    table = pd.read_csv(SIMULATION, names=SIMULATION_COLUMNS)
    table = table[table["data_set"] < n_sets]
    titles = {
        "ber": "balanced error, whole test rows",
        "ber_missing": "balanced error, test rows with missing values",
        "log_loss": "log loss, whole test rows",
        "log_loss_missing": "log loss, test rows with missing values",
    }
    print(f"\n{TRAIN_ROWS} rows, 3 of {len(COEFFICIENTS)} inputs with missing values, {n_sets} data sets a cell")
    headers = ["", *(f"{mechanism} {percent} %" for mechanism, percent in cells)]
    for measure, title in titles.items():
        print(f"\nMean {title}")
        means = table.groupby([*CELL, "method"])[measure].mean()
        print_table(headers, [[name, *(f"{means[*cell, name]:.3f}" for cell in cells)] for name in contenders()])
        print(f"\nVBSVC − it, ± s.e.: {title}")
        wide = table.pivot(index=[*CELL, "data_set"], columns="method", values=measure)
        differences = [
            [name, *(mean_and_error((wide[OURS] - wide[name]).loc[cell]).replace("0.", ".") for cell in cells)]
            for name in contenders()
            if name != OURS
        ]
        print_table(headers, differences)
    print_coverage(table, cells, headers)


def print_coverage(table: pd.DataFrame, cells: Sequence[tuple[str, int]], headers: Sequence[str]) -> None:
    """Print how often intervals of the direction's coefficients held the truth, and how narrow they are."""
    print("\nShare of 95 % intervals that hold the truth, for coefficients scaled to unit length.")
    lines = []
    for method in (OURS, COMPLETE):
        found = table[table["method"] == method].groupby(CELL)[COVERAGE]
        means, squares = found.mean(), found.agg(lambda values: np.mean(np.square(values)))
        ratio = np.sqrt(squares["sd"] / squares["off"])
        lines.append(
            [f"{method}: inputs with missing values", *(f"{means.loc[cell, 'covered']:.2f}" for cell in cells)]
        )
        lines.append([f"{method}: whole inputs", *(f"{means.loc[cell, 'covered_complete']:.2f}" for cell in cells)])
        lines.append([f"{method}: sd / r.m.s. error", *(f"{ratio[cell]:.2f}" for cell in cells)])
    print_table(headers, lines)


def speed(rounds: int) -> None:
    """Time of a fit of the cardiac data, growth of a pass with the rows, and a fit of a large table."""
    fit_speed(rounds)
    growth(rounds)
    large_fit()


def fit_speed(rounds: int) -> None:
    """Fit the cardiac data; rivals that take seconds have their turns in a round of their own."""
    if (data := cardiac()) is None:
        return
    X, y = data
    scaled = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    ours = {OURS: lambda: VBSVC().fit(X, y)}
    quick = {
        ITERATIVE: lambda: iterative_imputer.make(make_pipeline(StandardScaler(), linear_svc.make())).fit(X, y),
        "the same, tuned": lambda: iterative_imputer.make(tuned_svm()).fit(X, y),
        MISAEM: lambda: misaem_logistic.fit(scaled, y),
    }
    slow = {MISAEM_DEFAULT: lambda: misaem_logistic.fit(scaled, y, spreads=True)}
    for rivals, turns in ((quick, rounds), (slow, max(1, rounds // 10))):
        with rivals_may_not_converge():
            seconds = fastest(ours | rivals, turns)
        print_times(f"Fit, {len(X)} cardiac patients", seconds, OURS)
        for rival in rivals:
            print_ratio(seconds, rival, OURS)


def growth(rounds: int, n: int = 50_000, d: int = 10, n_patterns: int = 30) -> None:
    """Time of a pass at n rows and at twice as many, with the same patterns of missing inputs."""
    calls = {f"{rows} rows": one_pass(*simulate_large(rows, d, 0.1, n_patterns)) for rows in (n, 2 * n)}
    seconds = fastest(calls, rounds)
    print_times(f"One pass, {d} inputs, {n_patterns} patterns of missing ones", seconds, f"{n} rows")
    print_ratio(seconds, f"{2 * n} rows", f"{n} rows")


def one_pass(X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """Rows as a fit holds them, and a pass from where it ended."""
    fit = VBSVC(inference=Variational(bound="paper")).fit(X, y).fit_[0]
    assert fit._rows is not None
    source = fit._rows.source
    return lambda: pass_rows(fit.spec, fit.outcome.state, source, mean_field, with_curvature=True)


def large_fit(n: int = 100_000, d: int = 20, share: float = 0.1) -> None:
    """Fit a large table with cells missing by chance, once."""
    X, y = simulate_large(n, d, share)
    begin = time.perf_counter()
    model = VBSVC().fit(X, y)
    seconds = time.perf_counter() - begin
    print(f"\nFit of {n} x {d} with {100 * share:g} % of the cells missing: {seconds:.1f} s, {model.n_iter_} passes,")
    print(f"{len(model.missing_summary())} patterns")


PARTS = {
    "designs": (designs, 100, 2),
    "coverage": (coverage, 400, 20),
    "curves": (curves, 200, 10),
    "tables": (real_tables, 100, 10),
    "splits": (splits, 100, 10),
    "simulation": (simulation, 50, 5),
    "speed": (speed, 30, 5),
}


def main(arguments: list[str]) -> None:
    """Print accuracy, log loss, coverage and ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks missing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer splits, data sets and rounds")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    parser.add_argument("--sets", type=int, metavar="N", help="data sets a cell, splits or rounds")
    parser.add_argument("--percents", type=int, nargs="+", choices=DESIGN_PERCENTS, help="of the designs; default: all")
    parser.add_argument(
        "--slow-sets", type=int, metavar="N", help="of the designs: data sets of slow rivals; default: all"
    )
    options = parser.parse_args(arguments)
    for name in options.parts:
        part, full, quick = PARTS[name]
        n = options.sets or (quick if options.quick else full)
        if name == "designs":
            designs(n, options.percents or DESIGN_PERCENTS, n_slow=options.slow_sets)
        else:
            part(n)
