"""The rows of a fit, while they are at hand: what nobody asked for during the fit is learned from them when it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.input_chain import proper_draws
from vbsvm.inference.leave_one_out import row_influence
from vbsvm.inference.reliability import Reliability
from vbsvm.inference.sandwich import Units
from vbsvm.inference.spreads import Spread, Spreads, robust_of_draws
from vbsvm.inference.variational import Outcome
from vbsvm.missing.input_distributions import InputSums, Regressors
from vbsvm.missing.input_model import PAPERS_PSI
from vbsvm.missing.model import MissingState, input_model
from vbsvm.missing.population import Population
from vbsvm.missing.proper_draws import ProperDraw
from vbsvm.missing.rows import Inputs
from vbsvm.model.interfaces import CoefficientDistribution
from vbsvm.model.row_pass import Part
from vbsvm.model.spec import Spec
from vbsvm.results import imputed_spread
from vbsvm.results.calibration import Calibration, LeftOutScores, calibrate
from vbsvm.sources.memory import Memory
from vbsvm.sources.row_builder import Grouping

# Rows × coefficients up to which robust intervals go by the response of the exact bound: it takes as long as some fits.
# With groups the curvature is too poor a substitute to be taken sooner than it must be.
MOST_RESPONDING, MOST_GROUPED = 250_000, 5_000_000
ROBUST = "robust"


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The source of a fit, which reads the user's own arrays, and what may be learned from it later.

    ``n`` is the number of coefficients of columns. ``sample_weights`` are the weights without those of classes, where
    these have some. ``given`` are the numbers that the rows have in the user's data, where these differ from those in
    the source. Files, pickles and copies of a fit hold no rows: what they need is learned before.
    """

    spec: Spec
    outcome: Outcome | Sample
    source: Memory
    n: int
    sample_weights: Array | None
    given: NDArray[np.intp] | None
    learn_population: Callable[[], Population | None]
    fingerprint: Array = field(init=False)
    _found: dict[str, Spread] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remember what the rows look like now."""
        object.__setattr__(self, "fingerprint", _fingerprint(self.source, self.spec))

    @property
    def _unchanged(self) -> Memory:
        """The rows; those that have been changed since the fit are refused."""
        if not np.allclose(_fingerprint(self.source, self.spec), self.fingerprint, rtol=1e-9, atol=0.0, equal_nan=True):
            raise ValueError(
                "The training data have been changed in place since the fit, and what is asked for is learned from "
                "them only when it is needed. Fit again, or save the model before you change the data."
            )
        return self.source

    @cached_property
    def population(self) -> Population | None:
        """Mean and covariance of all inputs, where there are not too many."""
        assert self._unchanged is not None
        return self.learn_population()

    @cached_property
    def calibration(self) -> Calibration:
        """How scores become probabilities."""
        with single_threaded_blas():
            return calibrate([self.left_out_scores()])[0]

    def left_out_scores(self) -> LeftOutScores:
        """Scores of the rows in fits without them, in the order of a pass."""
        rows, repeats = row_influence(self.spec, self.outcome, self._unchanged), self._repeats
        return LeftOutScores.of(rows, rows.s if repeats is None else np.concatenate(repeats.total(_weights)))

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Where in the source each row of a pass stands; the first of its candidates where there are some."""
        numbered = np.where(self.source.weights > 0, np.arange(1.0, len(self.source.weights) + 1), 0.0)
        found = np.concatenate(replace(self.source, weights=numbered).total(_weights)).astype(np.intp) - 1
        if self.source.candidates is None:
            return found
        rows = self.source.candidates.row[found]
        return found[np.r_[True, rows[1:] != rows[:-1]]]

    def proper_draws(self, n: int, seed: int) -> list[ProperDraw]:
        """Draws of the joint distribution of labels and inputs; without labels where no input is missing."""
        source, model = self._unchanged, input_model(self.spec.missing)
        if model is not None:
            missing = self.outcome.state.missing
            assert isinstance(missing, MissingState)
            return proper_draws(self.spec, missing, source, n, seed)
        moments, rng = source.second_moments(), np.random.default_rng(seed)
        total = Regressors(moments[:1, :1])
        sums = InputSums(moments[:1, 1:], moments[1:, 1:], float(moments[0, 0]), total)
        inputs = Inputs.of(source.recipe.first + np.arange(len(moments) - 1), [])
        return [ProperDraw.of(sums, inputs, PAPERS_PSI, rng) for _ in range(n)]

    def spread(self, kind: str) -> Spread:
        """Robust, or the posterior's by linear response; in large tables the robust one goes by the curvature."""
        if kind not in self._found:
            source = self._unchanged
            if isinstance(self.outcome, Sample):
                state = self.outcome.state
                self._found[kind] = robust_of_draws(self.spec, state, source, self.n, self._repeats, self.units)
            else:
                large = source.n_rows * source.n_core > (MOST_GROUPED if source.groupings else MOST_RESPONDING)
                by = "curvature" if large else "response"
                imputed = kind == ROBUST and self.imputes
                self._found[kind] = self._imputed(source, self.outcome, by) if imputed else self._spreads.of(kind, by)
        return self._found[kind]

    @property
    def imputes(self) -> bool:
        """Whether robust spreads can be had although values are missing."""
        return isinstance(self.outcome, Outcome) and imputed_spread.suits(self.spec)

    def _imputed(self, source: Memory, outcome: Outcome, by: str) -> Spread:
        """The robust spread by completed tables."""
        draws: Sequence[ProperDraw | None] = [None] * imputed_spread.TABLES
        if input_model(self.spec.missing) is not None:
            draws = self.proper_draws(imputed_spread.TABLES, source.n_rows)
        rest = self.n, self.sample_weights, self.units, by
        return imputed_spread.imputed_spread(self.spec, outcome, source, draws, *rest)

    @property
    def learned(self) -> tuple[Spread, ...]:
        """Spreads that have been asked for."""
        return tuple(self._found.values())

    @cached_property
    def _spreads(self) -> Spreads:
        assert isinstance(self.outcome, Outcome)
        spec = replace(self.spec, likelihood=self.outcome.likelihood)
        return Spreads(spec, self.outcome.state, self._unchanged, self.n, repeats=self._repeats, units=self.units)

    @cached_property
    def units(self) -> Units | None:
        """The independent units of a model with groups: those of the outermost factor that the tail's groups lie in."""
        if not self.source.groupings:
            return None
        *others, tail = self.source.groupings
        outer = [k for k, one in enumerate(others) if _lies_in(tail, one)]
        chosen = min(outer, key=lambda k: others[k].n_groups, default=len(others))
        unit = self.source.groupings[chosen]
        of_group = np.zeros(tail.n_groups, dtype=np.intp)
        of_group[tail.index] = unit.index
        inside = [_lies_in(one, unit) for one in others]
        own = np.concatenate(
            [np.zeros(self.n, dtype=bool), *(np.full(a.size, b) for a, b in zip(others, inside, strict=True))]
        )
        return Units(of_group, own, chosen, not all(inside))

    @property
    def _repeats(self) -> Memory | None:
        """The same rows without class weights, where there are any."""
        if self.sample_weights is None:
            return None
        return replace(self.source, weights=np.where(self.source.weights > 0, self.sample_weights, 0.0))

    @property
    def curvature(self) -> CoefficientDistribution:
        """The distribution by the curvature at the mean."""
        with single_threaded_blas():
            return self._spreads.curvature

    @property
    def reliability(self) -> Reliability:
        """What the rows say of spreads."""
        return self._spreads.reliability


def _weights(part: Part) -> list[Array]:
    return [part.rows.weights]


def _fingerprint(source: Memory, spec: Spec) -> Array:
    """Sums that tell data apart: of scores at coefficients that weigh all columns and groups differently."""
    theta = np.sin(1.0 + np.arange(spec.n_columns))

    def of_part(part: Part) -> Array:
        s, y, scores = part.rows.weights, part.rows.signs, part.scores(theta, None)
        return np.array([s.sum(), s @ y, s @ scores, (s * y) @ scores, s @ np.square(scores)])

    with np.errstate(all="ignore"):
        return source.total(of_part, light=True)


def _lies_in(inner: Grouping, outer: Grouping) -> bool:
    """Whether each group of a factor lies in one group of another."""
    pairs = np.unique(inner.index * outer.n_groups + outer.index)
    return len(pairs) == len(np.unique(inner.index))
