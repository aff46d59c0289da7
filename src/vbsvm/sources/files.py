"""Tables in files that may be larger than memory: paths, Parquet, reading in pieces, and memory limits.

This is the only module that imports pyarrow.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from vbsvm.base.printing import bar
from vbsvm.base.settings import Parameters, check_flag
from vbsvm.design.values import join_names, renumbered
from vbsvm.sources.files_text import NOTHING, NUMBERS, PACKED, TRUTH, WHOLE_NUMBERS, TextFile, check_different
from vbsvm.sources.files_text import TEXT as HOLDS_TEXT

if TYPE_CHECKING:
    import pandas as pd

PARQUET, TEXT = (".parquet", ".pq"), {".csv": ",", ".tsv": "\t", ".txt": "\t"}
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
FLOAT32 = "float32 numbers"
NUMERIC = frozenset((WHOLE_NUMBERS, NUMBERS, FLOAT32))
MIN_LIMIT = 10**8
# Fraction of the limit for the rows of one piece, of which reading and encoding make several copies.
PIECE = 1 / 16
MIN_ROWS = 1000
# Bytes of a number, of a text, and of a row in addition to its cells.
NUMBER_BYTES, TEXT_BYTES, ROW_BYTES = 8, 64, 64


@final
@dataclass(frozen=True, eq=False)
class Parquet:
    """A Parquet file: path, column types, number of rows."""

    path: Path
    types: dict[str, str]
    n_rows: int

    @staticmethod
    def open(path: Path) -> "Parquet":
        """Read the metadata of a file."""
        with _explained_errors(path), _parquet().ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            columns = [(one.name, _type_name(one.type)) for one in schema if one.name not in index]
        check_different(str(path), [name for name, _ in columns])
        return Parquet(path, dict(columns), n_rows)

    def pieces(self, columns: Sequence[str], n_rows: int) -> "Iterator[pd.DataFrame]":
        """Yield these columns in pieces of n rows."""
        with _explained_errors(self.path), _parquet().ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=n_rows, columns=list(columns)):
                yield batch.to_pandas()[list(columns)].reset_index(drop=True)


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("Parquet files are read by pyarrow: pip install vbsvm[files]") from error
    return parquet


@contextmanager
def _explained_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into one message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise ValueError(
            f"{path} can't be read as Parquet: it was cut short or damaged, or is of another kind."
        ) from error


def _type_name(dtype: Any) -> str:
    """Name of a column's type, the same for types that become the same values."""
    import pyarrow.types as types

    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    for words, is_one in (
        (HOLDS_TEXT, lambda: types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)),
        (WHOLE_NUMBERS, lambda: types.is_integer(dtype)),
        (TRUTH, lambda: types.is_boolean(dtype)),
        (FLOAT32, lambda: types.is_float32(dtype) or types.is_float16(dtype)),
        (NUMBERS, lambda: types.is_floating(dtype)),
        (NOTHING, lambda: types.is_null(dtype)),
    ):
        if is_one():
            return words
    return str(dtype)


OneFile = Parquet | TextFile


