"""Effects of groups integrated out: the last step of a logistic fit with random intercepts.

The climb takes coefficients, effects of groups and their variance σ² for independent of each other where they are not,
and effects for normal: where a group has few rows, or all of its labels are alike, σ comes out too small, and the fixed
effects with it. Here each effect u of the largest factor is integrated out by the trapezoidal rule, around where the
group's own distribution lies, for given coefficients c of the core and λ = log σ. (Gauss and Hermite's rule needs four
times the nodes where all labels of a group are alike.) What is left is nearly normal in c for every λ: Newton steps
lead to the mode, a few λ around it have a best c each, with −F″ as precision, and moments are those of that mixture, as
in integrated nested Laplace approximations (Rue, Martino & Chopin 2009).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np
from scipy.sparse import csc_array
from scipy.special import digamma, logsumexp, polygamma

from vbsvm.base.arrays import Array, cholesky
from vbsvm.base.distributions import InverseGamma
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.grouping import ByGroup
from vbsvm.model.priors import Ridge
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State

MODELS = "logistic models of complete data whose largest factor has random intercepts with a Ridge() prior"
# Nodes of each group, and how far they reach, in standard deviations of its effect.
NODES, REACH = 17, 5.0
MOST_STEPS = 30
ENOUGH = 1e-6
# Scores of rows at nodes, and sums of groups at nodes, are held at once: more of them are not worth it.
MOST_NUMBERS = 2**26
LONGEST_STEP = 2.0
# Steps on the grid of λ, of a standard deviation at the mode each: small groups leave a tail to the right.
STEPS_BELOW, STEPS_ABOVE = 3, 4
# Steps of differences, in standard deviations; and directions in which they are made.
DIFFERENCE = 0.05
MOST_DIRECTIONS = 12
_NODES = np.linspace(-REACH, REACH, NODES)


def suits(spec: Spec, source: Source, state: State) -> bool:
    """Whether the last factor has random intercepts with an inferred variance, and nothing is missing."""
    found = state.coefficients
    if not isinstance(found, ArrowGaussian) or not spec.likelihood.normalised:
        return False
    if spec.missing is not None or spec.gate_map is not None or found.effects.shape[1] != 1:
        return False
    m, n_core = len(found.effects), len(found.core.mean)
    numbers = NODES * max(source.n_rows, m * n_core)
    return isinstance(spec.blocks[-1].prior, Ridge) and spec.blocks[-1].size == m and numbers <= MOST_NUMBERS


def integrated(spec: Spec, source: Source, state: State) -> State | None:
    """The state with the effects of the last factor integrated out; None where no maximum is found."""
    problem = _Problem.of(spec, source, state)
    found = problem.maximum(state)
    return None if found is None else problem.state(state, found)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums over the rows of each group at its nodes: log likelihoods, and derivatives by the core."""

    logs: ByGroup
    scores: ByGroup

    def __add__(self, other: "_Sums") -> "_Sums":
        """Add the sums of two blocks."""
        return _Sums(self.logs + other.logs, self.scores + other.scores)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _AtNodes:
    """Sums over the rows of each group at its nodes, wherever rows are."""

    theta: Array
    nodes: Array

    def __call__(self, part: Part) -> _Sums:
        """Of the rows of one block."""
        rows = cast(ArrowRows, part.rows)
        m, (first, tail) = len(self.nodes), rows.tail.window
        margin, small = _margins(rows, self.theta, self.nodes)
        share = 1.0 / (1.0 + small)
        values = rows.weights[:, None] * (np.minimum(margin, 0.0) - np.log1p(small))
        slopes = (rows.weights * rows.signs)[:, None] * np.where(margin > 0, small * share, share)
        by_level, by_column = _summing(rows)
        scores = (by_column @ slopes).reshape(tail.n_levels, -1, NODES)
        return _Sums(ByGroup(((first, by_level @ values),), m), ByGroup(((first, scores),), m))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Curvature:
    """Sums the curvature of the core's coefficients, with the weights of the nodes held."""

    theta: Array
    nodes: Array
    weights: Array

    def __call__(self, part: Part) -> Array:
        """Of the rows of one block."""
        rows = cast(ArrowRows, part.rows)
        _, small = _margins(rows, self.theta, self.nodes)
        bends = small / np.square(1.0 + small)
        w = rows.weights * np.einsum("ik,ik->i", rows.tail.of_rows(self.weights), bends)
        return rows.gram(w).core.matrix


def _margins(rows: ArrowRows, theta: Array, nodes: Array) -> tuple[Array, Array]:
    """The margin m of each row at the nodes of its group, and e^−|m|: log expit and its derivatives follow from it."""
    margin = rows.signs[:, None] * (rows.scores(theta)[:, None] + rows.tail.z * rows.tail.of_rows(nodes))
    return margin, np.exp(-np.abs(margin))


