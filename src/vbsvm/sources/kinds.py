"""Kinds of sources by name: rows in memory, written out or not, and rows wherever they lie."""

from dataclasses import replace

from vbsvm.base.arrays import Array
from vbsvm.sources.distributed import Distributed
from vbsvm.sources.memory import Memory
from vbsvm.sources.sparse import Sparse, SparseTable

InMemory = Memory | Sparse
AnyRows = Memory | Sparse | Distributed


def reweighted(source: InMemory, kept: Array) -> InMemory:
    """The same rows with these proportions of their weights."""
    weights = source.weights * kept
    if isinstance(source, Memory):
        return replace(source, weights=weights)
    return replace(source, weights=weights, table=SparseTable.of(source.X, weights, source.recipe))
