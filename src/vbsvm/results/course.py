"""How a fit was reached: a climb of the bound, or the chains of a sampler. Both answer the same questions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from vbsvm.base import diagnostics, printing
from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.design.columns import Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.missing.model import input_model
from vbsvm.model.layouts.drawn import DrawnGaussian
from vbsvm.model.spec import Spec
from vbsvm.results.traces import Traces

# What is said of a climb that has no bound.
DRAWN = "the covariance by draws"
# How a climb of so many iterations ended.
ENDINGS = {
    Status.CONVERGED: "Converged in {}",
    Status.OUT_OF_PASSES: "Not converged: reached the limit of {}",
    Status.INPUTS_OUT_OF_PASSES: "Not converged: reached the limit of iterations for the predictors, {}",
    Status.ROUNDING: "Not converged: rounding errors outweighed every further step after {}",
    Status.INTERRUPTED: "Interrupted after {}",
}
# What is said of a fit whose bound, if it is ever climbed, is not that of its state.
INTEGRATED = "random effects integrated out"
# A part of a fit, and whether it belongs to the rest.
Claims = Iterator[tuple[str, bool]]


@final
@dataclass(frozen=True, slots=True)
class Check:
    """A verdict on how a fit ended: good, or look at this."""

    good: bool
    text: str


class Course(Protocol):
    """What is asked of the way to a fit."""

    @property
    def ending(self) -> Status:
        """Why it ended; chains that do not agree yet have run out of passes."""
        ...

    @property
    def passes(self) -> int:
        """Passes over the data; of chains the sweeps of each, tuning included."""
        ...

    @property
    def bounds(self) -> Array:
        """The accepted bounds, step by step; none where no bound was climbed."""
        ...

    @property
    def starts(self) -> list[tuple[float, int]]:
        """Bound and number of open gates for each start, the highest bound first; none where no bound was climbed."""
        ...

    @property
    def traces(self) -> Traces | None:
        """Draws, parameter by parameter; None where nothing was drawn."""
        ...

    @property
    def separable(self) -> bool:
        """Whether most draws separate the classes."""
        ...

    @property
    def ended(self) -> str:
        """How it ended, as a sentence of the line that prints a fit."""
        ...

    @property
    def in_short(self) -> str:
        """Kind of inference and its length."""
        ...

    @property
    def description(self) -> str:
        """The same in a sentence."""
        ...

    def checks(self) -> Iterator[Check]:
        """Verdicts on how it ended, in plain language."""
        ...

    def claims(self, n_coefficients: int) -> Claims:
        """What must hold of the shapes of its numbers."""
        ...

    def stored(self) -> OptimizeResult | Sample:
        """What a file holds of it."""
        ...


def starts_agree(starts: list[tuple[float, int]]) -> bool:
    """Whether all starts ended at the same bound with as many open gates."""
    return len({count for _, count in starts}) == 1 and starts[0][0] - starts[-1][0] < 0.01


@final
@dataclass(frozen=True, eq=False)
class Climb:
    """Variational Bayes: a climb of the bound, from one start or several.

    ``later`` gives the bounds where nobody has asked for them yet.
    """

    spec: Spec
    outcome: OptimizeResult
    later: Callable[[], Array] | None = None

    @property
    def ending(self) -> Status:
        """Why the climb ended."""
        return self.outcome.ending

    @property
    def passes(self) -> int:
        """Passes over the data."""
        return self.outcome.passes

    @property
    def bounds(self) -> Array:
        """The accepted bounds."""
        return self.outcome.bounds if self.later is None else self.later()

    @property
    def starts(self) -> list[tuple[float, int]]:
        """Bound and number of open gates for each start."""
        if not len(self.bounds):
            return []
        ends = [(self.bounds, self.outcome.state), *((end.bounds, end.state) for end in self.outcome.others)]
        counted = [
            (float(bounds[-1]), 0 if state.gates is None else int((state.gates.inclusion > 0.5).sum()))
            for bounds, state in ends
        ]
        return sorted(counted, reverse=True)

    @property
    def traces(self) -> None:
        """None: nothing was drawn."""
        return

    @property
    def separable(self) -> bool:
        """No: nothing was drawn."""
        return False

    @property
    def ended(self) -> str:
        """Status, iterations, and the evidence lower bound."""
        ended = ENDINGS[self.ending].format(printing.counted(self.passes, "iteration"))
        if self.outcome.integrated:
            return f"{ended}, {INTEGRATED}."
        if not len(self.bounds):
            return f"{ended}, {DRAWN}."
        bound = "exact ELBO" if self.outcome.exact else "ELBO"
        return f"{ended}, {bound} {printing.fixed(float(self.bounds[-1]), 3)}."

    @property
    def in_short(self) -> str:
        """Which bound, and passes."""
        which = " with the exact bound" if self.outcome.exact else "" if len(self.bounds) else f", {DRAWN}"
        which = f", {INTEGRATED}" if self.outcome.integrated else which
        return f"variational Bayes{which}, {self.passes} passes over the data"

    @property
    def description(self) -> str:
        """Which bound was climbed."""
        which = "variational Bayes with the exact bound" if self.outcome.exact else "mean-field variational Bayes"
        if self.outcome.integrated:
            which = f"variational Bayes, {INTEGRATED}"
        elif not len(self.bounds):
            which += f", {DRAWN}"
        return f"The fit is by {which}; penalties and variances were inferred with the coefficients."

    def checks(self) -> Iterator[Check]:
        """Whether the bound converged, and whether several starts agree."""
        passes, ending = self.passes, self.ending
        if ending is Status.CONVERGED:
            yield Check(True, f"The fit converged after {passes} passes over the data.")
        elif ending is Status.INTERRUPTED:
            yield Check(False, f"The fit was interrupted after {passes} passes: the coefficients may still change.")
        elif ending is Status.INPUTS_OUT_OF_PASSES:
            yield Check(
                False,
                "The distribution of the inputs did not converge: the coefficients may still change. Use a stronger "
                "prior of the inputs, as with GaussianImputation(psi=10), or allow more with Variational(max_iter=…).",
            )
        elif ending is Status.OUT_OF_PASSES:
            yield Check(
                False,
                f"The fit reached the limit of passes ({passes}) before it converged: the coefficients may still "
                "change. Allow more with Variational(max_iter=…).",
            )
        else:
            yield Check(
                False,
                "Rounding errors outweighed every further step: the coefficients are not at the optimum. Columns are "
                "large relative to their spread, or linearly dependent.",
            )
        if self.outcome.others:
            starts = self.starts
            agree = starts_agree(starts)
            ends = "; ".join(f"bound {printing.told(bound, 7)}, {count} inputs included" for bound, count in starts)
            said = "agree" if agree else "disagree, and the highest bound was kept"
            yield Check(agree, f"{len(starts)} starts {said}: {ends}.")

    def claims(self, n_coefficients: int) -> Claims:
        """Shapes of every start's end."""
        for outcome in (self.outcome, *self.outcome.others):
            yield from _claims_of_an_end(outcome, self.spec, n_coefficients)

    def stored(self) -> OptimizeResult:
        """All of it."""
        return self.outcome


