"""A fit that knows further groups: their effects are learned from a few rows, and all else is held."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import ScaleDraws, TabulatedVariance
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.design.columns import Encoded, Plan
from vbsvm.design.formula.reader import Reader
from vbsvm.design.levels import UNSEEN, group_labels
from vbsvm.inference.adaptation import Adapted, NaturalEffects, adapt, mixture
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
from vbsvm.results.data_summary import Facts
from vbsvm.results.effects.rows import row_weights
from vbsvm.results.fit_predictions import known_outcome
from vbsvm.results.prediction import prior_covariances
from vbsvm.sources.row_builder import Grouping, RowBuilder

if TYPE_CHECKING:
    from vbsvm.results.fit import Fit


def adapted(fit: "Fit", reader: Reader, data: Any, weights: str | ArrayLike | None) -> "Fit":
    """The fit with the groups of these rows; the rows have their outcome."""
    if not fit.plan.factors:
        raise ValueError("adapt: the model has no groups.")
    rows = _Rows.read(fit, reader, data, weights)
    with single_threaded_blas():
        held = fit._without_rows()
        groups, outcome = _Groups.of(held.spec, rows, held.posterior.state), held.outcome
        if isinstance(outcome, Sample):
            outcome, spreads = groups.sampled(outcome), held.spreads
        else:
            outcome, spreads = groups.climbed(outcome, held.spreads)
    return replace(
        held,
        spec=groups.spec,
        plan=rows.reader.plan,
        reader=rows.reader,
        outcome=outcome,
        spreads=spreads,
        facts=None if held.facts is None else rows.counted(held.facts),
    )


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """New rows, encoded by a reader that knows their groups; and where the groups of the fit stand among all."""

    reader: Reader
    encoded: Encoded
    signs: Array
    weights: Array
    places: NDArray[np.intp]

    @staticmethod
    def read(fit: "Fit", reader: Reader, data: Any, weights: str | ArrayLike | None) -> "_Rows":
        """Read rows; refuse what can't tell of groups."""
        *others, tail = reader.plan.factors
        counts = row_weights("adapt", data, weights)
        kept = np.flatnonzero(counts > 0)
        frame = reader.select(data, kept)
        labels = [group_labels(frame[name].to_numpy(), name, frame.index) for name in tail.columns]
        tail.levels.check_kinds(labels, tail.columns)
        levels, places = tail.levels.extended(labels)
        plan = replace(reader.plan, factors=(*others, replace(tail, levels=levels)))
        reader = replace(reader, plan=plan)
        missing = [name for name in reader.parts.inputs if frame[name].isna().to_numpy().any()]
        if missing:
            row = frame.index[int(np.argmax(frame[missing[0]].isna().to_numpy()))]
            raise ValueError(f"adapt: column {missing[0]!r} has no value in row {row}: leave such rows out.")
        encoded = reader.encode(frame)
        for factor, found in zip(others, encoded.levels, strict=False):
            if (found == UNSEEN).any():
                row = frame.index[int(np.argmax(found == UNSEEN))]
                raise ValueError(
                    f"adapt learns the groups of {tail.name!r}, and row {row} has a group of {factor.name!r} that was "
                    "not seen in fit: leave such rows out, or fit the model again."
                )
        outcome = known_outcome(fit, data)[kept]
        signs = np.where(outcome == fit.classes[1], 1.0, -1.0)
        return _Rows(reader, encoded, signs, counts[kept], places)

    @property
    def plan(self) -> Plan:
        """The plan with all groups."""
        return self.reader.plan

    def built(self) -> tuple[ArrowRows, NDArray[np.intp]]:
        """Rows whose tail counts their own groups only, and where these stand among all."""
        plan, recipe = self.plan, self.plan.recipe
        *others, tail = (
            Grouping.from_levels(one, found) for one, found in zip(plan.factors, self.encoded.levels, strict=True)
        )
        here, index = np.unique(tail.index, return_inverse=True)
        tail = Grouping(index, len(here), tail.slopes)
        n_rows = len(self.signs)
        design = recipe.encode(self.encoded.table, recipe.work_space(n_rows))
        builder = RowBuilder(0, design, self.signs, self.weights, recipe, plan.n_carried, (*others, tail))
        return builder.all_rows(), here

    def counted(self, facts: Facts) -> Facts:
        """What is known of the data, with these rows."""
        positive = self.signs > 0
        *others, tail = facts.group_sizes
        sizes = np.zeros(len(self.plan.factors[-1].levels), dtype=tail.dtype)
        sizes[self.places] = tail
        added = [
            np.bincount(found, minlength=len(one))
            for one, found in zip((*others, sizes), self.encoded.levels, strict=True)
        ]
        weights = None
        if facts.weights is not None or (self.weights != 1.0).any():
            weights = float(self.weights[~positive].sum()), float(self.weights[positive].sum())
        rows = int((~positive).sum()), int(positive.sum())
        return replace(facts, group_sizes=(*others, sizes)) + Facts(rows, weights, tuple(added))


