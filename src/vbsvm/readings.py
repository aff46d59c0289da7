"""The two readings of a sweep: what is done with each full conditional.

``expect`` keeps the law (variational Bayes); ``Draw`` replaces it by a point drawn from it (Gibbs).
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol, final

import numpy as np

MASK = 2**64 - 1


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
        # A counter-based generator starts anywhere at no cost; seeding another kind would take longer than most draws.
        digest = blake2b(repr((self.chain, self.sweep, site)).encode(), digest_size=24).digest()
        counter = np.array([0, *np.frombuffer(digest, dtype=np.uint64)], dtype=np.uint64)
        key = np.array([self.seed & MASK, self.seed >> 64 & MASK], dtype=np.uint64)
        return law.draw(np.random.Generator(np.random.Philox(key=key, counter=counter)))
