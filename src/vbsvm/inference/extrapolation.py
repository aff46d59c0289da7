"""Steps of a map towards its fixed point, extrapolated from the last ones."""

from typing import Generic, Protocol, Self, TypeVar, final

import numpy as np

from vbsvm.base.arrays import Array


@final
class Anderson:
    """Extrapolation of a map z → F(z) from its last values.

    Of the last states take the affine combination whose residual F(z) − z is smallest, and go to the same combination
    of their images. Packed states are unconstrained, so the result is a valid state.
    """

    MEMORY = 6
    # Directions in which residuals differ by less than this, relatively, are rounding: following them would amplify it.
    CUT = 1e-6
    # After a refusal what was remembered belongs to another region: forget it, and look at this many steps first.
    REST = 2

    def __init__(self) -> None:
        self._previous: tuple[Array, Array] | None = None
        self._changes: tuple[Array, Array] | None = None  # of residuals and of images; the oldest is overwritten
        self._seen = 0
        self._resting = 0

    def refused(self) -> None:
        """Take note that the last proposal lowered the bound."""
        self._seen = 0
        self._resting = self.REST

    def propose(self, z: Array, image: Array) -> Array | None:
        """Remember z and F(z), and extrapolate where there is enough to go by."""
        residual = image - z
        before, self._previous = self._previous, (residual, image)
        if before is None:
            return None
        if self._changes is None:
            self._changes = np.empty((self.MEMORY, len(z))), np.empty((self.MEMORY, len(z)))
        of_residuals, of_images = self._changes
        np.subtract(residual, before[0], out=of_residuals[self._seen % self.MEMORY])
        np.subtract(image, before[1], out=of_images[self._seen % self.MEMORY])
        self._seen += 1
        if self._resting > 0:
            self._resting -= 1
            return None
        known = of_residuals[: self._seen]
        gram = known @ known.T
        if not np.isfinite(gram).all():
            return None
        squares, directions = np.linalg.eigh(gram)
        kept = squares > self.CUT**2 * squares[-1]
        coordinates = directions[:, kept].T @ (known @ residual) / squares[kept]
        return image - (directions[:, kept] @ coordinates) @ of_images[: self._seen]


class Unpackable(Protocol):
    """What can be made of numbers again."""

    def unpack(self, numbers: Array) -> Self:
        """Make one of the same shape from numbers."""
        ...


U = TypeVar("U", bound=Unpackable)


@final
class Settling(Generic[U]):
    """Where to go next on the way to a fixed point: extrapolated steps, taken back where the next is longer."""

    # An extrapolated step is taken back where the next one is longer than the last by more than this factor.
    LONGER = 2.0

    def __init__(self) -> None:
        self._anderson, self._length = Anderson(), np.inf
        self.safe: U | None = None  # the plain step, where the last one was extrapolated

    def next(self, image: U, before: Array, after: Array) -> U:
        """Where to go from the numbers ``before``, which the map takes to ``image``, whose numbers are ``after``."""
        length = longest_change(before, after)
        if self.safe is not None and not length < self.LONGER * self._length:
            return self.back()
        ahead, self._length = self._anderson.propose(before, after), length
        self.safe = None if ahead is None else image
        return image if ahead is None else image.unpack(ahead)

    def back(self) -> U:
        """Take the last step back, which was extrapolated."""
        assert self.safe is not None
        safe, self.safe = self.safe, None
        self._anderson.refused()
        return safe


def longest_change(before: Array, after: Array) -> float:
    """The largest change of a number; where numbers are large, relatively to these."""
    change = np.where(before == after, 0.0, np.abs(after - before) / (1.0 + np.abs(before)))  # gates may be infinite
    return float(change.max(initial=0.0))
