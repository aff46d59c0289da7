"""Effects that people can read: averages of predicted probabilities, their contrasts and slopes.

Every row gets the value in question, and keeps its other inputs; the predicted probabilities of all rows are averaged
(g-computation). Columns are set before they are encoded, so that transforms, curves and interactions follow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.printing import ReliabilityWarning, warn_user
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.base.settings import check_level
from vbsvm.design.columns import Encoded
from vbsvm.design.levels import UNSEEN
from vbsvm.results import tables
from vbsvm.results.covariance import covariance as covariance_of
from vbsvm.results.effects.averages import LOGITS, LOGS, PLAIN, Averaged, Models, Scale, shares
from vbsvm.results.effects.check import CHECKED, NOT_CHECKED, KnownRows
from vbsvm.results.effects.rows import EffectRows, GivenRows, grid, groups_of, known_numbers, names_of, require_input
from vbsvm.results.notes import noted

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.results.fit import Fit

KINDS = ("difference", "ratio", "odds ratio")
GROUPS = ("observed", "new")
SD = "sd"
# The step of a slope, in standard deviations of the input.
STEP = 1e-4

SEVERAL = "The models of several classes are taken to err together, so that intervals are rather too wide."


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """The models and classes that effects are about, and the rows that they are averages over, as users have them."""

    models: Models
    classes: NDArray[Any]
    rows: EffectRows
    data: Any
    learn_known: Callable[[], KnownRows | None]

    @cached_property
    def known(self) -> KnownRows | None:
        """Observations with known outcomes, against which probabilities are checked."""
        return self.learn_known()

    @property
    def hinge(self) -> bool:
        """Whether probabilities are those of a support vector machine, which are to be checked."""
        return not self.models.fits[0].spec.likelihood.normalised

    def checked(self, what: str, variables: Sequence[str], by: Sequence[str]) -> dict[str, str]:
        """What a table of a hinge fit says of its probabilities: a caution, or that they were or weren't checked."""
        if not self.hinge:
            return {}
        try:
            caution = None if self.known is None else self.known.caution(what, variables, by, self.classes)
        except ValueError:  # the rows of the fit have no such columns, or too many values of them
            return {"check": NOT_CHECKED}
        if self.known is None:
            return {"check": NOT_CHECKED}
        return {"check": CHECKED} if caution is None else {"caution": caution}

    def encoded(self, changes: Mapping[str, Any], groups: str) -> Encoded:
        """The rows with inputs set; with ``groups="new"`` all groups are new ones."""
        found = self.rows.encoded(changes)
        if groups == "observed":
            return found
        return replace(found, levels=tuple(np.full_like(one, UNSEEN) for one in found.levels))


def subject_of(
    fits: "Sequence[Fit]",
    classes: NDArray[Any],
    data: Any,
    weights: str | ArrayLike | None,
    covariance: str | None,
    read: Callable[[GivenRows], EffectRows],
) -> Subject:
    """Effects of these models over rows that are given, or over those of the fit; ``read`` knows the columns.

    The link is learned from the rows of the fit as long as it holds them, else from those that are given.
    """
    fit = fits[0]
    given = GivenRows.of("effects", data, weights, fit._rows)
    rows, held = read(given), fit._rows is not None and fit._rows.data is not None

    def basis() -> tuple[Encoded, Array]:
        own = read(GivenRows.of("effects", None, None, fit._rows)) if held and data is not None else rows
        return own.encoded({}), own.weights

    def known() -> KnownRows | None:
        """The rows themselves where their outcomes are known, else those of the fit."""
        training = GivenRows.of("effects", None, None, fit._rows) if held else None
        if training is None or (given.data is training.data and np.array_equal(given.weights, training.weights)):
            return (
                KnownRows.of_new(fit, rows, given) if training is None else KnownRows.of_training(fits, rows, training)
            )
        return KnownRows.of_new(fit, rows, given) or KnownRows.of_training(fits, read(training), training)

    n_rows = float(rows.weights.sum()) if fit.facts is None else fit.facts.n_rows
    models = Models.of(fits, [covariance_of(one, covariance) for one in fits], basis, n_rows)
    return Subject(models, classes, rows, given.data, known)


