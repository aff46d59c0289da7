"""Learn a formula's columns from a frame: contrasts, knots, levels, and which predictors may be missing."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, Levels, Plan
from vbsvm.design.curves import NONE, Spline
from vbsvm.design.formula.expansion import Categories, ColumnSampler, DrawnColumns
from vbsvm.design.formula.matrix import Matrix
from vbsvm.design.formula.missing_inputs import (
    Linear,
    columns_in,
    fill,
    filled_by_others,
    learn_linear,
    missing_masks,
    reference_of,
)
from vbsvm.design.formula.reader import (
    ColumnKey,
    Curve,
    Effects,
    Reader,
    check_finite,
    column_keys,
    group_labels_of,
    join_columns,
    linear_parts,
    wiggly_parts,
)
from vbsvm.design.formula.sandbox import FormulaError
from vbsvm.design.formula.syntax import FormulaParts, GroupTerm, SplineTerm
from vbsvm.design.scaling import Recipe

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedBefore:
    """What was learned from all rows: transform states, splines, levels of factors, weights of levels.

    Anything else is learned from the frame.
    """

    transforms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    splines: Mapping[SplineTerm, Spline] = field(default_factory=dict)
    levels: Mapping[tuple[str, ...], Levels] = field(default_factory=dict)
    totals: Mapping[str, Array] = field(default_factory=dict)


NOTHING_LEARNED = LearnedBefore()


# Maximum number of other columns that drawn columns are conditional on; with more, on the label alone.
MAX_CONDITIONED_ON = 300


def learn(
    parts: FormulaParts, frame: "pd.DataFrame", weights: Array, standardize: bool, sampler: ColumnSampler | None = None
) -> tuple[Reader, NDArray[np.bool_], Encoded]:
    """Learn a reader without scales; also return which columns are centred, and the encoded data.

    The frame's index numbers rows in errors.

    ``sampler`` draws missing values of columns that do not enter linearly; None rejects them.
    """
    reader, centred, table, levels = _learn(parts, frame, weights, standardize, NOTHING_LEARNED)
    masks = missing_masks(frame)
    if masks and sampler is not None and (names := _columns_to_draw(reader, frame, masks, sampler)):
        del table
        whole = filled_by_others(frame, names)
        reader, centred, _, _ = _learn(parts, whole, weights, standardize, NOTHING_LEARNED)
        reader, encoded = _with_draws(reader, frame, whole, names, sampler)
    elif masks:
        del table
        encoded = reader.encode(frame)
    else:
        check_finite(table, reader.plan.names, frame.index)
        encoded = Encoded(table, levels)
    return reader, centred, encoded


def _columns_to_draw(
    reader: Reader, frame: "pd.DataFrame", masks: dict[str, NDArray[np.bool_]], sampler: ColumnSampler
) -> tuple[str, ...]:
    """Numeric columns whose missing values are drawn: nonlinear or transformed ones.

    Text, and columns that are categories somewhere, are none of them.
    """
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
    """The reader with the distribution of drawn columns, and the encoded frame; ``whole`` has no gaps in them.

    It is that given all columns of the table which do not depend on them, nor on categories that are missing.
    """
    encoded = reader.encode(whole)
    table = encoded.table if encoded.candidates is None else encoded.table[encoded.candidates.firsts]
    places = {variable.place for variable in reader.linear.variables}
    keys = column_keys(reader.fixed)[int(reader.fixed.has_intercept) :]
    of_columns = [factors for _, factors in keys]
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


def learn_from(
    parts: FormulaParts, frame: "pd.DataFrame", standardize: bool, known: LearnedBefore
) -> tuple[Reader, NDArray[np.bool_]]:
    """Learn from some rows and what is known of all; return a reader without scales, and which columns are centred."""
    reader, centred, _, _ = _learn(parts, frame, np.ones(len(frame)), standardize, known)
    counts = tuple(known.totals[name] for name in reader.categories.names)
    return replace(reader, categories=replace(reader.categories, counts=counts)), centred


def _learn(
    parts: FormulaParts, frame: "pd.DataFrame", weights: Array, standardize: bool, known: LearnedBefore
) -> tuple[Reader, NDArray[np.bool_], Array, tuple[NDArray[np.intp], ...]]:
    """Return the reader without scales, which columns are centred, the table, and the rows' levels."""
    original, masks = frame, missing_masks(frame)
    frame = fill(frame, masks, {name: reference_of(frame[name], name) for name in masks})
    fixed = _learn_fixed(parts, frame, known)
    groups = _learn_groups(parts.groups, frame, known)
    plans, random_only = _plan_factors(fixed, groups, standardize)

    n_fixed, n_splines = len(fixed.names), len(fixed.names) - len(fixed.keys)
    random_only_factors = [groups.effects[i].matrix.factors[j] for i, j in random_only.values()]
    factors_of = [*(factors for _, factors in fixed.keys), *[()] * n_splines, *random_only_factors]
    matrices = (fixed.matrix, *(of_term.matrix for of_term in groups.effects))
    categorical = {one for matrix in matrices for one in matrix.categorical}
    linear, own_columns = learn_linear(parts, frame, factors_of, categorical, masks)
    categories, uncertain = _learn_categories(original, categorical, factors_of, linear, weights)
    hidden = [Matrix.learn(f"0 + {_quoted(expression, frame)}", frame) for expression in own_columns]
    mains = [k for k, factors in enumerate(factors_of[:n_fixed]) if len(factors) == 1 and k not in uncertain]
    mains += [variable.place for variable in linear.variables if variable.place >= n_fixed]

    names = (*fixed.names, *(name for (name, _), _ in random_only), *own_columns)
    unscaled = Recipe(np.zeros(len(names)), np.ones(len(names)), fixed.intercept)
    table = join_columns(
        [*fixed.pieces, *(groups.values[i][:, [j]] for i, j in random_only.values()), *(values for _, values in hidden)]
    )
    reader = Reader(
        parts=parts,
        fixed=fixed.matrix,
        curves=fixed.curves,
        effects=tuple(groups.effects),
        carried=tuple(random_only.values()),
        hidden=tuple(matrix for matrix, _ in hidden),
        linear=linear.with_references(frame, [table[:, variable.place] for variable in linear.variables]),
        categories=categories,
        mains=tuple(mains),
        uncertain=uncertain,
        plan=Plan(unscaled, names, fixed.n_shown, plans, len(random_only) + len(own_columns)),
        kinds={str(name): str(frame[name].dtype.kind) for name in frame.columns},
    )
    centred = [fixed.intercept] * n_fixed + [of_column for _, of_column in random_only] + [True] * len(own_columns)
    return reader, np.array(centred, dtype=bool), table, groups.levels


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """Fixed effects and splines: column names and blocks of the table, without the intercept.

    The first ``n_shown`` are the fixed effects that users see; then come the splines' columns.
    """

    matrix: Matrix
    curves: tuple[Curve, ...]
    names: list[str]
    n_shown: int
    pieces: list[Array]

    @property
    def intercept(self) -> bool:
        """Whether the formula has an intercept."""
        return self.matrix.has_intercept

    @property
    def keys(self) -> list[ColumnKey]:
        """Key of each column of the matrix."""
        return column_keys(self.matrix)[int(self.intercept) :]


