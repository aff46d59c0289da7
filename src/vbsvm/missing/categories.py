"""Missing categories: distributions of their levels, fitted jointly with the coefficients or fixed beforehand.

Fixed ones are a linear discriminant: given level and label, the predictors are normal with a common covariance and an
additive mean, so that the log odds of a level are linear in the predictors.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit, gammaln, log_expit, log_softmax

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseWishart
from vbsvm.base.update_mode import UpdateMode
from vbsvm.design.candidates import Candidates
from vbsvm.design.scaling import Recipe
from vbsvm.missing.rows import design_rows

# Prior precisions of the logistic model for importance weights: of standardised columns, and of wiggly basis columns.
COLUMN_PRECISION, WIGGLY_PRECISION = 0.01, 0.25
MAX_STEPS, TOLERANCE = 50, 1e-4
# Lower bound of the variance of level effects, in units of the covariance.
MIN_VARIANCE = 1e-12
# Identifies level effects and label means, which are confounded with a constant.
RIDGE = 1e-9


@final
@dataclass(frozen=True, eq=False)
class ConditionalLevels:
    """Distribution of the level given predictors and label, as a linear discriminant: log proportions by label and
    level, means of the predictors by label, level effects on these, and the common covariance.
    """

    log_proportions: Array
    means: Array
    effects: Array
    covariance: Array

    def log_prob(self, x: Array, labels: NDArray[np.intp]) -> Array:
        """Log probability of each level in each row (rows × levels); NaN in x are marginalised out."""
        missing, logits = np.isnan(x), np.empty((len(x), self.log_proportions.shape[1]))
        patterns, pattern_of = np.unique(missing, axis=0, return_inverse=True) if missing.any() else (missing[:1], 0)
        for k, pattern in enumerate(patterns):
            rows, observed = np.flatnonzero(np.broadcast_to(pattern_of == k, len(x))), ~pattern
            effects = self.effects[:, observed]
            slopes = np.linalg.solve(self.covariance[np.ix_(observed, observed)], effects.T)
            centred = x[np.ix_(rows, observed)] - self.means[labels[rows]][:, observed]
            logits[rows] = self.log_proportions[labels[rows]] + centred @ slopes
            logits[rows] -= 0.5 * np.einsum("lp,pl->l", effects, slopes)
        return np.asarray(log_softmax(logits, axis=1))


@final
@dataclass(frozen=True, eq=False)
class LevelSums:
    """Moments of the rows with an observed category: weights and means of the predictors by label and level.

    ``scatter`` is the sum of squares and products about these means.
    """

    counts: Array
    means: Array
    scatter: Array

    @staticmethod
    def from_rows(
        x: Array, labels: NDArray[np.intp], levels: NDArray[np.intp], weights: Array, shape: tuple[int, int]
    ) -> "LevelSums":
        """Compute the moments; ``shape`` is (number of labels, number of levels)."""
        cell = labels * shape[1] + levels
        counts = np.bincount(cell, weights, minlength=shape[0] * shape[1]).astype(np.float64)
        means = np.zeros((len(counts), x.shape[1]))
        np.add.at(means, cell, weights[:, None] * x)
        means /= np.where(counts > 0, counts, 1.0)[:, None]
        centred = x - means[cell]
        return LevelSums(counts.reshape(shape), means.reshape(*shape, -1), centred.T @ (weights[:, None] * centred))

    def __add__(self, other: Self) -> "LevelSums":
        """Pool the moments of two sets of rows."""
        counts, difference = self.counts + other.counts, other.means - self.means
        fraction = other.counts / np.where(counts > 0, counts, 1.0)
        between = np.einsum("yl,ylp,ylq->pq", self.counts * fraction, difference, difference)
        return LevelSums(counts, self.means + fraction[:, :, None] * difference, self.scatter + other.scatter + between)

    def without_labels(self) -> "LevelSums":
        """The moments pooled over labels."""
        scatters = [self.scatter, *np.zeros((len(self.counts) - 1, *self.scatter.shape))]
        cells = zip(self.counts, self.means, scatters, strict=True)
        return reduce(add, (LevelSums(counts[None], means[None], scatter) for counts, means, scatter in cells))

    def conditional(self, rng: np.random.Generator | None = None) -> ConditionalLevels:
        """Distribution of the level at the posterior mean of its parameters, or at a posterior draw.

        Priors are flat for proportions and weak for the covariance. Level effects are shrunk, with a method-of-moments
        estimate of their variance.
        """
        concentrations, n_labels, n_inputs = 1.0 + self.counts, len(self.counts), len(self.scatter)
        total = max(float(self.counts.sum()), 1.0)
        centre = np.einsum("yl,ylp->p", self.counts, self.means) / total
        cells = np.where(self.counts[:, :, None] > 0, self.means - centre, 0.0)
        between, within = self._scatter(cells, 1.0 / MIN_VARIANCE), self._scatter(cells, 0.0)
        diagonal = within.diagonal() / total
        scale = within + n_inputs * np.diag(np.where(diagonal > 0, diagonal, 1.0))
        covariance = scale / (total + n_inputs)
        precision = self._precision(1.0 / self._variance(between - within, covariance))
        solution = self._solve(precision, cells)
        log_proportions = np.log(concentrations / concentrations.sum(axis=1)[:, None])
        if rng is not None:
            log_proportions = np.log([rng.dirichlet(row) for row in concentrations])
            covariance = InverseWishart(scale, total + n_inputs).draw(rng).value
            noise = rng.standard_normal(solution.shape)
            solution = solution + cholesky(inverse(precision)) @ noise @ cholesky(covariance).T
        return ConditionalLevels(log_proportions, centre + solution[:n_labels], solution[n_labels:], covariance)

    def _precision(self, shrinkage: float) -> Array:
        """Precision of the label means and level effects jointly, in units of the predictors' precision."""
        by_label, by_level = self.counts.sum(axis=1), self.counts.sum(axis=0)
        labels = np.diag(np.where(by_label > 0, by_label, 1.0))
        levels = np.diag(by_level + shrinkage + RIDGE * by_level.sum() + (by_level == 0))
        return np.block([[labels, self.counts], [self.counts.T, levels]])

    def _solve(self, precision: Array, cells: Array) -> Array:
        """Estimate the label means and the level effects from the cell means."""
        sums = self.counts[:, :, None] * cells
        right = np.concatenate([sums.sum(axis=1), sums.sum(axis=0)])
        return np.asarray(np.linalg.solve(precision, right), dtype=np.float64)

    def _scatter(self, cells: Array, shrinkage: float) -> Array:
        """Residual sums of squares and products of the additive model with shrunken level effects."""
        solution, n_labels = self._solve(self._precision(shrinkage), cells), len(self.counts)
        residuals = cells - solution[:n_labels, None] - solution[None, n_labels:]
        return self.scatter + np.einsum("yl,ylp,ylq->pq", self.counts, residuals, residuals)

    def _variance(self, between: Array, covariance: Array) -> float:
        """Method-of-moments estimate of the effects' variance, in units of the covariance."""
        by_level = self.counts.sum(axis=0)
        total, n_inputs = by_level.sum(), len(covariance)
        degrees = n_inputs * (np.count_nonzero(by_level) - 1)
        if degrees <= 0:
            return MIN_VARIANCE
        explained = float(np.trace(np.linalg.solve(covariance, between)))
        unbalance = total - float(by_level @ by_level) / total
        return max((explained - degrees) / (n_inputs * unbalance), MIN_VARIANCE)


