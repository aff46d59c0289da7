"""Incomplete rows of a block in a pass: their sums, and their scores at a point.

Where predictors outnumber the observations and their distribution is fixed, the moments of the missing values are
computed once, and their covariances enter matrices as blocks of the missing variables: outer products of all predictors
would take most of the time of a fit.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.update_mode import UpdateMode, mean_field, starts_new_draws
from vbsvm.design.candidates import Candidates
from vbsvm.missing.categories import LevelDistributions
from vbsvm.missing.distributions import InputDistribution, InputSums
from vbsvm.missing.labelled_inputs import few_rows
from vbsvm.missing.model import FIXED_SWEEPS, MissingState, MissingSums
from vbsvm.missing.rows import IncompleteRows
from vbsvm.missing.updates import (
    RowDistributions,
    RowPosterior,
    WeightedCandidates,
    conditional_means,
    fixed_stats,
    imputation_variance,
    moment_sums,
)
from vbsvm.model.interfaces import EffectiveCoefficients, Gram, LabelledRows, MissingDistributions, PointDistribution
from vbsvm.model.layouts.dense import LOG_2PI, DenseGaussian, DenseGram, DenseRows
from vbsvm.model.likelihoods.base import ScaleMixture
from vbsvm.model.row_pass import CompleteRows, RowInfluence, RowPass, Stats

# The value of missing predictors in fingerprints of the data.
PLACEHOLDER = 0.7


@final
@dataclass(frozen=True, slots=True, eq=False)
class IncompletePart:
    """Rows of a block that miss inputs, as a pass sees them; ``row_index`` says which of the block they are."""

    rows: IncompleteRows
    row_index: NDArray[np.intp] | None = None

    def stats(self, row_pass: RowPass, candidates: WeightedCandidates | None = None) -> Stats:
        """G = Σ w (c̃c̃ᵀ + S), r = Σ u c̃, and the sums of the inputs; under an exact bound, without latent scales."""
        with np.errstate(all="ignore"):
            if candidates is None and has_fixed_blocks(self.rows, row_pass):
                return stats_of_blocks(self.rows, row_pass)
            if isinstance(row_pass.likelihood, ScaleMixture):
                return self._augmented(row_pass, row_pass.likelihood, candidates)
            if self.rows.adapt:
                raise ValueError("Missing values that adapt to the labels are not supported with an exact bound.")
            return fixed_stats(
                self.rows, row_pass.coefficients, row_pass.likelihood, _inputs(row_pass.missing), candidates
            )

    def _augmented(self, row_pass: RowPass, likelihood: ScaleMixture, candidates: WeightedCandidates | None) -> Stats:
        rows, coefficients, state, inputs = (
            self.rows,
            row_pass.coefficients,
            row_pass.missing,
            _inputs(row_pass.missing),
        )
        assert isinstance(state, MissingState)
        last_values = None if state.values is None else state.values.get(rows.index)
        renew = starts_new_draws(row_pass.mode, FIXED_SWEEPS)
        distributions = RowDistributions(rows, coefficients, likelihood, inputs, candidates, last_values, renew)
        posterior = row_pass.mode(distributions, "incomplete rows", rows.index)
        posterior = posterior if isinstance(posterior, RowPosterior) else distributions.result
        y, s, w = rows.y, posterior.responsibilities * rows.weights, posterior.w
        entropy, levels = posterior.entropy, None
        if candidates is not None:
            entropy, levels = (
                entropy + candidates.entropy(posterior.responsibilities, rows.weights),
                candidates.sums(s).levels,
            )
        filled = rows.filled(posterior.values)
        gram, sums = moment_sums(rows, filled, posterior.values, w, s, posterior.covariances)
        curvature = None
        if row_pass.with_curvature and not isinstance(coefficients, PointDistribution):
            # With d's distribution fixed, √χ is a norm of (h, Cov(d)^½b, …); this is φ's second derivative in E[b].
            derivative_rows = rows.scaled_and_shifted(posterior.values, -y * posterior.h, posterior.cov_effects)
            curvature = gram - derivative_rows.gram(
                -likelihood.elasticity(posterior.root) * w / np.square(posterior.root)
            )
        if inputs.probit is not None:
            j = inputs.probit.variables
            values, variances = (rows.known + posterior.values)[:, j], posterior.variances[:, j]
            sums = replace(sums, probit=inputs.probit.sums(values, variances, ~rows.missing[:, j], s, posterior.latent))
        row_bound = float(s @ likelihood.value(posterior.h, posterior.root)) + entropy
        u, kink = likelihood.pull(y, s, w), likelihood.kink
        # f² + E v = kink² − 2 kink h + χ, as y f = kink − h.
        squares_of_f = kink * (kink - 2.0 * posterior.h) + np.square(posterior.root)
        constant = float(u @ (y * (kink - posterior.h))) - 0.5 * float(w @ squares_of_f)
        return Stats(
            gram=gram,
            cross_sums=filled.cross(u),
            row_bound=row_bound,
            constant=constant - row_bound,
            curvature=curvature,
            missing=MissingSums(sums, levels, {} if posterior.covariances else {rows.index: posterior.values}),
        )

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point, with the sampler's last draws of missing values or else a placeholder."""
        if isinstance(missing, MissingState) and missing.values is not None:
            return self.rows.filled(missing.values[self.rows.index]).scores(theta)
        return self.rows.filled(np.where(self.rows.missing, PLACEHOLDER, 0.0)).scores(theta)

    def curvature(self, row_pass: RowPass) -> Gram:
        """Negative second derivative of the row term in the mean."""
        curvature = self.stats(row_pass).curvature
        assert curvature is not None
        return curvature

    def influence(self, row_pass: RowPass, response: EffectiveCoefficients) -> RowInfluence:
        """Influence of each row on the fit, with missing predictors at their predictive distribution."""
        rows, coefficients, inputs = self.rows, row_pass.coefficients, _inputs(row_pass.missing)
        with np.errstate(all="ignore"):
            filled = rows.filled(conditional_means(rows, inputs))
            added = imputation_variance(rows, filled, coefficients, inputs)
            f, v = coefficients.row_moments(filled)
            V = v if response is coefficients else response.row_moments(filled)[1]
            return RowInfluence.from_moments(row_pass.likelihood, rows, f, v, np.asarray(V), added)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, mode: UpdateMode
    ) -> float:
        """Σ s (after − before)."""
        return float(self.rows.weights @ (after - before))

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of rows with a misclassified expected score; 0 if missing values adapt to the labels."""
        if self.rows.adapt:
            return 0
        scores = self.rows.filled(conditional_means(self.rows, _inputs(missing))).scores(theta)
        return int(np.count_nonzero(self.rows.y * scores <= 0.0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CandidatePart:
    """Candidates of rows with missing categories; ``part`` handles their predictors."""

    part: CompleteRows | IncompletePart
    candidates: Candidates

    @property
    def rows(self) -> LabelledRows:
        """The candidate rows."""
        return self.part.rows

    @property
    def row_index(self) -> NDArray[np.intp] | None:
        """Row index in the block."""
        return self.part.row_index

    def stats(self, row_pass: RowPass) -> Stats:
        """Sums over candidates weighted by their responsibilities."""
        weighted = WeightedCandidates(self.candidates, _levels(row_pass.missing), row_pass.mode)
        return self.part.stats(row_pass, weighted)

    def curvature(self, row_pass: RowPass) -> Gram:
        """Negative second derivative of the row term in the mean, weighted by responsibilities."""
        curvature = self.stats(row_pass).curvature
        assert curvature is not None
        return curvature

    def influence(self, row_pass: RowPass, response: EffectiveCoefficients) -> RowInfluence:
        """Influence of each row on the fit, averaged over its candidates by their probabilities."""
        log_prob = self.candidates.log_predictive
        if log_prob is None:
            log_prob = self.candidates.log_prob(_levels(row_pass.missing).logs)
        influence = self.part.influence(row_pass, response)
        return influence.average(self.candidates.firsts, self.candidates.softmax(log_prob))

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        return self.part.scores(theta, missing)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, mode: UpdateMode
    ) -> float:
        """Change of Σ s log Σ π e^ℓ over candidates; with fixed probabilities the weighted change of ℓ."""
        candidates, levels = self.candidates, _levels(missing)
        if candidates.log_fixed is not None:
            responsibilities = WeightedCandidates(candidates, levels, mode).responsibilities(after)
            return float((responsibilities * self.rows.weights) @ (after - before))
        log_prob = candidates.log_prob(levels.logs)
        ratios = candidates.logsumexp_by_row(log_prob + after) - candidates.logsumexp_by_row(log_prob + before)
        return float(self.rows.weights[candidates.firsts] @ ratios)

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of misclassified candidates."""
        return self.part.n_misclassified(theta, missing)


