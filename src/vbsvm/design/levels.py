"""The levels of a grouping factor: learned once, then every label has a number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.design.values import NUMBER, TRUTH, beyond_64_bits, kind_of, shown

if TYPE_CHECKING:
    import pandas as pd

UNSEEN = -1


def group_labels(
    labels: NDArray[Any], column: str | int, rows: "Sequence[int] | pd.Index | None" = None
) -> NDArray[Any]:
    """Labels that may name groups: text, numbers or dates, all of one kind; an error names the row of anything else.

    ``rows`` numbers the labels in errors; 0, 1, … by default.
    """
    rows = range(len(labels)) if rows is None else rows
    if labels.dtype.kind in "biuUM" or (labels.dtype.kind == "f" and np.isfinite(labels).all()):
        return labels
    known = [isinstance(label, str) or _is_number(label) for label in labels]
    if not all(known):
        row = known.index(False)
        raise ValueError(
            f"Column {column!r} holds {shown(labels[row])} in row {rows[row]}: make its groups text or numbers."
        )
    text = [isinstance(label, str) for label in labels]
    if any(text) and not all(text):
        one, other = rows[0], rows[text.index(not text[0])]
        raise ValueError(
            f"Column {column!r} mixes text and numbers (rows {one} and {other}): make its groups one kind."
        )
    return labels.astype(np.float64 if Decimal in set(map(type, labels)) else object)


def _is_number(label: Any) -> bool:
    """Whether a label is a finite number of up to 64 bits."""
    if kind_of(type(label)) not in (NUMBER, TRUTH):
        return False
    return not beyond_64_bits(label) if isinstance(label, int) else math.isfinite(label)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Sorted labels of each column of the factor, and which combinations of them occurred."""

    parts: tuple[NDArray[Any], ...]
    seen: NDArray[np.intp]

    @staticmethod
    def learn(columns: Sequence[NDArray[Any]]) -> tuple["Levels", NDArray[np.intp]]:
        """Take the levels that occur; also give the number of each row's."""
        pairs = [np.unique(labels, return_inverse=True) for labels in columns]
        parts = tuple(values for values, _ in pairs)
        seen, found = np.unique(_combine(parts, [codes for _, codes in pairs]), return_inverse=True)
        return Levels(parts, seen), found

    @staticmethod
    def of_labels(labels: NDArray[Any]) -> "Levels":
        """The levels of a factor of one column, from its sorted labels."""
        return Levels((labels,), np.arange(len(labels)))

    def __len__(self) -> int:
        """Number of levels."""
        return len(self.seen)

    def extended(self, columns: Sequence[NDArray[Any]]) -> tuple["Levels", NDArray[np.intp]]:
        """These levels and those of other labels; and where the former stand among all."""
        places = np.unravel_index(self.seen, [len(values) for values in self.parts])
        own = [values[codes] for values, codes in zip(self.parts, places, strict=True)]
        levels, found = Levels.learn([np.concatenate(pair) for pair in zip(own, columns, strict=True)])
        return levels, found[: len(self)]

    @property
    def labels(self) -> list[Any]:
        """Label of each level; a tuple where the factor has several columns."""
        if len(self.parts) == 1:
            return list(self.parts[0])
        places = np.unravel_index(self.seen, [len(values) for values in self.parts])
        columns = (values[codes] for values, codes in zip(self.parts, places, strict=True))
        return list(zip(*columns, strict=True))

    def require_kinds(self, columns: Sequence[NDArray[Any]], names: Sequence[str]) -> None:
        """Refuse labels that are not text, numbers or dates as they were in fit; ``names`` are those of the columns."""
        for values, labels, name in zip(self.parts, columns, names, strict=True):
            if len(labels) and kind_of_labels(values) != kind_of_labels(labels):
                raise ValueError(
                    f"The labels in column {name!r} were {kind_of_labels(values)} in fit, and {shown(labels[0])} (row "
                    "0) is not: give them as they were."
                )

    def encode(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """Number of each row's level, or ``UNSEEN``."""
        coded = [_places(values, labels) for values, labels in zip(self.parts, columns, strict=True)]
        known = np.all([codes != UNSEEN for codes in coded], axis=0)
        found = _places(self.seen, _combine(self.parts, [np.maximum(codes, 0) for codes in coded]))
        return np.where(known, found, UNSEEN)


def _combine(parts: Sequence[NDArray[Any]], codes: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    return np.ravel_multi_index(tuple(codes), [len(values) for values in parts])


def kind_of_labels(labels: NDArray[Any]) -> str:
    """What labels of one kind are."""
    if labels.dtype.kind == "M":
        return "dates"
    return "text" if len(labels) and isinstance(labels[0], str) else "numbers"


def _places(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Place of each label among the sorted values, or ``UNSEEN``."""
    places = np.minimum(np.searchsorted(values, labels), len(values) - 1)
    return np.where(values[places] == labels, places, UNSEEN)
