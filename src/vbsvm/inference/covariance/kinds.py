"""Covariances of coefficients by kind, one question each, and whether they can be relied on.

- "robust": how far would estimates lie from each other in other samples? The sandwich; by groups where there are some.
- "posterior": how far does the posterior reach? Linear response of the exact bound, close to a long run of a sampler.
- "curvature": (H + Λ)⁻¹ with H = −Σ ℓ_ff c cᵀ at the mean, variances and scales fixed; cheap, for any model.
- "mean-field": the distribution that the optimisation ended with; much too narrow.

Numbers are those of the design's (standardised) columns, indicators applied.
"""

import math
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseGamma, Point
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.covariance.linear_response import NoMaximumError, Response, dense_response
from vbsvm.inference.covariance.map_response import dual_response, effective_mean, response_of_map
from vbsvm.inference.covariance.sandwich import Units, sandwich_of_groups, sandwich_of_rows
from vbsvm.inference.variational import Variational
from vbsvm.model.interfaces import GaussianDistribution, SampledCoefficients
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.dual import DualGaussian
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import CompleteRows, Part, Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import pass_rows

KINDS = ("robust", "posterior", "curvature", "mean-field")
WAYS = ("response", "curvature", "quadrature", "draws")
BREADS = ("response", "curvature")
# Responses are computed at states that are nearer to the maximum than a fit need be.
TIGHT = Variational(tol=1e-8)
# Columns with a smaller inclusion probability have no variance that could be trusted.
LIKELY_IN = 0.5
# Observations this near to the margin, y f = 1, may be on either side; a larger proportion of them is a pile.
NEAR_KINK, PILE = 0.05, 0.1
# With fewer observations of positive loss than this for each coefficient, classes are nearly separated.
ROWS_A_COEFFICIENT = 2
FEW_UNITS = 10
# Unequal groups that count like fewer equal ones than this, and than half of their number, determine a hinge fit alone.
FEW_EFFECTIVE = 20

MISSING = (
    "Linear response does not account for the dependence between missing values and coefficients: use Gibbs() for "
    "posterior standard deviations. Robust standard errors are available without LaplaceZero if values are missing at "
    "random and labels are regressors of missing values, GaussianImputation(labels='regressor'), the default."
)
JOINT_GATES = "Linear response is not available for LaplaceZero(gates=Joint()): use Gibbs()."
NO_MAXIMUM = (
    "The optimisation did not end at a clear maximum of the bound, which linear response needs: use a smaller tol, or "
    "Gibbs()."
)
NOT_CONVERGED = "The exact bound has not converged: standard deviations are those of the last iteration."
ONE_UNIT = "There is only one cluster: cluster-robust standard errors need at least two."
CROSSED = (
    "Factors are crossed: standard errors are clustered on the largest factor only, with the levels of the others "
    "fixed. The intercept and predictors that vary only between those levels are less certain than shown."
)
ADVICE = 'Use likelihood="logistic" (Model) or VBLogistic.'


@final
@dataclass(frozen=True, slots=True)
class Reliability:
    """Warnings about a covariance, each a sentence, if any.

    ``losing`` is the proportion of observations with a positive hinge loss at the mean, ``piled`` of those on the
    margin; NaN if all observations are incomplete.
    """

    losing: float
    piled: float
    warnings: tuple[str, ...] = ()

    @property
    def reliable(self) -> bool:
        """Whether there is no warning."""
        return not self.warnings

    @property
    def on_the_margin(self) -> str:
        """Warning that many rows lie on the margin, or ""."""
        if not self.piled > PILE:
            return ""
        return (
            f"{100 * self.piled:.0f} % of the observations lie exactly on the margin: coefficients and effects of the "
            f"SVM are not interpretable here. {ADVICE}"
        )

    def and_warnings(self, *sentences: str) -> "Reliability":
        """Copy with further warnings."""
        return replace(self, warnings=(*self.warnings, *sentences))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CovarianceEstimate:
    """Covariance of the first n coefficients around ``mean``, which is that of the exact bound if that was optimised.

    ``covariance`` is None if not available, and NaN for excluded coefficients; ``reliability`` says why.
    ``log_variances`` has the standard deviation of log σ² of blocks by name, for the kind "posterior". ``by`` says how
    the posterior's covariance was computed, which is the bread of a robust one: the "response" of a bound, its
    "curvature" at the mean, "quadrature" or "draws". ``unit`` is the number of the factor whose groups were taken as
    independent, and ``degrees`` are the degrees of freedom of Student's t that intervals are of.
    ``between`` is the part of the covariance that missing values cause.
    """

    kind: str
    mean: Array
    covariance: Array | None
    reliability: Reliability
    log_variances: dict[str, float] = field(default_factory=dict)
    by: str = "response"
    unit: int | None = None
    degrees: float = np.inf
    between: Array | None = None


