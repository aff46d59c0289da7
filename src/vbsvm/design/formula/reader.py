"""From a formula and a data frame to a table of numbers and the levels of its rows.

Levels, knots and the state of transforms are learned once, over all of the data, and reapplied to new data.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, Plan
from vbsvm.design.formula.guard import FormulaError
from vbsvm.design.formula.known import NOTHING, Known
from vbsvm.design.formula.matrix import Matrix
from vbsvm.design.formula.missing_categories import Categories
from vbsvm.design.formula.missing_inputs import Linear, columns_in, fill, learn_linear, missing_masks, reference_of
from vbsvm.design.formula.syntax import FormulaParts, GroupTerm, SplineTerm
from vbsvm.design.levels import Levels, group_labels
from vbsvm.design.scaling import Recipe, column_ranges, learn_recipe
from vbsvm.design.splines import Spline

if TYPE_CHECKING:
    import pandas as pd


_Key = tuple[str, tuple[str, ...]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A spline term: the values that it is a curve of, its basis, and whether it brings the straight line along."""

    term: SplineTerm
    values: Matrix
    spline: Spline
    with_line: bool


@final
@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The effects of one group term, and where they stand among the effects of its factor."""

    term: GroupTerm
    matrix: Matrix
    factor: int
    places: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """How new data become the table and the levels that the model knows."""

    parts: FormulaParts
    fixed: Matrix
    curves: tuple[Curve, ...]
    effects: tuple[Effects, ...]
    carried: tuple[tuple[int, int], ...]
    hidden: tuple[Matrix, ...]
    linear: Linear
    categories: Categories
    mains: tuple[int, ...]
    uncertain: tuple[int, ...]
    plan: Plan
    kinds: dict[str, str]  # of the data's columns, as NumPy calls them: O for text and categories

    @property
    def numeric(self) -> frozenset[str]:
        """Columns that held numbers."""
        return frozenset(name for name, kind in self.kinds.items() if kind in "biuf")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that new data must have."""
        return tuple(name for name in self.parts.columns if name != self.parts.outcome)

    def read(self, data: Any) -> Encoded:
        """Encode new data: a frame of any kind."""
        return self.encode(self.taken(data))

    def taken(self, data: Any, kept: NDArray[np.intp] | None = None) -> "pd.DataFrame":
        """The columns that are used, as they were in fit; ``kept`` are the rows that count."""
        frame = frames.take(data, self.columns, kept, may_miss=self.parts.inputs)
        return frame.assign(**{name: self.as_learned(frame[name]) for name in self.columns})

    def as_learned(self, column: Any) -> "pd.Series":
        """A column in the kind that it had in fit; refuse another kind where numbers were."""
        name = str(column.name)
        found = frames.as_learned(column, self.kinds[name])
        known = found.dropna()
        if name in self.numeric and known.dtype.kind not in "biuf" and len(known):
            raise ValueError(f"Column {name!r} held numbers in fit, and holds {known.iloc[0]!r} now.")
        return found

    def encode(self, frame: "pd.DataFrame") -> Encoded:
        """Encode a frame with the columns that are used; a row that misses categories becomes its candidates."""
        rows, levels = frame.index.to_numpy(), self.levels_of(frame)
        if any(frame[name].isna().any() for name in self.categories.names):
            frame, candidates = self.categories.write_out(frame)
            levels = tuple(of_rows[candidates.row] for of_rows in levels)
            return replace(self._encode(frame, levels, rows[candidates.row]), candidates=candidates)
        return self._encode(frame, levels, rows)

    def levels_of(self, frame: "pd.DataFrame") -> tuple[NDArray[np.intp], ...]:
        """The level of each row in each factor."""
        return tuple(factor.encode(_labels(frame, factor.columns)) for factor in self.plan.factors)

    def scaled(self, recipe: Recipe) -> "Reader":
        """The same with the scaling of its columns."""
        plan, scale = self.plan, recipe.scale.copy()
        scale[plan.n_shown : len(plan.names) - plan.n_carried] = 1.0  # a spline has a scale of its own
        return replace(self, plan=replace(plan, recipe=replace(recipe, scale=scale)))

    def _encode(self, frame: "pd.DataFrame", levels: tuple[NDArray[np.intp], ...], rows: NDArray[np.intp]) -> Encoded:
        """Encode a frame that misses no categories; ``rows`` numbers its rows in errors."""
        masks = missing_masks(frame)
        frame = self.linear.fill(frame, masks, rows)
        fixed = self.fixed.encode(frame, rows)[:, int(self.fixed.has_intercept) :]
        values = [curve.values.encode(frame, rows) for curve in self.curves]
        matrices = {k: self.effects[k].matrix.encode(frame, rows) for k, _ in self.carried}
        carried = [matrices[k][:, [j]] for k, j in self.carried]
        hidden = [matrix.encode(frame, rows) for matrix in self.hidden]
        table = _table([fixed, *_lines(self.curves, values), *_bends(self.curves, values), *carried, *hidden])
        _require_finite(table, self.plan.names, rows)
        return Encoded(table, levels, self.linear.open(table, masks, rows))


