"""The end of a climb to more digits than its bound has.

Around its maximum the bound falls with the square of what the coefficients are off. Where it stands still to 1e-12,
these may be 1e-6 of their spreads away, and so far apart two ways up may end. So the last steps are judged by their own
length: they are made until they get no shorter, and the state from which the shortest leads is the end.
"""

import math

import numpy as np

from vbsvm.inference.extrapolation import Settling, longest_change
from vbsvm.inference.proposals import Polishing, Visited
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State

# Whoever sets a tolerance as small as this wants the maximum itself.
FINEST = 1e-11
# A step is of no length where no number of the state changes by more than this.
AT_REST = 1e-12
# How much lower the end may be, relatively: where expectations over missing inputs are by quadrature, the bound and its
# gradient agree to about this.
MOST_LOST = 1e-9
# Passes in all, and in a row without a shorter step.
MOST_PASSES = 100
PATIENCE = 5


def polished(spec: Spec, source: Source, at: Visited, strategy: Polishing, most: int) -> tuple[Visited, int]:
    """The state nearby from which the shortest step leads, and the passes that were made to find it."""
    settling, shortest, best, state, passes, since = Settling[State](), math.inf, at, at.state, 0, 0
    with np.errstate(all="ignore"):  # an extrapolated state may overflow, and is then taken back
        while passes < min(most, MOST_PASSES) and since < PATIENCE and shortest > AT_REST:
            passes, since = passes + 1, since + 1
            here, image = _step(spec, source, state, strategy)
            if here is None or image is None or not math.isfinite(length := longest_change(state.packed, image.packed)):
                if settling.safe is None:
                    break
                state = settling.back()
                continue
            if length < shortest:
                shortest, best, since = length, here, 0
            state = settling.next(image, state.packed, image.packed)
    return best, passes


def _step(spec: Spec, source: Source, state: State, strategy: Polishing) -> tuple[Visited | None, State | None]:
    """The state as it was visited, and where a whole step leads; None where it can't be made."""
    try:
        here = strategy.visit(spec, source, state)
        return here, strategy.whole_step(spec, here)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None, None
