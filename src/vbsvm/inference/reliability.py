"""Whether the spread of a fit can be relied on: what the rows say, in plain words."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import CompleteRows, Part, Source
from vbsvm.model.spec import State

# Rows this near to the kink, 1 − y f = 0, may be on either side; more of them than this share is a pile.
NEAR_KINK = 0.05
PILE = 0.1
# With fewer rows that have a loss than this many for each coefficient, classes are nearly separated.
ROWS_A_COEFFICIENT = 2


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
            return np.zeros(4)
        h = 1.0 - part.rows.signs * part.scores(theta, state.missing)
        return np.array([len(h), (h > 1.0).sum(), (h > NEAR_KINK).sum(), (np.abs(h) < NEAR_KINK).sum()])

    n, wrong, losing, piled = map(int, source.total(of_part, light=True))
    if n == 0:
        return Reliability(math.nan, math.nan)
    found, n_coefficients = Reliability(losing / n, piled / n), source.n_core
    if wrong == 0:
        found = found.and_warnings(
            "The classes are separated: every row is on its side, so that larger coefficients are hardly less likely. "
            "Neither intervals nor standard deviations can be relied on."
        )
    elif likelihood.normalised:
        return found
    elif losing < ROWS_A_COEFFICIENT * n_coefficients:
        found = found.and_warnings(
            f"The classes are nearly separated: only {losing} rows have a loss, for {n_coefficients} coefficients. "
            "Intervals and standard deviations are rough."
        )
    if found.piled > PILE:
        found = found.and_warnings(
            f"{100 * found.piled:.0f} % of the rows lie at the kink of the hinge loss, as happens with discrete "
            "inputs: robust standard deviations may be much too small. A bootstrap is safer."
        )
    return found
