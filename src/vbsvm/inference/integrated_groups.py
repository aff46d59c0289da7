"""Effects of groups integrated out: logistic models with random intercepts.

A climb takes coefficients, effects of groups and their variance σ² for independent of each other where they are not,
and effects for normal: where a group has few rows, or all of its labels are alike, σ comes out too small, and the fixed
effects with it. Here each effect u of the largest factor is integrated out by the trapezoidal rule, around where the
group's own distribution lies, for given coefficients c of the core and λ = log σ. (Gauss and Hermite's rule needs four
times the nodes where all labels of a group are alike.) What is left is nearly normal in c for every λ: Newton steps
lead to the mode, a few λ around it have a best c each, with −F″ as precision, and moments are those of that mixture, as
in integrated nested Laplace approximations (Rue, Martino & Chopin 2009). Where other scales are to be inferred, a climb
comes before and tells them; else it begins at once, from a sweep.
"""

import math
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.base.distributions import TabulatedVariance
from vbsvm.base.reading import expect
from vbsvm.inference.group_nodes import AtNodes, Curvature, Kept, ThirdDerivatives
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.dense import DenseGaussian
from vbsvm.model.priors import HalfT, Normal, Ridge
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import sweep

MODELS = "logistic models of complete data whose largest factor has random intercepts with a HalfT() or Ridge() prior"
# Nodes of each group, and how far they reach, in standard deviations of its effect. Where all labels of a group are
# alike, its distribution has an edge on one side and a long tail on the other: by its skewness nodes lie closer on the
# side of the edge, around a centre nearer to it, and reach less far there. These figures were the best of some that
# were tried for groups of 1 to 200 rows; evenly spaced nodes are 20 times as far off.
NODES, REACH = 15, 5.0
MOST_SKEWNESS, CENTRE, TILT, LESS = 1.2, -0.6, 2.4, 0.8
MOST_LOOKS = 40
# Scores of rows at nodes, and sums of groups at nodes, are held at once: more of them are not worth it.
MOST_NUMBERS = 2**23
# Groups of many rows leave the difference of two large numbers as the precision of c, and nodes are right to some 1e−5
# of these. A mean that is far from the mode says that c is not normal. In both cases the exact bound is the better one.
MOST_CANCELLED, MOST_SHIFT = 300.0, 0.5
# A maximum is near enough where the next step would gain this many times the tolerance: c is settled there, and where
# exactly λ is looked at does not matter.
ENOUGH = 100.0
LONGEST_STEP = 1.0
# What rounding and moving nodes may do to values.
NOISE = 0.01
_NODES = np.linspace(-1.0, 1.0, NODES)
_ONES = np.ones(NODES)  # a product with them is a quicker sum over the nodes
# Where λ is looked at, in standard deviations around its mode, and what each place counts beside the density there:
# Gauss and Hermite's rule. It serves where λ is known well enough, and the density at the ends is about normal.
SCALES, _WEIGHTS = (np.asarray(one, dtype=np.float64) for one in np.polynomial.hermite_e.hermegauss(5))
LOG_WEIGHTS = np.log(_WEIGHTS) + 0.5 * np.square(SCALES)
LARGEST_SD, LEAST_DROP, MOST_DROP = 0.45, 2.3, 7.0
# Elsewhere λ is walked along, in steps of a share of its standard deviation that are no longer than nodes can follow,
# as far as the logarithm of the density falls by so much.
SHARE, LONGEST, MOST_PLACES, FAR = 0.7, 0.4, 15, 8.0
# Where it rises by more than this away from the mode, σ and c are hardly bounded, as in groups of one row each.
MOST_RISE = 0.5
# c is settled by one Newton step where that promises to gain less than this, and by at most so many elsewhere: far from
# the mode of λ it moves quickly. A walk may end early, for want of a c or at a rise, if the density has fallen by
# LEAST_DROP: what lies beyond is a straight line.
MOST_GAIN, MOST_STEPS = 0.5, 6


def suits(spec: Spec, source: Source) -> bool:
    """Whether the last factor has random intercepts with an inferred variance, and nothing is missing."""
    m, last = spec.n_columns - source.n_core, spec.blocks[-1]
    if not spec.likelihood.normalised or spec.missing is not None or spec.gate_map is not None:
        return False
    numbers = NODES * max(source.n_rows, m * source.n_core)
    single = len(last.columns) == 1  # one effect for each group; several that share a variance are not integrated out
    return isinstance(last.prior, HalfT | Ridge) and single and last.size == m > 1 and numbers <= MOST_NUMBERS