@final
@dataclass(frozen=True, slots=True, eq=False)
class FixedMoments:
    """Moments of the missing values of a block under a fixed distribution of the predictors.

    ``blocks`` has for each pattern its rows, its variables, and their covariance given the observed ones.
    """

    distribution: InputDistribution
    values: Array
    filled: DenseRows
    blocks: list[tuple[NDArray[np.intp], NDArray[np.intp], Array]]
    entropy: float
    sums: InputSums

    @staticmethod
    def of_rows(rows: IncompleteRows, distribution: InputDistribution) -> "FixedMoments":
        """The moments, computed at the first call and cached as long as the distribution is the same."""
        cached = rows.cache.get("moments")
        if isinstance(cached, FixedMoments) and cached.distribution is distribution:
            return cached
        values, s = conditional_means(rows, distribution), rows.weights
        blocks, entropy, filled = [], 0.0, rows.filled(values)
        assert isinstance(filled, DenseRows)
        inputs = rows.known + values
        squares = inputs.T @ (s[:, None] * inputs)
        for group in rows.groups:
            for k, (M, C) in enumerate(zip(group.patterns, group.covariances(distribution.precision), strict=True)):
                which = group.rows[group.pattern_of == k]
                total = float(s[which].sum())
                squares[np.ix_(M, M)] += total * C
                entropy += 0.5 * total * (len(M) * (1 + LOG_2PI) + float(np.linalg.slogdet(C)[1]))
                blocks.append((which, M, C))
        sums = InputSums(rows.regressors.T @ (s[:, None] * inputs), squares)
        rows.cache["moments"] = FixedMoments(distribution, values, filled, blocks, entropy, sums)
        return rows.cache["moments"]


