"""Predictors that enter a formula linearly, so that they may be missing.

A numeric factor of a formula, such as log(chol), may miss values where its column of the design is the factor itself or
a product of it and known factors. What a unit of it adds to such a product is read off by evaluating the formula at a
reference value: the product there, divided by the factor there.
"""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.formula.sandbox import columns_of
from vbsvm.design.formula.syntax import FormulaParts

if TYPE_CHECKING:
    import pandas as pd

# Their state would be learned from values that are missing.
STATEFUL = ("center", "scale", "standardize")


@final
@dataclass(frozen=True, eq=False)
class Variable:
    """A numeric factor: its expression, its data columns, and its own column in the table.

    ``links`` are the other columns of the table that it multiplies.
    """

    expression: str
    columns: tuple[str, ...]
    place: int
    links: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Linear:
    """All factors that may be missing, reference values of the data's columns, and why others may not."""

    variables: tuple[Variable, ...]
    reference: dict[str, Any]  # text where the column holds categories
    reasons: dict[str, str]

    @property
    def links(self) -> list[tuple[int, int]]:
        """Table column and variable number of every product that contains a variable."""
        return [(column, k) for k, variable in enumerate(self.variables) for column in variable.links]

    def with_references(self, frame: "pd.DataFrame", values: Sequence[Array]) -> "Linear":
        """Set reference values at which no variable is 0, as products are divided by them.

        They are taken from the row in which the variable is furthest from 0.
        """
        reference, reasons = dict(self.reference), dict(self.reasons)
        for variable, column in zip(self.variables, values, strict=True):
            size = np.where(np.isfinite(column), np.abs(column), 0.0)
            row = int(size.argmax())
            if size[row] > 0:
                reference |= {name: _scalar(frame[name].iloc[row]) for name in variable.columns}
            elif (variable.expression,) == variable.columns:
                reference[variable.expression] = 1.0
            elif variable.links:
                reason = f"enters by products with {variable.expression}, which is 0 in every row: leave them out."
                reasons |= dict.fromkeys(variable.columns, reason)
        return replace(self, reference=reference, reasons=reasons)

    def fill(
        self, frame: "pd.DataFrame", masks: dict[str, NDArray[np.bool_]], rows: NDArray[np.intp]
    ) -> "pd.DataFrame":
        """Fill missing values with reference values; raise for columns that do not enter linearly.

        Where a variable misses one of its columns, the others get their reference too. ``rows`` numbers them in errors.
        """
        for name, missing in masks.items():
            if name in self.reasons:
                incomplete_rows = np.unique(rows[missing])
                first_row = incomplete_rows[0]
                others = _and_others(len(incomplete_rows), len(np.unique(rows)))
                raise ValueError(
                    f"Column {name!r} has no value in row {first_row}{others}, and {self.reasons[name]} Values are "
                    "drawn for it in a fit of rows in memory that misses some, unless GaussianImputation has a "
                    "mechanism or labels='likelihood'. Else fill them in, or leave such rows out, as "
                    "Model(…, missing='drop') does."
                )
        all_masks = dict(masks)
        for variable, missing in zip(self.variables, self._missing(masks), strict=True):
            all_masks |= {} if missing is None else dict.fromkeys(variable.columns, missing)
        return fill(frame, all_masks, self.reference)

    def both_factors_missing(self, masks: dict[str, NDArray[np.bool_]]) -> set[str]:
        """Columns of products with both factors missing in some row: nonlinear in what is missing."""
        names = set[str]()
        pairs = combinations(zip(self.variables, self._missing(masks), strict=True), 2)
        for (left, mask), (right, other) in pairs:
            if mask is not None and other is not None and (mask & other).any() and set(left.links) & set(right.links):
                names |= {*left.columns, *right.columns}
        return names

    def _missing(self, masks: dict[str, NDArray[np.bool_]]) -> list[NDArray[np.bool_] | None]:
        return [_any([masks.get(name) for name in variable.columns]) for variable in self.variables]

    def insert_missing(self, table: Array, masks: dict[str, NDArray[np.bool_]], rows: NDArray[np.intp]) -> Array | None:
        """Write NaN into the table where a variable is missing; return the multipliers (rows × links) or None.

        None if nothing is missing. The table was encoded with reference values for missing values.
        """
        if not masks:
            return None
        missing = self._missing(masks)
        multipliers = np.zeros((len(table), len(self.links)))
        masked: dict[int, NDArray[np.bool_]] = {}
        for j, (column, k) in enumerate(self.links):
            if (mask := missing[k]) is not None:
                if column in masked and (both := masked[column] & mask).any():
                    incomplete_rows = np.unique(rows[both])
                    others = _and_others(len(incomplete_rows), len(np.unique(rows)))
                    raise ValueError(
                        f"Row {incomplete_rows[0]}{others} has missing values in both factors of an interaction with "
                        f"{self.variables[k].expression}: their product is not normal. Leave such rows out, as "
                        "Model(…, missing='drop') does."
                    )
                masked[column] = masked.get(column, False) | mask
                with np.errstate(divide="ignore", invalid="ignore"):
                    multipliers[mask, j] = table[mask, column] / table[mask, self.variables[k].place]
        for column, mask in masked.items():
            table[mask, column] = np.nan
        for variable, mask in zip(self.variables, missing, strict=True):
            if mask is not None:
                table[mask, variable.place] = np.nan
        return multipliers


