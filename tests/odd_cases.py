"""Odd kinds of value in every place of ``VBSVC`` and ``Model``, in fit and in predict, as cases to be judged."""

import datetime as dt
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from odd_values import ALL_MISSING, ARROW, CELLS, COLUMNS, MISSING, POLARS, REFUSED, SAME, TABLES, WHOLE, Kind
from optional import optional
from vbsvm import VBSVC, Model, Ridge

pl = optional("polars")
pa = optional("pyarrow")

N = 18
FORMULA, GROUPED = "y ~ a + b", "y ~ a + b + (1 | g)"
HELD = {"fixed": Ridge()}


@cache
def plain() -> dict[str, np.ndarray]:
    """Columns a and b in eighths, which every type of number holds exactly; groups, outcome and weights."""
    rng = np.random.default_rng(7)
    a, b = np.round(rng.normal(size=(2, N)) * 8) / 8
    y = (a + b + rng.normal(size=N) > 0).astype(int)
    return {"a": a, "b": b, "g": np.arange(N) % 3, "y": y, "w": rng.integers(1, 4, N).astype(float)}


@dataclass(frozen=True)
class Case:
    """A kind of value in a place: what is run, the scores that it should give (None: refused), and the place's name."""

    place: str
    kind: str
    run: Callable[[], Any]
    expected: Any
    where: str
    taken: bool = False  # a clear error is not enough


def score(**odd: Any) -> Any:
    """Scores of plain rows by a VBSVC that was fitted to plain data but for these."""
    data = plain() | odd
    clf = VBSVC(group=data.get("group"))
    table = data["X"] if "X" in data else np.column_stack([data["a"], data["b"]])
    clf.fit(table, data["y"], sample_weight=data.get("weight"))
    return np.r_[clf.intercept_, clf.coef_[0], clf.penalty_]


def fitted(**odd: Any) -> Any:
    """Coefficients of a Model that was fitted to plain data but for these."""
    data = plain() | {key: odd.pop(key) for key in tuple(odd) if key in plain()}
    options = {"formula": FORMULA, "data": data, **odd}
    fit = Model(options.pop("formula"), options.pop("data"), HELD, **options).fit()
    return np.r_[fit.intercept, fit.coef, fit.elbo]


@cache
def classifier(group: int | str | None = None) -> VBSVC:
    """A VBSVC of plain data, with the group as last column."""
    data = plain()
    names = ["a", "b"] if group is None else ["a", "b", "g"]
    X = np.column_stack([data[name] for name in names])
    return VBSVC(group=group).fit(pd.DataFrame(X, columns=names) if isinstance(group, str) else X, data["y"])


@cache
def model(formula: str = FORMULA) -> Any:
    """A fit of plain data by formula."""
    return Model(formula, plain(), HELD).fit()


def row_of(name: str) -> int:
    """A row for the odd value, another one for each kind and always the same."""
    return zlib.crc32(name.encode()) % N


def with_cell(values: np.ndarray, row: int, value: Any) -> list[Any]:
    cells = values.tolist()
    cells[row] = value
    return cells


def meaning(kind: Kind, name: str, column: str, missing_allowed: bool = True) -> np.ndarray | None:
    """The plain column that a kind stands for; None where it is to be refused."""
    if kind.means == REFUSED or (kind.means == MISSING and not missing_allowed):
        return None
    values = plain()[column].astype(float)
    if kind.means == WHOLE:
        return np.trunc(values)
    if kind.means == ALL_MISSING:
        return np.full(N, np.nan)
    return np.where(np.arange(N) == row_of(name), np.nan, values) if kind.means == MISSING else values


