"""Gates: Bernoulli variables that let a coefficient in or leave it out (paper, Section 3.2).

The effective coefficients are γ∘v. A gate may be shared by several coefficients, such as the dummies of one factor.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property

# A gate that moves by less moves no other.
NO_CHANGE = 1e-15


@final
@dataclass(frozen=True, eq=False)
class GateMap:
    """Which gate each coefficient has (−1 for none); the same throughout a fit."""

    gate_of: NDArray[np.intp]
    n_gates: int

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """Coefficients of each gate."""
        order = np.argsort(self.gate_of, kind="stable")
        begins = np.searchsorted(self.gate_of[order], np.arange(self.n_gates + 1))
        return [order[begins[j] : begins[j + 1]] for j in range(self.n_gates)]

    @cached_property
    def shared(self) -> list[NDArray[np.intp]]:
        """Coefficients of each gate that has several."""
        return [members for members in self.members if len(members) > 1]

    @cached_property
    def gated(self) -> NDArray[np.bool_]:
        """Which coefficients have a gate."""
        return self.gate_of >= 0


@final
@dataclass(frozen=True, eq=False)
class Gates:
    """Distributions of the gates, by their log odds; a drawn gate has infinite ones."""

    log_odds: Array
    map: GateMap

    @cached_property
    def inclusion(self) -> Array:
        """E γ of each gate."""
        return expit(self.log_odds)

    @cached_property
    def by_coefficient(self) -> Array:
        """γ̃: E γ for each coefficient, 1 where there is no gate."""
        inclusion = np.ones(len(self.map.gate_of))
        inclusion[self.map.gated] = self.inclusion[self.map.gate_of[self.map.gated]]
        return inclusion

    @cached_property
    def variance(self) -> Array:
        """Var γ for each coefficient."""
        return self.by_coefficient * (1.0 - self.by_coefficient)

    @property
    def entropy(self) -> float:
        """Σ {log(1 + e^η) − η E γ}, each term in the form that does not cancel."""
        size = np.minimum(np.abs(self.log_odds), 700.0)  # a decided gate has none
        return float((np.log1p(np.exp(-size)) + size * expit(-size)).sum())

    def with_log_odds(self, log_odds: Array) -> Self:
        """The same gates with other log odds."""
        return type(self)(log_odds, self.map)

    def part(self, columns: NDArray[np.intp]) -> "Gates":
        """The gates of some columns, each of which has one of its own."""
        return Gates(self.log_odds[self.map.gate_of[columns]], GateMap(np.arange(len(columns)), len(columns)))

    def weigh(self, matrix: Array, diagonal_of: Array | None = None) -> Array:
        """matrix ∘ E[γ̃γ̃ᵀ]: γ̃γ̃ᵀ, and the variance of a gate wherever its own coefficients meet.

        ``diagonal_of`` is the matrix of that second part, where it is another one.
        """
        diagonal_blocks = matrix if diagonal_of is None else diagonal_of
        n = len(matrix)
        inclusion, spread = self.by_coefficient[:n], self.variance[:n]
        gated = matrix * inclusion
        gated *= inclusion[:, None]
        gated.ravel()[:: n + 1] += spread * diagonal_blocks.diagonal()
        for members in self.map.shared:
            within = spread[members[0]] * diagonal_blocks[np.ix_(members, members)]
            within[np.diag_indices(len(members))] = 0.0
            gated[np.ix_(members, members)] += within
        return gated


class GateScan(ABC):
    """Full conditionals of the gates, one after another (Algorithm 3, lines 6 and 7; Appendix B)."""

    @abstractmethod
    def scan(self, rng: np.random.Generator | None = None) -> Gates:
        """Each gate in turn; drawn where there is a generator."""

    @cached_property
    def result(self) -> Gates:
        """Each gate's distribution in turn, given the distributions of the others."""
        return self.scan()

    def draw(self, rng: np.random.Generator) -> "DrawnGates":
        """Each gate drawn in turn, given the others."""
        return DrawnGates(self.scan(rng))


@final
@dataclass(frozen=True, eq=False)
class DrawnGates:
    """Gates without spread."""

    result: Gates


@final
@dataclass(frozen=True, eq=False)
class DenseScan(GateScan):
    """Full conditionals from the matrix of what coefficients meet in each other.

    ``products`` is G_jk E[v_j v_k] over the coefficients that have gates and those that they meet, ``linear`` is
    r_k E v_k less what meets coefficients without gates outside of this matrix.
    """

    gates: Gates
    products: Array
    linear: Array
    prior_log_odds: Array

    def scan(self, rng: np.random.Generator | None = None) -> Gates:
        """Each gate in turn; drawn where there is a generator."""
        inclusion = self.gates.by_coefficient[: len(self.products)].copy()
        pull = self.products @ inclusion
        log_odds = self.gates.log_odds.tolist()
        prior = self.prior_log_odds.tolist()
        for j, members in enumerate(self.gates.map.members):
            # Plain numbers: with one coefficient a gate, calls of NumPy would take most of the time.
            first = int(members[0])
            row = self.products[first] if len(members) == 1 else self.products[members].sum(axis=0)
            quadratic = float(row[first]) if len(members) == 1 else float(row[members].sum())
            cross = float(pull[first]) if len(members) == 1 else float(pull[members].sum())
            linear = float(self.linear[first]) if len(members) == 1 else float(self.linear[members].sum())
            before = float(inclusion[first])
            odds = prior[j] - 0.5 * quadratic + linear - (cross - quadratic * before)
            after = 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0
            if rng is not None:
                after = float(rng.random() < after)
                odds = math.inf if after else -math.inf
            log_odds[j] = odds
            if abs(after - before) > NO_CHANGE:
                inclusion[members] = after
                pull += (after - before) * row
        return self.gates.with_log_odds(np.array(log_odds))
