"""Effects of groups integrated out: the last step of a logistic fit with random intercepts.

The climb takes coefficients, effects of groups and their variance σ² for independent of each other where they are not,
and effects for normal: where a group has few rows, or all of its labels are alike, σ comes out too small, and the fixed
effects with it. Here each effect u of the largest factor is integrated out by Gauss and Hermite's rule, adapted to the
group, for given coefficients c of the core and λ = log σ. What is left is nearly normal in c for every λ: Newton steps
lead to the mode, a few λ around it have a best c each, with −F″ as precision, and moments are those of that mixture, as
in integrated nested Laplace approximations (Rue, Martino & Chopin 2009).
"""

import math
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from scipy.special import digamma, logsumexp, polygamma

from vbsvm.base.arrays import Array, cholesky
from vbsvm.base.distributions import InverseGamma
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.layouts.grouping import ByGroup
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.priors import Ridge
from vbsvm.model.row_pass import Part, Source
from vbsvm.model.spec import Spec, State

MODELS = "logistic models of complete data whose largest factor has random intercepts with a Ridge() prior"
NODES = 25
MOST_STEPS = 30
ENOUGH = 1e-7
# Scores of rows at nodes, and sums of groups at nodes, are held at once: more of them are not worth it.
MOST_NUMBERS = 2**26
# Nodes are spread a little wider than the effect's own distribution.
WIDER = 1.1
LONGEST_STEP = 2.0
# Places on the grid of λ, in standard deviations at the mode: small groups leave a tail to the right.
STEPS = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0])
# Steps of differences, in standard deviations; and directions in which they are made.
DIFFERENCE = 0.1
MOST_DIRECTIONS = 12


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
    """Sums over rows, given each group's weights of its nodes: gradient and gram of the core, sums of scores."""

    cross: Array
    gram: Array
    scores: ByGroup

    def __add__(self, other: "_Sums") -> "_Sums":
        """Add the sums of two blocks."""
        return _Sums(self.cross + other.cross, self.gram + other.gram, self.scores + other.scores)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Likelihoods:
    """Sums the log likelihood of each group at its nodes, wherever rows are."""

    likelihood: Likelihood
    theta: Array
    nodes: Array

    def __call__(self, part: Part) -> ByGroup:
        """Of the rows of one block."""
        rows = cast(ArrowRows, part.rows)
        first, tail = rows.tail.window
        margin = rows.signs[:, None] * (rows.scores(self.theta)[:, None] + rows.tail.z * rows.tail.of_rows(self.nodes))
        values = rows.weights[:, None] * self.likelihood.at_point(margin)
        sums = np.empty((tail.n_levels, NODES))
        for k in range(NODES):
            sums[:, k] = np.bincount(tail.levels, values[:, k], minlength=tail.n_levels)
        return ByGroup(((first, sums),), len(self.nodes))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Derivatives:
    """Sums derivatives by the core's coefficients, with the weights of the nodes held."""

    likelihood: Likelihood
    theta: Array
    nodes: Array
    weights: Array

    def __call__(self, part: Part) -> _Sums:
        """Of the rows of one block."""
        rows = cast(ArrowRows, part.rows)
        y, s, tail = rows.signs[:, None], rows.weights[:, None], rows.tail
        scores = rows.scores(self.theta)[:, None] + tail.z * tail.of_rows(self.nodes)
        shares = tail.of_rows(self.weights)
        derivatives = self.likelihood.derivatives(scores, np.zeros_like(scores), y, s)
        core = rows.cross(np.einsum("ik,ik->i", shares, derivatives.f)).core
        gram = rows.gram(np.einsum("ik,ik->i", shares, -derivatives.ff)).core.matrix
        pieces = [rows.sums_by_group(np.ascontiguousarray(derivatives.f[:, k])) for k in range(NODES)]
        (first, piece), *_ = pieces[0].pieces
        together = np.empty((len(piece), NODES, len(core)))
        for k, one in enumerate(pieces):
            together[:, k] = one.pieces[0][1]
        return _Sums(core, gram, ByGroup(((first, together),), len(self.nodes)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A value of (c, λ), the nodes of each group, and their weights; gradient and −F″ of the log posterior there."""

    at: Array
    value: float
    nodes: Array
    weights: Array
    gradient: Array
    precision: Array
    of_effects: Array  # derivatives of E[u] by (c, λ), groups × numbers

    @property
    def effects(self) -> Array:
        """E[u | c, λ]."""
        return np.einsum("gk,gk->g", self.weights, self.nodes)

    @property
    def variances(self) -> Array:
        """Var(u | c, λ)."""
        return np.einsum("gk,gk->g", self.weights, np.square(self.nodes - self.effects[:, None]))


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """log p(c, λ | y) up to a constant, with the effects of m groups integrated out."""

    likelihood: Likelihood
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
        return _Problem(spec.likelihood.exact, source, prior, dense, n_core, len(found.effects))

    def maximum(self, state: State) -> _Place | None:
        """Newton steps from the end of a climb."""
        found = cast(ArrowGaussian, state.coefficients)
        centre, sd = found.effects[:, 0], np.sqrt(found.effect_covariances[:, 0, 0])
        start = np.r_[found.core.mean, -0.5 * math.log(state.scales[-1].inverse_mean)]
        place = self._adapted(start, centre, sd)
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
        return self._adapted(place.at + step, place.effects + place.of_effects @ step, np.sqrt(place.variances))

    def _adapted(self, at: Array, centre: Array, sd: Array) -> _Place:
        """Look with nodes around a guess, then with nodes around what that finds."""
        nodes, weights, _ = self._weights(at, centre, sd)
        centre = np.einsum("gk,gk->g", weights, nodes)
        sd = np.sqrt(np.einsum("gk,gk->g", weights, np.square(nodes - centre[:, None])))
        return self._look(at, centre, sd)

    def _weights(self, at: Array, centre: Array, sd: Array) -> tuple[Array, Array, float]:
        """Nodes of each group, their posterior weights, and the log of the marginal likelihood."""
        x, w = np.polynomial.hermite_e.hermegauss(NODES)
        spread = WIDER * np.maximum(sd, 1e-8)
        nodes = centre[:, None] + spread[:, None] * x
        theta = np.concatenate([at[:-1], np.zeros(self.m)])

        logs = self.source.total(_Likelihoods(self.likelihood, theta, nodes)).total()
        logs = logs - 0.5 * np.square(nodes) * math.exp(-2 * at[-1]) - at[-1]
        logs += np.log(w) + 0.5 * np.square(x) + np.log(spread)[:, None]
        totals = np.asarray(logsumexp(logs, axis=1))
        return nodes, np.exp(logs - totals[:, None]), float(totals.sum())

    def _look(self, at: Array, centre: Array, sd: Array) -> _Place:
        nodes, weights, value = self._weights(at, centre, sd)
        theta, rate = np.concatenate([at[:-1], np.zeros(self.m)]), math.exp(-2 * at[-1])

        sums = self.source.total(_Derivatives(self.likelihood, theta, nodes, weights))
        scores, n = sums.scores.total(), self.n_core
        # What u adds to the derivatives by λ is u²/σ² − 1.
        extended = np.concatenate([scores, (np.square(nodes) * rate - 1.0)[:, :, None]], axis=2)
        means = np.einsum("gk,gkp->gp", weights, extended)
        centred = extended - means[:, None, :]
        weighed = (weights[:, :, None] * centred).reshape(-1, n + 1)
        precision = -(weighed.T @ centred.reshape(-1, n + 1))
        precision[:n, :n] += sums.gram + self.precision
        of_squares = np.einsum("gk,gk->", weights, np.square(nodes)) * rate
        A, B = self.prior.shape, self.prior.rate
        precision[n, n] += 2.0 * of_squares + 4.0 * B * rate
        gradient = means.sum(axis=0)
        gradient[:n] = sums.cross - self.precision @ at[:n]
        gradient[n] += -2.0 * A + 2.0 * B * rate
        value += -0.5 * float(at[:n] @ self.precision @ at[:n]) - 2.0 * A * at[-1] - B * rate
        effects = np.einsum("gk,gk->g", weights, nodes)
        of_effects = np.einsum("gk,gkp->gp", weights * (nodes - effects[:, None]), centred)
        return _Place(at, value, nodes, weights, gradient, precision, of_effects)

    def state(self, state: State, mode: _Place) -> State:
        """The distributions of c, of u given c, and of σ², as moments over a grid of λ."""
        before, n = cast(ArrowGaussian, state.coefficients), self.n_core
        places = self._along_scale(mode)
        logs = np.array([one.value - 0.5 * _log_det(one.precision[:n, :n]) for one in places])
        w = np.exp(logs - logsumexp(logs))
        lam, c = np.array([one.at[n] for one in places]), np.array([one.at[:n] for one in places])
        given = [np.asarray(np.linalg.inv(one.precision[:n, :n]), dtype=np.float64) for one in places]
        shift = self._shift(mode, given[int(np.flatnonzero(STEPS == 0)[0])])
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
        """The best c for each of several λ around the mode."""
        n, covariance = self.n_core, np.linalg.inv(mode.precision)
        sd = math.sqrt(float(covariance[n, n]))
        along = covariance[:, n] / sd
        found = []
        for step in STEPS:
            place = mode if step == 0 else self._next(mode, step * along)
            for _ in range(2 if step else 0):
                ahead = _solved(place.precision[:n, :n], place.gradient[:n])
                if ahead is None:
                    break
                place = self._next(place, np.r_[ahead, 0.0])
            found.append(place)
        return found

    def _shift(self, mode: _Place, given: Array) -> Array:
        """From mode to mean of c given λ: half the covariance times the gradient of −log|−F″|, to the next order.

        Any root of the covariance gives the same; the directions that are left out of a large core hardly matter.
        """
        n = self.n_core
        shift, sd = np.zeros(n), np.sqrt(mode.variances)
        for direction in cholesky(given).T[:MOST_DIRECTIONS]:
            dets = []
            for sign in (DIFFERENCE, -DIFFERENCE):
                step = np.r_[sign * direction, 0.0]
                moved = self._look(mode.at + step, mode.effects + mode.of_effects @ step, sd)
                dets.append(_log_det(moved.precision[:n, :n]))
            shift -= 0.5 * (dets[0] - dets[1]) / (2 * DIFFERENCE) * direction
        return shift


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
