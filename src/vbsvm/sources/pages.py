"""Memory-mapped arrays whose pages are let go once they have been read, so that they do not pile up in memory."""

import mmap
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.progress import SharedLine

B = TypeVar("B")
# Numbers of a row that a climb keeps where looks at the rows are cheap.
KEPT_OF_ROW = 12
# Rows that are counted at a time; and about how many bytes of a row stand beside its inputs: label, weight, groups.
RUN = 2**17
BESIDE = 64


@final
class Pages:
    """The maps of some arrays, and how many bytes of them may stay in memory; the system reads them again when asked.

    ``limit`` is what rows may take in all: pages a quarter of it, and what a climb keeps of each row one half. Unless
    it is ``kept``, the ``folder`` that they lie in is removed with them, once a fit has been finished.
    """

    def __init__(
        self, arrays: Sequence[NDArray[Any]], limit: int, folder: Path | None = None, *, kept: bool = True
    ) -> None:
        self._maps = [found for array in arrays if (found := _map_of(array)) is not None]
        self.limit, self.folder, self._kept, self._seen = limit, folder, kept, 0
        self.line: SharedLine | None = None  # on which climbs say how far they are

    def finish(self) -> None:
        """Take note that a fit has reached its end: nothing will be resumed."""
        if not self._kept and self.folder is not None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
            self._kept = True

    def may_keep(self, n_rows: int) -> bool:
        """Whether a climb may keep some numbers of each row."""
        return n_rows * KEPT_OF_ROW <= self.most_kept

    @property
    def most_kept(self) -> int:
        """How many numbers climbs may keep."""
        return self.limit // 16

    def seen(self, n_bytes: int) -> None:
        """Take note that so many bytes were read, or will be next; let go of all pages where it has become too much.

        Another thread that still reads some of them finds them in the system's own memory, or on disk.
        """
        self._seen += n_bytes
        if self._seen > self.limit // 4:
            self._seen = n_bytes
            self.release()

    def release(self) -> None:
        """Let go of all pages."""
        for one in self._maps:
            if hasattr(one, "madvise"):  # not on Windows, which trims a process by itself
                one.madvise(mmap.MADV_DONTNEED)

    def watched(self, block_of: Callable[[int], B], n_bytes: int) -> Callable[[int], B]:
        """The same function, whose blocks of so many bytes are counted."""

        def counted(index: int) -> B:
            self.seen(n_bytes)
            return block_of(index)

        return counted

    def __reduce__(self) -> tuple[type["Pages"], tuple[list[Any], int]]:
        """Another process has maps of its own, which it shares with all others."""
        return Pages, ([], self.limit)


def runs(n_rows: int, pages: Pages | None, row_bytes: int = BESIDE) -> Iterator[slice]:
    """Runs of rows, one after another, for what is counted row by row; their pages are let go."""
    for begin in range(0, n_rows, RUN):
        if pages is not None:
            pages.seen(RUN * row_bytes)
        yield slice(begin, min(begin + RUN, n_rows))


def _map_of(array: Any) -> mmap.mmap | None:
    """The map that an array lies in, if it lies in one."""
    while array is not None:
        if isinstance(array, np.memmap):
            return getattr(array, "_mmap", None)
        array = getattr(array, "base", None)
    return None
