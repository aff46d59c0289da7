"""What a pass over the rows sends back to the coefficients: sums, and nothing of the size of the data."""

from dataclasses import dataclass
from typing import Any, Self, final

from vbsvm.arrays import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """Sums over rows, additive over any split of the data.

    ``gram`` and ``cross`` are G and r of the coefficients' update. ``row_bound`` is the row term of the bound at the
    state whose message went into the pass, with the latent scales refreshed. ``constant`` is κ: with the weights of
    this pass held, the row term at any other law of the coefficients is crossᵀm − ½⟨gram, Ω⟩ − constant. ``curvature``
    is minus the second derivative of the collapsed row term in the mean, for Newton steps; a pass that starts from a
    point has none.
    """

    gram: Any
    cross: Array
    row_bound: float
    constant: float
    curvature: Any

    def __add__(self, other: Self) -> "Stats":
        """Add the sums of two sets of rows."""
        curvature = None
        if self.curvature is not None and other.curvature is not None:
            curvature = self.curvature + other.curvature
        return Stats(
            self.gram + other.gram,
            self.cross + other.cross,
            self.row_bound + other.row_bound,
            self.constant + other.constant,
            curvature,
        )
