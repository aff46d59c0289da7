"""Rows of a block that miss something, as a pass sees them: the sums that they add, and their scores at a point."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.reading import Reading, renews
from vbsvm.design.candidates import Candidates
from vbsvm.missing.held_rows import held_stats
from vbsvm.missing.input_distributions import InputDistribution, InputSums
from vbsvm.missing.input_model import HELD_SWEEPS
from vbsvm.missing.model import MissingState, MissingSums
from vbsvm.missing.row_updates import Resolved, RowDistributions, conditional_means, left_over
from vbsvm.missing.rows import IncompleteRows
from vbsvm.missing.shares import WeighedCandidates
from vbsvm.model.coefficients import PointDistribution
from vbsvm.model.interfaces import Gram, LabelledRows, Message, MissingDistributions
from vbsvm.model.likelihoods.base import Likelihood, ScaleMixture
from vbsvm.model.row_pass import CompleteRows, RowInfluence, RowPass, Stats

# What stands for a missing value where data are told apart by a few sums.
STANDING_IN = 0.7


@final
@dataclass(frozen=True, slots=True, eq=False)
class IncompletePart:
    """Rows of a block that miss inputs, as a pass sees them; ``places`` says which of the block they are."""

    rows: IncompleteRows
    places: NDArray[np.intp] | None = None

    def stats(self, row_pass: RowPass, candidates: WeighedCandidates | None = None) -> Stats:
        """G = Σ w (c̃c̃ᵀ + S), r = Σ u c̃, and the sums of the inputs; under an exact bound, without latent scales."""
        state = row_pass.missing
        assert isinstance(state, MissingState)
        assert state.inputs is not None
        with np.errstate(all="ignore"):
            if isinstance(row_pass.likelihood, ScaleMixture):
                return self._stats(row_pass, state, candidates)
            return self._exact(row_pass.message, row_pass.likelihood, state.inputs, candidates)

    def _exact(
        self, message: Message, likelihood: Likelihood, inputs: InputDistribution, candidates: WeighedCandidates | None
    ) -> Stats:
        """The same without latent scales; candidates have shares that no coefficient changes."""
        if self.rows.adapt:
            raise ValueError("Missing values that adapt to the labels are not supported with an exact bound.")
        if candidates is None:
            return held_stats(self.rows, message, likelihood, inputs)
        s = self.rows.weights
        shares = candidates.shares(np.zeros(len(s)))
        stats = held_stats(self.rows.weighted(shares * s), message, likelihood, inputs)
        entropy = candidates.entropy(shares, s)
        return replace(
            stats,
            row_bound=stats.row_bound + entropy,
            constant=stats.constant - entropy,
            missing=stats.missing + candidates.sums(shares * s),
        )

    def _stats(self, row_pass: RowPass, state: MissingState, candidates: WeighedCandidates | None) -> Stats:
        rows, message, likelihood = self.rows, row_pass.message, row_pass.likelihood
        assert isinstance(likelihood, ScaleMixture)
        assert state.inputs is not None
        before = None if state.values is None else state.values.get(rows.index)
        renew = renews(row_pass.resolve, HELD_SWEEPS)
        distributions = RowDistributions(rows, message, likelihood, state.inputs, candidates, before, renew)
        found: Resolved = row_pass.resolve(distributions, "incomplete rows", rows.index).result
        y, s = rows.signs, found.shares * rows.weights
        entropy, levels = found.entropy, None
        if candidates is not None:
            entropy, levels = entropy + candidates.entropy(found.shares, rows.weights), candidates.sums(s).levels
        w, filled = found.w, rows.filled(found.values)
        gram = filled.gram(w)
        inputs = rows.known + found.values
        squares = inputs.T @ (s[:, None] * inputs)
        for spread in found.spread:
            gram = gram + rows.directions(spread.which, spread.vectors).gram(spread.of_rows)
            squares += spread.vectors.T @ (spread.of_inputs[:, None] * spread.vectors)
        curvature = None
        if row_pass.with_curvature and not isinstance(message, PointDistribution):
            # With the distribution of d held, √χ is a norm of (h, Cov(d)^½b, …); this is φ's second derivative in E[b].
            leaning = rows.leaning(found.values, -y * found.h, found.lean)
            curvature = gram - leaning.gram(-likelihood.elasticity(found.root) * w / np.square(found.root))
        probit, distribution = None, state.inputs.probit
        if distribution is not None:
            j = distribution.variables
            probit = distribution.sums(inputs[:, j], found.variances[:, j], ~rows.missing[:, j], s, found.latent)
        row_bound = float(s @ likelihood.value(found.h, found.root)) + entropy
        u, kink = likelihood.pull(y, s, w), likelihood.kink
        # f² + E v = kink² − 2 kink h + χ, as y f = kink − h.
        squares_of_f = kink * (kink - 2.0 * found.h) + np.square(found.root)
        constant = float(u @ (y * (kink - found.h))) - 0.5 * float(w @ squares_of_f)
        sums = InputSums(rows.regressors.T @ (s[:, None] * inputs), squares, probit=probit)
        values = {} if found.spread else {rows.index: found.values}
        return Stats(
            gram=gram,
            cross_sums=filled.cross(u),
            row_bound=row_bound,
            constant=constant - row_bound,
            curvature=curvature,
            missing=MissingSums(sums, levels, values),
        )

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point, with a sampler's last draws of the missing values; without any, at a fixed value."""
        if isinstance(missing, MissingState) and missing.values is not None:
            return self.rows.filled(missing.values[self.rows.index]).scores(theta)
        return self.rows.filled(np.where(self.rows.missing, STANDING_IN, 0.0)).scores(theta)

    def curvature(self, row_pass: RowPass) -> Gram:
        """Minus the second derivative of the row term in the mean."""
        found = self.stats(row_pass).curvature
        assert found is not None
        return found

    def influence(self, row_pass: RowPass, response: Message) -> RowInfluence:
        """What each row does to the fit, as if its missing inputs were as uncertain as they are in prediction."""
        rows, message, state = self.rows, row_pass.message, row_pass.missing
        assert isinstance(state, MissingState)
        assert state.inputs is not None
        with np.errstate(all="ignore"):
            filled = rows.filled(conditional_means(rows, state.inputs))
            unknown = left_over(rows, filled, message, state.inputs)
            f, v = message.row_moments(filled)
            V = v if response is message else response.row_moments(filled)[1]
            return RowInfluence.of(row_pass.likelihood, rows, f, v, np.asarray(V), unknown)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, resolve: Reading
    ) -> float:
        """Σ s (after − before)."""
        return float(self.rows.weights @ (after - before))

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """None where labels move missing values: they can be on the right side. Else expected scores tell."""
        if self.rows.adapt:
            return 0
        assert isinstance(missing, MissingState)
        assert missing.inputs is not None
        scores = self.rows.filled(conditional_means(self.rows, missing.inputs)).scores(theta)
        return int(np.count_nonzero(self.rows.signs * scores <= 0.0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CandidatePart:
    """Candidates of rows that miss a category; ``part`` knows of their inputs."""

    part: CompleteRows | IncompletePart
    candidates: Candidates

    @property
    def rows(self) -> LabelledRows:
        """The rows themselves."""
        return self.part.rows

    @property
    def places(self) -> NDArray[np.intp] | None:
        """Where they stand in their block."""
        return self.part.places

    def stats(self, row_pass: RowPass) -> Stats:
        """Sums in which each candidate counts by its share."""
        assert isinstance(row_pass.missing, MissingState)
        assert row_pass.missing.levels is not None
        return self.part.stats(row_pass, WeighedCandidates(self.candidates, row_pass.missing.levels, row_pass.resolve))

    def curvature(self, row_pass: RowPass) -> Gram:
        """Minus the second derivative of the row term in the mean; each candidate counts by its share."""
        found = self.stats(row_pass).curvature
        assert found is not None
        return found

    def influence(self, row_pass: RowPass, response: Message) -> RowInfluence:
        """What each row does to the fit, averaged over its candidates by the chances of their levels."""
        assert isinstance(row_pass.missing, MissingState)
        assert row_pass.missing.levels is not None
        found = self.part.influence(row_pass, response)
        chances = self.candidates.predicted
        if chances is None:
            chances = self.candidates.log_chances(row_pass.missing.levels.logs)
        return found.averaged(self.candidates.firsts, self.candidates.softmax(chances))

    def scores(self, theta: Array, missing: MissingDistributions | None) -> Array:
        """Scores at a point."""
        return self.part.scores(theta, missing)

    def likelihood_change(
        self, before: Array, after: Array, missing: MissingDistributions | None, resolve: Reading
    ) -> float:
        """Change of log Σ π e^ℓ, each over the candidates of a row; of held ones the plain change."""
        assert isinstance(missing, MissingState)
        assert missing.levels is not None
        candidates, chances = self.candidates, self.candidates.log_chances(missing.levels.logs)
        if candidates.held is not None:
            shares = WeighedCandidates(candidates, missing.levels, resolve).shares(after)
            return float((shares * self.rows.weights) @ (after - before))
        ratios = candidates.log_sums(chances + after) - candidates.log_sums(chances + before)
        return float(self.rows.weights[candidates.firsts] @ ratios)

    def n_misclassified(self, theta: Array, missing: MissingDistributions | None) -> int:
        """Number of candidates whose loss grows."""
        return self.part.n_misclassified(theta, missing)
