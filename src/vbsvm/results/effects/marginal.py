"""Effects that people can read: averages of predicted probabilities, their contrasts and slopes.

Every row gets the value in question, and keeps its other inputs; the predicted probabilities of all rows are averaged
(g-computation). Columns are set before they are encoded, so that transforms, curves and interactions follow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.cached import cached_property
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.base.settings import check_level
from vbsvm.design.columns import Encoded
from vbsvm.results import tables
from vbsvm.results.covariance import covariance as covariance_of
from vbsvm.results.effects.averages import LOGITS, LOGS, PLAIN, AverageEstimate, Link, Models, Scale, weights_in_groups
from vbsvm.results.effects.check import CHECKED, NOT_CHECKED, KnownRows
from vbsvm.results.effects.comparisons import check_comparison, contrast_weights, contrasts_of, named_levels
from vbsvm.results.effects.rows import EffectRows, GivenRows, check_input, grid, groups_of, known_numbers, names_of
from vbsvm.results.fit_predictions import KNOWN, check_groups, warn_of_lacking_groups, with_groups
from vbsvm.results.notes import noted
from vbsvm.results.posterior import Sampled

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

SD = "sd"
# Columns that stratify the rows, or the values that predictors are set to.
By = str | Sequence[str] | Mapping[str, Any] | None
# The step of a slope, in standard deviations of the input.
STEP = 1e-4

SEVERAL = "The models of several classes are taken to err together, so that intervals are rather too wide."


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """Models, classes and rows of average effects; ``data`` are the user's, whose type tables follow."""

    models: Models
    classes: NDArray[Any]
    rows: EffectRows
    data: Any
    learn_known: Callable[[], KnownRows | None]
    level: float = 0.95  # of intervals
    groups: str = KNOWN

    @cached_property
    def known(self) -> KnownRows | None:
        """Observations with known outcomes, against which probabilities are checked."""
        return self.learn_known()

    @property
    def hinge(self) -> bool:
        """Whether the model is a support vector machine, whose probabilities are checked."""
        return not self.models.fits[0].spec.likelihood.normalised

    def _checked(self, what: str, variables: Sequence[str], by: Sequence[str]) -> dict[str, str]:
        """Calibration check for a table of a hinge fit: {"caution": text}, or {"check": whether it was checked}."""
        if not self.hinge:
            return {}
        if self.known is None:
            return {"check": NOT_CHECKED}
        try:
            caution = self.known.caution(what, variables, by, self.classes)
        except ValueError:  # the rows of the fit have no such columns, or too many values of them
            return {"check": NOT_CHECKED}
        return {"check": CHECKED} if caution is None else {"caution": caution}

    def encoded(self, changes: Mapping[str, Any]) -> Encoded:
        """Encode the rows with predictors set."""
        return with_groups(self.models.fits[0], self.rows.encoded(changes), self.groups)

    def table(
        self,
        what: str,
        names: Sequence[str],
        row_groups: "_RowGroups",
        cells: "Iterable[_Cell]",
        scale: Scale,
        *,
        simultaneous: bool = False,
    ) -> "pd.DataFrame":
        """Estimates, standard errors, intervals, and tests unless of effects; by cell, group of rows, and class."""
        import pandas as pd

        several, how = len(self.models.fits) > 1, {"simultaneous": simultaneous, "tested": scale is not LOGITS}
        classes = [(one,) for one in self.classes.tolist()] if several else [()]
        with single_threaded_blas():
            values, averages = zip(*cells, strict=True)
            columns = self.models.interval(AverageEstimate.concatenated(averages), self.level, scale, **how)
        keys = [(*cell, *label, *class_) for cell in values for label in row_groups.labels for class_ in classes]
        index = pd.MultiIndex.from_tuples(keys, names=[*names, *row_groups.by, *["class"] * several])
        index = index if index.nlevels > 1 else index.get_level_values(0)
        frame = pd.DataFrame(columns, index=index)
        notes = max((one.notes for one in self.models.intervals), key=lambda notes: len(notes.explanation))
        check = self._checked(what, [*names, *row_groups.set_columns], row_groups.strata)
        sentences = [notes.explanation, *self._not_included()]
        if simultaneous:
            tests = "" if self.models.of_posterior else ", and p-values are adjusted for their number"
            sentences += [f"Simultaneous intervals (max-|t|): they hold jointly for all {len(frame)} rows{tests}."]
        sentences = [*sentences, SEVERAL] if several else [f'Probability of "{self.classes[1]!s}".', *sentences]
        frame = noted(frame, replace(notes, explanation=" ".join([*sentences, *check.values()])), self.level)
        frame.attrs |= check
        return frame

    def _not_included(self) -> list[str]:
        """Note on the uncertainty that intervals do not include, if any."""
        fit, slope = self.models.fits[0], "" if self.models.link is None else " (except for its slope)"
        fixed = ["variance components", "random effects"] if fit.plan.factors else []
        fixed += ["the distribution of missing predictors"] if fit.spec.missing is not None else []
        fixed += [f"the link from decision values to probabilities{slope}"] if self.hinge else []
        listed = " or ".join(filter(None, [", ".join(fixed[:-1]), *fixed[-1:]]))
        return [f"Intervals do not include the uncertainty of {listed}."] if fixed else []


