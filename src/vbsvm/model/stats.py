"""What a pass over the rows sends back to the coefficients: sums, and nothing of the size of the data."""

from dataclasses import dataclass
from typing import Any, Self, TypeVar, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.row_sums import Addable
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import CrossSums, Gram

T = TypeVar("T", bound=Addable)


@final
@dataclass(frozen=True, eq=False)
class Stats:
    """Sums over rows, additive over any split of the data.

    ``gram`` and ``cross`` are G and r of the coefficients' update. ``row_bound`` is the row term of the bound at the
    state whose message went into the pass, with the latent scales refreshed. ``constant`` is κ: with the weights of
    this pass held, the row term at any other distribution of the coefficients is crossᵀm − ½⟨gram, Ω⟩ − constant.
    ``curvature`` is minus the second derivative of the collapsed row term in the mean, for Newton steps. A pass that
    starts from a point has neither. ``missing`` are the sums for the distributions of what may be missing.
    """

    gram: Gram
    cross_sums: Array | CrossSums
    row_bound: float
    constant: float
    curvature: Gram | None
    missing: Any = None

    @cached_property
    def cross(self) -> Array:
        """r = Σ y (s + w) c."""
        return self.cross_sums if isinstance(self.cross_sums, np.ndarray) else self.cross_sums.total()

    def gated(self, gates: Gates | None) -> tuple[Gram, Array]:
        """G ∘ E[γ̃γ̃ᵀ] and γ̃ ∘ r: the sums as the coefficients behind the gates see them."""
        if gates is None:
            return self.gram, self.cross
        return self.gram.gated(gates, self.gram), gates.open * self.cross

    def __add__(self, other: Self) -> "Stats":
        """Add the sums of two sets of rows."""
        cross_sums: Any = self.cross_sums  # rows of one source collect them in one form
        curvature = None
        if self.curvature is not None and other.curvature is not None:
            curvature = self.curvature + other.curvature
        return Stats(
            self.gram + other.gram,
            cross_sums + other.cross_sums,
            self.row_bound + other.row_bound,
            self.constant + other.constant,
            curvature,
            added(self.missing, other.missing),
        )


def added(one: T | None, other: T | None) -> T | None:
    """Sum of what may be absent."""
    if one is None or other is None:
        return other if one is None else one
    return one + other
