"""Whether the parts of a fit belong together: what comes from a file may have any shape."""

import numbers
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ignore_warnings
from vbsvm.design.candidates import DrawnColumns
from vbsvm.design.columns import UNSEEN, Encoded, FactorPlan, Plan, group_labels
from vbsvm.design.formula import syntax
from vbsvm.design.formula.reader import Reader
from vbsvm.design.formula.syntax import FormulaParts
from vbsvm.design.formula.terms import FormulaError, names_in
from vbsvm.design.scaling import Recipe
from vbsvm.inference.covariance.kinds import KINDS, WAYS
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult
from vbsvm.missing.categories import LevelModel
from vbsvm.missing.imputation import Population
from vbsvm.missing.model import MissingModel, input_model
from vbsvm.missing.rows import Inputs
from vbsvm.missing.settings import MAX_DRAWS
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.model.spec import Spec
from vbsvm.results.covariance import LearnedCovariances
from vbsvm.results.fit import Fit
from vbsvm.results.tables import printed_components
from vbsvm.storage.codec import public_fields

# How far the correlations of a covariance that was saved may be from those of one in exact arithmetic.
ROUNDING = 1e-8
# Names and signs of a formula, and what a level of a category may be.
SIGNS = re.compile(r"`[^`]*`|\w+|[^\w\s]")
PLAIN_LEVELS = str | numbers.Real | np.bool_
# What is said of values of reference that no transform or level fits; together they need not be a row of the fit.
OF_THE_ROW = re.compile(r"\bin row 0\b")
# Arrays that may hold infinite numbers: log odds of indicators that a sampler has drawn, and bounds of a stopped fit.
MAY_BE_INFINITE = ("log_odds", "bounds")
# A part of a fit, and whether it belongs to the rest.
Checks = Iterator[tuple[str, bool]]


def check_agreement(fit: Fit) -> None:
    """Raise if the parts of a fit are inconsistent: by their shapes, and by predicting one row with all of them."""
    for what, agrees in _checks(fit):
        if not agrees:
            raise ValueError(f"{what} does not match the rest")
    recipe = fit.plan.recipe
    row = np.where(np.isfinite(recipe.scale), recipe.centre, 0.0)[None]
    for level in (0, UNSEEN):
        rows = Encoded(row, tuple(np.full(1, level, dtype=np.intp) for _ in fit.plan.factors))
        _try(partial(fit.decision_function, rows, return_std=True))
        _try(partial(fit.predict_proba, rows), finite=True)
    _try(partial(printed_components, fit))
    if fit.population is not None:
        row[:, fit.population.inputs.variables - recipe.first] = np.nan
        _try(partial(fit.impute, Encoded(row)))
    if fit.reader is not None:
        _try_reading(fit, fit.reader)


def _try(call: Callable[[], Any], *, finite: bool = False) -> None:
    """Call a function that raises if shapes differ or a matrix is not a covariance; check that results are finite."""
    with np.errstate(all="ignore"):
        values = call()
    if finite and not np.isfinite(values).all():
        raise ValueError("its predicted probabilities are not finite")


def _try_reading(fit: Fit, reader: Reader) -> None:
    """Predict a row of reference values in the first level of each factor, and the same with missing categories."""
    columns = {name: [reader.linear.reference.get(name)] for name in reader.columns}
    for factor in fit.plan.factors:
        label = factor.levels.labels[0]
        labels = label if len(factor.columns) > 1 else (label,)
        columns |= {name: [label] for name, label in zip(factor.columns, labels, strict=True)}
    for row in (columns, columns | {name: [None] for name in reader.categories.names}):
        with ignore_warnings(Warning):
            try:
                _try(partial(fit.predict_proba, row), finite=True)
            except ValueError as error:
                if not isinstance(error, FormulaError) and not OF_THE_ROW.search(str(error)):
                    raise


def _checks(fit: Fit) -> Checks:
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
    for what, part in (("fit", fit.outcome), ("model", fit.spec), ("inputs", fit.population), ("formula", fit.reader)):
        yield f"a number of the {what} that is not finite", _is_finite(part)
    if fit.reader is not None:
        yield from _reader(fit.reader, plan)
    if fit.population is not None:
        yield from _population(fit.population, plan)
    if fit.calibration is not None:
        link = fit.calibration
        yield "the calibration", bool(np.isfinite([link.offset, link.slope]).all()) and link.slope > 0
        yield "the calibration", 0 <= getattr(link, "bend", 0.0) < np.inf
    if fit.spreads is not None:
        yield from _spreads(fit.spreads, plan, len(fit.posterior.state.coefficients.mean), gates=fit.selects)
    if fit.missing_patterns is not None:
        missing, counts = fit.missing_patterns, fit.missing_patterns.counts
        yield "the patterns of what is missing", missing.patterns.shape == (len(counts), len(missing.names))
        yield "the patterns of what is missing", counts.ndim == 1 and counts.min(initial=0) >= 0 and counts.sum() > 0


