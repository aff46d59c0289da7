"""Tables that are completed by proper draws: what multiple imputation takes."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.settings import require_whole
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates
from vbsvm.design.columns import Plan
from vbsvm.missing.proper_draws import ProperDraw

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.drawn_columns import Draws
    from vbsvm.design.formula.missing_inputs import Categories
    from vbsvm.design.formula.reader import Reader

MOST_TABLES = 10_000
# Values of which one is chosen, by how well it goes with the label of its row, where columns are drawn.
LEAST_PROPOSALS = 50


def drawn_inputs(
    plan: Plan,
    table: NDArray[np.floating],
    draw: ProperDraw,
    labels: Array | None,
    columns: NDArray[np.intp],
    rng: np.random.Generator,
) -> Array:
    """These columns of a raw table, with values drawn for the missing ones; the known ones stay as they are."""
    recipe, values = plan.recipe, np.array(table[:, columns], dtype=np.float64)
    missing = np.isnan(values)
    rows = np.flatnonzero(missing.any(axis=1))
    if not len(rows):
        return values
    filled = draw.fill(draw.design_of(recipe, table[rows]), None if labels is None else labels[rows], rng)
    place = {int(column) - recipe.first: k for k, column in enumerate(draw.columns)}
    chosen = filled[:, [place[int(column)] for column in columns]]
    raw = recipe.centre[columns] + recipe.spread[columns] * chosen
    values[rows] = np.where(missing[rows], raw, values[rows])
    return values


def read_number(n: Any) -> int:
    """How many tables are asked for."""
    require_whole("impute", 1, MOST_TABLES, n=n)
    return int(n)


def label_columns(y: Any, classes: NDArray[Any], n_rows: int) -> Array:
    """Labels of rows as columns of ±1: one for two classes, else one for each but the last.

    The first of two classes may stand for all others.
    """
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"impute: y has the shape {labels.shape}, and the data have {n_rows} rows.")
    rest = len(classes) == 2 and isinstance(classes[0], str) and classes[0] == f"not {classes[1]}"
    unknown = ~np.isin(labels.astype(object), classes.astype(object))
    if unknown.any() and not rest:
        row = int(np.argmax(unknown))
        raise ValueError(f"impute: y has {labels.tolist()[row]!r} in row {row}, which is not a class of the fit.")
    told = classes[1:] if len(classes) == 2 else classes[:-1]
    return np.column_stack([np.where(labels == one, 1.0, -1.0) for one in told])


def fillable(reader: "Reader", data: Any) -> "tuple[pd.DataFrame, dict[str, int]]":
    """The data as a frame, and the columns that are inputs themselves, by their place in the table.

    Refuse missing values in columns that only enter in transforms, which can't be undone.
    """
    import pandas as pd

    names = frames.names_of(data)
    frame = data if isinstance(data, pd.DataFrame) else frames.take(data, names, may_miss=names)
    places = {one.expression: one.place for one in reader.linear.variables if (one.expression,) == one.columns}
    needed = {name for one in reader.linear.variables for name in one.columns} - set(reader.categories.names)
    drawn = () if reader.drawn is None else reader.drawn.names
    for name in sorted(needed.difference(places, drawn)):
        if frame[name].isna().to_numpy().any():
            raise ValueError(
                f"impute: column {name!r} enters the formula in a transform, which a drawn value can't undo: leave out "
                "rows that miss it, or make a column of its own of the transform."
            )
    return frame, places


def as_frame(X: Any, names: tuple[str, ...], group: Any) -> "tuple[pd.DataFrame, list[Any]]":
    """A table X as a frame, and the names of its numeric columns in it."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X, [name for name in X.columns if group is None or name != group]
    if group is not None:
        raise TypeError("impute: a model with a group needs a pandas frame to draw missing values in.")
    return pd.DataFrame(np.full((len(X), len(names)), np.nan), columns=pd.Index(names)), list(names)


def with_values(frame: "pd.DataFrame", names: list[Any], values: Array) -> "pd.DataFrame":
    """A copy of the frame whose columns have these values where theirs are missing."""
    filled = {
        name: frame[name].astype(np.float64).where(frame[name].notna().to_numpy(), values[:, k])
        for k, name in enumerate(names)
        if frame[name].isna().to_numpy().any()
    }
    return frame.assign(**filled)


def with_drawn(frame: "pd.DataFrame", names: tuple[str, ...], candidates: Candidates, draws: "Draws") -> "pd.DataFrame":
    """A copy of the frame with drawn values, by the candidate of each row; ``draws`` are of the rows that miss some."""
    assert candidates.draws is not None
    lost, filled = np.flatnonzero(candidates.draws.max(axis=1) >= 0), {}
    for j, name in enumerate(names):
        column = frame[name].astype(np.float64).to_numpy(na_value=np.nan).copy()
        turn = candidates.draws[lost, j]
        here = np.flatnonzero(turn >= 0)
        column[lost[here]] = draws.values[turn[here], here, j]
        filled[name] = column
    return frame.assign(**filled)


def expected_drawn(reader: "Reader", data: Any) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Means and standard deviations of the columns that are drawn, given the other inputs."""
    import pandas as pd

    assert reader.drawn is not None
    frame, names = reader.taken(data), list(reader.drawn.names)
    missing = reader.drawn.missing(frame)
    lost = missing.any(axis=1)
    means = frame[names].astype(np.float64).to_numpy(na_value=np.nan).copy()
    spreads = np.zeros_like(means)
    if lost.any():
        values = reader.expected_draws(frame).values
        means[lost] = np.where(missing[lost], values.mean(axis=0), means[lost])
        spreads[lost] = np.where(missing[lost], values.std(axis=0), 0.0)
    return pd.DataFrame(means, columns=pd.Index(names)), pd.DataFrame(spreads, columns=pd.Index(names))


def with_levels(frame: "pd.DataFrame", categories: "Categories", levels: NDArray[np.intp]) -> "pd.DataFrame":
    """A copy of the frame with these levels (rows × categories) where they are not negative: categories are missing."""
    filled = {}
    for name, values, of_rows in zip(categories.names, categories.levels, levels.T, strict=True):
        rows = np.flatnonzero(of_rows >= 0)
        if len(rows):
            column = frame[name].astype(object)
            column.iloc[rows] = values[of_rows[rows]]
            filled[name] = column.astype(frame[name].dtype)
    return frame.assign(**filled)
