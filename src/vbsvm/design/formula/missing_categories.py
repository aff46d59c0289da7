"""Missing categories in a frame: a row becomes one row for each level that it may have."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

KNOWN = -1
# Several missing categories in a row multiply.
MOST_OPTIONS = 256


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """Columns that are categories, and may be missing: their levels, and how often each occurred in fit."""

    names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    counts: tuple[NDArray[np.float64], ...]

    @staticmethod
    def learn(frame: "pd.DataFrame", names: list[str], weights: NDArray[np.float64]) -> "Categories":
        """Take the levels that occur, and their total weights."""
        levels, counts = [], []
        for name in names:
            known = frame[name].notna().to_numpy()
            values, codes = np.unique(np.asarray(frame[name])[known], return_inverse=True)
            levels.append(values)
            counts.append(np.bincount(codes, weights[known], minlength=len(values)).astype(np.float64))
        return Categories(tuple(names), tuple(levels), tuple(counts))

    def expand(self, frame: "pd.DataFrame") -> "Expansion":
        """Write out every level that a missing category may have."""
        origin = np.arange(len(frame))
        codes = np.full((len(frame), len(self.names)), KNOWN, dtype=np.intp)
        filled: dict[str, Any] = {}
        missing = np.stack([frame[name].isna().to_numpy() for name in self.names], axis=1)
        sizes = np.array([len(levels) for levels in self.levels])
        n_options = np.where(missing, sizes, 1).prod(axis=1)
        if n_options.max() > MOST_OPTIONS:
            row = int(n_options.argmax())
            lost = [name for name, gone in zip(self.names, missing[row], strict=True) if gone]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(lost)}, which have {n_options[row]} "
                f"combinations; up to {MOST_OPTIONS} are supported. Leave such rows out."
            )
        origin = np.repeat(origin, n_options)
        turn = np.arange(len(origin)) - np.repeat(np.cumsum(n_options) - n_options, n_options)
        codes = codes[origin]
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            gone = missing[origin, k]
            codes[gone, k] = turn[gone] % len(levels)
            turn[gone] //= len(levels)
            values = np.asarray(frame[name], dtype=object)[origin]
            values[gone] = levels[codes[gone, k]]
            filled[name] = values
        expanded = frame.take(origin).reset_index(drop=True)
        for name, values in filled.items():
            dtype = self._plain_dtype(frame[name])
            expanded[name] = values if dtype is None else values.astype(dtype)
        return Expansion(expanded, origin, codes)

    @staticmethod
    def _plain_dtype(column: Any) -> Any:
        return column.dtype if column.dtype.kind in "biuf" else None


@final
@dataclass(frozen=True, eq=False)
class Expansion:
    """The frame written out, the row that each of its rows comes from, and the levels that were filled in."""

    frame: "pd.DataFrame"
    origin: NDArray[np.intp]
    codes: NDArray[np.intp]
