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
from vbsvm.results.comparison.models import LeftOutPredictions, Measure
from vbsvm.results.covariance import covariance, margin_warning
from vbsvm.results.effects.check import misfit, quantile_bins
from vbsvm.results.fit import Fit

MIN_CLASS_ROWS = 10
MIN_GROUPS = 5
# Above this proportion of missing values the coefficient of a column depends mostly on the model.
MAX_MISSING_SHARE = 0.3
# A class is hardly ever predicted if its predictions are fewer than this proportion of its rows.
MIN_PREDICTED_SHARE = 0.1
# A difference is clear if it exceeds this many standard errors.
CLEAR_Z = 2.0
# Slopes of the log odds within these are good enough for most uses.
ACCEPTABLE_SLOPES = 0.8, 1.25
HINGE = (
    "With a hinge loss this can happen even if inputs are associated with the outcome: coefficients near 0 do not "
    'rule out an association. If the classes differ in size, fit again with class_weight="balanced", or in a formula '
    "with weights."
)
RARE = "Where a class is rare, that is to be expected: use the probabilities."
OPTIMISTIC = (
    "among so many inputs for so few rows this makes the model look much better than it is. Fit it within "
    "cross-validation, where each fold chooses anew."
)
# Tolerated difference between the mean predicted probability and the observed proportion.
MAX_MEAN_ERROR = 0.03


def fit_checks(fit: Fit) -> Iterator[Check]:
    """Checks of the data (class and group sizes, missing values) and of convergence."""
    if fit.facts is not None:
        for label, rows in zip(fit.classes, fit.facts.rows, strict=True):
            if label is not None and rows < MIN_CLASS_ROWS:
                yield Check(False, f"The class {label!s} has only {rows} rows.")
    if fit.missing_patterns is not None:
        total = fit.missing_patterns.total
        much = [name for name, count in fit.missing_patterns.by_column.items() if count > MAX_MISSING_SHARE * total]
        if much:
            text = f"More than {100 * MAX_MISSING_SHARE:.0f} % of the values are missing in {names(much)}."
            yield Check(False, f"{text} Do not interpret their coefficients without a sensitivity analysis.")
    for factor in fit.plan.factors:
        if len(factor.levels) < MIN_GROUPS:
            text = f"{factor.name} has only {len(factor.levels)} groups: they carry little information about the spread"
            yield Check(False, f"{text} between groups, and the prior influences it.")
    if margin_warning(fit):
        yield Check(False, margin_warning(fit))
    yield from (Check(good, text) for good, text in display.convergence(fit.history))


def prediction_checks(evaluation: Evaluation, *, hinge: bool) -> Iterator[Check]:
    """Whether all classes are predicted, and whether the model beats the base rates and simple baselines."""
    collapsed = list(_collapsed(evaluation, hinge=hinge))
    yield from collapsed
    model, shares = evaluation.model, evaluation.base_rates
    wrong, base = evaluation.primary(model), evaluation.primary(shares)
    errors = f"{_error_text(evaluation, model)}{' when left out' if evaluation.left_out else ''}"
    better = _is_clearly_smaller(evaluation, base, wrong)
    loss = _is_clearly_smaller(evaluation, shares.log_loss, model.log_loss)
    losses = f"log-loss {model.log_loss.value:.3f} against {shares.log_loss.value:.3f}"
    baseline = f"if all are called {evaluation.most_common}"
    if evaluation.optimistic:
        yield Check(False, f"{errors[0].upper()}{errors[1:]}, but the inputs were chosen with all rows: {OPTIMISTIC}")
    elif better:
        yield Check(True, f"The model predicts: {errors}, against {percent(base.value, 1)} {baseline}.")
    elif loss:
        text = f"No clearly fewer rows are wrong ({errors}, against {percent(base.value, 1)} {baseline})"
        yield Check(not hinge, f"{text}, but probabilities tell rows apart: {losses}.")
    else:
        text = "The model predicts no better than the shares of the classes"
        yield Check(False, f"{text}: {errors}, against {percent(base.value, 1)} {baseline}; {losses}.")
    if (better or not collapsed) and not evaluation.optimistic:
        yield from _compared_with_baselines(evaluation)


