"""What tables, figures and reports say of standard deviations and intervals: texts as data.

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
    "The posterior's own, by Gibbs(), are not confidence intervals either, and cover the truth less often than their "
    "level."
)
_INCLUDES_NOISE = (
    "At a likelihood power of 1 the hinge loss is overconfident, and predictors that are noise may have a probability "
    "near 1, by Gibbs() as well: use likelihood_power='calibrated', or a logistic model."
)
_AT_POWER = (
    "The likelihood power is {:.3g}: at a calibrated power, posterior intervals contain the true value about as often "
    "as their level says."
)
_VALID_IF = (
    "They are valid if the model is; covariance='robust' gives confidence intervals that are valid if it is not."
)
_DRAWS_FROM = " Gibbs() draws from the posterior."
_NUMBERS = "Standard deviations, intervals and probabilities of a sign are those of"
_SELECTION = (
    "Inclusion probabilities of variational Bayes are mostly near 0 or 1 where sampling gives values in between: read "
    "them as a selection, not as strength of evidence. Of several correlated inputs, only one may be selected."
)
_SEVERAL_OPTIMA = (
    " The bound has several optima, and the result depends on the start; LaplaceZero(restarts=…) tries others."
)
_SELECTION_OF_DRAWS = (
    "Inclusion probabilities are shares of draws. Gates mix slowly: compare the chains before you report them."
)


@final
@dataclass(frozen=True, slots=True)
class Notes:
    """The notes on one kind of standard deviations and intervals.

    ``explanation`` is the note of tables. ``mean`` and ``aside`` are for figures: what the centre of an interval is,
    and what follows it in brackets.
    ``intervals`` and ``components`` end the captions of tables of coefficients and of variance components. The others
    are caveats of reports: on spreads (a title and a text), and on groups and selection, where a model has these.
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
    explanation=f"Spreads are mean field's, about half of the posterior's.{_DRAWS_FROM}",
    aside=" (mean field: too narrow)",
    intervals="by mean field",
    components="by mean field, which can be far off",
    spreads=(
        "Spreads are too small",
        f"{_NUMBERS} a mean-field approximation: about half of the posterior's in ordinary data, and less if the "
        f"classes are nearly separable. {_NOT_CONFIDENCE}",
    ),
    groups=(
        "With groups, mean-field estimates can be biased as well as too narrow: in one nested model mean field found a "
        "standard deviation of 1.6 where Gibbs sampling found 5.4, and an intercept of the opposite sign. The "
        "intervals do not show this. Predicted classes are hardly affected. Compare with a fit by Gibbs() before you "
        "interpret these numbers."
    ),
    selection=_SELECTION,
)
MEAN_FIELD_WITH_GROUPS = replace(
    MEAN_FIELD,
    explanation=(
        "Spreads are mean field's, about half of the posterior's. With groups, coefficients and standard deviations "
        f"can be biased as well.{_DRAWS_FROM}"
    ),
    aside=" (mean field: narrow, biased)",
)
# The exact bound is for models without gates: there is no selection to speak of.
EXACT_BOUND = Notes(
    explanation="Spreads are those of the exact bound: wider than mean field's, but narrower than the posterior's.",
    aside=" (exact bound: narrow)",
    intervals="by the exact bound",
    components="by the exact bound, which can be far off",
    spreads=(
        "Spreads are too small",
        f"{_NUMBERS} the exact bound: wider than mean field's, but narrower than the posterior's. {_NOT_CONFIDENCE}",
    ),
    groups=(
        "With groups, standard deviations of effects by the exact bound are somewhat too small: on the toenail data "
        "3.1 where Gibbs sampling found 3.7, and the intercept was .6 posterior standard deviations off. Predicted "
        "classes are hardly affected. Compare with a fit by Gibbs() if these numbers matter."
    ),
)
EXACT_LOGISTIC_BOUND = Notes(
    explanation="Spreads are those of the exact bound, somewhat narrower than the posterior's.",
    aside=" (exact bound)",
    intervals="by the exact bound",
    components="by the exact bound, too small where groups have few observations",
    spreads=("Spreads are somewhat too small", f"{_NUMBERS} the exact bound: somewhat narrower than the posterior's."),
    groups=(
        "The random effects were not integrated out: with few observations per group their standard deviations are too "
        "small (in one nested model 2.0 where NUTS found 2.6), and coefficients can be off by a posterior standard "
        "deviation; with few groups standard deviations of coefficients are too small (with three groups of 20 or more "
        ".4 to .9 of those of Gibbs sampling). Compare with a fit by Gibbs() if these numbers matter."
    ),
)
AUGMENTED_LOGISTIC_BOUND = Notes(
    explanation=f"Spreads are those of the augmented bound, narrower than the posterior's.{_DRAWS_FROM}",
    aside=" (augmented bound: narrow)",
    intervals="by the augmented bound",
    components="by the augmented bound, which can be far off",
    spreads=("Spreads are too small", f"{_NUMBERS} the augmented bound, narrower than the posterior's."),
    groups=(
        "With groups, the augmented bound is far off: on the toenail data it found a standard deviation of 2.1 where "
        "Gibbs sampling found 4.2. Use the exact bound, the default."
    ),
    selection=_SELECTION,
)
INTEGRATED = Notes(
    explanation="Spreads are those of the posterior, with the effects of groups integrated out.",
    aside=" (posterior)",
    intervals="of the posterior",
    components="of the posterior, with the effects of groups integrated out",
    spreads=("Spreads are the posterior's", f"{_NUMBERS} the posterior: they hold if the model does."),
)
DRAWS_OF_POSTERIOR = replace(
    INTEGRATED,
    explanation="Spreads are those of the posterior.",
    mean="posterior mean",
    aside="",
    components="of the posterior",
    selection=_SELECTION_OF_DRAWS,
)
DRAWS = replace(
    DRAWS_OF_POSTERIOR,
    explanation="Spreads are those of the pseudo-likelihood's posterior; they are not confidence intervals.",
    spreads=(
        "Spreads are not confidence intervals",
        f"{_NUMBERS} the posterior of the pseudo-likelihood, which does not describe repeated sampling. They cover the "
        "truth less often than their level: in simulations, 95 % intervals missed it in 22 to 47 % of the cases.",
    ),
)
DRAWS_AT_POWER = replace(
    DRAWS,
    explanation="Spreads are those of the pseudo-likelihood's posterior. {power}",
    spreads=("Spreads are the posterior's", f"{_NUMBERS} the posterior of the pseudo-likelihood."),
)