@final
@dataclass(frozen=True)
class Files(Parameters):
    """Files of rows, read piece by piece, that need not fit in memory.

    Parameters
    ----------
    paths : str, path, or a list of them
        Names of files, patterns such as ``"data/*.parquet"``, or folders. Files end in .parquet or .csv (also .tsv,
        .txt, and compressed, as .csv.gz). Their rows follow each other in the sorted order of the names, or in that of
        the list.
    cache : folder, default None
        Where encoded rows are kept. A folder that is named here keeps them for later fits of the same files. None means
        the user's cache folder (``$XDG_CACHE_HOME/vbsvm``): there they stay until the fit is no longer in use, and
        after an interruption until it is made again.
    memory_limit : int or str, default "1GB"
        Memory limit for rows, in addition to that of Python and its libraries: bytes, or text such as "500MB".
    progress : bool, default None
        Whether to show on stderr how far a fit has got. None is in terminals and notebooks, once it takes seconds.
    sep, decimal : str, default None
        Signs that separate cells and decimals in text files; None is recognised.
    """

    paths: Any
    cache: Any = None
    memory_limit: int | str = "1GB"
    progress: bool | None = None
    sep: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.progress is not None:
            check_flag("Files", progress=self.progress)
        if self.cache is not None and not isinstance(self.cache, str | os.PathLike):
            raise TypeError(f"Files: cache must be the name of a folder, or None; got {self.cache!r}.")
        if self.cache is not None and "\0" in str(self.cache):
            raise ValueError(f"Files: no folder is named {str(self.cache)!r}: it contains a null character.")
        if self.limit < MIN_LIMIT:
            raise ValueError(f"Files: memory_limit must be at least 100MB; got {self.memory_limit!r}.")

    @staticmethod
    def of(given: Any) -> "Files":
        """Wrap paths in ``Files``, unless they are."""
        return given if isinstance(given, Files) else Files(given)

    @property
    def limit(self) -> int:
        """``memory_limit`` in bytes."""
        given = self.memory_limit
        text = str(given).replace(" ", "").upper()
        unit = next((unit for unit in UNITS if text.endswith(unit)), "")
        try:
            return int(float(text.removesuffix(unit)) * UNITS.get(unit, 1))
        except (ValueError, OverflowError):
            raise ValueError(
                f"Files: memory_limit is a number of bytes, or text such as '500MB'; got {given!r}."
            ) from None

    def opened(self, text: Collection[str] = ()) -> "FileTable":
        """Open the files as one table, and check that their columns agree.

        Columns in ``text`` are text in text files, also where they look like numbers.
        """
        paths = _paths_of(self.paths)
        tables = [self._table(path, text) for path in paths]
        types = dict(tables[0].types)
        for other in tables[1:]:
            types = _join_types(types, tables[0], other)
        files, stamps = tuple(replace(table, types=types) for table in tables), tuple(map(_stamp, paths))
        return FileTable(files, types, stamps, self.limit, self.progress)

    def _table(self, path: Path, text: Collection[str]) -> OneFile:
        ending, packed = _ending(path)
        if ending in PARQUET and not packed:
            return Parquet.open(path)
        if ending in TEXT:
            return TextFile.scan(path, TEXT[ending], self.sep, self.decimal, text)
        raise ValueError(f"{path}: files end in .parquet, .csv, .tsv or .txt; text may be compressed, as .csv.gz.")


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of a file, from row ``first``."""

    path: Path
    first: int
    frame: "pd.DataFrame"

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """Add the file's name to errors, and convert their row numbers to those of the file."""
        try:
            yield
        except (ValueError, TypeError) as error:
            said = renumbered(str(error), lambda row: row + self.first)
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{self.path}: {said}") from error


