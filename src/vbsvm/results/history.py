"""Data summary and history of a fit: counts of observations; the ELBO by iteration, or chains and their mixing.

Draws are given parameter by parameter, on the scale of the user's columns.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from vbsvm.base import diagnostics
from vbsvm.base.arrays import Array
from vbsvm.base.cached import cached_property
from vbsvm.base.diagnostics import Mixing
from vbsvm.design.columns import INTERCEPT, Plan
from vbsvm.inference.gibbs import Sample
from vbsvm.inference.loop import OptimizeResult, Status
from vbsvm.model.priors import Normal
from vbsvm.model.spec import Block, Spec
from vbsvm.sources.distributed import AnyRows, InMemory


@final
@dataclass(frozen=True, eq=False)
class Facts:
    """Numbers of training rows with positive weight: by class, their weights, and by level of each factor.

    Pairs are for the negative and the positive class. ``weights`` are the classes' sums of weights, and None where
    every row has the weight 1. ``group_sizes`` has for each factor the number of rows of each of its levels.
    ``n_dropped`` rows were left out because they miss values.
    """

    rows: tuple[int, int]
    weights: tuple[float, float] | None
    group_sizes: tuple[NDArray[np.intp], ...]
    n_dropped: int = 0

    @staticmethod
    def from_source(source: AnyRows, n_dropped: int = 0) -> "Facts":
        """Count the rows of positive weight, in memory, files or a cluster."""
        return replace(source.sum_over_memories(Facts._from_memory), n_dropped=n_dropped)

    @staticmethod
    def _from_memory(source: InMemory) -> "Facts":
        """Count the rows of a table; candidates count as the one row that they represent."""
        return reduce(add, (Facts._from_run(source, where) for where in source.observation_runs()))

    @staticmethod
    def _from_run(source: InMemory, run: Any) -> "Facts":
        weights, signs = source.weights[run], source.y[run]
        counted = slice(None) if weights.all() else weights > 0
        weights, positive = weights[counted], signs[counted] > 0
        sizes = [
            np.bincount(grouping.index[run][counted], minlength=grouping.n_groups) for grouping in source.groupings
        ]
        total, of_positive, n_positive = float(weights.sum()), float(weights[positive].sum()), int(positive.sum())
        unit_weights = bool((weights == 1.0).all())
        rows = len(weights) - n_positive, n_positive
        return Facts(rows, None if unit_weights else (total - of_positive, of_positive), tuple(sizes))

    def __add__(self, other: Self) -> "Facts":
        """Add the counts of two sets of rows."""
        ours, theirs = self._totals, other._totals
        weighted = self.weights is not None or other.weights is not None
        weights = (ours[0] + theirs[0], ours[1] + theirs[1]) if weighted else None
        rows = self.rows[0] + other.rows[0], self.rows[1] + other.rows[1]
        sizes = tuple(a + b for a, b in zip(self.group_sizes, other.group_sizes, strict=True))
        return Facts(rows, weights, sizes, self.n_dropped + other.n_dropped)

    @property
    def _totals(self) -> tuple[float, float]:
        """Sums of weights of the negative and the positive class."""
        return self.rows if self.weights is None else self.weights

    def share(self, *, positive: bool) -> float:
        """Proportion of a class in the total weight."""
        totals = self._totals
        return totals[int(positive)] / sum(totals)

    @property
    def left_out(self) -> str:
        """Number of dropped observations as text, or ""."""
        if not self.n_dropped:
            return ""
        return f"{self.n_dropped} observation{'s' if self.n_dropped > 1 else ''} with missing values dropped"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.rows)


@final
@dataclass(frozen=True, eq=False)
class OptimizationHistory:
    """The optimisation of a bound, from one start or several; ``deferred_bounds`` computes omitted bounds."""

    outcome: OptimizeResult
    deferred_bounds: Callable[[], Array] | None = None
    traces: None = None
    separable: bool = False

    @property
    def ending(self) -> Status:
        """Why the optimisation ended."""
        return self.outcome.ending

    @property
    def passes(self) -> int:
        """Number of passes over the data."""
        return self.outcome.passes

    @property
    def bounds(self) -> Array:
        """ELBO after each accepted step, if any."""
        return self.outcome.bounds if self.deferred_bounds is None else self.deferred_bounds()

    @property
    def starts(self) -> list[tuple[float, int]]:
        """ELBO and number of included predictors for each start, the highest ELBO first."""
        if not len(self.bounds):
            return []
        ends = [(self.bounds, self.outcome.state), *((end.bounds, end.state) for end in self.outcome.others)]
        starts = [
            (float(bounds[-1]), 0 if state.gates is None else int((state.gates.inclusion > 0.5).sum()))
            for bounds, state in ends
        ]
        return sorted(starts, reverse=True)


def starts_agree(starts: list[tuple[float, int]]) -> bool:
    """Whether all starts ended at the same bound with the same number of included predictors."""
    return len({count for _, count in starts}) == 1 and starts[0][0] - starts[-1][0] < 0.01


@final
@dataclass(frozen=True, eq=False)
class ChainHistory:
    """Chains of draws, which have no bounds; ``separable`` says whether most of them separate the classes."""

    plan: Plan
    spec: Spec
    sample: Sample

    bounds: ClassVar[Array] = np.empty(0)
    starts: ClassVar[list[tuple[float, int]]] = []

    @property
    def ending(self) -> Status:
        """Status: interrupted, converged (mixing is sufficient), or more sweeps needed."""
        if self.sample.interrupted:
            return Status.INTERRUPTED
        return Status.CONVERGED if self.traces.worst() is None else Status.OUT_OF_PASSES

    @property
    def passes(self) -> int:
        """Sweeps of each chain, tuning included."""
        return self.sample.sweeps

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        chains, draws, _ = self.sample.coefficients.shape
        return chains, draws

    @cached_property
    def traces(self) -> "Traces":
        """Draws, parameter by parameter."""
        return Traces(self.plan, self.spec, self.sample)

    @property
    def separable(self) -> bool:
        """Whether most draws separate the classes."""
        return self.sample.separable


History = OptimizationHistory | ChainHistory


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Draws of one parameter, chains × draws; ``scale`` marks positive scale parameters.

    A variance component has the term that it belongs to, and the effect or effects.
    """

    name: str
    draws: Array
    scale: bool = False
    term: str = ""
    effect: str = ""

    @property
    def mixing(self) -> Mixing:
        """R̂ and effective draws; of the logarithm for a scale."""
        with np.errstate(divide="ignore"):
            draws = np.log(self.draws) if self.scale else self.draws
        return Mixing(diagnostics.rhat(draws), diagnostics.ess_bulk(draws), diagnostics.ess_tail(draws))


