"""GridSearchCV over 13 values of C with 5 folds: of LinearSVC and of SVC."""

from functools import partial

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.methods import Method

# In trial runs the best C lay well inside. Values beyond 100 would only slow SVC down, and flatter our ratio.
GRID = np.logspace(-4, 2, 13)
FOLDS = 5


def make_linear_svc(scoring: str | None = None) -> GridSearchCV:
    """Search for the penalty of the squared hinge loss on standardised inputs."""
    pipeline = make_pipeline(StandardScaler(), LinearSVC(dual=False))
    return GridSearchCV(pipeline, {"linearsvc__C": GRID}, cv=FOLDS, scoring=scoring)


def make_svc(scoring: str | None = None) -> GridSearchCV:
    """Search for the penalty of the hinge loss."""
    return GridSearchCV(SVC(kernel="linear"), {"C": GRID}, cv=FOLDS, scoring=scoring)


# Each is tuned for the error that the comparison reports.
METHODS = (
    Method("grid LinearSVC", partial(make_linear_svc, "balanced_accuracy"), tuned=True),
    Method("grid SVC", partial(make_svc, "balanced_accuracy"), tuned=True),
)
