"""Checks of columns and sizes, whose errors name the place; ``inputs`` reads tables.

Lower layers do not check user input again.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from vbsvm.base.arrays import Array
from vbsvm.base.printing import count_noun
from vbsvm.design import one_hot
from vbsvm.design.columns import Plan
from vbsvm.design.scaling import Range, Recipe
from vbsvm.model.spec import Spec
from vbsvm.sources.distributed import AnyRows, InMemory

# Beyond these sizes a square, or the square of a coefficient, leaves the range of floating point.
MAX_INPUT = 1e120
MIN_SCALE = 1e-152
# The model holds several matrices of columns × columns: at this size a few gigabytes, and hours.
MAX_COLUMNS = 10_000
MAX_CELLS = 10**8
# Sparse tables with more rows and more columns than this have the covariance of their coefficients by draws.
MAX_EXACT = 3000
# Up to this number of columns, their joint distribution is learned: predictions then take missing values.
MAX_JOINT = 3000


def is_wide(X: Any) -> bool:
    """Whether rows × rows matrices are used: more than twice as many columns as rows."""
    n_rows, n_columns = X.shape
    return 0 < 2 * n_rows < n_columns or (issparse(X) and n_rows <= MAX_EXACT < n_columns)


def needs_draws(X: Any) -> bool:
    """Whether a table is too large for a matrix of rows × rows and for one of columns × columns."""
    most = MAX_EXACT if issparse(X) else MAX_COLUMNS
    return min(X.shape) > most or (not issparse(X) and is_wide(X) and X.shape[1] > MAX_COLUMNS and X.size > MAX_CELLS)


def check_model_size(plan: Plan, spec: Spec, source: InMemory) -> None:
    """Reject a model that would take hours and many gigabytes: its matrices are columns × columns, or rows × columns.

    Random effects of all factors but the last count as columns.
    """
    n_rows, n_columns = source.X.shape
    n_columns -= plan.n_carried
    n_core = n_columns + sum(factor.size for factor in plan.factors[:-1])
    tail = plan.factors[-1].size if plan.factors else 0
    if source.drawn_covariance or (source.wide and issparse(source.X) and spec.gate_map is None):
        return
    if source.wide:
        too_large = n_columns > MAX_COLUMNS and n_rows * n_columns > MAX_CELLS
    else:
        too_large = n_core > MAX_COLUMNS or n_core * (n_core + tail) > MAX_CELLS
    if not too_large:
        return
    if n_columns > MAX_COLUMNS or not plan.factors:
        raise ValueError(
            f"The model has {n_rows} rows and {n_columns} columns; up to {MAX_COLUMNS} columns are supported with "
            "groups, missing values, LaplaceZero(), or columns without a prior (with LaplaceZero() and more than "
            f"twice as many columns as rows, up to {MAX_CELLS:.0e} numbers in all). Select columns first, for "
            "example with sklearn.feature_selection.SelectKBest."
        )
    sizes = ", ".join(f"{factor.name} {factor.size}" for factor in plan.factors)
    several = "Only the largest factor may have many levels: drop a smaller one, or merge its levels."
    raise ValueError(
        f"The model has {n_columns} columns and random effects ({sizes}): matrices of {n_core} by {n_core + tail} "
        f"would be needed, which is too large. {several if len(plan.factors) > 1 else 'Drop columns, or merge levels.'}"
    )


def check_sampleable(spec: Spec, source: AnyRows) -> None:
    """Reject models that ``Gibbs`` does not support."""
    if source.drawn_covariance:
        raise ValueError(
            f"Gibbs does not support {source.n_rows} rows with {spec.n_columns} coefficients: a sweep would take "
            "seconds. Use Variational(), or select columns first."
        )
    if spec.joint_gates:
        raise ValueError("Gibbs does not support LaplaceZero(gates=Joint()): use gates=Factorised().")


def read_seed(random_state: Any) -> int:
    """A seed from None, a number or a generator."""
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def check_finite_columns(
    X: Any, weights: Array, ranges: Range, names: tuple[str, ...], given: NDArray[np.intp] | None = None
) -> None:
    """Reject infinity, and NaN in sparse tables, in rows that count, by column and row, which is that of ``given``."""
    sparse = issparse(X)
    infinite = (ranges.low == -np.inf) | (ranges.high == np.inf)
    bad = np.flatnonzero(infinite | ranges.incomplete if sparse else infinite)
    if len(bad):
        column = X[:, [int(bad[0])]].toarray()[:, 0] if sparse else X[:, bad[0]]
        wrong = ~np.isfinite(column) if sparse else np.isinf(column)
        row = int(np.flatnonzero(wrong & (weights > 0))[0])
        raise ValueError(_describe(column[row], row if given is None else int(given[row]), bad, names))


def check_observed_columns(ranges: Range, names: tuple[str, ...]) -> None:
    """Reject columns without any observed value."""
    empty = np.flatnonzero(ranges.incomplete & (ranges.low > ranges.high))
    if len(empty):
        raise ValueError(f"Column {names[empty[0]]!r} has no value in any row of positive weight. Drop it.")


def check_finite(X: NDArray[np.floating], names: tuple[str, ...]) -> None:
    """Reject infinity, naming column and row; and a sparse table, in which nothing may be missing."""
    if issparse(X):
        raise TypeError("impute: X is sparse, and values may be missing in dense tables only: use X.toarray().")
    bad = np.flatnonzero(np.isinf(X).any(axis=0))
    if len(bad):
        raise ValueError(_describe(np.inf, int(np.argmax(np.isinf(X[:, bad[0]]))), bad, names))


def check_finite_scores(X: Any, scores: Array, names: tuple[str, ...], *, fills: bool = True) -> None:
    """Reject rows without a finite score: an infinity in X, or values too far out for floating point."""
    rows = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(rows):
        row = int(rows[0])
        cells = X[[row]].toarray()[0] if issparse(X) else X[row]
        infinite, missing = np.flatnonzero(np.isinf(cells)), np.flatnonzero(np.isnan(cells))
        if len(infinite):
            raise ValueError(_describe(np.inf, row, infinite, names))
        if len(missing) and issparse(X):
            raise ValueError(_describe(np.nan, row, missing, names))
        if len(missing) and not fills:
            raise ValueError(
                f"Input X contains NaN in column {names[missing[0]]!r} (row {row}). Missing values are "
                f"inferred for up to {MAX_JOINT} columns, and X has {X.shape[1]}: impute them first."
            )
        raise ValueError(f"The decision value of row {row} overflows: its values are too far from the training data.")


def _describe(value: float, row: int, columns: NDArray[np.intp], names: tuple[str, ...]) -> str:
    """Error message on an infinity, or a missing value of a sparse table: where it is, and what to do."""
    what, advice = "infinity", "Replace it by a finite number, or by NaN if the value is missing."
    if np.isnan(value):
        what = "NaN"
        advice = "Missing values are imputed in dense tables only: use X.toarray(), or impute them first."
    others = f" and in {count_noun(len(columns) - 1, 'other column')}" if len(columns) > 1 else ""
    return f"Input X contains {what} in column {names[columns[0]]!r} (first in row {row}){others}. {advice}"


def check_representable(ranges: Range, recipe: Recipe, names: tuple[str, ...]) -> None:
    """Reject columns whose squares or coefficients floating point can't hold."""
    large = np.flatnonzero(~(recipe.reach(ranges) < MAX_INPUT))
    if len(large):
        raise ValueError(
            f"Column {names[large[0]]!r} reaches {ranges.size[large[0]]:.3g}: its squares overflow. Rescale it, or use "
            "standardize=True with an intercept, which centres and scales it."
        )
    small = np.flatnonzero(recipe.scale < MIN_SCALE)
    if len(small):
        raise ValueError(
            f"Column {names[small[0]]!r} has a standard deviation of {recipe.scale[small[0]]:.3g}: its coefficient "
            "would overflow. Rescale it."
        )


def input_names(estimator: Any) -> tuple[Any, ...]:
    """Names of the columns of X, or their numbers where they have none; without the group."""
    names, group = list(getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))), estimator.group
    if group is not None:
        del names[names.index(group) if hasattr(estimator, "feature_names_in_") else group]
    return tuple(names)


def column_names(estimator: Any) -> tuple[str, ...]:
    """Names of the predictors of the model: x0, x1, … for an array, and ``column[level]`` for categories."""
    inputs, levels = input_names(estimator), getattr(estimator, "levels_", {})
    labels = list(inputs) if hasattr(estimator, "feature_names_in_") else [f"x{number}" for number in inputs]
    if not levels:
        return tuple(map(str, labels))
    return tuple(one_hot.names(labels, one_hot.by_label(inputs, labels, levels)))
