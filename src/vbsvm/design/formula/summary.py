"""Additive summaries of rows from which a formula can be learned as from all rows.

Most of a formula is determined by a few representative rows: one for each level of each category, the smallest and
largest numbers, one that misses a value. Levels of groups and the weights of levels are counted. Splines and transforms
such as ``scale`` and ``poly`` are learned from all values of their columns, which are kept: 8 bytes a row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.columns import MAX_CLASSES, LabelSummary, Levels, LevelSummary
from vbsvm.design.formula import learning
from vbsvm.design.formula.learning import LearnedBefore
from vbsvm.design.formula.matrix import MAX_COLUMNS, Matrix, Spline
from vbsvm.design.formula.missing_inputs import columns_in
from vbsvm.design.formula.reader import Reader, group_labels_of
from vbsvm.design.formula.syntax import FormulaParts, SplineTerm
from vbsvm.design.formula.terms import FormulaError, parse_terms

if TYPE_CHECKING:
    import pandas as pd

# Functions whose state is learned from all values.
STATEFUL = re.compile(r"\b(?:center|scale|standardize|poly|bs|cc|cr|cs)\(")
# Number of first rows that are always representative.
FIRST_ROWS = 16


@final
@dataclass(frozen=True, eq=False)
class Needs:
    """Columns of a formula by what is needed of them.

    ``alone`` stand in it as they are, and are categories unless they hold numbers; ``categories`` are so in any case.
    ``whole`` are expressions that are learned from all values, ``whole_columns`` their columns.
    """

    parts: FormulaParts
    alone: frozenset[str]
    categories: frozenset[str]
    whole: tuple[str, ...]
    whole_columns: tuple[str, ...]
    factors: tuple[tuple[str, ...], ...]

    @staticmethod
    def from_formula(parts: FormulaParts) -> "Needs":
        """Collect the columns of all factors of the formula."""
        names = list(parts.columns)
        texts = [parts.fixed, *(term.effects for term in parts.groups)]
        factors = (str(factor.expr) for text in texts for term in parse_terms(text) for factor in term.factors)
        expressions = list(dict.fromkeys(factors))
        alone = frozenset(expressions) & frozenset(names)
        whole = tuple(one for one in expressions if one not in alone and STATEFUL.search(one))
        learned = (*whole, *(term.expression for term in parts.splines))
        whole_columns = {name for expression in learned for name in columns_in(expression, names)}
        calls = [columns_in(one, names) for one in expressions if one not in alone and one.startswith("C(")]
        groups = {frozenset(term.columns): term.columns for term in reversed(parts.groups)}
        categories = frozenset(chain([parts.outcome], *calls))
        return Needs(parts, alone, categories, whole, tuple(sorted(whole_columns)), tuple(groups.values()))

    def summary(self, data: Any, kept: NDArray[np.intp] | None, weights: Array, first: int) -> "FormulaSummary":
        """Summarise rows of a frame; ``first`` is the number of the frame's first row."""
        frame = frames.take(data, self.parts.columns, kept, may_miss=self.parts.inputs)
        labelled = [
            name
            for name in self.parts.columns
            if name in self.categories or (name in self.alone and frame[name].dtype.kind not in "biuf")
        ]
        selected = _representative_rows(frame, labelled)
        raw = data[list(self.parts.columns)].iloc[frame.index[selected]]
        known = {name: frame[name].notna().to_numpy() for name in labelled}
        return FormulaSummary(
            self,
            raw.set_axis(frame.index[selected] + first),
            {name: (frame[name].to_numpy(),) for name in self.whole_columns},
            {name: LabelSummary.from_rows(np.asarray(frame[name])[of], weights[of]) for name, of in known.items()},
            tuple(LevelSummary.from_rows(group_labels_of(frame, columns)) for columns in self.factors),
            len(frame),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class FormulaSummary:
    """Representative rows, whole columns in parts, levels of categories, and levels of groups."""

    needs: Needs
    rows: "pd.DataFrame"
    whole_columns: dict[str, tuple[NDArray[Any], ...]]
    categories: dict[str, LabelSummary]
    groups: tuple[LevelSummary, ...]
    n_rows: int

    def __add__(self, other: Self) -> "FormulaSummary":
        """Pool two sets of rows."""
        rows = _joined(self.rows, other.rows)
        labels = dict(self.categories)
        for name, more in other.categories.items():
            labels[name] = labels[name] + more if name in labels else more
            _check_few(labels[name], name, self.needs.parts.outcome)
        return FormulaSummary(
            self.needs,
            rows.iloc[_representative_rows(rows, list(labels))],
            {name: (*self.whole_columns[name], *other.whole_columns[name]) for name in self.whole_columns},
            labels,
            tuple(one + more for one, more in zip(self.groups, other.groups, strict=True)),
            self.n_rows + other.n_rows,
        )

    def check_size(self, advice: Callable[[int], str | None]) -> None:
        """Raise if there is ``advice`` for whole columns of this many bytes: they are too large."""
        what_to_do = advice(sum(part.nbytes for parts in self.whole_columns.values() for part in parts))
        if what_to_do is not None:
            raise ValueError(
                "Splines and transforms such as scale() and poly() are learned from all values of their columns "
                f"({', '.join(self.needs.whole_columns)}), {what_to_do}"
            )

    def frame(self) -> "pd.DataFrame":
        """The representative rows, in types for formulaic."""
        parts = self.needs.parts
        frame = frames.take(self.rows, parts.columns, may_miss=parts.inputs)
        return frame.set_axis(self.rows.index)

    def learn(self, standardize: bool) -> tuple[Reader, NDArray[np.bool_]]:
        """Learn a reader without scales; also return which columns are centred."""
        import pandas as pd

        parts, names = self.needs.parts, list(self.needs.whole_columns)
        whole = pd.DataFrame({name: np.concatenate(self.whole_columns[name]) for name in names})

        def learned(expression: str) -> tuple[Matrix, Array]:
            return Matrix.learn(f"0 + {expression}", whole.loc[:, columns_in(expression, names)])

        transforms = {expression: learned(expression)[0].learned["transforms"] for expression in self.needs.whole}
        splines: dict[SplineTerm, Spline] = {}
        for term in parts.splines:
            _, values = learned(term.expression)
            finite = values[np.isfinite(values).all(axis=1), :1].ravel()  # others are named when rows are encoded
            if values.shape[1] == 1:
                splines[term] = learning.learn_spline(term, finite)
        learned_levels = [Levels.learn(group.columns)[0] for group in self.groups]
        levels = dict(zip(self.needs.factors, learned_levels, strict=True))
        frame, known = self.frame(), LearnedBefore(transforms, splines, levels)
        reader, centred, _ = learning.learn_reader(parts, frame, np.ones(len(frame)), standardize, known)
        counts = tuple(self.categories[name].totals for name in reader.categories.names)
        return replace(reader, categories=replace(reader.categories, counts=counts)), centred


def _check_few(labels: LabelSummary, name: str, outcome: str) -> None:
    """Raise for a measured outcome, and for a category with too many levels."""
    if name == outcome:
        labels.check_few(f"The outcome {name!r}")
    elif len(labels.labels) > MAX_COLUMNS:
        raise FormulaError(
            f"Column {name!r} has more than {MAX_COLUMNS} different values as a category: merge levels, or use a "
            f"random effect such as (1 | {name}), whose levels may be many."
        )


def _representative_rows(frame: "pd.DataFrame", labelled: list[str]) -> NDArray[np.intp]:
    """Indices of rows that represent the columns: extremes, missing values, and all levels of ``labelled``."""
    chosen = [np.arange(min(FIRST_ROWS, len(frame)))]
    for name in frame.columns:
        column = frame[name]
        missing = column.isna().to_numpy()
        known = np.flatnonzero(~missing)
        chosen += [np.flatnonzero(missing)[:1], known[:1]]
        if name in labelled:
            chosen.append(np.flatnonzero(~column.duplicated().to_numpy() & ~missing)[: MAX_COLUMNS + MAX_CLASSES])
        elif column.dtype.kind in "biuf" and len(known):
            values = column.to_numpy()[known]
            chosen.append(known[[values.argmin(), values.argmax()]])
    return np.unique(np.concatenate(chosen))


def _joined(one: "pd.DataFrame", other: "pd.DataFrame") -> "pd.DataFrame":
    """Concatenate rows; categories in order of appearance."""
    import pandas as pd

    changed: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name in one.columns:
        both = one[name], other[name]
        if all(isinstance(column.dtype, pd.CategoricalDtype) for column in both):
            union = list(dict.fromkeys([value for column in both for value in column.cat.categories]))
            for of_frame, column in zip(changed, both, strict=True):
                of_frame[name] = column.cat.set_categories(union)
    return pd.concat([one.assign(**changed[0]), other.assign(**changed[1])])
