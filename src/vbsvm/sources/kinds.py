"""Kinds of sources by name: rows in memory, written out or not, and rows wherever they lie."""

from vbsvm.sources.distributed import Distributed
from vbsvm.sources.memory import Memory
from vbsvm.sources.sparse import Sparse

InMemory = Memory | Sparse
AnyRows = Memory | Sparse | Distributed