def _outcome(outcome: OptimizeResult, spec: Spec, n_coefficients: int) -> Checks:
    state = outcome.state
    has_bound = not isinstance(state.coefficients, DrawnGaussian)
    yield "the bounds", outcome.bounds.ndim == 1 and (len(outcome.bounds) > 0) == has_bound
    yield "the coefficients", state.coefficients.mean.shape == state.gaussian.variances.shape == (n_coefficients,)
    yield "the scales", len(state.scales) == len(spec.blocks)
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        matrix = getattr(getattr(scale, "covariance", scale), "scale", None)
        yield f"the scale of {block.name}", matrix is None or matrix.shape == (len(block.columns),) * 2
        variances = [] if matrix is None else matrix.diagonal().tolist()
        settings = (*(getattr(scale, name, 1.0) for name in ("shape", "rate")), *variances)
        yield f"the scale of {block.name}", all(0 < float(setting) < np.inf for setting in settings)
    gates, map = state.gates, spec.gate_map
    shapes = None if gates is None else gates.log_odds.shape, None if map is None else (map.n_gates,)
    yield "the indicators", shapes[0] == shapes[1]
    inputs = input_model(spec.missing)
    if inputs is not None and outcome.inputs is not None:
        distribution, sums = inputs.inputs, outcome.inputs
        n_known, n_variables = inputs.n_regressors, len(distribution.variables)
        yield "the sums of the predictors", sums.linear.shape == (n_known, n_variables)
        yield "the sums of the predictors", sums.squares.shape == (n_variables, n_variables)


def _sample(sample: Sample, spec: Spec, n_coefficients: int) -> Checks:
    """Check the shapes of the draws."""
    map = spec.gate_map
    size = sample.coefficients.shape[:2]
    yield "the draws", sample.coefficients.shape == (*size, n_coefficients) and sample.coefficients.size > 0
    yield "the scales", len(sample.scales) == len(spec.blocks)
    for block, scale in zip(spec.blocks, sample.scales, strict=True):
        q = len(block.columns) if block.prior.of_groups else 1
        yield f"the scale of {block.name}", scale.shape == (*size, q * q)
        variances = scale[..., :: q + 1] if scale.shape == (*size, q * q) else np.empty(0)
        yield f"the scale of {block.name}", bool((variances > 0).all() and np.isfinite(variances).all())
    shapes = None if sample.gates is None else sample.gates.shape, None if map is None else (*size, map.n_gates)
    yield "the indicators", shapes[0] == shapes[1]


def _is_finite(part: Any, name: str = "") -> bool:
    """Whether all float arrays in an object and its fields are finite, except ``MAY_BE_INFINITE``."""
    if isinstance(part, np.ndarray):
        constant = np.isposinf(part) if name == "scale" and part.ndim == 1 else False  # scales of constant columns
        return part.dtype.kind != "f" or bool((np.isfinite(part) | constant).all())
    if isinstance(part, Mapping | tuple | list):
        return all(map(_is_finite, part.values() if isinstance(part, Mapping) else part))
    if not is_dataclass(part) or isinstance(part, type | Recipe):
        return True
    return all(_is_finite(value, name) for name, value in public_fields(part).items() if name not in MAY_BE_INFINITE)


def _plan(plan: Plan) -> Checks:
    shape = (len(plan.names),)
    yield "the standardisation", plan.recipe.centre.shape == plan.recipe.scale.shape == shape
    yield "the centre of the columns", bool(np.isfinite(plan.recipe.centre).all())
    yield "the scale of the columns", bool((plan.recipe.scale > 0.0).all())  # infinite where a column is constant
    yield "the number of columns", 0 <= plan.n_shown <= plan.n_fixed and plan.n_carried >= 0
    for factor in plan.factors:
        yield f"the factor {factor.name}", _factor_agrees(factor, plan.recipe.n_columns)