def _learn_fixed(parts: FormulaParts, frame: "pd.DataFrame", known: LearnedBefore) -> _Fixed:
    matrix, F = Matrix.learn(parts.fixed, frame, known.transforms)
    if not matrix.names and not parts.splines and not parts.groups:
        raise FormulaError(f"The formula {parts.text!r} has nothing on the right of ~ to fit.")
    first = int(matrix.has_intercept)
    pairs = [_learn_curve(term, frame, column_keys(matrix)[first:], known) for term in parts.splines]
    curves, values = tuple(curve for curve, _ in pairs), [of_curve for _, of_curve in pairs]
    _check_different(curves)
    shown = [*matrix.names[first:], *(f"{curve.term} line" for curve in curves if curve.with_line)]
    names = shown + [f"{curve.term} bend {j + 1}" for curve in curves for j in range(curve.spline.n_columns)]
    for name in names:
        if names.count(name) > 1:
            raise FormulaError(f"Two fixed effects are called {name}: rename the column of that name.")
    return _Fixed(
        matrix, curves, names, len(shown), [F[:, first:], *linear_parts(curves, values), *wiggly_parts(curves, values)]
    )


# A column with random effects only: its key, and whether it is centred.
_RandomOnly = tuple[ColumnKey, bool]


def _plan_factors(
    fixed: _Fixed, groups: "_Groups", standardize: bool
) -> tuple[tuple[FactorPlan, ...], dict[_RandomOnly, tuple[int, int]]]:
    """Design columns of each factor's effects; and those columns that no fixed effect has.

    Of each of the latter the place: whose effects, and which column of their matrix.
    """
    first = int(fixed.intercept)
    shared = {key: j + first for j, key in enumerate(fixed.keys)}
    random_only: dict[_RandomOnly, tuple[int, int]] = {}
    planned = []
    for k, (columns, labels, effect_names) in enumerate(groups.factors):
        centred = standardize and INTERCEPT in effect_names
        slopes = []
        for place, name in enumerate(effect_names):
            of_effect, column = _where(groups.effects, k, place)
            key = column_keys(groups.effects[of_effect].matrix)[column]
            if name == INTERCEPT and fixed.intercept:
                slopes.append(0)
            elif key in shared and centred == (standardize and fixed.intercept):
                slopes.append(shared[key])
            else:
                key = (key, centred and name != INTERCEPT)
                random_only.setdefault(key, (of_effect, column))
                slopes.append(len(fixed.names) + first + list(random_only).index(key))
        planned.append(FactorPlan(columns, labels, tuple(effect_names), tuple(slopes)))
    return tuple(planned), random_only


