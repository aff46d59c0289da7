"""What is believed of a model's parameters after a fit, and how it was reached: by mean field, or by draws.

A ``Posterior`` is all that fits, tables, predictions, figures and reports ask. Numbers are those of the design's
(standardised) columns, gates applied; ``Plan`` turns them into the user's. Effects of groups are asked for by their
places among all coefficients.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from scipy.special import ndtr, ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.layouts.dense import DenseRows
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.model.matrices import DenseMatrix
from vbsvm.model.spec import Spec, State
from vbsvm.results import notes, variance_components
from vbsvm.results.history import ChainHistory, OptimizationHistory
from vbsvm.results.notes import Notes

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class MeanField:
    """By the mean-field distribution of a variational fit, under the paper's bound or the exact one.

    Its spreads are too narrow; in models with groups its means can be off as well.
    """

    plan: Plan
    spec: Spec
    outcome: OptimizeResult
    own_notes: Notes | None = None  # where its covariance is not that of the optimisation
    later: Callable[[], Array] | None = None  # computes bounds that were not needed yet
    by_draws: ClassVar[bool] = False

    @property
    def history(self) -> OptimizationHistory:
        """How the optimisation went."""
        return OptimizationHistory(self.outcome, self.later)

    def with_covariance(self, distribution: CoefficientDistribution, own: Notes) -> "MeanField":
        """The same with another distribution of the coefficients, around the same mean."""
        state = self.outcome.state.with_coefficients(distribution)
        if isinstance(distribution, DrawnGaussian):
            own = notes.estimated(own, len(distribution.draws))
        return replace(self, outcome=replace(self.outcome, state=state), own_notes=own)

    @property
    def notes(self) -> Notes:
        """Notes on the distribution of the bound that was optimised."""
        if self.own_notes is not None:
            return self.own_notes
        if self.outcome.integrated:
            return notes.INTEGRATED
        spec, coefficients = self.spec, self.state.coefficients
        facts = {"normalised": spec.likelihood.normalised, "exact": self.outcome.exact, "joint_gates": spec.joint_gates}
        own = notes.of_bound(groups=bool(self.plan.factors), **facts)
        own = own if spec.likelihood.normalised else notes.at_power(own, spec.likelihood_power)
        if isinstance(coefficients, DrawnGaussian) and not self.outcome.exact:
            return notes.estimated(own, len(coefficients.draws))
        return own

    @property
    def state(self) -> State:
        """Where the optimisation ended."""
        return self.outcome.state

    @property
    def inclusion(self) -> Array:
        """E γ."""
        gates = self.state.gates
        return np.ones(self.plan.n_fixed) if gates is None else gates.by_coefficient[: self.plan.n_fixed]

    @cached_property
    def _mean(self) -> Array:
        return self.state.gaussian.mean[: self.plan.n_fixed]

    @cached_property
    def _sd(self) -> Array:
        return np.sqrt(self.state.gaussian.variances[: self.plan.n_fixed])

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
            return distribution.covariances(self.plan.n_fixed)
        return gates.weigh(distribution.outer(self.plan.n_fixed)) - np.outer(self.mean, self.mean)

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
        rows = DenseRows(0, DenseMatrix(t[None]), np.ones(1), np.ones(1))
        _, variance = self.state.gaussian.marginal(self.plan.n_fixed).effective(self.state.gates).row_moments(rows)
        mean, sd = float(t @ self.mean), float(np.sqrt(np.asarray(variance)[0]))
        return sd, [mean + float(ndtri(chance)) * sd for chance in chances], float(ndtr(mean / sd)) if sd > 0 else 0.5

    def inverse_scale(self, block: int) -> float:
        """E[σ⁻²]."""
        return self.state.scales[block].inverse_mean

    def effects(self, which: slice) -> tuple[Array, Array]:
        """Moments of the mean-field distribution."""
        distribution = self.state.gaussian
        return distribution.mean[which], np.sqrt(distribution.variances[which])

    def variance_components(self, level: float, log_variances: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """By the distributions of the blocks' scales, or by better known standard deviations of log σ²."""
        return variance_components.table(self.plan, self.spec, self.state, level, log_variances)

    def diagnostics(self) -> dict[str, Array]:
        """None."""
        return {}


@final
@dataclass(frozen=True, eq=False)
class Sampled:
    """By the draws of a sampler."""

    plan: Plan
    spec: Spec
    sample: Sample

    by_draws: ClassVar[bool] = True

    @cached_property
    def history(self) -> ChainHistory:
        """The chains, and how they mix."""
        return ChainHistory(self.plan, self.spec, self.sample)

    @property
    def notes(self) -> Notes:
        """Notes on draws."""
        if self.spec.likelihood.normalised:
            return notes.DRAWS_OF_POSTERIOR
        return notes.at_power(notes.DRAWS, self.spec.likelihood_power)

    @cached_property
    def state(self) -> State:
        """Posterior means, and the draws as a distribution of the coefficients."""
        return self.sample.state

    @property
    def _draws(self) -> Array:
        return self.sample.flat[:, : self.plan.n_fixed]

    @property
    def mean(self) -> Array:
        """Means."""
        return self.state.gaussian.mean[: self.plan.n_fixed]

    @property
    def variances(self) -> Array:
        """Variances."""
        return self.state.gaussian.variances[: self.plan.n_fixed]

    @property
    def covariance(self) -> Array:
        """Covariance."""
        return self.state.gaussian.covariances(self.plan.n_fixed)

    @property
    def inclusion(self) -> Array:
        """Share of draws with an open gate."""
        found = np.ones(self.plan.n_fixed)
        if self.sample.gates is not None and self.spec.gate_map is not None:
            shares = self.sample.gates.reshape(-1, self.sample.gates.shape[2]).mean(axis=0)
            gate_of = self.spec.gate_map.gate_of[: self.plan.n_fixed]
            found[gate_of >= 0] = shares[gate_of[gate_of >= 0]]
        return found

    @property
    def signs(self) -> Array:
        """Share of positive draws among those that are in; ½ where none is."""
        inside = (self._draws != 0).sum(axis=0)
        return np.divide((self._draws > 0).sum(axis=0), inside, out=np.full(self.plan.n_fixed, 0.5), where=inside > 0)

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

    def effects(self, which: slice) -> tuple[Array, Array]:
        """Moments of the draws."""
        distribution = self.state.gaussian
        return distribution.mean[which], np.sqrt(distribution.variances[which])

    def variance_components(self, level: float, log_variances: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """By the draws, with R̂ and effective draws."""
        own = self.spec.likelihood.normalised
        return variance_components.table_of_draws(self.history.traces, level, highest_density=own)

    def diagnostics(self) -> dict[str, Array]:
        """R̂ and effective draws."""
        return self.history.traces.columns()


Posterior = MeanField | Sampled


def posterior_of(
    plan: Plan, spec: Spec, outcome: OptimizeResult | Sample, later: Callable[[], Array] | None = None
) -> Posterior:
    """The posterior that a fit ended with; ``later`` computes bounds that were not needed yet."""
    if isinstance(outcome, Sample):
        return Sampled(plan, spec, outcome)
    return MeanField(plan, spec, outcome, later=later)
