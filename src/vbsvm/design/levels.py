"""The levels of a grouping factor: learned once, then every label has a number."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

UNSEEN = -1


def group_labels(labels: NDArray[Any], column: str | int) -> NDArray[Any]:
    """Labels that may name groups: text, numbers or dates, all of one kind; of anything else it is said where it is."""
    if labels.dtype.kind in "biufUM":
        return labels
    text = np.array([isinstance(label, str) for label in labels], dtype=bool)
    known = text | np.array([isinstance(label, numbers.Real | np.bool_) for label in labels], dtype=bool)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(f"Column {column!r} holds {labels[row]!r} in row {row}: make its groups text or numbers.")
    if text.any() and not text.all():
        row = int(np.argmax(text != text[0]))
        raise ValueError(f"Column {column!r} mixes text and numbers (rows 0 and {row}): make its groups one kind.")
    return labels.astype(object)


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

    def __len__(self) -> int:
        """Number of levels."""
        return len(self.seen)

    @property
    def labels(self) -> list[Any]:
        """Label of each level; a tuple where the factor has several columns."""
        if len(self.parts) == 1:
            return list(self.parts[0])
        places = np.unravel_index(self.seen, [len(values) for values in self.parts])
        columns = (values[codes] for values, codes in zip(self.parts, places, strict=True))
        return list(zip(*columns, strict=True))

    def encode(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """Number of each row's level, or ``UNSEEN``."""
        coded = [_places(values, labels) for values, labels in zip(self.parts, columns, strict=True)]
        known = np.all([codes != UNSEEN for codes in coded], axis=0)
        found = _places(self.seen, _combine(self.parts, [np.maximum(codes, 0) for codes in coded]))
        return np.where(known, found, UNSEEN)


def _combine(parts: Sequence[NDArray[Any]], codes: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    return np.ravel_multi_index(tuple(codes), [len(values) for values in parts])


def _places(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Place of each label among the sorted values, or ``UNSEEN``."""
    if len(labels) and isinstance(labels[0], str) != isinstance(values[0], str):
        seen = "text" if isinstance(values[0], str) else "numbers"
        raise ValueError(f"The groups were {seen} in fit, and {labels[0]!r} is not: give them as they were.")
    places = np.minimum(np.searchsorted(values, labels), len(values) - 1)
    return np.where(values[places] == labels, places, UNSEEN)
