"""Text files such as CSV, read some rows at a time, by the rules of ``vbsvm fit``.

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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')
COMMA_NUMBER = re.compile(r"[+-]?\d*(?:,\d+)?(?:[eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
# What means a missing value among numbers: what pandas takes for one.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
# Rows that are looked at together to see what columns hold: no more than so many, and than take so many bytes.
LOOK, LOOK_BYTES = 50_000, 2**23
FIRST_LOOK = 1000
# Bytes of a line: more than a million columns take.
LONGEST_LINE = 2**25
# Text is words, or numbers with commas in them.
WORDS, COMMAS = "words", "numbers with commas"
NOTHING, WHOLE_NUMBERS, NUMBERS, TRUTH, TEXT = "nothing", "whole numbers", "numbers", "true or false", "text"
_TYPES: dict[str, Any] = {WHOLE_NUMBERS: "int64", NUMBERS: "float64", TEXT: object}
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UNEVEN = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")


def raise_interrupt(error: Exception) -> None:
    """Raise KeyboardInterrupt where that is what ended a read: pandas drops an error without a message, as that is."""
    if "read(nbytes) on source failed" in str(error):
        raise KeyboardInterrupt from error


def separator_of(header: str, usual: str) -> str:
    """The usual separator, or where the header has none of it outside of quotes, the most frequent of the others."""
    bare = QUOTED.sub("", header)
    found = max((sign for sign in SEPARATORS if sign != usual), key=bare.count)
    return usual if usual in bare or found not in bare else found


@final
@dataclass(frozen=True, eq=False)
class Text:
    """A text file: its name, what its columns hold, and its signs."""

    path: Path
    types: dict[str, str]
    n_rows: int
    sep: str
    decimal: str

    @staticmethod
    def of(path: Path, usual: str, sep: str | None, decimal: str | None, text: Collection[str] = ()) -> "Text":
        """Read the file once to see what its columns hold; those in ``text`` are text in any case."""
        with _opened(path) as lines:
            first = next((line for line in lines if line.strip()), None)
            if first is None:
                raise ValueError(f"{path} is empty: it needs a header with the names of the columns.")
            sep = sep or separator_of(first, usual)
            rows = csv.reader(chain([first], lines), delimiter=sep)
            names = next(rows)
            longer = len(next((row for row in rows if not _is_blank(row)), names)) > len(names)
        for name in names:
            if name.strip() and names.count(name) > 1:
                raise ValueError(f"{path} has two columns named {name!r}: rename one.")
        if longer:  # of such a file pandas would drop cells, with a warning that other threads can hide
            _require_even(path, sep, len(names))
        seen = _seen(path, sep, decimal or ".")
        if decimal is None and _by_commas(seen, sep, text):
            decimal, seen = ",", _seen(path, sep, ",")
        if seen and next(reversed(seen.values())).missing:
            _require_even(path, sep, len(names))
        types = {
            name: TEXT if name in text else one.held for name, one in seen.items() if name in names and name.strip()
        }
        n_rows = max((one.n_rows for one in seen.values()), default=0)
        return Text(path, types, n_rows, sep, decimal or ".")

    def holding(self, types: dict[str, str]) -> "Text":
        """The same where other files of the table are known as well."""
        return replace(self, types=types)

    def pieces(self, columns: Sequence[str], n_rows: int) -> "Iterator[pd.DataFrame]":
        """These columns, some rows at a time."""
        held = {name: self.types[name] for name in columns}
        words = {name: [""] if kind == TEXT else list(MISSING) for name, kind in held.items()}
        types = {name: _TYPES[kind] for name, kind in held.items() if kind in _TYPES}
        # Of columns that are not named in it, pandas takes no word for a missing value.
        options = {"usecols": list(columns), "dtype": types, "na_values": words, "keep_default_na": False}
        for frame in _frames(self.path, self.sep, self.decimal, n_rows, **options):
            found = frame[list(columns)].reset_index(drop=True)
            yield found.assign(**{name: found[name].astype(object) for name, kind in held.items() if kind == TEXT})


@final
@dataclass(frozen=True, slots=True)
class _Seen:
    """What has been seen of a column: kinds of its values, whether some are missing, and whether some are fractions.

    ``commas`` are those in numbers: True where one may separate thousands, False where it can't.
    """

    n_rows: int
    kinds: frozenset[str]
    missing: bool
    fractions: bool
    commas: frozenset[bool]

    @staticmethod
    def of(column: Any) -> "_Seen":
        """Look at some rows."""
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
        else:
            words = [str(word).strip() for word in known]
            kind = NUMBERS if all(map(WHOLE.fullmatch, words)) else WORDS
            if kind == WORDS and all(map(COMMA_NUMBER.fullmatch, words)):
                kind = COMMAS
                commas = frozenset(bool(THOUSANDS.fullmatch(word)) for word in words if "," in word)
        return _Seen(len(column), frozenset([kind]), missing, fractions, commas)

    def __add__(self, other: "_Seen") -> "_Seen":
        """Look at both."""
        return _Seen(
            self.n_rows + other.n_rows,
            self.kinds | other.kinds,
            self.missing or other.missing,
            self.fractions or other.fractions,
            self.commas | other.commas,
        )

    @property
    def held(self) -> str:
        """What the column holds."""
        kinds = self.kinds - {NOTHING}
        if not kinds:
            return NOTHING
        if kinds <= {WHOLE_NUMBERS, NUMBERS}:
            return NUMBERS if self.missing or NUMBERS in kinds else WHOLE_NUMBERS
        return TRUTH if kinds == {TRUTH} else TEXT


def _by_commas(seen: dict[str, _Seen], sep: str, text: Collection[str]) -> bool:
    """Whether decimals are separated by commas: numbers are written so, and nothing speaks against it."""
    written = [one.commas for name, one in seen.items() if name not in text and WORDS not in one.kinds and one.commas]
    fractions = any(one.fractions for one in seen.values())
    return bool(written) and sep != "," and not fractions and any(False in one for one in written)


def _seen(path: Path, sep: str, decimal: str) -> dict[str, _Seen]:
    """What all columns hold."""
    found: dict[str, _Seen] = {}
    for frame in _frames(path, sep, decimal, LOOK, room=LOOK_BYTES):
        for name in frame.columns:
            here = _Seen.of(frame.loc[:, name])
            found[str(name)] = found[str(name)] + here if str(name) in found else here
    return found


def _frames(
    path: Path, sep: str, decimal: str, n_rows: int, room: int | None = None, **options: Any
) -> "Iterator[pd.DataFrame]":
    """Some rows at a time, as pandas reads them; with ``room``, no more than take so many bytes."""
    import pandas as pd
    from pandas.errors import ParserError

    try:
        with _opened(path) as lines:
            file: Any = lines
            settings: dict[str, Any] = {"sep": sep, "decimal": decimal, "index_col": False, "low_memory": False}
            reader: Any = pd.read_csv(file, chunksize=n_rows, **settings, **options)
            with reader as frames:
                yield from frames if room is None else _within(frames, n_rows, room)
    except ParserError as error:
        raise_interrupt(error)
        found = _UNEVEN.search(str(error))
        if found:
            raise ValueError(
                f"{path}: line {found[2]} has {found[3]} cells, and the header has {found[1]} names. Put cells that "
                "hold the separator in quotation marks."
            ) from error
        raise ValueError(f"{path} can't be read as text: {error}") from error


def _within(reader: Any, n_rows: int, room: int) -> "Iterator[pd.DataFrame]":
    """Few rows first, and then as many as take the room by what these took: wide rows and long text take more."""
    take = min(n_rows, FIRST_LOOK)
    while True:
        try:
            frame = reader.get_chunk(take)
        except StopIteration:
            return
        yield frame
        each = int(frame.memory_usage(deep=True).sum()) // max(1, len(frame))
        take = max(1, min(n_rows, room // max(1, each)))


def _require_even(path: Path, sep: str, n_names: int) -> None:
    """Refuse a row with fewer cells than the header has names, or more, unless that is one separator at the end."""
    with _opened(path) as lines:
        rows = csv.reader(lines, delimiter=sep)
        for row in rows:
            more = len(row) > n_names + 1 or any(row[n_names:])
            if (more or len(row) < n_names) and not _is_blank(row):
                raise ValueError(
                    f"{path}: line {rows.line_num} has {len(row)} cell{'s' * (len(row) != 1)}, and the header has "
                    f"{n_names} names. Give every row a cell for each name, and put cells that hold the separator in "
                    "quotation marks."
                )


def _is_blank(row: list[str]) -> bool:
    """Whether a line holds nothing."""
    return len(row) < 2 and not "".join(row).strip()


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """The unpacked text; what is wrong with it is said in words."""
    packing = path.suffix.lower()
    try:
        if packing == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if not name.endswith("/")]
                if len(names) != 1:
                    raise ValueError(f"{path} holds {len(names)} files, but only one is allowed: unpack it first.")
                with archive.open(names[0]) as raw:
                    yield _decoded(raw, path)
        elif packing in _OPENERS:
            with _OPENERS[packing](path, "rb") as raw:
                yield _decoded(raw, path)
        else:
            with path.open("rb") as raw:
                yield _decoded(raw, path)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} can't be unpacked: it was cut short or damaged. Copy it again.") from error
    except csv.Error as error:
        raise ValueError(f"{path} can't be read as text: {error}.") from error
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise ValueError(f"{path} is not UTF-8 text (it holds the byte 0x{wrong:02x}): save it as UTF-8.") from error


def _decoded(raw: Any, path: Path) -> IO[str]:
    return io.TextIOWrapper(io.BufferedReader(_Lines(raw, path), 2**17), encoding="utf-8-sig", newline="")


@final
class _Lines(io.RawIOBase):
    """Bytes whose lines are bounded: a small packed file may hold a line that does not fit in memory."""

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw, self._path, self._length = raw, path, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read, and look for the end of the line."""
        n_bytes = self._raw.readinto(buffer)
        some = bytes(buffer[:n_bytes])
        end = max(some.rfind(b"\n"), some.rfind(b"\r"))
        self._length = self._length + n_bytes if end < 0 else n_bytes - end - 1
        if self._length > LONGEST_LINE:
            raise ValueError(f"{self._path} can't be read as text: it has a line of more than {LONGEST_LINE >> 20} MB.")
        return n_bytes
