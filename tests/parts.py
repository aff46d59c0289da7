"""Rows in several sources, one after another: what files, partitions or other machines hold each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any, final

import numpy as np

from vbsvm.missing.categories import LevelCounts
from vbsvm.model.row_pass import add_optional
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import BlockSource, MissingInputs


@final
@dataclass(frozen=True, eq=False)
class Parts(BlockSource):
    """Parts whose blocks are numbered through all of them, so that sums and draws are those of the whole."""

    parts: tuple[Memory, ...]

    @staticmethod
    def of(*parts: Memory) -> "Parts":
        """Number the blocks of each part from where those of the parts before it end."""
        firsts = accumulate((part.n_blocks for part in parts[:-1]), initial=0)
        return Parts(
            tuple(replace(part, first_block=first, in_parts=True) for part, first in zip(parts, firsts, strict=True))
        )

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return sum(part.n_blocks for part in self.parts)

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return self.parts[0].n_columns

    @property
    def missing_inputs(self) -> MissingInputs | None:
        """The columns with missing values of the first part that has some."""
        return next((part.missing_inputs for part in self.parts if part.missing_inputs is not None), None)

    @property
    def known_levels(self) -> LevelCounts | None:
        """How often each level of a category that may be missing is known."""
        return reduce(add_optional, (part.known_levels for part in self.parts))

    @property
    def rows_resident(self) -> bool:
        """Whether all parts say so."""
        return all(part.rows_resident for part in self.parts)

    @property
    def n_core(self) -> int:
        """Number of coefficients whose covariances are all kept."""
        return self.parts[0].n_core

    def encoder(self) -> Callable[[int], Any]:
        """Ask the part that has the block."""
        encoders = [part.encoder() for part in self.parts]
        firsts = [part.first_block for part in self.parts]

        def block_of(index: int) -> Any:
            part = int(np.searchsorted(firsts, index, side="right")) - 1
            return encoders[part](index - firsts[part])

        return block_of
