"""The problem of a formula: which rows of a frame count, their outcome, and the terms' columns and priors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike

from vbsvm.api import validation
from vbsvm.api.assembly import Problem, TwoClasses
from vbsvm.api.formula_priors import blocks_of
from vbsvm.api.missing_values import InputTerms
from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.formula import reader as formulas
from vbsvm.design.formula import syntax
from vbsvm.design.scaling import column_ranges
from vbsvm.missing.level_model import LevelCounts
from vbsvm.missing.settings import REGRESSOR, GaussianImputation
from vbsvm.model.priors import Prior

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
        if missing not in ("infer", "drop"):
            raise ValueError(f"missing must be 'infer' or 'drop'; got {missing!r}.")
        if missing == "drop":
            counts, n_dropped = _complete_counts(parts, data, weights)
        else:
            counts, n_dropped = _read_weights(weights, data, parts.outcome), 0
        kept = None if counts is None or counts.all() else np.flatnonzero(counts)
        frame = frames.take(data, parts.columns, kept, may_miss=parts.inputs)
        counts = np.broadcast_to(1.0, len(frame)) if counts is None else counts if kept is None else counts[kept]
        return KeptRows(frame, counts, n_dropped)

    def outcome(self, parts: syntax.FormulaParts, positive: Any) -> TwoClasses:
        """The two classes, ``positive`` against the rest."""
        labels, signs = validation.read_outcome(parts.outcome, self.frame[parts.outcome], positive)
        validation.require_both_signs(signs, parts.outcome)
        return TwoClasses(labels, signs)

    def problem(
        self,
        parts: syntax.FormulaParts,
        outcome: TwoClasses,
        priors: Mapping[str, Prior],
        imputation: GaussianImputation,
        *,
        standardize: bool,
    ) -> Problem:
        """Learn what the terms mean; rows lie in the order of the largest factor's levels.

        So a pass finds what it looks up side by side.
        """
        reader, rows = formulas.learn(parts, self.frame, self.weights, standardize)
        signs, weights, known_levels = outcome.signs, self.weights, None
        given = self.frame.index.to_numpy(dtype=np.intp)
        if rows.candidates is not None:
            known_levels = LevelCounts(reader.categories.counts)
            which, candidates = rows.candidates.row, rows.candidates
            if imputation.held:
                groups = np.where(imputation.labels == REGRESSOR, outcome.signs > 0, 0)
                logs = reader.categories.log_chances(self.frame, groups, self.weights)
                rows = replace(rows, candidates=candidates.with_chances(logs, groups[which]))
            signs, weights, given = signs[which], weights[which], given[which]
        if rows.levels and (rows.levels[-1][1:] < rows.levels[-1][:-1]).any():
            order = np.argsort(rows.levels[-1], kind="stable")
            rows, signs, weights, given = rows.take(order), signs[order], weights[order], given[order]
        linear = reader.linear
        links = [(column, linear.variables[k].place) for column, k in linear.links]
        return Problem(
            reader.plan,
            rows,
            weights,
            column_ranges(rows.table, weights),
            (TwoClasses(outcome.labels, signs),),
            blocks_of(reader, priors),
            imputation,
            InputTerms(reader.mains, links, reader.uncertain, reader.categories.names),
            known_levels,
            reader,
            self.n_dropped,
            given=given,
        )


def _complete_counts(parts: syntax.FormulaParts, data: Any, weights: str | ArrayLike | None) -> tuple[Array, int]:
    """Weights of the rows, 0 for those that miss something; and how many these are that would have counted."""
    masks = frames.missing_rows(data, parts.columns)
    given: Any = weights
    if isinstance(weights, str):
        given = frames.take(data, [weights], may_miss=[weights])[weights].to_numpy()
    unknown = np.zeros(len(masks[parts.outcome]), dtype=bool)
    if np.shape(given) == unknown.shape:
        unknown = frames.missing_rows({"weights": given}, ["weights"])["weights"]
        given = np.where(unknown, 0.0, given)
    counts = validation.read_weights(given, len(unknown), "weights")
    complete = ~np.logical_or.reduce([*masks.values()])
    if not (counts[complete] > 0).any():
        worst = max(masks, key=lambda name: int(masks[name].sum()))
        raise ValueError(
            f"missing='drop' leaves no row: each has a missing value; column {worst!r} is missing in "
            f"{masks[worst].sum()} of {len(complete)} rows."
        )
    return np.where(complete, counts, 0.0), int(((counts > 0) & ~complete | unknown).sum())


def _read_weights(weights: str | ArrayLike | None, data: Any, outcome: str) -> Array | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        weights = frames.take(data, [weights])[weights].to_numpy()
    return validation.read_weights(weights, len(frames.column(data, outcome)), "weights")
