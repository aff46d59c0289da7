"""Convert values of any type to numbers, text or dates; errors say what can't be used, and in which row.

What can't be used is refused in words that say what it is and in which row it stands.
"""

import numbers
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn
from unicodedata import is_normalized, normalize

import numpy as np
from numpy.typing import NDArray

# Rows as messages number them: "row 3", "rows 3 and 5", "rows 3, 5 and 8 more".
ROWS = re.compile(r"(?<!['\"`])\brows? \d+\b(?:, \d+\b)*(?: and \d+\b(?! more))?")


def renumbered(message: str, number: Callable[[int], int]) -> str:
    """The message with its row numbers mapped."""

    def of_rows(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda digits: str(number(int(digits[0]))), match[0])

    return ROWS.sub(of_rows, message)


def did_you_mean(name: str, known: Iterable[object]) -> str:
    """A question with similar names, preceded by a blank; or an empty text."""
    names = [str(candidate) for candidate in known]
    if variant := unicode_variant(name, names):
        return f" {variant}"
    near = [candidate for candidate in names if candidate.lower() == name.lower()] or get_close_matches(name, names)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def unicode_variant(name: str, names: Iterable[str]) -> str:
    """A hint at a name that differs in its Unicode form only; or an empty text."""
    for candidate in names:
        if candidate != name and normalize("NFC", candidate) == normalize("NFC", name):
            form = "composed (NFC)" if is_normalized("NFC", candidate) else "decomposed (NFD)"
            return f"{candidate!r} looks the same, but its letters are {form}: write both names in one Unicode form."
    return ""


def join_names(names: Sequence[object], most: int = 12) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


MISSING, TRUTH, NUMBER, TEXT, DATE, COMPLEX, OTHER = (
    "a missing value", "True or False", "a number", "text", "a date or time", "a complex number", "other",
)  # fmt: skip
_OF_DTYPES = {"b": TRUTH, "i": NUMBER, "u": NUMBER, "f": NUMBER, "U": TEXT, "T": TEXT, "M": DATE, "m": DATE}
_OF_DTYPES |= {"c": COMPLEX}


def kind_of(kind: type) -> str:
    """Kind of the values of a type: number, text, date, …"""
    if kind is type(None) or kind is np.ma.core.MaskedConstant or kind.__name__ in ("NAType", "NaTType"):
        return MISSING
    dates = (date, time, timedelta, np.datetime64, np.timedelta64)  # NumPy's durations call themselves integers
    if issubclass(kind, dates) or kind.__name__ == "Period":
        return DATE
    if issubclass(kind, bool | np.bool_):
        return TRUTH
    if issubclass(kind, numbers.Real | Decimal):
        return NUMBER
    if issubclass(kind, str):
        return TEXT
    return COMPLEX if issubclass(kind, numbers.Number) else OTHER


def kinds_of(values: NDArray[Any]) -> dict[str, type]:
    """The kinds of values that occur, each with the first type of that kind."""
    if values.dtype.kind in _OF_DTYPES:
        return {_OF_DTYPES[values.dtype.kind]: values.dtype.type}
    if values.dtype.kind != "O":
        return {OTHER: values.dtype.type}
    first_types: dict[str, type] = {}
    for kind in dict.fromkeys(map(type, values.tolist())):
        first_types.setdefault(kind_of(kind), kind)
    return first_types


def first_row(values: NDArray[Any], kind: str) -> int:
    """First row with a value of this kind."""
    if values.dtype.kind != "O":
        return 0
    return next(row for row, value in enumerate(values.tolist()) if kind_of(type(value)) == kind)


def named(kind: type) -> str:
    """A type in words, such as ``a list``."""
    known = kind_of(kind)
    if known != OTHER:
        return known
    if issubclass(kind, bytes):
        return "bytes"
    name = {np.ndarray: "array", np.void: "record"}.get(kind, kind.__name__)
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """An object array of the values, lists included; None for masked values."""
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = None if value is np.ma.masked else value
    return array


