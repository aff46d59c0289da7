"""Probabilities on rows left out: log loss and calibration error of VBSVC and Model beside tuned rivals.

Folds are stratified, shuffled and repeated, and so are the inner folds by which rivals choose their penalty or are
calibrated. ECE is the mean distance of the predicted probability and the observed share, of the largest probability, in
ten bins of equal count over all test rows. ``--times`` prints the costs of a fit with its probabilities instead.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import datasets, svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.groups import toenail
from benchmarks.missing_data import cardiac
from benchmarks.rivals import iterative_imputer
from benchmarks.simulation import simulate, simulate_overlapping
from benchmarks.tables import print_table
from benchmarks.timing import least_costs
from vbsvm import VBSVC
from vbsvm.datasets import load_spam

Array = NDArray[np.float64]
Rows = tuple[Any, NDArray[Any]]
OURS, PSEUDO = "VBSVC", "pseudo-likelihood"
LOGISTIC, BY_LOSS, SVC = "LogisticRegressionCV", "the same, tuned by log loss", "calibrated LinearSVC"
RIVALS = (LOGISTIC, BY_LOSS, SVC)
NOISE_SIZES = ((200, 10), (1000, 20))
SMALLEST = 1e-300


@final
@dataclass(frozen=True)
class DataSet:
    """Rows, how they are made complete for rivals, and the column of a group where there is one."""

    rows: Rows
    group: str | None = None
    missing: bool = False
    collapses: bool = False  # all scores of some class have one sign: no link mends that


def data_sets(*, quick: bool) -> Iterator[tuple[str, DataSet]]:
    """All data sets; statsmodels' where it is installed, and the cardiac one where there is a file of it."""
    for name in ("breast_cancer", "iris", "wine"):
        yield name.replace("_", " "), DataSet(getattr(datasets, f"load_{name}")(return_X_y=True))
    X, y = datasets.load_digits(return_X_y=True)
    for pair in ((3, 8), (4, 9)):
        chosen = np.isin(y, pair)
        yield f"digits {pair[0]} or {pair[1]}", DataSet((X[chosen], y[chosen]))
    if not quick:
        yield "digits", DataSet((X, y))
    data = load_spam()
    spam = data.drop(columns="class").to_numpy(dtype=float), (data["class"] == "spam").to_numpy()
    few = np.random.default_rng(0).permutation(len(data))[:600]
    yield "spam, 600 rows", DataSet((spam[0][few], spam[1][few]))
    if not quick:
        yield "spam", DataSet(spam)
    data = toenail()
    inputs = data[["visit", "treated", "both", "patientID"]].astype({"patientID": int})
    yield "toenail, groups", DataSet((inputs, data["outcome"].to_numpy()), group="patientID")
    if (found := cardiac()) is not None:
        yield "cardiac, missing values", DataSet(found, missing=True)
    yield from _of_statsmodels()
    for n, d in ((200, 10), (200, 50), (500, 50)):
        yield f"simulated {n} × {d}", DataSet(simulate(n, d, 1)[:2])
    yield "simulated, 5 classes", DataSet(simulate_overlapping(400, 10, 5))
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 8))
    yield "simulated, rare class", DataSet((X, rng.random(400) < expit(X[:, 0] + 0.5 * X[:, 1] - 3)), collapses=True)
    X = rng.standard_normal((1000, 8)) ** 3
    yield "simulated, heavy tails", DataSet((X, rng.random(1000) < expit(0.5 + X[:, :3].sum(axis=1))))


def _of_statsmodels() -> Iterator[tuple[str, DataSet]]:
    """Those that come with the package and have an outcome of classes."""
    try:
        from statsmodels import datasets as found
    except ImportError:
        print("Left out: the data sets of statsmodels, which is not installed.")
        return

    def rows(name: str, outcome: str, *others: str) -> Rows:
        data = getattr(found, name).load_pandas().data
        return data.drop(columns=[outcome, *others]).to_numpy(dtype=float), data[outcome].to_numpy()

    X, affairs = rows("fair", "affairs")
    yield "fair", DataSet((X, affairs > 0))
    yield "spector", DataSet(rows("spector", "GRADE"))
    yield "anes96, vote", DataSet(rows("anes96", "vote", "PID"))
    yield "anes96, 7 parties", DataSet(rows("anes96", "PID"), collapses=True)
    yield "modechoice", DataSet(rows("modechoice", "choice", "individual"))
    yield "heart", DataSet(rows("heart", "censors"))


