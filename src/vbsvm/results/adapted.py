"""Adaptation of a fit to new groups: their effects are estimated from a few rows, all else is fixed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.distributions import ScaleDraws, TabulatedVariance
from vbsvm.design.columns import UNSEEN, Encoded, Levels, Plan, group_labels
from vbsvm.design.formula.reader import Reader
from vbsvm.inference.adaptation import AdaptedEffects, NaturalEffects, adapt, mixture
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult
from vbsvm.model.gates import Gates
from vbsvm.model.interfaces import Precision
from vbsvm.model.layouts.arrow import ArrowGaussian
from vbsvm.model.layouts.arrow_rows import ArrowRows
from vbsvm.model.layouts.dense import DenseGaussian, DenseGram
from vbsvm.model.likelihoods.base import Likelihood
from vbsvm.model.spec import Spec, State
from vbsvm.results.covariance import LearnedCovariances
from vbsvm.results.effects.rows import row_weights
from vbsvm.results.fit_predictions import observed_classes
from vbsvm.results.history import Facts
from vbsvm.results.prediction import prior_covariances
from vbsvm.sources.rows import Grouping, RowBuilder

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit


def adapted(fit: "Fit", reader: Reader, data: Any, weights: str | ArrayLike | None) -> "Fit":
    """Return the fit extended by the groups of these rows with known outcome."""
    if not fit.plan.factors:
        raise ValueError("adapt: the model has no random effects.")
    rows = _Rows.from_data(fit, reader, data, weights)
    with single_threaded_blas():
        without_rows = fit._without_rows()
        groups, outcome = _Groups.from_rows(without_rows.spec, rows, without_rows.posterior.state), without_rows.outcome
        if isinstance(outcome, Sample):
            outcome, spreads = groups.update_sample(outcome), without_rows.spreads
        else:
            outcome, spreads = groups.update_variational(outcome, without_rows.spreads)
    return replace(
        without_rows,
        spec=groups.spec,
        plan=rows.reader.plan,
        reader=rows.reader,
        outcome=outcome,
        spreads=spreads,
        facts=None if without_rows.facts is None else rows.updated_counts(without_rows.facts),
    )


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """New rows, encoded with the extended levels; ``places`` are the positions of the fit's groups among all."""

    reader: Reader
    encoded: Encoded
    signs: Array
    weights: Array
    places: NDArray[np.intp]

    @staticmethod
    def from_data(fit: "Fit", reader: Reader, data: Any, weights: str | ArrayLike | None) -> "_Rows":
        """Read rows; raise where predictors are missing or groups of other factors are new."""
        *others, tail = reader.plan.factors
        counts = row_weights("adapt", data, weights)
        row_index = np.flatnonzero(counts > 0)
        frame = reader.select(data, row_index)
        labels = [group_labels(frame[name].to_numpy(), name, frame.index) for name in tail.columns]
        tail.levels.check_kinds(labels, tail.columns)
        both = zip(tail.levels.columns, labels, strict=True)
        levels, places = Levels.learn([np.concatenate(known_and_new) for known_and_new in both])
        plan = replace(reader.plan, factors=(*others, replace(tail, levels=levels)))
        reader = replace(reader, plan=plan)
        missing = [name for name in reader.parts.inputs if frame[name].isna().to_numpy().any()]
        if missing:
            row = frame.index[int(np.argmax(frame[missing[0]].isna().to_numpy()))]
            raise ValueError(f"adapt: column {missing[0]!r} is missing in row {row}: drop such rows.")
        encoded = reader.encode(frame)
        for factor, levels_of_rows in zip(others, encoded.levels, strict=False):
            if (levels_of_rows == UNSEEN).any():
                row = frame.index[int(np.argmax(levels_of_rows == UNSEEN))]
                raise ValueError(
                    f"adapt updates random effects of {tail.name!r} only, and row {row} has a new level of "
                    f"{factor.name!r}: drop such rows, or refit the model."
                )
        outcome = observed_classes(fit, data)[row_index]
        signs = np.where(outcome == fit.classes[1], 1.0, -1.0)
        return _Rows(reader, encoded, signs, counts[row_index], places[: len(tail.levels)])

    @property
    def plan(self) -> Plan:
        """The plan with all groups."""
        return self.reader.plan

    def design_rows(self) -> tuple[ArrowRows, NDArray[np.intp]]:
        """Design rows with the last factor's groups renumbered from 0, and the index of each of these among all."""
        plan, recipe = self.plan, self.plan.recipe
        *others, tail = (
            Grouping.from_levels(f, codes) for f, codes in zip(plan.factors, self.encoded.levels, strict=True)
        )
        group_index, index = np.unique(tail.index, return_inverse=True)
        tail = Grouping(index, len(group_index), tail.slopes)
        n_rows = len(self.signs)
        design = recipe.encode(self.encoded.table, recipe.work_space(n_rows))
        builder = RowBuilder(0, design, self.signs, self.weights, recipe, plan.n_carried, (*others, tail))
        return builder.all_rows(), group_index

    def updated_counts(self, facts: Facts) -> Facts:
        """Counts of the training data plus those of these rows."""
        positive = self.signs > 0
        *others, tail = facts.group_sizes
        sizes = np.zeros(len(self.plan.factors[-1].levels), dtype=tail.dtype)
        sizes[self.places] = tail
        added = [
            np.bincount(codes, minlength=len(previous))
            for previous, codes in zip((*others, sizes), self.encoded.levels, strict=True)
        ]
        weights = None
        if facts.weights is not None or (self.weights != 1.0).any():
            weights = float(self.weights[~positive].sum()), float(self.weights[positive].sum())
        rows = int((~positive).sum()), int(positive.sum())
        return replace(facts, group_sizes=(*others, sizes)) + Facts(rows, weights, tuple(added))


