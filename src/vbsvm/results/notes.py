"""Notes of tables, figures and reports on standard errors and intervals, as data.

``MEAN_FIELD`` and its like are the notes of a fit's own distribution, and ``KIND_NOTES`` what a kind of covariance puts
in their place. Names in braces are filled in when the facts of a fit are known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas as pd

_NOT_CONFIDENCE = (
    "Posterior intervals, as from Gibbs(), are not confidence intervals either: their coverage is below the nominal "
    "level."
)
_INCLUDES_NOISE = (
    "At a likelihood power of 1 the hinge loss is overconfident, and pure noise predictors may have inclusion "
    "probabilities near 1, with Gibbs() as well: use likelihood_power='calibrated', or a logistic model."
)
_AT_POWER = "Likelihood power: {:.3g}. At a calibrated power, posterior intervals have about nominal coverage."
_VALID_IF = (
    "Valid if the model is correctly specified; for confidence intervals that are also valid under misspecification "
    "use covariance='robust'."
)
_DRAWS_FROM = " For draws from the posterior use inference=Gibbs()."
_NUMBERS = "Standard deviations, intervals and sign probabilities are those of"
_SELECTION = (
    "Inclusion probabilities of variational Bayes are close to 0 or 1 where sampling gives intermediate values: use "
    "them for selection, not as strength of evidence. Of several correlated predictors, only one may be selected."
)
_SEVERAL_OPTIMA = (
    " The ELBO has several local maxima, and the result depends on the start: LaplaceZero(restarts=…) tries more."
)
_SELECTION_OF_DRAWS = (
    "Inclusion probabilities are proportions of draws. Inclusion indicators mix slowly: check their R-hat and ESS "
    "before reporting them."
)


@final
@dataclass(frozen=True, slots=True)
class Notes:
    """The notes on one kind of standard deviations and intervals.

    ``explanation`` is the note of tables. ``mean`` and ``aside`` are for figures: what the centre of an interval is,
    and what follows it in brackets.
    ``intervals`` and ``components`` end the captions of tables of coefficients and of variance components. The others
    are limitations in reports: of standard errors (a title and a text), of random effects, and of selection, if any.
    """

    explanation: str
    intervals: str
    components: str
    spreads: tuple[str, str]
    mean: str = "mean"
    aside: str = ""
    groups: str = ""
    selection: str = ""
    of_posterior: bool = True  # and not of repeated sampling

    def interval(self, level: float) -> str:
        """Description of the intervals of a figure."""
        return f"{self.mean} and {100 * level:g} % interval{self.aside}"

    def band(self, level: float) -> str:
        """Description of the band in the figure of a curve."""
        return f"curve and pointwise {100 * level:g} % band{self.aside}"


MEAN_FIELD = Notes(
    explanation=f"Posterior sd: mean-field approximation, about half of the true posterior sd.{_DRAWS_FROM}",
    aside=" (mean-field: too narrow)",
    intervals="of the mean-field approximation",
    components="of the mean-field approximation, which can be far too narrow",
    spreads=(
        "Standard deviations are too small",
        f"{_NUMBERS} a mean-field approximation: about half of the posterior's in ordinary data, and less if the "
        f"classes are nearly separable. {_NOT_CONFIDENCE}",
    ),
    groups=(
        "With random effects, mean-field estimates can be biased as well as too certain: in one nested model the "
        "standard deviation of a random intercept was 1.6 where Gibbs sampling gave 5.4, and the fixed intercept had "
        "the opposite sign. The intervals do not show this; predicted classes change little. Compare with a fit by "
        "Gibbs() before interpreting these numbers."
    ),
    selection=_SELECTION,
)
MEAN_FIELD_WITH_GROUPS = replace(
    MEAN_FIELD,
    explanation=(
        "Posterior sd: mean-field approximation, about half of the true posterior sd. With random effects, "
        f"coefficients and standard deviations can be biased as well.{_DRAWS_FROM}"
    ),
    aside=" (mean-field: narrow, biased)",
)
# The exact bound is for models without inclusion indicators: no note on selection.
EXACT_BOUND = Notes(
    explanation="Posterior sd: exact variational bound, between mean-field and true posterior sd.",
    aside=" (exact bound: narrow)",
    intervals="of the exact bound",
    components="of the exact bound, which can be far too narrow",
    spreads=(
        "Standard deviations are too small",
        f"{_NUMBERS} the exact bound: larger than mean-field, but smaller than the posterior's. {_NOT_CONFIDENCE}",
    ),
    groups=(
        "The exact bound underestimates standard deviations of random effects: on the toenail data 3.1 where Gibbs "
        "sampling gave 3.7, with the intercept .6 posterior standard deviations off. Predicted classes change little. "
        "Compare with a fit by Gibbs() if these numbers matter."
    ),
)
EXACT_LOGISTIC_BOUND = Notes(
    explanation="Posterior sd: exact variational bound, smaller than the true posterior sd.",
    aside=" (exact bound)",
    intervals="of the exact bound",
    components="of the exact bound, too small if levels have few observations",
    spreads=("Standard deviations are too small", f"{_NUMBERS} the exact bound, smaller than the posterior's."),
    groups=(
        "The random effects were not integrated out: with few observations per level their standard deviations are too "
        "small (in one nested model 2.0 where NUTS gave 2.6), and coefficients can be off by a posterior standard "
        "deviation; with few levels standard deviations of coefficients are too small (with three levels of 20 or more "
        "observations .4 to .9 of those of Gibbs sampling). Compare with a fit by Gibbs() if these numbers matter."
    ),
)
AUGMENTED_LOGISTIC_BOUND = Notes(
    explanation=f"Posterior sd: augmented variational bound, smaller than the true posterior sd.{_DRAWS_FROM}",
    aside=" (augmented bound: narrow)",
    intervals="of the augmented bound",
    components="of the augmented bound, which can be far too narrow",
    spreads=("Standard deviations are too small", f"{_NUMBERS} the augmented bound, smaller than the posterior's."),
    groups=(
        "With random effects, the augmented bound is unreliable: on the toenail data the standard deviation of the "
        "random intercept was 2.1 where Gibbs sampling gave 4.2. Use the exact bound, the default."
    ),
    selection=_SELECTION,
)
INTEGRATED = Notes(
    explanation="Posterior sd and credible intervals; random effects integrated out.",
    aside=" (posterior)",
    intervals="of the posterior",
    components="of the posterior, random effects integrated out",
    spreads=("Intervals are credible intervals", f"{_NUMBERS} the posterior, and valid if the model is."),
)
DRAWS_OF_POSTERIOR = replace(
    INTEGRATED,
    explanation="Posterior sd and credible intervals.",
    mean="posterior mean",
    aside="",
    components="of the posterior",
    selection=_SELECTION_OF_DRAWS,
)
DRAWS = replace(
    DRAWS_OF_POSTERIOR,
    explanation="Posterior sd and intervals of the pseudo-likelihood: intervals are not confidence intervals.",
    spreads=(
        "Intervals are not confidence intervals",
        f"{_NUMBERS} the posterior of the pseudo-likelihood, which does not describe repeated sampling. Coverage is "
        "below the nominal level: in simulations, 95 % intervals missed the true value in 22 to 47 % of the cases.",
    ),
)
DRAWS_AT_POWER = replace(
    DRAWS,
    explanation="Posterior sd and intervals of the pseudo-likelihood. {power}",
    spreads=("Intervals are those of the pseudo-likelihood", f"{_NUMBERS} the posterior of the pseudo-likelihood."),
)

_OF_POSTERIOR = {"mean": "mean", "aside": " (posterior)", "intervals": "of the posterior"}
_BY_CURVATURE = {"mean": "mean", "aside": " (normal approximation)", "intervals": "of a normal approximation"}
# By kind, and whether its intervals have nominal coverage: under a likelihood, or at a calibrated power.
KIND_NOTES: dict[tuple[str, bool], dict[str, Any]] = {
    ("robust", False): {
        "explanation": "Standard errors: {robust}. Intervals: confidence intervals.",
        "mean": "coefficient",
        "aside": " (robust)",
        "of_posterior": False,
        "intervals": "that are robust confidence intervals",
        "spreads": (
            "Intervals of coefficients are robust confidence intervals",
            "Standard errors: {robust}, {how}. They estimate the standard deviation of the estimates over samples from "
            "the same population; the posterior standard deviation is another quantity, and usually smaller.",
        ),
    },
    ("posterior", False): _OF_POSTERIOR
    | {
        "explanation": (
            "Posterior sd and intervals of the pseudo-likelihood, by linear response: intervals are not confidence "
            "intervals."
        ),
        "spreads": (
            "Intervals are not confidence intervals",
            f"{_NUMBERS} the posterior of the pseudo-likelihood, by linear response of the bound. They do not describe "
            "repeated sampling: coverage is below the nominal level.",
        ),
    },
    ("posterior", True): _OF_POSTERIOR
    | {
        "explanation": "{approximate} sd and credible intervals, {how}.{groups} {valid}",
        "spreads": ("Intervals are credible intervals", f"{_NUMBERS} the posterior, {{how}}."),
    },
    ("curvature", False): _BY_CURVATURE
    | {
        "explanation": (
            "Posterior sd: normal approximation by the curvature at the mean, {narrow}; intervals are not confidence "
            f"intervals.{_DRAWS_FROM}"
        ),
        "spreads": (
            "Standard deviations are approximate",
            f"{_NUMBERS} a normal approximation by the curvature at the mean: {{narrow}}. {_NOT_CONFIDENCE}",
        ),
    },
    ("curvature", True): _BY_CURVATURE
    | {
        "explanation": "Posterior sd: normal approximation by the curvature at the mean, {narrow}.",
        "spreads": (
            "Standard deviations are approximate",
            f"{_NUMBERS} a normal approximation by the curvature at the mean: {{narrow}}.",
        ),
    },
}
# How the covariance in the middle of the sandwich was computed, or the posterior covariance.
_BREADS = {
    "response": "with the linear response of the exact bound",
    "curvature": "with the curvature at the mean",
    "draws": "with the covariance of the draws",
    "quadrature": "random effects integrated out",
}
_POSTERIORS = {"response": "by linear response", "quadrature": "random effects integrated out"}


def of_bound(*, normalised: bool, exact: bool, groups: bool, joint_gates: bool) -> Notes:
    """Notes for the variational distribution under a bound."""
    if not normalised and not exact:
        notes = MEAN_FIELD_WITH_GROUPS if groups else MEAN_FIELD
        return notes if joint_gates else replace(notes, selection=_SELECTION + _SEVERAL_OPTIMA)
    exact_bound = EXACT_LOGISTIC_BOUND if normalised else EXACT_BOUND
    notes = exact_bound if exact else AUGMENTED_LOGISTIC_BOUND
    return notes if groups else replace(notes, groups="")


def at_power(notes: Notes, power: float) -> Notes:
    """Notes for a likelihood power: at 1 selection may include noise, below 1 intervals are wide enough."""
    if power == 1.0:
        return replace(notes, selection=f"{notes.selection} {_INCLUDES_NOISE}") if notes.selection else notes
    notes, power_note = DRAWS_AT_POWER if notes == DRAWS else notes, _AT_POWER.format(power)
    title, text = notes.spreads
    return replace(
        notes,
        explanation=notes.explanation.replace("{power}", power_note),
        spreads=(title, f"{text.replace(_NOT_CONFIDENCE, '').strip()} {power_note}"),
    )


def of_kind(
    kind: str,
    base: Notes,
    warnings: Sequence[str],
    *,
    normalised: bool,
    power: float,
    clusters: str | None = None,
    by: str = "curvature",
    missing: bool = False,
) -> Notes:
    """Notes for a kind of covariance other than that of the fit: robust, posterior, or curvature.

    ``base`` are those of the fit. ``clusters`` is the factor on which robust standard errors are clustered, and ``by``
    how the posterior covariance was computed, which they need. ``missing`` says that predictors have missing values:
    robust standard errors include the uncertainty, and the curvature of the augmented bound is less accurate.
    """
    sound = normalised if kind == "curvature" else kind == "posterior" and (normalised or power != 1.0)
    robust = "robust (sandwich)" if clusters is None else f"cluster-robust (sandwich), clustered on {clusters}"
    facts = {
        "how": (_BREADS if kind == "robust" else _POSTERIORS).get(by, "by linear response"),
        "robust": robust + ", including the uncertainty due to missing values" * missing,
        "approximate": "Approximate posterior" if base.groups else "Posterior",
        "groups": f" {base.groups}" if base.groups else "",
        "valid": _VALID_IF if normalised else _AT_POWER.format(power),
        "narrow": "about two thirds of the posterior's" if missing else "usually smaller than the posterior's",
    }
    fields = KIND_NOTES[kind, sound]
    title, text = fields["spreads"]
    explanation, text = (" ".join([part.format(**facts), *warnings]) for part in (fields["explanation"], text))
    return replace(base, **fields | {"explanation": explanation, "spreads": (title, text)})


def beside_posterior(notes: Notes) -> Notes:
    """Notes that mention covariance='posterior' as an alternative."""
    return replace(notes, explanation=f"{notes.explanation} For posterior intervals use covariance='posterior'.")


def estimated_from_draws(notes: Notes, n_draws: int) -> Notes:
    """Notes for standard deviations estimated from draws, when a covariance is too large."""
    caution = (
        f"The covariance matrix is too large to form: standard deviations are estimated from {n_draws} draws, with a "
        f"relative standard error of up to {100 / math.sqrt(2 * n_draws):.0f} %."
    )
    title, text = notes.spreads
    return replace(
        notes,
        explanation=f"{notes.explanation.replace(_DRAWS_FROM, '')} {caution}",
        aside=f"{notes.aside.removesuffix(')')}, estimated)" if notes.aside else " (estimated)",
        spreads=(title, f"{text} {caution}"),
    )


def of_components(base: Notes, *, narrow: bool, by_response: bool) -> Notes:
    """Notes for variance components by quadrature, draws, linear response, or the bound."""
    advice = " Intervals marked as too narrow have less than nominal coverage: use inference=Gibbs()." * narrow
    if base in (INTEGRATED, DRAWS_OF_POSTERIOR):
        how = ", random effects integrated out" * (base == INTEGRATED)
        explanation = f"Posterior medians and highest-density intervals{how}.{advice}"
        return replace(base, explanation=explanation, components=f"of the highest posterior density{how}")
    if not by_response:
        return base
    explanation = f"Intervals of standard deviations: posterior, approximated by linear response.{advice}"
    components = "by linear response" + "; too narrow for random effects" * narrow
    return replace(base, explanation=explanation, components=components)


def noted(frame: "pd.DataFrame", notes: Notes, level: float | None = None) -> "pd.DataFrame":
    """Attach the note to a table, what its standard errors are called, and the level of its intervals."""
    frame.attrs = {} if level is None else {"level": level}
    frame.attrs |= {"std_error": "posterior sd" if notes.of_posterior else "std. error", "note": notes.explanation}
    return frame
