"""Odd kinds of value, for every place where a user may put data; and the judge of what came of them.

A kind is made from plain numbers. It says what it stands for: numbers that give the same result when they are written
plainly, a missing value, or nothing that may be taken.
"""

import datetime as dt
import enum
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from optional import optional
from vbsvm import OneClassWarning

pl = optional("polars")
pa = optional("pyarrow")

SAME, WHOLE, MISSING, ALL_MISSING, REFUSED = "same", "whole part", "missing", "all missing", "refused"

# What no message may hold: traces of NumPy, pandas, Python or formulaic.
INTERNALS = re.compile(
    r"has no attribute|not supported between|[Cc]annot convert|[Cc]ould not convert|could not be broadcast|ufunc|"
    r"unhashable|ambiguous|inhomogeneous|argument must have|invalid literal|Unable to|not iterable|subscriptable|"
    r"not understood|NotImplemented|out of bounds|expected .* arguments|must be real number|zero_copy|keyword"
)


def judge(run: Callable[[], Any], expected: Any, where: str) -> tuple[str, str]:
    """Verdict and what there is to say: right, clear error, raw or silent.

    ``expected`` are the scores that plainly written data give, or None where the value must be refused. ``where`` is a
    pattern of how a message names the place.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataConversionWarning)
        warnings.simplefilter("ignore", OneClassWarning)  # so few rows may all go to one class
        warnings.filterwarnings("ignore", "Warning: converting a masked element to nan")  # NumPy says it of lists
        try:
            found = run()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            return ("clear error" if is_clear(error, where) else "raw"), said
    if expected is None:
        return "silent", "taken, and it may not be"
    same = np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=1e-6, atol=1e-8)
    return ("right", "") if same and np.isfinite(found).all() else ("silent", "the result is another one")


def is_clear(error: Exception, where: str) -> bool:
    """Whether an error is of a clear kind, and in a sentence that names the place, without internals."""
    message = str(error)
    sentence = len(message.split()) >= 5 and message.rstrip()[-1] in ".?"
    return (
        isinstance(error, ValueError | TypeError | FileNotFoundError)
        and sentence
        and re.search(where, message) is not None
        and INTERNALS.search(message) is None
    )


class Colour(enum.Enum):
    """A value that is neither a number nor text."""

    RED = 1


@dataclass(frozen=True)
class Kind:
    """A kind of value: how it is made of a number (a cell) or of all numbers and a row (a column), what it means."""

    make: Callable[..., Any]
    means: str = REFUSED


_records = np.array([(1.0, 2)], dtype=[("u", float), ("v", int)])

# One cell among plain numbers.
CELLS = {
    "None": Kind(lambda v: None, MISSING),
    "NaN": Kind(lambda v: np.nan, MISSING),
    "pandas NA": Kind(lambda v: pd.NA, MISSING),
    "pandas NaT": Kind(lambda v: pd.NaT, MISSING),
    "Decimal NaN": Kind(lambda v: Decimal("NaN"), MISSING),
    "masked constant": Kind(lambda v: np.ma.masked, MISSING),
    "Decimal": Kind(lambda v: Decimal(str(v)), SAME),
    "Fraction": Kind(Fraction, SAME),
    "float16": Kind(np.float16, SAME),
    "longdouble": Kind(np.longdouble, SAME),
    "array without dimension": Kind(np.array, SAME),
    "text of a number": Kind(str, SAME),
    "text": Kind(lambda v: "red"),
    "empty text": Kind(lambda v: ""),
    "bytes": Kind(lambda v: str(v).encode()),
    "infinity": Kind(lambda v: np.inf),
    "minus infinity": Kind(lambda v: -np.inf),
    "whole number beyond floats": Kind(lambda v: 10**400),
    "complex": Kind(lambda v: v + 1j),
    "NumPy complex": Kind(lambda v: np.complex64(v + 1j)),
    "date": Kind(lambda v: dt.date(2020, 1, 1)),
    "datetime": Kind(lambda v: dt.datetime(2020, 1, 1)),
    "time of day": Kind(lambda v: dt.time(12)),
    "timedelta": Kind(lambda v: dt.timedelta(1)),
    "datetime64": Kind(lambda v: np.datetime64("2020-01-01")),
    "timedelta64": Kind(lambda v: np.timedelta64(3, "D")),
    "Timestamp with zone": Kind(lambda v: pd.Timestamp("2020-01-01", tz="UTC")),
    "Period": Kind(lambda v: pd.Period("2020-01")),
    "Interval": Kind(lambda v: pd.Interval(0, 1)),
    "list": Kind(lambda v: [v]),
    "tuple": Kind(lambda v: (v, v)),
    "dict": Kind(lambda v: {"u": v}),
    "set": Kind(lambda v: {v}),
    "array": Kind(lambda v: np.array([v, v])),
    "Series": Kind(lambda v: pd.Series([v])),
    "frame": Kind(lambda v: pd.DataFrame({"u": [v]})),
    "record": Kind(lambda v: _records[0]),
    "generator": Kind(lambda v: (one for one in [v])),
    "function": Kind(lambda v: len),
    "enum": Kind(lambda v: Colour.RED),
    "object": Kind(lambda v: object()),
}


def _masked(v: np.ndarray, row: int, dtype: Any) -> Any:
    return np.ma.array(np.where(np.arange(len(v)) == row, 99, v), mask=np.arange(len(v)) == row, dtype=dtype)


def _gap(v: np.ndarray, row: int) -> list[Any]:
    return [None if i == row else one.item() for i, one in enumerate(v)]


def _days(v: np.ndarray) -> Any:
    return np.datetime64("2020-01-01", "ns") + np.arange(len(v)) * np.timedelta64(1, "D")


def _decimals(v: np.ndarray) -> list[Decimal]:
    return [Decimal(str(one)) for one in v.tolist()]


# A whole column, as a column of a dictionary or of a pandas frame, or as an argument.
COLUMNS = {
    "list": Kind(lambda v, row: v.tolist(), SAME),
    "tuple": Kind(lambda v, row: tuple(v.tolist()), SAME),
    "float32": Kind(lambda v, row: v.astype(np.float32), SAME),
    "longdouble": Kind(lambda v, row: v.astype(np.longdouble), SAME),
    "objects": Kind(lambda v, row: v.astype(object), SAME),
    "Decimals": Kind(lambda v, row: np.array(_decimals(v), dtype=object), SAME),
    "Fractions": Kind(lambda v, row: np.array([Fraction(one) for one in v.tolist()], dtype=object), SAME),
    "read-only": Kind(lambda v, row: np.broadcast_to(v, (2, len(v)))[0], SAME),
    "big-endian": Kind(lambda v, row: v.astype(v.dtype.newbyteorder(">")), SAME),
    "strided": Kind(lambda v, row: np.repeat(v, 2)[::2], SAME),
    "masked, nothing is": Kind(lambda v, row: np.ma.array(v), SAME),
    "masked floats": Kind(lambda v, row: _masked(v, row, float), MISSING),
    "masked integers": Kind(lambda v, row: _masked(v, row, int), MISSING),
    "masked objects": Kind(lambda v, row: _masked(v, row, object), MISSING),
    "pandas Float64": Kind(lambda v, row: pd.Series(v.astype(float), dtype="Float64"), SAME),
    "pandas Float64 with NA": Kind(lambda v, row: pd.Series(_gap(v, row), dtype="Float64"), MISSING),
    "pandas sparse": Kind(lambda v, row: pd.Series(pd.arrays.SparseArray(v)), SAME),
    "pandas with an index": Kind(lambda v, row: pd.Series(v, index=np.arange(len(v))[::-1] + 70), SAME),
    "pandas array": Kind(lambda v, row: pd.array(v), SAME),
    "pandas index": Kind(lambda v, row: pd.Index(v), SAME),
    "arrow-backed": Kind(lambda v, row: pd.Series(v.astype(float), dtype="double[pyarrow]"), SAME),
    "arrow-backed with null": Kind(lambda v, row: pd.Series(_gap(v, row), dtype="double[pyarrow]"), MISSING),
    "arrow-backed Decimals": Kind(
        lambda v, row: pd.Series(_decimals(v), dtype=pd.ArrowDtype(pa.decimal128(9, 4))), SAME
    ),
    "dates": Kind(lambda v, row: _days(v)),
    "durations": Kind(lambda v, row: _days(v) - np.datetime64("2019-01-01")),
    "objects that are datetime64": Kind(lambda v, row: _days(v).astype("datetime64[us]").astype(object)),
    "objects that are Timestamps": Kind(lambda v, row: pd.Series(_days(v)).astype(object)),
    "dates with a zone": Kind(lambda v, row: pd.Series(_days(v)).dt.tz_localize("UTC")),
    "NaT": Kind(lambda v, row: np.where(np.arange(len(v)) == row, np.datetime64("NaT", "ns"), _days(v))),
    "periods": Kind(lambda v, row: pd.Series(pd.period_range("2020-01", periods=len(v), freq="M"))),
    "complex": Kind(lambda v, row: v + 1j),
    "bytes": Kind(lambda v, row: v.astype("S")),
    "lists": Kind(lambda v, row: pd.Series([[one] for one in v])),
    "dicts": Kind(lambda v, row: pd.Series([{"u": one} for one in v])),
    "records": Kind(lambda v, row: np.repeat(_records, len(v))),
    "two columns": Kind(lambda v, row: np.column_stack([v, v])),
    "generator": Kind(lambda v, row: (one for one in v)),
    "set": Kind(lambda v, row: set(range(len(v)))),
    "dict": Kind(lambda v, row: dict(enumerate(v))),
    "text": Kind(lambda v, row: "red"),
    "iterator": Kind(lambda v, row: iter(v)),
    "array without dimension": Kind(lambda v, row: np.array("red")),
    "too short": Kind(lambda v, row: v[:-1]),
    "too long": Kind(lambda v, row: np.r_[v, v[0]]),
    "lists of different lengths": Kind(lambda v, row: [[one] * (1 + (i == row)) for i, one in enumerate(v)]),
    "sparse": Kind(lambda v, row: sp.csr_array(v[:, None])),
}

# A whole column of a polars frame and of an arrow table.
POLARS = {
    "Float32": Kind(lambda v, row: pl.Series(v, dtype=pl.Float32), SAME),
    "with null": Kind(lambda v, row: pl.Series(_gap(v, row)), MISSING),
    "Decimal": Kind(lambda v, row: pl.Series(_decimals(v), dtype=pl.Decimal(9, 4)), SAME),
    "Int128": Kind(lambda v, row: pl.Series(v.astype(int), dtype=pl.Int128), WHOLE),
    "Enum": Kind(lambda v, row: pl.Series(["u", "v"] * (len(v) // 2), dtype=pl.Enum(["u", "v"]))),
    "Categorical": Kind(lambda v, row: pl.Series(["u", "v"] * (len(v) // 2), dtype=pl.Categorical)),
    "Date": Kind(lambda v, row: pl.Series(_days(v)).cast(pl.Date)),
    "Datetime": Kind(lambda v, row: pl.Series(_days(v))),
    "Duration": Kind(lambda v, row: pl.Series(_days(v) - np.datetime64("2019-01-01"))),
    "Time": Kind(lambda v, row: pl.Series([dt.time(i) for i in range(len(v))])),
    "List": Kind(lambda v, row: pl.Series([[one] for one in v.tolist()])),
    "Array": Kind(lambda v, row: pl.Series([[one] for one in v.tolist()], dtype=pl.Array(pl.Float64, 1))),
    "Struct": Kind(lambda v, row: pl.Series([{"u": one} for one in v.tolist()])),
    "Object": Kind(lambda v, row: pl.Series([object() for _ in v], dtype=pl.Object)),
    "Binary": Kind(lambda v, row: pl.Series([b"u"] * len(v))),
    "Null": Kind(lambda v, row: pl.Series([None] * len(v)), ALL_MISSING),
}
ARROW = {
    "float": Kind(lambda v, row: pa.array(v, pa.float32()), SAME),
    "with null": Kind(lambda v, row: pa.array(_gap(v, row)), MISSING),
    "decimal": Kind(lambda v, row: pa.array(_decimals(v), pa.decimal128(9, 4)), SAME),
    "dictionary": Kind(lambda v, row: pa.array(["u", "v"] * (len(v) // 2)).dictionary_encode()),
    "date": Kind(lambda v, row: pa.array([dt.date(2020, 1, 1 + i) for i in range(len(v))])),
    "timestamp": Kind(lambda v, row: pa.array(_days(v))),
    "time": Kind(lambda v, row: pa.array([dt.time(i) for i in range(len(v))])),
    "duration": Kind(lambda v, row: pa.array(_days(v) - np.datetime64("2019-01-01"))),
    "list": Kind(lambda v, row: pa.array([[one] for one in v.tolist()])),
    "struct": Kind(lambda v, row: pa.array([{"u": one} for one in v.tolist()])),
    "binary": Kind(lambda v, row: pa.array([b"u"] * len(v))),
    "null": Kind(lambda v, row: pa.nulls(len(v)), ALL_MISSING),
}

# Something in place of the whole table X, made of a plain array and of names of its columns.
TABLES = {
    "lists": Kind(lambda X: X.tolist(), SAME),
    "tuples": Kind(lambda X: tuple(map(tuple, X.tolist())), SAME),
    "list of arrays": Kind(lambda X: list(X), SAME),
    "masked": Kind(lambda X: np.ma.array(X), SAME),
    "objects": Kind(lambda X: X.astype(object), SAME),
    "text of numbers": Kind(lambda X: X.astype(str), SAME),
    "by columns": Kind(lambda X: np.asfortranarray(X), SAME),
    "pandas with tuples as names": Kind(
        lambda X: pd.DataFrame(X, columns=pd.MultiIndex.from_product([["u"], range(X.shape[1])])), SAME
    ),
    "pandas with numbers as names": Kind(lambda X: pd.DataFrame(X), SAME),
    "pandas sparse": Kind(lambda X: pd.DataFrame(X).astype(pd.SparseDtype("float", 0.0)), SAME),
    "pandas with names of two types": Kind(lambda X: pd.DataFrame(X, columns=["u", *range(1, X.shape[1])])),
    "pandas with a name twice": Kind(lambda X: pd.DataFrame(X, columns=["u"] * X.shape[1])),
    "generator": Kind(lambda X: (row for row in X)),
    "map": Kind(lambda X: map(list, X)),
    "dict": Kind(lambda X: dict(enumerate(X.T))),
    "list of dicts": Kind(lambda X: [{"u": row[0], "v": row[1]} for row in X]),
    "set": Kind(lambda X: set(X[:, 0])),
    "text": Kind(lambda X: "red"),
    "bytes": Kind(lambda X: b"red"),
    "None": Kind(lambda X: None),
    "number": Kind(lambda X: 3.0),
    "array without dimension": Kind(lambda X: np.array(3.0)),
    "one dimension": Kind(lambda X: X[:, 0]),
    "three dimensions": Kind(lambda X: X[:, :, None]),
    "Series": Kind(lambda X: pd.Series(X[:, 0])),
    "records": Kind(lambda X: np.repeat(_records, len(X))),
    "record array": Kind(lambda X: np.repeat(_records, len(X)).view(np.recarray)),
    "rows of different lengths": Kind(lambda X: [*X[:-1].tolist(), X[-1, :1].tolist()]),
    "rows and single values": Kind(lambda X: [*X[:-1].tolist(), 3.0]),
    "lists of lists of lists": Kind(lambda X: [[[one] for one in row] for row in X.tolist()]),
    "sparse": Kind(lambda X: sp.csr_array(X), SAME),
    "matrix": Kind(lambda X: X.view(np.matrix), SAME),
    "complex": Kind(lambda X: X + 1j),
    "dates": Kind(lambda X: X.astype("datetime64[s]")),
    "bytes in an array": Kind(lambda X: X.astype("S")),
    "lazy polars": Kind(lambda X: pl.DataFrame(X).lazy()),
    "no rows": Kind(lambda X: X[:0]),
    "no columns": Kind(lambda X: X[:, :0]),
    "function": Kind(lambda X: len),
    "class": Kind(lambda X: pd.DataFrame),
    "object": Kind(lambda X: object()),
}
