"""Classifiers in the manner of scikit-learn: validate, build the same ``Spec`` as everyone else, hold the ``Fit``."""

import numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vbsvm.api import online, sensitivity, validation
from vbsvm.api.data import inputs, label_checks
from vbsvm.api.data.partitions import MemoryPartitions
from vbsvm.api.data.table_reader import ReadTable, TableReader
from vbsvm.api.estimator_base import Estimator
from vbsvm.api.fit_warnings import Remark
from vbsvm.api.sklearn_support import InputSelection, linear_classifier
from vbsvm.api.task import Task
from vbsvm.base import guesses
from vbsvm.base.arrays import Array
from vbsvm.base.settings import check_flag
from vbsvm.design.columns import Encoded
from vbsvm.inference.gibbs import Gibbs
from vbsvm.missing.imputation import with_index
from vbsvm.model.priors import LaplaceZero
from vbsvm.model.spec import State
from vbsvm.results import fit_predictions, imputation, prediction, tables
from vbsvm.results.effects.marginal import AverageEffects, Subject, subject_of
from vbsvm.results.effects.rows import GivenRows, TableColumns, TableRows
from vbsvm.results.fit import Fit
from vbsvm.sources.files import Files
from vbsvm.storage.atomic import check_path

if TYPE_CHECKING:
    import pandas as pd

# Attributes that fit sets in addition to its models.
LEARNED = ("classes_", "n_features_in_", "feature_names_in_", "levels_")