def learn(parts: FormulaParts, frame: "pd.DataFrame", weights: Array, standardize: bool) -> tuple[Reader, Encoded]:
    """Learn how the formula's columns are encoded, and encode the data; the frame's index numbers rows in errors."""
    reader, centred, table, levels = _learn(parts, frame, weights, standardize, NOTHING)
    if missing_masks(frame):
        del table
        encoded = reader.encode(frame)
    else:
        _require_finite(table, reader.plan.names, frame.index)
        encoded = Encoded(table, levels)
    if encoded.candidates is not None:  # the candidates of a row share its weight
        weights = encoded.candidates.shared(weights)
    ranges = column_ranges(encoded.table, weights)
    intercept = reader.plan.recipe.intercept
    return reader.scaled(learn_recipe(encoded.table, weights, ranges, intercept, standardize, centred)), encoded


def learn_from(
    parts: FormulaParts, frame: "pd.DataFrame", standardize: bool, known: Known
) -> tuple[Reader, NDArray[np.bool_]]:
    """Learn from some rows, and what is known of all; give a reader without scales, and which columns are centred."""
    reader, centred, _, _ = _learn(parts, frame, np.ones(len(frame)), standardize, known)
    counts = tuple(known.totals[name] for name in reader.categories.names)
    return replace(reader, categories=replace(reader.categories, counts=counts)), centred


