"""Variational Bayes: climb the bound until it stands still, one pass over the data a step."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm import bound
from vbsvm.design.rows import Source
from vbsvm.fit.accelerate import Accelerated, Plain, Strategy, Visited
from vbsvm.parameters import Parameters, require_positive
from vbsvm.readings import expect
from vbsvm.rowblocks import single_threaded_blas
from vbsvm.spec import Spec, State
from vbsvm.sweep import pass_rows

PILOT_ROWS = 20_000
PILOT_STEP = 20
PILOT_TOL = 0.1
THREADED_SOLVE = 512
ROUNDING = 8 * float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a climb ended: the state, the accepted bounds on the way, passes made, and why it ended."""

    state: State
    bounds: NDArray[np.float64]
    passes: int
    converged: bool
    interrupted: bool


@final
@dataclass(frozen=True)
class Variational(Parameters):
    """Mean-field variational Bayes: the paper's Algorithms 1 and 2.

    Parameters
    ----------
    tol : float, default 1e-6
        Stop when two accepted steps in a row raise the bound by less than this (in nats), or by less than rounding.
    max_iter : int, default 2000
        Most passes over the data; steps that were tried and refused count.
    accelerate : bool, default True
        Newton steps for the mean and Anderson extrapolation, guarded by the bound: the same optimum in a fifth to a
        fiftieth of the passes. False is the paper's sweep to the letter.
    """

    tol: float = 1e-6
    max_iter: int = 2000
    accelerate: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_positive("Variational", tol=self.tol)
        if isinstance(self.max_iter, bool) or not isinstance(self.max_iter, int) or self.max_iter < 2:
            raise ValueError(f"Variational: max_iter must be a whole number of at least 2; got {self.max_iter!r}.")

    def run(self, spec: Spec, source: Source) -> Outcome:
        """Fit the model to the rows.

        A large table is started from the fit of a twentieth of its rows. Their weights are not raised to match: the law
        is then as wide as the start is uncertain, and a Newton step sees the curvature at that distance. (With raised
        weights the rows' kinks are too sharp for Newton: twice the passes.)
        """
        # Where the solves are large, they have use for several BLAS threads; the passes see to their own.
        with single_threaded_blas() if spec.n_columns < THREADED_SOLVE else nullcontext():
            if self.accelerate and source.n_rows >= PILOT_ROWS and (thinned := source.thin(PILOT_STEP)) is not None:
                pilot = self._climb(spec, thinned, spec.start(), max(self.tol, PILOT_TOL))
                if pilot.interrupted:
                    raise KeyboardInterrupt
                full = self._climb(spec, source, pilot.state, self.tol)
                return replace(full, passes=full.passes + math.ceil(pilot.passes / PILOT_STEP))
            return self._climb(spec, source, spec.start(), self.tol)

    def _climb(self, spec: Spec, source: Source, start: State, tol: float) -> Outcome:
        strategy = Accelerated() if self.accelerate else Plain()
        at = _visit(spec, source, start, strategy)
        bounds = [at.bound] if math.isfinite(at.bound) else []
        passes, small_steps, interrupted = 1, 0, False
        try:
            while passes < self.max_iter and small_steps < 2:
                rounding = ROUNDING * abs(at.bound) if bounds else 0.0
                for candidate in islice(strategy.candidates(spec, at), self.max_iter - passes):
                    tried = _visit(spec, source, candidate, strategy)
                    passes += 1
                    gain = tried.bound - at.bound
                    if gain >= 0:
                        at = tried
                        bounds.append(at.bound)
                        small_steps = small_steps + 1 if gain < max(tol, rounding) else 0
                        break
                    if gain >= -rounding:
                        small_steps = 2
                        break
                else:
                    # Refused to the last: either no pass is left, or rounding hides what the paper's update gains.
                    small_steps = 2 if passes < self.max_iter else 0
        except KeyboardInterrupt:
            if not bounds:
                raise
            interrupted = True
        if not bounds:
            raise FloatingPointError(
                "The bound is not a finite number after the first pass: the inputs are too large for floating point. "
                "Standardise them (standardize=True) or rescale the largest columns."
            )
        return Outcome(at.state, np.array(bounds), passes, small_steps >= 2, interrupted)


def _visit(spec: Spec, source: Source, state: State, strategy: Strategy) -> Visited:
    """Pass over the rows from this state: that gives its exact bound, and what the next step needs."""
    stats = pass_rows(state, source, expect, with_curvature=strategy.needs_curvature)
    with np.errstate(all="ignore"):  # as in the pass: what is not finite is refused
        return Visited(state, stats, bound.total(spec, state, stats.row_bound))
