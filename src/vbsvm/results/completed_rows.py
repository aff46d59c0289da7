"""Rows whose missing values were drawn: a source without missing values."""

from dataclasses import replace

import numpy as np

from vbsvm.base.arrays import Which
from vbsvm.missing.imputation import ProperDraw
from vbsvm.missing.rows import design_rows
from vbsvm.sources.memory import Memory


def completed(source: Memory, draw: ProperDraw | None, which: Which, rng: np.random.Generator) -> Memory:
    """These of the rows, as ``chosen_rows`` gives them, with drawn values for missing inputs."""
    chosen = source if source.candidates is None else _taken(source, which)
    return chosen if chosen.missing_inputs is None or draw is None else _with_inputs(chosen, draw, rng)


def chosen_rows(source: Memory, number: int, rng: np.random.Generator) -> Which:
    """One of the candidates of each row: of those with the number of the table, drawn by drawn shares.

    All rows where these are no candidates.
    """
    candidates = source.candidates
    if candidates is None:
        return slice(None)
    held = source.held_levels
    assert held is not None
    levels = held.draw(rng, labelled=True)
    chances = held.of_table(levels, candidates, source.recipe, source.X, source.signs)
    return candidates.one_each(np.where(candidates.of_draw(number, rng), chances, -np.inf), rng)


def _taken(source: Memory, which: Which) -> Memory:
    inputs = source.missing_inputs
    return replace(
        source,
        X=source.X[which],
        signs=source.signs[which],
        weights=source.weights[which],
        groupings=tuple(grouping.take(which) for grouping in source.groupings),
        missing_inputs=None if inputs is None else inputs.take(which),
        candidates=None,
        known_levels=None,
    )


def _with_inputs(source: Memory, draw: ProperDraw, rng: np.random.Generator) -> Memory:
    assert source.missing_inputs is not None
    recipe, inputs, known = source.recipe, source.missing_inputs.inputs, source.missing_inputs
    variables, derived = inputs.variables - recipe.first, inputs.derived - recipe.first
    rows = np.flatnonzero(np.isnan(source.X[:, variables]).any(axis=1) & (source.weights > 0))
    design = design_rows(recipe, source.X[rows])
    missing = np.isnan(source.X[np.ix_(rows, variables)])
    values = draw.fill(design, known.beside[rows], rng)[:, len(inputs.given) :] + missing * known.shift
    raw = recipe.centre[variables] + recipe.spread[variables] * values
    X = source.X.astype(np.float64)
    X[np.ix_(rows, variables)] = np.where(missing, raw, X[np.ix_(rows, variables)])
    for j, (column, of) in enumerate(zip(derived, inputs.feeds, strict=True)):
        X[rows, column] = np.where(missing[:, of], known.multipliers[rows, j] * raw[:, of], X[rows, column])
    return replace(source, X=X, missing_inputs=None)
