"""The problem of a formula: which rows of a frame count, their outcome, and the terms' columns and priors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.api import label_checks
from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.formula_priors import blocks_of
from vbsvm.api.missing_values import InputTerms, column_sampler
from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.columns import Encoded
from vbsvm.design.formula import learning, syntax
from vbsvm.design.formula.reader import Reader
from vbsvm.design.scaling import Range, column_ranges
from vbsvm.missing.categories import LevelCounts, log_weights
from vbsvm.missing.rows import design_rows
from vbsvm.missing.settings import REGRESSOR, GaussianImputation
from vbsvm.model.priors import Prior
from vbsvm.sources.pages import Pages

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of positive weight, and how many more were left out because they miss values."""

    frame: "pd.DataFrame"
    weights: Array
    n_dropped: int

    @staticmethod
    def of(parts: syntax.FormulaParts, data: Any, weights: str | ArrayLike | None, missing: str) -> "KeptRows":
        """Take the formula's columns; ``missing="drop"`` leaves out the rows that miss a value."""
        counts, n_dropped = counts_of(parts, data, weights, missing)
        kept = None if counts is None or counts.all() else np.flatnonzero(counts)
        frame = frames.take(data, parts.columns, kept, may_miss=parts.inputs)
        counts = np.broadcast_to(1.0, len(frame)) if counts is None else counts if kept is None else counts[kept]
        return KeptRows(frame, counts, n_dropped)

    def outcome(self, parts: syntax.FormulaParts, positive: Any) -> TwoClasses:
        """The two classes, ``positive`` against the rest."""
        labels, signs = label_checks.read_outcome(parts.outcome, self.frame[parts.outcome], positive)
        label_checks.require_both_signs(signs, parts.outcome)
        return TwoClasses(labels, signs)

    def problem(
        self,
        parts: syntax.FormulaParts,
        outcome: TwoClasses,
        priors: Mapping[str, Prior | str],
        imputation: GaussianImputation,
        *,
        standardize: bool,
    ) -> Problem:
        """Learn what the terms mean; rows lie in the order of the largest factor's levels.

        So a pass finds what it looks up side by side.
        """
        how = column_sampler(imputation, outcome.signs, self.weights)
        reader, rows = learning.learn(parts, self.frame, self.weights, standardize, how)
        signs, weights = outcome.signs, self.weights
        given = self.frame.index.to_numpy(dtype=np.intp)
        if rows.candidates is not None:
            which = rows.candidates.row
            signs, weights, given = signs[which], weights[which], given[which]
            if rows.candidates.draws is not None:
                rows = _with_shares(reader, rows, signs, weights, imputation)
        if rows.levels and (rows.levels[-1][1:] < rows.levels[-1][:-1]).any():
            order = np.argsort(rows.levels[-1], kind="stable")
            rows, signs, weights, given = rows.take(order), signs[order], weights[order], given[order]
        ranges, found = column_ranges(rows.table, weights), TwoClasses(outcome.labels, signs)
        about = priors, imputation, self.n_dropped, given
        return stated(reader, rows, found, weights, ranges, *about, standardize=standardize)


def _with_shares(
    reader: Reader, rows: Encoded, signs: Array, weights: Array, imputation: GaussianImputation
) -> Encoded:
    """The rows with shares for drawn values: by the label, or equal ones where that has no say."""
    plan, candidates = reader.plan, rows.candidates
    assert candidates is not None
    if imputation.labels != REGRESSOR:
        return replace(rows, candidates=replace(candidates, log_weights=-np.log(candidates.runs.sizes)))
    design = design_rows(plan.recipe, rows.table)[:, : plan.n_fixed]
    bends = slice(plan.recipe.first + plan.n_shown, plan.n_fixed)
    shared = log_weights(design, signs, weights, candidates, bends)
    return replace(rows, candidates=replace(candidates, log_weights=shared))


def stated(
    reader: Reader,
    rows: Encoded,
    outcome: TwoClasses,
    weights: Array,
    ranges: Range,
    priors: Mapping[str, Prior | str],
    imputation: GaussianImputation,
    n_dropped: int,
    given: NDArray[np.intp],
    pages: Pages | None = None,
    *,
    standardize: bool,
) -> Problem:
    """The problem of rows that the reader has encoded."""
    linear, drawn = reader.linear, () if reader.drawn is None else reader.drawn.names
    links = [(column, linear.variables[k].place) for column, k in linear.links]
    return Problem(
        reader.plan,
        rows,
        weights,
        ranges,
        (outcome,),
        partial(blocks_of, reader, priors, standardised=standardize),
        imputation,
        InputTerms(reader.mains, links, reader.uncertain, reader.categories.names, drawn),
        None if rows.candidates is None else LevelCounts(reader.categories.counts),
        reader,
        n_dropped,
        given=given,
        pages=pages,
    )


def counts_of(
    parts: syntax.FormulaParts, data: Any, weights: str | ArrayLike | None, missing: str, *, some: bool = False
) -> tuple[Array | None, int]:
    """Weights of the rows, None for 1 each, and how many are left out as they miss values.

    ``some`` says that there are other rows: then none of these need count.
    """
    if missing not in ("infer", "drop"):
        raise ValueError(f"missing must be 'infer' or 'drop'; got {missing!r}.")
    if missing == "drop":
        return _complete_counts(parts, data, weights, some)
    return _read_weights(weights, data, parts.outcome, some), 0


def _complete_counts(
    parts: syntax.FormulaParts, data: Any, weights: str | ArrayLike | None, some: bool
) -> tuple[Array, int]:
    """Weights of the rows, 0 for those that miss something; and how many these are that would have counted."""
    masks = frames.missing_rows(data, parts.columns)
    given: Any = weights
    if isinstance(weights, str):
        given = frames.take(data, [weights], may_miss=[weights])[weights].to_numpy()
    unknown = np.zeros(len(masks[parts.outcome]), dtype=bool)
    if np.shape(given) == unknown.shape:
        unknown = frames.missing_rows({"weights": given}, ["weights"])["weights"]
        given = np.where(unknown, 0.0, given)
    counts = label_checks.read_weights(given, len(unknown), "weights", may_all_be_zero=some)
    complete = ~np.logical_or.reduce([*masks.values()])
    if not some and not (counts[complete] > 0).any():
        worst = max(masks, key=lambda name: int(masks[name].sum()))
        raise ValueError(
            f"missing='drop' leaves no row: each has a missing value; column {worst!r} is missing in "
            f"{masks[worst].sum()} of {len(complete)} rows."
        )
    return np.where(complete, counts, 0.0), int(((counts > 0) & ~complete | unknown).sum())


def _read_weights(weights: str | ArrayLike | None, data: Any, outcome: str, some: bool) -> Array | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        weights = frames.take(data, [weights])[weights].to_numpy()
    n_rows = len(frames.column(data, outcome))
    return label_checks.read_weights(weights, n_rows, "weights", may_all_be_zero=some)
