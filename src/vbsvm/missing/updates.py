"""Incomplete rows in a pass: joint updates of latent scales and missing values, or sums at fixed distributions.

With a row's weight w held, its missing predictors d are normal: precision T + w E[bbᵀ], where T is the precision of the
predictors' distribution and b the coefficients that multiply d (Algorithm 5, lines 6 and 7). In coordinates that make T
the identity and E[bbᵀ] diagonal, λ, everything is a number for each coordinate, and χ(w) falls. w χ(w)^½ rises
strictly, so w = χ(w)^(−½) has one solution, and so has the weight of any likelihood that falls more slowly with χ: in
variational Bayes a row needs no memory of the last pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from vbsvm.base.arrays import Array, RowSelection, cholesky, inverse
from vbsvm.base.cached import cached_property
from vbsvm.base.update_mode import UpdateMode, mean_field, repeat_draws
from vbsvm.design.candidates import Candidates
from vbsvm.missing.categories import LevelCounts, LevelDistributions
from vbsvm.missing.distributions import InputDistribution, InputSums, ProbitPull, ProbitSums, with_probit
from vbsvm.missing.model import FIXED_SWEEPS, MissingSums
from vbsvm.missing.rows import IncompleteRows, PatternGroup, means_given_known, with_noise
from vbsvm.model.interfaces import EffectiveCoefficients, Effects, Gram, PointDistribution, Rows
from vbsvm.model.layouts.dense import LOG_2PI
from vbsvm.model.likelihoods.base import Likelihood, RowTerms, ScaleMixture
from vbsvm.model.row_pass import RowPass, Stats

# Newton steps for log w: about four are enough, and bounded steps can't overflow. After a step of this size the error
# is its square.
MAX_STEPS, MAX_STEP, MIN_STEP = 100, 2.0, 1e-6
# Iterations between missing values and latent a*, and their tolerance.
MAX_ROUNDS, TOLERANCE = 500, 1e-11
TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class Responsibilities:
    """Distribution over the candidates of each row: probabilities, or a draw of one candidate."""

    candidates: Candidates
    logits: Array

    @cached_property
    def result(self) -> Array:
        """Probability of each candidate within its row."""
        return self.candidates.softmax(self.logits)

    def draw(self, rng: np.random.Generator) -> "Responsibilities":
        """Draw one candidate per row, which gets responsibility 1, by the Gumbel-max trick."""
        logits = np.full(len(self.logits), -np.inf)
        logits[self.candidates.sample_one(self.logits, rng)] = 0.0
        return Responsibilities(self.candidates, logits)


@final
@dataclass(frozen=True, slots=True, eq=False)
class WeightedCandidates:
    """Candidates of a block with the distributions of their levels, for sums weighted by responsibilities.

    They are the softmax of each candidate's term of the ELBO plus the log probability of its level.
    """

    candidates: Candidates
    distributions: LevelDistributions
    mode: UpdateMode

    def responsibilities(self, objective: Array, which: RowSelection = slice(None)) -> Array:
        """Responsibilities of the selected candidates, from their terms of the ELBO; or fixed ones."""
        candidates, mode = self.candidates.take(which), self.mode
        if candidates.log_fixed is None:
            logits = objective + candidates.log_prob(self.distributions.logs)
        else:
            logits, mode = candidates.log_fixed, repeat_draws(mode, FIXED_SWEEPS)
        return mode(Responsibilities(candidates, logits), "levels of rows", int(candidates.row[0])).result

    def entropy(self, responsibilities: Array, s: Array) -> float:
        """Σ s × entropy of the responsibilities."""
        return -float(s @ xlogy(responsibilities, responsibilities))

    def sums(self, weights: Array) -> MissingSums:
        """Expected counts of the missing levels."""
        sizes = tuple(len(logs) for logs in self.distributions.logs)
        return MissingSums(levels=LevelCounts(self.candidates.counts(weights, sizes)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows of a group with a common update: one cell per pattern if all rows share their effects, else one per row.

    The cell of each row; of each cell its missing variables (cells × k), one of its rows, the distribution of the
    effects b, axes V with VᵀTV = I and VᵀE[bbᵀ]V = diag λ, the curvatures λ, and log|T|.
    """

    of_row: NDArray[np.intp]
    variables: NDArray[np.intp]
    row: NDArray[np.intp]
    mean: Array
    covariance: Array
    axes: Array
    curvature: Array
    log_det: Array

    @staticmethod
    def from_group(group: PatternGroup, effects: Effects, T: Array) -> "Cells":
        """Cells of a group, with the effects of their missing variables and the precision T."""
        M = group.patterns
        if effects.shared:
            of_row, row = group.pattern_of, np.empty(len(M), dtype=np.intp)
            row[of_row] = group.rows
            mean, covariance = effects.mean[0][M], effects.covariance[0][M[:, :, None], M[:, None, :]]
        else:
            of_row, row, (rows, M) = np.arange(len(group.rows)), group.rows, group.cells
            mean = effects.mean[rows, M]
            covariance = effects.covariance[rows[:, :, None], M[:, :, None], M[:, None, :]]
        lower = cholesky(T[M[:, :, None], M[:, None, :]])
        root = inverse(lower)
        Omega = covariance + mean[:, :, None] * mean[:, None, :]
        curvature, U = np.linalg.eigh(root @ Omega @ root.transpose(0, 2, 1))
        axes = root.transpose(0, 2, 1) @ np.asarray(U, dtype=np.float64)
        log_det = 2 * np.log(np.einsum("pkk->pk", lower)).sum(axis=1)
        return Cells(of_row, M, row, mean, covariance, axes, np.maximum(curvature, 0.0), log_det)


