"""Whether the spread of a fit can be relied on: what the rows say, in plain words."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import Point
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import CompleteRows, Part, Source
from vbsvm.model.spec import State

# Rows this near to the kink, 1 − y f = 0, may be on either side; more of them than this share is a pile.
NEAR_KINK = 0.05
PILE = 0.1
# With fewer rows that have a loss than this many for each coefficient, classes are nearly separated.
ROWS_A_COEFFICIENT = 2
ADVICE = 'Use likelihood="logistic" (Model) or VBLogistic.'


@final
@dataclass(frozen=True, slots=True)
class Reliability:
    """Warnings about a spread, each a sentence; none where there is nothing to say.

    ``losing`` is the share of rows with a positive hinge loss at the mean, ``piled`` that of rows at the kink; NaN
    where every row misses something.
    """

    losing: float
    piled: float
    warnings: tuple[str, ...] = ()

    @property
    def reliable(self) -> bool:
        """Whether there is no warning."""
        return not self.warnings

    @property
    def on_the_margin(self) -> str:
        """What is wrong where many rows lie on the margin; empty where few do."""
        if not self.piled > PILE:
            return ""
        return (
            f"{100 * self.piled:.0f} % of the observations lie exactly on the margin: coefficients and effects of the "
            f"SVM are not interpretable here. {ADVICE}"
        )

    def and_warnings(self, *sentences: str) -> "Reliability":
        """The same with further warnings."""
        return Reliability(self.losing, self.piled, (*self.warnings, *sentences))


def reliability(state: State, source: Source, likelihood: Likelihood) -> Reliability:
    """Look at every row's loss at the mean, but for rows that miss something; one light pass.

    All rows have a loss under a logistic likelihood, and none of them lies at a kink.
    """
    theta = state.coefficients.mean if state.gates is None else state.gates.open * state.coefficients.mean

    def of_part(part: Part) -> Array:
        if not isinstance(part, CompleteRows):
            return np.zeros(5)
        h = 1.0 - part.rows.signs * part.scores(theta, state.missing)
        s, near = part.rows.weights, np.abs(h) < NEAR_KINK
        return np.array([len(h), (h > 1.0).sum(), (h > NEAR_KINK).sum(), s[near].sum(), s.sum()])

    n, wrong, losing, piled, weight = source.total(of_part, light=True)
    if n == 0:
        return Reliability(math.nan, math.nan)
    found, n_coefficients = Reliability(losing / n, piled / weight), source.n_core
    if wrong == 0:
        given = likelihood.normalised and all(isinstance(scale, Point) for scale in state.scales)
        found = found.and_warnings(
            "Complete separation: the fit classifies every observation correctly, so that coefficients, standard "
            "deviations and intervals depend on the prior"
            + (": report it with them." if given else ", and cannot be relied on.")
        )
    elif likelihood.normalised:
        return found
    elif losing < ROWS_A_COEFFICIENT * n_coefficients:
        found = found.and_warnings(
            f"The classes are nearly separated: only {losing:.0f} rows have a loss, for {n_coefficients} coefficients. "
            "Intervals and standard deviations are rough."
        )
    if found.on_the_margin:
        found = found.and_warnings(found.on_the_margin)
    return found
