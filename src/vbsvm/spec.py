"""What is fitted (``Spec``), and what is known so far (``State``)."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast, final

import numpy as np

from vbsvm.arrays import Array
from vbsvm.laws import ScaleLaw
from vbsvm.layout.base import CoefficientLaw, GaussianLaw, Moments, PointLaw, Precision
from vbsvm.priors.base import Prior


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Coefficients that share a prior: neighbours, or one stride for each of the effects that a group has."""

    name: str
    columns: tuple[slice, ...]
    prior: Prior

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return sum(len(range(columns.start, columns.stop, columns.step or 1)) for columns in self.columns)

    def moments(self, law: CoefficientLaw) -> Moments:
        """Second moments of these coefficients."""
        return Moments(law, self.columns)


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """The model: its blocks, which together cover all coefficients."""

    blocks: tuple[Block, ...]

    @property
    def n_columns(self) -> int:
        """Number of coefficients."""
        return max(columns.stop for block in self.blocks for columns in block.columns)

    def precision(self, state: "State") -> Precision:
        """Λ, the expected prior precision (Algorithm 2, line 2)."""
        diagonal, couplings = np.empty(len(state.coefficients.mean)), []
        for block, scale in zip(self.blocks, state.scales, strict=True):
            precision = block.prior.precision(scale)
            for j, left in enumerate(block.columns):
                if not isinstance(precision, np.ndarray):
                    diagonal[left] = precision
                    continue
                diagonal[left] = precision[j, j]
                couplings += [(left, right, float(precision[j, k])) for k, right in enumerate(block.columns[:j])]
        return Precision(diagonal, tuple(coupling for coupling in couplings if coupling[2]))

    def start(self) -> "State":
        """The paper's start, w = 1: a point at θ = 0, where every slack χ is 1, with E[σ⁻²] = 1."""
        return State(
            PointLaw(np.zeros(self.n_columns)), tuple(block.prior.start(len(block.columns)) for block in self.blocks)
        )


@final
@dataclass(frozen=True, eq=False)
class State:
    """The law of the coefficients, and for each block the law of its prior's scale."""

    coefficients: CoefficientLaw
    scales: tuple[ScaleLaw, ...]

    @property
    def _gaussian(self) -> GaussianLaw:
        assert not isinstance(self.coefficients, PointLaw)  # a point is a start or a draw, and is never packed
        return cast(GaussianLaw, self.coefficients)

    @cached_property
    def packed(self) -> Array:
        """Unconstrained numbers that determine a variational state; any numbers are a valid state."""
        return np.concatenate([self._gaussian.pack(), [x for scale in self.scales for x in scale.pack()]])

    def unpack(self, numbers: Array) -> "State":
        """Make the state of this shape that has these numbers."""
        at = self._gaussian.packed_size
        coefficients = self._gaussian.unpack(numbers[:at])
        scales = []
        for scale in self.scales:
            length = len(scale.pack())
            scales.append(scale.unpack(numbers[at : at + length]))
            at += length
        state = State(coefficients, tuple(scales))
        vars(state)["packed"] = numbers
        return state