def _learn_categories(
    frame: "pd.DataFrame",
    categorical: set[str],
    factors_of: list[tuple[str, ...]],
    linear: Linear,
    weights: Array,
) -> tuple[Categories, tuple[int, ...]]:
    """Categorical columns that may be missing; and table columns that depend on an incomplete one."""
    names = list(frame.columns)
    columns = {expression: columns_in(expression, names) for expression in categorical}
    chosen = sorted({name for of_factor in columns.values() for name in of_factor} - linear.reasons.keys())
    missing = {name for name in chosen if bool(frame[name].isna().any())}
    uncertain = tuple(
        k
        for k, factors in enumerate(factors_of)
        if any(missing & set(columns.get(expression, ())) for expression in factors)
    )
    return Categories.learn(frame, chosen, weights), uncertain


def _quoted(expression: str, frame: "pd.DataFrame") -> str:
    """A factor in formula syntax: names that are not identifiers in backticks."""
    return f"`{expression}`" if expression in frame.columns and not expression.isidentifier() else expression


def _check_different(curves: tuple[Curve, ...]) -> None:
    for i, curve in enumerate(curves):
        for other in curves[:i]:
            if column_keys(curve.values) == column_keys(other.values):
                raise FormulaError(f"{other.term} and {curve.term} are curves of the same values: keep one.")


def _learn_curve(
    term: SplineTerm, frame: "pd.DataFrame", lines: list[ColumnKey], known: LearnedBefore
) -> tuple[Curve, Array]:
    matrix, values = Matrix.learn(f"0 + {term.expression}", frame)
    if values.shape[1] != 1 or any("categories" in state for _, state in matrix.spec.encoder_state.values()):
        raise FormulaError(f"{term} needs one column of numbers.")
    check_finite(values, tuple(matrix.names), frame.index)
    spline = known.splines.get(term)
    if spline is None:
        with explained(term):
            spline = Spline.learn(values[:, 0], term.size)
    return Curve(term, matrix, spline, column_keys(matrix)[0] not in lines), values


@contextmanager
def explained(term: SplineTerm) -> Iterator[None]:
    """Name the spline in errors, and say what to do."""
    try:
        yield
    except ValueError as error:
        raise FormulaError(f"{term}: {error} Take the column itself, or C(…) of it.") from error


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Group terms: columns, levels and effect names of each factor, and each row's level.

    ``effects`` are those of each term, ``values`` the columns that multiply them.
    """

    factors: list[tuple[tuple[str, ...], Levels, list[str]]]
    levels: tuple[NDArray[np.intp], ...]
    effects: list[Effects]
    values: list[Array]


def _learn_groups(groups: tuple[GroupTerm, ...], frame: "pd.DataFrame", known: LearnedBefore) -> _Groups:
    """Merge terms with the same groups into one factor; the largest factor comes last."""
    by_columns: dict[frozenset[str], list[GroupTerm]] = {}
    for term in groups:
        by_columns.setdefault(frozenset(term.columns), []).append(term)
    factors = []
    for terms in by_columns.values():
        names: list[str] = []
        members = []
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
        levels, numbers = Levels.learn(group_labels_of(frame, columns))
        levels = known.levels.get(columns, levels)
        factors.append((columns, levels, names, numbers, members))
    factors.sort(key=lambda factor: len(factor[1]) * len(factor[2]))
    effects, columns_of_terms = [], []
    for k, (*_, members) in enumerate(factors):
        for term, matrix, values, places in members:
            effects.append(Effects(term, matrix, k, places))
            columns_of_terms.append(values)
    return _Groups(
        [factor[:3] for factor in factors], tuple(factor[3] for factor in factors), effects, columns_of_terms
    )


def _where(effects: list[Effects], factor: int, place: int) -> tuple[int, int]:
    """Position of a factor's effect: term and column of its matrix."""
    for i, of_term in enumerate(effects):
        if of_term.factor == factor and place in of_term.places:
            return i, of_term.places.index(place)
    raise AssertionError("every effect of a factor belongs to a term")