def _factor_agrees(factor: FactorPlan, n_columns: int) -> bool:
    parts, seen = factor.levels.parts, factor.levels.seen
    if not parts or len(parts) != len(factor.columns):
        return False
    return (
        all(array.ndim == 1 and len(array) for array in (*parts, seen))
        and all(map(_are_labels, parts))
        and len(factor.effects) == len(factor.slopes) > 0
        and all(0 <= slope < n_columns for slope in factor.slopes)
        and bool((np.diff(seen) > 0).all() and seen[0] >= 0 and seen[-1] < np.prod([len(array) for array in parts]))
        and (len(seen) == len(parts[0]) or len(parts) > 1)
    )


def _are_labels(labels: NDArray[Any]) -> bool:
    """Whether labels have one type and are sorted."""
    try:
        group_labels(labels, "")
        return bool((labels[1:] > labels[:-1]).all())
    except (TypeError, ValueError):
        return False


def _spec(spec: Spec, plan: Plan, n_coefficients: int) -> Checks:
    yield "the number of coefficients", spec.n_columns == n_coefficients
    yield "the likelihood power", 0.0 < spec.likelihood_power <= 1.0
    yield "the blocks", sum(block.size for block in spec.blocks) == n_coefficients
    for block in spec.blocks:
        yield f"the block {block.name}", block.gate_of is None or block.gate_of.shape == (block.size,)
    inputs = input_model(spec.missing)
    if inputs is not None:
        yield "the distribution of the predictors", _inputs_agree(inputs.inputs, plan)
    if isinstance(spec.missing, MissingModel) and spec.missing.levels is not None:
        yield "the distribution of the levels", _levels_agree(spec.missing.levels, plan)


def _drawn(drawn: DrawnColumns, reader: Reader, plan: Plan) -> Checks:
    n = len(drawn.given) + len(drawn.names)
    yield "the columns that are drawn", set(drawn.names) <= reader.numeric and len(drawn.scales) == len(drawn.names)
    yield "what they depend on", drawn.given.ndim == 1 and all(0 <= k < len(plan.names) for k in drawn.given)
    shapes = drawn.centre.shape, drawn.spread.shape, drawn.distribution.mean.shape
    yield "their distribution", set(shapes) == {(n,)} and drawn.distribution.covariance.shape == (n, n)
    points = [scale.points for scale in drawn.scales]
    yield "their scales", all(scale.ndim == 2 and len(scale) == 2 and scale.shape[1] > 0 for scale in points)
    yield "their number", 2 <= drawn.n <= MAX_DRAWS


def _text_matches(parts: FormulaParts) -> bool:
    """Whether the displayed formula is the fitted one, up to the order of the columns that ``.`` represents."""
    removed = [name.strip("`") for name in names_in(parts.fixed)]  # columns of terms such as - a are not used
    parsed = syntax.read(parts.text, list(dict.fromkeys((*parts.columns, *removed))))
    same = (parsed.outcome, parsed.splines, parsed.groups) == (parts.outcome, parts.splines, parts.groups)
    return same and sorted(SIGNS.findall(parsed.fixed)) == sorted(SIGNS.findall(parts.fixed))


def _equal(left: Any, right: Any) -> bool:
    """Whether two objects have equal fields; arrays are compared by their values."""
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, tuple):
        return isinstance(right, tuple) and len(left) == len(right) and all(map(_equal, left, right))
    if is_dataclass(left):
        pairs = zip(public_fields(left).values(), public_fields(right).values(), strict=False)
        return type(left) is type(right) and all(_equal(*pair) for pair in pairs)
    return bool(left == right)


