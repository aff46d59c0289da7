"""What a fit knows: one two-class model, its coefficients on the user's scale, and how it was reached."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.settings import require_level
from vbsvm.design.columns import Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.missing.imputation import MissingPatterns, Population
from vbsvm.model.spec import Spec
from vbsvm.results import arviz, coefficients, display, random_effects, same_frame, tidy, variance_components
from vbsvm.results.adapted import adapted
from vbsvm.results.calibration import Calibration
from vbsvm.results.course import Course
from vbsvm.results.data_summary import Facts
from vbsvm.results.effect_rows import FormulaRows
from vbsvm.results.effect_subject import Subject, subject_of
from vbsvm.results.effects import AverageEffects
from vbsvm.results.fit_imputation import FitImputation
from vbsvm.results.fit_predictions import FitPredictions
from vbsvm.results.intervals import Intervals, LearnedSpreads, SpreadShelf
from vbsvm.results.leave_one_out import leave_one_out
from vbsvm.results.left_out_predictions import LeftOutPredictions
from vbsvm.results.posterior import Posterior, posterior_of
from vbsvm.results.posterior_mean import PosteriorMean
from vbsvm.results.traces import Traces, Worst
from vbsvm.results.training_rows import TrainingRows
from vbsvm.results.words import Words, noted, of_components
from vbsvm.storage.atomic import require_path
from vbsvm.storage.codec import public_fields

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader

INPUTS = "inputs"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fit(FitPredictions, FitImputation, AverageEffects):
    """A fitted two-class model. Positive scores mean the second of its classes.

    Standard errors answer different questions (see ``summary``): by default they are the posterior's in a logistic
    model, and robust in a support vector machine. The corner of each table notes which it shows, and
    ``attrs["spreads"]`` has the full text.
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
    spreads: LearnedSpreads | None = None
    _rows: TrainingRows | None = None  # while they are at hand
    _shown: str | None = None  # kind of the spreads that are shown unless it is said

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
        """What is believed of the model's parameters: all answers below are its."""
        rows = self._waiting
        return posterior_of(self.plan, self.spec, self.outcome, None if rows is None else lambda: rows.bounded.bounds)

    @property
    def _waiting(self) -> TrainingRows | None:
        """The rows over which the bound is yet to be climbed, when it is asked for."""
        return self._rows if isinstance(self.outcome, OptimizeResult) and self.outcome.waits else None

    @cached_property
    def _shelf(self) -> SpreadShelf:
        factors = tuple(factor.name for factor in self.plan.factors)
        return SpreadShelf(self.posterior, self.spreads or LearnedSpreads(), self._rows, factors)

    def intervals(self, covariance: str | None = None) -> Intervals:
        """Spreads of the coefficients of a kind (see ``summary``): what tables and figures ask."""
        self._shelf.warn_of_margin("" if self.classes[0] is not None else f"{self.classes[1]!s} against the rest: ")
        return self._shelf.intervals(self._shown if covariance is None else covariance)

    def showing(self, covariance: str | None) -> "Fit":
        """The same fit, whose tables and figures show spreads of this kind unless it is said."""
        if covariance is None:
            return self
        found = replace(self, _shown=covariance)
        vars(found)["_shelf"] = self._shelf
        return found

    @property
    def course(self) -> Course:
        """How the fit was reached."""
        return self.posterior.course

    @property
    def elbo(self) -> float:
        """Lower bound on the log evidence of the pseudo-likelihood."""
        self._require_bound("elbo")
        return float(self.course.bounds[-1])

    @property
    def bounds(self) -> Array:
        """The accepted bounds of a variational fit, step by step."""
        self._require_bound("bounds")
        return self.course.bounds

    def starts(self) -> list[tuple[float, int]]:
        """Bound and number of open gates for each start, the highest bound first; gates have several optima."""
        self._require_bound("starts")
        return self.course.starts

    def _require_bound(self, what: str) -> None:
        if not len(self.course.bounds):
            why = "this fit was sampled" if self.posterior.by_draws else "this one knows its covariance by draws only"
            raise AttributeError(f"{what} is only available after variational Bayes with a bound; {why}.")

    @property
    def traces(self) -> Traces:
        """A sampler's draws, parameter by parameter."""
        return self._drawn("traces")

    def _drawn(self, what: str) -> Traces:
        found = self.course.traces
        if found is None:
            raise AttributeError(f"{what} is only available after inference=Gibbs().")
        return found

    def worst_mixing(self) -> Worst | None:
        """The largest R̂ and the fewest effective draws of a sampler's parameters, where they are not good enough.

        Coefficients, gates, and standard deviations and correlations of effects count; effects of single groups don't.
        """
        return self.traces.worst()

    @property
    def converged(self) -> bool:
        """Whether the bound converged; or all chains agree (R̂ ≤ 1.01) and have 400 effective draws."""
        return self.course.ending is Status.CONVERGED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return self.course.ending is Status.INTERRUPTED

    @property
    def selects(self) -> bool:
        """Whether the model has gates."""
        return self.spec.gate_map is not None

    @property
    def largest_fixed_effect(self) -> float:
        """Largest magnitude of the coefficients of standardised columns, group effects aside."""
        return float(np.abs(self.posterior.mean).max(initial=0.0))

    @property
    def covariance(self) -> Array:
        """Covariance of the effective coefficients of the design's (standardised) columns, of the default kind."""
        return self.intervals().covariance

    def coefficient_covariance(self, kind: str | None = None) -> "pd.DataFrame":
        """Covariance of the coefficients in ``summary``, the intercept first; see there for the kinds."""
        return coefficients.covariance(self.plan, self.intervals(kind))

    @property
    def coef(self) -> Array:
        """Effective coefficients, on the original scale of the columns."""
        return self.plan.to_user_scale(self.posterior.mean)

    @property
    def coef_std(self) -> Array:
        """Standard deviations of the coefficients, on the original scale of the columns."""
        return self.plan.to_user_scale(np.sqrt(self.intervals().variances))

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
        return self.intervals().combination(self.plan.intercept_row, [])[0]

    @property
    def slope(self) -> float:
        """What a unit of the score adds to the log odds where the score is 0; 1 in a file of an older version."""
        return 1.0 if self.score_calibration is None else self.score_calibration.slope

    @property
    def inclusion_probability(self) -> Array:
        """E γ of each column that users see; 1 where there is no gate."""
        return self.plan.shown(self.posterior.inclusion)

    @property
    def sign_probability(self) -> Array:
        """P(v > 0) of each column that users see, for the coefficient that it has if it is included."""
        return self.plan.shown(self.posterior.signs)

    @property
    def likelihood_power(self) -> float:
        """The power of the pseudo-likelihood; 1 with a logistic likelihood."""
        return self.spec.likelihood_power

    @property
    def penalty(self) -> float:
        """E[α] = E[σ⁻²]/4 of the inputs' prior, for the standardised columns: the paper's penalty parameter."""
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
            Which spread. "robust" gives confidence intervals by the sandwich estimator, with groups as independent
            units where there are some. "posterior" is the posterior of the pseudo-likelihood. "curvature" is a quick
            approximation to it, and "mean-field" what variational Bayes ended with, which is too narrow. None is
            robust in models of complete inputs without gates (with a logistic likelihood the posterior, and the
            curvature in large tables), the posterior after Gibbs sampling, and else the curvature. The corner of the
            table, and ``attrs["spreads"]``, say which.

        Notes
        -----
        After Gibbs sampling the table has R̂ and effective draws, with gates also those of each column's gate: NaN if a
        gate is the same in all draws, and an infinite R̂ if chains disagree and none of them ever moves.
        """
        require_level("summary", level)
        intervals = self.intervals(covariance)
        own = {"gates": self.selects, "odds": self.spec.likelihood.normalised}
        table = coefficients.table(self.plan, self.posterior, intervals, level, **own)
        frame, starts = noted(table, intervals.words, "sd", level), self.course.starts if self.selects else []
        if own["odds"] and not self.posterior.by_draws:
            about = self.plan, self.spec, self.posterior.state, intervals
            frame.attrs["spreads"] += coefficients.about_prior(*about)
        if len(starts) > 1:
            frame.attrs["starts"] = starts
        return frame

    def tidy(self, level: float = 0.95, covariance: str | None = None, exponentiate: bool = False) -> Any:
        """The coefficients as plain columns: term, estimate, std_error, conf_low, conf_high.

        Numbers are those of ``summary``, which says which spreads they are; so does ``attrs["spreads"]``. Where the fit
        still holds its rows, and these are a polars frame, so is the table. With a logistic likelihood
        ``exponentiate=True`` gives odds ratios and their intervals; ``std_error`` stays that of the log odds.
        """
        return self._in_kind(tidy.terms(self, level, covariance, exponentiate))

    def glance(self) -> Any:
        """One row about the model as a whole: rows, coefficients, the bound, and whether it converged."""
        return self._in_kind(tidy.models((self,)))

    def _in_kind(self, table: "pd.DataFrame") -> Any:
        """A table as the kind of frame that the fit's own rows are, as long as it holds them."""
        return same_frame.like(None if self._rows is None else self._rows.data, table)

    def _effects_subject(self, data: Any, weights: str | ArrayLike | None, covariance: str | None) -> Subject:
        """Of the formula's columns; the rows of an estimator's table are its own."""
        if self.reader is None:
            raise TypeError("This fit belongs to an estimator: use the methods of the estimator.")
        reader = self.reader
        return subject_of([self], self.classes, data, weights, covariance, lambda given: FormulaRows.of(reader, given))

    def random_effects(self, factor: str | None = None) -> Any:
        """Mean and standard deviation of each group's effects on the score.

        Slopes are given for the user's column. In a standardised model random intercepts are deviations at the mean of
        the slopes' columns. With several factors name one, or get all of them with the factor as the first index level.
        Where the fit still holds its rows, and these are a polars frame, so is the table, with the groups as a column.
        """
        return self._in_kind(self._random_effects_table(factor))

    def _random_effects_table(self, factor: str | None = None) -> "pd.DataFrame":
        """The same in pandas, with its note."""
        return noted(random_effects.table(self.plan, self.posterior, factor), self.posterior.words, "sd")

    def adapt(self, data: Any, weights: str | ArrayLike | None = None) -> "Fit":
        """This fit with the groups of further rows: their effects are learned from these rows, without a refit.

        Fixed effects, other groups and variance components are held as they were fitted. The result predicts rows of
        the new groups with their effects, and ``random_effects`` lists them, with standard deviations. Groups that the
        fit knew go on from what it knew of them.

        Parameters
        ----------
        data : data frame
            Rows that the fit has not seen: outcome, inputs, and the group. New groups may be those of the factor with
            the most effects; inputs must be complete.
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

        ``sd`` is the median, with an interval; ``variance`` is its square, the median of the variance. Slopes are given
        for the user's column. In logistic models intervals of random effects that are integrated out, and those after
        Gibbs sampling, are highest-density intervals, which contain 0 where the data allow it. Other intervals of
        random effects have the word "too narrow" in ``note``, and a ``ReliabilityWarning`` is given. After Gibbs
        sampling the table has R̂ and effective draws.
        """
        require_level("variance_components", level)
        table = self._noted_components(level)
        variance_components.warn_of_narrow(table)
        return table

    def component_table(self, level: float = 0.95) -> "pd.DataFrame":
        """The table of ``variance_components`` as it is printed: without a warning, and notes where there are some."""
        table = self._noted_components(level)
        return table if variance_components.narrow_terms(table) else table.drop(columns="note", errors="ignore")

    def _noted_components(self, level: float) -> "pd.DataFrame":
        table = self.posterior.variance_components(level, self._log_variances)
        return noted(table, self.component_words, "interval", level)

    @property
    def _log_variances(self) -> dict[str, float]:
        """Standard deviations of log σ² that are better than those of the fit itself."""
        return self._shelf.log_variances() if len(self.posterior.variance_components(0.5)) else {}

    @property
    def component_words(self) -> Words:
        """What tables and reports say of the variance components."""
        narrow = variance_components.narrow_terms(self.posterior.variance_components(0.5))
        return of_components(self.posterior.words, narrow=bool(narrow), by_response=bool(narrow or self._log_variances))

    def to_arviz(self, *, log_likelihood: bool = False) -> Any:
        """Draws of a Gibbs fit for ArviZ (0.23 or 1.x), on the original scale of the columns; labels and weights.

        ``log_likelihood`` adds that of each row in each draw; for the hinge loss it is a pseudo-likelihood's.
        """
        return arviz.to_arviz(self._drawn("to_arviz"), self._rows, log_likelihood=log_likelihood)

    def report(self, path: Any, data: Any = None, title: str | None = None, covariance: str | None = None) -> Path:
        """Write one self-contained page of HTML: how well the model predicts, effects, coefficients, checks, caveats.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced.
        data : data frame, default None
            Rows with their outcome, those of the fit or others: the page adds how well they are predicted. The rows of
            the fit are predicted without themselves, as long as the fit has them at hand; a loaded fit has not.
        title : str, default None
            Heading of the page.
        covariance : str, default None
            Which spread of the coefficients; see ``summary``.
        """
        from vbsvm import report
        from vbsvm.plots import resolve_fit

        require_path(path)
        found = [] if data is None else [resolve_fit.predicted("report", self, data)]
        shown = self.showing(covariance)
        return report.write(path, [shown], found, title, report.Owner(shown, data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, without its data, to a file for ``vbsvm.load``; an existing file is replaced."""
        from vbsvm.storage import saving

        require_path(path)
        saving.write(path, "Fit", self.contents())

    def contents(self) -> dict[str, Any]:
        """What a file holds of the fit: all but its rows and a sampler's last draws of their missing values."""
        held = self.without_rows()
        return public_fields(held) | {"outcome": held.course.stored()}

    def without_rows(self) -> "Fit":
        """The same fit with everything learned that its training rows are needed for, and without these."""
        self.component_table()
        return replace(
            self,
            outcome=self.outcome if self._waiting is None else self._waiting.bounded,
            population=self.input_population,
            calibration=self.score_calibration,
            spreads=self._shelf.settled(),
            _rows=None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """What pickles and copies hold: neither training rows nor what has been made of the fields."""
        fit = self if self._rows is None else self.without_rows()
        return {one.name: getattr(fit, one.name) for one in fields(fit)}

    def left_out_predictions(self, refits: int | None = None, folds: int | None = None) -> LeftOutPredictions:
        """Predict each training observation by a fit without it; ``compare_models`` asks for it.

        With up to ``refits`` observations the fit is repeated without each of them. Else predictions are approximate,
        by one step from the fit to all; where that may be far off, they come from refits without single observations,
        or in up to 50 folds, within the same limit. ``refits=None`` is 200, or 10 where observations × coefficients
        exceed 50 000; 0 gives the approximation, and ``folds=k`` so many folds. ``method`` of the result says what was
        done. In refits columns are standardised as in the fit to all.
        """
        return leave_one_out([self], self.classes, refits, folds)

    @property
    def input_population(self) -> Population | None:
        """Mean and covariance of the inputs; learned from the training rows when it is first asked for."""
        return self.population if self._rows is None or self.population is not None else self._rows.population

    @property
    def score_calibration(self) -> Calibration | PosteriorMean | None:
        """How scores become probabilities; learned from the training rows when it is first asked for."""
        return self.calibration if self._rows is None or self.calibration is not None else self._rows.calibration
