"""The lower bound on the log evidence, all constants included, as named terms at any state."""

from typing import Any

from vbsvm.model.spec import Spec, State
from vbsvm.model.stats import Stats

ROWS = "rows"
COEFFICIENTS = "entropy of the coefficients"
GATES = "entropy of the gates"


def terms(spec: Spec, state: State, row_term: float, missing: Any = None) -> dict[str, float]:
    """Named terms of the bound; their sum is the bound.

    ``row_term`` is ``stats.row_bound`` of a pass that *started* from this state, or ``held_row_term`` between passes;
    it holds the entropy of missing values. ``missing`` are that pass's sums of what may be missing.
    """
    named = {ROWS: row_term, COEFFICIENTS: state.coefficients.entropy}
    for block, scale, moments in zip(spec.blocks, state.scales, spec.moments(state), strict=True):
        named[f"prior of {block.name}"] = block.prior.bound(scale, moments)
    if state.gates is not None:
        named[GATES] = state.gates.entropy
    if spec.missing is not None:
        named |= spec.missing.bound(state.missing, missing)
    return named


def total(spec: Spec, state: State, row_term: float, missing: Any = None) -> float:
    """The bound itself."""
    return sum(terms(spec, state, row_term, missing).values())


def held_row_term(state: State, stats: Stats) -> float:
    """Row term at *any* state with the weights of an earlier pass held: rᵀm − ½⟨G, Ω⟩ − κ. It needs no pass."""
    distribution, (gram, cross) = state.coefficients, stats.gated(state.gates)
    return float(cross @ distribution.mean) - 0.5 * distribution.quadratic(gram) - stats.constant
