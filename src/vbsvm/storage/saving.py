"""Model files: what a fit knows, in a file that is read without executing anything.

A file holds settings, learned numbers and levels, and not the data, with one exception: the distribution of a model
with many more columns than rows is made of its rows. Whatever is wrong with a file is a ``ModelFileError``.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from vbsvm.storage import archive
from vbsvm.storage.archive import ArchiveError, ModelFileError
from vbsvm.storage.codec import Registry
from vbsvm.storage.names import MODELS
from vbsvm.storage.upgrades import upgraded

FORMAT, SCHEMA = "vbsvm model", 1
REGISTRY = Registry(MODELS)
# What Python and NumPy say of values that do not fit together.
INTERNAL = re.compile(r"zip\(\)|broadcast|operand|unpack|shape|dimension|convert|literal")


def write(path: str | os.PathLike[str], kind: str, content: Mapping[str, Any]) -> None:
    """Write the content of a model of this kind; a failure leaves a file that was there as it was."""
    tree, arrays = REGISTRY.encode(content, kind)
    archive.write(path, FORMAT, SCHEMA, archive.Archive({"kind": kind}, tree, arrays))


def read(path: str | os.PathLike[str], makers: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Any:
    """The model in a file, made by the maker of its kind."""
    try:
        file = archive.read(path, FORMAT, SCHEMA)
        kind = file.about["kind"]
        if kind not in makers:
            raise ArchiveError(f"it holds a model of the kind {kind!r}")
        return makers[kind](REGISTRY.decode(upgraded(file.tree), file.arrays))
    except IsADirectoryError as error:
        raise ModelFileError(f"{os.fspath(path)} is a directory, not a model file.") from error
    except OSError:
        raise
    except ArchiveError as error:
        raise ModelFileError(f"{os.fspath(path)} can't be read as a model file: {error}.") from error
    except Exception as error:
        internal = not isinstance(error, ValueError) or INTERNAL.search(str(error))
        why = "its parts do not belong together" if internal else error
        raise ModelFileError(f"{os.fspath(path)} holds no model that makes sense: {why}.") from error
