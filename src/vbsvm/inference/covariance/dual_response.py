"""Linear response in the dual layout: many more columns than rows, so that every system is one of rows × rows.

The equations are those of ``linear_response``. The part of the mean is Λ + CᵀMC with a matrix M of rows × rows, and is
inverted by Woodbury's identity; coefficients without a prior to speak of stand with the scales in its border.
"""

from dataclasses import dataclass
from typing import cast, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.inference.covariance.linear_response import InferredScales, NoMaximumError, Response, inverse_of_system
from vbsvm.model.layouts.dual import DualGaussian, DualRows
from vbsvm.model.layouts.dual_parts import FREE, DualParts
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State


def dual_response(
    spec: Spec, state: State, source: Source, which: NDArray[np.intp], *, hold_scales: bool = False
) -> Response:
    """Covariances of these coefficients with all, and of log σ² of all inferred scales, at a maximum of the bound."""
    distribution = state.gaussian
    assert isinstance(distribution, DualGaussian)
    with single_threaded_blas():
        rows = _gather(spec, state, source)
        scales = InferredScales.of(spec, state, hold_scales=hold_scales)
        C, parts = rows.design, distribution.parts
        with_rows = C * parts.diagonal - (C @ parts.left.T) @ parts.left + (C @ parts.right) @ parts.right.T
        own = scales.own(with_rows)
        squares = np.square(C @ with_rows.T)
        right = np.column_stack([np.diag(rows.fv), rows.vv[:, None] * own])
        try:
            Q = np.linalg.solve(np.eye(len(C)) - 2.0 * rows.vv[:, None] * squares, right)
        except np.linalg.LinAlgError:
            raise NoMaximumError from None
        change = 2.0 * squares @ Q
        change[:, len(C) :] += own
        M = -np.diag(rows.ff) - rows.fv[:, None] * change[:, : len(C)]
        with_scales = -(C.T @ (rows.fv[:, None] * change[:, len(C) :])) - scales.of_blocks(distribution.mean)
        of_scales = scales.stiffness - 0.5 * _products(scales, parts) - own.T @ Q[:, len(C) :]
        system = _Bordered.of(C, 0.5 * (M + M.T), spec.precision(state).diagonal, with_scales, of_scales)
        return Response(which, system.rows(which), scales.blocks, scales.log_variances(system.of_scales))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Design and second derivatives of all rows."""

    design: Array
    ff: Array
    fv: Array
    vv: Array


def _gather(spec: Spec, state: State, source: Source) -> _Rows:
    """Collect all rows, which are one block."""
    coefficients, every = state.gaussian.effective(None), np.arange(spec.n_columns)

    def of_part(part: Part) -> tuple[_Rows, ...]:
        rows = cast(DualRows, part.rows)
        f, v = coefficients.row_moments(rows)
        found = spec.likelihood.derivatives(f, np.asarray(v), rows.y, rows.weights)
        return (_Rows(rows.columns(every), found.ff, found.fv, found.vv),)

    (found,) = source.sum_parts(of_part)
    return found


def _products(scales: InferredScales, parts: DualParts) -> Array:
    """‖Σ_bb′‖² of each pair of blocks, from Σ = D + LᵀSL with a diagonal S of signs."""
    L = np.concatenate([parts.left, parts.right.T])
    signs = np.repeat([-1.0, 1.0], [len(parts.left), parts.right.shape[1]])
    n = len(scales.blocks)
    members = [np.concatenate([np.r_[columns] for columns in strides]) for strides in scales.columns]
    grams = [signs[:, None] * (L[:, k] @ L[:, k].T) for k in members]
    found = np.zeros((n, n))
    for b, c in np.ndindex(n, n):
        found[b, c] = float(np.vdot(grams[b], grams[c].T))
        if b == c:
            D = parts.diagonal[members[b]]
            met = np.einsum("ik,i,ik->k", L[:, members[b]], signs, L[:, members[b]])
            found[b, c] += float(D @ D + 2.0 * D @ met)
    return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Bordered:
    """Inverse of [Λ + CᵀMC, …; …, …] whose border are the free coefficients and the scales.

    With A the part of the held coefficients: A⁻¹ = 1/Λ − left middle leftᵀ, and ``follow`` = A⁻¹ times the border.
    """

    held: NDArray[np.intp]
    free: NDArray[np.intp]
    spread: Array  # 1/Λ of the held ones
    left: Array  # held × rows
    middle: Array
    follow: Array
    border: Array  # covariance of the border

    @staticmethod
    def of(C: Array, M: Array, precision: Array, with_scales: Array, of_scales: Array) -> "_Bordered":
        """Eliminate the held coefficients."""
        held, free = np.flatnonzero(precision >= FREE), np.flatnonzero(precision < FREE)
        spread = 1.0 / precision[held]
        left = (C[:, held] * spread).T
        inner = C[:, held] @ left
        middle = np.linalg.solve(np.eye(len(C)) + M @ inner, M)
        border = np.column_stack([C[:, held].T @ (M @ C[:, free]), with_scales[held]])
        follow = spread[:, None] * border - left @ (middle @ (left.T @ border))
        n_free = len(free)
        corner = np.empty((border.shape[1], border.shape[1]))
        corner[:n_free, :n_free] = np.diag(precision[free]) + C[:, free].T @ M @ C[:, free]
        corner[:n_free, n_free:] = with_scales[free]
        corner[n_free:, :n_free] = with_scales[free].T
        corner[n_free:, n_free:] = of_scales
        of_border = inverse_of_system(corner - border.T @ follow)
        return _Bordered(held, free, spread, left, 0.5 * (middle + middle.T), follow, of_border)

    @property
    def of_scales(self) -> Array:
        """Block of the scales."""
        return self.border[len(self.free) :, len(self.free) :]

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Rows of the block of coefficients."""
        n, n_free = len(self.held) + len(self.free), len(self.free)
        links = np.zeros((n, self.border.shape[1]))
        links[self.held] = -self.follow
        links[self.free, np.arange(n_free)] = 1.0
        found = links[which] @ self.border @ links.T
        left = np.zeros((n, self.left.shape[1]))
        left[self.held] = self.left
        found -= (left[which] @ self.middle) @ left.T
        spread = np.zeros(n)
        spread[self.held] = self.spread
        found[np.arange(len(which)), which] += spread[which]
        if not (found[np.arange(len(which)), which] > 0).all():
            raise NoMaximumError
        return found