def subject_of(
    fits: "Sequence[Fit]",
    classes: NDArray[Any],
    data: Any,
    weights: str | ArrayLike | None,
    covariance: str | None,
    read: Callable[[GivenRows], EffectRows],
) -> Subject:
    """Subject of effects over the given rows, or over those of the fit; ``read`` gives rows with named columns.

    The link's uncertainty is by the rows of the fit if they are in memory, else by the given ones.
    """
    fit = fits[0]
    data_rows = GivenRows.of("effects", data, weights, fit._rows)
    rows, has_data = read(data_rows), fit._rows is not None and fit._rows.data is not None

    def basis() -> tuple[Encoded, Array]:
        own = read(GivenRows.of("effects", None, None, fit._rows)) if has_data and data is not None else rows
        return own.encoded({}), own.weights

    def known() -> KnownRows | None:
        """The given rows if their outcomes are known, else those of the fit."""
        training = GivenRows.of("effects", None, None, fit._rows) if has_data else None
        if training is None:
            return KnownRows.from_new_data(fit, rows, data_rows)
        if data_rows.data is training.data and np.array_equal(data_rows.weights, training.weights):
            return KnownRows.from_training(fits, rows, training)
        return KnownRows.from_new_data(fit, rows, data_rows) or KnownRows.from_training(fits, read(training), training)

    n_rows = float(rows.weights.sum()) if fit.facts is None else fit.facts.n_rows
    intervals = [covariance_of(fit_of_class, covariance) for fit_of_class in fits]
    linked = len(fits) == 1 and not isinstance(intervals[0], Sampled)
    models = Models(fits, intervals, Link.learn(fit, *basis(), n_rows) if linked else None)
    return Subject(models, classes, rows, data_rows.data, known)


