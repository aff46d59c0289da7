"""What a prior is: a few questions about one block of coefficients.

A prior sees the rows through nothing but the second moments of its own coefficients, and the rows see the prior through
nothing but its expected precision. A new prior is a new file with a frozen dataclass that answers these questions.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import ScaleDistribution
from vbsvm.base.settings import Parameters
from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.interfaces import CoefficientDistribution

S = TypeVar("S", bound=ScaleDistribution)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Second moments of one block's coefficients: all that a prior may know of the data.

    ``columns`` is one stride for each effect of a group, and a single one where coefficients stand for themselves.
    """

    distribution: CoefficientDistribution
    columns: tuple[slice, ...]
    inclusion: Array | None = None  # of the block's gates

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return np.concatenate([self.distribution.squares[columns] for columns in self.columns])

    @property
    def variances(self) -> Array:
        """Var θ, elementwise."""
        spread = self.distribution.variances
        return np.concatenate([spread[columns] for columns in self.columns])

    @property
    def square_norm(self) -> float:
        """E‖θ‖²."""
        if len(self.columns) == 1:  # small fits are made of such calls: the shortest way
            return self.distribution.square_sum(self.columns[0])
        return sum(self.distribution.square_sum(columns) for columns in self.columns)

    @property
    def total_variance(self) -> float:
        """Σ Var θ."""
        return self.square_norm - sum(
            float(np.square(self.distribution.mean[columns]).sum()) for columns in self.columns
        )

    @property
    def n_groups(self) -> int:
        """Number of coefficients of each effect."""
        first = self.columns[0]
        return len(range(first.start, first.stop, first.step or 1))

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.n_groups * len(self.columns)

    @property
    def outer(self) -> Array:
        """Σ_g E[u_g u_gᵀ], the summed second moments of the groups' effects."""
        q = len(self.columns)
        outer = np.empty((q, q))
        for j in range(q):
            for k in range(j + 1):
                outer[j, k] = outer[k, j] = self.distribution.products(self.columns[j], self.columns[k])
        return outer


@dataclass(frozen=True)
class Prior(Parameters, ABC, Generic[S]):
    """A Gaussian prior of one block of coefficients, given a scale that has a distribution of its own.

    The scale is a variance σ² that the block's coefficients share, or the covariance matrix of q effects that each
    group has; ``width`` is this q, and 1 elsewhere.
    """

    in_words: ClassVar[str] = "–"
    """What a report says of the distribution of each coefficient."""

    of_groups: ClassVar[bool] = False
    """Whether the scale is the covariance matrix of a group's effects, so that other blocks have no use for it."""

    rounds: ClassVar[int] = 1
    """How often a Newton step updates coefficients and scale against each other before the next pass over the rows."""

    @abstractmethod
    def start(self, width: int, size: int) -> S:
        """Distribution of the scale before the first sweep, for ``size`` coefficients in groups of ``width``."""

    @abstractmethod
    def update(self, scale: S, moments: Moments, mode: UpdateMode) -> S:
        """Resolve the full conditional of the scale, given the second moments of the block's coefficients."""

    @abstractmethod
    def bound(self, scale: S, moments: Moments) -> float:
        """E log p(coefficients, scale) − E log q(scale), all constants included, at any distribution that can occur."""

    def gate_of(self, names: Sequence[str], terms: Sequence[int] | None = None) -> NDArray[np.intp] | None:
        """Which gate each of the block's columns has; None in a prior without gates.

        ``terms`` says which columns belong to the same term of a formula.
        """
        return None

    def fixed_point_step(self, scale: S, moments: Moments) -> S | None:
        """A bold guess at where the scale is going, for blocks that the data say little about; else None.

        Where most coefficients follow their prior, they and their scale hold each other in place, and updates creep.
        """
        return None

    def rate_derivative(self, scale: S) -> float:
        """How the rate that the prior adds to an inverse gamma distribution of σ² answers to E[σ⁻²]."""
        return 0.0

    @property
    def joint(self) -> bool:
        """Whether gates and coefficients have a joint distribution in variational Bayes."""
        return False

    def starts(self) -> list[float]:
        """Further starts: how far open the gates are in each."""
        return []

    def gate_log_odds(self, scale: S, n_gates: int) -> Array:
        """Expected prior log odds of the gates; a prior without gates is not asked."""
        raise NotImplementedError

    @abstractmethod
    def rescale(self, scale: S, moments: Moments, g: float) -> tuple[S, float]:
        """The scale of coefficients that a sampler multiplies by g, and the block's part of the move's log ratio.

        That ratio is of the densities of coefficients and scale after and before, with the Jacobian of the move.
        """

    def precision(self, scale: S) -> float | Array:
        """E[σ⁻²], or the mean of the inverse covariance: the block's part of the expected prior precision Λ."""
        return scale.inverse_mean
