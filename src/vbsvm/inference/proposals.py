"""Where to go next: candidates for the next state, the boldest first, the paper's own update last.

``fit.variational`` tries them in order and takes the first that does not lower the bound. In exact arithmetic the
paper's update never lowers it, so the climb goes on whatever the bolder ones do.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from vbsvm.base.cached import cached_property
from vbsvm.base.reading import expect
from vbsvm.inference.extrapolation import Anderson
from vbsvm.model.row_pass import Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import elbo, pass_rows, update, update_gates, update_missing, update_priors


@final
@dataclass(frozen=True, eq=False)
class Visited:
    """A state, its exact bound, and the sums of a pass that starts from it, formed when they are asked for.

    ``promise`` tells what is left to gain, where that is known without a next step.
    """

    state: State
    bound: float
    sums: Callable[[], Stats]
    promise: Callable[[], float] | None = None

    @cached_property
    def stats(self) -> Stats:
        """Sums over the rows at this state."""
        return self.sums()

    @cached_property
    def left(self) -> float:
        """What is left to gain; infinite where it is not known."""
        return math.inf if self.promise is None else self.promise()


class Strategy(Protocol):
    """A way to visit a state and to propose the next; ``superlinear`` ones gain less and less ever faster."""

    superlinear: bool

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Pass over the rows from this state, or from a better one nearby."""
        ...

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield next states in the order in which they are to be tried."""
        ...

    @property
    def polishing(self) -> "Polishing | None":
        """Whose steps go on where the bound tells no more; None where there are to be no others."""
        ...


class Polishing(Protocol):
    """Whole steps, which stand still at the optimum alone."""

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Pass over the rows once from this very state."""
        ...

    def whole_step(self, spec: Spec, at: Visited) -> State | None:
        """The next state; None where it can't be made."""
        ...


GATES_REST = 1e-3


def full_visit(spec: Spec, source: Source, state: State, *, with_curvature: bool = False) -> Visited:
    """Pass over the rows from this state: that gives its exact bound, and what the next step needs."""
    stats = pass_rows(spec, state, source, expect, with_curvature=with_curvature)
    return Visited(state, elbo(spec, state, stats.row_bound, stats.missing), lambda: stats)


def paper_step(spec: Spec, at: Visited) -> State:
    """The paper's updates, to the letter."""
    return update(spec, at.state, at.stats, expect)


def paper_alone(spec: Spec, at: Visited) -> Iterator[State]:
    """Yield the paper's updates."""
    yield paper_step(spec, at)


def newton_step(spec: Spec, at: Visited, damping: float) -> State | None:
    """The paper's updates, but with a Newton step for the mean on the bound collapsed over the latent scales.

    The mean moves by (H + Λ)⁻¹ {r − (G + Λ) μ}.
    The paper's update of the mean uses a majorant G of the curvature H, too large by χ/v in each row. H itself is right
    only as long as no row crosses the hinge's kink; ``damping`` leads from H (0) to G (1). None where there is no
    curvature: at a point, or where it is not positive in floating point.
    """
    stats, distribution = at.stats, at.state.coefficients
    if stats.curvature is None:
        return None
    leapt = False
    gram, cross = stats.gated(at.state.gates)
    curvature = stats.curvature.towards(stats.gram, damping).gated(at.state.gates, stats.gram)
    # Where the curvature is the gram itself, the update's own mean is the Newton step.
    residual = None if curvature is gram else cross - gram.times(distribution.mean)
    state, rounds = at.state, max(block.prior.rounds for block in spec.blocks)
    while rounds:
        precision = spec.precision(state)
        proposed = gram.conditional(cross, precision)
        if residual is not None:
            step = curvature.solve(residual - precision.times(distribution.mean), precision)
            if step is None:
                return None
            proposed = proposed.at(distribution.mean + step)
        state = state.moved(proposed)
        moved = update_gates(spec, state, stats, expect)
        if not leapt and _gates_rest(at.state, moved) and (ahead := leap(spec, state)) is not None:
            leapt, state = True, ahead
            continue
        state = update_priors(spec, moved, expect)
        rounds -= 1
    return update_missing(spec, state, stats, expect)


def _gates_rest(before: State, after: State) -> bool:
    """Whether no gate moves any more: a leap of the scale before that would choose another optimum."""
    if before.gates is None or after.gates is None:
        return True
    return bool(np.abs(before.gates.inclusion - after.gates.inclusion).max() < GATES_REST)


def leap(spec: Spec, state: State) -> State | None:
    """Scales where they seem to be going, or None where their own updates do not creep."""
    pairs = zip(spec.blocks, state.scales, spec.moments(state), strict=True)
    guesses = [block.prior.fixed_point_step(scale, moments) for block, scale, moments in pairs]
    if all(guess is None for guess in guesses):
        return None
    scales = (scale if guess is None else guess for scale, guess in zip(state.scales, guesses, strict=True))
    return state.scaled(tuple(scales))


@final
class Plain:
    """The paper's sweep and nothing else."""

    superlinear = False
    polishing = None

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Pass over the rows once."""
        return full_visit(spec, source, state)

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield the paper's update."""
        yield paper_step(spec, at)


