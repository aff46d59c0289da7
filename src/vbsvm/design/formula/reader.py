"""Encode data frames by a formula: a numeric table, and the levels of the rows.

Levels, knots and the state of transforms are learned once, over all of the data, and reapplied to new data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates, DrawnColumns, Draws
from vbsvm.design.columns import UNSEEN, Encoded, Plan, group_labels
from vbsvm.design.formula import syntax
from vbsvm.design.formula.matrix import Matrix, Spline
from vbsvm.design.formula.missing_inputs import Categories, Linear, missing_masks
from vbsvm.design.formula.syntax import FormulaParts, GroupTerm, SplineTerm
from vbsvm.design.scaling import Recipe
from vbsvm.storage.codec import Form, check_types

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A spline term: its values, its basis, and whether it adds the linear part."""

    term: SplineTerm
    values: Matrix
    spline: Spline
    with_line: bool


@final
@dataclass(frozen=True, slots=True, eq=False)
class TermEffects:
    """The effects of a group term, and their positions among the effects of the factor."""

    term: GroupTerm
    matrix: Matrix
    factor: int
    places: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Encoder of new data by a learned formula."""

    parts: FormulaParts
    fixed: Matrix
    curves: tuple[Curve, ...]
    effects: tuple[TermEffects, ...]
    carried: tuple[tuple[int, int], ...]
    hidden: tuple[Matrix, ...]
    linear: Linear
    categories: Categories
    mains: tuple[int, ...]
    uncertain: tuple[int, ...]
    plan: Plan
    kinds: dict[str, str]  # of the data's columns, as NumPy calls them: O for text and categories
    drawn: DrawnColumns | None = None

    @property
    def numeric(self) -> frozenset[str]:
        """Columns that were numeric in fit."""
        return frozenset(name for name, kind in self.kinds.items() if kind in "biuf")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that new data must have."""
        return tuple(name for name in self.parts.columns if name != self.parts.outcome)

    def lacking_groups(self, data: Any) -> list[str]:
        """Columns that only name groups and that the data do not have: all groups are new then."""
        parts = self.parts
        texts = [parts.fixed, *(one.expression for one in parts.splines), *(one.effects for one in parts.groups)]
        needed = {*frames.names_of(data), *parts.inputs}
        lacking = [name for name in self.columns if name not in needed]
        return [name for name in lacking if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", " ".join(texts))]

    def read(self, data: Any) -> Encoded:
        """Encode new data of any frame type."""
        return self.encode(self.select(data, without=self.lacking_groups(data)))

    def select(self, data: Any, kept: NDArray[np.intp] | None = None, without: Sequence[str] = ()) -> "pd.DataFrame":
        """The columns in use with their types at fitting; ``kept`` are the rows of positive weight."""
        columns = [name for name in self.columns if name not in without]
        frame = frames.take(data, columns, kept, may_miss=self.parts.inputs)
        return frame.assign(**{name: self.as_learned(frame[name]) for name in columns})

    def as_learned(self, column: Any) -> "pd.Series":
        """A column converted to its type at fitting; raise if numbers have become something else."""
        return frames.as_learned(column, self.kinds[str(column.name)])

    def encode(self, frame: "pd.DataFrame", draws: Draws | None = None) -> Encoded:
        """Encode a frame; rows with missing categories or drawn columns become candidates.

        ``draws`` has values of drawn columns; without it they are quantiles of their distribution.
        """
        rows, levels, candidates = frame.index.to_numpy(), self.levels_of(frame), None
        if self.categories.missing(frame).any():
            frame, candidates = self.categories.expand(frame)
        if self.drawn is not None and (incomplete := self.drawn.missing(frame).any(axis=1)).any():
            if candidates is None:
                candidates = Candidates(np.arange(len(frame)), self.categories.known_levels(frame))
            if draws is None:
                draws = self.draws(frame)
            else:
                draws = draws.take(
                    (np.cumsum(np.bincount(candidates.row, incomplete) > 0) - 1)[candidates.row[incomplete]]
                )
            frame, candidates = self.drawn.expand(frame, candidates, draws)
        if candidates is None:
            return self._encode(frame, levels, rows)
        levels = tuple(of_rows[candidates.row] for of_rows in levels)
        return replace(self._encode(frame, levels, rows[candidates.row]), candidates=candidates)

    def with_draws(self, min_draws: int) -> "Reader":
        """The reader with at least n draws per incomplete row."""
        return self if self.drawn is None else replace(self, drawn=replace(self.drawn, n=max(min_draws, self.drawn.n)))

    def draws(self, frame: "pd.DataFrame", rng: np.random.Generator | None = None) -> Draws:
        """Draws of the drawn columns for the incomplete rows, without use of labels: quantiles, or random ones by rng.

        The rest of the table has drawn columns at their medians, and missing categories at their first level.
        """
        assert self.drawn is not None
        frame = frame.take(np.flatnonzero(self.drawn.missing(frame).any(axis=1)))
        if self.categories.missing(frame).any():
            expanded, candidates = self.categories.expand(frame)
            frame = expanded.take(candidates.firsts)
        table = self._encode(self.drawn.at_typical(frame), (), frame.index.to_numpy()).table
        return self.drawn.draw(frame, table, rng)

    def levels_of(self, frame: "pd.DataFrame") -> tuple[NDArray[np.intp], ...]:
        """Level number of each row in each factor; all are unseen without the factor's columns."""
        unseen = np.full(len(frame), UNSEEN)
        return tuple(
            factor.encode(group_labels_of(frame, factor.columns)) if {*factor.columns} <= {*frame} else unseen
            for factor in self.plan.factors
        )

    def scaled(self, recipe: Recipe) -> "Reader":
        """The reader with this recipe; spline columns are not rescaled."""
        plan, scale = self.plan, recipe.scale.copy()
        scale[plan.n_shown : len(plan.names) - plan.n_carried] = 1.0  # a spline has a scale of its own
        return replace(self, plan=replace(plan, recipe=replace(recipe, scale=scale)))

    def _encode(self, frame: "pd.DataFrame", levels: tuple[NDArray[np.intp], ...], rows: NDArray[np.intp]) -> Encoded:
        """Encode a frame without missing categories; ``rows`` numbers its rows in errors."""
        masks = missing_masks(frame)
        frame = self.linear.fill(frame, masks, rows)
        fixed = self.fixed.encode(frame, rows)[:, self.fixed.first :]
        values = [curve.values.encode(frame, rows) for curve in self.curves]
        matrices = {k: self.effects[k].matrix.encode(frame, rows) for k, _ in self.carried}
        carried = [matrices[k][:, [j]] for k, j in self.carried]
        hidden = [matrix.encode(frame, rows) for matrix in self.hidden]
        table = join_columns([fixed, *curve_columns(self.curves, values), *carried, *hidden])
        check_finite(table, self.plan.names, rows)
        return Encoded(table, levels, self.linear.insert_missing(table, masks, rows))


def curve_columns(curves: tuple[Curve, ...], values: list[Array]) -> list[Array]:
    """Linear parts of the curves that add one, then the penalised basis columns of all."""
    pairs = list(zip(curves, values, strict=True))
    lines = [x for curve, x in pairs if curve.with_line]
    return lines + [curve.spline.encode(x[:, 0]) for curve, x in pairs]


def join_columns(pieces: list[Array]) -> Array:
    """Concatenate blocks of columns in column-major order."""
    table = np.empty((sum(piece.shape[1] for piece in pieces), len(pieces[0]))).T
    return np.concatenate(pieces, axis=1, out=table)


def group_labels_of(frame: "pd.DataFrame", columns: tuple[str, ...]) -> list[NDArray[Any]]:
    """Labels of a factor's columns."""
    return [group_labels(frame[name].to_numpy(), name, frame.index) for name in columns]


def check_finite(table: NDArray[np.floating], names: tuple[str, ...], rows: "pd.Index | NDArray[np.intp]") -> None:
    """Raise for values that are not finite, such as the log of zero; ``rows`` numbers the rows in errors."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = table.sum(axis=0)
    for k in np.flatnonzero(~np.isfinite(sums)):
        finite = np.isfinite(table[:, k])
        if not finite.all():
            row = int(np.argmin(finite))
            n_others = int((~finite).sum()) - 1
            others = f", and not finite in {n_others} other rows" if n_others else ""
            raise ValueError(
                f"{names[k]} is {table[row, k]} in row {rows[row]}{others}: change the transform, or leave such "
                "rows out."
            )


_TYPES = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
# What a reader stores in addition to what formulaic learned.
_PLAIN = ("parts", "carried", "linear", "categories", "mains", "uncertain", "plan", "kinds", "drawn")


def _contents(reader: Reader) -> dict[str, Any]:
    """Fields of the reader for a file, with learned states as plain values."""
    return {
        **{name: getattr(reader, name) for name in _PLAIN},
        "fixed": reader.fixed.learned,
        "curves": [(one.term, one.spline, one.with_line, one.values.learned) for one in reader.curves],
        "effects": [(one.term, one.factor, one.places, one.matrix.learned) for one in reader.effects],
        "hidden": [(one.formula, one.learned) for one in reader.hidden],
    }


def _restored(saved: Mapping[str, Any]) -> Reader:
    """Restore a reader from its fields; older files have no drawn columns."""
    import pandas as pd

    saved = {"drawn": None, **saved}
    if set(saved) != {field.name for field in fields(Reader)}:
        raise ValueError(f"a reader does not have the fields {sorted(saved)}")
    plain = {name: saved[name] for name in _PLAIN}
    check_types(Reader, plain)
    parts, columns = saved["parts"], list(saved["parts"].columns)
    syntax.check_safe(parts)
    if set(saved["kinds"]) != set(columns):
        raise ValueError("the columns are not those of the formula")
    no_rows = {name: np.empty(0, dtype=_TYPES.get(kind, object)) for name, kind in saved["kinds"].items()}
    empty = pd.DataFrame(no_rows)
    curves = []
    for term, spline, with_line, learned in saved["curves"]:
        check_types(Curve, {"term": term, "spline": spline, "with_line": with_line})
        curves.append(Curve(term, Matrix.from_learned(f"0 + {term.expression}", learned, empty), spline, with_line))
    effects = []
    for term, factor, places, learned in saved["effects"]:
        check_types(TermEffects, {"term": term, "factor": factor, "places": places})
        effects.append(TermEffects(term, Matrix.from_learned(term.effects, learned, empty), factor, places))
    if tuple(one.term for one in curves) != parts.splines or {one.term for one in effects} != set(parts.groups):
        raise ValueError("splines or groups are not those of the formula")
    hidden = []
    for text, learned in saved["hidden"]:
        syntax.check_safe_text(text, columns)
        hidden.append(Matrix.from_learned(text, learned, empty))
    fixed = Matrix.from_learned(parts.fixed, saved["fixed"], empty)
    return Reader(fixed=fixed, curves=tuple(curves), effects=tuple(effects), hidden=tuple(hidden), **plain)


FORM = Form(Reader, _contents, _restored)
