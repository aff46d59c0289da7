"""Scores that rows would have had in a fit without them, from the slopes and the curvature of the fit with them.

To first order, leaving a row out moves the mean by (H + Λ)⁻¹ against the row's own slope, where H is the curvature of
all rows in the mean: f₋ = f − V g / (1 − V κ) with V = cᵀ(H + Λ)⁻¹c, g = ∂ℓ/∂f and κ = −∂²ℓ/∂f². No refit is needed.
"""

from dataclasses import dataclass, fields
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.reading import expect
from vbsvm.model.interfaces import LabelledRows
from vbsvm.model.likelihoods.base import Likelihood

# A row that the fit hangs on has a denominator near 0, where the first order says nothing any more.
SMALLEST_DENOMINATOR = 0.05


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowInfluence:
    """Of each row: label, weight, score, slope and curvature of its term in the fit, and V.

    ``unknown`` is the variance of the score that missing inputs and categories cause.
    """

    y: Array
    s: Array
    score: Array
    slope: Array
    curvature: Array
    response: Array
    unknown: Array

    @staticmethod
    def of(
        likelihood: Likelihood, rows: LabelledRows, f: Array, v: Array | float, response: Array, unknown: Array
    ) -> "RowInfluence":
        """Rows with these moments of their scores."""
        y, s = rows.signs, rows.weights
        terms = likelihood.terms(f, v + unknown, y, s, expect)
        assert terms.curvature is not None  # a fit ends with a spread
        return RowInfluence(y, s, f, terms.u - terms.w * f, terms.curvature, response, unknown)

    @staticmethod
    def none() -> "RowInfluence":
        """No rows."""
        return RowInfluence(*[np.empty(0)] * 7)

    def __add__(self, other: Self) -> "RowInfluence":
        """One below the other."""
        names = [field.name for field in fields(self)]
        return RowInfluence(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def averaged(self, firsts: NDArray[np.intp], chances: Array) -> "RowInfluence":
        """Means over neighbours that stand for the same row, of which ``firsts`` are the first ones.

        That their scores differ makes the score less certain.
        """

        def mean(values: Array) -> Array:
            return np.add.reduceat(chances * values, firsts)

        centre = mean(self.score)
        between = np.maximum(mean(np.square(self.score)) - np.square(centre), 0.0)
        slope, curvature, response = (mean(one) for one in (self.slope, self.curvature, self.response))
        return RowInfluence(
            self.y[firsts], self.s[firsts], centre, slope, curvature, response, mean(self.unknown) + between
        )

    def left_out_scores(self, counts: Array) -> Array:
        """The scores without one row of the ``counts`` that each stands for, or without the part of a row."""
        share = np.minimum(1.0, 1.0 / counts)
        left = np.maximum(1.0 - self.response * self.curvature * share, SMALLEST_DENOMINATOR)
        return self.score - self.response * self.slope * share / left
