"""Model files: what a fit knows, in a file that is read without executing anything; and upgrades of older files.

A file holds settings, learned numbers and levels, and not the data, with one exception: the distribution of a model
with many more columns than rows is made of its rows. Whatever is wrong with a file is a ``ModelFileError``.

The archive is a zip of a JSON tree and arrays: ``manifest.json`` says what it is and has the SHA-256 of every other
part; the zip's comment has that of the manifest. Arrays are ``.npy``, read without pickle. Parts are stored and not
compressed, so that none can claim to be larger than the file. The same content gives the same bytes.
"""

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.cached import new_lock
from vbsvm.storage.atomic import atomic_write, check_path
from vbsvm.storage.codec import PLAIN, Registry
from vbsvm.storage.names import MODELS
from vbsvm.version import __version__

MANIFEST, CONTENT = "manifest.json", "content.json"


class ArchiveError(ValueError):
    """A file that is not what was written."""


class ModelFileError(ValueError):
    """A model file that is damaged, of another kind, or of a newer version."""


@final
@dataclass(frozen=True, eq=False)
class Archive:
    """Metadata, JSON tree and arrays of a file."""

    about: Mapping[str, Any]
    tree: Any
    arrays: Sequence[NDArray[Any]]


def write_archive(path: str | os.PathLike[str], format: str, schema: int, content: Archive) -> None:
    """Write the archive atomically."""
    parts = {CONTENT: _text(content.tree), **{f"{k}.npy": _npy(array) for k, array in enumerate(content.arrays)}}
    digests = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    head = {"format": format, "schema": schema, "vbsvm": __version__, **content.about, "parts": digests}
    manifest = _text(head)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as zipped:
        for name, part in {MANIFEST: manifest, **parts}.items():
            zipped.writestr(zipfile.ZipInfo(name), part)
        zipped.comment = _seal(manifest)


def read_archive(path: str | os.PathLike[str], format: str, schema: int) -> Archive:
    """Read and verify an archive; ``ArchiveError`` if it is invalid."""
    whole = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(whole)) as zipped:
            parts, comment = _parts(zipped, len(whole)), zipped.comment
        manifest = parts.pop(MANIFEST, None)
        if manifest is None or comment != _seal(manifest):
            raise ArchiveError("its manifest is not the one that was written")
        head = _json(manifest)
        _check_format(head, format, schema)
        digests = head.pop("parts")
        if digests != {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}:
            raise ArchiveError("its parts are not those that were written")
        names = [f"{k}.npy" for k in range(len(parts) - 1)]
        if set(parts) != {CONTENT, *names}:
            raise ArchiveError("its parts have other names than they should")
        return Archive(head, _json(parts[CONTENT]), [_array(parts[name]) for name in names])
    except ArchiveError:
        raise
    except zipfile.BadZipFile as error:
        raise ArchiveError("it is not such a file, or it was cut short or changed") from error
    except Exception as error:
        raise ArchiveError(f"it is damaged: {error}") from error


def _text(tree: Any) -> bytes:
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


def _json(text: bytes) -> Any:
    return json.loads(text.decode("utf-8", "surrogatepass"))


def _seal(manifest: bytes) -> bytes:
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}".encode()


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _parts(zipped: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    """Every part by name; none twice, none packed, and together no larger than the file."""
    entries = zipped.infolist()
    if len({entry.filename for entry in entries}) < len(entries):
        raise ArchiveError("a part stands in it twice")
    plain = all(
        entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size for entry in entries
    )
    if not plain or sum(entry.file_size for entry in entries) > size:
        raise ArchiveError("its parts are packed, or larger than the file")
    return {entry.filename: zipped.read(entry) for entry in entries}


def _check_format(head: Any, format: str, schema: int) -> None:
    if head["format"] != format:
        raise ArchiveError(f"it contains {head['format']!r}, not {format!r}")
    if not isinstance(head["schema"], int) or head["schema"] < 1:
        raise ArchiveError(f"it has the schema {head['schema']!r}")
    if head["schema"] > schema:
        raise ArchiveError(f"it was made by a newer vbsvm ({head['vbsvm']}; this is {__version__}): upgrade vbsvm")
    if head["schema"] < schema:
        raise ArchiveError(f"it has the schema {head['schema']}, which this vbsvm no longer reads")


# NumPy reads headers by Python's parser, of which some versions of 3.11 fail in several threads at once.
_HEADERS = new_lock()


def _array(part: bytes) -> NDArray[Any]:
    """An array whose header agrees with the length of what follows; nothing is allocated before that is known."""
    buffer = io.BytesIO(part)
    version = np.lib.format.read_magic(buffer)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with _HEADERS:
        shape, by_columns, dtype = read_header(buffer)
    if dtype.kind not in PLAIN:
        raise ArchiveError(f"an array contains {dtype}")
    n_values = math.prod(shape)
    # Text of no characters takes no bytes of the file, but some of memory.
    if n_values * dtype.itemsize != len(part) - buffer.tell() or (not dtype.itemsize and n_values > len(part)):
        raise ArchiveError("an array is longer or shorter than it says")
    flat = np.frombuffer(part, dtype, offset=buffer.tell()) if dtype.itemsize else np.zeros(n_values, dtype)
    return np.array(flat.reshape(shape, order="F" if by_columns else "C"), dtype=dtype.newbyteorder("="), order="K")


# The format is in these first bytes of a file.
FORMAT, SCHEMA, HEAD_BYTES = "vbsvm model", 1, 4096
REGISTRY = Registry(MODELS)
# What Python and NumPy say of values that do not fit together.
INTERNAL = re.compile(r"zip\(\)|broadcast|operand|unpack|shape|dimension|convert|literal")


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Reject a name that no file can have, and unless told to overwrite that of a file that holds no model."""
    check_path(path)
    if not overwrite and Path(path).is_file():
        with Path(path).open("rb") as file:
            head = file.read(HEAD_BYTES)
        if head and FORMAT.encode() not in head:
            raise FileExistsError(
                f"{os.fspath(path)} exists, and holds no model: choose another name, or replace it by overwrite=True."
            )


def write(path: str | os.PathLike[str], kind: str, content: Mapping[str, Any]) -> None:
    """Write the content of a model of this kind; a failure leaves a file that was there as it was."""
    tree, arrays = REGISTRY.encode(content, kind)
    write_archive(path, FORMAT, SCHEMA, Archive({"kind": kind}, tree, arrays))


def read(path: str | os.PathLike[str], makers: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Any:
    """The model in a file, made by the maker of its kind."""
    try:
        file = read_archive(path, FORMAT, SCHEMA)
        kind = file.about["kind"]
        if kind not in makers:
            raise ArchiveError(f"it contains a model of the kind {kind!r}")
        return makers[kind](REGISTRY.decode(upgrade(file.tree), file.arrays))
    except IsADirectoryError as error:
        raise ModelFileError(f"{os.fspath(path)} is a directory, not a model file.") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {os.fspath(path)}.") from error
    except OSError:
        raise
    except ArchiveError as error:
        raise ModelFileError(f"{os.fspath(path)} can't be read as a model file: {error}.") from error
    except Exception as error:
        internal = not isinstance(error, ValueError) or INTERNAL.search(str(error))
        why = "its parts do not belong together" if internal else error
        raise ModelFileError(f"{os.fspath(path)} contains no valid model: {why}.") from error


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
