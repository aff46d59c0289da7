"""What to know before trusting a fit: only what applies to it, in plain notes."""

from collections.abc import Iterator

from vbsvm.missing.model import input_model
from vbsvm.missing.settings import LIKELIHOOD, NONE, NotAtRandom, Shift
from vbsvm.report.blocks import Caveat
from vbsvm.results.covariance import covariance
from vbsvm.results.fit import Fit

PSEUDO_LIKELIHOOD = Caveat(
    "A pseudo-likelihood",
    "The hinge loss of a support vector machine is used as a likelihood, although it is not one: it does not sum "
    "to one over the labels. Coefficients are on the scale of the hinge loss, which is zero for scores beyond ±1: "
    "they are not comparable with those of a logistic model. With a hinge loss, coefficients near 0 do not mean "
    "that the inputs are unrelated to the outcome.",
)


def of(fit: Fit) -> Iterator[Caveat]:
    """All that applies to a fit."""
    notes = fit.posterior.notes
    if not fit.spec.likelihood.normalised:
        yield PSEUDO_LIKELIHOOD
    yield Caveat(*covariance(fit).notes.spreads)
    yield from _probabilities(fit)
    if fit.plan.factors and notes.groups:
        yield Caveat("Spreads between groups", notes.groups)
    if fit.selects:
        yield Caveat("Selection", notes.selection)
    if fit.missing_patterns is not None and fit.missing_patterns.n_incomplete:
        yield from _missing(fit)


def _probabilities(fit: Fit) -> Iterator[Caveat]:
    groups = " They speak of new rows of known groups more surely than of new groups." * bool(fit.plan.factors)
    if fit.spec.likelihood.normalised:
        yield Caveat(
            "Probabilities",
            "Probabilities are those of the model, averaged over the posterior: they are right if scores are linear in "
            f"the columns. The figure of calibration shows whether they are.{groups}",
        )
    elif fit._link is None:
        yield Caveat(
            "Probabilities are not calibrated",
            "This fit is of an older version: its probabilities are the normalised pseudo-likelihood, and mostly too "
            "close to 0 or 1. Fit it again.",
        )
    else:
        yield Caveat(
            "Probabilities",
            "An SVM learns which class is likelier, not how likely. Probabilities are its scores, passed through a "
            "link that was fitted to leave-one-out scores; they are for new observations of the same population. "
            "Whether they are calibrated is checked in the sections on calibration and effects. Where one predictor "
            "decides, or one class is rare, scores of very different observations may be the same: use "
            f'likelihood="logistic" (Model) or VBLogistic there.{groups}',
        )


def _missing(fit: Fit) -> Iterator[Caveat]:
    inputs = input_model(fit.spec.missing)
    mechanism = None
    if inputs is not None:
        mechanism = inputs.settings.mechanism
        if inputs.settings.labels == LIKELIHOOD and not fit.spec.likelihood.normalised:
            yield Caveat(
                "Columns with many missing values are overrated",
                "Missing values are inferred from the label, too, which favours large coefficients: do not trust the "
                'coefficient of a column with many missing values. The default, labels="regressor", does not do this.',
            )
        elif inputs.settings.labels == NONE:
            yield Caveat(
                "Columns with many missing values are underrated",
                "The distribution of the inputs was learned without the labels: coefficients of columns with missing "
                'values are shrunk. The default, labels="regressor", does not do this.',
            )
        yield Caveat(
            "Normality",
            "Incomplete inputs are assumed to be normal, given the others. Transform skewed ones, as in log(x).",
        )
    if isinstance(mechanism, NotAtRandom):
        yield Caveat(
            "Not at random",
            "Whether a value is observed depends on the value itself in this model. Little but the assumed "
            "normality of the inputs identifies this: combine it with a sensitivity analysis.",
        )
    elif isinstance(mechanism, Shift):
        yield Caveat("Shifted values", f"Missing values were shifted by assumption: {mechanism.written()}.")
    else:
        yield Caveat(
            "Missing at random",
            "Given the known values of a row, whether a value is missing is assumed not to depend on the value. The "
            "data cannot confirm this: sensitivity(…) shows how the results change if it is wrong.",
        )
