"""Variational Bayes: the bound is maximised in the stages that the table of solvers gives for a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import final

import numpy as np

from vbsvm.base.arrays import Array, single_threaded_blas
from vbsvm.base.distributions import InverseGamma, TabulatedVariance
from vbsvm.base.printing import bar
from vbsvm.base.settings import Parameters, check_flag, check_positive, check_whole, log
from vbsvm.base.update_mode import mean_field
from vbsvm.inference import quadrature
from vbsvm.inference.inputs import LearnedInputs, learn_inputs
from vbsvm.inference.loop import Callback, OptimizeResult, Status, optimize
from vbsvm.inference.monte_carlo import drawn_steps
from vbsvm.inference.smooth import SmoothNewton, subsample_start
from vbsvm.inference.solvers import (
    AUGMENTED,
    AUTO,
    EXACT,
    INTEGRATED,
    PAPER,
    Feature,
    Stage,
    choose_bound,
    exact_stage,
    features,
    plan,
)
from vbsvm.missing.model import MissingState, input_model
from vbsvm.model.priors import HalfT, Ridge
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec, State
from vbsvm.model.sweep import update_priors


@final
@dataclass(frozen=True)
class Options:
    """Limits of a run, and the scale for separated classes."""

    # Passes over the data, unless max_iter says otherwise.
    max_passes: int = 2000
    # Where rows are few beside the columns that miss values, missing values and the inputs' covariance feed each other,
    # from plateau to plateau, for thousands of passes: a stronger prior ends that.
    max_passes_missing: int = 200
    max_passes_drawn: int = 100
    # Separated classes bound the scale of logistic coefficients from below only. Where the augmented bound finds a
    # smaller variance, and the prior leaves at least this probability above it, this one is taken (for standardised
    # inputs; at most this many times the one found): probabilities are sharper, and coefficients still finite.
    separated_variance: float = 100.0
    min_probability: float = 0.05
    max_widening: float = 1000.0


OPTIONS = Options()


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
        check_positive("Variational", 1e-300, tol=self.tol)
        check_flag("Variational", accelerate=self.accelerate)
        if not isinstance(self.bound, str) or self.bound not in (AUTO, AUGMENTED, PAPER, EXACT, INTEGRATED):
            known = "'auto', 'augmented' (or 'paper'), 'exact' or 'integrated'"
            raise ValueError(f"Variational: bound must be {known}; got {self.bound!r}.")
        if self.max_iter is not None:
            check_whole("Variational", 2, 10**9, max_iter=self.max_iter)

    def most_passes(self, spec: Spec) -> int:
        """Maximum number of passes over the data for this model."""
        if self.max_iter is not None:
            return int(self.max_iter)
        complete = input_model(spec.missing) is None or not self.accelerate
        return OPTIONS.max_passes if complete else OPTIONS.max_passes_missing

    def learned(self, spec: Spec, source: Source) -> LearnedInputs | None:
        """Distribution of the inputs if it is estimated before the coefficients, or None."""
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
        callback: Callback | None = None,
    ) -> OptimizeResult:
        """Fit the model to the rows, from the paper's start or from a given state.

        ``learned`` is the distribution of the inputs, where that is fixed and known already; a state has its own.
        """
        flags = features(spec, source, accelerate=self.accelerate)
        bound = choose_bound(self.bound, flags)
        if Feature.MONTE_CARLO in flags:
            return self._monte_carlo(spec, source)
        with single_threaded_blas():
            if start is None and learned is None:
                learned = self.learned(spec, source)
            result = None
            if bound == INTEGRATED and Feature.INTERCEPTS_ONLY in flags and self.accelerate:
                result = self._quadrature_alone(spec, source, start)
            if result is None:
                stages = plan(flags, bound, self.tol)
                result = self._run_stages(spec, source, stages, start, learned, callback)
                if bound == INTEGRATED and result.converged:
                    result = self._quadrature_after(spec, source, result)
        if start is not None or learned is None or learned.converged or result.interrupted:
            return result
        return replace(result, ending=Status.INPUTS_OUT_OF_PASSES)

    def _quadrature_alone(self, spec: Spec, source: Source, start: State | None) -> OptimizeResult | None:
        """Integrate effects of groups out from the start, and leave the exact bound for later; None if that fails."""
        found = quadrature.integrate(spec, source, start, self.tol, self.most_passes(spec))
        if found is None:
            return None
        state, passes = found
        log.info("groups integrated out: %d passes", passes)
        later, exact = partial(replace(self, bound=EXACT, max_iter=None)._bounds, spec), spec.likelihood.exact
        return OptimizeResult(
            state, np.empty(0), passes, Status.CONVERGED, likelihood=exact, integrated=True, _later=later
        )

    def _bounds(self, spec: Spec, source: Source) -> Array:
        return self.run(spec, source).finished().bounds

    def _quadrature_after(self, spec: Spec, source: Source, result: OptimizeResult) -> OptimizeResult:
        """Integrate effects of groups out of a result, if that can be done."""
        found = quadrature.integrate(spec, source, result.state, self.tol, OPTIONS.max_passes)
        if found is None and self.bound == INTEGRATED:
            raise ValueError(
                "Variational(bound='integrated'): effects of groups can't be integrated out of these rows, as "
                "where groups have one row or very many, or single rows outweigh the others: use bound='exact'."
            )
        return replace(result, declined=True) if found is None else replace(result, state=found[0], integrated=True)

    def _monte_carlo(self, spec: Spec, source: Source) -> OptimizeResult:
        """Fit with the covariance by draws, without a bound; ``tol`` is ignored."""
        state, passes, status = None, 0, Status.OUT_OF_PASSES
        most = self.max_iter or OPTIONS.max_passes_drawn
        try:
            with single_threaded_blas(), bar("passes at most", most) as report:
                for reached, converged in islice(drawn_steps(spec, source), most):
                    state, passes = reached, passes + 1
                    report(passes)
                    if converged:
                        status = Status.CONVERGED
                        break
        except KeyboardInterrupt:
            if state is None:
                raise
            status = Status.INTERRUPTED
        assert state is not None
        return OptimizeResult(state, np.empty(0), passes, status, likelihood=spec.likelihood)

    def _run_stages(
        self,
        spec: Spec,
        source: Source,
        sequences: list[tuple[Stage, ...]],
        start: State | None,
        learned: LearnedInputs | None,
        callback: Callback | None,
    ) -> OptimizeResult:
        """The result of the first sequence of stages that need not give way to the next."""
        most, passes, starts, result = self.most_passes(spec), 0, _starts(spec, start, learned), None
        for sequence in sequences:
            states = starts
            for stage in sequence:
                model, limit = spec, most
                if stage.bound == EXACT:
                    model, limit = replace(spec, likelihood=spec.likelihood.exact), max(2, most - passes)
                if stage.fixed_scales:
                    states = [_widened(spec, source, states[0])]
                result, separates = _run_stage(model, source, stage, states, limit, callback, sample=start is None)
                passes, states = passes + result.passes, [result.state]
                result = replace(result, passes=passes)
                if result.interrupted or (passes >= most and stage is sequence[0]):
                    early = result.converged and stage.tol > self.tol
                    return replace(result, ending=Status.OUT_OF_PASSES) if early else result
                if sequence is not sequences[-1] and (
                    (len(sequence) == 1 and not result.converged) or _separates(source, result.state, separates)
                ):
                    break  # the next sequence is for separated classes, or follows a single stage that has failed
            else:
                break
        assert result is not None
        return result

    def sharpened(self, spec: Spec, source: Source, start: State) -> tuple[OptimizeResult, bool]:
        """Maximise the exact bound from a state; and whether scales were fixed, as they are for separated classes."""
        flags = features(spec, source, accelerate=self.accelerate)
        spec, fixed = replace(spec, likelihood=spec.likelihood.exact), _separates(source, start)
        with single_threaded_blas():
            while True:
                stage = exact_stage(flags, self.tol, *([Feature.FIXED_SCALES] if fixed else []))
                rule = stage.solver.build(self.tol, fixed)
                result = optimize(spec, source, start, rule, self.tol, self.most_passes(spec))
                if fixed or not _separates(source, result.state):
                    return result, fixed
                fixed = True


def _starts(spec: Spec, start: State | None, learned: LearnedInputs | None) -> list[State]:
    """The given state, iterable where quadrature has tabulated its variance; or the starts of the model."""
    if start is not None:
        integrated = any(isinstance(scale, TabulatedVariance) for scale in start.scales)
        return [update_priors(spec, start, mean_field) if integrated else start]
    if learned is None:
        return spec.starts()
    return [
        replace(state, missing=replace(state.missing, inputs=learned.distribution))
        if isinstance(state.missing, MissingState)
        else state
        for state in spec.starts()
    ]


def _run_stage(
    spec: Spec,
    source: Source,
    stage: Stage,
    starts: Sequence[State],
    limit: int,
    callback: Callback | None,
    *,
    sample: bool,
) -> tuple[OptimizeResult, bool | None]:
    """Highest result over all starts, with the passes of all; and whether it separates the classes, if known."""
    results, best, passes, separates = [], 0, 0, None
    for start in starts:
        rule, first = stage.solver.build(stage.tol, stage.fixed_scales), start
        if sample and isinstance(rule, SmoothNewton):
            first = subsample_start(spec, source, start, rule)
        extra = int(first is not start)
        result = optimize(spec, source, first, rule, stage.tol, limit - extra, callback)
        results.append(replace(result, passes=result.passes + extra))
        passes += results[-1].passes
        if result.bounds[-1] > results[best].bounds[-1]:
            best = len(results) - 1
        separates = rule.separates(result.state) if isinstance(rule, SmoothNewton) else None
        if result.interrupted:
            break
    last, highest = results[-1], results.pop(best)
    status = (last if last.interrupted else highest).ending
    return replace(highest, passes=passes, ending=status, others=tuple(results)), separates


def _separates(source: Source, state: State, known: bool | None = None) -> bool:
    """Whether the mean scores classify every row correctly, so that no loss grows with the coefficients."""
    return (
        known
        if known is not None
        else not source.sum_parts(lambda part: part.n_misclassified(state.coefficients.mean, state.missing))
    )


def _widened(spec: Spec, source: Source, state: State) -> State:
    """State with a scale large enough for separated classes, in logistic models with one prior of the inputs."""
    *others, last = spec.blocks
    prior, scale = last.prior, state.scales[-1]
    if not isinstance(prior, HalfT | Ridge) or not isinstance(scale, InverseGamma) or not spec.likelihood.normalised:
        return state
    if source.n_core < spec.n_columns or sum(block.size for block in others) > 1:  # groups, or a curve
        return state
    if prior.tail_probability(OPTIONS.separated_variance) < OPTIONS.min_probability:
        return state
    wider = min(max(1.0, OPTIONS.separated_variance * scale.shape / scale.rate), OPTIONS.max_widening)
    return replace(state, scales=(*state.scales[:-1], replace(scale, rate=wider * scale.rate)))
