"""Linear response of any model: one step of the optimisation as a map z → F(z, t) of packed states, tilted by tᵀθ.

At a fixed point z, dz/dt = (I − F_z)⁻¹ F_t, so that the covariance of what a state expects is found with products of
F_z and vectors alone: differences of steps, one pass each. ``linear_response`` is quicker where a model is dense,
complete and without indicators.

The dual layout, with many more columns than rows, has the equations of ``linear_response`` as systems of rows × rows.
The part of the mean is Λ + CᵀMC with a matrix M of rows × rows, and is inverted by Woodbury's identity; coefficients
without a prior to speak of stand with the scales in its border.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.special import polygamma

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseGamma
from vbsvm.base.update_mode import UpdateMode, mean_field
from vbsvm.inference.covariance.linear_response import (
    InferredScales,
    NoMaximumError,
    Response,
    inverse_of_system,
    rows_near_the_kink,
)
from vbsvm.inference.steps import Iterate, newton_step
from vbsvm.model.layouts.dual import DualGaussian, DualGram
from vbsvm.model.layouts.dual_parts import FREE, DualParts
from vbsvm.model.priors import Prior
from vbsvm.model.priors.base import Moments
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import pass_rows

# Length of the differences, in units of what is packed: logs of deviations, means of standardised columns.
STEP = 1e-7
LARGEST_STEP = 1e-3
TINY = 1e-300
ACCURACY = 1e-4
# Differences are not exact: where that is why a solution falls short of the accuracy, this much is left at most.
LARGEST_RESIDUAL = 1e-2
MOST_PRODUCTS = 120
# Indicators that are surer than this, and the log odds of each, are fixed: they do not respond.
SATURATED = 1e-6
# How far a step may move a state that is to be a fixed point.
AT_REST = 1e-3


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """Tilt t of the coefficients and of log σ² of a block."""

    coefficients: Array
    block: int | None = None
    of_block: float = 0.0


@final
@dataclass(frozen=True, eq=False)
class TiltedMap:
    """The map of one Newton step from a packed state under a tilt; ``held`` numbers stay fixed."""

    spec: Spec
    state: State
    source: Source
    held: NDArray[np.bool_]

    def __call__(self, z: Array, tilt: Tilt | None = None) -> Array:
        """F(z, t)."""
        spec, state = self.spec, self.state.unpack(z)
        if tilt is not None and tilt.block is not None:
            spec, state = _with_shape(spec, state, tilt.block, tilt.of_block)
        stats = pass_rows(spec, state, self.source, mean_field, with_curvature=True)
        if tilt is not None:
            stats = replace(stats, cross_sums=stats.cross + tilt.coefficients)
        after = newton_step(spec, Iterate(state, 0.0, lambda: stats), 0.0)
        if after is None:
            raise NoMaximumError
        return np.where(self.held, self.state.packed, after.packed)

    def along(self, change: Array) -> Array:
        """Derivative F_z times a change of the state."""
        sizes = np.abs(change)
        factor = min(STEP / max(float((self.units * sizes).max()), TINY), LARGEST_STEP / max(float(sizes.max()), TINY))
        return (self(self.state.packed + factor * change) - self.image) / factor

    def by(self, tilt: Tilt) -> Array:
        """Derivative F_t in the direction of a tilt."""
        small = Tilt(STEP * tilt.coefficients, tilt.block, STEP * tilt.of_block)
        return (self(self.state.packed, small) - self.image) / STEP

    @cached_property
    def units(self) -> Array:
        """Units of the packed numbers: 1, and for log odds of indicators the variance of the indicator."""
        units = np.ones(len(self.state.packed))
        _, begin, end = _places(self.state)
        if self.state.gates is not None:
            units[begin:end] = np.maximum(self.state.gates.inclusion * (1 - self.state.gates.inclusion), SATURATED)
        return units

    @cached_property
    def image(self) -> Array:
        """F(z, 0)."""
        return self(self.state.packed)

    def solve(self, right: Array, accuracy: float) -> Array:
        """(I − F_z)⁻¹ right."""
        units = self.units
        shape = len(right), len(right)
        operator = cast(Any, LinearOperator)(shape, lambda y: y - units * self.along(y / units), dtype=np.float64)
        found, info = gmres(operator, units * right, rtol=accuracy, restart=MOST_PRODUCTS, maxiter=1)
        if info != 0:
            left = np.linalg.norm(operator.matvec(found) - units * right)
            if not left <= LARGEST_RESIDUAL * np.linalg.norm(units * right):
                raise NoMaximumError
        return found / units


def response_of_map(
    spec: Spec,
    state: State,
    source: Source,
    which: NDArray[np.intp],
    *,
    hold_scales: bool = False,
    accuracy: float = ACCURACY,
) -> Response:
    """Covariances of these effective coefficients with all, and of log σ² of blocks with one, at a fixed point."""
    with single_threaded_blas(), np.errstate(all="ignore"):
        held = _held(state, hold_scales=hold_scales)
        fixed = tuple(replace(block, prior=_TiltedScale()) for block in spec.blocks)
        step = TiltedMap(replace(spec, blocks=fixed) if hold_scales else spec, state, source, held)
        if not np.abs(step.image - state.packed).max() < AT_REST:
            raise NoMaximumError
        nothing = np.zeros(spec.n_columns)
        changes = [
            step.solve(step.by(Tilt(np.where(np.arange(spec.n_columns) == k, 1.0, 0.0))), accuracy) for k in which
        ]
        means = [_derivative(state, change, effective_mean) for change in changes]
        coefficients = np.array(means).reshape(len(which), spec.n_columns)
        scales = InferredScales.of(spec, state, hold_scales=hold_scales)

        def log_rates(state: State) -> Array:
            return np.log(InferredScales.of(spec, state).rates)

        by_block = [step.solve(step.by(Tilt(nothing, b, 1.0)), accuracy) for b in scales.blocks]
        of_blocks = [_derivative(state, change, log_rates) for change in by_block]
        covariance = np.diag(polygamma(1, scales.shapes)) + (np.array(of_blocks) if of_blocks else 0.0)
        return Response(which, coefficients, scales.blocks, covariance)


@final
@dataclass(frozen=True)
class _TiltedScale(Prior[Any]):
    """Prior under the tilt t of log σ², equivalent to 2t fewer coefficients; None keeps the scale."""

    prior: Prior[Any] | None = None
    tilt: float = 0.0

    def update(self, scale: Any, moments: Moments, mode: UpdateMode) -> Any:
        """Update the scale as for fewer coefficients."""
        return scale if self.prior is None else self.prior.update(scale, self._fewer(moments), mode)

    def fixed_point_step(self, scale: Any, moments: Moments) -> Any:
        """Fixed-point step as for fewer coefficients."""
        return None if self.prior is None else self.prior.fixed_point_step(scale, self._fewer(moments))

    def _fewer(self, moments: Moments) -> Any:
        return SimpleNamespace(
            size=moments.size - 2.0 * self.tilt, square_norm=moments.square_norm, total_variance=moments.total_variance
        )

    start = bound = rescale = cast(Any, None)  # there is a scale already, no bound is computed, and nothing is drawn


def _with_shape(spec: Spec, state: State, block: int, tilt: float) -> tuple[Spec, State]:
    """Model under the tilt of a block's log σ²."""
    scale = state.scales[block]
    assert isinstance(scale, InverseGamma)
    blocks, scales = list(spec.blocks), list(state.scales)
    blocks[block] = replace(blocks[block], prior=_TiltedScale(blocks[block].prior, tilt))
    scales[block] = replace(scale, shape=scale.shape - tilt)
    return replace(spec, blocks=tuple(blocks)), replace(state, scales=tuple(scales))


