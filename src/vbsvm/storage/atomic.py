"""Atomic writes: a file is complete or absent, even if the process is killed."""

import errno
import hashlib
import os
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Temporary files of other machines' processes, which may still write, are kept this long.
STALE_SECONDS = 2 * 86_400.0
MACHINE_ID = hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def check_path(path: str | os.PathLike[str]) -> None:
    """Reject file names with null characters."""
    if isinstance(path, str | os.PathLike) and "\0" in str(path):
        raise ValueError(f"No file is named {str(path)!r}: it contains a null character. Choose another name.")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Temporary file that replaces the target on success; after an error the target is unchanged.

    It is in the same directory, named after its process. Temporary files of killed processes are
    removed.
    """
    check_path(path)
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no directory {target.parent} to write {target.name} in.")
    _remove_stale_parts(target)
    temporary = target.with_name(f".{target.name}.{MACHINE_ID}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EFBIG) and error.filename is None:
            error.filename = os.fspath(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file, and temporary files of killed processes."""
    target = Path(path).resolve()
    target.unlink(missing_ok=True)
    _remove_stale_parts(target)


def _remove_stale_parts(target: Path) -> None:
    begin, end = f".{target.name}.", ".part"
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if entry.name.startswith(begin) and entry.name.endswith(end):
                with suppress(OSError):
                    owner = entry.name[len(begin) : -len(end)].split(".")
                    if _writer_is_dead(owner) or time.time() - entry.stat().st_mtime > STALE_SECONDS:
                        Path(entry.path).unlink()


def _writer_is_dead(writer: list[str]) -> bool:
    """Whether a temporary file belongs to a dead process of this machine."""
    if os.name == "nt" or len(writer) != 3 or writer[0] != MACHINE_ID or not writer[1].isdecimal():
        return False
    try:
        os.kill(int(writer[1]), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False
