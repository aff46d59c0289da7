"""Rows with missing inputs: the latent scale and the missing values of a row, resolved together.

With a row's weight w held, its missing inputs d are normal: precision T + w E[bbᵀ], where T is the precision of the
inputs' distribution and b the coefficients that multiply d (Algorithm 5, lines 6 and 7). In coordinates that make T the
identity and E[bbᵀ] diagonal, λ, everything is a number for each coordinate, and χ(w) falls. w χ(w)^½ rises strictly, so
w = χ(w)^(−½) has one solution, and so has the weight of any likelihood that falls more slowly with χ: in variational
Bayes a row needs no memory of the last pass.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array, cholesky, inverse
from vbsvm.missing import conditional
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.missingness import ProbitPull, with_probit
from vbsvm.missing.rows import IncompleteRows, PatternGroup
from vbsvm.missing.shares import WeighedCandidates
from vbsvm.model.interfaces import Effects, Message, Rows
from vbsvm.model.layouts.dense import LOG_2PI
from vbsvm.model.likelihoods.base import ScaleMixture

# Newton steps for log w: four or so are enough, and bounded ones can't leave the range of floats. After a step as small
# as the last figure the error is its square.
MOST_STEPS = 100
LONGEST_STEP = 2.0
SMALLEST_STEP = 1e-6
MOST_ROUNDS = 500
SAME = 1e-11
TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows of a group that are resolved alike: by pattern where all rows have the same effects, else one by one.

    The cell of each row; of each cell its missing variables (cells × k) and one of its rows; the distribution of the
    effects.
    """

    of_row: NDArray[np.intp]
    variables: NDArray[np.intp]
    row: NDArray[np.intp]
    mean: Array
    covariance: Array

    @staticmethod
    def of(group: PatternGroup, effects: Effects) -> "Cells":
        """Cells of a group, with the effects of their missing variables."""
        M = group.patterns
        if effects.shared:
            row = np.empty(len(M), dtype=np.intp)
            row[group.pattern_of] = group.rows
            covariance = effects.covariance[0][M[:, :, None], M[:, None, :]]
            return Cells(group.pattern_of, M, row, effects.mean[0][M], covariance)
        rows, M = group.cells
        covariance = effects.covariance[rows[:, :, None], M[:, :, None], M[:, None, :]]
        return Cells(np.arange(len(rows)), M, group.rows, effects.mean[rows, M], covariance)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Of each cell: axes V with VᵀTV = I and VᵀE[bbᵀ]V = diag λ, the curvatures λ, and log|T|."""

    axes: Array
    curvature: Array
    log_det: Array

    @staticmethod
    def of(cells: Cells, T: Array) -> "Coordinates":
        """Solve E[bbᵀ]v = λTv on the missing variables of every cell."""
        M = cells.variables
        lower = cholesky(T[M[:, :, None], M[:, None, :]])
        root = inverse(lower)
        Omega = cells.covariance + cells.mean[:, :, None] * cells.mean[:, None, :]
        curvature, U = np.linalg.eigh(root @ Omega @ root.transpose(0, 2, 1))
        log_det = 2 * np.log(np.einsum("pkk->pk", lower)).sum(axis=1)
        return Coordinates(
            root.transpose(0, 2, 1) @ np.asarray(U, dtype=np.float64), np.maximum(curvature, 0.0), log_det
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Covariances of missing values as a sum of outer products: vectors of the variables, each with two weights.

    ``which`` are rows that they belong to, ``of_rows`` sums w, and ``of_inputs`` sums s.
    """

    which: NDArray[np.intp]
    vectors: Array
    of_rows: Array
    of_inputs: Array

    @staticmethod
    def of(cells: Cells, found: Coordinates, shrunk: Array, w: Array, s: Array, n_variables: int) -> "Spread":
        """Axes as vectors; rows of a cell have them in common, so that their weights are added first."""
        n_cells, k, _ = found.axes.shape
        of_rows, of_inputs = (_sums_by(cells.of_row, one[:, None] * shrunk, n_cells) for one in (w, s))
        vectors = np.zeros((n_cells, k, n_variables))
        places = np.broadcast_to(cells.variables[:, None, :], found.axes.shape)
        np.put_along_axis(vectors, places, found.axes.transpose(0, 2, 1), axis=2)
        return Spread(np.repeat(cells.row, k), vectors.reshape(-1, n_variables), of_rows, of_inputs)


