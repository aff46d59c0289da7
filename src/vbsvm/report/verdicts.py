"""Checks of a fit with their verdicts in plain language: good, or look at this."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vbsvm.plots import calibration_curve
from vbsvm.plots.resolve_fit import Predicted
from vbsvm.report.blocks import Verdict, names, percent
from vbsvm.report.tested import Tested
from vbsvm.results import display
from vbsvm.results.covariance import margin_warning
from vbsvm.results.effect_check import misfit, parts_of
from vbsvm.results.fit import Fit
from vbsvm.results.left_out_predictions import LeftOutPredictions, Measure

FEW_ROWS = 10
FEW_GROUPS = 5
# Above this share of missing values the coefficient of a column says more about the model than about the column.
MUCH = 0.3
# A class is hardly ever predicted where it is in fewer predictions than this share of its rows.
HARDLY = 0.1
# A difference counts if it is larger than so many standard errors.
CLEAR = 2.0
# Slopes of the log odds within these are good enough for most uses.
GOOD_SLOPES = 0.8, 1.25
HINGE = (
    "With a hinge loss this can happen even if inputs are associated with the outcome: coefficients near 0 do not rule "
    'out an association. If the classes differ in size, fit again with class_weight="balanced", or in a formula with '
    "weights."
)
FLATTERED = (
    "among so many inputs for so few rows this makes the model look much better than it is. Fit it within "
    "cross-validation, where each fold chooses anew."
)
# A mean probability this far from the share is off, if it is by more than chance.
OFF = 0.03


def of(fit: Fit) -> Iterator[Verdict]:
    """What of the data asks for care, and how the fit ended."""
    if fit.facts is not None:
        for label, rows in zip(fit.classes, fit.facts.rows, strict=True):
            if label is not None and rows < FEW_ROWS:
                yield Verdict(False, f"The class {label!s} has only {rows} rows.")
    if fit.missing_patterns is not None:
        total = fit.missing_patterns.total
        much = [name for name, count in fit.missing_patterns.by_column.items() if count > MUCH * total]
        if much:
            said = f"More than {100 * MUCH:.0f} % of the values are missing in {names(much)}."
            yield Verdict(False, f"{said} Do not interpret their coefficients without a sensitivity analysis.")
    for factor in fit.plan.factors:
        if len(factor.levels) < FEW_GROUPS:
            yield Verdict(
                False,
                f"{factor.name} has only {len(factor.levels)} groups: they carry little information about the spread "
                "between groups, and the prior influences it.",
            )
    if margin_warning(fit):
        yield Verdict(False, margin_warning(fit))
    yield from (Verdict(good, text) for good, text in display.convergence(fit.history))


def of_predictions(tested: Tested, *, hinge: bool) -> Iterator[Verdict]:
    """Whether all classes are predicted; whether the model beats the shares of the classes, and simple rivals."""
    collapsed = list(_collapsed(tested, hinge=hinge))
    yield from collapsed
    own, shares = tested.own, tested.in_shares
    wrong, base = tested.leading(own), tested.leading(shares)
    said = f"{_told(tested, own)}{' when left out' if tested.left_out else ''}"
    better = _clearly(tested, base, wrong)
    loss = _clearly(tested, shares.log_loss, own.log_loss)
    losses = f"log-loss {own.log_loss.value:.3f} against {shares.log_loss.value:.3f}"
    beside = f"if all are called {tested.most_common}"
    if tested.flattered:
        yield Verdict(False, f"{said[0].upper()}{said[1:]}, but the inputs were chosen with all rows: {FLATTERED}")
    elif better:
        yield Verdict(True, f"The model predicts: {said}, against {percent(base.value, 1)} {beside}.")
    elif loss:
        text = (
            f"No clearly fewer rows are wrong ({said}, against {percent(base.value, 1)} {beside}), but probabilities "
        )
        yield Verdict(not hinge, f"{text}tell rows apart: {losses}.")
    else:
        text = "The model predicts no better than the shares of the classes"
        yield Verdict(False, f"{text}: {said}, against {percent(base.value, 1)} {beside}; {losses}.")
    if (better or not collapsed) and not tested.flattered:
        yield from _beside_rivals(tested)


def _beside_rivals(tested: Tested) -> Iterator[Verdict]:
    for name, rival in tested.others.items():
        numbers = f"{_told(tested, tested.own)} against {percent(tested.leading(rival).value, 1)}"
        if _clearly(tested, tested.leading(rival), tested.leading(tested.own)):
            yield Verdict(True, f"It does better than {name}: {numbers}.")
        elif _clearly(tested, rival.log_loss, tested.own.log_loss):
            loss = f"{tested.own.log_loss.value:.3f} against {rival.log_loss.value:.3f}"
            yield Verdict(True, f"It does better than {name} by its probabilities: log-loss {loss}.")
        else:
            yield Verdict(False, f"It does not clearly do better than {name}: {numbers}.")


def _collapsed(tested: Tested, *, hinge: bool) -> Iterator[Verdict]:
    """Classes that are never predicted, or hardly ever."""
    rows = tested.rows
    for k, label in enumerate(tested.classes):
        there, predicted = (float(rows.weights[one == k].sum()) for one in (rows.truth, rows.decided))
        if predicted >= HARDLY * there:
            continue
        others = [name for j, name in enumerate(tested.classes) if j != k]
        if not predicted and len(others) == 1:
            text = f"The model predicts one class: all rows are called {others[0]}, although {there:g} are {label}."
        else:
            text = f"Hardly any row is called {label}: {predicted:g}, although {there:g} are."
        if hinge:
            yield Verdict(False, f"{text} {HINGE}")
        else:
            yield Verdict(False, f"{text} Where a class is rare, that is to be expected: use the probabilities.")


def of_separation(fits: Sequence[Fit], tested: Tested) -> Iterator[Verdict]:
    """Whether some class is separated from the rest without an error."""
    for k, fit in enumerate(fits):
        sides, positive = tested.rows.fitted[:, k] > 0, tested.rows.truth == (1 if len(fits) == 1 else k)
        if (sides == positive).all() and not fit.history.separable:
            who = "these classes" if len(fits) == 1 else f"{fit.classes[1]!s} from the rest"
            yield Verdict(
                False,
                f"Every row is on the correct side in the fit: the columns separate {who}, and the size of the "
                "coefficients depends on the prior as much as on the data.",
            )


def of_calibration(tested: Tested, found: Sequence[Predicted]) -> Iterator[Verdict]:
    """Whether probabilities are right on average, and as extreme as they should be; nothing of flattered ones."""
    if tested.flattered:
        return
    groups = max(tested.rows.groups.values(), key=lambda one: int(one.max()), default=None)
    checks = [_calibration(one, groups) for one in found]
    if len(checks) == 1 or not all(check.good for check in checks):
        several = len(checks) > 1
        for one, check in zip(found, checks, strict=True):
            if not several or not check.good:
                yield Verdict(check.good, f"{one.classes[1]}: {check.text}" if several else check.text)
        return
    yield Verdict(True, f"Probabilities of all {len(checks)} classes are calibrated.")


def _calibration(found: Predicted, groups: NDArray[np.intp] | None) -> Verdict:
    slope = calibration_curve.slope(found.chances, found.positive, found.weights, groups)
    told = f"the slope of the log odds is {slope.value:.2f} (95 % interval {slope.lower:.2f} to {slope.upper:.2f})"
    told = told.replace("-", "−") + ", and 1 is right"
    predicted, observed = (float(np.average(one, weights=found.weights)) for one in (found.chances, found.positive))
    average = f"on average {percent(predicted, 1)} are predicted as {found.classes[1]}, and {percent(observed, 1)} are"
    chance = CLEAR * np.sqrt(observed * (1.0 - observed) / found.weights.sum())
    if abs(predicted - observed) > max(OFF, chance):
        return Verdict(False, f"Probabilities are off: {average}; {told}.")
    if slope.upper < 1.0 and slope.value < GOOD_SLOPES[0]:
        return Verdict(False, f"Probabilities are too extreme: {told}; {average}.")
    if slope.lower > 1.0 and slope.value > GOOD_SLOPES[1]:
        return Verdict(False, f"Probabilities are too timid: {told}; {average}.")
    units, positive = [] if groups is None else [groups], found.positive.astype(np.float64)
    part = misfit(parts_of(found.chances), found.chances, positive, found.weights, units)
    if part is not None:
        where = f"mean predicted probability {percent(part.predicted, 1)}, observed {percent(part.observed, 1)}"
        return Verdict(False, f"Probabilities are not calibrated: in a fifth of the observations {where}; {average}.")
    if slope.lower <= 0.0:
        return Verdict(True, f"Probabilities are right on average, but hardly tell rows apart: {average}; {told}.")
    sure = "" if slope.upper - slope.lower < 1.0 else ", as far as these observations tell"
    return Verdict(True, f"Probabilities are calibrated{sure}: {average}; {told}.")


def _clearly(tested: Tested, larger: Measure, smaller: Measure) -> bool:
    """Whether one measure is smaller than the other by more than chance."""
    difference = larger - smaller
    return difference.value > CLEAR * tested.se(difference)


def _told(tested: Tested, of: LeftOutPredictions) -> str:
    value = percent(tested.leading(of).value, 1)
    return f"a balanced error of {value}" if tested.weighted else f"{value} of rows are wrong"