@guesses.explain(summary=guesses.SUMMARY, predict=guesses.PREDICTION)
@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, InputSelection, Estimator, AverageEffects, fit_predictions.Predictor):
    """What ``VBSVC`` and ``VBLogistic`` have in common: everything but the likelihood."""

    n_features_in_: int = field(init=False)
    _stream: online.Stream = field(init=False)

    warm_start: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame or scipy.sparse array of shape (n_samples, n_features)
            Predictors. A float32 or float64 array of any memory order is read in place and never copied; with
            ``group``, the other columns of an array are copied once. NaN, None, NA and masked cells are missing values.
            A sparse table stays sparse; it supports neither missing values nor ``group``.
        y : array-like of shape (n_samples,)
            Labels: text, numbers or booleans. The second of two classes in sorted order is the positive one.
        sample_weight : array-like of shape (n_samples,), default None
            A weight of k counts as k identical rows (in large tables up to the tolerance of the fit); a weight of 0
            excludes the row.
        """
        return self._fit_tasks(lambda: self._tasks(X, y, sample_weight))

    def _fit(self, tasks: list[Task]) -> tuple[tuple[Fit, ...], list[Remark]]:
        """The fits; sums of earlier ``partial_fit`` calls are discarded."""
        vars(self).pop("_stream", None)
        return super()._fit(tasks)

    def _initial_states(self, tasks: list[Task]) -> list[State] | None:
        """Final states of the last fit if ``warm_start``, else None."""
        check_flag(type(self).__name__, warm_start=self.warm_start)
        return online.warm_starts(self.fit_, tasks) if self.warm_start and hasattr(self, "fit_") else None

    @available_if(online.supports_partial_fit)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the fit with a batch of observations (online learning).

        Past observations are kept as sums: a second-order approximation of their term of the ELBO, around the
        coefficients at the time of their batch (streaming variational Bayes). The result approximates that of ``fit``
        to all data if batches have many more rows than columns, and all classes. It needs variational Bayes and
        complete dense tables, without ``group`` and ``LaplaceZero``. After ``fit`` it continues from that fit, if its
        rows are in memory: a model from a file has none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Predictors, without missing values.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default None
            All classes; needed in the first call unless its batch has them all.
        sample_weight : array-like of shape (n_samples,), default None
            Weights of the rows.
        """
        stream = vars(self).get("_stream")

        def absorbed() -> tuple[tuple[Fit, ...], list[Remark]]:
            self._stream, fits = online.learn_batch(self, stream, X, y, classes, sample_weight)
            return fits, []

        return self._replace_fit(absorbed)

    def fit_files(
        self, files: Any, target: str, *, features: Sequence[str] | None = None, weights: str | None = None
    ) -> Self:
        """Fit the model to rows in files, which need not fit in memory.

        The files are read in pieces, and their rows are cached on disk during the fit. ``predict_proba``, ``summary``
        and other methods that need the training data work as after ``fit``, as long as this object exists.

        Parameters
        ----------
        files : str, path, list of them, or Files
            Names of Parquet or CSV files, a pattern such as ``"data/*.parquet"``, or a folder. ``Files(…)`` sets a
            limit of memory, a folder for the rows, and whether progress is shown.
        target : str
            The column of labels.
        features : list of str, default None
            The columns of predictors, and of ``group`` if any; None means all but target and weights.
        weights : str, default None
            A column of weights: a weight of k counts as k identical rows, and one of 0 excludes the row.
        """
        from vbsvm.api.data.file_partitions import FileColumns, FilePartitions

        named = Files.of(files)
        opened = named.opened()
        columns = FileColumns.from_names(opened.names, target, features, weights)

        def tasks() -> list[Task]:
            prior, _, settings = self.check_settings()
            vars(self).pop("levels_", None)
            about = columns.settings(opened.types, self)
            inputs.read_columns(self, inputs.header(columns.features), reset=True)
            reader = TableReader.from_estimator(self, prior, **about)
            return self._build_tasks(FilePartitions(named, opened, columns).read(reader), settings)

        return self._fit_tasks(tasks)

    def _tasks(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> list[Task]:
        """Validate the input and build the tasks: one for two classes, else one per class against the rest."""
        prior, inference, settings = self.check_settings()
        vars(self).pop("levels_", None)
        y = label_checks.read_labels(y)
        table, labels, members = inputs.read_data(self, X, y, sample_weight)
        weights = label_checks.read_weights(sample_weight, table.shape[0])
        rows = MemoryPartitions(ReadTable(table, labels, weights, members))
        # draws are identical to those without rows of weight 0
        reader = TableReader.from_estimator(self, prior, drop_zero_weights=isinstance(inference, Gibbs))
        return [replace(task, data=X) for task in self._build_tasks(rows.read(reader), settings)]

    def decision_function(self, X: ArrayLike) -> Array:
        """Decision values: shape (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes).

        With several classes they are the linear predictors f of each class against the rest times its ``slopes_``,
        which puts the models on one scale, that of the probabilities. With a logistic likelihood they are the log odds
        of each class's posterior mean probability. A missing predictor (NaN) is replaced by its expected value given
        the observed ones.
        """
        averaged = len(self._fits) > 1 and self._fits[0].spec.likelihood.normalised
        values = prediction.decision_values(self._scores(X, for_odds=averaged), [fit.calibration for fit in self.fit_])
        return values[:, 0] if values.shape[1] == 1 else values

    def _scores(self, X: ArrayLike, *, for_odds: bool = False) -> list[prediction.Scores]:
        """Linear predictors of each row in the k models, and the variances over which probabilities are averaged."""
        encoded, of = self._read(X), fit_predictions.odds_scores if for_odds else fit_predictions.mean_scores
        scores_by_model = [of(fit, encoded) for fit in self.fit_]
        scores = np.stack([model_scores.mean for model_scores in scores_by_model], axis=1)
        if not np.isfinite(scores).all():
            fills = self.fit_[0]._input_population is not None
            validation.check_finite_scores(encoded.table, scores, validation.column_names(self), fills=fills)
        return scores_by_model

    def _read(self, X: ArrayLike) -> Encoded:
        check_is_fitted(self)
        table, members = inputs.read_table(self, X, reset=False)
        return Encoded(table, () if members is None else (self.fit_[0].plan.factors[0].encode([members]),))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted classes: by the sign of the decision value, or the largest of several."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes; the predicted class has the largest.

        Those of ``VBSVC`` are a monotone transform of decision values, fitted to leave-one-out decision values. An SVM
        estimates which class is more probable, not its probability: with few or discrete predictors, or a rare class,
        they can be poorly calibrated; ``report``, ``plots.calibration`` and ``effects`` compare them with observed
        proportions. Those of ``VBLogistic`` are posterior means. All refer to the population of ``sample_weight``: with
        ``class_weight``, which moves the decision boundary, the predicted class may not be the more probable one. With
        several classes the odds of any two are the ratio of their odds against the rest. They are averaged over the
        distributions of missing predictors and of new levels' random effects.
        """
        return prediction.probabilities(self._log_odds(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> "pd.DataFrame":
        """Probability of ``classes_[1]`` for each row with its interval, for two classes; see ``Fit``.

        ``estimate`` is that of ``predict_proba``, whose limits for support vector machines apply here, too.
        """
        if len(self._fits) > 1:
            raise ValueError("predict_interval is only available for two classes: fit one class against the rest.")
        return fit_predictions.predict_interval(self.fit_[0], self._read(X), self.predict_proba(X), X, level)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithms of ``predict_proba``, finite even if a probability underflows."""
        return prediction.log_probabilities(self._log_odds(X))

    def _log_odds(self, X: ArrayLike) -> Array:
        return prediction.log_odds(self._scores(X, for_odds=True), [fit._link for fit in self.fit_])

    @property
    def _text_columns(self) -> set[str]:
        """Group and categories whose labels are text: read as text from files, even if they look like numbers."""
        labels = dict(getattr(self, "levels_", {}))
        if self.group is not None:
            labels[self.group] = self.fit_[0].plan.factors[0].levels.parts[0]
        return {str(name) for name, column_labels in labels.items() if isinstance(column_labels[0], str)}

    def _models(self) -> tuple[Sequence[Fit], NDArray[Any]]:
        return self._fits, self.classes_

    def _file_columns(self) -> tuple[Sequence[str], set[str]]:
        """Columns of the table, and those to be read as text; raise for those of an array."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise ValueError("This was fitted to an array without column names: to use files, fit it to a data frame.")
        return [str(name) for name in names], self._text_columns

    def _effects_subject(self, data: Any, weights: str | ArrayLike | None, covariance: str | None) -> Subject:
        """Of the table's columns; those of an array are called x0, x1, …"""
        fits = self._fits
        factor = fits[0].plan.factors[0] if fits[0].plan.factors else None

        def rows(given: GivenRows) -> TableRows:
            table, members = inputs.read_table(self, given.data, reset=False)
            columns = TableColumns(validation.input_names(self), getattr(self, "levels_", {}), factor)
            return TableRows.of(columns, table, members, given.kept, given.weights)

        return subject_of(fits, self.classes_, data, weights, covariance, rows)

    def predictive(self, X: ArrayLike) -> "pd.DataFrame":
        """Mean and standard deviation of the linear predictor of each row, and the probability that it is positive.

        The standard deviation is the uncertainty about coefficients, missing predictors and new random effects.
        ``predict_proba`` gives probabilities of classes instead. With several classes the first index level is the
        class, and linear predictors are those of each class against the rest, without ``slopes_``.
        """
        encoded = self._read(X)
        frames = [with_index(fit.predictive(encoded), X) for fit in self._fits]
        return tables.like(X, frames[0] if len(frames) == 1 else self._by_class(frames))

    @overload
    def impute(self, X: ArrayLike) -> "tuple[pd.DataFrame, pd.DataFrame]": ...

    @overload
    def impute(
        self, X: ArrayLike, n: int, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "list[pd.DataFrame]": ...

    def impute(
        self, X: ArrayLike, n: int | None = None, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "tuple[pd.DataFrame, pd.DataFrame] | list[pd.DataFrame]":
        """X with missing values imputed by their expected values given the observed ones, and standard deviations.

        The standard deviation of an observed value is 0. With several classes the first model's distribution is used.

        With ``n`` it returns a list of n tables in which missing values and the parameters of their distribution are
        drawn: proper multiple imputation. Fit each, and ``pool`` the fits. For the training data give the labels as
        ``y``: without them as regressors of missing values, coefficients of incomplete columns are underestimated.
        """
        encoded, names = self._read(X), validation.column_names(self)
        validation.check_finite(encoded.table, names)
        if n is None:
            expected, spread = (with_index(table, X) for table in self._fits[0].impute(encoded))
            return tables.like(X, expected), tables.like(X, spread)
        if getattr(self, "levels_", None):
            raise ValueError("impute: draws of encoded categories are not supported: use Model(…).fit().impute.")
        frame, columns = imputation.as_frame(X, names, self.group)
        labels = None if y is None else imputation.label_columns(y, self.classes_, len(encoded.table))
        drawn = imputation.drawn_inputs(self._fits[0], encoded.table, np.arange(len(names)), n, labels, random_state)
        return [tables.like(X, imputation.with_values(frame, columns, values)) for values in drawn]

    def missing_information(self) -> "pd.Series":
        """Fraction of missing information (FMI) of each coefficient, for two classes; see ``Fit``."""
        first, *others = self._fits
        if others:
            raise ValueError("missing_information: with several classes call it on one of the fits, as in clf.fit_[0].")
        return first.missing_information()

    def missing_summary(self) -> "pd.DataFrame":
        """Patterns of missing predictors in the training data (True is missing), the most frequent first."""
        return self._fits[0].missing_summary()

    @property
    def _selects_inputs(self) -> bool:
        return isinstance(self.prior, LaplaceZero) or self.prior == "laplace-zero"

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse tables are supported; a transformer if the prior selects predictors."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = tags.transformer_tags if self._selects_inputs else None
        tags.input_tags.sparse = True
        return tags

    def sensitivity(
        self,
        X: ArrayLike,
        y: ArrayLike,
        deltas: Sequence[float],
        columns: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "pd.DataFrame":
        """Sensitivity of the fit to shifts of missing values: a table with one row for each shift, for two classes.

        ``deltas`` are shifts in standard deviations of ``columns`` (all that have missing values by default). Columns
        are the coefficients, and the proportion of complete observations whose predicted class changes (NaN without
        complete ones). ``plots.sensitivity`` draws it. This estimator is not changed.
        """
        tasks = type(self)(**self.get_params(deep=False))._tasks(X, y, sample_weight)
        if len(tasks) > 1:
            raise ValueError("sensitivity is only available for two classes: fit one class against the rest.")
        return sensitivity.table(type(self).__name__, tasks, self.inference, self._likelihood_power(), deltas, columns)

    def to_sklearn(self) -> LinearSVC | LogisticRegression:
        """A fitted linear classifier of scikit-learn with the same decision values and predictions.

        It is a ``LinearSVC`` for ``VBSVC`` and a ``LogisticRegression`` for ``VBLogistic``; the probabilities of the
        latter, and its decision values of several classes, are those at the posterior means, with class weights not
        corrected for. It predicts without vbsvm, and converters such as skl2onnx support it. With several classes its
        coefficients are ``coef_`` times ``slopes_``. It needs complete rows, and models without random effects.
        """
        if self.group is not None:
            raise ValueError(
                "to_sklearn: this model has random effects (group=), which a linear classifier cannot represent: "
                "use save."
            )
        if getattr(self, "levels_", None):
            raise ValueError(
                "to_sklearn: a linear classifier takes numbers only, and this model encodes categories: use save."
            )
        return linear_classifier(self._fits, self.classes_, getattr(self, "feature_names_in_", None))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the classifier, without its data, to a file for ``vbsvm.load``.

        A model in the file is replaced; a file that holds anything else only with ``overwrite=True``.
        A ``random_state`` that is a generator is saved as None.
        """
        from vbsvm.storage import saving

        saving.check_target(path, overwrite=overwrite)
        fits = [fit._contents() for fit in self._fits]
        parameters = self.get_params(deep=False)
        if not isinstance(self.random_state, numbers.Integral):
            parameters["random_state"] = None
        learned = {name: value for name, value in vars(self).items() if name in LEARNED}
        saving.write(path, type(self).__name__, {"parameters": parameters, "learned": learned, "fits": fits})

    def to_arviz(self, *, log_likelihood: bool = False) -> Any:
        """Draws of ``Gibbs`` for ArviZ, for two classes; with several call it on one of ``fit_``."""
        if len(self._fits) > 1:
            raise AttributeError("to_arviz is only available for two classes: call it on one of the fits in fit_.")
        return self.fit_[0].to_arviz(log_likelihood=log_likelihood)

    def report(
        self,
        path: Any,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        title: str | None = None,
        covariance: str | None = None,
    ) -> Path:
        """Write a self-contained HTML report: predictive performance, effects, coefficients, checks, limitations.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced.
        X, y : table and labels, default None
            Training or test data, for which the report adds the predictive performance. Training data get leave-one-out
            predictions if the fit has them in memory; a loaded model has not.
        title : str, default None
            Heading of the page.
        covariance : str, default None
            Type of standard error; see ``Fit.summary``.
        """
        from vbsvm import report
        from vbsvm.plots import resolve_fit

        check_path(path)
        if (X is None) != (y is None):
            raise ValueError("report: pass both X and y, or neither.")
        classes = [None] if len(self._fits) == 1 else self.classes_
        predictions = [] if X is None else [resolve_fit.predicted("report", self, X, y, class_) for class_ in classes]
        owner = report.Owner(self, X, covariance)
        return report.write(path, [fit._showing(covariance) for fit in self._fits], predictions, title, owner)

    def summary(self, level: float = 0.95, covariance: str | None = None) -> "pd.DataFrame":
        """Coefficients on the original scale with standard errors, intervals and, if posterior, P(> 0).

        With several classes the first index level is the class. ``covariance`` is "robust", "posterior", "curvature"
        or "mean-field"; None is "robust" for complete data without ``LaplaceZero``: confidence intervals by the
        sandwich estimator. See ``Fit.summary``; ``attrs["note"]`` describes the standard errors of the table.
        """
        frames = [fit.summary(level, covariance) for fit in self._fits]
        return frames[0] if len(frames) == 1 else self._by_class(frames)

    def tidy(self, level: float = 0.95, covariance: str | None = None, exponentiate: bool = False) -> Any:
        """The coefficients as a tidy table: term, estimate, std_error, conf_low, conf_high; see ``Fit.tidy``.

        With several classes the first column is the class.
        """
        frames = [tables.tidy(fit, level, covariance, exponentiate) for fit in self._fits]
        return tables.like_rows(self.fit_[0], tables.by_class(frames, self.classes_))

    def glance(self) -> Any:
        """One row for each model: number of observations and coefficients, ELBO, and whether it converged."""
        frames = [tables.glance(fit) for fit in self._fits]
        return tables.like_rows(self.fit_[0], tables.by_class(frames, self.classes_))
