"""Models with groups for tests of the core, and the same models with the groups' columns written out."""

import numpy as np
from hypothesis import strategies as st

from models import spec_of, unscaled
from vbsvm import Covariance, InverseWishart, Normal, Ridge
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.memory import Memory
from vbsvm.sources.rows import Grouping


def dense_twin(memory):
    """The same rows with the groups' columns written out: group by group, slope by slope."""
    C = memory.recipe.encode(memory.X, memory.recipe.work_space(len(memory.X)))
    parts = [C[:, : C.shape[1] - memory.n_random_only]]
    for by in memory.groupings:
        Z = np.zeros((len(C), by.n_groups, len(by.slopes)))
        Z[np.arange(len(C)), by.index] = C[:, by.slopes]
        parts.append(Z.reshape(len(C), -1))
    full = np.column_stack(parts)
    recipe = unscaled(full.shape[1], False)
    return Memory(full, memory.y, memory.weights, recipe)


def effects_blocks(begin, grouping, prior):
    """One block for all effects of a group, or under Ridge one for each of them."""
    q = len(grouping.slopes)
    strides = tuple(slice(begin + j, begin + grouping.size, q) for j in range(q))
    if isinstance(prior, Ridge):
        return [Block(f"effect {j} from {begin}", (stride,), prior) for j, stride in enumerate(strides)]
    return [Block(f"effects from {begin}", strides, prior)]


@st.composite
def grouped_problems(draw):
    """Unbalanced groups, groups of one row, groups without rows, slopes, crossed factors, carried columns, weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(4, 60)), draw(st.integers(1, 5))
    n_random_only = draw(st.integers(0, 1)) if p > 1 else 0
    X = rng.normal(size=(n, p))
    groupings = []
    for m in draw(st.lists(st.integers(1, 15), min_size=1, max_size=3)):
        index = rng.integers(0, m, size=n) if draw(st.booleans()) else rng.geometric(0.4, size=n).clip(max=m) - 1
        slopes = draw(st.sampled_from([(0,), (p,), (0, p), tuple(range(p + 1))]))
        groupings.append(Grouping(index.astype(np.intp), m, slopes))
    s = draw(st.sampled_from([np.ones(n), rng.gamma(1.0, size=n) + 1e-2]))
    y = np.where(X[:, 0] + rng.normal(size=15)[groupings[0].index] + rng.normal(size=n) > 0, 1.0, -1.0)
    recipe = unscaled(p)
    memory = Memory(X, y, s, recipe, tuple(groupings), n_random_only)
    blocks = [
        *spec_of(p - n_random_only, draw(st.sampled_from([Normal(1e2), Ridge()])), intercept_prior=Normal(1e2)).blocks
    ]
    for grouping in groupings:
        prior = draw(st.sampled_from([Ridge(0.5, 0.5), InverseWishart(0.5), Covariance(2.0)]))
        begin = blocks[-1].columns[-1].stop
        blocks += effects_blocks(begin, grouping, prior)
    return Spec(tuple(blocks)), memory
