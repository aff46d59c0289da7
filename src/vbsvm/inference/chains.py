"""Several chains on their way: rounds, processes, progress and checkpoints, whatever a chain does in a round."""

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, final

import numpy as np
from joblib import Parallel, delayed, parallel_config

from vbsvm.base import progress
from vbsvm.base.log import log
from vbsvm.inference import checkpoint

ROUNDS = 40
# Below this many seconds of work it is not worth it to start processes.
WORTH_A_PROCESS = 8.0
# Seconds between two checkpoints.
SECONDS_BETWEEN = 10.0


class Chain(Protocol):
    """A chain on its way."""

    @property
    def done(self) -> int:
        """Sweeps so far."""
        ...

    @property
    def content(self) -> tuple[object, ...]:
        """What a checkpoint keeps."""
        ...

    def fresh(self) -> Self:
        """The chain without its draws: what another process needs of it."""
        ...

    def after(self, part: Self) -> Self:
        """Join what a part has drawn to what was there."""
        ...


C = TypeVar("C", bound=Chain)


@final
@dataclass(frozen=True, eq=False)
class Run(Generic[C]):
    """The chains of one model, and in how many processes they go on (0 before that is known).

    ``advance`` takes a chain to a number of sweeps; ``about`` tells this run from others in its checkpoint.
    """

    advance: Callable[[C, int], C]
    chains: list[C]
    sweeps: int
    path: str | os.PathLike[str] | None
    about: dict[str, object]
    n_jobs: int = 0

    @property
    def done(self) -> int:
        """Sweeps of each chain so far."""
        return self.chains[0].done

    def advanced(self, end: int) -> "Run[C]":
        """Sweep on to the end of the round; the first one shows whether processes are worth it."""
        if self.done >= end:
            return self
        begin = time.perf_counter()
        chains = self._swept(end)
        if self.n_jobs:
            return replace(self, chains=chains)
        left = (time.perf_counter() - begin) * (self.sweeps - end) / (end - self.done)
        return replace(self, chains=chains, n_jobs=-1 if len(chains) > 1 and left > WORTH_A_PROCESS else 1)

    def _swept(self, end: int) -> list[C]:
        if self.n_jobs >= 0:
            return [self.advance(chain, end) for chain in self.chains]
        work = (delayed(self.advance)(chain.fresh(), end) for chain in self.chains)
        with parallel_config(backend="loky", inner_max_num_threads=1):
            moved: Any = Parallel(n_jobs=self.n_jobs)(work)
        return [one.after(two) for one, two in zip(self.chains, moved, strict=True)]

    def write_checkpoint(self) -> None:
        """Write the chains, where there is a place for them."""
        if self.path is not None:
            checkpoint.write(self.path, self.about, [chain.content for chain in self.chains])

    def remove_checkpoint(self) -> None:
        """A finished run needs none."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


def run_rounds(runs: list[Run[C]], sweeps: int) -> tuple[list[Run[C]], bool]:
    """Take all runs to their last sweep, in turn; and whether Ctrl-C ended that early."""
    runs, written = list(runs), time.perf_counter()
    with _progress(sweeps * len(runs)) as report:
        try:
            for end in dict.fromkeys(math.ceil(end) for end in np.linspace(0, sweeps, ROUNDS + 1)[1:]):
                for k, run in enumerate(runs):
                    runs[k] = run.advanced(end)
                    report(sum(run.done for run in runs))
                log.debug("%d of %d sweeps", end, sweeps)
                if time.perf_counter() - written > SECONDS_BETWEEN:
                    _write_all(runs)
                    written = time.perf_counter()
        except KeyboardInterrupt:
            _write_all(runs)
            return runs, True
    for run in runs:
        run.remove_checkpoint()
    log.info("chains ended after %d sweeps", sweeps)
    return runs, False


def _write_all(runs: list[Run[C]]) -> None:
    for run in runs:
        run.write_checkpoint()


def _progress(total: int) -> AbstractContextManager[Callable[[int], None]]:
    """A bar, where somebody looks."""
    return progress.bar("sweeps", total)
