"""Where a climb over many rows begins: near its end, which a sample of the rows tells.

The rows of the sample have larger weights, so that they weigh as much as all. Their climb gives a mean, the curvature
for Newton steps over all rows, and the size of the variances of scores.
"""

from vbsvm.inference.climb import Ending, climb
from vbsvm.inference.smooth import Smooth
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State

# Rows of the sample for each coefficient, and at least; and how many times as many there must be in all.
ROWS_EACH = 128
FEWEST = 4096
MANY = 4
# The sample is off by half a nat for each coefficient and each row that one stands for: a share of that is enough.
SHARE = 0.01
MOST_PASSES = 20


def head_start(spec: Spec, source: Source, start: State, strategy: Smooth) -> State:
    """The first state of a climb with this strategy: the start itself where rows are few, or a sample tells little."""
    n_rows = max(FEWEST, ROWS_EACH * spec.n_columns)
    sample = source.sample(n_rows) if source.n_rows >= MANY * n_rows else None
    if sample is None:
        return start
    tol = SHARE * spec.n_columns * source.n_rows / n_rows
    few = Smooth(tol)
    reached = climb(spec, sample, start, few, tol, MOST_PASSES)
    if reached.ending is not Ending.CONVERGED or few.rows.separated:  # nothing holds separated classes but the prior
        return start
    return strategy.near(spec, source, reached.state, few.rows)
