"""What a fit says of missing inputs: their values, their distribution, and what is lost with them."""

from abc import ABC
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import read_seed
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import INTERCEPT, Encoded, Plan
from vbsvm.missing.categories import FixedLevels
from vbsvm.missing.imputation import MissingPatterns, Population, ProperDraw, impute, mean_and_covariance, with_index
from vbsvm.missing.model import input_model
from vbsvm.model.spec import Spec
from vbsvm.results import coefficients, imputation, same_frame
from vbsvm.results.intervals import ROBUST, Intervals
from vbsvm.results.training_rows import TrainingRows

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.reader import Reader


class FitImputation(ABC):
    """Missing inputs of one two-class model."""

    spec: Spec
    plan: Plan
    classes: NDArray[Any]
    reader: "Reader | None"
    missing_patterns: MissingPatterns | None
    _rows: TrainingRows | None

    @property
    def input_population(self) -> Population | None:
        """Mean and covariance of the inputs."""
        raise NotImplementedError

    def intervals(self, covariance: str | None = None) -> Intervals:
        """Spreads of the coefficients of a kind."""
        raise NotImplementedError

    def summary(self, level: float = 0.95, covariance: str | None = None) -> "pd.DataFrame":
        """One row for each coefficient."""
        raise NotImplementedError

    def _read(self, data: Any, new_groups: str) -> Encoded:
        """Rows that were encoded, or are."""
        raise NotImplementedError

    def _log_chances(
        self,
        candidates: Candidates,
        table: NDArray[np.floating],
        signs: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Log probability of each candidate."""
        raise NotImplementedError

    def _log_label_chances(self, encoded: Encoded, signs: Array) -> Array:
        """Log probability of these labels, for each candidate."""
        raise NotImplementedError

    @property
    def _held_levels(self) -> FixedLevels | None:
        """What missing categories depend on."""
        raise NotImplementedError

    @overload
    def impute(self, data: Any) -> "tuple[pd.DataFrame, pd.DataFrame]": ...

    @overload
    def impute(
        self, data: Any, n: int, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "list[pd.DataFrame]": ...

    def impute(
        self, data: Any, n: int | None = None, *, y: ArrayLike | None = None, random_state: Any = None
    ) -> "tuple[pd.DataFrame, pd.DataFrame] | list[pd.DataFrame]":
        """The inputs with missing values replaced by their expected values given the others, and standard deviations.

        Both are on the original scale of the columns; the standard deviation of a known value is 0. Labels are not
        used. Categories have no expected value, and are not in these tables.

        With ``n`` it gives a list of so many copies of the data instead, in which missing numbers and categories are
        drawn, with the parameters of their distribution drawn too: multiple imputation. Fit each, and ``pool`` the
        fits. For the rows of the fit give their outcome as ``y``: labels then are regressors of the missing values,
        without which coefficients of these columns would be too small. Values are taken to be missing at random.
        """
        if n is None:
            encoded = self._read(data, "population")
            tables = impute(self.plan, self._population(), encoded)
            if self.reader is not None and self.reader.drawn is not None and not isinstance(data, Encoded):
                drawn = imputation.expected_drawn(self.reader, data)
                tables = tables[0].assign(**drawn[0]), tables[1].assign(**drawn[1])
            expected, spread = (with_index(table, data) for table in tables)
            return same_frame.like(data, expected), same_frame.like(data, spread)
        if self.reader is None:
            raise TypeError("This fit belongs to an estimator: use the methods of the estimator.")
        frame, places = imputation.fillable(self.reader, data)
        labels = None if y is None else imputation.label_columns(y, self.classes, len(frame))
        encoded, columns = self._read(data, "population"), np.array(list(places.values()), np.intp)
        draws, told, rng = self._proper_draws(n, labels, random_state)
        reader, tables = self.reader.with_draws(imputation.LEAST_PROPOSALS), []
        for draw in draws:
            proposed = None
            if encoded.candidates is not None and encoded.candidates.draws is not None:
                rows = reader.taken(data)
                proposed = reader.proposed_draws(rows, rng)
                encoded = reader.encode(rows, proposed)
            table, completed, candidates = encoded.table, frame, encoded.candidates
            if candidates is not None:
                signs = None if labels is None else labels[candidates.row, 0]
                chances = self._log_chances(candidates, table, signs, rng)
                if proposed is not None and signs is not None:
                    chances = chances + self._log_label_chances(encoded, signs)
                which = candidates.one_each(chances, rng)
                completed = imputation.with_levels(frame, reader.categories, candidates.levels[which])
                if proposed is not None and reader.drawn is not None:
                    completed = imputation.with_drawn(completed, reader.drawn.names, candidates.take(which), proposed)
                table = table[which]
            values = imputation.drawn_inputs(self.plan, table, draw, told, columns, rng)
            tables.append(same_frame.like(data, imputation.with_values(completed, list(places), values)))
        return tables

    def drawn_inputs(
        self, table: NDArray[np.floating], columns: NDArray[np.intp], n: int, labels: Array | None, random_state: Any
    ) -> list[Array]:
        """These columns of a raw table, completed by n proper draws; ``labels`` are columns that tell classes."""
        draws, told, rng = self._proper_draws(n, labels, random_state)
        return [imputation.drawn_inputs(self.plan, table, draw, told, columns, rng) for draw in draws]

    def _proper_draws(
        self, n: int, labels: Array | None, random_state: Any
    ) -> tuple[list[ProperDraw], Array | None, np.random.Generator]:
        """Draws of the inputs' distribution, the labels where it knows them, and what values are drawn with."""
        n, seed = imputation.read_number(n), read_seed(random_state)
        self._population()  # refuses too many columns
        if self._rows is None:
            raise ValueError(
                "impute: draws are learned from the training data, which this fit no longer holds. Fit again, or ask "
                "for them before the model is saved."
            )
        model, levels = input_model(self.spec.missing), self._held_levels
        known = labels is not None and model is not None and model.n_beside == labels.shape[1]
        if labels is not None and not known and (levels is None or not levels.labelled):
            raise ValueError(
                "impute: y is a regressor of missing values where some were missing in fit, under "
                'GaussianImputation(labels="regressor"). This fit is another: leave y out.'
            )
        return self._rows.proper_draws(n, seed), labels if known else None, np.random.default_rng(seed)

    def missing_information(self) -> "pd.Series":
        """The share of the information about each coefficient that is missing: the part of its variance due to that.

        It is that of robust intervals, and there where these are: for variational fits without gates whose missing
        values are missing at random, under ``GaussianImputation(labels="regressor")``.
        """
        import pandas as pd

        found = coefficients.missing_information(self.plan, self.intervals(ROBUST))
        if found is None:
            raise ValueError("missing_information: no input of this fit is missing.")
        return pd.Series(found, index=self.summary(covariance=ROBUST).index, name="missing_information")

    @property
    def missing_shares(self) -> dict[str, float]:
        """The share of the information about each coefficient that is missing, where tables show it; else nothing."""
        found = coefficients.missing_information(self.plan, self.intervals())
        if found is None:
            return {}
        names = ((INTERCEPT,) if self.plan.recipe.intercept else ()) + tuple(self.plan.shown_names)
        return dict(zip(names, found.tolist(), strict=True))

    def missing_summary(self) -> "pd.DataFrame":
        """Which inputs were missing together in fit: one row for each pattern (True is missing), the commonest first.

        ``rows`` counts its rows, ``share`` is their share of all. ``attrs["missing"]`` counts by column.
        """
        if self.missing_patterns is None:
            raise AttributeError("missing_summary is only available after a fit by an estimator or a Model.")
        return self.missing_patterns.table()

    @property
    def imputation_mean(self) -> Array:
        """Mean of each input, on its own scale, missing values taken into account."""
        return mean_and_covariance(self.plan, self._population())[0]

    @property
    def imputation_cov(self) -> Array:
        """Covariance of the inputs, on their own scale, missing values taken into account."""
        return mean_and_covariance(self.plan, self._population())[1]

    def _population(self) -> Population:
        if self.input_population is None:
            raise AttributeError("The distribution of the inputs was not learned: there are more than 3000 columns.")
        return self.input_population
