"""The distribution of the levels of categorical inputs, by which missing categories are inferred."""

import math
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.special import digamma, gammaln

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.missing.held_levels import HeldLevels


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
        if not self.concentrations:  # values of columns are drawn, and no category may be missing
            return self
        ends = np.cumsum([len(one) for one in self.concentrations])[:-1]
        return LevelDistributions.of(tuple(np.exp(np.clip(part, -300.0, 300.0)) for part in np.split(numbers, ends)))

    def draw(self, rng: np.random.Generator) -> "LevelDistributions":
        """Draw the probabilities."""
        return LevelDistributions(self.concentrations, tuple(np.log(rng.dirichlet(one)) for one in self.concentrations))


@final
@dataclass(frozen=True, eq=False)
class LevelModel:
    """The levels' probabilities have a flat Dirichlet prior; ``sizes`` are the numbers of levels.

    Where shares of candidates are known before the coefficients and stay as they are, ``given`` tells them. (Files of
    older versions say that they are ``held``, and no more.)
    """

    sizes: tuple[int, ...]
    held: bool = False
    given: HeldLevels | None = None

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
