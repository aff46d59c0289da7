"""Profiled Newton for a likelihood that is curved everywhere: its curvature in the mean weighs rows in the Gram matrix.

One Gram matrix then serves twice: it gives the next covariance, and it is the curvature of the Newton steps after it.
And no pass has to try a step that gains next to nothing. With it the step to Σ′ = P⁻¹ with P = G + Λ gains
½(tr ΣP − d) + ½ log |Σ′|/|Σ| to first order in the variances. Without it weights tell: let w be those of which Σ was
made, and w + δ those that rows have at Σ. The step gains ¼‖Σ^½ (Σ δ c cᵀ) Σ^½‖² to second order, at most ¼ Σ δ² v/w.
Coefficients count as rows of the weight that their prior gives them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.settings import log
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.loop import optimize
from vbsvm.inference.profiled import FixedVarianceRows, ProfiledNewton, RowTermEvaluation, covariance_update
from vbsvm.inference.steps import Iterate
from vbsvm.model.interfaces import Gram, PointDistribution, Rows
from vbsvm.model.likelihoods.logistic import ExactLogistic
from vbsvm.model.row_pass import Part, Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import elbo


@final
@dataclass(frozen=True)
class Options:
    """Settings of Newton steps for smooth likelihoods, and of the subsample start."""

    # A Gram matrix costs as much as some evaluations, the more, the more columns there are: it is used again while
    # steps reduce the remaining gain to this fraction for each column, but not to more than the second figure.
    reused: float = 0.005
    max_reused: float = 0.3
    # Steps after the next may gain as well, and so may the mean.
    safety: float = 2.0
    # A mean that is off by g nats changes weights so much that the covariance is off by g times columns over rows.
    mean_tol: float = 10.0
    # With fewer columns than this, variances cost about as much as an evaluation.
    min_even: int = 32
    # Rows of the sample for each coefficient, and at least; and how many times as many there must be in all.
    rows_each: int = 128
    min_rows: int = 4096
    min_ratio: int = 4
    # The sample is off by half a nat for each coefficient and each row that one represents: this fraction will do.
    sample_tol: float = 0.1
    max_passes: int = 20


OPTIONS = Options()
TINY = float(np.finfo(np.float64).tiny)


@final
class SmoothNewton(ProfiledNewton):
    """Profiled Newton for smooth likelihoods, whose Gram matrices are Hessians and whose remaining gain is known."""

    superlinear = False  # the remaining gain says more than how gains fall

    def __init__(self, tol: float) -> None:
        super().__init__(tol)
        self._tol, self._before = tol, -np.inf
        self._last: tuple[State, SmoothRows] | None = None
        self._proposed: tuple[State, dict[int, Array]] | None = None  # a covariance, and the weights that it is made of

    @property
    def rows(self) -> "SmoothRows":
        """Rows of the last evaluation."""
        assert self._last is not None
        return self._last[1]

    def evaluate(self, spec: Spec, source: Source, state: State) -> Iterate:
        """Find the best mean and scales for the state's covariance."""
        if isinstance(state.coefficients, PointDistribution):
            return super().evaluate(spec, source, state)
        rows = SmoothRows(spec.likelihood, source, state.coefficients.effective(None))
        reached = self.optimize_mean(spec, state, rows)
        self._last = reached, rows
        weights = self._proposed[1] if self._proposed is not None and self._proposed[0] is state else None

        def estimate() -> float:
            if weights is not None:
                left = OPTIONS.safety * (gain_by_priors(spec, state, reached) + rows.max_gain(weights))
                if left < self._tol:
                    return left
            return OPTIONS.safety * _update_gain(spec, iterate)

        iterate = Iterate(reached, elbo(spec, reached, rows.row_term), lambda: rows.sums(reached), estimate)
        return iterate

    def separates(self, state: State) -> bool | None:
        """Whether the mean scores classify every row correctly; None unless this state was evaluated last."""
        return self.rows.separated if self._last is not None and self._last[0] is state else None

    def candidates(self, spec: Spec, iterate: Iterate) -> Iterator[State]:
        """Yield those of profiled Newton; the update of the covariance comes first where that is all that is left."""
        weights, state = None, iterate.state
        if self._last is not None and self._last[0] is state:
            weights, self.curvature = self.rows.weights, iterate.stats.gram
            gain, self._before = iterate.bound - self._before, iterate.bound
            if iterate.remaining_gain * iterate.remaining_gain < self._tol * gain:
                image = covariance_update(spec, iterate, state)
                self._proposed = image, weights
                yield image
        for candidate in super().candidates(spec, iterate):
            # Updates of the covariance lie around the very same mean; others are not made of these weights.
            updated = candidate.coefficients.mean is state.coefficients.mean
            self._proposed = (candidate, weights) if updated and weights is not None else None
            yield candidate

    def near(self, spec: Spec, source: Source, state: State, few: "SmoothRows") -> State:
        """Covariance of all rows near a state found by an optimisation over ``few`` of them.

        The variances of linear predictors differ little between rows, and matter little in large tables: in those of
        columns all rows get the same, as a pass would be needed to find them. The mean is found the better for it, as
        long as the curvature of the few serves.
        """
        loose, close = (
            ProfiledNewton(self._tol),
            ProfiledNewton(OPTIONS.mean_tol * self._tol * source.n_rows / spec.n_columns, loose=0.0),
        )
        loose.curvature = close.curvature = gram = few.curvature(0.0)
        coefficients = few.updated(spec, state).coefficients.effective(None)
        if spec.n_columns >= OPTIONS.min_even:
            coefficients: Any = EvenVariances(
                state.coefficients.mean, spec.n_columns / sum(float(weights.sum()) for weights in few.weights.values())
            )
        rows = SmoothRows(spec.likelihood, source, coefficients)
        state = loose.optimize_mean(spec, state, rows)
        if loose.curvature is gram:
            state = close.optimize_mean(spec, state, rows)
        image = rows.updated(spec, state)
        self._proposed, self.curvature = (image, rows.weights), rows.curvature(0.0)
        return image


