"""Scores that rows would have had in a fit without them, from the slopes and the curvature of the fit with them.

To first order, leaving a row out moves the mean by (H + Λ)⁻¹ against the row's own slope, where H is the curvature of
all rows in the mean: f₋ = f − V g / (1 − V κ) with V = cᵀ(H + Λ)⁻¹c, g = ∂ℓ/∂f and κ = −∂²ℓ/∂f². No refit is needed.
"""

from dataclasses import dataclass, fields
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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
        return self.score - self.response * self.slope * share / self._denominator(counts)

    def left_out_response(self, counts: Array) -> Array:
        """V / (1 − V κ): the response, and so the variance of the score, without that row."""
        return self.response / self._denominator(counts)

    def _denominator(self, counts: Array) -> Array:
        return np.maximum(1.0 - self.leverage(counts), SMALLEST_DENOMINATOR)

    def leverage(self, counts: Array) -> Array:
        """V κ of one row of the ``counts`` that each stands for: near 1 the first order fails."""
        return self.response * self.curvature * np.minimum(1.0, 1.0 / counts)

    def calibrated_power(self, counts: Array, power: float) -> float:
        """The power η of the hinge's pseudo-likelihood at which its posterior varies as estimates do between samples.

        It is the ratio of two effective numbers of coefficients, Σ κV / Σ n c² g² V: by the curvature κ of the loss,
        and by the variance of its slope g, both at power 1. n are the ``counts``, c are class weights, and ``power`` is
        that of the fit. Slopes are those at the score without the row, averaged over its distribution, since the kink
        makes the slope at a single score too rough. It is infinite where no slope is left.
        """
        z = (1.0 - self.y * self.left_out_scores(counts)) / np.sqrt(self.left_out_response(counts))
        variance = float(np.sum(np.square(2.0 * self.s * ndtr(z)) / counts * self.response))
        found = float(self.curvature @ self.response) / (power * variance) if variance > 0 else np.inf
        return found if found >= 0 else np.inf