def has_fixed_blocks(rows: IncompleteRows, row_pass: RowPass) -> bool:
    """Whether predictors outnumber the observations, their distribution is fixed, and coefficients are dense."""
    coefficients = row_pass.coefficients
    if row_pass.mode is not mean_field or not isinstance(coefficients, DenseGaussian | PointDistribution):
        return False
    plain = not rows.adapt and not len(rows.inputs.derived) and len(coefficients.mean) == rows.design.shape[1]
    return plain and few_rows(_inputs(row_pass.missing)) is not None


def stats_of_blocks(rows: IncompleteRows, row_pass: RowPass) -> Stats:
    """Sums of a pass under any bound, as in ``updates``: G = Σ w (ccᵀ + LCLᵀ) and r = Σ u c.

    The score of a row has the variance V = cᵀΣc + tr(C E[bbᵀ]), where b are the coefficients of its missing values d.
    """
    coefficients, likelihood = row_pass.coefficients, row_pass.likelihood
    assert isinstance(coefficients, DenseGaussian | PointDistribution)
    moments, y, s = FixedMoments.of_rows(rows, _inputs(row_pass.missing)), rows.y, rows.weights
    f, v = coefficients.row_moments(moments.filled)
    b, effects = coefficients.mean[rows.inputs.variables], np.zeros_like(moments.values)
    V, covariance = np.array(np.broadcast_to(v, f.shape)), None
    if isinstance(coefficients, DenseGaussian):
        covariance = coefficients.covariance
    for which, M, C in moments.blocks:
        effects[np.ix_(which, M)] = C @ b[M]
        V[which] += b[M] @ C @ b[M]
        if covariance is not None:
            V[which] += np.vdot(C, covariance[_cells(rows, M)])
    terms = likelihood.terms(f, V, y, s, mean_field, "rows", rows.index)
    gram: DenseGram = moments.filled.gram(terms.w)
    for which, M, C in moments.blocks:
        gram.matrix[_cells(rows, M)] += terms.w[which].sum() * C
    curvature: DenseGram | None = gram
    if isinstance(likelihood, ScaleMixture):
        curvature = None
        if row_pass.with_curvature and covariance is not None:
            # With d's distribution fixed, √χ is a norm of (h, C^½b, …); this is φ's second derivative in E[b].
            h = likelihood.kink - y * f
            slack = np.square(h) + V
            derivatives = rows.scaled_and_shifted(moments.values, -y * h, effects)
            assert isinstance(derivatives, DenseRows)
            curvature = gram - derivatives.gram(-likelihood.elasticity(np.sqrt(slack)) * terms.w / slack)
    row_bound = float(s @ terms.value) + moments.entropy
    constant = float(terms.u @ f) - 0.5 * float(terms.w @ (np.square(f) + V)) - row_bound
    cross = moments.filled.cross(terms.u)
    return Stats(gram, cross, row_bound, constant, curvature, MissingSums(moments.sums))


def _cells(rows: IncompleteRows, M: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The block of these variables in a matrix of design columns."""
    columns = rows.inputs.variables[M]
    return columns[:, None], columns


def _inputs(missing: MissingDistributions | None) -> InputDistribution:
    """The distribution of the predictors in a pass."""
    assert isinstance(missing, MissingState)
    assert missing.inputs is not None
    return missing.inputs


def _levels(missing: MissingDistributions | None) -> LevelDistributions:
    """The distributions of the levels in a pass."""
    assert isinstance(missing, MissingState)
    assert missing.levels is not None
    return missing.levels