class AverageEffects(ABC):
    """Mixin with tables of average predicted probabilities, for fits and estimators."""

    @abstractmethod
    def _effects_subject(self, data: Any, weights: str | ArrayLike | None, covariance: str | None) -> Subject:
        """Models, classes and rows of the effects."""

    def effects(
        self,
        variable: str | Sequence[str],
        by: By = None,
        *,
        at: Any = None,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = KNOWN,
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Average predicted probabilities where an input is set to each of its values in all rows.

        Parameters
        ----------
        variable : str or list of str
            The input, by its name in the data; of several, all combinations are set.
        by : str, list of str, or dict of lists, default None
            Columns of the data that part the rows into groups, each with averages of its own. The columns themselves
            are not changed, and rows that miss them are left out. A dict such as ``{"time": [6, 12]}`` sets predictors
            to given values in all rows, with averages for each combination.
        at : list, or dict of lists by variable, default None
            The values. None means all levels of a category, up to ten different numbers, and else the quantiles at 5,
            25, 50, 75 and 95 %.
        data : data frame, default None
            The rows to average over. None means those of the fit, as long as it holds them; a loaded fit does not.
        weights : str or array-like, default None
            Weights of ``data``: a column, or a number for each row. Those of the fit are its own.
        groups : {"known", "new", "error"}, default "known"
            In a model with groups: observations keep the random effects of their groups, unseen ones having those of a
            new group; or all are of new groups, averaged over the distribution of random effects; or unseen groups are
            refused.
        level : float, default 0.95
            Level of the intervals, which are symmetric on the scale of log odds.
        covariance : str, default None
            Type of standard error of the coefficients; see ``summary``.

        Notes
        -----
        The estimate is the average of ``predict_proba``: of the positive class, or of each of several. Standard errors
        are by the delta method or a sampler's draws; by the delta method and for two classes they include that of the
        slope of the link from decision values to probabilities. Variance components, random effects and the
        distribution of missing predictors are fixed. The tables of ``effects``, ``contrasts`` and ``slopes`` are polars
        frames if the data are, with values, groups and classes as columns.

        Effects of a hinge fit are checked: a ``ReliabilityWarning`` names a level (a fifth, of numbers with many
        values) where the mean leave-one-out prediction differs from the observed proportion, and ``observed`` has these
        proportions; NaN where the outcomes or the cells are not known. Without outcomes the note says so.
        """
        chosen: dict[str, Any] = {"at": at, "data": data, "weights": weights, "groups": groups}
        return _for_user(*self._effects_table(variable, by, level=level, covariance=covariance, **chosen))

    def _effects_table(
        self,
        variable: str | Sequence[str],
        by: By,
        *,
        at: Any = None,
        groups: str = KNOWN,
        level: float = 0.95,
        **rest: Any,
    ) -> "tuple[Subject, pd.DataFrame]":
        """Subject of the effects, and their table as a pandas frame with notes."""
        names, values_by_name = names_of("effects", variable, "variable"), _values_of("effects", variable, at)
        subject = self._prepare("effects", groups, level, **rest)
        rows = subject.rows
        if not names:
            raise ValueError("effects: name an input.")
        grids = [grid("effects", rows, name, values_by_name.get(name)) for name in names]
        row_groups = _RowGroups.of("effects", rows, by, names)
        cells = list(product(*grids))
        averages = _averages(subject, names, cells, row_groups)
        table = subject.table(
            "effects", names, row_groups, ((values, one.on_scale(LOGITS)) for values, one in averages), LOGITS
        )
        if subject.hinge:
            table["observed"] = _observed(subject, names, cells, row_groups, len(table))
        return subject, table

    def contrasts(
        self,
        variable: str,
        by: By = None,
        *,
        kind: str = "difference",
        compare: "str | Mapping[str, Mapping[Any, float]]" = "reference",
        simultaneous: bool = False,
        step: float | str = 1.0,
        at: Any = None,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = KNOWN,
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Contrasts of average probabilities between levels of a predictor, or between a number plus a step and itself.

        Where standard errors are robust, ``p_value`` is the two-sided test of no difference; where they are those of a
        posterior, ``p_positive`` is the probability that a difference is above 0, or a ratio above 1.

        Parameters
        ----------
        variable, by, data, weights, groups, level, covariance
            As for ``effects``.
        kind : {"difference", "ratio", "odds ratio"}, default "difference"
            Risk differences, risk ratios, or ratios of the odds of average probabilities.
        compare : {"reference", "pairwise", "sequential"} or dict, default "reference"
            Each level against the first, all pairs, or each level against the one before; or weights by level for each
            contrast, ``{"name": {level: weight, …}, …}``, which sum to 0. Ratios weight logarithms.
        simultaneous : bool, default False
            Intervals that hold jointly for all rows of the table, and adjusted p-values: by the distribution of the
            largest ``|t|``, given the joint covariance of the contrasts. Several classes have Šidák's instead.
        step : float or "sd", default 1.0
            What is added to a number; "sd" is its standard deviation. Rows that miss the number are left out.
        at : list, default None
            Values to compare: each with the first.
        """
        check_comparison(kind, compare, at)
        subject = self._prepare("contrasts", groups, level, data, weights, covariance)
        rows = subject.rows
        check_input("contrasts", rows, variable)
        row_groups = _RowGroups.of("contrasts", rows, by, [variable])
        if at is None and rows.levels(variable) is None and compare == "reference":
            row_groups = row_groups.without_missing(rows, variable)
            cells = _with_step(subject, variable, row_groups, step, kind)
        else:
            named = isinstance(compare, Mapping)
            values = named_levels(variable, compare, rows.levels(variable)) if named else None
            values = grid("contrasts", rows, variable, values if named else at)
            if len(values) < 2:
                raise ValueError(f"contrasts: two values of {variable!r} are needed to compare; there is {values}.")
            averages = _averages(subject, [variable], [(value,) for value in values], row_groups)
            cells = contrasts_of([one for _, one in averages], contrast_weights(compare, values, kind), kind)
        scale = PLAIN if kind == "difference" else LOGS
        table = subject.table("contrasts", [variable], row_groups, cells, scale, simultaneous=simultaneous)
        return _for_user(subject, table)

    def slopes(
        self,
        variable: str,
        by: By = None,
        *,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = KNOWN,
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Average slope of the probability by a numeric input: its change for one unit, where rows are.

        Parameters are those of ``effects``. Rows that miss the input are left out.
        """
        subject = self._prepare("slopes", groups, level, data, weights, covariance)
        check_input("slopes", subject.rows, variable)
        if subject.rows.levels(variable) is not None:
            raise ValueError(f"slopes: {variable!r} is a category; contrasts({variable!r}) compares its levels.")
        row_groups = _RowGroups.of("slopes", subject.rows, by, [variable]).without_missing(subject.rows, variable)
        values = known_numbers("slopes", subject.rows, variable)
        step = STEP * (float(values.std()) or 1.0)
        if values.min() > 0:  # a logarithm of it may be in the model
            step = min(step, 0.5 * float(values.min()))
        x = _numbers(subject.rows, variable)
        averages = [row_groups.average(subject, {variable: x + way * step}) for way in (1, -1)]
        cells = [(("slope",), AverageEstimate.weighted_sum(averages, np.array([0.5, -0.5]) / step))]
        return _for_user(subject, subject.table("slopes", [variable], row_groups, cells, PLAIN))

    def _prepare(
        self, what: str, groups: str, level: float, data: Any = None, weights: Any = None, covariance: str | None = None
    ) -> Subject:
        check_level(what, level)
        if data is None and weights is not None:
            raise ValueError(f"{what}: weights belong to data=…; the rows of the fit have their own.")
        groups, subject = check_groups(what, groups), self._effects_subject(data, weights, covariance)
        if groups == KNOWN and data is not None:
            warn_of_lacking_groups(subject.models.fits[0], data)
        return replace(subject, level=level, groups=groups)


@final
@dataclass(frozen=True, eq=False)
class _RowGroups:
    """Groups of rows by the values of columns, and normalised weights within groups, rows × groups.

    Where columns are set to values instead, all rows are one group, and ``settings`` has the values of each label.
    """

    by: list[str]
    labels: list[tuple[Any, ...]]
    codes: NDArray[np.intp]
    weights: Array
    settings: Sequence[Mapping[str, Any]] = ({},)

    @staticmethod
    def of(what: str, rows: EffectRows, by: Any, variables: Sequence[str]) -> "_RowGroups":
        names = names_of(what, by, "by")
        for name in names:
            if name in variables:
                raise ValueError(f"{what}: {name!r} is the variable and in by: choose one of them.")
        set_columns = isinstance(by, Mapping)
        codes, labels = groups_of(what, rows, [] if set_columns else names)
        groups = _RowGroups(names, labels, codes, weights_in_groups(rows.weights, codes, len(labels)))
        if not set_columns:
            return groups
        labels = list(product(*(grid(what, rows, name, by[name]) for name in names)))
        return replace(groups, labels=labels, settings=[dict(zip(names, values, strict=True)) for values in labels])

    @property
    def set_columns(self) -> list[str]:
        """Columns that are set to values."""
        return list(self.settings[0])

    @property
    def strata(self) -> list[str]:
        """Columns whose values make the groups."""
        return [] if self.set_columns else self.by

    def average(self, subject: Subject, changes: Mapping[str, Any]) -> AverageEstimate:
        """Averages for each label with predictors changed."""
        encoded = (subject.encoded({**setting, **changes}) for setting in self.settings)
        return AverageEstimate.concatenated([subject.models.average(rows, self.weights) for rows in encoded])

    def without_missing(self, rows: EffectRows, variable: str) -> "_RowGroups":
        """The groups without rows in which a numeric variable is missing."""
        codes = np.where(np.isfinite(_numbers(rows, variable)), self.codes, -1)
        there = np.bincount(codes[codes >= 0], minlength=self.weights.shape[1]) > 0
        if not there.all():
            label = dict(zip(self.by, self.labels[int(np.argmin(there))], strict=True))
            raise ValueError(f"{variable!r} is missing in all rows with {label}: nothing can be averaged there.")
        return replace(self, codes=codes, weights=weights_in_groups(rows.weights, codes, len(there)))


def _for_user(subject: Subject, table: "pd.DataFrame") -> Any:
    """Table of the user's type; warn if the calibration check failed."""
    if "caution" in table.attrs:
        warn_user(table.attrs["caution"], ReliabilityWarning)
    return tables.like(subject.data, table)


def _observed(
    subject: Subject, names: Sequence[str], cells: Sequence[tuple[Any, ...]], row_groups: _RowGroups, n_rows: int
) -> Array:
    """Observed proportions for each row of a table; NaN if outcomes are unknown or no rows have the values."""
    known_rows = subject.known
    if known_rows is None or known_rows.rows is not subject.rows:
        return np.full(n_rows, np.nan)
    pairs = [[*zip(names, values, strict=True), *one.items()] for values in cells for one in row_groups.settings]
    n_groups = row_groups.weights.shape[1]
    return np.concatenate([known_rows.observed(one, row_groups.codes, n_groups) for one in pairs])


_Cell = tuple[tuple[Any, ...], AverageEstimate]


def _averages(
    subject: Subject, names: Sequence[str], cells: Sequence[tuple[Any, ...]], row_groups: _RowGroups
) -> Iterator[_Cell]:
    """Yield each combination of values with its averages."""
    for values in cells:
        yield values, row_groups.average(subject, dict(zip(names, values, strict=True)))


def _with_step(
    subject: Subject, variable: str, row_groups: _RowGroups, step: float | str, kind: str
) -> Iterator[_Cell]:
    """The contrast of the averages with and without a step added to a numeric variable."""
    values = known_numbers("contrasts", subject.rows, variable)
    size = float(values.std()) if isinstance(step, str) and step == SD else step
    if isinstance(size, str | bool) or not np.isfinite(size) or size == 0:
        raise ValueError(f"contrasts: step must be a number other than 0, or 'sd'; got {step!r} for {variable!r}.")
    x = _numbers(subject.rows, variable)
    averages = [row_groups.average(subject, {variable: x + way * size}) for way in (1, 0)]
    return contrasts_of(averages, {f"{size:+.4g}": np.array([1.0, -1.0])}, kind)


def _numbers(rows: EffectRows, variable: str) -> Array:
    return rows.column(variable).to_numpy(dtype=np.float64, na_value=np.nan)


def _values_of(what: str, variable: Any, at: Any) -> dict[str, Any]:
    """Values of ``at`` by variable."""
    if at is None or isinstance(at, Mapping):
        by_name = {} if at is None else dict(at)
        unknown = [name for name in by_name if name not in names_of(what, variable, "variable")]
        if unknown:
            raise ValueError(f"{what}: at names {unknown[0]!r}, which is not among the variables.")
        return by_name
    if not isinstance(variable, str):
        raise TypeError(f"{what}: with several variables at is a dict of lists, such as {{'age': [40, 60]}}.")
    return {variable: at}
