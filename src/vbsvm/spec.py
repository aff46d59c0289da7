"""What is fitted (``Spec``), and what is known so far (``State``)."""

from dataclasses import dataclass
from typing import cast, final

import numpy as np

from vbsvm.arrays import Array
from vbsvm.laws import ScaleLaw
from vbsvm.layout.base import CoefficientLaw, GaussianLaw, PointLaw
from vbsvm.priors.base import Prior


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring columns of the design that share a prior."""

    name: str
    columns: slice
    prior: Prior


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """The model: its blocks, which cover the design's columns in order."""

    blocks: tuple[Block, ...]

    @property
    def n_columns(self) -> int:
        """Number of coefficients."""
        return self.blocks[-1].columns.stop

    def precision(self, state: "State") -> Array:
        """Diagonal of Λ, the expected prior precision (Algorithm 2, line 2)."""
        diagonal = np.empty(self.n_columns)
        for block, scale in zip(self.blocks, state.scales, strict=True):
            diagonal[block.columns] = block.prior.precision(scale)
        return diagonal

    def start(self) -> "State":
        """The paper's start, w = 1: a point at θ = 0, where every slack χ is 1, with E[σ⁻²] = 1."""
        return State(PointLaw(np.zeros(self.n_columns)), tuple(block.prior.start() for block in self.blocks))


@final
@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The law of the coefficients, and for each block the law of its prior's scale."""

    coefficients: CoefficientLaw
    scales: tuple[ScaleLaw, ...]

    @property
    def _gaussian(self) -> GaussianLaw:
        assert not isinstance(self.coefficients, PointLaw)  # a point is a start or a draw, and is never packed
        return cast(GaussianLaw, self.coefficients)

    def pack(self) -> Array:
        """Give unconstrained numbers that determine a variational state; any numbers are a valid state."""
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
        return State(coefficients, tuple(scales))
