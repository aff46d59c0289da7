"""The columns of an estimator's table: predictors, labels, weights, and the group of each row where there is one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import column_or_1d

from vbsvm.api import validation
from vbsvm.api.data import inputs, label_checks
from vbsvm.api.data.partitions import Design, InputTerms, LabelledData, Partition, RowCounts
from vbsvm.api.priors import INTERCEPT_PRIOR, variance_prior
from vbsvm.base.arrays import Array
from vbsvm.design import one_hot
from vbsvm.design.columns import INTERCEPT, Encoded, FactorPlan, LabelSummary, Levels, Plan
from vbsvm.design.scaling import ColumnSummary, sparse_summary, with_common_scale
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Prior
from vbsvm.model.row_pass import add_optional
from vbsvm.model.spec import Block
from vbsvm.results.fit import INPUTS


@final
@dataclass(frozen=True, eq=False)
class RawTable:
    """Rows of a table as they were given: predictors with the group among them, labels, and weights or None."""

    X: Any
    y: Any
    weights: Any = None


@final
@dataclass(frozen=True, eq=False)
class ReadTable:
    """Rows of a table as numbers, labels, weights, groups or None, and row numbers as in ``LabelledData``."""

    X: Any
    y: NDArray[Any]
    weights: Array
    members: NDArray[Any] | None = None
    row_numbers: NDArray[np.intp] | None = None

    def without_zero_weights(self) -> "ReadTable":
        """The table without rows of weight 0."""
        if self.weights.all():
            return self
        row_index = np.flatnonzero(self.weights)
        members = None if self.members is None else self.members[row_index]
        return ReadTable(self.X[row_index], self.y[row_index], self.weights[row_index], members, row_index)


@final
@dataclass(frozen=True, eq=False)
class TableSummary:
    """Labels of some rows, and groups where there are some; ``target`` is whose labels they are."""

    labels: LabelSummary
    groups: LabelSummary | None
    target: str
    categories: dict[Any, LabelSummary] = field(default_factory=dict)

    def __add__(self, other: Self) -> "TableSummary":
        """Join two sets of rows."""
        groups, categories = add_optional(self.groups, other.groups), dict(self.categories)
        for name, labels in other.categories.items():
            categories[name] = categories[name] + labels if name in categories else labels
        total = TableSummary(self.labels + other.labels, groups, self.target, categories)
        total.labels.check_few(self.target)
        return total


@final
@dataclass(frozen=True, eq=False)
class TableReader:
    """Reads the predictors of these names; where ``group`` is given, it is a further column of the table.

    Partitions hold a ``RawTable`` or a ``ReadTable``. With ``drop_zero_weights`` rows of weight 0 are not encoded.
    ``target``, ``weights`` and ``no_rows`` are words of errors.
    """

    names: tuple[str, ...]
    prior: Prior
    group: str | int | None = None
    class_weight: Any = None
    intercept: bool = True
    standardize: bool = True
    drop_zero_weights: bool = False
    dtype: DTypeLike = np.float64
    columns: Sequence[str] | None = None
    label_columns: Sequence[str] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    target: str = "y"
    weights: str = "sample_weight"
    no_rows: str = "X has no row of positive weight: there is nothing to fit."
    categories: bool = False
    inputs: tuple[Any, ...] = ()

    @staticmethod
    def from_estimator(estimator: Any, prior: Prior, **settings: Any) -> "TableReader":
        """The reader of the columns that an estimator has learned, by its parameters."""
        if estimator.group is not None and not estimator.fit_intercept:
            raise ValueError("group adds random intercepts around a common intercept: set fit_intercept=True.")
        return TableReader(
            validation.column_names(estimator),
            prior,
            estimator.group,
            estimator.class_weight,
            bool(estimator.fit_intercept),
            bool(estimator.standardize),
            categories=estimator.categories is not None,
            inputs=validation.input_names(estimator),
            **settings,
        )

    def summary(self, part: Partition) -> TableSummary:
        """Labels and groups of a partition."""
        raw = part.raw
        if isinstance(raw, ReadTable):
            labels, members = LabelSummary.from_rows(raw.y, raw.weights), raw.members
            label_checks.check_labels(raw.y, labels.labels)
            return TableSummary(
                labels, None if members is None else LabelSummary.from_rows(members, raw.weights), self.target
            )
        y, weights = self._labels(raw)
        groups = None
        if self.group is not None:
            groups = LabelSummary.from_rows(inputs.group_column(raw.X, self.group), weights)
        labels = LabelSummary.from_rows(y, weights)
        labels.check_few(self.target)
        categories = inputs.categories_of(raw.X, self.group, weights) if self.categories else {}
        return TableSummary(labels, groups, self.target, categories)

    def learn(self, summary: TableSummary | None) -> "TableEncoder":
        """Classes and their weights, and the levels of the group."""
        if summary is None or not summary.labels.n_rows:
            raise ValueError(self.no_rows)
        labels, groups = summary.labels, summary.groups
        label_checks.check_classes(labels.labels)
        factors = None
        if self.class_weight is not None:
            factors = label_checks.class_factors(self.class_weight, labels.labels, labels.totals)
        levels = None if groups is None else Levels.from_labels(groups.labels)
        counts = RowCounts(labels.n_rows, None if groups is None else groups.counts)
        categories = {name: one_hot.check_levels(name, found.labels) for name, found in summary.categories.items()}
        return TableEncoder(self, labels.labels, levels, factors, counts, categories=categories)

    def encoder(self, learned: dict[str, Any]) -> "TableEncoder":
        """Encoder restored from a cache."""
        return TableEncoder(self, **learned)

    def read(self, raw: RawTable | ReadTable, levels: Mapping[Any, NDArray[Any]] | None = None) -> ReadTable:
        """Rows as numbers; with ``drop_zero_weights`` only those of positive weight."""
        if isinstance(raw, RawTable):
            y, weights = self._labels(raw)
            X, members = inputs.read_rows(raw.X, self.group, levels if self.categories else None)
            raw = ReadTable(X, y, weights, members)
        return raw.without_zero_weights() if self.drop_zero_weights else raw

    def _labels(self, raw: RawTable) -> tuple[NDArray[Any], Array]:
        """Labels and weights of some rows; there may be none."""
        y, n_rows = np.empty(0), len(raw.X)
        if len(raw.y):
            y = column_or_1d(label_checks.read_labels(raw.y), warn=True)
        if len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, and y has {len(y)} labels.")
        return y, label_checks.read_weights(raw.weights, n_rows, self.weights, may_all_be_zero=True)


@final
@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Encodes rows of a table: one model for two classes, else one for each class against the rest."""

    reader: TableReader
    classes: NDArray[Any]
    levels: Levels | None = None
    factors: Array | None = None  # of the weights of each class
    counts: RowCounts | None = None
    n_dropped: int = 0
    in_order: bool = False
    categories: dict[Any, NDArray[Any]] = field(default_factory=dict)  # levels of the columns that are encoded here

    @property
    def learned(self) -> dict[str, Any]:
        """Classes, levels of the group and of categories, and weights of the classes."""
        learned = {"classes": self.classes, "levels": self.levels, "factors": self.factors}
        return learned | {"categories": self.categories}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        labels = self.reader.names
        if not self.categories:
            return labels
        return tuple(one_hot.names(labels, one_hot.by_label(self.reader.inputs, labels, self.categories)))

    @property
    def dtype(self) -> DTypeLike:
        """The type of the table."""
        return self.reader.dtype

    def __call__(self, part: Partition) -> LabelledData | None:
        """Encoded rows of a partition, or None if none has positive weight."""
        rows = self.reader.read(part.raw, self.categories)
        if not rows.weights.any():
            return None
        codes = label_checks.class_codes(self.classes, rows.y)
        positive = (1,) if len(self.classes) == 2 else range(len(self.classes))
        labels = tuple(np.where(codes == k, 1.0, -1.0) for k in positive)
        levels = () if rows.members is None or self.levels is None else (self.levels.encode([rows.members]),)
        weights, sample_weights = rows.weights, None
        if self.factors is not None:
            weights, sample_weights = label_checks.check_counts(weights * self.factors[codes]), weights
        return LabelledData(Encoded(rows.X, levels), labels, weights, sample_weights, rows.row_numbers)

    def count(self, part: Partition) -> RowCounts | None:
        """Never called: the counts are known from the summary."""
        raise NotImplementedError

    def columns(self, rows: LabelledData) -> ColumnSummary:
        """Summary of the columns; infinite values are rejected with their row and column."""
        X = rows.encoded.table
        columns = (sparse_summary if issparse(X) else ColumnSummary.from_rows)(X, rows.column_weights)
        validation.check_finite_columns(X, rows.weights, columns.ranges, self.names, rows.row_numbers)
        return columns

    def design(self, columns: ColumnSummary, rows: LabelledData) -> Design:
        """Every column is a predictor that may be missing."""
        reader, X, names = self.reader, rows.encoded.table, self.names
        validation.check_observed_columns(columns.ranges, names)
        recipe = columns.recipe(reader.intercept, reader.standardize)
        if issparse(X) and validation.needs_draws(X):
            recipe = with_common_scale(recipe)
        factors = ()
        if self.levels is not None:
            factors = (FactorPlan((str(reader.group),), self.levels, (INTERCEPT,), slopes=(0,)),)
        plan = Plan(recipe, names, len(names), factors)
        return Design(plan, partial(_blocks, reader.prior, plan), InputTerms(range(len(plan.names))))


def _blocks(prior: Prior, plan: Plan, likelihood: Likelihood) -> tuple[Block, ...]:
    """Blocks of Examples 1 and 2 of the paper: unpenalised intercept, predictors, and random intercepts."""
    blocks = [Block("intercept", (slice(0, 1),), INTERCEPT_PRIOR)] if plan.recipe.intercept else []
    columns = slice(plan.recipe.first, plan.n_fixed)
    blocks.append(Block(INPUTS, (columns,), prior, prior.gate_of(plan.names)))
    for begin, factor in zip(plan.first_effects(), plan.factors, strict=True):
        effects = (slice(begin, begin + factor.size),)
        blocks.append(Block(f"(1 | {factor.name})", effects, variance_prior(likelihood)))
    return tuple(blocks)
