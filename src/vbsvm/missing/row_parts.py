"""Incomplete rows of a block in a pass: their sums, and their scores at a point.

Where predictors outnumber the observations and their distribution is fixed, the moments of the missing values are
computed once, and their covariances enter matrices as blocks of the missing variables: outer products of all predictors
would take most of the time of a fit.
"""

from dataclasses import dataclass
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
    imputation_variance,
    moment_sums,
)
from vbsvm.model.interfaces import EffectiveCoefficients, Gram, LabelledRows, MissingDistributions, PointDistribution
from vbsvm.model.layouts.dense import LOG_2PI, DenseGaussian, DenseGram, DenseRows
from vbsvm.model.row_pass import CompleteRows, RowInfluence, RowPass, Stats

# The value of missing predictors in fingerprints of the data.
PLACEHOLDER = 0.7


@final
@dataclass(frozen=True, slots=True, eq=False)
class IncompletePart:
    """Rows of a block that miss predictors, as a pass sees them; ``row_index`` says which of the block they are."""

    rows: IncompleteRows
    row_index: NDArray[np.intp] | None = None

    def stats(self, row_pass: RowPass, candidates: WeightedCandidates | None = None) -> Stats:
        """G = Σ w (c̃c̃ᵀ + S), r = Σ u c̃, and sums of the predictors; under an exact bound, without latent scales."""
        rows, state = self.rows, row_pass.missing
        with np.errstate(all="ignore"):
            if candidates is None and has_fixed_blocks(rows, row_pass):
                return stats_of_blocks(rows, row_pass)
            assert isinstance(state, MissingState)
            last_values = None if state.values is None else state.values.get(rows.index)
            renew = starts_new_draws(row_pass.mode, FIXED_SWEEPS)
            distributions = RowDistributions(
                rows, row_pass.coefficients, row_pass.likelihood, _inputs(state), candidates, last_values, renew
            )
            posterior = row_pass.mode(distributions, "incomplete rows", rows.index)
            drawn = isinstance(posterior, RowPosterior)
            posterior = posterior if drawn else distributions.result
            gram, sums = moment_sums(rows, posterior)
            levels = None if candidates is None else candidates.sums(posterior.weights).levels
            values = {rows.index: posterior.values} if drawn else {}
            return posterior.stats(rows, row_pass, gram, MissingSums(sums, levels, values))

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
    coefficients, s = row_pass.coefficients, rows.weights
    assert isinstance(coefficients, DenseGaussian | PointDistribution)
    moments = FixedMoments.of_rows(rows, _inputs(row_pass.missing))
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
    terms = row_pass.likelihood.terms(f, V, rows.y, s, mean_field)
    gram: DenseGram = moments.filled.gram(terms.w)
    for which, M, C in moments.blocks:
        gram.matrix[_cells(rows, M)] += terms.w[which].sum() * C
    posterior = RowPosterior(moments.filled, f, V, terms, s, moments.values, effects, moments.entropy)
    return posterior.stats(rows, row_pass, gram, MissingSums(moments.sums))


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