@final
@dataclass(frozen=True, slots=True, eq=False)
class CovarianceFactors:
    """Covariances of missing values as a sum of outer products of vectors, with two weights each.

    ``which`` are their rows, ``of_rows`` sums of w, and ``of_inputs`` sums of s.
    """

    which: NDArray[np.intp]
    vectors: Array
    of_rows: Array
    of_inputs: Array

    @staticmethod
    def from_cells(cells: Cells, shrinkage: Array, w: Array, s: Array, n_variables: int) -> "CovarianceFactors":
        """Use the axes of the cells as vectors, with weights summed over the rows of a cell."""
        n_cells, k, _ = cells.axes.shape
        sums: list[Array] = []
        for weights in (w, s):
            by_axis: list[Any] = [
                np.bincount(cells.of_row, weights * axis_shrinkage, minlength=n_cells) for axis_shrinkage in shrinkage.T
            ]
            sums.append(np.stack(by_axis, axis=1).ravel())
        vectors = np.zeros((n_cells, k, n_variables))
        variables = np.broadcast_to(cells.variables[:, None, :], cells.axes.shape)
        np.put_along_axis(vectors, variables, cells.axes.transpose(0, 2, 1), axis=2)
        return CovarianceFactors(np.repeat(cells.row, k), vectors.reshape(-1, n_variables), *sums)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowPosterior:
    """Posterior of incomplete rows: the rows with their missing values filled in, and what a pass needs of them.

    ``f`` and ``v`` are mean and variance of the scores, ``weights`` include responsibilities as do the ``terms``, but
    for their value; ``cov_effects`` is Cov(d) E[b], rows × variables like the ``values`` of d.
    """

    filled: Rows
    f: Array
    v: Array | float
    terms: RowTerms
    weights: Array
    values: Array
    cov_effects: Array
    entropy: float
    covariances: Sequence[CovarianceFactors] = ()
    probit: ProbitSums | None = None

    def stats(self, rows: IncompleteRows, row_pass: RowPass, gram: Gram, missing: MissingSums) -> Stats:
        """Sums of a pass, given the gram and those for the distributions of missing data."""
        likelihood, f, v, terms = row_pass.likelihood, self.f, self.v, self.terms
        curvature: Gram | None = gram
        if isinstance(likelihood, ScaleMixture):
            curvature = None
            if row_pass.with_curvature and not isinstance(row_pass.coefficients, PointDistribution):
                # With d's distribution fixed, √χ is a norm of (h, Cov(d)^½b, …); this is φ's second derivative in E[b].
                h = likelihood.kink - rows.y * f
                root = np.sqrt(np.square(h) + v)
                derivatives = rows.scaled_and_shifted(self.values, -rows.y * h, self.cov_effects)
                curvature = gram - derivatives.gram(-likelihood.elasticity(root) * terms.w / np.square(root))
        row_bound = float(self.weights @ terms.value) + self.entropy
        constant = float(terms.u @ f) - 0.5 * float(terms.w @ (np.square(f) + v)) - row_bound
        return Stats(gram, self.filled.cross(terms.u), row_bound, constant, curvature, missing)


