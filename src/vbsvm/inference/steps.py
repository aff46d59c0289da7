"""Step rules: candidates for the next state, the boldest first, the paper's own update (CAVI) last.

``loop.optimize`` tries them in order and takes the first that does not lower the bound. In exact arithmetic CAVI never
lowers the augmented one, so that an optimisation goes on whatever the bolder candidates do.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.update_mode import mean_field
from vbsvm.model.row_pass import Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import elbo, pass_rows, update, update_gates, update_missing, update_priors


@final
@dataclass(frozen=True)
class Options:
    """Settings of extrapolation and of steps."""

    # Steps that Anderson's extrapolation remembers.
    memory: int = 6
    # Directions in which residuals differ by less than this, relatively, are rounding: following them would amplify it.
    min_residual: float = 1e-6
    # After a refusal what was remembered belongs to another region: this many steps are only remembered first.
    n_resting: int = 2
    # An extrapolated step towards a fixed point is undone where the next is longer than the last by more than this.
    max_longer: float = 2.0
    # Scales go ahead to their fixed point once no inclusion probability moves by more than this: before, that would
    # choose another optimum.
    max_inclusion_change: float = 1e-3
    # With indicators there are many optima, and a bold step may jump to a worse one. Its inclusion probabilities may
    # differ by at most this from those of CAVI: then the optimisation ends where plain sweeps end, or higher.
    max_inclusion_distance: float = 0.05
    # Fractions of a natural-gradient step.
    fractions: tuple[float, ...] = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)


OPTIONS = Options()


@final
class Anderson:
    """Anderson extrapolation of a map z → F(z) from its last values.

    Of the last states take the affine combination whose residual F(z) − z is smallest, and go to the same combination
    of their images. Packed states are unconstrained, so the result is a valid state.
    """

    def __init__(self) -> None:
        self._previous: tuple[Array, Array] | None = None
        self._changes: tuple[Array, Array] | None = None  # of residuals and of images; the oldest is overwritten
        self._seen = 0
        self._resting = 0

    def reset(self) -> None:
        """Forget the last steps, as an extrapolation has lowered the bound."""
        self._seen = 0
        self._resting = OPTIONS.n_resting

    def propose(self, z: Array, image: Array) -> Array | None:
        """Remember z and F(z), and return the extrapolation, or None where too little is known."""
        residual = image - z
        before, self._previous = self._previous, (residual, image)
        if before is None:
            return None
        memory = OPTIONS.memory
        if self._changes is None:
            self._changes = np.empty((memory, len(z))), np.empty((memory, len(z)))
        of_residuals, of_images = self._changes
        np.subtract(residual, before[0], out=of_residuals[self._seen % memory])
        np.subtract(image, before[1], out=of_images[self._seen % memory])
        self._seen += 1
        if self._resting > 0:
            self._resting -= 1
            return None
        residuals = of_residuals[: self._seen]
        gram = residuals @ residuals.T
        if not np.isfinite(gram).all():
            return None
        squares, directions = np.linalg.eigh(gram)
        chosen = squares > OPTIONS.min_residual**2 * squares[-1]
        coordinates = directions[:, chosen].T @ (residuals @ residual) / squares[chosen]
        return image - (directions[:, chosen] @ coordinates) @ of_images[: self._seen]

    def candidates(self, state: State, image: State) -> Iterator[State]:
        """Yield the extrapolated state if there is one; a further request means that it was refused."""
        extrapolated = self.propose(state.packed, image.packed)
        if extrapolated is not None:
            yield image.unpack(extrapolated)
            self.reset()


@final
class FixedPoint:
    """Fixed-point iteration with Anderson extrapolation, undone if the next residual is larger."""

    def __init__(self) -> None:
        self._anderson, self._length = Anderson(), np.inf
        self.fallback: Any = None  # the plain step, where the last one was extrapolated

    def advance(self, image: Any, before: Array, after: Array) -> Any:
        """Next iterate from numbers ``before``, which the map takes to ``image`` with numbers ``after``."""
        length = largest_change(before, after)
        if self.fallback is not None and not length < OPTIONS.max_longer * self._length:
            return self.undo()
        ahead, self._length = self._anderson.propose(before, after), length
        self.fallback = None if ahead is None else image
        return image if ahead is None else image.unpack(ahead)

    def undo(self) -> Any:
        """Take back the last step, which was extrapolated."""
        plain, self.fallback = self.fallback, None
        self._anderson.reset()
        return plain


def largest_change(before: Array, after: Array) -> float:
    """The largest change of a number; where numbers are large, relatively to these."""
    change = np.where(before == after, 0.0, np.abs(after - before) / (1.0 + np.abs(before)))  # log odds may be infinite
    return float(change.max(initial=0.0))


@final
@dataclass(frozen=True, eq=False)
class Iterate:
    """A state, its exact bound, and lazily the sums of a pass from it and, where known, its remaining gain."""

    state: State
    bound: float
    sums: Callable[[], Stats]
    estimate: Callable[[], float] | None = None

    @cached_property
    def stats(self) -> Stats:
        """Sums over the rows at this state."""
        return self.sums()

    @cached_property
    def remaining_gain(self) -> float:
        """Remaining gain of the bound; infinite if unknown."""
        return math.inf if self.estimate is None else self.estimate()


def evaluate_state(spec: Spec, source: Source, state: State, *, with_curvature: bool = False) -> Iterate:
    """Pass over the rows at this state: its exact bound, and the sums for the next step."""
    stats = pass_rows(spec, state, source, mean_field, with_curvature=with_curvature)
    return Iterate(state, elbo(spec, state, stats.row_bound, stats.missing), lambda: stats)


def cavi_step(spec: Spec, iterate: Iterate) -> State:
    """CAVI: the updates of Luts & Ormerod without acceleration."""
    return update(spec, iterate.state, iterate.stats, mean_field)


def newton_step(spec: Spec, iterate: Iterate, damping: float) -> State | None:
    """CAVI with a Newton step for the mean, (H + Λ)⁻¹ {r − (G + Λ) μ}; ``damping`` leads from H (0) to G (1).

    None where there is no curvature: at a point, or where it is not positive in floating point.
    """
    stats, distribution = iterate.stats, iterate.state.coefficients
    if stats.curvature is None:
        return None
    ahead = None
    gram, cross = stats.gated(iterate.state.gates)
    curvature = stats.curvature.interpolate(stats.gram, damping) if damping else stats.curvature
    if iterate.state.gates is not None:
        curvature = curvature.gated(iterate.state.gates, stats.gram)
    # Where the curvature is the gram itself, the update's own mean is the Newton step.
    residual = None if curvature is gram else cross - gram.times(distribution.mean)
    state, rounds = iterate.state, max(block.prior.rounds for block in spec.blocks)
    while rounds:
        precision = spec.precision(state)
        proposed = gram.conditional(cross, precision)
        if residual is not None:
            step = curvature.solve(residual - precision.times(distribution.mean), precision)
            if step is None:
                return None
            proposed = proposed.with_mean(distribution.mean + step)
        state = state.with_coefficients(proposed)
        moved = update_gates(spec, state, stats, mean_field)
        before, after = iterate.state.gates, moved.gates
        changes = np.zeros(1) if before is None or after is None else np.abs(before.inclusion - after.inclusion)
        if ahead is None and changes.max() < OPTIONS.max_inclusion_change:
            ahead = fixed_point_step(spec, state)
            if ahead is not None:
                state = ahead
                continue
        state = update_priors(spec, moved, mean_field)
        rounds -= 1
    return update_missing(spec, state, stats, mean_field)


def fixed_point_step(spec: Spec, state: State) -> State | None:
    """State with scales at the fixed point of their updates, or None if these do not converge slowly."""
    scales, moved = list(state.scales), False
    for k, (block, moments) in enumerate(zip(spec.blocks, spec.moments(state), strict=True)):
        guess = block.prior.fixed_point_step(scales[k], moments)
        if guess is not None:
            scales[k], moved = guess, True
    return state.with_scales(tuple(scales)) if moved else None


def _fraction(spec: Spec, iterate: Iterate, fraction: float) -> State:
    """Natural-gradient step of a fraction, by interpolation in Σ⁻¹ and Σ⁻¹μ."""
    distribution, stats = iterate.state.gaussian, iterate.stats
    before = distribution.precision
    cross = (1 - fraction) * before.times(distribution.mean) + fraction * stats.cross
    gram = before.interpolate(stats.gram, fraction)
    return iterate.state.with_coefficients(gram.conditional(cross, spec.precision(iterate.state).scaled(fraction)))


def shorter_steps(spec: Spec, iterate: Iterate) -> Iterator[State]:
    """Yield shorter and shorter natural-gradient steps: short ones raise any bound."""
    for fraction in OPTIONS.fractions:
        yield _fraction(spec, iterate, fraction)


def cavi_steps(spec: Spec, iterate: Iterate) -> Iterator[State]:
    """Yield the paper's update."""
    yield cavi_step(spec, iterate)