def _learn(
    parts: FormulaParts, frame: "pd.DataFrame", weights: Array, standardize: bool, known: Known
) -> tuple[Reader, NDArray[np.bool_], Array, tuple[NDArray[np.intp], ...]]:
    """The reader without scales, which columns are centred, and the table and levels of the frame's rows."""
    given, masks = frame, missing_masks(frame)
    frame = fill(frame, masks, {name: reference_of(frame[name], name) for name in masks})
    fixed = _learn_fixed(parts, frame, known)
    groups = _learn_groups(parts.groups, frame, known)
    plans, carried = _plan_factors(fixed, groups, standardize)

    n_fixed, n_splines = len(fixed.names), len(fixed.names) - len(fixed.keys)
    carried_factors = [groups.effects[i].matrix.factors[j] for i, j in carried.values()]
    factors_of = [*(factors for _, factors in fixed.keys), *[()] * n_splines, *carried_factors]
    matrices = (fixed.matrix, *(of_term.matrix for of_term in groups.effects))
    categorical = {one for matrix in matrices for one in matrix.categorical}
    linear, alone = learn_linear(parts, frame, factors_of, categorical, masks)
    categories, uncertain = _learn_categories(given, categorical, factors_of, linear, weights)
    hidden = [Matrix.learn(f"0 + {_quoted(expression, frame)}", frame) for expression in alone]
    mains = [k for k, factors in enumerate(factors_of[:n_fixed]) if len(factors) == 1 and k not in uncertain]
    mains += [variable.place for variable in linear.variables if variable.place >= n_fixed]

    names = (*fixed.names, *(name for (name, _), _ in carried), *alone)
    unscaled = Recipe(np.zeros(len(names)), np.ones(len(names)), fixed.intercept)
    table = _table(
        [*fixed.pieces, *(groups.values[i][:, [j]] for i, j in carried.values()), *(own for _, own in hidden)]
    )
    reader = Reader(
        parts=parts,
        fixed=fixed.matrix,
        curves=fixed.curves,
        effects=tuple(groups.effects),
        carried=tuple(carried.values()),
        hidden=tuple(matrix for matrix, _ in hidden),
        linear=linear.referring(frame, [table[:, variable.place] for variable in linear.variables]),
        categories=categories,
        mains=tuple(mains),
        uncertain=uncertain,
        plan=Plan(unscaled, names, fixed.n_shown, plans, len(carried) + len(alone)),
        kinds={str(name): str(frame[name].dtype.kind) for name in frame.columns},
    )
    centred = [fixed.intercept] * n_fixed + [of_column for _, of_column in carried] + [True] * len(alone)
    return reader, np.array(centred, dtype=bool), table, groups.levels


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """What is learned of fixed effects and splines: names and pieces of the table's columns, without the intercept.

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
    def keys(self) -> list[_Key]:
        """What each column of the matrix is."""
        return _keys(self.matrix)[int(self.intercept) :]


def _learn_fixed(parts: FormulaParts, frame: "pd.DataFrame", known: Known) -> _Fixed:
    matrix, F = Matrix.learn(parts.fixed, frame, known.transforms)
    if not matrix.names and not parts.splines and not parts.groups:
        raise FormulaError(f"The formula {parts.text!r} has nothing on the right of ~ to fit.")
    first = int(matrix.has_intercept)
    pairs = [_learn_curve(term, frame, _keys(matrix)[first:], known) for term in parts.splines]
    curves, values = tuple(curve for curve, _ in pairs), [of_curve for _, of_curve in pairs]
    _require_different(curves)
    shown = [*matrix.names[first:], *(f"{curve.term} line" for curve in curves if curve.with_line)]
    names = shown + [f"{curve.term} bend {j + 1}" for curve in curves for j in range(curve.spline.n_columns)]
    for name in names:
        if names.count(name) > 1:
            raise FormulaError(f"Two fixed effects are called {name}: rename the column of that name.")
    return _Fixed(matrix, curves, names, len(shown), [F[:, first:], *_lines(curves, values), *_bends(curves, values)])


# A column that only groups' effects multiply: what it is, and whether it is centred.
_Carried = tuple[_Key, bool]


def _plan_factors(
    fixed: _Fixed, groups: "_Groups", standardize: bool
) -> tuple[tuple[FactorPlan, ...], dict[_Carried, tuple[int, int]]]:
    """Which design columns multiply the effects of each factor; and those that no fixed effect has.

    Of each of the latter the place: whose effects, and which column of their matrix.
    """
    first = int(fixed.intercept)
    shared = {key: j + first for j, key in enumerate(fixed.keys)}
    carried: dict[_Carried, tuple[int, int]] = {}
    planned = []
    for k, (columns, labels, effect_names) in enumerate(groups.factors):
        centred = standardize and INTERCEPT in effect_names
        slopes = []
        for place, name in enumerate(effect_names):
            of_effect, column = _where(groups.effects, k, place)
            key = _keys(groups.effects[of_effect].matrix)[column]
            if name == INTERCEPT and fixed.intercept:
                slopes.append(0)
            elif key in shared and centred == (standardize and fixed.intercept):
                slopes.append(shared[key])
            else:
                key = (key, centred and name != INTERCEPT)
                carried.setdefault(key, (of_effect, column))
                slopes.append(len(fixed.names) + first + list(carried).index(key))
        planned.append(FactorPlan(columns, labels, tuple(effect_names), tuple(slopes)))
    return tuple(planned), carried


def _learn_categories(
    frame: "pd.DataFrame",
    categorical: set[str],
    factors_of: list[tuple[str, ...]],
    linear: Linear,
    weights: Array,
) -> tuple[Categories, tuple[int, ...]]:
    """Columns that are categories and may be missing; and columns of the table that depend on one that is."""
    names = list(frame.columns)
    columns = {one: columns_in(one, names) for one in categorical}
    chosen = sorted({name for of_factor in columns.values() for name in of_factor} - linear.reasons.keys())
    missing = {name for name in chosen if bool(frame[name].isna().any())}
    uncertain = tuple(
        k for k, factors in enumerate(factors_of) if any(missing & set(columns.get(one, ())) for one in factors)
    )
    return Categories.learn(frame, chosen, weights), uncertain


def _keys(matrix: Matrix) -> list[_Key]:
    """What each column is: its name, which a column of the data may have too, and its factors."""
    return list(zip(matrix.names, matrix.factors, strict=True))


def _quoted(expression: str, frame: "pd.DataFrame") -> str:
    """A factor as a formula has it: names that are no words stand in backticks."""
    return f"`{expression}`" if expression in frame.columns and not expression.isidentifier() else expression


def _require_different(curves: tuple[Curve, ...]) -> None:
    for i, curve in enumerate(curves):
        for other in curves[:i]:
            if _keys(curve.values) == _keys(other.values):
                raise FormulaError(f"{other.term} and {curve.term} are curves of the same values: keep one.")


def _learn_curve(term: SplineTerm, frame: "pd.DataFrame", lines: list[_Key], known: Known) -> tuple[Curve, Array]:
    matrix, values = Matrix.learn(f"0 + {term.expression}", frame)
    if values.shape[1] != 1 or any("categories" in state for _, state in matrix.spec.encoder_state.values()):
        raise FormulaError(f"{term} needs one column of numbers.")
    _require_finite(values, tuple(matrix.names), frame.index)
    spline = known.splines.get(term)
    if spline is None:
        with explained(term):
            spline = Spline.learn(values[:, 0], term.size)
    return Curve(term, matrix, spline, _keys(matrix)[0] not in lines), values


@contextmanager
def explained(term: SplineTerm) -> Iterator[None]:
    """Say which spline can't be learned, and what to do."""
    try:
        yield
    except ValueError as error:
        raise FormulaError(f"{term}: {error} Take the column itself, or C(…) of it.") from error


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """What is learned of the group terms: columns, levels and effects' names of each factor, and each row's level.

    ``effects`` are those of each term, ``values`` the columns that multiply them.
    """

    factors: list[tuple[tuple[str, ...], Levels, list[str]]]
    levels: tuple[NDArray[np.intp], ...]
    effects: list[Effects]
    values: list[Array]


