"""What tables, figures and reports say of a posterior: what its numbers are, and how far to trust them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from vbsvm.inference.covariance import Reliability

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
_DRAWS_FROM = " Gibbs() draws from the posterior."
_NUMBERS = "Standard deviations, intervals and probabilities of a sign are those of"
_FROM_GROUPS = (
    "found a standard deviation of 1.6 where Gibbs sampling found 5.4, and an intercept of the opposite sign. The "
    "intervals do not show this. Predicted classes are hardly affected. Compare with a fit by Gibbs() before you "
    "interpret these numbers."
)


@final
@dataclass(frozen=True, slots=True)
class Words:
    """The words of one kind of posterior.

    ``explanation`` stands below tables, and ``corner`` in their corner, with the name of a spread in its braces.
    ``mean`` and ``aside`` are for figures: what the centre of an interval is, and what stands behind it in brackets.
    ``intervals`` and ``components`` end the captions of tables of coefficients and of variance components. The others
    are caveats of reports: on spreads (a title and a text), and on groups and selection, where a model has these.
    """

    explanation: str
    corner: str
    mean: str
    aside: str
    intervals: str
    components: str
    spreads: tuple[str, str]
    groups: str
    selection: str
    exact: bool = False  # whether the climb was one of the exact bound
    normalised: bool = False  # whether the likelihood is one, and not a pseudo-likelihood
    power: float = 1.0  # of a pseudo-likelihood

    def interval(self, level: float) -> str:
        """Which interval a figure shows."""
        return f"{self.mean} and {100 * level:g} % interval{self.aside}"

    def band(self, level: float) -> str:
        """Which band the figure of a curve shows."""
        return f"curve and pointwise {100 * level:g} % band{self.aside}"


def of_mean_field(*, groups: bool, joint_gates: bool, normalised: bool = False) -> Words:
    """Of the augmented bound, which is the paper's."""
    if normalised:
        return _of_augmented_logistic(groups=groups)
    off_centre = " With groups, coefficients and standard deviations can be biased as well." * groups
    return Words(
        explanation=(f"Spreads are mean field's, about half of the posterior's.{off_centre}{_DRAWS_FROM}"),
        corner="{} too narrow",
        mean="mean",
        aside=" (mean field: narrow, biased)" if groups else " (mean field: too narrow)",
        intervals="by mean field",
        components="by mean field, which can be far off",
        spreads=(
            "Spreads are too small",
            f"{_NUMBERS} a mean-field approximation: about half of the posterior's in ordinary data, and less if the "
            f"classes are nearly separable. {_NOT_CONFIDENCE}",
        ),
        groups=(
            "With groups, mean-field estimates can be biased as well as too narrow: in one nested model mean field "
            f"{_FROM_GROUPS}"
        ),
        selection=(
            "Inclusion probabilities of variational Bayes are mostly near 0 or 1 where sampling gives values in "
            "between: read them as a selection, not as strength of evidence. Of several correlated inputs, only one "
            "may be selected."
        )
        + " The bound has several optima, and the result depends on the start; LaplaceZero(restarts=…) tries others."
        * (not joint_gates),
    )


# The exact bound is for models without gates: there is no selection to speak of.
EXACT_BOUND = Words(
    explanation="Spreads are those of the exact bound: wider than mean field's, but narrower than the posterior's.",
    corner="{} too narrow",
    mean="mean",
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
    selection="",
    exact=True,
)

EXACT_LOGISTIC_BOUND = Words(
    explanation="Spreads are those of the exact bound, somewhat narrower than the posterior's.",
    corner="exact bound's {}",
    mean="mean",
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
    selection="",
    exact=True,
    normalised=True,
)


def of_exact_bound(*, normalised: bool, groups: bool) -> Words:
    """Of the exact bound; what it says of groups where there are some."""
    found = EXACT_LOGISTIC_BOUND if normalised else EXACT_BOUND
    return found if groups else replace(found, groups="")


INTEGRATED = Words(
    explanation="Spreads are those of the posterior, with the effects of groups integrated out.",
    corner="posterior {}",
    mean="mean",
    aside=" (posterior)",
    intervals="of the posterior",
    components="of the posterior, with the effects of groups integrated out",
    spreads=("Spreads are the posterior's", f"{_NUMBERS} the posterior: they hold if the model does."),
    groups="",
    selection="",
    exact=True,
    normalised=True,
)


