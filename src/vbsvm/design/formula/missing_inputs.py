"""Inputs of a formula that may be missing: categories, and those that enter linearly.

A numeric factor of a formula, such as log(chol), may miss values where its column of the design is the factor itself or
a product of it and known factors. What a unit of it adds to such a product is read off by evaluating the formula at a
reference value: the product there, divided by the factor there.
"""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design.candidates import Candidates
from vbsvm.design.formula.guard import columns_of
from vbsvm.design.formula.syntax import FormulaParts

if TYPE_CHECKING:
    import pandas as pd

# Of one row; the numbers of levels of several missing categories multiply. With more, so many are drawn.
MOST_CANDIDATES = 256


@final
@dataclass(frozen=True, eq=False)
class Categories:
    """Columns that are categories, and may be missing: their levels, and how often each occurred in fit."""

    names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    counts: tuple[NDArray[np.float64], ...]

    @staticmethod
    def learn(frame: "pd.DataFrame", names: list[str], weights: NDArray[np.float64]) -> "Categories":
        """Take the levels that occur, and their total weights."""
        levels, counts = [], []
        for name in names:
            known = frame[name].notna().to_numpy()
            values, codes = np.unique(np.asarray(frame[name])[known], return_inverse=True)
            levels.append(values)
            counts.append(np.bincount(codes, weights[known], minlength=len(values)).astype(np.float64))
        return Categories(tuple(names), tuple(levels), tuple(counts))

    def known_levels(self, frame: "pd.DataFrame") -> NDArray[np.intp]:
        """Complements (~) of the numbers of the rows' levels, rows × categories.

        A level that is missing, or was not seen in fit, counts as the first: the one is filled in, the other refused.
        """
        import pandas as pd

        found = np.empty((len(frame), len(self.names)), dtype=np.intp)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            column = frame[name]
            values = column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object)
            found[:, k] = ~np.maximum(pd.Index(levels).get_indexer(pd.Index(values)), 0)
        return found

    def write_out(self, frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Candidates]":
        """The frame with a row for each candidate: every level that a missing category may have is filled in.

        Rows with too many combinations of levels have drawn ones instead, by how often each level occurred.
        """
        missing = np.stack([frame[name].isna().to_numpy() for name in self.names], axis=1)
        sizes = np.array([len(levels) for levels in self.levels])
        many = np.where(missing, np.log(sizes), 0.0).sum(axis=1) > np.log(MOST_CANDIDATES) + 1e-9
        n_candidates = np.where(missing & ~many[:, None], sizes, 1).prod(axis=1)
        drawn = {int(row): self._drawn(missing[row], int(row)) for row in np.flatnonzero(many)}
        for row, (codes, _) in drawn.items():
            n_candidates[row] = len(codes)
        row = np.repeat(np.arange(len(frame)), n_candidates)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(n_candidates) - n_candidates, n_candidates)
        codes, weights = self.known_levels(frame)[row], np.zeros(len(row))
        for k, size in enumerate(sizes):
            lost = missing[row, k]
            codes[lost, k] = turn[lost] % size
            turn[lost] //= size
        for one, (levels, weight) in drawn.items():
            here, lost = row == one, missing[one]
            codes[np.ix_(here, lost)], weights[here] = levels[:, lost], weight
        written = frame.take(row).reset_index(drop=True)
        for k, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            lost, column = missing[row, k], frame[name]
            values = (column.to_numpy() if column.dtype.kind in "biuf" else np.asarray(column, dtype=object))[row]
            values[lost] = levels[codes[lost, k]]
            written[name] = values
        return written, Candidates(row, codes, drawn=weights if drawn else None)

    def n_candidates(self, frame: "pd.DataFrame", missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Number of candidates of each row of a part of the data, by which categories are missing.

        Too many are refused: combinations are drawn where all rows are at hand.
        """
        sizes = np.array([len(levels) for levels in self.levels])
        many = np.where(missing, np.log(sizes), 0.0).sum(axis=1) > np.log(MOST_CANDIDATES) + 1e-9
        if many.any():
            row = int(many.argmax())
            lost = [name for name, gone in zip(self.names, missing[row], strict=True) if gone]
            raise ValueError(
                f"Row {frame.index[row]} has missing values in {', '.join(lost)}, which have more than "
                f"{MOST_CANDIDATES} combinations. Leave such rows out, or fit rows that are in memory."
            )
        return np.where(missing, sizes, 1).prod(axis=1)

    def _drawn(self, missing: NDArray[np.bool_], row: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Combinations of levels for a row, and the logarithm of how often each was drawn over its chance."""
        rng = np.random.default_rng(row)
        codes, logs = np.zeros((MOST_CANDIDATES, len(self.names)), dtype=np.intp), np.zeros(MOST_CANDIDATES)
        for k in np.flatnonzero(missing):
            chances = (1.0 + self.counts[k]) / (1.0 + self.counts[k]).sum()
            codes[:, k] = rng.choice(len(chances), size=MOST_CANDIDATES, p=chances)
            logs += np.log(chances[codes[:, k]])
        found, first, often = np.unique(codes, axis=0, return_index=True, return_counts=True)
        return found, np.log(often) - logs[first]


# Their state would be learned from values that are missing.
STATEFUL = ("center", "scale", "standardize")


@final
@dataclass(frozen=True, eq=False)
class Variable:
    """A numeric factor: its expression, the data's columns in it, and its own column in the table.

    ``links`` are the other columns of the table that it multiplies.
    """

    expression: str
    columns: tuple[str, ...]
    place: int
    links: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Linear:
    """All factors that may miss values, values of reference for the data's columns, and why others may not."""

    variables: tuple[Variable, ...]
    reference: dict[str, Any]  # text where the column holds categories
    reasons: dict[str, str]

    @property
    def links(self) -> list[tuple[int, int]]:
        """Column of the table and number of the variable, for every product that a variable is a factor of."""
        return [(column, k) for k, variable in enumerate(self.variables) for column in variable.links]

    def referring(self, frame: "pd.DataFrame", values: Sequence[Array]) -> "Linear":
        """The same with references at which no variable is 0, for products are divided by it; ``values`` are theirs.

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
        """The frame with reference values for its missing values; refuse them in columns that do not enter linearly.

        Where a variable misses one of its columns, the others get their reference too. ``rows`` numbers them in errors.
        """
        for name, missing in masks.items():
            if name in self.reasons:
                lost = np.unique(rows[missing])
                others = _and_others(len(lost), len(np.unique(rows)))
                raise ValueError(
                    f"Column {name!r} has no value in row {lost[0]}{others}, and {self.reasons[name]} Values are drawn "
                    "for it in a fit of rows in memory that misses some, unless GaussianImputation has a mechanism or "
                    "labels='likelihood'. Else fill them in, or leave such rows out, as Model(…, missing='drop') does."
                )
        of_all = dict(masks)
        for variable, missing in zip(self.variables, self._missing(masks), strict=True):
            of_all |= {} if missing is None else dict.fromkeys(variable.columns, missing)
        return fill(frame, of_all, self.reference)

    def both_missing(self, masks: dict[str, NDArray[np.bool_]]) -> set[str]:
        """Columns of factors of a product that a row misses both of: it is not linear in what is missing."""
        found = set[str]()
        pairs = combinations(zip(self.variables, self._missing(masks), strict=True), 2)
        for (one, lost), (two, gone) in pairs:
            if lost is not None and gone is not None and (lost & gone).any() and set(one.links) & set(two.links):
                found |= {*one.columns, *two.columns}
        return found

    def _missing(self, masks: dict[str, NDArray[np.bool_]]) -> list[NDArray[np.bool_] | None]:
        return [_any([masks.get(name) for name in variable.columns]) for variable in self.variables]

    def open(self, table: Array, masks: dict[str, NDArray[np.bool_]], rows: NDArray[np.intp]) -> Array | None:
        """Write NaN into the table wherever a variable is missing; give the multipliers, rows × links.

        None where nothing is missing. The table was encoded with reference values for missing values.
        """
        if not masks:
            return None
        missing = self._missing(masks)
        multipliers = np.zeros((len(table), len(self.links)))
        opened: dict[int, NDArray[np.bool_]] = {}
        for j, (column, k) in enumerate(self.links):
            if (here := missing[k]) is not None:
                if column in opened and (both := opened[column] & here).any():
                    lost = np.unique(rows[both])
                    others = _and_others(len(lost), len(np.unique(rows)))
                    raise ValueError(
                        f"Row {lost[0]}{others} has missing values in both factors of an interaction with "
                        f"{self.variables[k].expression}: their product is not normal. Leave such rows out, as "
                        "Model(…, missing='drop') does."
                    )
                opened[column] = opened.get(column, False) | here
                with np.errstate(divide="ignore", invalid="ignore"):
                    multipliers[here, j] = table[here, column] / table[here, self.variables[k].place]
        for column, here in opened.items():
            table[here, column] = np.nan
        for variable, here in zip(self.variables, missing, strict=True):
            if here is not None:
                table[here, variable.place] = np.nan
        return multipliers


def missing_masks(frame: "pd.DataFrame") -> dict[str, NDArray[np.bool_]]:
    """Rows of each column without a value."""
    found = {str(name): frame[name].isna().to_numpy() for name in frame.columns}
    return {name: missing for name, missing in found.items() if missing.any()}


def fill(frame: "pd.DataFrame", masks: dict[str, NDArray[np.bool_]], reference: dict[str, Any]) -> "pd.DataFrame":
    """The frame with these values for what is missing."""
    if not masks:
        return frame
    filled = {name: frame[name].where(~missing, reference[name]) for name, missing in masks.items()}
    numeric = {name: column.astype(np.float64) for name, column in filled.items() if type(reference[name]) is float}
    return frame.assign(**{**filled, **numeric})


def filled_by_others(frame: "pd.DataFrame", names: Sequence[str]) -> "pd.DataFrame":
    """The frame with values of other rows, in turn, for what is missing in these columns."""
    filled = {}
    for name in names:
        values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan).copy()
        missing = np.isnan(values)
        values[missing] = np.resize(values[~missing], int(missing.sum()))
        filled[name] = values
    return frame.assign(**filled)


def reference_of(column: Any, name: str) -> Any:
    """A value of the column to evaluate formulas at: the one furthest from 0, or the first label."""
    known = column.dropna()
    if not len(known):
        raise ValueError(f"Column {name!r} has no value in any row. Drop it.")
    if column.dtype.kind not in "biuf":
        return known.iloc[0]
    return float(known.iloc[int(np.abs(known.to_numpy(dtype=float)).argmax())])


def _and_others(count: int, n_rows: int) -> str:
    """How many rows there are like the one that is named."""
    return f" (one of {count} such rows of {n_rows})" if count > 1 else ""


def _scalar(value: Any) -> Any:
    """A value of a column as files know it."""
    return float(value) if isinstance(value, numbers.Real | np.bool_) else value


def _any(masks: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_] | None:
    found = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(found) if found else None


def learn_linear(
    parts: FormulaParts,
    frame: "pd.DataFrame",
    factors_of: list[tuple[str, ...]],
    categorical: set[str],
    masks: dict[str, NDArray[np.bool_]],
) -> tuple[Linear, list[str]]:
    """Find the factors that may miss values, and those that need a column of their own for that."""
    names, expressions = list(frame.columns), list(dict.fromkeys(one for factors in factors_of for one in factors))
    uses: dict[str, list[str]] = {}
    for expression in (*expressions, *(f"s({term.expression})" for term in parts.splines)):
        inner = expression[2:-1] if expression not in expressions else expression
        for name in columns_in(inner, names):
            uses.setdefault(name, []).append(expression)
    variables, alone, reasons = [], [], {}
    for expression in expressions:
        columns = tuple(dict.fromkeys(columns_in(expression, names)))
        places = [k for k, factors in enumerate(factors_of) if factors == (expression,)]
        if expression in categorical:
            continue  # a row that misses it is written out as candidates
        reason = _why_not(expression, columns, uses, len(places))
        if reason is None and not places:
            if masks.keys() & set(columns):
                places = [len(factors_of) + len(alone)]
                alone.append(expression)
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
    return Linear(tuple(variables), {name: reference_of(frame[name], name) for name in names}, reasons), alone


def _why_not(expression: str, columns: tuple[str, ...], uses: dict[str, list[str]], n_places: int) -> str | None:
    """Why a factor may not miss values; None where it may."""
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
    """Columns of the data in a factor as formulaic calls it: a column's bare name may look like code."""
    return [expression] if expression in names else columns_of(expression, names)
