"""Rows in files, encoded once: found in the cache, or learned and written now."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vbsvm.base.progress import SharedLine
from vbsvm.base.settings import log
from vbsvm.inference.callbacks import CheckpointCallback
from vbsvm.sources.files import Files, FileTable
from vbsvm.sources.files_cache import CLIMB, Cache, CachedRows, Writer
from vbsvm.sources.pages import Pages

Learned = TypeVar("Learned")


def encoded_once(
    files: Files,
    table: FileTable,
    about: Mapping[str, Any],
    learn: Callable[[], Learned],
    write: Callable[[Learned, Writer], None],
) -> CachedRows:
    """The encoded rows; ``about`` says how they are encoded, ``learn`` what is learned before they can be."""
    signs = (files.sep, files.decimal)
    cache = Cache.of(files.cache, {"files": table.stamps, "types": table.types, "signs": signs, **about}, files.limit)
    rows = cache.found()
    log.info("encoded rows %s", f"are written to {cache.root}" if rows is None else f"were found in {cache.root}")
    if rows is None:
        learned = learn()
        with cache.building() as writer:
            write(learned, writer)
        rows = cache.found(verify=False)
    if rows is None:
        raise OSError(f"The encoded rows were removed from {cache.root} while they were written: fit again.")
    rows.pages.line = SharedLine() if files.progress else None
    return rows


def watch_of(pages: Pages, *run: Any) -> CheckpointCallback:
    """What is told of a climb over rows of a cache; ``run`` is all that it depends on beside them."""
    assert pages.folder is not None
    about = CheckpointCallback.digest(*run)
    path = pages.folder.with_name(f"{pages.folder.name}.{about}{CLIMB}")
    return CheckpointCallback(path, about, pages.line)