def _of_augmented_logistic(*, groups: bool) -> Words:
    """Of Jaakkola and Jordan's bound."""
    return Words(
        explanation=f"Spreads are those of the augmented bound, narrower than the posterior's.{_DRAWS_FROM}",
        corner="{} too narrow",
        mean="mean",
        aside=" (augmented bound: narrow)",
        intervals="by the augmented bound",
        components="by the augmented bound, which can be far off",
        spreads=("Spreads are too small", f"{_NUMBERS} the augmented bound, narrower than the posterior's."),
        groups=(
            "With groups, the augmented bound is far off: on the toenail data it found a standard deviation of 2.1 "
            "where Gibbs sampling found 4.2. Use the exact bound, the default."
        )
        * groups,
        selection=(
            "Inclusion probabilities of variational Bayes are mostly near 0 or 1 where sampling gives values in "
            "between: read them as a selection, not as strength of evidence. Of several correlated inputs, only one "
            "may be selected."
        ),
        normalised=True,
    )


DRAWS_OF_POSTERIOR = Words(
    explanation="Spreads are those of the posterior.",
    corner="Gibbs",
    mean="posterior mean",
    aside="",
    intervals="of the posterior",
    components="of the posterior",
    spreads=("Spreads are the posterior's", f"{_NUMBERS} the posterior: they hold if the model does."),
    groups="",
    selection=(
        "Inclusion probabilities are shares of draws. Gates mix slowly: compare the chains before you report them."
    ),
    normalised=True,
)

DRAWS = Words(
    explanation="Spreads are those of the pseudo-likelihood's posterior; they are not confidence intervals.",
    corner="Gibbs",
    mean="posterior mean",
    aside="",
    intervals="of the posterior",
    components="of the posterior",
    spreads=(
        "Spreads are not confidence intervals",
        f"{_NUMBERS} the posterior of the pseudo-likelihood, which does not describe repeated sampling. They cover the "
        "truth less often than their level: in simulations, 95 % intervals missed it in 22 to 47 % of the cases.",
    ),
    groups="",
    selection=(
        "Inclusion probabilities are shares of draws. Gates mix slowly: compare the chains before you report them."
    ),
)


def at_power(base: Words, power: float) -> Words:
    """Of a pseudo-likelihood at a power: at 1 it includes noise, and below that its intervals are no longer too short.

    Other words stay as they are.
    """
    if base.normalised:
        return base
    if power == 1.0:
        return replace(base, selection=f"{base.selection} {_INCLUDES_NOISE}") if base.selection else base
    title, text = base.spreads
    told = _AT_POWER.format(power)
    if base is DRAWS:
        title, text = "Spreads are the posterior's", f"{_NUMBERS} the posterior of the pseudo-likelihood."
        base = replace(base, explanation=f"Spreads are those of the pseudo-likelihood's posterior. {told}")
    return replace(base, spreads=(title, f"{text.replace(_NOT_CONFIDENCE, '').strip()} {told}"), power=power)


def of_kind(
    kind: str,
    base: Words,
    told: Reliability | None,
    *,
    clusters: str | None = None,
    by: str = "curvature",
    missing: bool = False,
) -> Words:
    """Of intervals whose spread is not that of the fit itself: robust, the posterior's, or by the curvature.

    ``clusters`` is the factor whose groups are taken as independent, and ``by`` how the posterior's covariance was
    found, which robust intervals need. ``missing`` says that inputs are: robust intervals include what these leave
    open, and the curvature of the paper's bound is rough.
    """
    warnings: Sequence[str] = () if told is None else told.warnings
    make = {"robust": _robust, "posterior": _by_response, "curvature": _by_curvature}[kind]
    found = make(base, clusters, by, missing)
    title, text = found.spreads
    return replace(
        found,
        corner=f"{found.corner}, rough" if warnings else found.corner,
        explanation=" ".join([found.explanation, *warnings]),
        spreads=(title, " ".join([text, *warnings])),
    )


def beside_posterior(base: Words) -> Words:
    """Of intervals beside which those of the posterior can be had."""
    return replace(base, explanation=f"{base.explanation} covariance='posterior' shows the posterior's.")


def estimated(base: Words, n_draws: int) -> Words:
    """Of spreads that are estimated from draws, where a table is too large for a covariance, and for a sampler."""
    said = (
        f"Rows and columns are too many for a covariance: standard deviations are estimated from {n_draws} draws, to "
        f"about {100 / math.sqrt(2 * n_draws):.0f} % or better."
    )
    title, text = base.spreads
    return replace(
        base,
        explanation=f"{base.explanation.replace(_DRAWS_FROM, '')} {said}",
        corner=f"{base.corner}, estimated",
        aside=f"{base.aside.removesuffix(')')}, estimated)" if base.aside else " (estimated)",
        spreads=(title, f"{text} {said}"),
    )


