"""Indicators: Bernoulli inclusion indicators of coefficients (paper, Section 3.2).

The effective coefficients are γ∘v. An indicator may be shared by several coefficients, such as the dummies of one
factor.
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

# Smaller changes of an inclusion probability are not propagated to other indicators.
NO_CHANGE = 1e-15


@final
@dataclass(frozen=True, eq=False)
class GateMap:
    """Indicator of each coefficient (−1 for none); constant throughout a fit."""

    gate_of: NDArray[np.intp]
    n_gates: int

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """Coefficients of each indicator."""
        order = np.argsort(self.gate_of, kind="stable")
        begins = np.searchsorted(self.gate_of[order], np.arange(self.n_gates + 1))
        return [order[begins[j] : begins[j + 1]] for j in range(self.n_gates)]

    @cached_property
    def shared(self) -> list[NDArray[np.intp]]:
        """Coefficients of each indicator that has more than one."""
        return [members for members in self.members if len(members) > 1]

    @cached_property
    def gated(self) -> NDArray[np.bool_]:
        """Mask of the coefficients with an indicator."""
        return self.gate_of >= 0


@final
@dataclass(frozen=True, eq=False)
class Gates:
    """Distributions of the indicators by their log odds, which are infinite for drawn indicators."""

    log_odds: Array
    map: GateMap

    @cached_property
    def inclusion(self) -> Array:
        """E γ of each indicator."""
        return expit(self.log_odds)

    @cached_property
    def by_coefficient(self) -> Array:
        """γ̃: inclusion probability of each coefficient, 1 without an indicator."""
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
        size = np.minimum(np.abs(self.log_odds), 700.0)  # a drawn indicator has entropy 0
        return float((np.log1p(np.exp(-size)) + size * expit(-size)).sum())

    def with_log_odds(self, log_odds: Array) -> Self:
        """The same indicators with other log odds."""
        return type(self)(log_odds, self.map)

    def subset(self, columns: NDArray[np.intp]) -> "Gates":
        """The indicators of some columns, none of them shared."""
        return Gates(self.log_odds[self.map.gate_of[columns]], GateMap(np.arange(len(columns)), len(columns)))

    def weigh(self, matrix: Array, diagonal_of: Array | None = None) -> Array:
        """matrix ∘ E[γ̃γ̃ᵀ]: γ̃γ̃ᵀ, plus the variance of an indicator in the block of its own coefficients.

        ``diagonal_of`` is the matrix of that second part, if it differs.
        """
        diagonal_blocks = matrix if diagonal_of is None else diagonal_of
        n = len(matrix)
        inclusion, variance = self.by_coefficient[:n], self.variance[:n]
        gated = matrix * inclusion
        gated *= inclusion[:, None]
        gated.ravel()[:: n + 1] += variance * diagonal_blocks.diagonal()
        for members in self.map.shared:
            within = variance[members[0]] * diagonal_blocks[np.ix_(members, members)]
            within[np.diag_indices(len(members))] = 0.0
            gated[np.ix_(members, members)] += within
        return gated


class GateScan(ABC):
    """Sequential full conditionals of the indicators (Algorithm 3, lines 6 and 7; Appendix B)."""

    @abstractmethod
    def scan(self, rng: np.random.Generator | None = None) -> Gates:
        """Update each indicator in turn; draw it if there is a generator."""

    @cached_property
    def result(self) -> Gates:
        """Updated distributions: each indicator in turn, given those of the others."""
        return self.scan()

    def draw(self, rng: np.random.Generator) -> "DrawnGates":
        """Draw each indicator in turn, given the others."""
        return DrawnGates(self.scan(rng))


@final
@dataclass(frozen=True, eq=False)
class DrawnGates:
    """Drawn indicators."""

    result: Gates


@final
@dataclass(frozen=True, eq=False)
class DenseScan(GateScan):
    """Full conditionals from the matrix of expected products of coefficients.

    ``products`` is G_jk E[v_j v_k] over coefficients with an indicator and those coupled to them; ``linear`` is r_k E
    v_k less the terms of ungated coefficients outside of this matrix.
    """

    gates: Gates
    products: Array
    linear: Array
    prior_log_odds: Array

    def scan(self, rng: np.random.Generator | None = None) -> Gates:
        """Update each indicator in turn; draw it if there is a generator."""
        inclusion = self.gates.by_coefficient[: len(self.products)].copy()
        pull = self.products @ inclusion
        log_odds = self.gates.log_odds.tolist()
        prior = self.prior_log_odds.tolist()
        for j, members in enumerate(self.gates.map.members):
            # Python floats: with one coefficient per indicator, NumPy calls would take most of the time.
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
