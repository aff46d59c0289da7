"""A first look: real data without tuning, beside a linear SVM that is tuned by a grid search; and a report."""

from os import PathLike

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from vbsvm.api.svc import VBSVC
from vbsvm.base import printing

REPORT = "vbsvm-demo.html"
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def run(report: str | PathLike[str] = REPORT) -> None:
    """Fit, compare, print, and write a report to this path."""
    X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.where(benign, "benign", "malignant")
    print("Breast cancer Wisconsin (diagnostic), as shipped with scikit-learn:")
    print(f"{len(X)} tumours, {X.shape[1]} measurements.\n")

    print(f"{'Five-fold cross-validation':44}accuracy     a fit takes")
    grid = GridSearchCV(make_pipeline(StandardScaler(), SVC(kernel="linear")), {"svc__C": np.logspace(-4, 2, 13)}, cv=5)
    for name, model in {"VBSVC()": VBSVC(), "GridSearchCV of SVC(kernel='linear'), 13 x 5": grid}.items():
        found = cross_validate(model, X, y, cv=FOLDS)
        accuracy, seconds = found["test_score"].mean(), np.median(found["fit_time"])
        print(f"{name:44}{accuracy:8.3f}     {1e3 * seconds:8.0f} ms")

    clf = VBSVC().fit(X, y)
    how = f"{clf.penalty_[0]:.2f}, in {clf.n_iter_} passes over the data"
    table = clf.summary().drop("(intercept)")
    strongest = np.argsort(-(table["coefficient"] / table["sd"]).abs().to_numpy())[:6]
    print(f"\nThe penalty was inferred: {how}. Nothing was tuned.")
    print("The six strongest measurements; positive coefficients mean malignant:\n")
    print(printing.table(table.iloc[strongest]))
    print(f"\n{printing.wrapped(table.attrs['spreads'])}")
    try:
        written = clf.report(report, X, y, title="Breast cancer: malignant or benign")
    except ImportError as error:
        print(f"\nNo report was written. {error}")
    else:
        print(f"\nA report with figures, checks and caveats: {written.resolve()}")
