"""A pass over the rows: the interface of their source, the input of a pass, and the sums that complete rows return.

The sums are of the size of the model. ``RowInfluence`` has values for each row, from which its score in a fit without
it follows. To first order, leaving a row out moves the mean by −(H + Λ)⁻¹ times the row's gradient, where H is the
curvature of all rows in the mean: f₋ = f − V g / (1 − V κ) with V = cᵀ(H + Λ)⁻¹c, g = ∂ℓ/∂f and κ = −∂²ℓ/∂f².
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from vbsvm.base.arrays import Addable, Array
from vbsvm.base.cached import cached_property
from vbsvm.base.update_mode import UpdateMode, mean_field
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import EffectiveCoefficients, Gram, LabelledRows, MissingDistributions, Rows
from vbsvm.model.likelihoods.base import Likelihood

T = TypeVar("T", bound=Addable)
# A row with a leverage near 1 has a denominator near 0, where the first-order approximation fails.
MIN_DENOMINATOR = 0.05


@final
@dataclass(frozen=True, eq=False)
class Stats:
    """Sums over rows, additive over any split of the data.

    ``gram`` and ``cross`` are G and r of the coefficients' update. ``row_bound`` is the row term of the bound at the
    state that the pass started from, with the latent scales refreshed. ``constant`` is κ: with the weights of this
    pass fixed, the row term at any other distribution of the coefficients is crossᵀm − ½⟨gram, Ω⟩ − constant.
    ``curvature`` is minus the second derivative of the collapsed row term in the mean, for Newton steps. A pass that
    starts from a point has neither. ``missing`` are the sums for the distributions of missing values.
    """

    gram: Gram
    cross_sums: Any
    row_bound: float
    constant: float
    curvature: Gram | None
    missing: Any = None

    @cached_property
    def cross(self) -> Array:
        """r = Σ y (s + w) c."""
        return self.cross_sums if isinstance(self.cross_sums, np.ndarray) else self.cross_sums.to_array()

    def gated(self, gates: Gates | None) -> tuple[Gram, Array]:
        """G ∘ E[γ̃γ̃ᵀ] and γ̃ ∘ r: the sums for the update of coefficients with an indicator."""
        if gates is None:
            return self.gram, self.cross
        return self.gram.gated(gates, self.gram), gates.by_coefficient * self.cross

    def __add__(self, other: Self) -> "Stats":
        """Add the sums of two sets of rows."""
        curvature = None
        if self.curvature is not None and other.curvature is not None:
            curvature = self.curvature + other.curvature
        return Stats(
            self.gram + other.gram,
            self.cross_sums + other.cross_sums,
            self.row_bound + other.row_bound,
            self.constant + other.constant,
            curvature,
            add_optional(self.missing, other.missing),
        )


def add_optional(first: T | None, second: T | None) -> T | None:
    """Sum of two values, either of which may be None."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowInfluence:
    """Label, weight, score, gradient and curvature of the log likelihood, and response V of each row.

    ``missing_variance`` is the variance of the score that missing predictors and categories cause.
    """

    y: Array
    s: Array
    score: Array
    slope: Array
    curvature: Array
    response: Array
    missing_variance: Array

    @staticmethod
    def from_moments(
        likelihood: Likelihood, rows: LabelledRows, f: Array, v: Array | float, response: Array, missing_variance: Array
    ) -> "RowInfluence":
        """Influence of rows with these means f and variances v of their scores."""
        y, s = rows.y, rows.weights
        terms = likelihood.terms(f, v + missing_variance, y, s, mean_field)
        assert terms.curvature is not None  # the result of a fit is no point
        return RowInfluence(y, s, f, terms.u - terms.w * f, terms.curvature, response, missing_variance)

    @staticmethod
    def empty() -> "RowInfluence":
        """No rows."""
        return RowInfluence(*[np.empty(0)] * 7)

    def __add__(self, other: Self) -> "RowInfluence":
        """Concatenate the rows."""
        names = [field.name for field in fields(self)]
        return RowInfluence(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def average(self, firsts: NDArray[np.intp], chances: Array) -> "RowInfluence":
        """Average over candidates of the same row, weighted by ``chances``; ``firsts`` are the first ones of each row.

        The variance between their scores is added to ``missing_variance``.
        """

        def mean(values: Array) -> Array:
            return np.add.reduceat(chances * values, firsts)

        centre = mean(self.score)
        between = np.maximum(mean(np.square(self.score)) - np.square(centre), 0.0)
        slope, curvature, response = map(mean, (self.slope, self.curvature, self.response))
        return RowInfluence(
            self.y[firsts], self.s[firsts], centre, slope, curvature, response, mean(self.missing_variance) + between
        )

    def left_out_scores(self, counts: Array) -> Array:
        """Leave-one-out scores: without one of the ``counts`` observations that each row represents."""
        fraction = np.minimum(1.0, 1.0 / counts)
        return self.score - self.response * self.slope * fraction / self._denominator(counts)

    def left_out_response(self, counts: Array) -> Array:
        """V / (1 − V κ): the leave-one-out variance of the score."""
        return self.response / self._denominator(counts)

    def _denominator(self, counts: Array) -> Array:
        return np.maximum(1.0 - self.leverage(counts), MIN_DENOMINATOR)

    def leverage(self, counts: Array) -> Array:
        """V κ of one of the ``counts`` observations of each row: near 1 the first-order approximation fails."""
        return self.response * self.curvature * np.minimum(1.0, 1.0 / counts)

    def calibrated_power(self, counts: Array, power: float) -> float:
        """The power η of the hinge's pseudo-likelihood whose posterior variance matches the sampling variance.

        It is the ratio of two effective numbers of coefficients, Σ κV / Σ n c² g² V: by the curvature κ of the loss,
        and by the variance of its slope g, both at power 1. n are the ``counts``, c are class weights, and ``power`` is
        that of the fit. Slopes are those at the score without the row, averaged over its distribution, since the margin
        makes the slope at a single score too variable. It is infinite if all gradients vanish.
        """
        z = (1.0 - self.y * self.left_out_scores(counts)) / np.sqrt(self.left_out_response(counts))
        variance = float(np.sum(np.square(2.0 * self.s * ndtr(z)) / counts * self.response))
        calibrated = float(self.curvature @ self.response) / (power * variance) if variance > 0 else np.inf
        return calibrated if calibrated >= 0 else np.inf


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowPass:
    """Input of a pass over rows: the part of model and state that rows depend on; picklable plain data."""

    likelihood: Likelihood
    coefficients: EffectiveCoefficients
    mode: UpdateMode
    with_curvature: bool = False
    missing: MissingDistributions | None = None


class Part(Protocol):
    """Rows of a block that are of the same kind: complete, incomplete, or candidates."""

    @property
    def rows(self) -> LabelledRows:
        """The rows themselves."""
        ...

    @property
    def row_index(self) -> NDArray[np.intp] | None:
        """Positions of the rows in their block, or None for all of it."""
        ...

    def stats(self, row_pass: RowPass) -> Stats:
        """Sums over these rows."""
        ...

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        ...

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, mode: UpdateMode
    ) -> float:
        """Change of the total log likelihood if that of each row changes from ``before`` to ``after``."""
        ...

    def curvature(self, row_pass: RowPass) -> Gram:
        """Minus the second derivative of the row term in the mean."""
        ...

    def influence(self, row_pass: RowPass, response: EffectiveCoefficients) -> RowInfluence:
        """Influence of each row; ``response`` has the covariance that is the response of the mean to gradients.

        Missing values are imputed as in prediction, without the labels.
        """
        ...

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of misclassified rows at ``theta``, for the detection of separation."""
        ...


class Source(Protocol):
    """Source of rows: in memory, in files or on other machines."""

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        ...

    @property
    def n_core(self) -> int:
        """Number of coefficients with a full covariance matrix: all but the effects of one grouping factor."""
        ...

    @property
    def rows_resident(self) -> bool:
        """Whether rows are in memory, so that many evaluations are cheap and a few numbers of each can be cached."""
        ...

    @property
    def drawn_covariance(self) -> bool:
        """Whether there are too many rows and columns for an exact covariance, so that it is estimated by draws."""
        ...

    def sample(self, n_rows: int) -> "Source | None":
        """A subsample of ``n_rows`` rows with the total weight of all, or None if they are not in memory."""
        ...

    def sum_stats(self, row_pass: RowPass) -> Stats:
        """Sum ``part.stats(row_pass)`` over the parts of all row blocks: the only pass over the data in a sweep."""
        ...

    def sum_parts(self, kernel: Callable[[Part], T], *, memory_bound: bool = False) -> T:
        """Sum ``kernel(part)`` over the parts of all row blocks; a ``memory_bound`` one runs without threads."""
        ...

    def input_sums(self, distribution: Any) -> Any:
        """Sums of the predictors with missing ones at their conditional means, without the labels."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class CompleteRows:
    """Rows of a layout without missing predictors; ``row_index`` is their positions in the block."""

    rows: Rows
    row_index: NDArray[np.intp] | None = None

    def stats(self, row_pass: RowPass, alternatives: Any = None) -> Stats:
        """G = Σ w c cᵀ, r = Σ u c, and the row term (Algorithm 2, lines 2 and 3).

        ``alternatives`` give the responsibilities of candidates of the same row of the data.
        """
        rows, y, s = self.rows, self.rows.y, self.rows.weights
        with np.errstate(all="ignore"):  # for trial points of the optimiser; threads do not inherit its own setting
            f, v = row_pass.coefficients.row_moments(rows)
            terms = row_pass.likelihood.terms(f, v, y, s, row_pass.mode, "rows", rows.index)
            entropy, missing = 0.0, None
            if alternatives is not None:
                weights = alternatives.responsibilities(terms.value)
                entropy, missing = alternatives.entropy(weights, s), alternatives.sums(weights * s)
                s, terms = weights * s, terms.weighted(weights)
            if row_pass.missing is not None:
                missing = row_pass.missing.with_complete_rows(missing, rows, row_pass.mode)
            row_bound = float(s @ terms.value) + entropy
            gram, curvature, constant = rows.gram(terms.w), None, math.nan
            if terms.curvature is not None:
                constant = float(terms.u @ f) - 0.5 * float(terms.w @ (f * f + v)) - row_bound
                if row_pass.with_curvature:
                    curvature = gram if terms.curvature is terms.w else rows.gram(terms.curvature)
            return Stats(gram, rows.cross(terms.u), row_bound, constant, curvature, missing)

    def curvature(self, row_pass: RowPass) -> Gram:
        """Σ −∂²ℓ/∂f² c cᵀ."""
        rows, s = self.rows, self.rows.weights
        with np.errstate(all="ignore"):
            f, v = row_pass.coefficients.row_moments(rows)
            terms = row_pass.likelihood.terms(f, v, rows.y, s, row_pass.mode)
            assert terms.curvature is not None
            return rows.gram(terms.curvature)

    def influence(self, row_pass: RowPass, response: EffectiveCoefficients) -> RowInfluence:
        """Influence of each row."""
        with np.errstate(all="ignore"):
            f, v = row_pass.coefficients.row_moments(self.rows)
            V = v if response is row_pass.coefficients else response.row_moments(self.rows)[1]
            return RowInfluence.from_moments(row_pass.likelihood, self.rows, f, v, np.asarray(V), np.zeros(len(f)))

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        return self.rows.scores(theta)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, mode: UpdateMode
    ) -> float:
        """Σ s (after − before)."""
        return float(self.rows.weights @ (after - before))

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of misclassified rows."""
        return int(np.count_nonzero(self.rows.y * self.rows.scores(theta) <= 0.0))