def _update_gain(spec: Spec, iterate: Iterate) -> float:
    """Gain of the bound by the update of the covariance."""
    image, now = covariance_update(spec, iterate, iterate.state).coefficients, cast(Any, iterate.state.coefficients)
    precision = spec.precision(iterate.state)
    if precision.couplings:
        return np.inf
    trace = now.with_mean(np.zeros_like(now.mean)).quadratic(iterate.stats.gram) + float(
        precision.diagonal @ now.variances
    )
    return 0.5 * (trace - len(now.mean)) + image.entropy - now.entropy


def gain_by_priors(spec: Spec, made: State, reached: State) -> float:
    """Bound on the gain by updating a covariance after the prior precision has changed."""
    before, now = spec.precision(made), spec.precision(reached)
    if before.couplings:
        return np.inf
    return 0.25 * float(np.square(now.diagonal - before.diagonal) / before.diagonal @ reached.coefficients.variances)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EvenVariances:
    """Mean of the coefficients, with a common variance for the scores of all rows."""

    mean: Array
    variance: float

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Score at the mean, and the variance."""
        f = rows.scores(self.mean)
        return f, np.full_like(f, self.variance)


@final
class SmoothRows(FixedVarianceRows):
    """Rows whose evaluations compute only slopes; other terms are computed on demand at the final mean."""

    _gram: Gram | None = None
    _terms: dict[int, tuple[Array, float]] | None = None

    @property
    def reused(self) -> float:
        """Fraction to which a step with a reused Gram matrix must reduce the remaining gain."""
        return min(OPTIONS.max_reused, OPTIONS.reused * self._source.n_core)

    def _slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[float, Array]:
        return np.nan, cast(ExactLogistic, self._likelihood).slope(f, v, y, s)

    def move(self, t: float, evaluation: RowTermEvaluation) -> None:
        """Go to the mean that is t steps ahead."""
        super().move(t, evaluation)
        self._gram = self._terms = None

    @property
    def weights(self) -> dict[int, Array]:
        """Weights of the rows of each block in the gram."""
        return {index: weights for index, (weights, _) in self._all_terms().items()}

    @property
    def row_term(self) -> float:
        """Row term of the bound at the present mean."""
        return sum(row_term for _, row_term in self._all_terms().values())

    def _all_terms(self) -> dict[int, tuple[Array, float]]:
        """Weights and row term of each block at the present mean."""
        if self._terms is None:
            self._terms = {index: self._of_block(index) for index in self._blocks}
        return self._terms

    def _of_block(self, index: int) -> tuple[Array, float]:
        block = self._blocks[index]
        with np.errstate(all="ignore"):
            terms = self._likelihood.terms(block.f, block.v, block.y, block.s, mean_field)
            return terms.w, float(block.s @ terms.value)

    def curvature(self, damping: float) -> Gram:
        """Gram at the present mean."""
        if self._gram is None:
            known, found = self._terms, dict.fromkeys(self._blocks)  # threads finish in any order

            def of_part(part: Part) -> Any:
                index = part.rows.index
                weights, _ = found[index] = self._of_block(index) if known is None else known[index]
                return cast(Rows, part.rows).gram(weights)

            self._gram = cast(Gram, self._source.sum_parts(of_part))
            self._terms = cast(dict[int, tuple[Array, float]], found)
        return self._gram

    def sums(self, state: State) -> Stats:
        """Sums of a full pass at this point."""
        gram = self.curvature(0.0)
        return Stats(gram, self.gradient + gram.times(state.coefficients.mean), self.row_term, np.nan, None)

    def updated(self, spec: Spec, state: State) -> State:
        """State with the covariance updated from these rows."""
        return covariance_update(spec, Iterate(state, -np.inf, lambda: self.sums(state)), state)

    @property
    def separated(self) -> bool:
        """Whether the mean scores classify every row correctly."""
        return all(bool((block.y * block.f > 0.0).all()) for block in self._blocks.values())

    def max_gain(self, before: dict[int, Array]) -> float:
        """Upper bound on the gain by another covariance, if this one was computed with these weights."""
        total = 0.0
        for index, weights in self.weights.items():
            change = weights - before[index]
            with np.errstate(all="ignore"):
                total += float((change * (change / np.maximum(before[index], TINY))) @ self._blocks[index].v)
        return 0.25 * total


def subsample_start(spec: Spec, source: Source, start: State, rule: SmoothNewton) -> State:
    """Start for this rule by a fit to a subsample, or the start itself if rows are too few."""
    n_rows = max(OPTIONS.min_rows, OPTIONS.rows_each * spec.n_columns)
    sample = source.sample(n_rows) if source.n_rows >= OPTIONS.min_ratio * n_rows else None
    if sample is None:
        return start
    log.info("subsample start: optimisation over %d of %d rows", n_rows, source.n_rows)
    tol = OPTIONS.sample_tol * spec.n_columns * source.n_rows / n_rows
    few = SmoothNewton(tol)
    try:
        result = optimize(spec, sample, start, few, tol, OPTIONS.max_passes)
        if result.interrupted:
            raise KeyboardInterrupt  # nothing has been reached that could be kept
        if not result.converged or few.rows.separated:  # what bounds separated classes is the prior
            return start
        with np.errstate(all="ignore"):
            return rule.near(spec, source, result.state, few.rows)
    except (FloatingPointError, np.linalg.LinAlgError):  # all rows together may do better
        return start