def methods(data: DataSet) -> dict[str, Callable[[], Any]]:
    """Ours, and the rivals with what they need before them."""
    inner = StratifiedKFold(5, shuffle=True, random_state=0)

    def logistic(**settings: Any) -> LogisticRegressionCV:
        return LogisticRegressionCV(cv=inner, max_iter=300, l1_ratios=(0,), use_legacy_attributes=False, **settings)

    def before(classifier: Any) -> Any:
        if data.group is not None:
            return make_pipeline(_Dummies(data.group), classifier)
        whole = make_pipeline(StandardScaler(), classifier)
        return iterative_imputer.make(whole) if data.missing else whole

    return {
        OURS: lambda: VBSVC(group=data.group),
        LOGISTIC: lambda: before(logistic(scoring="accuracy")),
        BY_LOSS: lambda: before(logistic(scoring="neg_log_loss")),
        SVC: lambda: before(CalibratedClassifierCV(LinearSVC(), cv=inner)),
    }


class _Dummies:
    """Standardised inputs, and a column for each group; groups that were not seen have none."""

    def __init__(self, group: str) -> None:
        self._group, self._scaler = group, StandardScaler()
        self._encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)

    def fit(self, X: pd.DataFrame, y: Any = None) -> "_Dummies":
        """Learn scales and groups."""
        self._scaler.fit(X.drop(columns=self._group))
        self._encoder.fit(X[[self._group]])
        return self

    def transform(self, X: pd.DataFrame) -> Array:
        """Write the columns out."""
        return np.column_stack(
            [self._scaler.transform(X.drop(columns=self._group)), self._encoder.transform(X[[self._group]])]
        )

    def fit_transform(self, X: pd.DataFrame, y: Any = None) -> Array:
        """Both."""
        return self.fit(X).transform(X)


def splits(y: NDArray[Any], *, quick: bool) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Fivefold, five times over for a few hundred rows, once for thousands."""
    repeats = 1 if quick or len(y) > 1500 else 2 if len(y) > 400 else 5
    yield from RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=1).split(y, y)


def evaluate(data: DataSet, *, quick: bool) -> dict[str, tuple[float, float]]:
    """Log loss and calibration error of each method."""
    X, y = data.rows
    classes, codes = np.unique(y, return_inverse=True)
    chances: dict[str, list[Array]] = {}
    truths = []
    for train, test in splits(codes, quick=quick):
        rows = (X.iloc[train], X.iloc[test]) if isinstance(X, pd.DataFrame) else (X[train], X[test])
        truths.append(codes[test])
        for name, make in methods(data).items():
            if name == BY_LOSS and len(classes) > 5:
                continue
            fitted = make().fit(rows[0], y[train])
            chances.setdefault(name, []).append(fitted.predict_proba(rows[1]))
            if name == OURS:
                chances.setdefault(PSEUDO, []).append(fitted.pseudo_probability(rows[1]))
    truth = np.concatenate(truths)
    return {name: measure(np.concatenate(found), truth) for name, found in chances.items()}


def measure(chances: Array, truth: NDArray[np.intp]) -> tuple[float, float]:
    """Log loss, and the calibration error of the largest probability."""
    loss = -np.log(np.maximum(chances[np.arange(len(truth)), truth], SMALLEST)).mean()
    largest, right = chances.max(axis=1), chances.argmax(axis=1) == truth
    parts = np.array_split(np.argsort(largest), 10)
    error = sum(len(part) * abs(largest[part].mean() - right[part].mean()) for part in parts) / len(truth)
    return float(loss), float(error)


def noise() -> list[list[str]]:
    """How far probabilities are from the base rate where inputs say nothing, over ten draws."""
    lines = []
    for n, d in NOISE_SIZES:
        for base in (0.5, 0.4, 0.25, 0.1):
            apart, of_mean = [], []
            for seed in range(10):
                rng = np.random.default_rng([seed, n, d])
                X, y = rng.standard_normal((n, d)), rng.random(n) < base
                p = VBSVC().fit(X, y).predict_proba(rng.standard_normal((1000, d)))[:, 1]
                apart.append(np.abs(p - y.mean()).mean())
                of_mean.append(abs(p.mean() - y.mean()))
            cells = (np.mean(of_mean), np.mean(apart), np.max(apart))
            lines.append([f"{n} × {d}, {base:.0%}", *(f"{100 * cell:.1f}" for cell in cells)])
    return lines


def print_times(rounds: int) -> None:
    """Print the CPU time of a fit and the probabilities of its rows, of scikit-learn's SVMs over that of VBSVC."""
    rivals: dict[str, Callable[[], Any]] = {
        SVC: lambda: CalibratedClassifierCV(LinearSVC()),
        "calibrated SVC, linear": lambda: CalibratedClassifierCV(svm.SVC(kernel="linear"), ensemble=False),
        "SVC(probability=True), linear": lambda: svm.SVC(kernel="linear", probability=True),
        "calibrated SVC, RBF": lambda: CalibratedClassifierCV(svm.SVC(), ensemble=False),
    }
    lines = []
    for name, rows in _timed_data():
        calls = {rival: partial(_fit_and_predict, rows, StandardScaler(), make()) for rival, make in rivals.items()}
        costs = least_costs({OURS: partial(_fit_and_predict, rows, VBSVC()), **calls}, rounds)
        ours = costs[OURS].cpu
        lines.append([name, f"{1e3 * ours:.0f}", *(f"{costs[rival].cpu / ours:.2f}" for rival in rivals)])
        print(f"{name}: {costs}", file=sys.stderr, flush=True)
    print(f"\nCPU time of a fit and the probabilities of its rows, over that of {OURS}")
    print_table(["", f"{OURS}, ms", *rivals], lines)


