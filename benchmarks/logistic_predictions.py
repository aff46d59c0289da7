"""Log loss of VBLogistic on rows left out, beside LogisticRegressionCV and VBSVC; and coefficients of noise columns."""

import sys
import warnings

import numpy as np
import pandas as pd

from benchmarks.probabilities import BY_LOSS, LOGISTIC, DataSet, data_sets, measure, methods, splits
from benchmarks.tables import print_table
from vbsvm import VBSVC, GaussianImputation, Variational, VBLogistic

OURS, AUGMENTED, HINGE = "VBLogistic", "augmented bound", "VBSVC"
RIVALS = (LOGISTIC, BY_LOSS)
ROWS, SETS = 400, 40


def evaluate(data: DataSet, *, quick: bool) -> dict[str, float]:
    """Log loss of each method."""
    X, y = data.rows
    _, codes = np.unique(y, return_inverse=True)
    rivals = methods(data)
    makes = {
        OURS: lambda: VBLogistic(group=data.group),
        AUGMENTED: lambda: VBLogistic(group=data.group, inference=Variational(bound="augmented")),
        HINGE: lambda: VBSVC(group=data.group),
        **{name: rivals[name] for name in RIVALS if name == LOGISTIC or codes.max() < 5},
    }
    chances, truths = {name: [] for name in makes}, []
    for train, test in splits(codes, quick=quick):
        rows = (X.iloc[train], X.iloc[test]) if isinstance(X, pd.DataFrame) else (X[train], X[test])
        truths.append(codes[test])
        for name, make in makes.items():
            chances[name].append(make().fit(rows[0], y[train]).predict_proba(rows[1]))
    truth = np.concatenate(truths)
    return {name: measure(np.concatenate(found), truth)[0] for name, found in chances.items()}


def log_loss(*, quick: bool) -> None:
    """Print log losses and their ratios."""
    warnings.simplefilter("ignore")  # of classes that no row is assigned to, and of rivals that do not converge
    found = {}
    for name, data in data_sets(quick=quick):
        found[name] = evaluate(data, quick=quick)
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    against = (*RIVALS, AUGMENTED, HINGE)
    ratios = {name: [one[OURS] / one.get(rival, np.nan) for rival in against] for name, one in found.items()}
    lines = [[name, f"{found[name][OURS]:.4f}", *(f"{ratio:.3f}" for ratio in ratios[name])] for name in found]
    means = np.exp(np.nanmean(np.log(list(ratios.values())), axis=0))
    print("\nLog loss of VBLogistic on rows left out, and its ratio to that of others")
    print_table(
        ["", OURS, *(f"/ {rival}" for rival in against)],
        [*lines, ["geometric mean", "", *(f"{one:.3f}" for one in means)]],
    )


def noise_columns(*, quick: bool) -> None:
    """Print root mean squares of the coefficient of a column without effect, by its share of missing values."""
    lines = []
    for labels in ("likelihood", "regressor", "none"):
        for estimator in (VBLogistic, VBSVC):
            cells = []
            for share in (0.0, 0.5, 0.8):
                found = []
                for seed in range(5 if quick else SETS):
                    rng = np.random.default_rng(seed)
                    X = rng.normal(size=(ROWS, 2))
                    y = np.where(X[:, 0] + rng.logistic(size=ROWS) > 0, 1, -1)
                    X[rng.random(ROWS) < share, 1] = np.nan
                    clf = estimator(imputation=GaussianImputation(labels=labels)).fit(X, y)
                    found.append(clf.coef_[0, 1])
                cells.append(f"{np.sqrt(np.mean(np.square(found))):.2f}")
            lines.append([f"labels={labels!r}", estimator.__name__, *cells])
    print(f"\nCoefficient of a noise column, root mean square ({ROWS} rows, one input with effect), by share missing")
    print_table(["", "", "0 %", "50 %", "80 %"], lines)