@final
@dataclass(frozen=True, slots=True)
class WorstMixing:
    """Largest R̂ and smallest effective sample size, with the names of their parameters."""

    rhat: float
    rhat_of: str
    ess: float
    ess_of: str


@final
@dataclass(frozen=True, eq=False)
class Traces:
    """Traces of coefficients on the user's scale, indicators and variance components; without random effects."""

    plan: Plan
    spec: Spec
    sample: Sample

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return self.sample.coefficients.shape[1]

    def __iter__(self) -> Iterator[Trace]:
        """Iterate over coefficients, indicators, variance components."""
        yield from chain(self.coefficients(), self.gates(), self.components())

    def coefficients(self) -> Iterator[Trace]:
        """The intercept, and each coefficient that users see."""
        if self.plan.recipe.intercept:
            yield Trace(INTERCEPT, self.plan.intercepts(self.sample.coefficients))
        yield from self.shown()

    def shown(self) -> Iterator[Trace]:
        """Each coefficient that users see."""
        draws = self.plan.to_user_scale(self.sample.coefficients)
        for k, name in enumerate(self.plan.shown_names):
            yield Trace(name, draws[:, :, k])

    def gates(self) -> Iterator[Trace]:
        """Each indicator, 0 or 1; it is named by the columns that share it."""
        gates, draws = self.spec.gate_map, self.sample.gates
        if gates is None or draws is None:
            return
        for j, members in enumerate(gates.members):
            yield Trace(f"gate of {', '.join(self.plan.name_of(k) for k in members)}", draws[:, :, j])

    def components(self) -> Iterator[Trace]:
        """Standard deviations of each block's effects, and their correlations."""
        for block, values in zip(self.spec.blocks, self.sample.scales, strict=True):
            if block.columns[0].start < self.plan.n_fixed and isinstance(block.prior, Normal):
                continue
            effects, term, q = list(effects_of(self.plan, block)), block.name, math.isqrt(values.shape[2])
            matrices = values.reshape(*values.shape[:2], q, q)
            for j, (effect, unit) in enumerate(effects):
                sds = unit * np.sqrt(matrices[:, :, j % q, j % q])  # several effects may share one variance
                yield Trace(
                    f"sd of {term}" if len(effects) == 1 else f"sd of {effect} in {term}", sds, True, term, effect
                )
            for j in range(q):
                for i in range(j):
                    product = matrices[:, :, i, i] * matrices[:, :, j, j]
                    pair = correlation_name(effects[i][0], effects[j][0])
                    yield Trace(f"{pair} in {term}", matrices[:, :, i, j] / np.sqrt(product), False, term, pair)

    @cached_property
    def coefficient_mixing(self) -> tuple[Mixing, ...]:
        """Of the intercept and of each coefficient that users see."""
        return tuple(trace.mixing for trace in self.coefficients())

    @cached_property
    def gate_mixing(self) -> tuple[Mixing, ...]:
        """Of each indicator; all NaN where it never moves in any chain."""
        return tuple(trace.mixing for trace in self.gates())

    @cached_property
    def component_mixing(self) -> tuple[Mixing, ...]:
        """Of each variance component."""
        return tuple(component.mixing for component in self.components())

    def columns(self) -> dict[str, Array]:
        """R̂ and ESS of intercept and coefficients, and of each coefficient's indicator if any."""
        table = diagnostics.columns(self.coefficient_mixing)
        gates = self.spec.gate_map
        if gates is None:
            return table
        of_gates = diagnostics.columns((*self.gate_mixing, Mixing()))  # the last one is for columns without one
        gate_of = gates.gate_of[: len(self.coefficient_mixing)]
        return table | {"inclusion_rhat": of_gates["rhat"][gate_of], "inclusion_ess": of_gates["ess_bulk"][gate_of]}

    def worst(self) -> WorstMixing | None:
        """Worst R̂ and effective sample size, or None if mixing is sufficient."""
        names = [trace.name for trace in self]
        if self.n_draws < diagnostics.MIN_DRAWS:
            return WorstMixing(np.nan, names[0], float(self.n_draws), names[0])
        table = diagnostics.columns((*self.coefficient_mixing, *self.gate_mixing, *self.component_mixing))
        rhat, ess = table["rhat"], table["ess_bulk"]
        if not ((rhat > diagnostics.MAX_RHAT) | (ess < diagnostics.MIN_ESS)).any():
            return None
        first, last = int(np.nanargmax(rhat)), int(np.nanargmin(ess))
        return WorstMixing(float(rhat[first]), names[first], float(ess[last]), names[last])


def correlation_name(one: str, other: str) -> str:
    """Display name of the correlation of two effects."""
    return f"correlation of {one} and {other}"


def effects_of(plan: Plan, block: Block) -> Iterator[tuple[str, float]]:
    """Yield the name of each effect of a block, and the factor that takes its scale to the user's units."""
    begin = block.columns[0].start
    if begin < plan.n_fixed:
        yield "all", 1.0
        return
    for first, factor in zip(plan.first_effects(), plan.factors, strict=True):
        if first <= begin < first + factor.size:
            units = plan.units(factor)
            for j in (columns.start - first for columns in block.columns):
                yield factor.effects[j], units[j]