class StepRule(ABC):
    """Evaluates states and proposes the next; gains of ``superlinear`` ones fall faster and faster."""

    superlinear = False

    def evaluate(self, spec: Spec, source: Source, state: State) -> Iterate:
        """Pass over the rows from this state, or from a better one nearby."""
        return evaluate_state(spec, source, state)

    @abstractmethod
    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield next states in the order in which they are to be tried."""

    @property
    def refinement(self) -> "AndersonNewton | NaturalGradient | None":
        """Rule for refinement steps beyond the resolution of the bound, or None."""
        return None


@final
class CAVI(StepRule):
    """Coordinate ascent (CAVI) without acceleration."""

    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield the paper's update."""
        return cavi_steps(spec, iterate)


@final
class AndersonNewton(StepRule):
    """Newton steps for the mean, and Anderson extrapolation of the whole map state → state.

    A refused Newton step is followed by damped ones, and each that is taken halves the damping. ``safe`` are the
    steps to fall back on: CAVI, which raises the augmented bound.
    """

    def __init__(self, safe: Callable[[Spec, Iterate], Iterator[State]] = cavi_steps) -> None:
        self._safe = safe
        self._damping = 0.0
        self._anderson = Anderson()

    def evaluate(self, spec: Spec, source: Source, state: State) -> Iterate:
        """Pass over the rows once."""
        return evaluate_state(spec, source, state, with_curvature=True)

    @property
    def refinement(self) -> "AndersonNewton":
        """Its own Newton steps."""
        return self

    def full_step(self, spec: Spec, iterate: Iterate) -> State:
        """The Newton step without damping, or else CAVI."""
        newton = None if spec.joint_gates else newton_step(spec, iterate, 0.0)
        return cavi_step(spec, iterate) if newton is None else newton

    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield Anderson's extrapolation, the Newton step, and safe steps; bold ones with indicators near these."""
        if iterate.state.gates is None:
            yield from self._from_bold_to_safe(spec, iterate)
            return
        safe = cavi_step(spec, iterate)
        for candidate in self._from_bold_to_safe(spec, iterate):
            assert candidate.gates is not None
            assert safe.gates is not None
            distance = np.abs(candidate.gates.inclusion - safe.gates.inclusion).max()
            if distance <= OPTIONS.max_inclusion_distance:
                yield candidate

    def _from_bold_to_safe(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        if spec.joint_gates:  # there is no Newton step for them
            plain = cavi_step(spec, iterate)
            if iterate.stats.curvature is not None:
                yield from self._anderson.candidates(iterate.state, plain)
            yield plain
            return
        damping = self._damping
        newton = newton_step(spec, iterate, damping)
        if newton is not None:
            self._damping = damping / 2 if damping > 0.02 else 0.0
            yield from self._anderson.candidates(iterate.state, newton)
            yield newton
            self._damping = min(1.0, max(0.2, 4 * damping))
        yield from self._safe(spec, iterate)


@final
class NaturalGradient(StepRule):
    """Natural-gradient steps of the exact bound with fixed scales, extrapolated; short ones are sure to raise it."""

    def __init__(self) -> None:
        self._anderson = Anderson()

    @property
    def refinement(self) -> "NaturalGradient":
        """Its own steps."""
        return self

    def full_step(self, spec: Spec, iterate: Iterate) -> State | None:
        """The natural-gradient step."""
        return self._fraction(spec, iterate, 1.0)

    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield Anderson's extrapolation, the full step, fractions of it, and at last everything but coefficients."""
        image = self.full_step(spec, iterate)
        if image is not None:
            yield from self._anderson.candidates(iterate.state, image)
            yield image
        for fraction in OPTIONS.fractions:
            shorter = self._fraction(spec, iterate, fraction)
            if shorter is not None:
                yield shorter
        yield update_missing(spec, iterate.state, iterate.stats, mean_field)

    def _fraction(self, spec: Spec, iterate: Iterate, fraction: float) -> State | None:
        """A fraction of the step of the coefficients, or None where its precision is not positive."""
        try:
            state = _fraction(spec, iterate, fraction)
        except (FloatingPointError, np.linalg.LinAlgError):
            return None
        finite = np.isfinite(state.coefficients.mean).all()
        return update_missing(spec, state, iterate.stats, mean_field) if finite else None