def as_array(given: Any) -> NDArray[Any]:
    """Convert to an array, masked values missing; lists with anything but numbers become object arrays.

    The array has no dimension where a single value was given, a set or a generator.
    """
    if isinstance(given, np.ma.MaskedArray):
        return unmasked(given)
    try:
        array = np.asarray(given)
    except ValueError:
        return objects(given)
    # In an array with text NumPy converts numbers to text, and in one with durations to durations.
    mixed = isinstance(given, list | tuple) and array.ndim == 1 and array.dtype.kind not in "biuf"
    return objects(given) if mixed else array


def from_polars(column: Any) -> NDArray[Any]:
    """Values of a polars column: numbers and dates as NumPy types, anything else as objects."""
    in_numpy = is_polars_number(column.dtype) or column.dtype.is_temporal()
    return column.to_numpy() if in_numpy else objects(column.to_list())


def is_polars_number(dtype: Any) -> bool:
    """Whether a polars type is a NumPy number type."""
    return dtype.is_numeric() and not str(dtype).startswith(("Decimal", "Int128", "UInt128"))


def missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of NaN, None, NA, NaT and masked values."""
    if values.dtype.kind == "O":
        import pandas as pd

        is_missing = pd.isna(values)
        if np.ma.core.MaskedConstant in set(map(type, values.tolist())):
            is_missing |= np.array([value is np.ma.masked for value in values.tolist()])
        return is_missing
    if values.dtype.kind in "mM":
        return np.isnat(values)
    return np.isnan(values) if values.dtype.kind in "fc" else np.zeros(len(values), dtype=bool)


def unmasked(values: Any) -> Any:
    """A masked array with its masked values missing (NaN, or None for other types)."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    if not mask.any() or values.dtype.kind == "V":
        return values.data
    if values.dtype.kind == "f":
        return np.where(mask, values.dtype.type(np.nan), values.data)
    if values.dtype.kind in "biu":
        return np.where(mask, np.nan, values.data)
    filled = values.data.astype(object)
    filled[mask] = None
    return filled


def as_floats(values: NDArray[Any], place: str, *, text: bool = False) -> NDArray[np.float64]:
    """Convert to floats, missing values to NaN; ``place`` names the values in errors.

    ``text`` says whether text that reads as a number is one.
    """
    accepted = (MISSING, TRUTH, NUMBER, TEXT) if text else (MISSING, TRUTH, NUMBER)
    for kind, of_type in kinds_of(values).items():
        if kind not in accepted:
            needed = "each argument must be a string or a number" if text else "numbers are needed"
            _refuse(kind, of_type, f"{place} contains", first_row(values, kind), needed)
    if values.dtype.kind == "O":
        values = np.where(missing(values), np.nan, values)
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError):
        for row, value in enumerate(values):
            _check_float(value, place, row)
        raise


def _check_float(value: Any, place: str, row: int) -> None:
    """Raise for text that is not a number, and for numbers beyond the range of floats."""
    try:
        float(value)
    except ValueError:
        raise ValueError(
            f"{place} is not numeric: it contains {shown(value)} in row {row}. Encode categories first, let "
            'categories="one-hot" of VBSVC and VBLogistic do it, or drop the column.'
        ) from None
    except OverflowError:
        raise ValueError(f"{place} contains a number beyond 1e308 in row {row}: rescale it.") from None


def _refuse(kind: str, of_type: type, place_holds: str, row: int, needed: str) -> NoReturn:
    """Raise an error for non-numeric values of this kind, with the row."""
    if kind == DATE:
        raise ValueError(
            f"{place_holds} dates or times ({of_type.__name__}, first in row {row}): turn it into a number, such as "
            "days."
        )
    if kind == COMPLEX:
        raise ValueError(f"Complex data not supported: {place_holds} complex numbers (row {row}). Use the real parts.")
    if kind == TEXT:
        raise ValueError(f"{place_holds} text in row {row}: {needed}.")
    raise TypeError(f"{place_holds} {named(of_type)} in row {row}: {needed}.")


def beyond_64_bits(value: object) -> bool:
    """Whether a value is an integer beyond 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def shown(value: object) -> str:
    """A short one-line repr of a value for errors."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    text = " ".join(repr(value.item() if isinstance(value, np.number | np.bool_) else value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
