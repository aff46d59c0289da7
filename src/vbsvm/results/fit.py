"""What a fit knows: one two-class model, its coefficients on the user's scale, and how it was reached."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base import guesses
from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.settings import check_level
from vbsvm.design.columns import Plan
from vbsvm.design.frames import check_in_memory
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.missing.imputation import MissingPatterns, Population, mean_and_covariance, with_index
from vbsvm.model.spec import Spec
from vbsvm.results import arviz, display, imputation, prediction, tables, variance_components, variance_partition
from vbsvm.results import covariance as covariances
from vbsvm.results import fit_predictions as predictions
from vbsvm.results.adapted import adapted
from vbsvm.results.calibration import Calibration, PosteriorMean
from vbsvm.results.covariance import ROBUST, Intervals, LearnedCovariances
from vbsvm.results.effects.marginal import AverageEffects, Subject, subject_of
from vbsvm.results.effects.rows import FormulaRows, row_weights
from vbsvm.results.fit_predictions import Predictor
from vbsvm.results.history import Facts, History, Traces, WorstMixing
from vbsvm.results.notes import noted
from vbsvm.results.posterior import Posterior, posterior_of
from vbsvm.results.training_rows import TrainingRows
from vbsvm.storage.atomic import check_path
from vbsvm.storage.codec import public_fields

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader

INPUTS = "inputs"
# Internal parts of a fit that files store; hidden from tab completion.
_PARTS = {"calibration", "facts", "missing_patterns", "outcome", "plan", "population", "posterior", "reader", "spreads"}


@final
@guesses.explain(guesses.FIT, summary=guesses.SUMMARY, predict=guesses.PREDICTION)
@dataclass(frozen=True, eq=False, repr=False)
class Fit(AverageEffects, Predictor):
    """A fitted two-class model; positive decision values predict the second class.

    Standard errors answer different questions (see ``summary``): by default they are the posterior's in a logistic
    model, and robust in a support vector machine. ``attrs["note"]`` of each table says which it shows.

    Attributes
    ----------
    classes : ndarray of shape (2,)
        The classes; positive decision values predict the second.
    spec : Spec
        The model: its likelihood, and blocks of coefficients with their priors.
    """

    spec: Spec
    plan: Plan
    outcome: OptimizeResult | Sample
    classes: NDArray[Any]
    reader: "Reader | None" = None
    population: Population | None = None
    missing_patterns: MissingPatterns | None = None
    facts: Facts | None = None
    calibration: Calibration | PosteriorMean | None = None
    spreads: LearnedCovariances | None = None
    _rows: TrainingRows | None = None  # as long as they are in memory
    _shown: str | None = None  # default kind of covariance, if set

    def __dir__(self) -> list[str]:
        """Names for tab completion, without internal parts."""
        return sorted({*super().__dir__()} - _PARTS - {*guesses.FIT})

    def __repr__(self) -> str:
        """One line: what was fitted, and how it ended."""
        return display.line(self)

    def __str__(self) -> str:
        """Formula, how it ended, fixed effects and variance components."""
        return display.text(self)

    def _repr_html_(self) -> str:
        """The same in notebooks."""
        return display.html(self)

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior of the model's parameters, from which all results below are computed."""
        rows = self._deferred_rows
        return posterior_of(self.plan, self.spec, self.outcome, None if rows is None else lambda: rows.bounded.bounds)

    @property
    def _deferred_rows(self) -> TrainingRows | None:
        """Training rows if the bounds have not been computed yet, or None."""
        return self._rows if isinstance(self.outcome, OptimizeResult) and self.outcome.bounds_deferred else None

    @cached_property
    def _covariances(self) -> dict[str, Intervals]:
        """Cached covariances of the coefficients, by kind."""
        return {}

    @cached_property
    def _warned(self) -> dict[str, str]:
        """Warnings already issued, by topic."""
        return {}

    def _showing(self, kind: str | None) -> "Fit":
        """Copy of the fit with another default kind of covariance for tables and figures."""
        if kind is None:
            return self
        fit = replace(self, _shown=kind)
        vars(fit).update(_covariances=self._covariances, _warned=self._warned)
        return fit

    @property
    def history(self) -> History:
        """Convergence history of the optimisation, or the chains."""
        return self.posterior.history

    @property
    def elbo(self) -> float:
        """Lower bound on the log evidence of the pseudo-likelihood."""
        self._check_bound("elbo")
        return float(self.history.bounds[-1])

    @property
    def bounds(self) -> Array:
        """The accepted bounds of a variational fit, step by step."""
        self._check_bound("bounds")
        return self.history.bounds

    def starts(self) -> list[tuple[float, int]]:
        """ELBO and number of included predictors for each start, the highest ELBO first."""
        self._check_bound("starts")
        return self.history.starts

    def _check_bound(self, what: str) -> None:
        if not len(self.history.bounds):
            why = "this fit was sampled" if self.posterior.by_draws else "this one knows its covariance by draws only"
            raise AttributeError(f"{what} is only available after variational Bayes with a bound; {why}.")

    @property
    def traces(self) -> Traces:
        """A sampler's draws, parameter by parameter."""
        return self._require_traces("traces")

    def _require_traces(self, what: str) -> Traces:
        if self.history.traces is None:
            raise AttributeError(f"{what} is only available after inference=Gibbs().")
        return self.history.traces

    def worst_mixing(self) -> WorstMixing | None:
        """Largest R̂ and smallest effective sample size of a sampler's parameters, or None if they are sufficient.

        Parameters are coefficients, inclusion indicators and variance components, not single random effects.
        """
        return self.traces.worst()

    @property
    def converged(self) -> bool:
        """Whether the bound converged; or all chains agree (R̂ ≤ 1.01) and have 400 effective draws."""
        return self.history.ending is Status.CONVERGED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return self.history.ending is Status.INTERRUPTED

    @property
    def selects(self) -> bool:
        """Whether the model selects predictors."""
        return self.spec.gate_map is not None

    @property
    def covariance(self) -> Array:
        """Covariance of the effective coefficients of the design's (standardised) columns, of the default kind."""
        return covariances.covariance(self).covariance

    def coefficient_covariance(self, kind: str | None = None) -> "pd.DataFrame":
        """Covariance of the coefficients in ``summary``, the intercept first; see there for the kinds."""
        return tables.coefficient_covariance(self, kind)

    @property
    def coef(self) -> Array:
        """Effective coefficients, on the original scale of the columns."""
        return self.plan.to_user_scale(self.posterior.mean)

    @property
    def coef_std(self) -> Array:
        """Standard deviations of the coefficients, on the original scale of the columns."""
        return self.plan.to_user_scale(np.sqrt(covariances.covariance(self).variances))

    @property
    def coef_cov(self) -> Array:
        """Covariance of the coefficients, on the original scale of the columns."""
        return self.plan.covariance_to_user_scale(self.covariance)

    @property
    def intercept(self) -> float:
        """Score of a raw row of zeros, splines at their mean; 0 in a model without intercept."""
        return float(self.plan.intercept_row @ self.posterior.mean)

    @property
    def intercept_std(self) -> float:
        """Standard deviation of the intercept."""
        return covariances.covariance(self).combination(self.plan.intercept_row, [])[0]

    @property
    def slope(self) -> float:
        """Slope of the log odds by the score at 0; 1 in a file of an older version."""
        return 1.0 if self._link is None else self._link.slope

    @property
    def inclusion_probability(self) -> Array:
        """Inclusion probability E γ of each predictor; 1 without an indicator."""
        return self.plan.shown(self.posterior.inclusion)

    @property
    def sign_probability(self) -> Array:
        """P(v > 0) of each column that users see, for the coefficient that it has if it is included."""
        return self.plan.shown(self.posterior.sign_probabilities)

    @property
    def likelihood_power(self) -> float:
        """The power of the pseudo-likelihood; 1 with a logistic likelihood."""
        return self.spec.likelihood_power

    @property
    def penalty(self) -> float:
        """E[α] = E[σ⁻²]/4 of the predictors' prior, for the standardised columns: the paper's penalty parameter."""
        names = [block.name for block in self.spec.blocks]
        return 0.25 * self.posterior.inverse_scale(names.index(INPUTS))

    def summary(self, level: float = 0.95, covariance: str | None = None) -> "pd.DataFrame":
        """One row for each coefficient: mean, standard deviation, interval, and the probability that it is positive.

        With a logistic likelihood coefficients are log odds, and ``odds_ratio`` is what they multiply the odds by.

        Parameters
        ----------
        level : float, default 0.95
            Level of the intervals.
        covariance : "robust", "posterior", "curvature" or "mean-field", default None
            Type of standard error. "robust" gives confidence intervals by the sandwich estimator, clustered on the
            grouping factor if any. "posterior" is the posterior of the (pseudo-)likelihood, "curvature" a normal
            approximation to it, and "mean-field" the variational distribution, which is too narrow. None is "robust"
            for complete data without ``LaplaceZero`` (with a logistic likelihood "posterior", and "curvature" in large
            tables), "posterior" after Gibbs sampling, and else "curvature". ``attrs["note"]`` describes it.

        Notes
        -----
        After Gibbs sampling the table has R̂ and ESS, also of inclusion indicators: NaN if constant, and an
        infinite R̂ if chains disagree and none of them ever moves.
        """
        check_level("summary", level)
        return tables.coefficients(self, level, covariance)

    def tidy(self, level: float = 0.95, covariance: str | None = None, exponentiate: bool = False) -> Any:
        """The coefficients as a tidy table: term, estimate, std_error, conf_low, conf_high.

        Numbers are those of ``summary``, and ``attrs["note"]`` describes the standard errors. If the training data are
        in memory as a polars frame, so is the table. With a logistic likelihood
        ``exponentiate=True`` gives odds ratios and their intervals; ``std_error`` stays that of the log odds.
        """
        return tables.like_rows(self, tables.tidy(self, level, covariance, exponentiate))

    def glance(self) -> Any:
        """One row about the model as a whole: rows, coefficients, the bound, and whether it converged."""
        return tables.like_rows(self, tables.glance(self))

    def _effects_subject(self, data: Any, weights: str | ArrayLike | None, covariance: str | None) -> Subject:
        """Effects of the formula's columns; raise for fits of an estimator, which has its own."""
        if self.reader is None:
            raise TypeError(predictions.OF_ESTIMATOR)
        reader = self.reader
        return subject_of([self], self.classes, data, weights, covariance, lambda given: FormulaRows.of(reader, given))

    def random_effects(self, factor: str | None = None, level: float = 0.95) -> Any:
        """Random effects of each level of a grouping factor on the score, with standard errors and normal intervals.

        Slopes are given for the user's column. In a standardised model random intercepts are deviations at the mean of
        the slopes' columns. With several factors name one, or get all of them with the factor as the first index level.
        Where the fit still holds its rows, and these are a polars frame, so is the table, with the groups as a column.
        """
        check_level("random_effects", level)
        return tables.like_rows(self, tables.random_effects(self, factor, level))

    @predictions.accepts_new_groups
    def decision_function(
        self, data: Any, *, return_std: bool = False, groups: str = "known"
    ) -> Array | tuple[Array, Array]:
        """Mean score of each row, and on request its standard deviation.

        Observations of a group that the fit knows have its random effects. Of a new group they have the population's
        score, and the variance of its random effects is added; so they have without the column of groups.
        ``groups="new"`` predicts all observations as of new groups, and ``groups="error"`` refuses unseen groups. All
        predictions, ``effects``, ``contrasts`` and ``slopes`` have these choices.
        """
        if not return_std:
            return predictions.evaluate(self, "decision_function", data, groups)
        found = predictions.score_moments(self, predictions.read(self, data, groups))
        return found.mean, np.sqrt(found.variance)

    @predictions.accepts_new_groups
    def predictive(self, data: Any, *, groups: str = "known") -> "pd.DataFrame":
        """Mean and standard deviation of the linear predictor of each row, and the probability that it is positive.

        The standard deviation is the uncertainty about coefficients, missing predictors and new random effects.
        ``predict_proba`` gives probabilities of classes instead.
        """
        mean, sd = self.decision_function(data, return_std=True, groups=groups)
        table = with_index(prediction.table(mean, sd), data)
        return tables.like(data, noted(table, covariances.score_posterior(self).notes))

    @predictions.accepts_new_groups
    def predict(self, data: Any, *, groups: str = "known") -> NDArray[Any]:
        """Class of each row: by the sign of its score.

        Rows of a dask data frame are predicted when they are asked for: this, ``predict_proba``, ``predict_log_proba``
        and ``decision_function`` then give a series or a frame of Dask.
        """
        return predictions.evaluate(self, "predict", data, groups)

    @predictions.accepts_new_groups
    def score(self, data: Any, weights: str | ArrayLike | None = None, *, groups: str = "known") -> float:
        """Accuracy: proportion of rows whose outcome, a column of ``data`` as in fit, is the predicted one.

        ``weights`` are a column of the data or a number for each row: a weight of k counts as k rows.
        """
        predicted, labels = self.predict(data, groups=groups), predictions.observed_classes(self, data)
        return float(np.average(predicted == labels, weights=row_weights("score", data, weights)))

    @predictions.accepts_new_groups
    def predict_proba(self, data: Any, *, groups: str = "known") -> Array:
        """Probabilities of the two classes; the predicted class has the larger.

        Those of a hinge model are a monotone transform of decision values, fitted to leave-one-out decision values,
        which can be poorly calibrated (``report`` and ``effects`` check them); those of a logistic model are posterior
        means. They refer to the weighted population, and are averaged over the distributions of missing predictors and
        of new levels' random effects.
        """
        return predictions.evaluate(self, "predict_proba", data, groups)

    @predictions.accepts_new_groups
    def predict_interval(self, data: Any, level: float = 0.95, *, groups: str = "known") -> Any:
        """Probability of the second class of each observation, with an interval for it.

        ``estimate`` is that of ``predict_proba``. The interval contains the probability of an observation with these
        predictors: in a known group with the random effects of that group, in a new group with effects that may be any.
        It answers how sure the estimate is, and not which class the observation will have.

        Parameters
        ----------
        data : data frame
            Observations, as for ``predict``.
        level : float, default 0.95
            Level of the intervals.
        groups : {"known", "new", "error"}, default "known"
            Whose random effects the observations have; see ``decision_function``.
        """
        check_in_memory(data=data)
        encoded = predictions.read(self, data, groups)
        return predictions.predict_interval(self, encoded, self.predict_proba(encoded), data, level)

    def _file_columns(self) -> tuple[Sequence[str], Collection[str]]:
        """Columns of the formula, and those of them that were text; raise for fits of an estimator."""
        if self.reader is None:
            raise ValueError(
                "This is one of a VBSVC's models, which knows no columns: call predict_files of the VBSVC."
            )
        return self.reader.columns, predictions.text_columns(self.reader)

    @predictions.accepts_new_groups
    def predict_log_proba(self, data: Any, *, groups: str = "known") -> Array:
        """Logarithms of ``predict_proba``, which are finite also where a probability is too small for a number."""
        return predictions.evaluate(self, "predict_log_proba", data, groups)

    @predictions.accepts_new_groups
    def pseudo_probability(self, data: Any, *, groups: str = "known") -> Array:
        """Probabilities by the normalised pseudo-likelihood e^{−2(1 − f)₊} : e^{−2(1 + f)₊}; they are not calibrated.

        These are what the model itself says of a label. They are averaged like those of ``predict_proba``.
        """
        if self.spec.likelihood.normalised:
            raise AttributeError("pseudo_probability is for the hinge likelihood: this one has probabilities itself.")
        scores = predictions.mean_scores(self, predictions.read(self, data, groups))
        return prediction.probabilities(prediction.pseudo_log_odds([scores]))

    def adapt(self, data: Any, weights: str | ArrayLike | None = None) -> "Fit":
        """This fit with the groups of further rows: their effects are learned from these rows, without a refit.

        Fixed effects, other groups and variance components are held as they were fitted. The result predicts rows of
        the new groups with their effects, and ``random_effects`` lists them, with standard deviations. Groups that the
        fit knew go on from what it knew of them.

        Parameters
        ----------
        data : data frame
            New observations: outcome, predictors, and the grouping factors. New levels are allowed for the factor with
            the most random effects; predictors must be complete.
        weights : str or array-like, default None
            A column of the data, or one number for each row.

        Notes
        -----
        After Gibbs sampling only new groups are learned, at the mean and covariance of the draws; their effects are
        then drawn, given each draw of the other coefficients.
        """
        if self.reader is None:
            raise TypeError("This fit belongs to an estimator: adapt is a method of the Fit of a Model.")
        return adapted(self, self.reader, data, weights)

    def variance_components(self, level: float = 0.95) -> "pd.DataFrame":
        """Standard deviations of random effects and splines with their intervals; correlations of slopes.

        ``std_dev`` is the median, with an interval; ``variance`` is its square, the median of the variance. Slopes are
        given for the user's column. In logistic models intervals of random effects that are integrated out, and those
        after Gibbs sampling, are highest-density intervals, which contain 0 where the data allow it. Other intervals of
        random effects have the word "too narrow" in ``note``, and a ``ReliabilityWarning`` is given. After Gibbs
        sampling the table has R̂ and effective draws.
        """
        check_level("variance_components", level)
        table = tables.components(self, level)
        variance_components.warn_of_narrow(table)
        return table

    def icc(self, level: float = 0.95, data: Any = None) -> "pd.DataFrame":
        """Intraclass correlation σ² / (Σ σ² + π²/3) of each grouping factor of a logistic model, with its interval.

        It is on the latent scale. With random slopes σ² is a mean over the observations of ``data``, or of the fit.
        """
        check_level("icc", level)
        variance_components.warn_of_narrow(tables.components(self, level))
        return variance_partition.icc(self, level, data)

    def r2(self, data: Any = None) -> "pd.DataFrame":
        """Proportion of the variance that fixed effects explain (marginal R²), or fixed and random ones (conditional).

        For logistic models, on the latent scale (Nakagawa & Schielzeth 2013), over the observations of ``data`` or of
        the fit. ``attrs["variances"]`` has the parts.
        """
        return variance_partition.r2(self, data)

    @overload
    def impute(self, data: Any) -> "tuple[pd.DataFrame, pd.DataFrame]": ...

    @overload
    def impute(
        self, data: Any, n: int, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "list[pd.DataFrame]": ...

    def impute(
        self, data: Any, n: int | None = None, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "tuple[pd.DataFrame, pd.DataFrame] | list[pd.DataFrame]":
        """The predictors with missing values imputed by their expected values, and standard deviations.

        Both are on the original scale of the columns; the standard deviation of a known value is 0. Labels are not
        used. Categories have no expected value, and are not in these tables.

        With ``n`` it returns a list of n copies of the data in which missing values and the parameters of their
        distribution are drawn: proper multiple imputation. Fit each, and ``pool`` the fits. For the training data give
        the outcome as ``y``: without it as a regressor of missing values, coefficients of incomplete columns are
        underestimated. Values are assumed to be missing at random.
        """
        if n is None:
            return imputation.expected_values(self, data)
        return imputation.completed_tables(self, data, n, y, random_state)

    def missing_information(self) -> "pd.Series":
        """Fraction of missing information (FMI) of each coefficient: the part of its variance due to missing values.

        It refers to robust intervals, and needs a variational fit without ``LaplaceZero``, with values missing at
        random under ``GaussianImputation(labels="regressor")``.
        """
        import pandas as pd

        found = tables.missing_information(self, covariances.covariance(self, ROBUST))
        if found is None:
            raise ValueError("missing_information: no predictor of this fit has missing values.")
        return pd.Series(found, index=self.summary(covariance=ROBUST).index, name="missing_information")

    def missing_summary(self) -> "pd.DataFrame":
        """Patterns of missing predictors in the training data (True is missing), the most frequent first.

        ``rows`` is the number of observations, ``share`` their proportion. ``attrs["missing"]`` counts by column.
        """
        if self.missing_patterns is None:
            raise AttributeError("missing_summary is only available after a fit by an estimator or a Model.")
        return self.missing_patterns.table()

    @property
    def imputation_mean(self) -> Array:
        """Mean of each input, on its own scale, missing values taken into account."""
        return mean_and_covariance(self.plan, imputation.population(self))[0]

    @property
    def imputation_cov(self) -> Array:
        """Covariance of the predictors, on the original scale, missing values taken into account."""
        return mean_and_covariance(self.plan, imputation.population(self))[1]

    def to_arviz(self, *, log_likelihood: bool = False) -> Any:
        """Draws of a Gibbs fit for ArviZ (0.23 or 1.x), on the original scale of the columns; labels and weights.

        ``log_likelihood`` adds that of each row in each draw; for the hinge loss it is a pseudo-likelihood's.
        """
        return arviz.to_arviz(self._require_traces("to_arviz"), self._rows, log_likelihood=log_likelihood)

    def report(self, path: Any, data: Any = None, title: str | None = None, covariance: str | None = None) -> Path:
        """Write one self-contained page of HTML: how well the model predicts, effects, coefficients, checks, caveats.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced.
        data : data frame, default None
            Training or test data, for which the report adds the predictive performance. Training data get leave-one-out
            predictions if the fit has them in memory; a loaded fit has not.
        title : str, default None
            Heading of the page.
        covariance : str, default None
            Type of standard error; see ``summary``.
        """
        from vbsvm import report
        from vbsvm.plots import resolve_fit

        check_path(path)
        evaluations = [] if data is None else [resolve_fit.predicted("report", self, data)]
        shown = self._showing(covariance)
        return report.write(path, [shown], evaluations, title, report.Owner(shown, data))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fit, without its data, to a file for ``vbsvm.load``.

        A model in the file is replaced; a file that holds anything else only with ``overwrite=True``.
        """
        from vbsvm.storage import saving

        saving.check_target(path, overwrite=overwrite)
        saving.write(path, "Fit", self._contents())

    def _contents(self) -> dict[str, Any]:
        """Fields to store in a file: all but the rows and a sampler's last draws of missing values."""
        fit = self._without_rows()
        outcome = fit.outcome.without_values() if isinstance(fit.outcome, Sample) else fit.outcome
        return public_fields(fit) | {"outcome": outcome}

    def _without_rows(self) -> "Fit":
        """Copy of the fit without its training rows, with everything computed that needs these."""
        tables.printed_components(self)
        return replace(
            self,
            outcome=self.outcome if self._deferred_rows is None else self._deferred_rows.bounded,
            population=self._input_population,
            calibration=self._link,
            spreads=covariances.learned(self),
            _rows=None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """State for pickles and copies: the fields, without training rows and cached values."""
        fit = self if self._rows is None else self._without_rows()
        return {field.name: getattr(fit, field.name) for field in fields(fit)}

    def _models(self) -> "tuple[Sequence[Fit], NDArray[Any]]":
        return [self], self.classes

    @property
    def _input_population(self) -> Population | None:
        """Mean and covariance of the inputs, estimated from the training rows on first use."""
        return self.population if self._rows is None or self.population is not None else self._rows.population

    @property
    def _link(self) -> Calibration | PosteriorMean | None:
        """Link from scores to probabilities, estimated from the training rows on first use."""
        return self.calibration if self._rows is None or self.calibration is not None else self._rows.calibration
