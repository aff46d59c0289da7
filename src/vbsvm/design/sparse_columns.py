"""What is learned of the columns of a scipy.sparse array: ranges and moments, with entries that are not stored as 0."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array
from vbsvm.design.scaling import ColumnSummary, Moments, Range, Recipe, column_units


def canonical(X: Any) -> Any:
    """The same as a CSR array with sorted rows that name each column once; what needs no change is not copied."""
    found = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()
    return found


def counted_rows(X: Any, weights: Array) -> Any:
    """The rows of positive weight; all of them are not copied."""
    return X if weights.all() else X[np.flatnonzero(weights > 0)]


def sparse_ranges(X: Any, weights: Array) -> Range:
    """Range of every column over the rows of positive weight; a column that holds NaN counts as incomplete."""
    rows = counted_rows(X, weights)
    n_rows, n_columns = rows.shape
    full = np.bincount(rows.indices, minlength=n_columns) == n_rows
    low, high = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
    np.fmin.at(low, rows.indices, rows.data)
    np.fmax.at(high, rows.indices, rows.data)
    incomplete = np.zeros(n_columns, dtype=bool)
    incomplete[rows.indices[np.isnan(rows.data)]] = True
    return Range(low, high, incomplete)


def sparse_summary(X: Any, weights: Array) -> ColumnSummary:
    """What is learned of every column, as for a table that is written out."""
    ranges = sparse_ranges(X, weights)
    unit = column_units(ranges)
    with np.errstate(all="ignore"):  # what is not finite shows in the range, and is refused
        return ColumnSummary(ranges, _moments(X, weights, unit), unit, float(np.finfo(X.dtype).eps))


def with_common_scale(recipe: Recipe) -> Recipe:
    """The recipe with the root mean square of all scales in place of each: columns keep their relative sizes."""
    known = np.isfinite(recipe.scale)
    common = np.sqrt(np.square(recipe.scale[known]).mean()) if known.any() else 1.0
    return replace(recipe, scale=np.where(known, common, np.inf))


def _moments(X: Any, weights: Array, unit: Array) -> Moments:
    """Weighted moments in units of the columns; Σ s (x − m)² over stored entries, and s m² for each of the others."""
    rows, s = counted_rows(X, weights), weights[weights > 0]
    n_columns, total = rows.shape[1], float(s.sum())
    of_entry = np.repeat(s, np.diff(rows.indptr))
    values = rows.data / unit[rows.indices]

    def sums(of_entries: Array) -> Array:
        return np.bincount(rows.indices, of_entries, minlength=n_columns).astype(np.float64, copy=False)

    mean = sums(of_entry * values) / total
    stored = sums(of_entry)
    squares = sums(of_entry * np.square(values - mean[rows.indices])) + (total - stored) * np.square(mean)
    return Moments(np.full(n_columns, total), mean, np.maximum(squares, 0.0))