@final
class Accelerated:
    """Newton steps for the mean, and Anderson extrapolation of the whole map state → state.

    A refused Newton step is followed by damped ones, and each that is taken halves the damping: without it, data
    without signal or with rare classes, where many rows sit at the kink, would cost three passes for each step.
    ``safe`` are the steps to fall back on: the paper's update, which raises the augmented bound.
    """

    superlinear = False

    # Gates have many optima, and a bold step may jump to a worse one. It may leave a gate no further than this from
    # where the paper's own update takes it: then the climb ends where plain sweeps end, or higher.
    GATE_REACH = 0.05

    def __init__(self, safe: Callable[[Spec, Visited], Iterator[State]] = paper_alone) -> None:
        self._safe = safe
        self._damping = 0.0
        self._anderson = Anderson()

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Pass over the rows once."""
        return full_visit(spec, source, state, with_curvature=True)

    @property
    def polishing(self) -> "Accelerated":
        """Its own Newton steps."""
        return self

    def whole_step(self, spec: Spec, at: Visited) -> State:
        """The Newton step without damping, or the paper's update where there is none."""
        newton = None if spec.joint_gates else newton_step(spec, at, 0.0)
        return paper_step(spec, at) if newton is None else newton

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield Anderson's extrapolation, the Newton step, and safe steps; bold ones only near the gates of these."""
        if at.state.gates is None:
            yield from self._from_bold_to_safe(spec, at)
            return
        safe = paper_step(spec, at)
        for candidate in self._from_bold_to_safe(spec, at):
            assert candidate.gates is not None
            assert safe.gates is not None
            if np.abs(candidate.gates.inclusion - safe.gates.inclusion).max() <= self.GATE_REACH:
                yield candidate

    def _from_bold_to_safe(self, spec: Spec, at: Visited) -> Iterator[State]:
        if spec.joint_gates:  # there is no Newton step for them
            plain = paper_step(spec, at)
            if at.stats.curvature is not None:
                yield from self._extrapolated(at, plain)
            yield plain
            return
        damping = self._damping
        newton = newton_step(spec, at, damping)
        if newton is not None:
            self._damping = damping / 2 if damping > 0.02 else 0.0
            yield from self._extrapolated(at, newton)
            yield newton
            self._damping = min(1.0, max(0.2, 4 * damping))
        yield from self._safe(spec, at)

    def _extrapolated(self, at: Visited, image: State) -> Iterator[State]:
        extrapolated = self._anderson.propose(at.state.packed, image.packed)
        if extrapolated is not None:
            yield image.unpack(extrapolated)
            self._anderson.refused()


SHARES = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)


def shorter_steps(spec: Spec, at: Visited) -> Iterator[State]:
    """Shares of the natural-gradient step, which go a part of the way in Σ⁻¹ and Σ⁻¹μ: short ones raise any bound."""
    for share in SHARES:
        yield _shorter(spec, at, share)


@final
class NaturalGradient:
    """Natural-gradient steps of an exact bound where inputs are missing, and Anderson extrapolation of these.

    No step is sure to raise such a bound but a short one. ``hold_scales`` leaves the scales of the priors where they
    are.
    """

    superlinear = False

    def __init__(self, *, hold_scales: bool = False) -> None:
        self._hold_scales = hold_scales
        self._anderson = Anderson()

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Pass over the rows once."""
        return full_visit(spec, source, state)

    @property
    def polishing(self) -> "NaturalGradient":
        """Its own steps."""
        return self

    def whole_step(self, spec: Spec, at: Visited) -> State | None:
        """The natural-gradient step."""
        return self._share(spec, at, 1.0)

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield Anderson's extrapolation, the whole step, shares of it, and at last everything but coefficients."""
        image = self.whole_step(spec, at)
        if image is not None:
            extrapolated = self._anderson.propose(at.state.packed, image.packed)
            if extrapolated is not None:
                yield image.unpack(extrapolated)
                self._anderson.refused()
            yield image
        for share in SHARES:
            shorter = self._share(spec, at, share)
            if shorter is not None:
                yield shorter
        yield self._with_others(spec, at, at.state)

    def _share(self, spec: Spec, at: Visited, share: float) -> State | None:
        """A share of the step of the coefficients; None where its precision is not positive, as it may be far off."""
        try:
            state = _shorter(spec, at, share)
        except (FloatingPointError, np.linalg.LinAlgError):
            return None
        return self._with_others(spec, at, state) if np.isfinite(state.coefficients.mean).all() else None

    def _with_others(self, spec: Spec, at: Visited, state: State) -> State:
        if not self._hold_scales:
            state = update_priors(spec, state, expect)
        return update_missing(spec, state, at.stats, expect)


def _shorter(spec: Spec, at: Visited, share: float) -> State:
    """A share of the natural-gradient step."""
    distribution, stats = at.state.gaussian, at.stats
    before = distribution.precision
    cross = (1 - share) * before.times(distribution.mean) + share * stats.cross
    gram = before.towards(stats.gram, share)
    return at.state.moved(gram.conditional(cross, spec.precision(at.state).scaled(share)))
