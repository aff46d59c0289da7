"""The paper's default method (Section 4.1): a linear SVM whose penalty is found by repeated hold-out on two grids."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from reproduction.data import Array
from reproduction.solver import solve_path

# From strong to weak penalties, so that ties go to the stronger.
FIRST_GRID = np.logspace(2.5, -2, 10)
SECOND_GRID = np.logspace(0.5, -0.5, 9)
HELD_OUT = 0.25


def balanced_error(signs: Array, scores: Array) -> Array:
    """Mean of both classes' error rates, for each row of scores; a score of 0 counts as the first class."""
    wrong = np.where(scores > 0, 1.0, -1.0) != signs
    return 0.5 * (wrong[..., signs > 0].mean(axis=-1) + wrong[..., signs < 0].mean(axis=-1))


@final
@dataclass(frozen=True, eq=False)
class DefaultSVM:
    """A linear SVM on standardised columns, with the penalty α that was chosen."""

    alpha: float
    centre: Array
    scale: Array
    weights: Array
    intercept: float

    def scores(self, X: Array) -> Array:
        """Give f for raw rows."""
        return (X - self.centre) / self.scale @ self.weights + self.intercept


def fit(X: Array, signs: Array, holdouts: int, seed: int) -> DefaultSVM:
    """Choose α by the smallest mean hold-out error on a grid, again on a finer grid around it, and fit with it."""
    held = list(_holdouts(signs, holdouts, seed))
    coarse = _best(FIRST_GRID, X, signs, held)
    alpha = _best(coarse * SECOND_GRID, X, signs, held)
    centre, scale = _standardisation(X)
    weights, intercepts = solve_path((X - centre) / scale, signs, np.array([alpha]))
    return DefaultSVM(alpha, centre, scale, weights[0], float(intercepts[0]))


def _best(alphas: Array, X: Array, signs: Array, held: list[NDArray[np.bool_]]) -> float:
    errors = np.mean([_errors(alphas, X, signs, out) for out in held], axis=0)
    return float(alphas[errors.argmin()])


def _errors(alphas: Array, X: Array, signs: Array, out: NDArray[np.bool_]) -> Array:
    """Balanced error of each penalty on the rows held out, which are standardised by the others."""
    centre, scale = _standardisation(X[~out])
    weights, intercepts = solve_path((X[~out] - centre) / scale, signs[~out], alphas)
    return balanced_error(signs[out], weights @ ((X[out] - centre) / scale).T + intercepts[:, None])


def _holdouts(signs: Array, count: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Hold out a random quarter of each class, so that both parts hold both classes."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        out = np.zeros(len(signs), dtype=bool)
        for sign in (-1.0, 1.0):
            rows = rng.permutation(np.flatnonzero(signs == sign))
            out[rows[: max(round(HELD_OUT * len(rows)), 1)]] = True
        yield out


def _standardisation(X: Array) -> tuple[Array, Array]:
    scale = X.std(axis=0)
    return X.mean(axis=0), np.where(scale > 0, scale, 1.0)
