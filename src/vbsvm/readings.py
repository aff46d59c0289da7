"""The two readings of a sweep: what is done with each full conditional.

``expect`` keeps the law (variational Bayes); ``Draw`` replaces it by a point drawn from it (Gibbs).
"""

import zlib
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np


class Law(Protocol):
    """Anything that can be drawn from."""

    def draw(self, rng: np.random.Generator) -> Any:
        """Replace the law by a point drawn from it."""
        ...


class Reading(Protocol):
    """Resolve a full conditional; ``site`` names it within the sweep."""

    def __call__(self, law: Any, *site: str | int) -> Any:
        """Give the law, or a point drawn from it."""
        ...


def expect(law: Any, *site: str | int) -> Any:
    """Keep the law: variational Bayes."""
    return law


@final
@dataclass(frozen=True, slots=True)
class Draw:
    """Draw from the law: Gibbs.

    It holds a seed and no stream. Each use derives its generator from seed, chain, sweep and site, so that draws do not
    depend on the number of threads or on the order in which row blocks are visited.
    """

    seed: int
    chain: int
    sweep: int

    def __call__(self, law: Law, *site: str | int) -> Any:
        """Give a point drawn from the law with the site's own generator."""
        words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in site]
        return law.draw(np.random.default_rng([self.seed, self.chain, self.sweep, *words]))
