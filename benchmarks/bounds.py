"""Which bound should be the default? The paper's augmented one and the exact one beside each other.

Balanced error in the nine cells of the paper's simulation and, by repeated shuffled folds, on real tables; time;
passes; and how large coefficients become, which tells where classes separate.
"""

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import RepeatedStratifiedKFold

from benchmarks.real_data import tables
from benchmarks.simulation import CELLS, simulate
from benchmarks.tables import print_table
from vbsvm import VBSVC, Variational

BOUNDS = "augmented", "exact"


def splits(name: str, repeats: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Training and test rows, several times."""
    if name in {f"{n} x {d}" for n, d in CELLS}:
        n, d = map(int, name.split(" x "))
        for seed in range(1, 5 * repeats + 1):
            yield simulate(n, d, seed)
        return
    X, y = tables([name])[name]
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(X, y):
        yield X[train], y[train], X[test], y[test]


def judge(name: str, repeats: int) -> list[str]:
    """A line of the table: errors, their paired difference with its standard error, time and passes."""
    errors, seconds, passes, sizes = ({bound: [] for bound in BOUNDS} for _ in range(4))
    failures = 0
    for X, y, X_test, y_test in splits(name, repeats):
        for bound in BOUNDS:
            begin = time.perf_counter()
            clf = VBSVC(inference=Variational(bound=bound)).fit(X, y)
            seconds[bound].append(time.perf_counter() - begin)
            errors[bound].append(1 - balanced_accuracy_score(y_test, clf.predict(X_test)))
            passes[bound].append(clf.n_iter_)
            sizes[bound].append(max(float(np.abs(fit.posterior.mean).max()) for fit in clf.fit_))
            failures += bound == "exact" and not clf.converged_
    difference = np.subtract(errors["exact"], errors["augmented"])
    return [
        name,
        *(f"{100 * np.mean(errors[bound]):.2f}" for bound in BOUNDS),
        f"{100 * difference.mean():+.2f} ± {100 * difference.std(ddof=1) / np.sqrt(len(difference)):.2f}",
        f"{min(seconds['exact']) / min(seconds['augmented']):.1f}",
        *(f"{np.mean(passes[bound]):.0f}" for bound in BOUNDS),
        *(f"{np.median(sizes[bound]):.2g}" for bound in BOUNDS),
        str(failures),
    ]


def main(arguments: list[str]) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks bounds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition of a few tables")
    parser.add_argument("--repeats", type=int, default=4, help="repetitions of five folds or data sets (default: 4)")
    options = parser.parse_args(arguments)
    names = [f"{n} x {d}" for n, d in CELLS] + list(tables())
    if options.quick:
        names = [names[0], "breast cancer", "wine", "diabetes"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that no row is assigned to
        lines = [judge(name, 1 if options.quick else options.repeats) for name in names]
    print("Balanced error in %, augmented and exact bound, by five folds or data sets, repeated")
    header = ["", *BOUNDS, "exact − augmented", "time ratio", *(f"passes, {bound}" for bound in BOUNDS)]
    print_table([*header, *(f"largest effect, {bound}" for bound in BOUNDS), "not converged"], lines)
