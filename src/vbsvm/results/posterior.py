"""What a fit says of single coefficients: moments, quantiles, signs, inclusion; under mean field or from draws.

Both classes answer the same questions about the effective coefficients of the design's (standardised) columns, group
effects aside.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from vbsvm.base.arrays import Array
from vbsvm.inference.gibbs import Sample
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.matrices import DenseMatrix
from vbsvm.model.spec import State


@final
@dataclass(frozen=True, eq=False)
class MeanField:
    """By the mean-field distribution of a variational fit.

    Its spreads are too narrow; in models with groups its means can be off as well.
    """

    state: State
    n_fixed: int
    groups: bool = False
    exact: bool = False

    @property
    def note(self) -> str:
        """What tables say of their numbers, in few characters."""
        if self.exact:
            return "exact bound: narrow"
        return "mean field: narrow, biased" if self.groups else "mean field: too narrow"

    @property
    def explanation(self) -> str:
        """The same in full."""
        if self.exact:
            return "Spreads are those of the exact bound: wider than mean field's, but narrower than the posterior's."
        off_centre = " With groups, coefficients and standard deviations can be biased as well." * self.groups
        return f"Spreads are mean field's, about half of the posterior's.{off_centre} Gibbs() draws from the posterior."

    @cached_property
    def inclusion(self) -> Array:
        """E γ."""
        gates = self.state.gates
        return np.ones(self.n_fixed) if gates is None else gates.open[: self.n_fixed]

    @cached_property
    def _mean(self) -> Array:
        return self.state.gaussian.mean[: self.n_fixed]

    @cached_property
    def _sd(self) -> Array:
        return np.sqrt(self.state.gaussian.variances[: self.n_fixed])

    @property
    def mean(self) -> Array:
        """E[γ v]."""
        return self.inclusion * self._mean

    @property
    def variances(self) -> Array:
        """Var(γ v)."""
        return self.inclusion * (np.square(self._sd) + (1 - self.inclusion) * np.square(self._mean))

    @property
    def covariance(self) -> Array:
        """Cov(γ v)."""
        distribution, gates = self.state.gaussian, self.state.gates
        if gates is None:
            return distribution.covariances(self.n_fixed)
        return gates.applied_to(distribution.outer(self.n_fixed)) - np.outer(self.mean, self.mean)

    @property
    def signs(self) -> Array:
        """P(v > 0)."""
        return ndtr(np.divide(self._mean, self._sd, out=np.zeros_like(self._sd), where=self._sd > 0))

    def quantiles(self, chance: float) -> Array:
        """Quantile of γ v: normal where the gate is open, a point at 0 where it is not."""
        mean, sd = self._mean, self._sd
        opened = np.maximum(self.inclusion, 1e-300)
        below = opened * ndtr(np.divide(-mean, sd, out=np.zeros_like(sd), where=sd > 0))  # P(γv < 0)
        within = np.where(chance < below, chance, chance - (1 - opened)) / opened
        at_zero = (chance >= below) & (chance <= below + 1 - opened)
        return np.where(at_zero & (opened < 1), 0.0, mean + sd * ndtri(np.clip(within, 0.0, 1.0)))

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Normal, with the variance of the effective coefficients."""
        rows = DenseRows(0, DenseMatrix(t[None], np.empty((1, len(t)))), np.ones(1), np.ones(1))
        _, variance = self.state.gaussian.fixed(self.n_fixed).message(self.state.gates).row_moments(rows)
        mean, sd = float(t @ self.mean), float(np.sqrt(np.asarray(variance)[0]))
        return sd, [mean + float(ndtri(chance)) * sd for chance in chances], float(ndtr(mean / sd)) if sd > 0 else 0.5

    def inverse_scale(self, block: int) -> float:
        """E[σ⁻²]."""
        return self.state.scales[block].inverse_mean


@final
@dataclass(frozen=True, eq=False)
class Sampled:
    """By the draws of a sampler."""

    sample: Sample
    n_fixed: int
    gate_of: NDArray[np.intp] | None  # of the design's columns, −1 for none
    note: str = "Gibbs"
    explanation: str = "Spreads are those of the pseudo-likelihood's posterior; they are not confidence intervals."

    @cached_property
    def _draws(self) -> Array:
        return self.sample.flat[:, : self.n_fixed]

    @cached_property
    def mean(self) -> Array:
        """Means."""
        return self._draws.mean(axis=0)

    @cached_property
    def variances(self) -> Array:
        """Variances."""
        return self._draws.var(axis=0)

    @property
    def covariance(self) -> Array:
        """Covariance."""
        centred = self._draws - self.mean
        return centred.T @ centred / len(centred)

    @cached_property
    def inclusion(self) -> Array:
        """Share of draws with an open gate."""
        found = np.ones(self.n_fixed)
        if self.sample.gates is not None and self.gate_of is not None:
            shares = self.sample.gates.reshape(-1, self.sample.gates.shape[2]).mean(axis=0)
            gate_of = self.gate_of[: self.n_fixed]
            found[gate_of >= 0] = shares[gate_of[gate_of >= 0]]
        return found

    @property
    def signs(self) -> Array:
        """Share of positive draws among those that are in; ½ where none is."""
        inside = (self._draws != 0).sum(axis=0)
        return np.divide((self._draws > 0).sum(axis=0), inside, out=np.full(self.n_fixed, 0.5), where=inside > 0)

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the draws."""
        return np.quantile(self._draws, chance, axis=0)

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Of the draws of tᵀθ."""
        values = self._draws @ t
        return float(values.std()), [float(x) for x in np.quantile(values, chances)], float((values > 0).mean())

    def inverse_scale(self, block: int) -> float:
        """Mean of 1/σ²."""
        return float((1.0 / self.sample.scales[block]).mean())