def objects(columns: list[list[Any]]) -> np.ndarray:
    table = np.empty((N, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        for row, value in enumerate(column):
            table[row, j] = value
    return table


def scores_of(b: np.ndarray | None) -> Any:
    """What a plain column b gives: VBSVC and Model, fit and predict."""
    if b is None:
        return None, None, None, None
    X = np.column_stack([plain()["a"], b])
    of_new, of_new_model = classifier().decision_function(X), model().decision_function(plain() | {"b": b})
    if np.isnan(b).all():
        return None, of_new, None, of_new_model
    return score(X=X), of_new, fitted(b=b), of_new_model


def cells_of_inputs() -> Iterator[Case]:
    a = plain()["a"]
    for name, kind in CELLS.items():
        row = row_of(name)
        b = with_cell(plain()["b"], row, kind.make(plain()["b"][row].item()))
        of_fit, of_new, of_model, of_new_model = scores_of(meaning(kind, name, "b"))
        if name == "text of a number":
            of_model = of_new_model = None  # text is a category there
        where = rf"([Cc]olumn (1|'b'|'x1')|\bb is).*\brows? (\d+ and )?{row}\b"
        table = objects([a.tolist(), b])
        by_rows = [list(pair) for pair in zip(a.tolist(), b, strict=True)]
        column = pd.Series(b, dtype=object)
        for label, X in (("array", table), ("list", by_rows), ("pandas", pd.DataFrame({"a": a, "b": column}))):
            yield Case("X, one cell", f"{name} ({label})", partial(score, X=X), of_fit, where)
            if label != "pandas":
                run = partial(classifier().decision_function, X)
                yield Case("new X, one cell", f"{name} ({label})", run, of_new, where)
        for label, data in (("dict", plain() | {"b": b}), ("pandas", pd.DataFrame(plain()).assign(b=column))):
            yield Case("data, one cell", f"{name} ({label})", partial(fitted, data=data), of_model, where)
            run = partial(model().decision_function, data)
            yield Case("new data, one cell", f"{name} ({label})", run, of_new_model, where)
        yield Case("impute, one cell", name, partial(imputed, table), of_new, where)


def imputed(X: Any) -> Any:
    """Scores of rows whose missing values can be filled."""
    classifier().impute(X)
    return classifier().decision_function(X)


def cells_of_labels() -> Iterator[Case]:
    """Labels 0 and 1, groups 0, 1 and 2, and weights of 1 to 3: one of them is odd."""
    data = plain()
    for name, kind in CELLS.items():
        row = row_of(name)
        same = kind.means == SAME and name != "text of a number"
        y, g, w = (with_cell(data[one], row, kind.make(data[one][row].item())) for one in "ygw")
        where = r"(\by\b|'y'|outcome).*\brow" + ("" if row == 0 else rf"s? (\d+ and )?{row}\b")
        yield Case("y, one cell", name, partial(score, y=y), score() if same else None, where)
        yield Case("outcome, one cell", name, partial(fitted, y=y), fitted() if same else None, where)
        where = rf"weight.*\brow {row}\b"
        expected = score(weight=data["w"]) if same else None
        yield Case("sample_weight, one cell", name, partial(score, weight=w), expected, where)
        expected = fitted(weights=data["w"]) if same else None
        yield Case("weights, one cell", name, partial(fitted, weights=w), expected, where)
        where = r"('g'|[Cc]olumn 2).*\brow|\brow.*column 2"
        X, plain_X = objects([data["a"].tolist(), data["b"].tolist(), g]), table_with_groups()
        expected = score(X=plain_X, group=2) if same else None
        yield Case("group, one cell", name, partial(score, X=X, group=2), expected, where)
        expected = classifier(2).decision_function(plain_X) if same else None
        yield Case("new group, one cell", name, partial(classifier(2).decision_function, X), expected, where)
        yield from groups_of_a_model("one cell", name, g, same, where)


def groups_of_a_model(what: str, name: str, g: Any, same: bool, where: str) -> Iterator[Case]:
    """A column of groups in fit and in new data; ``same`` says whether it is to be taken."""
    taken = same and what == "column"
    expected = fitted(formula=GROUPED) if same else None
    yield Case(f"group of a Model, {what}", name, partial(fitted, formula=GROUPED, g=g), expected, where, taken)
    expected = model(GROUPED).decision_function(plain()) if same else None
    run = partial(model(GROUPED).decision_function, plain() | {"g": g})
    yield Case(f"new group of a Model, {what}", name, run, expected, where, taken)


def whole_columns() -> Iterator[Case]:
    data = plain()
    for name, kind in COLUMNS.items():
        make = partial(made, kind, name)
        taken = kind.means == SAME
        b = meaning(kind, name, "b")
        if name == "masked integers":
            b = np.trunc(b)
        *_, of_model, of_new_model = scores_of(b)
        where = r"[Cc]olumn 'b'"
        yield Case("data, column", name, partial(fitted, b=make("b")), of_model, where, taken)
        run = partial(model().decision_function, data | {"b": make("b")})
        yield Case("new data, column", name, run, of_new_model, where, taken)
        expected = score() if taken else None
        if name not in ("dates", "durations"):  # which may be labels
            yield Case("y, whole", name, partial(score, y=make("y")), expected, r"\by\b")
        expected = fitted() if taken else None
        yield Case("outcome, whole", name, partial(fitted, y=make("y")), expected, "'y'|outcome", taken)
        expected = score(weight=data["w"]) if taken else None
        yield Case("sample_weight, whole", name, partial(score, weight=make("w")), expected, "sample_weight", taken)
        expected = fitted(weights=data["w"]) if taken else None
        where = "weights|no column 'red'"
        yield Case("weights, whole", name, partial(fitted, weights=make("w")), expected, where, taken)
        yield from groups_of_a_model("column", name, make("g"), taken, "'g'")
        if isinstance(make("b"), pd.Series):
            yield from columns_of_frames("pandas", name, kind, b, lambda **columns: pd.DataFrame(columns))


def made(kind: Kind, name: str, column: str) -> Any:
    """A plain column made odd."""
    return kind.make(plain()[column], row_of(name))


def columns_of_frames(library: str, name: str, kind: Kind, b: Any, table: Callable[..., Any]) -> Iterator[Case]:
    """An odd column of a frame as an input and as the group, in X and in new X."""
    label = f"{library} {name}"
    odd_b, odd_g = made(kind, name, "b"), made(kind, name, "g")
    if isinstance(odd_b, pd.Series):
        odd_b, odd_g = odd_b.set_axis(range(N)), odd_g.set_axis(range(N))
    X, of_group = table(a=plain()["a"], b=odd_b), table(a=plain()["a"], b=plain()["b"], g=odd_g)
    of_fit, of_new, *_ = scores_of(b)
    where = "[Cc]olumn 'b'"
    yield Case("X, column", label, partial(score, X=X), of_fit, where, of_fit is not None)
    run = partial(named_classifier().decision_function, X)
    yield Case("new X, column", label, run, of_new, where, of_new is not None)
    if kind.means == SAME or name in NEVER_GROUPS:
        expected = score(X=table_with_groups(), group=2) if kind.means == SAME else None
        yield Case("group, column", label, partial(score, X=of_group, group="g"), expected, "'g'")


NEVER_GROUPS = ("periods", "lists", "dicts", "List", "Array", "Struct", "Object", "Binary", "Null", "list", "struct")


@cache
def named_classifier() -> VBSVC:
    """A VBSVC of a plain frame."""
    return VBSVC().fit(pd.DataFrame({"a": plain()["a"], "b": plain()["b"]}), plain()["y"])


def table_with_groups() -> np.ndarray:
    return np.column_stack([plain()["a"], plain()["b"], plain()["g"]])


def columns_of_other_frames() -> Iterator[Case]:
    data = plain()

    def batch(**columns: Any) -> pa.RecordBatch:
        return pa.table(columns).to_batches()[0]

    def polars(**columns: Any) -> pl.DataFrame:
        return pl.DataFrame(columns)

    def arrow(**columns: Any) -> pa.Table:
        return pa.table(columns)

    for library, kinds, table in (("polars", POLARS, polars), ("arrow", ARROW, arrow), ("batch", ARROW, batch)):
        for name, kind in kinds.items():
            b = meaning(kind, name, "b")
            yield from columns_of_frames(library, name, kind, b, table)
            *_, of_model, of_new_model = scores_of(b)
            if name in ("Enum", "Categorical", "dictionary"):
                of_model = fitted(b=["u", "v"] * (N // 2))
            whole = table(a=data["a"], b=made(kind, name, "b"), y=data["y"])
            where, label = "[Cc]olumn 'b'", f"{library} {name}"
            yield Case("data, column", label, partial(fitted, data=whole), of_model, where, of_model is not None)
            run = partial(model().decision_function, whole)
            yield Case("new data, column", label, run, of_new_model, where, of_new_model is not None)


def whole_tables() -> Iterator[Case]:
    X, grouped = table_with_groups()[:, :2], table_with_groups()
    where = r"\bX\b|2D|array|feature|sample|[Cc]olumn|dim"
    for name, kind in TABLES.items():
        taken = kind.means == SAME
        yield Case("X, whole", name, partial(score, X=kind.make(X)), score() if taken else None, where, taken)
        expected = classifier().decision_function(X) if taken else None
        run = partial(classifier().decision_function, kind.make(X))
        yield Case("new X, whole", name, run, expected, where, taken)
        if name != "no columns":
            expected = score(X=grouped, group=2) if taken and "tuples as" not in name else None
            run = partial(score, X=kind.make(grouped), group=2)
            yield Case("X with groups, whole", name, run, expected, rf"{where}|group")
        if not taken and "pandas" not in name and name != "lazy polars":
            yield Case("data, whole", name, partial(fitted, data=kind.make(X)), None, r"\bdata\b|column")
            run = partial(model().decision_function, kind.make(X))
            yield Case("new data, whole", name, run, None, r"\bdata\b")


ARGUMENTS = {
    "misspelled": "G",
    "no such name": "clinic",
    "list": ["g"],
    "tuple": ("g",),
    "array": np.arange(N),
    "Series": pd.Series(np.arange(N)),
    "number too large": 99,
    "float": 1.5,
    "dict": {"g": 1},
    "set": {"g"},
    "bytes": b"g",
    "NaN": np.nan,
    "complex": 1j,
    "object": object(),
    "empty text": "",
    "pandas NA": pd.NA,
    "date": pd.Timestamp("2020-01-01"),
    "array without dimension": np.array("g"),
}


def arguments() -> Iterator[Case]:
    """What names a column, and which level is the positive one."""
    X = pd.DataFrame(plain())[["a", "b", "g"]]
    for name, value in ARGUMENTS.items():
        for label, table in (("pandas", X), ("polars", pl.from_pandas(X)), ("array", X.to_numpy())):
            yield Case("group=", f"{name} ({label})", partial(score, X=table, group=value), None, r"\bgroup\b")
        yield Case("positive=", name, partial(fitted, positive=value), None, r"\bpositive\b")
    for name, other in (("a number as a name", 0), ("a tuple as a name", ("u", "v"))):
        table = pd.DataFrame(plain()).set_axis(pd.Index(["a", other, "g", "y", "w"], tupleize_cols=False), axis=1)
        yield Case("formula", name, partial(fitted, formula="y ~ .", data=table), None, r"[Cc]olumn")


def forms() -> dict[str, tuple[str, Any]]:
    """Groups and categories in several forms; those that begin alike mean the same."""
    k = plain()["g"]
    text = np.array(["u", "v", "w"], dtype=object)[k]
    return {
        "whole numbers": ("numbers", k),
        "floats": ("numbers", k.astype(float)),
        "Decimals": ("numbers", np.array([Decimal(one) for one in k.tolist()], dtype=object)),
        "a category of numbers": ("numbers", pd.Categorical(k)),
        "text": ("text", text),
        "pandas strings": ("text", pd.array(text, dtype="string")),
        "a category of text": ("text", pd.Categorical(text)),
        "text of numbers": ("text of numbers", k.astype(str)),
        "dates": ("dates", np.datetime64("2020-01-01", "ns") + k * np.timedelta64(1, "D")),
        "objects that are dates": ("other dates", np.array([dt.date(2020, 1, 1 + one) for one in k], dtype=object)),
    }


def changed_forms() -> Iterator[Case]:
    """New data in another form than in fit: the same, or refused. (Other text is a new group, and may be taken.)"""
    data = plain()

    def grouped(k: Any) -> VBSVC:
        return VBSVC(group="k").fit(pd.DataFrame({"a": data["a"], "k": k}), data["y"])

    def by_formula(formula: str, k: Any) -> Any:
        return Model(formula, data | {"k": k}, HELD).fit()

    fits = {
        "new group, another form": grouped,
        "new group of a Model, another form": partial(by_formula, "y ~ a + (1 | k)"),
        "new category, another form": partial(by_formula, "y ~ a + C(k)"),
    }
    for place, fit in fits.items():
        for name, (meaning_of_fit, k) in forms().items():
            if "date" in name and (fit is not grouped or name != "dates"):
                continue
            of_fit = fit(k)
            own = of_fit.decision_function(pd.DataFrame({"a": data["a"], "k": k}))
            for other, (meaning_of_new, new) in forms().items():
                same = meaning_of_fit == meaning_of_new
                if not same and "group" in place and all("text" in one for one in (meaning_of_fit, meaning_of_new)):
                    continue
                run = partial(of_fit.decision_function, pd.DataFrame({"a": data["a"], "k": new}))
                yield Case(place, f"{name}, then {other}", run, own if same else None, "'k'", same)


MAKERS = (
    cells_of_inputs,
    cells_of_labels,
    whole_columns,
    columns_of_other_frames,
    whole_tables,
    arguments,
    changed_forms,
)
