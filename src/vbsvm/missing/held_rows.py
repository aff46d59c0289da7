"""Rows with missing inputs under an exact bound, where labels and coefficients do not move the inputs.

The missing inputs d of a row have the distribution N(m, C) that is held. Its score has the mean f of the row with m
filled in, and the variance V = cᵀΣc + tr(C E[bbᵀ]), where b are the coefficients that multiply d. The score is taken
for normal, as it is where either d or b is known: then the row term is the likelihood's own ℓ(f, V). (Averaged over the
product of both instead, coefficients differ by a hundredth of their standard deviation, and a fit takes 1.3 to 5 times
as long.) The gram serves as the curvature in the mean, although V changes with the mean as well.
"""

import numpy as np

from vbsvm.base.reading import expect
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.model import MissingSums
from vbsvm.missing.row_updates import Cells, Coordinates, Spread, conditional_means
from vbsvm.missing.rows import IncompleteRows
from vbsvm.model.interfaces import Message
from vbsvm.model.layouts.dense import LOG_2PI
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import Stats


def held_stats(
    rows: IncompleteRows, message: Message, likelihood: Likelihood, distribution: InputDistribution
) -> Stats:
    """Sums of a pass: G = Σ w (ccᵀ + LCLᵀ) and r = Σ u c, where L d is what missing inputs add to a row."""
    s, means = rows.weights, conditional_means(rows, distribution)
    filled = rows.filled(means)
    f, v = message.row_moments(filled)
    effects = rows.through(message.effects(filled, rows.inputs.columns))
    V, entropy, parts = np.array(np.broadcast_to(v, f.shape)), 0.0, []
    for group in rows.groups:
        cells = Cells.of(group, effects)
        found = Coordinates.of(cells, distribution.precision)
        V[group.rows] += found.curvature.sum(axis=1)[cells.of_row]
        entropies = 0.5 * (found.axes.shape[1] * (1 + LOG_2PI) - found.log_det)
        entropy += float(s[group.rows] @ entropies[cells.of_row])
        parts.append((group.rows, cells, found))
    terms = likelihood.terms(f, V, rows.signs, s, expect, "rows", rows.index)
    gram, inputs = filled.gram(terms.w), rows.known + means
    squares = inputs.T @ (s[:, None] * inputs)
    for at, cells, found in parts:
        full = np.ones((len(at), found.axes.shape[1]))
        spread = Spread.of(cells, found, full, terms.w[at], s[at], len(rows.inputs.variables))
        gram = gram + rows.directions(spread.which, spread.vectors).gram(spread.of_rows)
        squares += spread.vectors.T @ (spread.of_inputs[:, None] * spread.vectors)
    row_bound = float(s @ terms.value) + entropy
    constant = float(terms.u @ f) - 0.5 * float(terms.w @ (np.square(f) + V))
    return Stats(
        gram=gram,
        cross_sums=filled.cross(terms.u),
        row_bound=row_bound,
        constant=constant - row_bound,
        curvature=gram,
        missing=MissingSums(InputSums(rows.regressors.T @ (s[:, None] * inputs), squares)),
    )
