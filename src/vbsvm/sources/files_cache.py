"""A cache folder of encoded rows as memory-mapped arrays, so that files are read and encoded once.

Rows are written into a folder of another name, which gets its own when it is whole: whoever looks finds all of it or
nothing. Two processes may write the same rows at once: the first one to be ready is used by both.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vbsvm.sources.rows import Pages
from vbsvm.storage import saving
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import ROWS
from vbsvm.version import __version__

FORMAT, SCHEMA = "vbsvm rows", 4
LEARNED = "learned.vbsvm"
CHECKPOINT = ".climb"
# Bytes read at a time for a checksum.
CHUNK = 1 << 20
REGISTRY = Registry(ROWS)
# Ages at which partial folders of killed processes and unused rows are removed.
DAY = 86_400.0
PARTIAL_AGE, UNUSED_AGE = 2 * DAY, 30 * DAY


@final
@dataclass(frozen=True, eq=False)
class CachedRows:
    """Cached arrays by name, and what was learned with them."""

    arrays: Mapping[str, NDArray[Any]]
    learned: Any
    pages: Pages


@final
@dataclass(frozen=True, eq=False)
class Cache:
    """Location of the encoded rows of some files; ``permanent`` if the user has named the folder."""

    root: Path
    key: str
    permanent: bool
    limit: int

    @staticmethod
    def locate(root: Any, about: Mapping[str, Any], limit: int) -> "Cache":
        """The cache in this folder, or in the user's cache folder; ``about`` determines the key."""
        text = json.dumps({**about, "vbsvm": __version__, "schema": SCHEMA}, sort_keys=True, default=repr)
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        place = _user_cache() if root is None else Path(root).expanduser()
        return Cache(place.absolute(), key, root is not None, limit)

    def load(self, *, verify: bool = True) -> CachedRows | None:
        """Load cached rows; None if there are none or they are damaged.

        ``verify`` reads all of them once, to compare them with the checksums that were written with them.
        """
        place = self.root / self.key
        try:
            file = saving.read_archive(place / LEARNED, FORMAT, SCHEMA)
            learned = REGISTRY.decode(file.tree, file.arrays)
            if verify and file.about["checksums"] != _checksums(place, file.about["arrays"]):
                return None
            arrays = {name: _mapped(place / f"{name}.npy", *shape) for name, shape in file.about["arrays"].items()}
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            os.utime(place)
        return CachedRows(arrays, learned, Pages(list(arrays.values()), self.limit, place, permanent=self.permanent))

    @contextmanager
    def create(self) -> "Iterator[Writer]":
        """Yield a writer; its rows become visible when it has been finished."""
        with _explained_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            _remove_stale(self.root, unused=not self.permanent)
            temporary = self.root / f".{self.key}.{secrets.token_hex(4)}.part"
            temporary.mkdir()
        try:
            with _explained_errors(self.root):
                writer = Writer(temporary, {}, self.limit)
                yield writer
                writer.release()
            place = self.root / self.key
            try:
                temporary.rename(place)
            except OSError:
                if self.load() is None:  # what is there is damaged
                    shutil.rmtree(place, ignore_errors=True)
                    temporary.rename(place)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@final
