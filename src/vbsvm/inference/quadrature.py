"""Random effects integrated out: logistic models with random intercepts.

For given coefficients c of the core and λ = log σ each effect u of the largest factor is integrated out by the
trapezoidal rule. Newton steps lead to the mode, a few λ around it have a best c each, with −F″ as precision, and
moments are those of that mixture, as in integrated nested Laplace approximations (Rue, Martino & Chopin 2009).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import numpy as np

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.distributions import TabulatedVariance
from vbsvm.base.update_mode import mean_field
from vbsvm.inference.group_nodes import AtNodes, Buffers
from vbsvm.model.interfaces import PointDistribution
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import sweep

MODELS = "logistic models of complete data whose largest factor has random intercepts with a HalfT() or Ridge() prior"


@final
@dataclass(frozen=True)
class Options:
    """Settings of the quadrature."""

    # Nodes of each group, and how far they reach, in standard deviations of its effect.
    n_nodes: int = 15
    reach: float = 5.0
    # Where all labels of a group are alike, its distribution has an edge on one side and a long tail on the other: by
    # its skewness (up to the first figure) nodes lie closer on the side of the edge, around a centre nearer to it, and
    # reach less far there.
    max_skewness: float = 1.2
    centre: float = -0.6
    tilt: float = 2.4
    shorter: float = 0.8
    # Evaluations in all.
    max_evaluations: int = 40
    # Scores of rows at nodes, and sums of groups at nodes, are in memory at once: more numbers are not worth it.
    max_numbers: int = 2**23
    # Groups of many rows leave the difference of two large numbers as the precision of c, and nodes are right to some
    # 1e−5 of these: the exact bound is better where these are more than this many times as large.
    max_cancelled: float = 300.0
    # The same where the mean is further from the mode, in standard deviations: then c is not normal.
    max_shift: float = 0.5
    # A maximum is near enough where the next step would gain this many times the tolerance: c is known well enough, and
    # which λ exactly are evaluated does not matter.
    tol_factor: float = 100.0
    # The longest step of λ.
    max_step: float = 1.0
    # What rounding and moving nodes may do to values.
    noise: float = 0.01
    # Gauss and Hermite's rule serves for λ where its standard deviation is at most this, and the log density falls by
    # an amount between these at the ends, as that of a normal distribution does.
    max_sd: float = 0.45
    min_drop: float = 2.3
    max_drop: float = 7.0
    # Elsewhere λ moves in steps of this fraction of its standard deviation, but no longer than nodes can follow, as far
    # as the log density falls by the last figure.
    walk_step: float = 0.7
    max_walk_step: float = 0.4
    max_walk: int = 15
    far: float = 8.0
    # Where the log density rises by more than this away from the mode, σ and c are nearly unbounded, as for groups of
    # one row each.
    max_rise: float = 0.5
    # One Newton step for c is enough where it promises to gain less than this, and at most this many else: far from
    # the mode of λ it moves quickly. A walk may end early, for want of a c or at a rise, where the log density has
    # fallen by min_drop: what lies beyond is a straight line.
    max_core_gain: float = 0.5
    max_core_steps: int = 6


OPTIONS = Options()
_NODES = np.linspace(-1.0, 1.0, OPTIONS.n_nodes)
_ONES = np.ones(OPTIONS.n_nodes)  # a product with them is a quicker sum over the nodes
# Values of λ in standard deviations around its mode by Gauss and Hermite's rule, and their weights.
SCALES, _WEIGHTS = (np.asarray(one, dtype=np.float64) for one in np.polynomial.hermite_e.hermegauss(5))
LOG_WEIGHTS = np.log(_WEIGHTS) + 0.5 * np.square(SCALES)


def supports(spec: Spec, source: Source) -> bool:
    """Whether quadrature applies: random intercepts with inferred variance in the last factor, nothing missing."""
    m, last = spec.n_columns - source.n_core, spec.blocks[-1]
    if spec.missing is not None or spec.gate_map is not None:
        return False
    numbers = OPTIONS.n_nodes * max(source.n_rows, m * source.n_core)
    single = len(last.columns) == 1  # one effect for each group; several that share a variance are not integrated out
    return isinstance(last.prior, HalfT | Ridge) and single and last.size == m > 1 and numbers <= OPTIONS.max_numbers


def integrate(spec: Spec, source: Source, start: State | None, tol: float, most: int) -> "tuple[State, int] | None":
    """State with the effects of the last factor integrated out, and the passes; None if that fails."""
    swept = start is None or isinstance(start.coefficients, PointDistribution)
    state = sweep(spec, spec.start(), source, mean_field)[0] if start is None or swept else start
    problem = _Problem.of(spec, source, state)
    try:
        with np.errstate(all="ignore"):  # far from the maximum groups may have all of their weight at one node
            mode = problem.maximum(state, tol, min(most, OPTIONS.max_evaluations))
            found = None if mode is None else problem.state(state, mode)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None
    passes = problem.evaluations + int(swept)
    if found is None or passes > most or not np.isfinite(found.packed).all():
        return None
    return found, passes


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Evaluation at (c, λ): log posterior, gradient, −F″, moments of random effects; nodes with their derivatives."""

    at: Array
    value: float
    gradient: Array
    precision: Array
    effects: Array
    variances: Array
    skewness: Array
    of_effects: Array  # derivatives of E[u] by (c, λ), groups × numbers
    cancelled: float  # how many times as large as the precision of c the numbers are that it is the difference of
    rows: AtNodes
    weights: Array
    scores: Array  # numbers × groups × nodes
    means: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class _GivenScale:
    """Given λ: the mode of c and its covariance, log p(λ | y) by Laplace's approximation, and effects."""

    point: _Point
    c: Array
    covariance: Array
    log_density: float
    effects: Array

    @staticmethod
    def of(point: _Point) -> "_GivenScale":
        """Laplace approximation after a Newton step for c; ``LinAlgError`` if the precision is not positive."""
        n = len(point.at) - 1
        precision, gradient = point.precision[:n, :n], point.gradient[:n]
        log_root = float(np.log(cholesky(precision).diagonal()).sum())
        covariance = inverse(precision)
        step = covariance @ gradient
        log_density = point.value + 0.5 * float(step @ gradient) - log_root
        effects = point.effects + point.of_effects[:, :n] @ step
        return _GivenScale(point, point.at[:n] + step, covariance, log_density, effects)

    @property
    def at(self) -> Array:
        """The point (c, λ)."""
        return np.append(self.c, self.point.at[-1])


