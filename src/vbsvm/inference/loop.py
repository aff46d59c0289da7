"""The optimisation loop: steps that a rule proposes are taken while they raise the bound; and why it ends.

Its callbacks show progress on a line, and save a file from which an interrupted run goes on.
"""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ProgressLine
from vbsvm.base.settings import log
from vbsvm.inference.steps import AndersonNewton, FixedPoint, Iterate, NaturalGradient, StepRule, largest_change
from vbsvm.missing.distributions import InputSums
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.likelihoods.hinge import HINGE
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.storage import saving
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import MODELS
from vbsvm.version import __version__

FORMAT, SCHEMA = "vbsvm climb", 1
REGISTRY = Registry(MODELS)
# Seconds between two writes of the file.
SECONDS_BETWEEN = 5.0


class Callback:
    """Callback of the optimisations of a run: it shows progress on a line."""

    def __init__(self, verbose: int | None = None) -> None:
        self._line, self._begun = ProgressLine(verbose), time.monotonic()
        self._passes = self._passes_before = 0

    def previous(self) -> "OptimizeResult | None":
        """Result of the next optimisation in an earlier, interrupted run, or None."""
        return None

    def on_step(self, result: "OptimizeResult", tol: float) -> None:
        """An optimisation has accepted a step."""
        passes = self._passes + result.passes
        seconds = (time.monotonic() - self._begun) / max(1, passes - self._passes_before)
        gains, left = np.diff(result.bounds[-3:]), ""
        if len(gains) == 2 and gains[0] > gains[1] > tol:
            n_left = int(np.ceil(np.log(gains[1] / tol) / np.log(gains[0] / gains[1])))
            left = f", about {n_left} more ({n_left * seconds:.0f} s)"
        self._line.show(f"Pass {passes}: bound {result.bounds[-1]:.3f}, {seconds:.1f} s a pass{left}")

    def on_end(self, result: "OptimizeResult") -> None:
        """An optimisation has ended."""
        self._passes += result.passes

    def close(self) -> None:
        """Show nothing more."""
        self._line.end()


@final
class CheckpointCallback(Callback):
    """Saves the results of a run in a checkpoint file, the last one unfinished, and shows progress.

    The file is removed by ``finish``. One that can't be read, or belongs to another run, is not used.
    """

    def __init__(self, path: Path, about: str, verbose: int | None) -> None:
        super().__init__(verbose)
        self._path, self._about = path, about
        self._before = self._read()
        self._results: list[OptimizeResult] = []
        self._written, self._passes_before = self._begun, sum(result.passes for result in self._before)

    @staticmethod
    def digest(*content: Any) -> str:
        """Digest that identifies a run."""
        digest = hashlib.sha256(__version__.encode())
        for part in content:
            tree, arrays = REGISTRY.encode(part, "a run")
            digest.update(repr(tree).encode("utf-8", "surrogatepass"))
            for array in arrays:
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def previous(self) -> "OptimizeResult | None":
        """How the next optimisation ended in an earlier run."""
        result = self._before.pop(0) if self._before else None
        if result is not None and not result.interrupted:
            self.on_end(result)
        return result

    def on_step(self, result: "OptimizeResult", tol: float) -> None:
        """Keep it from time to time, and show it."""
        super().on_step(result, tol)
        if time.monotonic() - self._written > SECONDS_BETWEEN:
            self._write([*self._results, result])

    def on_end(self, result: "OptimizeResult") -> None:
        """Keep it."""
        super().on_end(result)
        if result.interrupted:
            self._write([*self._results, result])
        else:
            self._results.append(result)

    def finish(self) -> None:
        """Remove the file, as the run is at its end."""
        self._path.unlink(missing_ok=True)

    def _write(self, results: "list[OptimizeResult]") -> None:
        tree, arrays = REGISTRY.encode(results, "a climb")
        with suppress(OSError):  # an optimisation can go on without it
            saving.write_archive(self._path, FORMAT, SCHEMA, saving.Archive({"about": self._about}, tree, arrays))
        self._written = time.monotonic()

    def _read(self) -> "list[OptimizeResult]":
        try:
            file = saving.read_archive(self._path, FORMAT, SCHEMA)
            return REGISTRY.decode(file.tree, file.arrays) if file.about["about"] == self._about else []
        except Exception:  # whatever is wrong with it, it can be done without
            return []


@final
@dataclass(frozen=True)
class Options:
    """When an optimisation ends, and how its end is refined."""

    # What rounding can do to a bound, relatively: a step that gains less is small.
    rounding: float = 8 * float(np.finfo(np.float64).eps)
    # Sums over many rows carry more, so that near the optimum even CAVI may seem to lower the bound by as much as this.
    rounding_of_sums: float = 1e-11
    # Converged where this many candidates lower the bound, and the best of them by less than the tolerance.
    min_refused: int = 3
    # Gains fall fast where each is less than this fraction of the one before.
    fast: float = 0.2
    # Who sets a tolerance as small as this wants the maximum itself: then the end is refined.
    refined_tol: float = 1e-11
    # A step has no length where no number of the state changes by more than this.
    min_step: float = 1e-12
    # How much lower the refined end may be, relatively: with quadrature over missing predictors, the bound and its
    # gradient agree to about this.
    max_lost: float = 1e-9
    # Passes of a refinement in all, and in a row without a shorter step.
    max_passes: int = 100
    patience: int = 5


