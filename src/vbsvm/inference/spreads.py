"""Spreads of coefficients: one question each, and the engine that answers it.

- "robust": how far would estimates lie from each other in other samples? The sandwich; by groups where there are some.
- "posterior": how far does the posterior reach? Linear response of the exact bound, close to a long run of a sampler.
- "curvature": the posterior's curvature at the mean, with spreads and scales held; cheap, for any model.
- "mean-field": the distribution that the climb ended with; much too narrow.

Numbers are those of the design's (standardised) columns, gates applied.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.inference.curvature_spread import curvature_distribution, curvature_stats, effective_covariance
from vbsvm.inference.dual_response import dual_response
from vbsvm.inference.linear_response import Response, dense_response
from vbsvm.inference.reliability import Reliability, reliability
from vbsvm.inference.sandwich import sandwich_of_groups, sandwich_of_rows
from vbsvm.inference.squared_kernel import NoMaximumError
from vbsvm.inference.tilted_map import response_of_map
from vbsvm.inference.variational import Variational
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.dual import DualGaussian
from vbsvm.model.likelihoods.exact_hinge import EXACT_HINGE
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.stats import Stats

KINDS = ("robust", "posterior", "curvature", "mean-field")
# Responses are asked of states that are nearer to the maximum than a fit need be.
TIGHT = Variational(tol=1e-8)

MISSING = (
    "Values are missing: the spread of the missing values and that of the coefficients answer to each other in a way "
    "that this approximation does not get right. Use Gibbs() for the posterior's spread."
)
JOINT_GATES = "Gates and coefficients have a joint distribution: its response is not available. Use Gibbs()."
NO_MAXIMUM = (
    "The climb has not ended at a clear maximum of the bound, so that its response can't be found: use a smaller tol, "
    "or Gibbs()."
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Covariance of the first coefficients around ``mean``, which the exact bound may have moved.

    ``covariance`` is None where no number can be trusted; ``reliability`` says why. ``log_variances`` has the standard
    deviation of log σ² of blocks by name, where it was asked for. ``by`` says how the posterior's covariance was found,
    which a robust spread has as its bread: the "response" of a bound, its "curvature" at the mean, or "draws".
    """

    kind: str
    mean: Array
    covariance: Array | None
    reliability: Reliability
    log_variances: dict[str, float]
    by: str = "response"


def spread_of(
    kind: str,
    spec: Spec,
    state: State,
    source: Source,
    n: int,
    *,
    stats: Stats | None = None,
    repeats: Source | None = None,
    by: str = "response",
) -> Spread:
    """Spread of the first n coefficients at the end of a variational fit; n is at most the size of the core.

    ``spec`` has the likelihood whose bound was climbed. ``stats`` are the sums of a pass at this state, curvature
    included, if there has been one. ``repeats`` are the same rows with weights that say how often each is there, if
    class weights are among the source's own. ``by`` says what the robust spread's bread is: the "response" of the
    exact bound, or the "curvature" of the bound that was climbed, at the cost of one pass.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    found = reliability(state, source)
    if kind == "mean-field":
        return Spread(kind, _mean(state, n), effective_covariance(state.gaussian, state, n), found, {})
    if kind == "curvature":
        distribution = curvature_distribution(spec, state, stats or curvature_stats(spec, state, source))
        return Spread(kind, _mean(state, n), effective_covariance(distribution, state, n), found, {})
    if spec.missing is not None:
        return Spread(kind, _mean(state, n), None, found.and_warning(MISSING), {})
    if kind == "posterior":
        return _posterior(spec, state, source, n, found)
    return _robust(spec, state, source, n, found, stats, repeats, by)


def _posterior(spec: Spec, state: State, source: Source, n: int, found: Reliability) -> Spread:
    """By linear response: of the exact bound, or of the paper's where there are gates."""
    try:
        at = response_of(spec, state, source, n)
    except NoMaximumError:
        return Spread("posterior", _mean(state, n), None, found.and_warning(NO_MAXIMUM), {})
    sds = np.sqrt(at.response.log_variances.diagonal())
    named = {spec.blocks[b].name: float(sd) for b, sd in zip(at.response.blocks, sds, strict=True)}
    return Spread("posterior", _mean(at.state, n), at.response.covariance, found, named)


def _robust(
    spec: Spec,
    state: State,
    source: Source,
    n: int,
    found: Reliability,
    stats: Stats | None,
    repeats: Source | None,
    by: str,
) -> Spread:
    """The sandwich, by groups where there are some."""
    bread = None
    if by == "response" and state.gates is None:
        try:
            at = response_of(spec, state, source, n, log_variances=False)
            spec, state, bread = at.spec, at.state, at.response.coefficients[:, : source.n_core]
        except NoMaximumError:
            pass
    if bread is None:
        by = "curvature"
        distribution = curvature_distribution(spec, state, stats or curvature_stats(spec, state, source))
        bread = distribution.covariances(source.n_core)[:n]
        if state.gates is not None:
            opened = state.gates.open[: source.n_core]
            bread = opened[:n, None] * bread * opened
    if isinstance(state.coefficients, ArrowGaussian):
        covariance = sandwich_of_groups(bread, spec, state, source)
    else:
        covariance = sandwich_of_rows(bread, spec, state, source, repeats)
    return Spread("robust", _mean(state, n), covariance, found, {}, by)


def robust_of_draws(spec: Spec, state: State, source: Source, n: int, repeats: Source | None = None) -> Spread:
    """The sandwich with the covariance of a sampler's draws; ``state`` has them as its coefficients."""
    found = reliability(state, source)
    if spec.missing is not None:
        return Spread("robust", state.coefficients.mean[:n], None, found.and_warning(MISSING), {}, "draws")
    spec, bread = replace(spec, likelihood=EXACT_HINGE), state.gaussian.covariances(source.n_core)[:n]
    if source.n_core < spec.n_columns:
        covariance = sandwich_of_groups(bread, spec, state, source)
    else:
        covariance = sandwich_of_rows(bread, spec, state, source, repeats)
    return Spread("robust", state.coefficients.mean[:n], covariance, found, {}, "draws")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Responded:
    """A response, and the model and state that it belongs to."""

    spec: Spec
    state: State
    response: Response


def response_of(spec: Spec, state: State, source: Source, n: int, *, log_variances: bool = True) -> Responded:
    """Linear response of the first n coefficients, after a climb of the exact bound from this state.

    Models with gates have the paper's bound only.
    """
    if spec.gate_map is None:
        outcome, held = TIGHT.sharpened(spec, source, state)
    else:
        outcome, held = TIGHT.run(spec, source, state), False
    spec = replace(spec, likelihood=outcome.likelihood)
    which, state = np.arange(n), outcome.state
    if state.gates is None and isinstance(state.coefficients, DenseGaussian):
        found = dense_response(spec, state, source, hold_scales=held)
        found = replace(found, which=which, coefficients=found.coefficients[:n])
    elif state.gates is None and isinstance(state.coefficients, DualGaussian):
        found = dual_response(spec, state, source, which, hold_scales=held)
    else:
        found = response_of_map(spec, state, source, which, hold_scales=held, log_variances=log_variances)
    return Responded(spec, state, found)


def _mean(state: State, n: int) -> Array:
    return state.coefficients.mean[:n] if state.gates is None else (state.gates.open * state.coefficients.mean)[:n]