_OF_POSTERIOR = {"mean": "mean", "aside": " (posterior)", "intervals": "of the posterior"}
_BY_CURVATURE = {"mean": "mean", "aside": " (by the curvature)", "intervals": "by the curvature at the mean"}
# By kind, and whether the posterior says what it seems to say: that of a likelihood, or of a calibrated power.
KIND_NOTES: dict[tuple[str, bool], dict[str, Any]] = {
    ("robust", False): {
        "explanation": (
            "Standard deviations and intervals are robust: a sandwich estimator {how}{units}. Intervals are confidence "
            "intervals."
        ),
        "mean": "coefficient",
        "aside": " (robust)",
        "of_posterior": False,
        "intervals": "that are robust confidence intervals",
        "spreads": (
            "Intervals of coefficients are robust confidence intervals",
            "Their standard deviations are those of a sandwich estimator {how}{units}: they say how far estimates "
            "would lie from each other in other samples from the same population. The spread of the posterior is "
            "another thing, and mostly smaller.",
        ),
    },
    ("posterior", False): _OF_POSTERIOR
    | {
        "explanation": (
            "Standard deviations and intervals are those of the pseudo-likelihood's posterior, by linear response; "
            "they are not confidence intervals."
        ),
        "spreads": (
            "Spreads are not confidence intervals",
            f"{_NUMBERS} the posterior of the pseudo-likelihood, by linear response of the bound. They do not describe "
            "repeated sampling, and cover the truth less often than their level.",
        ),
    },
    ("posterior", True): _OF_POSTERIOR
    | {
        "explanation": "Standard deviations and intervals {exact} {how}.{groups} {valid}",
        "spreads": ("Intervals are the posterior's", f"{_NUMBERS} the posterior, {{how}}."),
    },
    ("curvature", False): _BY_CURVATURE
    | {
        "explanation": (
            f"Spreads are by the curvature at the mean, {{narrow}}; they are not confidence intervals.{_DRAWS_FROM}"
        ),
        "spreads": (
            "Spreads are approximate",
            f"{_NUMBERS} a normal approximation with the curvature at the mean: {{narrow}}. {_NOT_CONFIDENCE}",
        ),
    },
    ("curvature", True): _BY_CURVATURE
    | {
        "explanation": "Spreads are by the curvature at the mean, {narrow}.",
        "spreads": ("Spreads are approximate", f"{_NUMBERS} a normal approximation at the mean: {{narrow}}."),
    },
}
# How the covariance that robust intervals are made of was computed; and that of the posterior.
_BREADS = {
    "response": "by the response of the exact bound",
    "curvature": "by the curvature at the mean",
    "draws": "by the draws",
    "quadrature": "with the effects of groups integrated out",
}
_POSTERIORS = {"response": "by linear response", "quadrature": "with the effects of groups integrated out"}


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

    ``base`` are those of the fit. ``clusters`` is the factor whose groups are taken as independent, and ``by`` how the
    posterior's covariance was computed, which robust intervals need. ``missing`` says that inputs are: robust intervals
    include what these leave open, and the curvature of the augmented bound is rough.
    """
    sound = normalised if kind == "curvature" else kind == "posterior" and (normalised or power != 1.0)
    units = "" if clusters is None else f", with the groups of {clusters} as independent units"
    facts = {
        "how": (_BREADS if kind == "robust" else _POSTERIORS).get(by, "by linear response"),
        "units": units + ", with the uncertainty about missing values" * missing,
        "exact": "approximate the posterior" if base.groups else "are those of the posterior,",
        "groups": f" {base.groups}" if base.groups else "",
        "valid": _VALID_IF if normalised else _AT_POWER.format(power),
        "narrow": "about two thirds of the posterior's" if missing else "mostly somewhat narrower than the posterior's",
    }
    fields = KIND_NOTES[kind, sound]
    title, text = fields["spreads"]
    explanation, text = (" ".join([part.format(**facts), *warnings]) for part in (fields["explanation"], text))
    return replace(base, **fields | {"explanation": explanation, "spreads": (title, text)})


def beside_posterior(notes: Notes) -> Notes:
    """Notes that mention covariance='posterior' as an alternative."""
    return replace(notes, explanation=f"{notes.explanation} covariance='posterior' shows the posterior's.")


def estimated_from_draws(notes: Notes, n_draws: int) -> Notes:
    """Notes for standard deviations estimated from draws, when a covariance is too large."""
    caution = (
        f"Rows and columns are too many for a covariance: standard deviations are estimated from {n_draws} draws, to "
        f"about {100 / math.sqrt(2 * n_draws):.0f} % or better."
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
    advice = " Intervals marked as too narrow cover less often than their level: use inference=Gibbs()." * narrow
    if base in (INTEGRATED, DRAWS_OF_POSTERIOR):
        how = ", random effects integrated out" * (base == INTEGRATED)
        explanation = f"Posterior medians and highest-density intervals{how}.{advice}"
        return replace(base, explanation=explanation, components=f"of the highest posterior density{how}")
    if not by_response:
        return base
    explanation = f"Intervals of standard deviations approximate the posterior by linear response.{advice}"
    components = "by linear response" + "; too narrow for random effects" * narrow
    return replace(base, explanation=explanation, components=components)


def noted(frame: "pd.DataFrame", notes: Notes, level: float | None = None) -> "pd.DataFrame":
    """Attach the note to a table, what its standard errors are called, and the level of its intervals."""
    frame.attrs = {} if level is None else {"level": level}
    frame.attrs |= {"std_error": "posterior sd" if notes.of_posterior else "std. error", "note": notes.explanation}
    return frame