@final
@dataclass(frozen=True, eq=False)
class CategorySums:
    """The moments of each of several categories."""

    categories: tuple[LevelSums, ...]

    def __add__(self, other: Self) -> "CategorySums":
        """Pool the moments of two sets of rows."""
        return CategorySums(tuple(a + b for a, b in zip(self.categories, other.categories, strict=True)))


@final
@dataclass(frozen=True, eq=False)
class FixedLevels:
    """Fixed distributions of missing categories: the design columns that each is conditional on, and their moments.

    ``labelled``: whether they are conditional on the label, too.
    """

    columns: tuple[NDArray[np.intp], ...]
    sums: CategorySums
    labelled: bool

    @cached_property
    def conditionals(self) -> tuple[ConditionalLevels, ...]:
        """Distributions of the levels in the training rows."""
        return self.draw(None, labelled=True)

    @cached_property
    def without_labels(self) -> tuple[ConditionalLevels, ...]:
        """Distributions of the levels in rows without a label."""
        return self.draw(None, labelled=False)

    def draw(self, rng: np.random.Generator | None, *, labelled: bool) -> tuple[ConditionalLevels, ...]:
        """Distributions of the levels, given the label or not, at drawn parameters or (rng=None) at their means."""
        labelled = labelled and self.labelled
        sums = [category if labelled else category.without_labels() for category in self.sums.categories]
        return tuple(category.conditional(rng) for category in sums)

    def with_log_prob(self, candidates: Candidates, design: Array, y: Array) -> Candidates:
        """The candidates of the training rows with their log probabilities, given design and labels."""
        predicted = self.log_prob(self.without_labels, candidates, design)
        fixed = self.log_prob(self.conditionals, candidates, design, y) if self.labelled else predicted
        if candidates.log_weights is not None and candidates.log_ratio is not None:
            fixed, predicted = fixed + candidates.log_weights, predicted + candidates.log_ratio
        return replace(candidates, log_fixed=fixed, log_predictive=predicted)

    def log_prob(
        self, levels: tuple[ConditionalLevels, ...], candidates: Candidates, design: Array, y: Array | None = None
    ) -> Array:
        """Log probability of each candidate."""
        labels = np.zeros(len(design), dtype=np.intp)
        if y is not None and self.labelled:
            labels = (y > 0).astype(np.intp)
        total = np.zeros(len(design)) if candidates.log_importance is None else candidates.log_importance.copy()
        for conditional, columns, codes in zip(levels, self.columns, candidates.levels.T, strict=True):
            rows = np.flatnonzero(codes >= 0)
            if len(rows):
                log_prob = conditional.log_prob(design[np.ix_(rows, columns)], labels[rows])
                total[rows] += log_prob[np.arange(len(rows)), codes[rows]]
        return total

    def log_prob_of_table(
        self,
        levels: tuple[ConditionalLevels, ...],
        candidates: Candidates,
        recipe: Recipe,
        table: NDArray[np.floating],
        y: Array | None = None,
    ) -> Array:
        """Log probability of each candidate, with predictors from a raw table."""
        total, incomplete = np.zeros(len(table)), np.flatnonzero((candidates.levels >= 0).any(axis=1))
        design, labels = design_rows(recipe, table[incomplete]), None if y is None else y[incomplete]
        total[incomplete] = self.log_prob(levels, candidates.take(incomplete), design, labels)
        return total