def effective_mean(state: State) -> Array:
    """Mean of the effective coefficients, E[γ v]."""
    return state.coefficients.mean if state.gates is None else state.gates.by_coefficient * state.coefficients.mean


def _derivative(state: State, change: Array, value: Callable[[State], Array]) -> Array:
    """Directional derivative of a function of the state along a change of the packed state."""
    size = max(float(np.abs(change).max()), 1e-300)
    return (value(state.unpack(state.packed + (STEP / size) * change)) - value(state)) * (size / STEP)


def _places(state: State) -> tuple[int, int, int]:
    """Offsets in a packed state: begin and end of the scales, and end of the indicators."""
    begin = state.ends[0]
    end = begin + sum(len(scale.pack()) for scale in state.scales)
    return begin, end, end + (0 if state.gates is None else len(state.gates.log_odds))


def _held(state: State, *, hold_scales: bool) -> NDArray[np.bool_]:
    """Mask of packed numbers without response: fixed scales, and indicators that are practically decided."""
    held = np.zeros(len(state.packed), dtype=bool)
    scales, gates, end = _places(state)
    held[scales:gates] = hold_scales
    if state.gates is not None:
        held[gates:end] = state.gates.inclusion * (1 - state.gates.inclusion) < SATURATED
    return held


def dual_response(
    spec: Spec, state: State, source: Source, which: NDArray[np.intp], *, hold_scales: bool = False
) -> Response:
    """Covariances of these coefficients with all, and of log σ² of all inferred scales, at a maximum of the bound."""
    distribution = state.gaussian
    assert isinstance(distribution, DualGaussian)
    with single_threaded_blas():
        rows = rows_near_the_kink(spec, state, source, -1.0)  # all, in one block
        ((C, fv, vv),), ff = rows.blocks, -cast(DualGram, rows.curvature).w
        scales = InferredScales.of(spec, state, hold_scales=hold_scales)
        parts = distribution.parts
        with_rows = C * parts.diagonal - (C @ parts.left.T) @ parts.left + (C @ parts.right) @ parts.right.T
        own = scales.own(with_rows)
        squares = np.square(C @ with_rows.T)
        right = np.column_stack([np.diag(fv), vv[:, None] * own])
        try:
            Q = np.linalg.solve(np.eye(len(C)) - 2.0 * vv[:, None] * squares, right)
        except np.linalg.LinAlgError:
            raise NoMaximumError from None
        change = 2.0 * squares @ Q
        change[:, len(C) :] += own
        M = -np.diag(ff) - fv[:, None] * change[:, : len(C)]
        with_scales = -(C.T @ (fv[:, None] * change[:, len(C) :])) - scales.of_blocks(distribution.mean)
        of_scales = scales.stiffness - 0.5 * _products(scales, parts) - own.T @ Q[:, len(C) :]
        diagonal = spec.precision(state).diagonal
        found, of_scales = _bordered_inverse(C, 0.5 * (M + M.T), diagonal, with_scales, of_scales, which)
        return Response(which, found, scales.blocks, scales.log_variances(of_scales))


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


