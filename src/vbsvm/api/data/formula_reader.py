"""The columns of a formula: which rows of a frame count, their outcome, and what the terms mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from vbsvm.api.data import label_checks
from vbsvm.api.data.partitions import Design, InputTerms, LabelledData, Partition, RowCounts
from vbsvm.api.missing_values import column_sampler
from vbsvm.api.priors import prior_blocks
from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Encoded
from vbsvm.design.formula import learning
from vbsvm.design.formula.reader import Reader
from vbsvm.design.formula.summary import FormulaSummary, Needs
from vbsvm.design.formula.syntax import FormulaParts
from vbsvm.design.scaling import ColumnSummary
from vbsvm.missing.categories import LevelCounts, log_weights
from vbsvm.missing.rows import design_rows
from vbsvm.missing.settings import NO_TRANSFORM, REGRESSOR, GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.model.row_pass import add_optional

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class UsedRows:
    """Indices of the rows used (None for all), weights, number of dropped rows, and in memory the formula's columns."""

    rows: NDArray[np.intp] | None
    weights: Array
    n_dropped: int
    frame: "pd.DataFrame | None" = None


@final
@dataclass(frozen=True, eq=False)
class UsedSummary:
    """Summary of the rows used (None if there are none), and the number of dropped rows."""

    formula: FormulaSummary | None
    n_dropped: int

    def __add__(self, other: Self) -> "UsedSummary":
        """Join two sets of rows."""
        return UsedSummary(add_optional(self.formula, other.formula), self.n_dropped + other.n_dropped)