def _summing(rows: ArrowRows) -> tuple[csc_array, csc_array]:
    """Sparse matrices that sum rows by level, and by level and column of the core."""
    (_, tail), dense = rows.tail.window, rows.written
    n, begin = dense.shape
    places, values = [np.broadcast_to(np.arange(begin), dense.shape)], [dense]
    for factor in rows.factors:
        q = factor.z.shape[1]
        places.append(begin + q * factor.levels[:, None] + np.arange(q))
        values.append(factor.z)
        begin += factor.size
    at, entries = np.concatenate(places, axis=1), np.concatenate(values, axis=1)
    at = tail.levels[:, None] * begin + at
    ends = np.arange(n + 1)
    by_column = csc_array((entries.ravel(), at.ravel(), at.shape[1] * ends), shape=(tail.n_levels * begin, n))
    return csc_array((np.ones(n), tail.levels, ends), shape=(tail.n_levels, n)), by_column


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A value of (c, λ): the log posterior there, its gradient and −F″; moments of the groups' effects given it."""

    at: Array
    value: float
    gradient: Array
    precision: Array
    effects: Array
    variances: Array
    of_effects: Array  # derivatives of E[u] by (c, λ), groups × numbers

    def settled(self) -> "_Place":
        """With c at its best for this λ, by a Newton step that is not looked at again."""
        n = len(self.at) - 1
        step = _solved(self.precision[:n, :n], self.gradient[:n])
        if step is None:
            return self
        return replace(
            self,
            at=np.r_[self.at[:n] + step, self.at[n]],
            value=self.value + 0.5 * float(step @ self.gradient[:n]),
            effects=self.effects + self.of_effects[:, :n] @ step,
        )


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """log p(c, λ | y) up to a constant, with the effects of m groups integrated out."""

    source: Source
    prior: Ridge
    precision: Any
    n_core: int
    m: int

    @staticmethod
    def of(spec: Spec, source: Source, state: State) -> "_Problem":
        """The problem at the end of a climb, which gives the scales of the other blocks."""
        found, prior = cast(ArrowGaussian, state.coefficients), cast(Ridge, spec.blocks[-1].prior)
        n_core = len(found.core.mean)
        precision = spec.precision(state)
        dense, places = np.diag(precision.diagonal[:n_core]), np.arange(len(precision.diagonal))
        for left, right, value in precision.couplings:
            if left.start < n_core:
                dense[places[left], places[right]] = dense[places[right], places[left]] = value
        return _Problem(source, prior, dense, n_core, len(found.effects))

    def maximum(self, state: State) -> _Place | None:
        """Newton steps from the end of a climb."""
        found = cast(ArrowGaussian, state.coefficients)
        centre, sd = found.effects[:, 0], np.sqrt(found.effect_covariances[:, 0, 0])
        start = np.r_[found.core.mean, -0.5 * math.log(state.scales[-1].inverse_mean)]
        place = self.look(start, centre, sd)
        for _ in range(MOST_STEPS):
            step = _solved(place.precision, place.gradient)
            if step is None:
                return None
            step *= min(1.0, LONGEST_STEP / max(abs(step[-1]), 1e-300))
            gain = float(step @ place.gradient)
            moved = self._next(place, step)
            while moved.value < place.value - 1e-9 * abs(place.value) and gain > ENOUGH:
                step, gain = 0.5 * step, 0.5 * gain
                moved = self._next(place, step)
            place = moved
            if gain < ENOUGH:
                return place
        return None

    def _next(self, place: _Place, step: Array) -> _Place:
        """A step further, with nodes that follow the groups' effects."""
        return self.look(place.at + step, place.effects + place.of_effects @ step, np.sqrt(place.variances))

    def look(self, at: Array, centre: Array, sd: Array) -> _Place:
        """The log posterior and its derivatives, with nodes around a guess of each group's effect."""
        n, rate, spread = self.n_core, math.exp(-2 * at[-1]), np.maximum(sd, 1e-8)
        nodes = centre[:, None] + spread[:, None] * _NODES
        theta = np.concatenate([at[:-1], np.zeros(self.m)])
        sums = self.source.total(_AtNodes(theta, nodes))
        logs = sums.logs.total() - 0.5 * np.square(nodes) * rate - at[-1] + np.log(spread)[:, None]
        totals = np.asarray(logsumexp(logs, axis=1))
        weights = np.exp(logs - totals[:, None])
        gram = self.source.total(_Curvature(theta, nodes, weights))
        # What u adds to the derivative by λ is u²/σ² − 1.
        extended = np.concatenate([sums.scores.total(), (np.square(nodes) * rate - 1.0)[:, None, :]], axis=1)
        means = np.einsum("gpk,gk->gp", extended, weights)
        centred = extended - means[:, :, None]
        halves = (centred * np.sqrt(weights)[:, None, :]).transpose(1, 0, 2).reshape(n + 1, -1)
        A, B = self.prior.shape, self.prior.rate
        precision = -(halves @ halves.T)
        precision[:n, :n] += gram + self.precision
        precision[n, n] += 2.0 * rate * float(np.einsum("gk,gk->", weights, np.square(nodes))) + 4.0 * B * rate
        gradient = means.sum(axis=0)
        gradient[:n] -= self.precision @ at[:n]
        gradient[n] += -2.0 * A + 2.0 * B * rate
        value = float(totals.sum()) - 0.5 * float(at[:n] @ self.precision @ at[:n]) - 2.0 * A * at[-1] - B * rate
        effects = np.einsum("gk,gk->g", weights, nodes)
        apart = weights * (nodes - effects[:, None])
        variances = np.einsum("gk,gk->g", apart, nodes)
        return _Place(at, value, gradient, precision, effects, variances, np.einsum("gk,gpk->gp", apart, centred))

    def state(self, state: State, mode: _Place) -> State:
        """The distributions of c, of u given c, and of σ², as moments over a grid of λ."""
        before, n = cast(ArrowGaussian, state.coefficients), self.n_core
        places = self._along_scale(mode)
        logs = np.array([one.value - 0.5 * _log_det(one.precision[:n, :n]) for one in places])
        w = np.exp(logs - logsumexp(logs))
        lam, c = np.array([one.at[n] for one in places]), np.array([one.at[:n] for one in places])
        given = [_inverse(one.precision[:n, :n]) for one in places]
        shift = self._shift(mode)
        mean, u = w @ c, np.array([one.effects for one in places])
        effects = w @ u
        covariance = np.einsum("l,lj,lk->jk", w, c - mean, c - mean) + np.einsum("l,ljk->jk", w, np.array(given))
        with_c = np.einsum("l,lg,lk->gk", w, u - effects, c - mean)
        variances = w @ np.array([one.variances for one in places]) + w @ np.square(u - effects)
        for share, one, S in zip(w, places, given, strict=True):
            meets = one.of_effects[:, :n] @ S
            with_c += share * meets
            variances += share * np.einsum("gk,gk->g", meets, one.of_effects[:, :n])
        link = np.linalg.solve(covariance, with_c.T).T
        root = np.sqrt(np.maximum(variances - np.einsum("gk,gk->g", link, with_c), 1e-12 * variances))
        core = DenseGaussian(mean + shift, cholesky(covariance))
        effects = effects + mode.of_effects[:, :n] @ shift
        coefficients = ArrowGaussian(core, effects[:, None], root[:, None, None], -link[:, None, :], before.shapes)
        centre = float(w @ lam)
        scale = _matched(2.0 * centre, 4.0 * float(w @ np.square(lam - centre)))
        return State(coefficients, (*state.scales[:-1], scale))

    def _along_scale(self, mode: _Place) -> list[_Place]:
        """The best c for each of several λ, from the mode outwards on both sides."""
        covariance = _inverse(mode.precision)
        along = covariance[:, -1] / math.sqrt(float(covariance[-1, -1]))
        found = [mode]
        for sign, count in ((-1.0, STEPS_BELOW), (1.0, STEPS_ABOVE)):
            place, step = mode, sign * along
            for _ in range(count):
                ahead = self._next(place, step).settled()
                place, step = ahead, ahead.at - place.at
                found.append(place)
        return found

    def _shift(self, mode: _Place) -> Array:
        """From mode to mean of c given λ: half the covariance times the gradient of −log|−F″|, to the next order.

        Any root of the covariance gives the same; the directions that are left out of a large core hardly matter.
        """
        n = self.n_core
        shift, here = np.zeros(n), _log_det(mode.precision[:n, :n])
        for direction in cholesky(_inverse(mode.precision[:n, :n])).T[:MOST_DIRECTIONS]:
            moved = self._next(mode, np.r_[DIFFERENCE * direction, 0.0])
            shift -= 0.5 * (_log_det(moved.precision[:n, :n]) - here) / DIFFERENCE * direction
        return shift


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _log_det(matrix: Array) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def _solved(matrix: Array, right: Array) -> Array | None:
    """matrix⁻¹ right; None where the matrix is not positive."""
    try:
        lower = cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.linalg.solve(lower.T, np.linalg.solve(lower, right)), dtype=np.float64)


def _matched(mean: float, variance: float) -> InverseGamma:
    """The inverse gamma distribution of σ² with this mean and variance of log σ²."""
    shape = 1.0 / variance + 0.5
    for _ in range(50):
        off = float(polygamma(1, shape)) - variance
        shape = max(shape - off / float(polygamma(2, shape)), 0.1 * shape)
        if abs(off) < 1e-12 * variance:
            break
    return InverseGamma(shape, math.exp(mean + float(digamma(shape))))
