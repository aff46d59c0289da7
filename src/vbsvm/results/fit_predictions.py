"""What a fit says of rows: scores, classes and probabilities."""

import os
from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded, Plan
from vbsvm.missing.categories import FixedLevels, LevelDistributions
from vbsvm.missing.imputation import Population, with_index
from vbsvm.missing.model import MissingModel
from vbsvm.model.spec import Spec
from vbsvm.results import prediction, same_frame
from vbsvm.results.effect_rows import row_weights
from vbsvm.results.intervals import SpreadShelf
from vbsvm.results.lazy_predictions import PartAnswer
from vbsvm.results.posterior import Posterior
from vbsvm.results.prediction import Link
from vbsvm.results.words import noted
from vbsvm.sources import cluster as collections

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader


class FitPredictions(ABC):
    """Predictions of one two-class model."""

    spec: Spec
    plan: Plan
    classes: NDArray[Any]
    reader: "Reader | None"

    @property
    def posterior(self) -> Posterior:
        """What is believed of the model's parameters."""
        raise NotImplementedError

    @property
    def _shelf(self) -> SpreadShelf:
        """Spreads by kind."""
        raise NotImplementedError

    @property
    def input_population(self) -> Population | None:
        """Mean and covariance of the inputs."""
        raise NotImplementedError

    @property
    def score_calibration(self) -> Link | None:
        """How scores become probabilities."""
        raise NotImplementedError

    def decision_function(
        self, data: Any, *, return_std: bool = False, new_groups: str = "population"
    ) -> Array | tuple[Array, Array]:
        """Mean score of each row, and on request its standard deviation.

        A group that was not seen in fit gets the population's score, and the variance of its effects is added to the
        score's; ``new_groups="error"`` refuses it.
        """
        if collections.is_collection(data) and not return_std:
            return self._lazy("decision_function", "score", np.empty(0), data, new_groups)
        encoded = self._read(data, new_groups)
        if not return_std:
            return self._mean_scores(encoded).mean
        found = prediction.score_moments(
            self.plan, self.spec, self._shelf.of_scores.state, encoded, lambda: self.input_population
        )
        found = self._averaged(found, encoded)
        return found.mean, np.sqrt(found.variance)

    def predictive(self, data: Any, *, new_groups: str = "population") -> "pd.DataFrame":
        """Mean and standard deviation of each row's score, and the probability that it is positive.

        The spread is that of the coefficients, and of missing inputs and new groups: with all coefficients known it
        would be 0. ``predict_proba`` is about the class of a row instead.
        """
        mean, sd = self.decision_function(data, return_std=True, new_groups=new_groups)
        table = with_index(prediction.table(mean, sd), data)
        return same_frame.like(data, noted(table, self._shelf.of_scores.words, "sd"))

    def predict(self, data: Any, *, new_groups: str = "population") -> NDArray[Any]:
        """Class of each row: by the sign of its score.

        Rows of a dask data frame are predicted when they are asked for: this, ``predict_proba``, ``predict_log_proba``
        and ``decision_function`` then give a series or a frame of Dask.
        """
        if collections.is_collection(data):
            return self._lazy("predict", "class", self.classes[:0], data, new_groups)
        scores = self._mean_scores(self._read(data, new_groups)).mean
        return self.classes[(scores > 0).astype(np.intp)]

    def score(self, data: Any, weights: str | ArrayLike | None = None, *, new_groups: str = "population") -> float:
        """Share of rows whose outcome, a column of ``data`` as in fit, is the predicted one.

        ``weights`` are a column of the data or a number for each row: a weight of k counts as k rows.
        """
        predicted, labels = self.predict(data, new_groups=new_groups), self.known_outcome(data)
        return float(np.average(predicted == labels, weights=row_weights("score", data, weights)))

    def known_outcome(self, data: Any) -> NDArray[Any]:
        """The class of each row, by the outcome's column of the data; refuse what was no class in fit."""
        if self.reader is None:
            raise TypeError("This fit belongs to an estimator: use the methods of the estimator.")
        outcome = frames.take(data, [self.reader.parts.outcome])[self.reader.parts.outcome]
        labels, rest = outcome.to_numpy(), f"not {self.classes[1]}"
        if self.classes[0] == rest:
            labels = np.where(labels == self.classes[1], self.classes[1], self.classes[0])
        unknown = ~np.isin(labels.astype(object), self.classes.astype(object))
        if unknown.any():
            row = int(np.argmax(unknown))
            raise ValueError(f"The outcome of row {row} is {labels[row]!r}; in fit there were {list(self.classes)}.")
        return labels

    def predict_proba(self, data: Any, *, new_groups: str = "population") -> Array:
        """Probabilities of the two classes; the larger belongs to the predicted class.

        Those of a hinge likelihood are its scores passed through a link that is fitted to leave-one-out scores, which
        can be far off (``report`` and ``effects`` check them); those of a logistic one are averaged over the posterior.
        They speak of the population of the weights. If inputs are missing or a group was not seen in fit, they are
        averaged over their possible values.
        """
        if collections.is_collection(data):
            return self._lazy("predict_proba", "probability", np.empty((0, 2)), data, new_groups)
        return prediction.probabilities(self._log_odds(data, new_groups))

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

        if self.reader is None:
            raise ValueError(
                "This is one of a VBSVC's models, which knows no columns: call predict_files of the VBSVC."
            )
        columns, text = self.reader.columns, predicted_files.text_columns(self.reader)
        added: dict[str, Any] = {"keep": keep, "proba": proba, "scores": scores}
        return predicted_files.write(self, files, to, columns=columns, text=text, classes=self.classes, **added)

    def predict_log_proba(self, data: Any, *, new_groups: str = "population") -> Array:
        """Logarithms of ``predict_proba``, which are finite also where a probability is too small for a number."""
        if collections.is_collection(data):
            return self._lazy("predict_log_proba", "log probability", np.empty((0, 2)), data, new_groups)
        return prediction.log_probabilities(self._log_odds(data, new_groups))

    def _lazy(self, method: str, name: str, example: NDArray[Any], data: Any, new_groups: str) -> Any:
        """What a method gives for rows in a cluster, computed there when it is asked for."""
        if collections.is_array(data):
            raise TypeError("data must be a data frame with named columns; got a dask array.")
        return PartAnswer(method, name, self.classes, example, {"new_groups": new_groups}).of(self, data)

    def _log_odds(self, data: Any, new_groups: str) -> Array:
        return prediction.log_odds([self._odds_scores(self._read(data, new_groups))], [self.score_calibration])

    def pseudo_probability(self, data: Any, *, new_groups: str = "population") -> Array:
        """Probabilities by the normalised pseudo-likelihood e^{−2(1 − f)₊} : e^{−2(1 + f)₊}; they are not calibrated.

        These are what the model itself says of a label. They are averaged like those of ``predict_proba``.
        """
        if self.spec.likelihood.normalised:
            raise AttributeError("pseudo_probability is for the hinge likelihood: this one has probabilities itself.")
        found = [self._mean_scores(self._read(data, new_groups))]
        return prediction.probabilities(prediction.pseudo_log_odds(found))

    def _mean_scores(self, encoded: Encoded) -> prediction.Scores:
        found = prediction.mean_scores(
            self.plan, self.spec, self.posterior.state, encoded, lambda: self.input_population
        )
        return self._averaged(found, encoded)

    def _odds_scores(self, encoded: Encoded) -> prediction.Scores:
        """What probabilities are made of: with the spread of the coefficients where they are averaged over it."""
        if not self.spec.likelihood.normalised:
            return self._mean_scores(encoded)
        state = self.posterior.state
        found = prediction.score_moments(self.plan, self.spec, state, encoded, lambda: self.input_population)
        return self._averaged(found, encoded)

    def _averaged(self, found: prediction.Scores, encoded: Encoded) -> prediction.Scores:
        """Average over the levels of missing categories; an estimator looks at its scores itself."""
        if self.reader is None:
            return found
        if encoded.candidates is not None:
            found = prediction.averaged(found, *self._shares(encoded.candidates, encoded.table))
        return prediction.require_finite(found, encoded, lambda: self.input_population)

    def _log_chances(
        self,
        candidates: Candidates,
        table: NDArray[np.floating],
        signs: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Log probability of each candidate, whose label need not be known; of drawn parameters on request."""
        assert self.reader is not None
        given = self._held_levels
        if given is not None:
            levels = given.without_labels if rng is None else given.draw(rng, labelled=signs is not None)
            return given.of_table(levels, candidates, self.plan.recipe, table, signs)
        learned = getattr(self.posterior.state.missing, "levels", None)
        distributions = learned or LevelDistributions.of(tuple(1.0 + one for one in self.reader.categories.counts))
        if rng is not None:
            return candidates.log_chances(distributions.draw(rng).logs)
        return candidates.log_chances(tuple(np.log(one / one.sum()) for one in distributions.concentrations))

    def _log_label_chances(self, encoded: Encoded, signs: Array) -> Array:
        """Log probability of these labels, for each candidate as if its values were known."""
        state = self.posterior.state
        scores = prediction.mean_scores(self.plan, self.spec, state, encoded, lambda: self.input_population)
        return log_expit(signs * prediction.log_odds([scores], [self.score_calibration])[:, 0])

    @property
    def _held_levels(self) -> FixedLevels | None:
        """What missing categories depend on, where some were missing in fit."""
        missing = self.spec.missing
        levels = missing.levels if isinstance(missing, MissingModel) else None
        return None if levels is None else levels.given

    def summed_slopes(self, encoded: Encoded, of_rows: Array) -> Array:
        """Cᵀu for each column u of ``of_rows``: how sums over rows answer to the coefficients of columns."""
        if encoded.candidates is not None:
            row, shares = self._shares(encoded.candidates, encoded.table)
            of_rows = shares[:, None] * of_rows[row]
        return prediction.cross(self.plan, encoded, lambda: self.input_population, of_rows)

    def score_changes(self, encoded: Encoded, changes: Array) -> Array:
        """What changes of the columns' coefficients (each a row of ``changes``) add to the rows' scores."""
        found = prediction.scores_at(self.plan, encoded, lambda: self.input_population, changes)
        if encoded.candidates is None:
            return found
        _, shares = self._shares(encoded.candidates, encoded.table)
        return np.add.reduceat(shares[:, None] * found, encoded.candidates.firsts, axis=0)

    def _shares(self, candidates: Candidates, table: NDArray[np.floating]) -> tuple[NDArray[np.intp], Array]:
        """The row of each candidate, and its share of that row."""
        return candidates.row, candidates.softmax(self._log_chances(candidates, table))

    def _read(self, data: Any, new_groups: str) -> Encoded:
        if new_groups not in ("population", "error"):
            raise ValueError(f"new_groups must be 'population' or 'error'; got {new_groups!r}.")
        if isinstance(data, Encoded):
            encoded = data
        elif self.reader is None:
            raise TypeError("This fit belongs to an estimator: use the methods of the estimator.")
        else:
            encoded = self.reader.read(data)
        unseen = encoded.first_unseen() if new_groups == "error" else None
        if unseen is not None:
            factor, row = unseen
            raise ValueError(
                f"The group of row {row} in {self.plan.factors[factor].name!r} was not seen in fit. "
                "new_groups='population' gives such rows the population's score."
            )
        return encoded
