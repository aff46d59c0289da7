"""Profiled Newton: mean and scales are solved for at every covariance, so that the optimisation is one over Σ alone.

With the variances v = dg(CΣCᵀ) fixed an evaluation at another mean costs O(n d), where a pass costs O(n d²).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.steps import (
    Anderson,
    AndersonNewton,
    Iterate,
    NaturalGradient,
    StepRule,
    cavi_step,
    evaluate_state,
    fixed_point_step,
    shorter_steps,
)
from vbsvm.model.interfaces import EffectiveCoefficients, Gram, PointDistribution, Precision, Rows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.row_pass import Part, RowPass, Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import elbo, update_priors


@final
@dataclass(frozen=True)
class Options:
    """Settings of profiled Newton."""

    # Steps for the mean end when the next would gain less than this fraction of the tolerance.
    mean_tol: float = 0.03
    # They also end when the next would gain less than this fraction of what steps have gained at this covariance.
    loose: float = 1e-3
    # Newton steps for a mean, and evaluations along one of them.
    max_steps: int = 40
    max_trials: int = 6
    # A step is long enough when the slope at its end is at most this fraction of the slope at its beginning.
    max_slope: float = 0.3
    # The curvature of an earlier step is used again as long as steps reduce the remaining gain to this fraction.
    reused: float = 0.05
    # Rows whose curvature is less than this fraction of its largest possible value are left out of a Newton step.
    min_curvature: float = 0.02
    # With more coefficients than this, Newton steps are solved for by conjugate gradients: at most this many products,
    # up to this fraction of the first residual.
    max_direct: int = 160
    max_products: int = 60
    forcing: float = 0.03
    # How far the curvature leans towards the paper's majorant after a step that led nowhere higher.
    first_damping: float = 0.05


OPTIONS = Options()


class ProfiledNewton(StepRule):
    """Solves for the mean and the scales at each covariance, which Anderson extrapolation moves."""

    superlinear = True

    def __init__(self, tol: float, *, fixed_scales: bool = False, loose: float = OPTIONS.loose) -> None:
        self._enough, self._loose = OPTIONS.mean_tol * tol, loose
        self._fixed_scales = fixed_scales
        self._anderson = Anderson()
        self.curvature: Gram | None = None  # of the last step that formed one, or what others know of it
        self._damping = 0.0

    def evaluate(self, spec: Spec, source: Source, state: State) -> Iterate:
        """Find the best mean and scales for the state's covariance."""
        if isinstance(state.coefficients, PointDistribution):
            return evaluate_state(spec, source, state)
        rows = FixedVarianceRows(spec.likelihood, source, state.coefficients.effective(None))
        state = self.optimize_mean(spec, state, rows)
        return Iterate(state, elbo(spec, state, rows.row_term), rows.stats)

    @property
    def refinement(self) -> AndersonNewton | NaturalGradient:
        """Steps of the whole state."""
        return NaturalGradient() if self._fixed_scales else AndersonNewton()

    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield Anderson's extrapolation, the update of the covariance, and shorter steps towards it."""
        state = iterate.state
        if isinstance(state.coefficients, PointDistribution):
            yield cavi_step(spec, iterate)
            return
        safe = covariance_update(spec, iterate, state)
        ahead = None if self._fixed_scales else fixed_point_step(spec, safe)
        image = safe if ahead is None else covariance_update(spec, iterate, ahead)
        yield from self._anderson.candidates(state, image)
        yield image
        if ahead is not None:
            yield safe
        yield from shorter_steps(spec, iterate)

    def optimize_mean(self, spec: Spec, state: State, rows: "FixedVarianceRows") -> State:
        """Maximise over the mean by Newton steps."""
        if self._damping:  # a damped curvature promises less than there is to gain
            self.curvature = None
        state, left, gained = self._with_scales(spec, state), np.inf, 0.0
        for _ in range(OPTIONS.max_steps):
            precision = spec.precision(state)
            gradient = rows.gradient - precision.times(state.coefficients.mean)
            gain, direction = self._step(gradient, state, precision, rows)
            if self.curvature is not None and left < np.inf and not gain < rows.reused * left:
                self.curvature = None
                gain, direction = self._step(gradient, state, precision, rows)
            if not gain > max(self._enough, self._loose * gained):
                break
            reached = self._search(spec, state, rows, direction, 2 * gain)
            if reached is not None:
                state, left, gained = reached, gain, gained + gain
                self._damping /= 4  # a trace stays: where a step has failed, rows far from the margin count as well
            elif self._damping < 1.0:
                left, self.curvature = np.inf, None
                self._damping = min(1.0, max(OPTIONS.first_damping, 4 * self._damping))
            else:
                break
        return state

    def _step(
        self, gradient: Array, state: State, precision: Precision, rows: "FixedVarianceRows"
    ) -> tuple[float, Array]:
        """Newton step and its predicted gain; the curvature of an earlier step is reused while it suffices."""
        direction = None
        if isinstance(state.coefficients, DenseGaussian) and len(gradient) > OPTIONS.max_direct:
            direction = _conjugate_gradients(gradient, state.coefficients, precision, rows.products(self._damping))
        else:
            if self.curvature is None:
                self.curvature = rows.curvature(self._damping)
            direction = self.curvature.solve(gradient, precision)
        return (0.0, gradient) if direction is None else (0.5 * float(gradient @ direction), direction)

    def _search(
        self, spec: Spec, state: State, rows: "FixedVarianceRows", direction: Array, first: float
    ) -> State | None:
        """Line search with the slope ``first`` at its start; None, and nothing moves, where no trial is higher."""
        distribution, low, high, t = state.gaussian, (0.0, first), (np.inf, -np.inf), 1.0
        ahead = rows.ahead(direction)
        for trial in range(OPTIONS.max_trials + 1):
            if trial:
                ahead = rows.along(t)
            mean = distribution.mean + t * direction
            moved = self._with_scales(spec, state.with_coefficients(distribution.with_mean(mean)))
            slope = ahead.slope - float(direction @ spec.precision(moved).times(mean))
            if abs(slope) <= OPTIONS.max_slope * first or (trial == OPTIONS.max_trials and t > 0):
                rows.move(t, ahead)
                return moved
            low, high = ((t, slope), high) if slope > 0 else (low, (t, slope))
            t = low[0] if trial == OPTIONS.max_trials - 1 else _between(low, high, trial)
        return None

    def _with_scales(self, spec: Spec, state: State) -> State:
        return state if self._fixed_scales else update_priors(spec, state, mean_field)


