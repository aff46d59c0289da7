"""The rows of a fit, while they are at hand: what nobody asked for during the fit is learned from them when it is."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from vbsvm.missing.population import Population
from vbsvm.sources.memory import Memory

# Rows that are compared, evenly spaced, to see whether the data are still those of the fit.
COMPARED = 64


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The source of a fit, which reads the user's own arrays, and what may be learned from it later.

    Files, pickles and copies of a fit hold no rows: what they need is learned before.
    """

    source: Memory
    learn_population: Callable[[], Population | None]
    fingerprint: bytes

    @staticmethod
    def of(source: Memory, learn_population: Callable[[], Population | None]) -> "TrainingRows":
        """Remember what the rows look like now."""
        return TrainingRows(source, learn_population, _fingerprint(source))

    @cached_property
    def population(self) -> Population | None:
        """Mean and covariance of all inputs, where there are not too many."""
        return self.unchanged().learn_population()

    def unchanged(self) -> "TrainingRows":
        """Refuse rows that have been changed since the fit."""
        if _fingerprint(self.source) != self.fingerprint:
            raise ValueError(
                "The training data have been changed in place since the fit, and what is asked for is learned from "
                "them only when it is needed. Fit again, or save the model before you change the data."
            )
        return self


def _fingerprint(source: Memory) -> bytes:
    """A digest of some of the rows, with labels and weights."""
    step = max(1, len(source.X) // COMPARED)
    parts: tuple[Any, ...] = (source.X, source.signs, source.weights)
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part[::step][: COMPARED + 1]).data)
    return digest.digest()
