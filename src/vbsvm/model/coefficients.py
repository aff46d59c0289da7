"""Coefficients without spread, and what a prior may know of the coefficients of its block."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import CoefficientDistribution, Effects, Gram, Rows


@final
@dataclass(frozen=True, slots=True, eq=False)
class PointDistribution:
    """Coefficients without spread, in any layout: the start of variational Bayes, and every state of Gibbs."""

    mean: Array

    @property
    def variances(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.mean)

    def square_sum(self, columns: slice) -> float:
        """Σ E[θ²] over these columns."""
        return float(np.add.reduce(np.square(self.mean[columns])))

    @property
    def squares(self) -> Array:
        """θ²."""
        return np.square(self.mean)

    @property
    def entropy(self) -> float:
        """Minus infinity, so that the bound of a start is below every other."""
        return -math.inf

    def products(self, left: slice, right: slice) -> float:
        """Σ θ_j θ_k."""
        return float(self.mean[left] @ self.mean[right])

    def outer(self, n: int) -> Array:
        """θθᵀ."""
        return np.outer(self.mean[:n], self.mean[:n])

    def meeting(self, border: Array) -> Array:
        """Σ B E[u x_k] over the coefficients u beyond the core, for each coefficient x_k of the core."""
        n_core = border.shape[1]
        return (self.mean[n_core:] @ border) * self.mean[:n_core]

    def message(self, gates: Gates | None) -> "PointDistribution":
        """The effective coefficients."""
        return self if gates is None else PointDistribution(gates.open * self.mean)

    def row_moments(self, rows: Rows) -> tuple[Array, float]:
        """A point's scores have no variance: the quadratic form is skipped."""
        return rows.scores(self.mean), 0.0

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """The coefficients of these columns, without spread."""
        mean = rows.multiplying(self.mean, columns)
        return Effects(mean, np.zeros((len(rows.signs), len(columns))), np.zeros((len(mean), *[len(columns)] * 2)))

    def quadratic(self, gram: Gram) -> float:
        """θᵀ gram θ."""
        return float(self.mean @ gram.times(self.mean))

    def at(self, mean: Array) -> "PointDistribution":
        """Another point."""
        return PointDistribution(mean)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Second moments of one block's coefficients: all that a prior may know of the data.

    ``columns`` is one stride for each effect of a group, and a single one where coefficients stand for themselves.
    """

    distribution: CoefficientDistribution
    columns: tuple[slice, ...]
    inclusion: Array | None = None  # of the block's gates

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return np.concatenate([self.distribution.squares[columns] for columns in self.columns])

    @property
    def variances(self) -> Array:
        """Var θ, elementwise."""
        spread = self.distribution.variances
        return np.concatenate([spread[columns] for columns in self.columns])

    @property
    def total(self) -> float:
        """E‖θ‖²."""
        if len(self.columns) == 1:  # small fits are made of such calls: the shortest way
            return self.distribution.square_sum(self.columns[0])
        return sum(self.distribution.square_sum(columns) for columns in self.columns)

    @property
    def spread(self) -> float:
        """Σ Var θ."""
        return self.total - sum(float(np.square(self.distribution.mean[columns]).sum()) for columns in self.columns)

    @property
    def n_groups(self) -> int:
        """Number of coefficients of each effect."""
        first = self.columns[0]
        return len(range(first.start, first.stop, first.step or 1))

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.n_groups * len(self.columns)

    @property
    def outer(self) -> Array:
        """Σ_g E[u_g u_gᵀ], the summed second moments of the groups' effects."""
        q = len(self.columns)
        outer = np.empty((q, q))
        for j in range(q):
            for k in range(j + 1):
                outer[j, k] = outer[k, j] = self.distribution.products(self.columns[j], self.columns[k])
        return outer
