"""The rows of a fit, while they are available: what nobody asked for during the fit is learned from them when it is."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.cached import locked_cached_property, new_lock
from vbsvm.inference.covariance.kinds import CovarianceEstimate, Covariances, Reliability, reliability
from vbsvm.inference.covariance.sandwich import Units
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.inputs import proper_draws
from vbsvm.inference.leave_one_out import refit, row_influence, unseen_rows
from vbsvm.inference.loop import OptimizeResult
from vbsvm.inference.variational import Variational
from vbsvm.missing.imputation import Population, ProperDraw
from vbsvm.missing.model import PAPER_PSI, MissingState, input_model
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.row_pass import Part, RowInfluence
from vbsvm.model.spec import Spec
from vbsvm.results import imputed_covariance
from vbsvm.results.calibration import LeftOutScores, PosteriorMean, calibrate
from vbsvm.results.history import Facts
from vbsvm.results.prediction import Link, Scores
from vbsvm.sources.distributed import AnyRows, Distributed, InMemory, reweighted
from vbsvm.sources.memory import Memory

# Probabilities are calibrated on at most about this many rows, if these are in files or on other machines.
MAX_LEFT_OUT = 2**20
# Rows × coefficients up to which robust intervals go by the response of the exact bound: it takes as long as some fits.
# With groups the curvature is too poor a substitute to be taken sooner than it must be.
MAX_RESPONDING, MAX_GROUPED = 250_000, 5_000_000
ROBUST = "robust"


@final
@dataclass(frozen=True, eq=False)
class Unweighted:
    """Rows without class weights: ``counted`` with the sample weights k, ``squared`` with weights s²/k.

    s are the weights of the fit.
    """

    counted: AnyRows
    squared: AnyRows


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows of a fit, with everything that is computed from them on demand.

    ``n`` is the number of coefficients of columns. ``unweighted`` gives the rows without the weights of classes, where
    these have some. ``given`` are the numbers that the rows have in the user's data, where these differ from
    those in the source. ``data`` are these data themselves, where they are in memory; they are not copied.
    ``inference`` made the fit, where it can be made again. Files, pickles and copies of a fit hold no rows: what they
    need is computed before. Threads compute shared results once, under ``lock``.
    """

    spec: Spec
    outcome: OptimizeResult | Sample
    source: AnyRows
    n: int
    unweighted: Callable[[], Unweighted | None]
    given: NDArray[np.intp] | None
    learn_population: Callable[[], Population | None]
    data: Any = None
    inference: Variational | None = None
    fingerprint: Array | None = field(init=False)
    lock: AbstractContextManager[bool] = field(init=False, default_factory=new_lock)
    _estimates: dict[str, CovarianceEstimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Store a fingerprint of the rows."""
        object.__setattr__(self, "fingerprint", _fingerprint(self.source, self.spec))

    @property
    def _unchanged(self) -> AnyRows:
        """The source; raise if its rows have been changed since the fit."""
        before, now = self.fingerprint, _fingerprint(self.source, self.spec)
        if before is not None and now is not None and not np.allclose(now, before, 1e-9, 0.0, equal_nan=True):
            raise ValueError(
                "The training data have been changed in place since the fit, and what is asked for is learned "
                "from them only when it is needed. Fit again, or save the model before you change the data."
            )
        return self.source

    @locked_cached_property
    def population(self) -> Population | None:
        """Mean and covariance of all predictors, or None if there are too many."""
        assert self._unchanged is not None
        return self.learn_population()

    @locked_cached_property
    def bounded(self) -> OptimizeResult:
        """The outcome with its bounds, which are computed now if deferred."""
        assert isinstance(self.outcome, OptimizeResult)
        return self.outcome.with_bounds(self._unchanged) if self.outcome.bounds_deferred else self.outcome

    @locked_cached_property
    def calibration(self) -> Link:
        """Link from scores to probabilities."""
        with single_threaded_blas():
            return links([self])[0]

    @property
    def offset(self) -> float:
        """Log-odds offset by class weights."""
        if self._unweighted is None:
            return 0.0
        loss, counted = (
            source.sum_parts(_by_class, memory_bound=True) for source in (self._unchanged, self._unweighted.counted)
        )
        negative, positive = np.log(loss) - np.log(counted)
        return float(negative - positive)

    def left_out_scores(self) -> LeftOutScores:
        """Leave-one-out scores of the rows, in the order of a pass; of every ``every``-th block."""
        rows, sample_weights = self.influence()
        counts = rows.s if sample_weights is None else sample_weights
        if self.spec.likelihood.normalised:  # probabilities are averaged over the coefficients, too
            rows = replace(rows, missing_variance=rows.missing_variance + rows.left_out_response(counts))
        return LeftOutScores.from_influence(rows, counts)

    def influence(self) -> tuple[RowInfluence, Array | None]:
        """Influence of each row, and its sample weight (None without class weights)."""
        rows = row_influence(self.spec, self.outcome, self._unchanged, self.every)
        if self._unweighted is None:
            return rows, None
        return rows, np.concatenate(self._unweighted.counted.sum_parts(partial(_weights, self.every)))

    @property
    def can_refit(self) -> bool:
        """Whether refits without single rows are possible: variational Bayes in memory, its covariance not by draws."""
        if isinstance(self.source, Distributed) or self.source.pages is not None or self.source.drawn_covariance:
            return False
        return self.inference is not None

    def refitted(self, proportions: Array) -> "TrainingRows":
        """Refit with rows' weights multiplied by these proportions; columns keep their standardisation."""
        source, inference, outcome, unweighted = self._unchanged, self.inference, self.outcome, self._unweighted
        assert not isinstance(source, Distributed)
        assert inference is not None
        assert isinstance(outcome, OptimizeResult)
        source = reweighted(source, proportions)
        if unweighted is not None:
            counted, squared = unweighted.counted, unweighted.squared
            assert not isinstance(counted, Distributed)
            assert not isinstance(squared, Distributed)
            unweighted = Unweighted(reweighted(counted, proportions), reweighted(squared, proportions))
        result = refit(self.spec, outcome, source, inference)
        return replace(self, outcome=result, source=source, unweighted=lambda: unweighted, _estimates={})

    def score_unseen(self, rows: InMemory) -> Scores:
        """Scores of rows that were not in the fit, in the order of a pass."""
        assert isinstance(self.outcome, OptimizeResult)
        unseen = unseen_rows(self.spec, self.outcome, rows)
        return Scores(unseen.score, unseen.response + unseen.missing_variance, unseen.missing_variance)

    def counted(self) -> tuple[NDArray[np.intp], Array]:
        """Indices of the user's rows with positive sample weight, and these weights, without class weights."""
        source = self.source if self._unweighted is None else self._unweighted.counted
        assert not isinstance(source, Distributed)
        numbers = np.arange(len(source.weights)) if self.given is None else self.given
        rows, first = np.unique(numbers, return_index=True)
        weights = source.weights[first]
        return rows[weights > 0], weights[weights > 0]

    @property
    def every(self) -> int:
        """Stride of blocks for per-row results: 1, or more if numbers for every row do not fit in memory."""
        if isinstance(self.source, Distributed):
            return max(1, math.ceil(self.source.n_rows / MAX_LEFT_OUT))
        pages = self.source.pages
        return 1 if pages is None else max(1, math.ceil(self.source.n_rows / min(MAX_LEFT_OUT, pages.max_cached // 8)))

    @locked_cached_property
    def order(self) -> NDArray[np.intp]:
        """Index in the source of each row of a pass; the first of its candidates if expanded."""
        assert not isinstance(self.source, Distributed)
        return pass_order(self.source)

    def proper_draws(self, n: int, seed: int) -> list[ProperDraw]:
        """Proper draws of the joint distribution of labels and predictors; without labels for complete data."""
        source, model = self._unchanged, input_model(self.spec.missing)
        assert isinstance(source, Memory)
        if model is not None:
            missing = self.outcome.state.missing
            assert isinstance(missing, MissingState)
            return proper_draws(self.spec, missing, source, n, seed)
        moments, rng = source.second_moments(), np.random.default_rng(seed)
        columns = source.recipe.first + np.arange(len(moments) - 1)
        return [ProperDraw.from_moments(moments, columns, PAPER_PSI, rng) for _ in range(n)]

    def covariance(self, kind: str) -> CovarianceEstimate:
        """The robust estimate, or the posterior's by linear response; cached by kind."""
        with self.lock:
            if kind not in self._estimates:
                self._estimates[kind] = self._compute_covariance(kind)
            return self._estimates[kind]

    def _compute_covariance(self, kind: str) -> CovarianceEstimate:
        source = self._unchanged
        if isinstance(self.outcome, Sample):
            spec = replace(self.spec, likelihood=self.spec.likelihood.exact)
            return Covariances(spec, self.outcome.state, source, self.n, self._squared, self.units).of(ROBUST)
        by = "response" if self.affords_response else "curvature"
        if kind == ROBUST and self.imputable:
            return self._by_imputation(self.outcome, by)
        return self._covariances.of(kind, by)

    @property
    def affords_response(self) -> bool:
        """Whether linear response of the exact bound is affordable: not for large tables."""
        most = MAX_GROUPED if self.source.groupings else MAX_RESPONDING
        if isinstance(self.outcome, OptimizeResult) and self.outcome.integrated:  # the state has it already
            return True
        return not isinstance(self.source, Distributed) and self.source.n_rows * self.source.n_core <= most

    @property
    def imputable(self) -> bool:
        """Whether a robust covariance with missing values is available, by multiple imputation."""
        in_memory = isinstance(self.source, Memory) and self.source.pages is None
        inferred = self.spec.missing is not None and isinstance(self.outcome, OptimizeResult)
        return in_memory and inferred and imputed_covariance.supports(self.spec)

    def _by_imputation(self, outcome: OptimizeResult, by: str) -> CovarianceEstimate:
        """Robust covariance by multiple imputation."""
        source, squared = self._unchanged, self._squared
        assert isinstance(source, Memory)
        squares = squared.weights if isinstance(squared, Memory) else None
        n, drawn = imputed_covariance.n_tables(source.candidates), input_model(self.spec.missing) is not None
        draws = self.proper_draws(n, source.n_rows) if drawn else [None] * n
        return imputed_covariance.imputed_covariance(self.spec, outcome, source, draws, self.n, squares, self.units, by)

    @property
    def learned(self) -> tuple[CovarianceEstimate, ...]:
        """Estimates that have been computed."""
        with self.lock:
            return tuple(self._estimates.values())

    @locked_cached_property
    def _covariances(self) -> Covariances:
        assert isinstance(self.outcome, OptimizeResult)
        spec = replace(self.spec, likelihood=self.outcome.likelihood)
        rest = {"squared": self._squared, "units": self.units, "integrated": self.outcome.integrated}
        return Covariances(spec, self.outcome.state, self._unchanged, self.n, **rest)

    @locked_cached_property
    def units(self) -> Units | None:
        """Independent units (clusters): the groups of the outermost factor in which the last factor is nested."""
        if not self.source.groupings:
            return None
        *others, tail = self.source.groupings
        sizes = Facts.from_source(self.source).group_sizes
        if not others:
            return Units(np.arange(tail.n_groups), np.zeros(self.n, dtype=bool), 0, False, sizes[0])
        common = self.source.sum_over_memories(_rows_in_common)
        ends = np.cumsum([0, *(factor.n_groups for factor in self.source.groupings)])
        blocks = [[csr_array(common[a:b, c:d]) for c, d in pairwise(ends)] for a, b in pairwise(ends)]
        nested = [
            [bool((np.diff(block.indptr) <= 1).all()) for block in row] for row in blocks
        ]  # a row's in a column's
        outer = [k for k in range(len(others)) if nested[-1][k]]
        chosen = min(outer, key=lambda k: others[k].n_groups, default=len(others))
        inside = [row[chosen] for row in nested[:-1]]
        within = [np.zeros(self.n, dtype=bool), *(np.full(a.size, b) for a, b in zip(others, inside, strict=True))]
        units = np.asarray(blocks[-1][chosen].argmax(axis=1), dtype=np.intp).ravel()
        return Units(units, np.concatenate(within), chosen, not all(inside), sizes[chosen])

    @locked_cached_property
    def _unweighted(self) -> Unweighted | None:
        return self.unweighted()

    @property
    def _squared(self) -> AnyRows | None:
        return None if self._unweighted is None else self._unweighted.squared

    @property
    def curvature(self) -> CoefficientDistribution:
        """The distribution by the curvature at the mean."""
        with self.lock, single_threaded_blas():
            return self._covariances.curvature

    @property
    def reliability(self) -> Reliability:
        """Warnings about the reliability of covariances, from the rows."""
        with self.lock:
            if isinstance(self.outcome, Sample):
                return reliability(self.outcome.state, self._unchanged, self.spec.likelihood)
            return self._covariances.reliability


def pass_order(source: InMemory) -> NDArray[np.intp]:
    """Index in the source of each row of a pass; the first of its candidates if expanded."""
    numbered = np.where(source.weights > 0, np.arange(1.0, len(source.weights) + 1), 0.0)
    order = np.concatenate(replace(source, weights=numbered).sum_parts(partial(_weights, 1))).astype(np.intp) - 1
    if source.candidates is None:
        return order
    rows = source.candidates.row[order]
    return order[np.r_[True, rows[1:] != rows[:-1]]]


def links(rows: Sequence[TrainingRows]) -> list[Link]:
    """Links of one binary model, or of several one-vs-rest models."""
    if rows[0].spec.likelihood.normalised:
        return [PosteriorMean(fit_rows.offset) for fit_rows in rows]
    return list(calibrate([fit_rows.left_out_scores() for fit_rows in rows]))


def _by_class(part: Part) -> Array:
    """Total weight of the negative and of the positive rows."""
    s, positive = part.rows.weights, part.rows.y > 0
    return np.array([s[~positive].sum(), s[positive].sum()])


def _weights(every: int, part: Part) -> list[Array]:
    return [] if part.rows.index % every else [part.rows.weights]


def _fingerprint(source: AnyRows, spec: Spec) -> Array | None:
    """Sums over rows of scores under fixed coefficients that differ by column; None in a cluster."""
    if isinstance(source, Distributed):
        return None
    theta = np.sin(1.0 + np.arange(spec.n_columns))

    def of_part(part: Part) -> Array:
        s, y, scores = part.rows.weights, part.rows.y, part.scores(theta, None)
        return np.array([s.sum(), s @ y, s @ scores, (s * y) @ scores, s @ np.square(scores)])

    with np.errstate(all="ignore"):
        return source.sum_parts(of_part, memory_bound=True)


def _rows_in_common(source: InMemory) -> Any:
    """Numbers of rows that any two groups have in common, by the groups of all factors in order: a sparse matrix."""
    ends = np.cumsum([0, *(factor.n_groups for factor in source.groupings)])
    groups = np.stack([factor.index + end for factor, end in zip(source.groupings, ends, strict=False)], axis=1)
    n_rows, n_factors = groups.shape
    starts = np.arange(0, groups.size + 1, n_factors)
    members = csr_array((np.ones(groups.size), groups.ravel(), starts), shape=(n_rows, ends[-1]))
    return members.T @ members
