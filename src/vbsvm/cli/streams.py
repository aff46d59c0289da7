"""Bytes of a file: unpacked, counted on a terminal while they are read, and what is wrong with them said in words."""

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any, final

import click

from vbsvm.base.printing import visible

STDIN = "-"
# Endings of packed files, and the bytes that such a file begins with.
PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ", ".zip": b"PK"}
CHUNK = 1 << 18
DAMAGED = "can't be unpacked: it was cut short or damaged. Copy it again."
# Progress is shown once reading has taken so many seconds.
PATIENCE = 1.0


@final
@dataclass(frozen=True)
class Source:
    """A file that can be read more than once; what can't, such as stdin, is held in memory."""

    path: str
    held: bytes | None = None

    @staticmethod
    def of(path: str) -> "Source":
        """A file, or stdin."""
        if path == STDIN:
            return Source("stdin", sys.stdin.buffer.read())
        with explained(path):
            place = Path(path)
            return Source(path, place.read_bytes() if place.is_fifo() else None)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The unpacked bytes."""
        with explained(self.path), ExitStack() as stack:
            if self.held is not None:
                raw = io.BufferedReader(io.BytesIO(self.held))
            else:
                file = stack.enter_context(_Counted(self.path))
                file.seen = stack.enter_context(_progress(self.path))
                raw = io.BufferedReader(file, CHUNK)
            yield stack.enter_context(_unpacked(self.path, raw))


def is_larger(path: str, most: int) -> bool:
    """Whether a packed file unpacks to more than so many bytes; no more of it is unpacked here."""
    if Path(path.lower()).suffix not in PACKED:
        return False
    with Source(path).opened() as raw:
        while most >= 0 and (some := raw.read(CHUNK)):
            most -= len(some)
    return most < 0


@final
class _Counted(io.FileIO):
    """A file that tells how many of its bytes have been read."""

    seen: Callable[[int], None]
    count = 0

    def readinto(self, buffer: Any, /) -> int:
        """Read, and tell."""
        n_bytes = super().readinto(buffer) or 0
        self.count += n_bytes
        self.seen(self.count)
        return n_bytes


@contextmanager
def _progress(path: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal and reading takes its time; nothing else."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(f"Reading {visible(Path(path).name)}", total=Path(path).stat().st_size)
    begin = monotonic()

    def seen(count: int) -> None:
        if monotonic() - begin > PATIENCE:
            bar.start()
            bar.update(task, completed=count)

    try:
        yield seen
    finally:
        bar.stop()


def _unpacked(path: str, raw: Any) -> IO[bytes]:
    packing = Path(path.lower()).suffix
    head = raw.peek(8)
    if packing not in PACKED or not head:
        return raw
    if not head.startswith(PACKED[packing]):
        raise click.ClickException(f"{path} is not a {packing} archive: remove {packing} from its name.")
    if packing == ".zip":
        archive = zipfile.ZipFile(raw)
        names = [name for name in archive.namelist() if not name.endswith("/")]
        if len(names) != 1:
            raise click.ClickException(f"{path} holds {len(names)} files, but only one is allowed: unpack it first.")
        return archive.open(names[0])
    openers: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[packing](raw)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Say in words why a file can't be opened, unpacked or decoded."""
    try:
        yield
    except FileNotFoundError as error:
        raise click.ClickException(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise click.ClickException(f"{path} is a directory: name a file in it.") from error
    except PermissionError as error:
        raise click.ClickException(f"{path}: you have no permission to read or write it.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise click.ClickException(f"{path} {DAMAGED}") from error
    except (NotImplementedError, RuntimeError) as error:  # zip files may be encrypted, or packed in other ways
        if not path.lower().endswith(".zip"):
            raise
        raise click.ClickException(f"{path} can't be unpacked here: unpack it first.") from error
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise click.ClickException(
            f"{path} is not UTF-8 text (it holds the byte 0x{wrong:02x}): save it as UTF-8, which Excel calls "
            "“CSV UTF-8”, or as Parquet."
        ) from error
    except OSError as error:
        damaged = error.errno is None and path.lower().endswith(".bz2")
        reason = DAMAGED if damaged else f"can't be read or written: {error.strerror or error}."
        raise click.ClickException(f"{path} {reason}") from error