@final
@dataclass(frozen=True, eq=False)
class FileTable:
    """Files with the same columns as one table, and the types of the columns.

    ``stamps`` are the files' sizes and modification times when they were opened.
    """

    files: tuple[OneFile, ...]
    types: dict[str, str]
    stamps: tuple[tuple[str, int, int], ...]
    limit: int
    progress: bool | None = None

    @property
    def names(self) -> list[str]:
        """Column names."""
        return list(self.types)

    def pieces(self, columns: Sequence[str], doing: str = "Reading") -> Iterator[Piece]:
        """Yield pieces of all files with these columns; raise if a file has changed meanwhile."""
        cells = sum(TEXT_BYTES if self.types[name] == HOLDS_TEXT else NUMBER_BYTES for name in columns)
        n_rows = max(MIN_ROWS, int(self.limit * PIECE) // (cells + ROW_BYTES))
        done = 0
        with bar(doing, sum(file.n_rows for file in self.files), verbose=self.progress) as tell:
            for file, stamp in zip(self.files, self.stamps, strict=True):
                _check_unchanged(file.path, stamp)
                first = 0
                for frame in file.pieces(columns, n_rows):
                    if len(frame):
                        yield Piece(file.path, first, frame)
                    first += len(frame)
                    tell(done + first)
                done += first
                _check_unchanged(file.path, stamp)


def _paths_of(given: Any) -> list[Path]:
    """Expand names, patterns and folders to a list of distinct paths."""
    several = isinstance(given, list | tuple)
    paths_found: list[Path] = []
    for name in given if several else [given]:
        if not isinstance(name, str | os.PathLike):
            raise TypeError(f"Files are named by text or paths; got {type(name).__name__}.")
        paths_found += _matches(os.fspath(name))
    if not paths_found:
        raise ValueError("No files are named: give a name, a pattern such as 'data/*.parquet', a folder, or a list.")
    paths = [path.absolute() for path in paths_found]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise ValueError(
            f"{twice} is named twice in the list: name every file once, or its rows would count once only."
        )
    return paths


def _matches(name: str) -> list[Path]:
    place = Path(name).expanduser()
    if place.is_dir():
        visible = [entry for entry in place.iterdir() if not entry.name.startswith((".", "_"))]
        partitions = {entry for entry in visible if "=" in entry.name and entry.is_dir()}  # of Hive, as year=2024
        paths = sorted(entry for entry in visible if entry in partitions or _is_table(entry) or _has_tables(entry))
        if not paths:
            raise FileNotFoundError(f"The folder {name} has no file that ends in .parquet, .csv, .tsv or .txt.")
        return [_regular(entry) for entry in paths]
    if place.exists():
        return [_regular(place)]
    if has_magic(name):
        root = Path(place.anchor)
        paths = [_regular(entry) for entry in sorted(_glob(root, place)) if _is_table(entry) or not entry.is_dir()]
        if paths:
            return paths
        raise FileNotFoundError(f"No file matches {name!r}.")
    raise FileNotFoundError(f"There is no file {name}: data must name files, or be a table.")


def _glob(root: Path, pattern: Path) -> Iterator[Path]:
    """Like ``Path.glob``, dangling links included."""
    if has_magic(pattern.name):
        yield from root.glob(str(pattern.relative_to(root)))
        return
    for folder in root.glob(str(pattern.parent.relative_to(root))):
        if os.path.lexists(folder / pattern.name):
            yield folder / pattern.name


def _ending(path: Path) -> tuple[str, bool]:
    """Ending of a file's name without that of a packed file, and whether it has one."""
    path = Path(path.name.lower())
    packed = path.suffix in PACKED
    return (path.with_suffix("") if packed else path).suffix, packed


def _is_table(path: Path) -> bool:
    """Whether a file in a folder is a table by its name: not hidden, with a known suffix."""
    return not path.name.startswith((".", "_")) and _ending(path)[0] in (*PARQUET, *TEXT)


def _has_tables(path: Path) -> bool:
    """Whether a folder contains tables, at any depth; hidden folders are skipped."""
    if path.name.startswith((".", "_")) or path.is_symlink() or not path.is_dir():
        return False
    return any(_is_table(entry) or _has_tables(entry) for entry in path.iterdir())


def _regular(path: Path) -> Path:
    """Return the path of a regular file; raise for anything else."""
    hint = "Remove it, or name the files that are meant, as in 'data/*.parquet' or in a list."
    try:
        mode = path.stat().st_mode
    except OSError as error:
        why = "is a link to a file that is not there" if path.is_symlink() else f"can't be read ({error.strerror})"
        raise FileNotFoundError(f"{path} {why}. {hint}") from error
    if stat.S_ISREG(mode):
        return path
    what = "a folder: its rows would be left out" if stat.S_ISDIR(mode) else "not a regular file, but a pipe or device"
    raise ValueError(f"{path} is {what}. {hint}")


def _stamp(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[str, int, int]) -> None:
    try:
        now = _stamp(path)
    except FileNotFoundError:
        raise ValueError(
            f"{path} has been removed while it was read. Fit again when its files are all there."
        ) from None
    if now != stamp:
        raise ValueError(f"{path} has changed while it was read. Fit again when nothing writes to it any more.")


def _join_types(types: dict[str, str], first: OneFile, other: OneFile) -> dict[str, str]:
    """Merge the column types of two files; raise if their columns differ."""
    lacking = [name for name in first.types if name not in other.types]
    if lacking:
        raise ValueError(
            f"{other.path} has no column {lacking[0]!r}, which {first.path} has; it has "
            f"{join_names(list(other.types))}."
        )
    more = [name for name in other.types if name not in first.types]
    if more:
        raise ValueError(f"{other.path} has a column {more[0]!r}, which {first.path} does not have.")
    joined = dict(types)
    for name, kind in types.items():
        both = {kind, other.types[name]} - {NOTHING}
        if len(both) > 1 and not both <= NUMERIC:
            raise ValueError(
                f"Column {name!r} contains {other.types[name]} in {other.path}, and {kind} in {first.path}: make all "
                "files alike."
            )
        joined[name] = NUMBERS if len(both) > 1 else next(iter(both), NOTHING)
    return joined


@final
class ParquetWriter:
    """Writes a Parquet file piece by piece, with the types of the first piece."""

    def __init__(self, file: Any) -> None:
        self._file, self._writer, self._schema = file, None, None

    def __enter__(self) -> "ParquetWriter":
        """Check that pyarrow is installed."""
        _parquet()
        return self

    def write(self, frame: "pd.DataFrame") -> None:
        """Write the next rows."""
        import pyarrow

        table = pyarrow.Table.from_pandas(frame, self._schema, preserve_index=False)
        if self._writer is None:
            self._schema = table.schema.remove_metadata()
            self._writer = _parquet().ParquetWriter(self._file, self._schema)
        self._writer.write_table(table.cast(self._schema))

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
