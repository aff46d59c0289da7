"""Predictors that may be missing: those that enter a formula linearly, and categories.

A numeric factor of a formula, such as log(chol), may miss values where its column of the design is the factor itself or
a product of it and known factors. What a unit of it adds to such a product is read off by evaluating the formula at a
reference value: the product there, divided by the factor there. A row that misses a category is expanded to candidates.
"""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations
from operator import or_
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import MAX_CANDIDATES, Candidates
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
                of_row = {name: frame[name].iloc[row] for name in variable.columns}
                reference |= {
                    name: float(value) if isinstance(value, numbers.Real | np.bool_) else value
                    for name, value in of_row.items()
                }
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
                raise ValueError(
                    f"Column {name!r} has no value in row {_first_of(missing, rows)}, and {self.reasons[name]} Values "
                    "are drawn for it in a fit of rows in memory that misses some, unless GaussianImputation has a "
                    "mechanism or labels='likelihood'. Else fill them in, or leave such rows out, as "
                    "Model(…, missing='drop') does."
                )
        of_variables = [dict.fromkeys(self.variables[k].columns, mask) for k, mask in self._missing(masks).items()]
        return fill(frame, reduce(or_, of_variables, masks), self.reference)

    def both_factors_missing(self, masks: dict[str, NDArray[np.bool_]]) -> set[str]:
        """Columns of products with both factors missing in some row: nonlinear in what is missing."""
        names = set[str]()
        for (k, mask), (other, other_mask) in combinations(self._missing(masks).items(), 2):
            left, right = self.variables[k], self.variables[other]
            if (mask & other_mask).any() and set(left.links) & set(right.links):
                names |= {*left.columns, *right.columns}
        return names

    def _missing(self, masks: dict[str, NDArray[np.bool_]]) -> dict[int, NDArray[np.bool_]]:
        """Masks of missing values of the incomplete variables, by their numbers."""
        of_columns = {k: [masks[name] for name in one.columns if name in masks] for k, one in enumerate(self.variables)}
        return {k: np.logical_or.reduce(missing) for k, missing in of_columns.items() if missing}

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
            if (mask := missing.get(k)) is not None:
                if column in masked and (both := masked[column] & mask).any():
                    raise ValueError(
                        f"Row {_first_of(both, rows)} has missing values in both factors of an interaction with "
                        f"{self.variables[k].expression}: their product is not normal. Leave such rows out, as "
                        "Model(…, missing='drop') does."
                    )
                masked[column] = masked.get(column, False) | mask
                with np.errstate(divide="ignore", invalid="ignore"):
                    multipliers[mask, j] = table[mask, column] / table[mask, self.variables[k].place]
        masked |= {self.variables[k].place: mask for k, mask in missing.items()}
        for column, mask in masked.items():
            table[mask, column] = np.nan
        return multipliers


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """Categorical columns that may be missing: their levels and level weights in fit."""

    names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    counts: tuple[NDArray[np.float64], ...]

    @staticmethod
    def learn(frame: "pd.DataFrame", names: list[str], weights: NDArray[np.float64]) -> "Categories":
        """The levels that occur, with total weights."""
        levels, counts = [], []
        for name in names:
            known = frame[name].notna().to_numpy()
            values, codes = np.unique(np.asarray(frame[name])[known], return_inverse=True)
            levels.append(values)
            counts.append(np.bincount(codes, weights[known], minlength=len(values)).astype(np.float64))
        return Categories(tuple(names), tuple(levels), tuple(counts))

    def missing(self, frame: "pd.DataFrame") -> NDArray[np.bool_]:
        """Mask of missing values of these columns."""
        return frame[list(self.names)].isna().to_numpy()

    def known_levels(self, frame: "pd.DataFrame") -> NDArray[np.intp]:
        """Complements (~) of the rows' level numbers, rows × categories.

        A level that is missing, or was not seen in fit, counts as the first: the one is filled in, the other refused.
        """
        import pandas as pd

        codes = np.empty((len(frame), len(self.names)), dtype=np.intp)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            codes[:, k] = ~np.maximum(pd.Index(levels).get_indexer(pd.Index(_labels(frame, name))), 0)
        return codes

    def expand(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """Expand rows with missing categories to one row per candidate level.

        Rows with too many combinations of levels get drawn ones, by the frequencies of the levels.
        """
        missing, sizes = self.missing(frame), self._sizes
        too_many = self._too_many(missing)
        n_candidates = np.where(missing & ~too_many[:, None], sizes, 1).prod(axis=1)
        draws = {int(row): self._draw(missing[row], int(row)) for row in np.flatnonzero(too_many)}
        for row, (codes, _) in draws.items():
            n_candidates[row] = len(codes)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        remainder = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes, weights = self.known_levels(frame)[row], np.zeros(len(row))
        for k, size in enumerate(sizes):
            missing_k = missing[row, k]
            codes[missing_k, k] = remainder[missing_k] % size
            remainder[missing_k] //= size
        for number, (chosen, weight) in draws.items():
            candidates_of_row, missing_k = row == number, missing[number]
            codes[np.ix_(candidates_of_row, missing_k)], weights[candidates_of_row] = chosen[:, missing_k], weight
        expanded = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            missing_k, values = missing[row, k], _labels(frame, name)[row]
            values[missing_k] = levels[codes[missing_k, k]]
            expanded[name] = values
        return expanded, Candidates(row, codes, log_importance=weights if draws else None)

    def n_candidates(self, frame: "pd.DataFrame") -> NDArray[np.intp]:
        """Number of candidates of each row; too many raise, as these are drawn only if all rows are in memory."""
        missing = self.missing(frame)
        too_many = self._too_many(missing)
        if too_many.any():
            row = int(too_many.argmax())
            missing_names = [name for name, is_missing in zip(self.names, missing[row], strict=True) if is_missing]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(missing_names)}, which have more than "
                f"{MAX_CANDIDATES} combinations. Leave such rows out, or fit rows that are in memory."
            )
        return np.where(missing, self._sizes, 1).prod(axis=1)

    @property
    def _sizes(self) -> NDArray[np.intp]:
        return np.array([len(levels) for levels in self.levels], dtype=np.intp)

    def _too_many(self, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.where(missing, np.log(self._sizes), 0.0).sum(axis=1) > np.log(MAX_CANDIDATES) + 1e-9

    def _draw(self, missing: NDArray[np.bool_], row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Draw combinations of levels for a row; also the log of counts over probabilities."""
        rng = np.random.default_rng(row)
        codes, logs = np.zeros((MAX_CANDIDATES, len(self.names)), dtype=np.intp), np.zeros(MAX_CANDIDATES)
        for k in np.flatnonzero(missing):
            probabilities = (1.0 + self.counts[k]) / (1.0 + self.counts[k]).sum()
            codes[:, k] = rng.choice(len(probabilities), size=MAX_CANDIDATES, p=probabilities)
            logs += np.log(probabilities[codes[:, k]])
        combinations, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
        return combinations, np.log(counts) - logs[first]


def _labels(frame: "pd.DataFrame", name: str) -> NDArray[Any]:
    column = frame[name]
    return column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object)


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


def _first_of(which: NDArray[np.bool_], rows: NDArray[np.intp]) -> str:
    """Number of the first of these rows, and how many there are."""
    first, *others = np.unique(rows[which])
    return f"{first} (one of {len(others) + 1} such rows of {len(np.unique(rows))})" if others else str(first)


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
    splines = [(f"s({term.expression})", term.expression) for term in parts.splines]
    for written, expression in (*zip(expressions, expressions, strict=True), *splines):
        for name in columns_in(expression, names):
            uses.setdefault(name, []).append(written)
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
