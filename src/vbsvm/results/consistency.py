"""Whether the parts of a fit belong together: what comes from a file may have any shape."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from vbsvm.design.columns import Encoded, FactorPlan, Plan
from vbsvm.design.formula.reader import Reader
from vbsvm.design.levels import UNSEEN
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.variational import Outcome
from vbsvm.missing.model import input_model
from vbsvm.missing.patterns import MissingPatterns
from vbsvm.missing.population import Population
from vbsvm.missing.rows import Inputs
from vbsvm.model.spec import Spec
from vbsvm.results.fit import Fit

Claims = Iterator[tuple[str, bool]]


def require_agreement(fit: Fit) -> None:
    """Refuse parts that do not belong together: by their shapes, and by scoring one row by way of all of them."""
    for what, agrees in _claims(fit):
        if not agrees:
            raise ValueError(f"{what} does not belong to the rest")
    recipe = fit.plan.recipe
    row = np.where(np.isfinite(recipe.scale), recipe.centre, 0.0)[None]
    for level in (0, UNSEEN):
        known = Encoded(row, tuple(np.full(1, level, dtype=np.intp) for _ in fit.plan.factors))
        _rehearse(partial(fit.decision_function, known, return_std=True))
        _rehearse(partial(fit.predict_proba, known))
    _rehearse(fit.variance_components)
    if fit.population is not None:
        row[:, fit.population.inputs.variables - recipe.first] = np.nan
        _rehearse(partial(fit.impute, Encoded(row)))


def _rehearse(call: Callable[[], Any]) -> None:
    """Make a call that fails where shapes do not agree; that numbers are out of range is another matter."""
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        call()


def _claims(fit: Fit) -> Claims:
    plan, spec = fit.plan, fit.spec
    n_coefficients = plan.n_fixed + sum(factor.size for factor in plan.factors)
    yield "the classes", fit.classes.shape == (2,)
    yield from _plan(plan)
    yield from _spec(spec, plan, n_coefficients)
    if isinstance(fit.outcome, Sample):
        yield from _sample(fit.outcome, spec, n_coefficients)
    else:
        for outcome in (fit.outcome, *fit.outcome.others):
            yield from _outcome(outcome, spec, n_coefficients)
    if fit.reader is not None:
        yield from _reader(fit.reader, plan)
    if fit.population is not None:
        yield from _population(fit.population, plan)
    if fit.missing_patterns is not None:
        yield from _missing_patterns(fit.missing_patterns)


def _plan(plan: Plan) -> Claims:
    shape = (len(plan.names),)
    yield "the recipe", plan.recipe.centre.shape == plan.recipe.scale.shape == shape
    yield "the number of columns", 0 <= plan.n_shown <= plan.n_fixed and plan.n_carried >= 0
    for factor in plan.factors:
        yield f"the factor {factor.name}", _factor_agrees(factor, plan.recipe.n_columns)


def _factor_agrees(factor: FactorPlan, n_columns: int) -> bool:
    parts, seen = factor.levels.parts, factor.levels.seen
    if len(parts) != len(factor.columns) or not all(one.ndim == 1 and len(one) for one in (*parts, seen)):
        return False
    return (
        len(parts) > 0
        and len(factor.effects) == len(factor.slopes) > 0
        and all(0 <= slope < n_columns for slope in factor.slopes)
        and bool((np.diff(seen) > 0).all() and seen[0] >= 0 and seen[-1] < np.prod([len(one) for one in parts]))
        and (len(parts) > 1 or len(seen) == len(parts[0]))
    )


def _spec(spec: Spec, plan: Plan, n_coefficients: int) -> Claims:
    yield "the number of coefficients", spec.n_columns == n_coefficients
    yield "the blocks", sum(block.size for block in spec.blocks) == n_coefficients
    for block in spec.blocks:
        yield f"the block {block.name}", block.gate_of is None or block.gate_of.shape == (block.size,)
    inputs = input_model(spec.missing)
    if inputs is not None:
        yield "the distribution of the inputs", _inputs_agree(inputs.inputs, plan)


def _outcome(outcome: Outcome, spec: Spec, n_coefficients: int) -> Claims:
    state = outcome.state
    yield "the bounds", outcome.bounds.ndim == 1 and len(outcome.bounds) > 0
    yield "the coefficients", state.coefficients.mean.shape == (n_coefficients,)
    yield "the scales", len(state.scales) == len(spec.blocks)
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        matrix = getattr(getattr(scale, "covariance", scale), "scale", None)
        yield f"the scale of {block.name}", matrix is None or matrix.shape == (len(block.columns),) * 2
    gates, map = state.gates, spec.gate_map
    yield "the gates", (gates is None) == (map is None)
    yield "the gates", gates is None or map is None or gates.log_odds.shape == (map.n_gates,)
    inputs = input_model(spec.missing)
    if inputs is not None and outcome.inputs is not None:
        distribution, sums = inputs.inputs, outcome.inputs
        n_known, n_variables = 1 + len(distribution.given), len(distribution.variables)
        yield "the sums of the inputs", sums.linear.shape == (n_known, n_variables)
        yield "the sums of the inputs", sums.squares.shape == (n_variables, n_variables)


def _sample(sample: Sample, spec: Spec, n_coefficients: int) -> Claims:
    chains_and_draws, map = sample.coefficients.shape[:2], spec.gate_map
    yield "the draws", sample.coefficients.shape == (*chains_and_draws, n_coefficients) and sample.coefficients.size > 0
    yield "the scales", len(sample.scales) == len(spec.blocks)
    for block, scale in zip(spec.blocks, sample.scales, strict=True):
        q = len(block.columns) if block.prior.of_groups else 1
        yield f"the scale of {block.name}", scale.shape == (*chains_and_draws, q * q)
    yield "the gates", (sample.gates is None) == (map is None)
    yield "the gates", sample.gates is None or map is None or sample.gates.shape == (*chains_and_draws, map.n_gates)


def _reader(reader: Reader, plan: Plan) -> Claims:
    names = reader.fixed.names[plan.recipe.first :]
    yield "the formula", reader.fixed.has_intercept == plan.recipe.intercept and list(plan.names[: len(names)]) == names
    yield "the plan of the formula", reader.plan.names == plan.names
    for curve in reader.curves:
        knots, rotation = curve.spline.knots, curve.spline.rotation
        yield str(curve.term), knots.ndim == 1 and rotation.ndim == 2 and len(rotation) == len(knots) - 4
    bends = sum(curve.spline.n_columns for curve in reader.curves)
    yield "the splines", plan.recipe.first + plan.n_shown + bends == plan.n_fixed
    found = reader.categories
    yield "the categories", len(found.names) == len(found.levels) == len(found.counts)
    for levels, counts in zip(found.levels, found.counts, strict=True):
        yield "the categories", levels.ndim == 1 and levels.shape == counts.shape
    places = [k for variable in reader.linear.variables for k in (variable.place, *variable.links)]
    yield "the inputs that may be missing", all(0 <= k < len(plan.names) for k in places)


def _inputs_agree(inputs: Inputs, plan: Plan) -> bool:
    arrays = (inputs.variables, inputs.given, inputs.derived, inputs.feeds)
    within = all(one.ndim == 1 and _within(one, plan.recipe.n_columns) for one in arrays[:3])
    return within and inputs.derived.shape == inputs.feeds.shape and _within(inputs.feeds, len(inputs.variables))


def _within(numbers: Any, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)


def _population(population: Population, plan: Plan) -> Claims:
    size = len(population.inputs.variables)
    yield "the inputs", _inputs_agree(population.inputs, plan)
    yield "the mean of the inputs", population.mean.shape == (size,) and population.covariance.shape == (size, size)


def _missing_patterns(missing_patterns: MissingPatterns) -> Claims:
    yield (
        "the patterns of what is missing",
        missing_patterns.patterns.shape == (len(missing_patterns.counts), len(missing_patterns.names)),
    )
    yield "the patterns of what is missing", missing_patterns.counts.ndim == 1
