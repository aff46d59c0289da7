"""Which groups of one factor have rows in common with which of another: how factors lie in each other."""

from dataclasses import dataclass
from itertools import product
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.sources.distributed import InMemory


@final
@dataclass(frozen=True, eq=False)
class SharedRows:
    """Of each two factors, by number, the pairs of groups that share rows; each pair is one number."""

    sizes: tuple[int, ...]
    pairs: dict[tuple[int, int], NDArray[np.intp]]

    @staticmethod
    def of(source: InMemory) -> "SharedRows":
        """Look at the rows of a table."""
        factors = source.groupings
        return SharedRows(
            tuple(factor.n_groups for factor in factors),
            {
                (a, b): np.unique(factors[a].index * factors[b].n_groups + factors[b].index)
                for a, b in product(range(len(factors)), repeat=2)
            },
        )

    def __add__(self, other: Self) -> "SharedRows":
        """Join two sets of rows."""
        return SharedRows(self.sizes, {key: np.union1d(one, other.pairs[key]) for key, one in self.pairs.items()})

    def lies_in(self, inner: int, outer: int) -> bool:
        """Whether each group of a factor lies in one group of another."""
        pairs = self.pairs[inner, outer]
        return len(pairs) == len(np.unique(pairs // self.sizes[outer]))

    def outer_of(self, inner: int, outer: int) -> NDArray[np.intp]:
        """For each group of a factor, the group of another that it lies in."""
        pairs, found = self.pairs[inner, outer], np.zeros(self.sizes[inner], dtype=np.intp)
        found[pairs // self.sizes[outer]] = pairs % self.sizes[outer]
        return found
