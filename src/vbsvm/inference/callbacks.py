"""Callbacks of an optimisation: progress on a line, and a file from which an interrupted one goes on."""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from vbsvm.base.printing import SharedLine, is_interactive
from vbsvm.storage import saving
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import MODELS
from vbsvm.version import __version__

if TYPE_CHECKING:
    from vbsvm.inference.loop import OptimizeResult

FORMAT, SCHEMA = "vbsvm climb", 1
REGISTRY = Registry(MODELS)
# Seconds between two writes of the file, and before progress is shown for rows in memory.
SECONDS_BETWEEN = SECONDS_BEFORE = 5.0


class Callback:
    """Callback of the optimisations of a run, which does nothing by default."""

    _line: SharedLine | None = None

    def previous(self) -> "OptimizeResult | None":
        """Result of the next optimisation in an earlier, interrupted run, or None."""
        return None

    def on_step(self, result: "OptimizeResult", tol: float) -> None:
        """An optimisation has accepted a step."""

    def on_end(self, result: "OptimizeResult") -> None:
        """An optimisation has ended."""

    def close(self) -> None:
        """Show nothing more."""
        if self._line is not None:
            self._line.end(self)


NULL_CALLBACK = Callback()


@final
class ProgressCallback(Callback):
    """Progress line in a terminal, shown once an optimisation has taken some seconds."""

    def __init__(self) -> None:
        self._line, self._begun, self._passes = SharedLine() if is_interactive() else None, time.monotonic(), 0

    def on_step(self, result: "OptimizeResult", tol: float) -> None:
        """Show it if this takes long."""
        seconds = time.monotonic() - self._begun
        if self._line is not None and seconds > SECONDS_BEFORE:
            passes = self._passes + result.passes
            self._line.show(self, _progress(result, passes, seconds / max(1, passes), tol))

    def on_end(self, result: "OptimizeResult") -> None:
        """Count its passes."""
        self._passes += result.passes


@final
class CheckpointCallback(Callback):
    """Saves the results of a run in a checkpoint file, the last one unfinished, and shows progress.

    The file is removed by ``finish``. One that can't be read, or belongs to another run, is not used.
    """

    def __init__(self, path: Path, about: str, line: SharedLine | None) -> None:
        self._path, self._about, self._line = path, about, line
        self._before = self._read()
        self._results: list[OptimizeResult] = []
        self._written = self._begun = time.monotonic()
        self._passes_before = sum(result.passes for result in self._before)

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
            self._results.append(result)
        return result

    def on_step(self, result: "OptimizeResult", tol: float) -> None:
        """Keep it from time to time, and show it."""
        if self._line is not None:
            passes = sum(earlier.passes for earlier in self._results) + result.passes
            seconds = (time.monotonic() - self._begun) / max(1, passes - self._passes_before)
            self._line.show(self, _progress(result, passes, seconds, tol))
        if time.monotonic() - self._written > SECONDS_BETWEEN:
            self._write([*self._results, result])

    def on_end(self, result: "OptimizeResult") -> None:
        """Keep it."""
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


def _progress(result: "OptimizeResult", passes: int, seconds: float, tol: float) -> str:
    """How far an optimisation is, and how long it may take; ``seconds`` is the time of a pass."""
    gains, left = np.diff(result.bounds[-3:]), ""
    if len(gains) == 2 and gains[0] > gains[1] > tol:
        n_left = int(np.ceil(np.log(gains[1] / tol) / np.log(gains[0] / gains[1])))
        left = f", about {n_left} more ({n_left * seconds:.0f} s)"
    return f"Pass {passes}: bound {result.bounds[-1]:.3f}, {seconds:.1f} s a pass{left}"
