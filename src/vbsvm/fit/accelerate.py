"""Where to go next: candidates for the next state, the boldest first, the paper's own update last.

``fit.variational`` tries them in order and takes the first that does not lower the bound. The paper's update never
lowers it, so the climb is monotone whatever the bolder ones do.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.layout import dense
from vbsvm.readings import expect
from vbsvm.spec import Spec, State
from vbsvm.stats import Stats
from vbsvm.sweep import update_coefficients, update_priors

Array = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Visited:
    """A state, the stats of the pass that started from it, and so its exact bound."""

    state: State
    stats: Stats
    bound: float


class Strategy(Protocol):
    """A way to propose the next state."""

    needs_curvature: bool

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield next states in the order in which they are to be tried."""
        ...


def paper_step(spec: Spec, at: Visited) -> State:
    """The paper's updates, to the letter."""
    return update_priors(spec, update_coefficients(spec, at.state, at.stats, expect), expect)


def newton_step(spec: Spec, at: Visited) -> State | None:
    """The paper's updates, but with a Newton step for the mean on the bound collapsed over the latent scales.

    The paper's update of the mean uses a majorant of the curvature that is too large by χ/v. None where there is no
    curvature: at a point, or where it is not positive in floating point.
    """
    stats, law = at.stats, at.state.coefficients
    if stats.curvature is None:
        return None
    precision = spec.precision(at.state)
    mean = dense.newton_mean(law.mean, stats.gram, stats.cross, stats.curvature, precision)
    if mean is None:
        return None
    moved = dense.conditional(stats.gram, stats.cross, precision).at(mean)
    return update_priors(spec, replace(at.state, coefficients=moved), expect)


@final
class Plain:
    """The paper's sweep and nothing else."""

    needs_curvature = False

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield the paper's update."""
        yield paper_step(spec, at)


@final
class Accelerated:
    """Newton steps for the mean, and Anderson extrapolation of the whole map state → state.

    Anderson: of the last ``MEMORY`` + 1 states z and their images F(z) take the affine combination whose residual F(z) − z is smallest,
    and go to the same combination of the images. Packed states are unconstrained, so the result is a valid state.
    """

    needs_curvature = True
    MEMORY = 6
    # Directions in which residuals differ by less than this, relatively, are rounding: following them would amplify it.
    CUT = 1e-6

    def __init__(self) -> None:
        self._previous: tuple[Array, Array] | None = None
        self._residual_changes: deque[Array] = deque(maxlen=self.MEMORY)
        self._image_changes: deque[Array] = deque(maxlen=self.MEMORY)

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield Anderson's extrapolation, the Newton step, and the paper's update."""
        newton = newton_step(spec, at)
        if newton is not None:
            extrapolated = self._extrapolate(at.state.pack(), newton.pack())
            if extrapolated is not None:
                yield newton.unpack(extrapolated)
            yield newton
        yield paper_step(spec, at)

    def _extrapolate(self, z: Array, image: Array) -> Array | None:
        residual = image - z
        if self._previous is not None:
            self._residual_changes.append(residual - self._previous[0])
            self._image_changes.append(image - self._previous[1])
        self._previous = residual, image
        if not self._residual_changes:
            return None
        weights = np.linalg.lstsq(np.stack(self._residual_changes, axis=1), residual, rcond=self.CUT)[0]
        return image - weights @ np.stack(self._image_changes)