def _bordered_inverse(
    C: Array, M: Array, precision: Array, with_scales: Array, of_scales: Array, which: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Inverse of [Λ + CᵀMC, …; …, …] with scales in the border: rows of the coefficients, and the scales' own block.

    Free coefficients join the border. With A the part of the held ones: A⁻¹ = 1/Λ − left middle leftᵀ.
    """
    held, free = np.flatnonzero(precision >= FREE), np.flatnonzero(precision < FREE)
    n, n_free = len(precision), len(free)
    spread = np.zeros(n)
    spread[held] = 1.0 / precision[held]
    left = (C * spread).T
    inner = C[:, held] @ left[held]
    middle = np.linalg.solve(np.eye(len(C)) + M @ inner, M)
    border = np.column_stack([C[:, held].T @ (M @ C[:, free]), with_scales[held]])
    follow = spread[held, None] * border - left[held] @ (middle @ (left[held].T @ border))
    corner = np.empty((border.shape[1], border.shape[1]))
    corner[:n_free, :n_free] = np.diag(precision[free]) + C[:, free].T @ M @ C[:, free]
    corner[:n_free, n_free:] = with_scales[free]
    corner[n_free:, :n_free] = with_scales[free].T
    corner[n_free:, n_free:] = of_scales
    of_border = inverse_of_system(corner - border.T @ follow)
    links = np.zeros((n, border.shape[1]))
    links[held] = -follow
    links[free, np.arange(n_free)] = 1.0
    found = links[which] @ of_border @ links.T
    found -= (left[which] @ (0.5 * (middle + middle.T))) @ left.T
    variances = found[np.arange(len(which)), which] + spread[which]
    if not (variances > 0).all():
        raise NoMaximumError
    found[np.arange(len(which)), which] = variances
    return found, of_border[n_free:, n_free:]
