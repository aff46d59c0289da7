"""The rows of a fit, while they are at hand: what nobody asked for during the fit is learned from them when it is."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.leave_one_out import row_influence
from vbsvm.inference.reliability import Reliability
from vbsvm.inference.spreads import Spread, Spreads, robust_of_draws
from vbsvm.inference.variational import Outcome
from vbsvm.missing.population import Population
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.row_pass import Part
from vbsvm.model.spec import Spec
from vbsvm.results.calibration import Calibration, LeftOutScores, calibrate
from vbsvm.sources.memory import Memory

# Rows that are compared, evenly spaced, to see whether the data are still those of the fit.
COMPARED = 64
# Rows × coefficients up to which robust intervals go by the response of the exact bound: it takes as long as some fits.
MOST_RESPONDING = 250_000


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The source of a fit, which reads the user's own arrays, and what may be learned from it later.

    ``n`` is the number of coefficients of columns. ``sample_weights`` are the weights without those of classes, where
    these have some. ``given`` are the numbers that the rows have in the user's data, where these differ from those in
    the source. Files, pickles and copies of a fit hold no rows: what they need is learned before.
    """

    spec: Spec
    outcome: Outcome | Sample
    source: Memory
    n: int
    sample_weights: Array | None
    given: NDArray[np.intp] | None
    learn_population: Callable[[], Population | None]
    fingerprint: bytes = field(init=False)
    _found: dict[str, Spread] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remember what the rows look like now."""
        object.__setattr__(self, "fingerprint", _fingerprint(self.source))

    @property
    def _unchanged(self) -> Memory:
        """The rows; those that have been changed since the fit are refused."""
        if _fingerprint(self.source) != self.fingerprint:
            raise ValueError(
                "The training data have been changed in place since the fit, and what is asked for is learned from "
                "them only when it is needed. Fit again, or save the model before you change the data."
            )
        return self.source

    @cached_property
    def population(self) -> Population | None:
        """Mean and covariance of all inputs, where there are not too many."""
        assert self._unchanged is not None
        return self.learn_population()

    @cached_property
    def calibration(self) -> Calibration:
        """How scores become probabilities."""
        with single_threaded_blas():
            return calibrate([self.left_out_scores()])[0]

    def left_out_scores(self) -> LeftOutScores:
        """Scores of the rows in fits without them, in the order of a pass."""
        rows, repeats = row_influence(self.spec, self.outcome, self._unchanged), self._repeats
        return LeftOutScores.of(rows, rows.s if repeats is None else np.concatenate(repeats.total(_weights)))

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Where in the source each row of a pass stands; the first of its candidates where there are some."""
        numbered = np.where(self.source.weights > 0, np.arange(1.0, len(self.source.weights) + 1), 0.0)
        found = np.concatenate(replace(self.source, weights=numbered).total(_weights)).astype(np.intp) - 1
        if self.source.candidates is None:
            return found
        rows = self.source.candidates.row[found]
        return found[np.r_[True, rows[1:] != rows[:-1]]]

    def spread(self, kind: str) -> Spread:
        """Robust, or the posterior's by linear response; in large tables the robust one goes by the curvature."""
        if kind not in self._found:
            source = self._unchanged
            if isinstance(self.outcome, Sample):
                self._found[kind] = robust_of_draws(self.spec, self.outcome.state, source, self.n, self._repeats)
            else:
                large = source.n_rows * source.n_core > MOST_RESPONDING
                self._found[kind] = self._spreads.of(kind, "curvature" if large else "response")
        return self._found[kind]

    @property
    def learned(self) -> tuple[Spread, ...]:
        """Spreads that have been asked for."""
        return tuple(self._found.values())

    @cached_property
    def _spreads(self) -> Spreads:
        assert isinstance(self.outcome, Outcome)
        spec = replace(self.spec, likelihood=self.outcome.likelihood)
        return Spreads(spec, self.outcome.state, self._unchanged, self.n, repeats=self._repeats)

    @property
    def _repeats(self) -> Memory | None:
        """The same rows without class weights, where there are any."""
        if self.sample_weights is None:
            return None
        return replace(self.source, weights=np.where(self.source.weights > 0, self.sample_weights, 0.0))

    @property
    def curvature(self) -> CoefficientDistribution:
        """The distribution by the curvature at the mean."""
        with single_threaded_blas():
            return self._spreads.curvature

    @property
    def reliability(self) -> Reliability:
        """What the rows say of spreads."""
        return self._spreads.reliability


def _weights(part: Part) -> list[Array]:
    return [part.rows.weights]


def _fingerprint(source: Memory) -> bytes:
    """A digest of some of the rows, with labels and weights."""
    step = max(1, len(source.X) // COMPARED)
    parts: tuple[Any, ...] = (source.X, source.signs, source.weights)
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part[::step][: COMPARED + 1]).data)
    return digest.digest()
