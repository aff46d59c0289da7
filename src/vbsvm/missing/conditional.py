"""Missing inputs given the known ones of their row: normal distributions with the precision of the inputs' own."""

from collections.abc import Sequence

import numpy as np

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.missing.rows import PatternGroup


def covariances(precision: Array, group: PatternGroup) -> Array:
    """Covariance of the missing variables in each pattern of a group, patterns × k × k."""
    M = group.patterns
    return inverse(precision[M[:, :, None], M[:, None, :]])


def means(known: Array, expected: Array, precision: Array, groups: Sequence[PatternGroup]) -> Array:
    """Means of the missing variables (rows × variables), zero where nothing is missing.

    ``known`` is zero where a variable is missing; ``expected`` is what variables are before any is known.
    """
    values, pull = np.zeros_like(known), (expected - known) @ precision
    for group in groups:
        covariance = covariances(precision, group)[group.pattern_of]
        values[group.cells] = np.einsum("rkj,rj->rk", covariance, pull[group.cells])
    return values


def draws(
    known: Array, expected: Array, precision: Array, groups: Sequence[PatternGroup], rng: np.random.Generator
) -> Array:
    """Values of the missing variables drawn given the known ones (rows × variables), zero where nothing is missing."""
    return with_noise(means(known, expected, precision, groups), precision, groups, rng)


def with_noise(values: Array, precision: Array, groups: Sequence[PatternGroup], rng: np.random.Generator) -> Array:
    """Values with normal noise of their covariance added to the missing ones."""
    found = values.copy()
    for group in groups:
        noise = rng.standard_normal(group.patterns[group.pattern_of].shape)
        root = cholesky(covariances(precision, group))[group.pattern_of]
        found[group.cells] += np.einsum("rkj,rj->rk", root, noise)
    return found


def deviations(known: Array, precision: Array, groups: Sequence[PatternGroup]) -> Array:
    """Standard deviations of the missing variables (rows × variables), zero where nothing is missing."""
    spread = np.zeros_like(known)
    for group in groups:
        variances = np.einsum("pkk->pk", covariances(precision, group))
        spread[group.cells] = np.sqrt(variances)[group.pattern_of]
    return spread