@final
@dataclass(frozen=True, eq=False)
class _Groups:
    """The model extended by the groups of new rows, and its state before."""

    spec: Spec
    state: State
    rows: ArrowRows
    group_index: NDArray[np.intp]
    places: NDArray[np.intp]
    n_groups: int
    precisions: tuple[Array, ...]

    @staticmethod
    def from_rows(spec: Spec, rows: _Rows, state: State) -> "_Groups":
        """Extend the columns of the last factor's blocks; the prior of a group's effects is the same for new groups."""
        tail = rows.plan.factors[-1]
        begin = rows.plan.first_effects()[-1]
        end = begin + tail.size
        blocks = [
            replace(block, columns=tuple(c if c.start < begin else slice(c.start, end, c.step) for c in block.columns))
            for block in spec.blocks
        ]
        design_rows, group_index = rows.design_rows()
        extended, precisions = replace(spec, blocks=tuple(blocks)), _precisions(spec, state, rows.plan)
        return _Groups(extended, state, design_rows, group_index, rows.places, len(tail.levels), precisions)

    @property
    def known_groups(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Mask of the rows' groups that were in the fit, and their indices there."""
        old = np.minimum(np.searchsorted(self.places, self.group_index), len(self.places) - 1)
        known = self.places[old] == self.group_index
        return known, old[known]

    def update_variational(
        self, outcome: OptimizeResult, spreads: LearnedCovariances | None
    ) -> tuple[OptimizeResult, LearnedCovariances | None]:
        """Update a variational fit; for groups of the fit the prior is their previous posterior."""
        before = self.state.coefficients
        if not isinstance(before, ArrowGaussian):
            raise ValueError("adapt: the coefficients of this fit are known by draws only: refit with the new rows.")
        components, shares = self._adapt(outcome.likelihood, before.core, before.shapes, self._priors(before))
        gates = self.state.gates
        if gates is not None and self.spec.gate_map is not None:
            gates = Gates(gates.log_odds, self.spec.gate_map)
        effects = mixture([c.distribution for c in components], shares)
        state = replace(self.state, coefficients=self._combine(before, effects), gates=gates)
        if spreads is not None and isinstance(spreads.curvature, ArrowGaussian):
            curvature = spreads.curvature
            priors = self._priors(curvature)
            by_curvature = [c.by_curvature(p, curvature.core) for c, p in zip(components, priors, strict=True)]
            spreads = replace(spreads, curvature=self._combine(curvature, mixture(by_curvature, shares)))
        return replace(outcome, state=state, others=()), spreads

    def update_sample(self, sample: Sample) -> Sample:
        """Update a sampled fit: effects are estimated at the draws' mean and covariance, and drawn given each draw."""
        if self.known_groups[0].any():
            raise ValueError(
                "adapt: after Gibbs sampling only new levels are supported, and some of these rows have levels of "
                "the training data: drop them, or refit the model."
            )
        q, draws = len(self.precisions[0]), sample.coefficients
        n_core = draws.shape[2] - len(self.places) * q
        core = _normal_from_draws(sample.flat[:, :n_core])
        shapes = tuple(factor.shape for factor in self.rows.factors)
        priors = [NaturalEffects.from_prior(p, len(self.group_index), n_core) for p in self.precisions]
        components, shares = self._adapt(self.spec.likelihood.exact, core, shapes, priors)
        effects = mixture([p.distribution for p in components], shares)
        tail = np.empty((*draws.shape[:2], self.n_groups, q))
        tail[:, :, self.places] = draws[:, :, n_core:].reshape(*draws.shape[:2], -1, q)
        noise = np.random.default_rng(len(draws)).standard_normal((*draws.shape[:2], len(self.group_index), q))
        change = np.einsum("gqp,cdp->cdgq", effects.link, draws[:, :, :n_core] - core.mean)
        tail[:, :, self.group_index] = effects.effects - change + np.einsum("gqr,cdgr->cdgq", effects.root, noise)
        coefficients = np.concatenate([draws[:, :, :n_core], tail.reshape(*draws.shape[:2], -1)], axis=2)
        return replace(sample, coefficients=coefficients)

    def _adapt(
        self,
        likelihood: Likelihood,
        core: DenseGaussian,
        shapes: tuple[tuple[int, int], ...],
        priors: Sequence[NaturalEffects],
    ) -> tuple[list[AdaptedEffects], Array]:
        """Adapted effects under each equally likely prior precision, and the posterior weight of each by group."""
        components = [adapt(likelihood, core, shapes, self.state.gates, self.rows, prior) for prior in priors]
        normaliser = [0.5 * np.linalg.slogdet(prior.precision)[1] for prior in priors]
        evidence = np.array([c.bound for c in components]) + normaliser
        return components, np.asarray(softmax(evidence, axis=0), dtype=np.float64)

    def _priors(self, before: ArrowGaussian) -> list[NaturalEffects]:
        known, old = self.known_groups
        priors = [NaturalEffects.from_prior(p, len(self.group_index), len(before.core.mean)) for p in self.precisions]
        if not known.any():
            return priors
        effects, positions = NaturalEffects.from_distribution(before, old), np.flatnonzero(known)
        return [_with_previous(prior, effects, positions) for prior in priors]

    def _combine(self, before: ArrowGaussian, learned: ArrowGaussian) -> ArrowGaussian:
        """Coefficients with the effects of all groups: those of the fit, and the adapted ones."""

        def all_of(part: Callable[[ArrowGaussian], Array]) -> Array:
            values = np.empty((self.n_groups, *part(before).shape[1:]))
            values[self.places] = part(before)
            values[self.group_index] = part(learned)
            return values

        effects, root, link = (all_of(attrgetter(name)) for name in ("effects", "root", "link"))
        return ArrowGaussian(before.core, effects, root, link, before.shapes)


def _with_previous(prior: NaturalEffects, known: NaturalEffects, positions: NDArray[np.intp]) -> NaturalEffects:
    """Replace the priors of the groups at these positions by their previous posteriors."""
    parts = [np.array(part) for part in (prior.precision, prior.border, prior.right)]
    for part, values in zip(parts, (known.precision, known.border, known.right), strict=True):
        part[positions] = values
    return NaturalEffects(*parts)


def _precisions(spec: Spec, state: State, plan: Plan) -> tuple[Array, ...]:
    """Equally likely prior precisions of a new group's effects; after mean-field optimisation the expected one."""
    begin, q = plan.first_effects()[-1], len(plan.factors[-1].slopes)
    scales = [scale for block, scale in zip(spec.blocks, state.scales, strict=True) if block.columns[0].start >= begin]
    if all(isinstance(scale, TabulatedVariance | ScaleDraws) for scale in scales):
        covariances = prior_covariances(plan, spec, state, len(plan.factors) - 1)
        return tuple(np.linalg.inv(covariance).astype(np.float64, copy=False) for covariance in covariances)
    precision = spec.precision(state)
    block = np.diag(precision.diagonal[begin : begin + q])
    for first, second, value in precision.couplings:
        if first.start >= begin:
            j, k = first.start - begin, second.start - begin
            block[j, k] = block[k, j] = value
    return (block,)


def _normal_from_draws(draws: Array) -> DenseGaussian:
    """A normal distribution with the mean and covariance of draws."""
    if not draws.shape[1]:
        return DenseGaussian(np.empty(0), np.empty((0, 0)))
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    covariance += 1e-10 * max(float(covariance.diagonal().max()), 1e-300) * np.eye(len(covariance))
    precision, mean = np.linalg.inv(covariance).astype(np.float64, copy=False), draws.mean(axis=0)
    nothing = Precision(np.zeros(len(mean)))
    return DenseGram(precision).conditional(precision @ mean, nothing)
