"""Learn a formula's columns from a frame: contrasts, knots, levels, and which predictors may be missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import NONE, ColumnSampler, DrawnColumns
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, Levels, Plan
from vbsvm.design.formula.matrix import ColumnKey, Matrix, Spline
from vbsvm.design.formula.missing_inputs import (
    Categories,
    columns_in,
    fill,
    filled_by_others,
    learn_linear,
    missing_masks,
    reference_of,
)
from vbsvm.design.formula.reader import (
    Curve,
    Reader,
    TermEffects,
    check_finite,
    curve_columns,
    group_labels_of,
    join_columns,
)
from vbsvm.design.formula.syntax import FormulaParts, GroupTerm, SplineTerm
from vbsvm.design.formula.terms import FormulaError
from vbsvm.design.scaling import Recipe

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedBefore:
    """What was learned from all rows: transform states, splines, levels of factors.

    Anything else is learned from the frame.
    """

    transforms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    splines: Mapping[SplineTerm, Spline] = field(default_factory=dict)
    levels: Mapping[tuple[str, ...], Levels] = field(default_factory=dict)


NOTHING_LEARNED = LearnedBefore()
# Maximum number of other columns that drawn columns are conditional on; with more, on the label alone.
MAX_CONDITIONED_ON = 300


def learn(
    parts: FormulaParts, frame: "pd.DataFrame", weights: Array, standardize: bool, sampler: ColumnSampler | None = None
) -> tuple[Reader, NDArray[np.bool_], Encoded]:
    """Learn a reader without scales; also return which columns are centred, and the encoded data.

    The frame's index numbers rows in errors. ``sampler`` draws missing values of columns that do not enter linearly;
    None rejects them.
    """
    reader, centred, encoded = learn_reader(parts, frame, weights, standardize)
    masks = missing_masks(frame)
    if not masks:
        check_finite(encoded.table, reader.plan.names, frame.index)
        return reader, centred, encoded
    del encoded
    names = () if sampler is None else _columns_to_draw(reader, frame, masks, sampler)
    if sampler is None or not names:
        return reader, centred, reader.encode(frame)
    whole = filled_by_others(frame, names)
    reader, centred, _ = learn_reader(parts, whole, weights, standardize)
    reader, encoded = _with_draws(reader, frame, whole, names, sampler)
    return reader, centred, encoded


def _columns_to_draw(
    reader: Reader, frame: "pd.DataFrame", masks: dict[str, NDArray[np.bool_]], sampler: ColumnSampler
) -> tuple[str, ...]:
    """Numeric columns whose missing values are drawn: nonlinear or transformed ones that are nowhere categories."""
    linear, columns = reader.linear, list(frame.columns)
    selected = {*linear.reasons, *linear.both_factors_missing(masks)}
    if sampler.transform != NONE:
        selected |= {name for variable in linear.variables for name in variable.columns}
    matrices = (reader.fixed, *(of_term.matrix for of_term in reader.effects))
    categorical = {
        name for matrix in matrices for expression in matrix.categorical for name in columns_in(expression, columns)
    }
    numeric = {name for name in masks if frame[name].dtype.kind in "iuf"}
    return tuple(name for name in columns if name in selected & numeric - categorical)


def _with_draws(
    reader: Reader, frame: "pd.DataFrame", whole: "pd.DataFrame", names: tuple[str, ...], sampler: ColumnSampler
) -> tuple[Reader, Encoded]:
    """The reader that draws ``names`` given known columns independent of them, and the frame; ``whole`` has no gaps."""
    encoded = reader.encode(whole)
    table = encoded.table if encoded.candidates is None else encoded.table[encoded.candidates.firsts]
    places = {variable.place for variable in reader.linear.variables}
    of_columns = [factors for _, factors in reader.fixed.keys[reader.fixed.first :]]
    of_columns += [(curve.term.expression,) for curve in reader.curves if curve.with_line]
    of_columns += [(curve.term.expression,) for curve in reader.curves for _ in range(curve.spline.n_columns)]
    incomplete = np.asarray(np.isnan(table).any(axis=0))
    given = [
        k
        for k, factors in enumerate(of_columns)
        if not any(set(names) & set(columns_in(factor, list(frame.columns))) for factor in factors)
        and k not in reader.uncertain
        and (k in places or not incomplete[k])
    ]
    if len(given) > MAX_CONDITIONED_ON:
        given = []
    drawn, draws = DrawnColumns.learn(names, frame, table, np.array(given, dtype=np.intp), sampler)
    reader = replace(reader, drawn=drawn)
    return reader, reader.encode(frame, draws)


def learn_reader(
    parts: FormulaParts,
    frame: "pd.DataFrame",
    weights: Array,
    standardize: bool,
    known: LearnedBefore = NOTHING_LEARNED,
) -> tuple[Reader, NDArray[np.bool_], Encoded]:
    """Return the reader without scales, which columns are centred, and the rows with reference values for gaps."""
    original, masks = frame, missing_masks(frame)
    frame = fill(frame, masks, {name: reference_of(frame[name], name) for name in masks})
    fixed, curves, pieces = _learn_fixed(parts, frame, known)
    shown = [*fixed.names[fixed.first :], *(f"{curve.term} line" for curve in curves if curve.with_line)]
    names = shown + [f"{curve.term} bend {j + 1}" for curve in curves for j in range(curve.spline.n_columns)]
    for name in names:
        if names.count(name) > 1:
            raise FormulaError(f"Two fixed effects are called {name}: rename the column of that name.")
    factors = _learn_factors(parts.groups, frame, known)
    plans, random_only = _plan_factors(factors, fixed, len(names), standardize)
    members = [member for factor in factors for member in factor.members]

    n_fixed, keys = len(names), fixed.keys[fixed.first :]
    factors_of = [*(expressions for _, expressions in keys), *[()] * (n_fixed - len(keys))]
    factors_of += [members[i][1].factors[j] for i, j in random_only.values()]
    matrices = (fixed, *(matrix for _, matrix, _, _ in members))
    categorical = {one for matrix in matrices for one in matrix.categorical}
    linear, own_columns = learn_linear(parts, frame, factors_of, categorical, masks)
    categories, uncertain = _learn_categories(original, categorical, factors_of, linear.reasons, weights)
    quoted = [f"`{one}`" if one in frame.columns and not one.isidentifier() else one for one in own_columns]
    hidden = [Matrix.learn(f"0 + {expression}", frame) for expression in quoted]
    mains = [k for k, of_column in enumerate(factors_of[:n_fixed]) if len(of_column) == 1 and k not in uncertain]
    mains += [variable.place for variable in linear.variables if variable.place >= n_fixed]

    names += [*(name for (name, _), _ in random_only), *own_columns]
    unscaled = Recipe(np.zeros(len(names)), np.ones(len(names)), fixed.has_intercept)
    table = join_columns(
        [*pieces, *(members[i][2][:, [j]] for i, j in random_only.values()), *(values for _, values in hidden)]
    )
    reader = Reader(
        parts=parts,
        fixed=fixed,
        curves=curves,
        effects=tuple(
            TermEffects(term, matrix, k, places)
            for k, factor in enumerate(factors)
            for term, matrix, _, places in factor.members
        ),
        carried=tuple(random_only.values()),
        hidden=tuple(matrix for matrix, _ in hidden),
        linear=linear.with_references(frame, [table[:, variable.place] for variable in linear.variables]),
        categories=categories,
        mains=tuple(mains),
        uncertain=uncertain,
        plan=Plan(unscaled, tuple(names), len(shown), plans, len(random_only) + len(own_columns)),
        kinds={str(name): str(frame[name].dtype.kind) for name in frame.columns},
    )
    centred = [fixed.has_intercept] * n_fixed + [one for _, one in random_only] + [True] * len(own_columns)
    levels = tuple(factor.row_levels for factor in factors)
    return reader, np.array(centred, dtype=bool), Encoded(table, levels)


def _learn_fixed(
    parts: FormulaParts, frame: "pd.DataFrame", known: LearnedBefore
) -> tuple[Matrix, tuple[Curve, ...], list[Array]]:
    """The matrix of fixed effects, the curves, and blocks of the table without the intercept."""
    matrix, F = Matrix.learn(parts.fixed, frame, known.transforms)
    if not matrix.names and not parts.splines and not parts.groups:
        raise FormulaError(f"The formula {parts.text!r} has nothing on the right of ~ to fit.")
    lines = matrix.keys[matrix.first :]
    pairs = [_learn_curve(term, frame, lines, known) for term in parts.splines]
    curves = tuple(curve for curve, _ in pairs)
    for i, curve in enumerate(curves):
        for other in curves[:i]:
            if curve.values.keys == other.values.keys:
                raise FormulaError(f"{other.term} and {curve.term} are curves of the same values: keep one.")
    return matrix, curves, [F[:, matrix.first :], *curve_columns(curves, [values for _, values in pairs])]


def _learn_curve(
    term: SplineTerm, frame: "pd.DataFrame", lines: list[ColumnKey], known: LearnedBefore
) -> tuple[Curve, Array]:
    matrix, values = Matrix.learn(f"0 + {term.expression}", frame)
    if values.shape[1] != 1 or matrix.categorical:
        raise FormulaError(f"{term} needs one column of numbers.")
    check_finite(values, tuple(matrix.names), frame.index)
    spline = known.splines.get(term) or learn_spline(term, values[:, 0])
    return Curve(term, matrix, spline, matrix.keys[0] not in lines), values


def learn_spline(term: SplineTerm, x: Array) -> Spline:
    """Learn the knots of a spline; errors name it, and say what to do."""
    try:
        return Spline.learn(x, term.size)
    except ValueError as error:
        raise FormulaError(f"{term}: {error} Use the column itself, or C(…) of it.") from error


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """A grouping factor: row levels, names of effects, and terms: matrix, columns times effects, effects' positions."""

    columns: tuple[str, ...]
    levels: Levels
    row_levels: NDArray[np.intp]
    effects: list[str]
    members: list[tuple[GroupTerm, Matrix, Array, tuple[int, ...]]]