@final
@dataclass(frozen=True, eq=False)
class LevelDistributions:
    """Probabilities of the levels of each categorical predictor: Dirichlet distributions, or draws from them."""

    concentrations: tuple[Array, ...]
    logs: tuple[Array, ...]

    @staticmethod
    def from_concentrations(concentrations: tuple[Array, ...]) -> "LevelDistributions":
        """Dirichlet distributions with these concentrations, and E log π."""
        return LevelDistributions(concentrations, tuple(digamma(a) - digamma(a.sum()) for a in concentrations))

    def pack(self) -> list[float]:
        """Return the logs of the concentrations."""
        return [x for a in self.concentrations for x in np.log(a)]

    def unpack(self, numbers: Array) -> "LevelDistributions":
        """Inverse of ``pack``."""
        if not self.concentrations:  # values of columns are drawn, and no category may be missing
            return self
        ends = np.cumsum([len(a) for a in self.concentrations])[:-1]
        return LevelDistributions.from_concentrations(
            tuple(np.exp(np.clip(part, -300.0, 300.0)) for part in np.split(numbers, ends))
        )

    def draw(self, rng: np.random.Generator) -> "LevelDistributions":
        """Draw the probabilities."""
        return LevelDistributions(self.concentrations, tuple(np.log(rng.dirichlet(a)) for a in self.concentrations))


