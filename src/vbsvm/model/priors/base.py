"""Interface of the priors of a block of coefficients.

A prior depends on the data only through the second moments of its own coefficients, and the update of the coefficients
depends on the prior only through its expected precision. A new prior is a new file with a frozen dataclass.
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
    """Second moments of one block's coefficients: all that a prior depends on.

    ``columns`` is one strided slice for each random effect of a level, and a single slice for other coefficients.
    """

    distribution: CoefficientDistribution
    columns: tuple[slice, ...]
    inclusion: Array | None = None  # of the block's indicators

    @property
    def squares(self) -> Array:
        """E[θ²], elementwise."""
        return np.concatenate([self.distribution.squares[columns] for columns in self.columns])

    @property
    def variances(self) -> Array:
        """Var θ, elementwise."""
        variances = self.distribution.variances
        return np.concatenate([variances[columns] for columns in self.columns])

    @property
    def square_norm(self) -> float:
        """E‖θ‖²."""
        if len(self.columns) == 1:  # the fast path, as small fits consist of such calls
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
        """Number of levels: coefficients of each random effect."""
        first = self.columns[0]
        return len(range(first.start, first.stop, first.step or 1))

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.n_groups * len(self.columns)

    @property
    def outer(self) -> Array:
        """Σ_g E[u_g u_gᵀ], second moments of the random effects summed over levels."""
        q = len(self.columns)
        outer = np.empty((q, q))
        for j in range(q):
            for k in range(j + 1):
                outer[j, k] = outer[k, j] = self.distribution.products(self.columns[j], self.columns[k])
        return outer


@dataclass(frozen=True)
class Prior(Parameters, ABC, Generic[S]):
    """A Gaussian prior of one block of coefficients, given a scale with a hyperprior.

    The scale is a variance σ² shared by the block's coefficients, or the covariance matrix of the q random effects of
    each level; ``width`` is this q, and 1 elsewhere.
    """

    in_words: ClassVar[str] = "–"
    """Description of the distribution of each coefficient, for reports."""

    of_groups: ClassVar[bool] = False
    """Whether the scale is the covariance matrix of random effects, so that only these can have the prior."""

    rounds: ClassVar[int] = 1
    """Number of alternating updates of coefficients and scale in a Newton step, between two passes over the rows."""

    @abstractmethod
    def start(self, width: int, size: int) -> S:
        """Initial distribution of the scale, for ``size`` coefficients, ``width`` for each level."""

    @abstractmethod
    def update(self, scale: S, moments: Moments, mode: UpdateMode) -> S:
        """Update the scale: ``mode`` of its full conditional given the second moments of the block's coefficients."""

    @abstractmethod
    def bound(self, scale: S, moments: Moments) -> float:
        """E log p(coefficients, scale) − E log q(scale), all constants included."""

    def gate_of(self, names: Sequence[str], terms: Sequence[int] | None = None) -> NDArray[np.intp] | None:
        """Indicator of each of the block's columns, or None for a prior without indicators.

        ``terms`` is the number of each column's term in a formula.
        """
        return None

    def fixed_point_step(self, scale: S, moments: Moments) -> S | None:
        """Accelerated fixed-point update of the scale if the prior dominates the data in this block, else None.

        Where most coefficients follow their prior, alternating updates of coefficients and scale converge slowly.
        """
        return None

    def rate_derivative(self, scale: S) -> float:
        """Derivative in E[σ⁻²] of the rate that the prior adds to an inverse gamma distribution of σ²."""
        return 0.0

    @property
    def joint(self) -> bool:
        """Whether indicators and coefficients have a joint distribution in variational Bayes."""
        return False

    def starts(self) -> list[float]:
        """Inclusion probabilities of the indicators in each further start."""
        return []

    def gate_log_odds(self, scale: S, n_gates: int) -> Array:
        """Expected prior log odds of the indicators; only for priors with indicators."""
        raise NotImplementedError

    @abstractmethod
    def rescale(self, scale: S, moments: Moments, g: float) -> tuple[S, float]:
        """For the sampler's scale move θ → gθ: the new scale, and the block's part of the log acceptance ratio.

        The ratio is of the densities of coefficients and scale after and before, times the Jacobian of the move.
        """

    def precision(self, scale: S) -> float | Array:
        """E[σ⁻²], or the mean of the inverse covariance: the block's part of the expected prior precision Λ."""
        return scale.inverse_mean