def _learn_factors(groups: tuple[GroupTerm, ...], frame: "pd.DataFrame", known: LearnedBefore) -> list[_Factor]:
    """Merge terms with the same groups into one factor; the largest factor comes last."""
    by_columns: dict[frozenset[str], list[GroupTerm]] = {}
    for term in groups:
        by_columns.setdefault(frozenset(term.columns), []).append(term)
    factors = []
    for terms in by_columns.values():
        members, names = [], list[str]()
        for term in terms:
            matrix, values = Matrix.learn(term.effects, frame, known.transforms)
            if not matrix.names:
                raise FormulaError(f"{term} has no effects.")
            for name in matrix.names:
                if name in names:
                    raise FormulaError(f"The effect {name} of {':'.join(term.columns)} occurs in two terms; keep one.")
            members.append((term, matrix, values, tuple(range(len(names), len(names) + len(matrix.names)))))
            names += matrix.names
        columns = terms[0].columns
        levels, row_levels = Levels.learn(group_labels_of(frame, columns))
        factors.append(_Factor(columns, known.levels.get(columns, levels), row_levels, names, members))
    return sorted(factors, key=lambda factor: len(factor.levels) * len(factor.effects))


# A column with random effects only: its key, and whether it is centred.
_RandomOnly = tuple[ColumnKey, bool]


