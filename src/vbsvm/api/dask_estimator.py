"""The classifier of tables that lie in the workers of a Dask cluster."""

from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone

from vbsvm.api.data import inputs
from vbsvm.api.data.dask_partitions import DaskPartitions
from vbsvm.api.data.table_reader import TableReader
from vbsvm.api.estimator import LEARNED, Classifier
from vbsvm.api.estimator_base import Estimator
from vbsvm.api.svc import VBSVC, VBLogistic
from vbsvm.api.task import Task
from vbsvm.base import guesses
from vbsvm.base.arrays import Array
from vbsvm.design.frames import is_collection
from vbsvm.results.fit_predictions import PartitionMethod
from vbsvm.sources.cluster import Cluster, delayed, header, partitions, split_target


def _of_local(name: str) -> Any:
    """The method of this name of the local estimator, which takes rows in memory, such as a sample."""

    @wraps(getattr(Classifier, name))
    def call(self: "DaskClassifier", *args: Any, **kwargs: Any) -> Any:
        return getattr(self.to_local(), name)(*args, **kwargs)

    return call


@dataclass(eq=False, repr=False, kw_only=True)
class DaskClassifier(ClassifierMixin, Estimator):
    """What ``DaskVBSVC`` and ``DaskVBLogistic`` have in common: everything but the likelihood."""

    local: ClassVar[type[Classifier]]
    n_features_in_: int = field(init=False)

    client: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Predictors, in partitions of rows; sizes of chunks may be unknown.
        y : dask array, series or data frame of one column
            Labels, in as many partitions as X, which have the same rows.
        sample_weight : dask array or series, or with ``target`` the name of a column, default None
            Weights, in the same partitions; a weight of 0 leaves the row out.
        target : str, default None
            The column of X with the labels, in place of y: all other columns are predictors.
        """
        return self._fit_tasks(lambda: self._tasks(*_inputs_and_labels(X, y, sample_weight, target)))

    def _tasks(self, X: Any, y: Any, sample_weight: Any) -> list[Task]:
        """Validate the input and build one task for each model, with rows in the cluster."""
        prior, _, imputation = self.check_settings()
        cluster = Cluster.from_client(self.client)
        if self.group is not None:
            inputs.check_group(self.group)
        empty = header(X)
        inputs.read_columns(self, empty, reset=True)
        vars(self).pop("levels_", None)
        inputs.read_rows(empty, self.group, {} if self.categories else None)
        rows = DaskPartitions.from_table(cluster, X, y, sample_weight)
        return self._build_tasks(rows.read(TableReader.from_estimator(self, prior)), imputation)

    def decision_function(self, X: Any) -> Any:
        """Score of each row as in ``VBSVC``: an array, or a series or frame with the index of X; computed on demand."""
        return self._predicted(X, Classifier.decision_function, np.empty((0, len(self._fits))), "score")

    def predict(self, X: Any) -> Any:
        """Class of each row: an array, or a series with the index of X, computed on demand."""
        return self._predicted(X, Classifier.predict, self._classes[:0], "class")

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes: an array, or a frame with the index of X, computed on demand."""
        return self._predicted(X, Classifier.predict_proba, np.empty((0, len(self._classes))), "probability")

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of ``predict_proba``."""
        return self._predicted(X, Classifier.predict_log_proba, np.empty((0, len(self._classes))), "log probability")

    @property
    def _classes(self) -> NDArray[Any]:
        assert self._fits
        return self.classes_

    def _predicted(self, X: Any, method: Any, example: Array, name: str) -> Any:
        """Apply a method of the local estimator to each partition lazily, or at once to data in memory."""
        model = self.to_local()
        if not is_collection(X):
            return method(model, X)
        inputs.read_columns(self, header(X), reset=False)
        if example.ndim == 2 and example.shape[1] == 1:
            example = example[:, 0]
        return PartitionMethod(method.__name__, name, self.classes_, example).of(model, X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None) -> float:
        """Accuracy: proportion of rows whose class is predicted; computed at once. Arguments are those of ``fit``."""
        rows = partitions(*_inputs_and_labels(X, y, sample_weight, target))
        correct = delayed(_correct_weight)
        model = delayed(lambda fitted: fitted)(self.to_local())
        cluster = Cluster.from_client(self.client)
        weights = cluster.sum(np.asarray, cluster.compute([correct(model, row) for row in rows]))
        return float(weights[0] / weights[1])

    summary, tidy, glance = map(_of_local, ("summary", "tidy", "glance"))
    effects, contrasts, slopes = map(_of_local, ("effects", "contrasts", "slopes"))
    predictive, predict_interval = map(_of_local, ("predictive", "predict_interval"))
    report, predict_files, save = map(_of_local, ("report", "predict_files", "save"))

    def to_local(self) -> Classifier:
        """An estimator that knows what has been learned, and needs no cluster."""
        parameters = self.get_params(deep=False)
        parameters.pop("client")
        local = self.local(**parameters)
        learned = {name: value for name, value in vars(self).items() if name in LEARNED}
        vars(local).update(learned, fit_=self._fits)
        return local

    def __getstate__(self) -> dict[str, Any]:
        """What pickles and copies hold: not the client, which belongs to this process."""
        state: Any = super().__getstate__()
        return state | {"client": None}

    def __sklearn_clone__(self) -> Self:
        """An estimator with the same parameters and the same client, which has not been fitted."""
        parameters = self.get_params(deep=False)
        copied: dict[str, Any] = {name: clone(parameters[name], safe=False) for name in parameters if name != "client"}
        return type(self)(client=self.client, **copied)


@final
@guesses.explain(__init__=guesses.SETTINGS)
@dataclass(eq=False, repr=False, kw_only=True)
class DaskVBSVC(DaskClassifier):
    """``VBSVC`` for dask arrays and data frames: rows stay in the workers of a cluster, which send sums.

    Each partition is read once and kept, encoded, by the worker that read it. In each pass over the data the present
    distribution of the coefficients goes to all partitions, and sums of the size of columns × columns come back. What
    is lost with a worker is computed again by others. The result is the same, to the last bit on one kind of processor,
    for every number of workers; it depends on the partitions by rounding.

    Parameters
    ----------
    client : distributed.Client, default None
        The cluster; None is the client that was made last. Pickles and copies of the estimator do not hold it.
    prior, inference, imputation, group, standardize, fit_intercept, class_weight, random_state, …
        As in ``VBSVC``.

    Attributes
    ----------
    classes_, coef_, intercept_, penalty_, elbo_, n_iter_, converged_, fit_, …
        As in ``VBSVC``. Standard deviations, and the link from scores to probabilities, are learned in fit. Robust
        standard deviations go by the curvature at the mean, as they do in large tables in memory.
    """

    likelihood = VBSVC.likelihood
    local = VBSVC

    likelihood_power: float | str | None = None


@final
@guesses.explain(__init__=guesses.SETTINGS)
@dataclass(eq=False, repr=False, kw_only=True)
class DaskVBLogistic(DaskClassifier):
    """``VBLogistic`` for dask arrays and data frames: see ``DaskVBSVC``.

    Parameters
    ----------
    client : distributed.Client, default None
        The cluster; None is the client that was made last. Pickles and copies of the estimator do not hold it.
    prior, inference, imputation, group, standardize, fit_intercept, class_weight, random_state, …
        As in ``VBLogistic``.

    Attributes
    ----------
    classes_, coef_, intercept_, penalty_, elbo_, n_iter_, converged_, fit_, …
        As in ``VBLogistic``.
    """

    likelihood = VBLogistic.likelihood
    local = VBLogistic


def _inputs_and_labels(X: Any, y: Any, sample_weight: Any, target: str | None) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights; labels as such, or as a column of the inputs' frame."""
    if (y is None) == (target is None):
        raise ValueError("Give the labels as y, or the name of their column in X as target: one of the two.")
    return (X, y, sample_weight) if target is None else split_target(X, target, sample_weight)


def _correct_weight(model: Classifier, rows: tuple[Any, Any, Any]) -> Array:
    """Total weight of the correctly classified rows, and of all rows."""
    X, y, sample_weight = rows
    labels = np.asarray(y).reshape(-1)
    if not len(labels):
        return np.zeros(2)
    s = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64).reshape(-1)
    return np.array([s @ (model.predict(X) == labels), s.sum()])
