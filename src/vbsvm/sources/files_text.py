"""Text files such as CSV, read some rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class Text:
    """A text file: its name, what its columns hold, and its signs."""

    path: Path
    types: dict[str, str]
    sep: str
    decimal: str

    @staticmethod
    def of(path: Path, usual: str, sep: str | None, decimal: str | None) -> "Text":
        """Read the file once to see what its columns hold."""
        raise NotImplementedError

    def pieces(self, columns: Sequence[str], n_rows: int) -> "Iterator[pd.DataFrame]":
        """These columns, some rows at a time."""
        raise NotImplementedError