def _compared_with_baselines(evaluation: Evaluation) -> Iterator[Check]:
    for name, rival in evaluation.baselines.items():
        numbers = f"{_error_text(evaluation, evaluation.model)} against {percent(evaluation.primary(rival).value, 1)}"
        if _is_clearly_smaller(evaluation, evaluation.primary(rival), evaluation.primary(evaluation.model)):
            yield Check(True, f"It does better than {name}: {numbers}.")
        elif _is_clearly_smaller(evaluation, rival.log_loss, evaluation.model.log_loss):
            loss = f"{evaluation.model.log_loss.value:.3f} against {rival.log_loss.value:.3f}"
            yield Check(True, f"It does better than {name} by its probabilities: log-loss {loss}.")
        else:
            yield Check(False, f"It does not clearly do better than {name}: {numbers}.")


def _collapsed(evaluation: Evaluation, *, hinge: bool) -> Iterator[Check]:
    """Classes predicted for less than ``MIN_PREDICTED_SHARE`` of their weight."""
    rows = evaluation.rows
    for k, label in enumerate(evaluation.classes):
        observed, predicted = (float(rows.weights[classes == k].sum()) for classes in (rows.truth, rows.decided))
        if predicted >= MIN_PREDICTED_SHARE * observed:
            continue
        others = [name for j, name in enumerate(evaluation.classes) if j != k]
        if not predicted and len(others) == 1:
            text = f"The model predicts one class: all rows are called {others[0]}, although {observed:g} are {label}."
        else:
            text = f"Hardly any row is called {label}: {predicted:g}, although {observed:g} are."
        yield Check(False, f"{text} {HINGE if hinge else RARE}")


def separation_checks(fits: Sequence[Fit], evaluation: Evaluation) -> Iterator[Check]:
    """Whether some class is completely separated from the rest."""
    for k, fit in enumerate(fits):
        sides, positive = evaluation.rows.fitted[:, k] > 0, evaluation.rows.truth == (1 if len(fits) == 1 else k)
        if (sides == positive).all() and not fit.history.separable:
            who = "these classes" if len(fits) == 1 else f"{fit.classes[1]!s} from the rest"
            text = f"Every row is on the correct side in the fit: the columns separate {who}, and the size of the"
            yield Check(False, f"{text} coefficients depends on the prior as much as on the data.")


def calibration_checks(evaluation: Evaluation, predicted: Sequence[Predicted]) -> Iterator[Check]:
    """Calibration in the large and calibration slope; nothing for optimistic predictions."""
    if evaluation.optimistic:
        return
    groups = max(evaluation.rows.groups.values(), key=lambda rows: int(rows.max()), default=None)
    found = [(rows.classes[1], _calibration(rows, groups)) for rows in predicted]
    if len(found) == 1:
        yield found[0][1]
    elif all(check.good for _, check in found):
        yield Check(True, f"Probabilities of all {len(found)} classes are calibrated.")
    else:
        yield from (Check(False, f"{label}: {check.text}") for label, check in found if not check.good)


def _calibration(rows: Predicted, groups: NDArray[np.intp] | None) -> Check:
    slope = calibration_slope(rows.probabilities, rows.positive, rows.weights, groups)
    text = f"the slope of the log odds is {slope.value:.2f} (95 % interval {slope.lower:.2f} to {slope.upper:.2f})"
    text = text.replace("-", "−") + ", and 1 is right"
    predicted, observed = (float(np.average(x, weights=rows.weights)) for x in (rows.probabilities, rows.positive))
    average = f"on average {percent(predicted, 1)} are predicted as {rows.classes[1]}, and {percent(observed, 1)} are"
    chance = CLEAR_Z * np.sqrt(observed * (1.0 - observed) / rows.weights.sum())
    if abs(predicted - observed) > max(MAX_MEAN_ERROR, chance):
        return Check(False, f"Probabilities are off: {average}; {text}.")
    if slope.upper < 1.0 and slope.value < ACCEPTABLE_SLOPES[0]:
        return Check(False, f"Probabilities are too extreme: {text}; {average}.")
    if slope.lower > 1.0 and slope.value > ACCEPTABLE_SLOPES[1]:
        return Check(False, f"Probabilities are too timid: {text}; {average}.")
    units, positive = [] if groups is None else [groups], rows.positive.astype(np.float64)
    part = misfit(quantile_bins(rows.probabilities), rows.probabilities, positive, rows.weights, units)
    if part is not None:
        means = f"mean predicted probability {percent(part.predicted, 1)}, observed {percent(part.observed, 1)}"
        return Check(False, f"Probabilities are not calibrated: in a fifth of the observations {means}; {average}.")
    if slope.lower <= 0.0:
        return Check(True, f"Probabilities are right on average, but hardly tell rows apart: {average}; {text}.")
    sure = "" if slope.upper - slope.lower < 1.0 else ", as far as these observations tell"
    return Check(True, f"Probabilities are calibrated{sure}: {average}; {text}.")


