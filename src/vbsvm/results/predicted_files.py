"""Predictions of rows in files, written to a file piece by piece: neither need fit in memory."""

import csv
import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.formula.missing_inputs import columns_in
from vbsvm.design.values import did_you_mean, join_names
from vbsvm.sources.files import PARQUET, Files
from vbsvm.sources.files import TEXT as ENDINGS
from vbsvm.sources.files_parquet import ParquetWriter
from vbsvm.sources.files_text import TEXT, TRUTH, WHOLE_NUMBERS
from vbsvm.storage.atomic import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader


def text_columns(reader: "Reader") -> set[str]:
    """Columns that were text in fit, to be read as text from files even if they look like numbers."""
    levels: list[tuple[str, Any]] = []
    for matrix in (reader.fixed, *(effects.matrix for effects in reader.effects), *reader.hidden):
        for expression, values in matrix.learned["categories"].items():
            levels += [(name, values) for name in columns_in(expression, list(reader.kinds))]
    for factor in reader.plan.factors:
        levels += [(name, values[:1]) for name, values in zip(factor.columns, factor.levels.parts, strict=True)]
    return {
        name
        for name, values in levels
        if reader.kinds.get(name) == "O" and all(isinstance(value, str) for value in values)
    }


def predict_frame(
    fitted: Any, inputs: Any, kept: "pd.DataFrame", classes: NDArray[Any], *, proba: bool, scores: bool
) -> "pd.DataFrame":
    """Predictions of a frame: kept columns, the predicted class, and scores and probabilities on request."""
    several = len(classes) > 2
    scored = [f"score {label}" for label in classes] if several else ["score"]
    chances = [f"probability {label}" for label in classes]
    for name in kept.columns:
        if name in ["prediction", *(scored if scores else []), *(chances if proba else [])]:
            raise ValueError(f"keep: {name!r} is the name of a column that predictions have: rename it in the table.")
    table = kept.assign(prediction=fitted.predict(inputs))
    if scores:
        values = np.asarray(fitted.decision_function(inputs))
        table = table.assign(**dict(zip(scored, np.atleast_2d(values.T), strict=True)))
    if proba:
        table = table.assign(**dict(zip(chances, fitted.predict_proba(inputs).T, strict=True)))
    return table


def write(
    fitted: Any,
    given: Any,
    to: str | os.PathLike[str] | IO[str],
    *,
    columns: Sequence[str],
    text: Collection[str],
    classes: NDArray[Any],
    keep: Sequence[str] = (),
    proba: bool = False,
    scores: bool = False,
    change: "Callable[[pd.DataFrame], pd.DataFrame] | None" = None,
) -> int:
    """Predict the rows of files and write them atomically; return the number of rows.

    ``columns`` are those that the model needs, ``text`` those of them that are text in any case; ``change`` is made to
    each piece before it is written.
    """
    if isinstance(keep, str):
        raise TypeError(f"keep must be a list of columns; got the text {keep!r}.")
    table = Files.of(given).opened(text)
    for name in (*columns, *keep):
        if name not in table.names:
            raise ValueError(
                f"The files have no column {name!r}; they have {join_names(table.names)}."
                f"{did_you_mean(name, table.names)}"
            )
    if isinstance(to, str | os.PathLike) and Path(to).resolve() in [one.path.resolve() for one in table.files]:
        raise ValueError(f"{os.fspath(to)} is one of the files that are read: write the predictions to another.")
    chosen, n_rows = list(dict.fromkeys((*columns, *keep))), 0
    with _writer(to) as writer:
        for piece in table.pieces(chosen):
            with piece.numbered():
                kept_columns = _consistent_types(piece.frame.loc[:, list(keep)], table.types)
                inputs = piece.frame.loc[:, list(columns)]
                predictions = predict_frame(fitted, inputs, kept_columns, classes, proba=proba, scores=scores)
                writer(predictions if change is None else change(predictions))
            n_rows += len(piece.frame)
        if not n_rows:
            raise ValueError("The files hold no rows.")
    return n_rows


def _consistent_types(frame: "pd.DataFrame", types: dict[str, str]) -> "pd.DataFrame":
    """Convert columns to types that are the same in every piece, with or without missing values."""
    changed: dict[str, Any] = {}
    for name in frame.columns:
        if types[name] in (WHOLE_NUMBERS, TRUTH):
            changed[name] = frame[name].astype("Int64" if types[name] == WHOLE_NUMBERS else "boolean")
        elif types[name] == TEXT or frame[name].dtype.kind not in "iufM":
            changed[name] = frame[name].astype(object).map(str, na_action="ignore").astype("string")
    return frame.assign(**changed)


@contextmanager
def _writer(to: Any) -> Iterator[Any]:
    """Yield a function that writes further rows: as CSV to a stream, or to a file in the format of its extension."""
    if hasattr(to, "write"):
        yield _text_writer(to, ",")
        return
    ending = Path(os.fspath(to)).suffix.lower()
    if ending not in (*PARQUET, *ENDINGS):
        raise ValueError(f"{to}: predictions are written to files that end in .parquet, .csv, .tsv or .txt.")
    try:
        with atomic_write(to) as file:
            if ending in PARQUET:
                with ParquetWriter(file) as writer:
                    yield writer.write
            else:
                yield _text_writer(file, ENDINGS[ending])
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"The disk of {to} is full. Make room there, or write to another; nothing has been left behind"
        raise OSError(errno.ENOSPC, message) from error


def _text_writer(file: Any, sep: str) -> Any:
    begun = False

    def write(frame: "pd.DataFrame") -> None:
        nonlocal begun
        write_text(frame, file, sep, header=not begun)
        begun = True

    return write


def write_text(frame: "pd.DataFrame", file: Any, sep: str = ",", *, header: bool = True) -> None:
    """Write a table as CSV; cells with a carriage return, a line end for many readers, are quoted."""
    text = [frame[name].astype(str) for name in frame if frame[name].dtype.kind == "O"]
    returns = any("\r" in str(name) for name in frame) or any(
        column.str.contains("\r", regex=False).any() for column in text
    )
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL  # the latter only quotes them from Python 3.13 on
    frame.to_csv(file, sep=sep, index=False, header=header, quoting=quoting)
