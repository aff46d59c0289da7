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
    # With few rows and many incomplete columns, missing values and the predictors' covariance converge from plateau to
    # plateau, for thousands of passes: a stronger prior prevents that.
    max_passes_missing: int = 200
    max_passes_drawn: int = 100
    # Separated classes bound the scale of logistic coefficients from below only. Where the augmented bound finds a
    # smaller variance, and the prior leaves at least this probability above it, this one is taken (for standardised
    # predictors; at most this many times the one found): probabilities are sharper, and coefficients still finite.
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
        Stop when two successive accepted steps increase the ELBO by less than this (in nats), or by less than rounding
        error; one step if gains decrease to a fifth and less from step to step. At 1e-11 and less the optimisation
        continues until the coefficients converge, some ten iterations: it then agrees to 1e-8 for data in memory, in
        files and in clusters.
    max_iter : int, default None
        Maximal number of iterations (passes over the data), including rejected steps. None is 2000, and 200 if
        predictors are missing and ``accelerate`` is True.
    bound : "auto", "augmented", "exact" or "integrated", default "auto"
        Lower bound to maximise. "augmented" (or "paper") is the paper's, with a latent scale for each observation.
        "exact" starts there and continues with the exact expectation of the log likelihood: tighter, with means and
        standard deviations closer to the posterior's; it does not support ``LaplaceZero``, ``NotAtRandom`` and
        ``GaussianImputation(labels="likelihood")``. If the classes of complete observations are separable, it keeps the
        prior scales of the augmented bound, because the posterior does not identify them; in logistic models without
        random effects at a variance of at least 100. "integrated" is for logistic models with random intercepts: those
        of the largest factor are integrated out by quadrature, so that means and standard deviations are close to the
        posterior's; the ELBO of such a fit is that of the exact bound, computed on first access. "auto" is "integrated"
        in these models, and "exact" in all other logistic ones; under the hinge loss it is "exact" with random effects,
        where the augmented bound is inaccurate, and if values are missing that do not adapt to the coefficients (the
        default), whose coefficients the augmented bound would shrink; and else "augmented".
    accelerate : bool, default True
        Newton steps for the mean and Anderson extrapolation, guarded by the bound: the same optimum in fewer
        iterations, often a tenth. False gives the paper's sweeps exactly; they converge slowly, and need a smaller
        ``tol``.
    """

    tol: float = 1e-6
    max_iter: int | None = None
    accelerate: bool = True
    bound: str = AUTO

    def __post_init__(self) -> None:
        """Check the settings."""
        check_positive("Variational", 1e-300, tol=self.tol)
        check_flag("Variational", accelerate=self.accelerate)
        if not isinstance(self.bound, str) or self.bound not in (AUTO, AUGMENTED, PAPER, EXACT, INTEGRATED):
            known = "'auto', 'augmented' (or 'paper'), 'exact' or 'integrated'"
            raise ValueError(f"Variational: bound must be {known}; got {self.bound!r}.")
        if self.max_iter is not None:
            check_whole("Variational", 2, 10**9, max_iter=self.max_iter)

    def most_passes(self, spec: Spec) -> int:
        """Maximal number of iterations for this model."""
        if self.max_iter is not None:
            return int(self.max_iter)
        complete = input_model(spec.missing) is None or not self.accelerate
        return OPTIONS.max_passes if complete else OPTIONS.max_passes_missing

    def learned(self, spec: Spec, source: Source) -> LearnedInputs | None:
        """Distribution of the predictors if it is estimated before the coefficients, or None."""
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

        ``learned`` is the distribution of the predictors, if fixed and known; a state has its own.
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
        """Integrate random effects out from the start, and defer the exact bound; None if that fails."""
        found = quadrature.integrate(spec, source, start, self.tol, self.most_passes(spec))
        if found is None:
            return None
        state, passes = found
        log.info("random effects integrated out: %d iterations", passes)
        later, exact = partial(replace(self, bound=EXACT, max_iter=None)._bounds, spec), spec.likelihood.exact
        return OptimizeResult(
            state, np.empty(0), passes, Status.CONVERGED, likelihood=exact, integrated=True, _later=later
        )

    def _bounds(self, spec: Spec, source: Source) -> Array:
        return self.run(spec, source).finished().bounds

    def _quadrature_after(self, spec: Spec, source: Source, result: OptimizeResult) -> OptimizeResult:
        """Integrate random effects out of a result, if possible."""
        found = quadrature.integrate(spec, source, result.state, self.tol, OPTIONS.max_passes)
        if found is None and self.bound == INTEGRATED:
            raise ValueError(
                "Variational(bound='integrated'): random effects can't be integrated out of these data, as happens if "
                "levels have one observation or very many, or a single one dominates: use bound='exact'."
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
    if known is None:
        known = not source.sum_parts(lambda part: part.n_misclassified(state.coefficients.mean, state.missing))
    return known


def _widened(spec: Spec, source: Source, state: State) -> State:
    """State with a scale large enough for separated classes, in logistic models with one prior of the predictors."""
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
