"""Imputation of missing predictors by a fit: expected values, and proper draws for multiple imputation."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from vbsvm.base.arrays import Array
from vbsvm.base.printing import track
from vbsvm.base.settings import check_whole, read_seed
from vbsvm.design import frames
from vbsvm.design.candidates import Candidates, Draws
from vbsvm.design.columns import Encoded, Plan
from vbsvm.missing.imputation import Population, ProperDraw, impute, with_index
from vbsvm.missing.model import input_model
from vbsvm.missing.rows import design_rows
from vbsvm.results import prediction
from vbsvm.results.fit_predictions import OF_ESTIMATOR, candidate_log_probs, level_distributions, read
from vbsvm.results.tables import like

if TYPE_CHECKING:
    import pandas as pd

    from vbsvm.design.formula.missing_inputs import Categories
    from vbsvm.design.formula.reader import Reader
    from vbsvm.results.fit import Fit

MAX_TABLES = 10_000
# Values of which one is chosen, by how well it goes with the label of its row, where columns are drawn.
MIN_PROPOSALS = 50


def expected_values(fit: "Fit", data: Any) -> "tuple[Any, Any]":
    """The predictors with missing values imputed by their expected values, and standard deviations."""
    tables = impute(fit.plan, population(fit), read(fit, data))
    if fit.reader is not None and fit.reader.drawn is not None and not isinstance(data, Encoded):
        means, spreads = _expected_drawn(fit.reader, data)
        tables = tables[0].assign(**means), tables[1].assign(**spreads)
    expected, spread = (with_index(table, data) for table in tables)
    return like(data, expected), like(data, spread)


def completed_tables(fit: "Fit", data: Any, n: int, y: Any, random_state: Any) -> list[Any]:
    """Multiple imputation: n copies of the data with missing values drawn under drawn parameters."""
    if fit.reader is None:
        raise TypeError(OF_ESTIMATOR)
    frame, places = _columns_to_fill(fit.reader, data)
    labels = None if y is None else label_columns(y, fit.classes, len(frame))
    encoded, columns = read(fit, data), np.array(list(places.values()), np.intp)
    draws, regressors, rng = _proper_draws(fit, n, labels, random_state)
    reader, tables = fit.reader.with_draws(MIN_PROPOSALS), []
    for draw in track("imputed tables", draws):
        proposed = None
        if encoded.candidates is not None and encoded.candidates.draws is not None:
            rows = reader.select(data)
            proposed = reader.draws(rows, rng)
            encoded = reader.encode(rows, proposed)
        table, completed, candidates = encoded.table, frame, encoded.candidates
        if candidates is not None:
            signs = None if labels is None else labels[candidates.row, 0]
            chances = candidate_log_probs(fit, candidates, table, signs, rng)
            if proposed is not None and signs is not None:
                odds = prediction.log_odds([prediction.mean_scores(fit, encoded)], [fit._link])[:, 0]
                chances = chances + log_expit(signs * odds)
            which = candidates.sample_one(chances, rng)
            completed = _with_levels(frame, reader.categories, candidates.levels[which])
            if proposed is not None and reader.drawn is not None:
                completed = _with_drawn(completed, reader.drawn.names, candidates.take(which), proposed)
            table = table[which]
        values = _drawn_values(fit.plan, table, draw, regressors, columns, rng)
        tables.append(like(data, with_values(completed, list(places), values)))
    return tables


def drawn_inputs(
    fit: "Fit", table: NDArray[np.floating], columns: NDArray[np.intp], n: int, labels: Array | None, random_state: Any
) -> list[Array]:
    """Columns of a raw table, completed by n proper draws; ``labels`` are columns of ±1 for the classes."""
    draws, regressors, rng = _proper_draws(fit, n, labels, random_state)
    return [_drawn_values(fit.plan, table, draw, regressors, columns, rng) for draw in draws]


def _proper_draws(
    fit: "Fit", n: int, labels: Array | None, random_state: Any
) -> tuple[list[ProperDraw], Array | None, np.random.Generator]:
    """Proper draws of the predictors' distribution, labels if these are regressors in it, and a generator."""
    check_whole("impute", 1, MAX_TABLES, n=n)
    seed = read_seed(random_state)
    population(fit)  # refuses too many columns
    if fit._rows is None:
        raise ValueError(
            "impute: draws need the training data, which are not stored in saved models: refit, or call impute "
            "before saving."
        )
    model, levels = input_model(fit.spec.missing), level_distributions(fit)
    known = labels is not None and model is not None and model.n_beside == labels.shape[1]
    if labels is not None and not known and (levels is None or not levels.labelled):
        raise ValueError(
            "impute: y is only supported if the training data have missing values, with "
            'GaussianImputation(labels="regressor"): leave y out.'
        )
    return fit._rows.proper_draws(int(n), seed), labels if known else None, np.random.default_rng(seed)


def population(fit: "Fit") -> Population:
    """Mean and covariance of the predictors; raise if there are too many columns."""
    if fit._input_population is None:
        raise AttributeError("The distribution of the predictors was not estimated: there are more than 3000 columns.")
    return fit._input_population


