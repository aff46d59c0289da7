"""Tables that need not fit in memory: several files, folders, and large ones; they are read piece by piece."""

import sys
from collections.abc import Callable, Collection
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vbsvm.cli.streams import STDIN, is_larger
from vbsvm.cli.texts import Signs
from vbsvm.cli.wording import say, stdout

if TYPE_CHECKING:
    from vbsvm import Files
    from vbsvm.api.estimator import Classifier
    from vbsvm.cli.fitting import Asked
    from vbsvm.results.fit import Fit

# A table in memory takes some times the room of its file: larger files are read piece by piece.
TIMES = 4
ENDINGS = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".zip")


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says how much memory rows may take."""
    return click.option(
        "--memory-limit",
        metavar="SIZE",
        default="1GB",
        show_default=True,
        help="Memory that rows may take. Tables that need more, folders and patterns are read piece by piece.",
    )(command)


def files_of(data: str, memory_limit: str, signs: Signs, cache: str | None = None) -> "Files | None":
    """The files, where they are to be read piece by piece; None where a table fits in memory."""
    from vbsvm import Files

    files = Files(data, cache, memory_limit, sys.stderr.isatty(), signs.sep, signs.decimal)
    if data == STDIN:
        return None
    place = Path(data)
    if place.is_dir() or (has_magic(data) and not place.exists()):
        return files
    if not place.is_file() or not place.name.lower().endswith(ENDINGS):
        return None
    most = files.limit // TIMES
    return files if place.stat().st_size > most or is_larger(data, most) else None


def fitted(files: "Files", asked: "Asked") -> "Fit | Classifier":
    """Fit what the user asked for to rows in files."""
    if asked.drop_missing_outcome:
        raise click.UsageError("--drop-missing-outcome is for tables in memory: leave such rows out of the files.")
    table = files.opened()
    if asked.formula is not None:
        return _by_formula(files, asked.formula, asked)
    target = str(asked.target)
    taken = (target, asked.weights, *asked.dropped)
    columns = [name for name in table.names if name not in taken]
    for option, name in (
        ("--target", target),
        ("--group", asked.group),
        ("--weights", asked.weights),
        *(("--drop", name) for name in asked.dropped),
    ):
        if name is not None and name not in table.names:
            raise click.ClickException(f"{option}: there is no column {name!r} in the files.")
    inputs = [name for name in columns if name != asked.group]
    if not inputs:
        raise click.ClickException(f"There is no column other than {target!r} to predict it from.")
    text = [name for name in inputs if table.types[name] == "text"]
    if not text and asked.positive is None:
        return _by_columns(files, target, columns, asked)
    if text:
        say(f"Note: text columns are used as categories ({', '.join(text[:12])}).", err=True)
    terms = [f"`{name}`" for name in inputs] + ([] if asked.group is None else [f"(1 | `{asked.group}`)"])
    return _by_formula(files, f"`{target}` ~ {' + '.join(terms)}", asked)


def _by_columns(files: "Files", target: str, columns: list[str], asked: "Asked") -> "Classifier":
    from vbsvm import LaplaceZero

    prior, class_weight = LaplaceZero() if asked.select else None, "balanced" if asked.balanced else None
    clf = asked.estimator(prior, asked.inference, group=asked.group, class_weight=class_weight, random_state=asked.seed)
    return clf.fit_files(files, target, features=columns, weights=asked.weights)


def _by_formula(files: "Files", formula: str, asked: "Asked") -> "Fit":
    from vbsvm import Model

    if asked.balanced:
        raise click.UsageError(
            "--balanced is for tables in memory where there is a formula, text columns or --positive: put weights that "
            "balance the classes into a column of the files, and name it with --weights."
        )
    positive = None if asked.positive is None else _level(files, formula, asked.positive)
    model = Model(formula, files, asked.priors, positive=positive, weights=asked.weights, **asked.own_likelihood)
    found = model.fit(asked.inference, random_state=asked.seed)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def _level(files: "Files", formula: str, given: str) -> Any:
    """The class that the user wrote: 1 is 1.0 too."""
    from vbsvm.cli.fitting import is_called
    from vbsvm.design.formula import syntax

    table = files.opened()
    outcome = syntax.read(formula, table.names).outcome
    levels: set[Any] = set()
    for piece in table.pieces([outcome]):
        levels.update(piece.frame[outcome].dropna().unique().tolist())
        found = next((level for level in levels if is_called(level, given)), None)
        if found is not None:
            return found
    raise click.ClickException(f"--positive: {given!r} is not a value of {outcome!r}.")


def predict(
    fitted: Any, files: "Files", columns: list[str], text: Collection[str], classes: Any, out: str | None, **added: Any
) -> None:
    """Predict the rows of files, and write them as CSV to stdout or to a file."""
    from vbsvm.results import predicted_files

    to: Any = stdout() if out is None else out
    predicted_files.write(fitted, files, to, columns=columns, text=text, classes=classes, **added)
    if out is not None:
        say(f"Wrote {out}.", err=True)
