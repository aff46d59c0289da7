"""A joint normal distribution of several variables, and that of some of them given others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from vbsvm.base.arrays import Array, cholesky
from vbsvm.base.distributions import InverseWishart


@final
@dataclass(frozen=True, eq=False)
class Conditional:
    """Some variables of some rows given others: a mean for each row, and a root of the covariance."""

    rows: NDArray[np.intp]
    variables: NDArray[np.intp]
    mean: Array
    root: Array

    def log_density(self, values: Array) -> Array:
        """Log density of values, (… ×) rows × variables, but for a constant."""
        off = np.linalg.solve(self.root, np.swapaxes(values - self.mean, -1, -2))
        return -0.5 * np.square(off).sum(axis=-2) - float(np.log(self.root.diagonal()).sum())


@final
@dataclass(frozen=True, eq=False)
class JointNormal:
    """Mean and covariance."""

    mean: Array
    covariance: Array

    def without(self, n: int) -> "JointNormal":
        """The distribution of all variables but the first n."""
        return JointNormal(self.mean[n:], self.covariance[n:, n:])

    def redrawn(self, n: float, rng: np.random.Generator) -> "JointNormal":
        """A draw of the parameters, which were learned from so many rows."""
        covariance = InverseWishart(n * self.covariance, n + len(self.mean) + 1).draw(rng).value
        return JointNormal(self.mean + cholesky(covariance / n) @ rng.standard_normal(len(self.mean)), covariance)

    def given(self, x: Array, missing: NDArray[np.bool_], first: int) -> Iterator[Conditional]:
        """Those variables from the ``first`` on that rows miss (NaN), given what they have: one for each pattern."""
        patterns, of_row = np.unique(missing, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            lost = first + np.flatnonzero(pattern[first:])
            if not len(lost):
                continue
            rows, known = np.flatnonzero(of_row.ravel() == k), np.flatnonzero(~pattern)
            mean, covariance = self.mean[lost], self.covariance[np.ix_(lost, lost)]
            if len(known):
                across = self.covariance[np.ix_(known, lost)]
                slopes = cho_solve(cho_factor(self.covariance[np.ix_(known, known)]), across)
                mean = mean + (x[np.ix_(rows, known)] - self.mean[known]) @ slopes
                covariance = covariance - across.T @ slopes
            yield Conditional(rows, lost, np.broadcast_to(mean, (len(rows), len(lost))), cholesky(covariance))
