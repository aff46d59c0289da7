"""Shares of candidates that are known before the coefficients: levels given complete inputs and the label."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.candidates import Candidates
from vbsvm.design.scaling import Recipe
from vbsvm.missing.level_sums import CategorySums, LevelLaw
from vbsvm.missing.proper_draws import ProperDraw

LevelLaws = tuple[LevelLaw, ...]


@final
@dataclass(frozen=True, eq=False)
class HeldLevels:
    """What the levels of each category depend on, columns of the design, and the moments that tell how.

    ``labelled`` says whether they depend on the label of their row, too.
    """

    columns: tuple[NDArray[np.intp], ...]
    sums: CategorySums
    labelled: bool

    @cached_property
    def laws(self) -> LevelLaws:
        """Of the rows of the fit."""
        return tuple(one.law() for one in self.sums.categories) if self.labelled else self.predicted

    @cached_property
    def predicted(self) -> LevelLaws:
        """Of rows whose label is not known."""
        return tuple(one.without_labels().law() for one in self.sums.categories)

    def drawn(self, rng: np.random.Generator, *, labelled: bool) -> LevelLaws:
        """The same with parameters that are drawn, of rows with or without labels."""
        sums = [one if labelled and self.labelled else one.without_labels() for one in self.sums.categories]
        return tuple(one.law(rng) for one in sums)

    def attached(self, candidates: Candidates, design: Array, signs: Array) -> Candidates:
        """Candidates of the fit with their log probabilities, in rows of the design that have these labels."""
        predicted = self.log_chances(self.predicted, candidates, design)
        held = self.log_chances(self.laws, candidates, design, signs) if self.labelled else predicted
        if candidates.shared is not None and candidates.told is not None:
            held, predicted = held + candidates.shared, predicted + candidates.told
        return replace(candidates, held=held, predicted=predicted)

    def log_chances(self, laws: LevelLaws, candidates: Candidates, design: Array, signs: Array | None = None) -> Array:
        """Log probability of each candidate under these laws; with labels where the laws know them."""
        labels = np.zeros(len(design), dtype=np.intp)
        if signs is not None and self.labelled:
            labels = (signs > 0).astype(np.intp)
        total = np.zeros(len(design)) if candidates.drawn is None else candidates.drawn.copy()
        for law, columns, levels in zip(laws, self.columns, candidates.levels.T, strict=True):
            rows = np.flatnonzero(levels >= 0)
            if len(rows):
                chances = law.log_chances(design[np.ix_(rows, columns)], labels[rows])
                total[rows] += chances[np.arange(len(rows)), levels[rows]]
        return total

    def of_table(
        self,
        laws: LevelLaws,
        candidates: Candidates,
        recipe: Recipe,
        table: NDArray[np.floating],
        signs: Array | None = None,
    ) -> Array:
        """The same of candidates in a raw table."""
        total, lost = np.zeros(len(table)), np.flatnonzero((candidates.levels >= 0).any(axis=1))
        design, labels = ProperDraw.design_of(recipe, table[lost]), None if signs is None else signs[lost]
        total[lost] = self.log_chances(laws, candidates.take(lost), design, labels)
        return total
