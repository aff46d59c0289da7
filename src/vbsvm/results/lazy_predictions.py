"""Predictions of rows in a cluster, partition by partition, when somebody asks for them."""

from dataclasses import dataclass, field
from typing import Any, final

from numpy.typing import NDArray

from vbsvm.sources import cluster as collections


@final
@dataclass(frozen=True, eq=False)
class PartAnswer:
    """What a method of a model gives for a partition: with the index of a frame where it is one.

    ``example`` is its answer without rows, and ``name`` that of a series of its answers.
    """

    method: str
    name: str
    classes: NDArray[Any]
    example: NDArray[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, model: Any, block: Any) -> Any:
        """The answer for a partition, which may have no rows."""
        found = getattr(model, self.method)(block, **self.settings) if len(block) else self.example
        return self.framed(found, block.index) if hasattr(block, "index") else found

    def framed(self, values: Any, index: Any) -> Any:
        """Values of rows as a series, or as a frame with a column for each class."""
        import pandas as pd

        if values.ndim == 1:
            return pd.Series(values, index=index, name=self.name)
        return pd.DataFrame(values, index=index, columns=pd.Index(self.classes))

    def of(self, model: Any, data: Any) -> Any:
        """The answers for all partitions, which are not computed yet."""
        example = self.example if collections.is_array(data) else self.framed(self.example, data._meta.index)
        return collections.mapped(self, model, data, example)
