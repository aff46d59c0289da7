"""Levels of a category given other inputs and the label: what is learned, from moments of some rows that add up.

Given its level and the label of its row, the inputs are normal, with one covariance, and means that are the sum of one
for the label and one for the level. So the log probability of a level is linear in the inputs, beside its share among
rows of that label: a softmax (a linear discriminant).
"""

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.distributions import InverseWishart

# Levels whose inputs do not differ more than by chance have effects of this variance, in units of the covariance.
SMALLEST_VARIANCE = 1e-12
# Keeps effects of levels and means of labels apart, of which a constant could be either.
RIDGE = 1e-9


@final
@dataclass(frozen=True, eq=False)
class LevelLaw:
    """Log shares of levels (labels × levels); means of the inputs by label, what levels add, and the covariance."""

    shares: Array
    means: Array
    effects: Array
    covariance: Array

    def log_chances(self, x: Array, labels: NDArray[np.intp]) -> Array:
        """Log probability of each level in each row (rows × levels); inputs that are NaN have no say."""
        missing, found = np.isnan(x), np.empty((len(x), self.shares.shape[1]))
        patterns, pattern_of = np.unique(missing, axis=0, return_inverse=True) if missing.any() else (missing[:1], 0)
        for k, pattern in enumerate(patterns):
            rows, known = np.flatnonzero(np.broadcast_to(pattern_of == k, len(x))), ~pattern
            effects = self.effects[:, known]
            slopes = np.linalg.solve(self.covariance[np.ix_(known, known)], effects.T)
            about = x[np.ix_(rows, known)] - self.means[labels[rows]][:, known]
            found[rows] = self.shares[labels[rows]] + about @ slopes - 0.5 * np.einsum("lp,pl->l", effects, slopes)
        return np.asarray(log_softmax(found, axis=1))


@final
@dataclass(frozen=True, eq=False)
class LevelSums:
    """Moments of the rows in which a category is known: weight and mean of the inputs by label and level.

    ``scatter`` is the sum of squares and products about these means.
    """

    counts: Array
    means: Array
    scatter: Array

    @staticmethod
    def of(
        x: Array, labels: NDArray[np.intp], levels: NDArray[np.intp], weights: Array, shape: tuple[int, int]
    ) -> "LevelSums":
        """The moments of some rows; ``shape`` are the numbers of labels and levels."""
        cell = labels * shape[1] + levels
        counts = np.bincount(cell, weights, minlength=shape[0] * shape[1]).astype(np.float64)
        means = np.zeros((len(counts), x.shape[1]))
        np.add.at(means, cell, weights[:, None] * x)
        means /= np.where(counts > 0, counts, 1.0)[:, None]
        about = x - means[cell]
        return LevelSums(counts.reshape(shape), means.reshape(*shape, -1), about.T @ (weights[:, None] * about))

    def __add__(self, other: Self) -> "LevelSums":
        """Join two sets of rows."""
        counts, apart = self.counts + other.counts, other.means - self.means
        share = other.counts / np.where(counts > 0, counts, 1.0)
        between = np.einsum("yl,ylp,ylq->pq", self.counts * share, apart, apart)
        return LevelSums(counts, self.means + share[:, :, None] * apart, self.scatter + other.scatter + between)

    def without_labels(self) -> "LevelSums":
        """The same for rows whatever their label."""
        first, *others = (
            LevelSums(self.counts[[k]], self.means[[k]], self.scatter if k == 0 else np.zeros_like(self.scatter))
            for k in range(len(self.counts))
        )
        for other in others:
            first = first + other
        return first

    def law(self, rng: np.random.Generator | None = None) -> LevelLaw:
        """Posterior means of all parameters, under flat priors of shares and a weak one of the covariance; or draws.

        Effects of levels are shrunk: their variance is what is left when chance differences have been taken off.
        """
        concentrations, n_labels, n_inputs = 1.0 + self.counts, len(self.counts), len(self.scatter)
        total = max(float(self.counts.sum()), 1.0)
        centre = np.einsum("yl,ylp->p", self.counts, self.means) / total
        cells = np.where(self.counts[:, :, None] > 0, self.means - centre, 0.0)
        between, within = self._scatter(cells, 1.0 / SMALLEST_VARIANCE), self._scatter(cells, 0.0)
        diagonal = within.diagonal() / total
        scale = within + n_inputs * np.diag(np.where(diagonal > 0, diagonal, 1.0))
        covariance = scale / (total + n_inputs)
        precision = self._precision(1.0 / self._variance(between - within, covariance))
        found, shares = self._solved(precision, cells), np.log(concentrations / concentrations.sum(axis=1)[:, None])
        if rng is not None:
            shares = np.log([rng.dirichlet(one) for one in concentrations])
            covariance = InverseWishart(scale, total + n_inputs).draw(rng).value
            noise = rng.standard_normal(found.shape)
            found = found + cholesky(inverse(precision)) @ noise @ cholesky(covariance).T
        return LevelLaw(shares, centre + found[:n_labels], found[n_labels:], covariance)

    def _precision(self, shrinkage: float) -> Array:
        """Of the means of labels, then of the effects of levels, in units of the inputs' precision."""
        by_label, by_level = self.counts.sum(axis=1), self.counts.sum(axis=0)
        labels = np.diag(np.where(by_label > 0, by_label, 1.0))
        levels = np.diag(by_level + shrinkage + RIDGE * by_level.sum() + (by_level == 0))
        return np.block([[labels, self.counts], [self.counts.T, levels]])

    def _solved(self, precision: Array, cells: Array) -> Array:
        """Means of labels, then effects of levels, from the means of both together."""
        sums = self.counts[:, :, None] * cells
        right = np.concatenate([sums.sum(axis=1), sums.sum(axis=0)])
        return np.asarray(np.linalg.solve(precision, right), dtype=np.float64)

    def _scatter(self, cells: Array, shrinkage: float) -> Array:
        """Squares and products about the sums of means of labels and shrunk effects of levels."""
        found, n_labels = self._solved(self._precision(shrinkage), cells), len(self.counts)
        left = cells - found[:n_labels, None] - found[None, n_labels:]
        return self.scatter + np.einsum("yl,ylp,ylq->pq", self.counts, left, left)

    def _variance(self, between: Array, covariance: Array) -> float:
        """Variance of the effects, in units of the covariance, by the method of moments."""
        by_level = self.counts.sum(axis=0)
        total, n_inputs = by_level.sum(), len(covariance)
        degrees = n_inputs * (np.count_nonzero(by_level) - 1)
        if degrees <= 0:
            return SMALLEST_VARIANCE
        explained = float(np.trace(np.linalg.solve(covariance, between)))
        spread = total - float(by_level @ by_level) / total
        return max((explained - degrees) / (n_inputs * spread), SMALLEST_VARIANCE)


@final
@dataclass(frozen=True, eq=False)
class CategorySums:
    """The moments for each of several categories."""

    categories: tuple[LevelSums, ...]

    def __add__(self, other: Self) -> "CategorySums":
        """Join two sets of rows."""
        return CategorySums(tuple(one + more for one, more in zip(self.categories, other.categories, strict=True)))