def of_components(base: Words, *, narrow: bool, by_response: bool) -> Words:
    """Of variance components: by quadrature or draws, by linear response, or else by the bound itself."""
    advice = " Intervals marked as too narrow cover less often than their level: use inference=Gibbs()." * narrow
    if base in (INTEGRATED, DRAWS_OF_POSTERIOR):
        how = ", random effects integrated out" * (base is INTEGRATED)
        return replace(
            base,
            explanation=f"Posterior medians and highest-density intervals{how}.{advice}",
            components=f"of the highest posterior density{how}",
        )
    if not by_response:
        return base
    return replace(
        base,
        explanation=f"Intervals of standard deviations approximate the posterior by linear response.{advice}",
        corner="{} too narrow" if narrow else "posterior {}",
        components="by linear response; too narrow for random effects" if narrow else "by linear response",
    )


def _robust(base: Words, clusters: str | None, by: str, missing: bool) -> Words:
    grouped = "" if clusters is None else f", with the groups of {clusters} as independent units"
    grouped += ", with the uncertainty about missing values" if missing else ""
    how = {
        "response": "by the response of the exact bound",
        "curvature": "by the curvature at the mean",
        "draws": "by the draws",
        "quadrature": "with the effects of groups integrated out",
    }[by]
    return replace(
        base,
        explanation=(
            f"Standard deviations and intervals are robust: a sandwich estimator {how}{grouped}. Intervals are "
            "confidence intervals."
        ),
        corner="robust {}",
        mean="coefficient",
        aside=" (robust)",
        intervals="that are robust confidence intervals",
        spreads=(
            "Intervals of coefficients are robust confidence intervals",
            f"Their standard deviations are those of a sandwich estimator {how}{grouped}: they say how far estimates "
            "would lie from each other in other samples from the same population. The spread of the posterior is "
            "another thing, and mostly smaller.",
        ),
    )


def _by_response(base: Words, clusters: str | None, by: str, missing: bool) -> Words:
    if base.normalised or base.power != 1.0:
        how = "with the effects of groups integrated out" if by == "quadrature" else "by linear response"
        own = f"Standard deviations and intervals are those of the posterior, {how}."
        if base.groups:
            own = f"Standard deviations and intervals approximate the posterior {how}. {base.groups}"
        told = (
            "They are valid if the model is; covariance='robust' gives confidence intervals that are valid if it is "
            "not."
        )
        if not base.normalised:
            told = _AT_POWER.format(base.power)
        return replace(
            base,
            explanation=f"{own} {told}",
            corner="posterior {}",
            mean="mean",
            aside=" (posterior)",
            intervals="of the posterior",
            spreads=("Intervals are the posterior's", f"{_NUMBERS} the posterior, {how}."),
        )
    return replace(
        base,
        explanation=(
            "Standard deviations and intervals are those of the pseudo-likelihood's posterior, by linear response; "
            "they are not confidence intervals."
        ),
        corner="posterior {}",
        mean="mean",
        aside=" (posterior)",
        intervals="of the posterior",
        spreads=(
            "Spreads are not confidence intervals",
            f"{_NUMBERS} the posterior of the pseudo-likelihood, by linear response of the bound. They do not describe "
            "repeated sampling, and cover the truth less often than their level.",
        ),
    )


def _by_curvature(base: Words, clusters: str | None, by: str, missing: bool) -> Words:
    narrow = "about two thirds of the posterior's" if missing else "mostly somewhat narrower than the posterior's"
    if base.normalised:
        return replace(
            base,
            explanation=f"Spreads are by the curvature at the mean, {narrow}.",
            corner="curvature's {}",
            mean="mean",
            aside=" (by the curvature)",
            intervals="by the curvature at the mean",
            spreads=("Spreads are approximate", f"{_NUMBERS} a normal approximation at the mean: {narrow}."),
        )
    return replace(
        base,
        explanation=(
            f"Spreads are by the curvature at the mean, {narrow}; they are not confidence intervals.{_DRAWS_FROM}"
        ),
        corner="curvature's {}",
        mean="mean",
        aside=" (by the curvature)",
        intervals="by the curvature at the mean",
        spreads=(
            "Spreads are approximate",
            f"{_NUMBERS} a normal approximation with the curvature at the mean: {narrow}. {_NOT_CONFIDENCE}",
        ),
    )


def noted(frame: "pd.DataFrame", words: Words, spread: str, level: float | None = None) -> "pd.DataFrame":
    """Say what the spreads are: in the corner in short, since pandas leaves out columns of a wide table."""
    frame.columns.name = words.corner.format(spread)
    frame.attrs = {"spreads": words.explanation} if level is None else {"level": level, "spreads": words.explanation}
    return frame
