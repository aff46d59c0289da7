"""The distribution of the inputs alone, before the coefficients: learned by EM, or sampled.

Samplers draw values given the parameters, and parameters given the values, in turn: each kept round is a proper draw,
with parameters of its own. For columns that are drawn before the fit, the variables are jointly normal in each class,
with a mean and a covariance of its own, so that effects which are no straight lines count in what a label tells.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseWishart, JointNormal
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.base.update_mode import Draw, mean_field
from vbsvm.design.formula.expansion import Draws, SampledColumns
from vbsvm.inference.steps import FixedPoint, largest_change
from vbsvm.missing.distributions import FixedInputs, InputDistribution, InputSums
from vbsvm.missing.imputation import ProperDraw
from vbsvm.missing.labelled_inputs import LabelledInputs
from vbsvm.missing.model import FIXED_SWEEPS, InputModel, MissingModel, MissingState, input_model
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec
from vbsvm.model.sweep import pass_rows

# Rounds before the first draw, and between draws: what is left of a start falls by the share that is missing in each.
FIRST, BETWEEN = 40, 10


def proper_draws(spec: Spec, missing: MissingState, source: Source, n: int, seed: int) -> list[ProperDraw]:
    """Draw the distribution of labels and inputs so often, from where a fit ended."""
    model, found, rng = spec.missing, [], np.random.default_rng(seed)
    assert isinstance(model, MissingModel)
    assert model.inputs is not None
    free = missing.inputs.inputs if isinstance(missing.inputs, FixedInputs) else missing.inputs
    at = replace(missing, inputs=free, values=None)
    with single_threaded_blas(), np.errstate(all="ignore"):
        for k in range(FIRST + BETWEEN * (n - 1)):
            draw = Draw(seed, 0, FIXED_SWEEPS * k)
            sums = pass_rows(spec, replace(spec.start(), missing=at), source, draw).missing
            if k >= FIRST - 1 and (k - FIRST + 1) % BETWEEN == 0:
                found.append(ProperDraw.from_sums(model.inputs, sums.inputs, rng))
            at = model.update(at, sums, draw)
    return found


@final
@dataclass(frozen=True, eq=False)
class _Class:
    """Rows of a class that miss something, where they stand, and the moments of its complete rows."""

    rows: NDArray[np.intp]
    x: Array
    weights: Array
    known: Array

    @staticmethod
    def of(x: Array, weights: Array, which: NDArray[np.bool_]) -> "_Class":
        lost = np.isnan(x).any(axis=1)
        rows, complete = np.flatnonzero(which & lost), which & ~lost
        return _Class(rows, x[rows], weights[rows], _moments(x[complete], weights[complete]))

    def moments(self, filled: Array) -> Array:
        return self.known + _moments(filled[self.rows], self.weights)


def drawn_values(
    x: Array, n_drawn: int, labels: Array | None, weights: Array, psi: float | None, n: int, seed: int
) -> SampledColumns:
    """Draw the last variables of rows × variables (standardised; NaN is missing) where they are missing, n times.

    Without ``labels``, all rows are of one class. The prior counts like ``psi`` rows, None like one for each variable:
    for all rows these have independent variables, and for a class the covariance within all of them.
    """
    rng, n_variables = np.random.default_rng(seed), x.shape[1]
    size = float(n_variables) if psi is None else psi
    every = _Class.of(x, weights, np.ones(len(x), dtype=bool))
    parts = [every] if labels is None else [_Class.of(x, weights, labels == one) for one in np.unique(labels)]
    filled, averaged, found = np.where(np.isnan(x), 0.0, x), [np.zeros_like(every.known) for _ in parts], []
    kept = 1 + BETWEEN * (n - 1)
    with single_threaded_blas():
        for k in range(FIRST + BETWEEN * (n - 1)):
            moments = [part.moments(filled) for part in parts]
            within = _within(moments, size)
            for part, one, total in zip(parts, moments, averaged, strict=True):
                filled[part.rows] = _redrawn(part, one, size, within, rng)
                if k >= FIRST - 1:
                    total += one / kept
            if k >= FIRST - 1 and (k - FIRST + 1) % BETWEEN == 0:
                found.append(filled.copy())
    begin = n_variables - n_drawn
    wanted = np.flatnonzero(np.isnan(x[:, begin:]).any(axis=1))
    values = np.stack([one[wanted, begin:] for one in found])
    within, together = _within(averaged, size), sum(averaged[1:], averaged[0])
    everyone = _expected(together, size, np.eye(n_variables))
    told = _log_density(everyone, x[wanted], values)
    for part, one in zip(parts, averaged, strict=True):
        here = np.isin(wanted, part.rows)
        own = everyone if labels is None else _expected(one, size, within)
        told[:, here] -= _log_density(own, x[wanted[here]], values[:, here])
    return SampledColumns(everyone, max(float(every.known[0, 0]), n_variables + 2.0), Draws(values, told))


def _redrawn(part: _Class, moments: Array, size: float, within: Array, rng: np.random.Generator) -> Array:
    """Missing values of a class drawn anew, from a distribution whose parameters are drawn."""
    n, mean, scatter = _about_mean(moments)
    covariance = InverseWishart(scatter + size * within, len(mean) + 1 + n).draw(rng).value
    drawn = mean + np.linalg.cholesky(covariance / n) @ rng.standard_normal(len(mean))
    return ProperDraw(0, np.arange(len(mean)), drawn, covariance).fill(part.x, None, rng)


def _within(moments: list[Array], size: float) -> Array:
    """The covariance within classes, as if ``size`` further rows had independent variables."""
    about = [_about_mean(one) for one in moments]
    n, scatter = sum(one[0] for one in about), sum((one[2] for one in about[1:]), about[0][2])
    return (scatter + size * np.eye(len(scatter))) / (n + size)


def _expected(moments: Array, size: float, covariance: Array) -> JointNormal:
    n, mean, scatter = _about_mean(moments)
    return JointNormal(mean, (scatter + size * covariance) / (n + size))


def _log_density(distribution: JointNormal, x: Array, values: Array) -> Array:
    """Log density of the values of the last variables that are missing in x, draws × rows."""
    found, first = np.zeros(values.shape[:2]), x.shape[1] - values.shape[2]
    for one in distribution.conditionals(x, np.isnan(x), first):
        cells = np.ix_(np.arange(len(values)), one.rows, one.variables - first)
        found[:, one.rows] = one.log_density(values[cells])
    return found


def _moments(x: Array, s: Array) -> Array:
    """Σ s [1; x][1; x]ᵀ."""
    joined = np.column_stack([np.ones(len(x)), x])
    return joined.T @ (s[:, None] * joined)


def _about_mean(moments: Array) -> tuple[float, Array, Array]:
    """The total weight, the mean, and the scatter about it."""
    n, mean = float(moments[0, 0]), moments[0, 1:] / moments[0, 0]
    scatter = moments[1:, 1:] - n * np.outer(mean, mean)
    return n, mean, 0.5 * (scatter + scatter.T)


# The distribution is at rest when no number of it, for standardised inputs, changes by more than this in a step.
AT_REST = 1e-9


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedInputs:
    """The distribution of the inputs, and whether it converged within the passes that were allowed."""

    distribution: FixedInputs
    converged: bool


def learn_inputs(spec: Spec, source: Source, max_passes: int) -> LearnedInputs:
    """Learn the distribution of the inputs, which is the same whatever the coefficients are."""
    model = input_model(spec.missing)
    assert model is not None
    found = _at_rest(model, spec, source, model.start(), max_passes)
    labelled = found.distribution.inputs
    if not isinstance(labelled, LabelledInputs):
        return found
    held = model.with_label_prior(labelled, source.input_sums(labelled.without_labels))
    return _at_rest(model, spec, source, held, max_passes)


def _at_rest(
    model: InputModel, spec: Spec, source: Source, distribution: InputDistribution, max_passes: int
) -> LearnedInputs:
    """Go on from a distribution until it no longer changes."""
    fixed_point = FixedPoint[InputDistribution]()
    for _ in range(max_passes):
        image = model.update(distribution, _sums(spec, source, distribution), mean_field)
        before, after = np.array(distribution.pack()), np.array(image.pack())
        if len(before) != len(after):  # the start has no spread
            distribution = image
        elif largest_change(before, after) < AT_REST:
            return LearnedInputs(FixedInputs(image), True)
        else:
            distribution = fixed_point.advance(image, before, after)
    return LearnedInputs(FixedInputs(distribution if fixed_point.fallback is None else fixed_point.fallback), False)


def _sums(spec: Spec, source: Source, distribution: InputDistribution) -> InputSums:
    """Sums of the inputs with missing values as this distribution expects them.

    At coefficients of 0 a pass finds them as well, where being missing depends on the value.
    """
    if distribution.probit is None:
        return source.input_sums(distribution)
    assert isinstance(spec.missing, MissingModel)
    state = replace(spec.start(), missing=replace(spec.missing.start(), inputs=distribution))
    return pass_rows(spec, state, source, mean_field).missing.inputs
