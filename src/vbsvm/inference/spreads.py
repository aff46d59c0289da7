"""Spreads of coefficients: one question each, and the engine that answers it.

- "robust": how far would estimates lie from each other in other samples? The sandwich; by groups where there are some.
- "posterior": how far does the posterior reach? Linear response of the exact bound, close to a long run of a sampler.
- "curvature": the posterior's curvature at the mean, with spreads and scales held; cheap, for any model.
- "mean-field": the distribution that the climb ended with; much too narrow.

Numbers are those of the design's (standardised) columns, gates applied.
"""

import math
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.distributions import InverseGamma
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.inference.curvature_spread import curvature_distribution, curvature_stats, effective_covariance
from vbsvm.inference.dual_response import dual_response
from vbsvm.inference.linear_response import Response, dense_response
from vbsvm.inference.loop import Status
from vbsvm.inference.reliability import ADVICE, Reliability, reliability
from vbsvm.inference.sandwich import Units, sandwich_of_groups, sandwich_of_rows
from vbsvm.inference.squared_kernel import NoMaximumError
from vbsvm.inference.tilted_map import effective_mean, response_of_map
from vbsvm.inference.variational import Variational
from vbsvm.model.interfaces import GaussianDistribution
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.dual import DualGaussian
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import Source, Stats
from vbsvm.model.spec import Spec, State

KINDS = ("robust", "posterior", "curvature", "mean-field")
WAYS = ("response", "curvature", "quadrature", "draws")
BREADS = ("response", "curvature")
# Responses are asked of states that are nearer to the maximum than a fit need be.
TIGHT = Variational(tol=1e-8)
# Inputs that are less likely in than this have no spread that could be trusted.
LIKELY_IN = 0.5

