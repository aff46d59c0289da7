"""One sweep: all of the paper's algorithms and samplers are cases of it.

A pass over the rows turns the distribution of the coefficients into sums; then each full conditional is updated from
the moments of the others. ``mode`` is the update mode: keep each conditional as a distribution (variational Bayes), or
replace it by a draw (Gibbs).
"""

from functools import partial
from typing import Any

from vbsvm.base.update_mode import UpdateMode
from vbsvm.model.layouts.dense import DenseGram
from vbsvm.model.layouts.spike_slab import update_jointly
from vbsvm.model.row_pass import RowPass, Source, Stats
from vbsvm.model.spec import Spec, State


def sweep(spec: Spec, state: State, source: Source, mode: UpdateMode) -> tuple[State, Stats]:
    """Pass over the rows once and update everything else; the stats belong to the state that went in."""
    stats = pass_rows(spec, state, source, mode)
    return update(spec, state, stats, mode), stats


def pass_rows(spec: Spec, state: State, source: Source, mode: UpdateMode, *, with_curvature: bool = False) -> Stats:
    """Update the rows' latent scales, and sum the statistics that the update of the coefficients needs."""
    coefficients = state.coefficients.effective(state.gates)
    return source.sum_stats(RowPass(spec.likelihood, coefficients, mode, with_curvature, state.missing))


def update(spec: Spec, state: State, stats: Stats, mode: UpdateMode) -> State:
    """Update everything but the rows (Algorithm 2, lines 2 to 4; 3, lines 2 to 8 and 11; 5, lines 13 and 14)."""
    if spec.joint_gates:  # joint q(v_k, γ_k) of each predictor; for variational Bayes only
        assert state.gates is not None
        assert isinstance(stats.gram, DenseGram)  # the only layout with joint indicators
        distribution, gates = update_jointly(
            stats.gram, stats.cross, spec.precision(state), state.coefficients, state.gates, spec.prior_log_odds(state)
        )
        state = State(distribution, state.scales, gates, state.missing)
    else:
        state = update_gates(spec, update_coefficients(spec, state, stats, mode), stats, mode)
    return update_missing(spec, update_priors(spec, state, mode), stats, mode)


def update_coefficients(spec: Spec, state: State, stats: Stats, mode: UpdateMode) -> State:
    """q(β, v), or a draw from it (Algorithms 1 and 2, lines 2 and 3; Algorithm 3, lines 2 and 3; Appendices A, B)."""
    gram, cross = stats.gated(state.gates)
    distribution = gram.conditional(cross, spec.precision(state))
    return state.with_coefficients(mode(distribution, "coefficients"))


def update_gates(spec: Spec, state: State, stats: Stats, mode: UpdateMode) -> State:
    """q(γ_k) one after another, or draws (Algorithm 3, lines 6 and 7; Appendix B)."""
    if state.gates is None:
        return state
    scan = stats.gram.scan(stats.cross, state.coefficients, state.gates, spec.prior_log_odds(state))
    return State(state.coefficients, state.scales, mode(scan, "gates").result, state.missing)


def update_priors(spec: Spec, state: State, mode: UpdateMode) -> State:
    """q(σ²) of each block, or a draw from it (Algorithm 2, line 4; Algorithm 3, lines 5 and 11; Appendices A, B)."""
    blocks = zip(spec.blocks, state.scales, spec.moments(state), strict=True)
    scales = [
        block.prior.update(scale, moments, partial(_at_site, mode, i))
        for i, (block, scale, moments) in enumerate(blocks)
    ]
    return state.with_scales(tuple(scales))


def _at_site(mode: UpdateMode, block: int, distribution: Any, *site: str | int) -> Any:
    return mode(distribution, "scale", block, *site)


def update_missing(spec: Spec, state: State, stats: Stats, mode: UpdateMode) -> State:
    """Distributions of the missing values' model, or draws (Algorithm 5, lines 13 and 14; Appendix C)."""
    if spec.missing is None:
        return state
    missing = spec.missing.update(state.missing, stats.missing, mode)
    return State(state.coefficients, state.scales, state.gates, missing)


def elbo_terms(spec: Spec, state: State, row_term: float, missing: Any = None) -> dict[str, float]:
    """Named terms of the ELBO, all constants included, at any state.

    ``row_term`` is ``stats.row_bound`` of a pass that *started* from this state, or ``row_term_fixed_weights`` between
    passes; it holds the entropy of missing values. ``missing`` are the sums of that pass for missing values.
    """
    named = {"rows": row_term, "entropy of the coefficients": state.coefficients.entropy}
    for block, scale, moments in zip(spec.blocks, state.scales, spec.moments(state), strict=True):
        named[f"prior of {block.name}"] = block.prior.bound(scale, moments)
    if state.gates is not None:
        named["entropy of the indicators"] = state.gates.entropy
    if spec.missing is not None:
        named |= spec.missing.bound(state.missing, missing)
    return named


def elbo(spec: Spec, state: State, row_term: float, missing: Any = None) -> float:
    """The ELBO: the sum of its terms."""
    return sum(elbo_terms(spec, state, row_term, missing).values())


def row_term_fixed_weights(state: State, stats: Stats) -> float:
    """Row term of the ELBO at *any* state, with the weights of an earlier pass fixed: rᵀm − ½⟨G, Ω⟩ − κ."""
    distribution, (gram, cross) = state.coefficients, stats.gated(state.gates)
    return float(cross @ distribution.mean) - 0.5 * distribution.quadratic(gram) - stats.constant
