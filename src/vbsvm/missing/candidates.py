"""Rows that miss a category: each stands in the table once for every level that it may have.

The rows of one origin are alternatives. Their shares are a softmax of what each adds to the bound and of the level's
log probability; everything that is summed over rows then counts by share.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading

KNOWN = -1


@final
@dataclass(frozen=True, eq=False)
class LevelDistributions:
    """The levels' probabilities of each categorical input: Dirichlet distributions, or draws from them."""

    concentrations: tuple[Array, ...]
    logs: tuple[Array, ...]

    @staticmethod
    def of(concentrations: tuple[Array, ...]) -> "LevelDistributions":
        """Dirichlet distributions, with E log π."""
        return LevelDistributions(concentrations, tuple(digamma(one) - digamma(one.sum()) for one in concentrations))

    def pack(self) -> list[float]:
        """Give the logs of the concentrations."""
        return [x for one in self.concentrations for x in np.log(one)]

    def unpack(self, numbers: Array) -> "LevelDistributions":
        """Make the distributions that have these numbers."""
        ends = np.cumsum([len(one) for one in self.concentrations])[:-1]
        return LevelDistributions.of(tuple(np.exp(np.clip(part, -300.0, 300.0)) for part in np.split(numbers, ends)))

    def draw(self, rng: np.random.Generator) -> "LevelDistributions":
        """Draw the probabilities."""
        return LevelDistributions(self.concentrations, tuple(np.log(rng.dirichlet(one)) for one in self.concentrations))


@final
@dataclass(frozen=True, eq=False)
class LevelModel:
    """The levels' probabilities have a flat Dirichlet prior; ``sizes`` are the numbers of levels."""

    sizes: tuple[int, ...]

    def start(self) -> LevelDistributions:
        """Equal probabilities."""
        return LevelDistributions.of(tuple(np.ones(size) for size in self.sizes))

    def update(self, counts: "LevelCounts", resolve: Reading) -> LevelDistributions:
        """Dirichlet(1 + counts), or a draw from it."""
        return resolve(LevelDistributions.of(tuple(1.0 + one for one in counts.counts)), "levels")

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
    """How often each level occurs, expected where it is missing."""

    counts: tuple[Array, ...]

    def __add__(self, other: Self) -> "LevelCounts":
        """Add the counts of two sets of rows."""
        return LevelCounts(tuple(one + two for one, two in zip(self.counts, other.counts, strict=True)))

    def divided(self, n: float) -> "LevelCounts":
        """Means of counts of n sweeps, which were added."""
        return LevelCounts(tuple(one / n for one in self.counts))


@final
@dataclass(frozen=True, eq=False)
class Options:
    """Origins of a block's rows, neighbours where they are equal, and the missing levels that each row stands for.

    ``levels`` (rows × categorical inputs) is ``KNOWN`` where a level is not missing.
    """

    origin: NDArray[np.intp]
    levels: NDArray[np.intp]

    def take(self, which: Any) -> "Options":
        """The same of some rows."""
        return Options(self.origin[which], self.levels[which])

    @cached_property
    def firsts(self) -> NDArray[np.intp]:
        """The first row of each origin."""
        return np.flatnonzero(np.r_[True, self.origin[1:] != self.origin[:-1]])

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        """Which origin each row has, counted from 0."""
        return np.repeat(np.arange(len(self.firsts)), np.diff(np.r_[self.firsts, len(self.origin)]))

    def log_chances(self, distributions: LevelDistributions) -> Array:
        """E log π of the levels that each row stands for."""
        total = np.zeros(len(self.origin))
        for logs, levels in zip(distributions.logs, self.levels.T, strict=True):
            total += np.where(levels == KNOWN, 0.0, logs[levels])
        return total

    def softmax(self, values: Array) -> Array:
        """Shares that add to 1 within each origin."""
        top = np.maximum.reduceat(values, self.firsts)[self._place]
        shares = np.exp(values - top)
        return shares / np.add.reduceat(shares, self.firsts)[self._place]

    def log_sums(self, values: Array) -> Array:
        """Logarithm of the summed exponentials of each origin's rows."""
        top = np.maximum.reduceat(values, self.firsts)
        return top + np.log(np.add.reduceat(np.exp(values - top[self._place]), self.firsts))

    def chosen(self, values: Array, shares: Array) -> Array:
        """Values of the row that has the share 1 among its alternatives, for all of them."""
        return values[np.flatnonzero(shares)][self._place]

    def counts(self, weights: Array, sizes: tuple[int, ...]) -> LevelCounts:
        """Weights by level, over rows whose level is missing."""
        found = []
        for size, levels in zip(sizes, self.levels.T, strict=True):
            missing = levels != KNOWN
            found.append(np.bincount(levels[missing], weights[missing], minlength=size).astype(np.float64))
        return LevelCounts(tuple(found))


@final
@dataclass(frozen=True, eq=False)
class Shares:
    """The distribution of which of its alternatives each origin is: shares, or a draw of one of them."""

    options: Options
    values: Array

    @cached_property
    def result(self) -> Array:
        """Share of each row."""
        return self.options.softmax(self.values)

    def draw(self, rng: np.random.Generator) -> "Drawn":
        """One of each origin's rows, by Gumbel's trick."""
        noisy = self.values + rng.gumbel(size=len(self.values))
        first = self.options.firsts
        top = np.maximum.reduceat(noisy, first)[self.options._place]
        return Drawn((noisy == top).astype(np.float64))


@final
@dataclass(frozen=True, eq=False)
class Drawn:
    """Shares of 0 and 1."""

    result: Array
