"""Tables from files and into files, by the ending of the name."""

import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

import click

from vbsvm.base.printing import bar, visible
from vbsvm.cli.__init__ import say, stdout, with_cli_options
from vbsvm.design.values import did_you_mean, renumbered
from vbsvm.sources import files_text
from vbsvm.sources.files_text import PACKED, SEPARATORS, TextReader
from vbsvm.storage.atomic import atomic_write

if TYPE_CHECKING:
    from vbsvm import Files

STDIN = "-"
TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
# Files of other kinds, and how they become tables that are read.
HINTS = {
    ".xlsx": "Save the sheet as “CSV UTF-8” in Excel.",
    ".xls": "Save the sheet as “CSV UTF-8” in Excel.",
    ".ods": "Save the sheet as CSV.",
    ".json": "Save it as CSV, as by pandas.read_json(…).to_csv(…, index=False).",
    ".jsonl": "Save it as CSV, as by pandas.read_json(…, lines=True).to_csv(…, index=False).",
}
# What a spreadsheet may take for the beginning of a formula.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n")
READ = "Names may end in .csv, .tsv, .txt (also compressed, as .csv.gz), .parquet, .arrow or .feather."
WRITTEN = "Names may end in .csv, .tsv, .txt, .parquet, .arrow or .feather."
SIGN_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
CHUNK = 1 << 18
# Memory of a table in multiples of its file size, which decides whether it is read piece by piece.
MEMORY_FACTOR = 4
# Memory of one cell of a sample: its copies while it is encoded and averaged over.
CELL_BYTES = 200


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --sep and --decimal to a command that reads a table."""
    sep = click.option(
        "--sep", metavar="CHAR", callback=_separator, help='The separator of a text file, such as ";" or tab.'
    )
    decimal = click.option("--decimal", type=click.Choice([".", ","]), help="The decimal separator of a text file.")
    return sep(decimal(command))


def _separator(ctx: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    sign = SIGN_NAMES.get(text, text)
    if len(sign) != 1 or sign in '"\r\n' or sign.isalnum():
        raise click.BadParameter('give one character, such as ";", or tab.')
    return sign


def output_option(about: str, *, required: bool = False) -> Callable[..., Any]:
    """Add -o, --out or --output, and --force, to a command that writes a file."""
    out = click.option("-o", "--out", "--output", "out", metavar="FILE", required=required, help=about)
    force = click.option("--force", is_flag=True, help="Replace FILE if it exists.")
    return lambda command: out(force(command))


memory_option = click.option(
    "--memory-limit",
    metavar="SIZE",
    default="1GB",
    show_default=True,
    help="Memory that rows may take. Tables that need more, folders and patterns are read piece by piece.",
)
excel_safe_option = click.option(
    "--excel-safe", is_flag=True, help="Put an apostrophe before text that a spreadsheet would run."
)


def piecewise_files(
    data: str,
    memory_limit: str,
    sep: str | None,
    decimal: str | None,
    cache: str | None = None,
    factor: int = MEMORY_FACTOR,
) -> "Files | None":
    """Files to be read piece by piece, or None if the table fits in memory."""
    from vbsvm import Files

    files = Files(data, cache, memory_limit, sys.stderr.isatty(), sep, decimal)
    if data == STDIN:
        return None
    location = Path(data)
    if location.is_dir() or (has_magic(data) and not location.exists()):
        return files
    if not location.is_file() or not location.name.lower().endswith((*PARQUET, *TEXT, *PACKED)):
        return None
    max_bytes = files.limit // factor
    return files if location.stat().st_size > max_bytes or _is_larger(data, max_bytes) else None


def _is_larger(path: str, most: int) -> bool:
    """Whether a compressed file has more than ``most`` bytes; reads no more than that."""
    if Path(path.lower()).suffix not in PACKED:
        return False
    with readable_errors(path), _reader(path).unpacked() as raw:
        while most >= 0 and (block := raw.read(CHUNK)):
            most -= len(block)
    return most < 0


def read(path: str, text: Collection[str] = (), sep: str | None = None, decimal: str | None = None) -> Any:
    """The table in a file; ``-`` is CSV from stdin. Columns in ``text`` are text, also where it looks like numbers.

    What separates cells and decimals in a text file is recognised where it is None.
    """
    import pandas as pd

    ending = _ending(path)
    is_text = ending in TEXT or path == STDIN
    if (sep or decimal) and not is_text:
        raise click.UsageError(f"--sep and --decimal are for text files such as .csv; {path} is not one.")
    with readable_errors(path):
        if path != STDIN and Path(path).is_dir():
            raise IsADirectoryError
        if path != STDIN:
            Path(path).stat()
        if is_text:
            frame = _read_text(path, TEXT.get(ending, ","), sep, decimal, text)
        elif ending in PARQUET:
            frame = _with_file_errors(path, "read as Parquet", lambda: pd.read_parquet(path))
        elif ending in ARROW:
            frame = _with_file_errors(path, "read as Arrow", lambda: pd.read_feather(path))
        else:
            what = f"{ending} files are" if ending else "files without an extension are"
            raise click.ClickException(f"{path}: {what} not supported. {HINTS.get(ending, READ)}")
        frame.columns = [str(name) for name in frame.columns]
        files_text.check_different(path, list(frame.columns))
    for name in frame.columns:
        if name in text and frame[name].dtype.kind in "iu":
            frame[name] = frame[name].map(str, na_action="ignore")
    if not len(frame):
        raise click.ClickException(f"{path} has no rows, only a header.")
    return _drop_unnamed(frame).reset_index(drop=True)


def _read_text(path: str, usual: str, sep: str | None, decimal: str | None, text: Collection[str]) -> Any:
    """A table of text; ``usual`` is the separator that the file's name promises.

    What a column holds is known once it has been read, so that text with missing values is read a second time.
    """
    reader = _reader(path)
    used, _ = reader.header(usual, sep)
    (frame,) = reader.frames(used, decimal or ".")
    columns, commas = files_text.contents([frame]), False
    if decimal is None and files_text.decimal_commas(columns, used, text):
        (frame,) = reader.frames(used, ",")
        columns, commas = files_text.contents([frame]), True
    elif decimal is None:
        for name in files_text.comma_columns(columns, text)[:1]:  # they may mean something else than decimals
            word = next(word for word in frame[name].dropna() if "," in word)
            say(
                f"Note: numbers such as {word} are read as text. If the comma is a decimal separator, add --decimal , "
                "and if it separates thousands, remove it from the file.",
                err=True,
            )
    notes = [] if used in (usual, sep) else [f"cells are separated by {SEPARATORS[used]}"]
    notes += ["decimals by commas"] * commas
    if notes:
        say(f"Note: {reader.name}: {' and '.join(notes)}.", err=True)
    if columns and next(reversed(columns.values())).missing:
        reader.check_even(used)
    words = [name for name, info in columns.items() if name in text or (info.missing and info.kind == files_text.TEXT)]
    if words:
        as_words: dict[str, Any] = {"usecols": words, "dtype": str, "keep_default_na": False, "na_values": [""]}
        (again,) = reader.frames(used, ".", **as_words)
        frame = frame.assign(**{name: again[name] for name in words})
    large = [
        name
        for name, info in columns.items()
        if name not in text and info.kind == files_text.NUMBERS and frame[name].dtype.kind == "O"
    ]
    return frame.assign(**{name: frame[name].map(_integer, na_action="ignore").astype(object) for name in large})


def _reader(path: str) -> TextReader:
    """A reader of a file; what can be read only once, such as stdin, is held in memory."""
    if path == STDIN or Path(path).is_fifo():
        content = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return TextReader("stdin" if path == STDIN else path, lambda: io.BufferedReader(io.BytesIO(content)))
    return TextReader(path, partial(_with_progress_bar, path))


def _integer(word: str) -> int | float:
    """An integer that pandas has left as text; what floats can't hold is infinite."""
    value = float(word)
    return int(word) if math.isfinite(value) else value