def _sums_by(cells: NDArray[np.intp], values: Array, n_cells: int) -> Array:
    """Sum values (rows × k) by cell, and lay them out flat."""
    sums = np.empty((n_cells, values.shape[1]))
    for j, column in enumerate(values.T):
        sums[:, j] = np.bincount(cells, column, minlength=n_cells)
    return sums.ravel()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """Rows with their missing values resolved: h, √χ, w and share of each row, values, spread, entropy.

    ``variances`` are those of the values, ``lean`` is Cov(d) E[b], all rows × variables.
    """

    h: Array
    root: Array
    w: Array
    shares: Array
    values: Array
    variances: Array
    lean: Array
    spread: tuple[Spread, ...]
    entropy: float
    latent: Array | None = None  # a sampler's draws of a*


@final
@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """Latent scales and missing inputs without spread."""

    result: Resolved


@final
@dataclass(frozen=True, eq=False)
class RowDistributions:
    """Distributions of latent scales and missing inputs of a block of rows, given the message and the inputs' own."""

    rows: IncompleteRows
    message: Message
    likelihood: ScaleMixture
    distribution: InputDistribution
    candidates: WeighedCandidates | None = None
    values: Array | None = None
    renew: bool = True  # whether values that do not adapt are drawn anew

    def draw(self, rng: np.random.Generator) -> "DrawnRows":
        """Draw the latent scales given the values of the last sweep, then new values (Appendix C).

        In this order: a move of the coefficients between sweeps has the scales integrated out, and would not know them.
        Values that do not adapt to the labels come first, as the distribution of the inputs has them.
        """
        rows, y, s = self.rows, self.rows.signs, self.rows.weights
        if not rows.adapt:
            return self._draw_around_held_values(rng)
        expected = conditional_means(rows, self.distribution)
        before = expected if self.values is None else self.values
        kink, slope = self.likelihood.kink, self.likelihood.slope
        at_start = kink - y * self.message.row_moments(rows.filled(before))[0]
        root = np.abs(at_start)
        shares = np.ones(len(y))
        if self.candidates is not None:
            shares = self.candidates.shares(self.likelihood.value(at_start, root))
        w = self.likelihood.latent(s, root).draw(rng).weight
        probit = self.distribution.probit
        T, latent, pull = self.distribution.precision, None, np.zeros_like(expected)
        if probit is not None:  # a* first, like a: then values given both
            j, T = probit.variables, with_probit(T, probit)
            latent = probit.latents((rows.known + before)[:, j], ~rows.missing[:, j]).draw(rng).value
            offset, slope = probit.mean.T
            pull[:, j] = slope * (latent - offset) - np.square(slope) * expected[:, j]
        at_means = rows.filled(expected)
        h = kink - y * self.message.row_moments(at_means)[0]
        effects = rows.through(self.message.effects(at_means, rows.inputs.columns))
        values = expected.copy()
        for group in rows.groups:
            at, cells = group.rows, Cells.of(group, effects)
            found = Coordinates.of(cells, T)
            axes, weight = found.axes[cells.of_row], w[at, None]
            along = np.einsum("rk,rkj->rj", cells.mean[cells.of_row], axes)
            shrunk = 1.0 / (1.0 + weight * found.curvature[cells.of_row])
            moved = (slope * y[at, None] + weight * (y * h)[at, None]) * along
            moved = (moved + np.einsum("rk,rkj->rj", pull[group.cells], axes)) * shrunk
            moved += np.sqrt(shrunk) * rng.standard_normal(shrunk.shape)
            values[group.cells] += np.einsum("rkj,rj->rk", axes, moved)
        if self.candidates is not None:
            values = self.candidates.candidates.chosen(values, shares)
        nothing = np.zeros_like(values)
        return DrawnRows(Resolved(at_start, root, shares * w, shares, values, nothing, nothing, (), 0.0, latent))

    def _draw_around_held_values(self, rng: np.random.Generator) -> "DrawnRows":
        """Draw values given the known inputs and the label, or keep the last ones; then the latent scales."""
        rows, y, latent = self.rows, self.rows.signs, None
        values = self.values
        if self.renew or values is None:
            values, latent = self._drawn_values(rng)
        h = self.likelihood.kink - y * self.message.row_moments(rows.filled(values))[0]
        root = np.abs(h)
        shares = np.ones(len(y)) if self.candidates is None else self.candidates.shares(h)
        if self.candidates is not None:
            values = self.candidates.candidates.chosen(values, shares)
        w, nothing = self.likelihood.latent(rows.weights, root).draw(rng).weight, np.zeros_like(values)
        return DrawnRows(Resolved(h, root, shares * w, shares, values, nothing, nothing, (), 0.0, latent))

    def _drawn_values(self, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """Values from their distribution given the known inputs, and the latent a* where that depends on values."""
        rows, probit = self.rows, self.distribution.probit
        expected = conditional_means(rows, self.distribution)
        T, latent, pull = self.distribution.precision, None, np.zeros_like(expected)
        if probit is not None:
            before, j, T = expected if self.values is None else self.values, probit.variables, with_probit(T, probit)
            latent = probit.latents((rows.known + before)[:, j], ~rows.missing[:, j]).draw(rng).value
            offset, slope = probit.mean.T
            pull[:, j] = slope * (latent - offset) - np.square(slope) * expected[:, j]
        for group in rows.groups:
            covariance = conditional.covariances(T, group)[group.pattern_of]
            expected[group.cells] += np.einsum("rkj,rj->rk", covariance, pull[group.cells])
        return conditional.with_noise(expected, T, rows.groups, rng), latent

    @property
    def result(self) -> Resolved:
        """Both distributions at their common optimum."""
        rows, y, s = self.rows, self.rows.signs, self.rows.weights
        values = conditional_means(rows, self.distribution)
        at_means = rows.filled(values)
        f, v = self.message.row_moments(at_means)
        effects = rows.through(self.message.effects(at_means, rows.inputs.columns))
        likelihood = self.likelihood
        h, v = likelihood.kink - y * f, np.broadcast_to(v, len(y)).copy()
        spread, entropy, lean = [], 0.0, np.zeros_like(values)
        probit = self.distribution.probit
        T = self.distribution.precision if probit is None else with_probit(self.distribution.precision, probit)
        variances, shares = np.zeros_like(values), np.ones(len(y))
        for group in rows.groups:
            at = group.rows
            cells = Cells.of(group, effects)
            found = Coordinates.of(cells, T)
            axes, curvature = found.axes[cells.of_row], found.curvature[cells.of_row]
            mean, met = cells.mean[cells.of_row], effects.with_score[group.cells]
            along = np.einsum("rk,rkj->rj", mean, axes)
            p = likelihood.slope * y[at, None] * along
            q = (y * h)[at, None] * along - np.einsum("rk,rkj->rj", met, axes)
            pull = None if probit is None else ProbitPull.of(probit, group, values)
            say = 1.0 if rows.adapt else 0.0
            slack = h[at] ** 2 + v[at]
            change, shrunk = _resolve(likelihood, axes, say * curvature, say * p, say * q, slack, pull)
            variances[group.cells] = np.einsum("rkj,rj->rk", np.square(axes), shrunk)
            values[group.cells] += change
            lean[group.cells] = np.einsum("rkj,rj->rk", axes, along * shrunk)
            h[at] -= y[at] * np.einsum("rk,rk->r", mean, change)
            variance = v[at] + 2 * np.einsum("rk,rk->r", met, change)
            variance += np.einsum("rk,rkj,rj->r", change, cells.covariance[cells.of_row], change)
            v[at] = np.maximum(variance, 0.0) + (curvature * shrunk).sum(axis=1)
            log_det = np.log(shrunk).sum(axis=1) - found.log_det[cells.of_row]
            left = 0.5 * (log_det + curvature.shape[1] * (1 + LOG_2PI))
            if self.candidates is not None:
                rest = rows.known[at] + values[at] - rows.regressors[at] @ self.distribution.coefficients
                fit = np.einsum("re,ef,rf->r", rest, self.distribution.precision, rest) + shrunk.sum(axis=1)
                objective = left - 0.5 * fit + likelihood.value(h[at], np.sqrt(h[at] ** 2 + v[at]))
                shares[at] = self.candidates.shares(objective, at)
            counted = s[at] * shares[at]
            entropy += float(counted @ left)
            w = counted * likelihood.unit_weight(np.sqrt(h[at] ** 2 + v[at]))
            spread.append(Spread.of(cells, found, shrunk, w, counted, len(rows.inputs.variables)))
        root = np.sqrt(h * h + v)
        w = shares * s * likelihood.unit_weight(root)
        return Resolved(h, root, w, shares, values, variances, lean, tuple(spread), entropy)


def _resolve(
    likelihood: ScaleMixture,
    axes: Array,
    curvature: Array,
    p: Array,
    q: Array,
    slack: Array,
    pull: ProbitPull | None,
) -> tuple[Array, Array]:
    """Changes of the missing values, and shrinkage 1/(1 + wλ); with a pull, in turn with the latent a*."""
    change = shrunk = np.zeros(axes.shape[:2])
    for _ in range(1 if pull is None else MOST_ROUNDS):
        before = change
        pulled = p if pull is None else p + np.einsum("rk,rkj->rj", pull.at(change), axes)
        w = solve_weights(likelihood, curvature.T.copy(), pulled.T.copy(), q.T.copy(), slack)
        shrunk = 1.0 / (1.0 + w[:, None] * curvature)
        change = np.einsum("rkj,rj->rk", axes, (pulled + w[:, None] * q) * shrunk)
        if np.abs(change - before).max(initial=0.0) < SAME:
            break
    return change, shrunk


def conditional_means(rows: IncompleteRows, distribution: InputDistribution) -> Array:
    """Means of the missing variables given the known inputs of their rows; zero where nothing is missing."""
    expected = rows.regressors @ distribution.coefficients
    return conditional.means(rows.known, expected, distribution.precision, rows.groups)


def expected_sums(rows: IncompleteRows, weights: Array, distribution: InputDistribution) -> InputSums:
    """Σ s x̃E[d]ᵀ and Σ s E[ddᵀ], with missing values given the known ones of their row alone."""
    inputs = rows.known + conditional_means(rows, distribution)
    squares = inputs.T @ (weights[:, None] * inputs)
    for group in rows.groups:
        covariance, M = conditional.covariances(distribution.precision, group), group.patterns
        counts = np.bincount(group.pattern_of, weights[group.rows], minlength=len(M))
        np.add.at(squares, (M[:, :, None], M[:, None, :]), counts[:, None, None] * covariance)
    return InputSums(rows.regressors.T @ (weights[:, None] * inputs), squares)


def left_over(rows: IncompleteRows, filled: Rows, message: Message, distribution: InputDistribution) -> Array:
    """Variance that missing inputs add to the score of each row beside its known inputs: tr(E[bbᵀ] Cov d)."""
    effects = rows.through(message.effects(filled, rows.inputs.columns))
    added = np.empty(len(rows.design))
    for group in rows.groups:
        cells = Cells.of(group, effects)
        added[group.rows] = Coordinates.of(cells, distribution.precision).curvature.sum(axis=1)[cells.of_row]
    return added


def solve_weights(likelihood: ScaleMixture, curvature: Array, p: Array, q: Array, slack: Array) -> Array:
    """The w of each row that is the likelihood's own at √χ(w), by Newton's method for log w.

    χ(w) = slack − 2 Σ δq + Σ λ(δ² + 1/(1 + wλ)) with δ = (p + wq)/(1 + wλ). All arguments are coordinates × rows.
    """
    chi = slack - ((2 * q - curvature * p) * p).sum(axis=0) + curvature.sum(axis=0)  # at w = 0, where it is largest
    w = likelihood.unit_weight(np.sqrt(np.maximum(chi, TINY)))
    for _ in range(MOST_STEPS):
        shrunk = 1.0 / (1.0 + w * curvature)
        moved = (p + w * q) * shrunk
        rest = q - curvature * moved
        left = curvature * shrunk
        chi = np.maximum(slack + (left - (q + rest) * moved).sum(axis=0), TINY)
        slope = (2 * shrunk * np.square(rest) + np.square(left)).sum(axis=0)
        root = np.sqrt(chi)
        ahead = np.log(w / likelihood.unit_weight(root))
        step = ahead / np.maximum(1.0 + 0.5 * likelihood.elasticity(root) * (w * slope / chi), 5e-4)
        w = w * np.exp(np.clip(-step, -LONGEST_STEP, LONGEST_STEP))
        if np.abs(step).max(initial=0.0) < SMALLEST_STEP:
            break
    return w
