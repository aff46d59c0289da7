"""Variational Bayes: climb the bound until it rises no more, one pass over the data a step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import final

import numpy as np

from vbsvm.base.arrays import Array
from vbsvm.base.distributions import InverseGamma
from vbsvm.base.row_sums import single_threaded_blas
from vbsvm.base.settings import Parameters, log, require_flag, require_positive, require_whole
from vbsvm.inference import integrated_groups
from vbsvm.inference.climb import Ending, Outcome, climb
from vbsvm.inference.climb_watch import UNWATCHED, Watch
from vbsvm.inference.drawn_climb import drawn_steps
from vbsvm.inference.head_start import head_start
from vbsvm.inference.learned_inputs import LearnedInputs, learn_inputs
from vbsvm.inference.profiled import Profiled
from vbsvm.inference.proposals import Accelerated, NaturalGradient, Plain, Strategy, shorter_steps
from vbsvm.inference.smooth import Smooth
from vbsvm.missing.model import MissingModel, MissingState, input_model
from vbsvm.missing.settings import NotAtRandom
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State

AUTO, EXACT, INTEGRATED = "auto", "exact", "integrated"
BOUNDS = (AUTO, "augmented", "paper", EXACT, INTEGRATED)
FEW_COLUMNS = 24
# What the exact bound does not take, beside gates and values that are missing not at random.
ADAPTING = "missing values that adapt to the labels, as GaussianImputation(labels='likelihood') has them"
# The climb of the exact bound begins where the paper's bound gains less than this a step.
EARLY = 10.0
# Steps of the whole state gain less each: this is where they tell whether the classes are separated.
SETTLED = 0.01
# Passes unless it is said otherwise. Where rows are few beside the columns that miss values, missing values and the
# inputs' covariance feed each other, from plateau to plateau, for thousands of passes: a stronger prior ends that.
MOST_PASSES = 2000
MOST_PASSES_WITH_MISSING = 200
MOST_DRAWN_PASSES = 100
# Separated classes bound the scale of logistic coefficients from below only. Where the augmented bound finds a smaller
# variance, and the prior has room, this one is held (for standardised inputs; at most so many times the one found):
# probabilities are sharper, and coefficients still finite.
SEPARATED_VARIANCE, MOST_WIDER, ROOM = 100.0, 1000.0, 0.05


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Beginning:
    """What a climb begins with: a state, or the distribution of the inputs where that is held; and who watches it."""

    start: State | None
    learned: LearnedInputs | None
    watch: Watch

    def starts(self, spec: Spec) -> list[State]:
        """The given state, or the starts of the model."""
        if self.start is not None:
            return [self.start]
        found = spec.starts()
        if self.learned is None:
            return found
        return [
            replace(one, missing=replace(one.missing, inputs=self.learned.distribution))
            if isinstance(one.missing, MissingState)
            else one
            for one in found
        ]


@final
@dataclass(frozen=True)
class Variational(Parameters):
    """Mean-field variational Bayes: the paper's Algorithms 1, 2 and 3.

    Parameters
    ----------
    tol : float, default 1e-6
        Stop when two accepted steps in a row raise the bound by less than this (in nats), or by less than rounding;
        one step is enough where gains fell to a fifth and less from step to step. At 1e-11 and less the climb goes on
        until the coefficients themselves stand still, some ten passes: wherever rows lie, it then ends at the same
        place to 1e-8.
    max_iter : int, default None
        Most passes over the data; steps that were tried and refused count. None is 2000, and 200 where inputs are
        missing and ``accelerate`` is True.
    bound : "auto", "augmented", "exact" or "integrated", default "auto"
        Which lower bound is raised. "augmented" (or "paper") is the paper's, with a latent scale for each row. "exact"
        begins there and goes on with the exact expectation of the log likelihood: tighter, with means and spreads
        closer to the posterior's, for models without gates. ``NotAtRandom`` and missing values that adapt to the labels
        (``GaussianImputation(labels="likelihood")``) are not supported. If the classes of the complete rows are
        separable, it keeps the scales of the priors at the values of the paper's bound, because the posterior hardly
        determines them; in logistic models without groups at a variance of 100 at least. "integrated" is for logistic
        models with random intercepts: effects of the largest factor are integrated out by quadrature,
        so that means and spreads are close to the posterior's; the bound of such a fit is the exact one's, climbed when
        it is asked for. "auto" is "integrated" in these models, and "exact" in all other logistic ones; with a hinge it
        is "exact" in models with groups, where the paper's bound can be far off, and where values are missing that do
        not adapt to the coefficients (the default), which the paper's bound would shrink; and else "augmented".
    accelerate : bool, default True
        Newton steps for the mean and Anderson extrapolation, guarded by the bound: the same optimum in fewer passes,
        often a tenth. False gives the paper's sweeps exactly; they converge slowly, and need a smaller ``tol``.
    """

    tol: float = 1e-6
    max_iter: int | None = None
    accelerate: bool = True
    bound: str = AUTO

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_positive("Variational", 1e-300, tol=self.tol)
        require_flag("Variational", accelerate=self.accelerate)
        if not isinstance(self.bound, str) or self.bound not in BOUNDS:
            known = "'auto', 'augmented' (or 'paper'), 'exact' or 'integrated'"
            raise ValueError(f"Variational: bound must be {known}; got {self.bound!r}.")
        if self.max_iter is not None:
            require_whole("Variational", 2, 10**9, max_iter=self.max_iter)

    def most_passes(self, spec: Spec) -> int:
        """Most passes over the data for this model."""
        if self.max_iter is not None:
            return int(self.max_iter)
        return MOST_PASSES if input_model(spec.missing) is None or not self.accelerate else MOST_PASSES_WITH_MISSING

    def learned(self, spec: Spec, source: Source) -> LearnedInputs | None:
        """The distribution of the inputs, where it is learned before the coefficients."""
        inputs = input_model(spec.missing)
        if inputs is None or not inputs.settings.fixed:
            return None
        with single_threaded_blas():
            return learn_inputs(spec, source, self.most_passes(spec))

    def run(
        self,
        spec: Spec,
        source: Source,
        start: State | None = None,
        learned: LearnedInputs | None = None,
        watch: Watch = UNWATCHED,
    ) -> Outcome:
        """Fit the model to the rows, from the paper's start or from a given state; ``watch`` is told of it.

        ``learned`` is the distribution of the inputs, where that is held and known already; a state has its own.
        """
        if self.bound in (EXACT, INTEGRATED) and (what := _not_exact(spec)) is not None:
            instead = "labels='regressor'" if what == ADAPTING else "Gibbs()"
            raise ValueError(
                f"Variational(bound={self.bound!r}) does not support {what}: use bound='augmented', or {instead}."
            )
        if source.drawn_covariance:
            return self._drawn(spec, source)
        if self.bound == INTEGRATED and not integrated_groups.suits(spec, source):
            raise ValueError(f"Variational(bound='integrated') is for {integrated_groups.MODELS}: use bound='auto'.")
        with single_threaded_blas():
            exact = self.bound in (EXACT, INTEGRATED)
            exact = exact or (self.bound == AUTO and self.accelerate and _suits_exact(spec, source))
            if start is None and learned is None:
                learned = self.learned(spec, source)
            if exact and self.bound != EXACT and (at_once := self._integrated_at_once(spec, source, start)) is not None:
                return at_once
            run = self._sharpened if exact else self._run
            outcome = run(spec, source, _Beginning(start, learned, watch))
            if exact and self.bound != EXACT:
                outcome = self._integrated(spec, source, outcome)
        if start is not None or learned is None or learned.at_rest or outcome.ending is Ending.INTERRUPTED:
            return outcome
        return replace(outcome, ending=Ending.INPUTS_OUT_OF_PASSES)

    def _integrated_at_once(self, spec: Spec, source: Source, start: State | None) -> Outcome | None:
        """Integrate effects of groups out where no climb is needed before it; None where that can't be done.

        The bound is climbed when somebody asks for it.
        """
        if not self.accelerate or not integrated_groups.suits_at_once(spec, source):
            return None
        found = integrated_groups.integrated(spec, source, start, self.tol, self.most_passes(spec))
        if found is None:
            return None
        state, passes = found
        log.info("groups integrated out: %d passes", passes)
        later, sharp = partial(replace(self, bound=EXACT, max_iter=None)._bounds, spec), spec.likelihood.exact
        return Outcome(state, np.empty(0), passes, Ending.CONVERGED, likelihood=sharp, integrated=True, _later=later)

    def _bounds(self, spec: Spec, source: Source) -> Array:
        """Climb; an interrupted climb has no bound to speak of."""
        return self.run(spec, source).finished().bounds

    def _integrated(self, spec: Spec, source: Source, outcome: Outcome) -> Outcome:
        """Integrate effects of groups out, where that can be done."""
        if not integrated_groups.suits(spec, source) or outcome.ending is not Ending.CONVERGED:
            return outcome
        found = integrated_groups.integrated(spec, source, outcome.state, self.tol, MOST_PASSES)
        if found is None and self.bound == INTEGRATED:
            raise ValueError(
                "Variational(bound='integrated'): effects of groups can't be integrated out of these rows, as where "
                "groups have one row or very many, or single rows outweigh the others: use bound='exact'."
            )
        if found is None:
            return replace(outcome, declined=True)
        return replace(outcome, state=found[0], integrated=True)

    def _drawn(self, spec: Spec, source: Source) -> Outcome:
        """Fit with the covariance by draws, without a bound; ``tol`` has no say."""
        if self.bound in (EXACT, INTEGRATED) or not self.accelerate:
            setting = f"bound={self.bound!r}" if self.bound in (EXACT, INTEGRATED) else "accelerate=False"
            raise ValueError(
                f"Variational({setting}) does not support tables of so many rows and columns, in which the covariance "
                "of the coefficients is known by draws: leave it out, or select columns first."
            )
        state, passes, ending = None, 0, Ending.OUT_OF_PASSES
        most = MOST_DRAWN_PASSES if self.max_iter is None else self.max_iter
        try:
            with single_threaded_blas():
                for step in islice(drawn_steps(spec, source), most):
                    state, passes = step.state, passes + 1
                    if step.at_rest:
                        ending = Ending.CONVERGED
                        break
        except KeyboardInterrupt:
            if state is None:
                raise
            ending = Ending.INTERRUPTED
        assert state is not None
        return Outcome(state, np.empty(0), passes, ending, likelihood=spec.likelihood)

    def _run(self, spec: Spec, source: Source, begin: "_Beginning") -> Outcome:
        """Climb the paper's bound."""
        return _highest(self._climb_from_all(spec, source, begin))

    def _climb_from_all(self, spec: Spec, source: Source, begin: "_Beginning") -> Iterator[Outcome]:
        """Climb from every start; an interrupted climb is the last."""
        most = self.most_passes(spec)
        for start in begin.starts(spec):
            outcome = climb(spec, source, start, self._strategy(spec, source), self.tol, most, begin.watch)
            yield outcome
            if outcome.ending is Ending.INTERRUPTED:
                return

    def _sharpened(self, spec: Spec, source: Source, begin: "_Beginning") -> Outcome:
        """Begin with the augmented bound and go on with the exact one, or with that at once where it is as easy.

        Where classes are separated, the augmented one is climbed to its end, and the scales are held there, or wider.
        """
        sharp, most, passes = replace(spec, likelihood=spec.likelihood.exact), self.most_passes(spec), 0
        if spec.likelihood.normalised and isinstance(self._strategy(spec, source), Profiled):
            (start,) = begin.starts(spec)
            smooth = Smooth(self.tol)
            ahead = head_start(sharp, source, start, smooth) if begin.start is None else start
            passes = int(ahead is not start)
            reached = climb(sharp, source, ahead, smooth, self.tol, most - passes, begin.watch)
            reached = replace(reached, passes=reached.passes + passes)
            if reached.ending is Ending.INTERRUPTED or reached.passes >= most:
                return reached
            separates = smooth.separates(reached.state)
            if separates is None:
                separates = _separates(source, reached.state)
            if reached.ending is Ending.CONVERGED and not separates:
                return reached
            passes = reached.passes
        early = EARLY if source.looks_are_cheap else SETTLED
        for tol, held in ((max(self.tol, early), False), (self.tol, True)):
            begun = replace(self, tol=tol)._run(spec, source, begin)
            passes += begun.passes
            if begun.ending is Ending.INTERRUPTED or passes >= most:
                loose = begun.ending is Ending.CONVERGED and tol > self.tol
                ending = Ending.OUT_OF_PASSES if loose else begun.ending
                return replace(begun, passes=passes, ending=ending)
            if not held and _separates(source, begun.state):
                continue
            strategy = self._exact_strategy(spec, source, held=held)
            first = _widened(spec, source, begun.state) if held else begun.state
            reached = climb(sharp, source, first, strategy, self.tol, max(2, most - passes), begin.watch)
            passes += reached.passes
            if held or reached.ending is Ending.INTERRUPTED or not _separates(source, reached.state):
                break
        return replace(reached, passes=passes)

    def sharpened(self, spec: Spec, source: Source, start: State) -> tuple[Outcome, bool]:
        """Climb the exact bound from a state; and whether scales were held, as they are where classes are separated."""
        spec, held = replace(spec, likelihood=spec.likelihood.exact), _separates(source, start)
        with single_threaded_blas():
            while True:
                strategy = self._exact_strategy(spec, source, held=held)
                reached = climb(spec, source, start, strategy, self.tol, self.most_passes(spec))
                if held or not _separates(source, reached.state):
                    return reached, held
                held = True

    def _exact_strategy(self, spec: Spec, source: Source, *, held: bool) -> Strategy:
        """How to climb the exact bound, with the scales held or free."""
        if (
            spec.missing is None
            and source.looks_are_cheap
            and (held or source.n_core >= min(FEW_COLUMNS, spec.n_columns))
        ):
            return Profiled(self.tol, hold_scales=held)
        return NaturalGradient(hold_scales=True) if held else Accelerated(shorter_steps)

    def _strategy(self, spec: Spec, source: Source) -> Strategy:
        """How to climb: profiled, but by steps of the whole state where the mean is not the easier part of it.

        Gates have many optima; what is missing depends on the mean; with more coefficients than rows most of what
        changes is the scale of their prior; and a look at the mean may be as costly as a pass: beside a few columns,
        where there are effects of groups, and wherever rows are a long way off.
        """
        if not self.accelerate:
            return Plain()
        many = spec.n_columns > source.n_rows or source.n_core < min(FEW_COLUMNS, spec.n_columns)
        whole = many or not source.looks_are_cheap or spec.gate_map is not None or spec.missing is not None
        return Accelerated() if whole else Profiled(self.tol)