@final
@dataclass(frozen=True, eq=False)
class RowDistributions:
    """Distributions of latent scales and missing predictors in a block, given coefficients and predictor model."""

    rows: IncompleteRows
    coefficients: EffectiveCoefficients
    likelihood: Likelihood
    distribution: InputDistribution
    candidates: WeightedCandidates | None = None
    values: Array | None = None
    renew: bool = True  # whether values that do not adapt are redrawn

    def draw(self, rng: np.random.Generator) -> RowPosterior:
        """Draw the latent scales given the values of the last sweep, then new values (Appendix C).

        In this order, as moves of the coefficients between sweeps integrate the scales out. Values that do not adapt
        to the labels are drawn first.
        """
        rows, likelihood, values, latent = self.rows, self.likelihood, self.values, None
        assert isinstance(likelihood, ScaleMixture)
        if rows.adapt:
            values = conditional_means(rows, self.distribution) if values is None else values
        elif self.renew or values is None:
            values, latent = self._draw_given_known(rng)
        f = self.coefficients.row_moments(rows.filled(values))[0]
        h = likelihood.kink - rows.y * f
        root, responsibilities = np.abs(h), np.ones(len(h))
        value = likelihood.value(h, root)
        if self.candidates is not None:
            responsibilities = self.candidates.responsibilities(value)
        w = likelihood.latent(rows.weights, root).draw(rng).weight
        if rows.adapt:
            values, latent = self._draw_given_scales(values, w, rng)
        if self.candidates is not None:
            values = self.candidates.candidates.of_selected(values, responsibilities)
        weights, w, zeros = responsibilities * rows.weights, responsibilities * w, np.zeros_like(values)
        terms = RowTerms(value, likelihood.pull(rows.y, weights, w), w, None)
        probit = self._probit_sums(values, zeros, weights, latent)
        return RowPosterior(rows.filled(values), f, 0.0, terms, weights, values, zeros, 0.0, probit=probit)

    def _probit_sums(
        self, values: Array, variances: Array, weights: Array, latent: Array | None = None
    ) -> ProbitSums | None:
        """Sums of the probit model, if any; ``latent`` are draws of a*."""
        probit = self.distribution.probit
        if probit is None:
            return None
        j = probit.variables
        all_values, observed = (self.rows.known + values)[:, j], ~self.rows.missing[:, j]
        return probit.sums(all_values, variances[:, j], observed, weights, latent)

    def _probit_pull(
        self, expected: Array, before: Array, rng: np.random.Generator
    ) -> tuple[Array, Array | None, Array]:
        """Precision of missing values, draws of the latent a* given the last values, and the linear probit term."""
        rows, probit, T = self.rows, self.distribution.probit, self.distribution.precision
        pull = np.zeros_like(expected)
        if probit is None:
            return T, None, pull
        j = probit.variables
        latent = probit.latents((rows.known + before)[:, j], ~rows.missing[:, j]).draw(rng).value
        offset, slope = probit.mean.T
        pull[:, j] = slope * (latent - offset) - np.square(slope) * expected[:, j]
        return with_probit(T, probit), latent, pull

    def _draw_given_scales(self, before: Array, w: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """Draw values given labels and latent weights, and return the latent a*."""
        rows, y, likelihood = self.rows, self.rows.y, self.likelihood
        assert isinstance(likelihood, ScaleMixture)
        expected = conditional_means(rows, self.distribution)
        T, latent, pull = self._probit_pull(expected, before, rng)
        at_means = rows.filled(expected)
        h = likelihood.kink - y * self.coefficients.row_moments(at_means)[0]
        effects = rows.effects(self.coefficients, at_means)
        values = expected.copy()
        for group in rows.groups:
            which, cells = group.rows, Cells.from_group(group, effects, T)
            axes, weight = cells.axes[cells.of_row], w[which, None]
            projected = np.einsum("rk,rkj->rj", cells.mean[cells.of_row], axes)
            shrinkage = 1.0 / (1.0 + weight * cells.curvature[cells.of_row])
            step = (likelihood.slope * y[which, None] + weight * (y * h)[which, None]) * projected
            step = (step + np.einsum("rk,rkj->rj", pull[group.cells], axes)) * shrinkage
            step += np.sqrt(shrinkage) * rng.standard_normal(shrinkage.shape)
            values[group.cells] += np.einsum("rkj,rj->rk", axes, step)
        return values, latent

    def _draw_given_known(self, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """Draw values given the observed predictors, and return the latent a*, if any."""
        groups, expected = self.rows.groups, conditional_means(self.rows, self.distribution)
        T, latent, pull = self._probit_pull(expected, expected if self.values is None else self.values, rng)
        for group in groups:
            covariance = group.covariances(T)[group.pattern_of]
            expected[group.cells] += np.einsum("rkj,rj->rk", covariance, pull[group.cells])
        return with_noise(expected, T, groups, rng), latent

    @property
    def result(self) -> RowPosterior:
        """Jointly optimal distributions of latent scales and missing values.

        A score is taken for normal, as it is where either d or b is known. Where d's distribution is fixed, the score
        has the variance cᵀΣc + tr(Cov(d) E[bbᵀ]), and the gram serves as the curvature of an exact bound in the mean,
        although that variance changes with it as well.
        """
        rows, y, likelihood, distribution = self.rows, self.rows.y, self.likelihood, self.distribution
        values, probit = conditional_means(rows, distribution), distribution.probit
        filled, n_variables = rows.filled(values), len(rows.inputs.variables)
        f, v = self.coefficients.row_moments(filled)
        effects, v = rows.effects(self.coefficients, filled), np.array(np.broadcast_to(v, f.shape))
        T = distribution.precision if probit is None else with_probit(distribution.precision, probit)
        variances, cov_effects = np.zeros_like(values), np.zeros_like(values)
        row_entropy, total_shrinkage, parts = np.zeros(len(y)), np.zeros(len(y)), []
        moved = rows.adapt or probit is not None
        for group in rows.groups:
            which, cells = group.rows, Cells.from_group(group, effects, T)
            axes, curvature = cells.axes[cells.of_row], cells.curvature[cells.of_row]
            mean, shrinkage = cells.mean[cells.of_row], np.ones(curvature.shape)
            projected = np.einsum("rk,rkj->rj", mean, axes)
            if moved:
                assert isinstance(likelihood, ScaleMixture)
                cross, h = effects.with_score[group.cells], likelihood.kink - y[which] * f[which]
                adapts = 1.0 if rows.adapt else 0.0
                p = adapts * likelihood.slope * y[which, None] * projected
                q = adapts * ((y[which] * h)[:, None] * projected - np.einsum("rk,rkj->rj", cross, axes))
                pull = None if probit is None else ProbitPull.around(probit, group, values)
                change, shrinkage = _resolve(likelihood, axes, adapts * curvature, p, q, h**2 + v[which], pull)
                values[group.cells] += change
                f[which] += np.einsum("rk,rk->r", mean, change)
                v[which] += 2 * np.einsum("rk,rk->r", cross, change)
                v[which] += np.einsum("rk,rkj,rj->r", change, cells.covariance[cells.of_row], change)
                v[which] = np.maximum(v[which], 0.0)
            v[which] += (curvature * shrinkage).sum(axis=1)
            variances[group.cells] = np.einsum("rkj,rj->rk", np.square(axes), shrinkage)
            cov_effects[group.cells] = np.einsum("rkj,rj->rk", axes, projected * shrinkage)
            log_det = np.log(shrinkage).sum(axis=1) - cells.log_det[cells.of_row]
            row_entropy[which] = 0.5 * (log_det + curvature.shape[1] * (1 + LOG_2PI))
            total_shrinkage[which] = shrinkage.sum(axis=1)
            parts.append((which, cells, shrinkage))
        weights, entropy = rows.weights, 0.0
        if self.candidates is not None:
            residuals = rows.known + values - rows.regressors @ distribution.coefficients
            fit = np.einsum("re,re->r", residuals @ distribution.precision, residuals) + total_shrinkage
            value, _ = likelihood.slopes(f, v, y, weights)
            responsibilities = self.candidates.responsibilities(row_entropy - 0.5 * fit + value)
            entropy = self.candidates.entropy(responsibilities, weights)
            weights = responsibilities * weights
        terms = likelihood.terms(f, v, y, weights, mean_field)
        covariances = [
            CovarianceFactors.from_cells(cells, shrinkage, terms.w[which], weights[which], n_variables)
            for which, cells, shrinkage in parts
        ]
        entropy += float(weights @ row_entropy)
        probit_sums = self._probit_sums(values, variances, weights)
        filled = rows.filled(values) if moved else filled
        return RowPosterior(filled, f, v, terms, weights, values, cov_effects, entropy, covariances, probit_sums)


def _resolve(
    likelihood: ScaleMixture,
    axes: Array,
    curvature: Array,
    p: Array,
    q: Array,
    slack: Array,
    pull: ProbitPull | None,
) -> tuple[Array, Array]:
    """Optimal change of the missing values, and shrinkage 1/(1 + wλ); iterated with the latent a* if there are any."""
    change = shrinkage = np.zeros(axes.shape[:2])
    for _ in range(1 if pull is None else MAX_ROUNDS):
        before = change
        p_total = p if pull is None else p + np.einsum("rk,rkj->rj", pull.linear(change), axes)
        w = solve_weights(likelihood, curvature.T.copy(), p_total.T.copy(), q.T.copy(), slack)
        shrinkage = 1.0 / (1.0 + w[:, None] * curvature)
        change = np.einsum("rkj,rj->rk", axes, (p_total + w[:, None] * q) * shrinkage)
        if np.abs(change - before).max(initial=0.0) < TOLERANCE:
            break
    return change, shrinkage


def conditional_means(rows: IncompleteRows, distribution: InputDistribution) -> Array:
    """Means of the missing variables given the row's observed predictors, 0 where observed."""
    expected = rows.regressors @ distribution.coefficients
    return means_given_known(rows.known, expected, distribution.precision, rows.groups)


def expected_sums(rows: IncompleteRows, weights: Array, distribution: InputDistribution) -> InputSums:
    """Σ s x̃E[d]ᵀ and Σ s E[ddᵀ], with missing values given the row's observed predictors alone."""
    inputs = rows.known + conditional_means(rows, distribution)
    squares = inputs.T @ (weights[:, None] * inputs)
    for group in rows.groups:
        covariance, M = group.covariances(distribution.precision), group.patterns
        counts = np.bincount(group.pattern_of, weights[group.rows], minlength=len(M))
        np.add.at(squares, (M[:, :, None], M[:, None, :]), counts[:, None, None] * covariance)
    return InputSums(rows.regressors.T @ (weights[:, None] * inputs), squares)


def imputation_variance(
    rows: IncompleteRows, filled: Rows, coefficients: EffectiveCoefficients, distribution: InputDistribution
) -> Array:
    """Variance of each row's score due to its missing predictors: tr(E[bbᵀ] Cov d)."""
    effects, added = rows.effects(coefficients, filled), np.empty(len(rows.design))
    for group in rows.groups:
        cells = Cells.from_group(group, effects, distribution.precision)
        added[group.rows] = cells.curvature.sum(axis=1)[cells.of_row]
    return added


def solve_weights(likelihood: ScaleMixture, curvature: Array, p: Array, q: Array, slack: Array) -> Array:
    """Solve w = unit_weight(√χ(w)) for each row by Newton's method for log w.

    χ(w) = slack − 2 Σ δq + Σ λ(δ² + 1/(1 + wλ)) with δ = (p + wq)/(1 + wλ). All arguments are coordinates × rows.
    """
    chi = slack - ((2 * q - curvature * p) * p).sum(axis=0) + curvature.sum(axis=0)  # at w = 0, where it is largest
    w = likelihood.unit_weight(np.sqrt(np.maximum(chi, TINY)))
    for _ in range(MAX_STEPS):
        shrinkage = 1.0 / (1.0 + w * curvature)
        delta = (p + w * q) * shrinkage
        residual = q - curvature * delta
        shrunk_curvature = curvature * shrinkage
        chi = np.maximum(slack + (shrunk_curvature - (q + residual) * delta).sum(axis=0), TINY)
        slope = (2 * shrinkage * np.square(residual) + np.square(shrunk_curvature)).sum(axis=0)
        root = np.sqrt(chi)
        log_ratio = np.log(w / likelihood.unit_weight(root))
        step = log_ratio / np.maximum(1.0 + 0.5 * likelihood.elasticity(root) * (w * slope / chi), 5e-4)
        w = w * np.exp(np.clip(-step, -MAX_STEP, MAX_STEP))
        if np.abs(step).max(initial=0.0) < MIN_STEP:
            break
    return w


def moment_sums(rows: IncompleteRows, posterior: RowPosterior) -> tuple[Gram, InputSums]:
    """Σ w E[ccᵀ], and the sums of the predictors."""
    gram, inputs, s = posterior.filled.gram(posterior.terms.w), rows.known + posterior.values, posterior.weights
    squares = inputs.T @ (s[:, None] * inputs)
    for factors in posterior.covariances:
        gram = gram + rows.directions(factors.which, factors.vectors).gram(factors.of_rows)
        squares += factors.vectors.T @ (factors.of_inputs[:, None] * factors.vectors)
    return gram, InputSums(rows.regressors.T @ (s[:, None] * inputs), squares, probit=posterior.probit)