@contextmanager
def _with_progress_bar(path: str) -> Iterator[IO[bytes]]:
    """Open a file, with a progress bar on stderr if that is a terminal and reading is slow."""
    task = f"Reading {visible(Path(path).name)}", Path(path).stat().st_size
    with _ReportingFile(path) as file, io.BufferedReader(file, CHUNK) as buffered, bar(*task) as update:
        file.after_read = lambda: update(file.tell())
        yield buffered


@final
class _ReportingFile(io.FileIO):
    """A file that calls ``after_read`` after each read, for progress bars."""

    after_read: Callable[[], None] | None = None

    def readinto(self, buffer: Any, /) -> int:
        """Read, and call."""
        n_bytes = super().readinto(buffer) or 0
        if self.after_read is not None:
            self.after_read()
        return n_bytes


@contextmanager
def readable_errors(path: str) -> Iterator[None]:
    """Turn errors of opening, reading and writing a file into messages for the command line."""
    try:
        yield
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except FileNotFoundError as error:
        raise click.ClickException(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise click.ClickException(f"{path} is a directory: name a file in it.") from error
    except PermissionError as error:
        raise click.ClickException(f"{path}: you have no permission to read or write it.") from error
    except OSError as error:
        raise click.ClickException(f"{path} can't be read or written: {error.strerror or error}.") from error


def _drop_unnamed(frame: Any) -> Any:
    """The frame without unnamed columns."""
    unnamed = [k for k, name in enumerate(frame.columns, 1) if not name.strip() or name.startswith("Unnamed: ")]
    if unnamed:
        subject = f"column {unnamed[0]} has" if len(unnamed) == 1 else f"columns {join_names(unnamed)} have"
        say(f"Note: {subject} no name in the header and {'is' if len(unnamed) == 1 else 'are'} left out.", err=True)
    return frame.drop(columns=[frame.columns[k - 1] for k in unnamed])


def with_plain_numbers(frame: Any, labels: Collection[str]) -> Any:
    """Decimals and integers beyond 64 bits as floats; where they are labels of classes or groups, as text."""
    import numpy as np

    changed: dict[str, Any] = {}
    for name in frame.columns:
        kinds = set(map(type, frame[name].dropna()))
        if frame[name].dtype.kind != "O" or not kinds or not kinds <= {int, float, Decimal}:
            continue
        if name in labels:
            changed[name] = frame[name].map(str, na_action="ignore")
        else:
            changed[name] = frame[name].map(lambda cell: float(str(cell)), na_action="ignore").astype(np.float64)
            say(f"Note: the numbers of column {name!r} are rounded to 16 digits.", err=True)
    return frame.assign(**changed)


def with_outcome(frame: Any, outcome: str, *, drop: bool) -> Any:
    """Rows with a known outcome, indexed by their numbers in the file; others are dropped or an error."""
    missing = frame[outcome].isna()
    rows = frame.index[missing].tolist()
    if len(rows) == len(frame):
        raise click.ClickException(f"The outcome {outcome!r} is missing in every row.")
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    if rows and not drop:
        first = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise click.ClickException(
            f"The outcome {outcome!r} is missing in {count} (row{'s' * (len(rows) > 1)} {first}). Fill it in, or "
            "leave such rows out with --drop-missing-outcome."
        )
    if rows:
        say(f"Note: {count} without a value of {outcome!r} left out.", err=True)
    complete = frame[~missing]
    return complete.assign(**{outcome: complete[outcome].infer_objects()})


@contextmanager
def file_row_numbers(rows: Sequence[int]) -> Iterator[None]:
    """Renumber rows in errors by their numbers in the file."""
    try:
        yield
    except ValueError as error:
        message = renumbered(str(error), lambda row: rows[row] if row < len(rows) else row)
        raise click.ClickException(with_cli_options(message)) from error


def write(frame: Any, path: str | None, *, force: bool) -> None:
    """Write a table into a file, in one step as others see it, or to stdout as CSV."""
    from vbsvm.results.fit_predictions import write_text

    if path is None:
        write_text(frame, stdout())
        return
    check_table_path(path, force=force)
    ending = _ending(path)
    with atomic_write(path) as file:
        if ending in TEXT:
            write_text(frame, file, TEXT[ending])
        elif ending in PARQUET:
            _with_file_errors(path, "written as Parquet", lambda: frame.to_parquet(file, index=False))
        else:
            _with_file_errors(path, "written as Arrow", lambda: frame.to_feather(file))
    say(f"Wrote {path}.", err=True)


def write_json(frames: dict[str, Any], note: str, path: str | None) -> None:
    """Write tables with their note as JSON, into a file or to stdout."""
    records = {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in frames.items()}
    text = json.dumps(records | {"note": with_cli_options(note)}, ensure_ascii=False, indent=1)
    if path is None:
        say(text)
        return
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())
    say(f"Wrote {path}.", err=True)