OPTIONS = Options()


@final
class Status(Enum):
    """Why an optimisation ended."""

    CONVERGED = "converged"
    OUT_OF_PASSES = "reached the limit of passes"
    INPUTS_OUT_OF_PASSES = "reached the limit of passes while the distribution of the predictors was estimated"
    ROUNDING = "stopped: rounding errors outweighed every step"
    INTERRUPTED = "interrupted"

    def __reduce__(self) -> tuple[type["Status"], tuple[str]]:
        """By its value, as skops asks for it; pickle and copy do the same on their own."""
        return Status, (self.value,)


@final
@dataclass(frozen=True, slots=True, eq=False)
class OptimizeResult:
    """Result of an optimisation: final state, accepted bounds, number of passes, and status.

    There are no bounds where the covariance of the coefficients is known by draws.

    ``others`` are the results from other starts, which ended no higher. ``inputs`` are the last pass's sums of the
    predictors, if missing. ``likelihood`` says which bound was maximised. Random effects may have been
    ``integrated`` out: then the state is not that of the bounds, and its covariance is the posterior's; or that was
    ``declined``, as quadrature could not be trusted. Where the bound was not needed for that, there are no bounds yet,
    and ``_later`` maximises it when somebody asks for them.
    """

    state: State
    bounds: Array
    passes: int
    ending: Status
    others: "tuple[OptimizeResult, ...]" = ()
    inputs: InputSums | None = None
    likelihood: Likelihood = HINGE
    integrated: bool = False
    declined: bool = False
    _later: Callable[[Source], Array] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user has stopped it."""
        return self.ending is Status.INTERRUPTED

    @property
    def converged(self) -> bool:
        """Whether it reached an optimum."""
        return self.ending is Status.CONVERGED

    @property
    def exact(self) -> bool:
        """Whether the bound is the exact one."""
        return self.likelihood == self.likelihood.exact

    @property
    def bounds_deferred(self) -> bool:
        """Whether its bounds are yet to be maximised."""
        return self._later is not None

    def finished(self) -> "OptimizeResult":
        """Return this result; raise KeyboardInterrupt if it was interrupted."""
        if self.interrupted:
            raise KeyboardInterrupt
        return self

    def with_bounds(self, source: Source) -> "OptimizeResult":
        """Copy with the bounds computed, if they were deferred."""
        return self if self._later is None else replace(self, bounds=self._later(source), _later=None)


def optimize(
    spec: Spec,
    source: Source,
    start: State,
    rule: StepRule,
    tol: float,
    max_passes: int,
    callback: Callback | None = None,
) -> OptimizeResult:
    """Maximise the bound from a state, by the steps of a rule."""
    callback = Callback() if callback is None else callback
    previous = callback.previous()
    if previous is not None and not previous.interrupted:
        return previous
    iterate = rule.evaluate(spec, source, start if previous is None else previous.state)
    passes, bounds = (1, []) if previous is None else (previous.passes + 1, previous.bounds.tolist())
    run = _Run(spec, source, rule, tol, max_passes, iterate, passes, bounds)
    try:
        while run.passes < max_passes and run.status is Status.OUT_OF_PASSES:
            if run.step():
                callback.on_step(run.result(Status.INTERRUPTED), run.noise)
        if run.status is Status.CONVERGED and tol <= OPTIONS.refined_tol and rule.refinement is not None:
            run.refine(rule.refinement)
    except KeyboardInterrupt:
        if not run.bounds:
            raise
        run.status = Status.INTERRUPTED
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        if not run.bounds:
            raise FloatingPointError(
                "The first step can't be made in floating point. The columns are of extremely different size, or "
                "are collinear under a prior that is nearly flat: standardise them, drop the "
                "dependent ones, or use a prior with a smaller variance."
            ) from error
        run.status = Status.ROUNDING
    if not run.bounds:
        raise FloatingPointError(
            "The bound is not a finite number after the first step: the predictors are too large for floating point. "
            "Standardise them (standardize=True) or rescale the largest columns."
        )
    inputs = None if spec.missing is None else getattr(run.iterate.stats.missing, "inputs", None)
    result = replace(run.result(run.status), inputs=inputs, likelihood=spec.likelihood)
    result.bounds.flags.writeable = False
    log.info("optimisation ended: %d passes, bound %.6f, %s", run.passes, result.bounds[-1], run.status.value)
    callback.on_end(result)
    return result


@final
@dataclass(eq=False)
class _Run:
    """An optimisation under way: its last accepted iterate and bounds, and whether it goes on."""

    spec: Spec
    source: Source
    rule: StepRule
    tol: float
    max_passes: int
    iterate: Iterate
    passes: int
    bounds: list[float]

    def __post_init__(self) -> None:
        """Take the first iterate's bound."""
        if math.isfinite(self.iterate.bound):
            self.bounds.append(self.iterate.bound)
        self.gains: list[float] = []
        self.noise = max(self.tol, _rounding(self.iterate.bound))
        self.status = Status.CONVERGED if self.iterate.remaining_gain < self.noise else Status.OUT_OF_PASSES

    def result(self, status: Status) -> OptimizeResult:
        """The present state, as the result of an optimisation that ended like this."""
        return OptimizeResult(self.iterate.state, np.array(self.bounds), self.passes, status)

    def step(self) -> bool:
        """Take a step and return whether it was accepted; one that is not is the last."""
        reached, tried = self._best_candidate()
        self.passes += tried
        before = self.iterate.bound
        gain, self.noise = reached.bound - before, max(self.tol, _rounding(before))
        if gain >= 0:
            self.iterate = reached
            self.bounds.append(reached.bound)
            self.gains.append(gain)
            log.debug("pass %d: bound %.6f", self.passes, reached.bound)
            ends = _stands_still(self.gains, self.noise)
            ends = ends or (self.rule.superlinear and _predicted(self.gains) < self.noise)
            if ends or reached.remaining_gain < self.noise:
                self.status = Status.CONVERGED
            return True
        if self.passes < self.max_passes:
            at_optimum = gain >= -max(self.tol, OPTIONS.rounding_of_sums * abs(before))
            self.status = Status.CONVERGED if at_optimum else Status.ROUNDING
        return False

    def _best_candidate(self) -> tuple[Iterate, int]:
        """First candidate that does not lower the bound, or else that which lowers it least; and the passes made."""
        best, tried, failure, before = None, 0, None, self.iterate.bound
        with np.errstate(all="ignore"):  # a bold candidate may overflow: its bound is not finite, and it is refused
            candidates = self.rule.candidates(self.spec, self.iterate)
            for candidate in islice(candidates, self.max_passes - self.passes):
                tried += 1
                try:
                    reached = self.rule.evaluate(self.spec, self.source, candidate)
                except (FloatingPointError, np.linalg.LinAlgError) as error:
                    failure = error
                    continue
                if best is None or math.isnan(best.bound) or reached.bound > best.bound:
                    best = reached
                slack = self.tol if tried >= OPTIONS.min_refused else 0.0
                if best.bound >= before - max(slack, _rounding(before)):
                    return best, tried
        if best is None:
            assert failure is not None  # every rule yields a candidate at least
            raise failure
        return best, tried

    def refine(self, rule: AndersonNewton | NaturalGradient) -> None:
        """Refine beyond the resolution of the bound, by steps judged by their length."""
        best, made = refined(self.spec, self.source, self.iterate, rule, self.max_passes - self.passes)
        self.passes += made
        if best.bound >= self.iterate.bound - OPTIONS.max_lost * abs(self.iterate.bound):
            self.iterate = best
            self.bounds = [*(one for one in self.bounds if one <= best.bound), best.bound]