def missing_masks(frame: "pd.DataFrame") -> dict[str, NDArray[np.bool_]]:
    """Masks of missing values of the incomplete columns."""
    masks = {str(name): frame[name].isna().to_numpy() for name in frame.columns}
    return {name: missing for name, missing in masks.items() if missing.any()}


def fill(frame: "pd.DataFrame", masks: dict[str, NDArray[np.bool_]], reference: dict[str, Any]) -> "pd.DataFrame":
    """The frame with reference values in place of missing ones."""
    if not masks:
        return frame
    filled = {name: frame[name].where(~missing, reference[name]) for name, missing in masks.items()}
    numeric = {name: column.astype(np.float64) for name, column in filled.items() if type(reference[name]) is float}
    return frame.assign(**{**filled, **numeric})


def filled_by_others(frame: "pd.DataFrame", names: Sequence[str]) -> "pd.DataFrame":
    """The frame with missing values of these columns replaced by observed ones, in turn."""
    filled = {}
    for name in names:
        values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan).copy()
        missing = np.isnan(values)
        values[missing] = np.resize(values[~missing], int(missing.sum()))
        filled[name] = values
    return frame.assign(**filled)


def reference_of(column: Any, name: str) -> Any:
    """Reference value of a column: the one furthest from 0, or the first label."""
    known = column.dropna()
    if not len(known):
        raise ValueError(f"Column {name!r} has no value in any row. Drop it.")
    if column.dtype.kind not in "biuf":
        return known.iloc[0]
    return float(known.iloc[int(np.abs(known.to_numpy(dtype=float)).argmax())])


def _and_others(count: int, n_rows: int) -> str:
    """Count of rows like the one named in an error."""
    return f" (one of {count} such rows of {n_rows})" if count > 1 else ""


def _scalar(value: Any) -> Any:
    """A value in a type that model files know."""
    return float(value) if isinstance(value, numbers.Real | np.bool_) else value


def _any(masks: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_] | None:
    present = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(present) if present else None


def learn_linear(
    parts: FormulaParts,
    frame: "pd.DataFrame",
    factors_of: list[tuple[str, ...]],
    categorical: set[str],
    masks: dict[str, NDArray[np.bool_]],
) -> tuple[Linear, list[str]]:
    """Find the factors that may be missing, and those that need their own column for that."""
    names, expressions = list(frame.columns), list(dict.fromkeys(chain.from_iterable(factors_of)))
    uses: dict[str, list[str]] = {}
    for expression in (*expressions, *(f"s({term.expression})" for term in parts.splines)):
        inner = expression[2:-1] if expression not in expressions else expression
        for name in columns_in(inner, names):
            uses.setdefault(name, []).append(expression)
    variables, own_columns, reasons = [], [], {}
    for expression in expressions:
        columns = tuple(dict.fromkeys(columns_in(expression, names)))
        places = [k for k, factors in enumerate(factors_of) if factors == (expression,)]
        if expression in categorical:
            continue  # a row that misses it is expanded to candidates
        reason = _why_not(expression, columns, uses, len(places))
        if reason is None and not places:
            if masks.keys() & set(columns):
                places = [len(factors_of) + len(own_columns)]
                own_columns.append(expression)
            else:
                reason = f"it was known in fit, and enters by products alone: {expression}."
        if reason is not None:
            reasons |= dict.fromkeys(columns, reason)
            continue
        links = [k for k, factors in enumerate(factors_of) if expression in factors and k != places[0]]
        variables.append(Variable(expression, columns, places[0], tuple(links)))
    for term in parts.splines:
        reasons |= dict.fromkeys(
            columns_in(term.expression, names), f"enters by {term}: a missing input must enter linearly."
        )
    return Linear(tuple(variables), {name: reference_of(frame[name], name) for name in names}, reasons), own_columns


def _why_not(expression: str, columns: tuple[str, ...], uses: dict[str, list[str]], n_places: int) -> str | None:
    """Why a factor may not be missing, or None if it may."""
    function = expression.split("(", maxsplit=1)[0].strip()
    several = next((uses[name] for name in columns if len(set(uses[name])) > 1), None)
    if not columns:
        return "it is a constant."
    if several is not None:
        return (
            f"occurs in several expressions ({', '.join(dict.fromkeys(several))}): a missing input must enter linearly."
        )
    if function in STATEFUL:
        return f"enters by {expression}: write the column itself, which is standardised inside the fit."
    if n_places > 1:
        return f"enters by {expression}, which has several columns: a missing input must enter linearly."
    return None


def columns_in(expression: str, names: list[str]) -> list[str]:
    """Data columns in a factor as formulaic names it: a bare column name may look like code."""
    return [expression] if expression in names else columns_of(expression, names)