def excel_safe(frame: Any) -> Any:
    """The table with an apostrophe before text that spreadsheets would run as a formula."""
    text = {name: frame[name].astype(object).map(_quoted) for name in frame if frame[name].dtype.kind == "O"}
    return frame.assign(**text).rename(columns=_quoted)


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_SIGNS) else cell


def check_table_path(path: str | None, *, force: bool) -> None:
    """Reject a name that a table can't be written under, by its ending or its place."""
    if path is None:
        return
    if _ending(path) not in (*TEXT, *PARQUET, *ARROW) or path.lower().endswith(tuple(PACKED)):
        raise click.ClickException(f"{path}: tables are not written as {Path(path).suffix or 'that'}. {WRITTEN}")
    check_output_path(path, force=force)


def check_output_path(path: str | None, *, force: bool) -> None:
    """Reject to write over a file unless it is asked for, and where there is no directory."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise click.ClickException(f"There is no directory {Path(path).parent} to write {Path(path).name} in.")
    if Path(path).is_dir():
        raise click.ClickException(f"{path} is a directory: name a file in it.")
    if Path(path).exists() and not force:
        raise click.ClickException(f"{path} exists already: add --force to replace it.")


def sample(files: "Files", wanted: Collection[str | None], text: Collection[str]) -> Any:
    """These columns of files, of a systematic random sample of the rows if all would need too much memory."""
    import numpy as np
    import pandas as pd

    table = files.opened(text)
    columns = [name for name in table.names if name in wanted]
    n_rows = sum(file.n_rows for file in table.files)
    n_kept = min(n_rows, max(1, files.limit // (CELL_BYTES * max(1, len(columns)))))
    rows = ((np.arange(n_kept) + np.random.default_rng(0).random(n_kept)) * (n_rows / n_kept)).astype(np.intp)
    if n_kept < n_rows:
        note = f"Note: averages are over a random sample of {n_kept} of {n_rows} observations. For more, raise"
        say(f"{note} --memory-limit.", err=True)
    done, kept = 0, []
    for piece in table.pieces(columns):
        first, last = np.searchsorted(rows, [done, done + len(piece.frame)])
        kept.append(piece.frame.iloc[rows[first:last] - done])
        done += len(piece.frame)
    return pd.concat(kept, ignore_index=True)


def check_columns(names: Iterable[str], wanted: Iterable[str | None], what: str) -> None:
    """Reject a column that is not there, and name those that are spelled nearly the same."""
    names = list(names)
    for name in wanted:
        if name is None or name in names:
            continue
        sign = next((sign for sign in ",;\t|" if any(sign in column for column in names)), None)
        hint = "" if sign is None else f" If cells are separated by {SEPARATORS[sign]}, add --sep {sign!r}."
        raise click.ClickException(
            f"{what}: there is no column {name!r}."
            f"{did_you_mean(name, names) or f' There are {join_names(names)}.'}{hint}"
        )


def join_names(names: Iterable[object]) -> str:
    """The first names, and how many more there are."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def _ending(path: str) -> str:
    name = path.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def _with_file_errors(path: str, done: str, call: Callable[[], Any]) -> Any:
    """Call a reader or writer of pyarrow, with its errors as messages for the command line."""
    with readable_errors(path):
        try:
            return call()
        except ImportError as error:
            raise click.ClickException(f"{path}: this file format needs pyarrow: pip install pyarrow") from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = "it was cut short or damaged, or is of another kind." if done.startswith("read") else str(error)
            raise click.ClickException(f"{path} can't be {done}: {reason}") from error