MISSING = (
    "Values are missing: they and the coefficients depend on each other in a way that this approximation does not get "
    "right. Gibbs() gives the posterior's spread. Robust spreads are there in models without gates if "
    "missing values are drawn at random from a distribution that labels enter as regressors: the default."
)
JOINT_GATES = "Gates and coefficients have a joint distribution, which has no response here. Use Gibbs()."
NO_MAXIMUM = (
    "The climb has not ended at a clear maximum of the bound, so that its response can't be found: use a smaller tol, "
    "or Gibbs()."
)
NOT_CONVERGED = "The climb of the exact bound has not converged: the spread is that of where it ended."
ONE_UNIT = "There is only one group, so that nothing tells how groups differ."
FEW_UNITS = 10
# Unequal groups that count like fewer equal ones than this, and than half of their number, determine a hinge fit alone.
FEW_EFFECTIVE = 20
CROSSED = (
    "The robust spread takes the groups of the largest factor for a sample, and the levels of the other factors as "
    "given: the intercept, and whatever varies between these levels only, is less certain than it says."
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Covariance of the first coefficients around ``mean``, which the exact bound may have moved.

    ``covariance`` is None where no number can be trusted, and NaN for single coefficients; ``reliability`` says why.
    ``log_variances`` has the standard deviation of log σ² of blocks by name, for the kind "posterior". ``by`` says how
    the posterior's covariance was found, which a robust spread has as its bread: the "response" of a bound, its
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

    def of_units(self, units: Units | None) -> "Spread":
        """The same with its units, of which few make intervals longer."""
        return self if units is None else replace(self, unit=units.factor, degrees=float(units.n_units - 1))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Responded:
    """A response, the model and state that it belongs to, and whether the climb to that state has converged."""

    spec: Spec
    state: State
    response: Response
    converged: bool


@final
@dataclass(frozen=True, eq=False)
class Spreads:
    """Spreads of the first n coefficients at the end of a variational fit; what several kinds need is found once.

    ``n`` is at most the size of the core. ``spec`` has the likelihood whose bound was climbed. ``last`` are the sums of
    a pass at this state, curvature included, if there has been one. If class weights are among the source's own
    weights s, ``squared`` are the same rows with the weights s²/k, where k says how often each is there.
    """

    spec: Spec
    state: State
    source: Source
    n: int
    last: Stats | None = None
    squared: Source | None = None
    units: Units | None = None
    settled: bool = False  # whether the spread of the state is the posterior's already

    def of(self, kind: str, by: str = "response") -> Spread:
        """The spread of this kind.

        ``by`` says what the bread of the sandwich is: the "response" of the exact bound, or the "curvature" of the
        bound that was climbed, at the cost of one pass.
        """
        if kind not in KINDS or by not in BREADS:
            raise ValueError(f"A spread is one of {', '.join(map(repr, KINDS))}; got {kind!r}, by {by!r}.")
        with single_threaded_blas():
            if kind == "robust":
                return self._robust(by)
            if kind == "posterior":
                return self._posterior()
            distribution = self.state.gaussian if kind == "mean-field" else self.curvature
            return self._at_end(kind, effective_covariance(distribution, self.state, self.n))

    @cached_property
    def reliability(self) -> Reliability:
        """What the rows say about any of them."""
        return reliability(self.state, self.source, self.spec.likelihood)

    @cached_property
    def curvature(self) -> GaussianDistribution:
        """The distribution by the curvature at the mean, of all coefficients behind the gates."""
        stats = curvature_stats(self.spec, self.state, self.source) if self.last is None else self.last
        return curvature_distribution(self.spec, self.state, stats)

    @cached_property
    def _responded(self) -> Responded | None:
        """The response, or None where there is none."""
        try:
            return responded(self.spec, self.state, self.source, np.arange(self.n))
        except (NoMaximumError, FloatingPointError, np.linalg.LinAlgError):
            return None

    def _at_end(self, kind: str, covariance: Array | None, *warnings: str) -> Spread:
        """A spread around the mean that the climb ended with."""
        return Spread(kind, effective_mean(self.state)[: self.n], covariance, self.reliability.and_warnings(*warnings))

    def _posterior(self) -> Spread:
        if self.spec.missing is not None:
            return self._at_end("posterior", None, MISSING)
        if self.spec.joint_gates:
            return self._at_end("posterior", None, JOINT_GATES)
        if self.settled:
            own = self._at_end("posterior", self.state.gaussian.covariances(self.n))
            return replace(own, log_variances=self._own_log_variances(), by="quadrature")
        if self._responded is None:
            return self._at_end("posterior", None, NO_MAXIMUM)
        state, found = self._responded.state, self._responded.response
        variances = zip(found.blocks, found.log_variances.diagonal(), strict=True)  # one group leaves no response
        named = {self.spec.blocks[b].name: math.sqrt(variance) for b, variance in variances if variance > 0}
        symmetric = 0.5 * (found.covariance + found.covariance.T)
        covariance, unknown = self._without_unlikely(state, symmetric)
        said = self.reliability.and_warnings(*unknown, *self._not_converged(self._responded))
        return Spread("posterior", effective_mean(state)[: self.n], covariance, said, named)

    def _own_log_variances(self) -> dict[str, float]:
        pairs = zip(self.spec.blocks, self.state.scales, strict=True)
        return {block.name: one.log_sd for block, one in pairs if isinstance(one, InverseGamma)}

    def _robust(self, by: str) -> Spread:
        """The sandwich, by groups where there are some."""
        if self.spec.missing is not None:
            return self._at_end("robust", None, MISSING)
        if self.units is not None and self.units.n_units < 2:
            return self._at_end("robust", None, ONE_UNIT)
        n_core, warnings = self.source.n_core, []
        at = self._responded if by == "response" and self.state.gates is None and not self.settled else None
        if self.settled:
            spec, state, by = self.spec, self.state, "quadrature"
            bread = state.gaussian.covariances(n_core)[: self.n]
        elif at is None:
            spec, state, by = self.spec, self.state, "curvature"
            try:
                bread = self.curvature.covariances(n_core)[: self.n]
            except (FloatingPointError, np.linalg.LinAlgError):  # a curvature that is not positive in floating point
                bread = state.gaussian.covariances(n_core)[: self.n]
        else:
            spec, state, bread = at.spec, at.state, at.response.coefficients[:, :n_core]
            warnings += self._not_converged(at)
        if state.gates is not None:
            bread = state.gates.open[: self.n, None] * bread * state.gates.open[:n_core]
        if isinstance(state.coefficients, ArrowGaussian):
            covariance = sandwich_of_groups(bread, spec, state, self.source, self.units)
            crossed = self.units is None and bool(state.coefficients.shapes)
            warnings += about_units(self.units, spec.likelihood) or [CROSSED] * crossed
        else:
            covariance = sandwich_of_rows(bread, spec, state, self.source if self.squared is None else self.squared)
        covariance, unknown = self._without_unlikely(state, covariance)
        said = self.reliability.and_warnings(*warnings, *unknown)
        found = Spread("robust", effective_mean(state)[: self.n], covariance, said, by=by)
        return found.of_units(self.units)

    @staticmethod
    def _not_converged(at: Responded) -> list[str]:
        return [] if at.converged else [NOT_CONVERGED]

    def _without_unlikely(self, state: State, covariance: Array) -> tuple[Array, list[str]]:
        """NaN for inputs that the fit leaves out: that they would not answer does not make them certain."""
        if state.gates is None:
            return covariance, []
        out = state.gates.open[: self.n] < LIKELY_IN
        if not out.any():
            return covariance, []
        covariance = np.where(out | out[:, None], np.nan, covariance)
        return covariance, [
            f"The fit leaves out {out.sum()} of the inputs; this approximation can't tell how uncertain their "
            "coefficients are. The others' spreads hold as if the choice of inputs were known."
        ]


def about_units(units: Units | None, likelihood: Likelihood) -> list[str]:
    """What to know of units: that factors are crossed, that units are few, or that a few of them dominate a hinge fit.

    A hinge coefficient then depends on these groups' own effects, which no other group tells of.
    """
    if units is None:
        return []
    few = [f"There are only {units.n_units} independent groups: robust intervals are rough."]
    unequal = [
        f"Group sizes are very unequal ({units.n_units} groups, effective number {units.n_effective:.1f}): robust "
        f"intervals of SVM coefficients may be much too short. {ADVICE}"
    ]
    dominated = not likelihood.normalised and units.n_effective < min(FEW_EFFECTIVE, 0.5 * units.n_units)
    return [CROSSED] * units.crossed + few * (units.n_units < FEW_UNITS) + unequal * dominated


def robust_of_draws(
    spec: Spec, state: State, source: Source, n: int, squared: Source | None = None, units: Units | None = None
) -> Spread:
    """The sandwich with the covariance of a sampler's draws; ``state`` has them as its coefficients."""
    found, mean = reliability(state, source, spec.likelihood), state.coefficients.mean[:n]
    if spec.missing is not None or (units is not None and units.n_units < 2):
        why = MISSING if spec.missing is not None else ONE_UNIT
        return Spread("robust", mean, None, found.and_warnings(why), by="draws")
    spec, bread = replace(spec, likelihood=spec.likelihood.exact), state.gaussian.covariances(source.n_core)[:n]
    with single_threaded_blas():
        if source.n_core < spec.n_columns:
            covariance = sandwich_of_groups(bread, spec, state, source, units)
        else:
            covariance = sandwich_of_rows(bread, spec, state, source if squared is None else squared)
    found = found.and_warnings(*about_units(units, spec.likelihood))
    return Spread("robust", mean, covariance, found, by="draws").of_units(units)


def responded(spec: Spec, state: State, source: Source, which: NDArray[np.intp]) -> Responded:
    """Linear response of these coefficients, after a climb of the exact bound from this state.

    Models with gates have the paper's bound only. Effects of groups may be among the coefficients.
    """
    if spec.gate_map is None:
        outcome, held = TIGHT.sharpened(spec, source, state)
    else:
        outcome, held = TIGHT.run(spec, source, state), False
    outcome = outcome.finished()
    spec, state = replace(spec, likelihood=outcome.likelihood), outcome.state
    if state.gates is None and isinstance(state.coefficients, DenseGaussian):
        found = dense_response(spec, state, source, hold_scales=held)
        found = replace(found, which=which, coefficients=found.coefficients[which])
    elif state.gates is None and isinstance(state.coefficients, DualGaussian):
        found = dual_response(spec, state, source, which, hold_scales=held)
    else:
        found = response_of_map(spec, state, source, which, hold_scales=held)
    return Responded(spec, state, found, outcome.ending is Status.CONVERGED)