def covariance_update(spec: Spec, iterate: Iterate, scales: State) -> State:
    """Update Σ = (G + Λ)⁻¹ around the same mean, with Λ by these scales or the iterate's."""
    covariance = iterate.stats.gram.conditional(iterate.stats.cross, spec.precision(scales))
    return scales.with_coefficients(covariance.with_mean(iterate.state.coefficients.mean))


def _between(low: tuple[float, float], high: tuple[float, float], trial: int) -> float:
    """Trial point for the root of a decreasing slope: by the chord and by bisection in turn."""
    if high[0] == np.inf:
        return 2 * low[0]
    share = low[1] / (low[1] - high[1]) if trial % 2 == 0 and np.isfinite(high[1]) else 0.5
    return low[0] + (high[0] - low[0]) * min(max(share, 0.1), 0.9)


def _conjugate_gradients(
    gradient: Array, distribution: DenseGaussian, precision: Precision, times: Callable[[Array], Array]
) -> Array | None:
    """(H + Λ)⁻¹ gradient by products with H, preconditioned by Σ, whose inverse G + Λ is not smaller than H + Λ."""
    root = distribution.root
    direction, residual = np.zeros_like(gradient), gradient.copy()
    towards = root @ (residual @ root)
    square = first = float(residual @ towards)
    search = towards
    for _ in range(OPTIONS.max_products):
        product = times(search) + precision.times(search)
        along = float(search @ product)
        if not along > 0:
            return None
        direction += (square / along) * search
        residual -= (square / along) * product
        towards = root @ (residual @ root)
        before, square = square, float(residual @ towards)
        if not square > OPTIONS.forcing * first:
            break
        search = towards + (square / before) * search
    return direction


@dataclass(slots=True, eq=False)
class _Block:
    """Of each row of a block: label, weight, mean and variance of the score, how a step changes the mean, and ∂ℓ/∂f."""

    y: Array
    s: Array
    f: Array
    v: Array
    change: Array
    slope: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowTermEvaluation:
    """At some mean: the row term, its slope along a step, and its gradient as the layout sums it, or None."""

    row_term: float
    slope: float
    cross: Any = None

    def __add__(self, other: "RowTermEvaluation") -> "RowTermEvaluation":
        """Add the sums of two blocks."""
        cross = None if self.cross is None else self.cross + other.cross
        return RowTermEvaluation(self.row_term + other.row_term, self.slope + other.slope, cross)


