"""Columns of a formula: parts that formulaic encodes, and penalised splines; learned once, and applied to new data.

Splines are cubic B-splines B with the penalty P = ∫ B″B″ᵀ, rotated so that their prior is independent and identical:
with P = U diag(d) Uᵀ the curve is a straight line plus Z u with Z = B U₊ d₊^(−½), and αᵀPα = ‖u‖², so that the penalty
of its bending is the ridge of u. (Wand & Ormerod 2008 call them O'Sullivan splines.)
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from formulaic import ModelSpec
from formulaic.errors import FormulaicError
from formulaic.formula import SimpleFormula
from formulaic.materializers import NAAction
from formulaic.parser.types import Factor
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from vbsvm.base.arrays import Array
from vbsvm.base.printing import ignore_warnings
from vbsvm.design.columns import INTERCEPT
from vbsvm.design.formula.missing_inputs import columns_in
from vbsvm.design.formula.sandbox import MAX_DEGREE, MAX_SETTING, width_of
from vbsvm.design.formula.terms import FormulaError, clipped, parse_terms
from vbsvm.design.values import did_you_mean, shown

if TYPE_CHECKING:
    import pandas as pd

# In addition to formulaic's own; the names that a formula may call are listed in ``formula.sandbox``.
_CONTEXT = {"sqrt": np.sqrt, "log1p": np.log1p, "expm1": np.expm1, "abs": np.abs, "sin": np.sin, "cos": np.cos}
_CONTEXT |= {"tanh": np.tanh, "exp10": lambda x: np.power(10.0, x)}  # formulaic's exp10 is the tenth power
# What formulaic, NumPy and pandas raise where a formula does not fit the data.
_FAILURES = (FormulaicError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
# The model holds matrices of columns × columns.
MAX_COLUMNS = 10_000
# Name and factors of a column.
ColumnKey = tuple[str, tuple[str, ...]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A part of the formula that formulaic encodes."""

    formula: str
    spec: ModelSpec

    @staticmethod
    def learn(
        formula: str, frame: "pd.DataFrame", transforms: Mapping[str, Mapping[str, Any]] | None = None
    ) -> tuple["Matrix", Array]:
        """Learn contrasts and transforms; given states of transforms are reused."""
        _check_n_columns(formula, frame, {})
        states: dict[str, Any] = {}
        for one in _evaluated(formula):
            if transforms and one in transforms:
                states |= transforms[one]
            elif width_of(one) > len(frame) + 2 * MAX_DEGREE:
                raise FormulaError(
                    f"{one} has more columns than the data have rows ({len(frame)}): use a smaller df, or a smooth "
                    "term such as s(x), whose flexibility is inferred."
                )
        calculable, spec = _calculable(formula, frame), _spec(formula, states, {})
        with ignore_warnings(Warning):  # of levels that are unknown, which are refused below
            encoded = _formulaic(spec, calculable)
        found = Matrix(formula, encoded.model_spec)
        for expression, name, row, known in found._unknown(frame):
            raise FormulaError(
                f"{expression} leaves out {str(frame[name].iloc[row])!r}, which column {name!r} contains in row "
                f"{frame.index[row]}; its levels are {_listed(known)}. Name all levels, or leave such rows out."
            )
        return found, np.asarray(encoded, dtype=np.float64)

    @property
    def learned(self) -> dict[str, Any]:
        """Plain values of the learned state: transforms, and levels of categories."""
        categories = {str(key): state["categories"] for key, (_, state) in self.spec.encoder_state.items() if state}
        return {"transforms": deepcopy(self.spec.transform_state), "categories": categories}

    @staticmethod
    def from_learned(formula: str, learned: Mapping[str, Any], row: "pd.DataFrame") -> "Matrix":
        """Restore it from the formula and the learned state; ``row`` has the data's types.

        The formula must have gone through the guard.
        """
        _check_n_columns(formula, row, learned["categories"])
        categories = {
            key: (Factor.Kind.CATEGORICAL, {"categories": list(levels)})
            for key, levels in learned["categories"].items()
        }
        spec, calculable = _spec(formula, learned["transforms"], categories), _calculable(formula, row)
        with ignore_warnings(Warning):  # of a row without any of the levels
            matrix = Matrix(formula, _formulaic(spec, calculable).model_spec)
        if any(matrix.learned[part].keys() != learned[part].keys() for part in ("categories", "transforms")):
            raise FormulaError(f"What was learned of {formula!r} does not belong to it.")
        return matrix

    def encode(self, frame: "pd.DataFrame", rows: NDArray[np.intp]) -> Array:
        """Encode new data; ``rows`` numbers the rows in errors."""
        for _, name, row, known in self._unknown(frame):
            value = frame[name].iloc[row]
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            hint = (
                hint or f" Recode it, or leave such rows out; a random effect, (1 | {name}), would accept new levels."
            )
            raise ValueError(
                f"Column {name!r} contains {shown(value)} in row {rows[row]}, a category that was not seen in fit; "
                f"there were {_listed(known)}.{hint}"
            )
        # formulaic writes into the state that it is given, also when it fails.
        spec = self.spec.update(
            encoder_state=deepcopy(self.spec.encoder_state), transform_state=deepcopy(self.spec.transform_state)
        )
        return np.asarray(_formulaic(spec, _calculable(self.formula, frame)), dtype=np.float64)

    def _unknown(self, frame: "pd.DataFrame") -> Iterator[tuple[str, str, int, Sequence[Any]]]:
        """New levels of categories: expression, column and row of the first of each column, and the known levels."""
        for expression, (_, state) in self.spec.encoder_state.items():
            if "categories" in state:
                name = columns_in(str(expression), list(frame.columns))[0]
                unknown = ~frame[name].isin(state["categories"]).to_numpy()
                if unknown.any():
                    yield str(expression), name, int(np.argmax(unknown)), state["categories"]

    @property
    def names(self) -> list[str]:
        """Column names."""
        return [INTERCEPT if name == "Intercept" else name for name in self.spec.column_names]

    @property
    def factors(self) -> list[tuple[str, ...]]:
        """Factors of each column."""
        columns: list[tuple[str, ...]] = [()] * len(self.spec.column_names)
        for term, place in self.spec.term_slices.items():
            for column in range(place.start, place.stop):
                columns[column] = tuple(str(factor.expr) for factor in term.factors)
        return columns

    @property
    def categorical(self) -> list[str]:
        """Categorical expressions."""
        return [str(expression) for expression, (_, state) in self.spec.encoder_state.items() if "categories" in state]

    @property
    def keys(self) -> list[ColumnKey]:
        """Key of each column: name and factors."""
        return list(zip(self.names, self.factors, strict=True))

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is the intercept."""
        return self.names[:1] == [INTERCEPT]

    @property
    def first(self) -> int:
        """Index of the first column other than the intercept."""
        return int(self.has_intercept)

    @property
    def terms(self) -> dict[str, slice]:
        """Columns of each term, without the intercept."""
        return {str(term): place for term, place in self.spec.term_slices.items() if str(term) != "1"}


def _listed(levels: Sequence[Any]) -> str:
    return ", ".join(map(shown, levels[:12]))


def _evaluated(formula: str) -> list[str]:
    """Expressions that are evaluated, other than plain column names."""
    factors = (factor for term in parse_terms(formula) for factor in term.factors)
    return list(dict.fromkeys(factor.expr for factor in factors if factor.eval_method is Factor.EvalMethod.PYTHON))


def _calculable(formula: str, frame: "pd.DataFrame") -> "pd.DataFrame":
    """The frame with floats in columns of calculations, not of categories: small integers would wrap around."""
    columns = {expression: columns_in(expression, list(frame.columns)) for expression in _evaluated(formula)}
    labels = {name for expression, names in columns.items() if expression.startswith("C(") for name in names}
    used = {name for names in columns.values() for name in names} - labels
    narrow = [name for name in used if frame[name].dtype.kind in "iuf" and frame[name].dtype != np.float64]
    return frame.astype(dict.fromkeys(narrow, np.float64)) if narrow else frame


def _check_n_columns(formula: str, frame: "pd.DataFrame", categories: Mapping[str, Sized]) -> None:
    """Raise if there would be too many columns; levels not in ``categories`` are counted in the frame."""
    widths: dict[str, int] = {}
    total = 0
    for term in parse_terms(formula):
        expressions = [str(one.expr) for one in term.factors if one.eval_method is not Factor.EvalMethod.LITERAL]
        widths |= {one: _width(one, frame, categories) for one in expressions if one not in widths}
        columns = prod(widths[expression] for expression in expressions)
        total += columns
        if total > MAX_COLUMNS:
            raise FormulaError(
                f"{clipped(formula)} has more than {MAX_COLUMNS} columns: {term} alone has {columns}. Merge levels, "
                "or use a random effect such as (1 | a:b), whose levels may be many."
            )


def _width(expression: str, frame: "pd.DataFrame", categories: Mapping[str, Sized]) -> int:
    """Maximum number of columns of an expression."""
    is_column = expression in frame.columns
    if expression in categories:
        size = len(categories[expression])
    elif is_column and frame[expression].dtype.kind in "biuf":
        return 1
    elif is_column or expression.startswith("C("):
        size = len(frame[columns_in(expression, list(frame.columns))[0]].unique())
    else:
        return width_of(expression)
    if size > MAX_SETTING and "contr." in expression and "contr.treatment" not in expression:
        raise FormulaError(f"{expression} has {size} levels; contrasts but contr.treatment take {MAX_SETTING}.")
    return size


def _spec(formula: str, transforms: Mapping[str, Any], encoders: dict[str, Any]) -> ModelSpec:
    """A formulaic ModelSpec with what is known of it."""
    return ModelSpec(
        formula=cast(SimpleFormula, SimpleFormula.from_spec(formula)),
        output="numpy",
        na_action=NAAction.IGNORE,
        transform_state=deepcopy(dict(transforms)),
        encoder_state=encoders,
    )


def _formulaic(spec: ModelSpec, frame: "pd.DataFrame") -> Any:
    """Call formulaic; explain its errors."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is named by its row later
            return spec.get_model_matrix(frame, context=_CONTEXT)
    except _FAILURES as error:
        raise FormulaError(_explain(str(error), frame)) from error


