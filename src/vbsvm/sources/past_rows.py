"""New rows together with a quadratic summary of the rows of past batches."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Addable, Array
from vbsvm.base.update_mode import mean_field
from vbsvm.design.scaling import Recipe
from vbsvm.model.interfaces import Effects
from vbsvm.model.layouts.dense import DenseGaussian, DenseGram
from vbsvm.model.row_pass import Part, RowPass, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.sources.memory import Memory

T = TypeVar("T", bound=Addable)

# Lower bound of the score variance for the curvature of past rows, which is used at later coefficients, too: at the
# present ones few rows of a batch may be near the margin, or all of them if none is assigned to a class.
VARIANCE_FLOOR = 0.25


@final
@dataclass(frozen=True, eq=False)
class PastRows:
    """Second-order expansion of the past rows' term of the ELBO around the estimate at which they were last seen.

    For coefficients of mean m and covariance Σ it is bᵀm − ½mᵀHm − ½ tr(GΣ) − κ: H is the curvature in the mean, and G,
    which is not smaller, the gram that the covariance answers to.
    """

    linear: Array
    curvature: Array
    gram: Array
    constant: float
    n_rows: int

    @staticmethod
    def from_state(spec: Spec, state: State, source: Memory) -> "PastRows":
        """Expand the row term of a source around this state."""
        distribution = state.coefficients
        assert isinstance(distribution, DenseGaussian)
        stats = source.sum_stats(RowPass(spec.likelihood, distribution, mean_field))
        smoothed = RowPass(spec.likelihood, _FlooredVariance(distribution), mean_field, True)
        curvature, gram = source.sum_parts(lambda part: part.curvature(smoothed)), stats.gram
        assert isinstance(gram, DenseGram)
        assert isinstance(curvature, DenseGram)
        m, H, G = distribution.mean, curvature.matrix, gram.matrix
        linear = stats.cross - G @ m + H @ m
        constant = float(linear @ m) - 0.5 * float(m @ H @ m) - 0.5 * _trace(G, distribution) - stats.row_bound
        return PastRows(linear, H, G, constant, source.n_rows)

    def __add__(self, other: Self) -> "PastRows":
        """Add the expansions of two sets of rows."""
        return PastRows(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def stats(self, distribution: DenseGaussian) -> Stats:
        """Statistics of the past rows in a pass at this distribution."""
        m, H, G = distribution.mean, self.curvature, self.gram
        cross, spread = self.linear + G @ m - H @ m, _trace(G, distribution)
        term = float(self.linear @ m) - 0.5 * float(m @ H @ m) - 0.5 * spread - self.constant
        constant = float(cross @ m) - 0.5 * float(m @ G @ m) - 0.5 * spread - term
        return Stats(DenseGram(G), cross, term, constant, DenseGram(H))

    def in_units_of(self, old: Recipe, new: Recipe) -> "PastRows":
        """The expansion for columns scaled by another recipe: c' = A c, so that G' = A G Aᵀ and b' = A b.

        A column that was constant had a design column of 0: it adds nothing to the intercept.
        """
        varies = np.isfinite(old.scale) & np.isfinite(new.scale)
        ratios = np.divide(old.scale, new.scale, out=np.zeros(len(new.scale)), where=varies)
        A = np.diag(np.concatenate([np.ones(new.first), ratios]))
        if new.intercept:
            A[1:, 0] = (old.centre - new.centre) / new.scale
        return replace(self, linear=A @ self.linear, curvature=A @ self.curvature @ A.T, gram=A @ self.gram @ A.T)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _FlooredVariance:
    """A distribution with floored score variances: the smoothed hinge has curvature for more rows."""

    distribution: DenseGaussian

    def row_moments(self, rows: Any) -> tuple[Array, Array]:
        """Mean of each row's score, and its variance, floored."""
        f, v = self.distribution.row_moments(rows)
        return f, np.maximum(v, VARIANCE_FLOOR)

    def effects(self, rows: Any, columns: NDArray[np.intp]) -> Effects:
        """Not supported: complete rows only."""
        raise NotImplementedError


@final
@dataclass(frozen=True, eq=False)
class NewAndPastRows:
    """New rows and the summary of past ones; without groups, inclusion indicators and missing values."""

    rows: Memory
    past: PastRows
    rows_resident: Final = False  # past rows are gone
    drawn_covariance: Final = False

    @property
    def n_rows(self) -> int:
        """Number of all rows of positive weight, past ones included."""
        return self.rows.n_rows + self.past.n_rows

    @property
    def n_core(self) -> int:
        """Number of coefficients with a full covariance: all."""
        return self.rows.n_core

    def sample(self, n_rows: int) -> None:
        """None: past rows are gone."""

    def sum_stats(self, row_pass: RowPass) -> Stats:
        """Statistics of the new rows plus those of the past ones."""
        assert isinstance(row_pass.coefficients, DenseGaussian)
        return self.rows.sum_stats(row_pass) + self.past.stats(row_pass.coefficients)

    def input_sums(self, distribution: Any) -> Any:
        """Not supported: complete rows only."""
        raise NotImplementedError

    def sum_parts(self, kernel: Callable[[Part], T], *, memory_bound: bool = False) -> T:
        """Sum over the new rows alone."""
        return self.rows.sum_parts(kernel, memory_bound=memory_bound)

    def start(self, spec: Spec, before: State) -> State:
        """Starting state: the optimum of the past rows alone, with the prior scales of a state before."""
        precision = spec.precision(before)
        mean = DenseGram(self.past.curvature).conditional(self.past.linear, precision).mean
        return before.with_coefficients(DenseGram(self.past.gram).conditional(mean, precision).with_mean(mean))


def _trace(gram: Array, distribution: DenseGaussian) -> float:
    """tr(GΣ)."""
    return float(np.vdot(gram @ distribution.root, distribution.root))