@final
@dataclass(frozen=True, eq=False)
class Covariances:
    """Covariances of the first n coefficients at the end of a variational fit; what several kinds need is cached.

    ``n`` is at most the size of the core. ``spec`` has the likelihood whose bound was optimised. If class weights are
    among the source's own weights s, ``squared`` are the same rows with the weights s²/k, where k says how often each
    is there.
    """

    spec: Spec
    state: State
    source: Source
    n: int
    squared: Source | None = None
    units: Units | None = None
    integrated: bool = False  # whether the covariance of the state is the posterior's already

    def of(self, kind: str, by: str = "response") -> CovarianceEstimate:
        """The estimate of this kind.

        ``by`` says what the bread of the sandwich is: the "response" of the exact bound, or the "curvature" of the
        bound that was optimised, at the cost of one pass.
        """
        if kind not in KINDS or by not in BREADS:
            raise ValueError(f"A covariance is one of {', '.join(map(repr, KINDS))}; got {kind!r}, by {by!r}.")
        with single_threaded_blas():
            if kind == "robust":
                return self._robust(by)
            if kind == "posterior":
                return self._posterior()
            distribution = self.state.gaussian if kind == "mean-field" else self.curvature
            return self._at_end(kind, effective_covariance(distribution, self.state, self.n))

    @cached_property
    def reliability(self) -> Reliability:
        """Warnings that apply to all kinds, from one pass over the rows."""
        return reliability(self.state, self.source, self.spec.likelihood)

    @cached_property
    def curvature(self) -> GaussianDistribution:
        """The normal approximation at the mean, of all coefficients before selection."""
        return curvature_distribution(self.spec, self.state, curvature_stats(self.spec, self.state, self.source))

    @cached_property
    def _response(self) -> tuple[Spec, State, Response, bool] | None:
        try:
            return respond(self.spec, self.state, self.source, np.arange(self.n))
        except (NoMaximumError, FloatingPointError, np.linalg.LinAlgError):
            return None

    def _at_end(self, kind: str, covariance: Array | None, *warnings: str) -> CovarianceEstimate:
        """Estimate around the mean at the end of the optimisation."""
        mean = effective_mean(self.state)[: self.n]
        by = "draws" if isinstance(self.state.coefficients, SampledCoefficients) else "response"
        return CovarianceEstimate(kind, mean, covariance, self.reliability.and_warnings(*warnings), by=by)

    def _posterior(self) -> CovarianceEstimate:
        if self.spec.missing is not None:
            return self._at_end("posterior", None, MISSING)
        if self.spec.joint_gates:
            return self._at_end("posterior", None, JOINT_GATES)
        if self.integrated:
            pairs = zip(self.spec.blocks, self.state.scales, strict=True)
            sds = {block.name: scale.log_sd for block, scale in pairs if isinstance(scale, InverseGamma)}
            estimate = self._at_end("posterior", self.state.gaussian.covariances(self.n))
            return replace(estimate, log_variances=sds, by="quadrature")
        if self._response is None:
            return self._at_end("posterior", None, NO_MAXIMUM)
        _, state, response, converged = self._response
        variances = zip(response.blocks, response.log_variances.diagonal(), strict=True)  # one group has no response
        sds = {self.spec.blocks[b].name: math.sqrt(variance) for b, variance in variances if variance > 0}
        symmetric = 0.5 * (response.covariance + response.covariance.T)
        covariance, warnings = self._without_unlikely(state, symmetric)
        reliability = self.reliability.and_warnings(*warnings, *[NOT_CONVERGED] * (not converged))
        return CovarianceEstimate("posterior", effective_mean(state)[: self.n], covariance, reliability, sds)

    def _robust(self, by: str) -> CovarianceEstimate:
        """Sandwich estimate, clustered by groups if there are some."""
        if self.spec.missing is not None:
            return self._at_end("robust", None, MISSING)
        if self.units is not None and self.units.n_units < 2:
            return self._at_end("robust", None, ONE_UNIT)
        by, spec, state, bread, warnings = self._bread(by)
        if state.gates is not None:
            bread = (
                state.gates.by_coefficient[: self.n, None] * bread * state.gates.by_coefficient[: self.source.n_core]
            )
        if self.source.n_core < spec.n_columns:
            covariance = sandwich_of_groups(bread, spec, state, self.source, self.units)
            core = state.coefficients
            crossed = self.units is None and isinstance(core, ArrowGaussian) and bool(core.shapes)
            warnings += about_units(self.units, spec.likelihood) or [CROSSED] * crossed
        else:
            covariance = sandwich_of_rows(bread, spec, state, self.source if self.squared is None else self.squared)
        covariance, unlikely = self._without_unlikely(state, covariance)
        reliability = self.reliability.and_warnings(*warnings, *unlikely)
        mean = effective_mean(state)[: self.n]
        unit, degrees = (None, np.inf) if self.units is None else (self.units.factor, float(self.units.n_units - 1))
        return CovarianceEstimate("robust", mean, covariance, reliability, by=by, unit=unit, degrees=degrees)

    def _bread(self, by: str) -> tuple[str, Spec, State, Array, list[str]]:
        """Bread of the sandwich: how it was computed, its model and state, the matrix, and warnings."""
        n, n_core, spec, state = self.n, self.source.n_core, self.spec, self.state
        if self.integrated:
            return "quadrature", spec, state, state.gaussian.covariances(n_core)[:n], []
        if isinstance(state.coefficients, SampledCoefficients):
            return "draws", spec, state, state.gaussian.covariances(n_core)[:n], []
        result = self._response if by == "response" and state.gates is None else None
        if result is not None:
            spec, state, response, converged = result
            return by, spec, state, response.coefficients[:, :n_core], [NOT_CONVERGED] * (not converged)
        try:
            bread = self.curvature.covariances(n_core)[:n]
        except (FloatingPointError, np.linalg.LinAlgError):  # a curvature that is not positive in floating point
            bread = state.gaussian.covariances(n_core)[:n]
        return "curvature", spec, state, bread, []

    def _without_unlikely(self, state: State, covariance: Array) -> tuple[Array, list[str]]:
        """Replace the covariance of excluded predictors by NaN: their zero response does not mean certainty."""
        if state.gates is None:
            return covariance, []
        out = state.gates.by_coefficient[: self.n] < LIKELY_IN
        if not out.any():
            return covariance, []
        return np.where(out | out[:, None], np.nan, covariance), [
            f"Excluded predictors: {out.sum()}. Linear response gives no standard deviations of these; those "
            "of the others are conditional on the selection."
        ]


