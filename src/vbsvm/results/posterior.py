"""Posterior of the parameters after a fit, by the mean-field distribution or by draws, and its history.

A ``Posterior`` is all that fits, tables, predictions, figures and reports ask. Numbers are those of the design's
(standardised) columns, indicators applied; ``Plan`` turns them into the user's. Random effects are selected by their
indices among all coefficients.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from scipy.special import ndtr, ndtri

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import Plan
from vbsvm.inference.covariance.kinds import effective_covariance
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
    """Posterior by the mean-field distribution of a variational fit, under the augmented bound or the exact one.

    Its variances are too small; with random effects its means can be biased as well.
    """

    plan: Plan
    spec: Spec
    outcome: OptimizeResult
    covariance_notes: Notes | None = None  # if its covariance is not that of the optimisation
    deferred_bounds: Callable[[], Array] | None = None  # computes bounds that were deferred
    by_draws: ClassVar[bool] = False

    @property
    def history(self) -> OptimizationHistory:
        """History of the optimisation."""
        return OptimizationHistory(self.outcome, self.deferred_bounds)

    def with_covariance(self, distribution: CoefficientDistribution, covariance_notes: Notes) -> "MeanField":
        """Copy with another covariance of the coefficients around the same mean."""
        state = self.outcome.state.with_coefficients(distribution)
        if isinstance(distribution, DrawnGaussian):
            covariance_notes = notes.estimated_from_draws(covariance_notes, len(distribution.draws))
        return replace(self, outcome=replace(self.outcome, state=state), covariance_notes=covariance_notes)

    @property
    def notes(self) -> Notes:
        """Notes on the distribution of the bound that was optimised."""
        if self.covariance_notes is not None:
            return self.covariance_notes
        if self.outcome.integrated:
            return notes.INTEGRATED
        spec, coefficients = self.spec, self.state.coefficients
        facts = {"normalised": spec.likelihood.normalised, "exact": self.outcome.exact, "joint_gates": spec.joint_gates}
        of_bound = notes.of_bound(groups=bool(self.plan.factors), **facts)
        of_bound = of_bound if spec.likelihood.normalised else notes.at_power(of_bound, spec.likelihood_power)
        if isinstance(coefficients, DrawnGaussian) and not self.outcome.exact:
            return notes.estimated_from_draws(of_bound, len(coefficients.draws))
        return of_bound

    @property
    def state(self) -> State:
        """Final state of the optimisation."""
        return self.outcome.state

    @property
    def inclusion(self) -> Array:
        """Inclusion probabilities E γ."""
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
        return effective_covariance(self.state.gaussian, self.state, self.plan.n_fixed)

    @property
    def sign_probabilities(self) -> Array:
        """Probabilities P(v > 0)."""
        return ndtr(np.divide(self._mean, self._sd, out=np.zeros_like(self._sd), where=self._sd > 0))

    def quantiles(self, chance: float) -> Array:
        """Quantile of γ v: normal if included, a point at 0 otherwise."""
        mean, sd = self._mean, self._sd
        included = np.maximum(self.inclusion, 1e-300)
        below = included * ndtr(np.divide(-mean, sd, out=np.zeros_like(sd), where=sd > 0))  # P(γv < 0)
        within = np.where(chance < below, chance, chance - (1 - included)) / included
        at_zero = (chance >= below) & (chance <= below + 1 - included)
        return np.where(at_zero & (included < 1), 0.0, mean + sd * ndtri(np.clip(within, 0.0, 1.0)))

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and P(tᵀθ > 0), by a normal distribution."""
        rows = DenseRows(0, DenseMatrix(t[None]), np.ones(1), np.ones(1))
        _, variance = self.state.gaussian.marginal(self.plan.n_fixed).effective(self.state.gates).row_moments(rows)
        mean, sd = float(t @ self.mean), float(np.sqrt(np.asarray(variance)[0]))
        return sd, [mean + float(ndtri(chance)) * sd for chance in chances], float(ndtr(mean / sd)) if sd > 0 else 0.5

    def inverse_scale(self, block: int) -> float:
        """E[σ⁻²]."""
        return self.state.scales[block].inverse_mean

    def effects(self, which: slice) -> tuple[Array, Array]:
        """Means and standard deviations of these coefficients."""
        distribution = self.state.gaussian
        return distribution.mean[which], np.sqrt(distribution.variances[which])

    def variance_components(self, level: float, log_variances: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """Table of variance components, by the blocks' scales or by standard deviations of log σ²."""
        return variance_components.table(self.plan, self.spec, self.state, level, log_variances)

    def diagnostics(self) -> dict[str, Array]:
        """Empty: no R̂ or effective draws."""
        return {}


@final
@dataclass(frozen=True, eq=False)
class Sampled:
    """Posterior by the draws of a sampler."""

    plan: Plan
    spec: Spec
    sample: Sample

    by_draws: ClassVar[bool] = True

    @cached_property
    def history(self) -> ChainHistory:
        """The chains and their mixing."""
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
        """Proportion of draws in which each coefficient is included."""
        proportions = np.ones(self.plan.n_fixed)
        if self.sample.gates is not None and self.spec.gate_map is not None:
            of_gates = self.sample.gates.reshape(-1, self.sample.gates.shape[2]).mean(axis=0)
            gate_of = self.spec.gate_map.gate_of[: self.plan.n_fixed]
            proportions[gate_of >= 0] = of_gates[gate_of[gate_of >= 0]]
        return proportions

    @property
    def sign_probabilities(self) -> Array:
        """Proportion of positive draws among the nonzero ones; ½ if there are none."""
        inside = (self._draws != 0).sum(axis=0)
        return np.divide((self._draws > 0).sum(axis=0), inside, out=np.full(self.plan.n_fixed, 0.5), where=inside > 0)

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the draws."""
        return np.quantile(self._draws, chance, axis=0)

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and P(tᵀθ > 0), by the draws."""
        values = self._draws @ t
        return float(values.std()), [float(x) for x in np.quantile(values, chances)], float((values > 0).mean())

    def inverse_scale(self, block: int) -> float:
        """Mean of 1/σ²."""
        return float((1.0 / self.sample.scales[block]).mean())

    def effects(self, which: slice) -> tuple[Array, Array]:
        """Means and standard deviations of these coefficients."""
        distribution = self.state.gaussian
        return distribution.mean[which], np.sqrt(distribution.variances[which])

    def variance_components(self, level: float, log_variances: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """Table of variance components by the draws, with R̂ and effective draws."""
        normalised = self.spec.likelihood.normalised
        return variance_components.table_of_draws(self.history.traces, level, highest_density=normalised)

    def diagnostics(self) -> dict[str, Array]:
        """R̂ and effective draws."""
        return self.history.traces.columns()


Posterior = MeanField | Sampled


def posterior_of(
    plan: Plan, spec: Spec, outcome: OptimizeResult | Sample, deferred_bounds: Callable[[], Array] | None = None
) -> Posterior:
    """Posterior of a fit's outcome; ``deferred_bounds`` computes bounds that were not needed so far."""
    if isinstance(outcome, Sample):
        return Sampled(plan, spec, outcome)
    return MeanField(plan, spec, outcome, deferred_bounds=deferred_bounds)