@final
@dataclass(frozen=True, eq=False)
class LevelModel:
    """Dirichlet(1) prior of the level probabilities; ``sizes`` are the numbers of levels.

    ``given`` are fixed distributions that do not depend on the coefficients. (Files of older versions have ``held``
    alone.)
    """

    sizes: tuple[int, ...]
    held: bool = False
    given: FixedLevels | None = None

    def start(self) -> LevelDistributions:
        """Equal probabilities."""
        return LevelDistributions.from_concentrations(tuple(np.ones(size) for size in self.sizes))

    def update(self, counts: "LevelCounts", mode: UpdateMode) -> LevelDistributions:
        """Conditional distribution Dirichlet(1 + counts), or a draw from it."""
        return mode(LevelDistributions.from_concentrations(tuple(1.0 + counted for counted in counts.counts)), "levels")

    def bound(self, distribution: LevelDistributions, counts: "LevelCounts") -> float:
        """E log p(levels, π) − E log q(π)."""
        value = 0.0
        for a, logs, count in zip(distribution.concentrations, distribution.logs, counts.counts, strict=True):
            value += math.lgamma(len(a)) - float(gammaln(a.sum()) - gammaln(a).sum())
            value += float((count + 1.0 - a) @ logs)
        return value


@final
@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Counts of the levels; expected counts if missing."""

    counts: tuple[Array, ...]

    def __add__(self, other: Self) -> "LevelCounts":
        """Add the counts of two sets of rows."""
        return LevelCounts(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    def divided(self, n: float) -> "LevelCounts":
        """Divide counts that were added over n sweeps by n."""
        return LevelCounts(tuple(counted / n for counted in self.counts))


def log_weights(design: Array, y: Array, weights: Array, candidates: Candidates, wiggly: slice) -> Array:
    """Log importance weights of the candidates that differ in drawn values only.

    A value's weight is its probability given the other predictors, times that of the label given all predictors, over
    its proposal density. The label's probability is from a logistic model of the design columns, fitted to the weighted
    values in alternation (Ibrahim's method of weights). NaN in the design counts as the column's mean; ``wiggly`` are
    the basis columns of curves.
    """
    assert candidates.log_ratio is not None
    runs = candidates.draw_runs
    x = np.where(np.isnan(design), 0.0, design)
    penalty = np.full(x.shape[1], COLUMN_PRECISION)
    penalty[wiggly] = WIGGLY_PRECISION
    theta, logs = np.zeros(x.shape[1]), np.zeros(len(x))
    even = candidates.softmax(np.zeros(len(x)))  # equal weights of levels and draws
    proportions = even
    for _ in range(MAX_STEPS):
        p = expit(-y * (x @ theta))
        s = weights * proportions
        hessian = x.T @ ((s * p * (1.0 - p))[:, None] * x) + np.diag(penalty)
        step = np.linalg.solve(hessian, x.T @ (s * p * y) - penalty * theta)
        theta = theta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        logs = candidates.log_ratio + log_expit(y * (x @ theta))
        proportions = runs.softmax(logs) * even * runs.sizes
        if np.abs(step).max() < TOLERANCE:
            break
    return np.log(np.maximum(runs.softmax(logs), 1e-300))
