"""Checks of a fit, passed or not, and its limitations, as sentences."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vbsvm.missing.model import input_model
from vbsvm.missing.settings import LIKELIHOOD, NONE, NotAtRandom, Shift
from vbsvm.plots.predictions import calibration_slope
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report.document import Check, Limitation, names, percent
from vbsvm.report.evaluation import Evaluation
from vbsvm.results import display
from vbsvm.results.comparison.models import Measure
from vbsvm.results.covariance import covariance, margin_warning
from vbsvm.results.effects.check import misfit, quantile_bins
from vbsvm.results.fit import Fit

MIN_CLASS_ROWS = 10
MIN_GROUPS = 5
# Above this proportion of missing values the coefficient of a column depends mostly on the model.
MAX_MISSING_SHARE = 0.3
# A class is rarely predicted if its predictions are fewer than this proportion of its observations.
MIN_PREDICTED_SHARE = 0.1
# A difference is clear if it exceeds this many standard errors.
CLEAR_Z = 2.0
# Slopes of the log odds within these are good enough for most uses.
ACCEPTABLE_SLOPES = 0.8, 1.25
HINGE = (
    "With a hinge loss this can happen even if predictors are associated with the outcome: coefficients near 0 do not "
    'rule out an association. If the classes differ in size, fit again with class_weight="balanced", or in a formula '
    "with weights."
)
RARE = "This is to be expected if a class is rare: use the probabilities."
OPTIMISTIC = (
    "with many predictors and few observations this makes the model look much better than it is. Fit it within "
    "cross-validation, where each fold selects anew."
)
IN_SAMPLE = (
    "The training data are not stored in this fit, and the observations given to the report may be the same. If these "
    "are the training data, predictive performance and calibration are in sample, and optimistic. For honest numbers, "
    "give the report observations that were not used in the fit, or write it in Python from the fit before it is "
    "saved: it then predicts each observation by leave-one-out."
)
# Tolerated difference between the mean predicted probability and the observed proportion.
MAX_MEAN_ERROR = 0.03


def fit_checks(fit: Fit) -> Iterator[Check]:
    """Checks of the data (class and group sizes, missing values) and of convergence."""
    if fit.facts is not None:
        for label, rows in zip(fit.classes, fit.facts.rows, strict=True):
            if label is not None and rows < MIN_CLASS_ROWS:
                yield Check(False, f"The class {label!s} has only {rows} observations.")
    if fit.missing_patterns is not None:
        total = fit.missing_patterns.total
        much = [name for name, count in fit.missing_patterns.by_column.items() if count > MAX_MISSING_SHARE * total]
        if much:
            text = f"More than {100 * MAX_MISSING_SHARE:.0f} % of the values are missing in {names(much)}."
            yield Check(False, f"{text} Do not interpret their coefficients without a sensitivity analysis.")
    for factor in fit.plan.factors:
        if len(factor.levels) < MIN_GROUPS:
            text = f"{factor.name} has only {len(factor.levels)} levels: the standard deviation of its random effects"
            yield Check(False, f"{text} is poorly identified, and depends on the prior.")
    if margin_warning(fit):
        yield Check(False, margin_warning(fit))
    yield from (Check(good, text) for good, text in display.convergence(fit.history))


def prediction_checks(evaluation: Evaluation, *, hinge: bool) -> Iterator[Check]:
    """Checks of predictive performance, of which none is passed in what may be the training data."""
    checks = _prediction_checks(evaluation, hinge=hinge)
    if evaluation.maybe_training:
        yield Check(False, IN_SAMPLE)
        checks = (check for check in checks if not check.good)
    yield from checks


def _prediction_checks(evaluation: Evaluation, *, hinge: bool) -> Iterator[Check]:
    """Whether all classes are predicted, and whether the model beats the base rates and simple baselines."""
    collapsed = list(_collapsed(evaluation, hinge=hinge))
    yield from collapsed
    model, shares = evaluation.model, evaluation.base_rates
    wrong, base = evaluation.primary(model), evaluation.primary(shares)
    measure = "Balanced error" if evaluation.weighted else "Misclassification rate"
    errors = f"{measure} {percent(wrong.value, 1)}{' by leave-one-out' if evaluation.left_out else ''}"
    better = _is_clearly_smaller(evaluation, base, wrong)
    loss = _is_clearly_smaller(evaluation, shares.log_loss, model.log_loss)
    losses = f"log loss {model.log_loss.value:.3f} compared with {shares.log_loss.value:.3f}"
    baseline = f"by always predicting “{evaluation.most_common}”"
    if evaluation.optimistic:
        yield Check(False, f"{errors}, but predictors were selected with all observations: {OPTIMISTIC}")
    elif better:
        yield Check(True, f"{errors}, compared with {percent(base.value, 1)} {baseline}.")
    elif loss:
        text = f"{errors}, not clearly below the {percent(base.value, 1)} {baseline}"
        yield Check(not hinge, f"{text}; but the probabilities are informative: {losses}.")
    else:
        text = f"The model predicts no better than the class proportions. {errors}, compared with"
        yield Check(False, f"{text} {percent(base.value, 1)} {baseline}; {losses}.")
    if (better or not collapsed) and not evaluation.optimistic:
        yield from _compared_with_baselines(evaluation)


def _compared_with_baselines(evaluation: Evaluation) -> Iterator[Check]:
    error = evaluation.primary(evaluation.model)
    measure = "balanced error" if evaluation.weighted else "misclassification rate"
    for name, baseline in evaluation.baselines.items():
        compared = evaluation.primary(baseline)
        numbers = f"{measure} {percent(error.value, 1)} compared with {percent(compared.value, 1)}"
        if _is_clearly_smaller(evaluation, compared, error):
            yield Check(True, f"Better than {name}: {numbers}.")
        elif _is_clearly_smaller(evaluation, baseline.log_loss, evaluation.model.log_loss):
            loss = f"{evaluation.model.log_loss.value:.3f} compared with {baseline.log_loss.value:.3f}"
            yield Check(True, f"Better than {name} by its probabilities: log loss {loss}.")
        else:
            yield Check(False, f"Not clearly better than {name}: {numbers}.")


def _collapsed(evaluation: Evaluation, *, hinge: bool) -> Iterator[Check]:
    """Classes predicted for less than ``MIN_PREDICTED_SHARE`` of their weight."""
    rows = evaluation.rows
    for k, label in enumerate(evaluation.classes):
        observed, predicted = (float(rows.weights[classes == k].sum()) for classes in (rows.truth, rows.decided))
        if predicted >= MIN_PREDICTED_SHARE * observed:
            continue
        others = [name for j, name in enumerate(evaluation.classes) if j != k]
        if not predicted and len(others) == 1:
            text = f"The model always predicts “{others[0]}”, although {observed:g} observations are “{label}”."
        else:
            text = f"“{label}” is predicted for {predicted:g} observations, although {observed:g} are."
        yield Check(False, f"{text} {HINGE if hinge else RARE}")


def separation_checks(fits: Sequence[Fit], evaluation: Evaluation) -> Iterator[Check]:
    """Whether some class is completely separated from the rest."""
    for k, fit in enumerate(fits):
        sides, positive = evaluation.rows.fitted[:, k] > 0, evaluation.rows.truth == (1 if len(fits) == 1 else k)
        if (sides == positive).all() and not fit.history.separable:
            who = "these classes" if len(fits) == 1 else f"{fit.classes[1]!s} from the rest"
            text = f"Complete separation: the predictors separate {who} in the data, so that the coefficients have no"
            yield Check(False, f"{text} finite estimate without a prior, and their size depends on it.")


def calibration_checks(evaluation: Evaluation, predicted: Sequence[Predicted]) -> Iterator[Check]:
    """Calibration in the large and calibration slope; nothing for optimistic predictions."""
    if evaluation.optimistic or evaluation.maybe_training:
        return
    groups = None if evaluation.factor is None else evaluation.rows.groups[evaluation.factor]
    found = [(rows.classes[1], _calibration(rows, groups)) for rows in predicted]
    if len(found) == 1:
        yield found[0][1]
    elif all(check.good for _, check in found):
        yield Check(True, f"Well calibrated: the probabilities of all {len(found)} classes.")
    else:
        yield from (Check(False, f"{label}: {check.text}") for label, check in found if not check.good)


def _calibration(rows: Predicted, groups: NDArray[np.intp] | None) -> Check:
    slope = calibration_slope(rows.probabilities, rows.positive, rows.weights, groups)
    text = f"calibration slope {slope.value:.2f} (95 % CI {slope.lower:.2f} to {slope.upper:.2f}; ideal 1)"
    text = text.replace("-", "−")
    predicted, observed = (float(np.average(x, weights=rows.weights)) for x in (rows.probabilities, rows.positive))
    average = f"mean predicted probability {percent(predicted, 1)}, observed {percent(observed, 1)}"
    chance = CLEAR_Z * np.sqrt(observed * (1.0 - observed) / rows.weights.sum())
    if abs(predicted - observed) > max(MAX_MEAN_ERROR, chance):
        return Check(False, f"Miscalibrated on average: {average}; {text}.")
    if slope.upper < 1.0 and slope.value < ACCEPTABLE_SLOPES[0]:
        return Check(False, f"Probabilities are too extreme: {text}; {average}.")
    if slope.lower > 1.0 and slope.value > ACCEPTABLE_SLOPES[1]:
        return Check(False, f"Probabilities are not extreme enough: {text}; {average}.")
    units, positive = [] if groups is None else [groups], rows.positive.astype(np.float64)
    part = misfit(quantile_bins(rows.probabilities), rows.probabilities, positive, rows.weights, units)
    if part is not None:
        means = f"predicted {percent(part.predicted, 1)}, observed {percent(part.observed, 1)}"
        return Check(False, f"Not calibrated: in one fifth of the observations {means}; overall {average}; {text}.")
    if slope.lower <= 0.0:
        return Check(True, f"Calibrated on average, but the probabilities are not informative: {average}; {text}.")
    few = "" if slope.upper - slope.lower < 1.0 else " No miscalibration was found, but the observations are few."
    return Check(True, f"Well calibrated: {average}; {text}.{few}")


def _is_clearly_smaller(evaluation: Evaluation, larger: Measure, smaller: Measure) -> bool:
    """Whether the difference of two measures exceeds ``CLEAR_Z`` standard errors."""
    difference = larger - smaller
    return difference.value > CLEAR_Z * evaluation.se(difference)


PSEUDO_LIKELIHOOD = Limitation(
    "Pseudo-likelihood",
    "The hinge loss of a support vector machine takes the place of a likelihood, although it does not sum to one over "
    "the classes. Coefficients are on the scale of the hinge loss, which is zero for decision values outside the "
    "margins at ±1: they are not comparable with those of a logistic model. Coefficients near 0 do not mean that the "
    "predictors are unrelated to the outcome.",
)


def limitations(fit: Fit) -> Iterator[Limitation]:
    """Limitations that apply to a fit."""
    notes = fit.posterior.notes
    if not fit.spec.likelihood.normalised:
        yield PSEUDO_LIKELIHOOD
    yield Limitation(*covariance(fit).notes.spreads)
    yield from _probabilities(fit)
    if fit.plan.factors and notes.groups:
        yield Limitation("Random effects", notes.groups)
    if fit.selects:
        yield Limitation("Selection", notes.selection)
    if fit.missing_patterns is not None and fit.missing_patterns.n_incomplete:
        yield from _missing(fit)


def _probabilities(fit: Fit) -> Iterator[Limitation]:
    known = f"known levels of {fit.plan.factors[0].name}" if fit.plan.factors else ""
    groups = f" They are more reliable for new observations of {known} than for new levels." if known else ""
    if fit.spec.likelihood.normalised:
        yield Limitation(
            "Probabilities",
            "Probabilities are those of the model, averaged over the posterior: they are valid if the log odds are a "
            f"linear function of the design columns. The calibration plot checks this.{groups}",
        )
    elif fit._link is None:
        yield Limitation(
            "Probabilities are not calibrated",
            "This fit was made by an older version: its probabilities are the normalised pseudo-likelihood, and too "
            "close to 0 or 1 in most data. Fit it again.",
        )
    else:
        yield Limitation(
            "Probabilities",
            "A support vector machine estimates which class is more likely, not how likely it is. Probabilities are "
            "a function of its decision values (a link), fitted by leave-one-out; they are for new observations from "
            "the same population. The sections on calibration and marginal effects check them. If one predictor "
            "dominates, or one class is rare, very different observations may have the same decision value: use "
            f'likelihood="logistic" (Model) or VBLogistic.{groups}',
        )


def _missing(fit: Fit) -> Iterator[Limitation]:
    inputs = input_model(fit.spec.missing)
    mechanism = None
    if inputs is not None:
        mechanism = inputs.settings.mechanism
        if inputs.settings.labels == LIKELIHOOD and not fit.spec.likelihood.normalised:
            yield Limitation(
                "Bias of incomplete predictors away from 0",
                "Missing values are imputed jointly with the coefficients, given the outcome, which biases the "
                "coefficients of predictors with many missing values away from 0. Use the default, "
                'labels="regressor".',
            )
        elif inputs.settings.labels == NONE:
            yield Limitation(
                "Bias of incomplete predictors towards 0",
                "Missing values are imputed without the outcome, which biases the coefficients of predictors with "
                'missing values towards 0. Use the default, labels="regressor".',
            )
        yield Limitation(
            "Normality",
            "Incomplete predictors are assumed to be normal given the others. Transform skewed ones, as in log(x).",
        )
    if isinstance(mechanism, NotAtRandom):
        yield Limitation(
            "Missing not at random",
            "Whether a value is observed depends on the value itself in this model. Only the assumed normality of the "
            "predictors identifies this: combine it with a sensitivity analysis.",
        )
    elif isinstance(mechanism, Shift):
        yield Limitation("Shifted values", f"Missing values were shifted by assumption: {mechanism.written()}.")
    else:
        yield Limitation(
            "Missing at random",
            "Given the observed values, whether a value is missing is assumed not to depend on the value itself. "
            "The data cannot confirm this: sensitivity(…) shows how the results change if it is wrong.",
        )
