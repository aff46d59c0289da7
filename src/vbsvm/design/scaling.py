"""Standardisation of columns: learned once, applied to blocks of raw rows.

The design row is c = [1; (x − centre)/scale]. It is made block by block inside each pass, so that no standardised
copy of the data ever exists.
"""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array, sum_over_rows

# Columns further from zero than this, in units of their scale, are standardised before they are multiplied: products of
# raw columns lose about the square of it in relative precision.
FAR = 30.0
# Numbers in a line of several rows.
LINE = 1024


@final
@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Minimum and maximum of each column's observed values, and which columns have missing ones (NaN).

    A column without any known value has the range from ∞ to −∞.
    """

    low: Array
    high: Array
    incomplete: NDArray[np.bool_]

    def __add__(self, other: Self) -> "Range":
        """Join the ranges of two sets of rows."""
        return Range(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.logical_or(self.incomplete, other.incomplete),
        )

    @property
    def size(self) -> Array:
        """Largest magnitude of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ColumnMoments:
    """Total weight, weighted mean and weighted sum of squared deviations of each column's observed values."""

    weight: Array
    mean: Array
    squares: Array

    def __add__(self, other: Self) -> "ColumnMoments":
        """Pool the moments of two sets of rows without cancellation (Chan, Golub & LeVeque 1983)."""
        weight = self.weight + other.weight
        change = other.mean - self.mean
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        return ColumnMoments(
            weight, self.mean + share * change, self.squares + other.squares + (self.weight * share) * np.square(change)
        )

    def rescaled(self, factor: Array) -> "ColumnMoments":
        """Moments of the columns times these factors."""
        return ColumnMoments(self.weight, self.mean * factor, self.squares * np.square(factor))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """Centring and scaling of raw columns to design columns; learned in fit, reused in prediction."""

    centre: Array
    scale: Array
    intercept: bool

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return len(self.centre) + self.first

    @property
    def first(self) -> int:
        """Index of the table's first column in the design: 1 with an intercept, else 0."""
        return int(self.intercept)

    @property
    def spread(self) -> Array:
        """Scale of each column, 0 for constant ones."""
        return np.where(np.isfinite(self.scale), self.scale, 0.0)

    def encode(self, raw: NDArray[np.floating], out: Array) -> Array:
        """Standardise a block of raw rows into ``out``, and return it."""
        design = out[: len(raw)]
        inputs = design[:, 1:] if self.intercept else design
        if self.intercept:
            design[:, 0] = 1.0
        np.subtract(raw, self.centre, out=inputs)
        inputs *= 1.0 / self.scale
        return design

    @property
    def far(self) -> NDArray[np.bool_]:
        """Mask of columns too far from zero for implicit standardisation without loss of digits."""
        return np.abs(self.centre) > FAR * self.scale

    def derived(self, multipliers: Array, columns: NDArray[np.intp], of: NDArray[np.intp]) -> Array:
        """Offset and slope (last axis) of design columns whose raw ones are others times ``multipliers``."""
        target, source = columns - self.first, of - self.first
        offset = (multipliers * self.centre[source] - self.centre[target]) / self.scale[target]
        return np.stack([offset, multipliers * (self.spread[source] / self.scale[target])], axis=2)

    def reach(self, ranges: Range) -> Array:
        """Largest magnitude of each design column; infinite on overflow."""
        with np.errstate(over="ignore"):
            return np.maximum(np.abs(ranges.low - self.centre), np.abs(ranges.high - self.centre)) / self.scale

    def work_space(self, n_rows: int) -> Array:
        """Allocate n design rows in column-major order, so that loops along columns are long."""
        return np.empty((self.n_columns, n_rows)).T


def weighted_rows(
    X: NDArray[np.floating], weights: Array, rows: slice
) -> tuple[NDArray[np.floating], Array, NDArray[np.bool_] | slice]:
    """Rows of positive weight in a slice, their weights, and their mask."""
    s = weights[rows]
    if s.all():
        return X[rows], s, slice(None)
    positive = s > 0
    return X[rows][positive], s[positive], positive