def _reader(reader: Reader, plan: Plan) -> Checks:
    yield "the text of the formula", _text_matches(reader.parts)
    matrices = (reader.fixed, *reader.hidden, *(effects.matrix for effects in reader.effects))
    categories_of = [values for matrix in matrices for values in matrix.learned["categories"].values()]
    yield "a level of a category", all(isinstance(level, PLAIN_LEVELS) for values in categories_of for level in values)
    names = reader.fixed.names[plan.recipe.first :]
    yield "the formula", reader.fixed.has_intercept == plan.recipe.intercept and list(plan.names[: len(names)]) == names
    yield "the plan of the formula", _equal(reader.plan, plan)
    yield "the factors of the formula", all(0 <= effects.factor < len(plan.factors) for effects in reader.effects)
    for curve in reader.curves:
        knots, rotation = curve.spline.knots, curve.spline.rotation
        yield str(curve.term), knots.ndim == 1 and rotation.ndim == 2 and len(rotation) == len(knots) - 4
        yield str(curve.term), bool(np.isfinite(knots).all() and (np.diff(knots) >= 0.0).all() and knots[0] < knots[-1])
    bends = sum(curve.spline.n_columns for curve in reader.curves)
    yield "the splines", plan.recipe.first + plan.n_shown + bends == plan.n_fixed
    if reader.drawn is not None:
        yield from _drawn(reader.drawn, reader, plan)
    categories = reader.categories
    yield "the categories", len(categories.names) == len(categories.levels) == len(categories.counts)
    for levels, counts in zip(categories.levels, categories.counts, strict=True):
        yield "the categories", levels.ndim == 1 and levels.shape == counts.shape and _are_labels(levels)
    places = [k for variable in reader.linear.variables for k in (variable.place, *variable.links)]
    yield "the predictors that may be missing", all(0 <= k < len(plan.names) for k in places)


def _inputs_agree(inputs: Inputs, plan: Plan) -> bool:
    arrays, first = (inputs.variables, inputs.given, inputs.derived), plan.recipe.first
    if not all(array.ndim == 1 and _within(array, plan.recipe.n_columns) for array in arrays):
        return False
    distinct = (
        len(np.unique(inputs.variables)) == len(inputs.variables) and inputs.variables.min(initial=first) >= first
    )
    return distinct and inputs.derived.shape == inputs.feeds.shape and _within(inputs.feeds, len(inputs.variables))


def _levels_agree(model: LevelModel, plan: Plan) -> bool:
    """Whether the moments of each category have the shapes of its levels and its predictors."""
    if model.given is None:
        return True
    columns, categories = model.given.columns, model.given.sums.categories
    if not len(model.sizes) == len(columns) == len(categories):
        return False
    for size, inputs, sums in zip(model.sizes, columns, categories, strict=True):
        p, labels = len(inputs), len(sums.counts)
        shapes = sums.counts.shape, sums.means.shape, sums.scatter.shape
        if not _within(inputs, plan.recipe.n_columns) or shapes != ((labels, size), (labels, size, p), (p, p)):
            return False
    return True


def _within(numbers: NDArray[np.intp], end: int) -> bool:
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=-1) < end)


def _spreads(spreads: LearnedCovariances, plan: Plan, n_coefficients: int, *, gates: bool) -> Checks:
    for estimate in spreads.learned:
        what, covariance, between = f"the {estimate.kind} covariance", estimate.covariance, estimate.between
        yield what, estimate.kind in KINDS and estimate.mean.shape == (plan.n_fixed,) and estimate.by in WAYS
        yield what, estimate.degrees > 0 and (estimate.unit is None or 0 <= estimate.unit < len(plan.factors))
        for matrix in (covariance, between):
            yield what, matrix is None or (covariance is not None and matrix.shape == (plan.n_fixed, plan.n_fixed))
        for array in (estimate.mean, covariance, between):
            yield what, array is None or _are_numbers(array, gates=gates)
        if covariance is not None:
            variances = covariance.diagonal()
            yield what, not (variances < 0.0).any()
            yield what, between is None or bool((variances > 0)[between.diagonal() > 0].all())
    if spreads.curvature is not None:
        for array in (spreads.curvature.mean, spreads.curvature.variances):
            yield "the curvature", array.shape == (n_coefficients,) and _are_numbers(array, gates=gates)


def _are_numbers(array: Array, *, gates: bool) -> bool:
    """Whether all values are finite; with indicators, NaN is allowed for excluded coefficients."""
    return bool((np.isfinite(array) | (np.isnan(array) & gates)).all())


def _population(population: Population, plan: Plan) -> Checks:
    size = len(population.inputs.variables)
    yield "the predictors", _inputs_agree(population.inputs, plan)
    yield "the mean of the predictors", population.mean.shape == (size,) and population.covariance.shape == (size, size)
    yield "the covariance of the predictors", _is_covariance(population.covariance)


def _is_covariance(matrix: Array) -> bool:
    """Whether a matrix is symmetric and positive, up to rounding."""
    with np.errstate(all="ignore"):
        deviations = np.sqrt(matrix.diagonal())
        correlations = matrix / np.outer(deviations, deviations)
    if not np.isfinite(correlations).all() or np.abs(correlations - correlations.T).max(initial=0.0) > ROUNDING:
        return False
    try:
        np.linalg.cholesky(correlations + ROUNDING * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
