"""The climb itself: steps that a strategy proposes are taken while they raise the bound, and why it ends is told."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.settings import log
from vbsvm.inference import polish
from vbsvm.inference.climb_watch import UNWATCHED, Watch
from vbsvm.inference.proposals import Strategy, Visited
from vbsvm.missing.distributions import InputSums
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State

# What rounding can do to a bound, relatively: a step that gains less is small. Sums over many rows carry more, so that
# near the optimum even the paper's update may seem to lower it by as much as the second figure.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
AT_REST = 1e-11
# A climb is at rest where so many candidates lower the bound, and the best of them by less than the tolerance.
AT_REST_AFTER = 3
FALLING = 0.2


@final
class Ending(Enum):
    """Why a climb ended."""

    CONVERGED = "converged"
    OUT_OF_PASSES = "reached the limit of passes"
    INPUTS_OUT_OF_PASSES = "reached the limit of passes while the distribution of the inputs was learned"
    ROUNDING = "stopped: rounding errors outweighed every step"
    INTERRUPTED = "interrupted"

    def __reduce__(self) -> tuple[type["Ending"], tuple[str]]:
        """By its value, as skops asks for it; pickle and copy do the same on their own."""
        return Ending, (self.value,)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a climb ended: the state, the accepted bounds on the way, passes made, and why it ended.

    There are no bounds where the covariance of the coefficients is known by draws.

    ``others`` are the climbs from other starts, which ended no higher. ``inputs`` are the last pass's sums of the
    inputs, where some are missing. ``likelihood`` says which bound was climbed. Effects of groups may have been
    ``integrated`` out: then the state is not that of the bounds, and its spread is the posterior's; or that was
    ``declined``, as quadrature could not be trusted. Where no climb was
    needed for that, there are no bounds yet, and ``_later`` climbs over the rows when somebody asks for them.
    """

    state: State
    bounds: Array
    passes: int
    ending: Ending
    others: "tuple[Outcome, ...]" = ()
    inputs: InputSums | None = None
    likelihood: Likelihood = HINGE
    integrated: bool = False
    declined: bool = False
    _later: Callable[[Source], Array] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user has stopped it."""
        return self.ending is Ending.INTERRUPTED

    @property
    def exact(self) -> bool:
        """Whether the bound is the exact one."""
        return self.likelihood == self.likelihood.exact

    @property
    def waits(self) -> bool:
        """Whether its bounds are yet to be climbed."""
        return self._later is not None

    def finished(self) -> "Outcome":
        """This outcome, for those who can't use half of a climb: if Ctrl-C ended it, it is raised again."""
        if self.interrupted:
            raise KeyboardInterrupt
        return self

    def bounded(self, source: Source) -> "Outcome":
        """The same with its bounds."""
        return self if self._later is None else replace(self, bounds=self._later(source), _later=None)