def _not_exact(spec: Spec) -> str | None:
    """What the exact bound can't do of a model; None where it can do all."""
    if spec.gate_map is not None:
        return "gates (LaplaceZero)"
    if spec.missing is None:
        return None
    assert isinstance(spec.missing, MissingModel)
    mechanism = None if spec.missing.inputs is None else spec.missing.inputs.settings.mechanism
    if isinstance(mechanism, NotAtRandom):
        return "values that are missing not at random (NotAtRandom)"
    return None if spec.missing.fixed else ADAPTING


def _suits_exact(spec: Spec, source: Source) -> bool:
    """Whether the exact bound is worth its time: with groups, or with missing values that do not adapt.

    The paper's bound is far off with the former, and shrinks coefficients of incomplete columns with the latter. The
    exact bound of a logistic likelihood takes hardly longer than the augmented one, and has better means and spreads.
    """
    if spec.likelihood.normalised or spec.missing is not None:
        return _not_exact(spec) is None
    return source.n_core < spec.n_columns and spec.gate_map is None


def _separates(source: Source, state: State) -> bool:
    """Whether the mean scores put every row on its side: then no loss grows with the coefficients."""
    return not source.total(lambda part: part.n_misclassified(state.coefficients.mean, state.missing))


def _widened(spec: Spec, source: Source, state: State) -> State:
    """The state with a scale that is wide enough for separated classes, in logistic models of inputs with one prior."""
    *others, last = spec.blocks
    prior, scale = last.prior, state.scales[-1]
    if not isinstance(prior, HalfT | Ridge) or not isinstance(scale, InverseGamma) or not spec.likelihood.normalised:
        return state
    if source.n_core < spec.n_columns or sum(block.size for block in others) > 1:  # groups, or a curve
        return state
    if prior.chance_above(SEPARATED_VARIANCE) < ROOM:
        return state
    wider = min(max(1.0, SEPARATED_VARIANCE * scale.shape / scale.rate), MOST_WIDER)
    return replace(state, scales=(*state.scales[:-1], replace(scale, rate=wider * scale.rate)))


def _highest(outcomes: Iterator[Outcome]) -> Outcome:
    """The climb with the highest bound, with all passes that were made; the first of equals."""
    found = list(outcomes)
    best = max(range(len(found)), key=lambda k: found[k].bounds[-1])
    others = tuple(outcome for k, outcome in enumerate(found) if k != best)
    ending = found[-1].ending if found[-1].ending is Ending.INTERRUPTED else found[best].ending
    return replace(found[best], passes=sum(outcome.passes for outcome in found), ending=ending, others=others)