class Writer:
    """Writes arrays into a temporary folder."""

    def __init__(self, folder: Path, arrays: dict[str, NDArray[Any]], limit: int) -> None:
        self._folder, self._arrays, self._limit = folder, arrays, limit
        self._pages = Pages([], limit)

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Create an array of this name to write into, with its disk space allocated.

        All disk space is allocated now: when a memory map is written, a lack of it would end the process.
        """
        path = self._folder / f"{name}.npy"
        with path.open("xb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(file, header)
            file.flush()
            _allocate(file.fileno(), file.tell(), int(np.prod(shape)) * np.dtype(dtype).itemsize)
        array = np.lib.format.open_memmap(path, mode="r+") if np.prod(shape) else np.empty(shape, dtype)
        self._arrays[name] = array
        self._pages = Pages(list(self._arrays.values()), self._limit)
        return np.asarray(array)

    def count_bytes(self, n_bytes: int) -> None:
        """Count bytes that were written, so that their pages can be released."""
        self._pages.count_bytes(n_bytes)

    def finish(self, learned: Any) -> None:
        """Write what was learned, and checksums: this completes the cache entry."""
        for array in self._arrays.values():
            if isinstance(array, np.memmap):
                array.flush()
        shapes = {name: [list(array.shape), array.dtype.str] for name, array in self._arrays.items()}
        tree, arrays = REGISTRY.encode(learned, "what was learned of the rows")
        about = {"arrays": shapes, "checksums": _checksums(self._folder, shapes)}
        saving.write_archive(self._folder / LEARNED, FORMAT, SCHEMA, saving.Archive(about, tree, arrays))

    def release(self) -> None:
        """Release the arrays."""
        self._pages.release()
        self._arrays.clear()


@final
class RowPositions:
    """Positions of rows that come in pieces: consecutive, or stably sorted by group.

    ``counts`` are the numbers of rows by group, or None without groups.
    """

    def __init__(self, counts: NDArray[np.intp] | None) -> None:
        self._next = 0 if counts is None else np.cumsum(counts) - counts

    def next_rows(self, n_rows: int, groups: NDArray[np.intp] | None) -> slice | NDArray[np.intp]:
        """Positions of the next rows, of these groups."""
        if groups is None or isinstance(self._next, int):
            begin, self._next = self._next, self._next + n_rows
            return slice(begin, begin + n_rows)
        order = np.argsort(groups, kind="stable")
        present, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
        places = np.empty(n_rows, dtype=np.intp)
        places[order] = np.repeat(self._next[present] - first, counts) + np.arange(n_rows)
        self._next[present] += counts
        return places


def _user_cache() -> Path:
    """The user's cache folder on this system."""
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "vbsvm"


def _mapped(path: Path, shape: list[int], dtype: str) -> NDArray[Any]:
    """Memory-map an array file, and check its shape and type."""
    array = np.load(path, mmap_mode="r" if np.prod(shape) else None, allow_pickle=False)
    if list(array.shape) != shape or array.dtype.str != dtype:
        raise ValueError(f"{path} is not what was written")
    return array.view(np.ndarray)


def _checksums(folder: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """Size and CRC-32 of each array file, by plain reads, which do not count as memory of the process."""
    checksums: dict[str, list[int]] = {}
    buffer = memoryview(bytearray(CHUNK))
    for name in names:
        size, crc = 0, 0
        with (folder / f"{name}.npy").open("rb", buffering=0) as file:
            while n_bytes := file.readinto(buffer):
                size, crc = size + n_bytes, zlib.crc32(buffer[:n_bytes], crc)
        checksums[name] = [size, crc]
    return checksums


def _allocate(file: int, begin: int, size: int) -> None:
    """Extend a file, so that a full disk raises now."""
    if not size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, begin, size)
        return
    zeros = bytes(1 << 20)
    while size > 0:
        size -= os.write(file, zeros[:size])


@contextmanager
def _explained_errors(root: Path) -> Iterator[None]:
    """Explain errors of writing the cache."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(root)):
            raise
        why = error.strerror or str(error)
        raise OSError(
            error.errno,
            f"The encoded rows can't be written to {root} ({why}). Free disk space there, or use another folder, as in "
            "Files(…, cache='folder'); no partial file is left",
        ) from error


def _remove_stale(root: Path, *, unused: bool) -> None:
    """Remove leftovers of killed processes, and in the user's cache folder rows unused for long."""
    now = time.time()
    for entry in root.iterdir():
        with suppress(OSError):
            age = now - entry.stat().st_mtime
            part = entry.name.startswith(".") and entry.name.endswith(".part")
            if entry.is_dir() and age > (PARTIAL_AGE if part else UNUSED_AGE) and (part or unused):
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.suffix == CHECKPOINT and age > UNUSED_AGE:
                entry.unlink()
