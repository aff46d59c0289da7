"""Optimisation without a bound: the covariance is known by draws, and its determinant is not.

Given weights w of the rows and scales of the priors, draws tell the variances v of the rows' scores and the trace of Σ
(``model.layouts.drawn``). With v fixed the bound is maximised over the mean as in profiled Newton, with the scales at
their optimum; the weights w(f, v) there and these scales give the next Σ. That map of (log w, scales) is iterated, with
Anderson extrapolation, until it moves them by a fraction that is small relative to the error of the draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import Point
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.profiled import FixedVarianceRows, ProfiledNewton
from vbsvm.inference.steps import Anderson, fixed_point_step
from vbsvm.model.layouts.drawn import DRAWS, DrawnGaussian, DrawnGram
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Block, Spec, State
from vbsvm.model.sweep import pass_rows


@final
@dataclass(frozen=True)
class Options:
    """Settings of the iteration."""

    # Converged where the map moves logs of scales by less than this, and logs of weights in root mean square by less
    # than the second figure.
    scale_tol: float = 2e-3
    weight_tol: float = 1e-2
    # A mean is good enough where a step gains less than this many nats a row.
    mean_tol: float = 1e-6
    # An extrapolation may go no further than this beyond the map's own image, in logs.
    max_reach: float = 2.0


OPTIONS = Options()


def drawn_steps(spec: Spec, source: Source) -> Iterator[tuple[State, bool]]:
    """Yield the iterates of the fixed-point iteration without end, each with whether it has converged."""
    newton, anderson = ProfiledNewton(OPTIONS.mean_tol * source.n_rows), Anderson()
    state = _first(spec, source)
    before: Array | None = None
    while True:
        rows = FixedVarianceRows(spec.likelihood, source, state.coefficients.effective(None))
        reached = newton.optimize_mean(spec, state, rows)
        image = _Inputs.of(cast(DrawnGram, rows.stats().gram), fixed_point_step(spec, reached) or reached)
        yield reached, before is not None and image.converged(before)
        chosen = image.extrapolated(before, anderson)
        before, state = chosen.packed, chosen.drawn(spec, state)


def _first(spec: Spec, source: Source) -> State:
    """First state with a covariance: the default start, with scales such that scores have variances near 1.

    With E[σ⁻²] = 1 the scores of standardised rows of 100 000 columns would begin 300 times as large, and from scores
    near 0 the iteration may end there.
    """
    start = spec.start()
    stats = pass_rows(spec, start, source, mean_field)
    gram = cast(DrawnGram, stats.gram)
    squares = gram.diagonal / sum(float(w.sum()) for _, w in gram.parts)
    pairs = zip(spec.blocks, start.scales, strict=True)
    inferred = [(block, scale, isinstance(block.prior, HalfT | Ridge)) for block, scale in pairs]
    start = start.with_scales(tuple(_unit_scale(block, squares) if unit else scale for block, scale, unit in inferred))
    mean = gram.solve(stats.cross, spec.precision(start))
    assert mean is not None
    return start.with_coefficients(gram.drawn(mean, spec.precision(start), DRAWS))


def _unit_scale(block: Block, squares: Array) -> Point:
    """The σ² at which a block adds 1 to the variance of a score on average, given mean squares of columns."""
    total = sum(float(squares[columns].sum()) for columns in block.columns)
    return Point(1.0 / total if total > 0 else 1.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """Predictors of a draw of the covariance: weights of the rows, and a state with mean and scales."""

    gram: DrawnGram
    state: State
    packed: Array

    @staticmethod
    def of(gram: DrawnGram, state: State) -> "_Inputs":
        """Logs of weights, and the packed scales."""
        scales = [x for scale in state.scales for x in scale.pack()]
        return _Inputs(gram, state, np.concatenate([*(np.log(w) for _, w in gram.parts), scales]))

    @property
    def _n_weights(self) -> int:
        return sum(len(w) for _, w in self.gram.parts)

    def converged(self, before: Array) -> bool:
        """Whether the map has converged: these are the numbers that they were made from, up to tolerances."""
        change, n = self.packed - before, self._n_weights
        of_weights = float(np.sqrt(np.square(change[:n]).mean()))
        return of_weights < OPTIONS.weight_tol and float(np.abs(change[n:]).max(initial=0.0)) < OPTIONS.scale_tol

    def extrapolated(self, before: Array | None, anderson: Anderson) -> "_Inputs":
        """Anderson's extrapolation, or these if it is not reliable; ``before`` is what they were made from."""
        guess = None if before is None else anderson.propose(before, self.packed)
        if guess is None:
            return self
        if not np.abs(guess - self.packed).max() < OPTIONS.max_reach:
            anderson.reset()
            return self
        n, scales = self._n_weights, []
        ends = np.cumsum([len(w) for _, w in self.gram.parts])
        weights = np.split(np.exp(guess[:n]), ends[:-1])
        for scale in self.state.scales:
            length = len(scale.pack())
            scales.append(scale.unpack(guess[n : n + length]))
            n += length
        gram = DrawnGram(tuple((rows, w) for (rows, _), w in zip(self.gram.parts, weights, strict=True)))
        return _Inputs(gram, self.state.with_scales(tuple(scales)), guess)

    def drawn(self, spec: Spec, near: State) -> State:
        """Draw Σ = (G + Λ)⁻¹ around the mean, beginning at the draws of another state."""
        assert isinstance(near.coefficients, DrawnGaussian)
        mean, precision = self.state.coefficients.mean, spec.precision(self.state)
        return self.state.with_coefficients(self.gram.drawn(mean, precision, DRAWS, near.coefficients))