@final
@dataclass(frozen=True, eq=False)
class FormulaReader:
    """Reads the columns of a formula in frames; ``weights`` are a column or, in memory, numbers.

    Where the rows are ``resident``, all of them are learned from as they are, and missing values may be drawn.
    """

    parts: FormulaParts
    weights: str | ArrayLike | None
    missing: str
    positive: Any
    priors: Mapping[str, Prior | str]
    imputation: GaussianImputation
    standardize: bool
    resident: bool
    no_rows: str = ""
    label_columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Reject settings that need all rows in memory."""
        if self.imputation.transform != NO_TRANSFORM and not self.resident:
            raise ValueError(
                f"GaussianImputation: transform={self.imputation.transform!r} needs rows in memory: give Model a "
                "frame of some rows, or transform the columns in the files."
            )

    @property
    def columns(self) -> list[str]:
        """The formula's columns, and that of the weights."""
        columns = list(self.parts.columns)
        return [*columns, self.weights] if isinstance(self.weights, str) and self.weights not in columns else columns

    @property
    def about(self) -> dict[str, Any]:
        """Settings that determine the encoded rows: the key of the cache."""
        return {
            "kind": "formula",
            "formula": self.parts.text,
            "columns": self.parts.columns,
            "weights": self.weights,
            "positive": self.positive,
            "missing": self.missing,
            "standardize": self.standardize,
        }

    def summary(self, part: Partition) -> Any:
        """Summary of a partition; rows in memory are all there are, and stay as they are."""
        used = self.used_rows(part.raw)
        if self.resident:
            frame = frames.take(part.raw, self.parts.columns, used.rows, may_miss=self.parts.inputs)
            return replace(used, frame=frame)
        if not len(used.weights):
            return UsedSummary(None, used.n_dropped)
        summary = self._needs.summary(part.raw, used.rows, used.weights, part.first)
        return UsedSummary(summary, used.n_dropped)

    def learn(self, summary: Any) -> "FormulaEncoder":
        """What the terms mean."""
        if self.resident:
            return self._learn_in_memory(summary)
        if summary is None or summary.formula is None:
            raise ValueError(self.no_rows)
        total: FormulaSummary = summary.formula
        frame = total.frame()
        classes, _ = label_checks.read_outcome(frame[self.parts.outcome], self.positive)
        design, centred = total.learn(self.standardize)
        has_missing = {str(name): bool(gap) for name, gap in frame.isna().any().items()}
        factors, counts = design.plan.factors, None
        if not any(has_missing[name] for name in design.categories.names):
            last_factor = total.needs.factors.index(factors[-1].columns) if factors else None
            counts = RowCounts(total.n_rows, None if last_factor is None else total.groups[last_factor].counts)
        incomplete = any(has_missing[name] for name in self.parts.inputs)
        return FormulaEncoder(self, design, centred, classes, summary.n_dropped, incomplete, counts)

    def encoder(self, learned: dict[str, Any]) -> "FormulaEncoder":
        """Encoder restored from a cache."""
        return FormulaEncoder(self, **learned)

    def used_rows(self, data: Any) -> UsedRows:
        """Rows of positive weight that are not dropped."""
        if self.missing not in ("infer", "drop"):
            raise ValueError(f"missing must be 'infer' or 'drop'; got {self.missing!r}.")
        n_rows = len(frames.column(data, self.parts.outcome))
        if not self.resident and not n_rows:
            return UsedRows(None, np.empty(0), 0)
        weights, n_dropped = self._weights(data, n_rows)
        rows = None if weights.all() else np.flatnonzero(weights)
        return UsedRows(rows, weights if rows is None else weights[rows], n_dropped)

    @cached_property
    def _needs(self) -> Needs:
        return Needs.from_formula(self.parts)

    def _weights(self, data: Any, n_rows: int) -> tuple[Array, int]:
        """Weights, 0 for rows that are dropped; and the number of dropped rows of positive weight."""
        raw, unknown, drops = cast(Any, self.weights), np.zeros(n_rows, dtype=bool), self.missing == "drop"
        if isinstance(raw, str):
            raw = frames.take(data, [raw], may_miss=[raw] if drops else ())[raw].to_numpy()
        if drops and np.shape(raw) == unknown.shape:
            unknown = frames.column({"weights": raw}, "weights").isna().to_numpy()
            raw = np.where(unknown, 0.0, raw)
        weights = label_checks.read_weights(raw, n_rows, "weights", may_all_be_zero=not self.resident)
        if not drops:
            return weights, 0
        masks = {name: frames.column(data, name).isna().to_numpy() for name in self.parts.columns}
        complete = ~np.logical_or.reduce([*masks.values()])
        if self.resident and not (weights[complete] > 0).any():
            worst = max(masks, key=lambda name: int(masks[name].sum()))
            raise ValueError(
                f"missing='drop' leaves no row: each has a missing value; column {worst!r} is missing in "
                f"{masks[worst].sum()} of {n_rows} rows."
            )
        return np.where(complete, weights, 0.0), int(((weights > 0) & ~complete | unknown).sum())

    def _learn_in_memory(self, rows: UsedRows) -> "FormulaEncoder":
        """Learn the terms from all rows in memory, and encode these."""
        assert rows.frame is not None
        classes, y = label_checks.read_outcome(rows.frame[self.parts.outcome], self.positive)
        incomplete = bool(rows.frame.isna().any(axis=None))
        sampler = column_sampler(self.imputation, y, rows.weights) if incomplete else None
        design, centred, encoded = learning.learn(self.parts, rows.frame, rows.weights, self.standardize, sampler)
        labelled = _labelled(encoded, y, rows.weights, rows.frame.index.to_numpy(dtype=np.intp))
        return FormulaEncoder(self, design, centred, classes, rows.n_dropped, encoded=labelled)


