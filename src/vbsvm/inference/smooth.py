"""The profiled climb of a likelihood that is curved everywhere, and whose curvature in the mean is its gram's weight.

One gram then serves twice: it asks for the next covariance, and it is the curvature of the Newton steps after it. And
no pass has to try a step that gains next to nothing. With the gram at hand, the step to Σ′ = P⁻¹ with P = G + Λ gains
½(tr ΣP − d) + ½ log |Σ′|/|Σ| to first order in the variances. Without it weights tell: let w be those of which Σ was
made, and w + δ those that rows have at Σ. The step gains ¼‖Σ^½ (Σ δ c cᵀ) Σ^½‖² to second order, at most ¼ Σ δ² v/w.
Coefficients count as rows of the weight that their prior gives them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.reading import expect
from vbsvm.inference.profiled import HeldRows, Look, Profiled, asked_for
from vbsvm.inference.proposals import Accelerated, Visited, full_visit
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.interfaces import Effects, Gram, Rows
from vbsvm.model.likelihoods.base import CurvedLikelihood
from vbsvm.model.row_pass import Part, Source, Stats
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import elbo

# A gram costs as much as some looks, the more, the more columns there are: it is used again while steps reduce what is
# left to gain to this share for each column, but not to more than the second figure.
REUSED = 0.005
MOST_REUSED = 0.3
# Steps after the next may gain as well, and so may the mean.
SAFE = 2.0
# A mean that is off by g nats changes weights so much that the covariance is off by g times columns over rows.
NEAR = 10.0
# With fewer columns than this, variances cost hardly more than a look.
FEW_COLUMNS = 32
TINY = float(np.finfo(np.float64).tiny)


@final
class Smooth:
    """Visits and candidates of the profiled climb; grams are its curvatures, and what is left to gain is known."""

    superlinear = False  # what is left to gain says more than how gains fall

    def __init__(self, tol: float) -> None:
        self._tol, self._profiled = tol, Profiled(tol)
        self._before = -np.inf
        self._visited: tuple[State, SmoothRows] | None = None
        self._asked: tuple[State, dict[int, Array]] | None = None  # a covariance, and the weights that it is made of

    @property
    def polishing(self) -> Accelerated:
        """Steps of the whole state."""
        return Accelerated()

    @property
    def rows(self) -> "SmoothRows":
        """The rows as the last visit left them."""
        assert self._visited is not None
        return self._visited[1]

    def visit(self, spec: Spec, source: Source, state: State) -> Visited:
        """Find the best mean and scales for the state's covariance."""
        if isinstance(state.coefficients, PointDistribution):
            return full_visit(spec, source, state)
        rows = SmoothRows(spec.likelihood, source, state.coefficients.message(None))
        reached = self._profiled.climb_mean(spec, state, rows)
        self._visited = reached, rows
        weights = self._asked[1] if self._asked is not None and self._asked[0] is state else None

        def promise() -> float:
            if weights is not None:
                left = SAFE * (left_by_priors(spec, state, reached) + rows.left(weights))
                if left < self._tol:
                    return left
            return SAFE * _left(spec, at)

        at = Visited(reached, elbo(spec, reached, rows.row_term), lambda: rows.sums(reached), promise)
        return at

    def separates(self, state: State) -> bool | None:
        """Whether the mean scores put every row on its side; None unless the state is that of the last visit."""
        return self.rows.separated if self._visited is not None and self._visited[0] is state else None

    def candidates(self, spec: Spec, at: Visited) -> Iterator[State]:
        """Yield those of the profiled climb; what the gram asks for comes first where that is all that is left."""
        weights = None
        if self._visited is not None and self._visited[0] is at.state:
            weights, self._profiled.curvature = self.rows.weights, at.stats.gram
            gain, self._before = at.bound - self._before, at.bound
            if at.left * at.left < self._tol * gain:
                image = asked_for(spec, at, at.state)
                self._asked = image, weights
                yield image
        for candidate in self._profiled.candidates(spec, at):
            # What the gram asks for lies around the very same mean; others are not made of these weights.
            asked = candidate.coefficients.mean is at.state.coefficients.mean
            self._asked = (candidate, weights) if asked and weights is not None else None
            yield candidate

    def near(self, spec: Spec, source: Source, state: State, few: "SmoothRows") -> State:
        """The covariance that all rows ask for near a state, to which a climb over ``few`` of them has led.

        The variances of scores hardly differ from row to row, and matter little where rows are many: in tables of some
        columns all rows get the same, as a pass would be needed to find them. The mean is found the better for it, as
        long as the curvature of the few serves.
        """
        loose, close = Profiled(self._tol), Profiled(NEAR * self._tol * source.n_rows / spec.n_columns, loose=0.0)
        loose.curvature = close.curvature = gram = few.curvature(0.0)
        message = few.asked(spec, state).coefficients.message(None)
        if spec.n_columns >= FEW_COLUMNS:
            message = EvenSpread(state.coefficients.mean, spec.n_columns / few.total_weight)
        rows = SmoothRows(spec.likelihood, source, message)
        state = loose.climb_mean(spec, state, rows)
        if loose.curvature is gram:
            state = close.climb_mean(spec, state, rows)
        image = rows.asked(spec, state)
        self._asked, self._profiled.curvature = (image, rows.weights), rows.curvature(0.0)
        return image


