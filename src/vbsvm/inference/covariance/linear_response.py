"""Linear response: how the optimum of the bound moves if the log posterior is tilted by tᵀθ + Σ t_b log σ_b².

The derivatives of E[θ] and E[log σ²] in t are covariances that mean field, which cuts dependence between coefficients,
scales and latent variables, does not see (Giordano, Broderick & Jordan 2018). Here for complete rows without indicators
in the dense layout; ``map_response`` has the dual one and every other model.

Of ℓ(f, v) of each row only second derivatives enter. With K = CΣCᵀ, a change of a row's q = ℓ_fv df + ℓ_vv dv changes
the variances by dv = 2(K∘K)q + Σ ω_b n_b, where −ω_b is the change of the block's expected precision τ_b and n_b is
‖(Σc)_b‖² of each row. So Σ's own change is eliminated, and one system in dμ and ω is left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.distributions import InverseGamma
from vbsvm.model.interfaces import Gram, Rows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.hinge import ExactHinge
from vbsvm.model.likelihoods.logistic import ExactLogistic
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State

# Rows whose second derivatives are smaller than this, in units of their weight and of their score's deviation, are left
# out: under the exact hinge all that are far from the margin.
NEGLIGIBLE = 3e-4
# Relative residual, squared, at which the solution of the system for the variances ends; standard deviations are then
# within 2e-4.
ACCURACY = 0.03
# Numbers of B that are kept; and that are formed at once where it is not.
MOST_KEPT, AT_ONCE = 2**24, 2**18
MOST_PRODUCTS = 200
# What is left of a right side, relatively, when conjugate gradients have nothing to go by.
NOTHING = 1e-26
# Products with K∘K for K = CΣCᵀ, for several columns at once.
SquaredKernel = Callable[[Array], Array]


class NoMaximumError(ArithmeticError):
    """The state is not a maximum of the bound, or the bound is too flat there for linear response."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Covariances by linear response.

    ``coefficients`` are those of the asked coefficients (rows) with all (columns). ``log_variances`` is the covariance
    of log σ² of the blocks whose numbers are in ``blocks``.
    """

    which: NDArray[np.intp]
    coefficients: Array
    blocks: tuple[int, ...]
    log_variances: Array

    @property
    def covariance(self) -> Array:
        """Covariance of the requested coefficients."""
        return self.coefficients[:, self.which]


def dense_response(
    spec: Spec,
    state: State,
    source: Source,
    *,
    hold_scales: bool = False,
    accuracy: float = ACCURACY,
    negligible: float = NEGLIGIBLE,
) -> Response:
    """Covariance of all coefficients and of log σ² of all scales that are not held, at a maximum of the bound."""
    distribution = state.gaussian
    assert isinstance(distribution, DenseGaussian)
    with single_threaded_blas(), np.errstate(all="ignore"):
        near = rows_near_the_kink(spec, state, source, negligible)
        scales = InferredScales.of(spec, state, hold_scales=hold_scales)
        root, n_coefficients = distribution.root, len(distribution.mean)
        design, fv, vv = map(np.concatenate, zip(*near.blocks, strict=True))
        whitened = design @ root
        own = scales.own(whitened @ root.T)
        of_mean = fv[:, None] * whitened
        right = np.column_stack([of_mean, vv[:, None] * own])
        Q, image = solve_response(squared_kernel(whitened), vv, right, accuracy)
        change = 2.0 * image  # of the variances of the rows
        change[:, n_coefficients:] += own
        system = np.empty((change.shape[1], change.shape[1]))
        mean, scale = slice(None, n_coefficients), slice(n_coefficients, None)
        system[mean] = -of_mean.T @ change
        curved = np.column_stack([near.curvature.times(column) for column in root.T])
        curved += np.column_stack([spec.precision(state).times(column) for column in root.T])
        system[mean, mean] += root.T @ curved
        system[mean, scale] -= root.T @ scales.of_blocks(distribution.mean)
        system[scale, mean] = system[mean, scale].T
        system[scale, scale] = scales.stiffness - 0.5 * scales.products(distribution.covariance) - own.T @ Q[:, scale]
        found = inverse_of_system(system)
        return Response(
            np.arange(n_coefficients),
            root @ found[mean, mean] @ root.T,
            scales.blocks,
            scales.log_variances(found[scale, scale]),
        )


def inverse_of_system(system: Array) -> Array:
    """The inverse of a matrix that is positive at a maximum."""
    system = 0.5 * (system + system.T)
    try:
        half = np.linalg.inv(np.linalg.cholesky(system))
    except np.linalg.LinAlgError:
        raise NoMaximumError from None
    return np.asarray(half.T @ half, dtype=np.float64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class NearRows:
    """Design of rows with non-negligible ℓ_fv and ℓ_vv, these, by block; and −Σ ℓ_ff c cᵀ over all rows."""

    blocks: tuple[tuple[Array, Array, Array], ...]
    curvature: Gram

    def __add__(self, other: Self) -> "NearRows":
        """Join two sets of rows."""
        return NearRows(self.blocks + other.blocks, self.curvature + other.curvature)


def rows_near_the_kink(spec: Spec, state: State, source: Source, negligible: float) -> NearRows:
    """Collect rows near the margin; each row is judged alone, so that a row of weight 2 equals two rows."""
    coefficients, every = state.gaussian.effective(None), np.arange(spec.n_columns)

    def of_part(part: Part) -> NearRows:
        rows = cast(Rows, part.rows)
        f, v = coefficients.row_moments(rows)
        v = np.asarray(v)
        found = cast(ExactHinge | ExactLogistic, spec.likelihood).derivatives(f, v, rows.y, rows.weights)
        near = np.abs(found.fv) * v + np.abs(found.vv) * v * np.sqrt(v) > negligible * rows.weights
        block = rows.columns(every)[near], found.fv[near], found.vv[near]
        return NearRows((block,), rows.gram(-found.ff))

    return source.sum_parts(of_part)


@final
@dataclass(frozen=True, slots=True, eq=False)
class InferredScales:
    """Blocks with inferred variance σ²: columns, IG(shape, rate), and derivatives of the rates."""

    blocks: tuple[int, ...]
    columns: tuple[tuple[slice, ...], ...]
    shapes: Array
    rates: Array
    rate_slopes: Array

    @staticmethod
    def of(spec: Spec, state: State, *, hold_scales: bool = False) -> "InferredScales":
        """Inferred scales of a state, or none if they are fixed."""
        pairs = () if hold_scales else zip(spec.blocks, state.scales, strict=True)
        found = [
            (i, block.columns, scale.shape, scale.rate, block.prior.rate_derivative(scale))
            for i, (block, scale) in enumerate(pairs)
            if isinstance(scale, InverseGamma)
        ]
        blocks, columns, *numbers = zip(*found, strict=True) if found else ((), (), (), (), ())
        return InferredScales(blocks, columns, *(np.array(one, dtype=np.float64) for one in numbers))

    @property
    def stiffness(self) -> Array:
        """ω_b = (τ_b²/a_b) times the change of ½E‖θ_b‖²: the inverse of that factor, on a diagonal.

        A prior's rate that depends on τ_b takes a part of the change back.
        """
        return np.diag(np.square(self.rates) / self.shapes + self.rate_slopes)

    def of_blocks(self, mean: Array) -> Array:
        """The mean of each block, zero elsewhere: coefficients × blocks."""
        found = np.zeros((len(mean), len(self.blocks)))
        for b, strides in enumerate(self.columns):
            for columns in strides:
                found[columns, b] = mean[columns]
        return found

    def own(self, with_rows: Array) -> Array:
        """n_b = ‖(Σc)_b‖² of each row, from its Σc: rows × blocks."""
        found = np.zeros((len(with_rows), len(self.blocks)))
        for b, strides in enumerate(self.columns):
            for columns in strides:
                found[:, b] += np.square(with_rows[:, columns]).sum(axis=1)
        return found

    def products(self, covariance: Array) -> Array:
        """‖Σ_bb′‖² of each pair of blocks."""
        n = len(self.blocks)
        found = np.zeros((n, n))
        for b, c in np.ndindex(n, n):
            found[b, c] = sum(np.square(covariance[j, k]).sum() for j in self.columns[b] for k in self.columns[c])
        return found

    def log_variances(self, inverse: Array) -> Array:
        """Covariance of log σ²: the part through the coefficients, plus each scale's own variance.

        The tilt makes IG(a, B) of a block to IG(a − t, B).
        """
        a, tau = self.shapes, self.shapes / self.rates
        return inverse / np.outer(tau, tau) + np.diag(polygamma(1, a) - 1.0 / a)


def squared_kernel(whitened: Array) -> SquaredKernel:
    """Operator K∘K of rows W = CU with Σ = UUᵀ (the response of variances to weights), in its cheapest form.

    K∘K is BBᵀ, where B has the p(p + 1)/2 products of two columns of W. With many rows B is formed anew, block by
    block, in each product; with few, K∘K itself is the smaller matrix.
    """
    n, p = whitened.shape
    if n <= p * (p + 1):
        K = whitened @ whitened.T
        squares = np.square(K, out=K)
        return lambda right: squares @ right
    n_products = p * (p + 1) // 2
    blocks = np.array_split(whitened, -(-n * n_products // AT_ONCE))
    ends = np.cumsum([len(block) for block in blocks])
    kept = [_products(block) for block in blocks] if n * n_products <= MOST_KEPT else None

    def times(right: Array) -> Array:
        inner = sum(
            B.T @ part for B, part in zip(kept or map(_products, blocks), np.split(right, ends[:-1]), strict=True)
        )
        return np.concatenate([B @ inner for B in kept or map(_products, blocks)])

    return times


def _products(whitened: Array) -> Array:
    """Rows of B: w_j², and √2 w_j w_k of every pair."""
    n, p = whitened.shape
    found, at = np.empty((n, p * (p + 1) // 2)), 0
    scaled = np.sqrt(2.0) * whitened
    for j in range(p):
        np.multiply(scaled[:, j:], whitened[:, j : j + 1], out=found[:, at : at + p - j])
        np.square(whitened[:, j], out=found[:, at])
        at += p - j
    return found


def solve_response(kernel: SquaredKernel, bend: Array, right: Array, accuracy: float) -> tuple[Array, Array]:
    """Q with (I − 2 diag(bend) K∘K) Q = right, as far as K∘K can see it, and (K∘K) Q; ``bend`` is ∂²ℓ/∂v².

    The matrix is symmetric and positive in the inner product of K∘K, if the state is a maximum of the bound: conjugate
    gradients for all columns at once, one product with K∘K a step. They end when the next would add less than accuracy²
    of the quadratic form that they maximise, going by how gains fell: such forms are what a covariance is made of.
    """
    twice = 2.0 * bend[:, None]
    residual = search = search_image = right
    found, found_image = np.zeros_like(right), np.zeros_like(right)
    before, reached, last = np.inf, np.zeros(right.shape[1]), np.zeros(right.shape[1])
    for _ in range(MOST_PRODUCTS):
        image = kernel(residual)
        square = np.einsum("ij,ij->j", residual, image)
        ratio = square / before
        search, search_image = residual + ratio * search, image + ratio * search_image
        product = search - twice * search_image
        along = np.einsum("ij,ij->j", search_image, product)
        gain = np.divide(square * square, along, out=np.zeros_like(square), where=square > NOTHING * reached)
        if not np.isfinite(gain).all() or (gain < 0).any():
            raise NoMaximumError
        step = np.divide(gain, square, out=np.zeros_like(square), where=gain > 0)
        found, found_image = found + step * search, found_image + step * search_image
        residual, before = residual - step * product, np.maximum(square, np.finfo(np.float64).tiny)
        reached, falling = reached + gain, np.divide(gain, last, out=np.ones_like(gain), where=last > gain)
        if (falling * gain <= accuracy**2 * reached).all():
            return found, found_image
        last = gain
    raise NoMaximumError