def curvature_stats(spec: Spec, state: State, source: Source) -> Stats:
    """Sums of one pass from this state, with the curvature."""
    return pass_rows(spec, state, source, mean_field, with_curvature=True)


def curvature_distribution(spec: Spec, state: State, stats: Stats) -> GaussianDistribution:
    """N(μ, (H + Λ)⁻¹) of the coefficients before selection, from a pass at this state that summed the curvature."""
    assert stats.curvature is not None
    curvature = stats.curvature if state.gates is None else stats.curvature.gated(state.gates, stats.gram)
    centred = curvature.conditional(np.zeros(spec.n_columns), spec.precision(state))
    return centred.with_mean(state.coefficients.mean)


def effective_covariance(distribution: GaussianDistribution, state: State, n: int) -> Array:
    """Covariance of the first n coefficients times their indicators: Cov(γ v)."""
    if state.gates is None:
        return distribution.covariances(n)
    mean = (state.gates.by_coefficient * distribution.mean)[:n]
    return state.gates.weigh(distribution.outer(n)) - np.outer(mean, mean)


def about_units(units: Units | None, likelihood: Likelihood) -> list[str]:
    """Warnings that factors are crossed, that clusters are few, or that a few of them dominate a hinge fit."""
    if units is None:
        return []
    few = [f"Only {units.n_units} clusters: cluster-robust intervals have less than nominal coverage."]
    unequal = [
        f"Cluster sizes are very unequal ({units.n_units} clusters, effective number {units.n_effective:.1f}): robust "
        f"intervals of SVM coefficients may be much too narrow. {ADVICE}"
    ]
    dominated = not likelihood.normalised and units.n_effective < min(FEW_EFFECTIVE, 0.5 * units.n_units)
    return [CROSSED] * units.crossed + few * (units.n_units < FEW_UNITS) + unequal * dominated


