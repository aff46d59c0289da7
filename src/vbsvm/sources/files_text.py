"""Text files such as CSV: opened, decompressed, recognised, and parsed by pandas, whole or in pieces.

In columns of numbers NA and the like are missing values, in columns of text only empty cells. What a column holds is
known when all of it has been seen, so that a file is read once before anything is learned from it.
"""

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')
COMMA_NUMBER = re.compile(r"\s*[+-]?\d*(?:,\d+)?(?:[eE][+-]?\d+)?\s*")
WHOLE = re.compile(r"\s*[+-]?\d+\s*")
THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")
# Missing values in numeric columns: pandas' defaults.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
# Maximum number and bytes of the rows scanned together for column types.
SCAN_ROWS, SCAN_BYTES = 50_000, 2**23
FIRST_SCAN = 1000
# Maximum bytes of a line: enough for a million columns.
MAX_LINE = 2**25
# Text is words, or numbers with commas in them.
WORDS, COMMAS = "words", "numbers with commas"
NOTHING, WHOLE_NUMBERS, NUMBERS, TRUTH, TEXT = "nothing", "whole numbers", "numbers", "true or false", "text"
_TYPES: dict[str, Any] = {WHOLE_NUMBERS: "int64", NUMBERS: "float64", TEXT: object}
# Endings of packed files: the bytes that such a file begins with, and what unpacks it.
PACKED: dict[str, tuple[bytes, Callable[..., Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
    ".xz": (b"\xfd7zXZ", lzma.open),
    ".zip": (b"PK", zipfile.ZipFile),
}
# What other kinds of files begin with, and what to do with them.
_OTHERS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook: unpack it, or save the sheet as “CSV UTF-8” in Excel",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save its sheet as “CSV UTF-8” in Excel",
    b"PAR1": "a Parquet file: rename it to end in .parquet",
    b"ARROW1": "an Arrow file: rename it to end in .arrow",
    b"\x1f\x8b": "compressed with gzip: rename it to end in .csv.gz",
    b"BZh": "compressed with bzip2: rename it to end in .csv.bz2",
    b"\xfd7zXZ": "compressed with xz: rename it to end in .csv.xz",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*[\[{])')
_NOT_CLOSED = re.compile(r"EOF inside string starting at row (\d+)")
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


@final
@dataclass(frozen=True)
class TextReader:
    """A text file that can be read repeatedly: its name in errors, and a function that opens its bytes."""

    name: str
    open_bytes: Callable[[], AbstractContextManager[Any]]

    @contextmanager
    def unpacked(self) -> Iterator[IO[bytes]]:
        """The unpacked bytes; raises ValueError where they can't be unpacked or decoded."""
        try:
            with ExitStack() as stack:
                yield _unpacked(self.name, stack.enter_context(self.open_bytes()), stack)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise ValueError(
                f"{self.name} is not UTF-8 text (it contains the byte 0x{byte:02x}): save it as UTF-8, in Excel "
                "“CSV UTF-8”, or as Parquet."
            ) from error
        except (*_DAMAGED, OSError) as error:
            is_bz2 = isinstance(error, OSError) and error.errno is None and self.name.lower().endswith(".bz2")
            if not is_bz2 and not isinstance(error, _DAMAGED):
                raise
            raise ValueError(f"{self.name} can't be unpacked: it was cut short or damaged. Copy it again.") from error
        except (NotImplementedError, RuntimeError) as error:  # zip files may be encrypted, or packed in other ways
            if not self.name.lower().endswith(".zip"):
                raise
            raise ValueError(f"{self.name} can't be unpacked here: unpack it first.") from error

    @contextmanager
    def lines(self) -> Iterator[IO[str]]:
        """The decoded lines."""
        with self.unpacked() as raw:
            checked = io.BufferedReader(_CheckedBytes(raw, self.name), 2**17)
            yield io.TextIOWrapper(checked, encoding="utf-8-sig", newline="")

    def header(self, usual: str, sep: str | None) -> tuple[str, list[str]]:
        """The separator and the names of the columns; ``usual`` is the separator that the file's name promises."""
        with self.lines() as lines:
            first = next((line for line in lines if line.strip()), None)
            if first is None:
                raise ValueError(
                    f"{self.name} is empty: it needs a header with the names of the columns and at least one row."
                )
            sep = sep or separator_of(first, usual)
            rows = csv.reader(chain([first], lines), delimiter=sep)
            try:
                names = next(rows)
            except csv.Error as error:
                raise ValueError(
                    f"{self.name} begins with a line that is too long to be a header: line breaks are missing, or "
                    "quotation marks are not closed."
                ) from error
            try:
                longer = len(next((row for row in rows if not _is_blank(row)), names)) > len(names)
            except csv.Error:  # of a cell that is too long for csv, pandas tells what is wrong
                longer = False
        check_different(self.name, [name for name in names if name.strip()])
        if longer:  # of such a file pandas would drop cells, with a warning that other threads can hide
            self.check_even(sep)
        return sep, names

    def frames(
        self, sep: str, decimal: str, n_rows: int | None = None, max_bytes: int | None = None, **options: Any
    ) -> "Iterator[pd.DataFrame]":
        """Yield tables of up to ``n_rows`` rows (None: all) and, if given, of up to ``max_bytes`` each."""
        import pandas as pd
        from pandas.errors import ParserError

        settings: dict[str, Any] = {"sep": sep, "decimal": decimal, "index_col": False, "low_memory": False}
        try:
            with self.lines() as lines:
                parsed: Any = pd.read_csv(lines, chunksize=n_rows, **settings, **options)
                if n_rows is None:
                    yield parsed
                    return
                with parsed as frames:
                    yield from frames if max_bytes is None else _within(frames, n_rows, max_bytes)
        except ParserError as error:
            if "read(nbytes) on source failed" in str(error):  # pandas drops an error without a message, as Ctrl-C is
                raise KeyboardInterrupt from error
            opened = _NOT_CLOSED.search(str(error))
            if opened:
                line = int(opened[1]) + 1
                raise ValueError(f"{self.name}: a quotation mark that opens in line {line} is not closed.") from error
            for trailing in (1, 0):
                self.check_even(sep, trailing)
            raise ValueError(f"{self.name} can't be read as text: {error}") from error

    def check_even(self, sep: str, trailing: int = 1) -> None:
        """Raise if a row has fewer cells than the header has names, or more than ``trailing`` empty ones ."""
        with self.lines() as lines:
            rows = csv.reader(lines, delimiter=sep)
            n_names = None
            try:
                for row in rows:
                    if _is_blank(row):
                        continue
                    n_names = len(row) if n_names is None else n_names
                    if len(row) < n_names or len(row) > n_names + trailing or any(row[n_names:]):
                        raise ValueError(
                            f"{self.name}: line {rows.line_num} has {len(row)} cell{'s' * (len(row) != 1)}, and the "
                            f"header has {n_names} names. Give every row a cell for each name, and put cells with "
                            "the separator in quotation marks."
                        )
            except csv.Error as error:
                raise ValueError(
                    f"{self.name}: line {rows.line_num} has a cell of more than {csv.field_size_limit()} characters: "
                    "line breaks are missing, or quotation marks are not closed."
                ) from error


def _unpacked(name: str, raw: Any, stack: ExitStack) -> Any:
    """The decompressed bytes of a file, by its suffix."""
    packing = Path(name.lower()).suffix
    head = raw.peek(8) if packing in PACKED else b""
    if not head:
        return raw
    begin, unpack = PACKED[packing]
    if not head.startswith(begin):
        raise ValueError(f"{name} is not a {packing} archive: remove {packing} from its name.")
    archive = stack.enter_context(unpack(raw))
    if packing != ".zip":
        return archive
    members = [member for member in archive.namelist() if not member.endswith("/")]
    if len(members) != 1:
        raise ValueError(f"{name} contains {len(members)} files, but only one is allowed: unpack it first.")
    return stack.enter_context(archive.open(members[0]))


@final
class _CheckedBytes(io.RawIOBase):
    """Bytes that may be text. Raises ValueError for other kinds of files, by their first bytes, for NUL, and for a line
    without an end: a small packed file may hold one that does not fit in memory.
    """

    def __init__(self, raw: Any, name: str) -> None:
        self._raw, self._name, self._n_lines, self._line_bytes, self._begun = raw, name, 0, 0, False

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read and check the next bytes."""
        n_bytes = self._raw.readinto(buffer)
        block = bytes(buffer[:n_bytes])
        if not self._begun:
            self._check_text(block)
            self._begun = True
        if b"\0" in block:
            line = self._n_lines + block[: block.index(b"\0")].count(b"\n") + 1
            raise ValueError(f"{self._name} contains a NUL byte in line {line}, so it is damaged, or not a text file.")
        self._n_lines += block.count(b"\n")
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._line_bytes = self._line_bytes + n_bytes if end < 0 else n_bytes - end - 1
        if self._line_bytes > MAX_LINE:
            raise ValueError(f"{self._name} can't be read as text: it has a line of more than {MAX_LINE >> 20} MB.")
        return n_bytes

    def _check_text(self, head: bytes) -> None:
        kind = next((kind for begin, kind in _OTHERS.items() if head.startswith(begin)), None)
        if head.startswith(_UTF16) or head[1:2] == b"\0" or (head[:1] == b"\0" and head[1:2].isalnum()):
            kind = "UTF-16 text: save it as UTF-8, which Excel calls “CSV UTF-8”"
        elif _JSON.match(head):
            kind = "JSON: save it as CSV, as by pandas.read_json(…).to_csv(…, index=False)"
        if kind is not None:
            raise ValueError(f"{self._name} is {kind}.")


def separator_of(header: str, usual: str) -> str:
    """The usual separator if the header contains it outside of quotes, else the most frequent other one."""
    bare = QUOTED.sub("", header)
    other = max((sign for sign in SEPARATORS if sign != usual), key=bare.count)
    return usual if usual in bare or other not in bare else other


def check_different(path: str, names: Sequence[str]) -> None:
    """Reject duplicate column names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path} has two columns named {name!r}: rename one.")
        seen.add(name)


def _is_blank(row: list[str]) -> bool:
    return len(row) < 2 and not "".join(row).strip()


def _within(reader: Any, n_rows: int, max_bytes: int) -> "Iterator[pd.DataFrame]":
    """Read pieces of up to n rows and about ``max_bytes``, by the row size of the last piece."""
    n_next = min(n_rows, FIRST_SCAN)
    while True:
        try:
            frame = reader.get_chunk(n_next)
        except StopIteration:
            return
        yield frame
        row_bytes = int(frame.memory_usage(deep=True).sum()) // max(1, len(frame))
        n_next = max(1, min(n_rows, max_bytes // max(1, row_bytes)))


@final
@dataclass(frozen=True, slots=True)
class ColumnContents:
    """Summary of a column: kinds of values, and whether some are missing or fractional.

    ``commas`` are those in numbers: True where one may separate thousands, False where it can't.
    """

    n_rows: int
    kinds: frozenset[str]
    missing: bool
    fractions: bool
    commas: frozenset[bool]

    @staticmethod
    def from_values(column: Any) -> "ColumnContents":
        """Summarise some rows."""
        known = column.dropna()
        missing, fractions, commas = len(known) < len(column), False, frozenset[bool]()
        if not len(known):
            kind = NOTHING
        elif column.dtype.kind in "iu":
            kind = WHOLE_NUMBERS if known.max() < 2**63 else NUMBERS
        elif column.dtype.kind == "f":
            kind, fractions = NUMBERS, bool((known % 1 != 0).any())
        elif all(isinstance(value, bool) for value in known):
            kind = TRUTH
        elif all(WHOLE.fullmatch(str(word)) for word in known):
            kind = NUMBERS
        elif all(COMMA_NUMBER.fullmatch(str(word)) for word in known):
            kind, commas = COMMAS, frozenset(bool(THOUSANDS.fullmatch(word)) for word in known if "," in word)
        else:
            kind = WORDS
        return ColumnContents(len(column), frozenset([kind]), missing, fractions, commas)

    def __add__(self, other: "ColumnContents") -> "ColumnContents":
        """Join the summaries of two sets of rows."""
        return ColumnContents(
            self.n_rows + other.n_rows,
            self.kinds | other.kinds,
            self.missing or other.missing,
            self.fractions or other.fractions,
            self.commas | other.commas,
        )

    @property
    def kind(self) -> str:
        """The column's type."""
        kinds = self.kinds - {NOTHING}
        if not kinds:
            return NOTHING
        if kinds <= {WHOLE_NUMBERS, NUMBERS}:
            return NUMBERS if self.missing or NUMBERS in kinds else WHOLE_NUMBERS
        return TRUTH if kinds == {TRUTH} else TEXT


def contents(frames: "Iterable[pd.DataFrame]") -> dict[str, ColumnContents]:
    """Summaries of all columns."""
    columns: dict[str, ColumnContents] = {}
    for frame in frames:
        for name in map(str, frame.columns):
            column = ColumnContents.from_values(frame.loc[:, name])
            columns[name] = columns[name] + column if name in columns else column
    return columns


def comma_columns(columns: dict[str, ColumnContents], text: Collection[str]) -> list[str]:
    """Columns of numbers written with commas; those in ``text`` are always text."""
    return [
        name for name, column in columns.items() if name not in text and WORDS not in column.kinds and column.commas
    ]


def decimal_commas(columns: dict[str, ColumnContents], sep: str, text: Collection[str]) -> bool:
    """Whether commas are decimal separators."""
    certain = any(False in columns[name].commas for name in comma_columns(columns, text))
    return certain and sep != "," and not any(column.fractions for column in columns.values())


@final
@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file: path, column types, number of rows, separators."""

    path: Path
    types: dict[str, str]
    n_rows: int
    sep: str
    decimal: str

    @staticmethod
    def scan(path: Path, usual: str, sep: str | None, decimal: str | None, text: Collection[str] = ()) -> "TextFile":
        """Read the file once to find its column types; columns in ``text`` are always text."""
        reader = _reader(path)
        sep, names = reader.header(usual, sep)
        columns = contents(reader.frames(sep, decimal or ".", SCAN_ROWS, SCAN_BYTES))
        if decimal is None and decimal_commas(columns, sep, text):
            decimal, columns = ",", contents(reader.frames(sep, ",", SCAN_ROWS, SCAN_BYTES))
        if columns and next(reversed(columns.values())).missing:
            reader.check_even(sep)
        types = {
            name: TEXT if name in text else column.kind
            for name, column in columns.items()
            if name in names and name.strip()
        }
        n_rows = max((column.n_rows for column in columns.values()), default=0)
        return TextFile(path, types, n_rows, sep, decimal or ".")

    def pieces(self, columns: Sequence[str], n_rows: int) -> "Iterator[pd.DataFrame]":
        """Yield these columns in pieces of n rows."""
        kinds = {name: self.types[name] for name in columns}
        na_values = {name: [""] if kind == TEXT else list(MISSING) for name, kind in kinds.items()}
        types = {name: _TYPES[kind] for name, kind in kinds.items() if kind in _TYPES}
        # Of columns that are not named in it, pandas takes no word for a missing value.
        options = {"usecols": list(columns), "dtype": types, "na_values": na_values, "keep_default_na": False}
        for frame in _reader(self.path).frames(self.sep, self.decimal, n_rows, **options):
            table = frame[list(columns)].reset_index(drop=True)
            yield table.assign(**{name: table[name].astype(object) for name, kind in kinds.items() if kind == TEXT})


def _reader(path: Path) -> TextReader:
    return TextReader(str(path), partial(path.open, "rb"))
