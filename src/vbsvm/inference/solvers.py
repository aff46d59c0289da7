"""Which bound is maximised for which model, and by which solver: as tables, of which the first row that fits is taken.

``docs/solvers.md`` is printed from them.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import Enum
from itertools import compress
from typing import final

from vbsvm.inference import quadrature
from vbsvm.inference.profiled import ProfiledNewton
from vbsvm.inference.smooth import SmoothNewton
from vbsvm.inference.steps import CAVI, AndersonNewton, NaturalGradient, StepRule, shorter_steps
from vbsvm.missing.model import MissingModel
from vbsvm.missing.settings import NotAtRandom
from vbsvm.model.priors import Normal
from vbsvm.model.row_pass import Source
from vbsvm.model.spec import Spec

AUTO, AUGMENTED, PAPER, EXACT, INTEGRATED = "auto", "augmented", "paper", "exact", "integrated"


@final
@dataclass(frozen=True)
class Options:
    """Thresholds between solvers."""

    # With fewer coefficients than this besides random effects an evaluation at another mean is as costly as a pass.
    min_core: int = 24
    # The exact bound follows where the augmented one gains less than this a step, in nats; steps of the whole state
    # gain less each, and the second figure is where they tell whether the classes are separated.
    early_tol: float = 10.0
    early_tol_remote: float = 0.01


OPTIONS = Options()


@final
class Feature(Enum):
    """Feature of a model, its rows, the settings or a stage; the value is its display name."""

    LOGISTIC = "logistic likelihood"
    GROUPS = "random effects"
    INTERCEPTS = quadrature.MODELS
    INTERCEPTS_ONLY = "random intercepts as before, and no other scale to infer"
    GATES = "LaplaceZero"
    MISSING = "missing values"
    MISSING_ADAPTS = "GaussianImputation(labels='likelihood')"
    NOT_AT_RANDOM = "values that are missing not at random (NotAtRandom)"
    WIDE = "more coefficients than rows"
    NARROW = f"fewer than {OPTIONS.min_core} coefficients besides random effects"
    REMOTE = "rows in files or in a cluster"
    MONTE_CARLO = "tables of this size, in which the covariance of the coefficients is estimated from draws"
    SWEEPS = "accelerate=False"
    EXACT = "exact bound"
    FIRST = "first stage"
    FIXED_SCALES = "scales that are fixed, as for separated classes"


F = Feature


def features(spec: Spec, source: Source, *, accelerate: bool) -> Set[Feature]:
    """Features of a model and its rows."""
    missing = spec.missing if isinstance(spec.missing, MissingModel) else None
    inputs = None if missing is None else missing.inputs
    intercepts = spec.likelihood.normalised and quadrature.supports(spec, source)
    found = {
        F.LOGISTIC: spec.likelihood.normalised,
        F.GROUPS: source.n_core < spec.n_columns,
        F.INTERCEPTS: intercepts,
        F.INTERCEPTS_ONLY: intercepts and all(isinstance(block.prior, Normal) for block in spec.blocks[:-1]),
        F.GATES: spec.gate_map is not None,
        F.MISSING: missing is not None,
        F.MISSING_ADAPTS: missing is not None and not missing.fixed,
        F.NOT_AT_RANDOM: inputs is not None and isinstance(inputs.settings.mechanism, NotAtRandom),
        F.WIDE: spec.n_columns > source.n_rows,
        F.NARROW: source.n_core < min(OPTIONS.min_core, spec.n_columns),
        F.REMOTE: not source.rows_resident,
        F.MONTE_CARLO: source.drawn_covariance,
        F.SWEEPS: not accelerate,
    }
    return frozenset(compress(found, found.values()))


def _no_rule(tol: float, fixed: bool) -> StepRule:
    raise NotImplementedError


@final
@dataclass(frozen=True, eq=False)
class Row:
    """Row of a decision table: what is chosen given all of ``needs`` and none of ``not_with``, and why."""

    name: str
    needs: Set[Feature]
    not_with: Set[Feature]
    why: str
    # Makes a solver's step rule, from the tolerance and whether scales are fixed.
    build: Callable[[float, bool], StepRule] = _no_rule


# What no bound but the augmented one supports, and what to do then.
UNSUPPORTED = {
    F.GATES: "use bound='augmented', or Gibbs()",
    F.NOT_AT_RANDOM: "use bound='augmented', or Gibbs()",
    F.MISSING_ADAPTS: "use bound='augmented', or labels='regressor'",
    F.MONTE_CARLO: "leave it out, or select columns first",
}
_AUGMENTED_ONLY = {*UNSUPPORTED, F.SWEEPS}

# What bound="auto" is.
BOUNDS = (
    Row(INTEGRATED, {F.INTERCEPTS}, _AUGMENTED_ONLY, "quadrature: standard errors are close to the posterior's"),
    Row(EXACT, {F.LOGISTIC}, _AUGMENTED_ONLY, "better means and standard errors in about the same time"),
    Row(EXACT, {F.MISSING}, _AUGMENTED_ONLY, "the augmented bound shrinks coefficients of incomplete columns"),
    Row(EXACT, {F.GROUPS}, _AUGMENTED_ONLY, "the augmented bound can be far off"),
    Row(AUGMENTED, set(), set(), "the paper's bound"),
)

# Steps of the whole state are better where the mean is not the easier part of it: indicators have many optima; what is
# missing depends on the mean; with more coefficients than rows most of what changes is the scale of their prior; and an
# evaluation at another mean may be as costly as a pass.
_WHOLE_STATE = {F.WIDE, F.NARROW, F.REMOTE, F.GATES, F.MISSING}


def _profiled(tol: float, fixed: bool) -> StepRule:
    return ProfiledNewton(tol, fixed_scales=fixed)


_BY_MEAN, _FIXED = "the mean is the easier part, and cheap to evaluate", "the same, with fixed scales"
# What maximises a bound.
SOLVERS = (
    Row("monte_carlo", {F.MONTE_CARLO}, set(), "the covariance is estimated from draws, and there is no bound"),
    Row("cavi", {F.SWEEPS}, {F.EXACT}, "the paper's sweeps", lambda tol, fixed: CAVI()),
    Row(
        "smooth_newton",
        {F.EXACT, F.FIRST, F.LOGISTIC},
        {*_WHOLE_STATE, F.SWEEPS},
        "the likelihood is curved everywhere: one Gram matrix serves the mean and the covariance",
        lambda tol, fixed: SmoothNewton(tol),
    ),
    Row("profiled_newton", set(), {F.EXACT, *_WHOLE_STATE}, _BY_MEAN, _profiled),
    Row("profiled_newton", {F.EXACT}, {F.NARROW, F.REMOTE, F.MISSING}, _BY_MEAN, _profiled),
    Row("profiled_newton", {F.EXACT, F.FIXED_SCALES}, {F.REMOTE, F.MISSING}, _FIXED, _profiled),
    Row(
        "natural_gradient",
        {F.EXACT, F.FIXED_SCALES},
        set(),
        "Newton steps would move the scales",
        lambda tol, fixed: NaturalGradient(),
    ),
    Row("anderson_newton", {F.EXACT}, set(), "one pass a step", lambda tol, fixed: AndersonNewton(shorter_steps)),
    Row("anderson_newton", set(), set(), "one pass a step", lambda tol, fixed: AndersonNewton()),
)


def first_row(table: tuple[Row, ...], flags: Set[Feature]) -> Row:
    """First row of a table whose conditions hold; the last row of each table has none."""
    for row in table[:-1]:
        if row.needs <= flags and row.not_with.isdisjoint(flags):
            return row
    return table[-1]


def choose_bound(bound: str, flags: Set[Feature]) -> str:
    """The bound that is maximised; raise ValueError where the setting does not support the model."""
    if bound in (EXACT, INTEGRATED):
        for feature, advice in UNSUPPORTED.items():
            if feature in flags:
                raise ValueError(f"Variational(bound={bound!r}) does not support {feature.value}: {advice}.")
    if {F.MONTE_CARLO, F.SWEEPS} <= flags:
        what, advice = F.MONTE_CARLO.value, UNSUPPORTED[F.MONTE_CARLO]
        raise ValueError(f"Variational({F.SWEEPS.value}) does not support {what}: {advice}.")
    if bound == INTEGRATED and F.INTERCEPTS not in flags:
        raise ValueError(f"Variational(bound='integrated') is for {F.INTERCEPTS.value}: use bound='auto'.")
    if bound == AUTO:
        return first_row(BOUNDS, flags).name
    return AUGMENTED if bound == PAPER else bound


@final
@dataclass(frozen=True, slots=True)
class Stage:
    """One optimisation: of which bound, by which solver, up to which tolerance, with free or fixed scales."""

    bound: str
    solver: Row
    tol: float
    fixed_scales: bool = False


def exact_stage(flags: Set[Feature], tol: float, *more: Feature) -> Stage:
    """The exact bound, at a stage that has these further features."""
    return Stage(EXACT, first_row(SOLVERS, {*flags, F.EXACT, *more}), tol, F.FIXED_SCALES in more)


def plan(flags: Set[Feature], bound: str, tol: float) -> list[tuple[Stage, ...]]:
    """Sequences of stages to try in turn; the last one is for separated classes.

    The exact bound follows some passes of the augmented one, unless it is as easy from the start. For separated classes
    the augmented one is maximised to its end, and the scales stay there, as the posterior does not identify them.
    """
    solver = first_row(SOLVERS, flags)
    if bound == AUGMENTED:
        return [(Stage(AUGMENTED, solver, tol),)]
    early = OPTIONS.early_tol_remote if F.REMOTE in flags else OPTIONS.early_tol
    first = exact_stage(flags, tol, F.FIRST)
    return [
        *([(first,)] if first.solver.name == "smooth_newton" else []),
        (Stage(AUGMENTED, solver, max(tol, early)), exact_stage(flags, tol)),
        (Stage(AUGMENTED, solver, tol), exact_stage(flags, tol, F.FIXED_SCALES)),
    ]
