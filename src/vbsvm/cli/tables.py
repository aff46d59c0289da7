"""Tables from files and into files, by the ending of the name."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from vbsvm.archive import replacing
from vbsvm.design.spelling import meant

PACKED = (".gz", ".bz2", ".xz", ".zip")
TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
STDIN = "-"


def read(path: str) -> Any:
    """The table in a file; ``-`` is CSV from stdin."""
    import pandas as pd

    ending = _ending(path)
    if ending in TEXT or path == STDIN:
        source, separator = sys.stdin if path == STDIN else path, TEXT.get(ending, ",")
        frame = _told(path, "text", lambda: pd.read_csv(source, sep=separator))
    elif ending in PARQUET:
        frame = _told(path, "Parquet", lambda: pd.read_parquet(path))
    elif ending in ARROW:
        frame = _told(path, "Arrow", lambda: pd.read_feather(path))
    else:
        raise click.ClickException(f"{path}: {ending or 'a file without an ending'} is not known. {_known()}")
    frame.columns = [str(name) for name in frame.columns]
    unnamed = [name for name in frame.columns if name.startswith("Unnamed: ")]
    if unnamed:
        click.echo(f"Note: {len(unnamed)} column{'s' * (len(unnamed) > 1)} without a name left out.", err=True)
    if not len(frame):
        raise click.ClickException(f"{path} has no rows.")
    return frame.drop(columns=unnamed)


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