class FixedVarianceRows:
    """All rows with fixed variances of their scores, while the mean moves."""

    def __init__(self, likelihood: Likelihood, source: Source, coefficients: EffectiveCoefficients) -> None:
        self._likelihood, self._source, self._coefficients = likelihood, source, coefficients
        self._blocks: dict[int, _Block] = {}
        self._here: RowTermEvaluation = source.sum_parts(self._take)
        self._blocks = dict(sorted(self._blocks.items()))  # threads finish in any order, and sums follow this one

    def _take(self, part: Part) -> RowTermEvaluation:
        rows = cast(Rows, part.rows)
        with np.errstate(all="ignore"):  # a thread does not inherit that of the loop
            f, v = self._coefficients.row_moments(rows)
            row_term, slope = self._slopes(f, np.asarray(v), rows.y, rows.weights)
            self._blocks[rows.index] = _Block(rows.y, rows.weights, f, np.asarray(v), f, slope)
            return RowTermEvaluation(row_term, 0.0, rows.cross(slope))

    def _slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[float, Array]:
        """Row term of a block, and ∂ℓ/∂f of its rows."""
        values, slope = self._likelihood.slopes(f, v, y, s)
        return float(s @ values), slope

    @property
    def reused(self) -> float:
        """Fraction to which a step with a reused curvature must reduce the remaining gain."""
        return OPTIONS.reused

    @property
    def row_term(self) -> float:
        """Row term of the bound at the present mean."""
        return self._here.row_term

    @property
    def gradient(self) -> Array:
        """Gradient of the row term in the mean."""
        if self._here.cross is None:
            cross = self._source.sum_parts(
                lambda part: cast(Rows, part.rows).cross(self._blocks[part.rows.index].slope), memory_bound=True
            )
            self._here = RowTermEvaluation(self._here.row_term, self._here.slope, cross)
        return _array(self._here.cross)

    def ahead(self, direction: Array) -> RowTermEvaluation:
        """Evaluate the mean one full step ahead; most steps end there, so the gradient is summed as well."""

        def of_part(part: Part) -> RowTermEvaluation:
            rows = cast(Rows, part.rows)
            block = self._blocks[rows.index]
            with np.errstate(all="ignore"):
                block.change = rows.scores(direction)
                evaluation = self._at(block, 1.0)
                return RowTermEvaluation(evaluation.row_term, evaluation.slope, rows.cross(block.slope))

        return self._source.sum_parts(of_part, memory_bound=True)

    def along(self, t: float) -> RowTermEvaluation:
        """Evaluation at the mean that is t steps ahead."""
        with np.errstate(all="ignore"):
            first, *others = (self._at(block, t) for block in self._blocks.values())
        return sum(others, first)

    def _at(self, block: _Block, t: float) -> RowTermEvaluation:
        row_term, block.slope = self._slopes(block.f + t * block.change, block.v, block.y, block.s)
        return RowTermEvaluation(row_term, float(block.slope @ block.change))

    def move(self, t: float, evaluation: RowTermEvaluation) -> None:
        """Go to the mean t steps ahead, where the rows were evaluated last."""
        self._here = evaluation
        for block in self._blocks.values():
            block.f = block.f + t * block.change

    def _weights(self, block: _Block, damping: float) -> Array:
        """Curvature of each row, interpolated towards w (which is not smaller) by the damping."""
        terms = self._likelihood.terms(block.f, block.v, block.y, block.s, mean_field)
        assert terms.curvature is not None
        return terms.curvature + damping * (terms.w - terms.curvature) if damping else terms.curvature

    def curvature(self, damping: float) -> Gram:
        """Curvature of the row term in the mean, from the rows with non-negligible curvature.

        Whether a row counts depends on that row alone: then a row of weight 2 is the same as two rows.
        """

        def of_part(part: Part) -> Any:
            block = self._blocks[part.rows.index]
            with np.errstate(all="ignore"):
                weights = self._weights(block, damping)
                if not damping:
                    bends = weights * self._likelihood.width(block.v) > OPTIONS.min_curvature * block.s
                    weights = np.where(bends, weights, 0.0)
                return cast(Rows, part.rows).gram(weights)

        return self._source.sum_parts(of_part)

    def products(self, damping: float) -> Callable[[Array], Array]:
        """Products of the curvature with vectors."""
        weights = {index: self._weights(block, damping) for index, block in self._blocks.items()}

        def product(vector: Array) -> Array:
            def of_part(part: Part) -> Any:
                rows = cast(Rows, part.rows)
                return rows.cross(weights[rows.index] * rows.scores(vector))

            return _array(self._source.sum_parts(of_part, memory_bound=True))

        return product

    def stats(self) -> Stats:
        """Sums of a full pass at this point."""
        return self._source.sum_stats(RowPass(self._likelihood, cast(EffectiveCoefficients, self), mean_field))

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Mean and variance of each row's score."""
        block = self._blocks[rows.index]
        return block.f, block.v


def _array(sums: Any) -> Array:
    """Sums of a layout as an array."""
    return sums if isinstance(sums, np.ndarray) else sums.to_array()
