"""A linear SVM with a dummy column for each group, or without groups; its penalty is tuned by a grid search."""

from typing import Any

from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

C_GRID = [10.0**k for k in range(-3, 4)]


def make(inputs: list[str], group: str | None, C: float | None = None) -> Any:
    """Make the classifier: tuned by balanced accuracy in five folds, or with the penalty given."""
    columns: list[Any] = [(StandardScaler(), inputs)]
    if group is not None:
        columns.append((OneHotEncoder(handle_unknown="ignore"), [group]))
    svm = LinearSVC(loss="hinge", dual=True, max_iter=20_000, random_state=0)
    pipeline = make_pipeline(make_column_transformer(*columns), svm)
    if C is not None:
        return pipeline.set_params(linearsvc__C=C)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return GridSearchCV(pipeline, {"linearsvc__C": C_GRID}, scoring="balanced_accuracy", cv=folds)