@final
@dataclass(eq=False)
class _Problem:
    """log p(c, λ | y) up to a constant, with the effects of m groups integrated out; ``evaluations`` are counted."""

    source: Source
    prior: HalfT | Ridge
    precision: Any
    n_core: int
    m: int
    buffers: Buffers | None
    evaluations: int = 0

    @staticmethod
    def of(spec: Spec, source: Source, state: State) -> "_Problem":
        """Problem from the state of an optimisation, which gives the scales of the other blocks."""
        found, prior = cast(ArrowGaussian, state.coefficients), cast(HalfT | Ridge, spec.blocks[-1].prior)
        n_core = len(found.core.mean)
        precision = spec.precision(state)
        dense, places = np.diag(precision.diagonal[:n_core]), np.arange(len(precision.diagonal))
        for left, right, value in precision.couplings:
            if left.start < n_core:
                dense[places[left], places[right]] = dense[places[right], places[left]] = value
        buffers: Buffers | None = {} if source.rows_resident else None
        return _Problem(source, prior, dense, n_core, len(found.effects), buffers)

    def maximum(self, state: State, tol: float, most: int) -> _Point | None:
        """Maximise by Newton steps from a state."""
        found = cast(ArrowGaussian, state.coefficients)
        centre, sd = found.effects[:, 0], np.sqrt(found.effect_covariances[:, 0, 0])
        start = np.append(found.core.mean, -0.5 * math.log(state.scales[-1].inverse_mean))
        point = self.evaluate(start, centre, sd, np.zeros(self.m))
        while self.evaluations < most:
            step = self._newton(point)
            if step is None:
                return None
            gain = float(step @ point.gradient)
            if gain < OPTIONS.tol_factor * tol:
                return point
            moved = self._next(point, step)
            while moved.value < point.value and gain > OPTIONS.noise and self.evaluations < most:
                step, gain = 0.5 * step, 0.5 * gain
                moved = self._next(point, step)
            point = moved
        return None

    def _newton(self, point: _Point) -> Array | None:
        """Newton step; far below the maximum, where F is convex in λ, λ increases by the largest step."""
        n, gradient, across = self.n_core, point.gradient, point.precision[: self.n_core, -1]
        try:
            lower = cholesky(point.precision[:n, :n])
        except np.linalg.LinAlgError:
            return None
        solved = np.linalg.solve(lower.T, np.linalg.solve(lower, np.column_stack([gradient[:n], across])))
        slope, curvature = gradient[n] - across @ solved[:, 0], point.precision[n, n] - across @ solved[:, 1]
        step = slope / max(curvature, abs(slope) / OPTIONS.max_step, 1e-300)
        return np.append(solved[:, 0] - step * solved[:, 1], step)

    def _next(self, point: _Point, step: Array) -> _Point:
        """Evaluate after a step, with nodes shifted by the predicted change of random effects."""
        effects = point.effects + point.of_effects @ step
        return self.evaluate(point.at + step, effects, np.sqrt(point.variances), point.skewness)

    def evaluate(self, at: Array, effects: Array, sd: Array, skewness: Array) -> _Point:
        """Log posterior and derivatives, with nodes centred at the given random effects."""
        self.evaluations += 1
        n, rate = self.n_core, math.exp(-2 * at[-1])
        nodes, log_steps = _nodes(effects, np.maximum(sd, 1e-8), skewness)
        rows = AtNodes(at[:-1], nodes, self.buffers)
        sums = self.source.sum_parts(rows)
        squares = np.square(nodes) * rate
        logs = sums.logs.to_array() - 0.5 * squares + log_steps
        highest = np.ascontiguousarray(logs.T).max(axis=0)[:, None]  # quicker than along the nodes
        weights = np.exp(logs - highest)
        totals = weights @ _ONES
        weights /= totals[:, None]
        scores = np.empty((n + 1, *nodes.shape))
        scores[:n] = sums.scores.to_array().transpose(1, 0, 2)
        np.subtract(squares, 1.0, out=scores[n])  # what u adds to the derivative by λ is u²/σ² − 1
        weighed = scores * weights
        means = weighed @ _ONES
        prior, slope, bend = self.prior.log_density(float(at[-1]))
        precision = means @ means.T - weighed.reshape(n + 1, -1) @ scores.reshape(n + 1, -1).T
        curvature = self.source.sum_parts(partial(rows.curvature, weights))
        precision[:n, :n] += curvature + self.precision
        cancelled = float((curvature.diagonal() / precision.diagonal()[:n]).max(initial=0.0))
        precision[n, n] += 2.0 * float(np.vdot(weights, squares)) + bend
        gradient = means.sum(axis=1)
        gradient[:n] -= self.precision @ at[:n]
        gradient[n] += slope
        value = float(highest.sum() + np.log(totals).sum()) - self.m * at[-1]
        value += prior - 0.5 * float(at[:n] @ self.precision @ at[:n])
        effects = np.einsum("gk,gk->g", weights, nodes)
        off = nodes - effects[:, None]
        apart = weights * off
        squared = apart * off
        variances = np.maximum(squared @ _ONES, 1e-3 * np.square(sd))
        skewness = np.einsum("gk,gk->g", squared, off) / variances**1.5
        of_effects = ((scores * apart) @ _ONES).T
        moments = effects, variances, skewness, of_effects
        return _Point(at, value, gradient, precision, *moments, cancelled, rows, weights, scores, means)

    def state(self, state: State, mode: _Point) -> State | None:
        """Distributions of c, of u given c, and of σ², by moments over a grid of λ; None if that fails."""
        before, n, centre = cast(ArrowGaussian, state.coefficients), self.n_core, _GivenScale.of(mode)
        shift = self._shift(mode, centre.covariance, before.shapes)  # first, while what the mode's look found is kept
        off = np.abs(shift) / np.sqrt(centre.covariance.diagonal())
        if not (mode.cancelled < OPTIONS.max_cancelled and off.max(initial=0.0) < OPTIONS.max_shift):
            return None
        along = self._along_scale(centre)
        if along is None:
            return None
        found, log_steps = along
        densities = np.array([one.log_density for one in found])
        if not densities.max() < centre.log_density + OPTIONS.max_rise:
            return None
        w = np.exp(densities + log_steps - densities.max())
        w /= w.sum()
        lam, c = np.array([one.point.at[n] for one in found]), np.array([one.c for one in found])
        mean, u = w @ c, np.array([one.effects for one in found])
        effects = w @ u
        weighed = w[:, None] * (c - mean)
        covariance, with_c = weighed.T @ (c - mean), (u - effects).T @ weighed
        variances = w @ np.square(u - effects)
        for share, one in zip(w, found, strict=True):
            meets = one.point.of_effects[:, :n] @ one.covariance
            covariance += share * one.covariance
            with_c += share * meets
            variances += share * (one.point.variances + np.einsum("gk,gk->g", meets, one.point.of_effects[:, :n]))
        link = np.linalg.solve(covariance, with_c.T).T
        root = np.sqrt(np.maximum(variances - np.einsum("gk,gk->g", link, with_c), 1e-12 * variances))
        core = DenseGaussian(mean + shift, _upper_root(covariance))
        effects = effects + mode.of_effects[:, :n] @ shift
        coefficients = ArrowGaussian(core, effects[:, None], root[:, None, None], -link[:, None, :], before.shapes)
        return State(coefficients, (*state.scales[:-1], TabulatedVariance(lam, densities - densities.max())))

    def _along_scale(self, centre: _GivenScale) -> tuple[list[_GivenScale], Array] | None:
        """Mode of c for each λ of a grid, and log quadrature weights; None where the density can't be followed."""
        covariance = inverse(centre.point.precision)
        sd = math.sqrt(float(covariance[-1, -1]))
        along = covariance[:, -1] / sd
        if sd < OPTIONS.max_sd:
            below, above = (self._walk(centre, sign * along, SCALES[SCALES > 0], math.inf) for sign in (-1.0, 1.0))
            drops = [centre.log_density - one[-1].log_density for one in (below, above)]
            whole = len(below) == len(above) == len(SCALES) // 2 + 1
            if whole and all(OPTIONS.min_drop < drop < OPTIONS.max_drop for drop in drops):
                return [*below[1:][::-1], centre, *above[1:]], LOG_WEIGHTS
        outwards = min(OPTIONS.walk_step, OPTIONS.max_walk_step / sd) * np.arange(1.0, OPTIONS.max_walk + 1)
        below, above = (self._walk(centre, sign * along, outwards, OPTIONS.far) for sign in (-1.0, 1.0))
        for walk in (below, above):
            if len(walk) <= OPTIONS.max_walk and not centre.log_density - walk[-1].log_density > OPTIONS.min_drop:
                return None
        return [*below[1:][::-1], centre, *above[1:]], np.zeros(len(below) - 1 + len(above))

    def _walk(self, centre: _GivenScale, along: Array, distances: Array, far: float) -> list[_GivenScale]:
        """Follow the mode along ``along``, until the density is negligible, would rise again, or no best c is found."""
        walk, before = [centre], 0.0
        for distance in distances:
            here, highest = walk[-1], max(one.log_density for one in walk)
            try:
                ahead = self._best_core(here, (distance - before) * along)
            except np.linalg.LinAlgError:
                break
            has_fallen = highest - here.log_density > OPTIONS.min_drop
            if has_fallen and ahead.log_density > here.log_density + OPTIONS.noise:
                break
            along, before = (ahead.at - here.at) / (distance - before), distance
            walk.append(ahead)
            if highest - ahead.log_density > far:
                break
        return walk

    def _best_core(self, here: _GivenScale, step: Array) -> _GivenScale:
        """Mode of c after a step in λ; ``LinAlgError`` if not reached."""
        ahead = _GivenScale.of(self._next(here.point, here.at + step - here.point.at))
        for _ in range(OPTIONS.max_core_steps):
            newton = ahead.c - ahead.point.at[:-1]
            if float(newton @ ahead.point.gradient[:-1]) < OPTIONS.max_core_gain:  # twice what it promises to add
                return ahead
            ahead = _GivenScale.of(self._next(ahead.point, np.append(newton, 0.0)))
        raise np.linalg.LinAlgError("The coefficients of the core do not converge.")

    def _shift(self, mode: _Point, S: Array, shapes: tuple[tuple[int, int], ...]) -> Array:
        """Correction from mode to mean of c given λ: ½ S Σ S_lm F′″_klm, with the covariance S = (−F″)⁻¹.

        F is a sum of logarithms of integrals: its third derivatives are cumulants of those of the groups.
        """
        n = self.n_core
        centred = mode.scores[:n] - mode.means[:n, :, None]
        along = np.einsum("jk,kgi->gji", S, centred)
        nothing = np.zeros((self.m, 1))
        spread = ArrowGaussian(
            DenseGaussian(mode.at[:n], _upper_root(S)), nothing, nothing[:, :, None], np.zeros((self.m, 1, n)), shapes
        )
        along_nodes = along.reshape(self.m * n, OPTIONS.n_nodes)
        self.evaluations += 1
        sums = self.source.sum_parts(
            partial(mode.rows.third_derivatives, mode.weights, spread.effective(None), along_nodes)
        )
        total = np.einsum("gjk,jgk->gk", along, centred) + sums.tail.to_array()
        return 0.5 * S @ (sums.core + np.einsum("gk,jgk->j", mode.weights * total, centred))


def _nodes(mean: Array, sd: Array, skewness: Array) -> tuple[Array, Array]:
    """Nodes of each group, and logarithms of the steps between them, up to a constant."""
    skewness = np.clip(skewness, -OPTIONS.max_skewness, OPTIONS.max_skewness)
    reach = OPTIONS.reach - OPTIONS.shorter * np.abs(skewness)
    right = reach + OPTIONS.tilt * skewness
    bend = np.log(right / (reach - OPTIONS.tilt * skewness))
    bend = np.where(np.abs(bend) < 1e-3, 1e-3, bend)
    along = bend[:, None] * _NODES
    unit = sd * right / np.expm1(bend)
    nodes = (mean + OPTIONS.centre * skewness * sd)[:, None] + unit[:, None] * np.expm1(along)
    return nodes, along + np.log(unit * bend)[:, None]


def _upper_root(covariance: Array) -> Array:
    """Upper triangular root of a covariance, as distributions store it."""
    return np.ascontiguousarray(cholesky(covariance[::-1, ::-1])[::-1, ::-1])