def suits_at_once(spec: Spec, source: Source) -> bool:
    """Whether there is nothing else that a climb would have to infer before."""
    return suits(spec, source) and all(isinstance(block.prior, Normal) for block in spec.blocks[:-1])


def integrated(spec: Spec, source: Source, start: State | None, tol: float, most: int) -> "tuple[State, int] | None":
    """The state with the effects of the last factor integrated out, and passes made; None where that fails.

    A start of None is where a sweep from the model's own leads.
    """
    swept = start is None or isinstance(start.coefficients, PointDistribution)
    state = sweep(spec, spec.start(), source, expect)[0] if start is None or swept else start
    problem = _Problem.of(spec, source, state)
    try:
        with np.errstate(all="ignore"):  # far from the maximum groups may have all of their weight at one node
            mode = problem.maximum(state, tol, min(most, MOST_LOOKS))
            found = None if mode is None else problem.state(state, mode)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None
    passes = problem.looks + int(swept)
    if found is None or passes > most or not np.isfinite(found.packed).all():
        return None
    return found, passes


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """At a place: nodes of all groups and their probabilities, and derivatives by (c, λ) there with their means."""

    rows: AtNodes
    weights: Array
    scores: Array  # numbers × groups × nodes
    means: Array


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
    skewness: Array
    of_effects: Array  # derivatives of E[u] by (c, λ), groups × numbers
    cancelled: float  # how many times as large as the precision of c the numbers are that it is the difference of
    groups: _Groups


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Settled:
    """Given λ: the best c and its covariance, log p(λ | y) with c integrated out as if it were normal, and effects."""

    place: _Place
    c: Array
    covariance: Array
    log_density: float
    effects: Array

    @staticmethod
    def of(place: _Place) -> "_Settled":
        """By a Newton step for c that is not looked at again; a ``LinAlgError`` where the precision is not positive."""
        n = len(place.at) - 1
        precision, gradient = place.precision[:n, :n], place.gradient[:n]
        log_root = float(np.log(cholesky(precision).diagonal()).sum())
        covariance = inverse(precision)
        step = covariance @ gradient
        log_density = place.value + 0.5 * float(step @ gradient) - log_root
        effects = place.effects + place.of_effects[:, :n] @ step
        return _Settled(place, place.at[:n] + step, covariance, log_density, effects)

    @property
    def step(self) -> Array:
        """The Newton step for c."""
        return self.c - self.place.at[:-1]

    @property
    def gain(self) -> float:
        """Twice what the step promises to add to the log posterior."""
        return float(self.step @ self.place.gradient[:-1])

    @property
    def at(self) -> Array:
        """Where it is: c and λ."""
        return np.append(self.c, self.place.at[-1])


