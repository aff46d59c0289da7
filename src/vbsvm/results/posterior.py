"""What is believed of a model's parameters after a fit, and how it was reached: by mean field, or by draws.

``Posterior`` is all that fits, tables, predictions, figures and reports ask. Numbers are those of the design's
(standardised) columns; ``Plan`` turns them into the user's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, final

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
from vbsvm.results import variance_components, words
from vbsvm.results.course import Chains, Climb, Course
from vbsvm.results.words import Words, estimated

if TYPE_CHECKING:
    import pandas as pd


class Posterior(Protocol):
    """What is asked of a posterior.

    Coefficients are the effective ones of columns, gates applied; effects of groups are asked for by their places.
    """

    @property
    def course(self) -> Course:
        """How it was reached."""
        ...

    @property
    def words(self) -> Words:
        """What tables, figures and reports say of it."""
        ...

    @property
    def by_draws(self) -> bool:
        """Whether it is known by draws."""
        ...

    def with_spread(self, distribution: CoefficientDistribution, words: Words) -> "Posterior":
        """The same with another distribution of the coefficients, around the same mean."""
        ...

    @property
    def state(self) -> State:
        """Distributions of all that the model has: what predictions and comparisons ask."""
        ...

    @property
    def mean(self) -> Array:
        """Means of the coefficients."""
        ...

    @property
    def variances(self) -> Array:
        """Variances of the coefficients."""
        ...

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients."""
        ...

    @property
    def inclusion(self) -> Array:
        """Probabilities that gates are open; 1 where there is none."""
        ...

    @property
    def signs(self) -> Array:
        """Probabilities that coefficients are positive, for those that they have if they are included."""
        ...

    def quantiles(self, chance: float) -> Array:
        """Quantiles of the coefficients."""
        ...

    def combination(self, t: Array, chances: list[float]) -> tuple[float, list[float], float]:
        """Standard deviation and quantiles of tᵀθ, and the probability that it is positive."""
        ...

    def inverse_scale(self, block: int) -> float:
        """E[σ⁻²] of a block."""
        ...

    def effects(self, which: slice) -> tuple[Array, Array]:
        """Means and standard deviations of some effects of groups, by their places among all coefficients."""
        ...

    def variance_components(self, level: float, log_variances: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """One row for each standard deviation of effects and each correlation: median, interval, and what is known.

        ``log_variances`` has standard deviations of log σ² by term that are better than the posterior's own.
        """
        ...

    def diagnostics(self) -> dict[str, Array]:
        """Further columns of the table of coefficients, the intercept first: how well each of them is known."""
        ...


def posterior_of(
    plan: Plan, spec: Spec, outcome: OptimizeResult | Sample, later: Callable[[], Array] | None = None
) -> Posterior:
    """The posterior that a fit ended with; ``later`` gives bounds that nobody has asked for yet."""
    if isinstance(outcome, Sample):
        return Sampled(plan, spec, outcome)
    return MeanField(plan, spec, outcome, later=later)


@final
@dataclass(frozen=True, eq=False)
class MeanField:
    """By the mean-field distribution of a variational fit, under the paper's bound or the exact one.

    Its spreads are too narrow; in models with groups its means can be off as well.
    """

    plan: Plan
    spec: Spec
    outcome: OptimizeResult
    own_words: Words | None = None  # where its spread is not that of the climb
    later: Callable[[], Array] | None = None  # gives bounds that nobody has asked for yet

    @property
    def course(self) -> Climb:
        """The climb."""
        return Climb(self.spec, self.outcome, self.later)

    @property
    def by_draws(self) -> bool:
        """No."""
        return False

    def with_spread(self, distribution: CoefficientDistribution, words: Words) -> "MeanField":
        """The same with another distribution of the coefficients, around the same mean."""
        state = self.outcome.state.moved(distribution)
        own = estimated(words, len(distribution.draws)) if isinstance(distribution, DrawnGaussian) else words
        return MeanField(self.plan, self.spec, replace(self.outcome, state=state), own, self.later)

    @property
    def words(self) -> Words:
        """Those of the bound that was climbed."""
        if self.own_words is not None:
            return self.own_words
        if self.outcome.integrated:
            return words.INTEGRATED
        if self.outcome.exact:
            found = words.of_exact_bound(normalised=self.spec.likelihood.normalised, groups=bool(self.plan.factors))
            return words.at_power(found, self.spec.likelihood_power)
        own = {"joint_gates": self.spec.joint_gates, "normalised": self.spec.likelihood.normalised}
        found = words.at_power(words.of_mean_field(groups=bool(self.plan.factors), **own), self.spec.likelihood_power)
        coefficients = self.state.coefficients
        return estimated(found, len(coefficients.draws)) if isinstance(coefficients, DrawnGaussian) else found

    @property
    def state(self) -> State:
        """Where the climb ended."""
        return self.outcome.state

    @property
    def inclusion(self) -> Array:
        """E γ."""
        gates = self.state.gates
        return np.ones(self.plan.n_fixed) if gates is None else gates.open[: self.plan.n_fixed]

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
        return gates.applied_to(distribution.outer(self.plan.n_fixed)) - np.outer(self.mean, self.mean)

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
        _, variance = self.state.gaussian.fixed(self.plan.n_fixed).message(self.state.gates).row_moments(rows)
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

    @property
    def course(self) -> Chains:
        """The chains."""
        return self._chains

    @property
    def by_draws(self) -> bool:
        """Yes."""
        return True

    def with_spread(self, distribution: CoefficientDistribution, words: Words) -> "Sampled":
        """Draws have the posterior's own spread."""
        raise NotImplementedError

    @cached_property
    def _chains(self) -> Chains:
        """They keep what is known of how they mix."""
        return Chains(self.plan, self.spec, self.sample)

    @property
    def words(self) -> Words:
        """Those of draws."""
        found = words.DRAWS_OF_POSTERIOR if self.spec.likelihood.normalised else words.DRAWS
        return words.at_power(found, self.spec.likelihood_power)

    @property
    def state(self) -> State:
        """Posterior means, and the draws as a distribution of the coefficients."""
        return self._state

    @cached_property
    def _state(self) -> State:
        """It keeps the moments of the draws."""
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
        return variance_components.table_of_draws(self.course.traces, level, highest_density=own)

    def diagnostics(self) -> dict[str, Array]:
        """R̂ and effective draws."""
        return self.course.traces.columns()
