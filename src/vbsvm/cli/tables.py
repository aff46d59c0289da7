"""Tables from files and into files, by the ending of the name."""

import io
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from vbsvm.archive import replacing
from vbsvm.design.spelling import meant

PACKED = (".gz", ".bz2", ".xz", ".zip")
TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
STDIN = "-"
# Rows as messages number them: "row 3", "rows 3 and 5", "rows 3, 5 and 8 more".
ROWS = re.compile(r"(?<!['\"`])\brows? \d+\b(?:, \d+\b)*(?: and \d+\b(?! more))?")


def read(path: str, text: Collection[str] = ()) -> Any:
    """The table in a file; ``-`` is CSV from stdin. Columns in ``text`` are text, also where it looks like numbers."""
    import pandas as pd

    ending = _ending(path)
    if ending in TEXT or path == STDIN:
        frame = _told(path, "text", lambda: _parsed(path, TEXT.get(ending, ","), text))
    elif ending in PARQUET:
        frame = _told(path, "Parquet", lambda: pd.read_parquet(path))
    elif ending in ARROW:
        frame = _told(path, "Arrow", lambda: pd.read_feather(path))
    else:
        raise click.ClickException(f"{path}: {ending or 'a file without an ending'} is not known. {_known()}")
    frame.columns = [str(name) for name in frame.columns]
    _require_different(path, frame.columns)
    for name in frame.columns:
        if name in text and frame[name].dtype.kind in "iu":
            frame[name] = frame[name].map(str, na_action="ignore")
    unnamed = [name for name in frame.columns if name.startswith("Unnamed: ")]
    if unnamed:
        click.echo(f"Note: {len(unnamed)} column{'s' * (len(unnamed) > 1)} without a name left out.", err=True)
    if not len(frame):
        raise click.ClickException(f"{path} has no rows.")
    return frame.drop(columns=unnamed).reset_index(drop=True)


def known(frame: Any, column: str) -> Any:
    """Rows with a value of a column, under the numbers that they have in the file."""
    found = frame[frame[column].notna()]
    return found.assign(**{column: found[column].infer_objects()})


@contextmanager
def numbered(rows: Sequence[int]) -> Iterator[None]:
    """Name rows in errors by their numbers in the file, where only these rows of it are used."""

    def in_the_file(found: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda one: str(rows[int(one[0])]) if int(one[0]) < len(rows) else one[0], found[0])

    try:
        yield
    except ValueError as error:
        raise click.ClickException(ROWS.sub(in_the_file, str(error))) from error


def write(frame: Any, path: str | None, *, force: bool) -> None:
    """Write a table into a file, in one step as others see it, or to stdout as CSV."""
    if path is None:
        frame.to_csv(sys.stdout, index=False)
        return
    require_free(path, force=force)
    ending = _ending(path)
    if ending not in (*TEXT, *PARQUET, *ARROW) or path.lower().endswith(PACKED):
        raise click.ClickException(f"{path}: tables are not written as {Path(path).suffix or 'that'}. {_known()}")
    with replacing(path) as file:
        if ending in TEXT:
            frame.to_csv(file, sep=TEXT[ending], index=False)
        elif ending in PARQUET:
            _told(path, "Parquet", lambda: frame.to_parquet(file, index=False))
        else:
            _told(path, "Arrow", lambda: frame.to_feather(file))
    click.echo(f"Wrote {path}.", err=True)


def require_free(path: str | None, *, force: bool) -> None:
    """Refuse to write over a file unless it is asked for, and where there is no directory."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise click.ClickException(f"There is no directory for {path}.")
    if Path(path).is_dir():
        raise click.ClickException(f"{path} is a directory.")
    if Path(path).exists() and not force:
        raise click.ClickException(f"{path} is there already: --force replaces it.")


def require_columns(frame: Any, wanted: Iterable[str | None], what: str) -> None:
    """Refuse a column that is not there, and name those that are spelled nearly the same."""
    names = list(frame.columns)
    for name in wanted:
        if name is None or name in names:
            continue
        other = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), None)
        if other is not None:
            raise click.ClickException(
                f"{what}: there is no column {name!r}, but a single one. The table seems to be separated by {other!r}: "
                "in .csv it is a comma, and in .tsv a tab."
            )
        raise click.ClickException(
            f"{what}: there is no column {name!r}.{meant(name, names) or f' There are {listed(names)}.'}"
        )


def listed(names: Iterable[object]) -> str:
    """The first names, and how many more there are."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def _parsed(path: str, separator: str, text: Collection[str]) -> Any:
    """A table of text: in columns of numbers NA and the like are missing values, in columns of text only empty cells.

    What a column holds is known once it has been read, so that text with gaps is read a second time.
    """
    import pandas as pd
    from pandas.errors import ParserWarning

    held = sys.stdin.read() if path == STDIN else None

    def parsed(**options: Any) -> Any:
        return pd.read_csv(path if held is None else io.StringIO(held), sep=separator, **options)

    header = parsed(header=None, nrows=1, dtype=str, keep_default_na=False)
    _require_different(path, [name for name in header.iloc[0] if name])
    whole: dict[str, Any] = {"index_col": False, "low_memory": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            frame = parsed(**whole)
    except ParserWarning as error:
        raise click.ClickException(
            f"{path}: rows have more cells than the header has names. Name every column, or leave the extra cells out."
        ) from error
    again = [name for name in frame.columns if name in text or (frame[name].hasnans and _holds_text(frame[name]))]
    if again:
        words = parsed(usecols=again, dtype=str, keep_default_na=False, na_values=[""], **whole)
        frame = frame.assign(**{name: words[name] for name in again})
    return frame


def _holds_text(column: Any) -> bool:
    return column.dtype.kind == "O" and any(isinstance(value, str) for value in column)


def _require_different(path: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise click.ClickException(f"{path} has two columns of the name {name!r}: rename one.")
        seen.add(name)


def _ending(path: str) -> str:
    name = path.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def _known() -> str:
    return "Known are .csv, .tsv (also .gz), .parquet, .arrow and .feather."


def _told(path: str, kind: str, call: Callable[[], Any]) -> Any:
    """Call a reader or a writer, and say in words why it failed."""
    try:
        return call()
    except ImportError as error:
        raise click.ClickException(f"{path}: {kind} files need pyarrow: pip install pyarrow") from error
    except FileNotFoundError as error:
        raise click.ClickException(f"There is no file {path}.") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not UTF-8 text: save it as UTF-8, or as Parquet.") from error
    except (ValueError, OSError) as error:
        raise click.ClickException(
            f"{path} can't be read or written as {kind}: {str(error).splitlines()[0]}"
        ) from error