def _fit_and_predict(rows: Rows, *steps: Any) -> Array:
    X, y = rows
    return make_pipeline(*steps).fit(X, y).predict_proba(X)


def _timed_data() -> Iterator[tuple[str, Rows]]:
    """Two real tables, and three simulated ones."""
    yield "breast cancer, 569 × 30", datasets.load_breast_cancer(return_X_y=True)
    data = load_spam()
    yield "spam, 4601 × 57", (data.drop(columns="class").to_numpy(dtype=float), (data["class"] == "spam").to_numpy())
    for n, d in ((200, 10), (2000, 20), (10_000, 20)):
        yield f"simulated {n} × {d}", simulate(n, d, 1)[:2]


def _ratio(found: dict[str, tuple[float, float]], rival: str) -> float:
    return found[OURS][0] / found[rival][0] if rival in found else np.nan


def main(arguments: list[str]) -> None:
    """Print one table of all data sets, and one of noise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks probabilities", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of folds, without the largest data sets")
    parser.add_argument("--times", action="store_true", help="CPU times, in place of losses")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of classes that no row is assigned to, and of rivals that do not converge
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    if options.times:
        print_times(rounds=3 if options.quick else 7)
        return
    results, collapsed = {}, set()
    for name, data in data_sets(quick=options.quick):
        results[name] = evaluate(data, quick=options.quick)
        if data.collapses:
            collapsed.add(name)
        print(f"{name}: {results[name]}", file=sys.stderr, flush=True)
    print("\nLog loss on rows left out, ratios of it to those of rivals, and calibration errors in percent")
    header = ["", OURS, *(f"/ {rival}" for rival in (*RIVALS, PSEUDO)), "ECE", *(f"ECE {rival}" for rival in RIVALS)]
    lines = []
    for name, found in results.items():
        ratios = [_ratio(found, rival) for rival in (*RIVALS, PSEUDO)]
        errors = [f"{100 * found[one][1]:.1f}" if one in found else "-" for one in (OURS, *RIVALS)]
        marked = f"{name} *" if name in collapsed else name
        told = ("-" if np.isnan(ratio) else f"{ratio:.3f}" for ratio in ratios)
        lines.append([marked, f"{found[OURS][0]:.4f}", *told, *errors])
    every = np.array([[_ratio(found, rival) for rival in (*RIVALS, PSEUDO)] for found in results.values()])
    means = np.exp(np.nanmean(np.log(every), axis=0))
    print_table(header, [*lines, ["geometric mean", "", *(f"{one:.3f}" for one in means), *[""] * 4]])
    print("*: one class against the rest is seldom or never the likelier side of the hinge")
    print(
        "\nNoise: points between probabilities and the share in the sample: of their mean, of a row, in the worst draw"
    )
    print_table(["", "mean", "row", "worst"], noise())