def _left(spec: Spec, at: Visited) -> float:
    """What the covariance that the gram asks for gains."""
    image, now = asked_for(spec, at, at.state).coefficients, at.state.gaussian
    precision = spec.precision(at.state)
    if precision.couplings:
        return np.inf
    spread = now.at(np.zeros_like(now.mean)).quadratic(at.stats.gram) + float(precision.diagonal @ now.variances)
    return 0.5 * (spread - len(now.mean)) + image.entropy - now.entropy


def left_by_priors(spec: Spec, made: State, reached: State) -> float:
    """What a covariance may gain where the precision of the priors is no longer that of which it was made."""
    before, now = spec.precision(made), spec.precision(reached)
    if before.couplings:
        return np.inf
    return 0.25 * float(np.square(now.diagonal - before.diagonal) / before.diagonal @ reached.coefficients.variances)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EvenSpread:
    """A mean, and the same variance for the scores of all rows."""

    mean: Array
    variance: float

    def row_moments(self, rows: Rows) -> tuple[Array, Array]:
        """Score at the mean, and the variance."""
        f = rows.scores(self.mean)
        return f, np.full_like(f, self.variance)

    def effects(self, rows: Rows, columns: NDArray[np.intp]) -> Effects:
        """Asked only by rows with missing values, which are not held."""
        raise NotImplementedError


@final
class SmoothRows(HeldRows):
    """Rows of which looks tell the slope alone; their terms are found once the mean stays."""

    _gram: Gram | None = None
    _found: dict[int, tuple[Array, float]] | None = None

    @property
    def reused(self) -> float:
        """How much a step with an earlier gram must reduce what is left to gain."""
        return min(MOST_REUSED, REUSED * self._source.n_core)

    def _slopes(self, f: Array, v: Array, y: Array, s: Array) -> tuple[float, Array]:
        return np.nan, cast(CurvedLikelihood, self._likelihood).slope(f, v, y, s)

    def move(self, t: float, look: Look) -> None:
        """Go to the mean that is t steps ahead."""
        super().move(t, look)
        self._gram = self._found = None

    @property
    def weights(self) -> dict[int, Array]:
        """Weights of the rows of each block in the gram."""
        return {index: weights for index, (weights, _) in self._here_found().items()}

    @property
    def row_term(self) -> float:
        """Row term of the bound at the present mean."""
        return sum(row_term for _, row_term in self._here_found().values())

    def _here_found(self) -> dict[int, tuple[Array, float]]:
        """Weights and row term of each block at the present mean."""
        if self._found is None:
            self._found = {index: self._of_block(index) for index in self._blocks}
        return self._found

    def _of_block(self, index: int) -> tuple[Array, float]:
        block = self._blocks[index]
        with np.errstate(all="ignore"):
            terms = self._likelihood.terms(block.f, block.v, block.y, block.s, expect)
            return terms.w, float(block.s @ terms.value)

    def curvature(self, damping: float) -> Gram:
        """Gram at the present mean."""
        if self._gram is None:
            known, found = self._found, dict.fromkeys(self._blocks)  # threads finish in any order

            def of_part(part: Part) -> Any:
                index = part.rows.index
                weights, _ = found[index] = self._of_block(index) if known is None else known[index]
                return cast(Rows, part.rows).gram(weights)

            self._gram = cast(Gram, self._source.total(of_part))
            self._found = cast(dict[int, tuple[Array, float]], found)
        return self._gram

    def sums(self, state: State) -> Stats:
        """What a full pass would have summed here."""
        gram = self.curvature(0.0)
        return Stats(gram, self.gradient + gram.times(state.coefficients.mean), self.row_term, np.nan, None)

    def asked(self, spec: Spec, state: State) -> State:
        """The covariance that these rows ask for."""
        return asked_for(spec, Visited(state, -np.inf, lambda: self.sums(state)), state)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of rows in the gram."""
        return sum(float(weights.sum()) for weights in self.weights.values())

    @property
    def separated(self) -> bool:
        """Whether the mean scores put every row on its side."""
        return all(bool((block.y * block.f > 0.0).all()) for block in self._blocks.values())

    def left(self, before: dict[int, Array]) -> float:
        """What another covariance may gain at most, where this one was made of these weights."""
        total = 0.0
        for index, weights in self.weights.items():
            change = weights - before[index]
            with np.errstate(all="ignore"):
                total += float((change * (change / np.maximum(before[index], TINY))) @ self._blocks[index].v)
        return 0.25 * total
