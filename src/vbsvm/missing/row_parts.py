"""Incomplete rows of a block in a pass: their sums, and their scores at a point."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.update_mode import UpdateMode, starts_new_draws
from vbsvm.design.candidates import Candidates
from vbsvm.missing.categories import LevelDistributions
from vbsvm.missing.distributions import InputDistribution
from vbsvm.missing.few_rows import has_fixed_blocks, stats_of_blocks
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
