"""K∘K for K = CΣCᵀ: how the variances of rows' scores answer to the rows' weights; and the system that it enters.

With W = CU and Σ = UUᵀ, K∘K is BBᵀ, where B has the p(p + 1)/2 products of two columns of W. With many rows B is formed
anew, block by block, in each product; with few, K∘K itself is the smaller matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from vbsvm.base.arrays import Array

# Numbers of B that are kept; and that are formed at once where it is not.
MOST_KEPT = 2**24
AT_ONCE = 2**18
MOST_PRODUCTS = 200
# What is left of a right side, relatively, when conjugate gradients have nothing to go by.
NOTHING = 1e-26


class NoMaximumError(ArithmeticError):
    """The state is not a maximum of the bound, or too close to a flat one for a response to be found."""


class SquaredKernel(Protocol):
    """Products with K∘K."""

    def times(self, right: Array) -> Array:
        """(K∘K) right, for several columns at once."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class WrittenKernel:
    """K∘K itself."""

    squares: Array

    def times(self, right: Array) -> Array:
        """(K∘K) right."""
        return self.squares @ right


@final
@dataclass(frozen=True, slots=True, eq=False)
class FactoredKernel:
    """Blocks of rows of W, and of B where they are kept."""

    blocks: tuple[Array, ...]
    products: tuple[Array, ...] | None

    def _products(self) -> Iterator[Array]:
        return map(_products, self.blocks) if self.products is None else iter(self.products)

    def times(self, right: Array) -> Array:
        """B(Bᵀ right)."""
        ends = np.cumsum([len(block) for block in self.blocks])
        parts = np.split(right, ends[:-1])
        inner = sum(B.T @ part for B, part in zip(self._products(), parts, strict=True))
        return np.concatenate([B @ inner for B in self._products()])


def squared_kernel(whitened: Array) -> SquaredKernel:
    """K∘K of rows W, in the form that takes the fewest operations."""
    n, p = whitened.shape
    if n <= p * (p + 1):
        K = whitened @ whitened.T
        return WrittenKernel(np.square(K, out=K))
    n_products = p * (p + 1) // 2
    n_blocks = -(-n * n_products // AT_ONCE)
    blocks = tuple(np.array_split(whitened, n_blocks))
    return FactoredKernel(blocks, tuple(map(_products, blocks)) if n * n_products <= MOST_KEPT else None)


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
        image = kernel.times(residual)
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
