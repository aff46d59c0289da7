"""The distribution of the predictors alone, before the coefficients: learned by EM, or sampled.

Samplers draw values given the parameters, and parameters given the values, in turn: each kept round is a proper draw,
with parameters of its own. For columns that are drawn before the fit, the variables are jointly normal in each class,
with a mean and a covariance of its own, so that effects which are no straight lines count in what a label tells.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.distributions import InverseWishart, JointNormal
from vbsvm.base.printing import track
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.design.candidates import Draws
from vbsvm.inference.steps import FixedPoint, largest_change
from vbsvm.missing.distributions import FixedInputs, InputDistribution, InputSums
from vbsvm.missing.imputation import ProperDraw, about_mean
from vbsvm.missing.labelled_inputs import LabelledInputs
from vbsvm.missing.model import FIXED_SWEEPS, InputModel, MissingModel, MissingState, input_model
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec
from vbsvm.model.sweep import pass_rows

# Rounds before the first draw, and between draws: what is left of a start falls by the share that is missing in each.
FIRST, BETWEEN = 40, 10


def proper_draws(spec: Spec, missing: MissingState, source: Source, n: int, seed: int) -> list[ProperDraw]:
    """Draw the distribution of labels and predictors n times by Gibbs sampling from the end of a fit."""
    model, draws, rng = spec.missing, [], np.random.default_rng(seed)
    assert isinstance(model, MissingModel)
    assert model.inputs is not None
    free = missing.inputs.inputs if isinstance(missing.inputs, FixedInputs) else missing.inputs
    state_of_missing = replace(missing, inputs=free, values=None)
    with single_threaded_blas(), np.errstate(all="ignore"):
        for k in track("imputations", range(FIRST + BETWEEN * (n - 1))):
            draw = Draw(seed, 0, FIXED_SWEEPS * k)
            sums = pass_rows(spec, replace(spec.start(), missing=state_of_missing), source, draw).missing
            if k >= FIRST - 1 and (k - FIRST + 1) % BETWEEN == 0:
                draws.append(ProperDraw.from_sums(model.inputs, sums.inputs, rng))
            state_of_missing = model.update(state_of_missing, sums, draw)
    return draws


@final
@dataclass(frozen=True, eq=False)
class _ClassRows:
    """Incomplete rows of a class, their indices, and the moments of its complete rows."""

    rows: NDArray[np.intp]
    x: Array
    weights: Array
    known: Array

    @staticmethod
    def of(x: Array, weights: Array, which: NDArray[np.bool_]) -> "_ClassRows":
        lost = np.isnan(x).any(axis=1)
        rows, complete = np.flatnonzero(which & lost), which & ~lost
        return _ClassRows(rows, x[rows], weights[rows], _moments(x[complete], weights[complete]))

    def moments(self, filled: Array) -> Array:
        return self.known + _moments(filled[self.rows], self.weights)


def drawn_values(
    x: Array, n_drawn: int, labels: Array | None, weights: Array, psi: float | None, n: int, seed: int
) -> tuple[JointNormal, float, Draws]:
    """Draw the last variables of rows × variables (standardised; NaN is missing) where they are missing, n times.

    Without ``labels``, all rows are of one class. The prior counts like ``psi`` rows, None like one for each variable:
    for all rows these have independent variables, and for a class the covariance within all of them.
    """
    rng, n_variables = np.random.default_rng(seed), x.shape[1]
    size = float(n_variables) if psi is None else psi
    pooled = _ClassRows.of(x, weights, np.ones(len(x), dtype=bool))
    parts = [pooled] if labels is None else [_ClassRows.of(x, weights, labels == m) for m in np.unique(labels)]
    filled, averaged, tables = np.where(np.isnan(x), 0.0, x), [np.zeros_like(pooled.known) for _ in parts], []
    n_kept = 1 + BETWEEN * (n - 1)
    with single_threaded_blas():
        for k in track("draws of missing values", range(FIRST + BETWEEN * (n - 1))):
            moments = [part.moments(filled) for part in parts]
            within = _within(moments, size)
            for part, m, total in zip(parts, moments, averaged, strict=True):
                filled[part.rows] = _redraw(part, m, size, within, rng)
                if k >= FIRST - 1:
                    total += m / n_kept
            if k >= FIRST - 1 and (k - FIRST + 1) % BETWEEN == 0:
                tables.append(filled.copy())
    begin = n_variables - n_drawn
    incomplete = np.flatnonzero(np.isnan(x[:, begin:]).any(axis=1))
    values = np.stack([m[incomplete, begin:] for m in tables])
    within, total_moments = _within(averaged, size), sum(averaged[1:], averaged[0])
    marginal = _expected(total_moments, size, np.eye(n_variables))
    log_ratio = _log_density(marginal, x[incomplete], values)
    for part, m in zip(parts, averaged, strict=True):
        in_part = np.isin(incomplete, part.rows)
        within_class = marginal if labels is None else _expected(m, size, within)
        log_ratio[:, in_part] -= _log_density(within_class, x[incomplete[in_part]], values[:, in_part])
    return marginal, max(float(pooled.known[0, 0]), n_variables + 2.0), Draws(values, log_ratio)


def _redraw(part: _ClassRows, moments: Array, size: float, within: Array, rng: np.random.Generator) -> Array:
    """Redraw the missing values of a class, from a distribution with drawn parameters."""
    n, mean, scatter = about_mean(moments)
    covariance = InverseWishart(scatter + size * within, len(mean) + 1 + n).draw(rng).value
    drawn = mean + np.linalg.cholesky(covariance / n) @ rng.standard_normal(len(mean))
    return ProperDraw(0, np.arange(len(mean)), drawn, covariance).fill(part.x, None, rng)


def _within(moments: list[Array], size: float) -> Array:
    """The covariance within classes, as if ``size`` further rows had independent variables."""
    about = [about_mean(m) for m in moments]
    n, scatter = sum(m[0] for m in about), sum((m[2] for m in about[1:]), about[0][2])
    return (scatter + size * np.eye(len(scatter))) / (n + size)


def _expected(moments: Array, size: float, covariance: Array) -> JointNormal:
    n, mean, scatter = about_mean(moments)
    return JointNormal(mean, (scatter + size * covariance) / (n + size))


def _log_density(distribution: JointNormal, x: Array, values: Array) -> Array:
    """Log density of the values of the last variables that are missing in x, draws × rows."""
    log_density, first = np.zeros(values.shape[:2]), x.shape[1] - values.shape[2]
    for pattern in distribution.conditionals(x, np.isnan(x), first):
        cells = np.ix_(np.arange(len(values)), pattern.rows, pattern.variables - first)
        log_density[:, pattern.rows] = pattern.log_density(values[cells])
    return log_density


def _moments(x: Array, s: Array) -> Array:
    """Σ s [1; x][1; x]ᵀ."""
    with_ones = np.column_stack([np.ones(len(x)), x])
    return with_ones.T @ (s[:, None] * with_ones)


# Converged when no parameter, for standardised predictors, changes by more than this in a step.
TOLERANCE = 1e-9


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedInputs:
    """Estimated distribution of the predictors, and whether the iteration converged."""

    distribution: FixedInputs
    converged: bool


def learn_inputs(spec: Spec, source: Source, max_passes: int) -> LearnedInputs:
    """Estimate the distribution of the predictors, which does not depend on the coefficients."""
    model = input_model(spec.missing)
    assert model is not None
    result = _iterate(model, spec, source, model.start(), max_passes)
    labelled = result.distribution.inputs
    if not isinstance(labelled, LabelledInputs):
        return result
    at_means = model.labelled(source.input_sums(labelled.without_labels))
    with_prior = labelled.with_prior(at_means.residuals.scale, model.psi)
    return _iterate(model, spec, source, with_prior, max_passes)


def _iterate(
    model: InputModel, spec: Spec, source: Source, distribution: InputDistribution, max_passes: int
) -> LearnedInputs:
    """Iterate from a distribution to a fixed point."""
    fixed_point = FixedPoint()
    for _ in track("passes at most, for the distribution of the predictors", range(max_passes)):
        try:
            image = model.update(distribution, _sums(spec, source, distribution), mean_field)
        except np.linalg.LinAlgError:
            if fixed_point.fallback is None:
                raise
            distribution = fixed_point.undo()  # the extrapolated one has no positive covariance
            continue
        before, after = np.array(distribution.pack()), np.array(image.pack())
        if len(before) != len(after):  # the start has no variance
            distribution = image
        elif largest_change(before, after) < TOLERANCE:
            return LearnedInputs(FixedInputs(image), True)
        else:
            distribution = fixed_point.advance(image, before, after)
    return LearnedInputs(FixedInputs(distribution if fixed_point.fallback is None else fixed_point.fallback), False)


def _sums(spec: Spec, source: Source, distribution: InputDistribution) -> InputSums:
    """Expected sums of the predictors; where being missing depends on the value, by a pass at coefficients of 0."""
    if distribution.probit is None:
        return source.input_sums(distribution)
    assert isinstance(spec.missing, MissingModel)
    state = replace(spec.start(), missing=replace(spec.missing.start(), inputs=distribution))
    return pass_rows(spec, state, source, mean_field).missing.inputs
