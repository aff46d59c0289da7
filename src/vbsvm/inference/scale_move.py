"""One group move a sweep: all coefficients and their scales are stretched by a common factor.

The sampler of the paper's Appendix A creeps along that direction where rows are few beside coefficients. The latent
scales are integrated out in the move, and so are missing categories; so it comes last in a sweep: both are drawn afresh
in the next one. Missing inputs stay where they are, and so do categories that do not adapt to the coefficients.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State


@final
@dataclass(frozen=True, slots=True)
class Proposal:
    """A factor with log g ~ N(0, step²), and the logarithm of a uniform number to judge it by."""

    step: float
    g: float = 1.0
    log_uniform: float = 0.0

    def draw(self, rng: np.random.Generator) -> "Proposal":
        """Draw both."""
        return Proposal(self.step, math.exp(self.step * rng.standard_normal()), math.log(rng.random()))


def stretch(spec: Spec, state: State, source: Source, step: float, resolve: Reading) -> tuple[State, bool]:
    """Propose θ → gθ with every σ² → g²σ², and take it by the Metropolis rule; give the state and whether it moved."""
    proposal: Proposal = resolve(Proposal(step), "stretch")
    g, theta = proposal.g, state.coefficients.mean
    effective = theta if state.gates is None else state.gates.open * theta
    ratio, scales = source.total(lambda part: _change(spec.likelihood, part, state, effective, g, resolve)), []
    for block, scale, moments in zip(spec.blocks, state.scales, spec.moments(state), strict=True):
        moved, part = block.prior.stretch(scale, moments, g)
        scales.append(moved)
        ratio += part
    if not proposal.log_uniform < ratio:
        return state, False
    return State(PointDistribution(g * theta), tuple(scales), state.gates, state.missing), True


def _change(likelihood: Likelihood, part: Part, state: State, theta: Array, g: float, resolve: Reading) -> float:
    """Change of the log likelihood, with what is latent integrated out."""
    margin = part.rows.signs * part.scores(theta, state.missing)
    before, after = likelihood.at_point(margin), likelihood.at_point(g * margin)
    return part.likelihood_change(before, after, state.missing, resolve)
