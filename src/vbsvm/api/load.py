"""From a model file back to what was saved."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from vbsvm.api import validation
from vbsvm.api.estimator import LEARNED, Classifier
from vbsvm.api.svc import VBSVC, VBLogistic
from vbsvm.results.consistency import check_agreement
from vbsvm.results.fit import Fit
from vbsvm.storage import saving


def load(path: str | os.PathLike[str]) -> Fit | VBSVC | VBLogistic:
    """Read a file written by ``save`` of a fit or an estimator; predictions and summaries are the same as before.

    Nothing in the file is executed. An invalid file raises ``ModelFileError``.

    Examples
    --------
    >>> import tempfile, vbsvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     vbsvm.VBSVC().fit(X, y).save(f"{place}/model.vbsvm")
    ...     clf = vbsvm.load(f"{place}/model.vbsvm")
    >>> print(f"{clf.score(X, y):.2f}")
    0.99
    """
    estimators = {kind.__name__: partial(_classifier, kind) for kind in (VBSVC, VBLogistic)}
    return saving.read(path, {"Fit": _fit, **estimators})


def _fit(content: Mapping[str, Any]) -> Fit:
    fit = saving.REGISTRY.make(Fit, content)
    check_agreement(fit)
    return fit


C = TypeVar("C", bound=Classifier)


def _classifier(kind: type[C], content: Mapping[str, Any]) -> C:
    clf = kind(**content["parameters"])
    clf.check_settings()
    fits = [_fit(content_of_fit) for content_of_fit in content["fits"]]
    learned = content["learned"]
    classes = learned["classes_"]
    if set(learned) | {"feature_names_in_", "levels_"} != set(LEARNED) or not isinstance(classes, np.ndarray):
        raise ValueError(f"a {kind.__name__} does not learn {sorted(learned)}")
    if len(classes) < 2 or len(fits) != (1 if len(classes) == 2 else len(classes)):
        raise ValueError(f"there are {len(fits)} models of {len(classes)} classes")
    labels = [fit.classes[1] for fit in fits] if len(fits) > 1 else fits[0].classes
    if [*map(str, labels)] != [*map(str, classes)]:
        raise ValueError("its classes are not those of its models")
    for name, value in learned.items():
        setattr(clf, name, value)
    n_columns = learned["n_features_in_"]
    if len(learned.get("feature_names_in_", range(n_columns))) != n_columns:
        raise ValueError(f"it has {n_columns!r} columns, and names of {len(learned['feature_names_in_'])}")
    if validation.column_names(clf) != fits[0].plan.names:
        raise ValueError(f"the columns of its models, {fits[0].plan.names}, are not its own")
    factors = [factor.name for factor in fits[0].plan.factors]
    if factors != ([] if clf.group is None else [str(clf.group)]):
        raise ValueError(f"its group {clf.group!r} is not that of its models")
    clf.fit_ = tuple(fits)
    return clf
