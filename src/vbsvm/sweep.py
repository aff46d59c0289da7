"""One sweep: all of the paper's algorithms and samplers are cases of it.

A pass over the rows turns the law of the coefficients (the message down) into sums (the message up); then each full
conditional is updated from the moments of the others. ``resolve`` decides the reading: keep each conditional as a law
(variational Bayes), or replace it by a draw (Gibbs).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vbsvm import hinge, missing
from vbsvm.input_laws import Selective
from vbsvm.layout.base import Message, Rows, Source
from vbsvm.layout.incomplete import IncompleteRows
from vbsvm.layout.options import OptionRows
from vbsvm.layout.spike import update_jointly
from vbsvm.readings import Reading
from vbsvm.spec import Spec, State
from vbsvm.stats import Stats


def sweep(spec: Spec, state: State, source: Source, resolve: Reading) -> tuple[State, Stats]:
    """Pass over the rows once and update everything else; the stats belong to the state that went in."""
    stats = pass_rows(state, source, resolve)
    state = update(spec, state, stats, resolve)
    return replace(state, values=stats.values) if stats.values else state, stats


def pass_rows(state: State, source: Source, resolve: Reading, *, with_curvature: bool = False) -> Stats:
    """Refresh the rows' latent scales and sum what the coefficients need of them."""
    message = state.coefficients.message(state.gates)

    def kernel(rows: Any) -> Stats:
        options = None
        if isinstance(rows, OptionRows):
            assert state.levels is not None
            rows, options = rows.rows, missing.Alternatives(rows.options, state.levels, resolve)
        if isinstance(rows, IncompleteRows):
            assert state.inputs is not None
            with np.errstate(all="ignore"):
                values = None if state.values is None else state.values.get(rows.index)
                return missing.row_stats(rows, message, state.inputs, resolve, with_curvature, options, values)
        stats = row_stats(rows, message, resolve, with_curvature, options)
        if isinstance(state.inputs, Selective):
            return replace(stats, inputs=missing.probit_sums(rows, state.inputs, resolve))
        return stats

    return source.fold(kernel)


def row_stats(
    rows: Rows, message: Message, resolve: Reading, with_curvature: bool, options: missing.Alternatives | None = None
) -> Stats:
    """Sums of one block: G = Σ w c cᵀ, r = Σ y (s + w) c, and the row term (Algorithm 2, lines 2 and 3).

    Alternatives of the same row count by their shares.
    """
    y, s = rows.signs, rows.weights
    with np.errstate(all="ignore"):  # for the climb's bold candidates; a thread does not inherit the climb's own
        f, v = message.row_moments(rows)
        h = 1.0 - y * f
        slack, root, w = hinge.weigh(h, v, s, resolve, "rows", rows.index)
        entropy, levels = 0.0, None
        if options is not None:
            shares = options.shares(-(h + root))
            entropy, levels = options.entropy(shares, s), options.counts(shares * s)
            s, w = shares * s, shares * w
        curvature = None
        if with_curvature and isinstance(v, np.ndarray):
            curvature = rows.gram(hinge.curvature(slack, w, v))
        return Stats(
            gram=rows.gram(w),
            cross_sums=rows.cross(y * (s + w)),
            row_bound=hinge.row_bound(h, root, s) + entropy,
            constant=hinge.constant(root, w, s) - entropy,
            curvature=curvature,
            levels=levels,
        )


def update(spec: Spec, state: State, stats: Stats, resolve: Reading) -> State:
    """Everything but the rows, in the paper's order (Algorithm 2, lines 2 to 4; 3, 2 to 8 and 11; 5, 13 and 14)."""
    if spec.joint_gates:
        state = update_coefficients_and_gates(spec, state, stats)
    else:
        state = update_gates(spec, update_coefficients(spec, state, stats, resolve), stats, resolve)
    return update_missing(spec, update_priors(spec, state, resolve), stats, resolve)


def update_coefficients_and_gates(spec: Spec, state: State, stats: Stats) -> State:
    """q(v_k, γ_k) jointly for each input, in variational Bayes only: a sampler has no use for it."""
    assert state.gates is not None
    law, gates = update_jointly(
        stats.gram, stats.cross, spec.precision(state), state.coefficients, state.gates, spec.prior_log_odds(state)
    )
    return replace(state, coefficients=law, gates=gates)


def update_coefficients(spec: Spec, state: State, stats: Stats, resolve: Reading) -> State:
    """q(β, v), or a draw from it (Algorithms 1 and 2, lines 2 and 3; Algorithm 3, lines 2 and 3; Appendices A, B)."""
    gram, cross = stats.gated(state.gates)
    law = gram.conditional(cross, spec.precision(state))
    return replace(state, coefficients=resolve(law, "coefficients"))


def update_gates(spec: Spec, state: State, stats: Stats, resolve: Reading) -> State:
    """q(γ_k) one after another, or draws (Algorithm 3, lines 6 and 7; Appendix B)."""
    if state.gates is None:
        return state
    scan = stats.gram.scan(stats.cross, state.coefficients, state.gates, spec.prior_log_odds(state))
    return replace(state, gates=resolve(scan, "gates").result)


def update_priors(spec: Spec, state: State, resolve: Reading) -> State:
    """q(σ²) of each block, or a draw from it (Algorithm 2, line 4; Algorithm 3, lines 5 and 11; Appendices A, B)."""
    blocks = zip(spec.blocks, state.scales, spec.moments(state), strict=True)
    scales = (
        block.prior.update(scale, moments, partial(_at_site, resolve, i))
        for i, (block, scale, moments) in enumerate(blocks)
    )
    return replace(state, scales=tuple(scales))


def update_missing(spec: Spec, state: State, stats: Stats, resolve: Reading) -> State:
    """The laws of what may be missing, inputs and levels."""
    if spec.levels is not None:
        state = replace(state, levels=spec.levels.update(stats.levels, resolve))
    return update_inputs(spec, state, stats, resolve)


def update_inputs(spec: Spec, state: State, stats: Stats, resolve: Reading) -> State:
    """The law of the inputs where some are missing, or a draw from it (Algorithm 5, lines 13 and 14; Appendix C)."""
    if spec.inputs is None:
        return state
    return replace(state, inputs=spec.inputs.update(state.inputs, stats.inputs, resolve))


def _at_site(resolve: Reading, block: int, law: Any, *site: str | int) -> Any:
    return resolve(law, "scale", block, *site)