def _claims_of_an_end(outcome: OptimizeResult, spec: Spec, n_coefficients: int) -> Claims:
    state = outcome.state
    has_bound = not isinstance(state.coefficients, DrawnGaussian)
    yield "the bounds", outcome.bounds.ndim == 1 and (len(outcome.bounds) > 0) == has_bound
    yield "the coefficients", state.coefficients.mean.shape == state.gaussian.variances.shape == (n_coefficients,)
    yield "the scales", len(state.scales) == len(spec.blocks)
    for block, scale in zip(spec.blocks, state.scales, strict=True):
        matrix = getattr(getattr(scale, "covariance", scale), "scale", None)
        yield f"the scale of {block.name}", matrix is None or matrix.shape == (len(block.columns),) * 2
        variances = [] if matrix is None else matrix.diagonal().tolist()
        settings = (*(getattr(scale, name, 1.0) for name in ("shape", "rate")), *variances)
        yield f"the scale of {block.name}", all(0 < float(one) < np.inf for one in settings)
    gates, map = state.gates, spec.gate_map
    yield "the gates", (gates is None) == (map is None)
    yield "the gates", gates is None or map is None or gates.log_odds.shape == (map.n_gates,)
    inputs = input_model(spec.missing)
    if inputs is not None and outcome.inputs is not None:
        distribution, sums = inputs.inputs, outcome.inputs
        n_known, n_variables = inputs.n_regressors, len(distribution.variables)
        yield "the sums of the inputs", sums.linear.shape == (n_known, n_variables)
        yield "the sums of the inputs", sums.squares.shape == (n_variables, n_variables)