def respond(spec: Spec, state: State, source: Source, which: NDArray[np.intp]) -> tuple[Spec, State, Response, bool]:
    """Model, state, and linear response of these coefficients at the optimum of the exact bound; and if it converged.

    Models with inclusion indicators have the augmented bound only. Random effects may be among the coefficients.
    """
    if spec.gate_map is None:
        outcome, held = TIGHT.sharpened(spec, source, state)
    else:
        outcome, held = TIGHT.run(spec, source, state), False
    outcome = outcome.finished()
    spec, state = replace(spec, likelihood=outcome.likelihood), outcome.state
    if state.gates is None and isinstance(state.coefficients, DenseGaussian):
        response = dense_response(spec, state, source, hold_scales=held)
        response = replace(response, which=which, coefficients=response.coefficients[which])
    elif state.gates is None and isinstance(state.coefficients, DualGaussian):
        response = dual_response(spec, state, source, which, hold_scales=held)
    else:
        response = response_of_map(spec, state, source, which, hold_scales=held)
    return spec, state, response, outcome.converged


def reliability(state: State, source: Source, likelihood: Likelihood) -> Reliability:
    """Warnings from the losses of complete observations at the mean; one pass without sums of products."""
    theta = effective_mean(state)

    def of_part(part: Part) -> Array:
        if not isinstance(part, CompleteRows):
            return np.zeros(5)
        h = 1.0 - part.rows.y * part.scores(theta, state.missing)
        s, near = part.rows.weights, np.abs(h) < NEAR_KINK
        return np.array([len(h), (h > 1.0).sum(), (h > NEAR_KINK).sum(), s[near].sum(), s.sum()])

    n, wrong, losing, piled, weight = source.sum_parts(of_part, memory_bound=True)
    if n == 0:
        return Reliability(math.nan, math.nan)
    said, n_coefficients = Reliability(losing / n, piled / weight), source.n_core
    if wrong == 0:
        given = likelihood.normalised and all(isinstance(scale, Point) for scale in state.scales)
        said = said.and_warnings(
            "Complete separation: the fit classifies every observation correctly, so that coefficients, standard "
            "deviations and intervals depend on the prior"
            + (": report it with them." if given else ", and cannot be relied on.")
        )
    elif likelihood.normalised:
        return said
    elif losing < ROWS_A_COEFFICIENT * n_coefficients:
        said = said.and_warnings(
            f"The classes are nearly separated: only {losing:.0f} observations have a positive loss, for "
            f"{n_coefficients} coefficients. Standard errors and intervals are unreliable."
        )
    return said.and_warnings(said.on_the_margin) if said.on_the_margin else said
