"""Tables from files and into files, by the ending of the name."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from vbsvm.cli import texts
from vbsvm.cli.streams import PACKED, STDIN, explained
from vbsvm.cli.texts import RECOGNISED, Signs
from vbsvm.cli.wording import by_options, say, stdout
from vbsvm.design.values import meant, renumbered
from vbsvm.storage.atomic import replacing

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
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
READ = "Names may end in .csv, .tsv, .txt (also compressed, as .csv.gz), .parquet, .arrow or .feather."
WRITTEN = "Names may end in .csv, .tsv, .txt, .parquet, .arrow or .feather."


def read(path: str, text: Collection[str] = (), signs: Signs = RECOGNISED) -> Any:
    """The table in a file; ``-`` is CSV from stdin. Columns in ``text`` are text, also where it looks like numbers."""
    import pandas as pd

    ending = _ending(path)
    is_text = ending in TEXT or path == STDIN
    if signs != RECOGNISED and not is_text:
        raise click.UsageError(f"--sep and --decimal are for text files such as .csv; {path} is not one.")
    if path != STDIN:
        _require_file(path)
    if is_text:
        frame = texts.parsed(path, TEXT.get(ending, ","), signs, text)
    elif ending in PARQUET:
        frame = _told(path, "read as Parquet", lambda: pd.read_parquet(path))
    elif ending in ARROW:
        frame = _told(path, "read as Arrow", lambda: pd.read_feather(path))
    else:
        what = f"{ending} files are" if ending else "files without an extension are"
        raise click.ClickException(f"{path}: {what} not supported. {HINTS.get(ending, READ)}")
    frame.columns = [str(name) for name in frame.columns]
    texts.require_different(path, list(frame.columns))
    for name in frame.columns:
        if name in text and frame[name].dtype.kind in "iu":
            frame[name] = frame[name].map(str, na_action="ignore")
    if not len(frame):
        raise click.ClickException(f"{path} has no rows, only a header.")
    return _named(frame).reset_index(drop=True)


def _require_file(path: str) -> None:
    """Refuse a directory, and a file that is not there."""
    with explained(path):
        if Path(path).is_dir():
            raise IsADirectoryError
        Path(path).stat()


def _named(frame: Any) -> Any:
    """The columns that have a name."""
    unnamed = [k for k, name in enumerate(frame.columns, 1) if not name.strip() or name.startswith("Unnamed: ")]
    if unnamed:
        told = f"column {unnamed[0]} has" if len(unnamed) == 1 else f"columns {listed(unnamed)} have"
        say(f"Note: {told} no name in the header and {'is' if len(unnamed) == 1 else 'are'} left out.", err=True)
    return frame.drop(columns=[frame.columns[k - 1] for k in unnamed])


def with_plain_numbers(frame: Any, labels: Collection[str]) -> Any:
    """Decimals and integers beyond 64 bits as floats; where they are labels of classes or groups, as text."""
    import numpy as np

    changed: dict[str, Any] = {}
    for name in frame.columns:
        if frame[name].dtype.kind != "O" or not _is_number(frame[name].dropna()):
            continue
        if name in labels:
            changed[name] = frame[name].map(str, na_action="ignore")
        else:
            changed[name] = frame[name].map(lambda one: float(str(one)), na_action="ignore").astype(np.float64)
            say(f"Note: the numbers of column {name!r} are rounded to 16 digits.", err=True)
    return frame.assign(**changed)


def _is_number(known: Any) -> bool:
    """Whether a column of objects holds numbers."""
    kinds = {type(value) for value in known}
    return bool(kinds) and kinds <= {int, float, Decimal}


def with_outcome(frame: Any, outcome: str, *, drop: bool) -> Any:
    """Rows with a value of the outcome, under the numbers that they have in the file; others are dropped or refused."""
    missing = frame[outcome].isna()
    rows = frame.index[missing].tolist()
    if len(rows) == len(frame):
        raise click.ClickException(f"The outcome {outcome!r} is missing in every row.")
    told = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    if rows and not drop:
        first = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise click.ClickException(
            f"The outcome {outcome!r} is missing in {told} (row{'s' * (len(rows) > 1)} {first}). Fill it in, or leave "
            f"such rows out with --drop-missing-outcome."
        )
    if rows:
        say(f"Note: {told} without a value of {outcome!r} left out.", err=True)
    found = frame[~missing]
    return found.assign(**{outcome: found[outcome].infer_objects()})


@contextmanager
def numbered(rows: Sequence[int]) -> Iterator[None]:
    """Name rows in errors by their numbers in the file, where only these rows of it are used."""
    try:
        yield
    except ValueError as error:
        said = renumbered(str(error), lambda row: rows[row] if row < len(rows) else row)
        raise click.ClickException(by_options(said)) from error


def write(frame: Any, path: str | None, *, force: bool) -> None:
    """Write a table into a file, in one step as others see it, or to stdout as CSV."""
    if path is None:
        frame.to_csv(stdout(), index=False)
        return
    require_writable(path, force=force)
    ending = _ending(path)
    with replacing(path) as file:
        if ending in TEXT:
            frame.to_csv(file, sep=TEXT[ending], index=False)
        elif ending in PARQUET:
            _told(path, "written as Parquet", lambda: frame.to_parquet(file, index=False))
        else:
            _told(path, "written as Arrow", lambda: frame.to_feather(file))
    say(f"Wrote {path}.", err=True)


def excel_safe(frame: Any) -> Any:
    """The table with an apostrophe before text that spreadsheets would run as a formula."""
    text = {name: frame[name].astype(object).map(_quoted) for name in frame if frame[name].dtype.kind == "O"}
    return frame.assign(**text).rename(columns=_quoted)


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_SIGNS) else cell


def require_writable(path: str | None, *, force: bool) -> None:
    """Refuse a name that a table can't be written under, by its ending or its place."""
    if path is None:
        return
    if _ending(path) not in (*TEXT, *PARQUET, *ARROW) or path.lower().endswith(tuple(PACKED)):
        raise click.ClickException(f"{path}: tables are not written as {Path(path).suffix or 'that'}. {WRITTEN}")
    require_free(path, force=force)