def climb(
    spec: Spec,
    source: Source,
    start: State,
    strategy: Strategy,
    tol: float,
    max_passes: int,
    watch: Watch = UNWATCHED,
) -> Outcome:
    """Climb from a state until the bound rises no more."""
    earlier = watch.earlier()
    if earlier is not None and not earlier.interrupted:
        return earlier
    at = strategy.visit(spec, source, start if earlier is None else earlier.state)
    bounds = [] if earlier is None else earlier.bounds.tolist()
    bounds += [at.bound] if math.isfinite(at.bound) else []
    gains: list[float] = []
    passes, ending = 1 if earlier is None else earlier.passes + 1, Ending.OUT_OF_PASSES
    if at.left < max(tol, _rounding(at.bound)):
        ending = Ending.CONVERGED
    try:
        while passes < max_passes and ending is Ending.OUT_OF_PASSES:
            reached, tried = _step(spec, source, at, strategy, max_passes - passes, tol)
            passes += tried
            gain = reached.bound - at.bound
            noise = max(tol, _rounding(at.bound))
            if gain >= 0:
                at = reached
                bounds.append(at.bound)
                gains.append(gain)
                log.debug("pass %d: bound %.6f", passes, at.bound)
                watch.reached(Outcome(at.state, np.array(bounds), passes, Ending.INTERRUPTED), noise)
                ends = _stands_still(gains, noise) or (strategy.superlinear and _predicted(gains) < noise)
                if ends or at.left < noise:
                    ending = Ending.CONVERGED
            elif passes < max_passes:
                at_rest = gain >= -max(tol, AT_REST * abs(at.bound))
                ending = Ending.CONVERGED if at_rest else Ending.ROUNDING
        if ending is Ending.CONVERGED and tol <= polish.FINEST and strategy.polishing is not None:
            end, made = polish.polished(spec, source, at, strategy.polishing, max_passes - passes)
            passes += made
            if end.bound >= at.bound - polish.MOST_LOST * abs(at.bound):
                at, bounds = end, [*(one for one in bounds if one <= end.bound), end.bound]
    except KeyboardInterrupt:
        if not bounds:
            raise
        ending = Ending.INTERRUPTED
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        if not bounds:
            raise FloatingPointError(
                "The first step can't be made in floating point. The columns are of extremely different size, or "
                "depend on each other linearly under a prior that is nearly flat: standardise them, drop the "
                "dependent ones, or take a prior with a smaller variance."
            ) from error
        ending = Ending.ROUNDING
    if not bounds:
        raise FloatingPointError(
            "The bound is not a finite number after the first step: the inputs are too large for floating point. "
            "Standardise them (standardize=True) or rescale the largest columns."
        )
    trace = np.array(bounds)
    trace.flags.writeable = False
    inputs = None if spec.missing is None else getattr(at.stats.missing, "inputs", None)
    outcome = Outcome(at.state, trace, passes, ending, (), inputs, spec.likelihood)
    log.info("climb ended: %d passes, bound %.6f, %s", passes, trace[-1], ending.value)
    watch.ended(outcome)
    return outcome


def _step(
    spec: Spec, source: Source, at: Visited, strategy: Strategy, passes_left: int, tol: float
) -> tuple[Visited, int]:
    """First candidate that does not lower the bound, or else the one that lowers it least; and the passes it took.

    Where several lower it by less than the tolerance, there is nothing left to gain.
    """
    best, tried, failure = None, 0, None
    with np.errstate(all="ignore"):  # a bold candidate may overflow: its bound is then not finite, and it is refused
        for candidate in islice(strategy.candidates(spec, at), passes_left):
            tried += 1
            try:
                reached = strategy.visit(spec, source, candidate)
            except (FloatingPointError, np.linalg.LinAlgError) as error:
                failure = error
                continue
            if best is None or math.isnan(best.bound) or reached.bound > best.bound:
                best = reached
            slack = tol if tried >= AT_REST_AFTER else 0.0
            if best.bound >= at.bound - max(slack, _rounding(at.bound)):
                return best, tried
    if best is None:
        assert failure is not None  # every strategy yields the paper's update at least
        raise failure
    return best, tried


def _stands_still(gains: list[float], noise: float) -> bool:
    """Whether two steps in a row gained next to nothing; or one, after gains that fell to a fifth and less."""
    small = [gain < noise for gain in gains[-2:]]
    if not small or not small[-1]:
        return False
    falling = len(gains) > 2 and gains[-1] < FALLING * gains[-2] and gains[-2] < FALLING * gains[-3]
    return len(small) == 2 and (all(small) or falling)


def _predicted(gains: list[float]) -> float:
    """What the next step may gain at most, where gains fall faster and faster, as they do in the profiled climb.

    A gain that fell much faster than quadratically is an accident, which says little about the next.
    """
    if len(gains) < 3 or not 0 < gains[-2] < FALLING * gains[-3] < math.inf:  # the start is infinitely low
        return math.inf
    before, last = gains[-2] / gains[-3], gains[-1] / gains[-2]
    return 30 * gains[-1] * (last if last > 0.1 * before**2 else before)


def _rounding(value: float) -> float:
    """How much of a bound of this size is rounding; nothing at a start, whose bound is minus infinity."""
    return ROUNDING * abs(value) if math.isfinite(value) else 0.0
