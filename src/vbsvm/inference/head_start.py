"""Where a climb over many rows begins: near its end, which a sample of the rows tells.

The rows of the sample have larger weights, so that they weigh as much as all. Their climb gives a mean, the curvature
for Newton steps over all rows, and the size of the variances of scores.
"""

import numpy as np

from vbsvm.base.settings import log
from vbsvm.inference.climb import Ending, climb
from vbsvm.inference.smooth import Smooth
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State

# Rows of the sample for each coefficient, and at least; and how many times as many there must be in all.
ROWS_EACH = 128
FEWEST = 4096
MANY = 4
# The sample is off by half a nat for each coefficient and each row that one stands for: a share of that is enough.
SHARE = 0.1
MOST_PASSES = 20


def head_start(spec: Spec, source: Source, start: State, strategy: Smooth) -> State:
    """The first state of a climb with this strategy: the start itself where rows are few, or a sample tells little."""
    n_rows = max(FEWEST, ROWS_EACH * spec.n_columns)
    sample = source.sample(n_rows) if source.n_rows >= MANY * n_rows else None
    if sample is None:
        return start
    log.info("head start: a climb over %d of %d rows", n_rows, source.n_rows)
    tol = SHARE * spec.n_columns * source.n_rows / n_rows
    few = Smooth(tol)
    try:
        reached = climb(spec, sample, start, few, tol, MOST_PASSES)
        if reached.ending is Ending.INTERRUPTED:
            raise KeyboardInterrupt  # nothing has been reached that could be kept
        if reached.ending is not Ending.CONVERGED or few.rows.separated:  # what holds separated classes is the prior
            return start
        with np.errstate(all="ignore"):
            return strategy.near(spec, source, reached.state, few.rows)
    except (FloatingPointError, np.linalg.LinAlgError):  # all rows together may do better
        return start
