"""Watching a climb: how far it has got is told, and kept in a file from which an interrupted one goes on."""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from vbsvm.base.progress import SharedLine, somebody_looks
from vbsvm.storage import archive
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import MODELS
from vbsvm.version import __version__

if TYPE_CHECKING:
    from vbsvm.inference.climb import Outcome

FORMAT, SCHEMA = "vbsvm climb", 1
REGISTRY = Registry(MODELS)
SECONDS_BETWEEN = SECONDS_BEFORE = 5.0


class Watch(Protocol):
    """What is told of the climbs of one run, one after another."""

    def earlier(self) -> "Outcome | None":
        """How the next climb ended in an earlier run that was interrupted; None where it is new."""
        ...

    def reached(self, outcome: "Outcome", tol: float) -> None:
        """A climb that is under way has reached this."""
        ...

    def ended(self, outcome: "Outcome") -> None:
        """A climb has ended."""
        ...


@final
class Unwatched:
    """Nobody looks."""

    def earlier(self) -> "Outcome | None":
        """Every climb is new."""
        return None

    def reached(self, outcome: "Outcome", tol: float) -> None:
        """Nothing is told."""

    def ended(self, outcome: "Outcome") -> None:
        """Nothing is told."""


UNWATCHED = Unwatched()


@final
class SlowWatch:
    """Shows iterations on a line where somebody looks, once an optimisation in memory has taken some seconds."""

    def __init__(self) -> None:
        self._line, self._begun, self._passes = SharedLine() if somebody_looks() else None, time.monotonic(), 0

    def earlier(self) -> "Outcome | None":
        """Every climb is new."""
        return None

    def reached(self, outcome: "Outcome", tol: float) -> None:
        """Show it if this takes long."""
        seconds = time.monotonic() - self._begun
        if self._line is not None and seconds > SECONDS_BEFORE:
            passes = self._passes + outcome.passes
            self._line.show(self, _told(outcome, passes, seconds / max(1, passes), tol))

    def ended(self, outcome: "Outcome") -> None:
        """Count its passes."""
        self._passes += outcome.passes

    def leave(self) -> None:
        """Show nothing more."""
        if self._line is not None:
            self._line.end(self)


@final
class ClimbWatch:
    """Keeps the outcomes of a run's climbs in a file, the last of them unfinished; and shows passes on a line.

    The file is removed by ``finish``. One that can't be read, or belongs to another run, is not used.
    """

    def __init__(self, path: Path, about: str, line: SharedLine | None) -> None:
        self._path, self._about, self._line = path, about, line
        self._before = self._read()
        self._climbs: list[Outcome] = []
        self._written = self._begun = time.monotonic()
        self._passes_before = sum(climb.passes for climb in self._before)

    @staticmethod
    def digest(*content: Any) -> str:
        """A short text that tells runs apart."""
        found = hashlib.sha256(__version__.encode())
        for one in content:
            tree, arrays = REGISTRY.encode(one, "a run")
            found.update(repr(tree).encode("utf-8", "surrogatepass"))
            for array in arrays:
                found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]

    def earlier(self) -> "Outcome | None":
        """How the next climb ended in an earlier run."""
        found = self._before.pop(0) if self._before else None
        if found is not None and not found.interrupted:
            self._climbs.append(found)
        return found

    def reached(self, outcome: "Outcome", tol: float) -> None:
        """Keep it from time to time, and show it."""
        if self._line is not None:
            passes = sum(climb.passes for climb in self._climbs) + outcome.passes
            a_pass = (time.monotonic() - self._begun) / max(1, passes - self._passes_before)
            self._line.show(self, _told(outcome, passes, a_pass, tol))
        if time.monotonic() - self._written > SECONDS_BETWEEN:
            self._write([*self._climbs, outcome])

    def ended(self, outcome: "Outcome") -> None:
        """Keep it."""
        if outcome.interrupted:
            self._write([*self._climbs, outcome])
        else:
            self._climbs.append(outcome)

    def finish(self) -> None:
        """Take note that the run is at its end."""
        self._path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Show nothing more."""
        if self._line is not None:
            self._line.end(self)

    def _write(self, climbs: "list[Outcome]") -> None:
        tree, arrays = REGISTRY.encode(climbs, "a climb")
        with suppress(OSError):  # a climb can go on without it
            archive.write(self._path, FORMAT, SCHEMA, archive.Archive({"about": self._about}, tree, arrays))
        self._written = time.monotonic()

    def _read(self) -> "list[Outcome]":
        try:
            file = archive.read(self._path, FORMAT, SCHEMA)
            return REGISTRY.decode(file.tree, file.arrays) if file.about["about"] == self._about else []
        except Exception:  # whatever is wrong with it, it can be done without
            return []


def _told(outcome: "Outcome", passes: int, a_pass: float, tol: float) -> str:
    """How far a climb is, and how long it may take; ``a_pass`` is the time of one."""
    gains, left = np.diff(outcome.bounds[-3:]), ""
    if len(gains) == 2 and gains[0] > gains[1] > tol:
        n_left = int(np.ceil(np.log(gains[1] / tol) / np.log(gains[0] / gains[1])))
        left = f", about {n_left} more ({n_left * a_pass:.0f} s)"
    return f"Pass {passes}: bound {outcome.bounds[-1]:.3f}, {a_pass:.1f} s a pass{left}"
