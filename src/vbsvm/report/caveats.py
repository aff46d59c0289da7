"""What to know before trusting a fit: only what applies to it, in plain words."""

from collections.abc import Iterator
from typing import Any

from vbsvm.inference.gibbs import Sample
from vbsvm.missing.missingness import NotAtRandom, Shift
from vbsvm.missing.model import input_model
from vbsvm.report.blocks import Caveat


def of(fit: Any) -> Iterator[Caveat]:
    """All that applies to a fit."""
    yield Caveat(
        "A pseudo-likelihood",
        "The hinge loss of a support vector machine is read as a likelihood, though it is not one: it does not sum to "
        "one over the labels. Coefficients are on the scale of the hinge, which is content with scores beyond ±1: they "
        "do not compare with those of a logistic model. With a hinge loss, coefficients near 0 do not mean that the "
        "inputs are unrelated to the outcome.",
    )
    yield _spreads(fit)
    yield Caveat(
        "Probabilities are not calibrated",
        "They normalise the pseudo-likelihood, and are mostly too near to 0 or 1. Where inputs are missing or a group "
        "is new, they are averaged over what these may be; among other rows they have the order of the scores. "
        "Where the numbers matter, calibrate them on rows that the fit has not seen.",
    )
    if fit.plan.factors and not isinstance(fit.outcome, Sample):
        yield Caveat(
            "Spreads between groups",
            "With groups mean field can be off-centre as well as too narrow: in one nested model it found a standard "
            "deviation of 1.6 where Gibbs sampling found 5.4, and an intercept of the other sign. Its intervals do not "
            "show it. Predicted classes hardly suffer. Compare with a fit by Gibbs() before you read these numbers.",
        )
    if fit.selects:
        yield _selection(fit)
    if fit.gaps is not None and fit.gaps.n_incomplete:
        yield from _missing(fit)


def _spreads(fit: Any) -> Caveat:
    if isinstance(fit.outcome, Sample):
        return Caveat(
            "Spreads are not confidence intervals",
            "Standard deviations, intervals and probabilities of a sign are those of the posterior of the "
            "pseudo-likelihood, whose scale is not that of repeated samples. They cover the truth less often than they "
            "say: in simulations 95 % intervals missed it in 22 to 47 % of the cases.",
        )
    return Caveat(
        "Spreads are too small",
        "Standard deviations, intervals and probabilities of a sign are those of a mean-field approximation: about "
        "half of the posterior's in ordinary data, and less where the classes nearly separate. The posterior's own, by "
        "Gibbs(), are not confidence intervals either, and cover the truth less often than they say.",
    )


def _selection(fit: Any) -> Caveat:
    if isinstance(fit.outcome, Sample):
        return Caveat(
            "Selection",
            "Inclusion probabilities are shares of draws. Gates mix slowly: compare chains before you report them.",
        )
    text = (
        "Inclusion probabilities of variational Bayes are mostly near 0 or 1, where sampling has values between: read "
        "them as a selection, not as a strength of evidence. Of correlated inputs one may be taken and the others left."
    )
    if not fit.spec.joint_gates:
        text += (
            " The bound has several optima, and the start decides between them; LaplaceZero(restarts=…) tries others."
        )
    return Caveat("Selection", text)


def _missing(fit: Any) -> Iterator[Caveat]:
    law = input_model(fit.spec.missing)
    if law is not None:
        if law.settings.labels:
            yield Caveat(
                "Columns with many holes are overrated",
                "A missing value may become what suits its label, so that a large coefficient pays off: the "
                "coefficient of a column of which much is missing is not to be trusted. "
                "GaussianImputation(labels=False) errs on the other side; what matters by both is established.",
            )
        else:
            yield Caveat(
                "Columns with many holes are underrated",
                "The law of the inputs was learned without the labels and held: coefficients of columns with missing "
                "values are shrunk. The default, labels=True, errs on the other side.",
            )
        yield Caveat(
            "Normality",
            "Incomplete inputs are taken as normal, given the others. Transform skewed ones, as in log(x).",
        )
        mechanism = law.settings.mechanism
        if isinstance(mechanism, NotAtRandom):
            yield Caveat(
                "Not at random",
                "Whether a value is observed was let depend on the value. What identifies this is the normality of "
                "the inputs and little else: read it with a sensitivity analysis.",
            )
        elif isinstance(mechanism, Shift):
            yield Caveat("Shifted values", f"Missing values were shifted by assumption: {mechanism.written()}.")
        else:
            yield _at_random()
    else:
        yield _at_random()


def _at_random() -> Caveat:
    return Caveat(
        "Missing at random",
        "Given what is known of a row, being missing is taken to say nothing about the value. Data can't prove that: "
        "sensitivity(…) shows what follows if it is wrong.",
    )