def _drawn_values(
    plan: Plan,
    table: NDArray[np.floating],
    draw: ProperDraw,
    labels: Array | None,
    columns: NDArray[np.intp],
    rng: np.random.Generator,
) -> Array:
    """Columns of a raw table with missing values replaced by draws."""
    recipe, values = plan.recipe, np.array(table[:, columns], dtype=np.float64)
    missing = np.isnan(values)
    rows = np.flatnonzero(missing.any(axis=1))
    if not len(rows):
        return values
    filled = draw.fill(design_rows(recipe, table[rows]), None if labels is None else labels[rows], rng)
    place = {int(column) - recipe.first: k for k, column in enumerate(draw.columns)}
    chosen = filled[:, [place[int(column)] for column in columns]]
    raw = recipe.centre[columns] + recipe.spread[columns] * chosen
    values[rows] = np.where(missing[rows], raw, values[rows])
    return values


def label_columns(y: Any, classes: NDArray[Any], n_rows: int) -> Array:
    """Labels of rows as columns of ±1: one for two classes, else one for each but the last.

    The first of two classes may represent all others.
    """
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"impute: y has the shape {labels.shape}, and the data have {n_rows} rows.")
    rest = len(classes) == 2 and isinstance(classes[0], str) and classes[0] == f"not {classes[1]}"
    unknown = ~np.isin(labels.astype(object), classes.astype(object))
    if unknown.any() and not rest:
        row = int(np.argmax(unknown))
        raise ValueError(f"impute: y has {labels.tolist()[row]!r} in row {row}, which is not a class of the fit.")
    modelled = classes[1:] if len(classes) == 2 else classes[:-1]
    return np.column_stack([np.where(labels == one, 1.0, -1.0) for one in modelled])


def _columns_to_fill(reader: "Reader", data: Any) -> "tuple[pd.DataFrame, dict[str, int]]":
    """The data as a frame, and the index of each column that is a predictor; others, of transforms, can't be filled."""
    import pandas as pd

    names = frames.names_of(data)
    frame = data if isinstance(data, pd.DataFrame) else frames.take(data, names, may_miss=names)
    places = {one.expression: one.place for one in reader.linear.variables if (one.expression,) == one.columns}
    needed = {name for one in reader.linear.variables for name in one.columns} - set(reader.categories.names)
    drawn = () if reader.drawn is None else reader.drawn.names
    for name in sorted(needed.difference(places, drawn)):
        if frame[name].isna().to_numpy().any():
            raise ValueError(
                f"impute: column {name!r} enters the formula in a transform, which cannot be inverted: drop rows "
                "where it is missing, or add the transform to the data as a column."
            )
    return frame, places


def as_frame(X: Any, names: tuple[str, ...], group: Any) -> "tuple[pd.DataFrame, list[Any]]":
    """A table X as a frame, and the names of its numeric columns in it."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X, [name for name in X.columns if group is None or name != group]
    if group is not None:
        raise TypeError("impute: with a group, draws of missing values need a pandas data frame.")
    return pd.DataFrame(np.full((len(X), len(names)), np.nan), columns=pd.Index(names)), list(names)


def with_values(frame: "pd.DataFrame", names: list[Any], values: Array) -> "pd.DataFrame":
    """Copy of the frame with missing values of these columns filled."""
    filled = {
        name: frame[name].astype(np.float64).where(frame[name].notna().to_numpy(), values[:, k])
        for k, name in enumerate(names)
        if frame[name].isna().to_numpy().any()
    }
    return frame.assign(**filled)


def _with_drawn(
    frame: "pd.DataFrame", names: tuple[str, ...], candidates: Candidates, draws: "Draws"
) -> "pd.DataFrame":
    """Copy of the frame with drawn values, by the chosen candidate of each row; ``draws`` are of incomplete rows."""
    assert candidates.draws is not None
    lost, filled = np.flatnonzero(candidates.draws.max(axis=1) >= 0), {}
    for j, name in enumerate(names):
        column = frame[name].astype(np.float64).to_numpy(na_value=np.nan).copy()
        turn = candidates.draws[lost, j]
        drawn_rows = np.flatnonzero(turn >= 0)
        column[lost[drawn_rows]] = draws.values[turn[drawn_rows], drawn_rows, j]
        filled[name] = column
    return frame.assign(**filled)


def _expected_drawn(reader: "Reader", data: Any) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Means and standard deviations of the columns that are drawn, given the other predictors."""
    import pandas as pd

    assert reader.drawn is not None
    frame, names = reader.select(data), list(reader.drawn.names)
    missing = reader.drawn.missing(frame)
    lost = missing.any(axis=1)
    means = frame[names].astype(np.float64).to_numpy(na_value=np.nan).copy()
    spreads = np.zeros_like(means)
    if lost.any():
        values = reader.draws(frame).values
        means[lost] = np.where(missing[lost], values.mean(axis=0), means[lost])
        spreads[lost] = np.where(missing[lost], values.std(axis=0), 0.0)
    return pd.DataFrame(means, columns=pd.Index(names)), pd.DataFrame(spreads, columns=pd.Index(names))


def _with_levels(frame: "pd.DataFrame", categories: "Categories", levels: NDArray[np.intp]) -> "pd.DataFrame":
    """Copy of the frame with missing categories filled by levels (rows × categories; −1 if not missing)."""
    filled = {}
    for name, values, of_rows in zip(categories.names, categories.levels, levels.T, strict=True):
        rows = np.flatnonzero(of_rows >= 0)
        if len(rows):
            column = frame[name].astype(object)
            column.iloc[rows] = values[of_rows[rows]]
            filled[name] = column.astype(frame[name].dtype)
    return frame.assign(**filled)
