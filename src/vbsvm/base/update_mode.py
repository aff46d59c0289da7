"""The two update modes of a sweep: what replaces each full conditional.

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
    """What an update returns for a full conditional; ``site`` names the conditional within the sweep."""

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Return the distribution, or a point drawn from it."""
        ...


def mean_field(distribution: Any, *site: str | int) -> Any:
    """Return the distribution itself: variational Bayes."""
    return distribution


@final
@dataclass(frozen=True, slots=True)
class Draw:
    """Return a draw from the distribution: Gibbs sampling.

    It has a seed and no generator. Each use derives one from seed, chain, sweep and site, so that draws do not depend
    on the number of threads or on the order in which row blocks are visited.
    """

    seed: int
    chain: int
    sweep: int

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Draw a point from the distribution with the site's own generator."""
        stream = _streams.free.pop() if _streams.free else _Stream()
        try:
            return distribution.draw(stream.seek(self.seed, (0, _site_hash(site), self.sweep, self.chain)))
        finally:
            _streams.free.append(stream)


@lru_cache(maxsize=4096)
def _site_hash(site: tuple[str | int, ...]) -> int:
    """64-bit hash of a site."""
    return int.from_bytes(blake2b(repr(site).encode(), digest_size=8).digest(), "little")


@final
@dataclass(frozen=True, slots=True)
class OverRelaxed:
    """Draw, with Adler's (1981) over-relaxation of the coefficients around their conditional mean.

    From θ they go to μ − ρ(θ − μ) + (1 − ρ²)^½ (a draw − μ), which leaves N(μ, Σ) as it is. Latent scales and
    coefficients follow each other closely, and successive draws then undo each other's errors.
    """

    draw: Draw
    previous: Array
    rho: float = 0.9

    def __call__(self, distribution: Any, *site: str | int) -> Any:
        """Draw a point from the distribution; for the coefficients one that depends on their previous value."""
        point = self.draw(distribution, *site)
        if site != ("coefficients",):
            return point
        deviation, noise = self.previous - distribution.mean, point.mean - distribution.mean
        return point.with_mean(distribution.mean - self.rho * deviation + math.sqrt(1 - self.rho**2) * noise)


def repeat_draws(mode: UpdateMode, n_sweeps: int) -> UpdateMode:
    """The same mode, but with the same draws in each run of ``n_sweeps`` consecutive sweeps."""
    if isinstance(mode, OverRelaxed):
        return repeat_draws(mode.draw, n_sweeps)
    return replace(mode, sweep=mode.sweep - mode.sweep % n_sweeps) if isinstance(mode, Draw) else mode


def starts_new_draws(mode: UpdateMode, n_sweeps: int) -> bool:
    """Whether ``repeat_draws`` draws anew in this sweep; always True without draws."""
    draw = mode.draw if isinstance(mode, OverRelaxed) else mode
    return not isinstance(draw, Draw) or draw.sweep % n_sweeps == 0


@final
class _Stream:
    """Counter-based generator that is repositioned at no cost; seeding a new one takes longer than most draws."""

    def __init__(self) -> None:
        self._bits = np.random.Philox(0)
        self._generator = np.random.Generator(self._bits)

    def seek(self, seed: int, counter: tuple[int, int, int, int]) -> np.random.Generator:
        """The generator at the start of the stream with this seed and counter; draws advance the first word."""
        # Tuples are read twice as fast as arrays.
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
    """Unused generators of this thread; nested draws take another one."""

    def __init__(self) -> None:
        self.free: list[_Stream] = []


_streams = _Streams()