def _is_clearly_smaller(evaluation: Evaluation, larger: Measure, smaller: Measure) -> bool:
    """Whether the difference of two measures exceeds ``CLEAR_Z`` standard errors."""
    difference = larger - smaller
    return difference.value > CLEAR_Z * evaluation.se(difference)


def _error_text(evaluation: Evaluation, of_fit: LeftOutPredictions) -> str:
    value = percent(evaluation.primary(of_fit).value, 1)
    return f"a balanced error of {value}" if evaluation.weighted else f"{value} of rows are wrong"


PSEUDO_LIKELIHOOD = Limitation(
    "A pseudo-likelihood",
    "The hinge loss of a support vector machine is used as a likelihood, although it is not one: it does not sum "
    "to one over the labels. Coefficients are on the scale of the hinge loss, which is zero for scores beyond ±1: "
    "they are not comparable with those of a logistic model. With a hinge loss, coefficients near 0 do not mean "
    "that the inputs are unrelated to the outcome.",
)


def limitations(fit: Fit) -> Iterator[Limitation]:
    """Limitations that apply to a fit."""
    notes = fit.posterior.notes
    if not fit.spec.likelihood.normalised:
        yield PSEUDO_LIKELIHOOD
    yield Limitation(*covariance(fit).notes.spreads)
    yield from _probabilities(fit)
    if fit.plan.factors and notes.groups:
        yield Limitation("Spreads between groups", notes.groups)
    if fit.selects:
        yield Limitation("Selection", notes.selection)
    if fit.missing_patterns is not None and fit.missing_patterns.n_incomplete:
        yield from _missing(fit)


def _probabilities(fit: Fit) -> Iterator[Limitation]:
    groups = " They speak of new rows of known groups more surely than of new groups." * bool(fit.plan.factors)
    if fit.spec.likelihood.normalised:
        yield Limitation(
            "Probabilities",
            "Probabilities are those of the model, averaged over the posterior: they are right if scores are "
            f"linear in the columns. The figure of calibration shows whether they are.{groups}",
        )
    elif fit._link is None:
        yield Limitation(
            "Probabilities are not calibrated",
            "This fit is of an older version: its probabilities are the normalised pseudo-likelihood, and mostly "
            "too close to 0 or 1. Fit it again.",
        )
    else:
        yield Limitation(
            "Probabilities",
            "An SVM learns which class is likelier, not how likely. Probabilities are its scores, passed through a "
            "link that was fitted to leave-one-out scores; they are for new observations of the same population. "
            "Whether they are calibrated is checked in the sections on calibration and effects. Where one predictor "
            "decides, or one class is rare, scores of very different observations may be the same: use "
            f'likelihood="logistic" (Model) or VBLogistic there.{groups}',
        )


def _missing(fit: Fit) -> Iterator[Limitation]:
    inputs = input_model(fit.spec.missing)
    mechanism = None
    if inputs is not None:
        mechanism = inputs.settings.mechanism
        if inputs.settings.labels == LIKELIHOOD and not fit.spec.likelihood.normalised:
            yield Limitation(
                "Columns with many missing values are overrated",
                "Missing values are inferred from the label, too, which favours large coefficients: do not trust "
                'the coefficient of a column with many missing values. The default, labels="regressor", does not '
                "do this.",
            )
        elif inputs.settings.labels == NONE:
            yield Limitation(
                "Columns with many missing values are underrated",
                "The distribution of the inputs was learned without the labels: coefficients of columns with "
                'missing values are shrunk. The default, labels="regressor", does not do this.',
            )
        yield Limitation(
            "Normality",
            "Incomplete inputs are assumed to be normal, given the others. Transform skewed ones, as in log(x).",
        )
    if isinstance(mechanism, NotAtRandom):
        yield Limitation(
            "Not at random",
            "Whether a value is observed depends on the value itself in this model. Little but the assumed "
            "normality of the inputs identifies this: combine it with a sensitivity analysis.",
        )
    elif isinstance(mechanism, Shift):
        yield Limitation("Shifted values", f"Missing values were shifted by assumption: {mechanism.written()}.")
    else:
        yield Limitation(
            "Missing at random",
            "Given the known values of a row, whether a value is missing is assumed not to depend on the value. "
            "The data cannot confirm this: sensitivity(…) shows how the results change if it is wrong.",
        )
