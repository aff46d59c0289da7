"""What a fitted estimator says of rows: scores, classes and probabilities."""

import os
from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vbsvm.api import inputs, validation
from vbsvm.api.fitted_attributes import FittedAttributes
from vbsvm.api.table_effects import TableColumns, TableRows
from vbsvm.base.arrays import Array
from vbsvm.design.columns import Encoded
from vbsvm.missing import patterns
from vbsvm.results import fit_predictions, prediction, tables
from vbsvm.results.effect_rows import GivenRows
from vbsvm.results.effects import AverageEffects, Subject, subject_of
from vbsvm.results.leave_one_out import leave_one_out
from vbsvm.results.left_out_predictions import LeftOutPredictions

if TYPE_CHECKING:
    import pandas as pd


class Predictions(FittedAttributes, AverageEffects, BaseEstimator, ABC):
    """Predictions from ``fit_``: k models, one for two classes, else one for each class."""

    categories: str | None
    levels_: dict[Any, NDArray[Any]]

    def decision_function(self, X: ArrayLike) -> Array:
        """Score of each row: shape (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes).

        With several classes it is the score f of each class against the rest times that class's ``slopes_``: scores of
        different models have different units, and only with these do they agree with the probabilities. With a
        logistic likelihood it is the log odds of each class's probability, which is averaged over the posterior. A
        missing input (NaN) is replaced by its expected value given the other inputs of the row.
        """
        averaged = len(self._fits) > 1 and self._fits[0].spec.likelihood.normalised
        values = prediction.decision_values(self._scores(X, for_odds=averaged), [fit.calibration for fit in self.fit_])
        return values[:, 0] if values.shape[1] == 1 else values

    def _scores(self, X: ArrayLike, *, for_odds: bool = False) -> list[prediction.Scores]:
        """Scores of each row in the k models, and their variances, as far as probabilities are averaged over them."""
        encoded, of = self._read(X), fit_predictions.odds_scores if for_odds else fit_predictions.mean_scores
        found = [of(fit, encoded) for fit in self.fit_]
        scores = np.stack([one.mean for one in found], axis=1)
        if not np.isfinite(scores).all():
            fills = self.fit_[0]._input_population is not None
            validation.require_finite_scores(encoded.table, scores, validation.column_names(self), fills=fills)
        return found

    def _read(self, X: ArrayLike) -> Encoded:
        check_is_fitted(self)
        table, members = inputs.read_table(self, X, reset=False)
        return Encoded(table, () if members is None else (self.fit_[0].plan.factors[0].encode([members]),))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row: by the sign of its score, or the largest score of several classes."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes; the largest belongs to the predicted class.

        Those of ``VBSVC`` are its scores passed through an increasing link that is fitted to leave-one-out scores. An
        SVM learns which class is likelier, not how likely: with few or discrete predictors, or a rare class, they can
        be far off; ``report``, ``plots.calibration`` and ``effects`` compare them with observed proportions. Those of
        ``VBLogistic`` are averaged over the posterior. All are about the population of ``sample_weight``: with
        ``class_weight``, which moves the decision boundary, the predicted class may not be the more probable one. With
        several classes the odds of any two are the ratio of their own odds against the rest. If predictors are missing
        or a group was not seen in fit, the probabilities are averaged over their possible values.
        """
        return prediction.probabilities(self._log_odds(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithms of ``predict_proba``, which are finite also where a probability is too small for a number."""
        return prediction.log_probabilities(self._log_odds(X))

    def _log_odds(self, X: ArrayLike) -> Array:
        return prediction.log_odds(self._scores(X, for_odds=True), self._links)

    @property
    def _links(self) -> list[prediction.Link | None]:
        return [fit._link for fit in self.fit_]

    @property
    def text_columns(self) -> set[str]:
        """Group and categories whose labels are text: text again where a file holds none but such as "1" and "2"."""
        labels = dict(getattr(self, "levels_", {}))
        if self.group is not None:
            labels[self.group] = self.fit_[0].plan.factors[0].levels.parts[0]
        return {str(name) for name, own in labels.items() if isinstance(own[0], str)}

    def predict_files(
        self,
        files: Any,
        to: str | os.PathLike[str],
        *,
        proba: bool = False,
        scores: bool = False,
        keep: Sequence[str] = (),
    ) -> int:
        """Predict the rows of files, which need not fit in memory, and write them to a file; give their number.

        Parameters
        ----------
        files : str, path, list of them, or Files
            Names of Parquet or CSV files, a pattern such as ``"new/*.parquet"``, or a folder.
        to : str or path
            The file that is written, .parquet or .csv: a row for each, in the same order. One that exists is replaced
            when all rows are there.
        proba, scores : bool, default False
            Add the probability of each class, and the score.
        keep : list of str, default ()
            Columns of the files that are copied, such as an identifier.
        """
        from vbsvm.results import predicted_files

        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise ValueError("This was fitted to an array, whose columns have no names that could be found in files.")
        added: dict[str, Any] = {"keep": keep, "proba": proba, "scores": scores}
        columns = [str(name) for name in names]
        return predicted_files.write(
            self, files, to, columns=columns, text=self.text_columns, classes=self.classes_, **added
        )

    def left_out_predictions(self, refits: int | None = None, folds: int | None = None) -> LeftOutPredictions:
        """Predict each training observation by a fit without it; ``compare_models`` asks for it.

        With up to ``refits`` observations the fit is repeated without each of them. Else predictions are approximate,
        by one step from the fit to all; where that may be far off, they come from refits without single observations,
        or in up to 50 folds, within the same limit. ``refits=None`` is 200, or 10 where observations × coefficients
        exceed 50 000; 0 gives the approximation, and ``folds=k`` so many folds. ``method`` of the result says what was
        done. In refits columns are standardised as in the fit to all.
        """
        return leave_one_out(self._fits, self.classes_, refits, folds)

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
        """Mean and standard deviation of each row's score, and the probability that it is positive.

        The spread is that of the coefficients, and of missing inputs and new groups: with all coefficients known it
        would be 0. ``predict_proba`` is about the class of a row instead. With several classes the first index level
        is the class, and scores are those of each class against the rest, without ``slopes_``.
        """
        encoded = self._read(X)
        frames = [patterns.with_index(fit.predictive(encoded), X) for fit in self._fits]
        return tables.like(X, frames[0] if len(frames) == 1 else self._by_class(frames))