@final
@dataclass(frozen=True, eq=False)
class _Groups:
    """The groups of new rows among all, and what was known of the model."""

    spec: Spec
    state: State
    rows: ArrowRows
    here: NDArray[np.intp]
    places: NDArray[np.intp]
    n_groups: int
    precisions: tuple[Array, ...]

    @staticmethod
    def of(spec: Spec, rows: _Rows, state: State) -> "_Groups":
        """Blocks of the tail get longer; what a block's prior says of one group holds for all."""
        tail = rows.plan.factors[-1]
        begin = rows.plan.first_effects()[-1]
        blocks = [
            replace(block, columns=tuple(_longer(one, begin, begin + tail.size) for one in block.columns))
            for block in spec.blocks
        ]
        built, here = rows.built()
        longer = replace(spec, blocks=tuple(blocks))
        return _Groups(longer, state, built, here, rows.places, len(tail.levels), _precisions(spec, state, rows.plan))

    @property
    def known(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Which of the rows' groups the fit knew, and their numbers there."""
        old = np.minimum(np.searchsorted(self.places, self.here), len(self.places) - 1)
        known = self.places[old] == self.here
        return known, old[known]

    def climbed(
        self, outcome: OptimizeResult, spreads: LearnedCovariances | None
    ) -> tuple[OptimizeResult, LearnedCovariances | None]:
        """After variational Bayes; groups that were known go on from what was known of them."""
        before = self.state.coefficients
        if not isinstance(before, ArrowGaussian):
            raise ValueError("adapt: the coefficients of this fit are known by draws only: fit the new rows with it.")
        found, shares = self._adapt(outcome.likelihood, before.core, before.shapes, self._priors(before))
        gates = self.state.gates
        if gates is not None and self.spec.gate_map is not None:
            gates = Gates(gates.log_odds, self.spec.gate_map)
        learned = mixture([one.distribution for one in found], shares)
        state = replace(self.state, coefficients=self._joined(before, learned), gates=gates)
        if spreads is not None and isinstance(spreads.curvature, ArrowGaussian):
            curvature = spreads.curvature
            priors = self._priors(curvature)
            by_curvature = [one.by_curvature(prior, curvature.core) for one, prior in zip(found, priors, strict=True)]
            spreads = replace(spreads, curvature=self._joined(curvature, mixture(by_curvature, shares)))
        return replace(outcome, state=state, others=()), spreads

    def sampled(self, sample: Sample) -> Sample:
        """After a sampler: effects are learned at the draws' mean and covariance, and drawn given each draw."""
        if self.known[0].any():
            raise ValueError(
                "adapt: after Gibbs sampling only new groups are learned, and some of these rows have a group of the "
                "fit: leave them out, or fit the model again."
            )
        q, draws = len(self.precisions[0]), sample.coefficients
        n_core = draws.shape[2] - len(self.places) * q
        core = _gaussian(sample.flat[:, :n_core])
        shapes = tuple(factor.shape for factor in self.rows.factors)
        priors = [NaturalEffects.of_prior(one, len(self.here), n_core) for one in self.precisions]
        components, shares = self._adapt(self.spec.likelihood.exact, core, shapes, priors)
        found = mixture([one.distribution for one in components], shares)
        tail = np.empty((*draws.shape[:2], self.n_groups, q))
        tail[:, :, self.places] = draws[:, :, n_core:].reshape(*draws.shape[:2], -1, q)
        noise = np.random.default_rng(len(draws)).standard_normal((*draws.shape[:2], len(self.here), q))
        change = np.einsum("gqp,cdp->cdgq", found.link, draws[:, :, :n_core] - core.mean)
        tail[:, :, self.here] = found.effects - change + np.einsum("gqr,cdgr->cdgq", found.root, noise)
        joined = np.concatenate([draws[:, :, :n_core], tail.reshape(*draws.shape[:2], -1)], axis=2)
        return replace(sample, coefficients=joined)

    def _adapt(
        self,
        likelihood: Likelihood,
        core: DenseGaussian,
        shapes: tuple[tuple[int, int], ...],
        priors: Sequence[NaturalEffects],
    ) -> tuple[list[Adapted], Array]:
        """Given each of the precisions, equally likely before; and the probability of each given a group's rows."""
        found = [adapt(likelihood, core, shapes, self.state.gates, self.rows, prior) for prior in priors]
        normaliser = [0.5 * np.linalg.slogdet(prior.precision)[1] for prior in priors]
        evidence = np.array([one.bound for one in found]) + normaliser
        return found, np.asarray(softmax(evidence, axis=0), dtype=np.float64)

    def _priors(self, before: ArrowGaussian) -> list[NaturalEffects]:
        known, old = self.known
        priors = [NaturalEffects.of_prior(one, len(self.here), len(before.core.mean)) for one in self.precisions]
        if not known.any():
            return priors
        found, where = NaturalEffects.of(before, old), np.flatnonzero(known)
        return [_replaced(prior, found, where) for prior in priors]

    def _joined(self, before: ArrowGaussian, learned: ArrowGaussian) -> ArrowGaussian:
        """All groups: those of the fit, and those that were learned."""

        def all_of(part: Callable[[ArrowGaussian], Array]) -> Array:
            found = np.empty((self.n_groups, *part(before).shape[1:]))
            found[self.places] = part(before)
            found[self.here] = part(learned)
            return found

        effects, root, link = (all_of(attrgetter(name)) for name in ("effects", "root", "link"))
        return ArrowGaussian(before.core, effects, root, link, before.shapes)


def _replaced(prior: NaturalEffects, known: NaturalEffects, where: NDArray[np.intp]) -> NaturalEffects:
    """With what is known of some of the groups."""
    parts = [np.array(one) for one in (prior.precision, prior.border, prior.right)]
    for part, own in zip(parts, (known.precision, known.border, known.right), strict=True):
        part[where] = own
    return NaturalEffects(*parts)


def _precisions(spec: Spec, state: State, plan: Plan) -> tuple[Array, ...]:
    """Equally likely precisions of the effects of a new group.

    One, the expected precision, where that is what a climb used. Where the variance is known by quadrature or draws, it
    would be ruled by variances near 0.
    """
    begin, q = plan.first_effects()[-1], len(plan.factors[-1].slopes)
    scales = [scale for block, scale in zip(spec.blocks, state.scales, strict=True) if block.columns[0].start >= begin]
    if all(isinstance(scale, TabulatedVariance | ScaleDraws) for scale in scales):
        covariances = prior_covariances(plan, spec, state, len(plan.factors) - 1)
        return tuple(np.linalg.inv(one).astype(np.float64, copy=False) for one in covariances)
    return (_of_group(spec.precision(state), begin, q),)


def _longer(columns: slice, begin: int, end: int) -> slice:
    """Columns of the tail to its new end; others as they are."""
    return columns if columns.start < begin else slice(columns.start, end, columns.step)


def _of_group(precision: Precision, begin: int, q: int) -> Array:
    """Λ of the effects of one group, q × q, from that of all coefficients."""
    found = np.diag(precision.diagonal[begin : begin + q])
    for left, right, value in precision.couplings:
        if left.start >= begin:
            j, k = left.start - begin, right.start - begin
            found[j, k] = found[k, j] = value
    return found


def _gaussian(draws: Array) -> DenseGaussian:
    """A normal distribution with the mean and covariance of draws."""
    if not draws.shape[1]:
        return DenseGaussian(np.empty(0), np.empty((0, 0)))
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    covariance += 1e-10 * max(float(covariance.diagonal().max()), 1e-300) * np.eye(len(covariance))
    precision, mean = np.linalg.inv(covariance).astype(np.float64, copy=False), draws.mean(axis=0)
    nothing = Precision(np.zeros(len(mean)))
    return DenseGram(precision).conditional(precision @ mean, nothing)
