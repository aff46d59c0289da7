"""Several chains on their way: rounds, processes, progress and checkpoints, whatever a chain does in a round."""

import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from joblib import cpu_count

from vbsvm.base import printing
from vbsvm.base.arrays import Array
from vbsvm.base.settings import log
from vbsvm.base.workers import WorkerError, Workers
from vbsvm.missing.model import MissingSums
from vbsvm.model.spec import State
from vbsvm.storage import atomic, saving
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import CHAINS

FORMAT, SCHEMA = "vbsvm chains", 4
_REGISTRY = Registry(CHAINS)
ROUNDS = 40
# Below this many seconds of work it is not worth it to start processes.
WORTH_A_PROCESS = 8.0
# Seconds between two checkpoints: at least SECONDS_BETWEEN, and WRITES_BETWEEN times those that writing takes.
SECONDS_BETWEEN = 10.0
WRITES_BETWEEN = 30.0


# Coefficients, indicators, and the scale of each block; of one draw, or of many.
Drawn = tuple[Array, Array | None, tuple[Array, ...]]


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """A chain that is being run: its state, its step size, and its draws so far."""

    seed: int
    number: int
    state: State
    step: float
    done: int = 0
    draws: tuple[Drawn, ...] = ()
    losses: tuple[int, int, int] = (0, 0, 0)  # draws, draws without loss, moves taken
    missing: MissingSums | None = None

    @property
    def content(self) -> tuple[object, ...]:
        """Content for a checkpoint: all fields."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def without_draws(self) -> "Chain":
        """The chain without its draws, to be sent to another process; sums go along, to be added in the same order."""
        return replace(self, draws=())

    def append(self, part: "Chain") -> "Chain":
        """Append the draws of a continuation."""
        return replace(part, draws=(*self.draws, *part.draws))


@final
@dataclass(frozen=True, eq=False)
class Run:
    """The chains of one model; ``elsewhere`` says whether they run in other processes (None if undecided).

    ``advance`` takes a chain to a number of sweeps; ``about`` tells this run from others in its checkpoint.
    """

    advance: Callable[[tuple[Chain, int]], Chain]
    chains: list[Chain]
    sweeps: int
    path: str | os.PathLike[str] | None
    about: dict[str, object]
    elsewhere: bool | None = None

    @property
    def done(self) -> int:
        """Sweeps of each chain so far."""
        return self.chains[0].done

    def advance_to(self, end: int) -> "Run":
        """Sweep all chains to ``end`` in this process; the first round decides whether others are worth it."""
        begin = time.perf_counter()
        chains = [self.advance((chain, end)) for chain in self.chains]
        seconds_left = (time.perf_counter() - begin) * (self.sweeps - end) / (end - self.done)
        worth = len(chains) > 1 and seconds_left > WORTH_A_PROCESS if self.elsewhere is None else self.elsewhere
        return replace(self, chains=chains, elsewhere=worth)

    def append(self, parts: list[Chain]) -> "Run":
        """Append the draws of other processes."""
        return replace(self, chains=[chain.append(part) for chain, part in zip(self.chains, parts, strict=True)])


def run_rounds(runs: list[Run], sweeps: int) -> tuple[list[Run], bool]:
    """Advance all runs to their last sweep, round by round; return them and whether Ctrl-C interrupted."""
    runs, checkpoints = list(runs), _Checkpoints()
    with (
        printing.bar(f"sweeps of {sum(len(run.chains) for run in runs)} chains", sweeps * len(runs)) as report,
        closing(_ChainPool([run.advance for run in runs])) as pool,
    ):
        try:
            for end in dict.fromkeys(math.ceil(end) for end in np.linspace(0, sweeps, ROUNDS + 1)[1:]):
                for k, run in enumerate(runs):
                    runs[k] = pool.advance_to(k, run, end)
                    report(sum(run.done for run in runs))
                log.debug("%d of %d sweeps", end, sweeps)
                checkpoints.write_if_due(runs)
        except KeyboardInterrupt:
            checkpoints.write(runs)
            return runs, True
    for run in runs:
        checkpoints.remove(run)
    log.info("chains ended after %d sweeps", sweeps)
    return runs, False


class _ChainPool:
    """Runs chains in this process, or in worker processes once that is worth it; but never in those of a worker."""

    def __init__(self, advances: list[Callable[[tuple[Chain, int]], Chain]]) -> None:
        self._advances = advances
        self._workers: Workers | None = None
        self._alone = multiprocessing.parent_process() is not None or getattr(sys, "frozen", False)

    def advance_to(self, k: int, run: Run, end: int) -> Run:
        """Advance run ``k`` to the end of the round."""
        if run.done >= end:
            return run
        n = min(len(run.chains), cpu_count())
        if not run.elsewhere or self._alone or n == 1:
            return run.advance_to(end)
        try:
            if self._workers is None:
                self._workers = Workers(self._advances, n)
            return run.append(self._workers.call(k, [(chain.without_draws(), end) for chain in run.chains]))
        except WorkerError as error:
            self._alone = True
            self.close()
            warnings.warn(f"Gibbs: the chains go on in one process, with the same draws ({error}).", stacklevel=2)
            return run.advance_to(end)

    def close(self) -> None:
        """Close the workers, which are started on demand."""
        if self._workers is not None:
            self._workers.close()


class _Checkpoints:
    """Writes checkpoints from time to time; a failure to write does not end a run."""

    def __init__(self) -> None:
        self._due = time.perf_counter() + SECONDS_BETWEEN
        self._warned: set[str] = set()

    def write_if_due(self, runs: list[Run]) -> None:
        """Write all runs if a checkpoint is due; after a failure, at the end of the next round."""
        begin = time.perf_counter()
        if begin >= self._due:
            written = self.write(runs)
            now = time.perf_counter()
            self._due = now + max(SECONDS_BETWEEN if written else 0.0, WRITES_BETWEEN * (now - begin))

    def write(self, runs: list[Run]) -> bool:
        """Write all runs that have a file; return whether that succeeded, and warn once of a failure."""
        written = [self._tried(run, "written", self._write) for run in runs if run.path is not None]
        return all(written)

    def remove(self, run: Run) -> None:
        """Remove the checkpoint of a finished run."""
        if run.path is not None:
            self._tried(run, "removed", lambda run: atomic.remove(run.path))

    @staticmethod
    def _write(run: Run) -> None:
        write_checkpoint(run.path or "", run.about, [chain.content for chain in run.chains])

    def _tried(self, run: Run, what: str, call: Callable[[Any], None]) -> bool:
        try:
            call(run)
        except (OSError, MemoryError) as error:
            told = f"Gibbs: the checkpoint {os.fspath(run.path or '')} can't be {what}"
            if told not in self._warned:
                self._warned.add(told)
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                warnings.warn(f"{told} ({why}). {_ADVICE[what]}", stacklevel=2)
            return False
        return True


_ADVICE = {
    "written": "Sampling goes on, and tries again after each round; an older checkpoint is as it was.",
    "removed": "The run is complete: remove the file by hand, as it is of no use any more.",
}


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run."""


def write_checkpoint(path: str | os.PathLike[str], about: dict[str, object], content: object) -> None:
    """Write what the run is about, and its chains."""
    saving.write_archive(path, FORMAT, SCHEMA, saving.Archive({"about": about}, *_REGISTRY.encode(content, "a chain")))


def read_checkpoint(path: str | os.PathLike[str], about: dict[str, object]) -> list[Any] | None:
    """Chains of an earlier run of the same; None where there is no file. A file of another run is refused."""
    if not Path(path).exists():
        return None
    try:
        file = saving.read_archive(path, FORMAT, SCHEMA)
        found = file.about["about"]
        chains = _REGISTRY.decode(file.tree, file.arrays)
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} can't be read ({error}): remove it to start again.") from error
    if found != about:
        different = [name for name in about if found.get(name) != about[name]]
        raise CheckpointError(
            f"The checkpoint {path} belongs to another run (different: {', '.join(different)}): choose another "
            "file, or remove it to start again."
        )
    return chains
