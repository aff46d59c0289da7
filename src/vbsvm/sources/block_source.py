"""What every source of rows has in common: its rows lie in numbered blocks, whose sums are added in their order."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Protocol, cast

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.row_sums import fold_blocks, single_threaded_blas
from vbsvm.missing.categories import LevelCounts
from vbsvm.missing.distributions import InputDistribution, InputSums
from vbsvm.missing.model import MissingSums
from vbsvm.model.row_pass import RowPass, Stats, added


class Block(Protocol):
    """A block of encoded rows."""

    def sum(self, kernel: Callable[[Any], Any]) -> Any:
        """Sum the kernel over the parts of the block: complete rows, and rows with missing values."""
        ...

    def known_sums(self) -> InputSums:
        """Sums of the inputs that no pass changes, where some may be missing."""
        ...

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Sums over the rows that miss inputs, with these as the distribution expects them."""
        ...

    def second_moments(self) -> Array:
        """Σ s [1; d][1; d]ᵀ of all inputs, where none is missing."""
        ...


class BlockSource(ABC):
    """Rows in numbered blocks. What is summed does not depend on who encodes which block, and when.

    With a ``drawn_covariance`` rows and columns are so many that the covariance of the coefficients is known by draws.
    """

    drawn_covariance: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the fields, and not the work space that was made from them."""
        return {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows that count."""

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of row blocks."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of design columns."""

    @property
    def n_core(self) -> int:
        """Number of coefficients whose covariances are all kept."""
        return self.n_columns

    @property
    def looks_are_cheap(self) -> bool:
        """Whether rows may be looked at often, and a few numbers of each be kept."""
        return True

    def sample(self, n_rows: int) -> "BlockSource | None":
        """So many of the rows, which weigh as much as all; None where they are not at hand."""
        return None

    @abstractmethod
    def encoder(self) -> Callable[[int], Block]:
        """Give a function that encodes the block of a number, for one thread."""

    @property
    @abstractmethod
    def may_miss_inputs(self) -> bool:
        """Whether some input is missing somewhere."""

    @property
    @abstractmethod
    def level_counts(self) -> LevelCounts | None:
        """How often each level of a category that may be missing is known; None where none may be."""

    def fold(self, row_pass: RowPass) -> Stats:
        """The only pass over the data in a sweep; what no pass changes is added."""
        stats = self._fold(lambda block: block.sum(lambda part: part.stats(row_pass)))
        if self._known is None and self.level_counts is None:
            return stats
        return replace(stats, missing=added(MissingSums(self._known, self.level_counts), stats.missing))

    def input_sums(self, distribution: InputDistribution) -> InputSums:
        """Sums of the inputs with the missing ones as this distribution expects them; labels have no say."""
        assert self._known is not None
        return self._known + self._fold(lambda block: block.input_sums(distribution))

    def total(self, kernel: Callable[[Any], Any], *, light: bool = False) -> Any:
        """Sum anything that adds over the parts of all blocks; a light kernel reads every number once or so."""
        return self._fold(lambda block: block.sum(kernel), light=light)

    def second_moments(self) -> Array:
        """Σ s [1; d][1; d]ᵀ of all inputs, where none is missing."""
        return self._fold(lambda block: block.second_moments())

    @cached_property
    def _known(self) -> InputSums | None:
        """Sums of the inputs that no pass changes: Σ s x̃x̃ᵀ over all rows, the others over complete rows."""
        return self._fold(lambda block: block.known_sums()) if self.may_miss_inputs else None

    @cached_property
    def _only(self) -> Block:
        """The only block."""
        return self.encoder()(0)

    def _fold(self, kernel: Callable[[Block], Any], *, light: bool = False) -> Any:
        if self.n_blocks == 1:  # small fits are made of such calls: the shortest way
            with single_threaded_blas():
                return kernel(self._only)

        def of_thread() -> Callable[[int], Any]:
            block_of = self.encoder()
            return lambda index: kernel(block_of(index))

        return fold_blocks(self.n_blocks, self.n_columns, of_thread, light=light)
