"""Specification of a model (``Spec``), and the current distributions of its parameters (``State``)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import ScaleDistribution
from vbsvm.model.gates import GateMap, Gates
from vbsvm.model.interfaces import (
    CoefficientDistribution,
    GaussianDistribution,
    MissingDistributions,
    MissingModel,
    PointDistribution,
    Precision,
)
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE, ExactHinge, Hinge
from vbsvm.model.priors.base import Moments, Prior


@final
@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Coefficients that share a prior: a contiguous slice, or one strided slice for each random effect of a level."""

    name: str
    columns: tuple[slice, ...]
    prior: Prior
    gate_of: NDArray[np.intp] | None = None  # which of the block's indicators each coefficient has

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return sum(len(range(columns.start, columns.stop, columns.step or 1)) for columns in self.columns)

    @property
    def n_gates(self) -> int:
        """Number of indicators."""
        return 0 if self.gate_of is None else int(self.gate_of.max()) + 1


@final
@dataclass(frozen=True, eq=False)
class Spec:
    """Model specification: blocks that together cover all coefficients, the missing-value model, and the likelihood."""

    blocks: tuple[Block, ...]
    missing: MissingModel | None = None
    likelihood: Likelihood = HINGE

    @property
    def likelihood_power(self) -> float:
        """The power of the pseudo-likelihood; 1 is the likelihood itself."""
        return self.likelihood.power if isinstance(self.likelihood, Hinge | ExactHinge) else 1.0

    def with_priors(self, change: Callable[[Prior], Prior]) -> "Spec":
        """The same with other priors of coefficients with indicators; a prior without indicators removes these."""
        blocks = list(self.blocks)
        for k, block in enumerate(blocks):
            if block.gate_of is not None:
                prior = change(block.prior)
                blocks[k] = replace(
                    block, prior=prior, gate_of=block.gate_of if type(prior) is type(block.prior) else None
                )
        return replace(self, blocks=tuple(blocks))

    @cached_property
    def n_columns(self) -> int:
        """Number of coefficients."""
        return max(columns.stop for block in self.blocks for columns in block.columns)

    @cached_property
    def gate_map(self) -> GateMap | None:
        """Indicator of each coefficient, or None in a model without indicators."""
        gate_of, n_gates = np.full(self.n_columns, -1, dtype=np.intp), 0
        for block in self.blocks:
            if block.gate_of is not None:
                gate_of[block.columns[0]] = n_gates + block.gate_of
                n_gates += block.n_gates
        return GateMap(gate_of, n_gates) if n_gates else None

    @cached_property
    def joint_gates(self) -> bool:
        """Whether indicators and coefficients have a joint distribution."""
        return any(block.gate_of is not None and block.prior.joint for block in self.blocks)

    def precision(self, state: "State") -> Precision:
        """Λ, the expected prior precision (Algorithm 2, line 2; Algorithm 3, line 2)."""
        diagonal, couplings = np.empty(len(state.coefficients.mean)), []
        for block, scale in zip(self.blocks, state.scales, strict=True):
            precision = block.prior.precision(scale)
            if not isinstance(precision, np.ndarray) or precision.ndim == 1:
                for columns in block.columns:
                    diagonal[columns] = precision
                continue
            for j, left in enumerate(block.columns):
                diagonal[left] = precision[j, j]
                couplings += [(left, right, float(precision[j, k])) for k, right in enumerate(block.columns[:j])]
        return Precision(diagonal, tuple(coupling for coupling in couplings if coupling[2]))

    def moments(self, state: "State") -> list[Moments]:
        """Second moments of each block's coefficients, and the inclusion probabilities of its indicators."""
        moments, begin = [], 0
        for block in self.blocks:
            inclusion = None
            if block.gate_of is not None and state.gates is not None:
                inclusion = state.gates.inclusion[begin : begin + block.n_gates]
                begin += block.n_gates
            moments.append(Moments(state.coefficients, block.columns, inclusion))
        return moments

    def prior_log_odds(self, state: "State") -> Array:
        """Expected prior log odds of all indicators."""
        return np.concatenate(
            [
                block.prior.gate_log_odds(scale, block.n_gates)
                for block, scale in zip(self.blocks, state.scales, strict=True)
                if block.gate_of is not None
            ]
        )

    def start(self, opened: float = 1.0) -> "State":
        """Initial state of the paper (w = 1): θ = 0, where every slack χ is 1, E[σ⁻²] = 1, and inclusion ``opened``."""
        scales = tuple(block.prior.start(len(block.columns), block.size) for block in self.blocks)
        gates = None
        if self.gate_map is not None:
            gates = Gates(np.full(self.gate_map.n_gates, logit(opened)), self.gate_map)
        missing = None if self.missing is None else self.missing.start()
        return State(PointDistribution(np.zeros(self.n_columns)), scales, gates, missing)

    def starts(self) -> "list[State]":
        """The initial state of the paper, and those of further starts that a prior defines."""
        return [self.start(opened) for opened in (1.0, *(x for block in self.blocks for x in block.prior.starts()))]


@final
@dataclass(frozen=True, eq=False)
class State:
    """Distributions of the coefficients, the scale of each block's prior, the indicators, and missing values."""

    coefficients: CoefficientDistribution
    scales: tuple[ScaleDistribution, ...]
    gates: Gates | None = None
    missing: MissingDistributions | None = None

    def with_coefficients(self, coefficients: CoefficientDistribution) -> "State":
        """A copy with another distribution of the coefficients."""
        return State(coefficients, self.scales, self.gates, self.missing)

    def with_scales(self, scales: tuple[ScaleDistribution, ...]) -> "State":
        """A copy with other scales."""
        return State(self.coefficients, scales, self.gates, self.missing)

    @property
    def gaussian(self) -> GaussianDistribution:
        """The distribution of the coefficients, which must not be a point."""
        assert not isinstance(self.coefficients, PointDistribution)  # an initial state or a draw, which is never packed
        return cast(GaussianDistribution, self.coefficients)

    def _numbers(self) -> list[Sequence[float] | Array]:
        return [
            self.gaussian.pack(),
            *(scale.pack() for scale in self.scales),
            [] if self.gates is None else self.gates.log_odds,
            [] if self.missing is None else self.missing.pack(),
        ]

    @cached_property
    def packed(self) -> Array:
        """Unconstrained parameters of a variational state: every vector is a valid state."""
        numbers = self._numbers()
        vars(self)["ends"] = [*accumulate(map(len, numbers))]
        return np.concatenate(numbers)

    @cached_property
    def ends(self) -> list[int]:
        """End positions of coefficients, scales, indicators and missing values in ``packed``."""
        return [*accumulate(map(len, self._numbers()))]

    def unpack(self, numbers: Array) -> "State":
        """The state of this shape with these parameters: inverse of ``packed``."""
        parts = [numbers[begin:end] for begin, end in zip([0, *self.ends], self.ends, strict=False)]
        coefficients, *scales, gates, missing = parts
        state = State(
            self.gaussian.unpack(coefficients),
            tuple(scale.unpack(part) for scale, part in zip(self.scales, scales, strict=True)),
            None if self.gates is None else self.gates.with_log_odds(gates),
            None if self.missing is None else self.missing.unpack(missing),
        )
        vars(state).update(packed=numbers, ends=self.ends)
        return state