def column_ranges(X: NDArray[np.floating], weights: Array) -> Range:
    """Range of every column over the rows of positive weight, in one pass."""

    def kernel(index: int, rows: slice) -> Range:
        block, _, _ = weighted_rows(X, weights, rows)
        low, high = _extremes(np.minimum, block, np.inf), _extremes(np.maximum, block, -np.inf)
        incomplete = np.isnan(low)
        if incomplete.any():  # functions that pass over NaN are slower
            low[incomplete] = np.fmin.reduce(block[:, incomplete], axis=0, initial=np.inf)
            high[incomplete] = np.fmax.reduce(block[:, incomplete], axis=0, initial=-np.inf)
        return Range(low.astype(np.float64), high.astype(np.float64), incomplete)

    return sum_over_rows(X.shape[0], X.shape[1], lambda: kernel)


def _long_lines(block: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Rows as long lines of several rows, if they are contiguous, plus the remaining rows, for fast loops."""
    n_rows, n_columns = block.shape
    width = max(1, LINE // max(n_columns, 1))
    n_lines = n_rows // width if block.flags.c_contiguous else 0
    return block[: n_lines * width].reshape(n_lines, width * n_columns), block[n_lines * width :]


def _extremes(extreme: np.ufunc, block: NDArray[np.floating], identity: float) -> NDArray[np.floating]:
    """Minimum or maximum of each column; the identity for an empty block."""
    lines, rest = (extreme.reduce(part, axis=0, initial=identity) for part in _long_lines(block))
    return extreme(rest, extreme.reduce(lines.reshape(-1, *rest.shape), axis=0)) if lines.size else rest


def _even_moments(raw: NDArray[np.floating], s: float, unit: Array) -> ColumnMoments:
    """Moments of complete rows of equal weight, about their own mean."""
    moments = []
    for part in _long_lines(raw):
        if part.size:
            width = part.shape[1] // len(unit)
            block = part / np.tile(unit, width)
            mean = _column_means(block, width)
            block -= np.tile(mean, width)
            rounding = _column_means(block, width)  # far from zero the first mean is off by so much
            n = s * width * len(part)
            squares = n * (_column_means(np.square(block, out=block), width) - np.square(rounding))
            moments.append(ColumnMoments(np.full(len(unit), n), mean + rounding, squares))
    return moments[0] if len(moments) == 1 else moments[0] + moments[1]


def _column_means(lines: Array, width: int) -> Array:
    """Column means of rows stored ``width`` to a line."""
    return lines.mean(axis=0).reshape(width, -1).mean(axis=0)


def column_units(ranges: Range) -> Array:
    """A power of two near each column's size; tiny for columns of zeros."""
    sized = np.isfinite(ranges.size) & (ranges.size > 0)
    return np.where(sized, np.ldexp(1.0, np.frexp(ranges.size)[1] - 1), np.finfo(np.float64).tiny)


def _moments(X: NDArray[np.floating], weights: Array, unit: Array, incomplete: NDArray[np.bool_]) -> ColumnMoments:
    """Weighted moments of the columns in their units, without overflow or underflow."""

    def kernel(index: int, rows: slice) -> ColumnMoments:
        raw, s, _ = weighted_rows(X, weights, rows)
        if raw.size and (s == s[0]).all() and not incomplete.any():
            return _even_moments(raw, float(s[0]), unit)
        block, weight = raw / unit, np.full(len(unit), float(s.sum()))
        known = ~np.isnan(block[:, incomplete])
        weight[incomplete] = s @ known
        block[:, incomplete] = np.where(known, block[:, incomplete], 0.0)
        mean = np.divide(s @ block, weight, out=np.zeros(len(unit)), where=weight > 0)
        block -= mean
        block[:, incomplete] *= known
        return ColumnMoments(weight, mean, s @ np.square(block, out=block))

    return sum_over_rows(X.shape[0], X.shape[1], lambda: kernel)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ColumnSummary:
    """Additive summary of rows for learning a recipe: ranges, and moments in units of the columns' own size.

    The summaries of parts add up to that of all rows, however these are cut. ``eps`` is the relative precision of the
    numbers.
    """

    ranges: Range
    moments: ColumnMoments
    unit: Array
    eps: float

    @staticmethod
    def from_rows(X: NDArray[np.floating], weights: Array) -> "ColumnSummary":
        """Summarise the rows of positive weight, of which there must be one."""
        ranges = column_ranges(X, weights)
        unit = column_units(ranges)
        with np.errstate(all="ignore"):  # an infinity shows in the range, and is refused when all rows are known
            moments = _moments(X, weights, unit, ranges.incomplete)
        return ColumnSummary(ranges, moments, unit, float(np.finfo(X.dtype).eps))

    def __add__(self, other: Self) -> "ColumnSummary":
        """Pool two sets of rows; powers of two change units without rounding."""
        unit = np.maximum(self.unit, other.unit)
        with np.errstate(all="ignore"):
            moments = self.moments.rescaled(self.unit / unit) + other.moments.rescaled(other.unit / unit)
        return ColumnSummary(self.ranges + other.ranges, moments, unit, max(self.eps, other.eps))

    def recipe(self, intercept: bool, standardize: bool, centred: NDArray[np.bool_] | None = None) -> Recipe:
        """Centre and scale: weighted mean and standard deviation of observed values (divided by total weight).

        ``centred`` says which columns are; by default all where there is an intercept, and none without one, so that
        the hyperplane goes through the user's origin. A constant column that is not centred is left as it is. One that
        is, and is constant up to rounding, is uninformative: its scale is infinite, its design column 0, and so are
        its coefficient and what it adds to any score.
        """
        n_inputs, ranges, unit = len(self.unit), self.ranges, self.unit
        if not standardize:
            return Recipe(np.zeros(n_inputs), np.ones(n_inputs), intercept)
        deviation = self.deviation
        varies = (ranges.high / unit - ranges.low / unit > 8 * self.eps) & (deviation > 0)
        is_centred = np.full(n_inputs, intercept) if centred is None else centred
        scale = np.where(varies, deviation, np.where(is_centred, np.inf, 1.0))
        return Recipe(
            np.where(is_centred, np.where(varies, self.moments.mean * unit, ranges.low), 0.0), scale, intercept
        )

    @property
    def deviation(self) -> Array:
        """Standard deviation of each column's observed values."""
        return np.sqrt(self.moments.squares / self.moments.weight) * self.unit


def canonical_csr(X: Any) -> Any:
    """The CSR array in canonical format, copied only if needed."""
    csr = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def positive_weight_rows(X: Any, weights: Array) -> Any:
    """The rows of positive weight, copied only if some are dropped."""
    return X if weights.all() else X[np.flatnonzero(weights > 0)]


def sparse_summary(X: Any, weights: Array) -> ColumnSummary:
    """Summary of the columns of a sparse array, as for the dense table: Σ s (x − m)² is s m² for each zero."""
    rows, s = positive_weight_rows(X, weights), weights[weights > 0]
    n_rows, n_columns = rows.shape
    full = np.bincount(rows.indices, minlength=n_columns) == n_rows
    low, high = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
    np.fmin.at(low, rows.indices, rows.data)
    np.fmax.at(high, rows.indices, rows.data)
    incomplete = np.zeros(n_columns, dtype=bool)
    incomplete[rows.indices[np.isnan(rows.data)]] = True
    ranges = Range(low, high, incomplete)
    unit, total = column_units(ranges), float(s.sum())

    def sums(of_entries: Array) -> Array:
        return np.bincount(rows.indices, of_entries, minlength=n_columns).astype(np.float64, copy=False)

    with np.errstate(all="ignore"):  # what is not finite shows in the range, and is refused
        of_entry, values = np.repeat(s, np.diff(rows.indptr)), rows.data / unit[rows.indices]
        mean = sums(of_entry * values) / total
        squares = sums(of_entry * np.square(values - mean[rows.indices])) + (total - sums(of_entry)) * np.square(mean)
    moments = ColumnMoments(np.full(n_columns, total), mean, np.maximum(squares, 0.0))
    return ColumnSummary(ranges, moments, unit, float(np.finfo(X.dtype).eps))


def with_common_scale(recipe: Recipe) -> Recipe:
    """The recipe with the root mean square of all scales for each column."""
    known = np.isfinite(recipe.scale)
    common = np.sqrt(np.square(recipe.scale[known]).mean()) if known.any() else 1.0
    return replace(recipe, scale=np.where(known, common, np.inf))
