"""Shares of the candidates for a missing category, in a pass over the rows.

A candidate's share is its probability among the candidates of its row: a softmax of what each adds to the bound and of
the log probability of its level. Everything that is summed over rows then counts by share.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import xlogy

from vbsvm.base.arrays import Array, Which
from vbsvm.base.cached import cached_property
from vbsvm.base.reading import Reading, held
from vbsvm.design.candidates import Candidates
from vbsvm.missing.input_model import HELD_SWEEPS
from vbsvm.missing.level_model import LevelCounts, LevelDistributions
from vbsvm.missing.model import MissingSums


@final
@dataclass(frozen=True, eq=False)
class Shares:
    """The distribution of which candidate of each row is the true one: shares, or a draw of one of them."""

    candidates: Candidates
    values: Array

    @cached_property
    def result(self) -> Array:
        """Share of each candidate."""
        return self.candidates.softmax(self.values)

    def draw(self, rng: np.random.Generator) -> "DrawnShares":
        """Draw one candidate of each row, by the Gumbel-max trick."""
        noisy = self.values + rng.gumbel(size=len(self.values))
        return DrawnShares((noisy == self.candidates.largest(noisy)).astype(np.float64))


@final
@dataclass(frozen=True, eq=False)
class DrawnShares:
    """Shares of 0 and 1."""

    result: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class WeighedCandidates:
    """Candidates of a block, which are given shares by the distributions of their levels."""

    candidates: Candidates
    distributions: LevelDistributions
    resolve: Reading

    def shares(self, objective: Array, which: Which = slice(None)) -> Array:
        """Shares of these candidates, from what each adds to the bound; or those that they have whatever that is."""
        candidates, resolve = self.candidates.take(which), self.resolve
        if candidates.held is None:
            values = objective + candidates.log_chances(self.distributions.logs)
        else:
            values, resolve = candidates.held, held(resolve, HELD_SWEEPS)
        return resolve(Shares(candidates, values), "levels of rows", int(candidates.row[0])).result

    def entropy(self, shares: Array, s: Array) -> float:
        """Σ s × the entropy of the shares."""
        return -float(s @ xlogy(shares, shares))

    def sums(self, weights: Array) -> MissingSums:
        """Expected counts of the missing levels."""
        sizes = tuple(len(one) for one in self.distributions.logs)
        return MissingSums(levels=LevelCounts(self.candidates.counts(weights, sizes)))
