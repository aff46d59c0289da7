"""Which contrasts of the levels of a variable are made: their labels, and the weights of the levels."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from numbers import Real
from typing import Any

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.design.values import did_you_mean, join_names
from vbsvm.results.effects.averages import LOGITS, LOGS, PLAIN, AverageEstimate

# Kinds of contrasts, and the scales on which they are differences.
KINDS = {"difference": PLAIN, "ratio": LOGS, "odds ratio": LOGITS}
COMPARE = ("reference", "pairwise", "sequential")
# Sums of weights that are 0 but for rounding, as a fraction of the largest weight.
ROUNDING = 1e-8


def contrast_weights(compare: Any, values: Sequence[Any], kind: str) -> dict[str, Array]:
    """Weights of the values in each contrast, by its label: those that were given, or of pairs of values."""
    if isinstance(compare, Mapping):
        return {name: np.array([float(of.get(value, 0.0)) for value in values]) for name, of in compare.items()}
    order, sign, identity = range(len(values)), "-" if kind == "difference" else "/", np.eye(len(values))
    pairs = {"pairwise": combinations(order, 2), "sequential": pairwise(order)}.get(
        compare, ((0, k) for k in order[1:])
    )
    return {f"{values[k]} {sign} {values[j]}": identity[k] - identity[j] for j, k in pairs}


def check_comparison(kind: str, compare: Any, at: Any) -> None:
    """Raise for a kind of contrast or a comparison that does not exist, and for weights that do not sum to 0."""
    if kind not in KINDS:
        raise ValueError(f"contrasts: kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if not (isinstance(compare, Mapping) and compare) and compare not in COMPARE:
        names = ", ".join(map(repr, COMPARE))
        raise ValueError(f"contrasts: compare must be one of {names}, or weights by name and level; got {compare!r}.")
    if isinstance(compare, Mapping) and at is not None:
        raise ValueError("contrasts: weights name the levels to compare: leave at= out.")
    if isinstance(at, Mapping):
        raise TypeError(
            f"contrasts: at lists values to compare; to compare at values of another predictor use by={dict(at)}."
        )
    for name, weights in compare.items() if isinstance(compare, Mapping) else ():
        _check_weights(name, weights)


def _check_weights(name: Any, weights: Any) -> None:
    if not isinstance(weights, Mapping) or not all(isinstance(weight, Real) for weight in weights.values()):
        raise TypeError(f"contrasts: {name!r} needs numbers by level, such as {{'a': 1, 'b': -1}}; got {weights!r}.")
    numbers = np.array(list(weights.values()), dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    if not 0.0 < largest < np.inf:
        raise ValueError(f"contrasts: the weights of {name!r} must be finite, and not all 0.")
    if abs(total := float(numbers.sum())) > ROUNDING * largest:
        raise ValueError(f"contrasts: the weights of {name!r} must sum to 0; they sum to {total:.6g}.")


def named_levels(variable: str, compare: Mapping[Any, Mapping[Any, float]], levels: Sequence[Any] | None) -> list[Any]:
    """Levels that custom weights name, those of a category in its order; raise for others."""
    named = list(dict.fromkeys(level for weights in compare.values() for level in weights))
    unknown = [] if levels is None else [level for level in named if level not in levels]
    if unknown:
        known, hint = join_names(levels or []), did_you_mean(str(unknown[0]), levels or [])
        raise ValueError(f"contrasts: {variable!r} has no level {unknown[0]!r}; it has {known}.{hint}")
    return named if levels is None else [level for level in levels if level in named]


def contrasts_of(
    averages: Sequence[AverageEstimate], weights: Mapping[str, Array], kind: str
) -> Iterator[tuple[tuple[str], AverageEstimate]]:
    """Yield each contrast of averages with its label: on the plain scale, or that of logarithms."""
    scaled = [average.on_scale(KINDS[kind]) for average in averages]
    for name, of_levels in weights.items():
        yield (str(name),), AverageEstimate.weighted_sum(scaled, of_levels)
