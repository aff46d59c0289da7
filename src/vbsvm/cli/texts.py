"""Tables of text: which signs separate cells and decimals, and what is wrong with a file that is no such table."""

import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, final

import click

from vbsvm.cli.streams import CHUNK, Source
from vbsvm.cli.wording import say
from vbsvm.sources.files_text import COMMA_NUMBER, SEPARATORS, THOUSANDS, WHOLE, raise_interrupt, separator_of

WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# A header of so many characters is none: line breaks are missing.
LONGEST_LINE = 1 << 24
# What other kinds of files begin with, and what to do with them.
WORKBOOK = "an Excel workbook: save its sheet as “CSV UTF-8” in Excel"
OTHERS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook: unpack it, or save the sheet as “CSV UTF-8” in Excel",
    b"\xd0\xcf\x11\xe0": WORKBOOK,
    b"PAR1": "a Parquet file: rename it to end in .parquet",
    b"ARROW1": "an Arrow file: rename it to end in .arrow",
    b"\x1f\x8b": "compressed with gzip: rename it to end in .csv.gz",
    b"BZh": "compressed with bzip2: rename it to end in .csv.bz2",
    b"\xfd7zXZ": "compressed with xz: rename it to end in .csv.xz",
}
UTF16 = (b"\xff\xfe", b"\xfe\xff")
JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*[\[{])')
NOT_CLOSED = re.compile(r"EOF inside string starting at row (\d+)")


@final
@dataclass(frozen=True)
class Signs:
    """What separates cells, and what decimals; None is found out."""

    sep: str | None = None
    decimal: str | None = None


RECOGNISED = Signs()


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --sep and --decimal to a command that reads a table."""
    sep = click.option(
        "--sep", metavar="CHAR", callback=_sign, help='The separator of a text file, such as ";" or tab.'
    )
    decimal = click.option("--decimal", type=click.Choice([".", ","]), help="The decimal separator of a text file.")
    return sep(decimal(command))


def _sign(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    sign = WORDS.get(given, given)
    if len(sign) != 1 or sign in '"\r\n' or sign.isalnum():
        raise click.BadParameter('give one character, such as ";", or tab.')
    return sign


def parsed(path: str, usual: str, signs: Signs, text: Collection[str]) -> Any:
    """A table of text: in columns of numbers NA and the like are missing values, in columns of text only empty cells.

    ``usual`` is the separator that the file's name promises. What a column holds is known once it has been read, so
    that text with missing values is read a second time.
    """
    source = Source.of(path)
    sep, names = _header(source, usual, signs.sep)
    require_different(source.path, [name for name in names if name.strip()])
    frame = _whole(source, sep, names, decimal=signs.decimal or ".")
    decimal = signs.decimal or _decimal(frame, sep, text)
    if decimal == "," and signs.decimal is None:
        frame = _whole(source, sep, names, decimal=decimal)
    _tell(source.path, sep if sep not in (usual, signs.sep) else None, signs.decimal != decimal and decimal == ",")
    if len(frame) and frame.iloc[:, -1].hasnans:
        _require_even(source, sep, len(names))
    again = [name for name in frame.columns if name in text or (frame[name].hasnans and _holds_text(frame[name]))]
    if again:
        as_words: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_values": [""]}
        words = _whole(source, sep, names, usecols=again, **as_words)
        frame = frame.assign(**{name: words[name] for name in again})
    whole = [name for name in frame.columns if name not in text and _holds(frame[name], WHOLE)]
    return frame.assign(**{name: frame[name].map(_integer, na_action="ignore").astype(object) for name in whole})


def require_different(path: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise click.ClickException(f"{path} has two columns named {name!r}: rename one.")
        seen.add(name)


def _tell(path: str, sep: str | None, decimals: bool) -> None:
    """Say which signs were recognised."""
    found = [] if sep is None else [f"cells are separated by {SEPARATORS[sep]}"]
    found += ["decimals by commas"] * decimals
    if found:
        say(f"Note: {path}: {' and '.join(found)}.", err=True)


def _header(source: Source, usual: str, given: str | None) -> tuple[str, list[str]]:
    """The separator, and the names of the columns."""
    with _read(source) as lines:
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            raise click.ClickException(
                f"{source.path} is empty: it needs a header with the names of the columns and at least one row."
            )
        sep = given or separator_of(first, usual)
        try:
            return sep, next(csv.reader(chain([first], lines), delimiter=sep))
        except csv.Error as error:
            raise _no_header(source) from error


def _no_header(source: Source) -> click.ClickException:
    return click.ClickException(
        f"{source.path} begins with a line that is too long to be a header: line breaks are missing, or quotation "
        "marks are not closed."
    )


@contextmanager
def _read(source: Source) -> Iterator[Iterator[str]]:
    """The lines of a file."""
    with source.opened() as raw, _decoded(source, raw) as text:

        def lines() -> Iterator[str]:
            while line := text.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE:
                    raise _no_header(source)
                yield line

        yield lines()


def _decoded(source: Source, raw: IO[bytes]) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(_Checked(source.path, raw), CHUNK), encoding="utf-8-sig", newline="")


@final
class _Checked(io.RawIOBase):
    """Bytes that may be text: other kinds of files are refused by their first bytes, and NUL wherever it is."""

    def __init__(self, path: str, raw: IO[bytes]) -> None:
        self.path, self.raw, self.n_lines, self.begun = path, raw, 0, False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read on, and look."""
        found = self.raw.read(len(buffer))
        if not self.begun:
            self._require_text(found)
            self.begun = True
        if b"\0" in found:
            line = self.n_lines + found[: found.index(b"\0")].count(b"\n") + 1
            raise click.ClickException(
                f"{self.path} holds a NUL byte in line {line}, so it is damaged, or not a text file."
            )
        self.n_lines += found.count(b"\n")
        buffer[: len(found)] = found
        return len(found)

    def _require_text(self, head: bytes) -> None:
        kind = next((kind for begin, kind in OTHERS.items() if head.startswith(begin)), None)
        if head.startswith(UTF16) or head[1:2] == b"\0" or (head[:1] == b"\0" and head[1:2].isalnum()):
            kind = "UTF-16 text: save it as UTF-8, which Excel calls “CSV UTF-8”"
        elif JSON.match(head):
            kind = "JSON: save it as CSV, as by pandas.read_json(…).to_csv(…, index=False)"
        if kind is not None:
            raise click.ClickException(f"{self.path} is {kind}.")


def _whole(source: Source, sep: str, names: list[str], **options: Any) -> Any:
    """All rows, as pandas reads them."""
    import pandas as pd
    from pandas.errors import ParserError, ParserWarning

    try:
        with source.opened() as raw, _decoded(source, raw) as text, warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            return pd.read_csv(text, sep=sep, index_col=False, low_memory=False, **options)
    except (ParserError, ParserWarning) as error:
        raise_interrupt(error)
        found = NOT_CLOSED.search(str(error))
        if found:
            raise click.ClickException(
                f"{source.path}: a quotation mark that opens in line {int(found[1]) + 1} is not closed."
            ) from error
        _require_even(source, sep, len(names))
        raise click.ClickException(f"{source.path} can't be read as text: {error}") from error


def _require_even(source: Source, sep: str, n_names: int) -> None:
    """Refuse a row with more cells than the header has names, unless these are empty, or with fewer."""
    with _read(source) as lines:
        rows = csv.reader(lines, delimiter=sep)
        try:
            for row in rows:
                blank = len(row) < 2 and not "".join(row).strip()
                if not blank and (len(row) < n_names or any(row[n_names:])):
                    cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                    raise click.ClickException(
                        f"{source.path}: line {rows.line_num} has {cells}, and the header has {n_names} names. Give "
                        "every row a cell for each name, and put cells that hold the separator in quotation marks."
                    )
        except csv.Error as error:
            raise click.ClickException(
                f"{source.path}: line {rows.line_num} holds a cell of more than {csv.field_size_limit()} characters: "
                "line breaks are missing, or quotation marks are not closed."
            ) from error


def _decimal(frame: Any, sep: str, text: Collection[str]) -> str:
    """The decimal sign: a comma where numbers are written so, and nothing speaks against it."""
    written: list[str] = []
    for name in frame.columns:
        if name not in text and _holds(frame[name], COMMA_NUMBER):
            written += [word for word in frame[name].dropna() if "," in word]
    if not written:
        return "."
    points = any((frame[name].dropna() % 1 != 0).any() for name in frame.columns if frame[name].dtype.kind == "f")
    if sep != "," and not points and not all(THOUSANDS.fullmatch(word) for word in written):
        return ","
    say(
        f"Note: numbers such as {written[0]} are read as text. If the comma is a decimal separator, add --decimal , "
        "and if it separates thousands, remove it from the file.",
        err=True,
    )
    return "."


def _holds_text(column: Any) -> bool:
    return column.dtype.kind == "O" and any(isinstance(value, str) for value in column)


def _holds(column: Any, pattern: re.Pattern[str]) -> bool:
    """Whether a column is text, and all of it looks like this."""
    if not _holds_text(column):
        return False
    return all(isinstance(word, str) and pattern.fullmatch(word.strip()) for word in column.dropna())


def _integer(word: str) -> int | float:
    """An integer that pandas has left as text; what floats can't hold is infinite."""
    found = float(word)
    return int(word) if math.isfinite(found) else found
