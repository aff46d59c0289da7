"""The levels of a grouping factor: learned once, then every label has a number."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

UNSEEN = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Sorted labels of the groups seen in fit."""

    values: NDArray[Any]

    @staticmethod
    def learn(labels: NDArray[Any]) -> "Levels":
        """Take the labels that occur."""
        return Levels(np.unique(labels))

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.values)

    def encode(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Number of each label's group, or ``UNSEEN``."""
        if len(labels) and isinstance(labels[0], str) != isinstance(self.values[0], str):
            seen = "text" if isinstance(self.values[0], str) else "numbers"
            raise ValueError(f"The groups were {seen} in fit, and {labels[0]!r} is not: give them as they were.")
        places = np.minimum(np.searchsorted(self.values, labels), len(self.values) - 1)
        return np.where(self.values[places] == labels, places, UNSEEN)