def _explain(said: str, frame: "pd.DataFrame") -> str:
    """Explain why formulaic can't evaluate a checked formula."""
    match = re.search(r"Unable to evaluate factor `(.*?)`\. \[", said, re.DOTALL)
    expression = match[1] if match else ""
    what = clipped(expression) if match else "The formula"
    base = re.search(r"Value `(.*)` for .*\.base", said)
    if base:
        return f"{base[1]} is the reference of a category in the formula, and is not one of its levels."
    if "extend beyond" in said:
        return (
            f"{what} has values beyond its boundary knots: write extrapolation='clip' or 'extend' in it, or take "
            "s(…), which extrapolates linearly."
        )
    for name in columns_in(expression, list(frame.columns)) if match else ():
        if frame[name].dtype.kind not in "biuf":
            return f"{what} calculates with column {name!r}, which is not numeric: use C({name})."
    if "ufunc 'invert'" in said or "for |" in said or "for &" in said:
        return f"{what}: ~, & and | join comparisons, as in (a > 1) & (b > 2)."
    return f"{what} can't be computed from the data: check its settings, and that its columns vary."


DEGREE = 3
MIN_DISTINCT = 4


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """Knots and rotation of a penalised spline; linear beyond the range of the data."""

    low: float
    width: float
    knots: Array
    rotation: Array

    @staticmethod
    def learn(x: Array, k: int) -> "Spline":
        """Place knots at quantiles of the distinct values: k − 4 inside, fewer for few distinct values."""
        distinct = np.unique(x)
        if len(distinct) < MIN_DISTINCT:
            raise ValueError(f"a spline needs at least {MIN_DISTINCT} distinct values; there are {len(distinct)}.")
        low, width = float(distinct[0]), float(distinct[-1] - distinct[0])
        n_inside = max(0, min(k, len(distinct)) - DEGREE - 1)
        inside = np.quantile((distinct - low) / width, np.linspace(0, 1, n_inside + 2)[1:-1])
        knots = np.concatenate([np.zeros(DEGREE + 1), inside, np.ones(DEGREE + 1)])
        # The constant and the line have no penalty; they are known exactly and projected out first, as rounding hides
        # them for very uneven knots.
        n_basis = len(knots) - DEGREE - 1
        greville = np.stack([knots[j + 1 : j + 1 + n_basis] for j in range(DEGREE)]).mean(axis=0)
        lines = np.stack([np.ones(n_basis), greville], axis=1)
        rest = np.linalg.qr(lines, mode="complete").Q[:, 2:]
        _, bends, directions = np.linalg.svd(_bending_root(knots) @ rest, full_matrices=False)
        rotation = rest @ (directions.T / bends)
        curves = BSpline.design_matrix((distinct - low) / width, knots, DEGREE).toarray() @ rotation
        return Spline(low, width, knots, rotation / np.sqrt(np.square(curves).sum(axis=1).mean()))

    @property
    def n_columns(self) -> int:
        """Number of columns of the basis Z."""
        return self.rotation.shape[1]

    def encode(self, x: Array) -> Array:
        """Evaluate the basis Z."""
        t = (x - self.low) / self.width
        inside = np.clip(t, 0.0, 1.0)
        Z = BSpline.design_matrix(inside, self.knots, DEGREE).toarray() @ self.rotation
        if (outside := t != inside).any():
            ends = BSpline(self.knots, self.rotation, DEGREE).derivative()(inside[outside])
            with np.errstate(over="ignore"):  # who encodes looks for values that are not finite
                Z[outside] += (t - inside)[outside, None] * ends
        return Z


def _bending_root(knots: Array) -> Array:
    """A square root of ∫ B″B″ᵀ, exact by Simpson's rule between knots."""
    n_basis = len(knots) - DEGREE - 1
    second = BSpline(knots, np.eye(n_basis), DEGREE).derivative(2)
    left, right = knots[DEGREE:-DEGREE][:-1], knots[DEGREE:-DEGREE][1:]
    # A knot belongs to the piece on its right; so each piece is evaluated inside its ends and extrapolated.
    points = np.stack([left + f * (right - left) for f in (0.25, 0.75)])
    at = second(points)
    ends = np.stack([1.5 * at[0] - 0.5 * at[1], 1.5 * at[1] - 0.5 * at[0]])
    middle = 0.5 * (at[0] + at[1])
    pieces = np.concatenate([ends[0], middle, ends[1]])
    weights = np.concatenate([right - left, 4 * (right - left), right - left]) / 6
    return np.sqrt(weights)[:, None] * pieces