class AverageEffects(ABC):
    """Tables of average probabilities: methods of a fit and of an estimator, which say what they are about."""

    @abstractmethod
    def _effects_subject(self, data: Any, weights: str | ArrayLike | None, covariance: str | None) -> Subject:
        """Models, classes and rows that effects are about."""

    def effects(
        self,
        variable: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        *,
        at: Any = None,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = "observed",
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Average predicted probabilities where an input is set to each of its values in all rows.

        Parameters
        ----------
        variable : str or list of str
            The input, by its name in the data; of several, all combinations are set.
        by : str or list of str, default None
            Columns of the data that part the rows into groups, each with averages of its own. The column itself is
            not changed: name it among the variables to set it in all rows. Rows that miss it are left out.
        at : list, or dict of lists by variable, default None
            The values. None means all levels of a category, up to ten different numbers, and else the quantiles at 5,
            25, 50, 75 and 95 %.
        data : data frame, default None
            The rows to average over. None means those of the fit, as long as it holds them; a loaded fit does not.
        weights : str or array-like, default None
            Weights of ``data``: a column, or a number for each row. Those of the fit are its own.
        groups : {"observed", "new"}, default "observed"
            In a model with groups: rows keep the effects of their groups, or have those of a new group, averaged over
            what these may be.
        level : float, default 0.95
            Level of the intervals, which are symmetric on the scale of log odds.
        covariance : str, default None
            Which spread of the coefficients; see ``summary``.

        Notes
        -----
        The estimate is the average of ``predict_proba``: of the positive class, or of each of several. Spreads are
        those of the coefficients, by the delta method or a sampler's draws; by the delta method and for two classes,
        with that of the slope by which scores become probabilities. Variance components, effects of groups and the
        distribution of missing inputs are held. The table is a polars frame where the rows are one, with values, groups
        and classes as columns; this and ``contrasts`` and ``slopes`` alike.

        Effects of a hinge fit are checked: a ``ReliabilityWarning`` names a level (a fifth, of numbers with many
        values) where the mean leave-one-out prediction differs from the observed proportion, and ``observed`` has these
        proportions; NaN where the outcomes or the cells are not known. Without outcomes the note says so.
        """
        chosen: dict[str, Any] = {"at": at, "data": data, "weights": weights, "groups": groups}
        return _given(*self._effects_table(variable, by, level=level, covariance=covariance, **chosen))

    def _effects_table(
        self,
        variable: str | Sequence[str],
        by: str | Sequence[str] | None,
        *,
        at: Any = None,
        groups: str = "observed",
        level: float = 0.95,
        **rest: Any,
    ) -> "tuple[Subject, pd.DataFrame]":
        """What effects are about, and their table in pandas, with its notes."""
        names, of = names_of("effects", variable, "variable"), _values_of("effects", variable, at)
        subject, frame = self._begun("effects", groups, level, **rest)
        rows = subject.rows
        if not names:
            raise ValueError("effects: name an input.")
        grids = [grid("effects", rows, name, of.get(name)) for name in names]
        parted = _Parted.of("effects", rows, by, names)
        cells = list(product(*grids))
        found = _averages(subject, names, cells, parted, groups)
        table = frame.table("effects", names, parted, ((values, one.logits()) for values, one in found), LOGITS)
        if subject.hinge:
            table["observed"] = _observed(subject, names, cells, parted, len(table))
        return subject, table

    def contrasts(
        self,
        variable: str,
        by: str | Sequence[str] | None = None,
        *,
        kind: str = "difference",
        step: float | str = 1.0,
        at: Any = None,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = "observed",
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Contrasts of average probabilities: each level of an input against the first, or a number plus a step.

        Parameters
        ----------
        variable, by, data, weights, groups, level, covariance
            As for ``effects``.
        kind : {"difference", "ratio", "odds ratio"}, default "difference"
            Risk differences, risk ratios, or ratios of the odds of average probabilities.
        step : float or "sd", default 1.0
            What is added to a number; "sd" is its standard deviation. Rows that miss the number are left out.
        at : list, default None
            Values to compare: each with the first.
        """
        if kind not in KINDS:
            raise ValueError(f"contrasts: kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
        subject, frame = self._begun("contrasts", groups, level, data, weights, covariance)
        require_input("contrasts", subject.rows, variable)
        parted = _Parted.of("contrasts", subject.rows, by, [variable])
        if at is None and subject.rows.levels(variable) is None:
            pairs = _stepped(subject, variable, parted.knowing(subject.rows, variable), groups, step)
        else:
            values = grid("contrasts", subject.rows, variable, at)
            if len(values) < 2:
                raise ValueError(f"contrasts: two values of {variable!r} are needed to compare; there is {values}.")
            found = _averages(subject, [variable], [(value,) for value in values], parted, groups)
            pairs = _against_first(found, kind)
        cells = ((key, _compared(one, other, kind)) for key, one, other in pairs)
        scale = PLAIN if kind == "difference" else LOGS
        return _given(subject, frame.table("contrasts", [variable], parted, cells, scale))

    def slopes(
        self,
        variable: str,
        by: str | Sequence[str] | None = None,
        *,
        data: Any = None,
        weights: str | ArrayLike | None = None,
        groups: str = "observed",
        level: float = 0.95,
        covariance: str | None = None,
    ) -> Any:
        """Average slope of the probability by a numeric input: its change for one unit, where rows are.

        Parameters are those of ``effects``. Rows that miss the input are left out.
        """
        subject, frame = self._begun("slopes", groups, level, data, weights, covariance)
        require_input("slopes", subject.rows, variable)
        if subject.rows.levels(variable) is not None:
            raise ValueError(f"slopes: {variable!r} is a category; contrasts({variable!r}) compares its levels.")
        parted = _Parted.of("slopes", subject.rows, by, [variable]).knowing(subject.rows, variable)
        values = known_numbers("slopes", subject.rows, variable)
        step = STEP * (float(values.std()) or 1.0)
        if values.min() > 0:  # a logarithm of it may be in the model
            step = min(step, 0.5 * float(values.min()))
        x = _numbers(subject.rows, variable)
        up, down = (
            subject.models.average(subject.encoded({variable: x + way * step}, groups), parted.shares / (2 * step))
            for way in (1.0, -1.0)
        )
        return _given(subject, frame.table("slopes", [variable], parted, [(("slope",), up.minus(down))], PLAIN))

    def _begun(
        self, what: str, groups: str, level: float, data: Any = None, weights: Any = None, covariance: str | None = None
    ) -> "tuple[Subject, _Frame]":
        check_level(what, level)
        if groups not in GROUPS:
            raise ValueError(f"{what}: groups must be 'observed' or 'new'; got {groups!r}.")
        if data is None and weights is not None:
            raise ValueError(f"{what}: weights belong to data=…; the rows of the fit have their own.")
        subject = self._effects_subject(data, weights, covariance)
        return subject, _Frame(subject, level)


@final
@dataclass(frozen=True, eq=False)
class _Parted:
    """Groups of rows by the values of columns, and the share of each row in its group's average, rows × groups."""

    by: list[str]
    labels: list[tuple[Any, ...]]
    codes: NDArray[np.intp]
    shares: Array

    @staticmethod
    def of(what: str, rows: EffectRows, by: Any, variables: Sequence[str]) -> "_Parted":
        names = names_of(what, by, "by")
        for name in names:
            if name in variables:
                raise ValueError(f"{what}: {name!r} is the variable and in by: choose one of them.")
        codes, labels = groups_of(what, rows, names)
        return _Parted(names, labels, codes, shares(rows.weights, codes, len(labels)))

    def knowing(self, rows: EffectRows, variable: str) -> "_Parted":
        """The same without rows that miss a number."""
        codes = np.where(np.isfinite(_numbers(rows, variable)), self.codes, -1)
        there = np.bincount(codes[codes >= 0], minlength=len(self.labels)) > 0
        if not there.all():
            label = dict(zip(self.by, self.labels[int(np.argmin(there))], strict=True))
            raise ValueError(f"{variable!r} is missing in all rows with {label}: nothing can be averaged there.")
        return replace(self, codes=codes, shares=shares(rows.weights, codes, len(self.labels)))


def _given(subject: Subject, table: "pd.DataFrame") -> Any:
    """The table as users get it, with a warning where the check has failed."""
    if "caution" in table.attrs:
        warn_user(table.attrs["caution"], ReliabilityWarning)
    return tables.like(subject.data, table)


def _observed(
    subject: Subject, names: Sequence[str], cells: Sequence[tuple[Any, ...]], parted: _Parted, n_rows: int
) -> Array:
    """Observed proportions for each row of a table; NaN where outcomes are not known, or values have no rows."""
    known = subject.known
    if known is None or known.rows is not subject.rows:
        return np.full(n_rows, np.nan)
    pairs = [list(zip(names, values, strict=True)) for values in cells]
    return np.concatenate([known.observed(one, parted.codes, len(parted.labels)) for one in pairs])


_Cells = Iterator[tuple[tuple[Any, ...], Averaged]]
_Pairs = Iterator[tuple[tuple[Any, ...], Averaged, Averaged]]


def _averages(
    subject: Subject, names: Sequence[str], cells: Sequence[tuple[Any, ...]], parted: _Parted, groups: str
) -> _Cells:
    """The averages for each combination of values."""
    for values in cells:
        encoded = subject.encoded(dict(zip(names, values, strict=True)), groups)
        yield values, subject.models.average(encoded, parted.shares)


def _against_first(found: _Cells, kind: str) -> _Pairs:
    """Each of the averages with the first, and what the comparison is called."""
    sign = "-" if kind == "difference" else "/"
    (first,), reference = next(found)
    for (value,), one in found:
        yield (f"{value} {sign} {first}",), one, reference


def _stepped(subject: Subject, variable: str, parted: _Parted, groups: str, step: float | str) -> _Pairs:
    """The averages with a step added to a number, and without."""
    values = known_numbers("contrasts", subject.rows, variable)
    size = float(values.std()) if isinstance(step, str) and step == SD else step
    if isinstance(size, str | bool) or not np.isfinite(size) or size == 0:
        raise ValueError(f"contrasts: step must be a number other than 0, or 'sd'; got {step!r} for {variable!r}.")
    x = _numbers(subject.rows, variable)
    one, other = (
        subject.models.average(subject.encoded({variable: x + way * size}, groups), parted.shares) for way in (1, 0)
    )
    yield (f"+{size:.4g}" if size > 0 else f"{size:.4g}",), one, other


def _compared(one: Averaged, other: Averaged, kind: str) -> Averaged:
    if kind == "difference":
        return one.minus(other)
    return one.logs().minus(other.logs()) if kind == "ratio" else one.logits().minus(other.logits())


def _numbers(rows: EffectRows, variable: str) -> Array:
    return rows.column(variable).to_numpy(dtype=np.float64, na_value=np.nan)


def _values_of(what: str, variable: Any, at: Any) -> dict[str, Any]:
    """The values that are asked for, by variable."""
    if at is None or isinstance(at, Mapping):
        found = {} if at is None else dict(at)
        unknown = [name for name in found if name not in names_of(what, variable, "variable")]
        if unknown:
            raise ValueError(f"{what}: at names {unknown[0]!r}, which is not among the variables.")
        return found
    if not isinstance(variable, str):
        raise TypeError(f"{what}: with several variables at is a dict of lists, such as {{'age': [40, 60]}}.")
    return {variable: at}


@final
@dataclass(frozen=True, eq=False)
class _Frame:
    """Makes tables: a row for each combination of values, group of rows, and of several classes each."""

    subject: Subject
    level: float

    def table(
        self, what: str, names: Sequence[str], parted: _Parted, cells: "_Cells | Sequence[Any]", scale: Scale
    ) -> "pd.DataFrame":
        """Estimates with standard deviations and intervals; those of a hinge fit are checked."""
        import pandas as pd

        classes = [()] if len(self.subject.models.fits) == 1 else [(one,) for one in self.subject.classes.tolist()]
        keys, rows = [], []
        with single_threaded_blas():
            for values, found in cells:
                keys += [(*values, *label, *class_) for label in parted.labels for class_ in classes]
                rows += [np.column_stack(self.subject.models.interval(found, self.level, scale))]
        levels = [*names, *parted.by, *(["class"] if classes != [()] else [])]
        index = pd.MultiIndex.from_tuples(keys, names=levels)
        if index.nlevels == 1:
            index = index.get_level_values(0)
        frame = pd.DataFrame(np.concatenate(rows), index=index, columns=["estimate", "sd", "lower", "upper"])
        frame, check = self._noted(frame), self.subject.checked(what, names, parted.by)
        frame.attrs = frame.attrs | check
        frame.attrs["spreads"] = " ".join([frame.attrs["spreads"], *check.values()])
        if NOT_CHECKED in check.values():
            frame.columns.name = f"{frame.columns.name}, not checked"
        return frame

    def _noted(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Say in the corner whose probability it is, and what the spreads are."""
        of_models = [one.notes for one in self.subject.models.intervals]
        notes = max(of_models, key=lambda one: len(one.corner))
        several, linked = len(of_models) > 1, self.subject.models.link is not None
        explanation = " ".join([notes.explanation, self._held(linked=linked), *[SEVERAL] * several])
        found = noted(frame, replace(notes, explanation=explanation), "sd", self.level)
        if not several:
            found.columns.name = f"P({self.subject.classes[1]!s}), {found.columns.name}"
        return found

    def _held(self, *, linked: bool) -> str:
        """What else a probability depends on, and spreads leave out."""
        fit = self.subject.models.fits[0]
        held = ["variance components and effects of groups"] if fit.plan.factors else []
        held += ["the distribution of missing inputs"] if fit.spec.missing is not None else []
        held += [f"the {'bend of the ' if linked else ''}link from scores to probabilities"]
        return f"Spreads of averages hold {', and '.join(held)}."
