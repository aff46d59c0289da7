"""The two readings of a sweep: what is done with each full conditional.

``mean_field`` keeps the distribution (variational Bayes); ``Draw`` replaces it by a point drawn from it (Gibbs).
"""

import math
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol, final

import numpy as np

from vbsvm.base.arrays import Array

MASK = 2**64 - 1


class UpdateMode(Protocol):
    """Resolve a full conditional; ``site`` names it within the sweep."""

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Give the distribution, or a point drawn from it."""
        ...


def mean_field(distribution: Any, *site: str | int) -> Any:
    """Keep the distribution: variational Bayes."""
    return distribution


@final
@dataclass(frozen=True, slots=True)
class Draw:
    """Draw from the distribution: Gibbs.

    It holds a seed and no stream. Each use derives its generator from seed, chain, sweep and site, so that draws do not
    depend on the number of threads or on the order in which row blocks are visited.
    """

    seed: int
    chain: int
    sweep: int

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Give a point drawn from the distribution with the site's own generator."""
        stream = _streams.free.pop() if _streams.free else _Stream()
        try:
            return distribution.draw(stream.at(self.seed, (0, _word(site), self.sweep, self.chain)))
        finally:
            _streams.free.append(stream)


@lru_cache(maxsize=4096)
def _word(site: tuple[str | int, ...]) -> int:
    """64 bits for a site: equal sites have equal words, and others do not in practice."""
    return int.from_bytes(blake2b(repr(site).encode(), digest_size=8).digest(), "little")


@final
@dataclass(frozen=True, slots=True)
class OverRelaxed:
    """Draw, and let the coefficients jump to the other side of their conditional mean (Adler 1981).

    From θ they go to μ − ρ(θ − μ) + (1 − ρ²)^½ (a draw − μ), which leaves N(μ, Σ) as it is. Latent scales and
    coefficients follow each other closely, and successive draws then undo each other's errors.
    """

    draw: Draw
    before: Array
    rho: float = 0.9

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Give a point drawn from the distribution; of the coefficients one that depends on where they were."""
        point = self.draw(distribution, *site)
        if site != ("coefficients",):
            return point
        back, ahead = self.before - distribution.mean, point.mean - distribution.mean
        return point.with_mean(distribution.mean - self.rho * back + math.sqrt(1 - self.rho**2) * ahead)


def repeat_draws(reading: UpdateMode, sweeps: int) -> UpdateMode:
    """The same reading, which draws the same in all of so many sweeps that follow each other."""
    if isinstance(reading, OverRelaxed):
        return repeat_draws(reading.draw, sweeps)
    return replace(reading, sweep=reading.sweep - reading.sweep % sweeps) if isinstance(reading, Draw) else reading


def starts_new_draws(reading: UpdateMode, sweeps: int) -> bool:
    """Whether a sweep is the first of so many that follow each other; without draws each is."""
    draw = reading.draw if isinstance(reading, OverRelaxed) else reading
    return not isinstance(draw, Draw) or draw.sweep % sweeps == 0


@final
class _Stream:
    """A counter-based generator: it starts anywhere at no cost, where seeding takes longer than most draws."""

    def __init__(self) -> None:
        self._bits = np.random.Philox(0)
        self._generator = np.random.Generator(self._bits)

    def at(self, seed: int, counter: tuple[int, int, int, int]) -> np.random.Generator:
        """The generator at the beginning of the stream that has this seed and counter; a draw moves the first word."""
        # Tuples take half the time of arrays to be read.
        start: Any = {
            "bit_generator": "Philox",
            "state": {"counter": counter, "key": (seed & MASK, seed >> 64 & MASK)},
            "buffer": (0, 0, 0, 0),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._bits.state = start
        return self._generator


class _Streams(threading.local):
    """Streams that are free in this thread; a draw within a draw takes another one."""

    def __init__(self) -> None:
        self.free: list[_Stream] = []


_streams = _Streams()