def _learn_groups(groups: tuple[GroupTerm, ...], frame: "pd.DataFrame", known: Known) -> _Groups:
    """Terms of the same groups make one factor; the factor with the most effects comes last."""
    by_columns: dict[frozenset[str], list[GroupTerm]] = {}
    for term in groups:
        by_columns.setdefault(frozenset(term.columns), []).append(term)
    found = []
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
        levels, numbers = Levels.learn(_labels(frame, columns))
        levels = known.levels.get(columns, levels)
        found.append((columns, levels, names, numbers, members))
    found.sort(key=lambda factor: len(factor[1]) * len(factor[2]))
    effects, learned = [], []
    for k, (*_, members) in enumerate(found):
        for term, matrix, values, places in members:
            effects.append(Effects(term, matrix, k, places))
            learned.append(values)
    return _Groups([factor[:3] for factor in found], tuple(factor[3] for factor in found), effects, learned)


def _where(effects: list[Effects], factor: int, place: int) -> tuple[int, int]:
    """Which column of which effects' matrix is this effect of the factor."""
    for i, of_term in enumerate(effects):
        if of_term.factor == factor and place in of_term.places:
            return i, of_term.places.index(place)
    raise AssertionError("every effect of a factor belongs to a term")


def _lines(curves: tuple[Curve, ...], values: list[Array]) -> list[Array]:
    return [of_curve for curve, of_curve in zip(curves, values, strict=True) if curve.with_line]


def _bends(curves: tuple[Curve, ...], values: list[Array]) -> list[Array]:
    return [curve.spline.encode(of_curve[:, 0]) for curve, of_curve in zip(curves, values, strict=True)]


def _table(pieces: list[Array]) -> Array:
    """Pieces side by side, stored by columns as the passes read them."""
    table = np.empty((sum(piece.shape[1] for piece in pieces), len(pieces[0]))).T
    return np.concatenate(pieces, axis=1, out=table)


def _labels(frame: "pd.DataFrame", columns: tuple[str, ...]) -> list[NDArray[Any]]:
    """Labels of a factor's columns: numbers, or text."""
    return [group_labels(frame[name].to_numpy(), name, frame.index) for name in columns]


def _require_finite(table: Array, names: tuple[str, ...], rows: "pd.Index | NDArray[np.intp]") -> None:
    """Refuse a transform that gives no finite number, such as the log of zero; ``rows`` numbers the rows in errors."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = table.sum(axis=0)
    for k in np.flatnonzero(~np.isfinite(sums)):
        finite = np.isfinite(table[:, k])
        if not finite.all():
            row = int(np.argmin(finite))
            n_others = int((~finite).sum()) - 1
            others = f", and not finite in {n_others} other rows" if n_others else ""
            raise ValueError(
                f"{names[k]} is {table[row, k]} in row {rows[row]}{others}: change the transform, or leave such rows "
                "out."
            )