def _plan_factors(
    factors: list[_Factor], fixed: Matrix, n_fixed: int, standardize: bool
) -> tuple[tuple[FactorPlan, ...], dict[_RandomOnly, tuple[int, int]]]:
    """Design columns of each factor's effects; and of columns without a fixed effect the term, and which of its own."""
    shared = {key: j for j, key in enumerate(fixed.keys) if j >= fixed.first}
    random_only: dict[_RandomOnly, tuple[int, int]] = {}
    planned, n_terms = [], 0
    for factor in factors:
        centred = standardize and INTERCEPT in factor.effects
        slopes = []
        for i, (_, matrix, _, _) in enumerate(factor.members, n_terms):
            for column, key in enumerate(matrix.keys):
                name = key[0]
                if name == INTERCEPT and fixed.has_intercept:
                    slopes.append(0)
                elif key in shared and centred == (standardize and fixed.has_intercept):
                    slopes.append(shared[key])
                else:
                    of_column = key, centred and name != INTERCEPT
                    random_only.setdefault(of_column, (i, column))
                    slopes.append(n_fixed + fixed.first + list(random_only).index(of_column))
        n_terms += len(factor.members)
        planned.append(FactorPlan(factor.columns, factor.levels, tuple(factor.effects), tuple(slopes)))
    return tuple(planned), random_only


def _learn_categories(
    frame: "pd.DataFrame",
    categorical: set[str],
    factors_of: list[tuple[str, ...]],
    reasons: Mapping[str, str],
    weights: Array,
) -> tuple[Categories, tuple[int, ...]]:
    """Categorical columns that may be missing; and table columns that depend on an incomplete one."""
    columns = {expression: columns_in(expression, list(frame.columns)) for expression in categorical}
    chosen = sorted({name for of_factor in columns.values() for name in of_factor} - reasons.keys())
    missing = {name for name in chosen if bool(frame[name].isna().any())}
    incomplete = {expression for expression, names in columns.items() if missing & set(names)}
    uncertain = tuple(k for k, factors in enumerate(factors_of) if incomplete & set(factors))
    return Categories.learn(frame, chosen, weights), uncertain
