"""Checkpoints: chains on their way, in a file from which a run goes on to the very same draws."""

import os
from pathlib import Path
from typing import Any

from vbsvm.storage import archive
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import CHAINS

FORMAT, SCHEMA = "vbsvm chains", 4
_REGISTRY = Registry(CHAINS)


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or of another run."""


def write(path: str | os.PathLike[str], about: dict[str, object], content: object) -> None:
    """Write what the run is about, and its chains."""
    archive.write(path, FORMAT, SCHEMA, archive.Archive({"about": about}, *_REGISTRY.encode(content, "a chain")))


def read(path: str | os.PathLike[str], about: dict[str, object]) -> list[Any] | None:
    """Chains of an earlier run of the same; None where there is no file. A file of another run is refused."""
    if not Path(path).exists():
        return None
    try:
        file = archive.read(path, FORMAT, SCHEMA)
        found = file.about["about"]
        chains = _REGISTRY.decode(file.tree, file.arrays)
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} can't be read ({error}): remove it to start again.") from error
    if found != about:
        different = [name for name in about if found.get(name) != about[name]]
        raise CheckpointError(
            f"The checkpoint {path} belongs to another run (different: {', '.join(different)}): choose another file, "
            "or remove it to start again."
        )
    return chains