def require_free(path: str | None, *, force: bool) -> None:
    """Refuse to write over a file unless it is asked for, and where there is no directory."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise click.ClickException(f"There is no directory {Path(path).parent} to write {Path(path).name} in.")
    if Path(path).is_dir():
        raise click.ClickException(f"{path} is a directory: name a file in it.")
    if Path(path).exists() and not force:
        raise click.ClickException(f"{path} exists already: add --force to replace it.")


def require_columns(frame: Any, wanted: Iterable[str | None], what: str) -> None:
    """Refuse a column that is not there, and name those that are spelled nearly the same."""
    names = list(frame.columns)
    for name in wanted:
        if name is None or name in names:
            continue
        other = next((sign for sign in ",;\t|" if any(sign in one for one in names)), None)
        hint = "" if other is None else f" If cells are separated by {texts.SEPARATORS[other]}, add --sep {other!r}."
        raise click.ClickException(
            f"{what}: there is no column {name!r}.{meant(name, names) or f' There are {listed(names)}.'}{hint}"
        )


def listed(names: Iterable[object]) -> str:
    """The first names, and how many more there are."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def _ending(path: str) -> str:
    name = path.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def _told(path: str, done: str, call: Callable[[], Any]) -> Any:
    """Call a reader or a writer of pyarrow's, and say in words why it failed."""
    with explained(path):
        try:
            return call()
        except ImportError as error:
            raise click.ClickException(f"{path}: this file format needs pyarrow: pip install pyarrow") from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = "it was cut short or damaged, or is of another kind." if done.startswith("read") else str(error)
            raise click.ClickException(f"{path} can't be {done}: {reason}") from error
