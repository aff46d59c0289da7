"""The sandwich A⁻¹ J A⁻¹: how far estimates would lie from each other in other samples, whatever the model says.

The hinge loss is no log likelihood that data could come from, so that the posterior covariance has no frequentist
scale. A⁻¹ is any covariance of the posterior's kind: how coefficients answer to a change of the scores' sum. J, the
meat, is the variance of that sum: Σ g² c cᵀ over rows with the slope g = ∂ℓ/∂f, or the same of the sums of groups.
"""

from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.model.interfaces import Gram, Rows
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGram
from vbsvm.model.layouts.dual import DualGram
from vbsvm.model.layouts.grouping import ByGroup
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State

# What sums over rows leave of a direction that no row has, relatively, for each column.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Independent units (clusters): groups of the last factor, or of a factor in which it is nested.

    ``of_group`` has the unit of each group of the tail. ``own`` says which coefficients of the core are effects of
    units, or of groups within units. ``factor`` is the number of the units' factor, and ``sizes`` are its groups'
    numbers of rows. Where factors are ``crossed``, some group is in several units.
    """

    of_group: NDArray[np.intp]
    own: NDArray[np.bool_]
    factor: int
    crossed: bool
    sizes: NDArray[np.intp]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(np.unique(self.of_group))

    @property
    def n_effective(self) -> float:
        """Effective number of units of equal size: (Σn)²/Σn²."""
        return float(self.sizes.sum()) ** 2 / float(np.square(self.sizes.astype(np.float64)).sum())


def sandwich_of_rows(bread: Array, spec: Spec, state: State, source: Source) -> Array:
    """Sandwich A⁻¹ J A⁻¹ of some coefficients for independent rows; ``bread`` has their rows of A⁻¹, all columns.

    Where weights s are products of repetitions k and class weights, the source is to have the weights s²/k.
    """
    meat = meat_of_rows(spec, state, source)
    with single_threaded_blas():
        if isinstance(meat, DualGram):  # never formed: rows are fewer than columns
            influence = np.sqrt(meat.w)[:, None] * (meat.design @ bread.T)
            return influence.T @ influence
        assert isinstance(meat, DenseGram)
        influence = bread @ _root(meat.matrix)
        return influence @ influence.T


def _root(meat: Array) -> Array:
    """Root U with UUᵀ = J, dropping directions in which J is rounding error, where A⁻¹ may be very large."""
    squares, directions = np.linalg.eigh(meat)
    squares[squares < ROUNDING * len(squares) * squares.max(initial=0.0)] = 0.0
    return directions * np.sqrt(squares)


def sandwich_of_groups(bread: Array, spec: Spec, state: State, source: Source, units: Units | None = None) -> Array:
    """Cluster-robust A⁻¹ J A⁻¹ of some coefficients of the core, for units or else the groups of the tail.

    ``bread`` has their rows of A⁻¹, the columns of the core: scores in the direction of a group's own effects are
    balanced by the prior's gradient.
    """
    sums = group_scores(spec, state, source)
    if units is not None:
        of_units = np.zeros((units.of_group.max() + 1, sums.shape[1]))
        np.add.at(of_units, units.of_group, sums)
        of_units[:, units.own] = 0.0  # balanced by the priors, as those of the tail are
        sums = of_units[np.unique(units.of_group)]
    n_groups = len(sums)
    with single_threaded_blas():
        influence = (sums - sums.mean(axis=0)) @ bread.T
        return influence.T @ influence * (n_groups / max(n_groups - 1, 1))


def meat_of_rows(spec: Spec, state: State, source: Source) -> Gram:
    """Meat J = Σ s g² c cᵀ with the slope s g of each row, in the layout of the rows; one pass."""
    coefficients = state.coefficients.effective(state.gates)

    def of_part(part: Part) -> Any:
        rows = cast(Rows, part.rows)
        f, v = coefficients.row_moments(rows)
        slope = spec.likelihood.slopes(f, np.asarray(v), rows.y, rows.weights)[1]
        return rows.gram(np.square(slope) / rows.weights)

    return source.sum_parts(of_part)


def group_scores(spec: Spec, state: State, source: Source) -> Array:
    """Score sums Σ g c over the rows of each group of the last factor, groups × coefficients of the core."""
    coefficients = state.coefficients.effective(state.gates)

    def of_part(part: Part) -> ByGroup:
        rows = cast(ArrowRows, part.rows)
        f, v = coefficients.row_moments(rows)
        return rows.sums_by_group(spec.likelihood.slopes(f, np.asarray(v), rows.y, rows.weights)[1])

    return source.sum_parts(of_part).to_array()