@final
@dataclass(frozen=True, eq=False)
class FormulaEncoder:
    """Encodes the rows used.

    Where predictors are missing somewhere, all partitions have multipliers; where categories are, all have candidates,
    and rows have to be counted. Rows in memory have been ``encoded`` when their terms were learned.
    """

    reader: FormulaReader
    formula: Reader
    centred: NDArray[np.bool_]
    classes: NDArray[Any]
    n_dropped: int
    incomplete: bool = False
    counts: RowCounts | None = None
    encoded: LabelledData | None = None
    in_order: bool = True
    dtype: DTypeLike = np.float64

    @property
    def learned(self) -> dict[str, Any]:
        """What the terms mean, before columns are scaled."""
        names = ("formula", "centred", "classes", "n_dropped")
        return {name: getattr(self, name) for name in names}

    def __call__(self, part: Partition) -> LabelledData | None:
        """Encoded rows of a partition, or None if none has positive weight."""
        if self.encoded is not None:
            return self._with_draw_weights(self.encoded)
        used = self.reader.used_rows(part.raw)
        if not len(used.weights):
            return None
        name, design = self.reader.parts.outcome, self.formula
        frame = design.select(part.raw, used.rows)
        encoded = design.encode(frame)
        outcome = frames.take(part.raw, [name], used.rows)[name]
        y = np.where((outcome == self.classes[1]).to_numpy(dtype=bool), 1.0, -1.0)
        if encoded.candidates is None and self.counts is None:
            levels = design.categories.known_levels(frame)
            encoded = replace(encoded, candidates=Candidates(np.arange(len(levels)), levels))
        if encoded.multipliers is None and self.incomplete:
            encoded = replace(encoded, multipliers=np.zeros((len(encoded.table), len(design.linear.links))))
        return _labelled(encoded, y, used.weights, frame.index.to_numpy(dtype=np.intp) + part.first)

    def count(self, part: Partition) -> RowCounts | None:
        """Number of rows after expansion of missing categories, in all and by level of the last factor."""
        used, design = self.reader.used_rows(part.raw), self.formula
        if not len(used.weights):
            return None
        frame = design.select(part.raw, used.rows)
        n_candidates, by_level = design.categories.n_candidates(frame), None
        if design.plan.factors:
            by_level = np.zeros(len(design.plan.factors[-1].levels), dtype=np.intp)
            np.add.at(by_level, design.levels_of(frame)[-1], n_candidates)
        return RowCounts(int(n_candidates.sum()), by_level)

    def columns(self, rows: LabelledData) -> ColumnSummary:
        """Summary of the columns; infinite values were rejected by the encoding."""
        return ColumnSummary.from_rows(rows.encoded.table, rows.column_weights)

    def design(self, columns: ColumnSummary, rows: LabelledData) -> Design:
        """The terms with their columns scaled."""
        design, linear = self._scaled(columns), self.formula.linear
        drawn = () if design.drawn is None else design.drawn.names
        links = [(column, linear.variables[k].place) for column, k in linear.links]
        return Design(
            design.plan,
            partial(prior_blocks, design, self.reader.priors, standardised=self.reader.standardize),
            InputTerms(design.mains, links, design.uncertain, design.categories.names, drawn),
            design,
            None if rows.encoded.candidates is None else LevelCounts(design.categories.counts),
        )

    def _scaled(self, columns: ColumnSummary) -> Reader:
        intercept = self.formula.plan.recipe.intercept
        return self.formula.scaled(columns.recipe(intercept, self.reader.standardize, self.centred))

    def _with_draw_weights(self, rows: LabelledData) -> LabelledData:
        """The rows with log weights of drawn values: given the label, or equal if labels are ignored."""
        encoded, candidates = rows.encoded, rows.encoded.candidates
        if candidates is None or candidates.draws is None:
            return rows
        weights = -np.log(candidates.draw_runs.sizes)
        if self.reader.imputation.labels == REGRESSOR:
            plan = self._scaled(self.columns(rows)).plan
            design = design_rows(plan.recipe, encoded.table)[:, : plan.n_fixed]
            wiggly = slice(plan.recipe.first + plan.n_shown, plan.n_fixed)
            weights = log_weights(design, rows.labels[0], rows.weights, candidates, wiggly)
        return replace(rows, encoded=replace(encoded, candidates=replace(candidates, log_weights=weights)))


def _labelled(encoded: Encoded, y: Array, weights: Array, row_numbers: NDArray[np.intp]) -> LabelledData:
    """Encoded rows with labels, weights and row numbers; candidates take those of their row."""
    if encoded.candidates is not None:
        row = encoded.candidates.row
        y, weights, row_numbers = y[row], weights[row], row_numbers[row]
    return LabelledData(encoded, (y,), weights, row_numbers=row_numbers)
