"""The table of solvers: it says what is said in words here, and the page of the documentation says the same."""

import runpy
from itertools import chain, combinations
from pathlib import Path

import pytest

from vbsvm.inference.solvers import AUTO, SOLVERS, Feature, choose_bound, exact_stage, first_row, plan

F = Feature
OF_MODELS = (F.LOGISTIC, F.GROUPS, F.GATES, F.MISSING, F.MISSING_ADAPTS, F.WIDE, F.NARROW, F.REMOTE, F.SWEEPS)
CASES = [set(some) for some in chain.from_iterable(combinations(OF_MODELS, k) for k in range(len(OF_MODELS) + 1))]


def augmented(flags):
    """The solver of the augmented bound, in words."""
    if F.SWEEPS in flags:
        return "cavi"
    whole = flags & {F.WIDE, F.NARROW, F.REMOTE, F.GATES, F.MISSING}
    return "anderson_newton" if whole else "profiled_newton"


def exact(flags, fixed):
    """The solver of the exact bound, in words."""
    if not flags & {F.MISSING, F.REMOTE} and (fixed or F.NARROW not in flags):
        return "profiled_newton"
    return "natural_gradient" if fixed else "anderson_newton"


@pytest.mark.parametrize("flags", [flags for flags in CASES if F.MISSING in flags or F.MISSING_ADAPTS not in flags])
def test_the_first_row_that_fits(flags):
    assert first_row(SOLVERS, flags).name == augmented(flags)
    for fixed in (False, True):
        stage = exact_stage(flags, 1e-6, *([F.FIXED_SCALES] if fixed else []))
        assert stage.solver.name == exact(flags, fixed)
        assert stage.fixed_scales is fixed
    supported = not flags & {F.GATES, F.MISSING_ADAPTS, F.SWEEPS}
    wanted = supported and bool(flags & {F.LOGISTIC, F.MISSING, F.GROUPS})
    assert choose_bound(AUTO, flags) == ("exact" if wanted else "augmented")
    at_once = F.LOGISTIC in flags and augmented(flags) == "profiled_newton"
    sequences = plan(flags, "exact", 1e-6)
    assert len(sequences) == (3 if at_once else 2)
    assert [stage.fixed_scales for stage in sequences[-1]] == [False, True]


@pytest.mark.parametrize(
    ("bound", "flags", "told"),
    [
        ("exact", {F.GATES}, r"bound='exact'\) does not support LaplaceZero: use bound='augmented'"),
        ("integrated", {F.NOT_AT_RANDOM}, r"bound='integrated'\) does not support values that are missing not"),
        ("exact", {F.MONTE_CARLO}, r"estimated from draws: leave it out, or select columns first\."),
        ("auto", {F.MONTE_CARLO, F.SWEEPS}, r"Variational\(accelerate=False\) does not support tables of this size"),
        ("integrated", {F.LOGISTIC}, "is for logistic models of complete data .*: use bound='auto'"),
    ],
)
def test_what_is_not_supported_is_refused(bound, flags, told):
    with pytest.raises(ValueError, match=told):
        choose_bound(bound, flags)


def test_the_page_is_printed_from_the_table():
    docs = Path(__file__).parents[2] / "docs"
    page = runpy.run_path(str(docs / "solvers.py"))["page"]()
    assert page + "\n" == (docs / "solvers.md").read_text(encoding="utf-8")
