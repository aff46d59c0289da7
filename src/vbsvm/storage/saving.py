"""Model files: what a fit knows, in a file that is read without executing anything; and upgrades of older files.

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
        return makers[kind](REGISTRY.decode(upgrade(file.tree), file.arrays))
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


# Until missing values had a slot of their own, their parts were fields of these classes.
_SLOTS = {"Spec": "MissingModel", "State": "MissingState"}
_PARTS = ("inputs", "levels", "values")
# Fields of a fit that had another name.
_RENAMED = {"gaps": "missing_patterns"}


# What the setting said when it was a flag.
_LABELS = {True: "likelihood", False: "none"}


def upgrade(tree: Any) -> Any:
    """Tree of an older file converted to the present schema."""
    if isinstance(tree, list):
        return [upgrade(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: upgrade(value) for key, value in tree.items()}
    fields = tree.get("fields")
    if tree.get("object") in _SLOTS and isinstance(fields, dict) and any(name in fields for name in _PARTS):
        parts = {name: fields.pop(name) for name in _PARTS if name in fields}
        has_parts = any(value is not None for value in parts.values())
        fields["missing"] = {"object": _SLOTS[tree["object"]], "fields": parts} if has_parts else None
    if tree.get("object") == "GaussianImputation" and isinstance(fields, dict):
        labels = fields.get("labels", True)
        fields["labels"] = _LABELS[labels] if isinstance(labels, bool) else labels
    pairs = tree.get("dict")
    if isinstance(pairs, list) and any(pair[0] == "spec" for pair in pairs):
        tree["dict"] = [[_RENAMED.get(key, key), value] for key, value in pairs]
    return tree