def refined(
    spec: Spec, source: Source, end: Iterate, rule: AndersonNewton | NaturalGradient, max_passes: int
) -> tuple[Iterate, int]:
    """Nearby state with the shortest next step, and the number of passes used."""
    fixed_point, shortest, best, state, passes, since = FixedPoint(), math.inf, end, end.state, 0, 0
    with np.errstate(all="ignore"):  # an extrapolated state may overflow, and is then taken back
        while passes < min(max_passes, OPTIONS.max_passes) and since < OPTIONS.patience and shortest > OPTIONS.min_step:
            passes, since = passes + 1, since + 1
            iterate = image = None
            with suppress(FloatingPointError, np.linalg.LinAlgError):
                iterate = rule.evaluate(spec, source, state)
                image = rule.full_step(spec, iterate)
            length = math.inf if image is None else largest_change(state.packed, image.packed)
            if iterate is None or image is None or not math.isfinite(length):
                if fixed_point.fallback is None:
                    break
                state = fixed_point.undo()
                continue
            if length < shortest:
                shortest, best, since = length, iterate, 0
            state = fixed_point.advance(image, state.packed, image.packed)
    return best, passes


def _stands_still(gains: list[float], noise: float) -> bool:
    """Whether gains are negligible twice in a row, or once after gains that fell by a factor of five or more."""
    if len(gains) < 2 or not gains[-1] < noise:
        return False
    fast = OPTIONS.fast
    falling = len(gains) > 2 and gains[-1] < fast * gains[-2] and gains[-2] < fast * gains[-3]
    return gains[-2] < noise or falling


def _predicted(gains: list[float]) -> float:
    """Upper bound on the next gain under superlinear convergence; one that fell faster still is an accident."""
    if len(gains) < 3 or not 0 < gains[-2] < OPTIONS.fast * gains[-3] < math.inf:  # the start is infinitely low
        return math.inf
    before, last = gains[-2] / gains[-3], gains[-1] / gains[-2]
    return 30 * gains[-1] * (last if last > 0.1 * before**2 else before)


def _rounding(value: float) -> float:
    """Rounding error of a bound of this size; 0 for minus infinity."""
    return OPTIONS.rounding * abs(value) if math.isfinite(value) else 0.0