@final
@dataclass(frozen=True, eq=False)
class Chains:
    """Gibbs sampling: chains of draws."""

    plan: Plan
    spec: Spec
    sample: Sample

    @property
    def ending(self) -> Status:
        """Whether the chains were interrupted, agree, or need more sweeps."""
        if self.sample.interrupted:
            return Status.INTERRUPTED
        return Status.CONVERGED if self.traces.worst() is None else Status.OUT_OF_PASSES

    @property
    def passes(self) -> int:
        """Sweeps of each chain, tuning included."""
        return self.sample.sweeps

    @property
    def bounds(self) -> Array:
        """None: a sampler has no bound."""
        return np.empty(0)

    @property
    def starts(self) -> list[tuple[float, int]]:
        """None: chains are judged by how they mix."""
        return []

    @property
    def traces(self) -> Traces:
        """Draws, parameter by parameter."""
        return self._traces

    @cached_property
    def _traces(self) -> Traces:
        """They keep what is known of how they mix."""
        return Traces(self.plan, self.spec, self.sample)

    @property
    def separable(self) -> bool:
        """Whether most draws separate the classes."""
        return self.sample.separable

    @property
    def _size(self) -> tuple[int, int]:
        """Chains, and draws of each."""
        chains, draws, _ = self.sample.coefficients.shape
        return chains, draws

    @property
    def _counted(self) -> str:
        return "1 chain" if self._size[0] == 1 else f"{self._size[0]} chains"

    @property
    def ended(self) -> str:
        """Chains, draws and sweeps."""
        chains, draws = self._size
        return f"{chains} chains of {draws} draws in {self.sample.sweeps} sweeps, tuning included."

    @property
    def in_short(self) -> str:
        """Chains and draws."""
        return f"Gibbs sampling, {self._counted} of {self._size[1]} draws"

    @property
    def description(self) -> str:
        """Chains, sweeps and draws."""
        return (
            f"The posterior was sampled: {self._counted} of {self.sample.sweeps} Gibbs sweeps, of which "
            f"{self._size[1]} draws were kept from each."
        )

    def checks(self) -> Iterator[Check]:
        """Whether the chains ran to their end, have a posterior to draw from, and agree."""
        if self.sample.interrupted:
            yield Check(False, f"The sampler was interrupted after {self.sample.sweeps} sweeps.")
        if self.separable:
            yield Check(
                False,
                "Most draws separate the classes: the posterior is hardly bounded under this prior, and its means "
                "depend on how long the chains ran. Use a tighter prior, such as Ridge(3, 3).",
            )
        worst = self.traces.worst()
        if worst is None:
            found = diagnostics.columns(self.traces.coefficient_mixing)
            yield Check(
                True,
                f"The chains agree: the largest R̂ is {np.nanmax(found['rhat']):.3f} (up to {diagnostics.LARGEST_RHAT} "
                f"is good), and every coefficient has at least {np.nanmin(found['ess_bulk']):.0f} effective draws "
                f"({diagnostics.SMALLEST_ESS} are needed).",
            )
        else:
            yield Check(
                False,
                f"The chains have not mixed well enough: {worst.rhat_of} has R̂ {printing.told(worst.rhat, 4)} (up to "
                f"{diagnostics.LARGEST_RHAT} is good), and {worst.ess_of} has {printing.told(round(worst.ess))} "
                f"effective draws ({diagnostics.SMALLEST_ESS} are needed). Draw more.",
            )

    def claims(self, n_coefficients: int) -> Claims:
        """Shapes of the draws."""
        sample, map = self.sample, self.spec.gate_map
        size = sample.coefficients.shape[:2]
        yield "the draws", sample.coefficients.shape == (*size, n_coefficients) and sample.coefficients.size > 0
        yield "the scales", len(sample.scales) == len(self.spec.blocks)
        for block, scale in zip(self.spec.blocks, sample.scales, strict=True):
            q = len(block.columns) if block.prior.of_groups else 1
            yield f"the scale of {block.name}", scale.shape == (*size, q * q)
            variances = scale[..., :: q + 1] if scale.shape == (*size, q * q) else np.empty(0)
            yield f"the scale of {block.name}", bool((variances > 0).all() and np.isfinite(variances).all())
        yield "the gates", (sample.gates is None) == (map is None)
        yield "the gates", sample.gates is None or map is None or sample.gates.shape == (*size, map.n_gates)

    def stored(self) -> Sample:
        """All but the last draws of the missing values of rows."""
        return self.sample.without_values()