@final
@dataclass(eq=False)
class _Problem:
    """log p(c, λ | y) up to a constant, with the effects of m groups integrated out; ``looks`` at it are counted."""

    source: Source
    prior: HalfT | Ridge
    precision: Any
    n_core: int
    m: int
    kept: Kept | None
    looks: int = 0

    @staticmethod
    def of(spec: Spec, source: Source, state: State) -> "_Problem":
        """The problem at the end of a climb, which gives the scales of the other blocks."""
        found, prior = cast(ArrowGaussian, state.coefficients), cast(HalfT | Ridge, spec.blocks[-1].prior)
        n_core = len(found.core.mean)
        precision = spec.precision(state)
        dense, places = np.diag(precision.diagonal[:n_core]), np.arange(len(precision.diagonal))
        for left, right, value in precision.couplings:
            if left.start < n_core:
                dense[places[left], places[right]] = dense[places[right], places[left]] = value
        kept: Kept | None = {} if source.looks_are_cheap else None
        return _Problem(source, prior, dense, n_core, len(found.effects), kept)

    def maximum(self, state: State, tol: float, most: int) -> _Place | None:
        """Newton steps from a state, until the next promises next to nothing."""
        found = cast(ArrowGaussian, state.coefficients)
        centre, sd = found.effects[:, 0], np.sqrt(found.effect_covariances[:, 0, 0])
        start = np.append(found.core.mean, -0.5 * math.log(state.scales[-1].inverse_mean))
        place = self.look(start, centre, sd, np.zeros(self.m))
        while self.looks < most:
            step = self._newton(place)
            if step is None:
                return None
            gain = float(step @ place.gradient)
            if gain < ENOUGH * tol:
                return place
            moved = self._next(place, step)
            while moved.value < place.value and gain > NOISE and self.looks < most:
                step, gain = 0.5 * step, 0.5 * gain
                moved = self._next(place, step)
            place = moved
        return None

    def _newton(self, place: _Place) -> Array | None:
        """A Newton step. Far below its maximum F is convex in λ: then λ goes as far up as it may."""
        n, gradient, across = self.n_core, place.gradient, place.precision[: self.n_core, -1]
        solved = _solved(place.precision[:n, :n], np.column_stack([gradient[:n], across]))
        if solved is None:
            return None
        slope, curvature = gradient[n] - across @ solved[:, 0], place.precision[n, n] - across @ solved[:, 1]
        step = slope / max(curvature, abs(slope) / LONGEST_STEP, 1e-300)
        return np.append(solved[:, 0] - step * solved[:, 1], step)

    def _next(self, place: _Place, step: Array) -> _Place:
        """A step further, with nodes that follow the groups' effects."""
        effects = place.effects + place.of_effects @ step
        return self.look(place.at + step, effects, np.sqrt(place.variances), place.skewness)

    def look(self, at: Array, effects: Array, sd: Array, skewness: Array) -> _Place:
        """The log posterior and its derivatives, with nodes where each group's effect is thought to lie."""
        self.looks += 1
        n, rate = self.n_core, math.exp(-2 * at[-1])
        nodes, log_steps = _nodes(effects, np.maximum(sd, 1e-8), skewness)
        rows = AtNodes(at[:-1], nodes, self.kept)
        sums = self.source.total(rows)
        squares = np.square(nodes) * rate
        logs = sums.logs.total() - 0.5 * squares + log_steps
        highest = np.ascontiguousarray(logs.T).max(axis=0)[:, None]  # quicker than along the nodes
        weights = np.exp(logs - highest)
        totals = weights @ _ONES
        weights /= totals[:, None]
        scores = np.empty((n + 1, *nodes.shape))
        scores[:n] = sums.scores.total().transpose(1, 0, 2)
        np.subtract(squares, 1.0, out=scores[n])  # what u adds to the derivative by λ is u²/σ² − 1
        weighed = scores * weights
        means = weighed @ _ONES
        prior, slope, bend = self.prior.log_density(float(at[-1]))
        precision = means @ means.T - weighed.reshape(n + 1, -1) @ scores.reshape(n + 1, -1).T
        curvature = self.source.total(Curvature(rows, weights))
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
        groups = _Groups(rows, weights, scores, means)
        return _Place(at, value, gradient, precision, effects, variances, skewness, of_effects, cancelled, groups)

    def state(self, state: State, mode: _Place) -> State | None:
        """The distributions of c, of u given c, and of σ², as moments over a few λ; None where these can't be had."""
        before, n, centre = cast(ArrowGaussian, state.coefficients), self.n_core, _Settled.of(mode)
        shift = self._shift(mode, centre.covariance, before.shapes)  # first, while what the mode's look found is kept
        off = np.abs(shift) / np.sqrt(centre.covariance.diagonal())
        if not (mode.cancelled < MOST_CANCELLED and off.max(initial=0.0) < MOST_SHIFT):
            return None
        along = self._along_scale(centre)
        if along is None:
            return None
        found, log_steps = along
        densities = np.array([one.log_density for one in found])
        if not densities.max() < centre.log_density + MOST_RISE:
            return None
        w = np.exp(densities + log_steps - densities.max())
        w /= w.sum()
        lam, c = np.array([one.place.at[n] for one in found]), np.array([one.c for one in found])
        mean, u = w @ c, np.array([one.effects for one in found])
        effects = w @ u
        weighed = w[:, None] * (c - mean)
        covariance, with_c = weighed.T @ (c - mean), (u - effects).T @ weighed
        variances = w @ np.square(u - effects)
        for share, one in zip(w, found, strict=True):
            meets = one.place.of_effects[:, :n] @ one.covariance
            covariance += share * one.covariance
            with_c += share * meets
            variances += share * (one.place.variances + np.einsum("gk,gk->g", meets, one.place.of_effects[:, :n]))
        link = np.linalg.solve(covariance, with_c.T).T
        root = np.sqrt(np.maximum(variances - np.einsum("gk,gk->g", link, with_c), 1e-12 * variances))
        core = DenseGaussian(mean + shift, _upper_root(covariance))
        effects = effects + mode.of_effects[:, :n] @ shift
        coefficients = ArrowGaussian(core, effects[:, None], root[:, None, None], -link[:, None, :], before.shapes)
        return State(coefficients, (*state.scales[:-1], TabulatedVariance(lam, densities - densities.max())))

    def _along_scale(self, centre: _Settled) -> tuple[list[_Settled], Array] | None:
        """The best c for each of several λ, and logarithms of what each counts beside the density there.

        None where the density can't be followed far enough.
        """
        covariance = inverse(centre.place.precision)
        sd = math.sqrt(float(covariance[-1, -1]))
        along = covariance[:, -1] / sd
        if sd < LARGEST_SD:
            below, above = (self._walk(centre, sign * along, SCALES[SCALES > 0], math.inf) for sign in (-1.0, 1.0))
            drops = [centre.log_density - one[-1].log_density for one in (below, above)]
            whole = len(below) == len(above) == len(SCALES) // 2 + 1
            if whole and all(LEAST_DROP < drop < MOST_DROP for drop in drops):
                return [*below[1:][::-1], centre, *above[1:]], LOG_WEIGHTS
        outwards = min(SHARE, LONGEST / sd) * np.arange(1.0, MOST_PLACES + 1)
        below, above = (self._walk(centre, sign * along, outwards, FAR) for sign in (-1.0, 1.0))
        for places in (below, above):
            if len(places) <= MOST_PLACES and not centre.log_density - places[-1].log_density > LEAST_DROP:
                return None
        return [*below[1:][::-1], centre, *above[1:]], np.zeros(len(below) - 1 + len(above))

    def _walk(self, centre: _Settled, along: Array, distances: Array, far: float) -> list[_Settled]:
        """From the centre to these distances in units of ``along``, up to the first where the density is much less.

        It ends early where c can't be settled, and before the density would rise again after it has fallen.
        """
        places, before = [centre], 0.0
        for distance in distances:
            here, highest = places[-1], max(one.log_density for one in places)
            try:
                ahead = self._settled(here, (distance - before) * along)
            except np.linalg.LinAlgError:
                break
            if highest - here.log_density > LEAST_DROP and ahead.log_density > here.log_density + NOISE:
                break
            along, before = (ahead.at - here.at) / (distance - before), distance
            places.append(ahead)
            if highest - ahead.log_density > far:
                break
        return places

    def _settled(self, here: _Settled, step: Array) -> _Settled:
        """The best c a step further; a ``LinAlgError`` where it is not found."""
        ahead = _Settled.of(self._next(here.place, here.at + step - here.place.at))
        for _ in range(MOST_STEPS):
            if ahead.gain < MOST_GAIN:
                return ahead
            ahead = _Settled.of(self._next(ahead.place, np.append(ahead.step, 0.0)))
        raise np.linalg.LinAlgError("The coefficients of the core do not settle.")

    def _shift(self, mode: _Place, S: Array, shapes: tuple[tuple[int, int], ...]) -> Array:
        """From mode to mean of c given λ: ½ S Σ S_lm F′″_klm to the next order, with the covariance S = (−F″)⁻¹.

        F is a sum of logarithms of integrals: its third derivatives are cumulants of those of the groups.
        """
        groups, n = mode.groups, self.n_core
        centred = groups.scores[:n] - groups.means[:n, :, None]
        along = np.einsum("jk,kgi->gji", S, centred)
        nothing = np.zeros((self.m, 1))
        spread = ArrowGaussian(
            DenseGaussian(mode.at[:n], _upper_root(S)), nothing, nothing[:, :, None], np.zeros((self.m, 1, n)), shapes
        )
        kernel = ThirdDerivatives(groups.rows, groups.weights, spread.message(None), along.reshape(self.m * n, NODES))
        self.looks += 1
        sums = self.source.total(kernel)
        total = np.einsum("gjk,jgk->gk", along, centred) + sums.bends.total()
        return 0.5 * S @ (sums.core + np.einsum("gk,jgk->j", groups.weights * total, centred))


def _nodes(mean: Array, sd: Array, skewness: Array) -> tuple[Array, Array]:
    """Nodes of each group, and logarithms of the steps between them, up to a constant."""
    skewness = np.clip(skewness, -MOST_SKEWNESS, MOST_SKEWNESS)
    reach = REACH - LESS * np.abs(skewness)
    right = reach + TILT * skewness
    bend = np.log(right / (reach - TILT * skewness))
    bend = np.where(np.abs(bend) < 1e-3, 1e-3, bend)
    along = bend[:, None] * _NODES
    unit = sd * right / np.expm1(bend)
    nodes = (mean + CENTRE * skewness * sd)[:, None] + unit[:, None] * np.expm1(along)
    return nodes, along + np.log(unit * bend)[:, None]


def _upper_root(covariance: Array) -> Array:
    """The upper triangular root, which distributions are held by."""
    return cholesky(covariance[::-1, ::-1])[::-1, ::-1]


def _solved(matrix: Array, right: Array) -> Array | None:
    """matrix⁻¹ right; None where the matrix is not positive."""
    try:
        lower = cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.linalg.solve(lower.T, np.linalg.solve(lower, right)), dtype=np.float64)
